"""The addresses in text of any kind: the pattern of a candidate, and the pieces in which a stream is searched."""

import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final

from geolookup.model.addresses import parse
from geolookup.model.errors import InvalidAddressError

#: A line is held whole up to this length; what is longer is handled a piece at a time.
PIECE_BYTES: Final = 1 << 20
_BLANKS: Final = (b" ", b"\t", b"\n", b"\r", b"\v", b"\f")

#: What may be an address; `is_address` and `addresses.parse` decide. Letters, digits, points and colons at either side
#: make it part of something longer: a version (lib-1.2.3.4, Chrome/120.0.0.0, 1.2.3.4-rc1), a host name, five numbers.
#: What is not ASCII does not: many languages put no blank between. All repeats are bounded, so no text makes it slow.
#: The first line only makes it faster.
CANDIDATE: Final = re.compile(
    rb"""
    (?= [0-9A-Fa-f:] [0-9A-Fa-f:.] )
    (?<![0-9A-Za-z_.]) (?<![0-9A-Za-z_][/-])
    (?:
        (?<! : ) (?: [0-9A-Fa-f]{0,4} : ){2,7}
        (?: (?: [0-9]{1,3} \. ){3} [0-9]{1,3} | [0-9A-Fa-f]{1,4} | (?<= :: ) )
        (?! [:%] [0-9A-Za-z:] )
    |
        [0-9]{1,3} (?: \. [0-9]{1,3} ){3}
    )
    (?! [0-9A-Za-z_] | [.-] [0-9A-Za-z_] )
    """,
    re.VERBOSE,
)
_HEX: Final = re.compile(rb"[0-9A-Fa-f]")


def pieces(source: BinaryIO) -> Iterator[tuple[bytes, int, bool]]:
    """The lines of a stream, each as soon as it is there: their bytes, their number, and whether to search them.

    A line of more than `PIECE_BYTES` comes in several pieces, none of which ends inside a word. A word that is longer
    than that is not searched, nor is what follows it on its line.
    """
    number = 1
    held = b""
    while data := source.readline(PIECE_BYTES):
        data, held = held + data, b""
        whole = data.endswith(b"\n")
        if not whole and len(data) >= PIECE_BYTES:
            # An address must not be cut in two: what follows the last blank waits for the rest.
            end = max(map(data.rfind, _BLANKS)) + 1
            if not end:
                yield data, number, False
                while data := source.readline(PIECE_BYTES):
                    yield data, number, False
                    if data.endswith(b"\n"):
                        break
                number += 1
                continue
            data, held = data[:end], data[end:]
        yield data, number, True
        number += whole
    if held:
        yield held, number, True


def is_punctuation(token: bytes) -> bool:
    """True if a candidate is ``::``, which is an address, but far more often punctuation."""
    return not _HEX.search(token)


def tokens(data: bytes) -> list[bytes]:
    """Every address in some text, as it stands there, and every dotted quad that is not one, in their order.

    A line may not be cut in two inside a word.
    """
    found = CANDIDATE.findall(data)
    if all(map(_is_six, {token for token in found if b":" in token})):
        return found
    return [token for _, token in _each(data)]


def places_of(data: bytes, wanted: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """The positions in ``data`` of the wanted `tokens`."""
    asked = frozenset(wanted)
    return ((place, token) for place, token in _each(data) if token in asked)


def _each(data: bytes) -> Iterator[tuple[int, bytes]]:
    verdicts: dict[bytes, bool] = {}
    searched = 0
    while found := CANDIDATE.search(data, searched):
        token = found[0]
        good = b":" not in token or verdicts.get(token)
        if good is None:
            good = verdicts[token] = _is_six(token)
        if good:
            searched = found.end()
            yield found.start(), token
        else:
            # What looked like IPv6 can end in an IPv4 address (12:30:00:192.0.2.1): look again inside.
            searched = found.start() + 1


def _is_six(token: bytes) -> bool:
    """True if a candidate with colons is an address: not a time, a hardware address or punctuation."""
    if is_punctuation(token):
        return False
    try:
        parse(token.decode("ascii"))
    except InvalidAddressError:
        return False
    return True
