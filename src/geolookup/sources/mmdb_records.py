"""Places from the records of a MaxMind DB, by the known shapes of providers, or by a mapping of keys to fields.

A path is keys with dots between them; a number is a position in a list. Of several paths the first that has a value
counts.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from geolookup.base.text import harmless
from geolookup.model.countries import is_code
from geolookup.model.errors import DataFileError, SettingsError
from geolookup.model.fields import FIELD_NAMES, FIELDS, Field
from geolookup.sources.places import BadFieldError, PlaceFields, country, degrees, text

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


class Recogniser:
    """Finds out the shape of a file's records from the first one that has any."""

    def __init__(self, name: str, fields: Mapping[str, str]) -> None:
        self._name = name
        self._read = mapped(fields) if fields else None
        self._given = bool(fields)
        self._example: Any = None
        self._any_place = False

    def place(self, record: Any) -> PlaceFields | None:
        """The place of a record; None if it does not say one.

        :raises DataFileError: if a value cannot be what its key says, or a record is of no known shape
        """
        if not isinstance(record, dict):
            raise self._unknown(record)
        if not record:
            return None
        if self._example is None:
            self._example = record
        if self._read is None:
            shape = _shape(record)
            if shape is None:
                raise self._unknown(record)
            self._read = _reader(shape)
        try:
            place = self._read(record)
        except BadFieldError as error:
            raise DataFileError(
                f"{self._name}: the file is damaged, or its keys mean something else: {error} in {_shown(record)}. "
                'Name others with fields = {country = "a.b", ...}'
            ) from error
        if place.covers():
            self._any_place = True
            return place
        return None

    def finish(self) -> None:
        """Say that all records were read.

        :raises DataFileError: if none of them says a place
        """
        if not self._any_place:
            raise self._unknown(self._example)

    def _unknown(self, record: Any) -> DataFileError:
        known = "those given in `fields`" if self._given else _KNOWN
        return DataFileError(
            f"{self._name}: its records say no place in keys that are understood. One of them is {_shown(record)}. "
            f'Understood are {known}. Name others with fields = {{country = "a.b", ...}}'
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
