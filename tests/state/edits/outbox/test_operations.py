"""The kinds of edits: what is written of each is read again, and what is not known is an error."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.model.errors import StateDamagedError
from geolookup.model.types import Geolocation, IPBlock
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.operations import (
    FREEING,
    AddBlock,
    ClearBlocks,
    Create,
    Delete,
    Edit,
    Operation,
    RemoveBlock,
    ReplaceBlock,
    SingleRequest,
    Update,
    read_edit,
)
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
    kinds = {*get_args(SingleRequest), RemoveBlock}
    assert {kind.operation for kind in kinds} == set(Operation)
    assert len(kinds) == len(Operation)


@given(edits)
def test_what_is_written_of_an_edit_is_read_again(edit: Edit) -> None:
    payload = json.loads(json.dumps(edit.payload))
    assert read_edit(str(edit.operation), payload) == edit


@given(edits, st.sets(blocks), blocks)
def test_an_edit_frees_exactly_the_blocks_that_are_gone_after_it(edit: Edit, has: set[IPBlock], block: IPBlock) -> None:
    """`frees` and `takes` agree with what `laid_over` does to a geolocation that is as the base has it."""
    before = Geolocation(locid=-1, **BERLIN, ipblocks=tuple(sorted(has)))
    base = {"fields": BERLIN, "blocks": [[each.startip, each.endip] for each in before.ipblocks]}
    after = edit.laid_over(before, -1, base)
    left = set() if after is None else set(after.ipblocks)
    if block in has and block not in left:
        assert edit.frees(block, base)
        assert edit.operation in FREEING
    assert left - has <= {edit.takes}
    if edit.takes is not None:
        assert edit.takes in left


class Recorded:
    """Requests that were made, by name."""

    def __init__(self) -> None:
        self.made: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *given, **named: self.made.append((name, given, named))


ENDS = ("10.0.0.1", "10.0.0.1")
OTHER_ENDS = ("10.0.0.2", "10.0.0.2")
ONE, OTHER = IPBlock.parse(*ENDS), IPBlock.parse(*OTHER_ENDS)


@pytest.mark.parametrize(
    ("edit", "request_made"),
    [
        (Create(fields=BERLIN), ("create", (BERLIN,), {"idempotency_key": "k"})),
        (Update(fields=BERLIN), ("update", (-7, BERLIN), {})),
        (Delete(), ("delete", (-7,), {})),
        (AddBlock(block=ONE), ("create_block", (-7, *ENDS), {"idempotency_key": "k"})),
        (ReplaceBlock(block=ONE, new_block=OTHER), ("replace_block", (-7, *ENDS, *OTHER_ENDS), {})),
        (ClearBlocks(), ("delete_blocks", (-7,), {})),
    ],
)
def test_each_edit_makes_its_own_request(edit: SingleRequest, request_made: tuple[Any, ...]) -> None:
    service = Recorded()
    edit.send(service, -7, "k")
    assert service.made == [request_made]


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
