"""The places of routing domains (VRFs) within one transaction of edits.db: local knowledge, of which no service hears.

A place is known by its VRF and its name. Its number lies below those of all other places of this machine.
"""

from collections.abc import Iterator, Mapping
from sqlite3 import Connection

from geolookup.model.types import PROVISIONAL_LOCID, Geolocation, IPBlock
from geolookup.state.edits.names import local_facts
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.payload import described, geolocation, read_content, written
from geolookup.state.edits.outbox.schema import insert, update
from geolookup.state.edits.places.place import Content
from geolookup.state.edits.steps import VRF_PLACE

#: The number of the first place of a VRF; the others follow downwards.
FIRST_LOCID = 2 * PROVISIONAL_LOCID


class VrfPlaces:
    """The places of all VRFs; ``touched`` are the names of those that this transaction has changed."""

    def __init__(self, database: Connection, outbox: Outbox) -> None:
        self._database = database
        self._outbox = outbox
        self.touched: set[str] = set()

    def revisions(self) -> dict[str, int]:
        """The names of the VRFs, each with the counter of edits when it changed last."""
        return dict(self._database.execute("SELECT name, edits FROM vrfs"))

    def _rows(self, vrf: str, name: str | None = None) -> Iterator[tuple[int, str, str, str]]:
        """The locid, the name, the content and the time zone of each place of a VRF, or of the one of a name."""
        columns = "? - id, name, content, time_zone"
        sql = f"SELECT {columns} FROM vrf_places WHERE vrf = ? AND name = ifnull(?, name) ORDER BY id"  # noqa: S608 - ours
        yield from self._database.execute(sql, (FIRST_LOCID, vrf, name))

    def places(self, vrf: str, name: str | None = None) -> dict[str, Geolocation]:
        """The places of a VRF, or the one of a name, by their names."""
        return {each: geolocation(locid, read_content(text)) for locid, each, text, _ in self._rows(vrf, name)}

    def time_zones(self, vrf: str) -> dict[str, str]:
        """The time zone of each place of a VRF that has one, by its name."""
        return {each: zone for _, each, _, zone in self._rows(vrf) if zone}

    def facts(self, vrf: str) -> dict[int, Mapping[str, str]]:
        """The facts that answers have of the places of a VRF, by locid: its name, the site's name and time zone."""
        return {locid: {**local_facts(name, zone), "vrf": vrf} for locid, name, _, zone in self._rows(vrf)}

    def owner(self, vrf: str, block: IPBlock, *, but: str) -> str | None:
        """The name of another place of the VRF that has exactly this block; None if none has.

        SQLite looks for its text in all of them: to read 50,000 blocks takes longer than to compile them.
        """
        sql = "SELECT name FROM vrf_places WHERE vrf = ? AND name <> ? AND (instr(content, ?) OR instr(content, ?))"
        texts = (f'["{block.startip}"{comma}"{block.endip}"]' for comma in (",", ", "))
        row = self._database.execute(sql, (vrf, but, *texts)).fetchone()
        return None if row is None else str(row[0])

    def put(self, vrf: str, name: str, content: Content | None, *, time_zone: str | None = None) -> int:
        """Have a place be so, a new one if there is none of that name: its locid. A ``time_zone`` of None stays.

        Without a content it is removed. A VRF without any stays known, and its addresses are those of the global table.
        """
        if vrf not in self.touched:
            self._outbox.touch()
            sql = "INSERT INTO vrfs (name, edits) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET edits = excluded.edits"
            self._database.execute(sql, (vrf, self._outbox.head))
            self.touched.add(vrf)
        locid, _, text, had = next(self._rows(vrf, name), (0, name, None, ""))
        was = None if text is None else read_content(text)
        becomes = None if content is None else written(described(content))
        zone = had if time_zone is None else time_zone
        if becomes is None:
            self._database.execute("DELETE FROM vrf_places WHERE id = ?", (FIRST_LOCID - locid,))
        elif was is None:
            values = {"vrf": vrf, "name": name, "content": becomes, "time_zone": zone}
            locid = FIRST_LOCID - insert(self._database, "vrf_places", values)
        else:
            update(self._database, "vrf_places", FIRST_LOCID - locid, {"content": becomes, "time_zone": zone})
        before, after = (
            each and {"vrf": vrf, "name": name, "time_zone": of, **(described(each) or {})}
            for each, of in ((was, had), (content, zone))
        )
        about = {"locid": locid, "place": locid, "step": self._outbox.step}
        self._outbox.record(VRF_PLACE, "done", before=before, after=after, **about)
        return locid
