"""Places as edits.db has them: their rows, read and checked."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from geolookup.model.fields import FIELD_NAMES
from geolookup.state.base.marks import Mark, is_conclusive
from geolookup.state.edits.outbox.payload import block_of, described, ends_of, read_content
from geolookup.state.edits.outbox.row import OutboxRow, State, damaged, decoded, read_row
from geolookup.state.edits.places.place import Content, Place, Request
from geolookup.state.edits.places.reconcile import Hold

if TYPE_CHECKING:
    from sqlite_utils import Database

_OPEN_EDITS = "SELECT locid FROM outbox WHERE concluded IS NULL AND state <> 'dropped'"
#: Places of which something is open.
OPEN = f"id IN ({_OPEN_EDITS}) OR id IN (SELECT place FROM requests WHERE NOT over)"  # noqa: S608 - our names


#: Places whose number the service was not told to delete: it may be another's.
LIVING = "id NOT IN (SELECT place FROM requests WHERE what = 'delete' AND known AND NOT over)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What is kept of a request besides its content: ``ended`` is None as long as it is on its way."""

    key: str
    attempted: Mark
    ended: Mark | None = None
    misnamed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A place as edits.db has it, with its open edits; ``seen`` is the counter of the list that its baseline is from.

    ``made`` and ``before`` number the baselines of the moment when it was made here, and of its first create. ``gone``
    is the number that it had at the service, if it is over: a list older than that shows it.
    """

    place: Place
    rows: Mapping[int, OutboxRow] = field(default_factory=dict)
    hold: Hold | None = None
    seen: int = 0
    made: int | None = None
    before: int | None = None
    sent: Mapping[int, Sent] = field(default_factory=dict)
    gone: int | None = None
    #: The words of the service about what it refused.
    said: str | None = None

    @property
    def shown(self) -> int:
        """The number under which lookups show it."""
        return self.place.id if self.place.number is None else self.place.number

    @property
    def created_again(self) -> bool:
        """True if its create was sent more than once: an earlier one may land at any time."""
        creates = sum(request.what == "create" for request in self.place.requests)
        return creates > 1 or any(row.attempts > 1 for row in self.rows.values() if row.intent.what == "create")

    @property
    def pending(self) -> tuple[OutboxRow, ...]:
        """Its edits that the service does not have yet, oldest first."""
        return tuple(row for row in self.rows.values() if row.state != State.DONE)

    def as_of(self, moment: Mark, settle_s: float) -> Place:
        """The place, with what has settled until then."""
        return replace(
            self.place,
            requests=tuple(
                replace(request, settled=self._is_settled(request, moment, settle_s)) for request in self.place.requests
            ),
        )

    def _is_settled(self, request: Request, moment: Mark, settle_s: float) -> bool:
        ended = self.sent[request.id].ended
        return ended is not None and is_conclusive(moment, ended, settle_s)


def read_places(database: "Database", where: str, parameters: Sequence[object] = ()) -> dict[int, Kept]:
    """The places for which this holds, by their ids.

    :raises EditsDamagedError: if a row is not what was written
    """
    among = f"(SELECT id FROM places WHERE {where})"  # noqa: S608 - our names
    rows: dict[int, dict[int, OutboxRow]] = {}
    open_ = f"concluded IS NULL AND state <> 'dropped' AND locid IN {among}"
    for found in database.query(f"SELECT * FROM outbox WHERE {open_} ORDER BY id", parameters):  # noqa: S608 - our names
        row = read_row(found)
        rows.setdefault(row.locid, {})[row.id] = row
    requests: dict[int, list[tuple[Request, Sent]]] = {}
    sql = f"SELECT * FROM requests WHERE place IN {among} AND NOT over ORDER BY id"  # noqa: S608 - our names
    for found in database.query(sql, parameters):
        requests.setdefault(found["place"], []).append(_read_request(found))
    return {
        found["id"]: _read_place(found, rows.get(found["id"], {}), requests.get(found["id"], []))
        for found in database.query(f"SELECT * FROM places WHERE {where}", parameters)  # noqa: S608 - our names
    }


def content_column(content: Content | None) -> str | None:
    return None if content is None else json.dumps(described(content))


def request_columns(request: Request) -> dict[str, Any]:
    """A request's content as JSON in columns, or in one."""
    return {
        "what": request.what,
        "before": content_column(request.before),
        "fields": json.dumps(request.values) if request.values else None,
        "old": _block_column(request.old),
        "new": _block_column(request.new),
    }


def _block_column(block: Any) -> str | None:
    return None if block is None else json.dumps(ends_of(block))


_KINDS = ("create", "put", "add", "replace", "clear", "delete")


def _request(found: Mapping[str, Any]) -> Request:
    if found["what"] not in _KINDS:
        raise ValueError(f"a request is of an unknown kind: {found['what']!r:.40}")
    old, new = (None if found[name] is None else block_of(decoded(found[name])) for name in ("old", "new"))
    values = () if found["fields"] is None else tuple(decoded(found["fields"]))
    if len(values) not in (0, len(FIELD_NAMES)):
        raise ValueError("a request has another number of fields")
    before = None if found["before"] is None else read_content(decoded(found["before"]))
    return Request(what=found["what"], before=before, values=values, old=old, new=new)


def _read_request(found: Mapping[str, Any]) -> tuple[Request, Sent]:
    try:
        known, put_off = bool(found["known"]), bool(found["put_off"])
        request = replace(_request(found), id=found["id"], upto=int(found["upto"]), known=known, put_off=put_off)
        ended = None if found["ended"] is None else Mark.read(found["ended"])
        attempted = Mark.read(found["attempted"])
        return request, Sent(key=str(found["key"]), attempted=attempted, ended=ended, misnamed=bool(found["misnamed"]))
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise damaged("requests", found["id"], error) from error


def _read_place(
    found: Mapping[str, Any], rows: Mapping[int, OutboxRow], requests: Iterable[tuple[Request, Sent]]
) -> Kept:
    try:
        for name in ("number", "lost"):
            if found[name] is not None and not (type(found[name]) is int and found[name] < 0):
                raise ValueError(f"{name} is not a number below zero")
        hold = None
        if found["hold"] is not None:
            reason, theirs, number, also = decoded(found["hold"])
            others = tuple((each, read_content(content)) for each, content in also)
            hold = Hold(reason, None if theirs is None else read_content(theirs), number, others)
        place = Place(
            id=found["id"],
            number=found["number"],
            lost=found["lost"] if rows or requests else None,
            baseline=None if found["baseline"] is None else read_content(decoded(found["baseline"])),
            intents=tuple(row.intent for row in rows.values()),
            requests=tuple(request for request, _ in requests),
            refused=None if found["refused"] is None else _request(decoded(found["refused"])),
            doubted=bool(found["doubted"]),
        )
        sent = {request.id: sent for request, sent in requests}
        return Kept(
            place=place, rows=rows, hold=hold, seen=int(found["seen"]), made=found["made"], before=found["before"],
            sent=sent, gone=found["lost"],
            said=found["said"],
        )  # fmt: skip
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise damaged("places", found["id"], error) from error
