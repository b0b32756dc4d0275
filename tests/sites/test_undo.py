"""Going back: a file that is applied again, and steps that are undone, leave no edit behind that need not be sent."""

import os
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from geolookup.model.errors import DataFileError, EditError
from geolookup.model.types import IPBlock
from geolookup.sites.plan import apply_sites, plan_sites
from geolookup.sites.site import Site
from geolookup.sites.undo import plan_undo, undo
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.row import State
from tests.sites.test_site_changes import RANGES, files, layer, site
from tests.state.edits.editing import put
from tests.support.data.states import place, publish
from tests.support.data.stations import accept, acknowledge
from tests.support.examples import examples


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


@pytest.fixture
def editor(home: str) -> Editor:
    publish(home, [place(1, "10.0.0.0/8"), place(-1, "10.9.0.0/16", latitude=0.5, longitude=0.5)])
    return Editor(home)


def apply(editor: Editor, sites: list[Site]) -> bool:
    """Apply; false if a site could be any of several equal ones, which is for a person to decide."""
    try:
        apply_sites(editor, sites, file="sites.toml")
    except DataFileError as error:
        return "equal in all fields" not in str(error)
    return True


def pending(editor: Editor) -> list[str]:
    """What would be sent, whatever the numbers of the edits and their order."""
    return sorted(f"{row.operation} {row.locid} {row.payload}" for row in editor.outbox() if row.state == State.QUEUED)


def state(editor: Editor) -> tuple[Any, ...]:
    shown = layer(editor)
    return shown, pending(editor), {name: locid for name, locid in editor.sites().items() if locid in shown}


def contents(editor: Editor) -> tuple[Any, ...]:
    """The state without numbers."""
    shown, _, names = state(editor)
    return sorted(shown.values(), key=repr), {name: shown[locid] for name, locid in names.items()}


def next_step(editor: Editor) -> None:
    """End a step within a rehearsal: what comes next is another command."""
    session = editor.sessions._session
    assert session is not None
    session.write_history()  # as at the end of each transaction
    session.outbox.own_step = None


def push(editor: Editor) -> None:
    """Have the service take all that is pending, and give its own numbers."""
    with editor.sessions.transaction() as session:
        rows = session.outbox.rows(State.QUEUED)
        accept(session.ledger)
        for row in rows:
            session.note_decision("push", row, State.DONE)
    assert pending(editor) == []


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Editor:
    """A state for many examples: each is a rehearsal, which leaves nothing behind."""
    home = str(tmp_path_factory.mktemp("state") / "home")
    publish(home, [place(1, "10.0.0.0/8"), place(-1, "172.16.0.0/12", city="foreign", latitude=0.5, longitude=0.5)])
    return Editor(home)


# Oracles: whatever was done, what goes back is as it was


@examples(20)
@given(first=files(), second=files(), pushed=st.booleans())
def test_a_file_applied_again_after_another_leaves_no_edit_behind(
    shared: Editor, first: list[Site], second: list[Site], pushed: bool
) -> None:
    with shared.rehearsal():
        apply(shared, first)
        if pushed:
            push(shared)
        # What no service has heard of may get another number: without networks, it may have passed to another site.
        seen = state if pushed else (lambda editor: (contents(editor), len(pending(editor))))
        before = seen(shared)
        if apply(shared, second) and apply(shared, first):
            assert seen(shared) == before


def block(number: int) -> tuple[str, str | None]:
    first, _, last = RANGES[number].partition("-")
    return first, last or None


numbers = st.integers(0, len(RANGES) - 1)
which = st.integers(0, 3)
cities = st.sampled_from(["p", "q", "r"])
hands = st.one_of(
    st.tuples(st.just("create"), cities),
    st.tuples(st.just("update"), which, cities),
    st.tuples(st.just("delete"), which),
    st.tuples(st.just("add"), which, numbers),
    st.tuples(st.just("remove"), which, numbers),
    st.tuples(st.just("replace"), which, numbers, numbers),
    st.tuples(st.just("clear"), which),
    st.tuples(st.just("apply"), files()),
)


def by_hand(editor: Editor, verb: str, *given: Any) -> None:
    """One command, which may be refused."""
    if verb == "apply":
        apply(editor, *given)
        return
    try:
        if verb == "create":
            editor.create(**site("x", city=given[0]).fields)
            return
        locid = [*sorted(layer(editor), reverse=True), -1][: given[0] + 1][-1]
        if verb == "update":
            editor.update(locid, city=given[1])
        elif verb == "add":
            editor.add_block(locid, *block(given[1]))
        elif verb == "remove":
            editor.remove_block(locid, *block(given[1]))
        elif verb == "replace":
            editor.replace_block(locid, *block(given[1]), *block(given[2]))
        else:
            {"delete": editor.delete, "clear": editor.clear_blocks}[verb](locid)
    except EditError:
        pass


@examples(20)
@given(begun=files(), pushed=st.booleans(), acts=st.lists(hands, max_size=6), at_once=st.booleans())
def test_undoing_everything_that_was_not_sent_gives_the_layer_back_as_it_was(
    shared: Editor, begun: list[Site], pushed: bool, acts: list[Any], at_once: bool
) -> None:
    with shared.rehearsal():
        apply(shared, begun)
        if pushed:
            push(shared)
        newest, before = len(steps(shared)), state(shared)
        for act in acts:
            next_step(shared)
            by_hand(shared, *act)
        count = len(steps(shared)) - newest
        for last in [count] if at_once and count else [1] * count:
            next_step(shared)
            undo(shared, last=last)
        shown, waiting, names = state(shared)
        assert (shown, names) == (before[0], before[2])
        # What was never sent may have been created anew with other fields: then an update of it stays.
        assert waiting == before[1] or not pushed
        assert len(steps(shared)) == newest


@examples(20)
@example(begun=[site("a", city="p")], acts=[("delete", 1), ("apply", [site("a", city="q")])], more=[("delete", 1)])
@given(begun=files(), acts=st.lists(hands, min_size=1, max_size=4), more=st.lists(hands, max_size=3))
def test_undoing_what_was_sent_makes_the_reverse(
    shared: Editor, begun: list[Site], acts: list[Any], more: list[Any]
) -> None:
    with shared.rehearsal():
        apply(shared, begun)
        push(shared)
        newest, before = len(steps(shared)), contents(shared)
        for act in acts:
            next_step(shared)
            by_hand(shared, *act)
        next_step(shared)
        push(shared)
        for act in more:
            next_step(shared)
            by_hand(shared, *act)
        next_step(shared)
        count = len(steps(shared)) - newest
        if count:
            undo(shared, last=count)
        assert contents(shared) == before
        push(shared)
        assert contents(shared) == before


def steps(editor: Editor) -> list[Any]:
    """The steps that can be undone, without those of a step that has only begun."""
    return editor.sessions.ask(lambda session: session.steps.newest(1000))


def sent(home: str) -> None:
    with Editor(home).transaction() as editor:
        push(editor)


# By example


def test_a_whole_file_after_a_half_takes_the_deletes_back_and_the_plan_says_so(editor: Editor, home: str) -> None:
    whole = [site(name, f"10.{20 + at}.0.0/16") for at, name in enumerate("abc")]
    apply(editor, whole)
    sent(home)
    apply(editor, whole[:1])
    assert len(editor.pending()) == 2
    plan = plan_sites(editor, whole)
    assert [(step.kind, step.site) for step in plan.changes] == [("take_back", "b"), ("take_back", "c")]
    assert (plan.summary.returned, plan.summary.new, plan.summary.added) == (2, 0, 2)
    apply(editor, whole)
    assert editor.pending() == []


def test_a_delete_that_may_have_been_sent_is_not_taken_back(editor: Editor, home: str) -> None:
    whole = [site("a", "10.20.0.0/16"), site("b")]
    apply(editor, whole)
    sent(home)
    apply(editor, whole[1:])
    (row,) = editor.pending()
    put(home, row.id, State.UNKNOWN)
    assert [step.kind for step in plan_sites(editor, whole).changes] == ["create", "add_block"]


def test_a_removal_is_taken_back_though_another_site_may_have_been_given_the_block(editor: Editor, home: str) -> None:
    """It has it no more, by an edit of its own: no service is told to give it a block that the first still has."""
    apply(editor, [site("a", "10.20.0.0/16"), site("b")])
    sent(home)
    a, b = editor.sites()["a"], editor.sites()["b"]
    editor.remove_block(a, "10.20.0.0/16")
    editor.add_block(b, "10.20.0.0/16")
    (*_, added) = editor.pending()
    put(home, added.id, State.UNKNOWN)
    apply(editor, [site("a", "10.20.0.0/16"), site("b")])
    assert [str(row.operation) for row in editor.pending()] == ["add_block", "remove_block"]
    acknowledge(home)
    assert [editor.get(editor.sites()[name]).place.ipblocks for name in "ab"] == [(IPBlock.parse("10.20.0.0/16"),), ()]


def test_one_edit_is_undone_and_what_changed_since_stays(editor: Editor) -> None:
    editor.update(-1, city="x", region="y")
    editor.update(-1, city="z")
    first, second = editor.pending()
    found = undo(editor, edits=[first.id])
    assert found.notes == ("city of geolocation -1 was changed again since: it stays 'z'",)
    assert (editor.get(-1).place.city, editor.get(-1).place.region) == ("z", "")
    editor.drop(second.id)
    with pytest.raises(EditError, match=r"edit 2 was dropped"):
        undo(editor, edits=[second.id])
    with pytest.raises(EditError, match="no edit 99"):
        undo(editor, edits=[99])


def test_an_edit_that_waits_for_a_person_is_theirs_to_decide(editor: Editor, home: str) -> None:
    editor.update(-1, city="x")
    put(home, 1, State.HELD)
    with pytest.raises(EditError, match=r"edit 1 is held: `geolookup outbox drop 1`"):
        undo(editor, edits=[1])


def test_a_block_that_belongs_to_another_by_now_stops_the_undo(editor: Editor) -> None:
    editor.remove_block(-1, "10.9.0.0/16")
    other = editor.create(**site("x").fields)
    editor.add_block(other, "10.9.0.0/16")
    before = state(editor)
    with pytest.raises(EditError, match=r"10\.9\.0\.0/16 belongs to geolocation -1 and to geolocation -1000"):
        undo(editor, edits=[1])
    assert state(editor) == before


def test_a_plan_of_an_undo_changes_nothing_and_an_undo_is_no_step(editor: Editor) -> None:
    editor.update(-1, city="x")
    editor.update(-1, city="y")
    before = state(editor), editor.history()
    assert [change.kind for change in plan_undo(editor).changes] == ["take_back"]
    assert (state(editor), editor.history()) == before
    undo(editor)
    assert editor.get(-1).place.city == "x"
    undo(editor)
    assert editor.get(-1).place.city == "city -1"
    assert undo(editor).changes == ()
