"""Dotted quads that are read 16 characters at once: what the reference parser says of each, and of all that is near."""

import itertools
from collections.abc import Iterable

import pytest

from geolookup.index.native import accelerator
from geolookup.model import addresses
from geolookup.model.errors import InvalidAddressError

native = accelerator()
pytestmark = pytest.mark.skipif(
    native is None or not native.go_wide(True), reason="no accelerator, or a processor without AVX2 or NEON"
)

#: Parts of one, two and three digits.
PARTS = ("7", "42", "199")


def reference(text: bytes) -> tuple[int, int, int] | None:
    try:
        family, value = addresses.parse(str(text, "utf-8"))
    except (InvalidAddressError, UnicodeDecodeError):
        return None
    return family, value >> 64, value & 2**64 - 1


def check(texts: Iterable[bytes]) -> int:
    """Compare each, at the end of a buffer and amid others; returns how many are addresses."""
    assert native is not None
    good = 0
    for text in texts:
        expected = reference(text)
        good += expected is not None
        assert native.parse_in(text, 0, len(text)) == expected, text
        assert native.parse_in(b"5." + text + b".0123456789.0.0", 2, 2 + len(text)) == expected, text
    return good


def test_every_part_in_every_place_beside_parts_of_any_length() -> None:
    digits = [f"{number:0{width}}" for width in (1, 2, 3) for number in range(10**width)]
    for place in range(4):
        texts = (
            ".".join([*others[:place], part, *others[place:]]).encode()
            for others in itertools.product(PARTS, repeat=3)
            for part in digits
        )
        assert check(texts) == 27 * 256


def test_every_byte_in_every_place() -> None:
    whole = [".".join(parts).encode() for parts in itertools.product(PARTS, repeat=4)]
    for text in whole[::7]:
        check(
            text[:place] + bytes([byte]) + text[place + more :]
            for place in range(len(text) + 1)
            for byte in range(256)
            for more in (0, 1)
        )


def test_dots_in_all_places() -> None:
    found = check(
        bytes(b".1"[bits >> place & 1] for place in range(length)) for length in range(18) for bits in range(2**length)
        if length < 14 or (length - bits.bit_count()) in (2, 3, 4)
    )  # fmt: skip
    assert found == 3**4


def test_text_outside_the_buffer_is_refused() -> None:
    assert native is not None
    for begin, end in ((-1, 3), (0, 8), (5, 4), (8, 8), (2**62, 2**62)):
        with pytest.raises(ValueError, match="inside"):
            native.parse_in(b"1.2.3.4", begin, end)
