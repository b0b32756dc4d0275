"""The history: a line for everything that was done on this machine."""

from sqlite3 import Connection
from typing import Any

from geolookup.state.base import actor
from geolookup.state.base.clock import now_text
from geolookup.state.edits.outbox.payload import described, written
from geolookup.state.edits.outbox.schema import insert
from geolookup.state.edits.places.place import Content


def insert_history(
    database: Connection,
    what: str,
    outcome: str,
    *,
    before: Any = None,
    after: Any = None,
    at: str | None = None,
    **about: int | None,
) -> None:
    """Add a line to the history: when (now if no moment is given), what, before (a content or a value of JSON), after,
    outcome; and by whom, and from where (see `actor`).

    ``about`` has the ``locid`` of its geolocation, the ``step`` that it is part of, and its ``place``, as far as it has
    them.
    """
    sides = {
        name: None if side is None else written(described(side) if isinstance(side, Content) else side)
        for name, side in (("before", before), ("after", after))
    }
    done = {"at": at or now_text(), "what": what, "outcome": outcome, "who": actor.who(), "via": actor.via()}
    insert(database, "history", {**done, **sides, **about})
