"""Editing custom geolocations: durable at once, seen by lookups at once, on its way to the service by the outbox."""

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, NamedTuple, ParamSpec, Self, TypeVar, Unpack

from geolookup.base.text import fields_text
from geolookup.model.checked import meant_fields, refuse_unknown, wrong_name, wrong_time_zone
from geolookup.model.errors import (
    BlockError,
    EditError,
    StateBusyError,
    StateDamagedError,
    StateError,
    UnknownGeolocationError,
)
from geolookup.model.fields import UNKNOWN
from geolookup.model.named import block_of, require_narrow
from geolookup.model.types import FIELD_NAMES, Geolocation, IPBlock, NewGeolocation
from geolookup.state.base.current import Current
from geolookup.state.base.parts import has_service
from geolookup.state.base.signals import Terminated, terminate
from geolookup.state.base.sqlite import RUN_WAIT_S
from geolookup.state.edits import decisions
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.payload import content_of, values_of
from geolookup.state.edits.outbox.row import PENDING_STATES, OutboxRow, State
from geolookup.state.edits.places.place import Content, Intent
from geolookup.state.edits.places.reconcile import Hold
from geolookup.state.edits.session import EditSession, Left, Lists
from geolookup.state.edits.steps import Named
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.locks import PUBLISH_WAIT_S
from geolookup.state.publishing.publish import Publish, publishing

if TYPE_CHECKING:
    from sqlite_utils import Database

    from geolookup.model.types import AddressLike, BlockLike


_log = logging.getLogger("geolookup")

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: The usual handlers of the signals that interrupt, and what each raises; any other handler is left alone.
_INTERRUPTS: dict[int, tuple[Any, type[KeyboardInterrupt]]] = {
    signal.SIGINT: (signal.default_int_handler, KeyboardInterrupt),
    signal.SIGTERM: (terminate, Terminated),
}

_FAMILIES: tuple[Literal[4], Literal[6]] = (4, 6)
#: A publish may remove what a question reads, again and again, but not this often.
_READ_ATTEMPTS = 10


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
    def sessions(self) -> "Sessions":
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
        :raises EditsDamagedError: if edits.db is damaged, gone, or older than what was published or pushed from it
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
                session.name_by_hand(name, locid)
            if time_zone:
                session.put_time_zone(locid, time_zone)
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
            moved = time_zone is not None and session.put_time_zone(local, time_zone)
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
            return session.name_by_hand(name, session.find(locid)[1])

    def delete(self, locid: int) -> None:
        """Delete a custom geolocation with its blocks.

        One that the service never heard of is forgotten.

        :raises UnknownGeolocationError: if the custom geolocation does not exist
        :raises DefaultGeolocationError: if it is a default one
        """
        with self._sessions.transaction() as session:
            shown, local, laid = session.find(locid)
            mine = [row for row in laid.edits if row.locid == local]
            never_sent = all(row.never_sent for row in mine)
            if mine and mine[0].intent.what == "create" and never_sent:
                for row in mine:
                    session.outbox.change(row.id, state=State.DROPPED, problem="deleted before it was sent")
                session.forget(shown)
                session.record("delete", local, shown, content_of(laid.place), None, "forgotten: it was never sent")
                return
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
            before = session.vrfs.place(vrf, name)
            values = meant_fields({**UNKNOWN, **fields}, None if before is None else before.fields(), bare=True)
            for block in found:
                if (owner := session.vrfs.owner(vrf, block, but=name)) is not None:
                    raise BlockError(f"{block} belongs to {owner} of the VRF {vrf}: remove it there first")
            content = Content(values_of(values), frozenset(found))
            return session.vrfs.put(vrf, name, content, before, time_zone=time_zone)

    def remove_vrf_place(self, vrf: str, name: str) -> None:
        """Remove a place of a VRF.

        :raises UnknownGeolocationError: if the VRF has none of that name
        """
        with self._sessions.transaction() as session:
            before = session.vrfs.place(vrf, name)
            if before is None:
                raise UnknownGeolocationError(f"the VRF {vrf} has no place named {name!r:.60}")
            session.vrfs.remove(vrf, name, before)

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
            session.keep_sites(named, file=file)

    def pending(self) -> list[OutboxRow]:
        """The edits that have not reached the service, oldest first; none if no service is in the stack.

        If one comes later, it gets what was edited until then.
        """
        found = self._sessions.ask(lambda session: session.outbox.rows(*PENDING_STATES))
        return found if found and self.has_service() else []

    def history(self, locid: int | None = None, *, newest: int | None = None) -> list[dict[str, Any]]:
        """The history of this machine, oldest first: all of it, or of one geolocation; its ``newest`` lines."""
        numbers = self._sessions.ask(lambda session: None if locid is None else session.numbers_of(locid))
        return self._directory.edits.history(numbers, newest=newest)

    # The outbox, by a person

    def outbox(self, *states: State) -> list[OutboxRow]:
        """The edits in these states (all, if none is named), oldest first."""
        return self._sessions.ask(lambda session: session.outbox.rows(*states))

    def edit(self, number: int) -> OutboxRow:
        """One edit of the outbox.

        :raises EditError: if there is none of that number
        """
        return self._sessions.ask(lambda session: session.outbox.row(number))

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
        """Say which of the service's geolocations a held create became.

        :raises EditError: if the edit is not a held create, or ``locid`` cannot be what it became
        """
        return self._sessions.edit(decisions.adopt, number, locid)

    def keep_twin(self, locid: int) -> None:
        """Say that a geolocation which a pull reported as made twice is wanted: it is not reported any more.

        :raises EditError: if it was not reported
        """
        self._sessions.edit(decisions.keep_twin, locid)


class _Here(NamedTuple):
    """Process, thread and task of a session; ``task`` is the asyncio task, None outside of all."""

    process: int
    thread: int
    task: object


def require_own(current: Current) -> None:
    """See that this machine edits itself.

    :raises EditError: if it is a reader of a fleet: another machine can
    """
    builder = current.published.get("builder")  # which the record of a reader's generation has
    if builder is not None:
        raise EditError(
            f"this machine is a reader of a fleet: edit on {builder}, which publishes to it. Nothing was changed"
        )


class Sessions:
    """The sessions of one editor: one at a time in each thread and asyncio task.

    Another thread that wants to edit waits for the publish lock. Another task of the same thread is refused: if it
    waited, nothing in that thread could go on.

    What is published, and the layer as the last session left or found it, are kept from one session to the next.
    """

    def __init__(self, directory: StateDirectory) -> None:
        self._directory = directory
        #: The session under way of each thread and task, and whether its edits are kept. A forked child is not in its
        #: parent's, which it could not commit.
        self._under_way: dict[_Here, tuple[EditSession, bool]] = {}
        self._lists = Lists(directory.home)
        self._left: Left | None = None

    @property
    def _session(self) -> EditSession | None:
        here = _here()
        found = self._under_way.get(here)
        if found is None and here.task is not None:
            found = self._under_way.get(here._replace(task=None))  # around the whole event loop
        return None if found is None else found[0]

    @property
    def published(self) -> dict[str, Any]:
        """The record of what is published: of the session under way what its edits are laid over."""
        session = self._session
        return self._directory.require_current().published if session is None else session.published

    def _require_no_other_task(self) -> None:
        """See that no other task of this thread is in a transaction: it holds the lock, and cannot go on meanwhile.

        :raises EditError: if one is
        """
        here = _here()
        if any(is_kept and other[:2] == here[:2] for other, (_, is_kept) in self._under_way.items()):
            raise EditError(
                "another task is in a transaction of this editor, in the same thread: make no `await` within a "
                "transaction, or edit in a thread of its own (`asyncio.to_thread`)"
            )

    @contextlib.contextmanager
    def _entered(self, session: EditSession, *, is_kept: bool) -> Iterator[EditSession]:
        here = _here()
        self._under_way[here] = session, is_kept
        try:
            yield session
        finally:
            del self._under_way[here]

    @contextlib.contextmanager
    def transaction(self, *, wait: bool = True) -> Iterator[EditSession]:
        """A session whose edits are durable and published at its end, or all forgotten if it raises.

        Without ``wait`` it is refused if another process or thread edits or publishes now.

        :raises EditError: if another task of this thread is in a transaction
        :raises NoStateError: if nothing has been published
        :raises StateBusyError: if another process has been publishing for ten seconds
        :raises EditsDamagedError: if edits.db is damaged, gone, or older than what was published or pushed from it
        """
        if (outer := self._session) is not None:
            yield outer  # a transaction inside another is part of it
            return
        self._require_no_other_task()
        directory = self._directory
        with publishing(
            directory.home, directory.locks, directory.local, wait_s=PUBLISH_WAIT_S if wait else 0.0
        ) as publish:
            current = publish.required()
            require_own(current)
            with contextlib.ExitStack() as whole:
                with directory.edits.transaction(
                    wait_s=RUN_WAIT_S if wait else 0.0, may_be_new=not (current.edits or current.pushed)
                ) as database:
                    with self._entered(self._begin(database, current), is_kept=True) as session:
                        yield session
                    head, (layer, names) = session.outbox.head, session.left()
                    vrfs = session.vrfs.changed or not session.changed or current.recovered is not None
                    whole.enter_context(_uninterrupted())  # what is committed is published, too
                if (
                    is_new := session.changed or session.vrfs.changed or head != current.edits
                ):  # the latter if an earlier publish failed
                    self._publish(publish, head, layer, names, vrfs=vrfs)
            if is_new and wait:  # a question that catches up waits for nothing
                self._back_up()

    def _back_up(self) -> None:
        try:
            self._directory.edits.back_up_edited()
        except StateError as error:
            _log.warning("the edit is made, and edits.db could not be backed up: %s", error)

    def back_up(self) -> None:
        """Back up edits.db before a change of much, unless the newest backup has every edit; not within a session.

        :raises StateError: if that is impossible
        """
        if self._session is None and self._directory.edits.exists():
            with self._directory.locks.publish():
                self._directory.edits.back_up_if_newer()

    def edit(self, change: Callable[Concatenate[EditSession, _P], _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """One change in a `transaction`."""
        with self.transaction() as session:
            return change(session, *args, **kwargs)

    def catch_up(self) -> None:
        """Publish edits that are durable and not published: their process was killed in between, or could not.

        If that is impossible for this user or now, it is left to the next edit: the holder of a lock may be about to do
        it, and questions never wait.
        """
        with contextlib.suppress(StateError):
            current = self._directory.current_or_none()
            if current is None or not self._directory.edits.exists():
                return
            with self._directory.edits.reading(wait_s=0.0) as database:
                head = Outbox(database).head
            if head != current.edits:
                with self.transaction(wait=False):
                    pass

    @contextlib.contextmanager
    def rehearsal(self) -> Iterator[EditSession]:
        """A session whose edits are forgotten at its end. It takes no lock and makes no file.

        :raises EditError: inside a transaction, whose edits must be kept
        """
        if self._session is not None:
            raise EditError("a rehearsal forgets its edits, so it cannot be part of a transaction")

        def begin(current: Current) -> tuple[EditSession, contextlib.ExitStack]:
            require_own(current)
            with contextlib.ExitStack() as opened:
                session = self._begin(opened.enter_context(self._directory.edits.rehearsing()), current)
                _ = session.layer  # now, while the generation is there for certain
                self._keep(session, current)
                return session, opened.pop_all()

        session, opened = self._steadily(begin)
        with opened, self._entered(session, is_kept=False):
            yield session

    def ask(self, question: Callable[[EditSession], _T]) -> _T:
        """Answer from the session under way, or else from what is there: no lock is taken, and no file made."""
        if (session := self._session) is not None:
            return question(session)

        def ask(current: Current) -> _T:
            with self._directory.edits.reading() as database:
                session = self._begin(database, current)
                answer = question(session)
                self._keep(session, current)
                return answer

        return self._steadily(ask)

    def _begin(self, database: "Database", current: Current) -> EditSession:
        session = EditSession(database, current, self._lists, self._left)
        if session.outbox.head < current.edits or session.outbox.counter < current.pushed:
            raise self._directory.edits.gone_back()
        return session

    def _keep(self, session: EditSession, current: Current) -> None:
        """Keep the layer that a session laid and has not edited: the next one need not lay the same edits again."""
        if (layer := session.laid) is not None:
            self._left = Left(current.sequence, session.outbox.head, dict(layer))

    def _steadily(self, look: Callable[[Current], _T]) -> _T:
        """The answer of ``look``, which is called again if a publish removes what it reads."""
        for _ in range(_READ_ATTEMPTS):
            # CURRENT first: edits that are newer than it are laid over it, older ones might be there twice.
            current = self._directory.require_current()
            try:
                self._directory.edits.require_present(edits=current.edits, counter=current.pushed)
                return look(current)
            except StateDamagedError:
                # A publish may have removed the generation that was served a moment ago.
                if self._directory.require_current().sequence == current.sequence:
                    raise
        raise StateBusyError(f"{self._directory.home}: generations come and go faster than they can be read")

    def _publish(
        self, publish: Publish, head: int, layer: dict[int, Laid], names: dict[int, Mapping[str, str]], *, vrfs: bool
    ) -> None:
        """The edits are durable by now: should this fail, the next publish makes them visible."""
        try:
            published = publish.edited(list(layer.values()), head, names, vrfs=vrfs)
        except StateError as error:
            publish.take_back()
            self._left = None
            _log.warning("the edit is kept, but lookups will not see it until this is repaired: %s", error)
            return
        self._left = Left(published.sequence, head, layer)


def _here() -> _Here:
    task = None
    # A program that never imported asyncio has no tasks, and need not pay for its import.
    if (asyncio := sys.modules.get("asyncio")) is not None:
        with contextlib.suppress(RuntimeError):  # no loop runs in this thread
            task = asyncio.current_task()
    return _Here(os.getpid(), threading.get_ident(), task)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """A body that neither Ctrl-C nor SIGTERM ends: what it raises is raised after it instead.

    The milliseconds between the commit of an edit and its publish are such a body: see `Sessions.transaction`.
    Only in the main thread, since it is raised in no other one, and only if the signal has its usual handler.
    """
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    usual = [number for number, (handler, _) in _INTERRUPTS.items() if signal.getsignal(number) is handler]
    try:
        for number in usual:
            signal.signal(number, note)
    except ValueError:  # another thread than the main one
        usual = []
    try:
        yield
    finally:
        for number in usual:
            signal.signal(number, _INTERRUPTS[number][0])
        if came:
            raise _INTERRUPTS[came[0]][1]
