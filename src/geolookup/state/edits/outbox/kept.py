"""Places as edits.db has them: their rows, read and checked."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from geolookup.model.fields import FIELD_NAMES
from geolookup.state.base.marks import Mark, is_conclusive
from geolookup.state.edits.outbox.payload import (
    DESCRIBED,
    as_content,
    block_of,
    content_column,
    ends_of,
    read_content,
    reader,
    written,
)
from geolookup.state.edits.outbox.row import COLUMNS, OutboxRow, State, damaged, read_row
from geolookup.state.edits.places.place import Blocks, Place, Request, in_order
from geolookup.state.edits.places.reconcile import Hold

if TYPE_CHECKING:
    from sqlite_utils import Database

_IS_OPEN = "concluded IS NULL AND state <> 'dropped'"
_OPEN_EDITS = f"SELECT locid FROM outbox WHERE {_IS_OPEN}"  # noqa: S608 - our names
#: Places of which something is open.
OPEN = f"id IN ({_OPEN_EDITS}) OR id IN (SELECT place FROM requests WHERE NOT over)"  # noqa: S608 - our names


#: Places whose number the service was not told to delete: it may be another's.
LIVING = """NOT EXISTS
    (SELECT 1 FROM requests WHERE place = places.id AND what = 'delete' AND known AND NOT over)"""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A place as edits.db has it, with its open edits; ``seen`` is the counter of the list that its baseline is from.

    ``made`` and ``before`` number the baselines of the moment when it was made here, and of its first create. ``gone``
    is the number that it had at the service, if it is over: a list older than that shows it.
    """

    place: Place
    rows: Mapping[int, OutboxRow] = msgspec.field(default_factory=dict)
    hold: Hold | None = None
    seen: int = 0
    made: int | None = None
    before: int | None = None
    gone: int | None = None
    #: The words of the service about what it refused.
    said: str | None = None

    @property
    def shown(self) -> int:
        """The number under which lookups show it."""
        return self.place.id if self.place.number is None else self.place.number

    @property
    def may_be(self) -> frozenset[int | None]:
        """The numbers of what it may be, as long as a person has not decided."""
        if self.hold is None:
            return frozenset()
        return frozenset({self.hold.number, *(number for number, _ in self.hold.also)})

    @property
    def since(self) -> int:
        """The counter of the list that had it last, or of its create: an older one may have another by its number."""
        creates: Iterable[Mark] = (each.attempted for each in self.place.requests if each.what == "create")
        return max([self.seen, *(mark.counter for mark in creates)])

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
        if not self.place.requests:
            return self.place
        requests = (
            replace(each, settled=each.ended is not None and is_conclusive(moment, each.ended, settle_s))
            for each in self.place.requests
        )
        return replace(self.place, requests=tuple(requests))


def read_places(database: "Database", where: str, parameters: Sequence[object] = ()) -> dict[int, Kept]:
    """The places for which this holds, by their ids.

    :raises EditsDamagedError: if a row is not what was written
    """
    among = f"(SELECT id FROM places WHERE {where})"  # noqa: S608 - our names
    rows: dict[int, dict[int, OutboxRow]] = {}
    sql = f"SELECT {COLUMNS} FROM outbox WHERE {_IS_OPEN} AND locid IN {among} ORDER BY id"  # noqa: S608 - our names
    for found in database.execute(sql, parameters):
        row = read_row(found)
        rows.setdefault(row.locid, {})[row.id] = row
    requests: dict[int, list[Request]] = {}
    sql = f"SELECT {_REQUEST} FROM requests WHERE place IN {among} AND NOT over ORDER BY id"  # noqa: S608 - our names
    for place, *columns in database.execute(sql, parameters):
        requests.setdefault(place, []).append(_read_request(*columns))
    return {
        place: _read_place(place, rows.get(place, {}), requests.get(place, []), *columns)
        for place, *columns in database.execute(f"SELECT {_PLACE} FROM places WHERE {where}", parameters)  # noqa: S608 - our names
    }


def require_sound(database: "Database") -> None:
    """Read every edit and place, and see that every edit is of a geolocation that was edited here.

    What is in other rows, the seal tells of.

    :raises EditsDamagedError: naming the row that is not what was written
    """
    for found in database.execute(f"SELECT {COLUMNS} FROM outbox WHERE NOT ({_IS_OPEN})"):  # noqa: S608 - our names
        read_row(found)  # the others with their places
    for number, content in database.execute("SELECT id, content FROM vrf_places"):
        try:
            read_content(content)
        except (ValueError, TypeError) as error:
            raise damaged("vrf_places", number, error) from error
    for row in database.query("PRAGMA foreign_key_check(outbox)"):
        raise damaged("outbox", row["rowid"], ValueError("its geolocation is not in the file"))
    read_places(database, "1")


def read_over(database: "Database") -> list[tuple[int, Request]]:
    """The requests that a list has spoken of and that may yet land, each with the id of its place.

    :raises EditsDamagedError: if a row is not what was written
    """
    found = database.execute(f"SELECT {_REQUEST} FROM requests WHERE over ORDER BY id").fetchall()  # noqa: S608 - our names
    return [(place, _read_request(*columns)) for place, *columns in found]


def request_columns(request: Request) -> dict[str, Any]:
    """A request's content as JSON in columns, or in one."""
    return {
        "what": request.what,
        "upto": request.upto,
        "before": content_column(request.before),
        "fields": written(request.values) if request.values else None,
        "old": _block_column(request.old),
        "new": _block_column(request.new),
    }


def request_row(request: Request) -> dict[str, Any]:
    """A request as a row has it, but for its id and its place."""
    ended = None if request.ended is None else request.ended.text
    return {**request_columns(request), "key": request.key, "attempted": request.attempted.text,
            "ended": ended, "known": int(request.known), "put_off": int(request.put_off),
            "misnamed": int(request.misnamed)}  # fmt: skip


def blocks_column(blocks: Blocks) -> str | None:
    """Blocks as JSON, None if there are none."""
    return written([ends_of(block) for block in in_order(blocks)]) if blocks else None


def _block_column(block: Any) -> str | None:
    return None if block is None else written(ends_of(block))


_KINDS = ("create", "put", "add", "replace", "clear", "delete")
_REQUEST = "place, id, what, before, fields, old, new, upto, known, put_off, key, attempted, ended, misnamed"
_PLACE = "id, number, lost, baseline, owed, seen, refused, said, hold, doubted, made, before"
_read_values = reader(list[str | float | None])
_read_ends = reader(tuple[str, str])
_read_blocks = reader(list[tuple[str, str]])
_read_refused = reader(dict[str, str | int | None])
_read_hold = reader(tuple[str, DESCRIBED | None, int | None, list[tuple[int, DESCRIBED]]])


def _request(what: str, before: Any, fields: Any, old: Any, new: Any, **more: Any) -> Request:
    if what not in _KINDS:
        raise ValueError(f"a request is of an unknown kind: {what!r:.40}")
    values = () if fields is None else tuple(_read_values(fields))
    if len(values) not in (0, len(FIELD_NAMES)):
        raise ValueError("a request has another number of fields")
    return Request(
        what=what,  # type: ignore[arg-type] # it is among them
        before=read_content(before),
        values=values,
        old=None if old is None else block_of(_read_ends(old)),
        new=None if new is None else block_of(_read_ends(new)),
        **more,
    )


def _read_request(
    number: int, what: str, before: Any, fields: Any, old: Any, new: Any, upto: int, known: int, put_off: int,
    key: Any, attempted: str, ended: str | None, misnamed: int,
) -> Request:  # fmt: skip
    try:
        return _request(
            what, before, fields, old, new, id=number, upto=int(upto), known=bool(known), put_off=bool(put_off),
            key=str(key), attempted=Mark.read(attempted), ended=None if ended is None else Mark.read(ended),
            misnamed=bool(misnamed),
        )  # fmt: skip
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise damaged("requests", number, error) from error


def _read_place(
    place: int, rows: Mapping[int, OutboxRow], requests: Iterable[Request], number: int | None,
    lost: int | None, baseline: Any, owed: Any, seen: int, refused: Any, said: str | None, hold: Any, doubted: int,
    made: int | None, before: int | None,
) -> Kept:  # fmt: skip
    try:
        for name, value in (("number", number), ("lost", lost)):
            if value is not None and not (type(value) is int and value < 0):
                raise ValueError(f"{name} is not a number below zero")
        return Kept(
            place=Place(
                id=place,
                number=number,
                lost=lost if rows or requests else None,
                baseline=read_content(baseline),
                intents=tuple(row.intent for row in rows.values()),
                requests=tuple(requests),
                owed=frozenset() if owed is None else frozenset(map(block_of, _read_blocks(owed))),
                refused=None if refused is None else _request(**_read_refused(refused)),
                doubted=bool(doubted),
            ),
            rows=rows,
            hold=None if hold is None else _hold(*_read_hold(hold)),
            seen=int(seen),
            made=made,
            before=before,
            gone=lost,
            said=said,
        )
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise damaged("places", place, error) from error


def _hold(reason: Any, theirs: Any, number: int | None, also: Iterable[tuple[int, Any]]) -> Hold:
    others = tuple((each, as_content(content)) for each, content in also)
    return Hold(reason, None if theirs is None else as_content(theirs), number, others)
