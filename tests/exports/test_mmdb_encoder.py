"""The MMDB encoder against maxminddb: every segment's ends and neighbours, whatever the segments are."""

import io
import ipaddress
import itertools
import struct
from pathlib import Path
from typing import Any

import maxminddb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from maxminddb.decoder import Decoder

from geolookup.exports.mmdb import file, tree
from geolookup.exports.segments import Segments
from geolookup.index import mmdb
from geolookup.index.layout import EMPTY
from geolookup.model.addresses import IPV4_MAX, IPV6_MAX
from geolookup.model.errors import DataFileError
from tests.index.native.searchers import native, needs_native

#: (first address, value) of each segment; the value None is a gap.
Starts = list[tuple[int, int | None]]

SIX_TO_FOUR = 0x2002 << 112
MAPPED = 0xFFFF << 32


def family(starts: Starts) -> Segments:
    return Segments(
        np.array([first >> 64 for first, _ in starts], np.uint64),
        np.array([first & (1 << 64) - 1 for first, _ in starts], np.uint64),
        np.array([EMPTY if value is None else value for _, value in starts], np.uint32),
    )


def encoded(four: Starts, six: Starts, records: int = 6, padding: int = 0) -> tuple[bytes, int]:
    """A file whose record ``n`` is the map {"n": n}, and how many segments were left out."""
    section, offsets = b"\0" * padding, []
    for number in range(records):
        offsets.append(len(section))
        section += mmdb.map_of([(mmdb.text("n"), mmdb.uint32(number))])
    space, left_out = tree.with_aliases(family(four), family(six))
    parts = file.encode(
        tree.Tree(space),
        section,
        np.array(offsets, np.int64),
        database_type="Test",
        description={"en": "a test"},
        build_epoch=1_700_000_000,
    )
    return b"".join(parts), left_out


def opened(content: bytes) -> Any:
    return maxminddb.open_database(io.BytesIO(content), maxminddb.MODE_FD)


def value_at(starts: Starts, address: int) -> int | None:
    """The linear scan: the value of the last segment that begins at the address or before it."""
    return [value for first, value in starts if first <= address][-1]


def expected(four: Starts, six: Starts, version: int, address: int) -> int | None:
    if version == 4:
        return value_at(four, address)
    if address <= IPV4_MAX:
        return value_at(four, address)
    if MAPPED <= address <= MAPPED | IPV4_MAX:
        return value_at(four, address & IPV4_MAX)
    if address >> 112 == 0x2002 and value_at(six, address) is None:
        return value_at(four, address >> 80 & IPV4_MAX)
    return value_at(six, address)


def agrees(content: bytes, four: Starts, six: Starts, reader: Any = None) -> None:
    """Every end and neighbour of every segment, of the aliases and of the space."""
    edges6 = [first for first, _ in six] + [0, 1 << 32, MAPPED, MAPPED + (1 << 32), SIX_TO_FOUR, 0x2003 << 112]
    edges6 += [MAPPED | first for first, _ in four] + [SIX_TO_FOUR | first << 80 for first, _ in four]
    asked = [(4, first) for first, _ in four] + [(6, first) for first in edges6]
    with reader or opened(content) as reader:
        for version, edge in asked:
            most = IPV4_MAX if version == 4 else IPV6_MAX
            for address in {max(edge - 1, 0), edge, min(edge + 1, most), most}:
                make = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
                found = reader.get(make(address))
                wanted = expected(four, six, version, address)
                assert (None if found is None else found["n"]) == wanted, make(address)


def starts(width: int) -> st.SearchStrategy[Starts]:
    """Segments whose edges collide: near the ends of networks, of the space and of the aliases."""
    special = [0, 1, 2, (1 << width) - 1, (1 << width) - 2, 1 << (width - 1)]
    if width == 128:
        special += [1 << 32, (1 << 32) - 1, MAPPED, MAPPED + (1 << 32), SIX_TO_FOUR, SIX_TO_FOUR - 1, 0x2003 << 112]
    shifted = st.builds(lambda top, shift: top << shift & (1 << width) - 1, st.integers(0, 7), st.integers(0, width))
    address = st.one_of(st.sampled_from(special), shifted, st.integers(0, (1 << width) - 1))
    values = st.one_of(st.none(), st.integers(0, 5))
    return st.builds(
        lambda first, more: sorted({**more, 0: first}.items()), values, st.dictionaries(address, values, max_size=12)
    )


@given(four=starts(32), six=starts(128))
def test_every_end_and_neighbour_reads_back(four: Starts, six: Starts) -> None:
    agrees(encoded(four, six)[0], four, six)


EDGES: dict[str, tuple[Starts, Starts]] = {
    "nothing": ([(0, None)], [(0, None)]),
    "everything the same": ([(0, 1)], [(0, 1)]),
    "all of IPv4": ([(0, 1)], [(0, None)]),
    "all of IPv6": ([(0, None)], [(0, 1)]),
    "each family its own": ([(0, 1)], [(0, 2)]),
    "a single address": ([(0, None), (7, 1), (8, None)], [(0, None), (IPV6_MAX - 1, 2), (IPV6_MAX, None)]),
    "the last addresses": ([(0, None), (IPV4_MAX, 1)], [(0, None), (IPV6_MAX, 2)]),
    "the first addresses": ([(0, 1), (1, None)], [(0, 3), (1, None)]),
    "every address differs": ([(at, at % 6) for at in range(40)], [(at << 100, at % 6) for at in range(40)]),
    "equal neighbours": ([(0, 1), (9, 1), (10, 2), (17, 2)], [(0, 3), (1 << 90, 3), (1 << 91, 3)]),
}


@pytest.mark.parametrize("mode", [maxminddb.MODE_MMAP_EXT, maxminddb.MODE_MMAP, maxminddb.MODE_MEMORY])
@pytest.mark.parametrize("name", EDGES)
def test_every_reader_of_maxminddb_agrees(name: str, mode: int, tmp_path: Path) -> None:
    """The one in C looks at what the one in Python lets pass."""
    if mode == maxminddb.MODE_MMAP_EXT:
        pytest.importorskip("maxminddb.extension")
    path = tmp_path / "edges.mmdb"
    path.write_bytes(encoded(*EDGES[name])[0])
    agrees(b"", *EDGES[name], maxminddb.open_database(path, mode))


@pytest.mark.parametrize(("bits", "padding"), [(24, 0), (28, 1 << 24), (32, 1 << 28)])
def test_records_are_as_narrow_as_fits(bits: int, padding: int) -> None:
    four: Starts = [(at << 8, at % 6) for at in range(200)]
    six: Starts = [(0, None), *((0x2001 << 112 | at << 60, at % 5) for at in range(100))]
    content, _ = encoded(four, six, padding=padding)
    with opened(content) as reader:
        assert reader.metadata().record_size == bits
    agrees(content, four, six)


def test_the_narrow_limit_is_exact() -> None:
    """The farthest record may stand at 2**24 - 1, and not one further."""
    nodes = opened(encoded([(0, 0), (1, 1)], [(0, None)])[0]).metadata().node_count
    # The record 1 stands behind the padding and record 0, of four bytes.
    fits = (1 << 24) - 1 - nodes - 16 - 4
    for padding, bits in ((fits, 24), (fits + 1, 28)):
        with opened(encoded([(0, 0), (1, 1)], [(0, None)], records=2, padding=padding)[0]) as reader:
            assert (reader.metadata().record_size, reader.get("0.0.0.1")) == (bits, {"n": 1})


def test_what_no_record_can_point_at_is_refused() -> None:
    built = tree.Tree([family([(0, 0), (1, EMPTY)])])
    with pytest.raises(DataFileError, match="limit"):
        built.packed(np.array([1 << 32], np.int64))


@needs_native
@given(four=starts(32), six=starts(128))
def test_the_accelerator_lays_the_tree_of_the_reference(four: Starts, six: Starts) -> None:
    parts, _ = tree.with_aliases(family(four), family(six))
    count = tree.laid(parts, None)
    assert native.tree(parts, None) == count
    found = [np.full(2 * count, 7, np.uint32) for _ in range(2)]
    tree.laid(parts, found[0])
    assert native.tree(parts, found[1]) == count
    assert found[0].tolist() == found[1].tolist()
    if count:
        with pytest.raises(ValueError, match="two records for each node"):
            native.tree(parts, np.zeros(2 * count - 1, np.uint32))


@needs_native
def test_the_accelerator_refuses_what_is_no_segments() -> None:
    hi, lo, value = family([(0, 1), (1 << 64, 2), (5 << 64, 3)])
    for wrong in (
        (hi[::-1].copy(), lo, value),
        (np.zeros(3, np.uint64), lo, value),
        (hi, lo[1:], value),
        (hi[1:], lo, value),
        (hi.view(np.uint8)[4:-4], lo[1:], value[1:]),  # not aligned
        (hi, lo, value[1:]),
    ):
        with pytest.raises(ValueError, match="segments that ascend"):
            native.tree([wrong], None)
    for no_list in ((hi, lo, value), [hi, lo, value], [(hi, lo)], [(hi, lo, "value")], None):
        with pytest.raises((TypeError, BufferError)):
            native.tree(no_list, None)
    with pytest.raises((TypeError, BufferError)):
        native.tree([(hi, lo, value)], bytes(800))
    assert native.tree([], None) == 0


@given(four=starts(32), six=starts(128))
@settings(max_examples=50)
def test_the_tree_is_the_smallest(four: Starts, six: Starts) -> None:
    """No node has two equal records, unless it is the root; and every node is pointed at once, IPv4's three times."""
    content, _ = encoded(four, six)
    with opened(content) as reader:
        count, size = reader.metadata().node_count, reader.metadata().record_size
    assert size == 24
    pairs = [struct.unpack(">3s3s", content[at * 6 : at * 6 + 6]) for at in range(count)]
    values = [(int.from_bytes(left, "big"), int.from_bytes(right, "big")) for left, right in pairs]
    assert count == 1 or all(left != right for left, right in values)
    pointed = sorted(value for pair in values for value in pair if value < count)
    own = sorted(set(pointed))
    assert own == list(range(1, count))
    again = [value for value, group in itertools.groupby(pointed) if len(list(group)) > 1]
    assert again == ([96] if len({value for _, value in four}) > 1 else [])


def test_ipv6_inside_what_is_ipv4s_is_counted() -> None:
    six: Starts = [
        (0, 1),  # inside ::/96
        (10, None),
        (1 << 31, 2),  # begins there and reaches out of it
        (1 << 33, None),
        (MAPPED, 3),  # no lookup ever comes here: not counted
        (MAPPED + 5, None),
        (SIX_TO_FOUR - 1, 4),  # has 6to4 addresses, and comes before IPv4 there
        (SIX_TO_FOUR + 1, 5),
        (SIX_TO_FOUR + 2, None),
        (0x2003 << 112, 1),  # begins behind it
    ]
    content, left_out = encoded([(0, None), (5, 0), (6, None)], six)
    assert left_out == 2
    agrees(content, [(0, None), (5, 0), (6, None)], six)


@pytest.mark.parametrize("size", [0, 1, 28, 29, 284, 285, 65_820, 65_821, 70_000])
def test_texts_of_all_lengths_read_back(size: int) -> None:
    content = mmdb.text("x" * size)
    assert Decoder(content, 0).decode(0) == ("x" * size, len(content))


@pytest.mark.parametrize("place", [0, 2047, 2048, 526_335, 526_336, 134_744_063])
def test_pointers_of_all_lengths_read_back(place: int) -> None:
    buffer = bytearray(place)
    buffer += mmdb.text("there")
    at = len(buffer)
    buffer += mmdb.pointer(place)
    assert Decoder(buffer, 0).decode(at)[0] == "there"


def test_a_pointer_of_five_bytes_has_its_whole_place() -> None:
    assert mmdb.pointer(134_744_064) == b"\x38" + (134_744_064).to_bytes(4, "big")


@pytest.mark.parametrize("number", [0, 1, 255, 256, 65_535])
def test_numbers_read_back(number: int) -> None:
    for make in (mmdb.uint16, mmdb.uint32, mmdb.uint64):
        assert Decoder(make(number), 0).decode(0)[0] == number


def test_other_values_read_back() -> None:
    value = mmdb.map_of(
        [
            (mmdb.text("yes"), mmdb.boolean(True)),
            (mmdb.text("no"), mmdb.boolean(False)),
            (mmdb.text("half"), mmdb.double(-0.5)),
            (mmdb.text("list"), mmdb.array_of([mmdb.text("a"), mmdb.map_of([])])),
        ]
    )
    found, _ = Decoder(value, 0).decode(0)
    assert found == {"yes": True, "no": False, "half": -0.5, "list": ["a", {}]}
    assert found["yes"] is True


def test_the_pool_writes_a_value_once_and_short_ones_in_place() -> None:
    pool = mmdb.Pool()
    long, short = mmdb.text("a long text"), mmdb.text("x")
    assert pool.shared(long) == pool.shared(long) == mmdb.pointer(0)
    assert pool.shared(short) == short
    assert pool.octets() == long


def test_the_metadata_are_what_the_specification_wants() -> None:
    with opened(encoded([(0, 1)], [(0, None)])[0]) as reader:
        found = reader.metadata()
    assert (found.binary_format_major_version, found.binary_format_minor_version) == (2, 0)
    assert (found.database_type, found.ip_version, found.build_epoch) == ("Test", 6, 1_700_000_000)
    assert (found.languages, found.description) == (["en"], {"en": "a test"})
