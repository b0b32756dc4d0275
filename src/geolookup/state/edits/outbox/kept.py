"""Places as edits.db has them: their rows, read and checked."""

from collections.abc import Iterable, Mapping, Sequence
from sqlite3 import Connection
from typing import Any

import msgspec
from msgspec.structs import replace

from geolookup.state.base.marks import Mark, is_conclusive
from geolookup.state.base.sqlite import by_name
from geolookup.state.edits.outbox.baselines import Baselines
from geolookup.state.edits.outbox.payload import read_content, reader, written
from geolookup.state.edits.outbox.row import COLUMNS, OutboxRow, State, damaged, read_row
from geolookup.state.edits.places.place import Blocks, Content, Place, Request
from geolookup.state.edits.places.reconcile import Hold

_IS_OPEN = "concluded IS NULL AND state <> 'dropped'"
_OPEN_EDITS = f"SELECT locid FROM outbox WHERE {_IS_OPEN}"  # noqa: S608 - our names
#: Places of which something is open.
OPEN = f"id IN ({_OPEN_EDITS}) OR id IN (SELECT place FROM requests WHERE NOT over)"  # noqa: S608 - our names

#: Those that have something which no list has shown.
UNPROVED = f"""id IN (SELECT place FROM requests WHERE NOT over)
    OR id IN (SELECT locid FROM outbox WHERE {_IS_OPEN} AND state = 'done')"""  # noqa: S608 - our names

#: Those of which nobody knows whether a create made them.
LOST_CREATES = "id IN (SELECT place FROM requests WHERE what = 'create' AND NOT known AND NOT over)"

#: Those that an open edit deletes.
DELETED = f"id IN (SELECT locid FROM outbox WHERE operation = 'delete' AND {_IS_OPEN})"  # noqa: S608 - our names
#: Those with a site's name, unless an edit from here was the last to delete them: then what is like them is another's.
NAMED = """(id IN (SELECT locid FROM sites) AND (SELECT operation FROM outbox
    WHERE locid = places.id AND state <> 'dropped' ORDER BY id DESC LIMIT 1) IS NOT 'delete')"""

#: Places whose number the service was not told to delete: it may be another's.
LIVING = """NOT EXISTS
    (SELECT 1 FROM requests WHERE place = places.id AND what = 'delete' AND known AND NOT over)"""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A place as edits.db has it, with its open edits; ``seen`` is the counter of the list that its baseline is from.

    ``made`` and ``before`` number the baselines of the moment when it was made here, and of its first create. ``gone``
    is the number that it had at the service, if it is over: a list older than that shows it. ``last`` is what it was
    then, or before a person wanted it anew.
    """

    place: Place
    rows: Mapping[int, OutboxRow] = msgspec.field(default_factory=dict)
    hold: Hold | None = None
    seen: int = 0
    made: int | None = None
    before: int | None = None
    gone: int | None = None
    last: Content | None = None

    @property
    def shown(self) -> int:
        """The number under which lookups show it."""
        return self.place.id if self.place.number is None else self.place.number

    @property
    def former(self) -> int | None:
        """The number that it has at the service, or had last."""
        return self.place.number or self.gone

    @property
    def had(self) -> tuple[Content, ...]:
        """All that it was at the service or was asked to be since a list has shown it, the newest last."""
        return tuple(each for each in (self.last, *self.place.was()) if each is not None)

    @property
    def members(self) -> dict[str, Any]:
        """Its members that change, each by the name of its column."""
        of_place = {name: getattr(self.place, name) for name in ("number", "baseline", "owed", "refused", "doubted")}
        own = {name: getattr(self, name) for name in ("last", "hold", "seen", "before")}
        return {**of_place, **own, "lost": self.gone}

    @property
    def since(self) -> int:
        """The counter of the list that had it last, or of its create: an older one may have another by its number."""
        creates = (each.attempted for each in self.place.requests if each.what == "create")
        return max([self.seen, *(mark.counter for mark in creates if mark is not None)])

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


def read_places(database: Connection, where: str, parameters: Sequence[object] = ()) -> dict[int, Kept]:
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
    sql = f"SELECT place, id, request FROM requests WHERE place IN {among} AND NOT over ORDER BY id"  # noqa: S608 - ours
    for place, *columns in database.execute(sql, parameters):
        requests.setdefault(place, []).append(_request(*columns))
    places = by_name(database.execute(f"SELECT {_PLACE} FROM places WHERE {where}", parameters))  # noqa: S608 - our names
    return {found["id"]: _kept(found, rows.get(found["id"], {}), requests.get(found["id"], [])) for found in places}


def require_sound(database: Connection) -> None:
    """Read every edit, place, baseline and form, and see that every edit is of a geolocation that was edited here.

    The seal tells of what is in other rows.

    :raises EditsDamagedError: naming the row that is not what was written
    """
    for found in database.execute(f"SELECT {COLUMNS} FROM outbox WHERE NOT ({_IS_OPEN})"):  # noqa: S608 - our names
        read_row(found)  # the others with their places
    for table, columns, read in (("vrf_places", "content", read_content), ("forms", "sent, stored", _read_values)):
        for number, *texts in database.execute(f"SELECT id, {columns} FROM {table}"):  # noqa: S608 - our names
            try:
                for text in texts:
                    read(text)
            except (ValueError, TypeError) as error:
                raise damaged(table, number, error) from error
    for _, number, *_ in database.execute("PRAGMA foreign_key_check(outbox)"):
        raise damaged("outbox", number, ValueError("its geolocation is not in the file"))
    read_places(database, "1")
    baselines = Baselines(database)
    for (number,) in database.execute("SELECT id FROM baselines"):
        baselines.of(number)


def read_over(database: Connection) -> list[tuple[int, Request]]:
    """The requests that a list has spoken of and that may yet land, each with the id of its place.

    :raises EditsDamagedError: if a row is not what was written
    """
    found = database.execute("SELECT place, id, request FROM requests WHERE over ORDER BY id").fetchall()
    return [(place, _request(*columns)) for place, *columns in found]


#: The members of places that are JSON in their columns.
_READ = {
    name: reader(kind)
    for name, kind in {"baseline": Content, "last": Content, "owed": Blocks, "refused": Request, "hold": Hold}.items()
}
_PLACE = "id, number, lost, baseline, last, owed, seen, refused, hold, doubted, made, before"
_read_request = reader(Request)
_read_values = reader(tuple)


def column(name: str, value: Any) -> Any:
    """A member of a place as its column has it."""
    return value if name not in _READ else written(value) if value else None


def _request(number: int, text: Any) -> Request:
    try:
        request: Request = replace(_read_request(text), id=number)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise damaged("requests", number, error) from error
    return request


def _kept(columns: Mapping[str, Any], rows: Mapping[int, OutboxRow], requests: Iterable[Request]) -> Kept:
    try:
        found = {
            name: value if value is None or name not in _READ else _READ[name](value) for name, value in columns.items()
        }
        lost, owed = found.pop("lost"), found.pop("owed")
        for name, value in (("number", found["number"]), ("lost", lost)):
            if value is not None and not (type(value) is int and value < 0):
                raise ValueError(f"{name} is not a number below zero")
        for name in ("seen", "made", "before", "doubted"):
            if type(found[name]) not in (int, type(None)):
                raise ValueError(f"{name} is not a number")
        place = Place(
            lost=lost if rows or requests else None,
            intents=tuple(row.intent for row in rows.values()),
            requests=tuple(requests),
            owed=owed or frozenset(),
            doubted=found.pop("doubted"),
            **{name: found.pop(name) for name in ("id", "number", "baseline", "refused")},
        )
        return Kept(place=place, rows=rows, gone=lost, **found)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise damaged("places", columns["id"], error) from error
