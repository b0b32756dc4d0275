"""What edits.db holds besides plain columns: the shapes of its JSON, and the columns that came with marks."""

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from sqlite_utils import Database

#: What a person does about edits.db, whatever is wrong with it; it ends a message.
RESTORING = "lookups go on; `geolookup outbox restore` puts the newest backup in its place"

_Fields = dict[str, str | float | None]
_Blocks = list[tuple[str, str]]


class _Described(msgspec.Struct):
    """A geolocation as a row's ``base`` holds it."""

    fields: _Fields
    blocks: _Blocks


class _Journal(msgspec.Struct):
    """What an edit needs remembered; members that are not known are left alone."""

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


def require_shapes(row: dict[str, Any]) -> None:
    """Check a row of the outbox, its JSON decoded; columns without a shape are checked elsewhere.

    :raises ValueError: if it is not what is ever written there
    """
    for name, value in row.items():
        shape = _SHAPES.get(name)
        if shape is None or (value is None and name in ("base", "journal", "stored")):
            continue
        try:
            msgspec.convert(value, shape)
        except msgspec.ValidationError as error:
            raise ValueError(f"{name}: {error}") from error
    journal = row.get("journal") or {}
    if journal.get("phase") == "deleting" and not {"before", "after"} <= set(journal):
        raise ValueError("journal: a removal has begun, and its blocks are missing")


def migrate_m004(database: "Database") -> None:
    """Marks (see `state.marks`) of each edit, what the service made of it, and the twins that were found."""
    outbox = database.table("outbox")
    for name in ("attempted", "ended", "acknowledged", "stored"):
        outbox.add_column(name, str)
    for name in ("concluded", "seen", "made", "number"):
        outbox.add_column(name, int)
    outbox.create_index(["concluded", "id"])
    database.table("baselines").add_column("published", str)
    database.table("baselines").create_index(["published"])
    database.table("twins").create({"locid": int, "edit": int, "dismissed_at": str}, pk="locid", not_null={"edit"})
    database.table("counters").insert({"name": "marks", "value": 0})
