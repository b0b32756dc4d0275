"""The names of sites, and their time zones: local knowledge, of which no service hears."""

from collections.abc import Collection, Mapping
from sqlite3 import Connection

from geolookup.state.base.clock import now_text
from geolookup.state.edits.outbox.kept import LIVING
from geolookup.state.edits.steps import Named


def local_facts(name: str, time_zone: str) -> Mapping[str, str]:
    """The facts of a site that stand beside the fields of its place in the custom layer, by their names."""
    return {"site": name, **({"time_zone": time_zone} if time_zone else {})}


def facts_of_sites(names: Mapping[int, str]) -> dict[int, Mapping[str, str]]:
    """`local_facts` of sites that a service named, by locid."""
    return {locid: local_facts(name, "") for locid, name in names.items()}


#: The file of a name that no file gave.
BY_HAND = "by hand"


class SiteNames:
    """The names of the file applied last, and those given by hand, within one transaction of edits.db; and time zones.

    Each stands with the number that its geolocation has on this machine: the service's later one does not touch it.
    """

    def __init__(self, database: Connection) -> None:
        self._database = database

    def all(self) -> dict[str, Named]:
        """The geolocation of each name, and the time zone."""
        return self._where("1")

    def among(self, name: str | None, locid: int) -> dict[str, Named]:
        """The same of one name, and of the name of one geolocation, as far as these are known."""
        return self._where("name = ? OR locid = ?", name, locid)

    def _where(self, condition: str, *parameters: object) -> dict[str, Named]:
        sql = f"SELECT name, locid, time_zone FROM sites WHERE {condition}"  # noqa: S608 - no values in it
        return {name: Named(*row) for name, *row in self._database.execute(sql, parameters)}

    def locids(self) -> dict[str, int]:
        """The geolocation of each name."""
        return {name: named.locid for name, named in self.all().items()}

    def of_numbers(self) -> dict[int, Mapping[str, str]]:
        """The facts that answers have of each named geolocation, by its number on this machine and by the service's."""
        sql = f"SELECT name, time_zone, locid, number FROM sites JOIN places ON id = locid WHERE {LIVING}"  # noqa: S608 - ours
        return {
            number: local_facts(name, zone)
            for name, zone, *numbers in self._database.execute(sql)
            for number in numbers
            if number is not None
        }

    def by_hand(self) -> set[str]:
        """The names that no file has had so far."""
        return {name for (name,) in self._database.execute("SELECT name FROM sites WHERE file = ?", (BY_HAND,))}

    def belong(self, names: Collection[str], file: str) -> None:
        """Note that these names are a file's now, if they were given by hand."""
        for name in self.by_hand().intersection(names):
            self._database.execute("UPDATE sites SET file = ? WHERE name = ?", (file, name))

    def change(self, names: Mapping[str, Named | None], *, file: str) -> None:
        """Have these names stand so, None for one that goes; ``file`` is where those are from that come."""
        # All that go, before any that come: a locid may pass from one name to another.
        for name, named in names.items():
            locid = None if named is None else named.locid
            self._database.execute("DELETE FROM sites WHERE name = ? AND locid IS NOT ?", (name, locid))
        sql = (
            "INSERT INTO sites (name, locid, time_zone, file, applied_at) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (name) DO UPDATE SET time_zone = excluded.time_zone"
        )
        come = ((name, *named, file, now_text()) for name, named in names.items() if named is not None)
        self._database.executemany(sql, come)
