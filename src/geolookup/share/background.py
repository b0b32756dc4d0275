"""Builds in the background: CURRENT is followed, and each new publish is built in a process of its own."""

import contextlib
import fcntl
import logging
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess

from geolookup.base import disk
from geolookup.base.stamp import stamp_of
from geolookup.model.errors import GeoLookupError, NoStateError
from geolookup.share.build import Edition, build, key_of
from geolookup.share.shelf import Bench
from geolookup.state.base.current import read_current
from geolookup.state.publishing.following import Retries, follow
from geolookup.web.logs import log_to_standard_error

logger = logging.getLogger("geolookup.service")

#: How often it is checked whether files are over.
_SWEEP_S = 30.0
#: How much a build gives way to those who answer requests.
_NICE = 5
_CLOSING_S = 10.0

# Spawned, not forked: the process that starts it has threads.
_spawn = multiprocessing.get_context("spawn")


class BackgroundBuilds:
    """Builds into ``folder`` each publish of ``home``: one build at a time, and then of the newest publish.

    Each build is a process of its own, with low priority: it cannot slow lookups, its memory is free afterwards, and if
    it is killed, the next one cleans up. If CURRENT cannot be read, or a build fails, the last good build stays.
    """

    def __init__(
        self,
        home: str,
        folder: str,
        editions: Sequence[Edition],
        *,
        licence_allows: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._home = home
        self._editions = tuple(editions)
        self._licence_allows = licence_allows
        self._bench = Bench(folder)
        self._clock = clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="geolookup-builder", daemon=True)
        self._told: str | None = None
        self._built_of: tuple[int, ...] | None = None
        self._missing: tuple[str, ...] = ()
        self._retries = Retries()
        self._sweep_at = 0.0

    def start(self) -> None:
        """Begin to follow CURRENT."""
        self._thread.start()

    def close(self) -> None:
        """End; a build that is under way is dropped."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(_CLOSING_S)

    def _run(self) -> None:
        follow(self.step, self._tell, self._stop, folder=self._bench.folder)

    def step(self) -> None:
        """Look once: build if something new is published, remove what is over.

        :raises GeoLookupError: if CURRENT or the folder cannot be used
        """
        if time.monotonic() >= self._sweep_at:
            self._bench.sweep(self._clock())
            self._sweep_at = time.monotonic() + _SWEEP_S
        wanted = self._wanted()
        if wanted is None or not self._retries.may(wanted):
            return
        done = self._build()
        if done:
            self._told = None
            self._bench.sweep(self._clock())
        catalog = self._bench.catalog()
        if done and catalog is not None and catalog.missing != self._missing:
            self._missing = catalog.missing
            if catalog.missing:
                logger.warning("not offered, since no source says what they hold: %s", ", ".join(catalog.missing))
        if done and catalog is not None and catalog.key == wanted:
            self._retries.done()
        elif not self._stop.is_set():
            # It failed; or it was of something newer, which the next look finds, or of what damage leaves to be served.
            self._retries.failed(wanted)

    def _wanted(self) -> str | None:
        """The key of what must be built; None if it is there."""
        catalog = self._bench.catalog()
        stamp = stamp_of(os.path.join(self._home, "CURRENT"))
        if stamp is not None and stamp == self._built_of and catalog is not None:
            return None  # without reading it
        try:
            key = key_of(read_current(self._home), self._editions)
        except NoStateError:
            raise
        except GeoLookupError as error:
            if catalog is not None:
                self._tell(f"{error}; the last good build goes on")
                return None
            return "recovered"  # nothing to go on with: what lookups answer then is built
        if catalog is not None and catalog.key == key:
            self._told, self._built_of = None, stamp
            return None
        return key

    def _build(self) -> bool:
        process = _spawn.Process(
            target=_main,
            args=(self._home, self._bench.folder, self._editions, self._licence_allows),
            name="geolookup-build",
        )
        process.start()
        while process.exitcode is None:
            if self._stop.wait(0.05):
                _end(process)
                return False
        if process.exitcode not in (0, 1):  # with 1 it has said why
            logger.error("a build ended with status %s", process.exitcode)
        return process.exitcode == 0

    def _tell(self, problem: str) -> None:
        if problem != self._told:
            self._told = problem
            logger.error("%s", problem)


def _end(process: SpawnProcess) -> None:
    process.terminate()
    process.join(_CLOSING_S)
    if process.exitcode is None:
        process.kill()
        process.join()


def _main(home: str, folder: str, editions: Sequence[Edition], licence_allows: bool) -> None:
    """Run one build, in its process."""
    log_to_standard_error()
    threading.Thread(target=_end_with_parent, daemon=True, name="parent").start()
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    try:
        build(home, folder, editions, licence_allows=licence_allows)
    except GeoLookupError as error:
        logger.error("the files were not built: %s", error)  # noqa: TRY400 - its message is for people
        raise SystemExit(1) from error


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


@contextlib.contextmanager
def shelf_folder(home: str) -> Iterator[str]:
    """The folder for built files: in the state, so that a restart finds them; else a temporary one.

    The one in the state belongs to one service at a time. Another one of the same state gets a folder of its own, and
    so does one that may not write there.
    """
    folder = os.path.join(home, "share")
    with contextlib.ExitStack() as stack:
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            descriptor = disk.open_lock(os.path.join(folder, "lock"))
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="geolookup-share-", ignore_cleanup_errors=True)
            )
        yield folder
