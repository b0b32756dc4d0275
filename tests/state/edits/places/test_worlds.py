"""Every small world, played by the one function that decides; each idea is broken once, and a story tells so."""

from collections.abc import Callable
from typing import Any

import pytest

from geolookup.state.edits.places import concluding, looking
from geolookup.state.edits.places import reconcile as deciding
from tests.state.edits.places import world as worlds
from tests.state.edits.places.explore import explore, walk
from tests.state.edits.places.world import start


@pytest.mark.parametrize(
    ("edits", "faults", "moves", "new", "most"),
    [
        (1, 1, 1, False, None),
        (2, 1, 0, False, None),
        (1, 2, 0, False, None),
        (2, 0, 1, False, 8000),
        (1, 0, 2, False, 8000),
        (2, 1, 1, False, 8000),
        (3, 1, 0, False, 8000),
        (2, 1, 0, True, 8000),
        (1, 0, 2, True, 8000),
    ],
)
def test_nothing_is_lost_doubled_or_written_to_another(
    edits: int, faults: int, moves: int, new: bool, most: int | None
) -> None:
    assert explore(start(edits=edits, faults=faults, moves=moves, new=new), most=most) > 100


@pytest.mark.parametrize(("edits", "faults", "moves", "new"), [(1, 1, 0, False), (1, 0, 1, False), (1, 1, 1, True)])
def test_nothing_is_lost_doubled_or_written_to_another_after_an_older_copy_of_the_edits_was_put_back(
    edits: int, faults: int, moves: int, new: bool
) -> None:
    assert explore(start(edits=edits, faults=faults, moves=moves, new=new, copies=1), most=8000) > 100


def test_nothing_is_lost_doubled_or_written_to_another_as_a_person_edits_what_a_list_brought() -> None:
    assert explore(start(edits=1, faults=1, moves=1, new=True, brings=True), most=8000) > 100


@pytest.mark.parametrize(("faults", "moves", "most"), [(1, 0, 8000), (0, 1, 24000)])
def test_nothing_is_lost_of_a_place_from_which_one_block_cannot_be_taken_alone(
    faults: int, moves: int, most: int
) -> None:
    assert explore(start(edits=2, faults=faults, moves=moves, blocks=(1, 2)), most=most) > 100


def test_nothing_is_lost_doubled_or_written_to_another_in_larger_worlds() -> None:
    for seed in range(500):
        walk(seed)


def _believed(place: Any, number: int, _shelf: Any) -> Any:
    return concluding.answered(place, number=number)


def _at_once(place: Any, look: Any) -> Any:
    return ORIGINAL["reconcile"](worlds.settled(place), look)


ORIGINAL: dict[str, Callable[..., Any]] = {"reconcile": deciding.reconcile}
#: Each idea, broken: (module, name, what stands there instead, the size of a world that shows it).
BROKEN = {
    "a place is a number": (((looking,), "is_another", lambda *_: False), (1, 0, 2)),
    "an unknown outcome need not settle": (((worlds, concluding), "reconcile", _at_once), (2, 1, 0)),
    "any list proves everything": (((worlds,), "concluding", lambda world: world.window), (2, 1, 0)),
    "what was acknowledged need not be shown": (((deciding,), "lacking", lambda *_: False), (2, 1, 0)),
    "what a delete-all took is gone": (((deciding,), "owed_blocks", lambda *_: frozenset()), (2, 1, 0)),
    "every number in an answer is right": (((worlds,), "misnamed", _believed), (2, 1, 1)),
    "two places may share a number": (((worlds,), "is_claimed", lambda *_: False), (2, 1, 1)),
    "nobody else changes anything": (((deciding,), "conflicting", lambda *_: []), (1, 0, 1)),
    "what is held stays as it was": (((concluding,), "over", lambda place, _: place), (1, 0, 1)),
    "a create that was lost made nothing": (((worlds.Exact,), "same", lambda *_: False), (1, 1, 0)),
    "no create is applied twice": (((concluding,), "twins_of", lambda *_: {}), (1, 1, 0)),
}


@pytest.mark.parametrize("idea", BROKEN)
def test_a_broken_idea_is_told_as_a_story(idea: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (modules, name, instead), (edits, faults, moves) = BROKEN[idea]
    for module in modules:
        monkeypatch.setattr(module, name, instead)
    with pytest.raises(AssertionError, match=r"(?s)1\. .*=> "):
        explore(start(edits=edits, faults=faults, moves=moves), most=40_000)
