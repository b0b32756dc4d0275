"""Text that people ask with: an address in a log or a table, a range, the names of fields.

Lookups themselves read strictly (`addresses.parse`). Readers of files ask here about text that lookups refuse: an
address with a port, brackets, quotes or blanks, or in a list of proxies.
"""

import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from geolookup.model.addresses import no_address, parse, parse_range, range_ends
from geolookup.model.errors import InvalidAddressError

if TYPE_CHECKING:
    from geolookup.model.addresses import Family

from collections.abc import Iterable, Sequence

from geolookup.model.errors import ColumnError

#: Which addresses of a list are meant: the client (as it says itself), the last proxy's peer, or each.
Pick: TypeAlias = Literal["first", "last", "all"]

#: What logs write if there is no address.
_NONE: Final = frozenset({"", "-", "unknown"})
_QUOTES: Final = ('"', "'")
_BRACKETS: Final = (("[", "]"), ("(", ")"), ("<", ">"))
_HOST_AND_PORT: Final = re.compile(r"(?: \[ ([^\[\]]+) \] | ([0-9.]+) ) : ([0-9]{1,5})", re.VERBOSE | re.ASCII)
_MAX_PORT: Final = 65535


def read_field(text: str, pick: Pick = "first") -> list[str]:
    """The addresses that a field means: none if it is empty or "-", more than one only if ``pick`` is "all".

    A list has commas between its entries, as in ``X-Forwarded-For``; entries without an address are passed over.

    :raises InvalidAddressError: if what is picked is not an address
    """
    entries = [entry for entry in map(_bare, _bare(text).split(",")) if entry not in _NONE]
    if pick != "all":
        entries = entries[:1] if pick == "first" else entries[-1:]
    return [_address(entry) for entry in entries]


def _bare(text: str) -> str:
    """The text without blanks around it, and without quotes around that."""
    text = text.strip()
    while len(text) > 1 and text[0] in _QUOTES and text[-1] == text[0]:
        text = text[1:-1].strip()
    return text


def _address(text: str) -> str:
    """The address of one entry, without its port, brackets or the length of its own network."""
    bare = text
    if (found := _HOST_AND_PORT.fullmatch(text)) and int(found[3]) <= _MAX_PORT:
        bare = found[1] or found[2]
    else:
        for opening, closing in _BRACKETS:
            if text.startswith(opening) and text.endswith(closing):
                bare = text[1:-1].strip()
        bare = bare.removesuffix("/128" if ":" in bare else "/32")
    try:
        parse(bare)
    except InvalidAddressError:
        raise no_address(text) from None
    return bare


def read_range(text: str) -> "tuple[Family, int, int] | None":
    """The range that a text means: a network, or two addresses with a hyphen between them; None for other text.

    :raises InvalidAddressError: if an end is not an address
    :raises InvalidRangeError: if the two make no range, or the network has host bits
    """
    first, last = range_ends(text)
    return parse_range(first, last) if "/" in text or (last is not None and "-" in text) else None


def checked_fields(fields: str | Iterable[str], known: Sequence[str], *, paths: bool = False) -> tuple[str, ...]:
    """The fields as asked for, of those that are ``known``: names, or one text of names with commas between them.

    With ``paths`` a name with a dot in it is one too: what stands there in the record.

    :raises ColumnError: if one is unknown or named twice, or none is given
    """
    names = tuple(name.strip() for name in fields.split(",")) if isinstance(fields, str) else tuple(fields)
    for name in names:
        if name not in known and not (paths and "." in name):
            raise ColumnError(f"unknown field {name!r:.60}: the fields are {', '.join(known)}")
    if not names or len(set(names)) != len(names):
        raise ColumnError("name at least one field, and each only once")
    return names
