"""IP addresses as text and as integers, families, inclusive ranges, networks.

Text is read strictly: a dotted quad of four decimal numbers without leading zeros, or RFC 4291 section 2.2 text for
IPv6. An IPv4-mapped IPv6 address (``::ffff:a.b.c.d``, RFC 4291 section 2.5.5.2) is the IPv4 address. This module
stands on the path of ``geolookup 8.8.8.8``, so it imports only what costs nothing: `_socket` holds the C library's own
parser without the 12 ms that `socket` takes to import.
"""

from _socket import AF_INET, AF_INET6, inet_ntop, inet_pton

from geolookup.model.errors import InvalidAddressError, InvalidRangeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal, TypeAlias

    Family: TypeAlias = Literal[4, 6]

IPV4_MAX = (1 << 32) - 1
IPV6_MAX = (1 << 128) - 1
#: The mask of a /8: masks of larger networks are addresses that ranges do end at.
FIRST_NETMASK = 0xFF000000

#: The inclusive ends of 6to4 (RFC 3056). An address there holds an IPv4 address, by which it is answered if no block
#: covers it itself: so did MaxMind DBs always, and a table that covers all of it still says what it means.
SIX_TO_FOUR = (0x2002 << 112, (0x2003 << 112) - 1)
_HELD_BITS = 80

_MAPPED_FIRST = 0xFFFF << 32
_MAPPED_LAST = _MAPPED_FIRST | IPV4_MAX

_from_bytes = int.from_bytes


def _has_leading_zero(text: str) -> bool:
    return any(len(part) > 1 and part[0] == "0" for part in text.rpartition(":")[2].split("."))


def _c_library_reads_leading_zeros() -> bool:
    try:
        inet_pton(AF_INET, "127.0.0.01")
    except OSError:
        return False
    return True


# glibc and musl refuse "010.8.8.8"; the BSD parser (macOS) has not always.
_CHECK_ZEROS = _c_library_reads_leading_zeros()


def c_parser_is_strict() -> bool:
    """True if the parser of C refuses all that `parse` refuses, so that it can be called by itself."""
    for family, text in ((AF_INET, "127.0.0.01"), (AF_INET6, "::127.0.0.01"), (AF_INET6, "fe80::1%lo")):
        try:
            inet_pton(family, text)
        except OSError:
            continue
        return False
    return True


def parse(text: str) -> "tuple[Family, int]":
    """Read an address: (4, value below 2**32) or (6, value below 2**128).

    :raises InvalidAddressError: for anything but strict text, naming it and, if possible, what is wrong
    """
    try:
        if ":" not in text:
            value = _from_bytes(inet_pton(AF_INET, text))
            if _CHECK_ZEROS and _has_leading_zero(text):
                raise no_address(text)
            return 4, value
        value = _from_bytes(inet_pton(AF_INET6, text))
    except (OSError, ValueError):
        raise no_address(text) from None
    except TypeError:
        raise InvalidAddressError(f"an address is text, not {type(text).__name__}: {text!r}") from None
    if "%" in text or (_CHECK_ZEROS and "." in text and _has_leading_zero(text)):
        raise no_address(text)
    if value >> 32 == 0xFFFF:
        return 4, value & IPV4_MAX
    return 6, value


def parse_any(address: object) -> "tuple[Family, int]":
    """Like `parse`, and also takes the address objects of ``ipaddress`` and ``netaddr``.

    All else is refused, ``bool``, ``int`` and ``bytes`` too: an integer does not say its family, and text in bytes is
    a mistake more often than not.
    """
    if isinstance(address, str):
        return parse(address)
    # Told by what they have, since importing either library only to ask costs more than a thousand lookups.
    version = getattr(address, "version", None)
    is_network = hasattr(address, "prefixlen") or hasattr(address, "network")
    if version in (4, 6) and not is_network and not isinstance(address, type):
        if getattr(address, "scope_id", None):
            raise InvalidAddressError(f"{str(address)!r} has a zone: leave out everything from % on")
        packed = getattr(address, "packed", None)
        if isinstance(packed, bytes) and len(packed) == (4 if version == 4 else 16):
            return from_integer(version, _from_bytes(packed))
    kind = type(address).__name__
    raise InvalidAddressError(f"an address is text or an ipaddress or netaddr address, not {kind}: {address!r:.80}")


def from_integer(family: int, value: int) -> "tuple[Family, int]":
    """Check an address given as an integer and its family; an IPv4-mapped one becomes IPv4.

    :raises InvalidAddressError: if the family is not 4 or 6, or the value does not fit it
    """
    if family == 4 and 0 <= value <= IPV4_MAX:
        return 4, value
    if family == 6 and 0 <= value <= IPV6_MAX:
        if _MAPPED_FIRST <= value <= _MAPPED_LAST:
            return 4, value & IPV4_MAX
        return 6, value
    raise InvalidAddressError(f"{value} is not an IPv{family} address")


def held_in(value: int) -> int | None:
    """The IPv4 address that an IPv6 one holds if it is of 6to4, else None."""
    return value >> _HELD_BITS & IPV4_MAX if value >> 112 == 0x2002 else None


def holding(first: int, last: int) -> tuple[int, int]:
    """The inclusive range of 6to4 addresses that hold the IPv4 addresses from ``first`` to ``last``."""
    return SIX_TO_FOUR[0] | first << _HELD_BITS, SIX_TO_FOUR[0] | (last + 1 << _HELD_BITS) - 1


def is_loopback(host: str) -> bool:
    """True if a host is this machine: ``localhost`` (RFC 6761, section 6.3), 127.0.0.0/8 or ::1.

    Any other name is not: what it resolves to may change from one moment to the next.
    """
    if host == "localhost":
        return True
    try:
        family, value = parse(host)
    except InvalidAddressError:
        return False
    return value >> 24 == 127 if family == 4 else value == 1


def to_text(family: int, value: int) -> str:
    """Write an address: a dotted quad, or RFC 5952 text.

    The value must fit the family: it always comes from `parse` or from an index.
    """
    if family == 4:
        return f"{value >> 24}.{value >> 16 & 255}.{value >> 8 & 255}.{value & 255}"
    if 0xFFFF < value <= IPV4_MAX:
        # C libraries still write this space as ::a.b.c.d, a form that RFC 4291 calls deprecated.
        return f"::{value >> 16:x}:{value & 0xFFFF:x}"
    return inet_ntop(AF_INET6, value.to_bytes(16, "big"))


def parse_range(first: str, last: str | None = None) -> "tuple[Family, int, int]":
    """Read an inclusive range: two addresses, or one network (CIDR) or single address as ``first`` alone.

    A range whose two ends are IPv4-mapped is the IPv4 range.

    :raises InvalidAddressError: if an end is not an address
    :raises InvalidRangeError: if the ends are of two families or out of order, if the second is a netmask or its
        inverse, or the network has host bits
    """
    if last is None:
        if "/" not in first:
            family, value = parse(first)
            return family, value, value
        return _parse_network(first)
    low = parse(first)[1]
    try:
        high = parse(last)[1]
    except InvalidAddressError as error:
        if (whole := _with_last_number(first, last)) is not None:
            raise InvalidRangeError(f"{first}-{last} has a number as its last address: write {whole}") from error
        raise
    if low > high or is_netmask(high):  # cheap, for tables of millions of rows
        network = of_mask_after(first, last)
        if network is not None:
            raise InvalidRangeError(f"{last} is a netmask, not the last address of a range: write {network}")
    return parse_ends(first, last)


def parse_ends(first: str, last: str) -> "tuple[Family, int, int]":
    """Read a range that a program wrote by its two ends: `parse_range`, but the second is never a netmask.

    A segment may end just before 255.255.255.255, or an edit of former times at 255.255.0.0.
    """
    (family, low), (other, high) = parse(first), parse(last)
    if family != other:
        raise InvalidRangeError(f"{first} and {last} are not of one family: a range is IPv4 or IPv6")
    if low > high:
        raise InvalidRangeError(f"{first} comes after {last}: give the first address of the range first")
    return family, low, high


def _parse_network(text: str) -> "tuple[Family, int, int]":
    address, _, bits = text.partition("/")
    try:
        family, value = parse(address)
    except InvalidAddressError:
        raise no_address(text) from None
    width = 128 if ":" in address else 32
    if (network_of := of_mask(address, bits)) is not None:
        raise InvalidRangeError(f"{text!r} has a netmask: write {network_of}")
    if not (bits.isascii() and bits.isdecimal() and int(bits) <= width):
        raise InvalidRangeError(f"{text!r} is not a network: after the slash stands a number of bits, 0 to {width}")
    length = int(bits)
    if width == 128 and family == 4:  # a network inside ::ffff:0:0/96
        if length < 96:
            raise InvalidRangeError(f"{text!r} has host bits set: the address does not begin a network of that size")
        length -= 96
    hosts = (1 << (32 if family == 4 else 128) - length) - 1
    if value & hosts:
        raise InvalidRangeError(f"{text!r} has host bits set: did you mean {to_text(family, value & ~hosts)}/{length}?")
    return family, value, value | hosts


_MAX_PORT = 65535
#: What people put between the ends of a range: hyphens and dashes.
_DASHES = dict.fromkeys((0x2010, 0x2011, 0x2012, 0x2013, 0x2014, 0x2015), "-")
#: What people put between blocks: commas and semicolons, and those that Chinese and Japanese keyboards have.
_BETWEEN = dict.fromkeys(map(ord, ",;\uff0c\u3001\uff1b"), "\n")


#: Words that people write between the ends of a range.
_TO = ("to", "till", "until", "through", "bis", "à", "a")


def range_ends(text: str) -> "tuple[str, str | None]":
    """The two ends of a block as people write it: a network, an address, or a range with a dash, blank or "to" between.

    Of any other text the whole, for `parse_range` to say what is wrong with it.
    """
    parts = text.translate(_DASHES).split("-")
    if len(parts) == 1:
        parts = text.split()
        parts = parts[::2] if len(parts) == 3 and parts[1].casefold() in _TO else parts
    return (parts[0].strip(), parts[1].strip()) if len(parts) == 2 else (text.strip(), None)


def split_blocks(text: str) -> list[str]:
    """The text of each of several blocks, with blanks, commas, semicolons or line ends between them.

    A range is in one line, at the beginning of which a dash or an asterisk is the bullet of a list.
    """
    lines = text.translate({**_DASHES, **_BETWEEN}).splitlines()
    if len(lines) != 1:
        return [part for line in lines for part in split_blocks(line)]
    line = lines[0].lstrip()
    line = line[1:] if line[:2] in ("- ", "* ", "\u2022 ", "\u00b7 ") else line
    parts = "-".join(end.strip() for end in line.split("-")).split()
    for at in range(len(parts) - 2, 0, -1):
        if parts[at].casefold() in _TO and is_address(parts[at - 1]) and is_address(parts[at + 1]):
            parts[at - 1 : at + 2] = [f"{parts[at - 1]}-{parts[at + 1]}"]
    return parts


def cidrs(family: int, first: int, last: int) -> "Iterator[tuple[int, int]]":
    """The fewest networks that make up an inclusive range, ascending: the first address and prefix length of each."""
    width = 32 if family == 4 else 128
    while first <= last:
        # As large as the first address is aligned to, and as fits.
        bits = (last - first + 1).bit_length() - 1
        if first:
            bits = min(bits, (first & -first).bit_length() - 1)
        yield first, width - bits
        first += 1 << bits


def network_around(address: str, first: str, last: str) -> str:
    """The largest network inside an inclusive range that holds an address of it, in CIDR form.

    The ends are as `to_text` writes them. If ``address`` is none, the network holds the first.
    """
    family, width = (6, 128) if ":" in first else (4, 32)
    low, high = (_end(text, family) for text in (first, last))
    value = _end(address, family) if is_address(address) else low
    host = 0  # bits
    while host < width and low <= value >> host + 1 << host + 1 and value | (1 << host + 1) - 1 <= high:
        host += 1
    return f"{to_text(family, value >> host << host)}/{width - host}"


def _end(text: str, family: int) -> int:
    """The value of an address of a family; IPv4-mapped space inside a range of IPv6 is IPv6."""
    found, value = parse(text)
    return value if found == family else _MAPPED_FIRST | value


def no_address(text: str) -> InvalidAddressError:
    """The error of a text that is not an address: says why."""
    if not text:
        return InvalidAddressError("an address is missing: the text is empty")
    shown = repr(text if len(text) <= 60 else text[:57] + "...")
    if "%" not in text and text == text.strip() and (known := _known_kind(text)) is not None:
        kind, do = known
        return InvalidAddressError(f"{shown} is {kind}", do=do)
    return InvalidAddressError(f"{shown} is not an IP address{_advice(text)}")


def _advice(text: str) -> str:
    if "%" in text:
        return ": leave out the zone, everything from % on"
    if text != text.strip():
        return ": there are blanks around it"
    address = text.partition("/")[0]
    numbers = address.split(".")
    if all(number.isascii() and number.isdecimal() for number in numbers):
        if len(numbers) == 4 and _has_leading_zero(address):
            return ": write its numbers without leading zeros (some programs read them as octal)"
        if len(numbers) < 4:
            return ": write all four numbers of a dotted quad"
    return ""


def _with_last_number(first: str, last: str) -> str | None:
    """The range that is meant by an IPv4 address and a number in place of the last one, as scanners write it."""
    if not (last.isascii() and last.isdecimal() and len(last) <= 3 and "." in first and is_address(first)):
        return None
    before, _, number = first.rpartition(".")
    return f"{first}-{before}.{int(last)}" if int(number) <= int(last) <= 255 else None


def of_mask(address: str, mask: str) -> str | None:
    """The network of an IPv4 address and a netmask, or the inverse of one as routers write it."""
    if "." not in mask or not is_address(mask) or not is_address(address):
        return None
    (family, value), (other, bits) = parse(address), parse(mask)
    host = bits ^ IPV4_MAX
    if host & (host + 1) or (not bits and value):
        host = bits  # of an inverse mask: 0.0.0.0 is one if it stands after an address
    if family != 4 or other != 4 or host & (host + 1):
        return None
    return f"{to_text(4, value & ~host)}/{32 - host.bit_length()}"


def is_netmask(last: int) -> bool:
    """True if an IPv4 address is a mask of /8 to /31, which people write where the end of a range belongs."""
    host = last ^ IPV4_MAX
    return FIRST_NETMASK <= last < IPV4_MAX and not host & (host + 1)


def of_mask_after(address: str, other: str) -> str | None:
    """The network that two addresses mean, the second of which is a netmask or the inverse of one; else None.

    The same address twice is that address, and 0.0.0.0 to 0.255.255.255 a range.
    """
    network = of_mask(address, other) if address != other else None
    if network is None:
        return None
    low, mask = parse(address)[1], parse(other)[1]
    is_inverse = low > mask > 0 and mask >> 24 == 0
    return network if is_inverse or (low != mask and is_netmask(mask)) else None


def _of_pattern(text: str) -> str | None:
    """The network that is meant by a pattern such as 10.7.*.*, or 10.7.x.x."""
    labels = text.split(".")
    numbers = [label for label in labels if label.isascii() and label.isdecimal() and len(label) <= 3]
    rest = labels[len(numbers) :]
    if not numbers or not rest or len(labels) > 4 or {*rest} - {"*", "x", "X"}:
        return None
    network = ".".join([*numbers, *["0"] * (4 - len(numbers))])
    return f"{network}/{8 * len(numbers)}" if is_address(network) else None


def _known_kind(text: str) -> tuple[str, str] | None:
    """Describe a text that is a URL, a network or range, an e-mail address or a host name, with what to write instead.

    Beside it stands what a command can do with it, if there is one.
    """
    if (network := _of_pattern(text)) is not None:
        return f"a pattern, not an IP address: write {network}", ""
    before, scheme, rest = text.partition("://")
    if scheme and before.isascii() and before.replace("+", "").isalnum():
        host = _host(rest)
        if _is_name(host):
            return _host_name("a URL", "its host", host)
        return f"a URL, not an IP address{f': look up its host, {host}' if is_address(host) else ''}", ""
    first, slash, bits = text.partition("/")
    if slash and is_address(first) and bits.isdecimal() and len(bits) <= len("128"):
        return "a network, not an IP address", f"`geolookup {text}` shows what is in it"
    if slash and (network := of_mask(first, bits)) is not None:
        return f"a network with a netmask, not an IP address: write {network}", ""
    first, last = range_ends(text)
    if last is not None and (network := of_mask_after(first, last)) is not None:
        return f"a network with a netmask, not an IP address: write {network}", ""
    if last is not None and "-" in text:
        if (whole := _with_last_number(first, last)) is not None:
            return f"a range, not an IP address: write {whole}", ""
        if is_address(first) and is_address(last):
            return "a range, not an IP address", f"`geolookup {first}-{last}` shows what is in it"
    user, at, domain = text.rpartition("@")
    if at and user and _is_name(domain):
        told = "an e-mail address, not an IP address: the Received lines of a mail name the addresses that it came from"
        return told, ""
    first, *more = text.split()
    if more and is_address(first):
        return "more than an IP address: leave out what stands after the blank", "in files, `--delimiter space` does"
    host = _host(text)
    before, _, port = text.rpartition(":")
    if before in (host, f"[{host}]") and is_address(host) and port.isdecimal() and int(port) <= _MAX_PORT:
        return f"an address with a port, not an IP address: write {host}", ""
    return _host_name("a host name", "it", host) if _is_name(host) else None


def _host_name(kind: str, what: str, host: str) -> tuple[str, str]:
    told = f"{kind}, not an IP address: resolve {what} first, since lookups ask no name server"
    return told, f"`dig +short {host}` does"


def _host(text: str) -> str:
    """The host of what stands after ``://`` in a URL (RFC 3986, section 3.2)."""
    for end in "/?#":
        text = text.partition(end)[0]
    text = text.rpartition("@")[2]
    if text.startswith("["):
        return text[1:].partition("]")[0]
    name, colon, port = text.partition(":")
    return name if colon and (port.isdecimal() or not port) else text


def is_address(text: str) -> bool:
    """True if a text is an address, as `parse` reads it."""
    try:
        parse(text)
    except InvalidAddressError:
        return False
    return True


def _is_name(text: str) -> bool:
    """True if a text has the form of a host name with a domain, whose last label is never a number (RFC 3696, 2)."""
    labels = text.removesuffix(".").split(".")
    return len(labels) > 1 and labels[-1][:1].isalpha() and all(label.replace("-", "").isalnum() for label in labels)
