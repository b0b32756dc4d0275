"""From answers to the data section: records shaped like those of GeoIP2, so that existing readers work.

What several records have (a country, a city, a position, an organisation) is written once and pointed at; what is
written most often comes first, since pointers to the first 2 KiB are the shortest.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from geolookup.base.garbage import give_back
from geolookup.exports.answers import Answers
from geolookup.exports.content import CUSTOM, Content, Places, Progress
from geolookup.exports.networks import Networks
from geolookup.exports.parts import NO_DEGREES, Column, bits, distinct, distinct_rows
from geolookup.index import mmdb
from geolookup.index.flatten import I64, Array
from geolookup.index.layout import OURS
from geolookup.lookup.record import REGION_CODE, TRAITS, metro_code, of_country, zone_of
from geolookup.model.facts import SITE_ZONE

#: So many places are written at a time.
_AT_ONCE = 1 << 15
_KEYS = ("country", "continent", "subdivisions", "city", "postal", "location", "latitude", "longitude", "metro_code")
#: The facts that our own custom layers alone say, as members of `OURS`.
LOCAL_FACTS = ("site", "vrf")


class Records(NamedTuple):
    """A data section, and where the record of each answer stands in it."""

    section: bytearray
    offsets: I64


class _Row(NamedTuple):
    """One half of a record: of a place, or of a network, the members and how many, and the same of `OURS`."""

    members: bytes
    member_count: int
    own: bytes
    own_count: int


_NONE = _Row(b"", 0, b"", 0)


def records(content: Content, answers: Answers, *, nested: bool, progress: Progress) -> Records:
    """The records of all answers; with ``nested`` the facts of networks stand under `TRAITS`, else at the top."""
    pool = mmdb.Pool()
    ours = pool.shared(mmdb.text(OURS))
    places: Iterator[_Row] = iter(())  # of a file of networks, which has no keys of places, either
    if len(content.places):
        places = _Places(content.places, pool, _uses(answers.place, len(content.places))).written(progress)
    networks = [_NONE]  # which -1 names, too
    if content.networks is not None and (answers.network >= 0).any():
        uses = _uses(answers.network, len(content.networks))
        networks = [*_Networks(content.networks, pool, uses).written(nested=nested), _NONE]
    head = cache(mmdb.map_head)
    section, offsets = bytearray(pool.octets()), array("q")
    place, reached = _NONE, -1
    for one, other in zip(answers.place.tolist(), answers.network.tolist(), strict=True):
        while reached < one:  # answers stand in the order of their places
            place, reached = next(places), reached + 1
        network = networks[other]
        offsets.append(len(section))
        section += head(place.member_count + network.member_count + 1) + place.members + network.members
        section += ours + head(place.own_count + network.own_count) + place.own + network.own
    return Records(section, np.frombuffer(offsets, np.int64))


def _uses(numbers: I64, count: int) -> I64:
    """How many answers have each place, or each network."""
    found: I64 = np.bincount(numbers[numbers >= 0], minlength=count)
    return found


class _Part(NamedTuple):
    """One member of records: the value of each distinct one, which of them each record has (-1 for none)."""

    key: str
    values: list[bytes]
    which: I64


class _Writer:
    """Writes the members of some records; ``uses`` says how many answers have each."""

    def __init__(self, pool: mmdb.Pool, uses: I64) -> None:
        self._pool = pool
        self._uses = uses
        self._keys: dict[str, bytes] = {}

    def _key(self, name: str) -> bytes:
        found = self._keys.get(name)
        if found is None:
            found = self._keys[name] = self._pool.shared(mmdb.text(name))
        return found

    def _with_pointers(self, values: Iterable[bytes]) -> list[bytes]:
        """Values in which keys are pointers to where they stand once."""
        return [value.octets for value in mmdb.rewritten(values, self._key)]

    def _pooled(self, parts: Sequence[_Part]) -> list[_Part]:
        """The parts with pointers for the values that several records have; the most used ones come first."""
        found = [np.empty((3, 0), np.int64)]
        for number, part in enumerate(parts):
            has = part.which >= 0
            counts = np.bincount(part.which[has], weights=self._uses[has], minlength=len(part.values))
            several = np.flatnonzero(counts > 1)
            found.append(np.array([-counts[several].astype(np.int64), np.full(len(several), number), several]))
        ranked = np.concatenate(found, axis=1)
        for number, at in ranked[1:, np.lexsort(ranked[::-1])].T.tolist():
            values = parts[number].values
            values[at] = self._pool.shared(values[at])
        return list(parts)

    def _joined(self, parts: Sequence[_Part]) -> Iterator[tuple[bytes, int]]:
        """The members of each record, and their number. All that is pooled is so before the first."""
        for part in parts:
            key, values = self._key(part.key), part.values
            for at, value in enumerate(values):  # in its place: there are as many of some as there are records
                values[at] = key + value
            values.append(b"")  # -1 is for none

        def rows() -> Iterator[tuple[bytes, int]]:
            for begin in range(0, len(self._uses), _AT_ONCE):
                numbers = [part.which[begin : begin + _AT_ONCE] for part in parts]
                counts = np.sum(np.array(numbers).reshape(len(parts), -1) >= 0, axis=0).tolist()
                columns = [[part.values[at] for at in own.tolist()] for part, own in zip(parts, numbers, strict=True)]
                yield from zip(map(b"".join, zip(*columns, strict=True)), counts, strict=True)

        return rows() if parts else repeat((b"", 0), len(self._uses))


class _Networks(_Writer):
    """Writes the facts of networks."""

    def __init__(self, networks: Networks, pool: mmdb.Pool, uses: I64) -> None:
        super().__init__(pool, uses)
        self._networks = networks

    def written(self, *, nested: bool) -> list[_Row]:
        """The facts of each network as members, or as one member under `TRAITS`; and who said them."""
        parts = []
        for key, part in self._networks.parts.items():
            self._key(key)  # here, where pointers are the shortest
            values = [self._with_pointers([value])[0] if mmdb.is_nested(value) else value for value in part.values]
            parts.append(_Part(key, values, part.which))
        said = [self._pool.shared(self._sources(said)) for said in self._networks.said]
        rows = self._joined(self._pooled(parts))
        if nested:
            known: dict[bytes, int] = {}
            maps = (mmdb.map_head(count) + octets for octets, count in rows)
            which = np.fromiter((known.setdefault(octets, len(known)) for octets in maps), np.int64, len(self._uses))
            rows = self._joined(self._pooled([_Part(TRAITS, list(known), which)]))
        sources = self._key("sources")
        own = (sources + said[at] for at in self._networks.which_said.tolist())
        return [_Row(*row, octets, 1) for row, octets in zip(rows, own, strict=True)]

    def _sources(self, said: Mapping[str, str]) -> bytes:
        return mmdb.map_of((self._key(key), self._key(name)) for key, name in said.items())


class _Places(_Writer):
    """Writes the records of places.

    A record that a source gave is written as it is, but for the traits, which say nothing of a place; what has none is
    made of its fields.
    """

    def __init__(self, places: Places, pool: mmdb.Pool, uses: I64) -> None:
        super().__init__(pool, uses)
        self._given = {key: part for key, part in places.parts.items() if key != TRAITS}
        self._is_given = np.zeros(len(places), np.bool_)
        for part in self._given.values():
            self._is_given |= part.which >= 0
        self._places = places
        self._is_custom = np.array([name == CUSTOM for name in places.sources], np.int64)[places.source]
        self._texts = places.texts

    def written(self, progress: Progress) -> Iterator[_Row]:
        """The members of each place, and where it comes from."""
        for key in _KEYS:
            self._key(key)  # here, where pointers are the shortest
        own = self._own(progress)
        parts = self._pooled(self._with_given(self._countries() + self._cities()))
        rows = self._joined([*parts, self._locations()])
        return (_Row(*row, *others) for row, others in zip(rows, own, strict=True))

    def _names(self, name: str) -> tuple[bytes, bytes]:
        """The member ``names`` of something that has an English name."""
        return self._key("names"), mmdb.map_of([(self._key("en"), mmdb.text(name))])

    def _of_texts(self, key: str, name: str, write: Callable[[str], bytes]) -> _Part:
        """A member that one field of text decides."""
        made = ~self._is_given
        numbers, which = distinct(self._places.text[name][made])
        texts = [self._texts[number] for number in numbers.tolist()]
        known = np.array([bool(text) for text in texts], np.bool_)
        found: I64 = np.full(len(made), -1, np.int64)
        found[made] = np.where(known, np.cumsum(known) - 1, -1)[which]
        return _Part(key, [write(text) for text in texts if text], found)

    def _with_given(self, parts: Sequence[_Part]) -> list[_Part]:
        """Parts that were made, with those that sources gave in their places."""
        made = {part.key: part for part in parts}
        found = []
        for key in dict.fromkeys((*made, *self._given)):
            if key == "location":
                continue
            part = made.get(key, _Part(key, [], np.full(len(self._places), -1, np.int64)))
            which, values = np.where(self._is_given, -1, part.which), part.values
            if key in self._given:
                own = self._given[key].which
                used, at = distinct(own[own >= 0])
                which[own >= 0] = len(values) + at
                values = values + self._with_pointers(self._given[key].values[number] for number in used.tolist())
            found.append(_Part(key, values, which))
        return found

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
        numbers, which = distinct(self._places.text["country"] * 2 + self._is_custom)
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
        columns = [bits(self._places.degrees[name]) for name in ("latitude", "longitude")]
        numbers, which = distinct(self._places.text["dmacode"])
        columns.append(np.array([metro_code(self._texts[number]) for number in numbers.tolist()], np.int64)[which])
        countries, which = self._of_countries()
        zones = [zone_of(text) if own else "" for text, own in countries]
        columns.append(np.array([at if own else -1 for at, (_, own) in enumerate(countries)], np.int64)[which])
        said = self._places.facts.get(SITE_ZONE, Column([None], np.zeros(len(self._places), np.int64)))
        columns[2][self._is_given] = 0  # a given one has its own
        given = self._given.get("location")
        columns.append(np.full(len(self._places), -1, np.int64) if given is None else given.which)
        columns.append(said.which)
        for column in columns[:2]:  # and its own coordinates, or none
            column[self._is_given & (columns[4] < 0)] = NO_DEGREES
        first, which = distinct_rows(columns)
        columns = [column[first] for column in columns]
        give_back()
        degrees = {name: columns[at].view(np.float64) for at, name in enumerate(("latitude", "longitude"))}
        values = [b""] * len(first)
        made = np.flatnonzero(columns[4] < 0)
        uses = Counter(value for column in degrees.values() for value in column[made].tolist() if value == value)
        # A pointer has four bytes at most, and the value nine: so three uses always pay.
        shared = sorted((value for value in uses if uses[value] > 2), key=lambda value: (-uses[value], value))
        written = {value: self._pool.shared(mmdb.double(value)) for value in shared}
        chosen = (np.arange(len(first)), *degrees.values(), *columns[2:4], columns[5])
        for at, north, east, code, country, site in zip(*(column[made].tolist() for column in chosen), strict=True):
            members = [
                (self._key(name), written.get(number) or mmdb.double(number))
                for name, number in (("latitude", north), ("longitude", east))
                if number == number
            ]
            if code:
                members.append((self._key("metro_code"), mmdb.uint16(code)))
            if country >= 0 and (zone := said.values[site] or zones[country]):
                members.append((self._key("time_zone"), self._pool.shared(mmdb.text(zone))))
            if members:
                values[at] = mmdb.map_of(members)
        rows = np.argsort(columns[4], kind="stable")[len(made) :]
        used, begins = np.unique(columns[4][rows], return_index=True)
        hollow = () if given is None else [given.values[number] for number in used.tolist()]
        for value, group in zip(mmdb.rewritten(hollow, self._key), np.split(rows, begins[1:]), strict=False):
            own = {name: column[group] for name, column in degrees.items()}
            for at, octets in zip(group.tolist(), self._filled(value, own), strict=True):
                values[at] = octets
        known = np.array([bool(octets) for octets in values], np.bool_)
        shown = np.where(known, np.cumsum(known) - 1, -1)
        return self._pooled([_Part("location", list(filter(None, values)), shown[which])])[0]

    def _filled(self, value: mmdb.Value, numbers: Mapping[str, Array]) -> Iterator[bytes]:
        """A map that `mmdb.hollowed` left, with its NaN replaced by the numbers of each row, of the width they have."""
        columns = [np.frombuffer(mmdb.map_head(len(value.members)), np.uint8)]
        for name, member in value.members.items():
            whole = np.frombuffer(self._key(name) + member.octets, np.uint8)
            if name in numbers and member.plain != member.plain:
                width = 8 if len(member.octets) == 9 else 4
                columns += [whole[:-width], numbers[name].astype(f">f{width}").view(np.uint8).reshape(-1, width)]
            else:
                columns.append(whole)
        rows = len(next(iter(numbers.values())))
        made = np.concatenate([np.broadcast_to(each, (rows, each.shape[-1])) for each in columns], axis=1)
        size, joined = made.shape[1], made.tobytes()
        return (joined[begin : begin + size] for begin in range(0, len(joined), size))

    def _own(self, progress: Progress) -> Iterator[tuple[bytes, int]]:
        """The members of `OURS` of each place, and their number: where the answer comes from, and `LOCAL_FACTS`."""
        places = self._places
        tails: dict[int, bytes] = {}
        for number in np.unique(places.source).tolist():
            name = places.sources[number]
            layer = CUSTOM if name == CUSTOM else "default"
            tails[number] = self._key("layer") + self._key(layer) + self._key("source") + self._key(name)
        head = self._key("locid") if places.locid.any() else b""
        local = []
        for name in LOCAL_FACTS:
            column = places.facts.get(name)
            if column is not None and column.says_any():
                said = [self._key(name) + self._pool.shared(mmdb.text(text)) if text else b"" for text in column.values]
                local.append((said, column.which))

        def rows() -> Iterator[tuple[bytes, int]]:
            for begin in range(0, len(places), _AT_ONCE):
                progress(begin, len(places))
                part = slice(begin, begin + _AT_ONCE)
                columns: list[list[Any]] = [[said[at] for at in which[part].tolist()] for said, which in local]
                columns[:0] = places.locid[part].tolist(), places.source[part].tolist()
                for locid, number, *own in zip(*columns, strict=True):
                    octets = (head + mmdb.text(str(locid)) if locid else b"") + tails[number] + b"".join(own)
                    yield octets, 2 + bool(locid) + sum(map(bool, own))

        return rows()
