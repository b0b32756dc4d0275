"""Edits that were sent to the service, and the form in which it stored them."""

import json
from typing import TYPE_CHECKING, Any

from geolookup.state.edits.outbox.operations import Operation
from geolookup.state.edits.outbox.row import OutboxRow, read_row, was_sent_again

if TYPE_CHECKING:
    from sqlite_utils import Database

#: As many as tell how a service stores what it is sent.
_MOST_FORMS = 500


class Sent:
    """The sent edits, within one transaction of edits.db."""

    def __init__(self, database: "Database") -> None:
        self._database = database

    def acknowledged(self) -> list[OutboxRow]:
        """The edits that the service acknowledged, and that no list was conclusive for yet; oldest first."""
        sql = "SELECT * FROM outbox WHERE concluded IS NULL AND acknowledged IS NOT NULL AND state = 'done' ORDER BY id"
        return [read_row(row) for row in self._database.query(sql)]

    def recent(self, locid: int) -> list[OutboxRow]:
        """The acknowledged edits of one geolocation that no list was conclusive for yet, oldest first."""
        sql = (
            "SELECT * FROM outbox WHERE locid = ? AND concluded IS NULL AND acknowledged IS NOT NULL"
            " AND state = 'done' ORDER BY id"
        )
        return [read_row(row) for row in self._database.query(sql, (locid,))]

    def stored_forms(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Pairs of fields as sent and as stored, newest first: those that differ, or one that does not."""
        sql = "SELECT DISTINCT payload, stored FROM outbox WHERE stored IS NOT NULL ORDER BY id DESC LIMIT ?"
        found = [
            (json.loads(row["payload"])["fields"], json.loads(row["stored"]))
            for row in self._database.query(sql, (_MOST_FORMS,))
        ]
        return [pair for pair in found if pair[0] != pair[1]] or found[:1]

    def stored_differently(self) -> list[OutboxRow]:
        """The newest create or update of each geolocation that the service stored in another form than it was sent."""
        sql = (
            "SELECT * FROM outbox WHERE id IN (SELECT max(id) FROM outbox WHERE state = 'done' AND operation IN (?, ?)"
            " GROUP BY locid) AND stored IS NOT NULL"
        )
        found = map(read_row, self._database.query(sql, (str(Operation.CREATE), str(Operation.UPDATE))))
        return [row for row in found if row.stored != row.payload["fields"]]

    def watched_creates(self) -> list[OutboxRow]:
        """Finished creates that were sent again, or changed after they were sent; oldest first.

        An earlier request of theirs may land at any time.
        """
        sql = (
            "SELECT * FROM outbox WHERE operation = ? AND journal IS NOT NULL"
            " AND state IN ('done', 'rejected', 'dropped') ORDER BY id"
        )
        found = map(read_row, self._database.query(sql, (str(Operation.CREATE),)))
        return [row for row in found if was_sent_again(row)]

    def deleted_numbers(self) -> dict[int, int]:
        """The service's number of each geolocation that it deleted for this machine, with the number here."""
        sql = "SELECT number, locid FROM outbox WHERE operation = ? AND number IS NOT NULL ORDER BY id"
        return {row["number"]: row["locid"] for row in self._database.query(sql, (str(Operation.DELETE),))}
