"""Places told less precisely than they are known: for those who may know the country or the city, and no more."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from geolookup.exports.content import Content, Places
from geolookup.exports.parts import Column, Parts, bits, column_of, distinct_rows
from geolookup.index import mmdb
from geolookup.index.flatten import EMPTY, I64, U32, Array
from geolookup.lookup.record import zone_of
from geolookup.model.facts import SITE_ZONE

#: How precisely places are told.
Precision: TypeAlias = Literal["country", "region", "city"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

#: The fields and the keys of records that are left, each level with those before it.
_FIELDS: dict[Precision, tuple[str, ...]] = {
    "country": ("country",),
    "region": ("region",),
    "city": ("city", "dmacode", "areacode"),
}
_KEYS: dict[Precision, tuple[str, ...]] = {
    "country": ("continent", "country", "registered_country", "represented_country", "location"),
    "region": ("subdivisions",),
    "city": ("city",),
}
#: The typed facts that are left; the time zone and the radius have rules of their own.
_FACTS: dict[Precision, tuple[str, ...]] = {
    "country": ("country_name", "continent_code", "is_in_european_union"),
    "region": ("region_code", "region_name"),
    "city": (),
}
_ZONES = ("time_zone", SITE_ZONE)
_RADIUS = "accuracy_radius"
_COORDINATES = ("latitude", "longitude")
#: What is left of a city's coordinates: tenths of a degree, of 11 km. They are off by half the diagonal of such a
#: square at most, which is added to the radius.
_TENTHS = 10
_OFF_KM = 8
_MOST_KM = 0xFFFF
_DOUBLE_BYTES = 9


def coarsened(content: Content, precision: Precision) -> Content:
    """The same content with its places told no more precisely, and neighbours joined that are then the same.

    Of records the names, ids and codes of what is finer are left out, and so is every key that is not GeoIP2's: nobody
    knows what it tells. Postal code and locid are gone. Coordinates are rounded to tenths of a degree, the
    radius growing by as much; below ``city`` they are left out. A time zone can tell where in a country or a region
    an address is: below ``city`` it is left only where the country has no other.
    """
    levels = PRECISIONS[: PRECISIONS.index(precision) + 1]
    places = content.places
    texts = {text: number for number, text in enumerate(places.texts)}
    nothing = texts.setdefault("", len(texts))
    fields = {name for level in levels for name in _FIELDS[level]}
    text = {
        name: column if name in fields else np.full(len(places), nothing, np.uint32)
        for name, column in places.text.items()
    }
    is_city = precision == "city"
    degrees = {
        name: _tenths(column) if is_city else np.full(len(places), np.nan) for name, column in places.degrees.items()
    }
    found = replace(places, locid=np.zeros(len(places), np.int64), text=text, texts=list(texts), degrees=degrees)
    found = replace(found, parts=_parts(found, levels), facts=_facts(found, levels))
    return _joined(content, found)


def _tenths(degrees: Array) -> Array:
    return np.round(degrees * _TENTHS) / _TENTHS + 0.0


def _parts(places: Places, levels: tuple[Precision, ...]) -> dict[str, Parts]:
    """The parts of the records that are left; ``places`` has their fields as they are told."""
    parts = {}
    for key in (key for level in levels for key in _KEYS[level]):
        part = places.parts.get(key)
        if part is None:
            continue
        if key == "location":
            part = _locations(places, part, is_city="city" in levels)
        elif key == "subdivisions" and "city" not in levels:
            # The second one is finer than a region.
            part = _of_octets([mmdb.array_of([mmdb.first_item(value)]) for value in part.values], part.which)
        parts[key] = part
    return parts


def _locations(places: Places, part: Parts, *, is_city: bool) -> Parts:
    """The positions that are left: each by what it was, and by the country that it is in."""
    first, which = distinct_rows([part.which, places.text["country"]])
    known: dict[int, Mapping[str, mmdb.Value]] = {}
    found = []
    for number, country in zip(part.which[first].tolist(), places.text["country"][first].tolist(), strict=True):
        if number < 0:
            found.append(b"")
            continue
        if number not in known:
            known[number] = mmdb.members_of(part.values[number])
        found.append(_location(known[number], zone_of(places.texts[country]), is_city=is_city))
    return _of_octets(found, which)


def _facts(places: Places, levels: tuple[Precision, ...]) -> dict[str, Column]:
    """The typed facts as they are told; those that are not are unknown."""
    left = {name for level in levels for name in _FACTS[level]}
    is_city = "city" in levels
    found = {}
    for name, (values, which) in places.facts.items():
        if name in _ZONES and not is_city:
            first, at = distinct_rows([which, places.text["country"]])
            pairs = zip(which[first].tolist(), places.text["country"][first].tolist(), strict=True)
            zones = [_told_zone(values[number], zone_of(places.texts[country])) for number, country in pairs]
            found[name] = column_of([(at, zones)])
        elif name == _RADIUS and is_city:
            found[name] = column_of([(which, [None if value is None else _wider(value) for value in values])])
        elif name in left or name in _ZONES:
            found[name] = Column(values, which)
        else:
            found[name] = Column([None], np.zeros(len(which), np.int64))
    return found


def _told_zone(zone: str | None, only_zone: str) -> str | None:
    """A time zone below the level of cities; ``only_zone`` is that of a country that has one."""
    return zone if zone == only_zone else None


def _wider(radius: int) -> int:
    """The radius around coordinates that were rounded."""
    return min(radius + _OFF_KM, _MOST_KM)


def _location(members: Mapping[str, mmdb.Value], only_zone: str, *, is_city: bool) -> bytes:
    """A position as it is told; empty if nothing is left of it. ``only_zone`` is that of a country that has one."""
    found = {}
    for key, value in members.items():
        if key == _ZONES[0]:
            if is_city or _told_zone(value.plain, only_zone):
                found[key] = value.octets
        elif is_city and key == "metro_code":
            found[key] = value.octets
        elif is_city and key == _RADIUS and isinstance(value.plain, int):
            found[key] = mmdb.uint16(_wider(value.plain))
        elif is_city and key in _COORDINATES and isinstance(value.plain, float):
            rounded = float(_tenths(np.array(value.plain)))  # NaN, which stands for that of the place, stays
            found[key] = mmdb.double(rounded) if len(value.octets) == _DOUBLE_BYTES else mmdb.single(rounded)
    return mmdb.map_of((mmdb.text(key), octets) for key, octets in found.items()) if found else b""


def _of_octets(octets: list[bytes], which: I64) -> Parts:
    """Parts of values that may be equal now; empty ones are none."""
    known: dict[bytes, int] = {}
    number = [known.setdefault(each, len(known)) if each else -1 for each in octets]
    return Parts(list(known), np.append(np.array(number, np.int64), -1)[which])


def _joined(content: Content, places: Places) -> Content:
    """The content with these places, each once. A weak one of which nothing is left is none."""
    columns = [places.source, places.pending, places.weak, *places.text.values()]
    columns += [bits(column) for column in places.degrees.values()]
    columns += [column.which for column in places.facts.values()]
    first, which = distinct_rows([*columns, *(part.which for part in places.parts.values())])
    number: U32 = which.astype(np.uint32)
    number[places.weak & np.all([part.which < 0 for part in places.parts.values()], axis=0)] = EMPTY
    four, six = content.four.with_values(number), content.six.with_values(number)
    return replace(content, four=four, six=six, places=places.taken(first))
