"""The part of the world that a map shows: all of it, a continent, or a country."""

import functools
from dataclasses import dataclass
from typing import Final

from geolookup.columns.maps import outlines
from geolookup.columns.maps.outlines import Box, Topology
from geolookup.errors import SettingsError
from geolookup.exports.countries import CONTINENTS, countries

#: Antarctica is left out of the world: nobody is there, and it takes a fifth of a map.
_WORLD: Final[Box] = (-169.0, -56.0, 190.0, 79.0)
_CONTINENTS: Final[dict[str, Box]] = {
    "AF": (-19.0, -36.0, 52.5, 38.5),
    "AN": (-180.0, -90.0, 180.0, -60.0),
    "AS": (26.0, -11.0, 150.0, 56.0),
    "EU": (-23.0, 35.0, 42.0, 70.5),
    "NA": (-150.0, 8.0, -52.0, 71.0),
    "OC": (111.0, -48.0, 181.0, 1.0),
    "SA": (-82.5, -56.0, -34.0, 13.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """What a map shows. ``codes`` are the countries that its tables are about, or None for all of them."""

    name: str
    box: Box
    codes: frozenset[str] | None

    @property
    def is_country(self) -> bool:
        """Whether it shows one country."""
        return self.codes is not None and len(self.codes) == 1

    def topology(self) -> Topology:
        """The outlines to draw."""
        if self.codes is None:
            return outlines.world()
        west, south, east, north = self.box
        margin = max(east - west, north - south) / 2
        wide = (west - margin, south - margin, east + margin, north + margin)
        return outlines.near(outlines.detailed() if self.is_country else outlines.world(), wide)


def focus_of(text: str | None) -> Focus:
    """What ``--focus`` means: a code of two letters, the English name of a country, or a continent; None is the world.

    :raises SettingsError: if it is nothing of that
    """
    if text is None or _plain(text) == "world":
        return Focus(name="", box=_WORLD, codes=None)
    plain = _plain(text)
    for code, name in CONTINENTS.items():
        if _plain(name) == plain:
            members = frozenset(country for country, each in countries().items() if each.continent == code)
            return Focus(name=name, box=_CONTINENTS[code], codes=members)
    code = text.strip().upper() if text.strip().upper() in countries() else _by_name().get(plain, "")
    box = outlines.country_box(code) if code else None
    if not code:
        continents = ", ".join(_plain(name).replace(" ", "-") for name in CONTINENTS.values())
        raise SettingsError(f"unknown focus {text!r:.60}: give the code of a country (DE), or one of {continents}")
    if box is None:
        raise SettingsError(f"the focus cannot be {countries()[code].name}: the map has no outline of it")
    return Focus(name=countries()[code].name, box=box, codes=frozenset((code,)))


def _plain(text: str) -> str:
    return " ".join(text.casefold().replace("-", " ").replace("_", " ").split())


@functools.cache
def _by_name() -> dict[str, str]:
    return {_plain(country.name): code for code, country in countries().items()}
