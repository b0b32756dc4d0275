"""Places from the records of a MaxMind DB, by the known shapes of providers, or by a mapping of keys to fields.

A path is keys with dots between them; a number is a position in a list. Of several paths the first that has a value
counts.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

from geolookup.base.text import harmless
from geolookup.index import mmdb
from geolookup.model.countries import is_code
from geolookup.model.errors import DataFileError, SettingsError
from geolookup.model.fields import FIELD_NAMES, FIELDS, Field
from geolookup.sources.facts import key_of, of_values
from geolookup.sources.places import BadFieldError, PlaceFields, country, degrees, text
from geolookup.sources.protocol import KeptKey

_Path = tuple[str | int, ...]
_SHORT = 100
#: In a path the first of all keys: a file may have names in one other language only.
_ANY = "*"

#: For nested records (GeoIP2, GeoLite2, DB-IP) and flat ones (IPinfo, ip-location-db), the paths of each field.
_NESTED = {
    "country": ("country.iso_code",),
    "region": ("subdivisions.0.iso_code", "subdivisions.0.names.en", "subdivisions.0.names.*"),
    "city": ("city.names.en", "city.names.*"),
    "postalcode": ("postal.code",),
    "latitude": ("location.latitude",),
    "longitude": ("location.longitude",),
    "dmacode": ("location.metro_code",),
}
_FLAT = {
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
# Records of these shapes may hold only keys that say no place: then they have one of these keys.
_NESTED_KEYS = frozenset(
    (
        *("country", "continent", "city", "subdivisions", "location"),
        *("postal", "registered_country", "represented_country", "traits", "geolookup"),
    )
)
_FLAT_KEYS = frozenset(path for paths in _FLAT.values() for path in paths)

_KNOWN = (
    "nested: country.iso_code, subdivisions.0.iso_code, city.names.en, postal.code, location.latitude, "
    "location.longitude, location.metro_code; flat: " + ", ".join(sorted(_FLAT_KEYS))
)


def mapped(fields: Mapping[str, str]) -> Callable[[Any], PlaceFields]:
    """A reader of records by a mapping of field names to paths (``{"country": "geo.cc"}``).

    :raises SettingsError: if a name is not one of our fields, or a path is empty
    """
    for name, path in fields.items():
        if name not in FIELD_NAMES:
            raise SettingsError(f"fields: unknown field {name!r}: the fields are {', '.join(FIELD_NAMES)}")
        if not all(path.split(".")):
            raise SettingsError(f"fields: {name}: {path!r} is not a path of keys with dots between them")
    return _reader({name: (path,) for name, path in fields.items()})


class Said(NamedTuple):
    """What a record says: a place with its parts, by their keys, and the facts of a network by theirs."""

    place: PlaceFields | None
    parts: dict[str, bytes]
    facts: dict[str, bytes]


class Recogniser:
    """Finds out the shape of a file's records from the first one that has any."""

    def __init__(self, name: str, fields: Mapping[str, str], layer: str = "") -> None:
        """``layer`` is the only one that the file shall feed, or empty: then its content decides."""
        self._name = name
        self._layer = layer
        self._any_fact = False
        #: How many distinct records had which fact, by their own keys.
        self._fact_keys: Counter[str] = Counter()
        self._read = mapped(fields) if fields else None
        self._given = bool(fields)
        #: The keys that are fields of the place, whatever they are called.
        self._mapped = {path.partition(".")[0] for path in fields.values()}
        self._example: Any = None
        self._any_place = False
        self._flat = False
        self._flat_parts = _FlatParts()
        #: How many nested records had which keys.
        self._nested_keys: Counter[tuple[str, ...]] = Counter()

    def record(self, members: Mapping[str, mmdb.Value], *, last: bool = False) -> Said | Literal["later"] | None:
        """What a record says of its place and its network; None if it is empty.

        If only others can say which of the two it is about, it is to be asked for again ``last``, after all of them.

        The place is None if it names no more than coordinates, a continent or a registered country: it is weak.
        ``traits`` are facts of the network, and so is what a flat record says of it.

        A nested record is kept as it is, but for what our own exports add; a flat one is put into GeoIP2's shape, and
        what fits nowhere there stands under ``extra``. Coordinates are left out of ``location``: see `mmdb.hollowed`.

        :raises DataFileError: if a value cannot be what its key says, or a record is of no known shape
        """
        if not members:
            return None
        if not last and self._is_unclear(members):
            return "later"
        members, facts = self._without_facts(members)
        self._any_fact |= bool(facts)
        if not members:
            return Said(None, {}, facts)
        place = self.place({key: value.plain for key, value in members.items()})
        if self._flat:
            return Said(place, self._flat_parts(members, place), facts)
        self._nested_keys[tuple(members)] += 1
        return Said(place, _nested_parts(members, place), facts)

    def _is_unclear(self, members: Mapping[str, mmdb.Value]) -> bool:
        """True if a record is flat, and none of its keys says whether it is about a place or a network."""
        return not (
            self._given
            or self._layer == "network"
            or not _FLAT_KEYS.isdisjoint(members)
            or any(isinstance(value.plain, dict | list) or key_of(key) is not None for key, value in members.items())
        )

    def _without_facts(self, members: Mapping[str, mmdb.Value]) -> tuple[Mapping[str, mmdb.Value], dict[str, bytes]]:
        """What a record says of its place, and the facts of its network.

        A flat record that says nothing of a place says all of it of the network, if the file is to feed that layer, or
        has a fact that is known.
        """
        own: Mapping[str, mmdb.Value] = {
            key: value for key, value in members.items() if key_of(key) is None or key in self._mapped
        }
        if self._given or any(isinstance(value.plain, dict | list) for value in members.values()):
            traits = own.get("traits", _NOTHING).members
            own = {key: value for key, value in own.items() if key != "traits" or not isinstance(value.plain, dict)}
            said = {**{key: value for key, value in members.items() if key not in own and key != "traits"}, **traits}
        elif self._is_unclear(members) and not (self._any_fact and not self._any_place):
            said = {}
        elif not _FLAT_KEYS.isdisjoint(own):
            said = {key: value for key, value in members.items() if key not in own}
        else:
            own, said = {}, dict(members)
        self._fact_keys.update(said.keys())
        try:
            return own, of_values(said)
        except BadFieldError as error:
            raise self._meaning_else(error, {key: value.plain for key, value in members.items()}) from error

    def kept(self) -> list[KeptKey]:
        """The keys at the top of the records that were read, those of most records first."""
        found: Counter[tuple[str, str]] = Counter()
        for form, count in self._flat_parts.forms.items():
            found.update({(key, ".".join(map(str, _path_of(key, kind)))): count for key, kind in form})
        for nested, count in self._nested_keys.items():
            found.update({(key, key): count for key in nested})
        found.update({(key, f"{_TRAITS}.{key_of(key) or key}"): count for key, count in self._fact_keys.items()})
        order = sorted(found.items(), key=lambda item: (-item[1], item[0]))
        return [
            KeptKey(key=key, kept_as="", records=count, reason=_OURS)
            if path == _OWN_KEY
            else KeptKey(key=key, kept_as="", records=count, reason=_ONLY_PLACE)
            if self._layer == "place" and path.startswith(f"{_TRAITS}.")
            else KeptKey(key=key, kept_as="", records=count, reason=_ONLY_NETWORK)
            if self._layer == "network" and not path.startswith(f"{_TRAITS}.")
            else KeptKey(key=key, kept_as=path, records=count)
            for (key, path), count in order
        ]

    def place(self, record: Mapping[str, Any]) -> PlaceFields | None:
        """The place that a record says, or None if it says none.

        :raises DataFileError: as `record`
        """
        if self._example is None:
            self._example = record
            self._flat = _shape(record) is not _NESTED
        if self._read is None:
            shape = _shape(record)
            if shape is None:
                raise self.unknown(record)
            self._read = _reader(shape)
        try:
            place = self._read(record)
        except BadFieldError as error:
            raise self._meaning_else(error, record) from error
        if place.covers():
            self._any_place = True
            return place
        return None

    def _meaning_else(self, error: BadFieldError, record: Mapping[str, Any]) -> DataFileError:
        return DataFileError(
            f"{self._name}: the file is damaged, or its keys mean something else: {error} in {_shown(record)}. "
            'Name others with fields = {country = "a.b", ...}'
        )

    def finish(self) -> None:
        """Say that all records were read.

        :raises DataFileError: if none of them says a place, or a fact of a network
        """
        if not self._any_place and not self._any_fact:
            raise self.unknown(self._example)

    def unknown(self, record: Any) -> DataFileError:
        """The error for a record of no known shape."""
        known = "those given in `fields`" if self._given else _KNOWN
        return DataFileError(
            f"{self._name}: its records say no place, and no fact of a network, in keys that are understood. One of "
            f'them is {_shown(record)}. Understood are {known}. Name others with fields = {{country = "a.b", ...}}, or '
            'keep all keys as facts of the network: layer = "network"'
        )


def _shown(record: Any) -> str:
    return harmless(repr(record), 400)


def _shape(record: Mapping[Any, Any]) -> Mapping[str, Sequence[str]] | None:
    if any(isinstance(record.get(key), dict | list) for key in _NESTED_KEYS):
        return _NESTED
    if any(isinstance(record.get(key), str | int | float) for key in _FLAT_KEYS):
        return _FLAT
    return None


def _reader(paths: Mapping[str, Sequence[str]]) -> Callable[[Any], PlaceFields]:
    columns = [(_converter(field), [_split(path) for path in paths.get(field.name, ())]) for field in FIELDS]
    flat = all(len(path) == 1 for _, found in columns for path in found)
    getter = _flat_value if flat else _value

    def read(record: Any) -> PlaceFields:
        return PlaceFields._make([convert(getter(record, found)) for convert, found in columns])

    return read


def _converter(field: Field) -> Callable[[Any], str | float | None]:
    if field.name == "country":
        return _country
    if field.limit is None:
        return partial(_text, name=field.name)
    return partial(degrees, most=field.limit, name=field.name)


def _split(path: str) -> _Path:
    return tuple(int(key) if key.isascii() and key.isdecimal() else key for key in path.split("."))


def _flat_value(record: Any, paths: Sequence[_Path]) -> Any:
    for path in paths:
        value = record.get(path[0])
        if value is not None and value != "":
            return value
    return None


def _value(record: Any, paths: Sequence[_Path]) -> Any:
    for path in paths:
        value = record
        for key in path:
            if isinstance(value, dict):
                value = value[min(value)] if key == _ANY and value else value.get(key)
            elif isinstance(value, list) and isinstance(key, int) and key < len(value):
                value = value[key]
            else:
                value = None
                break
        if value is not None and value != "":
            return value
    return None


def _country(value: Any) -> str:
    if type(value) is str and is_code(value):
        return value.upper()
    return country(_text(value, "country"))


def _text(value: Any, name: str) -> str:
    if type(value) is str and len(value) <= _SHORT:  # nearly all of them, and there are millions
        return value
    if value is None:
        return ""
    if isinstance(value, str):
        return text(value, name)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise BadFieldError(f"{name} is not text")


#: Where in GeoIP2's shape the values of flat records stand. A position in a list is a number.
_PLACED: dict[str, _Path] = {
    "continent_code": ("continent", "code"),
    "continent": ("continent", "names", "en"),
    "continent_name": ("continent", "names", "en"),
    "country_code": ("country", "iso_code"),
    "country": ("country", "names", "en"),
    "country_name": ("country", "names", "en"),
    "region_code": ("subdivisions", 0, "iso_code"),
    "region": ("subdivisions", 0, "names", "en"),
    "state1": ("subdivisions", 0, "names", "en"),
    "state2": ("subdivisions", 1, "names", "en"),
    "city": ("city", "names", "en"),
    "geoname_id": ("city", "geoname_id"),
    **dict.fromkeys(_FLAT["postalcode"], ("postal", "code")),
    **dict.fromkeys(_FLAT["latitude"], ("location", "latitude")),
    **dict.fromkeys(_FLAT["longitude"], ("location", "longitude")),
    **dict.fromkeys(_FLAT["dmacode"], ("location", "metro_code")),
    **dict.fromkeys(("timezone", "time_zone"), ("location", "time_zone")),
    **dict.fromkeys(("accuracy_radius", "radius"), ("location", "accuracy_radius")),
}
#: Keys that have a code in some files, and a name in others.
_CODES: dict[str, _Path] = {"country": ("country", "iso_code"), "continent": ("continent", "code")}
_CODE_LENGTH = 2
_DEGREES = frozenset((*_FLAT["latitude"], *_FLAT["longitude"]))
_DOUBLE_OCTETS = 9
#: What our own exports add to records.
_OWN_KEY = "geolookup"
_TRAITS = "traits"
_ONLY_PLACE = 'it is of the network, and the source has `layer = "place"`'
_ONLY_NETWORK = 'it is of the place, and the source has `layer = "network"`'
_OURS = "our own exports add it: the next one says anew where an answer comes from"


def _nested_parts(members: Mapping[str, mmdb.Value], place: PlaceFields | None) -> dict[str, bytes]:
    parts = {key: value.octets for key, value in members.items() if key != _OWN_KEY}
    if place is not None and isinstance(members.get("location", _NOTHING).plain, dict):
        parts["location"] = mmdb.hollowed(members["location"].members, _coordinates(place))
    return parts


#: What stands in a part of a flat record: octets, and the positions of members whose octets belong there.
_Template: TypeAlias = list[bytes | int]


class _FlatParts:
    """Puts flat records into GeoIP2's shape. Those of a file have few forms: what each becomes is worked out once."""

    def __init__(self) -> None:
        self._plans: dict[tuple[tuple[str, str], ...], dict[str, _Template]] = {}
        #: How many records had which form: the keys, each with the kind of its value.
        self.forms: Counter[tuple[tuple[str, str], ...]] = Counter()

    def __call__(self, members: Mapping[str, mmdb.Value], place: PlaceFields | None) -> dict[str, bytes]:
        form = tuple([(key, _kind(key, value, place)) for key, value in members.items()])
        self.forms[form] += 1
        plan = self._plans.get(form)
        if plan is None:
            plan = self._plans[form] = _plan(form)
        octets = [value.octets for value in members.values()]
        return {
            part: b"".join([piece if type(piece) is bytes else octets[piece] for piece in template])  # type: ignore[index]
            for part, template in plan.items()
        }


def _kind(key: str, value: mmdb.Value, place: PlaceFields | None) -> str:
    """The kind of a value, which decides where it goes: nothing, a code, our coordinate and its width, or any other."""
    plain = value.plain
    if plain == "":
        return "nothing"
    if key in _CODES:
        return "code" if isinstance(plain, str) and len(plain) == _CODE_LENGTH else "other"
    if place is not None and key in _DEGREES:
        own = place.latitude if key in _FLAT["latitude"] else place.longitude
        if isinstance(plain, str):
            return "other" if own is None else "double"
        if isinstance(plain, float) and plain == own:
            return "double" if len(value.octets) == _DOUBLE_OCTETS else "single"
    return "other"


def _plan(form: Sequence[tuple[str, str]]) -> dict[str, _Template]:
    """The parts of records of a form. A second key that says the same goes with what fits nowhere."""
    tree: dict[str, Any] = {}
    for at, (key, kind) in enumerate(form):
        if kind == "nothing":
            continue
        path = _path_of(key, kind)
        leaf = {"double": mmdb.double(math.nan), "single": mmdb.single(math.nan)}.get(kind, at)
        if not _put(tree, path, leaf):
            _put(tree, ("extra", key), at)
    return {part: _joined(_template(_without_gaps(branch))) for part, branch in tree.items()}


def _template(tree: Any) -> Iterator[bytes | int]:
    if isinstance(tree, dict):
        yield mmdb.map_head(len(tree))
        for key, branch in tree.items():
            yield mmdb.text(key)
            yield from _template(branch)
    elif isinstance(tree, list):
        yield mmdb.array_head(len(tree))
        for branch in tree:
            yield from _template(branch)
    else:
        yield tree


def _joined(pieces: Iterable[bytes | int]) -> _Template:
    found: _Template = []
    for piece in pieces:
        if found and isinstance(piece, bytes) and isinstance(found[-1], bytes):
            found[-1] += piece
        else:
            found.append(piece)
    return found


def _path_of(key: str, kind: str) -> _Path:
    """Where in GeoIP2's shape a value of a flat record stands."""
    return _CODES[key] if kind == "code" else _PLACED.get(key, ("extra", key))


_NOTHING = mmdb.Value(None, b"")


def _coordinates(place: PlaceFields) -> dict[str, float | None]:
    return {"latitude": place.latitude, "longitude": place.longitude}


def _put(tree: dict[Any, Any], path: _Path, leaf: bytes | int) -> bool:
    """Put a leaf in a tree, in which lists are dictionaries; false if there is one already."""
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    if path[-1] in tree:
        return False
    tree[path[-1]] = leaf
    return True


def _without_gaps(tree: Any) -> Any:
    """A tree with the lists that it has: an item that nothing is said of is an empty map."""
    if not isinstance(tree, dict):
        return tree
    if all(isinstance(key, int) for key in tree):
        return [_without_gaps(tree.get(at, {})) for at in range(max(tree) + 1)]
    return {key: _without_gaps(value) for key, value in tree.items()}
