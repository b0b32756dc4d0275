"""A provider's files of months that follow each other, and files of a month that went wrong on their way."""

import csv
import ipaddress
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

_COUNTRIES = ("US", "CN", "DE", "JP", "GB", "FR", "BR", "CA", "IT", "NL", "AU", "SE")
_CITIES_OF_EACH = 25
_FORMS = {4: ipaddress.IPv4Address, 6: ipaddress.IPv6Address}
_BEGIN = {4: 11 << 24, 6: 0x2600 << 112}
_FEWEST_BITS, _MOST_BITS = {4: 8, 6: 80}, {4: 14, 6: 88}
_CHANGED, _GROWTH = 0.05, 0.02


@dataclass(frozen=True, slots=True)
class Town:
    """A place of the provider's."""

    country: str
    region: str
    city: str
    postalcode: str
    latitude: str
    longitude: str


@dataclass(frozen=True, slots=True)
class Range:
    """A row: the addresses from ``first`` to ``last`` are in ``town``."""

    family: Literal[4, 6]
    first: int
    last: int
    town: Town


def first_month(seed: int, *, blocks: int = 2000) -> list[Range]:
    """Three of four blocks are IPv4; they follow each other with few gaps, as a provider's do."""
    chance = random.Random(seed)
    towns = _towns(chance)
    return [
        *_new(chance, 4, _BEGIN[4], 3 * blocks // 4, towns),
        *_new(chance, 6, _BEGIN[6], blocks // 4, towns),
    ]


def year(seed: int) -> Iterator[list[Range]]:
    """The first month's rows, then those of the twelve months after it."""
    chance = random.Random(-1 - seed)
    rows = first_month(seed)
    yield rows
    for _ in range(12):
        rows = next_month(chance, rows)
        yield rows


def next_month(chance: random.Random, rows: list[Range]) -> list[Range]:
    """One block of twenty was split, joined with the next or moved, mostly in its country; 2 % came in addition."""
    towns = sorted({row.town for row in rows}, key=repr)
    found: list[Range] = []
    for row in rows:
        happens = chance.choice(("split", "merged", "moved")) if chance.random() < _CHANGED else ""
        if happens == "split" and row.last > row.first:
            middle = (row.first + row.last) // 2
            found += [replace(row, last=middle), replace(row, first=middle + 1, town=_near(chance, row.town, towns))]
        elif happens == "merged" and found and found[-1].last + 1 == row.first:
            found[-1] = replace(found[-1], last=row.last)
        else:
            found.append(replace(row, town=_near(chance, row.town, towns)) if happens else row)
    families: tuple[Literal[4], Literal[6]] = (4, 6)
    for family in families:
        own = [row for row in found if row.family == family]
        found += _new(chance, family, own[-1].last + 1, round(_GROWTH * len(own)), towns)
    return sorted(found, key=lambda row: (row.family, row.first))


def write(path: Path, rows: list[Range]) -> Path:
    """The file as the provider gives it out."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("first", "last", "country", "region", "city", "postalcode", "latitude", "longitude"))
        for row in rows:
            form, town = _FORMS[row.family], row.town
            ends = str(form(row.first)), str(form(row.last))
            place = town.country, town.region, town.city, town.postalcode, town.latitude, town.longitude
            writer.writerow((*ends, *place))
    return path


def _towns(chance: random.Random) -> list[Town]:
    return [
        Town(
            country=country,
            region=("NO", "SO", "EA", "WE")[number % 4],
            city=f"{country} Town {number}",
            postalcode=f"{chance.randrange(10000, 99999)}",
            latitude=f"{chance.uniform(-60, 60):.4f}",
            longitude=f"{chance.uniform(-170, 170):.4f}",
        )
        for country in _COUNTRIES
        for number in range(_CITIES_OF_EACH)
    ]


def _new(chance: random.Random, family: Literal[4, 6], begin: int, count: int, towns: list[Town]) -> list[Range]:
    found = []
    for _ in range(count):
        size = 1 << chance.randint(_FEWEST_BITS[family], _MOST_BITS[family])
        if chance.random() < 0.1:
            begin += size  # a gap
        found.append(Range(family, begin, begin + size - 1, chance.choice(towns)))
        begin += size
    return found


def _near(chance: random.Random, town: Town, towns: list[Town]) -> Town:
    """Another town, nine times out of ten of the same country."""
    return chance.choice([each for each in towns if each.country == town.country] if chance.random() < 0.9 else towns)


def _of_each(change: Callable[[Town], Town]) -> Callable[[list[Range]], list[Range]]:
    return lambda rows: [replace(row, town=change(row.town)) for row in rows]


def _without(*fields: str) -> Callable[[list[Range]], list[Range]]:
    return _of_each(lambda town: replace(town, **dict.fromkeys(fields, "")))


def _swapped(rows: list[Range]) -> list[Range]:
    """Every third block has the place of a block of another country."""
    chance = random.Random(3)
    towns = [row.town for row in rows]
    return [
        replace(row, town=chance.choice([town for town in towns[:300] if town.country != row.town.country]))
        if number % 3 == 0
        else row
        for number, row in enumerate(rows)
    ]


def _few_towns(rows: list[Range]) -> list[Range]:
    """The countries are right, and of 25 cities of each country 11 are left."""
    by_country: dict[str, list[Town]] = {}
    for town in sorted({row.town for row in rows}, key=repr):
        by_country.setdefault(town.country, []).append(town)
    return [
        replace(row, town=row.town if row.town in own[:11] else own[number % 11])
        for number, row in enumerate(rows)
        for own in (by_country[row.town.country],)
    ]


#: What can become of a month's file on its way: none of it may be served before a person agrees.
SPOILED: dict[str, Callable[[list[Range]], list[Range]]] = {
    "the first half only": lambda rows: rows[: len(rows) // 2],
    "no IPv6": lambda rows: [row for row in rows if row.family == 4],
    "no IPv4": lambda rows: [row for row in rows if row.family == 6],
    "every second row": lambda rows: rows[::2],
    "no cities": _without("city"),
    "a country file": _without("region", "city", "postalcode", "latitude", "longitude"),
    "no postal codes": _without("postalcode"),
    "no coordinates": _without("latitude", "longitude"),
    "all of one country": _of_each(lambda town: replace(town, country="US")),
    "columns moved by one": _of_each(lambda town: replace(town, country=town.region, region=town.city, city="")),
    "one place": lambda rows: [replace(row, town=rows[0].town) for row in rows],
    "fewer than half of the places": _few_towns,
    "half of the countries": lambda rows: [row for row in rows if row.town.country in _COUNTRIES[::2]],
    "a third with other countries": _swapped,
    "addresses one network off": lambda rows: [
        replace(row, town=rows[number - 1].town) for number, row in enumerate(rows)
    ],
}
