"""The compiled index behind lookups over HTTP, and how it follows what is written to the database."""

import asyncio
import contextlib
import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import groupby
from math import inf
from operator import itemgetter
from time import monotonic
from typing import Any

import anyio
from sqlalchemy import Select, select

from geolookup.base.reasons import reason
from geolookup.index.builder import IndexBuilder
from geolookup.index.reader import IndexReader
from geolookup.lookup.record import made
from geolookup.lookup.snapshot import OpenLayer, match_in
from geolookup.model.addresses import parse
from geolookup.model.errors import GeoLookupError, RequestRefusedError, ServiceError, StateBusyError
from geolookup.model.types import FIELD_NAMES, Layer, flat_not_covered
from geolookup.service.store.schema import geolocations, ipblocks
from geolookup.service.store.store import ReadTransaction, Store
from geolookup.state.base import files

_ROWS = 10_000
_owner = itemgetter(0, 1)
_PREFIX, _TEMPORARY = "default-", "tmp-"


class Compiler:
    """Index files made from one database.

    ``folder`` is shared with other processes of this host that serve the same database: the first that needs a
    content of the default layer compiles it for all. Without one, files are private, and are deleted once they are
    mapped. ``is_stopped`` is asked every few thousand rows.
    """

    def __init__(self, store: Store, folder: str | None, is_stopped: Callable[[], bool]) -> None:
        self._store = store
        self._folder = folder
        self._is_stopped = is_stopped

    def default_layer(self) -> tuple[int, IndexReader]:
        """The default layer as the database has it now, and the revision of it.

        :raises GeoLookupError: if the database cannot be read, the file cannot be written, or the service ends
        """
        if self._folder is None:
            with contextlib.closing(self._store.snapshot()) as snapshot:
                return snapshot.default_revision, self._private(snapshot, "default")
        with self._turn(self._folder), contextlib.closing(self._store.snapshot()) as snapshot:
            revision = snapshot.default_revision
            name = f"{_PREFIX}{self._store.uuid}-{revision}"
            path = os.path.join(self._folder, name)
            with files.file_errors(path):
                if not os.path.exists(path):
                    self._publish(snapshot, path)
                return revision, IndexReader.open(path)

    def custom_layer(self, snapshot: ReadTransaction) -> IndexReader:
        """The custom layer of the snapshot.

        :raises GeoLookupError: as `default_layer`
        """
        return self._private(snapshot, "custom")

    @contextlib.contextmanager
    def _turn(self, folder: str) -> Iterator[None]:
        """The holder of the lock compiles, and the others wait: doing the same work twice would delay both."""
        path = os.path.join(folder, "compile.lock")
        with contextlib.ExitStack() as stack:
            while True:
                self._go_on()
                try:
                    stack.enter_context(files.lock(path, wait_s=1.0, busy="another worker compiles"))
                    break
                except StateBusyError:
                    continue
            yield

    def _publish(self, snapshot: ReadTransaction, path: str) -> None:
        folder = os.path.dirname(path)
        others = os.listdir(folder)
        for name in others:
            if name.startswith(_TEMPORARY):  # left by a worker that was killed: nobody else writes under the lock
                os.unlink(os.path.join(folder, name))
        temporary = os.path.join(folder, f"{_TEMPORARY}{os.getpid()}-{time.monotonic_ns():x}")
        self._write(snapshot, "default", temporary)
        os.rename(temporary, path)
        for name in others:
            if name.startswith(_PREFIX):  # processes that have it mapped keep it
                files.remove_file(os.path.join(folder, name))

    def _private(self, snapshot: ReadTransaction, layer: Layer) -> IndexReader:
        with files.file_errors("the directory for temporary files"), tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, layer)
            self._write(snapshot, layer, path)
            return IndexReader.open(path)

    def _write(self, snapshot: ReadTransaction, layer: Layer, path: str) -> None:
        builder = IndexBuilder(layer, source="service" if layer == "default" else "", folder=os.path.dirname(path))
        slots = {}
        places = select(*(geolocations.c[name] for name in ("locid", *FIELD_NAMES)))
        for row in self._rows(snapshot, places, layer):
            slots[row[0]] = builder.add_location(*row)
        blocks = select(*(ipblocks.c[name] for name in ("locid", "family", "startipnum", "endipnum")))
        for (locid, family), rows in groupby(self._rows(snapshot, blocks, layer), _owner):
            _, _, firsts, lasts = zip(*rows, strict=True)
            extend = builder.extend_v4 if family == 4 else builder.extend_v6
            extend(slots[locid], list(map(int, firsts)), list(map(int, lasts)))
        builder.write(path)

    def _rows(self, snapshot: ReadTransaction, query: Select[Any], layer: Layer) -> Iterator[Any]:
        # In the database's own order: sorting millions of rows takes some databases longer than it saves here.
        (locid, *_) = query.selected_columns
        result = snapshot.connection.execution_options(yield_per=_ROWS).execute(
            query.where(locid < 0 if layer == "custom" else locid > 0)
        )
        for partition in result.partitions():
            self._go_on()
            yield from partition

    def _go_on(self) -> None:
        if self._is_stopped():
            raise ServiceError("the service is ending: compiling was stopped")


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

    def answer(self, address: str, *, record: bool) -> dict[str, Any]:
        """The object for an address, which it repeats; with ``record``, the record that its fields make.

        :raises InvalidAddressError: if it is malformed
        """
        found = match_in(self.base, self.custom, address, *parse(address))
        flat = flat_not_covered(address) if found is None else found.flat()
        return {**flat, "record": None if found is None else made(found.geolocation, "city")} if record else flat


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
        """True if lookups are answered."""
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
        now = monotonic()
        if now >= self._look_at:
            if self._must_wait(now):
                return None
            self._begin(self._look)
        # Read after it was asked how old they are: a check that ends in between makes them newer.
        return self._layers

    async def layers(self) -> Layers:
        """The layers that answer lookups now.

        :raises RequestRefusedError: ``index-not-ready`` if the first compilation has not ended
        """
        now = monotonic()
        if now >= self._look_at:
            job = self._begin(self._compile if self._layers is None else self._look)
            if job is not None and self._must_wait(now):
                await self._wait(job)
                # What was waited for may have begun to look long before this lookup, as the first compilation does.
                if self._layers is not None and self._must_wait(now):
                    job = self._begin(self._look)
                    if job is not None:
                        await self._wait(job)
        # Read after it was asked how old they are: a check may end before it is waited for.
        if (layers := self._layers) is None:
            raise RequestRefusedError(
                "the index is being compiled: ask again in some seconds"
                if self.problem is None
                else "the index could not be compiled: the service's log says why",
                problem="index-not-ready",
            )
        return layers

    def _must_wait(self, now: float) -> bool:
        """True if an answer of that moment would come from layers that are missing or too old."""
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
