"""The header ``Host``, read as a whole: a good name with anything after it is not a good name."""

import re
from functools import lru_cache

from geolookup.base.text import harmless
from geolookup.model import addresses
from geolookup.model.errors import InvalidAddressError, SettingsError

# RFC 9110, section 7.2: uri-host [":" port]. Of RFC 3986, section 3.2.2, it takes IP addresses and the
# characters of names; a reg-name may also have percent-encoding and sub-delims, but the name of a service has neither.
_HOST = re.compile(
    r"(?:\[(?P<literal>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._~-]+))(?::(?P<port>[0-9]{0,5}))?", re.ASCII
)
_MAX_PORT = 65535
#: Characters: no name of DNS has more than 253.
_LONGEST = 300


def host_of(header: str) -> str | None:
    """The host that a ``Host`` names, without the port; None if the header is malformed.

    Names are in lower case. An address is always in the form of `addresses.to_text`, without brackets. A port
    is not compared with ours: a proxy or a tunnel may have its own.
    """
    return None if len(header) > _LONGEST else _host_of(header)


@lru_cache(maxsize=256)  # a service has few names, and they come with every request
def _host_of(header: str) -> str | None:
    found = _HOST.fullmatch(header)
    if found is None or int(found["port"] or 0) > _MAX_PORT:
        return None
    if found["literal"] is not None:
        return canonical_address(found["literal"]) if ":" in found["literal"] else None
    name = str(found["name"])
    return canonical_address(name) or name.lower()


def allowed_host(name: str) -> str:
    """A name that a service may go by, as `host_of` finds it in a request.

    It is a name or an address, and an IPv6 address may be given without its brackets. A port is refused rather than
    ignored: RFC 9110, section 7.2, has it in ``Host``, but here it is not compared.

    :raises SettingsError: if it is anything else, which could never match a ``Host``
    """
    if (address := canonical_address(name)) is not None:
        return address
    host = host_of(name)
    if host is None:
        raise SettingsError(f"allowed host {harmless(name)!r}: not a host name: give a name like geo.example")
    if _HOST.fullmatch(name)["port"] is not None:  # type: ignore[index]  # `host_of` has matched it
        raise SettingsError(f"allowed host {name!r}: leave out the port: a name is allowed with every port")
    return host


def canonical_address(text: str) -> str | None:
    """An address in the form in which addresses are compared; None if it is not a strict address."""
    try:
        return addresses.to_text(*addresses.parse(text))
    except InvalidAddressError:
        return None
