"""What the pages are made with is what npm had, and its page says so; it is installed with the package."""

import hashlib
import re
import tomllib
from pathlib import Path

from tests.support.users.running_console import static_files

FOLDER = static_files() / "vendored"
PAGE = (FOLDER / "VENDORED.md").read_text(encoding="utf-8")


def test_each_file_is_on_the_page_with_its_checksum() -> None:
    listed = dict(re.findall(r"^\| `(\S+)` \| `([0-9a-f]{64})` \|$", PAGE, re.MULTILINE))
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in FOLDER.iterdir()}
    del found["VENDORED.md"]
    assert listed == found
    assert {name for name in found if name.endswith(".LICENSE")} == {"htmx.LICENSE", "leaflet.LICENSE"}


def test_templates_and_files_are_part_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["geolookup"]
    for folder in ("templates", "static", "vendored"):
        for path in (static_files() / folder).iterdir():
            assert any(path.match(pattern) for pattern in patterns), path
