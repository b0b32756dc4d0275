"""The answers of the reader for ``geoip2``: objects of its models, whose attributes are made when asked for.

Each class derives from the one of ``geoip2.models`` that it stands for, and has its name: its objects are equal to
upstream's own of the same content, and a copy or pickle of one is upstream's own.
"""

from collections.abc import Callable, Sequence
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import geoip2.errors
import geoip2.models
import geoip2.records

from geolookup.compat.maxminddb import longer
from geolookup.lookup.record import TRAITS
from geolookup.model.addresses import parse

if TYPE_CHECKING:
    from geolookup.compat.maxminddb import IPAddress
    from geolookup.compat.served import Answer

_T = TypeVar("_T")
#: Finds out the length of the network around the address, which takes longer than all else.
Length = Callable[[], int]


class _Lazy:
    """An object of upstream's class ``_its``, as far as it was asked for."""

    _its: ClassVar[type[Any]]

    def _whole(self) -> Any:
        """All of it, as an object of upstream's."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = self._whole().to_dict()
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, self._its) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self._whole())

    def __repr__(self) -> str:
        return repr(self._whole())

    def __reduce_ex__(self, _protocol: Any) -> tuple[Any, ...]:
        return _with, (self._its, vars(self._whole()))


class _Measured:
    """The length of a network, which upstream sets to None here, and needs once the network is asked for."""

    _its: ClassVar[type[Any]]
    _length: Length

    def _take(self, length: None) -> None:
        assert length is None

    _prefix_len: Any = property(lambda its: its._length(), _take)


class _OfNetwork(_Lazy, _Measured):
    """An answer with an address and its network. Both are made of numbers; upstream reads them from text."""

    _ip_address: Any
    _network: Any

    @property
    def ip_address(self) -> Any:
        found = self._ip_address
        if type(found) is str:
            found = self._ip_address = ip_address(found) if ":" in found else IPv4Address(parse(found)[1])
        return found

    @property
    def network(self) -> Any:
        found = self._network
        if found is None:
            address, length = self.ip_address, self._length()
            of_family, bits = (IPv4Network, 32) if type(address) is IPv4Address else (IPv6Network, 128)
            found = self._network = of_family((int(address) >> bits - length << bits - length, length))
        return found

    def _whole(self) -> Any:
        network = self.network
        values = {name: value for name, value in vars(self).items() if name != "_length"}
        return _with(self._its, {**values, "_network": network, "_prefix_len": network.prefixlen})


def _with(its: type[Any], values: dict[str, Any]) -> Any:
    found = object.__new__(its)
    vars(found).update(values)
    return found


def _stands_for(its: type[Any]) -> Callable[[type[_T]], type[_T]]:
    def named(found: type[_T]) -> type[_T]:
        for name, value in (("_its", its), *((name, getattr(its, name)) for name in _NAMES)):
            setattr(found, name, value)
        return found

    return named


_NAMES = ("__name__", "__qualname__", "__module__", "__doc__")


@_stands_for(geoip2.records.Traits)
class _Traits(_OfNetwork, geoip2.records.Traits):
    def __init__(self, facts: dict[str, Any], address: "IPAddress", length: Length) -> None:
        if facts:
            geoip2.records.Traits.__init__(self, **{**facts, "ip_address": address, "network": None})
            self._length = length
        else:
            self.__dict__ = {**_NO_TRAITS, "_ip_address": address, "_length": length}


#: Without facts, as it is for most, all traits are as they are here.
_NO_TRAITS = {name: value for name, value in vars(geoip2.records.Traits()).items() if name != "_prefix_len"}


_new = object.__new__
_NOTHING: Final[dict[str, Any]] = {}


class _Part:
    """An attribute of a place: a part of its record, made when it is first asked for."""

    def __init__(self, make: Callable[["_Place", str], Any]) -> None:
        """``make`` makes it of the place and the key of the part."""
        self._make = make

    def __set_name__(self, _owner: type[Any], name: str) -> None:
        self._name = name

    def __get__(self, place: "_Place | None", _owner: type[Any]) -> Any:
        if place is None:
            return self
        name = self._name
        found = self._make(place, name)
        setattr(place, name, found)  # from now on it is found there, before this
        return found


class _Named(_Part):
    """One with names in several languages, which many places share: made by itself, since most are asked for this."""

    def __init__(self, record: type[Any]) -> None:
        def shape(part: dict[str, Any]) -> dict[str, Any]:
            values: dict[str, Any] = vars(record((), **part))
            return values

        self._record = record
        self._shape = shape
        self._without: dict[str, Any] = vars(record(()))

    def __get__(self, place: "_Place | None", _owner: type[Any]) -> Any:
        if place is None:
            return self
        name = self._name
        found = _new(self._record)
        values = place._answer.shaped(name, self._shape) or self._without
        found.__dict__ = {**values, "_locales": place._locales, "names": values["names"].copy()}
        setattr(place, name, found)
        return found


def _plain(record: type[Any]) -> Any:
    """A record without names."""
    without = vars(record())

    def make(place: "_Place", key: str) -> Any:
        part = place._answer.part(key)
        if part is not None:
            return record(**part)
        found = _new(record)
        found.__dict__ = without.copy()
        return found

    return _Part(make)


def _city(place: "_Place", key: str) -> Any:
    return geoip2.records.City(place._locales, **(place._answer.part(key) or _NOTHING))


def _location(place: "_Place", key: str) -> Any:
    found = geoip2.records.Location(**(place._answer.part(key) or _NOTHING))
    if found.latitude != found.latitude or found.longitude != found.longitude:
        found.latitude, found.longitude = place._answer.coordinates(found.latitude, found.longitude)
    return found


def _divided(part: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [vars(geoip2.records.Subdivision((), **each)) for each in part]


def _named(record: type[Any], values: dict[str, Any], locales: Sequence[str]) -> Any:
    found = _new(record)
    found.__dict__ = {**values, "_locales": locales, "names": values["names"].copy()}
    return found


def _subdivisions(place: "_Place", key: str) -> Any:
    locales = place._locales
    every = place._answer.shaped(key, _divided) or ()
    found = tuple.__new__(
        geoip2.records.Subdivisions, [_named(geoip2.records.Subdivision, values, locales) for values in every]
    )
    found._locales = locales
    return found


def _traits(place: "_Place", _key: str) -> Any:
    # Nothing of the place, which holds these traits: what holds itself is freed late.
    return _Traits(place._answer.facts(), place._address, partial(_length, place._answer, place._address))


def _length(answer: "Answer", address: "IPAddress") -> int:
    return answer.length() + longer(answer.at[0], address)


class _Place(_Lazy):
    _locales: Any
    #: The attributes, in upstream's order.
    _parts: ClassVar[tuple[str, ...]] = (
        *("continent", "country", "registered_country", "represented_country", "maxmind"),
        "traits",
    )

    def __init__(self, locales: Sequence[str], address: "IPAddress", answer: "Answer") -> None:
        self._locales = locales
        self._address = address
        self._answer = answer

    def _whole(self) -> Any:
        values = {name: getattr(self, name) for name in self._parts}
        values[TRAITS] = values[TRAITS]._whole()
        return _with(self._its, {"_locales": self._locales, **values})

    continent = _Named(geoip2.records.Continent)
    country = _Named(geoip2.records.Country)
    registered_country = _Named(geoip2.records.Country)
    represented_country = _Named(geoip2.records.RepresentedCountry)
    maxmind = _plain(geoip2.records.MaxMind)
    traits = _Part(_traits)


class _City(_Place):
    _parts = (*_Place._parts, "city", "location", "postal", "subdivisions")

    city = _Part(_city)
    location = _Part(_location)
    postal = _plain(geoip2.records.Postal)
    subdivisions = _Part(_subdivisions)


@_stands_for(geoip2.models.Country)
class Country(_Place, geoip2.models.Country):
    pass


@_stands_for(geoip2.models.City)
class City(_City, geoip2.models.City):
    pass


@_stands_for(geoip2.models.Enterprise)
class Enterprise(_City, geoip2.models.Enterprise):
    pass


class _Simple(_OfNetwork):
    def __init__(self, address: "IPAddress", facts: dict[str, Any], length: Length) -> None:
        self._length = length
        self._its.__init__(self, **{**facts, "ip_address": address, "network": None, "prefix_len": None})


@_stands_for(geoip2.models.ASN)
class ASN(_Simple, geoip2.models.ASN):
    pass


@_stands_for(geoip2.models.ISP)
class ISP(_Simple, geoip2.models.ISP):
    pass


@_stands_for(geoip2.models.ConnectionType)
class ConnectionType(_Simple, geoip2.models.ConnectionType):
    pass


@_stands_for(geoip2.models.Domain)
class Domain(_Simple, geoip2.models.Domain):
    pass


@_stands_for(geoip2.models.AnonymousIP)
class AnonymousIP(_Simple, geoip2.models.AnonymousIP):
    pass


@_stands_for(geoip2.models.AnonymousPlus)
class AnonymousPlus(_Simple, geoip2.models.AnonymousPlus):
    pass


@_stands_for(geoip2.errors.AddressNotFoundError)
class AddressNotFoundError(_Measured, geoip2.errors.AddressNotFoundError):
    """Upstream's error, whose network is found out when it is asked for."""

    def __init__(self, message: str, address: str, length: Length) -> None:
        self._length = length
        super().__init__(message, address)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._its, (*self.args, self.ip_address, self._prefix_len)
