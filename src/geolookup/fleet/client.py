"""What a reader fetches, and believes: python-tuf's client, over our transport, in a folder that is made durable.

The client checks signatures, versions, ends and lengths by the rules of The Update Framework; which of them was broken
is said in our words. Blobs are believed by the manifest alone.
"""

import contextlib
import hashlib
import io
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tuf.api import exceptions
from tuf.api.metadata import Root, Snapshot, Targets, Timestamp
from tuf.ngclient import FetcherInterface, Updater, UpdaterConfig

from geolookup.base import disk
from geolookup.base.reasons import reason
from geolookup.fleet.manifest import MOST_BYTES, NAME, Blob, Manifest, decoded
from geolookup.fleet.store import BLOBS, METADATA
from geolookup.http.download import Downloader
from geolookup.model.errors import (
    GeoLookupError,
    StateUnwritableError,
    UpstreamAnswerError,
    UpstreamAuthError,
    UpstreamRefusedError,
)
from geolookup.model.reports import Progress, unwatched
from geolookup.state.base import files

#: The bounds of each kind of metadata, in bytes: ours are a few hundred.
_BOUNDS = UpdaterConfig(
    max_root_rotations=256,
    root_max_length=64 << 10,
    timestamp_max_length=16 << 10,
    snapshot_max_length=16 << 10,
    targets_max_length=16 << 10,
)


class Versions(NamedTuple):
    """The versions of a fleet's metadata that a reader has seen, and the keys of those that may only rise.

    They never fall while the keys stay: other keys of snapshot and timestamp are how a fleet comes back from a version
    that somebody made too high.
    """

    root: int
    timestamp: int
    snapshot: int
    targets: int
    keys: str

    def require_not_below(self, before: "Versions", what: str) -> None:
        """See that nothing older is served than before.

        :raises UpstreamAnswerError: if something is
        """
        if self.root < before.root:
            raise UpstreamAnswerError(
                f"{what}: rollback: root.json is older than the one that was followed here before"
            )
        if self.keys != before.keys:
            return
        for name in ("timestamp", "snapshot", "targets"):
            own, seen = getattr(self, name), getattr(before, name)
            if own < seen:
                raise UpstreamAnswerError(
                    f"{what}: rollback: {name}.json has version {own}, and this reader has seen {seen}"
                )


class Seen(NamedTuple):
    """The newest manifest, its SHA-256, the versions that led to it, and when the timestamp ends (ISO 8601, UTC)."""

    manifest: Manifest
    sha256: str
    versions: Versions
    ends_at: str


class Client:
    """The client of one fleet; ``folder`` is for it alone, and its caller holds a lock on it."""

    def __init__(self, folder: str, url: str, root: bytes, downloader: Downloader) -> None:
        self._folder = folder
        self._url = url.rstrip("/")
        self._root = root
        self._fetcher = _Fetcher(downloader)
        self._downloader = downloader
        self.bytes_read = 0
        self.requests = 0

    def look(self, before: Versions | None) -> Seen:
        """Fetch and check the metadata and the manifest, as far as they are new.

        :raises UpstreamAnswerError: if a rule of The Update Framework is broken: the message says which
        :raises UpstreamError: if the server cannot be used
        """
        what = self._downloader.shown(self._url)
        with self._errors(what):
            updater = Updater(
                self._folder,
                f"{self._url}/{METADATA}/",
                self._folder,
                f"{self._url}/{BLOBS}/",
                fetcher=self._fetcher,
                config=_BOUNDS,
                bootstrap=self._root,
            )
            updater.refresh()
            target = updater.get_targetinfo(NAME)
            if target is None or target.length > MOST_BYTES or set(target.hashes) != {"sha256"}:
                raise UpstreamAnswerError(f"{what}: what is signed is not the manifest of a fleet")
            versions, ends_at = _versions(updater)
            if before is not None:
                versions.require_not_below(before, what)
            path = updater.find_cached_target(target) or updater.download_target(target)
            with open(path, "rb") as file:
                data = file.read(MOST_BYTES + 1)
        if hashlib.sha256(data).hexdigest() != target.hashes["sha256"]:
            raise UpstreamAnswerError(f"{what}: the manifest is not the one that was signed")
        _make_durable(self._folder)
        self.bytes_read, self.requests = self._fetcher.bytes_read, self._fetcher.requests
        return Seen(decoded(data, what), target.hashes["sha256"], versions, ends_at)

    def fetch(self, blob: Blob, path: str, *, progress: Progress = unwatched) -> None:
        """Fetch a blob into a file, or the rest of it if the beginning is there.

        :raises UpstreamAnswerError: if it is not what the manifest says
        """
        name = f"{BLOBS}/{blob.sha256}"
        for _ in range(2):
            there = os.path.getsize(path) if os.path.exists(path) else 0
            if there > blob.bytes:
                os.unlink(path)
                there = 0
            if there < blob.bytes:
                self._fetch_rest(name, blob, path, progress)
            if files.file_record(path) == {"bytes": blob.bytes, "sha256": blob.sha256}:
                return
            os.unlink(path)
            if not there:
                break  # else its beginning was not: once more, from there
        raise UpstreamAnswerError(
            f"{self._downloader.shown(self._url)}/{name}: is not what was signed: its size or SHA-256 differs"
        )

    def _fetch_rest(self, name: str, blob: Blob, path: str, progress: Progress) -> None:
        with contextlib.ExitStack() as opened, files.file_errors(path):

            def begin(offset: int) -> Callable[[bytes], object]:
                opened.close()
                file = opened.enter_context(open(path, "ab"))
                file.truncate(offset)
                size = offset

                def write(data: bytes) -> None:
                    nonlocal size
                    size += len(data)
                    if size > blob.bytes:
                        raise UpstreamAnswerError(
                            f"{self._downloader.shown(self._url)}/{name}: endless: it is longer than what was signed"
                        )
                    file.write(data)
                    self.bytes_read += len(data)

                return write

            self.requests += 1
            self._downloader.fetch_rest(f"{self._url}/{name}", begin, lambda: _size(path), progress=progress)

    @contextlib.contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except exceptions.DownloadError as error:
            raise _of_download(error, what) from error
        except exceptions.RepositoryError as error:
            raise UpstreamAnswerError(f"{what}: {_rule(error)}") from error
        except OSError as error:
            raise StateUnwritableError(f"{self._folder}: {reason(error)}") from error


def _size(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0


class _Fetcher(FetcherInterface):
    """Python-tuf's downloads, by our transport: proxies, certificates, tokens, retries, deadlines."""

    def __init__(self, downloader: Downloader) -> None:
        self._downloader = downloader
        self.bytes_read = self.requests = 0

    def _fetch(self, url: str) -> Iterator[bytes]:
        raise NotImplementedError  # `download_bytes` does it, so that an endless file ends

    @contextlib.contextmanager
    def download_file(self, url: str, max_length: int) -> Iterator[Any]:
        """See `FetcherInterface`."""
        yield io.BytesIO(self.download_bytes(url, max_length))

    def download_bytes(self, url: str, max_length: int) -> bytes:
        """See `FetcherInterface`."""
        found = bytearray()

        def begin() -> Callable[[bytes], object]:
            found.clear()
            return write

        def write(data: bytes) -> None:
            if len(found) + len(data) > max_length:
                raise exceptions.DownloadLengthMismatchError(f"more than {max_length} bytes came")
            found.extend(data)
            self.bytes_read += len(data)

        self.requests += 1
        try:
            self._downloader.fetch(url, begin)
        except (UpstreamRefusedError, UpstreamAuthError) as error:
            raise exceptions.DownloadHTTPError(str(error), error.status) from error
        except GeoLookupError as error:
            raise exceptions.DownloadError(str(error)) from error
        return bytes(found)


def _of_download(error: exceptions.DownloadError, what: str) -> GeoLookupError:
    if isinstance(error.__cause__, GeoLookupError):
        cause = error.__cause__
        if isinstance(cause, UpstreamRefusedError):
            return UpstreamAnswerError(f"{what}: nothing is published there, or not all of it: {cause}")
        return cause
    if isinstance(error, exceptions.DownloadLengthMismatchError):
        return UpstreamAnswerError(f"{what}: endless: a file is longer than it may be: {reason(error)}")
    return UpstreamAnswerError(f"{what}: {reason(error)}")


def _rule(error: exceptions.RepositoryError) -> str:
    """The name of the rule that is broken."""
    if isinstance(error, exceptions.ExpiredMetadataError):
        return "freeze: the signatures have ended, so nothing says that this is the newest"
    if isinstance(error, exceptions.BadVersionNumberError):
        return "rollback: an older version is served than one that was seen"
    if isinstance(error, exceptions.UnsignedMetadataError):
        return "not signed by enough of the keys that may: by the keys of another fleet, or of nobody"
    if isinstance(error, exceptions.LengthOrHashMismatchError):
        return "mix and match: a file is not the one that was signed"
    return "unreadable metadata: damaged, or of another release"


def _versions(updater: Updater) -> tuple[Versions, str]:
    trusted = updater._trusted_set  # noqa: SLF001 - it hands out the targets only
    root: Root = trusted.root
    timestamp: Timestamp = trusted.timestamp
    snapshot: Snapshot = trusted.snapshot
    targets: Targets = trusted.targets
    may = sorted({*root.roles[Timestamp.type].keyids, *root.roles[Snapshot.type].keyids})
    keys = hashlib.sha256(" ".join(may).encode()).hexdigest()[:16]
    return Versions(
        root.version, timestamp.version, snapshot.version, targets.version, keys
    ), timestamp.expires.isoformat()


def _make_durable(folder: str) -> None:
    """Sync every file that the client wrote, and the names in the folder: it does neither."""
    with files.file_errors(folder):
        for where in (os.path.join(folder, "root_history"), folder):
            for name in os.listdir(where):
                path = os.path.join(where, name)
                if name.startswith("tmp") and where == folder:  # of a client that was killed
                    os.unlink(path)
                elif stat.S_ISREG(os.lstat(path).st_mode):
                    disk.sync_file(path)
            disk.sync_directory(where)
