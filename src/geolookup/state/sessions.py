"""The sessions of an editor: the transactions of edits.db in which it edits, each published once it is durable."""

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from sqlite3 import Connection
from types import FrameType
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from geolookup.model.errors import EditError, StateBusyError, StateDamagedError, StateError
from geolookup.state.base.current import Current
from geolookup.state.base.signals import Terminated, terminate
from geolookup.state.base.sqlite import RUN_WAIT_S
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.outbox.outbox import Newest, Outbox
from geolookup.state.edits.session import EditSession, Left, Lists
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.locks import PUBLISH_WAIT_S
from geolookup.state.publishing.publish import Publish, publishing

_log = logging.getLogger("geolookup")

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: The usual handlers of the signals that interrupt, and what each raises; any other handler is left alone.
_INTERRUPTS: dict[int, tuple[Any, type[KeyboardInterrupt]]] = {
    signal.SIGINT: (signal.default_int_handler, KeyboardInterrupt),
    signal.SIGTERM: (terminate, Terminated),
}

#: A publish may remove what a question reads, again and again, but not this often.
_READ_ATTEMPTS = 10


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
        #: True while lookups do not see edits that are kept: they could not be published.
        self.is_behind = False

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
        :raises EditsDamagedError: if edits.db is damaged, gone, or lacks what was published or pushed from it
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
                    wait_s=RUN_WAIT_S if wait else 0.0, may_be_new=not current.had_edits
                ) as database:
                    with self._entered(self._begin(database, current), is_kept=True) as session:
                        yield session
                    (layer, names), newest = session.left(), session.outbox.newest
                    vrfs = bool(session.vrfs.touched) or not session.changed or current.recovered is not None
                    whole.enter_context(_uninterrupted())  # what is committed is published, too
                is_edit = session.changed or bool(session.vrfs.touched)
                if is_new := is_edit or newest.edits != current.edits:  # the latter if an earlier publish failed
                    kept = "the edit is" if is_edit else "an earlier edit is"
                    self._publish(publish, newest, layer, names, vrfs=vrfs, kept=kept)
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
                self._directory.edits.back_up_if_newer(self._directory.named_current())

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

    def _begin(self, database: Connection, current: Current) -> EditSession:
        session = EditSession(database, current, self._lists, self._left)
        if not session.outbox.follows(current):
            raise self._directory.edits.lacking()
        return session

    def _keep(self, session: EditSession, current: Current) -> None:
        """Keep the layer that a session laid and has not edited: the next one need not lay the same edits again."""
        if session.has_laid:
            self._left = Left(current, session.outbox.head, dict(session.layer))

    def _steadily(self, look: Callable[[Current], _T]) -> _T:
        """The answer of ``look``, which is called again if a publish removes what it reads."""
        for _ in range(_READ_ATTEMPTS):
            # CURRENT first: edits that are newer than it are laid over it, older ones might be there twice.
            current = self._directory.require_current()
            try:
                self._directory.edits.require_present(current)
                return look(current)
            except StateDamagedError:
                # A publish may have removed the generation that was served a moment ago.
                if self._directory.require_current().sequence == current.sequence:
                    raise
        raise StateBusyError(f"{self._directory.home}: generations come and go faster than they can be read")

    def _publish(
        self,
        publish: Publish,
        newest: Newest,
        layer: dict[int, Laid],
        names: dict[int, Mapping[str, str]],
        *,
        vrfs: bool,
        kept: str,
    ) -> None:
        """The edits are durable by now: should this fail, the next publish makes them visible."""
        try:
            published = publish.edited(list(layer.values()), newest, names, vrfs=vrfs)
        except StateError as error:
            publish.take_back()
            self._left, self.is_behind = None, True
            _log.warning("%s kept, but lookups will not see it until this is repaired: %s", kept, error)
            return
        self._left, self.is_behind = Left(published, newest.edits, layer), False


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
