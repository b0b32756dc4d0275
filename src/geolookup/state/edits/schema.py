"""The columns of edits.db that came with marks."""

from typing import TYPE_CHECKING

#: What a person does about edits.db, whatever is wrong with it; it ends a message.
RESTORING = "lookups go on; `geolookup outbox restore` puts the newest backup in its place"

if TYPE_CHECKING:
    from sqlite_utils import Database


def migrate_m004(database: "Database") -> None:
    """Marks (see `state.marks`) of each edit, and what the service made of it."""
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
