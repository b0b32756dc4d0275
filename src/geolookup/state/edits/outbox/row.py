"""A row of the outbox: one edit, the station that it has reached on its way, and how edits.db holds it."""

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import msgspec

from geolookup.base.reasons import reason
from geolookup.model.errors import EditsDamagedError
from geolookup.model.types import is_provisional
from geolookup.state.edits.outbox.operations import Create, Edit, Operation, read_edit
from geolookup.state.edits.outbox.payload import read_content
from geolookup.state.edits.outbox.schema import RESTORING
from geolookup.state.edits.places.place import Intent


class State(StrEnum):
    """The stations of an edit on its way to the service."""

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
    #: A person must decide, for the reason that ``problem`` says.
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


@dataclass(frozen=True, kw_only=True)
class OutboxRow:
    """One edit.

    ``locid`` is the number that the geolocation has on this machine (provisional for one created here, for ever).
    ``edit`` is what shall be done; ``base`` what it was made against (``fields`` and ``blocks``), None for a create.
    ``state`` follows from what was sent for its geolocation, and ``attempts`` counts the requests for it.
    Moments are texts of `clock.now_text`, None if not reached. ``problem`` says in words what stands in the way.

    ``concluded`` is the counter of the list that showed it, after which it is over: that list and all later ones have
    it. ``number`` is the service's of what an acknowledged delete deleted. ``stored`` are the fields that the service
    made of those sent, as the list that showed them had them.
    """

    id: int
    locid: int
    edit: Edit
    base: dict[str, Any] | None
    state: State
    attempts: int
    created_at: str
    attempted_at: str | None = None
    acknowledged_at: str | None = None
    problem: str | None = None
    concluded: int | None = None
    number: int | None = None
    stored: dict[str, Any] | None = None

    @property
    def operation(self) -> Operation:
        """The kind of the edit."""
        return self.edit.operation

    @property
    def payload(self) -> dict[str, Any]:
        """The data of its kind: ``fields`` (the eight), ``block`` and ``new_block`` (two addresses each)."""
        return self.edit.payload

    @cached_property
    def intent(self) -> Intent:
        """The edit as an intent of its place."""
        return self.edit.intent(self.id, None if self.base is None else read_content(self.base))

    @property
    def never_sent(self) -> bool:
        """True if no service can have heard of the edit."""
        return self.state == State.QUEUED and not self.attempts

    def describe(self) -> str:
        """The edit in words."""
        return self.edit.describe(self.locid)

    def as_dict(self) -> dict[str, Any]:
        """All of it by name, for ``--json``."""
        return {name: getattr(self, name) for name in SHOWN} | {"description": self.describe()}


#: What `OutboxRow.as_dict` has, with the description.
SHOWN = (
    *("id", "locid", "operation", "payload", "base", "state", "attempts", "created_at", "attempted_at"),
    *("acknowledged_at", "problem", "stored"),
)
_JSON = ("payload", "base", "stored")
_COLUMNS = (*SHOWN, "concluded", "number")


_Fields = dict[str, str | float | None]


class Described(msgspec.Struct):
    """A geolocation as a row's ``base`` holds it."""

    fields: _Fields
    blocks: list[tuple[str, str]]


class _Row(msgspec.Struct):
    id: int
    locid: int
    attempts: int
    created_at: str
    base: Described | None
    stored: _Fields | None
    attempted_at: str | None
    acknowledged_at: str | None
    problem: str | None
    concluded: int | None
    number: int | None


def damaged(table: str, key: Any, error: Exception) -> EditsDamagedError:
    """The error of a row that is not what was written."""
    what = f"edit {key}" if table == "outbox" else f"{table} {key!r}"
    # Taken for another kind, it would become another's request.
    return EditsDamagedError(f"edits.db: {what} is damaged ({reason(error)}): nothing is done with it; {RESTORING}")


def read_row(found: dict[str, Any]) -> OutboxRow:
    """An edit from the columns of its row.

    :raises EditsDamagedError: if the row is not what was written
    """
    values = {name: found[name] for name in _COLUMNS}
    try:
        for name in _JSON:
            values[name] = None if values[name] is None else decoded(values[name])
        msgspec.convert(values, _Row)
        edit = read_edit(values.pop("operation"), values.pop("payload"))
        if isinstance(edit, Create) and not is_provisional(values["locid"]):
            # Its other edits would wait for ever for a number that this create gives to another geolocation.
            raise ValueError(f"locid: {values['locid']} was not given here, as that of a create is")
        if values["base"] is not None:
            read_content(values["base"])
        return OutboxRow(**{**values, "edit": edit, "state": State(values["state"])})
    except (ValueError, TypeError) as error:
        raise damaged("outbox", found["id"], error) from error


def as_column(name: str, value: Any) -> Any:
    """A value of a row as its column holds it."""
    if name == "state":
        return str(value)
    return json.dumps(value) if name in _JSON and value is not None else value


def decoded(text: Any) -> Any:
    """The value that a column's JSON holds.

    :raises ValueError: if it is none
    """
    try:
        return msgspec.json.decode(text)  # four times as fast, and stricter than what wrote it
    except (msgspec.MsgspecError, TypeError, ValueError):
        return json.loads(text)
