"""What one transaction of edits works on: the outbox, and the custom layer as the edits leave it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from geolookup.errors import BlockError, DefaultGeolocationError, EditError, UnknownGeolocationError
from geolookup.model import PROVISIONAL_LOCID, Geolocation, IPBlock
from geolookup.state.edits.layer import Laid, lay_over
from geolookup.state.edits.outbox.operations import Create, Edit
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.payload import described
from geolookup.state.edits.outbox.row import OutboxRow, State
from geolookup.state.edits.site_names import SiteNames
from geolookup.state.generations.digest import digest
from geolookup.state.marks import Begun


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """What the service listed, as it is published: the custom geolocations of a generation, before any edit.

    ``digest`` is that of the generation's content, and ``begun`` says when its list began.
    """

    generation: int
    digest: str
    begun: Begun
    custom: list[Geolocation]


class EditSession:
    """One transaction's outbox, and the custom layer as its edits leave it.

    ``read_listed`` reads what the edits are laid over, and ``left`` is the layer that they made of it, if that is
    known. An edit changes the layer in place, and after a person's decision it is computed anew. ``changed`` is true
    once there is anything to publish.
    """

    def __init__(
        self, outbox: Outbox, names: SiteNames, read_listed: Callable[[], Listed], *, left: dict[int, Laid] | None
    ) -> None:
        self.outbox = outbox
        self.names = names
        self.changed = False
        self._read_listed = read_listed
        self._listed: Listed | None = None
        self._left = left
        self._layer: dict[int, Laid] | None = None
        self._aliases = outbox.aliases()
        self._owners: dict[IPBlock, int] | None = None

    @property
    def layer(self) -> dict[int, Laid]:
        """The custom geolocations as the edits leave them, by the locid that lookups show."""
        if self._layer is None:
            self._layer = self._lay() if self._left is None else dict(self._left)
        return self._layer

    def _lay(self) -> dict[int, Laid]:
        begun = self.listed.begun
        return lay_over(self.listed.custom, self.outbox.rows_to_lay(begun), self._aliases, begun=begun)

    @property
    def listed(self) -> Listed:
        """What the edits are laid over."""
        if self._listed is None:
            self._listed = self._read_listed()
        return self._listed

    def gone(self) -> list[int]:
        """The custom geolocations that are here only for their pending edits: the service no longer lists them."""
        listed = {place.locid for place in self.listed.custom}
        rows = self.outbox.rows_to_lay(self.listed.begun)
        created = {self.shown(row.locid) for row in rows if isinstance(row.edit, Create)}
        return [locid for locid in sorted(self.layer, reverse=True) if locid not in listed | created]

    def create(self, edit: Create) -> int:
        """Add a create, for a new provisional locid."""
        locid = self.outbox.next_provisional()
        self.outbox.remember(locid, None)  # the outbox row refers to it
        listed = self.listed
        made = self.outbox.baselines.keep_published(
            listed.digest, lambda: {place.locid: digest(place) for place in listed.custom}
        )
        self.add(edit, locid, locid, made=made)
        return locid

    def find(self, locid: int) -> tuple[int, int, Laid]:
        """(the locid that lookups show, the one that this machine uses, the geolocation)."""
        if locid > 0:
            raise DefaultGeolocationError(
                f"geolocation {locid} is a default one, and those cannot be changed: "
                "create a custom one, whose blocks take precedence"
            )
        shown = self._aliases.get(locid, locid)
        laid = self.layer.get(shown)
        if laid is None:
            raise UnknownGeolocationError(f"custom geolocation {locid} does not exist: see `geolookup custom list`")
        return shown, self._local(shown), laid

    def shown(self, local: int) -> int:
        return self._aliases.get(local, local)

    def _local(self, shown: int) -> int:
        return next((local for local, service in self._aliases.items() if service == shown), shown)

    def numbers_of(self, locid: int) -> set[int]:
        """All numbers that a geolocation ever had."""
        shown = self._aliases.get(locid, locid)
        return {locid, shown, self._local(shown)}

    def waiting(self, number: int) -> OutboxRow:
        row = self.outbox.row(number)
        if row.state not in (State.HELD, State.REJECTED):
            raise EditError(f"edit {number} is {row.state}: it does not wait for a person")
        return row

    def require_free(self, block: IPBlock, place: Geolocation) -> None:
        if block in place.ipblocks:
            raise BlockError(f"geolocation {place.locid} has {block} already")
        if self._owners is None:
            self._owners = {each: shown for shown, laid in self.layer.items() for each in laid.place.ipblocks}
        owner = self._owners.get(block)
        if owner is not None:
            raise BlockError(
                f"{block} belongs to custom geolocation {owner}: remove it there first "
                "(one that is wider or narrower may be added as it is)"
            )

    def _own(self, before: Geolocation | None, after: Geolocation | None, shown: int) -> None:
        """Keep the owners right as an edit changes a geolocation's blocks."""
        if self._owners is None:
            return
        for block in () if before is None else before.ipblocks:
            if self._owners.get(block) == shown:
                del self._owners[block]
        for block in () if after is None else after.ipblocks:
            self._owners.setdefault(block, shown)

    @staticmethod
    def require_block(block: IPBlock, place: Geolocation) -> None:
        if block not in place.ipblocks:
            near = [str(other) for other in place.ipblocks if other.first <= block.last and block.first <= other.last]
            hint = f": it has {', '.join(near[:5])}" if near else ""
            raise BlockError(f"geolocation {place.locid} has no block {block}{hint}")

    def add(self, edit: Edit, local: int, shown: int, *, made: int | None = None) -> None:
        """Add the edit to the outbox, the layer and the history; ``made`` is as in `Outbox.add`."""
        before = self.layer.get(shown)
        place = None if before is None else before.place
        if not isinstance(edit, Create):
            self.outbox.remember(local, place)  # so that the row has what it refers to
            if local == shown and not is_provisional(local):
                self.outbox.assign(local, shown)
        base = described(place)
        row = self.outbox.add(edit, local, base=base, made=made)
        after = edit.laid_over(place, shown, row.base)
        self.outbox.remember(local, after)
        self.layer.pop(shown, None)
        self._own(place, after, shown)
        if after is not None:
            self.layer[shown] = Laid(place=after, edits=(*(before.edits if before else ()), row))
        self.record(str(edit.operation), shown, base, described(after), str(State.QUEUED))

    def forget(self, local: int, shown: int) -> None:
        """Leave out a geolocation that the service never heard of."""
        gone = self.layer.pop(shown, None)
        self._own(None if gone is None else gone.place, None, shown)
        self.outbox.remember(local, None)

    def record(
        self, what: str, locid: int, before: dict[str, Any] | None, after: dict[str, Any] | None, outcome: str
    ) -> None:
        """Add a line to the history; ``before`` and ``after`` are geolocations as `described`."""
        self.changed = True
        self.outbox.record(what, outcome, locid=locid, before=before, after=after)

    def note_decision(self, what: str, row: OutboxRow, state: State) -> None:
        """A person's decision changes what is laid over, and may change a locid: nothing known before it holds."""
        self.changed = True
        self._left = self._layer = self._owners = None
        self._aliases = self.outbox.aliases()
        self.outbox.record(what, str(state), locid=row.locid, before={"edit": row.id, "state": str(row.state)})


def is_provisional(locid: int) -> bool:
    """Whether a locid was given on a machine rather than by the service."""
    return locid <= PROVISIONAL_LOCID
