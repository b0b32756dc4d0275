"""The kinds of edits: what is written of each is read again, and what is not known is an error."""

import contextlib
import json
import sqlite3
from typing import get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.model.errors import EditsDamagedError, StateDamagedError
from geolookup.model.types import IPBlock
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.baselines import Baselines
from geolookup.state.edits.outbox.operations import (
    _KINDS,
    Operation,
    describe,
    read_intent,
)
from geolookup.state.edits.outbox.payload import values_of, written
from geolookup.state.edits.outbox.schema import empty, insert, update
from geolookup.state.edits.places.place import Content, Intent
from geolookup.state.publishing.directory import StateDirectory
from tests.state.edits.editing import BERLIN, DEFAULTS
from tests.support.data.states import place, publish

blocks = st.sampled_from([IPBlock.parse(f"10.0.0.{last}") for last in range(4)] + [IPBlock.parse("2001:db8::/32")])
values = st.text(max_size=3).map(lambda city: values_of({**BERLIN, "city": city}))
bases = st.sets(blocks).map(lambda has: Content(values_of(BERLIN), frozenset(has)))
edits: st.SearchStrategy[Intent] = st.one_of(
    st.builds(Intent, what=st.just("create"), values=values),
    st.builds(Intent, what=st.just("update"), values=values, base=bases),
    st.builds(Intent, what=st.sampled_from(["delete", "clear_blocks"]), base=bases),
    st.builds(Intent, what=st.just("add_block"), new=blocks, base=bases),
    st.builds(Intent, what=st.just("replace_block"), old=blocks, new=blocks, base=bases),
    st.builds(Intent, what=st.just("remove_block"), old=blocks, base=bases),
)


def test_every_operation_is_a_kind_of_intents_and_every_kind_an_operation() -> None:
    kinds = get_args(get_type_hints(Intent)["what"])
    assert [*_KINDS] == [*Operation]
    assert {*kinds} == {*Operation}


@given(edits)
def test_what_is_written_of_an_edit_is_read_again(edit: Intent) -> None:
    assert read_intent(edit.id, written(edit)) == edit
    assert "-7" in describe(edit, -7)


@given(edits)
def test_an_edit_gives_and_takes_what_it_says(edit: Intent) -> None:
    after = edit.applied(edit.base)
    if edit.new is not None:
        assert after is not None
        assert edit.new in after.blocks
    elif edit.takes:
        assert after is not None
        assert not edit.takes & after.blocks


@pytest.mark.parametrize(
    "changes",
    [
        {"what": "move_block"},
        {"what": ""},
        {"what": "update"},  # which has no fields
        {"new": None},
        {"new": ["10.0.0.1", "10.0.0"]},
        {"base": {"values": 3}},
        {"base": []},
        "{}",
        "[]",
        None,
    ],
    ids=str,
)
def test_a_row_that_cannot_be_read_is_an_error_and_never_another_kind_of_edit(
    home: str, changes: dict[str, object] | str | None
) -> None:
    publish(home, [*DEFAULTS, place(-1)])
    editor = Editor(home)
    editor.add_block(-1, "10.20.0.0/16")
    with StateDirectory(home).edits.transaction() as database:
        columns = {"state": "sent"} if changes is None else {"intent": changes}
        if isinstance(changes, dict):
            ((intent,),) = database.execute("SELECT intent FROM outbox").fetchall()
            columns = {"intent": json.dumps(json.loads(intent) | changes)}
        update(database, "outbox", 1, columns)
    for question in (editor.outbox, lambda: editor.edit(1), lambda: editor.retry(1)):
        with pytest.raises(StateDamagedError, match=r"edit 1 is damaged.*geolookup outbox restore"):
            question()


@pytest.mark.parametrize("text", ["7", "[]", '{"-1": 7}', '{"x": "digest"}', "{"])
def test_a_baseline_that_is_not_what_was_written_is_named(text: str) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(empty())
        insert(database, "baselines", {"locids": text})
        with pytest.raises(EditsDamagedError, match=r"baselines 1 is damaged .*geolookup outbox restore"):
            Baselines(database).of(1)
