"""Notices that were not shown yet: a run that dies between finding something and saying it forgets nothing."""

import json
from typing import TYPE_CHECKING, Any

from geolookup.base.reasons import reason
from geolookup.model.errors import EditsDamagedError
from geolookup.state.edits.outbox.schema import RESTORING

if TYPE_CHECKING:
    from sqlite_utils import Database

#: The setting that holds them.
UNTOLD = "untold"


def read_untold(text: str) -> list[dict[str, Any]]:
    """The notices that a text holds.

    :raises ValueError: if it is not what was written
    """
    match json.loads(text):
        case [*found] if all(_is_notice(each) for each in found):
            return found
    raise ValueError("a notice is not what was written")


def _is_notice(each: Any) -> bool:
    match each:
        case {"edit": int(), "locid": int(), "reason": str()}:
            return True
    return False


class Untold:
    """The notices of a run that is under way, or that died, within one transaction of edits.db.

    Each has the ``edit`` that it is about, the ``locid`` of its geolocation and the ``reason`` in words.
    """

    def __init__(self, database: "Database") -> None:
        self._database = database

    def all(self) -> list[dict[str, Any]]:
        """All of them, oldest first.

        :raises EditsDamagedError: if they are not what was written
        """
        for row in self._database.query("SELECT value FROM settings WHERE name = ?", (UNTOLD,)):
            try:
                return read_untold(str(row["value"]))
            except ValueError as error:
                raise EditsDamagedError(
                    f"edits.db: settings {UNTOLD!r} is damaged ({reason(error)}): {RESTORING}"
                ) from error
        return []

    def add(self, notice: dict[str, Any]) -> None:
        """Add one."""
        self._database.table("settings").upsert({"name": UNTOLD, "value": json.dumps([*self.all(), notice])}, pk="name")

    def forget(self) -> None:
        """Note that a run has ended which told them all."""
        self._database.execute("DELETE FROM settings WHERE name = ?", (UNTOLD,))
