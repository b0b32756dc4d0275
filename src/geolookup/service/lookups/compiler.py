"""From the service's tables to index files: one layer at a time, as a snapshot of the database has it."""

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Select, select

from geolookup.errors import ServiceError, StateBusyError
from geolookup.index.builder import IndexBuilder
from geolookup.index.reader import IndexReader
from geolookup.model.types import FIELD_NAMES, Layer
from geolookup.service.store.schema import geolocations, ipblocks
from geolookup.service.store.store import Snapshot, Store
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

    def custom_layer(self, snapshot: Snapshot) -> IndexReader:
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

    def _publish(self, snapshot: Snapshot, path: str) -> None:
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

    def _private(self, snapshot: Snapshot, layer: Layer) -> IndexReader:
        with files.file_errors("the directory for temporary files"), tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, layer)
            self._write(snapshot, layer, path)
            return IndexReader.open(path)

    def _write(self, snapshot: Snapshot, layer: Layer, path: str) -> None:
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

    def _rows(self, snapshot: Snapshot, query: Select[Any], layer: Layer) -> Iterator[Any]:
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
