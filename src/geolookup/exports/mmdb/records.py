"""From answers to the data section: records shaped like those of GeoIP2, so that existing readers work.

What several records have (a country, a city, a position, an organisation) is written once and pointed at; what is
written most often comes first, since pointers to the first 2 KiB are the shortest.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from geolookup.exports.answers import Answers
from geolookup.exports.content import CUSTOM, Content, Places, Progress
from geolookup.exports.networks import Networks
from geolookup.exports.parts import NO_DEGREES, Column, bits, distinct, distinct_rows
from geolookup.index import mmdb
from geolookup.index.flatten import I64
from geolookup.index.layout import OURS
from geolookup.lookup.record import REGION_CODE, TRAITS, metro_code, of_country, zone_of
from geolookup.model.facts import SITE_ZONE

_PROGRESS = 1 << 15
_KEYS = ("country", "continent", "subdivisions", "city", "postal", "location", "latitude", "longitude", "metro_code")
#: The facts that our own custom layers alone say, as members of `OURS`.
LOCAL_FACTS = ("site", "vrf")


class Records(NamedTuple):
    """A data section, and where the record of each answer stands in it."""

    section: bytes
    offsets: I64


class _Written(NamedTuple):
    """One half of records: of each place, or of each network, the members and how many, and the same of `OURS`."""

    members: list[bytes]
    counts: list[int]
    own: list[bytes]
    own_counts: list[int]

    def with_none(self) -> "_Written":
        """One item more, at the end: for what is not there."""
        return _Written([*self.members, b""], [*self.counts, 0], [*self.own, b""], [*self.own_counts, 0])


def records(content: Content, answers: Answers, *, nested: bool, progress: Progress) -> Records:
    """The records of all answers; with ``nested`` the facts of networks stand under `TRAITS`, else at the top."""
    pool = mmdb.Pool()
    ours = pool.shared(mmdb.text(OURS))
    place = _Places(content.places, pool, _uses(answers.place, len(content.places))).written(progress).with_none()
    networks = content.networks
    if networks is None or not (answers.network >= 0).any():
        network = _Written([], [], [], []).with_none()
    else:
        uses = _uses(answers.network, len(networks))
        network = _Networks(networks, pool, uses).written(nested=nested).with_none()
    most = max(max(each.counts) + max(each.own_counts) for each in (place, network))
    heads = [mmdb.map_head(count) for count in range(2 * most + 2)]
    octets = [
        heads[place.counts[one] + network.counts[other] + 1]
        + place.members[one]
        + network.members[other]
        + ours
        + heads[place.own_counts[one] + network.own_counts[other]]
        + place.own[one]
        + network.own[other]
        for one, other in zip(answers.place.tolist(), answers.network.tolist(), strict=True)
    ]
    sizes = np.fromiter(map(len, octets), np.int64, len(octets))
    shared = pool.octets()
    return Records(shared + b"".join(octets), len(shared) + np.cumsum(sizes) - sizes)


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

    def _key(self, name: str) -> bytes:
        return self._pool.shared(mmdb.text(name))

    def _with_pointers(self, octets: bytes) -> bytes:
        """A value in which keys are pointers to where they stand once."""
        return mmdb.rewritten(octets, self._key)

    def _pooled(self, parts: Sequence[_Part]) -> list[_Part]:
        """The parts with pointers for the values that several records have; the most used ones come first."""
        uses: Counter[tuple[int, int]] = Counter()
        for number, part in enumerate(parts):
            has = part.which >= 0
            counts = np.bincount(part.which[has], weights=self._uses[has], minlength=len(part.values))
            uses.update({(number, at): int(counts[at]) for at in np.flatnonzero(counts > 1).tolist()})
        for number, at in sorted(uses, key=lambda which: (-uses[which], which)):
            values = parts[number].values
            values[at] = self._pool.shared(values[at])
        return list(parts)

    def _joined(self, parts: Sequence[_Part]) -> tuple[list[bytes], list[int]]:
        """The members of each record, and their number."""
        counts = np.zeros(len(self._uses), np.int64)
        columns = []
        for part in parts:
            counts += part.which >= 0
            chosen = [*(self._key(part.key) + value for value in part.values), b""]  # its last item is for none
            columns.append([chosen[at] for at in part.which.tolist()])
        if not columns:
            return [b""] * len(counts), counts.tolist()
        return [b"".join(row) for row in zip(*columns, strict=True)], counts.tolist()


class _Networks(_Writer):
    """Writes the facts of networks."""

    def __init__(self, networks: Networks, pool: mmdb.Pool, uses: I64) -> None:
        super().__init__(pool, uses)
        self._networks = networks

    def written(self, *, nested: bool) -> _Written:
        """The facts of each network as members, or as one member under `TRAITS`; and who said them."""
        parts = []
        for key, part in self._networks.parts.items():
            self._key(key)  # here, where pointers are the shortest
            parts.append(_Part(key, [self._fact(value) for value in part.values], part.which))
        said = [self._pool.shared(self._sources(said)) for said in self._networks.said]
        members, counts = self._joined(self._pooled(parts))
        if nested:
            known: dict[bytes, int] = {}
            maps = (mmdb.map_head(count) + octets for count, octets in zip(counts, members, strict=True))
            which = np.fromiter((known.setdefault(octets, len(known)) for octets in maps), np.int64, len(counts))
            members, counts = self._joined(self._pooled([_Part(TRAITS, list(known), which)]))
        sources = self._key("sources")
        own = [sources + said[at] for at in self._networks.which_said.tolist()]
        return _Written(members, counts, own, [1] * len(own))

    def _fact(self, octets: bytes) -> bytes:
        return self._with_pointers(octets) if mmdb.is_nested(octets) else octets

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

    def written(self, progress: Progress) -> _Written:
        """The members of each place, and where it comes from."""
        for key in _KEYS if len(self._places) else ():
            self._key(key)  # here, where pointers are the shortest
        own, own_counts = self._own(progress)
        parts = self._pooled(self._with_given(self._countries() + self._cities()))
        members, counts = self._joined([*parts, self._locations()])
        return _Written(members, counts, own, own_counts)

    def _names(self, name: str) -> tuple[bytes, bytes]:
        """The member ``names`` of something that has an English name."""
        return self._key("names"), mmdb.map_of([(self._key("en"), mmdb.text(name))])

    def _of_texts(self, key: str, name: str, write: Callable[[str], bytes]) -> _Part:
        """A member that one field of text decides."""
        numbers, which = distinct(self._places.text[name])
        texts = [self._texts[number] for number in numbers.tolist()]
        known = np.array([bool(text) for text in texts], np.bool_)
        shown = np.where(known, np.cumsum(known) - 1, -1)
        return _Part(key, [write(text) for text in texts if text], shown[which])

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
                values = values + [self._with_pointers(self._given[key].values[number]) for number in used.tolist()]
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
        latitudes, longitudes = (column.view(np.float64).tolist() for column in columns[:2])
        uses = Counter(value for value in (*latitudes, *longitudes) if value == value)
        # A pointer has four bytes at most, and the value nine: so three uses always pay.
        shared = sorted((value for value in uses if uses[value] > 2), key=lambda value: (-uses[value], value))
        written = {value: self._pool.shared(mmdb.double(value)) for value in shared}

        values = []
        known = np.zeros(len(latitudes), np.bool_)
        for at, (north, east, code, country, number, site) in enumerate(
            zip(latitudes, longitudes, *(column.tolist() for column in columns[2:]), strict=True)
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
            if country >= 0 and (zone := said.values[site] or zones[country]):
                members.append((self._key("time_zone"), self._pool.shared(mmdb.text(zone))))
            if members:
                known[at] = True
                values.append(mmdb.map_of(members))
        return self._pooled([_Part("location", values, np.where(known, np.cumsum(known) - 1, -1)[which])])[0]

    def _own(self, progress: Progress) -> tuple[list[bytes], list[int]]:
        """The members of `OURS` of each place, and their number: where the answer comes from, and `LOCAL_FACTS`."""
        places = self._places
        tails: dict[int, bytes] = {}
        for number in np.unique(places.source).tolist():
            name = places.sources[number]
            layer = CUSTOM if name == CUSTOM else "default"
            tails[number] = self._key("layer") + self._key(layer) + self._key("source") + self._key(name)
        head = self._key("locid") if places.locid.any() else b""
        local, more = [b""] * len(places), np.zeros(len(places), np.int64)
        for name in LOCAL_FACTS:
            column = places.facts.get(name)
            if column is not None and column.says_any():
                said = [self._key(name) + self._pool.shared(mmdb.text(text)) if text else b"" for text in column.values]
                local = [own + said[at] for own, at in zip(local, column.which.tolist(), strict=True)]
                more += np.array([bool(octets) for octets in said])[column.which]
        found = []
        for at, (locid, number, own) in enumerate(
            zip(places.locid.tolist(), places.source.tolist(), local, strict=True)
        ):
            found.append((head + mmdb.text(str(locid)) if locid else b"") + tails[number] + own)
            if not at % _PROGRESS:
                progress(at, len(places))
        return found, (2 + (places.locid != 0) + more).tolist()
