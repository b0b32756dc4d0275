"""Decisions of a person about edits of the outbox: each within one session of the editor."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geolookup.model.errors import EditError
from geolookup.model.types import is_provisional
from geolookup.state.base.clock import now_text
from geolookup.state.edits.fields import meant_fields
from geolookup.state.edits.named import block_of, require_narrow
from geolookup.state.edits.outbox.journal import cut_short, is_half_done, turned_round
from geolookup.state.edits.outbox.operations import (
    Create,
    RemoveBlock,
    SettingFields,
    TakingBlock,
)
from geolookup.state.edits.outbox.row import PENDING_STATES, OutboxRow, State
from geolookup.state.edits.session import EditSession

if TYPE_CHECKING:
    from geolookup.model.addresses import AddressLike


def retry(session: EditSession, number: int) -> OutboxRow:
    """`Editor.retry`, in its transaction."""
    row = session.waiting(number)
    # What a removal has done so far stays known: else the blocks that it must bring back were lost.
    journal = dict(row.journal or {})
    journal.pop("refused", None)
    if "lost" in journal and isinstance(row.edit, RemoveBlock):
        journal = cut_short(journal, row.base or {}, row.edit.block)
    base = journal.pop("theirs", None) or row.base
    if strangers := journal.pop("strangers", None):
        journal["accepted"] = [*journal.get("accepted", []), *strangers]
    if isinstance(row.edit, Create) and row.state == State.HELD:
        journal["resent"] = True  # what it was held for may be what an earlier attempt made
        journal.pop("put_back", None)
        journal.pop("adopted", None)
        _note_seen(session, row, journal)  # taken for new again, it would be held for ever
    changes = {"state": State.QUEUED, "problem": None, "base": base, "journal": journal or None}
    session.outbox.change(number, **changes)
    session.note_decision("retry", row, State.QUEUED)
    return session.outbox.row(number)


def amend(
    session: EditSession,
    number: int,
    *,
    fields: Mapping[str, Any] | None = None,
    block: "tuple[AddressLike, AddressLike | None] | None" = None,
    wide: bool = False,
) -> OutboxRow:
    """`Editor.amend`, in its transaction."""
    row = session.outbox.row(number)
    if row.state not in (State.QUEUED, State.HELD, State.REJECTED):
        raise EditError(f"edit {number} is {row.state}, so what it says is settled: make a new edit")
    edit = row.edit
    if fields:
        if not isinstance(edit, SettingFields):
            raise EditError(f"edit {number} is to {row.describe()}: it has no fields")
        edit = replace(edit, fields=meant_fields({**edit.fields, **fields}, edit.fields))
    if block is not None:
        if not isinstance(edit, TakingBlock):
            raise EditError(f"edit {number} is to {row.describe()}: drop it, and make a new edit")
        wanted = block_of(*block)
        laid = session.layer.get(session.shown(row.locid))
        if wanted != edit.takes:
            require_narrow(wanted, wide=wide)
        if laid is not None and wanted != edit.takes:
            session.require_free(wanted, laid.place)
        edit = edit.taking(wanted)
    session.outbox.amend(row, edit)
    session.note_decision("edit", row, State.QUEUED)
    return session.outbox.row(number)


def drop(session: EditSession, number: int) -> list[OutboxRow]:
    """`Editor.drop`, in its transaction."""
    row = session.outbox.row(number)
    if row.state not in (State.QUEUED, State.HELD, State.REJECTED):
        raise EditError(f"edit {number} is {row.state}: only one that waits can be dropped")
    if row.journal is not None and is_half_done(row.journal):
        session.outbox.change(number, state=State.QUEUED, problem=None, journal=turned_round(row.journal))
        session.note_decision("drop", row, State.QUEUED)
        return [session.outbox.row(number)]
    given_up = [row]
    if isinstance(row.edit, Create):
        given_up += [later for later in session.outbox.rows(*PENDING_STATES, locid=row.locid) if later.id > row.id]
        if row.state == State.HELD:
            _watch(session, row, row.edit)
    for each in given_up:
        session.outbox.change(each.id, state=State.DROPPED)
        session.note_decision("drop", each, State.DROPPED)
    return given_up


def _watch(session: EditSession, row: OutboxRow, edit: Create) -> None:
    """Have what a create that may have been sent still makes told, once it is dropped: its request may land late."""
    journal = dict(row.journal or {})
    if row.attempts or journal.get("put_back"):
        _note_seen(session, row, journal)
        session.outbox.change(row.id, journal={**journal, "sent": [*journal.get("sent", ()), edit.fields]})


def _note_seen(session: EditSession, row: OutboxRow, journal: dict[str, Any]) -> None:
    """Take what a create was held for out of its journal, and note that it was not made by it: a person has seen it."""
    shown = {int(number): digest for number, digest in journal.pop("candidates", {}).items()}
    session.outbox.widen_baseline(row, shown)


def adopt(session: EditSession, number: int, locid: int) -> OutboxRow:
    """`Editor.adopt`, in its transaction."""
    row = session.waiting(number)
    if not isinstance(row.edit, Create):
        raise EditError(f"edit {number} is to {row.describe()}: only a create can be adopted")
    if locid >= 0 or is_provisional(locid):
        raise EditError(f"{locid} is not a locid that a service gives to custom geolocations")
    if locid in session.outbox.created_here():
        raise EditError(f"{locid} is already the locid of another geolocation that was created here")
    session.outbox.assign(row.locid, locid)
    mark = session.outbox.mark()
    session.outbox.change(
        number,
        state=State.DONE,
        acknowledged_at=now_text(),
        acknowledged=mark,
        problem=None,
        journal={**(row.journal or {}), "adopted": locid},
    )
    session.note_decision("adopt", row, State.DONE)
    return session.outbox.row(number)


def keep_twin(session: EditSession, locid: int) -> None:
    """`Editor.keep_twin`, in its transaction."""
    if not session.outbox.twins.dismiss(locid):
        raise EditError(f"geolocation {locid} was not reported as made twice")
    session.outbox.record("keep", "done", locid=locid)
