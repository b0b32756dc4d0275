"""Values of MaxMind DBs: read, made self-contained and written, against maxminddb's own decoder."""

import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from maxminddb.decoder import Decoder

from geolookup.index import mmdb


def leaf(kind: int, content: bytes, size: int | None = None) -> bytes:
    """A value by hand, for those that the encoder does not write."""
    size = len(content) if size is None else size
    assert size < 29
    return (bytes((kind << 5 | size,)) if kind < 8 else bytes((size, kind - 7))) + content


LEAVES: st.SearchStrategy[bytes] = st.one_of(
    st.text(max_size=40).map(mmdb.text),
    st.text(min_size=280, max_size=300).map(mmdb.text),
    st.floats(allow_nan=False).map(mmdb.double),
    st.floats(width=32, allow_nan=False).map(mmdb.single),
    st.integers(0, (1 << 16) - 1).map(mmdb.uint16),
    st.integers(0, (1 << 32) - 1).map(mmdb.uint32),
    st.integers(0, (1 << 64) - 1).map(mmdb.uint64),
    st.booleans().map(mmdb.boolean),
    st.integers(-(1 << 31), (1 << 31) - 1).map(lambda value: leaf(8, struct.pack(">i", value))),
    st.binary(max_size=16).map(lambda content: leaf(10, content)),
    st.binary(max_size=28).map(lambda content: leaf(4, content)),
)


def nested(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    maps = st.dictionaries(st.text(max_size=5), inner, max_size=4)
    return st.one_of(
        st.lists(inner, max_size=40).map(mmdb.array_of),
        maps.map(lambda members: mmdb.map_of((mmdb.text(key), value) for key, value in members.items())),
    )


VALUES = st.recursive(LEAVES, nested, max_leaves=20)


def theirs(octets: bytes, at: int = 0) -> Any:
    return Decoder(octets).decode(at)[0]


@given(VALUES)
def test_a_self_contained_value_is_read_as_maxminddb_reads_it_and_is_its_own_octets(octets: bytes) -> None:
    found = mmdb.Section(octets).at(0)
    assert repr(found.plain) == repr(theirs(octets)) == repr(mmdb.plain(octets))
    assert found.octets == octets


@given(VALUES, st.integers(0, 200_000))
@example(b"\x43abc", 0)
@example(b"\x43abc", 2048)
@example(b"\x43abc", 526_336)
def test_a_pointer_becomes_what_it_leads_to(octets: bytes, padding: int) -> None:
    key = mmdb.text("of several")
    section = bytes(padding) + key + octets
    whole = len(section)
    section += mmdb.map_of([(mmdb.pointer(padding), mmdb.pointer(padding + len(key))), (mmdb.text("x"), octets)])
    found = mmdb.Section(section).at(whole)
    assert repr(found.plain) == repr(theirs(section, whole))
    assert found.octets == mmdb.map_of([(key, octets), (mmdb.text("x"), octets)])
    assert {name: value.octets for name, value in mmdb.Section(section).members(whole).items()} == {
        "of several": octets,
        "x": octets,
    }


def test_a_key_that_comes_twice_has_its_last_value_as_maxminddb_has_it() -> None:
    octets = mmdb.map_of([(mmdb.text("a"), mmdb.uint16(1)), (mmdb.text("a"), mmdb.uint16(2))])
    assert mmdb.Section(octets).at(0)[:2] == ({"a": 2}, mmdb.map_of([(mmdb.text("a"), mmdb.uint16(2))]))
    assert theirs(octets) == {"a": 2}


@given(VALUES, st.integers(0, 400))
def test_a_value_that_was_cut_short_is_refused(octets: bytes, cut: int) -> None:
    if cut < len(octets):
        with pytest.raises(mmdb.BadValueError):
            mmdb.plain(octets[:cut])


@given(st.binary(max_size=60), st.integers(0, 60))
def test_any_octets_are_a_value_or_are_refused(octets: bytes, at: int) -> None:
    for read in (mmdb.Section(octets).at, mmdb.Section(octets).members):
        try:
            found = read(at)
        except mmdb.BadValueError:
            continue
        assert isinstance(found, mmdb.Value | dict)


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(mmdb.pointer(0), id="a pointer to itself"),
        pytest.param(mmdb.pointer(2) + mmdb.pointer(4) + mmdb.uint16(1), id="a pointer to a pointer"),
        pytest.param(mmdb.pointer(9), id="a pointer out of the data"),
        pytest.param(b"\xe1" + mmdb.pointer(0) + mmdb.uint16(1), id="a map in itself"),
        pytest.param(b"\x01\x04" * 100, id="arrays a hundred deep"),
        pytest.param(mmdb.map_of([(mmdb.uint16(1), mmdb.uint16(1))]), id="a number as a key"),
        pytest.param(leaf(14, b"", 2), id="a boolean of 2"),
        pytest.param(leaf(5, b"\1\2\3"), id="a uint16 of three bytes"),
        pytest.param(leaf(3, b"1234"), id="a double of four bytes"),
        pytest.param(leaf(12, b""), id="a cache"),
        pytest.param(leaf(2, b"\xff"), id="text that is not UTF-8"),
    ],
)
def test_what_cannot_be_is_refused(octets: bytes) -> None:
    with pytest.raises(mmdb.BadValueError):
        mmdb.Section(octets).at(0)


def test_pointers_cannot_make_a_value_without_bound() -> None:
    """Each of these arrays has the one before it sixteen times."""
    section, last = mmdb.text("a text that is long enough"), 0
    for _ in range(12):
        at = len(section)
        section += mmdb.array_of([mmdb.pointer(last)] * 16)
        last = at
    with pytest.raises(mmdb.BadValueError, match=r"more than 1,048,576 bytes"):
        mmdb.Section(section).at(last)
