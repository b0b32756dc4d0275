"""The names that files of sites gave to custom geolocations: kept in edits.db, so that a later file is told apart."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from geolookup.state.base.clock import now_text

if TYPE_CHECKING:
    from sqlite_utils import Database


class SiteNames:
    """The names of the file applied last, within one transaction of edits.db.

    Each stands with the number that its geolocation has on this machine: the service's later one does not touch it.
    """

    def __init__(self, database: "Database") -> None:
        self._database = database

    def locids(self) -> dict[str, int]:
        """The geolocation of each name."""
        return {row["name"]: row["locid"] for row in self._database.query("SELECT name, locid FROM sites")}

    def replace(self, names: Mapping[str, int], *, file: str) -> None:
        """Keep these names and no others; ``file`` is where they are from. What stays as it is is not touched."""
        before = self.locids()
        # All that go, before any that come: a locid may pass from one name to another.
        for name, locid in before.items():
            if names.get(name) != locid:
                self._database.execute("DELETE FROM sites WHERE name = ?", (name,))
        self._database.table("sites").insert_all(
            {"name": name, "locid": locid, "file": file, "applied_at": now_text()}
            for name, locid in names.items()
            if before.get(name) != locid
        )
