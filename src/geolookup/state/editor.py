"""Editing custom geolocations: durable at once, seen by lookups at once, on its way to the service by the outbox."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from geolookup.base.text import fields_text
from geolookup.model.checked import meant_fields, refuse_unknown, wrong_name, wrong_time_zone
from geolookup.model.errors import (
    BlockError,
    EditError,
    UnknownGeolocationError,
)
from geolookup.model.fields import UNKNOWN
from geolookup.model.named import block_of, require_narrow
from geolookup.model.types import FIELD_NAMES, Geolocation, IPBlock, NewGeolocation
from geolookup.state.base.parts import has_service
from geolookup.state.edits import decisions, naming
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.outbox.payload import values_of
from geolookup.state.edits.outbox.row import PENDING_STATES, OutboxRow, State
from geolookup.state.edits.places.place import Content, Intent
from geolookup.state.edits.places.reconcile import Hold
from geolookup.state.edits.session import EditSession
from geolookup.state.edits.steps import Named
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.sessions import Sessions

if TYPE_CHECKING:
    from geolookup.model.types import AddressLike, BlockLike


_FAMILIES: tuple[Literal[4], Literal[6]] = (4, 6)


class Editor:
    """Edits the custom geolocations of one state directory.

    From its return on, an edit is durable and pending: lookups in this process see it at once, in other processes on
    this machine within a second, and the next push sends it. Edits need no network, and are possible while a sync
    runs. A locid may be the service's or a provisional one, which works for ever. Threads may share an editor: each
    has its own transactions, and one waits for the other. So may asyncio tasks, which cannot wait for each other in one
    thread: see `transaction`.

    :raises NoStateError: at the first edit, if nothing has been published in ``home``
    """

    def __init__(self, home: str | os.PathLike[str]) -> None:
        self._directory = StateDirectory(os.path.abspath(home))
        self._sessions = Sessions(self._directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    @property
    def sessions(self) -> Sessions:
        """The sessions in which the edits are made."""
        return self._sessions

    def __repr__(self) -> str:
        return f"<Editor of {self._directory.home!r}>"

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """Make all edits of a ``with`` at once, or none of them if it raises.

        It belongs to the thread and the asyncio task that begin it. If the task awaits within it, an edit by another
        task of the same thread is an error, and a question is answered without what is not committed yet.

        :raises EditError: if another task of this thread is in a transaction
        :raises StateBusyError: if another process has been publishing for ten seconds
        :raises EditsDamagedError: if edits.db is damaged, gone, or lacks what was published or pushed from it
        """
        with self._sessions.transaction():
            yield self

    @contextlib.contextmanager
    def rehearsal(self) -> Iterator[Self]:
        """Show what the edits of a ``with`` would do, and forget them at its end; all questions are of one moment.

        It takes no lock and makes no file, so a read-only state directory is enough.

        :raises EditError: inside a transaction, whose edits must be kept
        """
        with self._sessions.rehearsal():
            yield self

    # Edits

    def create(
        self,
        *,
        name: str | None = None,
        time_zone: str = "",
        blocks: "Iterable[BlockLike]" = (),
        wide: bool = False,
        **fields: Unpack[NewGeolocation],
    ) -> int:
        """Create a custom geolocation, perhaps with a site's name, time zone and blocks, all at once or nothing.

        Text that is left out is empty; coordinates are degrees. If both are left out, they are those that the default
        data have of the city: of the place of this country, city and region with most addresses. If they have none,
        the geolocation has none, unless a service is in the stack, which takes none without. Each of the ``blocks`` is
        a network, an address or a range, as in `add_block`; so is ``wide``.

        :returns: its provisional locid, at or below -10**15
        :raises EditError: if a field is unknown or cannot be, the country is in words and not a code, neither a country
            nor coordinates are given, coordinates are missing, another site has the name, or the time zone is not one
            of the IANA database, or is given without a name
        :raises InvalidRangeError: if a block is not one
        :raises WideBlockError: if the blocks are that wide, and ``wide`` is not given
        :raises BlockError: if another custom geolocation has an identical block
        """
        given = {**UNKNOWN, **fields}
        found = [block_of(block) for block in blocks]
        if found:
            require_narrow(*found, wide=wide)
        with self._sessions.transaction() as session:
            if bare := given["latitude"] is None and given["longitude"] is None:
                bare = not has_service(session.published)
                given |= self._coordinates(session, given, final=bare)
            locid = session.create(meant_fields(given, bare=bare))
            if name is not None:
                naming.name_by_hand(session, name, locid)
            if time_zone:
                naming.put_time_zone(session, locid, time_zone)
            session.give(locid, found)
        return locid

    @staticmethod
    def _coordinates(session: EditSession, fields: Mapping[str, Any], *, final: bool) -> dict[str, float | None]:
        city = session.city(fields)
        if city is not None:
            return city.coordinates
        if final and fields["country"]:
            return {}
        asked = fields_text(fields)
        why = "the service takes no custom geolocation without them" if not final else "a place needs them or a country"
        raise EditError(
            f"latitude and longitude are missing: {why}"
            + (f", and the default data have no coordinates of {asked}" if asked else "")
        )

    def update(self, locid: int, *, time_zone: str | None = None, **fields: Any) -> None:
        """Change some or all of the fields; the others stay. The ``time_zone`` is a site's: no service hears of it.

        :raises EditError: if a field is unknown or cannot be, a new country is in words, or nothing would change; or if
            the time zone is not one of the IANA database, or the geolocation has no name
        :raises UnknownGeolocationError: if the custom geolocation does not exist
        :raises DefaultGeolocationError: if it is a default one
        """
        refuse_unknown(fields)
        with self._sessions.transaction() as session:
            shown, local, laid = session.find(locid)
            before = laid.place.fields()
            after = meant_fields({**before, **fields}, before, bare=not has_service(session.published))
            moved = time_zone is not None and naming.put_time_zone(session, local, time_zone)
            if after != before:
                session.add(Intent(what="update", values=values_of(after)), local, shown)
            elif not moved:
                raise EditError(f"geolocation {locid} has these values already: nothing was changed")

    def rename(self, locid: int, name: str) -> str | None:
        """Give a custom geolocation the name of a site, in place of the one that it has; no service hears of it.

        :returns: the name that it had, None if it had none
        :raises EditError: if the name cannot be one, or this or another site has it
        :raises UnknownGeolocationError: if the custom geolocation does not exist
        :raises DefaultGeolocationError: if it is a default one
        """
        with self._sessions.transaction() as session:
            return naming.name_by_hand(session, name, session.find(locid)[1])

    def delete(self, locid: int) -> None:
        """Delete a custom geolocation with its blocks.

        One that the service never heard of is forgotten.

        :raises UnknownGeolocationError: if the custom geolocation does not exist
        :raises DefaultGeolocationError: if it is a default one
        """
        with self._sessions.transaction() as session:
            shown, local, laid = session.find(locid)
            if not session.forget(shown, laid):
                session.add(Intent(what="delete"), local, shown)

    def add_block(
        self, locid: int, first: "BlockLike", last: "AddressLike | None" = None, *, wide: bool = False
    ) -> IPBlock:
        """Give a custom geolocation the range ``first`` to ``last``, or the network, address or range ``first``.

        Each is text, or an object of ``ipaddress`` or ``netaddr``; a range is also an `IPBlock`, or ``first-last``.
        ``wide`` allows more than a /8 of public IPv4 addresses, or a /24 of IPv6, or private and public ones at once.

        :raises InvalidRangeError: if that is not a range
        :raises WideBlockError: if it is that wide, and ``wide`` is not given
        :raises BlockError: if this or another custom geolocation has the identical block
        :raises UnknownGeolocationError: if the custom geolocation does not exist
        """
        block = block_of(first, last)
        require_narrow(block, wide=wide)
        with self._sessions.transaction() as session:
            session.give(locid, [block])
        return block

    def replace_block(
        self,
        locid: int,
        first: "BlockLike",
        last: "AddressLike | None",
        new_first: "BlockLike",
        new_last: "AddressLike | None" = None,
        *,
        wide: bool = False,
    ) -> tuple[IPBlock, IPBlock]:
        """Put another range in the place of one that the geolocation has; ``wide`` is as in `add_block`.

        :returns: the old block and the new
        :raises WideBlockError: if the new one is that wide, and ``wide`` is not given
        :raises BlockError: if it lacks the old one, or another geolocation has the new one
        """
        block, new_block = block_of(first, last), block_of(new_first, new_last)
        require_narrow(new_block, wide=wide)
        with self._sessions.transaction() as session:
            shown, local, laid = session.find(locid)
            session.require_block(block, laid.place)
            session.require_free(laid.place, new_block)
            session.add(Intent(what="replace_block", old=block, new=new_block), local, shown)
        return block, new_block

    def remove_block(self, locid: int, first: "BlockLike", last: "AddressLike | None" = None) -> IPBlock:
        """Take one block away; the service has no such operation, so the push does it in journaled steps.

        :raises BlockError: if the geolocation has no such block
        """
        block = block_of(first, last)
        with self._sessions.transaction() as session:
            shown, local, laid = session.find(locid)
            session.require_block(block, laid.place)
            session.add(Intent(what="remove_block", old=block), local, shown)
        return block

    def clear_blocks(self, locid: int) -> int:
        """Take all blocks away.

        :returns: how many there were; with none there is nothing to do
        """
        with self._sessions.transaction() as session:
            shown, local, laid = session.find(locid)
            count = len(laid.place.ipblocks)
            if count:
                session.add(Intent(what="clear_blocks"), local, shown)
        return count

    # Questions

    def custom(self) -> list[Laid]:
        """Every custom geolocation with its blocks and pending edits, as lookups see it; by locid, newest last."""
        final = not self.has_service()
        found = self._sessions.ask(lambda session: [laid for _, laid in sorted(session.layer.items(), reverse=True)])
        return [replace(laid, edits=()) for laid in found] if final else found

    def served(self) -> list[Geolocation]:
        """The custom geolocations by the compiled layer alone, which stays if edits.db is damaged.

        Their blocks are the ranges that lookups answer from them: a wider block that a narrower one cuts is in pieces.
        """
        published = self._directory.open()
        overlay = published.overlay
        blocks: dict[int, list[IPBlock]] = {slot: [] for slot in range(overlay.location_count)}
        for family in _FAMILIES:
            for first, last, slot in overlay.segments(family):
                blocks[slot].append(IPBlock(family=family, first=first, last=last))
        places = []
        for slot, found in blocks.items():
            locid, *fields = overlay.location(slot)
            described = dict(zip(FIELD_NAMES, fields, strict=True))
            places.append(Geolocation(locid=locid, ipblocks=tuple(found), **described))
        published.close()
        return places

    def has_service(self) -> bool:
        """True if a service is in the stack: without one every edit is final, and nothing waits to be pushed."""
        return has_service(self._sessions.published)

    def get(self, locid: int) -> Laid:
        """One custom geolocation, by the service's locid or a provisional one.

        :raises UnknownGeolocationError: if the custom geolocation does not exist
        :raises DefaultGeolocationError: if it is a default one
        """
        found = self._sessions.ask(lambda session: session.find(locid)[2])
        return found if not found.edits or self.has_service() else replace(found, edits=())

    def gone(self) -> list[int]:
        """The custom geolocations that are here only for their pending edits: the service no longer lists them."""
        return self._sessions.ask(EditSession.gone)

    def stored(self) -> dict[int, tuple[dict[str, Any], dict[str, Any]]]:
        """The fields of a geolocation as sent last and as the service stored them, if these differ; by its locid."""

        def ask(session: EditSession) -> dict[int, tuple[dict[str, Any], dict[str, Any]]]:
            found = session.outbox.stored_differently()
            return {session.shown(row.locid): (row.payload["fields"], row.stored or {}) for row in found}

        return self._sessions.ask(ask)

    def sites(self) -> dict[str, int]:
        """The names of sites, by the file applied last or by `create`, each with its locid as lookups see it.

        One that was deleted since is still among them.
        """
        return self._sessions.ask(
            lambda session: {name: session.shown(locid) for name, locid in session.names.locids().items()}
        )

    def site_names(self) -> dict[int, str]:
        """The name of each geolocation that has one, by every number that it ever had; else that of the service."""

        def ask(session: EditSession) -> dict[int, str]:
            named = session.names.locids().items()
            own = {number: name for name, local in named for number in (local, session.shown(local))}
            return {**session.listed.sites, **own}

        return self._sessions.ask(ask)

    def time_zones(self) -> dict[str, str]:
        """The time zone of each site that has one, by its name."""
        names = self._sessions.ask(lambda session: session.names.all())
        return {name: named.time_zone for name, named in names.items() if named.time_zone}

    def vrfs(self) -> list[str]:
        """The names of the routing domains (VRFs) that have places of their own, or had some."""
        return self._sessions.ask(lambda session: sorted(session.vrfs.revisions()))

    def vrf_places(self, vrf: str) -> dict[str, Geolocation]:
        """The places of a VRF, by their names; an unknown VRF has none."""
        return self._sessions.ask(lambda session: session.vrfs.places(vrf))

    def vrf_time_zones(self, vrf: str) -> dict[str, str]:
        """The time zone of each place of a VRF that has one, by its name."""
        return self._sessions.ask(lambda session: session.vrfs.time_zones(vrf))

    def put_vrf_place(
        self,
        vrf: str,
        name: str,
        *,
        time_zone: str = "",
        blocks: "Iterable[BlockLike]" = (),
        **fields: Unpack[NewGeolocation],
    ) -> int:
        """Have a place of a VRF be so: a new one, or, if the VRF has one of that name, that.

        Such places are this state's own: no service hears of them. In the VRF they answer before all others.

        :returns: its locid
        :raises EditError: if a field is unknown or cannot be, or the name of the place or of the VRF cannot be one, or
            the time zone is not one of the IANA database
        :raises InvalidRangeError: if a block is not one
        :raises BlockError: if another place of the VRF has an identical block
        """
        for wrong in (wrong_name(vrf), wrong_name(name), wrong_time_zone(time_zone)):
            if wrong is not None:
                raise EditError(wrong)
        refuse_unknown(fields)
        found = [block_of(block) for block in blocks]
        with self._sessions.transaction() as session:
            before = session.vrfs.places(vrf, name).get(name)
            values = meant_fields({**UNKNOWN, **fields}, None if before is None else before.fields(), bare=True)
            for block in found:
                if (owner := session.vrfs.owner(vrf, block, but=name)) is not None:
                    raise BlockError(f"{block} belongs to {owner} of the VRF {vrf}: remove it there first")
            content = Content(values_of(values), frozenset(found))
            return session.vrfs.put(vrf, name, content, time_zone=time_zone)

    def remove_vrf_place(self, vrf: str, name: str) -> None:
        """Remove a place of a VRF.

        :raises UnknownGeolocationError: if the VRF has none of that name
        """
        with self._sessions.transaction() as session:
            if not session.vrfs.places(vrf, name):
                raise UnknownGeolocationError(f"the VRF {vrf} has no place named {name!r:.60}")
            session.vrfs.put(vrf, name, None)

    def keep_sites(self, names: Mapping[str, int], *, file: str, time_zones: Mapping[str, str] | None = None) -> None:
        """Keep these names of custom geolocations, given by ``file``, and of others only those given by hand.

        ``time_zones`` are those that the file says, by name; of other sites they stay.

        :raises UnknownGeolocationError: if the custom geolocation does not exist
        """
        with self._sessions.transaction() as session:
            locals_ = {name: session.find(locid)[1] for name, locid in names.items()}
            zones = {named.locid: named.time_zone for named in session.names.all().values()}
            said = time_zones or {}
            named = {name: Named(local, said.get(name, zones.get(local, ""))) for name, local in locals_.items()}
            naming.keep_sites(session, named, file=file)

    def pending(self) -> list[OutboxRow]:
        """The edits that have not reached the service, oldest first; none if no service is in the stack.

        If one comes later, it gets what was edited until then.
        """
        found = self.outbox(*PENDING_STATES)
        return found if found and self.has_service() else []

    def history(self, locid: int | None = None, *, newest: int | None = None) -> list[dict[str, Any]]:
        """The history of this machine, oldest first: all of it, or of one geolocation; its ``newest`` lines."""
        numbers = self._sessions.ask(lambda session: None if locid is None else session.numbers_of(locid))
        return self._directory.edits.history(numbers, newest=newest)

    # The outbox, by a person

    def outbox(self, *states: State) -> list[OutboxRow]:
        """The edits in these states (all, if none is named), oldest first."""
        return self._sessions.ask(lambda session: session.rows(*states))

    def edit(self, number: int) -> OutboxRow:
        """One edit of the outbox.

        :raises EditError: if there is none of that number
        """
        return self._sessions.ask(lambda session: session.told(session.outbox.row(number)))

    def hold(self, number: int) -> Hold | None:
        """Why the geolocation of an edit is held, and what the service has in its place; None if it is not.

        :raises EditError: if there is no edit of that number
        """
        return self._sessions.ask(lambda session: session.ledger.of(session.outbox.row(number).locid).hold)

    def retry(self, number: int) -> OutboxRow:
        """Queue a held or rejected edit again: it overrides what the service had, if that is why it was held.

        A removal that was held for blocks of other clients goes on, and lets those be.

        :raises EditError: if it does not wait for a person
        """
        return self._sessions.edit(decisions.retry, number)

    def amend(
        self,
        number: int,
        *,
        fields: Mapping[str, Any] | None = None,
        block: "tuple[BlockLike, AddressLike | None] | None" = None,
        wide: bool = False,
    ) -> OutboxRow:
        """Change what a held, rejected or not yet sent edit says, and queue it again as a new request.

        ``fields`` for a create or update; ``block`` for a block's edit: the block added, or the new one of a replace.
        ``wide`` is as in `add_block`.

        :raises WideBlockError: if the block is that wide, and ``wide`` is not given
        :raises EditError: if it may be under way, or the change does not fit the operation
        """
        return self._sessions.edit(decisions.amend, number, fields=fields, block=block, wide=wide)

    def drop(self, number: int) -> list[OutboxRow]:
        """Give up an edit that waits for a person, or was not sent yet.

        Dropping a create gives up every later edit of that geolocation too. A removal that is half done is not dropped
        but turned round: the next push puts back what it took away.

        :returns: all edits that were given up
        :raises EditError: if it may be under way
        """
        return self._sessions.edit(decisions.drop, number)

    def adopt(self, number: int, locid: int) -> OutboxRow:
        """Say which of the service's geolocations that of a held edit is.

        A create, or an edit that the service does not show, counts as done. Other edits that wait are sent there.

        :raises EditError: if nobody asks for that, or ``locid`` cannot be it
        """
        return self._sessions.edit(decisions.adopt, number, locid)

    def keep_twin(self, locid: int) -> None:
        """Say that a geolocation which a pull reported as made twice is wanted: it is not reported any more.

        :raises EditError: if it was not reported
        """
        self._sessions.edit(decisions.keep_twin, locid)
