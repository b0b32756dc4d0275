"""The rules of a push alone: conflicts, adoption, what waits for what, and the steps of a removal."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.model.types import Geolocation, IPBlock
from geolookup.state.edits.outbox.operations import read_edit
from geolookup.state.edits.outbox.row import OutboxRow, State
from geolookup.sync.push import reconcile

FIELDS = {
    "country": "DE", "region": "", "city": "Berlin", "postalcode": "", "latitude": 1.0, "longitude": 2.0,
    "dmacode": "", "areacode": "",
}  # fmt: skip
X, Y, Z = (["10.0.0.1", "10.0.0.1"], ["10.0.0.2", "10.0.0.2"], ["10.0.0.3", "10.0.0.3"])


def row(operation: str, payload: dict[str, Any] | None = None, **changes: Any) -> OutboxRow:
    members: dict[str, Any] = {
        "id": 1, "key": "k", "locid": -1, "edit": read_edit(operation, payload or {}),
        "base": {"fields": FIELDS, "blocks": [X]}, "state": State.QUEUED, "attempts": 0, "created_at": "",
        "attempted_at": None, "ended_at": None, "acknowledged_at": None, "baseline": None, "journal": None,
        "problem": None,
    }  # fmt: skip
    return OutboxRow(**{**members, **changes})


def place(*blocks: list[str], locid: int = -1, **fields: Any) -> Geolocation:
    many = tuple(sorted(IPBlock.from_ends(*ends) for ends in blocks))
    return Geolocation(locid=locid, **{**FIELDS, **fields}, ipblocks=many)


CITY = {"fields": {**FIELDS, "city": "Bonn"}}


@pytest.mark.parametrize(
    ("edit", "theirs", "what"),
    [
        (row("update", CITY), place(X), "send"),
        (row("update", CITY), place(X, Y), "send"),  # its blocks are another edit's matter
        (row("update", CITY), place(X, city="Bonn"), "done"),
        (row("update", CITY), place(X, city="Köln"), "hold"),
        (row("update", CITY), place(X, areacode="1"), "hold"),
        (row("update", CITY), None, "hold"),
        (row("delete"), place(X), "send"),
        (row("delete"), place(X, Y), "hold"),
        (row("delete"), place(X, city="Köln"), "hold"),
        (row("delete"), None, "done"),
        (row("clear_blocks"), place(X), "send"),
        (row("clear_blocks"), place(X, Y), "hold"),
        (row("clear_blocks"), place(), "done"),
        (row("clear_blocks"), None, "done"),
    ],
)
def test_an_edit_goes_out_only_over_what_it_was_made_against(
    edit: OutboxRow, theirs: Geolocation | None, what: str
) -> None:
    decision = reconcile.before_sending(edit, theirs)
    assert decision.what == what
    if what == "hold" and theirs is not None:
        assert reconcile.before_sending(edit, theirs, on_conflict="mine").what == "send"
        assert reconcile.before_sending(edit, theirs, on_conflict="theirs").what == "drop"
        assert decision.theirs is not None
    else:
        assert reconcile.before_sending(edit, theirs, on_conflict="mine").what == what
        assert reconcile.before_sending(edit, theirs, on_conflict="theirs").what == what


@pytest.mark.parametrize(
    ("edit", "theirs", "what"),
    [
        (row("update", CITY), place(city="Bonn"), "done"),
        (row("update", CITY), place(), "queue"),
        (row("update", CITY), None, "hold"),
        (row("delete"), None, "done"),
        (row("delete"), place(X), "queue"),
        (row("add_block", {"block": Y}), place(X, Y), "done"),
        (row("add_block", {"block": Y}), place(X), "queue"),
        (row("add_block", {"block": Y}), None, "hold"),
        (row("clear_blocks"), place(), "done"),
        (row("clear_blocks"), place(X), "queue"),
        (row("clear_blocks"), None, "done"),
        (row("replace_block", {"block": X, "new_block": Y}), place(Y), "done"),
        (row("replace_block", {"block": X, "new_block": Y}), place(X), "queue"),
        (row("replace_block", {"block": X, "new_block": Y}), place(X, Y), "hold"),
        (row("replace_block", {"block": X, "new_block": Y}), place(), "hold"),
        (row("replace_block", {"block": X, "new_block": X}), place(X), "done"),
        (row("remove_block", {"block": X}), place(Y), "queue"),
        (row("remove_block", {"block": X}), None, "hold"),
    ],
)
def test_an_unknown_outcome_is_told_by_what_the_service_has(
    edit: OutboxRow, theirs: Geolocation | None, what: str
) -> None:
    assert reconcile.after_unknown(edit, theirs).what == what


def test_an_equal_create_waits_while_the_outcome_of_another_is_unknown() -> None:
    one = row("create", {"fields": FIELDS}, state=State.UNKNOWN)
    two = row("create", {"fields": FIELDS}, id=2, locid=-2)
    assert reconcile.waits_for(two, [one, two]) == one
    assert reconcile.waits_for(two, [replace(one, state=State.QUEUED), two]) is None
    assert reconcile.waits_for(replace(two, edit=read_edit("create", CITY)), [one, two]) is None


@pytest.mark.parametrize(
    ("frees", "waits"),
    [
        (row("remove_block", {"block": X}), True),
        (row("remove_block", {"block": Y}), False),
        (row("replace_block", {"block": X, "new_block": Y}), True),
        (row("clear_blocks"), True),
        (row("delete"), True),
        (row("delete", base={"fields": FIELDS, "blocks": [Y]}), False),
        (row("remove_block", {"block": X}, id=3), False),
        (row("remove_block", {"block": X}, locid=-2), False),  # of the same geolocation: order is enough
    ],
)
@pytest.mark.parametrize(
    "adds", [row("add_block", {"block": X}), row("replace_block", {"block": Z, "new_block": X})], ids=["add", "replace"]
)
def test_a_block_is_added_only_after_our_own_earlier_edit_freed_it(
    frees: OutboxRow, adds: OutboxRow, waits: bool
) -> None:
    adds = replace(adds, id=2, locid=-2)
    assert (reconcile.waits_for(adds, [frees, adds]) is not None) == waits


def test_a_replace_takes_the_place_of_a_removal_only_where_it_can_do_both() -> None:
    removal = row("remove_block", {"block": X})
    addition = row("add_block", {"block": Y}, id=2)
    assert reconcile.addition_to_merge(removal, place(X), [removal, addition]) == (
        addition,
        read_edit("replace_block", {"block": X, "new_block": Y}),
    )
    between = row("update", CITY, id=2)
    for theirs, pending in [
        (None, [removal, addition]),
        (place(), [removal, addition]),  # there is nothing to replace
        (place(X, Y), [removal, addition]),
        (place(X), [removal]),
        (place(X), [removal, between, replace(addition, id=3)]),
        (place(X), [removal, replace(addition, state=State.HELD)]),
        (place(X), [removal, replace(addition, attempts=1)]),
        (place(X), [row("delete", base={"fields": FIELDS, "blocks": [Y]}, id=0, locid=-9), removal, addition]),
    ]:
        assert reconcile.addition_to_merge(removal, theirs, pending) is None
    begun = replace(removal, journal={"phase": "deleting"})
    assert reconcile.addition_to_merge(begun, place(X), [begun, addition]) is None


@given(
    blocks=st.sets(st.integers(1, 6), min_size=1),
    upsets=st.lists(st.tuples(st.integers(0, 6), st.sampled_from(["lost", "gone", "stranger", "retry"])), max_size=6),
    data=st.data(),
)
def test_a_removal_ends_with_what_shall_be_and_never_deletes_a_stranger_unasked(
    blocks: set[int], upsets: list[tuple[int, str]], data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(sorted(blocks)))
    ends = {number: [f"10.0.0.{number}", f"10.0.0.{number}"] for number in range(1, 10)}
    base = {"fields": FIELDS, "blocks": [ends[number] for number in sorted(blocks)]}
    edit = row("remove_block", {"block": ends[gone]}, base=base)
    there, strangers, accepted, removed_by_others = set(blocks), set[int](), set[int](), set[int]()
    began = False
    for turn in range(60):
        for _, upset in [each for each in upsets if each[0] == turn]:
            if upset == "stranger":
                there.add(9)
                strangers.add(9)
            if upset == "gone" and there - strangers and not began:
                removed_by_others.add(max(there - strangers))
                there.discard(max(there - strangers))
        step = reconcile.next_removal_step(edit, place(*(ends[number] for number in there)))
        edit = replace(edit, journal=step.journal)
        if step.what == "done":
            break
        if step.what == "hold" and "lost" in step.journal:
            assert removed_by_others  # or an earlier removal was cut short: a person says which
            break
        if step.what == "hold":
            assert strangers - accepted
            accepted |= strangers
            journal = dict(step.journal)
            edit = replace(edit, journal={**journal, "accepted": journal.pop("strangers")})
            continue
        if any(upset == "lost" and at == turn for at, upset in upsets):
            began = began or step.what == "clear"  # for all that we know: what is gone from now on, it took
            continue  # the request never arrived: the list says so
        if step.what == "clear":
            began = True
            assert not (strangers - accepted) & there
            there = set()
        else:
            assert step.block is not None
            there.add(step.block.first & 0xFF)
    else:
        raise AssertionError("it goes round in circles")
    assert there - {9} == blocks - {gone} - removed_by_others
    assert (9 in there) == (9 in strangers)
