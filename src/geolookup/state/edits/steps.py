"""Steps: what one command, or one transaction of a program, did to the custom layer; the history's lines of each.

An edit of the history says what the geolocation was before it and after it, so a step can be undone from its lines,
regardless of what became of its edits since.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from sqlite3 import Connection
from typing import Any, NamedTuple

from geolookup.model.errors import EditError
from geolookup.settings.times import shown
from geolookup.state.base.actor import who
from geolookup.state.base.sqlite import by_name
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.payload import read_content
from geolookup.state.edits.outbox.row import decoded
from geolookup.state.edits.places.place import Content

#: The word of the history for an edit of a place of a VRF.
VRF_PLACE = "vrf_place"

#: The line that says which names a file of sites gave.
SITES = "sites"


class Named(NamedTuple):
    """The geolocation of a site's name, by its number on this machine, and the site's time zone, "" if it has none.

    Both are local knowledge: no service hears of them.
    """

    locid: int
    time_zone: str = ""

    @property
    def written(self) -> int | tuple[int, str]:
        """As the history has it."""
        return (*self,) if self.time_zone else self.locid


def vrf_place(line: Mapping[str, Any]) -> str:
    """The name of the place of a VRF, and the VRF, that a line of the history is about; "" if it is about none."""
    place = (line["after"] or line["before"]) if line["what"] == VRF_PLACE else None
    return f"{place['name']} of the VRF {place['vrf']}" if place else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of the history that changed a geolocation, or (``vrf`` and ``name``) a place of a VRF; or gave names.

    ``place`` is its number here by now, 0 of names. ``names`` are as those of a `Step`, ``was_zone`` is the time zone
    that a place of a VRF had. ``who`` did it at ``at``, ``via`` says from where; it is part of a step that ``undoes``
    another one.
    """

    number: int
    at: str
    who: str
    via: str
    undoes: bool
    place: int
    before: Content | None
    after: Content | None
    vrf: str = ""
    name: str = ""
    was_zone: str = ""
    names: Mapping[str, tuple[Named | None, Named | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The changes of one transaction: to geolocations, to places of VRFs, oldest first, and to the names of sites.

    ``names`` has each name that changed, with what it stood for before and after, or None.
    ``who`` began it at ``at``, ``via`` says from where.
    """

    number: int
    at: str
    who: str
    via: str
    changes: tuple[Line, ...]
    vrfs: tuple[Line, ...]
    names: Mapping[str, tuple[Named | None, Named | None]]


#: The last applies that are kept of each VRF, and of the global table.
_MOST_APPLIES = 50
_APPLIED = "applied:"
_LINES = "SELECT history.*, undoes FROM history LEFT JOIN steps ON steps.id = step"


class Steps:
    """The steps, within one transaction of edits.db: that of an ``outbox``."""

    def __init__(self, database: Connection, outbox: Outbox) -> None:
        self._database = database
        self._outbox = outbox

    def lines(self, *, after: int = 0, since: str = "", place: int | None = None) -> list[Line]:
        """The lines of other steps that changed the layer or names: with numbers above ``after``, younger than the
        moment ``since``; all, or those of one ``place``. The oldest first.
        """
        sql = f"{_LINES} WHERE history.id > ? AND at > ? AND step IS NOT NULL AND step IS NOT ?"
        if place is not None:
            sql += " AND place IN (SELECT ?4 UNION SELECT former FROM renumbered WHERE place = ?4)"
        given = (after, since, self._outbox.own_step, *([place] if place else []))
        found = self._database.execute(f"{sql} ORDER BY history.id", given)
        lines = [self._line(row) for row in by_name(found) if row["before"] is not None or row["after"] is not None]
        return [line for line in lines if place in (None, line.place)]

    def now(self, place: int, line: int | None = None) -> int:
        """The number here of a place, also if it was created again, by the one that it had, or had in a ``line``."""
        sql = "SELECT place FROM renumbered WHERE former = ? AND line >= ? ORDER BY line LIMIT 1"
        for (now,) in self._database.execute(sql, (place, line)):
            place = int(now)
        sql = "SELECT again FROM places WHERE id = ? AND again IS NOT NULL"
        while (found := self._database.execute(sql, (place,)).fetchone()) is not None:
            (place,) = found
        return place

    def newest_of(self, place: int) -> int | None:
        """The newest step that changed a place, None if none did."""
        sql = "SELECT max(step) FROM history WHERE place = ?"
        (step,) = self._database.execute(sql, (place,)).fetchone()
        return None if step is None else int(step)

    def newest_moment(self) -> str:
        """The moment of the newest line of a step; "" if there is none."""
        sql = "SELECT at FROM history WHERE step IS NOT NULL ORDER BY id DESC LIMIT 1"
        return next((str(at) for (at,) in self._database.execute(sql)), "")

    def line_at(self, moment: str) -> int | None:
        """The number of the line of this moment, None if there is none; later lines have larger ones."""
        sql = "SELECT id FROM history WHERE at = ? AND step IS NOT NULL ORDER BY id DESC LIMIT 1"
        return next((int(number) for (number,) in self._database.execute(sql, (moment,))), None)

    def _newest_line(self) -> int:
        return int(self._database.execute("SELECT max(id) FROM history").fetchone()[0] or 0)

    def applied(self, vrf: str) -> int | None:
        """The line after which a file was applied last, and not undone, to a VRF or (``""``) the global table.

        If this user applied any, it is theirs: what another one's file changed since is news to them. None if there
        was none.
        """
        numbers = [line for line, step, _ in self._applies(vrf) if self._stands(step)]
        own = [line for line, step, user in self._applies(vrf) if user == who() and self._stands(step)]
        return max(own or numbers, default=None)

    def note_apply(self, vrf: str) -> None:
        """Note that a file is applied, by this user in this step; nothing is written if nothing happened since."""
        known, newest = self._applies(vrf), self._newest_line()
        if [newest, who()] not in [[line, user] for line, _, user in known]:
            known = [*known, (newest, self._outbox.own_step, who())][-_MOST_APPLIES:]
            self._outbox.keep_setting(_APPLIED + vrf, json.dumps(known))

    def _applies(self, vrf: str) -> list[tuple[int, int | None, str]]:
        return [tuple(each) for each in json.loads(self._outbox.setting(_APPLIED + vrf) or "[]")]

    def _stands(self, step: int | None) -> bool:
        sql = "SELECT 1 FROM steps WHERE id = ? AND undone_by IS NOT NULL"
        return self._database.execute(sql, (step,)).fetchone() is None

    def newest(self, count: int) -> list[Step]:
        """The newest steps, the newest first, that neither undid others nor were undone."""
        sql = "SELECT id FROM steps WHERE undoes IS NULL AND undone_by IS NULL ORDER BY id DESC LIMIT ?"
        return [self._read(int(number)) for (number,) in self._database.execute(sql, (count,))]

    def of(self, number: int, place: int | None = None) -> tuple[Step, bool]:
        """The step of this number, or what it did to one ``place``; and whether that is all of it.

        :raises EditError: if there is none, or it is undone
        """
        step = self._read(number)
        if not (step.changes or step.vrfs or step.names):
            raise EditError(f"step {number} of the history changed no site, or is not there: nothing to undo")
        if not self._stands(number):
            sql = "SELECT who, at FROM history WHERE step = (SELECT undone_by FROM steps WHERE id = ?)"
            found = self._database.execute(sql, (number,)).fetchone()  # none, if there was nothing left to undo
            raise EditError("already undone" + (f" by {found[0] or 'somebody'}, {shown(found[1])}" if found else ""))
        if place is None:
            return step, True
        changes, vrfs = (tuple(each for each in lines if each.place == place) for lines in (step.changes, step.vrfs))
        names = {
            name: sides for name, sides in step.names.items() if any(each and each.locid == place for each in sides)
        }
        found = replace(step, changes=changes, vrfs=vrfs, names=names)
        return found, found == step

    def undone(self, steps: list[int], *, by: int, whole: bool) -> None:
        """Note which steps a step undid, the ``whole`` of each or a part; what one of them undid stands again."""
        for number in steps if whole else ():
            self._database.execute("UPDATE steps SET undone_by = NULL WHERE undone_by = ?", (number,))
            self._database.execute("UPDATE steps SET undone_by = ? WHERE id = ?", (by, number))
        self._database.execute("UPDATE steps SET undoes = ? WHERE id = ?", (steps[0] if steps else 0, by))

    def _read(self, number: int) -> Step:
        sql = f"{_LINES} WHERE step = ? ORDER BY history.id"
        lines = [self._line(row) for row in by_name(self._database.execute(sql, (number,)))]
        names: dict[str, tuple[Named | None, Named | None]] = {}
        for name, (was, became) in (each for line in lines for each in line.names.items()):
            names[name] = names.get(name, (was,))[0], became
        return Step(
            number=number,
            at=min((line.at for line in lines), default=""),
            who=lines[-1].who if lines else "",
            via=lines[-1].via if lines else "",
            changes=tuple(line for line in lines if line.place and not line.vrf),
            vrfs=tuple(line for line in lines if line.vrf),
            names=names,
        )

    def _named(self, found: Any, line: int) -> Named | None:
        named = as_named(found)
        return named and named._replace(locid=self.now(named.locid, line))

    def _line(self, row: Mapping[str, Any]) -> Line:
        names: dict[str, tuple[Named | None, Named | None]] = {}
        content: dict[str, Content | None] = {"before": None, "after": None}
        whose: Mapping[str, Any] = {}
        number = row["id"]
        if row["what"] == SITES:
            was, became = decoded(row["before"]), decoded(row["after"])
            names = {name: (self._named(was[name], number), self._named(became[name], number)) for name in was}
        else:
            content = {name: None if row[name] is None else read_content(row[name]) for name in content}
            whose = decoded(row["after"] or row["before"]) if row["what"] == VRF_PLACE else {}
        return Line(
            number=number,
            at=row["at"],
            who=row["who"] or "somebody",
            via=row["via"] or "",
            undoes=row["undoes"] is not None,
            place=0 if row["place"] is None else self.now(row["place"], number),
            vrf=whose.get("vrf", ""),
            name=whose.get("name", ""),
            was_zone=(decoded(row["before"]) or {}).get("time_zone", "") if whose and row["before"] else "",
            names=names,
            **content,
        )


def as_named(found: Any) -> Named | None:
    """The geolocation, by its number of then, and time zone of a name as the history has it."""
    return None if found is None else Named(found) if isinstance(found, int) else Named(*found)
