"""The places of routing domains (VRFs) within one transaction of edits.db: local knowledge, of which no service hears.

A place is known by its VRF and its name. Its number lies below those of all other places of this machine.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from sqlite3 import Connection

from geolookup.model.types import PROVISIONAL_LOCID, Geolocation, IPBlock
from geolookup.state.edits.names import local_facts
from geolookup.state.edits.outbox.history import begin_step, insert_history
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.payload import content_column, described, geolocation, read_content
from geolookup.state.edits.outbox.schema import insert
from geolookup.state.edits.places.place import Content
from geolookup.state.edits.steps import VRF_PLACE

#: The number of the first place of a VRF; the others follow downwards.
FIRST_LOCID = 2 * PROVISIONAL_LOCID


def locid_of_row(number: int) -> int:
    """The locid of the place in a row of ``vrf_places``."""
    return FIRST_LOCID - number


class VrfPlaces:
    """The places of all VRFs; ``changed`` is true once one was put or removed.

    ``step`` gives the number of the step that changes belong to: a new one, if it is not given.
    """

    def __init__(self, database: Connection, outbox: Outbox, step: Callable[[], int] | None = None) -> None:
        self._database = database
        self._outbox = outbox
        self._step: Callable[[], int] = partial(begin_step, database) if step is None else step
        self._touched: set[str] = set()

    @property
    def changed(self) -> bool:
        """True if a place was put or removed."""
        return bool(self._touched)

    def revisions(self) -> dict[str, int]:
        """The names of the VRFs, each with the counter of edits when it changed last."""
        return dict(self._database.execute("SELECT name, edits FROM vrfs"))

    def _rows(self, vrf: str, name: str | None = None) -> Iterator[tuple[int, str, str, str]]:
        sql = "SELECT id, name, content, time_zone FROM vrf_places WHERE vrf = ? AND name = ifnull(?, name) ORDER BY id"
        yield from self._database.execute(sql, (vrf, name))

    def places(self, vrf: str, name: str | None = None) -> dict[str, Geolocation]:
        """The places of a VRF, or the one of a name, by their names."""
        found = {}
        for number, each, text, _ in self._rows(vrf, name):
            content = read_content(text)
            assert content is not None
            found[each] = geolocation(locid_of_row(number), content)
        return found

    def time_zones(self, vrf: str, name: str | None = None) -> dict[str, str]:
        """The time zone of each place of a VRF that has one, by its name."""
        return {each: zone for _, each, _, zone in self._rows(vrf, name) if zone}

    def facts(self, vrf: str) -> dict[int, Mapping[str, str]]:
        """The facts that answers have of the places of a VRF, by locid: its name, the site's name and time zone."""
        rows = self._rows(vrf)
        return {locid_of_row(number): {**local_facts(name, zone), "vrf": vrf} for number, name, _, zone in rows}

    def owner(self, vrf: str, block: IPBlock, *, but: str) -> str | None:
        """The name of another place of the VRF that has exactly this block; None if none has.

        SQLite looks for its text in all of them: to read 50,000 blocks takes longer than to compile them.
        """
        sql = "SELECT name FROM vrf_places WHERE vrf = ? AND name <> ? AND (instr(content, ?) OR instr(content, ?))"
        texts = (f'["{block.startip}"{comma}"{block.endip}"]' for comma in (",", ", "))
        row = self._database.execute(sql, (vrf, but, *texts)).fetchone()
        return None if row is None else str(row[0])

    def put(
        self, vrf: str, name: str, content: Content, before: Geolocation | None, *, time_zone: str | None = None
    ) -> int:
        """Have a place be so, a new one if there is none of that name: its locid. A ``time_zone`` of None stays."""
        self._touch(vrf)
        column, had = content_column(content), self.time_zones(vrf, name).get(name, "")
        zone = had if time_zone is None else time_zone
        if before is None:
            values = {"vrf": vrf, "name": name, "content": column, "time_zone": zone}
            locid = locid_of_row(insert(self._database, "vrf_places", values))
        else:
            sql = "UPDATE vrf_places SET content = ?, time_zone = ? WHERE vrf = ? AND name = ?"
            self._database.execute(sql, (column, zone, vrf, name))
            locid = before.locid
        self._record(vrf, name, locid, (before, had), (content, zone))
        return locid

    def remove(self, vrf: str, name: str, before: Geolocation) -> None:
        """Remove a place; a VRF without any stays known, and its addresses are those of the global table."""
        self._touch(vrf)
        had = self.time_zones(vrf, name).get(name, "")
        self._database.execute("DELETE FROM vrf_places WHERE vrf = ? AND name = ?", (vrf, name))
        self._record(vrf, name, before.locid, (before, had), (None, ""))

    def _touch(self, vrf: str) -> None:
        if vrf in self._touched:
            return
        self._outbox.touch()
        sql = "INSERT INTO vrfs (name, edits) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET edits = excluded.edits"
        self._database.execute(sql, (vrf, self._outbox.head))
        self._touched.add(vrf)

    def _record(
        self,
        vrf: str,
        name: str,
        locid: int,
        before: tuple[Geolocation | None, str],
        after: tuple[Content | None, str],
    ) -> None:
        was, becomes = (
            None if each is None else {"vrf": vrf, "name": name, "time_zone": zone, **(described(each) or {})}
            for each, zone in (before, after)
        )
        insert_history(
            self._database, VRF_PLACE, "done", locid=locid, before=was, after=becomes, step=self._step(), place=locid
        )
