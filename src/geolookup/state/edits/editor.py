"""Editing custom geolocations: durable at once, seen by lookups at once, on its way to the service by the outbox."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from geolookup.errors import EditError, StateBusyError, StateDamagedError, StateError
from geolookup.model import Geolocation, IPBlock, NewGeolocation
from geolookup.state.clock import now_text
from geolookup.state.current import Current
from geolookup.state.directory import StateDirectory
from geolookup.state.edits import decisions
from geolookup.state.edits.fields import checked_fields, refuse_unknown
from geolookup.state.edits.layer import Laid, lay_over
from geolookup.state.edits.outbox.operations import (
    AddBlock,
    ClearBlocks,
    Create,
    Delete,
    RemoveBlock,
    ReplaceBlock,
    Update,
)
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.row import PENDING_STATES, OutboxRow, State
from geolookup.state.edits.session import EditSession
from geolookup.state.edits.site_names import SiteNames
from geolookup.state.generations.digest import digest
from geolookup.state.generations.parts import has_service
from geolookup.state.marks import Begun
from geolookup.state.publish import Publish

if TYPE_CHECKING:
    from sqlite_utils import Database

_log = logging.getLogger("geolookup")

_T = TypeVar("_T")

#: A publish may remove what a question reads, again and again, but not this often.
_READ_ATTEMPTS = 10


class Editor:
    """Edits the custom geolocations of one state directory.

    From its return on, an edit is durable and pending: lookups in this process see it at once, in other processes on
    this machine within a second, and the next push sends it. Edits need no network, and are possible while a sync
    runs. A locid may be the service's or a provisional one, which works for ever. Use one editor in one thread.

    :raises NoStateError: at the first edit, if nothing has been published in ``home``
    """

    def __init__(self, home: str) -> None:
        self._directory = StateDirectory(home)
        self._session: EditSession | None = None
        self._cached: tuple[tuple[int, int], dict[int, Laid]] | None = None
        self._published: Current
        self._cached_base: tuple[int, Begun, list[Geolocation]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def __repr__(self) -> str:
        return f"<Editor of {self._directory.home!r}>"

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """Make all edits of a ``with`` at once, or none of them if it raises.

        :raises StateBusyError: if another process has been publishing for ten seconds
        :raises EditsDamagedError: if edits.db is damaged, gone, or older than what was published or pushed from it
        """
        if self._session is not None:
            yield self  # a transaction inside another is part of it
            return
        directory = self._directory
        with directory.publishing() as publish:
            current = self._published = publish.required()
            directory.edits.require_present(edits=current.edits, counter=current.pushed)
            try:
                with directory.edits.transaction() as database:
                    outbox = Outbox(database)
                    directory.edits.require_newest_in(outbox, edits=current.edits, counter=current.pushed)
                    names = SiteNames(database)
                    session = self._session = EditSession(outbox, names, lambda: self._layer(outbox, current))
                    yield self
                    head, layer, changed = outbox.head(), session.layer, session.changed
            finally:
                self._session = None
            if changed or head != current.edits:  # the latter if an earlier publish failed
                self._publish(publish, head, layer)

    @contextlib.contextmanager
    def rehearsal(self) -> Iterator[Self]:
        """Show what the edits of a ``with`` would do, and forget them at its end; all questions are of one moment.

        It takes no lock and makes no file, so a read-only state directory is enough.

        :raises EditError: inside a transaction, whose edits must be kept
        """
        if self._session is not None:
            raise EditError("a rehearsal forgets its edits, so it cannot be part of a transaction")

        def begin(current: Current) -> tuple[EditSession, contextlib.ExitStack]:
            with contextlib.ExitStack() as opened:
                session = self._session_of(opened.enter_context(self._directory.edits.rehearsing()), current)
                _ = session.layer  # now, while the generation is there for certain
                self._published = current
                return session, opened.pop_all()

        self._session, opened = self._steadily(begin)
        try:
            with opened:
                yield self
        finally:
            self._session = None

    def _ask(self, question: Callable[[EditSession], _T]) -> _T:
        """Answer from the transaction under way, or else from what is there: no lock is taken, and no file made."""
        if self._session is not None:
            return question(self._session)

        def ask(current: Current) -> _T:
            with self._directory.edits.reading() as database:
                return question(self._session_of(database, current))

        return self._steadily(ask)

    def _session_of(self, database: "Database", current: Current) -> EditSession:
        outbox = Outbox(database)
        self._directory.edits.require_newest_in(outbox, edits=current.edits, counter=current.pushed)
        return EditSession(outbox, SiteNames(database), partial(self._layer, outbox, current))

    def _steadily(self, look: Callable[[Current], _T]) -> _T:
        """What ``look`` finds, which is called again if a publish removes what it reads."""
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

    def _publish(self, publish: Publish, head: int, layer: dict[int, Laid]) -> None:
        """The edits are durable by now: should this fail, whoever publishes next makes them visible."""
        try:
            current = publish.required()
            draft = publish.draft(current.generation, list(layer.values()), head, current.published)
            published = publish.commit(draft, published_at=now_text())
            # Generations go with the runs that make them, by the retention that those were told.
            publish.clean(published, keep_generations=None)
        except StateError as error:
            publish.take_back()
            self._cached = None
            _log.warning("the edit is kept, but lookups will not see it until this is mended: %s", error)
            return
        self._cached = ((published.sequence, head), layer)

    def _layer(self, outbox: Outbox, current: Current) -> dict[int, Laid]:
        key = (current.sequence, outbox.head())
        if self._cached is not None and self._cached[0] == key:
            return dict(self._cached[1])
        begun = Begun.of(current.published)
        if self._cached_base is None or self._cached_base[:2] != (current.generation, begun):
            custom = self._directory.cache(current.generation).custom()
            self._cached_base = (current.generation, begun, custom)
        return lay_over(self._cached_base[2], outbox.rows_to_lay(begun), outbox.aliases(), begun=begun)

    # Edits

    def create(self, **fields: Unpack[NewGeolocation]) -> int:
        """Create a custom geolocation from all of its fields; text may be empty, coordinates are degrees.

        :returns: its provisional locid, at or below -10**15
        :raises EditError: if a field is missing, unknown or cannot be
        """
        checked = checked_fields(fields)
        with self.transaction():
            session = self._in_session()
            locid = session.outbox.next_provisional()
            session.outbox.remember(locid, None)  # the outbox row refers to it
            session.add(Create(fields=checked), locid, locid, made=self._made())
        return locid

    def _made(self) -> int:
        """The number of the kept baseline of a create that is made now: what is published now."""
        session = self._in_session()

        def custom() -> dict[int, str]:
            assert session.layer is not None, "it is laid over what is published, which is read for it"
            assert self._cached_base is not None
            return {place.locid: digest(place) for place in self._cached_base[2]}

        return session.outbox.baselines.keep_published(self._published.digest, custom)

    def update(self, locid: int, **fields: Any) -> None:
        """Change some or all of the fields; the others stay.

        :raises EditError: if a field is unknown or cannot be, or nothing would change
        :raises UnknownGeolocationError: if there is no such custom geolocation
        :raises DefaultGeolocationError: if it is a default one
        """
        refuse_unknown(fields)
        with self.transaction():
            session = self._in_session()
            shown, local, laid = session.find(locid)
            after = checked_fields({**laid.place.fields(), **fields})
            if after == laid.place.fields():
                raise EditError(f"geolocation {locid} is so already: nothing was changed")
            session.add(Update(fields=after), local, shown)

    def delete(self, locid: int) -> None:
        """Delete a custom geolocation with its blocks.

        One that the service never heard of is forgotten.

        :raises UnknownGeolocationError: if there is no such custom geolocation
        :raises DefaultGeolocationError: if it is a default one
        """
        with self.transaction():
            session = self._in_session()
            shown, local, laid = session.find(locid)
            mine = [row for row in laid.edits if row.locid == local]
            never_sent = all(row.state == State.QUEUED and row.attempts == 0 for row in mine)
            if mine and isinstance(mine[0].edit, Create) and never_sent:
                for row in mine:
                    session.outbox.change(row.id, state=State.DROPPED, problem="deleted before it was sent")
                session.forget(local, shown)
                session.record("delete", shown, laid.place, None, "forgotten: it was never sent")
                return
            session.add(Delete(), local, shown)

    def add_block(self, locid: int, first: str, last: str | None = None) -> IPBlock:
        """Give a custom geolocation the range ``first`` to ``last``, or the network or address ``first``.

        :raises InvalidRangeError: if it is none
        :raises BlockError: if this or another custom geolocation has the identical block
        :raises UnknownGeolocationError: if there is no such custom geolocation
        """
        block = IPBlock.parse(first, last)
        with self.transaction():
            session = self._in_session()
            shown, local, laid = session.find(locid)
            session.require_free(block, laid.place)
            session.add(AddBlock(block=block), local, shown)
        return block

    def replace_block(
        self, locid: int, first: str, last: str | None, new_first: str, new_last: str | None = None
    ) -> tuple[IPBlock, IPBlock]:
        """Put another range in the place of one that the geolocation has.

        :returns: the old block and the new
        :raises BlockError: if it lacks the old one, or the new one is somebody's
        """
        block, new_block = IPBlock.parse(first, last), IPBlock.parse(new_first, new_last)
        with self.transaction():
            session = self._in_session()
            shown, local, laid = session.find(locid)
            session.require_block(block, laid.place)
            session.require_free(new_block, laid.place)
            session.add(ReplaceBlock(block=block, new_block=new_block), local, shown)
        return block, new_block

    def remove_block(self, locid: int, first: str, last: str | None = None) -> IPBlock:
        """Take one block away; the service has no such operation, so the push does it in journaled steps.

        :raises BlockError: if the geolocation has no such block
        """
        block = IPBlock.parse(first, last)
        with self.transaction():
            session = self._in_session()
            shown, local, laid = session.find(locid)
            session.require_block(block, laid.place)
            session.add(RemoveBlock(block=block), local, shown)
        return block

    def clear_blocks(self, locid: int) -> int:
        """Take all blocks away.

        :returns: how many there were; with none there is nothing to do
        """
        with self.transaction():
            session = self._in_session()
            shown, local, laid = session.find(locid)
            count = len(laid.place.ipblocks)
            if count:
                session.add(ClearBlocks(), local, shown)
        return count

    # Questions

    def custom(self) -> list[Laid]:
        """Every custom geolocation with its blocks and pending edits, as lookups see it; by locid, newest last."""
        final = not self._has_service()
        found = self._ask(lambda session: [laid for _, laid in sorted(session.layer.items(), reverse=True)])
        return [replace(laid, edits=()) for laid in found] if final else found

    def _has_service(self) -> bool:
        """Whether a service is in the stack: without one every edit is final, and nothing waits to be pushed."""
        return has_service(self._directory.require_current().published)

    def get(self, locid: int) -> Laid:
        """One custom geolocation, by the service's locid or a provisional one.

        :raises UnknownGeolocationError: if there is no such custom geolocation
        :raises DefaultGeolocationError: if it is a default one
        """
        found = self._ask(lambda session: session.find(locid)[2])
        return found if not found.edits or self._has_service() else replace(found, edits=())

    def gone(self) -> list[int]:
        """The custom geolocations that are here only for their pending edits: the service no longer lists them."""
        return self._ask(self._gone)

    def _gone(self, session: EditSession) -> list[int]:
        layer = session.layer
        assert self._cached_base is not None
        _, begun, custom = self._cached_base
        listed = {place.locid for place in custom}
        rows = session.outbox.rows_to_lay(begun)
        created = {session.shown(row.locid) for row in rows if isinstance(row.edit, Create)}
        return [locid for locid in sorted(layer, reverse=True) if locid not in listed | created]

    def stored(self) -> dict[int, tuple[dict[str, Any], dict[str, Any]]]:
        """What was sent last for a geolocation, and what the service made of it, if that differs; by its locid."""

        def ask(session: EditSession) -> dict[int, tuple[dict[str, Any], dict[str, Any]]]:
            found = session.outbox.stored_differently()
            return {session.shown(row.locid): (row.payload["fields"], row.stored or {}) for row in found}

        return self._ask(ask)

    def sites(self) -> dict[str, int]:
        """The names that the file of sites applied last gave, each with its geolocation's locid as lookups see it.

        One that was deleted since is still among them.
        """
        return self._ask(lambda session: {name: session.shown(locid) for name, locid in session.names.locids().items()})

    def keep_sites(self, names: Mapping[str, int], *, file: str) -> None:
        """Keep these names of custom geolocations, given by ``file``, and no others; see `sites`.

        :raises UnknownGeolocationError: if there is no such custom geolocation
        """
        with self.transaction():
            session = self._in_session()
            session.names.replace({name: session.find(locid)[1] for name, locid in names.items()}, file=file)

    def pending(self) -> list[OutboxRow]:
        """The edits that have not reached the service, oldest first; none if no service is in the stack.

        If one comes later, it gets what was edited until then.
        """
        found = self._ask(lambda session: session.outbox.rows(*PENDING_STATES))
        return found if found and self._has_service() else []

    def history(self, locid: int | None = None) -> list[dict[str, Any]]:
        """What was done on this machine, oldest first: all of it, or what bears on one geolocation."""
        numbers = self._ask(lambda session: None if locid is None else session.numbers_of(locid))
        return [line for line in self._directory.edits.history() if numbers is None or line["locid"] in numbers]

    # The outbox, by a person

    def outbox(self, *states: State) -> list[OutboxRow]:
        """The edits in these states (all, if none is named), oldest first."""
        return self._ask(lambda session: session.outbox.rows(*states))

    def edit(self, number: int) -> OutboxRow:
        """One edit of the outbox.

        :raises EditError: if there is none of that number
        """
        return self._ask(lambda session: session.outbox.row(number))

    def retry(self, number: int) -> OutboxRow:
        """Queue a held or rejected edit again: it overrides what the service had, if that is why it was held.

        A removal that was held for somebody else's blocks goes on, and lets those be.

        :raises EditError: if it waits for nobody
        """
        with self.transaction():
            return decisions.retry(self._in_session(), number)

    def amend(
        self, number: int, *, fields: Mapping[str, Any] | None = None, block: tuple[str, str | None] | None = None
    ) -> OutboxRow:
        """Change what a held, rejected or not yet sent edit says, and queue it again as a new request.

        ``fields`` for a create or update; ``block`` for a block's edit: the block added, or the new one of a replace.

        :raises EditError: if it may be under way, or the change does not fit the operation
        """
        with self.transaction():
            return decisions.amend(self._in_session(), number, fields=fields, block=block)

    def drop(self, number: int) -> list[OutboxRow]:
        """Give up an edit that waits for a person, or was not sent yet.

        Dropping a create gives up every later edit of that geolocation too. A removal that is half done is not dropped
        but turned round: the next push puts back what it took away.

        :returns: all edits that were given up
        :raises EditError: if it may be under way
        """
        with self.transaction():
            return decisions.drop(self._in_session(), number)

    def adopt(self, number: int, locid: int) -> OutboxRow:
        """Say which of the service's geolocations a held create became.

        :raises EditError: if the edit is no held create, or ``locid`` cannot be it
        """
        with self.transaction():
            return decisions.adopt(self._in_session(), number, locid)

    def keep_twin(self, locid: int) -> None:
        """Say that a geolocation which a pull reported as made twice is wanted: it is not reported any more.

        :raises EditError: if it was not reported
        """
        with self.transaction():
            decisions.keep_twin(self._in_session(), locid)

    def _in_session(self) -> "EditSession":
        assert self._session is not None
        return self._session
