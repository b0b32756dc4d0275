"""The generated pages are what the code says, and the examples in them run."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

import geolookup
from geolookup.settings.paths import NOT_SETTINGS
from tests.docs.api import INTERNAL, is_error
from tests.docs.errors import every_error
from tests.docs.examples import EXAMPLES
from tests.docs.pages import FOLDER, PAGES
from tests.docs.settings import VARIABLES
from tests.support.data.states import place, publish


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"
    assert f"({name})" in (FOLDER / "README.md").read_text(encoding="utf-8"), "docs/README.md lists every page"


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name: str, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    publish(home, [place(1, "8.0.0.0/8", country="US", latitude=37.5, longitude=-122.0)])
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    found = doctest.DocTestParser().get_doctest(EXAMPLES[name], {"geolookup": geolookup}, name, None, None)
    told: list[str] = []
    result = doctest.DocTestRunner().run(found, out=told.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(told)


def test_the_page_of_settings_has_every_variable_that_is_not_a_setting() -> None:
    assert set(VARIABLES) == NOT_SETTINGS


def test_every_public_name_has_an_example() -> None:
    public = {name for name in geolookup.__all__ if not name.startswith("_")}
    errors = {name for name in public if is_error(getattr(geolookup, name))}
    assert set(EXAMPLES) == public - errors | {"GeoLookupError"}


def test_what_is_called_internal_exists() -> None:
    for path in INTERNAL:
        kind, _, member = path.partition(".")
        there = getattr(geolookup, kind)
        assert hasattr(there, member) or member in there.__annotations__, path


def test_the_tree_in_the_docstring_of_the_errors_is_the_tree_of_classes() -> None:
    drawn = []
    for line in (geolookup.model.errors.__doc__ or "").splitlines():
        name = line.replace("│", " ").replace("├──", "   ").replace("└──", "   ")
        words = name.split()
        if words and words[0].endswith("Error") and name.startswith("    "):
            drawn.append((words[0], (len(name) - len(name.lstrip()) - 4) // 4))
    depth = {kind: len(kind.__mro__) for kind in every_error()}
    base = depth[geolookup.GeoLookupError]
    ours = [
        (kind.__name__, sum(issubclass(above, geolookup.GeoLookupError) for above in kind.__mro__) - 1)
        for kind in every_error()
    ]
    assert base > 0
    assert drawn == ours


def test_every_error_of_the_tree_is_public() -> None:
    assert {kind.__name__ for kind in every_error()} <= set(geolookup.__all__)


def test_the_pages_are_written_by_one_command(tmp_path: Path) -> None:
    makefile = (FOLDER.parent / "Makefile").read_text(encoding="utf-8")
    assert "-m tests.docs" in makefile
    code = (
        "import runpy, sys; from pathlib import Path; from tests.docs import pages; pages.FOLDER = Path(sys.argv[1]); "
        "runpy.run_module('tests.docs', run_name='__main__')"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=120, cwd=FOLDER.parent)
    assert {path.name for path in tmp_path.iterdir()} == set(PAGES)
