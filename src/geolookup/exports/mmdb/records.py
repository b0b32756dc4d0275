"""From places to the data section: records shaped like those of GeoIP2 City and Country, so that existing readers work.

What several records have (a country, a city, a position) is written once and pointed at; what is written most often
comes first, since pointers to the first 2 KiB are the shortest.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from geolookup.exports.content import CUSTOM, Places, Progress
from geolookup.index import mmdb
from geolookup.index.flatten import I64, U32, Array
from geolookup.index.layout import EMPTY
from geolookup.lookup.record import REGION_CODE, Detail, metro_code, of_country, zone_of

_PROGRESS = 1 << 15
_CITY_KEYS = ("subdivisions", "city", "postal", "location", "latitude", "longitude", "metro_code")


class Records(NamedTuple):
    """A data section; where each record stands in it; and the record of each place, by the place's number."""

    section: bytes
    offsets: I64
    of_place: U32


def records(places: Places, detail: Detail, progress: Progress) -> Records:
    """The records of all places. A record of a country has no locid, so all places of that country share it."""
    if detail == "city":
        keys = np.arange(len(places), dtype=np.int64)
        of_place = keys.astype(np.uint32)
    else:
        strong = np.flatnonzero(~places.weak)
        both = (places.text["country"] * len(places.sources) + places.source)[strong]
        _, keys, inverse = np.unique(both, return_index=True, return_inverse=True)
        keys = strong[keys]
        of_place = np.full(len(places), EMPTY, np.uint32)
        of_place[strong] = inverse.reshape(-1)
    writer = _Writer(places, keys)
    own = writer.own(detail, progress)
    parts = writer.parts(detail)
    octets = writer.written(parts, own)
    sizes = np.fromiter(map(len, octets), np.int64, len(octets))
    pool = writer.pool.octets()
    return Records(pool + b"".join(octets), len(pool) + np.cumsum(sizes) - sizes, of_place)


class _Part(NamedTuple):
    """One member of records: the value of each distinct one, which of them each record has (-1 for none)."""

    key: str
    values: list[bytes]
    which: I64


class _Writer:
    """Writes the members of the records of some places, given by their numbers ``rows``.

    A record that a source gave is written as it is, but for the traits, which say nothing of a place; what has none is
    made of its fields.
    """

    def __init__(self, places: Places, rows: Array) -> None:
        self.pool = mmdb.Pool()
        self._given = {key: part for key, part in places.parts.items() if key != "traits"}
        self._is_given = np.zeros(len(rows), np.bool_)
        for part in self._given.values():
            self._is_given |= part.which[rows] >= 0
        self._places = places
        self._is_custom = np.array([name == CUSTOM for name in places.sources], np.int64)[places.source[rows]]
        self._rows = rows
        self._texts = places.texts

    def _key(self, name: str) -> bytes:
        return self.pool.shared(mmdb.text(name))

    def _names(self, name: str) -> tuple[bytes, bytes]:
        """The member ``names`` of something that has an English name."""
        return self._key("names"), mmdb.map_of([(self._key("en"), mmdb.text(name))])

    def _of_texts(self, key: str, name: str, write: Callable[[str], bytes]) -> _Part:
        """A member that one field of text decides."""
        numbers, which = _distinct(self._places.text[name][self._rows])
        texts = [self._texts[number] for number in numbers.tolist()]
        known = np.array([bool(text) for text in texts], np.bool_)
        shown = np.where(known, np.cumsum(known) - 1, -1)
        return _Part(key, [write(text) for text in texts if text], shown[which])

    def parts(self, detail: Detail) -> list[_Part]:
        """All members but ``geolookup``."""
        for key in ("country", "continent", *(_CITY_KEYS if detail == "city" else ())):
            self._key(key)  # here, where pointers are the shortest
        found = self._countries()
        if detail == "country":
            return self._pooled(found)
        found = self._with_given(found + self._cities())
        return [*self._pooled(found), self._locations()]

    def _with_given(self, parts: Sequence[_Part]) -> list[_Part]:
        """Parts that were made, with those that sources gave in their places."""
        made = {part.key: part for part in parts}
        found = []
        for key in dict.fromkeys((*made, *self._given)):
            if key == "location":
                continue
            part = made.get(key, _Part(key, [], np.full(len(self._rows), -1, np.int64)))
            which, values = np.where(self._is_given, -1, part.which), part.values
            if key in self._given:
                own = self._given[key].which[self._rows]
                used, at = _distinct(own[own >= 0])
                which[own >= 0] = len(values) + at
                values = values + [self._with_pointers(self._given[key].values[number]) for number in used.tolist()]
            found.append(_Part(key, values, which))
        return found

    def _with_pointers(self, octets: bytes) -> bytes:
        """A value in which keys are pointers to where they stand once."""
        return mmdb.rewritten(octets, self._key)

    def _tree(self, tree: Mapping[str, Any]) -> bytes:
        """A map of maps, texts, booleans and whole numbers of 32 bits."""
        found = []
        for key, value in tree.items():
            if isinstance(value, Mapping):
                octets = self._tree(value)
            elif isinstance(value, str):
                octets = mmdb.text(value)
            else:
                octets = mmdb.boolean(value) if isinstance(value, bool) else mmdb.uint32(value)
            found.append((self._key(key), octets))
        return mmdb.map_of(found)

    def _of_countries(self) -> tuple[list[tuple[str, bool]], I64]:
        """The distinct countries, each with whether it is of a custom place, and which of them each place has."""
        numbers, which = _distinct(self._places.text["country"][self._rows] * 2 + self._is_custom)
        return [(self._texts[number >> 1], bool(number & 1)) for number in numbers.tolist()], which

    def _countries(self) -> list[_Part]:
        """``country`` and ``continent``."""
        known, which = self._of_countries()
        made = [of_country(text, whole=own) for text, own in known]
        parts = []
        for key in ("country", "continent"):
            values = {self._tree(each[key]): 0 for each in made if key in each}
            values = {value: at for at, value in enumerate(values)}
            position = [values[self._tree(each[key])] if key in each else -1 for each in made]
            parts.append(_Part(key, list(values), np.array(position, np.int64)[which]))
        return parts

    def _cities(self) -> list[_Part]:
        """``subdivisions``, ``city`` and ``postal``."""

        def region(text: str) -> bytes:
            if REGION_CODE.fullmatch(text):
                return mmdb.array_of([mmdb.map_of([(self._key("iso_code"), mmdb.text(text))])])
            return mmdb.array_of([mmdb.map_of([self._names(text)])])

        return [
            self._of_texts("subdivisions", "region", region),
            self._of_texts("city", "city", lambda text: mmdb.map_of([self._names(text)])),
            self._of_texts("postal", "postalcode", lambda text: mmdb.map_of([(self._key("code"), mmdb.text(text))])),
        ]

    def _locations(self) -> _Part:
        """``location``."""
        columns = [_bits(self._places.degrees[name][self._rows]) for name in ("latitude", "longitude")]
        numbers, which = _distinct(self._places.text["dmacode"][self._rows])
        columns.append(np.array([metro_code(self._texts[number]) for number in numbers.tolist()], np.int64)[which])
        countries, which = self._of_countries()
        zones = [zone_of(text) if own else "" for text, own in countries]
        columns.append(np.array([at if zone else -1 for at, zone in enumerate(zones)], np.int64)[which])
        columns[2][self._is_given] = 0  # a given one has its own
        given = self._given.get("location")
        columns.append(np.full(len(self._rows), -1, np.int64) if given is None else given.which[self._rows])
        for column in columns[:2]:  # and its own coordinates, or none
            column[self._is_given & (columns[4] < 0)] = _NO_DEGREES
        distinct, which = _distinct_rows(columns)
        latitudes, longitudes = (column.view(np.float64).tolist() for column in distinct[:2])
        uses = Counter(value for value in (*latitudes, *longitudes) if value == value)
        # A pointer has four bytes at most, and the value nine: so three uses always pay.
        shared = sorted((value for value in uses if uses[value] > 2), key=lambda value: (-uses[value], value))
        written = {value: self.pool.shared(mmdb.double(value)) for value in shared}

        values = []
        known = np.zeros(len(latitudes), np.bool_)
        for at, (north, east, code, zone, number) in enumerate(
            zip(latitudes, longitudes, *(column.tolist() for column in distinct[2:]), strict=True)
        ):
            if number >= 0 and given is not None:
                known[at] = True
                filled = mmdb.filled(given.values[number], {"latitude": north, "longitude": east})
                values.append(self._with_pointers(filled))
                continue
            members = [
                (self._key(name), written.get(degrees) or mmdb.double(degrees))
                for name, degrees in (("latitude", north), ("longitude", east))
                if degrees == degrees
            ]
            if code:
                members.append((self._key("metro_code"), mmdb.uint16(code)))
            if zone >= 0:
                members.append((self._key("time_zone"), self.pool.shared(mmdb.text(zones[zone]))))
            if members:
                known[at] = True
                values.append(mmdb.map_of(members))
        return self._pooled([_Part("location", values, np.where(known, np.cumsum(known) - 1, -1)[which])])[0]

    def _pooled(self, parts: Sequence[_Part]) -> list[_Part]:
        """The parts with pointers for the values that several records have; the most used ones come first."""
        uses: Counter[tuple[int, int]] = Counter()
        for number, part in enumerate(parts):
            counts = np.bincount(part.which[part.which >= 0], minlength=len(part.values))
            uses.update({(number, at): int(counts[at]) for at in np.flatnonzero(counts > 1).tolist()})
        for number, at in sorted(uses, key=lambda which: (-uses[which], which)):
            values = parts[number].values
            values[at] = self.pool.shared(values[at])
        return list(parts)

    def written(self, parts: Sequence[_Part], own: Sequence[bytes]) -> list[bytes]:
        """Every record: its parts, and what is its ``own``."""
        members = np.ones(len(self._rows), np.int64)
        columns = []
        for part in parts:
            members += part.which >= 0
            chosen = [*(self._key(part.key) + value for value in part.values), b""]  # its last item is for none
            columns.append([chosen[at] for at in part.which.tolist()])
        heads = [mmdb.map_head(size) for size in range(len(parts) + 2)]
        columns.insert(0, [heads[size] for size in members.tolist()])
        return [b"".join(row) for row in zip(*columns, own, strict=True)]

    def own(self, detail: Detail, progress: Progress) -> list[bytes]:
        """The member ``geolookup`` of each record: where the answer comes from."""
        places = self._places
        source = places.source[self._rows]
        tails: dict[int, bytes] = {}
        for number in np.unique(source).tolist():
            name = places.sources[number]
            layer = "custom" if name == "custom" else "default"
            tails[number] = self._key("layer") + self._key(layer) + self._key("source") + self._key(name)
        key = self._key("geolookup")
        if detail == "country":
            return [key + self.pool.shared(mmdb.map_head(2) + tails[number]) for number in source.tolist()]
        head, weak = key + mmdb.map_head(3) + self._key("locid"), key + mmdb.map_head(2)
        found = []
        for at, (locid, number) in enumerate(zip(places.locid[self._rows].tolist(), source.tolist(), strict=True)):
            found.append((head + mmdb.text(str(locid)) if locid else weak) + tails[number])
            if not at % _PROGRESS:
                progress(at, len(self._rows))
        return found


#: Unknown degrees, as `_bits` has them.
_NO_DEGREES = int(np.array([np.nan]).view(np.int64)[0])


def _bits(degrees: Array) -> I64:
    """Degrees as whole numbers that are equal if the degrees are, or neither is known."""
    same: Array = degrees + 0.0  # which takes the sign from a zero
    same[np.isnan(same)] = np.nan
    return same.view(np.int64)


def _distinct_rows(columns: Sequence[I64]) -> tuple[list[I64], I64]:
    """The distinct rows, in columns, and the position among them of each row."""
    parts = [_distinct(column) for column in columns]
    number = np.zeros(len(columns[0]), np.int64)
    for distinct, at in parts:
        number = number * len(distinct) + at
    numbers, which = _distinct(number)
    found: list[I64] = []
    for distinct, _ in reversed(parts):
        numbers, at = np.divmod(numbers, max(len(distinct), 1))
        found.insert(0, distinct[at])
    return found, which


def _distinct(values: I64) -> tuple[I64, I64]:
    """The distinct values, ascending, and the position among them of each value."""
    distinct, which = np.unique(values, return_inverse=True)
    return distinct, which.reshape(-1)
