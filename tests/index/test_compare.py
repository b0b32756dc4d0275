"""Comparing what two pairs of layers answer, and the fingerprint of all answers, against asking address by address."""

import dataclasses
import hashlib
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.index.builder import IndexBuilder
from geolookup.index.compare import (
    NO_ANSWER,
    AnswerKind,
    KindChange,
    Return,
    changed_answers,
    changed_kinds,
    returning,
)
from geolookup.index.fingerprint import fingerprint
from geolookup.index.layout import SECTIONS
from geolookup.index.reader import IndexReader
from geolookup.index.stack import write_stack
from geolookup.model.errors import IndexDamagedError
from tests.index.building import V4_END, V6_END, blocks, fields, rewritten
from tests.index.test_stack import STACKS, built, sources
from tests.index.test_stack import stacked as as_one_file
from tests.oracle import all_answers
from tests.oracle.linear_scan import Block, winner
from tests.oracle.stacked_scan import Source, answer
from tests.support.examples import examples

END = {4: V4_END, 6: V6_END}
FIELDS = ("country", "region", "city", "postalcode", "latitude", "longitude", "dmacode", "areacode")


@dataclasses.dataclass(frozen=True)
class Side:
    """The blocks of both layers, and fields that some locids have in place of their usual ones."""

    custom: tuple[Block, ...]
    default: tuple[Block, ...]
    changed: tuple[tuple[int, str, Any], ...] = ()

    def fields(self, locid: int) -> dict[str, Any]:
        found = fields(locid)
        return found | {name: value for changed, name, value in self.changed if changed == locid}

    def answer(self, family: int) -> Callable[[int], all_answers.Answer]:
        def answer(address: int) -> all_answers.Answer:
            locid = winner(self.custom, self.default, family, address)
            return None if locid is None else (locid, *(self.fields(locid)[name] for name in FIELDS))

        return answer

    def ends(self, family: int) -> list[tuple[int, int]]:
        return [(block.first, block.last) for block in (*self.custom, *self.default) if block.family == family]


@st.composite
def sides(draw: st.DrawFn) -> Side:
    changed = st.tuples(
        st.sampled_from([-2, -1, 1, 2, 3]),
        st.sampled_from(FIELDS),
        st.integers(0, 1),
    )
    chosen = tuple(
        (locid, name, float(number) if name in ("latitude", "longitude") else f"R{number}")
        for locid, name, number in draw(st.lists(changed, max_size=2))
    )
    return Side(tuple(draw(blocks(sign=-1, most=5))), tuple(draw(blocks(most=7))), chosen)


@contextmanager
def opened(folder: Path, side: Side, *, shuffle: int = 0, pending: bool = False) -> Iterator[tuple[Any, Any]]:
    """Both layers as files; ``shuffle`` changes the order of rows, and so the numbers of texts."""
    order = random.Random(shuffle)
    readers = []
    for layer, content in (("default", side.default), ("custom", side.custom)):
        builder = IndexBuilder(layer)  # type: ignore[arg-type]
        rows = list(content)
        locids = sorted({block.locid for block in rows} | ({9, 8} if layer == "default" else {-9}))
        if shuffle:
            order.shuffle(rows)
            order.shuffle(locids)
        slots = {
            locid: builder.add_location(locid, *side.fields(locid).values(), pending=pending and layer == "custom")
            for locid in locids
        }
        for block in rows:
            builder.add_block(slots[block.locid], block.family, block.first, block.last)
        path = folder / f"{layer}-{len(list(folder.iterdir()))}"
        builder.write(path)
        readers.append(IndexReader.open(path))
    try:
        yield readers[0], readers[1]
    finally:
        for reader in readers:
            reader.close()


def same_answers(one: Side, other: Side) -> bool:
    return all(
        one.answer(family)(first) == other.answer(family)(first)
        for family in (4, 6)
        for first, _ in all_answers.edges([*one.ends(family), *other.ends(family)], END[family])
    )


@pytest.mark.parametrize("chunk", [1 << 18, 5])
@given(old=sides(), new=sides())
@examples(25)
def test_changed_answers_are_those_that_asking_address_by_address_finds(
    tmp_path: Path, chunk: int, old: Side, new: Side
) -> None:
    with pytest.MonkeyPatch.context() as patch, opened(tmp_path, old) as one, opened(tmp_path, new) as other:
        patch.setattr("geolookup.index.walk._CHUNK", chunk)
        found = changed_answers(one, other)
        for family in (4, 6):
            ranges = all_answers.edges([*old.ends(family), *new.ends(family)], END[family])
            expected = all_answers.changes(
                ranges,
                old.answer(family),
                new.answer(family),
                lambda answer: None if answer is None else str(answer[1]),
            )
            assert found[family] == expected  # type: ignore[index]


def opened_stack(folder: Path, stack: tuple[Source, ...]) -> list[tuple[str, IndexReader]]:
    inside = new_folder(folder)
    return [(source.name, IndexReader.open(built(inside / source.name, source))) for source in stack]


def new_folder(folder: Path) -> Path:
    inside = folder / f"{len(list(folder.iterdir()))}"
    inside.mkdir()
    return inside


#: In place of the locid 0, so that the scan says which mask it is that answers nothing.
MASK = 99


def with_marked_masks(source: Source) -> Source:
    return source._replace(rows=[row._replace(locid=row.locid or MASK) for row in source.rows])


def kind_of(stack: tuple[Source, ...], left_out: frozenset[str], family: Any, address: int) -> tuple[AnswerKind, Any]:
    """The kind of the answer for one address, and its country; asked of all rows."""
    found = answer([with_marked_masks(source) for source in stack], family, address)
    if found is None or (found[0] in left_out and found[1] != MASK):
        return NO_ANSWER, None
    source, locid = found
    if locid == MASK:
        return AnswerKind(source=source, fields=None), None
    known = {name: value for name, value in fields(locid).items() if value not in ("", None)}
    return AnswerKind(source=source, fields=frozenset(known)), known.get("country", "")


@pytest.mark.parametrize(("chunk", "bins"), [(1 << 18, 1 << 16), (5, 1)])
@given(old=STACKS, new=STACKS, left_out=st.frozensets(st.sampled_from(["source-0", "source-1"]), max_size=1))
@examples(25)
def test_kinds_of_answers_are_counted_as_asking_address_by_address_does(
    tmp_path: Path, chunk: int, bins: int, old: Any, new: Any, left_out: frozenset[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("geolookup.index.walk._CHUNK", chunk)
        patch.setattr("geolookup.index.compare._MOST_BINS", bins)
        one, other = opened_stack(tmp_path, old), opened_stack(tmp_path, new)
        found = changed_kinds(one, other, left_out=left_out)
        for _, reader in (*one, *other):
            reader.close()
    places: tuple[set[Any], set[Any]] = (set(), set())
    moved: Counter[Any] = Counter()
    for family in (4, 6):
        ends = [(row.first, row.last) for source in (*old, *new) for row in source.rows if row.family == family]
        expected: dict[KindChange, int] = {}
        for first, last in all_answers.edges(ends, END[family]):
            (before, was), (after, now) = (kind_of(stack, left_out, family, first) for stack in (old, new))
            for seen, stack, kind in zip(places, (old, new), (before, after), strict=True):
                seen.update({answer(stack, family, first)} if kind.fields is not None else ())
            if (before.fields, after.fields) != (None, None):
                change = KindChange(before=before, after=after, same_country=was == now)
                expected[change] = expected.get(change, 0) + last - first + 1
            if was != now:
                moved[family, was, now] += last - first + 1
        assert found.addresses[family] == expected  # type: ignore[index]
    assert {(family, *pair): count for family, each in found.countries.items() for pair, count in each.items()} == moved
    for seen, counted in zip(places, (found.places_before, found.places_after), strict=True):
        assert {name: count for name, count in counted.items() if count} == Counter(name for name, _ in seen)


def has_again(stack: Any, kept: Any, away: Any, sites: Any, family: int, address: int) -> Return | None:
    """What a stack has at an address in place of what was taken away; None if nothing was, or a site answers."""
    found = [answer([with_marked_masks(each) for each in side], family, address) for side in (kept, away, stack)]
    # As a person sees it: with the fields of the place, whatever its number.
    seen = [None if each is None or each[1] == MASK else tuple(place(each[1]).values()) for each in found]
    country = [None if each is None else each[0] for each in seen]
    if seen[0] == seen[1] or answer(sites, family, address) is not None:
        return None
    source = None if found[2] is None else found[2][0]
    return Return(country[0], country[1], seen[2] == seen[1], country[2] == country[1], source)


def place(locid: int) -> dict[str, Any]:
    """The fields of a place: two numbers mean the same one."""
    return fields(1 if locid == 4 else locid)


@pytest.mark.parametrize("chunk", [1 << 18, 5])
@given(kept=STACKS, away=STACKS, new=STACKS, sites=sources("sites"))
@examples(40)
def test_what_returns_is_counted_as_asking_address_by_address_does(
    tmp_path: Path, chunk: int, kept: Any, away: Any, new: Any, sites: Source
) -> None:
    sites = sites._replace(rows=[row for row in sites.rows if row.locid], numbered=True)
    with pytest.MonkeyPatch.context() as patch, ExitStack() as opened:
        patch.setattr("geolookup.index.walk._CHUNK", chunk)
        patch.setattr("tests.index.test_stack.fields", place)
        before, gone = (opened.enter_context(as_one_file(new_folder(tmp_path), side)) for side in (kept[:2], away[:2]))
        layers = opened_stack(tmp_path, new)
        for _, reader in layers:
            opened.callback(reader.close)
        found = returning(before, gone, layers, opened.enter_context(as_one_file(new_folder(tmp_path), [sites])))
    for family in (4, 6):
        rows = [row for source in (*kept[:2], *away[:2], *new, sites) for row in source.rows if row.family == family]
        expected: dict[Return, int] = {}
        for first, last in all_answers.edges([(row.first, row.last) for row in rows], END[family]):
            one = has_again(new, kept[:2], away[:2], [sites], family, first)
            if one is not None:
                expected[one] = expected.get(one, 0) + last - first + 1
        assert found[family] == expected  # type: ignore[index]


def test_the_whole_space_of_both_families_is_counted_exactly(tmp_path: Path) -> None:
    whole = tuple(Block(2, family, 0, END[family]) for family in (4, 6))  # type: ignore[arg-type]
    with opened(tmp_path, Side((), ())) as nothing, opened(tmp_path, Side((), whole)) as everything:
        assert changed_answers(nothing, everything) == {4: {(None, "DE"): 2**32}, 6: {(None, "DE"): 2**128}}


# The fingerprint


def split(side: Side, shuffle: int) -> Side:
    """The same answers from other blocks: each cut in two, some twice, at addresses that change no winner.

    A block is replaced by pieces only where it overlaps no other of its layer: elsewhere its width decides.
    """
    order = random.Random(shuffle)

    def pieces(content: tuple[Block, ...]) -> Iterator[Block]:
        for block in content:
            alone = all(
                other is block or other.family != block.family or other.last < block.first or block.last < other.first
                for other in content
            )
            if not alone or block.first == block.last:
                yield block
                continue
            middle = order.randrange(block.first, block.last)
            yield Block(block.locid, block.family, middle + 1, block.last)
            yield Block(block.locid, block.family, block.first, middle)

    return Side(tuple(pieces(side.custom)), tuple(pieces(side.default)), side.changed)


@given(side=sides(), shuffle=st.integers(1, 1000))
@examples(25)
def test_the_fingerprint_is_equal_for_equal_answers_whatever_order_and_splits_they_come_from(
    tmp_path: Path, side: Side, shuffle: int
) -> None:
    other = split(side, shuffle)
    assert same_answers(side, other)
    with opened(tmp_path, side) as one, opened(tmp_path, other, shuffle=shuffle, pending=True) as two:
        expected = fingerprint(one)
        assert fingerprint(two) == expected
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("geolookup.index.walk._CHUNK", 5)
            assert fingerprint(two) == expected


@given(one=sides(), other=sides())
@examples(25)
def test_the_fingerprint_differs_where_an_answer_does(tmp_path: Path, one: Side, other: Side) -> None:
    with opened(tmp_path, one) as first, opened(tmp_path, other) as second:
        assert (fingerprint(first) == fingerprint(second)) == same_answers(one, other)


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_of_an_answer_counts_in_the_fingerprint_and_in_the_comparison(tmp_path: Path, name: str) -> None:
    content = (Block(1, 4, 10, 19),)
    value: Any = 7.5 if name in ("latitude", "longitude") else "changed"
    before, after = Side((), content), Side((), content, ((1, name, value),))
    with opened(tmp_path, before) as one, opened(tmp_path, after) as other:
        assert fingerprint(one) != fingerprint(other)
        assert sum(changed_answers(one, other)[4].values()) == 10


def test_what_no_address_answers_has_no_part_in_the_fingerprint(tmp_path: Path) -> None:
    seen, hidden = Block(-1, 4, 0, V4_END), Block(1, 4, 10, 19)
    with opened(tmp_path, Side((seen,), (hidden,))) as one, opened(tmp_path, Side((seen,), ())) as other:
        assert fingerprint(one) == fingerprint(other)
        assert changed_answers(one, other) == {4: {}, 6: {}}


def test_the_fingerprint_is_what_its_description_says(tmp_path: Path) -> None:
    side = Side((Block(-3, 4, 5, 9),), (Block(2, 4, 0, 7), Block(1, 6, 2**64, 2**65)))
    runs = [(0, 2), (5, -3), (10, 0)]
    text = b"geolookup-answers-1\n4" + b"".join(struct.pack(">Iq", first, locid) for first, locid in runs)
    text += b"6" + b"".join(
        first.to_bytes(16, "big") + struct.pack(">q", locid) for first, locid in [(0, 0), (2**64, 1), (2**65 + 1, 0)]
    )
    text += b"L"
    for locid in (-3, 1, 2):
        found = fields(locid)
        degrees = [
            bytes.fromhex("7ff8000000000000") if found[name] is None else struct.pack(">d", found[name])
            for name in ("latitude", "longitude")
        ]
        texts = [found[name].encode() for name in ("country", "region", "city", "postalcode", "dmacode", "areacode")]
        text += struct.pack(">q", locid) + b"".join(degrees)
        text += b"".join(struct.pack(">I", len(part)) + part for part in texts)
    with opened(tmp_path, side) as layers:
        assert fingerprint(layers) == hashlib.sha256(text).hexdigest()


OWN = 10**9


def stacked(folder: Path, *layers: tuple[str, dict[int, str], list[tuple[int, int, int]]]) -> Any:
    """Sources over each other: each a name, the city of each locid, and IPv4 blocks (locid, first, last)."""
    readers = []
    for name, cities, content in layers:
        builder = IndexBuilder("default", source=name)
        slots = {
            locid: builder.add_location(locid, *{**fields(1), "city": city}.values()) for locid, city in cities.items()
        }
        for locid, first, last in content:
            builder.add_block(slots[locid], 4, first, last)
        path = folder / f"{name}-{len(list(folder.iterdir()))}"
        builder.write(path)
        readers.append((name, IndexReader.open(path)))
    path = folder / f"stack-{len(list(folder.iterdir()))}"
    write_stack(path, readers)
    custom = folder / f"custom-{len(list(folder.iterdir()))}"
    IndexBuilder("custom").write(custom)
    return IndexReader.open(path), IndexReader.open(custom)


def test_numbers_of_ours_are_left_out_of_the_fingerprint(tmp_path: Path) -> None:
    one = stacked(tmp_path, ("a", {OWN: "Bonn", OWN + 1: "Ulm"}, [(OWN, 0, 9), (OWN + 1, 10, 19), (OWN, 20, 29)]))
    other = stacked(
        tmp_path, ("b", {OWN + 9: "Bonn", OWN + 2: "Ulm"}, [(OWN + 9, 0, 9), (OWN + 2, 10, 19), (OWN + 9, 20, 29)])
    )
    two = stacked(
        tmp_path,
        ("b", {OWN + 2: "Bonn"}, [(OWN + 2, 0, 4)]),
        ("c", {OWN: "Ulm", OWN + 5: "Bonn"}, [(OWN, 10, 19), (OWN + 5, 0, 29)]),
    )
    assert fingerprint(one) == fingerprint(other) == fingerprint(two)
    changed = stacked(tmp_path, ("a", {OWN: "Bonn", OWN + 1: "Hof"}, [(OWN, 0, 9), (OWN + 1, 10, 19), (OWN, 20, 29)]))
    moved = stacked(tmp_path, ("a", {OWN: "Bonn", OWN + 1: "Ulm"}, [(OWN, 0, 9), (OWN + 1, 10, 18), (OWN, 20, 29)]))
    numbered = stacked(tmp_path, ("a", {7: "Bonn", 8: "Ulm"}, [(7, 0, 9), (8, 10, 19), (7, 20, 29)]))
    assert len({fingerprint(each) for each in (one, changed, moved, numbered)}) == 4


def test_the_fingerprint_of_places_of_ours_is_what_its_description_says(tmp_path: Path) -> None:
    layers = stacked(
        tmp_path,
        ("a", {5: "Kiel"}, [(5, 30, 39)]),
        ("b", {OWN + 7: "Bonn", OWN: "Ulm"}, [(OWN + 7, 0, 9), (OWN, 10, 99)]),
    )
    runs = [(0, OWN), (10, OWN + 1), (30, 5), (40, OWN + 1), (100, 0)]
    text = b"geolookup-answers-1\n4" + b"".join(struct.pack(">Iq", first, locid) for first, locid in runs)
    text += b"6" + bytes(16) + struct.pack(">q", 0) + b"L"
    for locid, city in ((5, "Kiel"), (OWN, "Bonn"), (OWN + 1, "Ulm")):
        found = {**fields(1), "city": city}
        text += struct.pack(">qdd", locid, found["latitude"], found["longitude"])
        texts = [found[name].encode() for name in ("country", "region", "city", "postalcode", "dmacode", "areacode")]
        text += b"".join(struct.pack(">I", len(part)) + part for part in texts)
    assert fingerprint(layers) == hashlib.sha256(text).hexdigest()


def test_a_number_that_several_sources_use_is_compared_field_by_field(tmp_path: Path) -> None:
    one = stacked(tmp_path, ("a", {7: "Bonn"}, [(7, 0, 9)]), ("b", {7: "Ulm"}, [(7, 0, 19)]))
    same = stacked(tmp_path, ("c", {7: "Ulm"}, [(7, 10, 19)]), ("b", {7: "Bonn"}, [(7, 0, 9)]))
    other = stacked(tmp_path, ("a", {7: "Ulm"}, [(7, 0, 9)]), ("b", {7: "Bonn"}, [(7, 0, 19)]))
    assert changed_answers(one, same) == {4: {}, 6: {}}
    assert changed_answers(one, other) == {4: {("US", "US"): 20}, 6: {}}


def test_damaged_files_are_refused_and_crash_nothing(tmp_path: Path) -> None:
    content = tuple(
        Block(1 + number % 3, family, number * 9, number * 9 + 4) for number in range(9) for family in (4, 6)
    )
    with opened(tmp_path, Side((Block(-1, 4, 3, 20),), content)) as (base, overlay):
        kinds = {name: array.dtype for name, array in base.arrays().items()}
        caught = 0
        for number, (name, kind) in enumerate(kinds.items()):
            for value in (0, 1, 2**31 - 1, 2**64 - 1):

                def wild(array: Any, kind: Any = kind, value: int = value) -> Any:
                    changed = array.copy()
                    changed[1:-1] = array.dtype.type(value & ((1 << 8 * kind.itemsize - (kind.kind == "i")) - 1))
                    return changed

                path = tmp_path / f"wild-{number}-{value}"
                rewritten(Path(base.path), path, **{name.replace(".", "__"): wild})
                try:
                    opened_again = IndexReader.open(path)
                except IndexDamagedError:  # seen at once
                    caught += 1
                    continue
                with opened_again as changed:
                    for work in (
                        lambda changed=changed: fingerprint((changed, overlay)),
                        lambda changed=changed: changed_answers((base, overlay), (changed, overlay)),
                    ):
                        try:
                            work()
                        except IndexDamagedError:
                            caught += 1
        assert caught > len(SECTIONS)
