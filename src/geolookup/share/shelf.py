"""The shelf of built files: a private folder that all processes of one service share, with files named by content.

```
lock           flock, held by the service whose folder it is
catalog.json   which files there are: replaced by rename, so each reader sees one build as a whole
files/SHA256   one built file; never changed, removed some time after it was replaced
named/         the files that metadata named, by client: see `geolookup.share.named`
```

Only the process that builds writes the catalog; those that answer read it.
"""

import contextlib
import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator

import msgspec

from geolookup.base import disk
from geolookup.base.stamp import Stamp, stamp_of
from geolookup.model.errors import DataFileError

#: Seconds that a file stays after it was replaced: metadata may have named it just before.
KEEP_S = 600.0
#: Seconds more, for processes that have not seen the newest catalog yet.
_SLACK_S = 10.0
_CATALOG = "catalog.json"
_PIECE_BYTES = 1 << 20


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One built file: a ``form`` (``mmdb``, ``mmdb.gz``, ``tar.gz``, ``tgz`` or ``csv``) of an edition or the geofeed.

    ``of`` is the MD5 of the database in it. ``published`` is when its content was; ``modified`` the same or later, so
    that each content has a later one than that before it; ``replaced_at`` when a newer one took its place (0 if none
    has): all in seconds since 1970.
    """

    name: str
    form: str
    sha256: str
    md5: str
    size_bytes: int
    of: str
    published: int = 0
    modified: int = 0
    replaced_at: float = 0.0


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """The catalog of files. ``key`` says of which publish, ``published`` when that was, ``built_at`` when it was built.

    ``items`` are those of the newest build, ``before`` those that it and earlier ones replaced, the newest first.
    ``sources`` are those whose data are in the newest build, ``missing`` the editions of which no source says anything.
    """

    key: str
    published: int
    built_at: float
    items: tuple[Item, ...]
    sources: tuple[str, ...]
    before: tuple[Item, ...] = ()
    missing: tuple[str, ...] = ()

    def find(self, name: str, form: str, digest: str | None = None) -> Item | None:
        """The newest file of a name and form; or, of those that are kept, the one with this SHA-256 or MD5."""
        for item in (*self.items, *self.before):
            if item.name == name and item.form == form and digest in (None, item.sha256, item.md5):
                return item
        return None

    def holding(self, name: str, form: str, md5: str) -> Item | None:
        """The file of a form with the database that has this MD5, if it is kept."""
        for item in (*self.items, *self.before):
            if item.name == name and item.form == form and item.of == md5:
                return item
        return None


class Shelf:
    """The folder, for a process that reads it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._path = os.path.join(folder, _CATALOG)
        self._seen: Stamp | None = None
        self._catalog: Catalog | None = None
        self._lock = threading.Lock()

    def catalog(self) -> Catalog | None:
        """The newest catalog; None if nothing was built yet."""
        seen = stamp_of(self._path)
        if seen is not None and seen != self._seen:
            with self._lock, contextlib.suppress(OSError, msgspec.DecodeError), open(self._path, "rb") as file:
                self._catalog = msgspec.json.decode(file.read(), type=Catalog)
                self._seen = seen
        return self._catalog

    def path(self, item: Item) -> str:
        """The path of the file."""
        return os.path.join(self.folder, "files", item.sha256)


class Bench(Shelf):
    """The folder, for the one process that builds: adds files, replaces the catalog, removes what is over."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        for each in ("files", "named"):
            os.makedirs(os.path.join(folder, each), mode=0o700, exist_ok=True)

    @contextlib.contextmanager
    def adding(self, name: str, form: str, of: str = "") -> Iterator["Adding"]:
        """A file to write, which stands under its digest at the end; ``of`` "" if it is the database itself.

        :raises DataFileError: if it cannot be written
        """
        folder = os.path.join(self.folder, "files")
        try:
            with tempfile.NamedTemporaryFile(prefix=".new-", dir=folder, delete=False) as file:
                try:
                    added = Adding(file)
                    yield added
                    file.flush()
                    os.fsync(file.fileno())
                    added.item = Item(
                        name=name,
                        form=form,
                        sha256=added.sha256.hexdigest(),
                        md5=added.md5.hexdigest(),
                        size_bytes=added.size_bytes,
                        of=of or added.md5.hexdigest(),
                    )
                    os.replace(file.name, self.path(added.item))
                except BaseException:
                    with contextlib.suppress(OSError):
                        os.unlink(file.name)
                    raise
        except OSError as error:
            raise DataFileError(f"{folder}: writing failed: {error.strerror}") from error

    def scratch(self, pieces: Iterable[bytes]) -> Callable[[], Iterator[bytes]]:
        """Keep something on disk until this build ends: what it returns reads it, from the beginning each time.

        :raises DataFileError: if it cannot be written
        """
        try:
            # Without a name: it goes with this process, however that ends.
            file = tempfile.TemporaryFile(dir=os.path.join(self.folder, "files"))  # noqa: SIM115 - read later
            for octets in pieces:
                file.write(octets)
            file.flush()
        except OSError as error:
            raise DataFileError(f"{self.folder}: writing failed: {error.strerror}") from error

        def read() -> Iterator[bytes]:
            at = 0
            try:
                while octets := os.pread(file.fileno(), _PIECE_BYTES, at):
                    yield octets
                    at += len(octets)
            except OSError as error:
                raise DataFileError(f"{self.folder}: reading failed: {error.strerror}") from error

        return read

    def publish(
        self,
        key: str,
        published: int,
        items: tuple[Item, ...],
        now: float,
        *,
        sources: tuple[str, ...],
        missing: tuple[str, ...] = (),
    ) -> None:
        """Put a new build in the place of the one before, whose files stay for a while.

        :raises DataFileError: if the catalog cannot be written
        """
        old = self.catalog()
        known = {(item.name, item.form): item for item in old.items} if old is not None else {}
        dated = []
        for item in items:
            last = known.get((item.name, item.form))
            if last is not None and last.sha256 == item.sha256:
                dated.append(last)
                continue
            # Later than before even if the clock or the state went back: clients compare these times.
            modified = published if last is None else max(published, last.modified + 1)
            dated.append(msgspec.structs.replace(item, published=published, modified=modified))
        kept = {(item.name, item.form, item.sha256) for item in items}
        replaced = [
            msgspec.structs.replace(item, replaced_at=now)
            for item in known.values()
            if (item.name, item.form, item.sha256) not in kept
        ]
        before = (*replaced, *(old.before if old is not None else ()))
        made = tuple(dated)
        self._write(
            Catalog(
                key=key,
                published=published,
                built_at=now,
                items=made,
                sources=sources,
                before=before,
                missing=missing,
            )
        )

    def sweep(self, now: float) -> None:
        """Forget files that were replaced long ago, and remove files that no build has, of killed builds too."""
        catalog = self.catalog()
        if catalog is not None:
            kept = tuple(item for item in catalog.before if now - item.replaced_at < KEEP_S + _SLACK_S)
            if kept != catalog.before:
                catalog = msgspec.structs.replace(catalog, before=kept)
                self._write(catalog)
        wanted = {item.sha256 for item in (*catalog.items, *catalog.before)} if catalog is not None else set()
        for name in os.listdir(self.folder):
            if name.startswith(f"{_CATALOG}."):  # the temporary of a build that was killed
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.folder, name))
        folder = os.path.join(self.folder, "files")
        for name in os.listdir(folder):
            if name not in wanted:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, name))
        named = os.path.join(self.folder, "named")
        for name in os.listdir(named):
            with contextlib.suppress(OSError):
                if now - os.stat(os.path.join(named, name)).st_mtime >= KEEP_S + _SLACK_S:
                    os.unlink(os.path.join(named, name))

    def _write(self, catalog: Catalog) -> None:
        path = os.path.join(self.folder, _CATALOG)
        try:
            disk.replace(path, msgspec.json.encode(catalog))
        except OSError as error:
            raise DataFileError(f"{path}: writing failed: {error.strerror}") from error


class Adding:
    """A file that is being written, with its digests so far. ``item`` is there once it is complete."""

    def __init__(self, file: "tempfile._TemporaryFileWrapper[bytes]") -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        # It identifies content for clients that ask for it, and protects nothing.
        self.md5 = hashlib.md5(usedforsecurity=False)
        self.size_bytes = 0
        self.item: Item

    def write(self, octets: bytes) -> None:
        """Write some more."""
        self._file.write(octets)
        self.sha256.update(octets)
        self.md5.update(octets)
        self.size_bytes += len(octets)
