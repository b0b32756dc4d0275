"""Flat values in the shape of GeoIP2's records: those of flat MaxMind DBs, of tables, and of the service's elements.

Records of a file are alike, so what a part becomes is worked out once for each combination of values that it has.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from geolookup.index import mmdb
from geolookup.index.flatten import I64
from geolookup.lookup.record import REGION_CODE, of_country
from geolookup.model.fields import DEGREES
from geolookup.sources.protocol import KeptKey

#: Where a value stands; a position in a list is a number.
Path: TypeAlias = tuple[str | int, ...]
#: A value as octets of `mmdb`, which keep their type, or as the text or whole number of a table.
Leaf: TypeAlias = bytes | str | int

#: The keys that hold our fields, the best one first.
FLAT: dict[str, tuple[str, ...]] = {
    # IPinfo's Lite has the country's name in `country` and its code in `country_code`; its other files have the code in
    # `country`.
    "country": ("country_code", "country"),
    "region": ("region_code", "region", "state1"),
    "city": ("city",),
    "postalcode": ("postcode", "postal_code", "postal", "zip"),
    "latitude": ("latitude", "lat"),
    "longitude": ("longitude", "lng"),
    "dmacode": ("metro_code", "dma"),
    "areacode": ("area_code",),
}

#: Before the name of one of our fields, where a column of a table holds it: the column may have any name.
OURS = "geolookup."
_POSTAL: Path = ("postal", "code")
_METRO: Path = ("location", "metro_code")
_ZONE: Path = ("location", "time_zone")
_RADIUS: Path = ("location", "accuracy_radius")
_PLACED: dict[str, Path] = {
    **dict.fromkeys(("continent", "continent_name"), ("continent", "names", "en")),
    "continent_code": ("continent", "code"),
    "continent_geoname_id": ("continent", "geoname_id"),
    **dict.fromkeys(("country", "country_name"), ("country", "names", "en")),
    **dict.fromkeys(("country_code", "country_iso_code"), ("country", "iso_code")),
    "country_geoname_id": ("country", "geoname_id"),
    "is_in_european_union": ("country", "is_in_european_union"),
    **dict.fromkeys(
        ("region", "region_name", "state", "state1", "state_name", "subdivision_1_name"),
        ("subdivisions", 0, "names", "en"),
    ),
    **dict.fromkeys(("region_code", "state_code", "subdivision_1_iso_code"), ("subdivisions", 0, "iso_code")),
    "region_geoname_id": ("subdivisions", 0, "geoname_id"),
    **dict.fromkeys(("state2", "district", "subdivision_2_name"), ("subdivisions", 1, "names", "en")),
    "subdivision_2_iso_code": ("subdivisions", 1, "iso_code"),
    **dict.fromkeys(("city", "city_name"), ("city", "names", "en")),
    **dict.fromkeys(("geoname_id", "city_geoname_id"), ("city", "geoname_id")),
    **dict.fromkeys((*FLAT["postalcode"], "postalcode", "zip_code"), _POSTAL),
    **dict.fromkeys(FLAT["latitude"], ("location", "latitude")),
    **dict.fromkeys(FLAT["longitude"], ("location", "longitude")),
    **dict.fromkeys((*FLAT["dmacode"], "dmacode"), _METRO),
    **dict.fromkeys(("timezone", "time_zone"), _ZONE),
    **dict.fromkeys(("accuracy_radius", "radius"), _RADIUS),
    OURS + "country": ("country", "iso_code"),
    OURS + "region": ("subdivisions", 0, "names", "en"),
    OURS + "city": ("city", "names", "en"),
    OURS + "postalcode": _POSTAL,
    OURS + "latitude": ("location", "latitude"),
    OURS + "longitude": ("location", "longitude"),
    OURS + "dmacode": _METRO,
}
#: Keys that have a code in some files, and a name in others: what a code looks like, and where it stands.
_CODES: dict[str, tuple[re.Pattern[str], Path]] = {
    "country": (re.compile(r"[A-Za-z0-9]{2}", re.ASCII), ("country", "iso_code")),
    "continent": (re.compile(r"[A-Za-z]{2}", re.ASCII), ("continent", "code")),
    **dict.fromkeys(("region", "state", OURS + "region"), (REGION_CODE, ("subdivisions", 0, "iso_code"))),
}


def _uint(write: Callable[[int], bytes], bits: int) -> Callable[[str], bytes | None]:
    def typed(text: str) -> bytes | None:
        number = int(text) if text.isdecimal() and text.isascii() and len(text) <= 10 else 1 << bits
        return write(number) if number < 1 << bits else None

    return typed


def _boolean(text: str) -> bytes | None:
    known = {"0": False, "1": True, "false": False, "true": True}.get(text.lower())
    return None if known is None else mmdb.boolean(known)


def _double(text: str) -> bytes | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return mmdb.double(number) if math.isfinite(number) else None


def _zone(text: str) -> bytes | None:
    """A time zone's name: the offset from UTC that some files have in its place is none."""
    return mmdb.text(text) if text[0].isalpha() else None


#: The types of what is not text, as GeoIP2 has them, by the last key of a path. A text that cannot be one of these
#: fits nowhere.
_TYPES: dict[str | int, Callable[[str], bytes | None]] = {
    **dict.fromkeys(("geoname_id", "average_income", "population_density"), _uint(mmdb.uint32, 32)),
    **dict.fromkeys(("accuracy_radius", "metro_code"), _uint(mmdb.uint16, 16)),
    "is_in_european_union": _boolean,
    **dict.fromkeys(DEGREES, _double),
    "time_zone": _zone,
}
_EMPTY = mmdb.text("")
_NOTHING = ("", _EMPTY)
_HOLLOW = mmdb.double(math.nan)
_HOLLOW_SINGLE = mmdb.single(math.nan)
#: The same by whether they have 64 bits.
HOLLOW = [_HOLLOW_SINGLE, _HOLLOW]
_DOUBLE_OCTETS = len(_HOLLOW)
#: So many combinations of values of a part are remembered.
_MOST_KNOWN = 1 << 12
#: So many combinations of keys are remembered.
_MOST_PLANS = 1 << 10


def path_of(key: str, value: Leaf) -> Path:
    """Where in GeoIP2's shape a value of a flat record stands; under ``extra`` if it fits nowhere."""
    if key in _CODES:
        plain = mmdb.plain(value) if isinstance(value, bytes) else value
        pattern, path = _CODES[key]
        if isinstance(plain, str) and pattern.fullmatch(plain):
            return path
    return _PLACED.get(key) or ("extra", key.removeprefix(OURS))


def hollow(value: Leaf, plain: Any, own: float | None) -> Leaf:
    """A coordinate as it stands in a part if the place has it in a column of its own: as NaN, of its width.

    ``plain`` is the value for Python, ``own`` that of the place. One that differs is kept as it came.
    """
    if isinstance(plain, str):
        return value if own is None else _HOLLOW
    if isinstance(plain, float) and plain == own:
        return _HOLLOW if value is plain or len(value) == _DOUBLE_OCTETS else _HOLLOW_SINGLE  # type: ignore[arg-type]
    return value


class Shape:
    """Puts flat records into GeoIP2's shape, and counts their keys.

    With ``complete``, what our own table knows of the country and its continent is added where the source does not say
    it: the record of a table says no less than one that is made of the eight fields.
    """

    def __init__(self, *, complete: bool) -> None:
        self._complete = complete
        self._plans: dict[tuple[str, ...], Plan] = {}
        self._counted: Counter[tuple[str, Path]] = Counter()

    def plan(self, keys: tuple[str, ...]) -> "Plan":
        """The parts of records that have just these keys, in this order."""
        found = self._plans.get(keys)
        if found is None:
            if len(self._plans) >= _MOST_PLANS:
                self._forget()
            found = self._plans[keys] = Plan(keys, complete=self._complete)
        return found

    def _forget(self) -> None:
        """Count what was made so far, and make it anew from now on."""
        for plan in self._plans.values():
            self._counted.update(plan.counted())
        self._plans.clear()

    def kept(self) -> list[KeptKey]:
        """The keys of the records so far, those of most records first."""
        self._forget()
        kept = [
            KeptKey(key=key, kept_as=".".join(map(str, path)), records=count)
            for (key, path), count in self._counted.items()
        ]
        return sorted(kept, key=lambda each: (-each.records, each.key, each.kept_as))


class Choices(NamedTuple):
    """What some records have of one thing: the different ones, and for each record the number of its own among them."""

    values: list[bytes]
    which: I64


class _Made:
    """What some values of a part become: its octets, what of them fits nowhere, and where they stand."""

    __slots__ = ("count", "octets", "paths", "rest")

    def __init__(self, octets: bytes, rest: tuple[tuple[str, bytes], ...], paths: tuple[tuple[str, Path], ...]) -> None:
        self.octets = octets
        self.rest = rest
        self.paths = paths
        self.count = 0


class _Part:
    """The values that together make one part, and what was made of each combination of them."""

    def __init__(self, name: str, keys: Sequence[str], positions: Sequence[int]) -> None:
        """One position more than keys is that of the country, which completes the part."""
        self.name = name
        self.keys = keys
        self.positions = positions
        self.values: Callable[[Sequence[Any]], Any] = itemgetter(*positions)
        self._single = len(positions) == 1
        self._completes = len(positions) > len(keys)
        self.known: dict[Any, _Made] = {}
        #: By the paths of a part's leaves, what stands around them: octets, and numbers of leaves.
        self._templates: dict[tuple[Path, ...], list[bytes | int]] = {}
        self.counted: Counter[tuple[str, Path]] = Counter()

    def forget(self) -> None:
        """Count what was made, and make it anew from now on."""
        for made in self.known.values():
            self.counted.update(dict.fromkeys(made.paths, made.count))
        self.known.clear()

    def make(self, values: Any) -> _Made:
        """What a new combination of values becomes."""
        if len(self.known) >= _MOST_KNOWN:
            self.forget()
        leaves: dict[Path, bytes] = {}
        rest: list[tuple[str, bytes]] = []
        paths: list[tuple[str, Path]] = []
        row = (values,) if self._single else values
        for key, value in zip(self.keys, row, strict=False):
            if value in _NOTHING:
                continue
            path = path_of(key, value)
            leaf = _leaf(path, value)
            if path[0] == "extra" or leaf is None or path in leaves:
                path = ("extra", name := key.removeprefix(OURS))
                rest.append((name, _leaf(path, value) or b""))
            else:
                leaves[path] = leaf
            paths.append((key, path))
        if self._completes and row[-1]:
            for path, value in _leaves(of_country(row[-1]).get(self.name, {}), (self.name,)):
                leaves.setdefault(path, _leaf(path, value) or b"")
        made = self.known[values] = _Made(self._octets(leaves), tuple(rest), tuple(paths))
        return made

    def _octets(self, leaves: Mapping[Path, bytes]) -> bytes:
        if not leaves:
            return b""
        paths = tuple(leaves)
        template = self._templates.get(paths)
        if template is None:
            template = self._templates[paths] = _template(paths)[self.name]
        values = list(leaves.values())
        return b"".join([values[piece] if type(piece) is int else piece for piece in template])  # type: ignore[misc]


class Plan:
    """The parts of records of the same keys. ``degrees`` are the positions of coordinates, each with our
    name and its key.
    """

    def __init__(self, keys: tuple[str, ...], *, complete: bool) -> None:
        best = [(next((key for key in (OURS + name, *FLAT[name]) if key in keys), None), name) for name in DEGREES]
        self.degrees = [(keys.index(key), name, key) for key, name in best if key is not None]
        groups: dict[str, list[int]] = {}
        for at, key in enumerate(keys):
            groups.setdefault(str(path_of(key, "")[0]), []).append(at)
        if complete:
            groups.setdefault("continent", [])
            groups.setdefault("country", [])
        self._parts = []
        #: Of a part of one key of a fixed place and type: its name, the position, what stands before the value, and
        #: the key.
        self._single: list[tuple[str, int, bytes, str]] = []
        self._singles: Counter[str] = Counter()
        for name, positions in groups.items():
            completes = complete and name in ("continent", "country")
            names = [keys[at] for at in positions]
            if len(names) == 1 and not complete and names[0] not in _CODES and name not in ("", "extra"):
                (before, _) = _template([_PLACED[names[0]]])[name]
                self._single.append((name, positions[0], before, names[0]))  # type: ignore[arg-type] # octets
            else:
                self._parts.append(_Part(name, names, [*positions, len(keys)] if completes else positions))

    def __call__(self, values: Sequence[Leaf], country: str) -> dict[str, bytes]:
        """The parts of the record of these values, coordinates `hollow`.

        ``country`` is the code of its place, or empty.
        """
        values = (*values, country)
        found: dict[str, bytes] = {}
        for name, at, before, key in self._single:
            value = values[at]
            if value != _EMPTY:
                self._singles[key] += 1
                found[name] = before + value  # type: ignore[operator] # octets
        rest: tuple[tuple[str, bytes], ...] = ()
        for part in self._parts:
            own = part.values(values)
            made = part.known.get(own)
            if made is None:
                made = part.make(own)
            made.count += 1
            if made.octets:
                found[part.name] = made.octets
            if made.rest:
                rest += made.rest
        if rest:
            found["extra"] = mmdb.map_of([(mmdb.text(key), leaf) for key, leaf in rest])
        return found

    def columns(self, values: Sequence[Choices]) -> dict[str, Choices]:
        """The parts of many records, none of which is completed: of each key the octets. Empty ones are of no part."""
        found: dict[str, Choices] = {}
        for name, at, before, key in self._single:
            own = values[at]
            there = np.array([value != _EMPTY for value in own.values], np.bool_)
            if count := int(np.count_nonzero(there[own.which])):
                self._singles[key] += count
            found[name] = own._replace(values=[b"" if value == _EMPTY else before + value for value in own.values])
        rests: list[tuple[list[Any], I64]] = []
        for part in self._parts:
            combined = _combined([(values[at].values, values[at].which) for at in part.positions])
            counts = np.bincount(combined[1], minlength=len(combined[0])).tolist()
            parts, rest = [], []
            for own_values, count in zip(combined[0], counts, strict=True):
                own_key = own_values if len(own_values) > 1 else own_values[0]
                made = part.known.get(own_key) or part.make(own_key)
                made.count += count
                parts.append(made.octets)
                rest.append(made.rest)
            found[part.name] = Choices(parts, combined[1])
            rests.append((rest, combined[1]))
        if any(any(rest) for rest, _ in rests):
            together, which = _combined(rests)
            extra = [[(mmdb.text(key), leaf) for rest in each for key, leaf in rest] for each in together]
            found["extra"] = Choices([mmdb.map_of(members) if members else b"" for members in extra], which)
        return found

    def counted(self) -> Counter[tuple[str, Path]]:
        """How many records have each key, by where it stands."""
        found = Counter({(key, _PLACED[key]): count for key, count in self._singles.items()})
        for part in self._parts:
            part.forget()
            found.update(part.counted)
        return found


def _combined(columns: Sequence[tuple[Sequence[Any], I64]]) -> tuple[list[tuple[Any, ...]], I64]:
    """The different rows of columns, and for each row the number of its own among them. A column is its values, and for
    each row the number of one.
    """
    which = columns[0][1]
    # Numbered anew after each column: so no number can grow too large.
    for values, own in columns[1:]:
        _, which = np.unique(which * len(values) + own, return_inverse=True)
        which = which.reshape(-1)
    _, first, which = np.unique(which, return_index=True, return_inverse=True)
    rows = zip(*([values[number] for number in own[first].tolist()] for values, own in columns), strict=True)
    return list(rows), which.reshape(-1)


def _leaf(path: Path, value: Leaf) -> bytes | None:
    """The octets of a value at a path; None if it cannot be what stands there."""
    if isinstance(value, bytes):
        return value
    typed = _TYPES.get(path[-1]) if path[0] != "extra" else None
    if typed is not None:
        return typed(str(value))
    if isinstance(value, str):
        return mmdb.text(value)
    return mmdb.whole(value) if path[0] == "extra" else mmdb.text(str(value))


def parts_of(leaves: Iterable[tuple[Path, Leaf]]) -> dict[str, bytes]:
    """The parts of values by where they stand, each of the type that GeoIP2 has there; empty ones are left out.

    One that cannot be of that type stands under ``extra``.
    """
    found: dict[Path, bytes] = {}
    for path, value in leaves:
        if value:
            leaf = _leaf(path, value)
            if leaf is None:
                path = ("extra", str(path[-1]))
                leaf = _leaf(path, value) or b""
            found.setdefault(path, leaf)
    values = list(found.values())
    return {
        name: b"".join([values[piece] if isinstance(piece, int) else piece for piece in template])
        for name, template in _template(tuple(found)).items()
    }


def _leaves(tree: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, (*path, key))
    else:
        yield path, tree


def _template(paths: Sequence[Path]) -> dict[str, list[bytes | int]]:
    """What stands around leaves, for each part: octets, and in between the numbers of the leaves."""
    tree: dict[Any, Any] = {}
    for at, path in enumerate(paths):
        branch = tree
        for key in path[:-1]:
            branch = branch.setdefault(key, {})
        branch[path[-1]] = at
    return {part: _joined(_pieces(_without_gaps(branch))) for part, branch in tree.items()}


def _joined(pieces: Iterable[bytes | int]) -> list[bytes | int]:
    found: list[bytes | int] = []
    for piece in pieces:
        if found and isinstance(piece, bytes) and isinstance(found[-1], bytes):
            found[-1] += piece
        else:
            found.append(piece)
    return found


def _without_gaps(tree: Any) -> Any:
    """A tree with the lists that it has: an item that nothing is said of is an empty map."""
    if not isinstance(tree, dict):
        return tree
    if all(isinstance(key, int) for key in tree):
        return [_without_gaps(tree.get(at, {})) for at in range(max(tree) + 1)]
    return {key: _without_gaps(value) for key, value in tree.items()}


def _pieces(tree: Any) -> Iterator[bytes | int]:
    if isinstance(tree, dict):
        yield mmdb.map_head(len(tree))
        for key, branch in tree.items():
            yield mmdb.text(key)
            yield from _pieces(branch)
    elif isinstance(tree, list):
        yield mmdb.array_head(len(tree))
        for branch in tree:
            yield from _pieces(branch)
    else:
        yield tree
