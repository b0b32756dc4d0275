"""Answers that are built files, and what was named to whom."""

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

from litestar import Request

from geolookup.model.errors import RequestRefusedError
from geolookup.share.shelf import KEEP_S, Catalog, Item, Shelf
from geolookup.share.state import State
from geolookup.web.problems import RECORD
from geolookup.web.stream import FileAnswer, Pace, open_for_reading

AnyRequest = Request[Any, Any, Any]

_MEDIA_TYPES = {
    "mmdb": "application/octet-stream",
    "mmdb.gz": "application/gzip",
    "tar.gz": "application/gzip",
    "tgz": "application/gzip",
    "csv": "text/csv",
}

#: Why a list is refused, and why a file is.
LIST_REFUSALS = ("not-built", "stale-data", "licence-forbids")
FILE_REFUSALS = (
    "unknown-edition",
    "unknown-build",
    *LIST_REFUSALS,
    "stale-precondition",
    "range-not-satisfiable",
    "invalid-parameter",
)


class Files:
    """The shelf as routes use it."""

    def __init__(self, shelf: Shelf, state: State, *, clock: Callable[[], float] = time.time) -> None:
        self._shelf = shelf
        self._state = state
        self._clock = clock
        self._pace = Pace()

    def catalog(self) -> Catalog:
        """The catalog of files.

        :raises RequestRefusedError: ``not-built`` before the first build ended, ``stale-data`` if the data are older
            than the settings allow, ``licence-forbids`` if something in it may not be given out any more
        """
        snapshot = self._state.fresh()
        found = self._shelf.catalog()
        if found is None:
            raise RequestRefusedError("ask again in a moment", problem="not-built")
        if forbidden := self._state.forbidden(snapshot).intersection(found.sources):
            raise RequestRefusedError(f"it has data of {', '.join(sorted(forbidden))}", problem="licence-forbids")
        return found

    def is_built(self) -> bool:
        """True if there is anything."""
        return self._shelf.catalog() is not None

    def item(self, name: str, form: str, digest: str | None = None) -> Item:
        """The newest file, or the one with a digest. Files that were replaced more than ten minutes ago are gone.

        :raises RequestRefusedError: ``unknown-edition`` or ``unknown-build``, and those of `catalog`
        """
        catalog = self.catalog()
        found = catalog.find(name, form, digest)
        if found is not None and self._is_kept(found):
            return found
        if name in catalog.missing:
            raise RequestRefusedError(f"no source of this state says what a {name} holds", problem="unknown-edition")
        if catalog.find(name, form) is None:
            raise RequestRefusedError(f"there is no {name}.{form}"[:200], problem="unknown-edition")
        raise RequestRefusedError("it was replaced more than ten minutes ago", problem="unknown-build")

    def of_day(self, name: str, form: str, is_day: Callable[[Item], bool]) -> Item | None:
        """The newest file of a day, of those that are kept."""
        catalog = self.catalog()
        return next(
            (
                item
                for item in (*catalog.items, *catalog.before)
                if item.name == name and item.form == form and is_day(item) and self._is_kept(item)
            ),
            None,
        )

    def _is_kept(self, item: Item) -> bool:
        return item.replaced_at == 0 or self._clock() - item.replaced_at <= KEEP_S

    def answer(self, request: AnyRequest, item: Item, name: str) -> FileAnswer:
        """The file, or what the request's headers ask for of it.

        :raises RequestRefusedError: ``unknown-build`` if it was removed just now
        """
        asked: dict[str, str] = {}
        for raw, value in request.scope["headers"]:
            key = raw.decode("latin-1").lower()
            text = value.decode("latin-1")
            asked[key] = f"{asked[key]}, {text}" if key in asked else text
        return FileAnswer(
            open_for_reading(self._shelf.path(item)),
            asked,
            tag=item.sha256,
            modified=item.modified,
            media_type=_MEDIA_TYPES[item.form],
            name=name,
            pace=self._pace,
        )

    # A protocol whose download names a day: what it was told of that day must be what it gets.

    def remember(self, request: AnyRequest, item: Item) -> None:
        """Note that this client was told of this file."""
        path = self._note(request, item.name)
        with contextlib.suppress(OSError):  # then it gets the newest, which nearly always is the same
            descriptor, temporary = tempfile.mkstemp(prefix=".new-", dir=os.path.dirname(path))
            with open(descriptor, "w", encoding="ascii") as file:
                file.write(item.of)
            os.replace(temporary, path)

    def remembered(self, request: AnyRequest, name: str) -> str | None:
        """The MD5 of the database that this client was told of less than ten minutes ago."""
        path = self._note(request, name)
        try:
            with open(path, encoding="ascii") as file:
                if self._clock() - os.fstat(file.fileno()).st_mtime > KEEP_S:
                    return None
                return file.read(64)
        except (OSError, UnicodeDecodeError):
            return None

    def _note(self, request: AnyRequest, name: str) -> str:
        """The path of a note: one for each client and edition, so that there are never many."""
        scope: Any = request.scope
        record = scope.get(RECORD)
        client = request.scope.get("client")
        who = (record.token if record is not None else "", client[0] if client else "", name)
        return os.path.join(self._shelf.folder, "named", hashlib.sha256("\0".join(who).encode()).hexdigest())
