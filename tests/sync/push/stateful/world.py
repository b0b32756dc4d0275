"""What the push machine acts on: a state on disk, a service in memory, a clock, and faults on demand."""

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from geolookup.settings.table import Settings
from geolookup.state.base import clock as clock_module
from geolookup.state.base.marks import Begun
from geolookup.state.editor import Editor
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.outbox.kept import OPEN, Kept
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.row import OutboxRow, State
from geolookup.state.edits.store import Edits
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull import pull as pull_module
from geolookup.sync.pull import service as service_module
from geolookup.sync.push import push as push_module
from tests.oracle.outbox_model import Clock, Crash, Ends, FakeService, Faults

URL = "http://127.0.0.1:9"
SETTLE_S = 30.0


class NoTransport:
    """Stands in for a connection, since the service is in memory."""

    def __init__(self, _settings: Settings) -> None:
        pass

    def __enter__(self) -> "NoTransport":
        return self

    def __exit__(self, *_: object) -> None:
        pass


class World:
    """One machine that edits, and one service. Until ``close``, this process has its clock and its service."""

    def __init__(self, *, honours_keys: bool) -> None:
        self.clock, self.faults = Clock(), Faults()
        self.service = FakeService(self.clock, self.faults, honours_keys=honours_keys, settle_s=SETTLE_S)
        self.patch = pytest.MonkeyPatch()
        # In memory if there is such a place: SQLite waits for the disk at each commit, and nobody pulls the plug here.
        self._folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.home = os.path.join(self._folder.name, "state")
        self.settings = Settings(
            url=URL,
            settle_s=SETTLE_S,
            idempotency_keys=honours_keys,
            max_wait_s=60.0,
            attempts=3,
        )
        self.patch.setattr(clock_module, "wall", self.clock.wall)
        self.patch.setattr(clock_module, "steady_s", self.clock.steady_s)
        self.patch.setattr(clock_module, "boot_s", self.clock.steady_s)
        self.patch.setattr(clock_module, "boot_id", lambda: "the one boot")
        # Not time.sleep: a thread of another test in this process would spin, and move the clock.
        self.patch.setattr(clock_module, "sleep", self.clock.sleep)
        self.patch.setattr(os, "fsync", lambda _descriptor: None)  # nobody pulls the plug here
        for module in (push_module, pull_module):
            self.patch.setattr(module, "Transport", NoTransport)
        for module in (push_module, service_module):
            self.patch.setattr(module, "GeolocationsClient", lambda _transport: self.service)
        self.patch.setattr(Edits, "transaction", self._counted(Edits.transaction))

    def close(self) -> None:
        """Give the process its clock back, and remove the state."""
        self.patch.undo()
        self._folder.cleanup()

    def _counted(self, real: Any) -> Any:
        """A transaction with the points at which a process may die."""
        faults = self.faults

        @contextlib.contextmanager
        def transaction(edits: Edits, **options: Any) -> Iterator[Any]:
            faults.point()
            with real(edits, **options) as database:
                yield database
                faults.point()
            faults.commits += 1
            faults.point()

        return transaction

    # What can be done

    @property
    def directory(self) -> StateDirectory:
        """The state, as a new process sees it."""
        return StateDirectory(self.home)

    @property
    def editor(self) -> Editor:
        """An editor of a new process."""
        return Editor(self.home)

    def may_crash(self, crash_in: int | None, action: Callable[[], Any]) -> tuple[bool, Any]:
        """(whether it came to its end, what it returned); afterwards a new process looks."""
        self.faults.clear()
        self.faults.crash_in = crash_in
        try:
            return True, action()
        except Crash:
            return False, None
        finally:
            commits = self.faults.commits
            self.faults.clear()
            self.faults.commits = commits

    def push(self, answers: list[str], on_conflict: Any) -> Any:
        """Push, and have the service answer so."""
        self.faults.answers = list(answers)
        return push_module.push(self.directory, self.settings, on_conflict=on_conflict)

    def pull(self) -> Any:
        """Pull; the report."""
        return pull_module.pull(self.directory, self.settings)

    # What can be seen

    def rows(self) -> list[OutboxRow]:
        """All edits that were ever made here."""
        with self._outbox() as outbox:
            return outbox.rows() if outbox else []

    def places(self) -> list[Kept]:
        """All places of which something is open."""
        with contextlib.closing(sqlite3.connect(self.directory.edits.path)) as connection:
            return [*Ledger(connection).read(OPEN).values()]

    def counter(self) -> int:
        """The counter of the last mark of edits.db, 0 if there is none."""
        with self._outbox() as outbox:
            return outbox.counter if outbox else 0

    def seen_since(self) -> dict[int, int]:
        """The service's numbers of places of which a newer list than the pulled one has spoken, with its counter."""
        current = self.directory.current()
        if current is None or not os.path.exists(self.directory.edits.path):
            return {}
        with contextlib.closing(sqlite3.connect(self.directory.edits.path)) as connection:
            # A decision counts as one, too; of what no list has shown it says nothing.
            spoken = "seen > ? AND (number IS NULL OR baseline IS NOT NULL)"
            sql = f"SELECT coalesce(number, lost), max(seen) FROM places WHERE {spoken} GROUP BY 1"
            counter = Begun.of(current.published).counter
            return {number: seen for number, seen in connection.execute(sql, (counter,)) if number is not None}

    def numbers(self) -> set[int]:
        """The numbers that are bound to places which were made or edited here."""
        with self._outbox() as outbox:
            return {*outbox.numbers()} if outbox else set()

    def former(self) -> dict[int, int]:
        """The number that each geolocation had at the service which a list has ended, by the one here."""
        with contextlib.closing(sqlite3.connect(self.directory.edits.path)) as connection:
            sql = "SELECT id, lost FROM places WHERE number IS NULL AND lost IS NOT NULL"
            return dict(connection.execute(sql))

    def aliases(self) -> dict[int, int]:
        """The number of the service's of each geolocation that was created here, if it is known, by the one here."""
        with self._outbox() as outbox:
            if not outbox:
                return {}
            # What is deleted has its number no longer, but here none is given twice.
            deleted = {row.locid: row.number for row in outbox.rows(State.DONE) if row.number is not None}
            return deleted | outbox.aliases()

    @contextlib.contextmanager
    def _outbox(self) -> Iterator[Outbox | None]:
        path = self.directory.edits.path
        if not os.path.exists(path):
            yield None
            return
        with contextlib.closing(sqlite3.connect(path)) as connection:
            yield Outbox(connection)

    def number_here(self, shown: int) -> int:
        """The number here of what has that number of the service's: after an adoption, not of what was deleted."""
        return next((local for local, service in reversed(self.aliases().items()) if service == shown), shown)

    def is_taken_for(self, sent: Iterable[tuple[Any, ...]], locid: int) -> bool:
        """Whether what a foreign client wrote under a number is what a create has sent, as the push has learned it.

        It cannot know that the writing, which it met before any list had shown what it sent, is not the service's own.
        """
        with contextlib.closing(sqlite3.connect(self.directory.edits.path)) as connection:
            forms = Ledger(connection).forms()
        stored = [fields for fields, _ in self.service.states[locid]]
        return any(each not in stored and forms.same(each, fields) for each in sent for fields in stored)

    def was_told_of(self, locid: int) -> bool:
        """Whether a person was told something about a geolocation."""
        with contextlib.closing(sqlite3.connect(self.directory.edits.path)) as connection:
            sql = "SELECT 1 FROM history WHERE what = 'notice' AND locid = ?"
            return connection.execute(sql, (locid,)).fetchone() is not None


def ends_of(laid: Laid) -> frozenset[Ends]:
    """The blocks of a geolocation as it is shown here."""
    return frozenset((block.startip, block.endip) for block in laid.place.ipblocks)
