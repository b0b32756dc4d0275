"""The bundled tables of countries: names, continents, GeoNames ids, and which are in the European Union."""

import csv
import functools
import importlib.resources
from typing import NamedTuple

CONTINENTS = {
    "AF": "Africa",
    "AN": "Antarctica",
    "AS": "Asia",
    "EU": "Europe",
    "NA": "North America",
    "OC": "Oceania",
    "SA": "South America",
}


class Country(NamedTuple):
    """A country: its English name, the code of its continent, and whether it is in the European Union."""

    name: str
    continent: str
    in_eu: bool


@functools.cache
def countries() -> dict[str, Country]:
    """Every country by its ISO 3166-1 code of two letters."""
    table = importlib.resources.files("geolookup_data").joinpath("countries.csv")
    rows = csv.DictReader(table.read_text("utf-8").splitlines())
    return {row["country"]: Country(row["name"], row["continent"], row["eu"] == "1") for row in rows}


def country_text(code: str | None) -> str:
    """A country by its name and its code; an unknown code alone, and what stands for none."""
    known = countries().get(code or "")
    return f"{known.name} ({code})" if known else code or ("no answer" if code is None else "no country")


def move_text(before: str | None, after: str | None, share: float) -> str:
    """The two countries between which a share of answers moved: ``most of them from Poland (PL) to Germany (DE)``.

    Empty if that is not even half of them.
    """
    if share < 0.5:
        return ""
    where = f"within {country_text(before)}"
    if before != after:
        where = f"from {country_text(before)} to {country_text(after)}"
    return where if share == 1 else f"most of them {where}"


class Named(NamedTuple):
    """A country or continent: its GeoNames id, its names by language, and its time zone, empty if it has several."""

    geoname_id: int
    names: dict[str, str]
    time_zone: str


@functools.cache
def named() -> dict[tuple[str, str], Named]:
    """Every "country" and "continent", with its code, in the eight languages of GeoIP2."""
    table = importlib.resources.files("geolookup_data").joinpath("country-names.csv")
    found = {}
    for row in csv.DictReader(table.read_text("utf-8").splitlines()):
        kind, code, number, zone = (row.pop(name) for name in ("kind", "code", "geoname_id", "time_zone"))
        found[kind, code] = Named(int(number), row, zone)
    return found
