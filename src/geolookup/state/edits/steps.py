"""Steps: what one command, or one transaction of a program, did to the custom layer; the history's lines of each.

An edit of the history says what the geolocation was before it and after it, so a step can be undone from its lines,
regardless of what became of its edits since.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geolookup.state.edits.outbox.payload import read_content
from geolookup.state.edits.outbox.row import decoded
from geolookup.state.edits.places.place import Content

if TYPE_CHECKING:
    from sqlite_utils import Database

#: The word of the history for an edit of a place of a VRF.
VRF_PLACE = "vrf_place"
#: The line that says which names a file of sites gave.
SITES = "sites"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerChange:
    """One geolocation before and after: None stands for one that did not exist yet, or does not any more."""

    locid: int
    before: Content | None
    after: Content | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VrfPlaceChange:
    """A place of a VRF, by its name, before and after; None where it is not."""

    vrf: str
    name: str
    before: Content | None
    after: Content | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The changes of one transaction: to geolocations, oldest first, and to the names of sites.

    ``names`` has each name that changed, with the number on this machine that it had before and has after, or None.
    """

    number: int
    at: str
    changes: tuple[LayerChange, ...]
    names: Mapping[str, tuple[int | None, int | None]]
    vrfs: tuple[VrfPlaceChange, ...] = ()


class Steps:
    """The steps, within one transaction of edits.db."""

    def __init__(self, database: "Database") -> None:
        self._database = database

    def newest(self, count: int) -> list[Step]:
        """The newest steps, the newest first, that neither undid others nor were undone."""
        sql = "SELECT id FROM steps WHERE undoes IS NULL AND undone_by IS NULL ORDER BY id DESC LIMIT ?"
        return [self._read(int(row["id"])) for row in self._database.query(sql, (count,))]

    def undone(self, steps: list[int], *, by: int) -> None:
        """Note which steps a step undid."""
        for number in steps:
            self._database.execute("UPDATE steps SET undone_by = ? WHERE id = ?", (by, number))
        self._database.execute("UPDATE steps SET undoes = ? WHERE id = ?", (steps[0] if steps else 0, by))

    def _read(self, number: int) -> Step:
        changes: list[LayerChange] = []
        vrfs: list[VrfPlaceChange] = []
        names: dict[str, tuple[int | None, int | None]] = {}
        at = ""
        for line in self._database.query("SELECT * FROM history WHERE step = ? ORDER BY id", (number,)):
            at = line["at"]
            if line["what"] == SITES:
                was, became = decoded(line["before"]), decoded(line["after"])
                for name in was:
                    names[name] = names.get(name, (was[name],))[0], became[name]
                continue
            before, after = (read_content(line[name]) for name in ("before", "after"))
            if line["what"] == VRF_PLACE:
                whose = decoded(line["after"] or line["before"])
                vrfs.append(VrfPlaceChange(vrf=whose["vrf"], name=whose["name"], before=before, after=after))
                continue
            changes.append(LayerChange(locid=line["locid"], before=before, after=after))
        return Step(number=number, at=at, changes=tuple(changes), names=names, vrfs=tuple(vrfs))
