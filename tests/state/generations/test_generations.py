"""Generations as history: what is kept, what was served when, pins, pruning, and opening any of them."""

import json
import os
import shutil
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pytest

from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import (
    NoStateError,
    StateBusyError,
    StateDamagedError,
    UnknownGenerationError,
)
from geolookup.state.base import clock
from geolookup.state.base.current import read_current
from geolookup.state.base.parts import SERVICE
from geolookup.state.editor import Editor
from geolookup.state.generations.recovery import numbered
from geolookup.state.publishing.catalogue import Generations
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import verify
from tests.state.edits.editing import BERLIN
from tests.state.generations.staged import served, staged, stamped, stamps, strays
from tests.support.data.states import publish


class Clock:
    """The wall clock, standing still until it is told otherwise."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 6, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def day(self, number: int) -> None:
        self.now = datetime(2026, 3, number, 6, tzinfo=UTC)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(clock, "wall", found)
    return found


def generations(home: str) -> list[int]:
    return sorted(numbered(os.path.join(home, "generations")))


def nights(home: str, wall: Clock, count: int, *, keep: int = 7) -> StateDirectory:
    """One publish a day at six, numbered like the days."""
    for number in range(1, count + 1):
        wall.day(number)
        publish(home, stamped(number), keep=keep)
    return StateDirectory(home, keep_generations=keep)


def opened(home: str, reference: int | str | date) -> set[str]:
    published = Generations(StateDirectory(home)).open(reference)
    try:
        return stamps(published)
    finally:
        published.close()


# Retention


def test_after_a_rollback_the_one_gone_back_to_and_the_one_rolled_back_outlive_older_ones(
    home: str, wall: Clock
) -> None:
    directory = nights(home, wall, 5, keep=3)
    assert generations(home) == [3, 4, 5]
    directory.keeping.rollback(3)
    publish(home, stamped(6), keep=3)
    # By number, 3 would go: the one that was served last, and is the one to go back to.
    assert generations(home) == [3, 5, 6]
    assert directory.keeping.rollback().generation == 3
    assert (served(home), verify(home), strays(home)) == ((3, {"3"}), [], [])


def test_a_rollback_without_a_number_leaves_out_what_was_rolled_back(home: str, wall: Clock) -> None:
    directory = nights(home, wall, 3)
    directory.keeping.rollback(1)
    publish(home, stamped(9))
    assert directory.keeping.rollback().generation == 1
    assert directory.keeping.rollback().generation == 2  # 3 and 4 were rolled back
    with pytest.raises(
        UnknownGenerationError, match=r"no older generation .* 1, 3, 4 have content that was rolled back: name one"
    ):
        directory.keeping.rollback()


def test_a_rollback_passes_over_what_is_the_same_and_says_so_if_there_is_nothing_else(home: str, wall: Clock) -> None:
    directory = nights(home, wall, 1)
    only = r"only generation 1 is kept, which is served: there is nothing to go back to"
    with pytest.raises(UnknownGenerationError, match=only):
        directory.keeping.rollback()
    publish(home, stamped(1), url="http://localhost:9")
    same = r"generation 1 has the same content as what is served, so going back would change nothing"
    with pytest.raises(UnknownGenerationError, match=same):
        directory.keeping.rollback()
    publish(home, stamped(2))
    publish(home, stamped(2), url="http://localhost:9")
    assert directory.keeping.rollback().generation == 2


def test_a_moment_that_was_printed_is_read_though_the_clock_went_back(home: str, wall: Clock) -> None:
    nights(home, wall, 3)
    wall.now -= timedelta(days=5)
    assert Generations(StateDirectory(home)).resolve("2026-03-03 06:00:00Z") == 3
    with pytest.raises(UnknownGenerationError, match="in the future"):
        Generations(StateDirectory(home)).resolve("2026-03-03 06:00:02Z")


def test_an_edit_removes_no_generation_whatever_its_editor_thinks_is_kept(home: str, wall: Clock) -> None:
    nights(home, wall, 9, keep=20)
    with Editor(home) as editor:
        editor.create(**BERLIN)
    assert generations(home) == list(range(1, 10))


@pytest.mark.parametrize("keep", [1, 2, 4])
def test_a_pinned_generation_is_kept_besides_the_others(home: str, wall: Clock, keep: int) -> None:
    directory = nights(home, wall, 2, keep=9)
    directory.keeping.pin(1)
    for number in range(3, 9):
        publish(home, stamped(number), keep=keep)
    assert generations(home) == [1, *range(9 - keep, 9)]
    assert read_current(home).pins == (1,)
    StateDirectory(home, keep_generations=keep).keeping.unpin(1)
    assert generations(home) == list(range(9 - keep, 9))
    assert [line["what"] for line in directory.edits.history()] == ["pin", "unpin"]


def test_pins_and_refusals_and_the_record_of_what_was_served_survive_a_lost_current(home: str, wall: Clock) -> None:
    directory = nights(home, wall, 3)
    directory.keeping.pin(1)
    before = directory.keeping.rollback()
    Path(home, "CURRENT").write_bytes(b"{")
    for number in (4, 5):
        wall.day(number)
        publish(home, stamped(number), keep=1)
    after = read_current(home)
    assert (after.pins, after.refused, generations(home)) == ((1,), before.refused, [1, 5])
    assert after.served[0] == before.served[0]
    assert Generations(directory).resolve("2026-03-01") == 1


def test_pinning_what_is_not_there_and_unpinning_what_is_not_pinned_are_refused(home: str) -> None:
    publish(home, stamped(1))
    before = read_current(home).as_json()
    directory = StateDirectory(home)
    with pytest.raises(UnknownGenerationError, match="generation 7 is not kept"):
        directory.keeping.pin(7)
    with pytest.raises(UnknownGenerationError, match="not pinned"):
        directory.keeping.unpin(1)
    assert read_current(home).as_json() == before
    pinned = directory.keeping.pin(1)
    assert directory.keeping.pin(1).sequence == pinned.sequence
    assert pinned.published_at == before["published_at"]


def test_prune_removes_what_retention_would_and_says_how_much(home: str, wall: Clock) -> None:
    directory = nights(home, wall, 6, keep=9)
    directory.keeping.pin(2)
    sizes = {
        number: sum(path.stat().st_size for path in Path(home, "generations", f"{number:06d}").iterdir())
        for number in generations(home)
    }
    assert directory.keeping.prune() == {}
    promised = directory.keeping.prune(keep=2, dry_run=True)
    assert generations(home) == [1, 2, 3, 4, 5, 6]
    assert directory.keeping.prune(keep=2) == promised == {number: sizes[number] for number in (1, 3, 4)}
    assert (generations(home), served(home), verify(home), strays(home)) == ([2, 5, 6], (6, {"6"}), [], [])
    assert len(numbered(os.path.join(home, "custom"))) == 3


def test_nothing_is_pruned_while_current_is_damaged_or_a_run_is_under_way(home: str, wall: Clock) -> None:
    directory = nights(home, wall, 3)
    with staged(StateDirectory(home), stamped(9)), pytest.raises(StateBusyError):
        directory.keeping.prune(keep=1)
    Path(home, "CURRENT").write_bytes(b"{")
    with pytest.raises(StateDamagedError, match="nothing is removed"):
        directory.keeping.prune(keep=1)
    assert generations(home) == [1, 2, 3]


# The list


def test_the_list_says_of_each_what_it_is(home: str, wall: Clock) -> None:
    directory = nights(home, wall, 3)
    directory.keeping.pin(1)
    directory.keeping.rollback(2)
    with staged(directory, stamped(4)) as candidate:
        directory.holding.hold(candidate, SERVICE)
    found = Generations(directory).kept()
    assert [each.number for each in found] == [1, 2, 3, None]
    assert [(each.served, each.pinned, each.refused, each.held) for each in found] == [
        (False, True, False, False),
        (True, False, False, False),
        (False, False, True, False),
        (False, False, False, True),
    ]
    assert [each.published_at for each in found] == [
        "2026-03-01T06:00:00.000Z",
        "2026-03-03T06:00:00.000Z",
        "2026-03-03T06:00:00.000Z",
        None,
    ]
    assert found[0].rows["geolocations"] == 3
    assert found[0].bytes > 100_000
    Path(home, "generations", "000001", "report.json").write_bytes(b"{")
    damaged = Generations(directory).kept()[0]
    assert (damaged.number, damaged.digest, damaged.pinned) == (1, None, True)
    assert "report.json" in str(damaged.problem)


# As of


def test_a_moment_means_the_generation_that_was_served_then(home: str, wall: Clock) -> None:
    directory = nights(home, wall, 4)
    wall.now += timedelta(hours=3)
    directory.keeping.rollback(2)
    found = Generations(directory)
    expected = {
        "2026-03-01": 1,
        "2026-03-02T05:59:59Z": 1,
        "2026-03-02T06:00:00": 2,
        "2026-03-02T06:30:00+01:00": 1,
        "2026-03-03": 3,
        "2026-03-04T08:59:59.999Z": 4,
        "2026-03-04T09:00:00Z": 2,
        "2026-03-04": 2,
        "today": 2,
        "yesterday": 3,
        "3h": 4,
        "181m": 3,
        "2 days ago": 2,
        "06:00": 4,
        "05:59": 3,
        "yesterday 5:00": 2,
        "served": 2,
        "previous": 4,
        "3": 3,
    }
    assert {text: found.resolve(text) for text in expected} == expected
    assert found.resolve(date(2026, 3, 3)) == 3
    assert found.resolve(datetime(2026, 3, 3, 8, tzinfo=timezone(timedelta(hours=3)))) == 2
    assert opened(home, "2026-03-03") == {"3"}
    assert opened(home, "previous") == {"4"}


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (
            "2026-02-28",
            r"served at 2026-02-28 \(2026-02-28 23:59:59Z\) is not known, since the record begins at 2026-03-01",
        ),
        ("2026-02-01", r"06:00:00Z: kept are 4 \(served from 2026-03-04 06:00:00Z\), 5"),
        ("2026-03-02", r"served at 2026-03-02 \(2026-03-02 23:59:59Z\) is no longer kept: kept are 4"),
        ("90h", r"served at 90h \(2026-03-01 12:00:00Z\) is no longer kept: kept are 4"),
        ("2026-03-06", r"2026-03-06 \(2026-03-06 23:59:59Z\) is in the future: it is 2026-03-05 06:00:00Z now"),
        ("2", "generation 2 is not kept: kept are 4"),
        ("99", "generation 99 is not kept"),
        ("0", "generation 0 is not kept"),
        ("tomorrow", "give its number, served, previous, or when it was served: yesterday, 2d,"),
        ("0001-01-01T00:00:00+23:00", "is not a generation"),
        ("", "give its number"),
    ],
)
def test_what_is_not_kept_or_not_known_is_an_error_that_names_what_is(
    home: str, wall: Clock, reference: str, message: str
) -> None:
    directory = nights(home, wall, 5, keep=2)
    with pytest.raises(UnknownGenerationError, match=message):
        Generations(directory).open(reference)


def test_with_one_generation_there_is_no_previous_one_and_with_none_nothing_was_published(home: str) -> None:
    with pytest.raises(NoStateError):
        Generations(StateDirectory(home)).resolve("served")
    publish(home, stamped(1))
    with pytest.raises(UnknownGenerationError, match="no previous"):
        Generations(StateDirectory(home)).resolve("previous")


def test_an_older_generation_answers_with_the_custom_layer_that_it_was_served_with_last(home: str, wall: Clock) -> None:
    nights(home, wall, 1)
    with Editor(home) as editor:
        first = editor.create(**BERLIN)
        editor.add_block(first, "10.9.9.9")
    wall.day(2)
    publish(home, stamped(2))
    with Editor(home) as editor:
        editor.update(first, city="Potsdam")
    with GeoLookup(home) as geo, GeoLookup(home, as_of=1) as then:
        now, before = geo.lookup("10.9.9.9"), then.lookup("10.9.9.9")
        assert now is not None
        assert before is not None
        assert (now.city, before.city) == ("Potsdam", "Berlin")


def test_a_lookup_as_of_another_time_stays_with_it(home: str, wall: Clock) -> None:
    nights(home, wall, 2)
    with GeoLookup(home, as_of="previous") as geo:
        publish(home, stamped(3))
        geo.look_soon()
        found = geo.lookup("10.1.1.1")
        assert found is not None
        assert (found.city, geo.status().generation, geo.status().checked_at) == ("1", 1, "2026-03-01T06:00:00.000Z")
        shutil.rmtree(home)
        geo.look_soon()
        assert geo.lookup("10.1.1.1") == found


def test_an_older_generation_that_is_damaged_is_refused_and_no_other_answers_for_it(home: str, wall: Clock) -> None:
    nights(home, wall, 3)
    os.truncate(os.path.join(home, "generations", "000001", "index"), 100)
    with pytest.raises(StateDamagedError, match="generation 1"):
        opened(home, 1)
    os.unlink(os.path.join(home, "custom", "000002"))
    with pytest.raises(StateDamagedError, match="custom layer"):
        opened(home, 2)
    assert opened(home, 3) == {"3"}


# What other releases write


@pytest.mark.parametrize("wrong", [{"pins": 7}, {"pins": ["1"]}, {"served": [[1]]}, {"served": [[1, 2]]}])
def test_pins_and_record_of_the_wrong_kind_are_damage(home: str, wrong: dict[str, object]) -> None:
    publish(home, stamped(1))
    path = Path(home, "CURRENT")
    found = {**json.loads(path.read_text()), **wrong}
    del found["check"]
    path.write_text(json.dumps(found))
    with pytest.raises(StateDamagedError, match="damaged"):
        read_current(home)


def test_a_rollback_counts_the_age_from_when_the_service_had_that_list_and_keeps_the_reason(
    home: str, wall: Clock
) -> None:
    directory = nights(home, wall, 3)
    assert directory.keeping.rollback(reason="half of DE was gone").checked_at == "2026-03-02T06:00:00.000Z"
    (line,) = directory.edits.history()
    assert (line["what"], line["before"]) == ("rollback", {"generation": 3})
    assert line["after"] == {"generation": 2, "reason": "half of DE was gone"}
