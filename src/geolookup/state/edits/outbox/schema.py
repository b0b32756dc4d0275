"""What edits.db holds: the tables of the outbox, the columns that came with marks, and the shapes of their JSON."""

from typing import TYPE_CHECKING, Any

import msgspec

from geolookup.fields import FIELDS
from geolookup.reasons import reason
from geolookup.state.sqlite import column_types

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
    adopted: int | None = None


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


def require_shapes(row: dict[str, Any]) -> None:
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


def migrate_m002(database: "Database") -> None:
    """The tables of the outbox."""
    database.table("custom").create(
        {
            "locid": int,
            "service_locid": int,
            "deleted": int,
            "blocks": str,
            **column_types([field for field in FIELDS if not field.later]),
        },
        pk="locid",
        not_null={"deleted", "blocks"},
    )
    database.table("custom").create_index(["service_locid"], unique=True)
    database.table("outbox").create(
        {
            "id": int,
            "key": str,
            "locid": int,
            "operation": str,
            "payload": str,
            "base": str,
            "state": str,
            "attempts": int,
            "created_at": str,
            "attempted_at": str,
            "ended_at": str,
            "acknowledged_at": str,
            "baseline": int,
            "journal": str,
            "problem": str,
        },
        pk="id",
        not_null={"key", "locid", "operation", "payload", "state", "attempts", "created_at"},
        foreign_keys=[("locid", "custom", "locid")],
    )
    database.table("outbox").create_index(["key"], unique=True)
    database.table("outbox").create_index(["locid", "id"])
    database.table("outbox").create_index(["state", "id"])
    database.table("baselines").create({"id": int, "locids": str}, pk="id", not_null={"locids"})
    database.table("settings").create({"name": str, "value": str}, pk="name")
    database.table("counters").create({"name": str, "value": int}, pk="name")
    database.table("counters").insert({"name": "edits", "value": 0})


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
