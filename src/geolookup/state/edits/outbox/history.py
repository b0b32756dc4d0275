"""The history: a line for everything that was done on this machine."""

from sqlite3 import Connection
from typing import Any

from geolookup.state.base import actor
from geolookup.state.base.clock import now_text
from geolookup.state.edits.outbox.payload import written
from geolookup.state.edits.outbox.schema import insert


def insert_history(
    database: Connection,
    what: str,
    outcome: str,
    *,
    locid: int | None = None,
    before: Any = None,
    after: Any = None,
    step: int | None = None,
    place: int | None = None,
    at: str | None = None,
) -> None:
    """Add a line to the history: when (now if no moment is given), what, to which geolocation, before, after, outcome,
    in which step, of which place; and by whom, and from where (see `actor`).
    """
    values = {
        "at": at or now_text(),
        "what": what,
        "locid": locid,
        "before": None if before is None else written(before),
        "after": None if after is None else written(after),
        "outcome": outcome,
        "step": step,
        "place": place,
        "who": actor.who(),
        "via": actor.via(),
    }
    insert(database, "history", values)


def begin_step(database: Connection) -> int:
    """The number of a new step, within a transaction of edits.db."""
    return int(database.execute("INSERT INTO steps DEFAULT VALUES").lastrowid or 0)
