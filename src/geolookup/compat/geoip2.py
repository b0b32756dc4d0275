"""``geoip2.database`` on a state: ``from geolookup.compat.geoip2 import Reader``. Needs the extra ``geoip2``."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from maxminddb import MODE_AUTO, MODE_FD, MODE_FILE, MODE_MEMORY, MODE_MMAP, MODE_MMAP_EXT

from geolookup.compat import maxminddb
from geolookup.compat.kinds import NETWORK_KINDS
from geolookup.compat.served import Answer, Piece, prefix_length
from geolookup.model.errors import MissingExtraError

try:
    import geoip2.models

    from geolookup.compat import models
except ImportError as error:
    raise MissingExtraError(
        "geolookup.compat.geoip2 needs the extra geoip2: pip install 'geolookup[geoip2]'"
    ) from error

if TYPE_CHECKING:
    from maxminddb.reader import Metadata

    from geolookup.compat.maxminddb import IPAddress
    from geolookup.compat.served import Served
    from geolookup.model.addresses import Family

__all__ = [
    "MODE_AUTO",
    "MODE_FD",
    "MODE_FILE",
    "MODE_MEMORY",
    "MODE_MMAP",
    "MODE_MMAP_EXT",
    "Reader",
]

_M = TypeVar("_M")

#: Of each method for networks, the kind of database that it reads, and the keys of its answers.
_KINDS: Final[dict[str, tuple[str, frozenset[str]]]] = {
    "asn": ("GeoLite2-ASN", NETWORK_KINDS["GeoLite2-ASN"]),
    "isp": ("GeoIP2-ISP", NETWORK_KINDS["GeoIP2-ISP"] | NETWORK_KINDS["GeoLite2-ASN"]),
    "connection_type": ("GeoIP2-Connection-Type", NETWORK_KINDS["GeoIP2-Connection-Type"]),
    "domain": ("GeoIP2-Domain", NETWORK_KINDS["GeoIP2-Domain"]),
    "anonymous_ip": ("GeoIP2-Anonymous-IP", NETWORK_KINDS["GeoIP2-Anonymous-IP"]),
    "anonymous_plus": (
        "GeoIP-Anonymous-Plus",
        NETWORK_KINDS["GeoIP-Anonymous-Plus"] | NETWORK_KINDS["GeoIP2-Anonymous-IP"],
    ),
}


class Reader:
    """A state directory with the methods of ``geoip2.database.Reader``.

    Answers are objects of the classes of ``geoip2.models``, and errors those of ``geoip2.errors``. What is published
    and edited is answered within a second, without opening it again. Threads and forked children may share one.

    Each method takes an address as text, or an object of ``ipaddress``.

    :raises TypeError: if no source of the state is of the method's kind
    :raises geoip2.errors.AddressNotFoundError: if no source of that kind says anything of the address; ``network`` is
        the largest around it of which that is so
    :raises ValueError: if the address is malformed, or the reader is closed
    """

    def __init__(
        self,
        fileish: str | bytes | os.PathLike[Any] | None = None,
        locales: Sequence[str] | None = None,
        mode: int = MODE_AUTO,
    ) -> None:
        """
        :param fileish: the state directory; None for that of the settings
        :param locales: the languages of ``name`` (``de``, ``en``, ``es``, ``fr``, ``ja``, ``pt-BR``, ``ru``,
            ``zh-CN``), of which the first counts that a record has; None for English
        :param mode: is taken as upstream takes it, and changes nothing

        The errors are those of `maxminddb.open_database`.
        """
        self._db_reader = maxminddb.open_database(fileish, mode)
        self._locales = ["en"] if locales is None else locales

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def country(self, ip_address: "IPAddress") -> "geoip2.models.Country":
        """The country of an address."""
        return self._place("Country", models.Country, ip_address)

    def city(self, ip_address: "IPAddress") -> "geoip2.models.City":
        """The place of an address."""
        return self._place("City", models.City, ip_address)

    def enterprise(self, ip_address: "IPAddress") -> "geoip2.models.Enterprise":
        """The place of an address, with how sure it is."""
        return self._place("Enterprise", models.Enterprise, ip_address)

    def asn(self, ip_address: "IPAddress") -> "geoip2.models.ASN":
        """The autonomous system of an address."""
        return self._network("asn", models.ASN, ip_address)

    def isp(self, ip_address: "IPAddress") -> "geoip2.models.ISP":
        """The internet service provider of an address."""
        return self._network("isp", models.ISP, ip_address)

    def connection_type(self, ip_address: "IPAddress") -> "geoip2.models.ConnectionType":
        """How an address is connected."""
        return self._network("connection_type", models.ConnectionType, ip_address)

    def domain(self, ip_address: "IPAddress") -> "geoip2.models.Domain":
        """The domain of an address."""
        return self._network("domain", models.Domain, ip_address)

    def anonymous_ip(self, ip_address: "IPAddress") -> "geoip2.models.AnonymousIP":
        """Whether an address is of an anonymous network, and of which kind."""
        return self._network("anonymous_ip", models.AnonymousIP, ip_address)

    def anonymous_plus(self, ip_address: "IPAddress") -> "geoip2.models.AnonymousPlus":
        """The same, with the provider, when it was last seen, and how sure that is."""
        return self._network("anonymous_plus", models.AnonymousPlus, ip_address)

    def metadata(self) -> "Metadata":
        """What the data say of themselves, as a database: of a state of one file what that says."""
        return self._db_reader.metadata()

    def close(self) -> None:
        """Release the files. Answers stay as they are."""
        self._db_reader.close()

    def _place(self, kind: str, model: Callable[..., _M], address: "IPAddress") -> _M:
        answer = self._db_reader.answer(address)
        served = answer.served
        if kind not in served.type:
            raise _wrong(kind.lower(), served)
        if answer.place is not None or answer.has_place:
            return model(self._locales, address, answer)

        def piece(family: "Family", value: int) -> Piece:
            key, first, last = served.whole_piece(family, value)
            known = key is not None and Answer(served, key[0], key[1], (family, value)).has_place
            return known or None, first, last

        raise _not_found(address, partial(_length, piece, answer.at, address))

    def _network(self, method: str, model: Callable[..., _M], address: "IPAddress") -> _M:
        answer = self._db_reader.answer(address)
        served = answer.served
        kind, keys = _KINDS[method]
        if kind not in served.type:
            raise _wrong(method, served)

        def piece(family: "Family", value: int) -> Piece:
            record, first, last = served.network_piece(family, value)
            return Answer(served, None, record, (family, value)).facts(keys) or None, first, last

        length = partial(_length, piece, answer.at, address)
        facts = answer.facts(keys)
        if not facts:
            raise _not_found(address, length)
        return model(address, facts, length)


def _wrong(method: str, served: "Served") -> TypeError:
    return TypeError(f"The {method} method cannot be used with the {served.type} database")


def _length(piece: "Callable[[Family, int], Piece]", at: "tuple[Family, int]", address: "IPAddress") -> int:
    return prefix_length(piece, *at) + maxminddb.longer(at[0], address)


def _not_found(address: "IPAddress", length: "Callable[[], int]") -> Exception:
    return models.AddressNotFoundError(f"The address {address} is not in the database.", str(address), length)
