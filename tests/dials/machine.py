"""A machine with a person: its state, its clocks, and the ways in which it meets the service."""

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import EditError, GeoLookupError
from geolookup.settings.table import Settings
from geolookup.state.base import clock as clock_module
from geolookup.state.base import marks
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.store import Edits
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.restore import restore
from geolookup.sync.pull.pull import pull
from geolookup.sync.push.push import push
from geolookup.sync.refresh import refresh
from tests.dials.faces import InProcess
from tests.dials.upstream import Upstream
from tests.dials.wishes import Wishes

URL = "http://127.0.0.1:9"
SETTLE_S = 30.0
NUMBER = re.compile(r"-\d+")


class Crash(BaseException):
    """The process died here; a BaseException, since no handler of errors may take it."""


class Time:
    """The time that passes for everybody, in seconds; it never jumps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds


class Machine:
    """One state directory, with clocks of its own, and what its person asked for and was told.

    ``told`` has every number that a command named while it said that a person must look (exit status 3); ``held`` the
    edits that it said so of. ``raw`` are errors that are not the project's own: there must be none.
    """

    def __init__(self, name: str, home: str, time: Time, upstream: Upstream) -> None:
        self.name, self.home, self.time, self.upstream = name, home, time, upstream
        self.settings = Settings(url=URL, settle_s=SETTLE_S, attempts=3, max_wait_s=120.0)
        self.wall_s = 0.0
        self.boots = 1
        self.booted_s = 0.0
        self.wishes = Wishes(upstream.dials.stored)
        self.told: set[int] = set()
        self.told_all: list[str] = []
        #: Numbers of which a person was told, at the end of something that no edit waits for.
        self.noticed: set[int] = set()
        self.held: set[tuple[str, int]] = set()
        self.raw: list[str] = []
        self.most_lists = 0
        #: Whether somebody changed a row of edits.db, or copied the whole state.
        self.damaged = self.copied = False
        #: Copies of edits.db, each with the moment at which it was made.
        self.copies: list[tuple[float, bytes]] = []
        #: The moment of each backup that a push made, by its digest.
        self._backed_up: dict[str, float] = {}
        self._crash_in: int | None = None
        self._dead = False

    # Clocks

    def wall(self) -> datetime:
        """What this machine's wall clock says; a millisecond passes whenever somebody looks."""
        self.time.sleep(0.001)
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.time.now_s + self.wall_s)

    def boot_s(self) -> float:
        """Seconds since this machine was started."""
        return self.time.now_s - self.booted_s

    def boot_id(self) -> str:
        """A text that differs after each start."""
        return f"{self.name}-boot-{self.boots}"

    def reboot(self) -> None:
        """Start anew; the wall clock goes on."""
        self.boots += 1
        self.booted_s = self.time.now_s

    # What happens

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """This machine is the one that runs now: its clocks are the clocks."""
        real = httpx.Client
        face = InProcess(self.upstream, self._point, self._point)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clock_module, "wall", self.wall)
            patch.setattr(clock_module, "steady_s", self.time)
            for name in ("boot_s", "boot_id"):
                patch.setattr(clock_module, name, getattr(self, name))
            patch.setattr(clock_module, "sleep", self.time.sleep)
            patch.setattr(marks, "machine_id", lambda: self.name)
            patch.setattr(os, "fsync", lambda _descriptor: None)  # nobody pulls the plug here
            patch.setattr(httpx, "Client", lambda **given: real(**{**given, "transport": face}))
            patch.setattr(Edits, "transaction", self._watched(Edits.transaction))
            yield

    def _watched(self, real: Any) -> Any:
        @contextlib.contextmanager
        def transaction(*arguments: Any, **named: Any) -> Iterator[Any]:
            if self._dead:
                raise Crash
            with real(*arguments, **named) as database:
                yield database

        return transaction

    def _point(self) -> None:
        if self._crash_in is not None:
            self._crash_in -= 1
            if self._crash_in < 0:
                self._dead = True
        if self._dead:
            raise Crash

    def attempt(self, action: Callable[[], Any], *, crash_in: int | None = None) -> Any:
        """Do something that may fail in the project's own way; what it returned, or the error, or None after a crash.

        ``crash_in`` counts the moments before and after requests until the process dies.
        """
        self._crash_in, self._dead = crash_in, False
        try:
            with self.awake():
                return action()
        except Crash:
            return None
        except GeoLookupError as error:
            if not isinstance(error, EditError):
                self.told_all.append(str(error))
            return error
        except Exception as error:
            self.raw.append(f"{type(error).__name__}: {error}")
            return error
        finally:
            self._crash_in, self._dead = None, False
            self._note_backups(self.time.now_s)  # an edit makes one, too

    @property
    def directory(self) -> StateDirectory:
        """The state directory."""
        return StateDirectory(self.home)

    def editor(self) -> Editor:
        """An editor, as a new process would open it."""
        return Editor(self.home)

    def push(self, *, crash_in: int | None = None, **options: Any) -> Any:
        """Push, and note what the person is told."""
        before = self.upstream.lists
        began_s = self.time.now_s
        report = self.attempt(lambda: push(self.directory, self.settings, **options), crash_in=crash_in)
        self.most_lists = max(self.most_lists, self.upstream.lists - before)
        self._note_backups(began_s)
        self._listen(report, push=report)
        return report

    def pull(self, *, crash_in: int | None = None) -> Any:
        """Pull, and note what the person is told."""
        report = self.attempt(lambda: pull(self.directory, self.settings), crash_in=crash_in)
        self._listen(report, pull=report)
        return report

    def refresh(self, *, crash_in: int | None = None) -> Any:
        """Push and pull, and note what the person is told."""
        began_s = self.time.now_s
        report = self.attempt(lambda: refresh(self.directory, self.settings), crash_in=crash_in)
        self._note_backups(began_s)
        if hasattr(report, "failures"):
            self.told_all += [failure.message for failure in report.failures if failure.error is not None]
            self._listen(report, push=report.push, pull=report.pull)
        return report

    def _listen(self, report: Any, *, push: Any = None, pull: Any = None) -> None:
        if report is None or isinstance(report, Exception):
            return
        self.told_all += getattr(push, "warnings", [])
        if push is not None and (push.held or push.rejected):
            for line in push.edits:
                if line["state"] in ("held", "rejected"):
                    self.held.add((self.name, line["edit"]))
                    self._hear(f"{line['locid']} {line['reason']}")
        for part in (push, pull):
            for name in ("twins", "missing", "notices"):
                for found in getattr(part, name, ()):
                    self._hear(str(found))
                    if name == "notices":
                        self.noticed |= {found["locid"], self._place_of(found["edit"])}

    def _place_of(self, edit: int) -> int:
        """The number that the person got for the place that an edit is about; 0 if the edits cannot be read."""

        def ask() -> int:
            with self.directory.edits.reading() as database:
                return Outbox(database).row(edit).locid

        found = self.attempt(ask)
        return found if isinstance(found, int) else 0

    def aliases(self) -> dict[int, int]:
        """The service's number of each place, by the one that the person got; also of those that are to be deleted."""

        def ask() -> dict[int, int]:
            with self.directory.edits.reading() as database:
                return dict(Outbox(database).aliases())

        found = self.attempt(ask)
        return found if isinstance(found, dict) else {}

    def _hear(self, words: str) -> None:
        self.told |= {int(number) for number in NUMBER.findall(words)}

    def seen(self) -> dict[int, Any]:
        """Every custom geolocation as lookups have it, by number; empty where that cannot be told."""
        found = self.attempt(lambda: {laid.place.locid: laid.place for laid in self.editor().custom()})
        return found if isinstance(found, dict) else {}

    def numbers(self) -> dict[int, int]:
        """The number that lookups show for each of this person's places, by the one that the person got."""

        def ask() -> dict[int, int]:
            found = {}
            with self.editor().transaction() as editor:
                for wish in self.wishes.all.values():
                    with contextlib.suppress(EditError):
                        found[wish.handle] = editor.get(wish.handle).place.locid
            return found

        found = self.attempt(ask)
        return found if isinstance(found, dict) else {}

    def look_up(self, addresses: Any) -> dict[str, tuple[Any, ...] | None] | None:
        """The fields that each address resolves to, None where to no custom place; None for all on an error."""

        def ask() -> dict[str, tuple[Any, ...] | None]:
            found = {}
            with GeoLookup(self.home) as geo:
                for address in addresses:
                    match = geo.match(address)
                    custom = match is not None and match.layer == "custom"
                    found[address] = tuple(match.geolocation.fields().values()) if match and custom else None
            return found

        answers = self.attempt(ask)
        return answers if isinstance(answers, dict) else None

    # Files

    @property
    def edits_path(self) -> str:
        """Where the edits are kept."""
        return os.path.join(self.home, "edits.db")

    def keep_a_copy(self) -> None:
        """The person copies edits.db, as one does."""
        if os.path.exists(self.edits_path):
            with open(self.edits_path, "rb") as file:
                self.copies.append((self.time.now_s, file.read()))

    def take_copy_of(self, other: "Machine") -> None:
        """The whole state of another machine is copied here, with its backups of edits.db."""
        shutil.copytree(other.home, self.home)
        self._backed_up.update(other._backed_up)

    def put_back_by_hand(self, content: bytes) -> None:
        """The person copies a file over edits.db, and tells nobody."""
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.edits_path + "-journal")
        with open(self.edits_path, "wb") as file:
            file.write(content)

    def backups(self) -> list[tuple[float, bytes]]:
        """The backups that pushes made, newest first, each with the moment at which it was made."""
        found = []
        for number in (1, 2, 3):
            with contextlib.suppress(FileNotFoundError):
                content = Path(self.home, f"edits.backup.{number}.db").read_bytes()
                found.append((self._backed_up[hashlib.sha256(content).hexdigest()], content))
        return found

    def _note_backups(self, began_s: float) -> None:
        for number in (1, 2, 3):
            with contextlib.suppress(FileNotFoundError):
                content = Path(self.home, f"edits.backup.{number}.db").read_bytes()
                self._backed_up.setdefault(hashlib.sha256(content).hexdigest(), began_s)

    def follow_the_advice(self) -> None:
        """Do what the last message about edits.db says: take it as it is, put the newest backup back, or begin anew."""
        words = self.told_all[-1] if self.told_all else ""
        if "goes on with it as it is" in words:
            chosen = self.attempt(lambda: restore(self.directory, self.edits_path))
        else:
            found = self.backups()
            chosen = self.attempt(lambda: restore(self.directory, empty=not found))
            if (source := getattr(chosen, "source", None)) is not None:  # the newest that is whole
                digest = hashlib.sha256(Path(source).read_bytes()).hexdigest()
                self.wishes.put_back(self._backed_up[digest])
            else:
                self.wishes.put_back(0.0)
        if isinstance(chosen, Exception):
            self.wishes.put_back(0.0)
            self.attempt(lambda: restore(self.directory, empty=True))
