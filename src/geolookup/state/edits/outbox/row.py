"""A row of the outbox: one edit, the station that it has reached on its way, and how edits.db holds it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from geolookup.base.reasons import reason
from geolookup.model.errors import EditsDamagedError
from geolookup.model.types import is_provisional
from geolookup.state.edits.outbox.operations import Create, Edit, Operation, read_edit
from geolookup.state.edits.outbox.payload import content_column, described, read_base, reader, written
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
    against: Any  # a Content or None: no public name
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

    @property
    def base(self) -> dict[str, Any] | None:
        """What it was made against: ``fields`` and ``blocks``."""
        return described(self.against)

    @property
    def intent(self) -> Intent:
        """The edit as an intent of its place."""
        found: Intent | None = self.__dict__.get("_intent")
        if found is None:  # made once, and not by `cached_property`, whose lock takes longer than that
            found = self.__dict__["_intent"] = self.edit.intent(self.id, self.against)
        return found

    def changed(self, **changes: Any) -> "OutboxRow":
        """The same edit at another station, or of another place."""
        row = object.__new__(OutboxRow)
        row.__dict__.update(self.__dict__, **changes)  # a tenth of what `dataclasses.replace` takes
        return row

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
#: Of a row in a query.
COLUMNS = (
    "id, locid, attempts, created_at, operation, payload, base, state, stored, attempted_at, acknowledged_at, problem, "
    "concluded, number"
)
_NAMES = COLUMNS.split(", ")


class _Row(msgspec.Struct):
    id: int
    locid: int
    attempts: int
    created_at: str
    operation: str
    payload: str
    base: str | None
    state: str
    stored: str | None
    attempted_at: str | None
    acknowledged_at: str | None
    problem: str | None
    concluded: int | None
    number: int | None


_stored = reader(dict[str, str | float | None], "stored")
_STATES = {str(state): state for state in State}


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
        row = msgspec.convert(dict(zip(_NAMES, found, strict=True)), _Row)
        edit = read_edit(row.operation, decoded(row.payload))
        if isinstance(edit, Create) and not is_provisional(row.locid):
            # Its other edits would wait for ever for a number that this create gives to another geolocation.
            raise ValueError(f"locid: {row.locid} was not given here, as that of a create is")
        return OutboxRow(
            id=row.id, locid=row.locid, edit=edit, against=read_base(row.base), state=_STATES[row.state],
            attempts=row.attempts, created_at=row.created_at, attempted_at=row.attempted_at,
            acknowledged_at=row.acknowledged_at, problem=row.problem, concluded=row.concluded, number=row.number,
            stored=None if row.stored is None else _stored(row.stored),
        )  # fmt: skip
    except (ValueError, TypeError, LookupError) as error:
        raise damaged("outbox", found[0], error) from error


def as_column(name: str, value: Any) -> Any:
    """A value of a row as its column holds it."""
    if name == "state":
        return str(value)
    if name == "base":
        return content_column(value)
    return written(value) if name in _JSON and value is not None else value


#: The value that a column's JSON holds.
decoded = reader(Any)
