"""A row of the outbox: one edit, the station that it has reached on its way, and how edits.db holds it."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from geolookup.base.reasons import reason
from geolookup.model.errors import EditsDamagedError
from geolookup.model.types import is_provisional
from geolookup.state.edits.outbox.operations import Operation, describe, payload_of, read_intent
from geolookup.state.edits.outbox.payload import described, reader, written
from geolookup.state.edits.outbox.schema import RESTORING


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
    #: The service refused it for good: it is sent again only after a decision.
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


class OutboxRow(msgspec.Struct, frozen=True, kw_only=True):
    """One edit.

    ``locid`` is the number that the geolocation has on this machine (provisional for one created here, for ever).
    ``intent`` is what shall be done; ``base`` what it was made against (``fields`` and ``blocks``), None for a create.
    ``state`` follows from what was sent for its geolocation, and ``attempts`` counts the requests for it.
    Moments are texts of `clock.now_text`, None if not reached. ``problem`` says in words what stands in the way.

    ``concluded`` is the counter of the list that showed it, after which it is over: that list and all later ones have
    it. ``number`` is the service's of what an acknowledged delete deleted; of an edit that a person reads, the number
    by which lookups know its geolocation. ``stored`` are the fields that the service made of those sent, as the list
    that showed them had them.
    """

    id: int
    locid: int
    intent: Any  # no public name
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
        return Operation(self.intent.what)

    @property
    def payload(self) -> dict[str, Any]:
        """The data of its kind: ``fields`` (the eight), ``block`` and ``new_block`` (two addresses each)."""
        return payload_of(self.intent)

    @property
    def base(self) -> dict[str, Any] | None:
        """What it was made against: ``fields`` and ``blocks``."""
        return described(self.intent.base)

    @property
    def never_sent(self) -> bool:
        """True if no service can have heard of the edit: what a create waits for is somebody else's then."""
        waits = self.state == State.QUEUED or (self.state == State.HELD and self.intent.what == "create")
        return waits and not self.attempts

    @property
    def never_applied(self) -> bool:
        """True if no service did anything of it: it was never sent, though it may be held, or is a refused deletion."""
        held_unsent = self.state == State.HELD and not self.attempts
        refused = self.state == State.REJECTED and self.intent.what == "delete"  # of others a part may be done
        return self.never_sent or held_unsent or refused

    def describe(self) -> str:
        """The edit in words, by the number of its geolocation."""
        return describe(self.intent, self.number or self.locid)

    def as_dict(self) -> dict[str, Any]:
        """All of it by name, for ``--json``."""
        return {name: getattr(self, name) for name in SHOWN} | {"description": self.describe()}


#: What `OutboxRow.as_dict` has, with the description.
SHOWN = (
    *("id", "locid", "operation", "payload", "base", "state", "attempts", "created_at", "attempted_at"),
    *("acknowledged_at", "problem", "stored"),
)
#: Of a row in a query.
COLUMNS = ", ".join(OutboxRow.__struct_fields__)
_stored = reader(dict[str, str | float | None], "stored")


def damaged(table: str, key: Any, error: Exception) -> EditsDamagedError:
    """The error of a row that is not what was written."""
    what = f"edit {key}" if table == "outbox" else f"{table} {key!r}"
    # Taken for another kind, it would become another's request.
    return EditsDamagedError(f"edits.db: {what} is damaged ({reason(error)}): nothing is done with it; {RESTORING}")


def read_row(found: Sequence[Any]) -> OutboxRow:
    """An edit from its `COLUMNS`.

    :raises EditsDamagedError: if the row is not what was written
    """
    try:
        columns = dict(zip(OutboxRow.__struct_fields__, found, strict=True))
        intent = columns["intent"] = read_intent(columns["id"], columns["intent"])
        columns["stored"] = None if columns["stored"] is None else _stored(columns["stored"])
        row = msgspec.convert(columns, OutboxRow)
        if intent.what == "create" and not is_provisional(row.locid):
            # Its other edits would wait for ever for a number that this create gives to another geolocation.
            raise ValueError(f"locid: {row.locid} was not given here, as that of a create is")
        if row.concluded is not None and row.state != State.DONE:  # it would wait for ever for what is over
            raise ValueError(f"concluded: a list cannot have shown what is {row.state}")
    except (ValueError, TypeError, LookupError) as error:
        raise damaged("outbox", found[0], error) from error
    return row


def as_columns(members: Mapping[str, Any]) -> dict[str, Any]:
    """Members of a row as its columns hold them."""
    is_json = {name for name in ("intent", "stored") if members.get(name) is not None}
    return {name: written(value) if name in is_json else value for name, value in members.items()}


#: The value that a column's JSON holds.
decoded = reader(Any)
