"""Many small runs of people, colleagues and faults: a bounded part of what ``python -m tests.dials.table`` plays."""

from pathlib import Path

import pytest

from tests.dials.dials import MEANINGS
from tests.dials.judge import Verdict
from tests.dials.table import Run, main, play, runs_of, table, write
from tests.dials.world import World


@pytest.mark.parametrize("seed", range(2))
def test_on_a_plain_service_all_is_exact_and_nothing_waits_for_a_person(seed: int) -> None:
    verdict = World(seed, frozenset({"plain"})).play()
    assert not verdict.bad, verdict.story
    assert verdict.held == 0, verdict.story


@pytest.mark.parametrize(
    ("seed", "names"),
    [
        (0, "clock row"),
        (0, "conflict copied"),
        (0, "lie twice"),
        (2, "copied"),
        (3, "copied empty"),
        (1000, "empty pieces"),
        (1000, "lag lie"),
        (1000, "colleagues lost"),
        (7, "row twice"),
        (303, "lie"),
        (20012, "clock lie"),
        (20394, "colleagues"),
        (40015, "colleagues lie"),
        (41001, "lag reuse"),
        (60015, "normalise pieces"),
        (500003, "empty row"),
        (700007, "lag restore"),
        (700006, "normalise twice"),
        (700018, "empty twice"),
        (700020, "lie normalise"),
        (700024, "lag lie"),
        (700029, "lie lost"),
        (700144, "normalise"),
        (720184, "lie"),
        (800032, "colleagues lost"),
        (800308, "row"),
        (900028, "machines reboot"),
        (900033, "copied restore"),
        (1000011, "lost twice"),
        (2000444, "reuse"),
        (7300000, "copied reuse"),
    ],
)
def test_what_once_went_wrong(seed: int, names: str) -> None:
    verdict = World(seed, frozenset(names.split()), connections=1).play()
    assert not verdict.bad, verdict.story


@pytest.mark.parametrize(
    ("seed", "names", "connections"),
    [(800011, "lie normalise", 2), (1100002, "lie machines", 2), (1100021, "lie lost", 4)],
)
def test_what_once_went_wrong_over_several_connections(seed: int, names: str, connections: int) -> None:
    verdict = World(seed, frozenset(names.split()), connections=connections).play()
    assert not verdict.bad, verdict.story


@pytest.mark.parametrize("seed", [900008, 900039, 900142])
def test_a_create_that_never_arrived_does_not_wait_for_a_colleagues_branch_in_its_town(seed: int) -> None:
    """Others that were lost with it show that the service stores what it is sent."""
    verdict = World(seed, frozenset({"lost"})).play()
    assert not verdict.bad, verdict.story
    assert verdict.held == 0, verdict.story


def test_two_hundred_places_in_a_few_towns_are_ordinary_work() -> None:
    verdict = World(7, frozenset({"plain"}), sites=200, steps=3).play()
    assert not verdict.bad, verdict.story
    assert verdict.held == 0, verdict.story


def test_every_dial_is_played_alone_and_with_every_other() -> None:
    runs = runs_of(1000)
    for name in MEANINGS:
        assert sum(run.names == (name,) for run in runs) >= 500
        if name != "plain":
            pairs = [run for run in runs if name in run.names and len(run.names) == 2]
            assert len(pairs) >= 500
            assert {other for run in pairs for other in run.names} == set(MEANINGS) - {"plain"}


def test_the_table_counts_runs_and_a_seed_plays_the_same_run_again() -> None:
    run = Run(3, ("lost",))
    first, second = play(run)[1], play(run)[1]
    assert first.story == second.story
    assert table([(run, first)]).splitlines()[2].startswith("| lost | alone | 1 |")


def test_a_log_has_each_run_and_the_table_of_several_logs_is_that_of_all_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [(Run(1, ("lost",)), Verdict(held=1)), (Run(2, ("lag", "lost")), Verdict(twins=1, story=["two"]))]
    logs = [tmp_path / "one", tmp_path / "two"]
    for path, each in zip(logs, found, strict=True):
        with path.open("a") as file:
            write(file, *each)
    assert main(["--read", *map(str, logs)]) == 0
    out = capsys.readouterr().out
    assert table(found) in out
    assert "2 runs, 1 of them bad" in out
