"""What edits.db holds: the tables of the outbox, and the columns that came with marks."""

from typing import TYPE_CHECKING

from geolookup.model.fields import FIELDS
from geolookup.state.sqlite import column_types

if TYPE_CHECKING:
    from sqlite_utils import Database

#: What a person does about edits.db, whatever is wrong with it; it ends a message.
RESTORING = "lookups go on; `geolookup outbox restore` puts the newest backup in its place"


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
