"""Records in an index file: several of a location, their parts, and ranges that stay the location's, against a dict."""

import itertools
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.index import mmdb
from geolookup.index.builder import IndexBuilder
from geolookup.index.compare_facts import returning_facts
from geolookup.index.layout import EMPTY
from geolookup.index.native import accelerator, open_searcher
from geolookup.index.reader import IndexReader
from geolookup.index.stack import write_stack
from geolookup.index.verify import verify_index
from geolookup.index.walk import walk
from geolookup.model.addresses import to_text
from geolookup.model.errors import IndexDamagedError, IndexFileError
from tests.index.building import ADDRESSES, V4_END, V6_END, around, fields
from tests.oracle import all_answers
from tests.support.examples import examples

KEYS = ("city", "country", "a.key")
PARTS = st.dictionaries(
    st.sampled_from(KEYS), st.sampled_from([mmdb.text("a"), mmdb.uint16(7), mmdb.map_of([]), mmdb.text("Zürich" * 9)])
)


class Row(NamedTuple):
    """A block, and the record that it has: its location, 0 if it is weak, and its parts."""

    family: int
    first: int
    last: int
    locid: int
    parts: dict[str, bytes]


def rows(family: int) -> st.SearchStrategy[Row]:
    ends = st.sampled_from(ADDRESSES[family])
    return st.builds(
        lambda one, other, locid, parts: Row(family, min(one, other), max(one, other), locid, parts),
        ends,
        ends,
        st.integers(0, 3),
        PARTS,
    )


ROWS = st.lists(st.one_of(rows(4), rows(6)), max_size=10)


def write(path: Path, blocks: list[Row], *, folder: str | None = None) -> None:
    """Of equal blocks the later wins, as in a source without numbers."""
    builder = IndexBuilder("default", source=path.stem, later_wins=True, records=True, folder=folder)
    slots: dict[int, int] = {}
    for row in blocks:
        if row.locid and row.locid not in slots:
            slots[row.locid] = builder.add_location(row.locid, *fields(row.locid).values())
        number = builder.add_record(slots.get(row.locid), row.parts)
        builder.add_block(number, row.family, row.first, row.last)  # type: ignore[arg-type]
    builder.write(path)


@given(kept=ROWS, away=ROWS, new=st.lists(ROWS, max_size=2), chunk=st.sampled_from((3, 1 << 18)))
@examples(40)
def test_facts_that_return_are_counted_as_asking_address_by_address_does(
    kept: list[Row], away: list[Row], new: list[list[Row]], chunk: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch, ExitStack() as opened:
        patch.setattr("geolookup.index.walk._CHUNK", chunk)
        readers = []
        for at, each in enumerate((kept, away, *new)):
            write(Path(folder, f"{at}"), each)
            readers.append(opened.enter_context(IndexReader.open(Path(folder, f"{at}"))))
        found = returning_facts(readers[0], readers[1], readers[2:])
    for family, end in ((4, V4_END), (6, V6_END)):
        ends = [(row.first, row.last) for side in (kept, away, *new) for row in side if row.family == family]
        taken = back = 0
        for first, last in all_answers.edges(ends, end):
            was, went, *layers = (
                {} if (row := winner(side, family, first)) is None else row.parts for side in (kept, away, *new)
            )
            comes = {key: part for layer in reversed(layers) for key, part in layer.items()}
            taken += last - first + 1 if was != went else 0
            back += last - first + 1 if was != went == comes else 0
        assert found[family] == (taken, back)  # type: ignore[index]


def winner(blocks: list[Row], family: int, address: int) -> Row | None:
    """Of those that cover it the narrowest, and of equal ones the later; what is weak only if there is nothing else."""
    covering = [
        (row.locid > 0, row.first - row.last, at)
        for at, row in enumerate(blocks)
        if row.family == family and row.first <= address <= row.last
    ]
    return blocks[max(covering)[2]] if covering else None


def check(reader: IndexReader, answer: Any) -> None:
    """The file says what ``answer`` says of (family, address): the row, or None."""
    verify_index(reader)
    module = accelerator()
    native = None if module is None else open_searcher(module, reader, reader)
    for family, end in ((4, V4_END), (6, V6_END)):
        edges = around(family)
        for address in edges:
            row = answer(family, address)
            slot = (reader.find4 if family == 4 else reader.find6)(address)
            assert native is None or native.find(to_text(family, address)) & ~0x80000000 == slot & ~0x80000000  # type: ignore[arg-type]
            record = reader.record(family, address)  # type: ignore[arg-type]
            found, first, last = reader.segment(family, address)  # type: ignore[arg-type]
            assert found == slot
            assert first <= address <= last
            if row is None:
                assert (slot, record) == (EMPTY, EMPTY)
            else:
                assert reader.parts(record) == row.parts
                assert reader.slot_of_record(record) == slot
                assert (slot == EMPTY) if not row.locid else reader.location(slot)[0] == row.locid
            # The range is the location's, whatever its records; what is weak is no answer.
            locid = None if row is None else row.locid or None
            for near in (first - 1, last + 1):
                if 0 <= near <= end:
                    other = answer(family, near)
                    assert (None if other is None else other.locid or None) != locid
            inside = [answer(family, each) for each in edges if first <= each <= last]
            assert {None if each is None else each.locid or None for each in inside} == {locid}
        pieces = list(reader.segments(family, gaps=True))  # type: ignore[arg-type]
        assert [piece[0] for piece in pieces] == [0, *(piece[1] + 1 for piece in pieces[:-1])]
        assert all(one[2] != other[2] for one, other in itertools.pairwise(pieces))
        assert all(reader.segment(family, piece[0]) == (piece[2], *piece[:2]) for piece in pieces)  # type: ignore[arg-type]
        for stretch in walk([reader], family, records=True):  # type: ignore[arg-type]
            for hi, lo, record in zip(stretch.hi.tolist(), stretch.lo.tolist(), stretch.slots[0].tolist(), strict=True):
                row = answer(family, hi << 64 | lo)
                assert (record < 0) == (row is None)
                assert row is None or reader.parts(record) == row.parts


@given(ROWS, st.booleans())
def test_a_file_says_of_each_address_its_location_and_record(blocks: list[Row], in_folder: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        write(path, blocks, folder=folder if in_folder else None)
        with IndexReader.open(path) as reader:
            check(reader, lambda family, address: winner(blocks, family, address))


@given(ROWS, ROWS)
def test_of_a_stack_the_first_source_that_covers_an_address_gives_its_whole_record(
    above: list[Row], below: list[Row]
) -> None:
    below = [row._replace(locid=row.locid and row.locid + 3) for row in below]

    def answer(family: int, address: int) -> Row | None:
        found = [row for row in (winner(above, family, address), winner(below, family, address)) if row is not None]
        return next((row for row in found if row.locid), found[0] if found else None)

    with tempfile.TemporaryDirectory() as folder:
        readers = []
        for name, blocks in (("above", above), ("below", below)):
            write(Path(folder) / name, blocks)
            readers.append((name, IndexReader.open(Path(folder) / name)))
        write_stack(Path(folder) / "stacked", readers)
        with IndexReader.open(Path(folder) / "stacked") as reader:
            check(reader, answer)


def test_a_record_of_each_location_takes_no_section_of_its_own(tmp_path: Path) -> None:
    one = {"city": mmdb.text("a")}
    write(tmp_path / "index", [Row(4, at, at, at, one) for at in (3, 1, 2)])
    with IndexReader.open(tmp_path / "index") as reader:
        assert "record.slot" not in reader.header.sections
        assert reader.arrays()["part.city"].tolist() == [1, 1, 1]
        assert reader.record_keys == ("city",)


def test_numbers_of_parts_are_as_narrow_as_they_can_be(tmp_path: Path) -> None:
    blocks = [
        Row(4, at, at, 1, {"few": mmdb.uint16(at % 3), "some": mmdb.uint16(at % 300), "many": mmdb.uint32(at)})
        for at in range(70_000)
    ]
    write(tmp_path / "index", blocks)
    with IndexReader.open(tmp_path / "index") as reader:
        verify_index(reader)
        kinds = {name: section.dtype for name, section in reader.header.sections.items() if name.startswith("part.")}
        assert kinds == {"part.few": "U8", "part.some": "U16", "part.many": "U32"}
        assert reader.location_count == 1
        assert reader.record_count == 70_000
        for row in blocks[::9_999]:
            assert reader.parts(reader.record(4, row.first)) == row.parts
        assert reader.segment4(5) == (0, 0, 69_999)


def test_a_location_without_a_record_is_refused(tmp_path: Path) -> None:
    builder = IndexBuilder("default", records=True)
    builder.add_location(1, *fields(1).values())
    with pytest.raises(IndexFileError, match="has no record"):
        builder.write(tmp_path / "index")


@pytest.mark.parametrize("section", ["record.slot", "part.city", "parts.offsets", "parts.bytes"])
def test_damage_to_what_has_to_do_with_records_is_found(tmp_path: Path, section: str) -> None:
    path = tmp_path / "index"
    write(path, [Row(4, at, at, 1 + at % 2, {"city": mmdb.text(f"city {at}")}) for at in range(9)])
    content = bytearray(path.read_bytes())
    with IndexReader.open(path) as reader:
        place = reader.header.sections[section]
    content[(place.begin + place.end) // 2] ^= 0xFF
    path.write_bytes(content)
    with IndexReader.open(path) as reader:
        with pytest.raises(IndexDamagedError):
            verify_index(reader)
        for address in range(9):  # no crash, and nothing from outside of the sections
            try:
                reader.parts(reader.record(4, address))
                reader.segment4(address)
            except IndexDamagedError:
                pass


@pytest.mark.parametrize("pure", ["0", "1"])
def test_a_part_that_is_no_value_is_found_though_its_checksum_fits(
    tmp_path: Path, pure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEOLOOKUP_PURE", pure)
    path = tmp_path / "index"
    parts = [mmdb.text("city 1"), mmdb.text("city 2"), b"\x5fcut", mmdb.text("city 4")]
    write(path, [Row(4, at, at, 1 + at, {"city": part}) for at, part in enumerate(parts)])
    with IndexReader.open(path) as reader, pytest.raises(IndexDamagedError, match=r"parts\.bytes: part 3, at 14"):
        verify_index(reader)
