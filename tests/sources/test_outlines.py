"""The bundled outlines are those whose checksums the page states, and have the countries that the table of them has."""

import csv
import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[2] / "src" / "geolookup_data"
FILES = ("outlines-world.json", "outlines-detail.json.gz")
#: Parts of other countries in Natural Earth, or too small for it at this scale.
WITHOUT_OUTLINE = {"BQ", "BV", "CC", "CX", "GF", "GI", "GP", "MQ", "RE", "SJ", "TK", "TV", "UM", "YT"}


def topology(name: str) -> dict[str, Any]:
    content = (DATA / name).read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(content) if name.endswith(".gz") else content)
    return found


@pytest.mark.parametrize("name", FILES)
def test_the_page_states_the_checksum_of_each_file(name: str) -> None:
    assert hashlib.sha256((DATA / name).read_bytes()).hexdigest() in (DATA / "OUTLINES.md").read_text("utf-8")


@pytest.mark.parametrize("name", FILES)
def test_every_country_of_the_table_has_an_outline_and_every_outline_its_code(name: str) -> None:
    with (DATA / "countries.csv").open(encoding="utf-8") as file:
        codes = {row["country"] for row in csv.DictReader(file)}
    geometries = topology(name)["objects"]["countries"]["geometries"]
    drawn = {geometry.get("id") for geometry in geometries} - {None}
    assert codes - drawn == WITHOUT_OUTLINE
    assert drawn <= codes
    assert len([geometry for geometry in geometries if "id" not in geometry]) == 4
    assert {key for geometry in geometries for key in geometry} <= {"type", "arcs", "id"}


def test_the_outlines_of_the_world_are_small_enough_for_a_page() -> None:
    assert (DATA / FILES[0]).stat().st_size < 160_000
