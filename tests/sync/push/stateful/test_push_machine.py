"""Edits, pulls, pushes, crashes, lost answers, late arrivals and a foreign client, played against a plain model."""

from typing import Any

import pytest
from hypothesis import Phase
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.sync.push.stateful.draws import BLOCKS
from tests.sync.push.stateful.push_machine import KINDS_OF_UPSTREAMS, STEPS, Kind, PushMachine
from tests.sync.push.stateful.world import SETTLE_S


def play(machine: type[RuleBasedStateMachine], *, full_sweep: bool, **more: Any) -> None:
    """Play it. In CI a find is reported as it was found, with what plays it again.

    Making it smaller takes Hypothesis up to five minutes: the test would end with a timeout that hides the find.
    """
    phases = tuple(Phase) if full_sweep else (Phase.explicit, Phase.reuse, Phase.generate)
    run_state_machine_as_test(
        machine,
        settings=hypothesis_settings(
            max_examples=1000 if full_sweep else 10,
            stateful_step_count=STEPS,
            deadline=None,
            print_blob=True,
            phases=phases,
            **more,
        ),
    )


KINDS = pytest.mark.parametrize("honours_keys", KINDS_OF_UPSTREAMS.values(), ids=KINDS_OF_UPSTREAMS.keys())


@KINDS
def test_the_outbox_keeps_its_promises_whatever_happens(honours_keys: bool, full_sweep: bool) -> None:
    play(type("Machine", (PushMachine,), {"kind": Kind(honours_keys=honours_keys)}), full_sweep=full_sweep)


SETTLED: tuple[Any, ...] = ("what_is_unknown_settles_and_is_pushed", [])


def spoilt(city: str, what: str, other: str, *, equal: bool = True) -> list[tuple[Any, ...]]:
    """A create that the foreign client changes or deletes before a list has shown it, beside another one of its."""
    return [
        ("create", city, None),
        SETTLED,
        ("foreign_create", city, equal),
        (what, 1),
        ("create", other, None),
        SETTLED,
    ]


def named_late(what: str, *meanwhile: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """A create that the foreign client changes or deletes while its answer is awaited, and then makes an equal one.

    A service that honours keys names the first one when it is sent again; ``meanwhile`` is what is done then.
    """
    return [
        ("a_create_meets_a_fault", "", "killed-after"),
        (what, 0),
        SETTLED,
        SETTLED,
        *meanwhile,
        ("time_passes", SETTLE_S + 1),
        ("foreign_create", "", True),
        ("pull", None),
    ]


DELETED_AND_GIVEN_A_BLOCK: list[tuple[Any, ...]] = [
    ("create", "", None),
    SETTLED,
    ("delete", 0, None),
    ("foreign_adds_a_block", 0, BLOCKS[1]),
    ("pull", None),
]


@pytest.mark.parametrize(
    "steps",
    [
        spoilt("Berlin", "foreign_update", ""),
        spoilt("", "foreign_update", "Bonn"),
        spoilt("Berlin", "foreign_delete", ""),
        spoilt("Berlin", "foreign_delete", "", equal=False),
        [*spoilt("Berlin", "foreign_delete", ""), ("add_block", 0, BLOCKS[3], None), SETTLED],
        [
            ("create", "Berlin", None),
            SETTLED,
            ("add_block", 0, BLOCKS[3], None),
            *spoilt("Berlin", "foreign_delete", "")[1:],
        ],
        [
            ("create", "", None),
            ("what_is_unknown_settles_and_is_pushed", ["nonsense"]),
            ("delete", 0, None),
            ("pull", None),
            ("add_block", 0, BLOCKS[3], None),
            SETTLED,
        ],
        [
            ("a_create_meets_a_fault", "", "killed-after"),
            ("foreign_adds_a_block", 0, BLOCKS[3]),
            ("a_create_meets_a_fault", "Bonn", "failed"),
            SETTLED,
            ("create", "Bonn", None),
            ("push", None, [], "hold"),
            ("update", 1, "", None),
            ("foreign_create", "Bonn", True),
            ("create", "Berlin", None),
            ("push", None, [], "hold"),
        ],
        [
            ("create", "", None),
            ("push", None, [], "hold"),
            ("foreign_delete", 0),
            ("a_create_meets_a_fault", "", "nonsense"),
            ("what_is_unknown_settles_and_is_pushed", ["error"]),
        ],
        [
            ("create", "", None),
            ("push", None, [], "hold"),
            ("foreign_delete", 0),
            ("time_passes", SETTLE_S + 1),
            ("pull", None),
            ("create", "", None),
            ("push", None, ["nonsense"], "hold"),
            ("person_decides", 0, "adopt", 0),
            SETTLED,
        ],
        [
            ("a_create_meets_a_fault", "", "killed-after"),
            ("pull", None),
            ("delete", 0, None),
            ("foreign_update", 0),
            SETTLED,
        ],
        [
            ("a_create_meets_a_fault", "", "error"),
            ("time_passes", SETTLE_S + 1),
            ("push", None, [f"killed-late:{SETTLE_S / 2}"], "hold"),
            ("time_passes", 90000.0),
            ("push", None, [], "hold"),
        ],
        [
            ("a_create_meets_a_fault", "Bonn", f"late:{SETTLE_S * 3}"),
            ("foreign_create", "Bonn", True),
            ("what_is_unknown_settles_and_is_pushed", ["wrong"]),
            ("time_passes", SETTLE_S + 1),
            ("pull", None),
        ],
        named_late("foreign_update"),
        named_late("foreign_delete"),
        named_late("foreign_update", ("add_block", 0, BLOCKS[3], None), ("push", None, [], "hold")),
        [*DELETED_AND_GIVEN_A_BLOCK, ("push", None, [], "mine")],
        [*DELETED_AND_GIVEN_A_BLOCK, ("push", None, [], "hold"), ("person_decides", 0, "retry", 0), SETTLED],
        [*DELETED_AND_GIVEN_A_BLOCK, ("foreign_delete", 0), SETTLED],
    ],
    ids=[
        *("changed", "made unlike", "deleted", "deleted beside one that is like it"),
        *("edited once it has another number", "edited before it has another number"),
        *("edited after it was deleted", "made equal to another"),
        *("deleted beside one that is unknown", "taken from one that is unknown", "changed before it was known"),
        *("sent again a day later", "answered wrongly with what was made meanwhile"),
        *("changed, and named once it was sent again", "deleted, and named once it was sent again"),
        *("edited once it was named late", "deleted with a block of somebody else's", "deleted after it was held"),
        "deleted by somebody else with a block of theirs",
    ],
)
@KINDS
def test_what_was_once_found(steps: list[tuple[Any, ...]], honours_keys: bool) -> None:
    machine = type("Machine", (PushMachine,), {"kind": Kind(honours_keys=honours_keys)})()
    try:
        machine.first_pull()
        for name, *given in steps:
            getattr(machine, name)(*given)
            machine.lookups_say_what_the_model_says()
            machine.a_create_made_at_most_one_geolocation()
            machine.nothing_of_the_foreign_clients_is_adopted_or_deleted()
            machine.no_acknowledged_edit_is_lost()
    finally:
        machine.teardown()


def test_a_find_is_reported_without_being_made_smaller_first() -> None:
    played: list[list[int]] = []

    class Wrong(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            played.append([])

        @rule(number=st.integers(0, 1000))
        def step(self, number: int) -> None:
            played[-1].append(number)
            assert sum(played[-1]) < 1500

    with pytest.raises(AssertionError):
        play(Wrong, full_sweep=False, database=None)  # a find of an earlier run would be played first
    first = next(number for number, steps in enumerate(played) if sum(steps) >= 1500)
    # It is played again only to see that it fails each time, and to report it.
    assert len(played) - first <= 3
    assert all(steps == played[first] for steps in played[first:])
