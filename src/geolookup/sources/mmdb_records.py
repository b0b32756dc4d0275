"""Places from the records of a MaxMind DB, by the known shapes of providers, or by a mapping of keys to fields.

A path is keys with dots between them; a number is a position in a list. Of several paths the first that has a value
counts.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from geolookup.base.text import harmless
from geolookup.index import mmdb
from geolookup.index.flatten import I64, Array
from geolookup.model.countries import is_code
from geolookup.model.errors import DataFileError, SettingsError
from geolookup.model.facts import NETWORK_FACTS
from geolookup.model.fields import DEGREES, FIELD_NAMES, FIELDS, Field
from geolookup.sources.facts import SAID_BEFORE, key_of, of_values, path_of_fact, said_before
from geolookup.sources.mmdb_columns import Columns, Distinct, Group
from geolookup.sources.places import COVERING, BadFieldError, PlaceFields, country, degrees, text
from geolookup.sources.protocol import KeptKey
from geolookup.sources.shape import FLAT, HOLLOW, Choices, Shape, hollow

_Path = tuple[str | int, ...]
_SHORT = 100
_MOST_PLANS = 1 << 10
_NO_ROWS = np.zeros(0, np.int64)
#: In a path the first of all keys: a file may have names in one other language only.
_ANY = "*"

#: For nested records (GeoIP2, GeoLite2, DB-IP) the paths of each field; those of flat ones (IPinfo, ip-location-db) are
#: the keys of `shape.FLAT`.
_NESTED = {
    "country": ("country.iso_code",),
    "region": ("subdivisions.0.iso_code", "subdivisions.0.names.en", "subdivisions.0.names.*"),
    "city": ("city.names.en", "city.names.*"),
    "postalcode": ("postal.code",),
    "latitude": ("location.latitude",),
    "longitude": ("location.longitude",),
    "dmacode": ("location.metro_code",),
}
# Records of these shapes may hold only keys that say no place: then they have one of these keys.
_NESTED_KEYS = frozenset(
    (
        *("country", "continent", "city", "subdivisions", "location"),
        *("postal", "registered_country", "represented_country", "traits", "geolookup"),
    )
)
_FLAT_KEYS = frozenset(path for paths in FLAT.values() for path in paths)

_KNOWN = (
    "nested: country.iso_code, subdivisions.0.iso_code, city.names.en, postal.code, location.latitude, "
    "location.longitude, location.metro_code; flat: " + ", ".join(sorted(_FLAT_KEYS))
)


def mapped(fields: Mapping[str, str]) -> Callable[[Any], PlaceFields]:
    """A reader of records by a mapping of field names to paths (``{"country": "geo.cc"}``).

    Names that are facts of networks are no part of it.

    :raises SettingsError: if a name is neither a field nor such a fact, or a path is empty
    """
    for name, path in fields.items():
        if name not in FIELD_NAMES and key_of(name) is None:
            known = ", ".join((*FIELD_NAMES, *NETWORK_FACTS))
            raise SettingsError(f"fields: unknown field {name!r}: the fields are {known}")
        if not all(path.split(".")):
            raise SettingsError(f"fields: {name}: {path!r} is not a path of keys with dots between them")
    return _reader({name: (path,) for name, path in fields.items() if name in FIELD_NAMES})


class Said(NamedTuple):
    """What a record says: a place with its parts, by their keys, and the facts of a network by theirs."""

    place: PlaceFields | None
    parts: dict[str, bytes]
    facts: dict[str, bytes]


class SaidByMany(NamedTuple):
    """What flat records say, which all say a place and nothing of a network: their numbers, the fields of their places,
    and by their keys the parts. A field that no key holds is not there; all degrees are known.
    """

    rows: I64
    texts: dict[str, tuple[list[str], I64]]
    degrees: dict[str, Array]
    parts: dict[str, Choices]


class Recogniser:
    """Finds out the shape of a file's records from the first one that has any."""

    def __init__(self, name: str, fields: Mapping[str, str], layer: str = "") -> None:
        """``layer`` is the only one that the file shall feed, or empty: then its content decides."""
        self._name = name
        self._layer = layer
        self._any_fact = False
        #: How many distinct records had which fact, by their own keys.
        self._fact_keys: Counter[str] = Counter()
        #: The same for a key whose fact another key of the record says: both.
        self._doubled: Counter[tuple[str, str]] = Counter()
        by_name = mapped(fields)
        places = {name: path for name, path in fields.items() if name in FIELD_NAMES}
        self._read = by_name if places else None
        self._given = bool(fields)
        #: The keys that are fields of the place, by their own names.
        self._mapped = {path.partition(".")[0] for path in places.values()}
        #: Where the facts of the network stand that have a key of their own in this file.
        self._fact_paths = {name: _split(path) for name, path in fields.items() if name not in places}
        self._example: Any = None
        self._any_place = False
        self._flat = False
        self._shape = Shape(complete=False)
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

    def many(self, columns: Columns, group: Group) -> SaidByMany | None:
        """`record` for many flat records of the same keys at once, once the first of the file was read.

        Those that are missing in what it returns are to be read one by one, and if it is None all: also if a value
        cannot be what its key says, which is said of the first record that has it.
        """
        keys = group.keys
        if not self._flat or self._given or _FLAT_KEYS.isdisjoint(keys) or any(map(key_of, keys)):
            return None
        plan = self._shape.plan(keys)
        known: dict[str, Array] = {}
        choices: dict[int, Choices] = {}
        for at, name, _ in plan.degrees:
            found = columns.numbers(group.places[at])
            if found is None or not np.all(np.abs(found[0]) <= DEGREES[name]):
                return None
            known[name] = found[0]
            choices[at] = Choices(HOLLOW, found[1].astype(np.int64))
        try:
            distinct = {key: columns.distinct(group.places[at]) for at, key in enumerate(keys) if at not in choices}
            texts = {
                field.name: _first_texts(_converter(field), own)
                for field in FIELDS
                if field.name not in DEGREES and (own := [distinct[key] for key in FLAT[field.name] if key in distinct])
            }
        except (mmdb.BadValueError, BadFieldError):
            return None
        covers = np.zeros(len(group.rows), np.bool_)
        for name in COVERING:
            if name in texts:
                values, which = texts[name]
                covers |= np.array([bool(value) for value in values], np.bool_)[which]
        self._any_place |= bool(covers.any())
        choices |= {
            keys.index(key): Choices([value.octets for value in own.values], own.which) for key, own in distinct.items()
        }
        of_parts = [choices[at]._replace(which=choices[at].which[covers]) for at in range(len(keys))]
        return SaidByMany(
            group.rows[covers],
            {name: (values, which[covers]) for name, (values, which) in texts.items()},
            {name: values[covers] for name, values in known.items()},
            plan.columns(of_parts),
        )

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

        A record that says nothing of a place says all of it of the network, if the file is to feed that layer; so does
        a flat one if it has a fact that is known.
        """
        named: dict[str, mmdb.Value] = {}
        if self._fact_paths:
            members, named = self._named_facts(members)
        own: Mapping[str, mmdb.Value] = {
            key: value for key, value in members.items() if key_of(key) is None or key in self._mapped
        }
        if self._given or (
            any(isinstance(value.plain, dict | list) for value in members.values())
            and not (self._layer == "network" and _NESTED_KEYS.isdisjoint(members))
        ):
            traits = own.get("traits", _NOTHING).members
            own = {key: value for key, value in own.items() if key != "traits" or not isinstance(value.plain, dict)}
            said = {**{key: value for key, value in members.items() if key not in own and key != "traits"}, **traits}
        elif self._is_unclear(members) and not (self._any_fact and not self._any_place):
            said = {}
        elif not _FLAT_KEYS.isdisjoint(own):
            said = {key: value for key, value in members.items() if key not in own}
        else:
            own, said = {}, dict(members)
        if named and self._read is None and _shape({key: value.plain for key, value in own.items()}) is None:
            own, said = {}, {**said, **own}
        said = {**named, **said}
        doubled = said_before(said)
        self._doubled.update(doubled.items())
        self._fact_keys.update(said.keys() - doubled.keys())
        try:
            return own, of_values(said)
        except BadFieldError as error:
            raise self._meaning_else(error, {key: value.plain for key, value in members.items()}) from error

    def _named_facts(self, members: Mapping[str, mmdb.Value]) -> tuple[Mapping[str, mmdb.Value], dict[str, mmdb.Value]]:
        """The other members of a record, and the facts whose paths the settings name.

        A map that has such a fact is one itself, by its own key: nothing that stands beside the fact is lost.
        """
        named: dict[str, mmdb.Value] = {}
        others = dict(members)
        for name, (key, *steps) in self._fact_paths.items():
            found = members.get(str(key), _NOTHING)
            if found is not _NOTHING and key not in self._mapped:
                del others[str(key)]
                if steps:
                    named[str(key)] = found
            for step in steps:
                found = found.members.get(str(step), _NOTHING) if isinstance(found.plain, dict) else _NOTHING
            if found is not _NOTHING:
                named[name] = found
        return others, named

    def kept(self) -> list[KeptKey]:
        """The keys at the top of the records that were read, those of most records first."""
        nested: Counter[str] = Counter()
        for keys, count in self._nested_keys.items():
            nested.update(dict.fromkeys(keys, count))
        kept = [
            *(KeptKey(key=key, kept_as=key, records=count) for key, count in nested.items() if key != _OWN_KEY),
            *self._shape.kept(),
        ]
        kept += [KeptKey(key=key, kept_as=path_of_fact(key), records=count) for key, count in self._fact_keys.items()]
        kept += [
            KeptKey(key=key, kept_as="", records=count, reason=SAID_BEFORE.format(first))
            for (key, first), count in self._doubled.items()
        ]
        if _OWN_KEY in nested:
            kept.append(KeptKey(key=_OWN_KEY, kept_as="", records=nested[_OWN_KEY], reason=_OURS))
        return sorted(kept, key=lambda each: (-each.records, each.key, each.kept_as))

    def _flat_parts(self, members: Mapping[str, mmdb.Value], place: PlaceFields | None) -> dict[str, bytes]:
        plan = self._shape.plan(tuple(members))
        octets: list[bytes | str | int] = [value.octets for value in members.values()]
        if place is None:
            return plan(octets, "")
        for at, name, key in plan.degrees:
            octets[at] = hollow(octets[at], members[key].plain, getattr(place, name))
        return plan(octets, "")

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

        :raises DataFileError: if none of them says a place, or a fact of a network, or one that the settings name
        """
        missing = [name for name in self._fact_paths if not self._fact_keys[name]]
        if missing:
            named = ", ".join(".".join(map(str, self._fact_paths[name])) for name in missing)
            raise DataFileError(f"{self._name}: none of its records has {harmless(named)}, which `fields` name")
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
        return FLAT
    return None


def _reader(paths: Mapping[str, Sequence[str]]) -> Callable[[Any], PlaceFields]:
    columns = [(_converter(field), [_split(path) for path in paths.get(field.name, ())]) for field in FIELDS]
    if all(len(path) == 1 for _, found in columns for path in found):
        return _flat_reader([(field, [_split(path)[0] for path in paths.get(field.name, ())]) for field in FIELDS])

    def read(record: Any) -> PlaceFields:
        return PlaceFields._make([convert(_value(record, found)) for convert, found in columns])

    return read


def _flat_reader(
    columns: Sequence[tuple[Field, Sequence[str | int]]],
) -> Callable[[Any], PlaceFields]:
    """A reader by keys. Records of a file have few combinations of these: where the fields stand is found once."""
    plans: dict[tuple[Any, ...], list[tuple[Callable[[Any], Any], bool, list[int]]]] = {}

    def read(record: Any) -> PlaceFields:
        keys = tuple(record)
        plan = plans.get(keys)
        if plan is None:
            plan = [
                (
                    _converter(field),
                    field.kind == "text" and field.name != "country",
                    [keys.index(key) for key in names if key in record],
                )
                for field, names in columns
            ]
            if len(plans) < _MOST_PLANS:
                plans[keys] = plan
        values = list(record.values())
        found = []
        for convert, is_text, positions in plan:
            value = None
            for at in positions:
                value = values[at]
                if value is not None and value != "":
                    break
            # Nearly all of them, and there are millions.
            found.append(value if is_text and type(value) is str and len(value) <= _SHORT else convert(value))
        return PlaceFields._make(found)

    return read


def _first_texts(convert: Callable[[Any], Any], columns: Sequence[Distinct]) -> tuple[list[str], I64]:
    """The texts of a field by several keys, and for each record the number of its own: of the first that is not empty.

    :raises BadFieldError: if one of them cannot be the field
    """
    texts: list[str] = []
    which = _NO_ROWS
    for values, own in columns:
        begin = len(texts)
        texts += [convert(value.plain) for value in values]
        if begin:
            empty = np.array([not text for text in texts[:begin]], np.bool_)[which]
            which = np.where(empty, own + begin, which)
        else:
            which = own
    return texts, which


def _converter(field: Field) -> Callable[[Any], str | float | None]:
    if field.name == "country":
        return _country
    if field.limit is None:
        return partial(_text, name=field.name)
    most, name = field.limit, field.name

    def convert(value: Any) -> float | None:
        if type(value) is float and -most <= value <= most:
            return value
        return degrees(value, most, name)

    return convert


def _split(path: str) -> _Path:
    return tuple(int(key) if key.isascii() and key.isdecimal() else key for key in path.split("."))


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


#: What our own exports add to records.
_OWN_KEY = "geolookup"
_OURS = "our own exports add it: the next one says anew where an answer comes from"


def _nested_parts(members: Mapping[str, mmdb.Value], place: PlaceFields | None) -> dict[str, bytes]:
    parts = {key: value.octets for key, value in members.items() if key != _OWN_KEY}
    if place is not None and isinstance(members.get("location", _NOTHING).plain, dict):
        parts["location"] = mmdb.hollowed(members["location"].members, _coordinates(place))
    return parts


_NOTHING = mmdb.Value(None, b"")


def _coordinates(place: PlaceFields) -> dict[str, float | None]:
    return {"latitude": place.latitude, "longitude": place.longitude}
