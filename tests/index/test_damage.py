"""Damaged, foreign and newer files: never a crash, never a hang, and nothing wrong passes the check."""

import json
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from geolookup.base import plainjson
from geolookup.index import layout
from geolookup.index.builder import IndexBuilder
from geolookup.index.compare import changed_kinds
from geolookup.index.layout import NARROW_EMPTY
from geolookup.index.reader import IndexReader
from geolookup.index.verify import verify_index
from geolookup.index.writer import encode_header
from geolookup.model.errors import IndexDamagedError, IndexFileError, IndexTooNewError
from tests.index.building import V4_END, V6_END, build, fields, found, rewritten
from tests.oracle.linear_scan import Block

CONTENT = [
    Block(-1, 4, 0, 0x1FFFF),
    Block(-2, 4, 0x10000, 0x10010),
    Block(-3, 4, V4_END - 5, V4_END),
    Block(-1, 6, 2**64, 2**65),
    Block(-4, 6, 2**112, V6_END),
]
PLACES = [(4, 0), (4, 0x10005), (4, 0x20000), (4, V4_END), (6, 0), (6, 2**64), (6, 2**112), (6, V6_END)]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    path = tmp_path / "index"
    build(path, CONTENT, layer="custom", digest="abc")
    return path


def exercise(path: Path) -> list[Any]:
    """Ask everything that can be asked; only errors of ours may come."""
    answers: list[Any] = []

    def ask(call: Callable[[], Any]) -> None:
        try:
            answers.append(call())
        except IndexDamagedError:
            answers.append("damaged")

    with IndexReader.open(path) as reader:
        for family, address in PLACES:
            ask(lambda family=family, address=address: found(reader, family, address))  # type: ignore[misc]
            ask(lambda family=family, address=address: reader.segment(family, address))  # type: ignore[misc]
        for slot in range(reader.location_count):
            ask(lambda slot=slot: (reader.location(slot), reader.pending(slot)))  # type: ignore[misc]
        ask(lambda: reader.slot_of(-2))
        ask(lambda: list(reader.segments(4)))
        ask(lambda: list(reader.segments(6, 2**64, gaps=True)))
    return answers


def interesting_bytes(path: Path) -> Iterator[int]:
    """Every byte but those of the two tables, of which the ends, the entries that are used and a sample."""
    with IndexReader.open(path) as reader:
        sections = reader.header.sections
        size = reader.size_bytes
        tables = [(sections[name].begin, sections[name].end) for name in ("v4.table", "v6.table")]
    position = 0
    for begin, end in tables:
        yield from range(position, begin)
        yield from range(begin, begin + 16)
        yield from range(begin + 16, end - 16, 9973)
        yield from range(end - 16, end)
        position = end
    yield from range(position, size)


def test_a_flipped_bit_anywhere_is_refused_or_found_by_the_check(index: Path) -> None:
    right = exercise(index)
    whole = index.read_bytes()
    wrong_but_found = 0
    with open(index, "r+b", buffering=0) as file:
        for position in interesting_bytes(index):
            for bit in (0, 7):
                os.pwrite(file.fileno(), bytes([whole[position] ^ 1 << bit]), position)
                try:
                    wrong_but_found += exercise(index) != right
                    with pytest.raises(IndexDamagedError):
                        verify_index(index)
                except (IndexDamagedError, IndexTooNewError):
                    pass
            os.pwrite(file.fileno(), whole[position : position + 1], position)
    assert exercise(index) == right
    assert wrong_but_found > 100  # so the sweep did reach what is read


def test_a_truncated_file_is_refused_at_once(index: Path) -> None:
    sizes = list(interesting_bytes(index))
    for size in reversed(sizes):
        os.truncate(index, size)
        with pytest.raises(IndexDamagedError, match="index"):
            IndexReader.open(index)


def test_a_file_with_something_after_its_end_is_refused(index: Path) -> None:
    index.write_bytes(index.read_bytes() + b"\0")
    with pytest.raises(IndexDamagedError):
        IndexReader.open(index)


def test_what_is_no_index_file_is_refused_by_name(tmp_path: Path) -> None:
    foreign = {
        "text": b"hello, this is no index",
        "zeros": bytes(4096),
        "ones": b"\xff" * 4096,
        "list": (64 - 8).to_bytes(8, "little") + b"[]".ljust(56),
        "deep": (4096 - 8).to_bytes(8, "little") + b"[" * 4088,
        "number": (64 - 8).to_bytes(8, "little") + b'{"__metadata__":7}'.ljust(56),
        "latin": (64 - 8).to_bytes(8, "little") + b'{"\xe9":1}'.ljust(56),
    }
    for name, data in foreign.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(IndexDamagedError, match=name):
            IndexReader.open(tmp_path / name)
    safetensors.numpy.save_file({"weights": np.zeros(8, np.float32)}, tmp_path / "model")
    with pytest.raises(IndexDamagedError, match="model"):
        IndexReader.open(tmp_path / "model")
    os.mkfifo(tmp_path / "pipe")
    for name in ("missing", "pipe"):
        with pytest.raises(IndexFileError, match=name):
            IndexReader.open(tmp_path / name)
    for path in (tmp_path, "", "a\0b"):
        with pytest.raises(IndexFileError):
            IndexReader.open(path)


def with_header(path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Change the header's tree, and write it again with a checksum that fits."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    tree = json.loads(data[8 : 8 + length])
    change(tree)
    header = encode_header(tree)
    changed = path.with_name("changed")
    changed.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length :])
    return changed


def set_metadata(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda tree: tree["__metadata__"].update(values)


def set_section(name: str, **values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda tree: tree[name].update(values)


@pytest.mark.parametrize("version", ["2.1", "17.3"])
def test_a_newer_major_version_is_refused(index: Path, version: str) -> None:
    changed = with_header(index, set_metadata(version=version))
    with pytest.raises(IndexTooNewError, match=rf"changed.*{version}"):
        IndexReader.open(changed)


@pytest.mark.parametrize("version", ["0.1", "0.9"])
def test_an_older_major_version_is_read_no_more(index: Path, version: str) -> None:
    changed = with_header(index, set_metadata(version=version))
    with pytest.raises(IndexDamagedError, match=rf"changed.*{version}.*older.*sync again"):
        IndexReader.open(changed)


def test_a_newer_minor_version_with_unknown_metadata_and_sections_is_read(index: Path) -> None:
    def extend(tree: dict[str, Any]) -> None:
        end = max(entry["data_offsets"][1] for name, entry in tree.items() if name != "__metadata__")
        tree["__metadata__"].update(version="1.7", shape="round")
        tree["later.bits"] = {"dtype": "BOOL", "shape": [2, 3], "data_offsets": [end, end + 6]}
        tree["__metadata__"]["crc32:later.bits"] = f"{zlib.crc32(b'unread'):08x}"

    before = exercise(index)
    changed = with_header(index, extend)
    with open(changed, "ab") as file:
        file.write(b"unread")
    assert exercise(changed) == before
    verify_index(changed)
    with IndexReader.open(changed) as reader:
        assert reader.metadata["shape"] == "round"
        assert "later.bits" not in reader.arrays()
    with open(changed, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"!")
    with pytest.raises(IndexDamagedError, match=r"later\.bits"):
        verify_index(changed)


@pytest.mark.parametrize(
    "change",
    [
        set_metadata(version="1"),
        set_metadata(version="one.two"),
        set_metadata(version="1.²"),
        set_metadata(version=1.0),
        set_metadata(version=None),
        set_metadata(format="geolookup-other"),
        set_metadata(layer="both"),
        set_metadata(layer=None),
        set_metadata(locations="-1"),
        set_metadata(locations="5"),
        set_metadata(locations="4000000000000"),
        set_metadata(covered_v6="9" * 5000),
        set_metadata(extra=5),
        lambda tree: tree.pop("__metadata__"),
        lambda tree: tree.pop("v4.low"),
        lambda tree: tree.pop("strings.bytes"),
        lambda tree: tree.update({"v4.low": None}),
        lambda tree: tree.update({"later": {"dtype": "U8", "shape": [1], "data_offsets": [0, 2**70]}}),
        set_section("v4.low", dtype="I32"),
        set_section("v4.low", dtype=None),
        set_section("v4.low", shape=[4]),
        set_section("v4.low", shape=[6]),
        set_section("v4.low", shape=[5, 1]),
        set_section("v4.low", shape=5),
        set_section("v4.low", shape=[True] * 5),
        set_section("v4.low", data_offsets=[0]),
        set_section("v4.low", data_offsets=[-10, 0]),
        set_section("v4.low", data_offsets=[10, 0]),
        set_section("v4.low", data_offsets=[1, 11]),
        set_section("v4.low", data_offsets=[0.0, 10.0]),
        set_section("v4.low", data_offsets=[10**9, 10**9 + 10]),
        set_section("v4.low", shape=[0], data_offsets=[0, 0]),
        set_section("loc.city", shape=[1], data_offsets=[0, 4]),
        set_section("v4.table", shape=[65536], data_offsets=[0, 65536 * 4]),
        set_section("strings.offsets", shape=[1], data_offsets=[0, 4]),
        # Somewhere else in the file, and so without the ends that searching relies on.
        set_section("v4.low", data_offsets=[64, 74]),
        set_section("strings.offsets", data_offsets=[0, 56]),
    ],
)
def test_a_header_that_says_what_cannot_be_is_refused(index: Path, change: Callable[[dict[str, Any]], None]) -> None:
    with pytest.raises(IndexDamagedError, match="changed"):
        IndexReader.open(with_header(index, change))


def test_a_header_without_its_own_checksum_is_refused(index: Path) -> None:
    data = index.read_bytes()
    index.write_bytes(data.replace(b'"digest":"abc"', b'"digest":"abd"'))
    with pytest.raises(IndexDamagedError, match="checksum"):
        IndexReader.open(index)


def test_the_check_refuses_a_header_written_another_way(index: Path) -> None:
    data = index.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + length].replace(b',"digest":"abc"', b', "digest":"ab"')
    header = plainjson.sealed(header, layout.CHECK_MARK)
    index.write_bytes(data[:8] + header + data[8 + length :])
    assert IndexReader.open(index).metadata["digest"] == "ab"
    with pytest.raises(IndexDamagedError, match="header"):
        verify_index(index)


def test_the_check_refuses_sections_with_a_hole_or_an_overlap(index: Path) -> None:
    def move(tree: dict[str, Any]) -> None:
        tree["v6.slot"]["data_offsets"] = [offset - 4 for offset in tree["v6.slot"]["data_offsets"]]

    changed = with_header(index, move)
    IndexReader.open(changed)
    with pytest.raises(IndexDamagedError, match=r"v6\.slot: it does not begin where"):
        verify_index(changed)


def entry(position: int, value: Any) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    def change(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        array[position] = value
        return array

    return change


# Sections of CONTENT: v4 slots (locids ascend) 3 2 3 gap 1; v6 gap 3 gap 0.
@pytest.mark.parametrize(
    ("section", "change", "where"),
    [
        ("v4__low", entry(2, 0), r"v4\.low: entry 2"),
        ("v6__hi", entry(2, 0), r"v6\.hi and v6\.lo: entry 2"),
        ("v4__slot", entry(0, 4), r"v4\.slot: entry 0"),
        ("v4__slot", entry(0, NARROW_EMPTY - 1), r"v4\.slot: entry 0"),
        ("v4__slot", entry(1, 3), r"v4\.slot: entry 1"),
        ("v6__slot", entry(1, NARROW_EMPTY), r"v6\.slot: entry 1"),
        ("v4__table", entry(1, 2), r"v4\.low: entry 1"),
        ("v4__table", entry(40_000, 3), r"v4\.table: entry 40000"),
        ("v6__table", entry(1, 0), r"v6\.table: entry 1"),
        ("loc__country", entry(1, 99), r"loc\.country: entry 1"),
        ("loc__areacode", entry(0, -1), r"loc\.areacode: entry 0"),
        ("loc__locid", entry(3, 1), r"loc\.locid: entry 3"),
        ("loc__locid", entry(3, -2), r"loc\.locid: entry 2"),
        ("loc__locid", entry(0, -1), r"loc\.locid: entry 0"),
        ("loc__latitude", entry(0, np.inf), r"loc\.latitude: entry 0"),
        ("loc__longitude", entry(2, -np.inf), r"loc\.longitude: entry 2"),
        ("loc__pending", entry(2, 2), r"loc\.pending: entry 2"),
        ("strings__offsets", entry(3, 0), r"strings\.offsets: entry 3"),
        ("strings__offsets", entry(1, 1), r"strings\.offsets: entry 1"),
        ("strings__bytes", entry(0, 0xFF), r"strings\.bytes: text 1"),
    ],
)
def test_the_check_names_what_is_wrong_though_checksums_fit(
    index: Path, tmp_path: Path, section: str, change: Any, where: str
) -> None:
    changed = rewritten(index, tmp_path / "changed", **{section: change})
    exercise(changed)
    with pytest.raises(IndexDamagedError, match=f"changed: {where}"):
        verify_index(changed)


@pytest.mark.parametrize("name", ["segments_v4", "segments_v6", "covered_v4", "covered_v6"])
def test_the_check_counts_again(index: Path, tmp_path: Path, name: str) -> None:
    changed = rewritten(index, tmp_path / "changed", counts={name: 3})
    if name == "segments_v4":
        changed.unlink()
        changed = rewritten(index, tmp_path / "changed", counts={name: 5})
    with pytest.raises(IndexDamagedError, match=name):
        verify_index(changed)


def test_two_equal_texts_are_refused_by_the_check(tmp_path: Path) -> None:
    builder = IndexBuilder("default")
    builder.add_location(1, *{**fields(1), "country": "XA", "region": "XB"}.values())
    builder.write(tmp_path / "index")
    data = (tmp_path / "index").read_bytes()
    with IndexReader.open(tmp_path / "index") as reader:
        place = data.index(b"XB", reader.header.sections["strings.bytes"].begin)
        where = place - reader.header.sections["strings.bytes"].begin
    changed = rewritten(tmp_path / "index", tmp_path / "changed", strings__bytes=entry(where + 1, ord("A")))
    with pytest.raises(IndexDamagedError, match="twice"):
        verify_index(changed)


def test_sections_that_are_all_of_one_wild_value_crash_nothing(index: Path, tmp_path: Path) -> None:
    with IndexReader.open(index) as reader:
        arrays = {name: array.copy() for name, array in reader.arrays().items()}
    number = 0
    for name, array in arrays.items():
        kind = array.dtype
        for value in (0, 1, 5, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1):
            wild = np.full(len(array), np.uint64(value)).astype(kind, casting="unsafe")
            number += 1
            changed = rewritten(index, tmp_path / str(number), **{name.replace(".", "__"): wild})
            # The ends of tables are looked at when opening; behind right ends, the rest may be anything.
            kept = wild.copy()
            kept[0], kept[-1] = array[0], array[-1]
            inside = rewritten(index, tmp_path / f"{number}-inside", **{name.replace(".", "__"): kept})
            for path in (changed, inside):
                with suppress(IndexDamagedError):
                    exercise(path)
                with suppress(IndexDamagedError), IndexReader.open(path) as one, IndexReader.open(index) as other:
                    changed_kinds([("", other)], [("", one)])
                os.unlink(path)


def test_a_big_endian_machine_is_told_that_it_cannot(
    index: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    builder = IndexBuilder("default")
    monkeypatch.setattr("sys.byteorder", "big")
    with pytest.raises(IndexFileError, match="little-endian"):
        IndexReader.open(index)
    with pytest.raises(IndexFileError, match="little-endian"):
        builder.write(tmp_path / "written")
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_a_table_that_leads_outside_is_an_error_and_not_an_answer(index: Path, tmp_path: Path) -> None:
    table = np.full(65_537, 10**6, np.uint32)
    table[0], table[-1] = 0, 5
    changed = rewritten(index, tmp_path / "changed", v4__table=table)
    with IndexReader.open(changed) as reader:
        for call in (reader.find4, reader.segment4):
            with pytest.raises(IndexDamagedError, match="changed"):
                call(5 << 16)
    nowhere = rewritten(index, tmp_path / "nowhere", v4__slot=np.arange(7, 12, dtype=np.uint16))
    with IndexReader.open(nowhere) as reader:
        with pytest.raises(IndexDamagedError, match="slot 7"):
            reader.location(reader.find4(0))
        with pytest.raises(IndexDamagedError, match="slot 7"):
            reader.country(7)
        with pytest.raises(IndexDamagedError, match="slot 7"):
            reader.pending(7)


def test_a_segment_that_does_not_hold_the_address_is_an_error_and_not_a_range(index: Path, tmp_path: Path) -> None:
    changed = rewritten(index, tmp_path / "v4", v4__table=entry(6, 1))
    with IndexReader.open(changed) as reader, pytest.raises(IndexDamagedError, match=r"v4\.low: entry 1"):
        reader.segment4(0x60000)
    changed = rewritten(index, tmp_path / "v6", v6__table=lambda table: entry(1, 2)(entry(2, 2)(table)))
    with IndexReader.open(changed) as reader, pytest.raises(IndexDamagedError, match=r"v6\.hi: entry 1"):
        reader.segment6(2**112)


def test_a_walk_stops_at_segments_out_of_order(index: Path, tmp_path: Path) -> None:
    lows = np.array([0, 0x11, 0, 0, 0xFFFA], np.uint16)
    halves = np.array([0, 5, 4, 9], np.uint64)
    with IndexReader.open(rewritten(index, tmp_path / "changed", v4__low=lows, v6__hi=halves)) as reader:
        for family in (4, 6):
            with pytest.raises(IndexDamagedError, match="out of order"):
                list(reader.segments(family))  # type: ignore[arg-type]


def test_a_text_that_is_not_there_is_an_error_and_not_another_text(index: Path, tmp_path: Path) -> None:
    for number in (-1, -2, 99, 2**31 - 1, -(2**31)):
        changed = rewritten(index, tmp_path / f"text{number}", loc__country=np.full(4, number, np.int32))
        with IndexReader.open(changed) as reader:
            for call in (reader.country, reader.location):
                with pytest.raises(IndexDamagedError, match="text"):
                    call(0)
