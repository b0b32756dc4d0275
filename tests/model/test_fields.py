"""The table of the fields: everybody asks it, so that a ninth field is a change to four files at most."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from geolookup.model.fields import DEGREES, FIELD_NAMES, FIELDS, FILTER_NAMES, TEXT_NAMES, UNKNOWN, Field
from geolookup.model.types import Geolocation, ListFilters, NewGeolocation
from geolookup.sources.places import PlaceFields
from geolookup.upstream.decode import PulledGeolocation

ROOT = Path(__file__).parents[2]
MOST_FILES = 4

#: All that adding the field ``timezone`` takes: (file, what stands there, what takes its place).
NINTH_FIELD = [
    (
        "model/fields.py",
        '    Field("areacode", "area code"),\n',
        '    Field("areacode", "area code"),\n    Field("timezone", "time zone"),\n',
    ),
    ("model/types.py", "    areacode: str\n    ipblocks", "    areacode: str\n    timezone: str\n    ipblocks"),
    ("model/types.py", "    areacode: str\n\n", "    areacode: str\n    timezone: str\n\n"),
    (
        "model/types.py",
        "    def flat(self)",
        '    @property\n    def timezone(self) -> str:\n        """."""\n        return ""\n\n    def flat(self)',
    ),
    (
        "sources/places.py",
        '    areacode: str = ""\n',
        '    areacode: str = ""\n    timezone: str = ""\n',
    ),
    ("upstream/decode.py", "    areacode: str\n    blocks", "    areacode: str\n    timezone: str\n    blocks"),
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources with a ninth field."""
    source = tmp_path_factory.mktemp("copy") / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    for name, before, after in NINTH_FIELD:
        path = source / "geolookup" / name
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1, f"{name}: {before!r}"
        path.write_text(text.replace(before, after), encoding="utf-8")
    return source


def changed_files(copy: Path) -> list[str]:
    """The files of the copy that are not as they are here."""
    own = {path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*.*") if "__pycache__" not in path.parts}
    return [str(path) for path in own if (copy / path).is_file() and not same(copy / path, ROOT / "src" / path)]


def same(one: Path, other: Path) -> bool:
    return one.read_bytes() == other.read_bytes()


def test_a_ninth_field_changes_four_files_or_fewer(copy: Path) -> None:
    changed = changed_files(copy)
    assert 0 < len(changed) <= MOST_FILES
    assert {f"geolookup/{name}" for name, _, _ in NINTH_FIELD} == set(changed)


@pytest.mark.parametrize("pure", ["0", "1"])
def test_a_ninth_field_goes_all_the_way(copy: Path, tmp_path: Path, pure: str) -> None:
    home, database = str(tmp_path / "home"), str(tmp_path / "service.db")
    child = subprocess.run(
        [sys.executable, "-m", "tests.support.ninth_field", home, database, str(tmp_path)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(copy), str(ROOT)]),
            "GEOLOOKUP_HOME": home,
            "GEOLOOKUP_PURE": pure,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert child.returncode == 0, child.stderr[-3000:]
    assert child.stdout.splitlines()[-1] == f"all the way in {copy}"


def test_the_types_have_the_fields_of_the_table_in_their_order() -> None:
    assert tuple(Geolocation.__dataclass_fields__) == ("locid", *FIELD_NAMES, "ipblocks")
    assert PulledGeolocation.__struct_fields__ == ("locid", *FIELD_NAMES, "blocks", "more")
    assert PlaceFields._fields == FIELD_NAMES
    assert PlaceFields() == tuple(UNKNOWN.values())
    assert tuple(NewGeolocation.__annotations__) == FIELD_NAMES
    assert tuple(ListFilters.__annotations__) == FILTER_NAMES


def test_a_field_is_text_or_degrees_and_stays_what_it_is() -> None:
    assert tuple(field.name for field in FIELDS) == FIELD_NAMES
    assert set(TEXT_NAMES) | set(DEGREES) == set(FIELD_NAMES)
    assert not set(TEXT_NAMES) & set(DEGREES)
    latitude = Field("latitude", "latitude", limit=90)
    assert (latitude.kind, latitude.limit, latitude.unknown) == ("degrees", 90, None)
    with pytest.raises(AttributeError, match=r"latitude\.limit"):
        latitude.limit = 91
