"""The accelerator against the reference reader: the same answers for every text, file and column, whole or damaged."""

import os
import random
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from geolookup import addresses
from geolookup.errors import IndexDamagedError, InvalidAddressError
from geolookup.index.native import ABSENT, BAD, OVERLAY, accelerator, open_places, open_searcher
from geolookup.index.reader import EMPTY, IndexReader
from geolookup.lookup.views import view_type
from tests.index.building import ADDRESSES, around, blocks, build
from tests.oracle.linear_scan import Block, winner
from tests.oracle.pure_searcher import PureSearcher
from tests.support.examples import examples

native = accelerator()
needs_native = pytest.mark.skipif(native is None, reason="the accelerator was not built here")
each_reader = pytest.mark.parametrize(
    "module", [None, pytest.param(native, marks=needs_native)], ids=["pure", "native"]
)

CUSTOM = [Block(-1, 4, 0x08080000, 0x0808FFFF), Block(-2, 6, 2**125, 2**126)]
DEFAULT = [Block(1, 4, 0x08000000, 0x08FFFFFF), Block(2, 4, 0x09000000, 0x090000FF), Block(3, 6, 2**124, 2**127)]


def opened(module: Any, folder: Path, custom: Iterable[Block], default: Iterable[Block]) -> Any:
    """A searcher over both layers, whose readers are closed: what it needs, it holds on to."""
    place = folder / str(len(os.listdir(folder)))
    place.mkdir()
    build(place / "base", default)
    build(place / "overlay", custom, layer="custom")
    base, overlay = IndexReader.open(place / "base"), IndexReader.open(place / "overlay")
    if module is None:
        return PureSearcher(base, overlay)
    searcher = open_searcher(module, base, overlay)
    base.close()
    overlay.close()
    return searcher


def locid_of(slot: int, custom: Iterable[Block], default: Iterable[Block]) -> int | None:
    """Slots ascend by locid."""
    if slot == EMPTY:
        return None
    layer = custom if slot & OVERLAY else default
    return sorted({block.locid for block in layer})[slot & ~OVERLAY]


def strings(texts: Sequence[str | bytes | None], width: str = "i") -> tuple[bytes, bytes, bytes]:
    """Arrow's data, offsets and validity of texts."""
    encoded = [b"" if text is None else text if isinstance(text, bytes) else text.encode() for text in texts]
    ends = [0]
    for text in encoded:
        ends.append(ends[-1] + len(text))
    return b"".join(encoded), struct.pack(f"{len(ends)}{width}", *ends), valid(texts)


def valid(values: Sequence[object]) -> bytes:
    bits = bytearray(-(-len(values) // 8))
    for row, value in enumerate(values):
        bits[row >> 3] |= (value is not None) << (row & 7)
    return bytes(bits)


def slots(locate: Callable[..., int], *buffers: Any, rows: range) -> tuple[list[int], int]:
    """What a method writes for some rows of a column, and what it counts."""
    out = bytearray(4 * len(rows))
    bad = locate(*buffers, rows.start, len(rows), out)
    return list(struct.unpack(f"{len(rows)}I", out)), bad


# Text

DIGITS = st.sampled_from(
    ["0", "1", "9", "10", "99", "100", "199", "255", "256", "260", "300", "999", "01", "00", "1000", ""]
)
GROUPS = st.sampled_from(["0", "1", "f", "FF", "aBc", "ffff", "FFFF", "0000", "00001", "12345", "g", "", "1.2.3.4"])
QUADS = st.lists(DIGITS, min_size=3, max_size=5).map(".".join)
COLONS = st.lists(st.one_of(GROUPS, GROUPS, QUADS), min_size=1, max_size=9).map(":".join)
WRITTEN = st.one_of(
    st.integers(0, 2**32 - 1).map(lambda value: addresses.to_text(4, value)),
    st.integers(0, 2**128 - 1).map(lambda value: addresses.to_text(6, value)),
    st.builds(lambda shift, value: addresses.to_text(6, value << shift), st.integers(0, 96), st.integers(0, 2**32 - 1)),
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """An address as it is written, but for a part, or a character or two."""
    text = draw(st.one_of(WRITTEN, QUADS, COLONS))
    if draw(st.booleans()):
        mark = draw(st.sampled_from([".", ":"]))
        parts = text.split(mark)
        parts[draw(st.integers(0, len(parts) - 1))] = draw(DIGITS if mark == "." else GROUPS)
        text = mark.join(parts)
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(text)))
        new = draw(st.sampled_from([*"0:.f%/ gG", "::", "\0", "é", "٣", "\ud800", ""]))
        text = text[:place] + new + text[place + draw(st.integers(0, 1)) :]
    return text


@needs_native
@given(text=st.one_of(WRITTEN, QUADS, COLONS, mutated(), st.text(max_size=20)))
@example("::")
@example("1::")
@example("::1")
@example("1:2:3:4:5:6:7::")
@example("::2:3:4:5:6:7:8")
@example("1:2:3:4::5:6:7:8")
@example("1:2:3:4:5:6:7:8::")
@example("1:2:3:4:5:6:7:8:")
@example(":1:2:3:4:5:6:7")
@example("1:2:3:4:5:6:1.2.3.4")
@example("1:2:3:4:5:6:7:1.2.3.4")
@example("::ffff:1.2.3.4")
@example("::ffff:1.2.3.4:5")
@example("::ffff:010.2.3.4")
@example("1.2.3.4\0")
@example("\x001.2.3.4")
@example("1::2::3")
@example("256.1.1.1")
@example("1.1.1.260")
@example("1.1.1000.1")
@example("::1.1.256.1")
@example("::00001")
@example("12345::1")
@example(":::")
@example("fe80::1%eth0")
@example("１.2.3.4")
def test_every_text_means_what_the_reference_says(text: str) -> None:
    assert native is not None
    try:
        family, value = addresses.parse(text)
        expected = family, value >> 64, value & 2**64 - 1
    except InvalidAddressError:
        expected = None
    assert native.parse(text) == expected
    if text.isascii():
        for before, after in (("", ""), ("1.", "1.2.3.4.5.6.7.8.9"), ("", ":" * 16)):
            data = f"{before}{text}{after}".encode()
            assert native.parse_in(data, len(before), len(before) + len(text)) == expected


# Searching


@each_reader
@examples(50)
@given(custom=blocks(sign=-1, most=6), default=blocks(most=12))
def test_both_layers_agree_with_a_linear_scan(
    module: Any, tmp_path_factory: pytest.TempPathFactory, custom: list[Block], default: list[Block]
) -> None:
    searcher = opened(module, tmp_path_factory.mktemp("index"), custom, default)
    asked = [(family, value) for family in (4, 6) for value in around(family) if family == 4 or value >> 32 != 0xFFFF]
    texts = [addresses.to_text(family, value) for family, value in asked]
    expected = [winner(custom, default, family, value) for family, value in asked]
    assert [locid_of(searcher.find(text), custom, default) for text in texts] == expected
    found, bad = slots(searcher.locate_strings, *strings(texts), rows=range(len(texts)))
    assert ([locid_of(slot, custom, default) for slot in found], bad) == (expected, 0)


@needs_native
def test_samples_change_no_answer(tmp_path: Path) -> None:
    chance = random.Random(5)
    content = [Block(1 + number % 7, 4, *[0x08080000 + 9 * number + chance.randrange(5)] * 2) for number in range(9000)]
    for number in range(9000):
        # Some share their upper half, so that the lower decides.
        first = 0x2001 << 112 | (number // 3) << 64 | chance.getrandbits(62) + (number % 3 << 62)
        content.append(Block(1 + number % 7, 6, first, first))
    edges = [(block.family, value) for block in content for value in (block.first - 1, block.first, block.first + 1)]
    texts = [addresses.to_text(family, value) for family, value in edges]
    chance.shuffle(texts)
    searcher = opened(native, tmp_path, CUSTOM[1:], content)
    reference = opened(None, tmp_path, CUSTOM[1:], content)
    expected = [reference.find(text) for text in texts]
    assert len(set(expected)) > 7
    # Single lookups and small columns pass the number after which samples are built, in the midst of these.
    assert [searcher.find(text) for text in texts[:2000]] == expected[:2000]
    column = strings(texts)
    for begin in range(0, len(texts), 1000):
        rows = range(begin, min(begin + 1000, len(texts)))
        assert slots(searcher.locate_strings, *column, rows=rows)[0] == expected[rows.start : rows.stop]
    assert [searcher.find(text) for text in texts] == expected


@needs_native
def test_threads_share_a_searcher_while_its_samples_are_built(tmp_path: Path) -> None:
    content = [Block(1 + number % 50, 4, number << 14, (number << 14) + 99) for number in range(200_000)]
    texts = [addresses.to_text(4, (number % 200_000 << 14) + 50) for number in range(0, 1_200_000, 7)]
    column = strings(texts)
    reference = opened(None, tmp_path, [], content)
    expected = [reference.find(text) for text in texts]
    wrong: list[int] = []
    for _ in range(5):
        searcher = opened(native, tmp_path, [], content)
        gate = threading.Barrier(4)

        def ask(searcher: Any = searcher, gate: threading.Barrier = gate) -> None:
            gate.wait()
            for begin in (0, 3000, 0):
                rows = range(begin, len(texts))
                found = slots(searcher.locate_strings, *column, rows=rows)[0]
                if found != expected[begin:]:
                    wrong.append(begin)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


# Columns


@pytest.fixture(params=["pure", *(pytest.param(name, marks=needs_native) for name in ("native", "plain"))])
def searcher(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Of both layers; "plain" is the accelerator without instructions that not all processors have."""
    if native is not None:
        native.go_wide(request.param != "plain")
    yield opened(None if request.param == "pure" else native, tmp_path, CUSTOM, DEFAULT)
    if native is not None:
        native.go_wide(True)


TEXTS: list[Any] = [
    *["8.8.8.8", "8.1.2.3", None, "9.0.1.0", "9.0.0.255", "", "8.8.8", "2000::1", "1000::", "::ffff:8.8.1.1", "é"],
    *["::ffff:0008:1", b"\xff\xfe", "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", None, "::1", "8.8.8.8 ", b"8.8.8.8\0"],
]
SLOTS = [
    *[1 | OVERLAY, 0, ABSENT, EMPTY, 1, BAD, BAD, 0 | OVERLAY, 2, 1 | OVERLAY, BAD],
    *[EMPTY, BAD, 0 | OVERLAY, ABSENT, EMPTY, BAD, BAD],
]


def expected(rows: range) -> tuple[list[int], int]:
    found = (SLOTS * 9)[rows.start : rows.stop]
    return found, found.count(BAD)


RANGES = [range(162), range(3, 100), range(9, 9), range(161, 162), range(16, 24)]


@pytest.mark.parametrize("rows", RANGES, ids=str)
@pytest.mark.parametrize("large", [False, True])
def test_a_string_column_has_a_slot_for_each_row(searcher: Any, large: bool, rows: range) -> None:
    column = strings(TEXTS * 9, "q" if large else "i")
    out = bytearray(4 * len(rows))
    bad = searcher.locate_strings(*column, rows.start, len(rows), out, large=large)
    assert (list(struct.unpack(f"{len(rows)}I", out)), bad) == expected(rows)


@pytest.mark.parametrize("rows", RANGES, ids=str)
def test_a_string_view_column_has_a_slot_for_each_row(searcher: Any, rows: range) -> None:
    views, buffers = bytearray(), [bytearray(b"filler"), bytearray()]
    for text in TEXTS * 9:
        raw = b"" if text is None else text if isinstance(text, bytes) else text.encode()
        if len(raw) <= 12:
            views += struct.pack("i12s", len(raw), raw)
        else:
            number = len(views) // 16 % 2
            views += struct.pack("i4sii", len(raw), raw[:4], number, len(buffers[number]))
            buffers[number] += raw
    given = tuple(map(bytes, buffers))
    assert slots(searcher.locate_views, bytes(views), given, valid(TEXTS * 9), rows=rows) == expected(rows)


def test_integer_columns_are_ipv4(searcher: Any) -> None:
    values = [0x08080808, None, 0x08010203, 0, 2**32 - 1]
    packed = [value or 0 for value in values]
    for code, locate in (("I", searcher.locate_u32), ("Q", searcher.locate_u64)):
        found = slots(locate, struct.pack(f"5{code}", *packed), valid(values), rows=range(5))
        assert found == ([1 | OVERLAY, ABSENT, 0, EMPTY, EMPTY], 0)
    large = struct.pack("3Qq", 2**32, 2**64 - 1, 0x08010203, -1)
    assert slots(searcher.locate_u64, large, None, rows=range(4)) == ([BAD, BAD, 0, BAD], 3)


@pytest.mark.parametrize(
    "wrong",
    [
        *[{"offsets": struct.pack("3i", 0, 7, 99)}, {"offsets": struct.pack("3i", 0, 7, 5)}],
        *[{"offsets": struct.pack("3i", -1, 7, 14)}, {"offsets": struct.pack("2i", 0, 7)}],
        *[{"out": bytearray(7)}, {"validity": b""}, {"offset": 1}, {"length": 3}, {"offset": -1}, {"length": -1}],
        *[{"data": None}, {"length": 2**62}, {"offset": 2**62}],
    ],
    ids=str,
)
def test_buffers_that_do_not_fit_are_refused(searcher: Any, wrong: dict[str, Any]) -> None:
    right = {
        "data": b"8.8.8.88.1.2.3",
        "offsets": struct.pack("3i", 0, 7, 14),
        "validity": b"\3",
        "offset": 0,
        "length": 2,
        "out": bytearray(8),
    }
    assert searcher.locate_strings(**right) == 0
    with pytest.raises((ValueError, OverflowError)):
        searcher.locate_strings(**{**right, **wrong})


@pytest.mark.parametrize(
    "view", [(-1, 0, 0), (13, 1, 0), (13, -1, 0), (13, 0, 8), (13, 0, -1), (2**31 - 1, 0, 2**31 - 1)]
)
def test_views_that_lead_outside_are_refused(searcher: Any, view: tuple[int, int, int]) -> None:
    size, number, begin = view
    views = struct.pack("i4sii", size, b"", number, begin)
    with pytest.raises(ValueError, match="do not fit"):
        searcher.locate_views(views, (b"1.2.3.4 and more",), None, 0, 1, bytearray(4))


# Damage


def test_a_table_or_slot_that_leads_outside_is_damage(tmp_path: Path) -> None:
    cases = (("v4.table", 0x0800, "I"), ("v4.slot", 1, "H"), ("v6.table", 0x1001, "I"), ("v6.slot", 1, "H"))
    for name, entry, kind in cases:
        for value in (99, 0xFFFE, *((0xFFFF_FFFE, 0x7FFF_FFFF, 0x8000_0000) if kind == "I" else (0x7FFF, 0x8000))):
            for module in (None, native):
                path = tmp_path / f"{name}-{value}-{module is None}"
                build(path, DEFAULT)
                with IndexReader.open(path) as reader:
                    section = reader.header.sections[name]
                with open(path, "r+b") as file:
                    file.seek(section.begin + struct.calcsize(kind) * entry)
                    file.write(struct.pack(kind, value) * 2)
                build(tmp_path / f"{path.name}-overlay", [], layer="custom")
                with IndexReader.open(path) as base, IndexReader.open(tmp_path / f"{path.name}-overlay") as overlay:
                    searcher = PureSearcher(base, overlay) if module is None else open_searcher(module, base, overlay)
                    text = "8.0.0.1" if name.startswith("v4") else "1001::"
                    with pytest.raises(IndexDamagedError):
                        searcher.find(text)
                    with pytest.raises(IndexDamagedError):
                        slots(searcher.locate_strings, *strings([text]), rows=range(1))
                    del searcher


@needs_native
def test_no_damage_leads_outside_and_each_answer_is_a_slot_or_an_error(tmp_path: Path) -> None:
    path, over = tmp_path / "base", tmp_path / "overlay"
    build(path, DEFAULT + [Block(4, 4, number * 77, number * 77 + 5) for number in range(900)])
    build(over, CUSTOM, layer="custom")
    texts = [addresses.to_text(family, value) for family in (4, 6) for value in (*ADDRESSES[family], 2**31, 900 * 40)]
    column = strings(texts)
    whole = path.read_bytes()
    chance = random.Random(11)
    outcomes = {"same": 0, "other": 0, "damaged": 0}

    def ask() -> list[int]:
        with IndexReader.open(path) as base, IndexReader.open(over) as overlay:
            searcher = open_searcher(native, base, overlay)
            found = slots(searcher.locate_strings, *column, rows=range(len(texts)))[0]
            assert [searcher.find(text) for text in texts] == found
            assert all(slot == EMPTY or slot & ~OVERLAY < base.location_count for slot in found)
            return found

    with IndexReader.open(path) as reader:
        sections = reader.header.sections
    # The tables are nearly all of so small a file: of them, only the entries that are asked for.
    targets = [
        place for name, found in sections.items() if "table" not in name for place in range(found.begin, found.end)
    ]
    for family, width in ((4, 32), (6, 128)):
        for value in ADDRESSES[family]:
            entry = sections[f"v{family}.table"].begin + 4 * (value >> width - 16)
            targets += range(entry, entry + 8)
    right = ask()
    for _ in range(400):
        changed = bytearray(whole)
        for _ in range(chance.choice([1, 1, 4, 64])):
            changed[chance.choice(targets)] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        # Under another name first: the map of the one before may still be there.
        (tmp_path / "changed").write_bytes(changed)
        os.replace(tmp_path / "changed", path)
        try:
            outcomes["same" if ask() == right else "other"] += 1
        except IndexDamagedError:
            outcomes["damaged"] += 1
    assert min(outcomes["same"], outcomes["damaged"]) > 50, outcomes  # so the sweep did reach what is read


@needs_native
def test_sections_that_do_not_fit_each_other_are_refused() -> None:
    assert native is not None
    table = bytes(4 * 65_537)
    right = (bytes(2), bytes(2), bytes(1), table, bytes(8), bytes(8), bytes(2), bytes(1), table)
    native.Layer(right, 1)
    native.Layer((*right[:2], None, *right[3:5], None, right[6], None, table), 1)
    for place in (0, 1, 3, 4, 6, 8):
        with pytest.raises(TypeError):
            native.Layer((*right[:place], None, *right[place + 1 :]), 1)
    for wrong in (b"", bytes(3), bytes(64)):
        for place in range(9):
            with pytest.raises(ValueError, match="do not fit"):
                native.Layer((*right[:place], wrong, *right[place + 1 :]), 1)
    for arguments in ((right[:8], 1), (right, -1), (right, 2**31)):
        with pytest.raises(ValueError, match="nine sections"):
            native.Layer(*arguments)
    places = native.Places(view_type(native), 2, bytes(16), (), bytes(8), b"")
    native.Layer(right, 2, places)
    with pytest.raises(ValueError, match="places of as many"):
        native.Layer(right, 1, places)
    with pytest.raises(TypeError, match="places, or None"):
        native.Layer(right, 1, "places")


# One call for one address


class OddText(str):
    """Text that is not exactly text."""

    __slots__ = ()


@needs_native
def test_the_slow_way_is_asked_for_all_that_the_accelerator_cannot_answer(tmp_path: Path) -> None:
    assert native is not None
    build(tmp_path / "base", DEFAULT)
    build(tmp_path / "overlay", CUSTOM, layer="custom")
    with IndexReader.open(tmp_path / "base") as base, IndexReader.open(tmp_path / "overlay") as overlay:
        places = [open_places(native, view_type(native), reader) for reader in (base, overlay)]
        bare, searcher = open_searcher(native, base, overlay), open_searcher(native, base, overlay, (*places,))
    asked: list[object] = []
    finder = native.Finder(asked.append)
    assert finder.lookup("8.1.2.3") is None
    finder.use(searcher)
    assert finder.lookup("8.1.2.3") is None
    finder.look_at = float("inf")
    assert [finder.lookup(text).locid for text in ("8.1.2.3", "8.8.2.3")] == [1, -1]
    for odd in (OddText("8.1.2.3"), 5, None, b"8.1.2.3", "8.1.2", "\ud800", "9.9.9.9"):
        assert finder.lookup(odd) is None
    # Without a searcher, before looking, and what is not strict text; not the last, which nothing covers.
    assert asked == ["8.1.2.3", "8.1.2.3", "8.1.2.3", 5, None, b"8.1.2.3", "8.1.2", "\ud800"]
    with suppress(TypeError):
        finder.use("nothing of the kind")
    assert finder.lookup("8.1.2.3").locid == 1
    finder.use(bare)
    assert finder.lookup("8.1.2.3") is None  # it has no places
    finder.use(None)
    assert finder.lookup("8.1.2.3") is None
    assert len(asked) == 10


@pytest.mark.parametrize("value", ["1", "yes"])
def test_the_pure_reader_can_be_forced(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("GEOLOOKUP_PURE", value)
    assert accelerator() is None
    monkeypatch.setenv("GEOLOOKUP_PURE", "0")
    assert accelerator() is native
