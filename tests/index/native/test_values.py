"""The accelerator reads values as `mmdb.plain` does, and leaves to it what is none."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.index import mmdb
from tests.index.native.searchers import native, needs_native
from tests.index.test_mmdb_values import VALUES

pytestmark = needs_native


def plain(octets: bytes) -> Any:
    """The value, or None if it is none."""
    try:
        return mmdb.plain(octets)
    except mmdb.BadValueError:
        return None


def natively(octets: bytes) -> Any:
    """The same by the accelerator."""
    return native.part(memoryview(struct.pack("<2i", 0, len(octets))).cast("i"), octets, 0)


@given(VALUES)
def test_a_value_is_that_of_the_reference(octets: bytes) -> None:
    found = natively(octets)
    assert found is not None
    assert repr(found) == repr(mmdb.plain(octets))


@given(VALUES, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3), st.integers(0, 400))
def test_of_damaged_bytes_it_says_what_the_reference_says(
    octets: bytes, changes: list[tuple[int, int]], length: int
) -> None:
    damaged = bytearray(octets)
    for at, value in changes:
        if at < len(damaged):
            damaged[at] = value
    for cut in (bytes(damaged), bytes(damaged[:length]), bytes(damaged) + b"\x40"):
        assert repr(natively(cut)) == repr(plain(cut)), cut


@given(st.binary(max_size=60))
def test_of_any_bytes_it_says_what_the_reference_says(octets: bytes) -> None:
    assert repr(natively(octets)) == repr(plain(octets))


@pytest.mark.parametrize("depth", [63, 64, 65, 5000])
def test_values_inside_each_other_end_somewhere(depth: int) -> None:
    octets = mmdb.text("x")
    for _ in range(depth):
        octets = mmdb.array_of([octets])
    assert repr(natively(octets)) == repr(plain(octets))
    assert (natively(octets) is None) == (depth > 64)


def test_a_key_that_comes_twice_and_what_is_no_bytes_are_no_value() -> None:
    twice = mmdb.map_of([(mmdb.text("a"), mmdb.uint16(1)), (mmdb.text("a"), mmdb.uint16(2))])
    assert natively(twice) is None
    assert natively(mmdb.text(b"\xff")) is None
    assert natively(b"\0\0") is None is plain(b"\0\0")  # an empty map, one byte longer than one is
    with pytest.raises(TypeError):
        native.part(memoryview(b"\0\0"), "text", 0)


NUMBERS = st.integers(0, 6)


@given(st.lists(VALUES, min_size=1, max_size=3), st.lists(NUMBERS, min_size=2, max_size=2), st.data())
def test_all_parts_of_a_record_are_those_that_stand_there(
    parts: list[bytes], said: list[int], data: st.DataObject
) -> None:
    """As an index has them: number 0 is no part, and offsets say where each begins. What leads outside is damage."""
    ends = [0, 0]
    for part in parts:
        ends.append(ends[-1] + len(part))
    damage = data.draw(st.none() | st.tuples(st.integers(0, len(ends) - 1), st.integers(-2, 900)))
    if damage is not None:
        ends[damage[0]] = damage[1]
    octets = b"".join(parts)
    columns = tuple((key, memoryview(bytes([0, number]))) for key, number in zip("ab", said, strict=True))
    offsets = memoryview(struct.pack(f"<{len(ends)}i", *ends)).cast("i")
    wanted: dict[str, Any] | None = {}
    for key, number in zip("ab", said, strict=True):
        inside = number + 1 < len(ends) and 0 <= ends[number] <= ends[number + 1] <= len(octets)
        value = plain(octets[ends[number] : ends[number + 1]]) if inside else None
        if number and (wanted is None or value is None):
            wanted = None
        elif number and wanted is not None:
            wanted[key] = value
    assert repr(native.parts(columns, offsets, octets, 1)) == repr(wanted)
    assert native.parts(columns, offsets, octets, 0) == {}
    for record in (2, -1, 1 << 40):
        assert native.parts(columns, offsets, octets, record) is None
    read = [native.part(offsets, octets, number) is not None for number in range(len(ends))]
    for begin in range(len(ends) + 1):
        assert native.unread(offsets, octets, begin) == next(
            (at for at in range(begin, len(ends)) if not read[at]), begin
        )


def test_keys_that_share_a_place_are_kept_apart() -> None:
    """The accelerator keeps texts of keys by a hash: here are more than places, and longer ones than it keeps."""
    keys = [f"{'long ' * (number % 12)}{number}" for number in range(1000)]
    octets = mmdb.map_of([(mmdb.text(key), mmdb.uint16(number)) for number, key in enumerate(keys)])
    for _ in range(2):
        assert natively(octets) == dict(zip(keys, range(1000), strict=True))
