"""A MaxMind DB shaped like GeoLite2 City: nested records in eight languages, what they share written once."""

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.generator import SEED, Array, Size, generate, locations
from geolookup.exports.mmdb.file import encode
from geolookup.exports.mmdb.tree import build, with_aliases
from geolookup.exports.segments import Segments
from geolookup.index import mmdb
from geolookup.index.layout import EMPTY
from geolookup.model.continents import countries, named

LANGUAGES = ("de", "en", "es", "fr", "ja", "pt-BR", "ru", "zh-CN")
#: The languages that write a city as it is called there; all others have a script of their own.
_AS_IT_IS = ("de", "en", "es", "fr", "pt-BR")
FULL = Size(name="geolite2", v4=2_400_000, v6=600_000, locations=400_000)
SMALL = Size(name="geolite2-small", v4=120_000, v6=30_000, locations=20_000)
#: So many records are of one place: 60,000 places have 400,000 records.
_RECORDS_A_PLACE = 400_000 / 60_000
_RADII = (1, 5, 10, 20, 50, 100, 200, 500, 1000)


def _in_script(name: str, base: int) -> str:
    """A name in another script: a character for two letters, as in Chinese, or for one."""
    return "".join(chr(base + ord(letter) % 64) for letter in (name if base < 0x500 else name[::2]))


def records(size: Size, *, scattered: bool) -> Iterator[dict[str, Any]]:
    """The distinct records, as Python has them.

    Those of a place differ in their radius and registered country; with ``scattered`` in coordinates and postal code
    too, so that hardly two are of the same eight fields.
    """
    rng = np.random.default_rng(SEED + 7)
    codes = [code for code in sorted(countries()) if ("country", code) in named()]
    count = round(size.locations / _RECORDS_A_PLACE)
    names = locations(count)
    places = [_place(number, codes[number % len(codes)], fields[2]) for number, fields in enumerate(names)]
    own = size.locations if scattered else count
    postal = rng.integers(0, 100_000, own).tolist()
    latitude, longitude = (np.round(rng.uniform(-most, most, own), 4).tolist() for most in (70, 180))
    registered = [_country("registered_country", code) for code in codes]
    for number in range(size.locations):
        at, which = number % count, number // count
        place, zone = places[at]
        point = number if scattered else at
        location = {
            "accuracy_radius": _RADII[(at + which) % len(_RADII)],
            "latitude": latitude[point],
            "longitude": longitude[point],
            "time_zone": zone,
        }
        more = registered[at % len(codes) if which < len(_RADII) // 2 else (at + which) % len(codes)]
        yield {**place, "location": location, "postal": {"code": f"{postal[point]:05d}"}, **more}


def _country(key: str, code: str) -> dict[str, Any]:
    country = named()["country", code]
    return {key: {"geoname_id": country.geoname_id, "iso_code": code, "names": country.names}}


def _place(number: int, code: str, city: str) -> tuple[dict[str, Any], str]:
    country, continent = named()["country", code], countries()[code].continent
    name = f"{city} {number % 97}" if number % 3 else city

    def names(text: str) -> dict[str, str]:
        scripts = {"ja": 0x30A0, "ru": 0x0410, "zh-CN": 0x4E00}
        return {each: text if each in _AS_IT_IS else _in_script(text, scripts[each]) for each in LANGUAGES}

    region = f"Region {number % 1500}"
    own = {
        "continent": {
            "code": continent,
            "geoname_id": named()["continent", continent].geoname_id,
            "names": named()["continent", continent].names,
        },
        **_country("country", code),
        "subdivisions": [
            {"geoname_id": 3_000_000 + number % 1500, "iso_code": f"{number % 99:02d}", "names": names(region)}
        ],
        "city": {"geoname_id": 4_000_000 + number, "names": names(name)},
    }
    return own, country.time_zone or f"Zone/{number % 40}"


_NUMBERS = {"geoname_id": mmdb.uint32, "accuracy_radius": mmdb.uint16}


class _Writer:
    """The data section: each map, list and text that comes more than once is written once, and pointed at."""

    def __init__(self, found: list[dict[str, Any]]) -> None:
        self._pool = mmdb.Pool()
        self._uses: Counter[Any] = Counter()
        self._known: dict[Any, bytes] = {}
        seen: set[int] = set()
        for record in found:
            for value in record.values():
                self._count(value, seen)

    def _count(self, value: Any, seen: set[int]) -> None:
        """Count what is in a value, once for each that will be written."""
        self._uses[_key(value)] += 1
        if not isinstance(value, dict | list) or id(value) in seen:
            return
        seen.add(id(value))
        for each in value.values() if isinstance(value, dict) else value:
            self._count(each, seen)

    def octets(self, record: dict[str, Any]) -> bytes:
        """A record."""
        return mmdb.map_of(
            (self._pool.shared(mmdb.text(key)), self._value(key, value)) for key, value in record.items()
        )

    def pool(self) -> bytes:
        """What stands before all records."""
        return self._pool.octets()

    def _value(self, name: str, value: Any) -> bytes:
        key = _key(value)
        found = self._known.get(key)
        if found is not None:
            return found
        if isinstance(value, dict):
            octets = mmdb.map_of(
                (self._pool.shared(mmdb.text(each)), self._value(each, own)) for each, own in value.items()
            )
        elif isinstance(value, list):
            octets = mmdb.array_of(self._value(name, each) for each in value)
        elif isinstance(value, float):
            octets = mmdb.double(value)
        else:
            octets = mmdb.text(value) if isinstance(value, str) else _NUMBERS[name](value)
        if self._uses[key] > 1:
            octets = self._known[key] = self._pool.shared(octets)
        return octets


def _key(value: Any) -> Any:
    """What equal values have in common; parts of places are the same object."""
    return ("id", id(value)) if isinstance(value, dict | list) and len(value) > 1 else repr(value)


def file(data: str, *, small: bool, scattered: bool = False) -> str:
    """The path of the file in the folder of generated data; it is made if it is not there."""
    size = SMALL if small else FULL
    path = os.path.join(data, f"{size.name}{'-scattered' * scattered}-{SEED}.mmdb")
    if not os.path.exists(path):
        with tempfile.TemporaryDirectory(dir=data) as folder:
            write(os.path.join(folder, "made"), size, os.path.join(folder, "networks"), scattered=scattered)
            os.rename(os.path.join(folder, "made"), path)
    return path


def write(path: str, size: Size, folder: str, *, scattered: bool) -> None:
    """Write the file; ``folder`` is for the generated networks, ``scattered`` as in `records`."""
    generate(size, folder)
    arrays = {
        name: np.load(f"{folder}/{name}.npy") for name in ("first4", "last4", "owner4", "first6", "last6", "owner6")
    }
    four = _segments(arrays["first4"], arrays["last4"], arrays["owner4"], upper=False)
    six = _segments(arrays["first6"], arrays["last6"], arrays["owner6"], upper=True)
    segments, _ = with_aliases(four, six)
    found = list(records(size, scattered=scattered))
    writer = _Writer(found)
    octets = [writer.octets(record) for record in found]
    pool = writer.pool()
    sizes = np.fromiter(map(len, octets), np.int64, len(octets))
    parts = encode(
        build(segments),
        pool + b"".join(octets),
        len(pool) + np.cumsum(sizes) - sizes,
        database_type="GeoLite2-City",
        description={"en": "generated"},
        build_epoch=1,
    )
    with open(path, "wb") as file:
        file.writelines(parts)


def _segments(first: Array, last: Array, owner: Array, *, upper: bool) -> Segments:
    """Disjoint ranges, ascending, as segments with gaps; ``upper`` says that they are upper halves of IPv6."""
    one = np.array(1, first.dtype)
    ends = last[:-1] + one != first[1:]
    starts = np.concatenate([np.zeros(1, first.dtype), first, last[:-1][ends] + one, last[-1:] + one])
    gaps = np.full(1 + int(np.count_nonzero(ends)) + 1, EMPTY, np.uint32)
    values = np.concatenate([gaps[:1], owner.astype(np.uint32), gaps[1:]])
    order = np.argsort(starts, kind="stable")
    starts, values = starts[order].astype(np.uint64), values[order]
    zeros = np.zeros(len(starts), np.uint64)
    return Segments(starts if upper else zeros, zeros if upper else starts, values)
