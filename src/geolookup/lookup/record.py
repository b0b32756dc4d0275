"""All that is known of a place, in the shape of GeoIP2's records: as its source said it, or made of our fields."""

import math
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from geolookup.index import mmdb
from geolookup.index.layout import EMPTY, OURS
from geolookup.model.continents import CONTINENTS, countries, named
from geolookup.model.countries import in_capitals
from geolookup.model.errors import IndexDamagedError
from geolookup.model.types import Geolocation, geolocation_of

if TYPE_CHECKING:
    from geolookup.index.reader import IndexReader

#: What records hold: all that is known of a place, or its country alone.
Detail: TypeAlias = Literal["city", "country"]

#: A region that is a code, not a name.
REGION_CODE = re.compile(r"[A-Z0-9]{1,3}", re.ASCII)
_COORDINATES = ("latitude", "longitude")
#: The key under which records have the facts of networks.
TRAITS = "traits"
_METRO_CODE = re.compile(r"0*[0-9]{1,5}", re.ASCII)
_MOST_METRO = 0xFFFF


class Record(Mapping[str, Any]):
    """What is known of an address, in the shape of GeoIP2's City records, by the keys at its top; read-only.

    A member is decoded when it is first asked for. Maps in it are read-only too, and lists are tuples. What the source
    does not say is left out: `find` gives None for it.
    """

    __slots__ = ("_coordinates", "_decoded", "_parts")

    def __init__(self, parts: Mapping[str, bytes], coordinates: Mapping[str, float | None]) -> None:
        """``parts`` are values of `mmdb` by their keys; ``coordinates`` the degrees that are not among them."""
        self._parts = parts
        self._coordinates = coordinates
        self._decoded: dict[str, Any] = {}

    @classmethod
    def made(cls, tree: Mapping[str, Any]) -> "Record":
        """A record of values that are there already."""
        found = cls(dict.fromkeys(tree, b""), {})
        found._decoded = {key: _read_only(value) for key, value in tree.items()}
        return found

    def __getitem__(self, key: str) -> Any:
        if key not in self._decoded:
            self._decoded[key] = _read_only(self._decode(key))
        return self._decoded[key]

    def _decode(self, key: str) -> Any:
        part = self._parts[key]
        try:
            found = mmdb.plain(part)
        except mmdb.BadValueError as error:
            raise IndexDamagedError(f"the part {key} of a record: {error}: the index file is damaged") from error
        if key == "location" and isinstance(found, dict):
            for name in _COORDINATES:
                if found.get(name) != found.get(name):
                    found[name] = self._coordinates[name]
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __repr__(self) -> str:
        return f"<Record {self.as_dict()!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Record.made, (self.as_dict(),)

    def with_traits(self, facts: Mapping[str, Any]) -> "Record":
        """The same with the facts of a network under ``traits``."""
        found = Record({**self._parts, TRAITS: b""}, self._coordinates)
        found._decoded = {**self._decoded, TRAITS: facts}
        return found

    def find(self, path: str) -> Any:
        """What stands at a path (``location.time_zone``, ``subdivisions.0.names.en``), or None."""
        found: Any = self
        for key in path.split("."):
            if isinstance(found, Mapping):
                found = found.get(key)
            elif isinstance(found, tuple) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            else:
                return None
        return found

    def as_dict(self) -> dict[str, Any]:
        """All of it, in dictionaries and lists of the caller's own."""
        return {key: _own(value) for key, value in self.items()}


def _read_only(value: Any) -> Any:
    if isinstance(value, dict):
        return MappingProxyType({key: _read_only(each) for key, each in value.items()})
    return tuple(map(_read_only, value)) if isinstance(value, list) else value


def _own(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _own(each) for key, each in value.items()}
    return list(map(_own, value)) if isinstance(value, tuple) else value


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The paths of a record as a dictionary (see `Record.as_dict`) with what stands there."""
    members = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in members:
        if isinstance(value, dict | list):
            yield from leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def record_of(reader: "IndexReader", number: int) -> Record:
    """The record of a place that has a number in one layer's file.

    :raises IndexDamagedError: if the file is damaged there
    """
    slot, parts = reader.slot_of_record(number), reader.parts(number)
    if slot == EMPTY:
        return Record(parts, dict.fromkeys(_COORDINATES))
    place = geolocation_of(reader.location(slot))
    if not parts:
        ours = (reader.record_part(number, OURS) if reader.layer == "custom" else None) or {}
        return Record.made(made(place, "city", zone=ours.get("time_zone")) | ({OURS: ours} if ours else {}))
    return Record(parts, {name: getattr(place, name) for name in _COORDINATES})


def made(place: Geolocation, detail: Detail, *, zone: str | None = None) -> dict[str, Any]:
    """A record of the fields of a geolocation; of a custom one it has what our tables know of its country, too.

    ``zone`` is the time zone of a site, if it has one.
    """
    own = place.layer == "custom"
    found: dict[str, Any] = {**of_country(place.country, whole=own)}
    if detail == "city":
        if place.region:
            is_code = REGION_CODE.fullmatch(place.region)
            found["subdivisions"] = [{"iso_code": place.region} if is_code else {"names": {"en": place.region}}]
        if place.city:
            found["city"] = {"names": {"en": place.city}}
        if place.postalcode:
            found["postal"] = {"code": place.postalcode}
        location: dict[str, Any] = {
            name: degrees
            for name, degrees in (("latitude", place.latitude), ("longitude", place.longitude))
            if degrees is not None and not math.isnan(degrees)
        }
        if code := metro_code(place.dmacode or ""):
            location["metro_code"] = code
        if own and (zone := zone or zone_of(place.country)):
            location["time_zone"] = zone
        if location:
            found["location"] = location
    return found


def of_country(text: str | None, *, whole: bool = False) -> dict[str, Any]:
    """The members ``country`` and ``continent`` of a record of a country, as far as our tables know it.

    With ``whole`` they have names in eight languages, and GeoNames ids.
    """
    if not text:
        return {}
    code = in_capitals(text)
    country: dict[str, Any] = {"iso_code": code}
    known = countries().get(code)
    if known is None:
        return {"country": country}
    if known.in_eu:
        country["is_in_european_union"] = True
    country["names"] = {"en": known.name}
    continent: dict[str, Any] = {"code": known.continent, "names": {"en": CONTINENTS[known.continent]}}
    if whole:
        for kind, found, key in (("country", country, code), ("continent", continent, known.continent)):
            table = named()[kind, key]
            found |= {"geoname_id": table.geoname_id, "names": table.names}
    return {"country": country, "continent": continent}


def zone_of(country: str | None) -> str:
    """The time zone of a country that has only one, else empty."""
    known = named().get(("country", in_capitals(country or "")))
    return "" if known is None else known.time_zone


def metro_code(text: str) -> int:
    """The number that a DMA code is, or 0 if it cannot be a metro code."""
    number = int(text) if _METRO_CODE.fullmatch(text) else 0
    return number if number <= _MOST_METRO else 0
