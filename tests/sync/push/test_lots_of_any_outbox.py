"""Which edits may go out together: any outbox, against all pairs of its edits."""

from hypothesis import given
from hypothesis import strategies as st

from geolookup.model.types import IPBlock
from geolookup.state.edits.outbox.operations import (
    AddBlock,
    ClearBlocks,
    Create,
    Delete,
    Edit,
    RemoveBlock,
    ReplaceBlock,
    Update,
)
from geolookup.state.edits.outbox.payload import ends_of
from geolookup.state.edits.outbox.row import OutboxRow, State
from geolookup.sync.push.lots import to_go_with
from tests.support.services.running_service import FIELDS

_BLOCKS = [IPBlock.parse(f"10.0.0.{first}", f"10.0.0.{last}") for first, last in ((0, 9), (5, 5), (9, 12), (20, 29))]
_PLACES = [{**FIELDS, "city": city} for city in ("One", "Two")]
_blocks = st.sampled_from(_BLOCKS)
_edits: st.SearchStrategy[Edit] = st.one_of(
    st.builds(Create, fields=st.sampled_from(_PLACES)),
    st.builds(Update, fields=st.sampled_from(_PLACES)),
    st.builds(Delete),
    st.builds(ClearBlocks),
    st.builds(AddBlock, block=_blocks),
    st.builds(ReplaceBlock, block=_blocks, new_block=_blocks),
    st.builds(RemoveBlock, block=_blocks),
)


@st.composite
def _outboxes(draw: st.DrawFn) -> list[OutboxRow]:
    rows = []
    for number in range(draw(st.integers(2, 7))):
        edit = draw(_edits)
        base = None
        if not isinstance(edit, Create):
            had = draw(st.lists(_blocks, max_size=2, unique=True))
            base = {"fields": draw(st.sampled_from(_PLACES)), "blocks": [ends_of(block) for block in had]}
        rows.append(
            OutboxRow(
                id=number + 1, key=str(number), locid=-draw(st.integers(1, 4)), edit=edit, base=base,
                state=draw(st.sampled_from([State.QUEUED] * 6 + [State.HELD])), attempts=0, created_at="now",
            )
        )  # fmt: skip
    return rows


def _touched(row: OutboxRow) -> list[IPBlock]:
    edit = row.edit
    if isinstance(edit, Delete | ClearBlocks):
        return [IPBlock.parse(*ends) for ends in (row.base or {})["blocks"]]
    return [getattr(edit, name) for name in ("block", "new_block") if hasattr(edit, name)]


def _meet(one: OutboxRow, other: OutboxRow) -> bool:
    pairs = [(a, b) for a in _touched(one) for b in _touched(other)]
    return any(a.first <= b.last and b.first <= a.last for a, b in pairs)


@given(_outboxes())
def test_a_lot_is_of_edits_whose_order_does_not_matter(rows: list[OutboxRow]) -> None:
    first, later = rows[0], rows[1:]
    others = to_go_with(first, later, blocked=(), fresh=lambda row: row, is_free=lambda _row: True)
    lot = [first, *others]
    assert [row.id for row in lot] == sorted(row.id for row in lot)
    assert len({row.locid for row in lot}) == len(lot)
    for position, one in enumerate(lot):
        for other in lot[position + 1 :]:
            assert not _meet(one, other)
            kinds = {type(one.edit), type(other.edit)}
            assert kinds != {Create, Delete}, "a number that is let go may be given to a create that is under way"
            assert kinds != {Create} or one.edit != other.edit
    for row in others:
        for before in rows[: row.id - 1]:
            if before not in lot:
                assert not _meet(before, row), "it overtakes an edit of the same addresses"
                assert before.locid != row.locid, "it overtakes an edit of its own geolocation"
