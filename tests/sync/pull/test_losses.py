"""The guard by addresses, held to a plain walk over all addresses at which two small stacks can differ."""

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.index.builder import IndexBuilder
from geolookup.index.reader import IndexReader
from geolookup.settings.table import Settings
from geolookup.sync.pull import losses
from geolookup.sync.pull.losses import judge
from tests.index.building import V4_END, V6_END
from tests.index.test_stack import STACKS
from tests.oracle import all_answers
from tests.oracle.stacked_scan import Row, Source, answer
from tests.support.examples import examples

END = {4: V4_END, 6: V6_END}
#: In place of the locid 0, so that the scan says that a mask answers nothing.
MASK = 99
#: By locid: country, region, city, postal code, latitude, longitude, DMA code, area code.
PLACES: dict[int, tuple[Any, ...]] = {
    1: ("US", "TX", "Austin", "78701", 30.25, -97.75, "635", "512"),
    2: ("US", "", "", "", None, None, "", ""),
    3: ("DE", "BE", "Berlin", "", 52.5, 13.25, "", ""),
    4: ("", "", "Nowhere", "", None, None, "", ""),
    5: ("DE", "", "", "10115", None, None, "", ""),
}
NAMES = ("country", "region", "city", "postal code", "latitude", "longitude", "DMA code", "area code")
NAMES_OF_SOURCES = [f"source-{number}" for number in range(4)]


class Seen(NamedTuple):
    """What a stack answers: the source, and the place; the place is None if a mask or nothing answers."""

    source: str | None
    place: tuple[Any, ...] | None


def seen(stack: tuple[Source, ...], left_out: frozenset[str], family: int, address: int) -> Seen:
    for source in stack:
        marked = [row._replace(locid=row.locid or MASK) for row in source.rows]
        found = answer([source._replace(rows=marked)], family, address)
        if found is None:
            continue
        if found[1] == MASK:
            return Seen(source.name, None)
        return Seen(None, None) if source.name in left_out else Seen(source.name, PLACES[found[1]])
    return Seen(None, None)


def expected(
    old: tuple[Source, ...],
    new: tuple[Source, ...],
    settings: Settings,
    left_out: frozenset[str],
    moving: frozenset[str],
) -> dict[tuple[str, int], set[str | None]]:
    """The losses by what is lost and the family, each with the sources that some of it is charged to."""
    found: dict[tuple[str, int], set[str | None]] = {}
    for family in (4, 6):
        ends = [(row.first, row.last) for source in (*old, *new) for row in source.rows if row.family == family]
        walked = [
            (last - first + 1, seen(old, left_out, family, first), seen(new, left_out, family, first))
            for first, last in all_answers.edges(ends, END[family])
        ]
        had = [each for each in walked if each[1].place is not None]
        covered = sum(count for count, _, _ in had)

        def note(what: str, lost: list[tuple[int, Seen, Seen]], family: int = family) -> None:
            owners = {next((s.source for s in (now, was) if s.source in moving), None) for _, was, now in lost}
            found[what, family] = found.get((what, family), set()) | owners

        if not had:
            continue
        if all(now.place is None for _, _, now in walked):
            note("no answer at all", had)
            continue
        gone = [each for each in had if each[2].place is None]
        if sum(each[0] for each in gone) > settings.guard_uncovered * covered:
            note("would have none", gone)
        for what, at, allowed in (
            ("that names none", 2, settings.guard_coarser),
            ("another country", 0, settings.guard_country),
        ):
            having = [each for each in had if each[1].place[at]]  # type: ignore[index] # they have one
            lost = [
                each
                for each in having
                if each[2].place is not None
                and (each[2].place[0] != each[1].place[0] if at == 0 else not each[2].place[2])  # type: ignore[index]
            ]
            if sum(each[0] for each in lost) > allowed * sum(each[0] for each in having):
                note(what, lost)
        for at, _ in enumerate(NAMES):
            having = [each for each in had if each[1].place[at] not in ("", None)]  # type: ignore[index]
            answered = [each for each in having if each[2].place is not None]
            lost = [each for each in answered if each[2].place[at] in ("", None)]  # type: ignore[index]
            still = sum(each[0] for each in answered) - sum(each[0] for each in lost)
            enough = sum(each[0] for each in having) >= 0.2 * covered
            if at not in (0, 2) and lost and enough and still < 0.1 * sum(each[0] for each in answered):
                note("would be gone", lost)
    return found


def places(stack: tuple[Source, ...], other: tuple[Source, ...], left_out: frozenset[str]) -> int:
    """The places that answer somewhere."""
    answering = set()
    for family in (4, 6):
        ends = [(row.first, row.last) for source in (*stack, *other) for row in source.rows if row.family == family]
        for first, _ in all_answers.edges(ends, END[family]):
            if seen(stack, left_out, family, first).place is not None:
                answering.add(answer(stack, family, first))
    return len(answering)


def opened(folder: Path, stack: tuple[Source, ...], keep: ExitStack) -> list[tuple[str, IndexReader]]:
    readers = []
    for source in stack:
        builder = IndexBuilder("default", source=source.name, later_wins=not source.numbered)
        slots: dict[int, int] = {}
        for row in source.rows:
            if row.locid not in slots:
                place = PLACES.get(row.locid)
                slots[row.locid] = builder.add_mask() if place is None else builder.add_location(row.locid, *place)
            builder.add_block(slots[row.locid], row.family, row.first, row.last)
        builder.write(folder / source.name)
        readers.append((source.name, keep.enter_context(IndexReader.open(folder / source.name))))
    return readers


SHARES = st.sampled_from((0.0, 0.02, 0.25, 0.5, 0.75, 1.0))
KINDS = ("no answer at all", "would have none", "that names none", "another country", "would be gone")


@given(
    old=STACKS,
    new=STACKS,
    shares=st.tuples(SHARES, SHARES, SHARES),
    left_out=st.frozensets(st.sampled_from(NAMES_OF_SOURCES), max_size=1),
    moving=st.frozensets(st.sampled_from(NAMES_OF_SOURCES)),
)
@examples(40)
def test_the_losses_are_those_that_asking_address_by_address_finds(
    old: Any, new: Any, shares: tuple[float, float, float], left_out: frozenset[str], moving: frozenset[str]
) -> None:
    uncovered, coarser, country = shares
    settings = Settings(guard_uncovered=uncovered, guard_coarser=coarser, guard_country=country)
    with ExitStack() as keep, pytest.MonkeyPatch.context() as patch:
        patch.setattr(losses, "_MANY_PLACES", 3)
        one, other = (Path(keep.enter_context(TemporaryDirectory())) for _ in range(2))
        verdict = judge(settings, opened(one, old, keep), opened(other, new, keep), left_out=left_out, moving=moving)
    found: dict[tuple[str, int], str | None] = {}
    few = [loss for loss in verdict.losses if "fewer than half" in loss.reason]
    for loss in verdict.losses:
        if loss not in few:
            (what,) = (kind for kind in KINDS if kind in loss.reason)
            found[what, 4 if "IPv4" in loss.reason else 6] = loss.charged
    charges = expected(old, new, settings, left_out, moving)
    assert found.keys() == charges.keys()
    for which, owners in charges.items():
        assert found[which] in owners
    before, after = places(old, new, left_out), places(new, old, left_out)
    assert bool(few) == (before >= 3 and after < before / 2)
    if few:
        assert few[0].reason.startswith(f"{after} place")


def one_row(name: str, locid: int, last: int, *more: Row) -> Source:
    return Source(name, True, [Row(locid, 4, 0, last), *more])


@pytest.mark.parametrize(("lost", "held"), [(49, False), (50, False), (51, True)])
def test_what_is_allowed_is_allowed_to_the_last_address(tmp_path: Path, lost: int, held: bool) -> None:
    with ExitStack() as keep:
        (tmp_path / "old").mkdir()
        (tmp_path / "new").mkdir()
        old = opened(tmp_path / "old", (one_row("a", 1, 99),), keep)
        new = opened(tmp_path / "new", (one_row("a", 1, 99 - lost),), keep)
        found = judge(Settings(guard_uncovered=0.5), old, new, moving=["a"]).losses
    assert [loss.charged for loss in found] == (["a"] if held else [])


def test_a_file_is_not_compared_with_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    IndexBuilder("default").write(tmp_path / "index")
    (tmp_path / "snapshot").hardlink_to(tmp_path / "index")
    monkeypatch.setattr(losses, "changed_kinds", None)
    with IndexReader.open(tmp_path / "index") as one, IndexReader.open(tmp_path / "snapshot") as same:
        assert judge(Settings(), [("old", one)], [("new", same)]).losses == ()


def test_a_loss_is_charged_to_the_source_that_answers_now_before_the_one_that_answered(tmp_path: Path) -> None:
    with ExitStack() as keep:
        (tmp_path / "old").mkdir()
        (tmp_path / "new").mkdir()
        old = opened(tmp_path / "old", (one_row("low", 1, 99),), keep)
        new = opened(tmp_path / "new", (one_row("top", 2, 99), one_row("low", 1, 99)), keep)
        found = judge(Settings(), old, new, moving=["low", "top"]).losses
    assert found
    assert {loss.charged for loss in found} == {"top"}
