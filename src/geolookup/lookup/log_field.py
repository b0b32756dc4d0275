"""An address as it stands in a log or a table: with a port, brackets, quotes, blanks, or in a list of proxies.

Lookups themselves read strictly (`addresses.parse`). Whoever reads files asks here about text that they refuse.
"""

import re
from typing import Final, Literal, TypeAlias

from geolookup.errors import InvalidAddressError
from geolookup.model.addresses import explain, parse

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
        raise InvalidAddressError(explain(text)) from None
    return bare
