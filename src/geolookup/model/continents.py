"""The bundled table of countries: their English names, continents, and which of them are in the European Union."""

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
