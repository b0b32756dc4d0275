"""A source as a file of this machine: looked at for news, and fetched if it is elsewhere."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from geolookup.errors import DataFileError, UpstreamRefusedError
from geolookup.http.download import Downloader, Fetched
from geolookup.settings.secrets import read_source_secret
from geolookup.sources.country_ranges import bundled_ranges_path
from geolookup.sources.definition import TOKEN, Definition
from geolookup.state.base import clock, files
from geolookup.state.base.parts import REGISTRY
from geolookup.sync.pull.report import PullReport
from geolookup.sync.pull.run import Pull

_CHUNK = 1 << 20
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file or folder to be read; ``path`` is None if it is known to have nothing new.

    ``entry`` is what CURRENT remembers, so that the next sync can tell whether there is anything new.
    """

    path: str | None
    entry: dict[str, Any] = field(default_factory=dict)


@contextlib.contextmanager
def local_file(
    pull: Pull, definition: Definition, report: PullReport, known: Mapping[str, Any], folder: str
) -> Iterator[Found]:
    """The source as a file. ``known`` is what CURRENT remembers of the snapshot that is usable, else empty.

    What is fetched is in a temporary file in ``folder`` for as long as the context lasts.

    :raises DataFileError: if it cannot be read
    :raises UpstreamError: if it cannot be fetched
    :raises SettingsError: if its secret or address cannot be used
    """
    if definition.kind == REGISTRY and not definition.location:
        yield _unless_known(bundled_ranges_path(), known)
    elif definition.is_remote:
        with files.file_errors(folder), tempfile.TemporaryDirectory(prefix=".fetched-", dir=folder) as inside:
            yield _fetched(pull, definition, report, known, os.path.join(inside, "file"))
    else:
        (path,) = definition.addresses(clock.wall().date(), None)[:1]
        yield _unless_known(path, known)


def _unless_known(path: str, known: Mapping[str, Any]) -> Found:
    stamp = _stamp(path)
    if known and known.get("file") == stamp:
        return Found(path=None, entry={"file": stamp})
    digest = _digest(path)
    entry = {"file": stamp, "file_digest": digest}
    return Found(path=None if known.get("file_digest") == digest else path, entry=entry)


def _fetched(pull: Pull, definition: Definition, report: PullReport, known: Mapping[str, Any], path: str) -> Found:
    secret = None if definition.settings is None else read_source_secret(definition.settings)
    addresses = definition.addresses(clock.wall().date(), secret)
    auth = "" if TOKEN in definition.location else definition.auth
    with Downloader(pull.settings, secret=secret, auth=auth, auth_header=definition.auth_header) as downloader:
        for position, address in enumerate(addresses):
            shown = downloader.shown(address)
            same = known if known.get("address") == shown else {}
            try:
                fetched = _fetch(pull, downloader, address, same, path)
            except UpstreamRefusedError as error:
                if error.status != _NOT_FOUND or position + 1 == len(addresses):
                    raise
                report.warnings.append(f"{definition.name}: {shown} is not there yet: the month before is used")
                continue
            break
    report.bytes_read = fetched.bytes_read
    entry = {"etag": fetched.etag, "last_modified": fetched.last_modified, "address": shown}
    if fetched.unchanged:
        return Found(path=None, entry=entry)
    digest = _digest(path)
    return Found(path=None if known.get("file_digest") == digest else path, entry={**entry, "file_digest": digest})


def _fetch(pull: Pull, downloader: Downloader, address: str, known: Mapping[str, Any], path: str) -> Fetched:
    with contextlib.ExitStack() as opened:

        def begin() -> Any:
            opened.close()  # of an attempt that broke off
            return opened.enter_context(open(path, "wb")).write

        return downloader.fetch(
            address,
            begin,
            etag=known.get("etag"),
            last_modified=known.get("last_modified"),
            progress=pull.progress,
        )


def _members(path: str) -> list[str]:
    """The file, or the files of a folder in the order of their names."""
    if not os.path.isdir(path):
        return [path]
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)


def _stamp(path: str) -> str:
    """What a file's size and time of change say; of a folder, those of all its files."""
    with _readable(path):
        found = [(each, os.stat(each)) for each in _members(path)]
        text = "\n".join(f"{each} {stat.st_size} {stat.st_mtime_ns} {stat.st_ino}" for each, stat in found)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _digest(path: str) -> str:
    """The SHA-256 of a file's bytes; of a folder, of all its files with their names."""
    with _readable(path):
        whole = hashlib.sha256()
        for each in _members(path):
            with open(each, "rb") as file:
                content = hashlib.file_digest(file, "sha256").digest()
            whole.update(os.path.relpath(each, path).encode("utf-8", "surrogateescape") + b"\0" + content)
        return whole.hexdigest()


@contextlib.contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataFileError(f"{path}: reading failed: {error.strerror}") from error
