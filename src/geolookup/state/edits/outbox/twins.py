"""Twins: geolocations that a create made in addition to its own, because it was applied twice or came late."""

from typing import TYPE_CHECKING

from geolookup.state.base.clock import now_text

if TYPE_CHECKING:
    from sqlite_utils import Database


class Twins:
    """The table of the twins, within one transaction of edits.db."""

    def __init__(self, database: "Database") -> None:
        self._database = database

    def known(self) -> dict[int, int]:
        """The twins that were found and are watched: each with the edit that made it."""
        return {row["locid"]: row["edit"] for row in self._database.query("SELECT locid, edit FROM twins")}

    def note(self, locid: int, edit: int) -> None:
        """Note that an edit made this one in addition to its own."""
        self._database.table("twins").insert({"locid": locid, "edit": edit})

    def forget(self, locid: int) -> None:
        """Note that a twin is one no longer."""
        self._database.execute("DELETE FROM twins WHERE locid = ?", (locid,))

    def dismiss(self, locid: int) -> bool:
        """Note that a person keeps a twin as it is; false if it was not found as one."""
        if locid not in self.known():
            return False
        self._database.execute("UPDATE twins SET dismissed_at = ? WHERE locid = ?", (now_text(), locid))
        return True

    def dismissed(self) -> set[int]:
        """The twins that a person keeps."""
        return {row["locid"] for row in self._database.query("SELECT locid FROM twins WHERE dismissed_at IS NOT NULL")}
