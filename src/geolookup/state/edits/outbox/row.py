"""A row of the outbox: one edit, where it stands on its way to the service, and how edits.db holds it."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from geolookup.base.reasons import reason
from geolookup.model.errors import EditsDamagedError
from geolookup.model.types import PROVISIONAL_LOCID, Geolocation
from geolookup.state.base.marks import Mark
from geolookup.state.edits.outbox.journal import is_half_done, laid_over
from geolookup.state.edits.outbox.operations import Create, Edit, Operation, read_edit
from geolookup.state.edits.outbox.payload import geolocation
from geolookup.state.edits.outbox.schema import RESTORING


class State(StrEnum):
    """The stations of a row on its way to the service."""

    #: Waits to be sent.
    QUEUED = "queued"
    #: Committed before the request leaves: after a crash it is not known whether it did.
    SENDING = "sending"
    #: Sent, or perhaps sent, and the outcome is unknown.
    UNKNOWN = "unknown"
    #: The service has it.
    DONE = "done"
    #: The service refused it for good: a person must decide.
    REJECTED = "rejected"
    #: It conflicts with what the service has: a person must decide.
    HELD = "held"
    #: A person gave it up; it has no effect any more.
    DROPPED = "dropped"


#: States of rows that are neither finished nor waiting for a person.
OPEN_STATES = (State.QUEUED, State.SENDING, State.UNKNOWN)
#: States of rows whose request may be on its way, or may have arrived.
UNDER_WAY = (State.SENDING, State.UNKNOWN)
#: States of rows that wait for a person.
PERSON_STATES = (State.REJECTED, State.HELD)
#: States of rows whose effect the service does not have yet.
PENDING_STATES = (*OPEN_STATES, *PERSON_STATES)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """One edit.

    ``key`` is its ``Idempotency-Key``; ``locid`` the number that the geolocation has on this machine (provisional for
    one created here, for ever). ``edit`` is what shall be done; ``base`` what it was made against (``fields`` and
    ``blocks``), None for a create. ``baseline`` numbers the kept list of custom locids that the service had before the
    first attempt of a create that may have arrived; ``attempted_at`` is that attempt's moment. ``journal`` holds what
    the edit needs remembered: a removal's progress (see `sync.reconcile`), what the service had (``theirs``) if that is
    why an edit is held, ``resent`` for a create that was sent again although an earlier attempt may yet land,
    ``put_off`` for one that the service asked for at another time, ``adopted`` the number that a person gave to one.
    Moments are texts of `clock.now_text`, None if not reached. ``problem`` says in words what stands in the way.

    ``attempted``, ``ended`` and ``acknowledged`` are the marks of those moments: these order what happened, texts are
    for people. ``concluded`` is the counter of the first list that was conclusive for an acknowledged edit: a list
    with that counter or a higher one has it already; ``seen`` of the first list that showed it. ``number`` is the
    service's of what an acknowledged delete deleted. ``made`` numbers the baseline of when a create was made here, as
    ``baseline`` that of its first attempt. ``stored`` are the fields that the service made of those sent, as the first
    list that showed them had them.
    """

    id: int
    key: str
    locid: int
    edit: Edit
    base: dict[str, Any] | None
    state: State
    attempts: int
    created_at: str
    attempted_at: str | None = None
    ended_at: str | None = None
    acknowledged_at: str | None = None
    baseline: int | None = None
    journal: dict[str, Any] | None = None
    problem: str | None = None
    attempted: Mark | None = None
    ended: Mark | None = None
    acknowledged: Mark | None = None
    concluded: int | None = None
    seen: int | None = None
    number: int | None = None
    made: int | None = None
    stored: dict[str, Any] | None = None

    @property
    def operation(self) -> Operation:
        """The kind of the edit."""
        return self.edit.operation

    @property
    def payload(self) -> dict[str, Any]:
        """The data of its kind: ``fields`` (the eight), ``block`` and ``new_block`` (two addresses each)."""
        return self.edit.payload

    @property
    def never_sent(self) -> bool:
        """True if no service can have heard of the edit."""
        return self.state == State.QUEUED and not self.attempts and self.attempted_at is None and self.journal is None

    @property
    def was_put_off(self) -> bool:
        """True if the service asked for a create at another time, and may have applied it all the same."""
        return bool((self.journal or {}).get("put_off"))

    def describe(self) -> str:
        """The edit in words."""
        return self.edit.describe(self.locid)

    def laid_over(self, place: Geolocation | None, locid: int) -> Geolocation | None:
        """A geolocation of a list after the edit, under the number ``locid``; None if it is gone.

        Once a removal has begun to delete, the list may lack what it shall bring back: until then its target stands in.
        """
        if self.journal is None or not is_half_done(self.journal):
            return self.edit.laid_over(place, locid, self.base)
        return laid_over(self.journal, place or geolocation(locid, (self.base or {})["fields"], ()))

    def as_dict(self) -> dict[str, Any]:
        """All of it by name, for ``--json``."""
        return {name: getattr(self, name) for name in SHOWN} | {"description": self.describe()}


#: What `OutboxRow.as_dict` has, with the description.
SHOWN = (
    *("id", "key", "locid", "operation", "payload", "base", "state", "attempts", "created_at", "attempted_at"),
    *("ended_at", "acknowledged_at", "baseline", "journal", "problem", "stored"),
)
_JSON = ("payload", "base", "journal", "stored")
#: The columns that hold marks.
MARKS = ("attempted", "ended", "acknowledged")
_COLUMNS = (*SHOWN, *MARKS, "concluded", "seen", "number", "made")


_Fields = dict[str, str | float | None]
_Blocks = list[tuple[str, str]]


class _Described(msgspec.Struct):
    """A geolocation as a row's ``base`` holds it."""

    fields: _Fields
    blocks: _Blocks


class _Journal(msgspec.Struct):
    """Data that are remembered for an edit; members that are not known are left alone."""

    phase: str | None = None
    before: _Blocks | None = None
    after: _Blocks | None = None
    restored: _Blocks | None = None
    accepted: _Blocks | None = None
    refused: _Blocks | None = None
    strangers: _Blocks | None = None
    lost: _Blocks | None = None
    theirs: _Described | None = None
    resent: bool = False
    put_back: bool = False
    sent: list[_Fields] = []
    candidates: dict[str, str] = {}
    adopted: int | None = None
    misnamed: str | None = None


_SHAPES: dict[str, Any] = {
    "base": _Described,
    "journal": _Journal,
    "stored": _Fields,
    "id": int,
    "key": str,
    "locid": int,
    "attempts": int,
    "created_at": str,
    **dict.fromkeys(("attempted_at", "ended_at", "acknowledged_at", "problem"), str | None),
    **dict.fromkeys(("baseline", "concluded", "seen", "number", "made"), int | None),
}
_MAY_BE_NONE = ("base", "journal", "stored")
#: All of them at once, which is eight times as fast as one by one: thousands of edits may be pending.
_Row = msgspec.defstruct(
    "_Row", [(name, shape | None if name in _MAY_BE_NONE else shape) for name, shape in _SHAPES.items()]
)


def _require_shapes(row: dict[str, Any]) -> None:
    """Check a row of the outbox, its JSON decoded; columns without a shape are checked elsewhere.

    :raises ValueError: if it is not what is ever written there
    """
    try:
        msgspec.convert(row, _Row)
    except msgspec.ValidationError:
        _require_each(row)
    journal = row.get("journal") or {}
    if journal.get("phase") == "deleting" and not {"before", "after"} <= set(journal):
        raise ValueError("journal: a removal has begun, and its blocks are missing")


def _require_each(row: dict[str, Any]) -> None:
    """The same one by one, so that the error names the column."""
    for name, value in row.items():
        shape = _SHAPES.get(name)
        if shape is None or (value is None and name in _MAY_BE_NONE):
            continue
        try:
            msgspec.convert(value, shape)
        except msgspec.ValidationError as error:
            raise ValueError(f"{name}: {reason(error)}") from error


def read_row(found: dict[str, Any]) -> OutboxRow:
    """An edit from the columns of its row.

    :raises EditsDamagedError: if the row is not what was written
    """
    values = {name: found[name] for name in _COLUMNS}
    try:
        for name in _JSON:
            values[name] = None if values[name] is None else _decoded(values[name])
        for name in MARKS:
            values[name] = None if values[name] is None else Mark.read(values[name])
        _require_shapes(values)
        edit = read_edit(values.pop("operation"), values.pop("payload"))
        if isinstance(edit, Create) and values["locid"] > PROVISIONAL_LOCID:
            # Its other edits would wait for ever for a number that this create gives to another geolocation.
            raise ValueError(f"locid: {values['locid']} was not given here, as that of a create is")
        return OutboxRow(**{**values, "edit": edit, "state": State(values["state"])})
    except (ValueError, TypeError) as error:
        # Taken for another kind, it would become another's request.
        raise EditsDamagedError(
            f"edits.db: edit {found['id']} is damaged ({reason(error)}): nothing is done with it; {RESTORING}"
        ) from error


def was_sent_again(row: OutboxRow) -> bool:
    """Tell whether a create was sent again, or changed after it was sent: an earlier request may still arrive."""
    journal = row.journal or {}
    return bool(journal.get("resent") or journal.get("sent") or row.was_put_off)


def as_column(name: str, value: Any) -> Any:
    """A value of a row as its column holds it."""
    if isinstance(value, Mark):
        return value.text
    return json.dumps(value) if name in _JSON and value is not None else value


def _decoded(text: Any) -> Any:
    try:
        return msgspec.json.decode(text)  # four times as fast, and stricter than what wrote it
    except (msgspec.MsgspecError, TypeError, ValueError):
        return json.loads(text)
