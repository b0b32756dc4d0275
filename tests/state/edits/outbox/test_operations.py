"""The kinds of edits: what is written of each is read again, and what is not known is an error."""

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.model.errors import StateDamagedError
from geolookup.model.types import IPBlock
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.operations import (
    AddBlock,
    ClearBlocks,
    Create,
    Delete,
    Edit,
    Operation,
    RemoveBlock,
    ReplaceBlock,
    Update,
    edit_of,
    read_edit,
)
from geolookup.state.edits.outbox.payload import values_of
from geolookup.state.edits.places.place import Content
from geolookup.state.publishing.directory import StateDirectory
from tests.state.edits.editing import BERLIN, DEFAULTS
from tests.support.data.states import place, publish

blocks = st.sampled_from([IPBlock.parse(f"10.0.0.{last}") for last in range(4)] + [IPBlock.parse("2001:db8::/32")])
fields = st.fixed_dictionaries({name: st.just(value) for name, value in BERLIN.items()} | {"city": st.text(max_size=3)})
edits: st.SearchStrategy[Edit] = st.one_of(
    st.builds(Create, fields=fields),
    st.builds(Update, fields=fields),
    st.just(Delete()),
    st.builds(AddBlock, block=blocks),
    st.builds(ReplaceBlock, block=blocks, new_block=blocks),
    st.builds(RemoveBlock, block=blocks),
    st.just(ClearBlocks()),
)


def test_every_operation_has_one_class_and_every_class_its_operation() -> None:
    kinds = set(get_args(Edit))
    assert {kind.operation for kind in kinds} == set(Operation)
    assert len(kinds) == len(Operation)


@given(edits)
def test_what_is_written_of_an_edit_is_read_again(edit: Edit) -> None:
    payload = json.loads(json.dumps(edit.payload))
    assert read_edit(str(edit.operation), payload) == edit


@given(edits, st.sets(blocks))
def test_an_edit_is_the_intent_that_it_says(edit: Edit, has: set[IPBlock]) -> None:
    intent = edit.intent(7, Content(values_of(BERLIN), frozenset(has)))
    again = edit_of(intent)
    assert (intent.id, again.operation, again.takes) == (7, edit.operation, edit.takes)
    after = intent.applied(intent.base)
    if edit.takes is not None:
        assert after is not None
        assert edit.takes in after.blocks


@pytest.mark.parametrize(
    "columns",
    [
        {"operation": "move_block"},
        {"operation": ""},
        {"operation": "update"},  # whose payload has no fields
        {"payload": "{}"},
        {"payload": "[]"},
        {"payload": '{"block": ["10.0.0.1", "10.0.0"]}'},
        {"payload": "{"},
        {"state": "sent"},
    ],
    ids=str,
)
def test_a_row_that_cannot_be_read_is_an_error_and_never_another_kind_of_edit(
    home: str, columns: dict[str, str]
) -> None:
    publish(home, [*DEFAULTS, place(-1)])
    editor = Editor(home)
    editor.add_block(-1, "10.20.0.0/16")
    with StateDirectory(home).edits.transaction() as database:
        database.table("outbox").update(1, columns)
    for question in (editor.outbox, lambda: editor.edit(1), lambda: editor.retry(1)):
        with pytest.raises(StateDamagedError, match=r"edit 1 is damaged.*geolookup outbox restore"):
            question()
