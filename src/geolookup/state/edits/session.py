"""The data of one transaction of edits: the outbox, and the custom layer as the edits leave it."""

import functools
from collections.abc import Collection, Mapping, Sequence
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import asdict, replace

from geolookup.model.errors import BlockError, DefaultGeolocationError, EditError, UnknownGeolocationError
from geolookup.model.named import locid_of
from geolookup.model.types import Geolocation, IPBlock
from geolookup.state.base.clock import now_text
from geolookup.state.base.current import Current, cache_path
from geolookup.state.base.marks import Begun
from geolookup.state.edits.layer import Laid, laid, made_by
from geolookup.state.edits.names import SiteNames, facts_of_sites
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.outbox.outbox import insert_history
from geolookup.state.edits.outbox.payload import content_of, geolocation, values_of
from geolookup.state.edits.outbox.row import PENDING_STATES, PERSON_STATES, OutboxRow, State
from geolookup.state.edits.places.place import Blocks, Content, Intent
from geolookup.state.edits.places.reconcile import conflicting
from geolookup.state.edits.steps import Steps
from geolookup.state.edits.vrfs import VrfPlaces
from geolookup.state.generations.cache import Cache, digest

if TYPE_CHECKING:
    from geolookup.state.generations.cities import City


class Listed(NamedTuple):
    """The service's list as it is published: the custom geolocations of a generation, before any edit.

    ``record`` is the generation's own, and ``begun`` says when its list began. ``sites`` are the names that
    its elements have.
    """

    generation: int
    record: dict[str, Any]
    begun: Begun
    custom: list[Geolocation]
    sites: dict[int, str]


class Lists:
    """The list, read once for all sessions on one generation."""

    def __init__(self, home: str) -> None:
        self.home = home
        self._newest: Listed | None = None

    def of(self, current: Current) -> Listed:
        """The list that is published now."""
        number, record = current.generation, current.published
        begun = Begun.of(record)
        listed = self._newest  # once: another thread may replace it
        if listed is None or (listed.generation, listed.begun) != (number, begun):
            self._newest = listed = Listed(number, record, begun, *Cache(cache_path(self.home, number)).named())
        return listed


class Left(NamedTuple):
    """The layer that a session left or found, and what was published with it; with the edits up to ``head``."""

    published: Current
    head: int
    layer: dict[int, Laid]


class _HistoryLine(msgspec.Struct):
    """A line of the history that is not written yet, as `insert_history` takes it: the next edit may belong to it."""

    what: str
    locid: int
    place: int
    before: Content | None
    after: Content | None
    outcome: str
    at: str


class EditSession:
    """One transaction's outbox, and the custom layer as its edits leave it.

    ``current`` is what the edits are laid over, and ``left`` what they made of it, if that is known. An edit changes
    the layer in place, and after a person's decision it is computed anew. ``changed`` is true once there is anything to
    publish.
    """

    def __init__(self, database: Connection, current: Current, lists: Lists, left: Left | None) -> None:
        self._database = database
        self.ledger = Ledger(database)
        self.outbox = self.ledger.outbox
        self.vrfs = VrfPlaces(database, self.outbox)
        #: The names of sites.
        self.names = SiteNames(database)
        self.changed = False
        self._current = current
        self._lists = lists
        is_same = left is not None and left.head == self.outbox.head and _is_same(left.published, current)
        self._layer = dict(left.layer) if left is not None and is_same else None
        #: True if this session had to lay the layer.
        self.has_laid = False
        self._owners: dict[IPBlock, int] | None = None
        #: The blocks that each geolocation had before the first edit of it, and the last line of its history.
        self._seen: dict[int, Blocks] = {}
        self._lines: dict[int, _HistoryLine] = {}

    @property
    def published(self) -> dict[str, Any]:
        """The record of the generation that the edits are laid over."""
        return self._current.published

    def left(self) -> tuple[dict[int, Laid], dict[int, Mapping[str, str]]]:
        """The layer as the edits leave it, and what is known of its sites by number; the history is written."""
        self.write_history()
        return self.layer, {**facts_of_sites(self.listed.sites), **self.names.of_numbers()}

    @property
    def steps(self) -> Steps:
        """The changes of transactions."""
        self.write_history()
        return Steps(self._database, self.outbox)

    @property
    def layer(self) -> dict[int, Laid]:
        """The custom geolocations as the edits leave them, by the locid that lookups show."""
        if self._layer is None:
            self._layer, self.has_laid = laid(self.ledger, self.listed.custom, self.listed.begun), True
        return self._layer

    @functools.cached_property
    def _aliases(self) -> dict[int, int]:
        return self.outbox.aliases()

    @functools.cached_property
    def listed(self) -> Listed:
        """The list that the edits are laid over."""
        return self._lists.of(self._current)

    def gone(self) -> list[int]:
        """The custom geolocations that are here only for their pending edits: the service no longer lists them."""
        listed = {place.locid for place in self.listed.custom}
        return [
            shown
            for shown, laid in sorted(self.layer.items(), reverse=True)
            if shown not in listed and laid.edits and laid.edits[0].intent.base is not None
        ]

    def create(self, fields: Mapping[str, Any], number: int | None = None) -> int:
        """Add a create with these fields, for a new provisional locid, or for ``number``, one of the `forgotten`."""
        locid = self.ledger.create(made=self._published()) if number is None else number
        self.add(Intent(what="create", values=values_of(fields)), locid, locid)
        return locid

    def find(self, locid: int) -> tuple[int, int, Laid]:
        """(the locid that lookups show, the one that this machine uses, the geolocation)."""
        locid = locid_of(locid)
        if locid > 0:
            raise DefaultGeolocationError(
                f"geolocation {locid} is a default one, and those cannot be changed: "
                "create a custom one, whose blocks take precedence"
            )
        shown = self._aliases.get(locid, locid)
        laid = self.layer.get(shown)
        if laid is None and (made := made_by(self.ledger, self.listed.custom, shown)) is not None:
            raise UnknownGeolocationError(
                f"geolocation {locid} may have been made by the create of geolocation {made.shown}, whose outcome is "
                f"not known yet: edit {made.shown} instead; the next push or sync tells"
            )
        if laid is None:
            raise UnknownGeolocationError(f"custom geolocation {locid} does not exist: see `geolookup custom list`")
        return shown, self.local(shown), laid

    def shown(self, local: int) -> int:
        """The number under which lookups show what has a number on this machine."""
        return self._aliases.get(local, local)

    def told(self, row: OutboxRow) -> OutboxRow:
        """An edit with the number by which lookups know its geolocation, for a person."""
        return row if row.number is not None else replace(row, number=self.shown(row.locid))

    def rows(self, *states: State) -> list[OutboxRow]:
        """The edits in these states (all, if none is named), oldest first, each as it is `told`."""
        return [self.told(row) for row in self.outbox.rows(*states)]

    def local(self, shown: int) -> int:
        """The number on this machine of what lookups show under a number."""
        return next((local for local, service in self._aliases.items() if service == shown), shown)

    def numbers_of(self, locid: int) -> set[int]:
        """All numbers that a geolocation ever had."""
        locid = locid_of(locid)
        shown = self._aliases.get(locid, locid)
        return {locid, shown, self.local(shown)}

    def waiting(self, number: int) -> OutboxRow:
        row = self.outbox.row(number)
        if row.state not in (State.HELD, State.REJECTED):
            why = f" ({row.problem})" if row.problem else ""
            raise EditError(f"edit {number} is {row.state}{why}: it does not wait for a person")
        return row

    def give(self, locid: int, blocks: Sequence[IPBlock]) -> None:
        """Give a geolocation blocks, if all of them are free."""
        shown, local, laid = self.find(locid)
        self.require_free(laid.place, *blocks)
        for block in blocks:
            self.add(Intent(what="add_block", new=block), local, shown)

    def require_free(self, place: Geolocation, *blocks: IPBlock) -> None:
        """Refuse blocks that this or another geolocation has, naming all of the latter."""
        has = {*place.ipblocks}
        for block in blocks:
            if block in has:
                raise BlockError(f"geolocation {place.locid} has {block} already")
            has.add(block)
        if self._owners is None:
            self._owners = {each: shown for shown, laid in self.layer.items() for each in laid.place.ipblocks}
        owners = {block: self._owners[block] for block in blocks if block in self._owners}
        if not owners:
            return
        names = {self.shown(named.locid): name for name, named in self.names.all().items()}
        taken: dict[int, list[str]] = {}
        for block, owner in owners.items():
            taken.setdefault(owner, []).append(str(block))
        told = [
            f"{' and '.join(each)} {'belongs' if len(each) == 1 else 'belong'} to "
            f"{f'{names[owner]} ({owner})' if owner in names else f'custom geolocation {owner}'}"
            for owner, each in taken.items()
        ]
        do = "remove it there first (one that is wider or narrower may be added as it is)"
        raise BlockError("; ".join(told), do=do, owners=owners)

    def put(self, shown: int, now: Laid | None) -> None:
        """Have a geolocation be so in the layer, or leave it out."""
        before = self.layer.pop(shown, None)
        if now is not None:
            self.layer[shown] = now
        if self._owners is not None:
            for block in () if before is None else before.place.ipblocks:
                if self._owners.get(block) == shown:
                    del self._owners[block]
            for block in () if now is None else now.place.ipblocks:
                self._owners.setdefault(block, shown)

    def _published(self) -> int:
        """The baseline of what is published."""
        listed = self.listed
        return self.outbox.baselines.keep_published(
            str(listed.record["digest"]), lambda: {place.locid: digest(place) for place in listed.custom}
        )

    @staticmethod
    def require_block(block: IPBlock, place: Geolocation) -> None:
        if block not in place.ipblocks:
            near = [str(other) for other in place.ipblocks if other.first <= block.last and block.first <= other.last]
            hint = f": it has {', '.join(near[:5])}" if near else ""
            raise BlockError(f"geolocation {place.locid} has no block {block}{hint}")

    def add(self, intent: Intent, local: int, shown: int) -> None:
        """Add the edit to the outbox, the layer and the history."""
        before = self.layer.get(shown)
        base = None if before is None else content_of(before.place)
        if base is not None:
            local = self.ledger.place_of(shown, base, seen=self.listed.begun.counter)
            self.ledger.try_again(local)
        if intent.what == "delete":
            self.ledger.stands_beside(local, self._published())
        intent = replace(intent, base=base)
        content = intent.applied(base)
        seen = self._seen.setdefault(shown, frozenset() if base is None else base.blocks)
        if base is not None and intent.what == "add_block":  # with all, a place of many blocks had each in each edit
            intent = replace(intent, base=replace(base, blocks=seen))
        row = self.outbox.add(intent, local)
        edits = (*(before.edits if before else ()), replace(row, number=shown))
        self.put(shown, None if content is None else Laid(place=geolocation(shown, content), edits=edits))
        self.record(intent.what, local, shown, base, content, str(State.QUEUED), at=row.created_at)

    def pending(self) -> list[OutboxRow]:
        """The edits that have not reached the service, oldest first: those of the layer need not be read again."""
        found = {row.id: row for laid in self.layer.values() for row in laid.edits}
        rest = [number for number, _ in self.outbox.states(*PENDING_STATES) if number not in found]
        return sorted([*found.values(), *map(self.outbox.row, rest)], key=lambda row: row.id)

    def deleted_unsent(self) -> dict[int, Geolocation]:
        """Geolocations deleted here, of which the service was not told yet: by the locid that lookups showed."""
        gone = {row.locid: self.shown(row.locid) for row in self.pending()}
        found = {shown: self.undeleted(local) for local, shown in gone.items() if shown not in self.layer}
        return {shown: geolocation(shown, content) for shown, content in found.items() if content is not None}

    def undeleted(self, local: int) -> Content | None:
        """A place but for its deletion, as others have changed it meanwhile; None if the service may have done that."""
        for kept in self.ledger.read("id = ?", (local,)).values():
            *_, newest = [None, *kept.rows.values()]
            if newest is not None and newest.intent.what == "delete" and newest.never_applied:
                return replace(kept.place, intents=kept.place.intents[:-1]).shown
        return None

    def overtaken(self, shown: int) -> tuple[Content | None, Content] | None:
        """The content that a waiting edit of a geolocation was made against, and the content that others have written
        since; None if they contradict no edit.
        """
        for kept in self.ledger.read("id = ?", (self.local(shown),)).values() if self.layer[shown].edits else ():
            hold = kept.hold
            theirs = hold.theirs if hold is not None and hold.reason == "conflict" else kept.place.baseline
            if theirs is not None and (against := conflicting(kept.place, theirs)):
                return against[0].base, theirs
        return None

    def before_unsent(self) -> dict[int, Content | None]:
        """Geolocations before their pending edits, if none of these was sent: by the locid that lookups show.

        None stands for one that no service has heard of.
        """
        rows = self.pending()
        sent = {row.locid for row in rows if not row.never_sent}
        return {self.shown(row.locid): row.intent.base for row in reversed(rows) if row.locid not in sent}

    def forgotten(self) -> set[int]:
        """The provisional locids of what was created here and deleted before anything of it was sent."""
        sql = "SELECT locid FROM outbox WHERE state = ? AND operation = 'create' AND attempts = 0"
        found = self._database.execute(sql, (str(State.DROPPED),))
        return {locid for (locid,) in found if locid not in self.layer and locid not in self._aliases}

    def take_back(self, rows: Collection[OutboxRow]) -> None:
        """Drop edits that were never sent, as `superfluous` gives them: the newest of their geolocations."""
        before = {row.locid: self.layer.get(self.shown(row.locid)) for row in rows}
        self._drop(rows, "taken back before it was sent")
        self._layer = self._owners = None
        for local, was in before.items():
            now = self.layer.get(shown := self.shown(local))
            then, after = (None if laid is None else content_of(laid.place) for laid in (was, now))
            self.record("take_back", local, shown, then, after, str(State.DROPPED))

    def forget(self, shown: int, laid: Laid) -> bool:
        """Forget what was created here, with all edits of it, if no service has heard of it; false if one may have."""
        rows = laid.edits
        if not rows or rows[0].intent.what != "create" or not all(row.never_sent for row in rows):
            return False
        self._drop(rows, "deleted before it was sent")
        self.put(shown, None)
        outcome = "forgotten: it was never sent"
        self.record("delete", rows[0].locid, shown, content_of(laid.place), None, outcome)
        return True

    def _drop(self, rows: Collection[OutboxRow], why: str) -> None:
        """Drop edits that were never sent; nothing is held for them any more."""
        for row in rows:
            self.outbox.change(row.id, state=State.DROPPED, problem=why)
        for local in {row.locid for row in rows if row.state in PERSON_STATES}:
            kept = self.ledger.of(local)
            place = replace(kept.place, refused=None)
            if kept.hold is not None and kept.hold.reason in ("gone", "another") and not place.intents:
                place = replace(place, number=None, lost=None, baseline=None)  # it was here for these edits alone
            self.ledger.save(kept, place)
            if kept.hold is not None and kept.hold.reason == "unclear" and not place.intents:
                for number in sorted(filter(None, kept.hold.numbers), reverse=True):
                    words = (
                        f"geolocation {number} of the service is like one that was made here, never sent, and deleted "
                        f"again. It stays; if it is yours, sent by a copy of this state: `geolookup custom delete "
                        f"{number}`"
                    )
                    self.outbox.notice(0, local, number, words)

    def city(self, fields: Mapping[str, Any]) -> "City | None":
        """The place of the default data, else of a custom geolocation, that stands for the city of such fields; None if
        they have none.
        """
        from geolookup.state.generations.cities import find_city, own_city  # late: most are created with coordinates

        country, region, city = (fields[name] for name in ("country", "region", "city"))
        if not all(isinstance(text, str) for text in (country, region, city)):
            return None  # which is refused as such
        found = find_city(self._lists.home, self.published, country, region, city)
        return found or own_city((laid.place for laid in self.layer.values()), country, region, city)

    def record(
        self,
        what: str,
        place: int,
        locid: int,
        before: Content | None,
        after: Content | None,
        outcome: str,
        *,
        at: str | None = None,
    ) -> None:
        """Add a line to the history, of now or of ``at``: what a place, shown as ``locid``, was and is."""
        self.changed = True
        last = self._lines.get(locid)
        if last is not None and last.what in (what, "create") and last.outcome == outcome and after is not None:
            last.after = after
            return
        self._write_line(locid)
        self._lines[locid] = _HistoryLine(what, locid, place, before, after, outcome, at or now_text())

    def write_history(self) -> None:
        """Write the lines of the history that are still open: several edits of one kind are one line."""
        for locid in [*self._lines]:
            self._write_line(locid)

    def _write_line(self, locid: int) -> None:
        line = self._lines.pop(locid, None)
        if line is not None:
            insert_history(self._database, step=self.outbox.step, **asdict(line))

    def note_decision(self, what: str, row: OutboxRow, state: State) -> None:
        """A person's decision changes what is laid over, and may change a locid: nothing known before it holds."""
        self.changed = True
        self._layer = self._owners = None
        vars(self).pop("_aliases", None)
        decided = {"edit": row.id, "state": str(row.state)}
        self.outbox.record(what, str(state), locid=row.locid, before=decided)


def _is_same(one: Current, other: Current) -> bool:
    """True if both name one overlay: a state that was restored counts again from where it was."""
    return (one.sequence, one.overlay_file["sha256"]) == (other.sequence, other.overlay_file["sha256"])
