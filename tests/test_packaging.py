"""An installation: its bounds and checksums, with and without the accelerator. A lookup needs no dependency."""

import ast
import json
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.data.states import place, publish

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Distributions by the name of what is imported, where these differ. Django says itself how to install it.
NAMED = {"backports": "backports.zstd", "prometheus_client": "prometheus-client", "vl_convert": "vl-convert-python"}
NOT_DECLARED = {"_typeshed", "typing_extensions", "compression", "django"}
#: Whose insides are used, so that a minor release may break it.
INSIDES = {"geoip2", "h11", "httpcore", "httptools", "httpx", "uvicorn"}

NO_DEPENDENCIES = """
import sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and not top.startswith(("geolookup", "__editable__", "sitecustomize")):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Nothing())
"""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> dict[str, str]:
    """What an installation with all extras for users needs: the distributions, with their bounds."""
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *(line for name, lines in extras.items() if name not in OURS for line in lines)]
    found = {}
    for line in lines:
        name = re.match(r"[\w.-]+", line)
        assert name is not None
        if name[0] != "geolookup":
            found[canonical(name[0])] = line[len(name[0]) :].partition(";")[0]
    return found


OURS = {"test", "dev", "bench", "release"}


def test_what_is_imported_is_declared() -> None:
    imported = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(str(node.module).partition(".")[0])
    foreign = {name for name in imported - sys.stdlib_module_names if not name.startswith("geolookup")} - NOT_DECLARED
    assert len(foreign) > 20
    assert {canonical(NAMED.get(name, name)) for name in foreign} <= set(declared())


def test_that_whose_insides_are_used_has_an_upper_bound() -> None:
    bounds = declared()
    for name in INSIDES:
        assert "<" in bounds[name], name


@pytest.mark.parametrize(("page", "needed"), [("constraints.txt", "dev"), ("constraints-image.txt", "postgres")])
def test_the_constraints_have_a_release_with_checksums_of_all_that_is_declared(page: str, needed: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    entries = re.findall(r"^([\w.-]+)==(\S+)(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(entries) == len(re.findall(r"^\w", text, re.MULTILINE)) > 40
    assert all("--hash=sha256:" in rest for _, _, rest in entries)
    pinned = {canonical(name) for name, _, _ in entries}
    wanted, seen = [needed], set()
    while wanted:
        extra = wanted.pop()
        for line in PROJECT["optional-dependencies"][extra] + PROJECT["dependencies"]:
            name = re.match(r"[\w.-]+", line)
            assert name is not None
            if name[0] == "geolookup":
                wanted += line.partition("[")[2].partition("]")[0].split(",")
            else:
                seen.add(canonical(name[0]))
    assert seen <= pinned, f"run `make constraints`: {seen - pinned}"


def set_up(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `setup.py` asks setuptools for."""
    setuptools = pytest.importorskip("setuptools")
    asked: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **given: asked.update(given))
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(ROOT / "setup.py"))
    return asked


def test_one_wheel_with_the_accelerator_serves_all_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sysconfig.get_config_vars(), "Py_GIL_DISABLED", 0)
    monkeypatch.delenv("GEOLOOKUP_PURE", raising=False)
    asked = set_up(monkeypatch)
    (accelerator,) = asked["ext_modules"]
    assert (accelerator.py_limited_api, accelerator.optional) == (True, True)
    assert asked["options"] == {"bdist_wheel": {"py_limited_api": "cp311"}}
    assert f"-ffile-prefix-map={ROOT}=." in accelerator.extra_compile_args
    assert {Path(path).name for path in accelerator.depends} == {path.name for path in ROOT.rglob("src/**/_*.h")}


@pytest.mark.parametrize("pure", [None, "1"])
def test_a_python_without_a_gil_gets_no_accelerator(pure: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing it would bring the GIL back; and whoever asks for a pure wheel gets one."""
    monkeypatch.setitem(sysconfig.get_config_vars(), "Py_GIL_DISABLED", 0 if pure else 1)
    monkeypatch.setenv("GEOLOOKUP_PURE", pure or "0")
    assert set_up(monkeypatch) == {}


def test_lookups_need_no_dependency(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="US", city="Austin")])
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    code = NO_DEPENDENCIES + (
        "import geolookup, json\n"
        "with geolookup.open() as geo:\n"
        "    found = geo.lookup('8.8.8.8'), geo.match('8.8.8.8').geolocation, geo.lookup_many(['8.1.1.1'])[0]\n"
        "    assert geo.network('8.8.8.8') is None and geo.record('8.8.8.8')\n"
        "    print(json.dumps([(each.country, each.city) for each in found]))\n"
    )
    for pure in ("0", "1"):
        monkeypatch.setenv("GEOLOOKUP_PURE", pure)
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, timeout=120)
        assert json.loads(done.stdout) == [["US", "Austin"]] * 3
    asked = [
        sys.executable,
        "-c",
        NO_DEPENDENCIES + "import runpy\nrunpy.run_module('geolookup', run_name='__main__')",
        "status",
    ]
    refused = subprocess.run(asked, stderr=subprocess.PIPE, text=True, timeout=120)
    assert refused.returncode == 1
    assert "pip install geolookup" in refused.stderr
    assert "Traceback" not in refused.stderr
    command = NO_DEPENDENCIES + "from geolookup.__main__ import main\nsys.argv = ['geolookup', '8.8.8.8']\nmain()\n"
    done = subprocess.run([sys.executable, "-c", command], stdout=subprocess.PIPE, check=True, timeout=120)
    assert done.stdout.startswith(b"8.8.8.8\tAustin, US\t8.0.0.0-8.255.255.255\t")


def dockerfile() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in text.replace("\\\n", " ").splitlines() if line]


def test_the_image_runs_as_a_user_and_copies_what_the_build_is_given() -> None:
    steps = dockerfile()
    assert [given for step, given in steps if step == "USER"] == ["10001:10001"]
    assert not [
        given
        for step, given in steps
        if step == "ADD" or (step == "ENV" and "HOME=" in given.replace("GEOLOOKUP_HOME=", ""))
    ]
    writable = next(given for step, given in steps if step == "ENV").split()
    assert {"GEOLOOKUP_HOME=/state", "TMPDIR=/state"} <= set(writable), "nothing else can be written: a sync needs both"
    allowed = [
        line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] == "!"
    ]
    copied = [path for step, given in steps if step == "COPY" and "--from" not in given for path in given.split()[:-1]]
    assert copied
    for path in copied:
        assert list(ROOT.glob(path)), f"{path} is missing"
        assert path in allowed or any(path in each for each in allowed), f".dockerignore leaves {path} out"


def test_the_dockerfile_has_no_problems() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    found = str(hadolint) if hadolint.exists() else shutil.which("hadolint")
    if found is None:
        pytest.skip("hadolint is not installed (extra dev)")
    done = subprocess.run([found, str(ROOT / "Dockerfile")], stdout=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")
