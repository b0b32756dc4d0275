"""The compiled index behind lookups over HTTP, and how it follows what is written to the database."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

import anyio

from geolookup.base.reasons import reason
from geolookup.errors import GeoLookupError, RequestRefusedError
from geolookup.lookup.snapshot import OpenLayer, match_in
from geolookup.model.types import Match
from geolookup.service.lookups.compiler import Compiler
from geolookup.service.store.store import Store

if TYPE_CHECKING:
    from geolookup.model.addresses import Family

logger = logging.getLogger("geolookup.service")

#: How often lookups check whether something was written.
LOOK_INTERVAL_S = 0.25
#: An answer that may be older than this waits for the check that is under way.
_OLDEST_S = 0.7
#: A lookup waits at most this long for a check or for the first index: then the present index answers.
_PATIENCE_S = 1.0
#: If the custom layer is so large that a check takes longer than the interval, checks get at most half of a processor.
_REST = 1.0
#: Seconds before the default layer is tried again, if it could not be compiled.
_RETRY_S = 10.0
_CLOSING_S = 10.0


@dataclass(frozen=True, slots=True)
class Layers:
    """The answers of lookups: both layers, and the database's revision of the custom one."""

    base: OpenLayer
    custom: OpenLayer
    revision: int

    def match(self, address: str, family: "Family", value: int) -> Match | None:
        """What an address resolves to and by which range, or None; the match repeats ``address``."""
        return match_in(self.base, self.custom, address, family, value)


@dataclass(frozen=True, slots=True)
class _Job:
    thread: threading.Thread
    began: float
    done: "Future[None]"


class LookupIndex:
    """Both layers of one database, compiled, for one process of the service.

    A lookup sees what any process committed a second before: at most every `LOOK_INTERVAL_S` a lookup has a thread
    check the database's revision, and compile the custom layer again if it changed. The default layer is compiled at
    the start and if its own revision changed, which may take many seconds; meanwhile the previous one serves, with the
    newest custom layer above it. If the database cannot be read, the present layers serve.
    """

    def __init__(self, store: Store, folder: str | None = None) -> None:
        """``folder`` is one that other processes which serve the same database use too, or None."""
        self._store = store
        self._closed = threading.Event()
        self._compiler = Compiler(store, folder, self._closed.is_set)
        self._jobs: dict[Callable[[], None], _Job] = {}
        self._starting = threading.Lock()
        self._looking = threading.Lock()
        self._base: tuple[int, OpenLayer] | None = None
        self._layers: Layers | None = None
        self._as_of = -inf
        self._look_at = -inf
        self._compile_at = -inf
        # Why the newest attempt of each work failed.
        self._problems: dict[Callable[[], None], str] = {}

    @property
    def is_ready(self) -> bool:
        """Whether lookups are answered."""
        return self._layers is not None

    @property
    def revision(self) -> int | None:
        """The database's revision that lookups are answered from; None until there is one."""
        return None if self._layers is None else self._layers.revision

    @property
    def problem(self) -> str | None:
        """Why the newest attempt to follow the database failed; None if it did not."""
        return next(iter(self._problems.copy().values()), None)

    def start(self) -> None:
        """Begin to compile, in a thread, unless that was begun; otherwise the first lookup does it."""
        if self._layers is None and monotonic() >= self._look_at:
            self._begin(self._compile)

    def layers_at_once(self) -> Layers | None:
        """The layers that answer lookups now; None if `layers` would wait, or refuse."""
        layers, now = self._layers, monotonic()
        if now < self._look_at:
            return layers
        if layers is None or self._must_wait(now):
            return None
        self._begin(self._look)
        return layers

    async def layers(self) -> Layers:
        """The layers that answer lookups now.

        :raises RequestRefusedError: ``index-not-ready`` if the first compilation has not ended
        """
        layers, now = self._layers, monotonic()
        if now >= self._look_at:
            job = self._begin(self._compile if layers is None else self._look)
            if job is not None and self._must_wait(now):
                await self._wait(job)
                # What was waited for may have begun to look long before this lookup, as the first compilation does.
                if self._layers is not None and self._must_wait(now):
                    job = self._begin(self._look)
                    if job is not None:
                        await self._wait(job)
                layers = self._layers
        if layers is None:
            raise RequestRefusedError(
                "the index is being compiled: ask again in some seconds"
                if self.problem is None
                else "the index could not be compiled: the service's log says why",
                problem="index-not-ready",
            )
        return layers

    def _must_wait(self, now: float) -> bool:
        """Whether an answer of that moment would come from layers that are missing or too old."""
        return self._layers is None or (now - self._as_of > _OLDEST_S and self._look not in self._problems)

    def close(self) -> None:
        """End running work, so that the database can be closed; a second call does nothing."""
        self._closed.set()
        with self._starting:
            threads = [job.thread for job in self._jobs.values()]
        for thread in threads:
            thread.join(_CLOSING_S)

    @staticmethod
    async def _wait(job: _Job) -> None:
        rest_s = job.began + _PATIENCE_S - monotonic()
        if rest_s > 0:
            with anyio.move_on_after(rest_s):
                await asyncio.wrap_future(job.done)

    def _begin(self, work: Callable[[], None]) -> _Job | None:
        """The job that does the work: a new one, unless one is under way. None once this was closed."""
        with self._starting:
            job = self._jobs.get(work)
            if job is not None and not job.done.done():
                return job
            if self._closed.is_set():
                return None
            done: Future[None] = Future()
            # Running from now on: a caller that stops waiting must not cancel it for the others.
            done.set_running_or_notify_cancel()
            # A daemon, since a process that ends waits for all other threads, and compiling may take long.
            thread = threading.Thread(target=self._run, args=(work, done), daemon=True, name="geolookup-index")
            job = self._jobs[work] = _Job(thread, monotonic(), done)
            thread.start()
            return job

    def _run(self, work: Callable[[], None], done: "Future[None]") -> None:
        try:
            work()
            self._problems.pop(work, None)
        except Exception as error:
            now = monotonic()
            if work == self._compile:
                self._compile_at = now + _RETRY_S
            if work == self._look or self._layers is None:
                self._look_at = now + LOOK_INTERVAL_S
            if not self._closed.is_set() and reason(error) != self._problems.get(work):
                known = isinstance(error, GeoLookupError)
                logger.warning("lookups do not follow the database: %s", error, exc_info=None if known else error)
            self._problems[work] = reason(error)
        finally:
            done.set_result(None)

    def _compile(self) -> None:
        revision, reader = self._compiler.default_layer()
        self._base = revision, OpenLayer(reader)
        self._look()

    def _look(self) -> None:
        # Only one at a time, so that the newest layers stay.
        with self._looking:
            assert self._base is not None
            base_revision, base = self._base
            layers, began = self._layers, monotonic()
            with contextlib.closing(self._store.snapshot()) as snapshot:
                if layers is not None and layers.revision == snapshot.revision:
                    custom = layers.custom
                else:
                    custom = OpenLayer(self._compiler.custom_layer(snapshot))
                if snapshot.default_revision != base_revision and monotonic() >= self._compile_at:
                    self._begin(self._compile)
                if layers is None or layers.custom is not custom or layers.base is not base:
                    self._layers = Layers(base, custom, snapshot.revision)
            self._as_of, ended = began, monotonic()
            self._look_at = ended + max(LOOK_INTERVAL_S, (ended - began) * _REST)
