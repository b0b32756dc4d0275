"""The place that is published to: a folder. It changes file by file, each by a rename that is durable."""

import contextlib
import errno
import os
import secrets
import time
from collections.abc import Iterator
from typing import Protocol

from geolookup.base import disk
from geolookup.base.reasons import reason
from geolookup.model.errors import StateBusyError, StateUnwritableError

BLOBS, METADATA = "blobs", "metadata"
#: Says who publishes here: one builder, so that two never take turns.
OWNER = "builder.json"


class Store(Protocol):
    """The place that is published to. Names are relative, with slashes."""

    def __str__(self) -> str: ...

    def locked(self, home: str) -> contextlib.AbstractContextManager[None]:
        """Keep other publishes out for as long as this one of a state lasts.

        Its caller keeps other publishes of that state out: a lock of its own is one of a publish that was killed.

        :raises StateBusyError: if another one is under way
        """
        ...

    def read(self, name: str, most_bytes: int) -> bytes | None:
        """The bytes of a file; None if there is none. One that is longer is cut."""
        ...

    def sizes(self, folder: str) -> dict[str, tuple[int, float]]:
        """The size in bytes, and the time of change (seconds since 1970), of each file of a folder."""
        ...

    def claim(self, name: str, data: bytes) -> bool:
        """Write a file unless there is one; false if there is."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Write a file in the place of any."""
        ...

    def upload(self, name: str, path: str) -> None:
        """Write a local file in the place of any."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...


class Folder:
    """A folder that a web server serves."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)

    def __str__(self) -> str:
        return self.path

    @contextlib.contextmanager
    def locked(self, _home: str) -> Iterator[None]:
        """See `Store`: by flock, so that it ends with the process."""
        with self._errors("."):
            for name in ("", BLOBS, METADATA):
                path = os.path.join(self.path, name)
                disk.make_directory(path)
                os.chmod(path, os.stat(path).st_mode | 0o055)  # noqa: S103 - for the web server
            lock = disk.locked(os.path.join(self.path, ".lock"), time.monotonic())
        if lock is None:
            raise StateBusyError(f"{self.path}: another machine or process is publishing there")
        with lock:
            self._sweep()
            yield

    def _sweep(self) -> None:
        for name in (BLOBS, METADATA, ""):
            folder = os.path.join(self.path, name)
            with self._errors(name):
                for each in os.listdir(folder):
                    if ".tmp-" in each:
                        os.unlink(os.path.join(folder, each))

    def read(self, name: str, most_bytes: int) -> bytes | None:
        """See `Store`."""
        with self._errors(name):
            try:
                with open(self._path(name), "rb") as file:
                    return file.read(most_bytes)
            except FileNotFoundError:
                return None

    def sizes(self, folder: str) -> dict[str, tuple[int, float]]:
        """See `Store`."""
        found = {}
        with self._errors(folder), os.scandir(self._path(folder)) as entries:
            for entry in entries:
                status = entry.stat()
                found[entry.name] = status.st_size, status.st_mtime
        return found

    def claim(self, name: str, data: bytes) -> bool:
        """See `Store`."""
        with self._errors(name):
            temporary = self._temporary(name)
            disk.write_new(temporary, data)
            os.chmod(temporary, 0o644)
            try:
                os.link(temporary, self._path(name))
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS) or os.path.exists(self._path(name)):
                    raise
                os.rename(temporary, self._path(name))  # under the lock nobody else writes
                return True
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)
            disk.sync_directory(os.path.dirname(self._path(name)))
        return True

    def write(self, name: str, data: bytes) -> None:
        """See `Store`."""
        with self._errors(name):
            disk.replace(self._path(name), data, mode=0o644)

    def upload(self, name: str, path: str) -> None:
        """See `Store`."""
        with self._errors(name), open(path, "rb") as file, disk.replacing(self._path(name), mode=0o644) as descriptor:
            while data := file.read(1 << 20):
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]

    def remove(self, name: str) -> None:
        """See `Store`."""
        with self._errors(name), contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self.path, *name.split("/"))

    def _temporary(self, name: str) -> str:
        return f"{self._path(name)}.tmp-{os.getpid()}-{secrets.token_hex(4)}"

    @contextlib.contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StateUnwritableError(f"{error.filename or self._path(name)}: {reason(error)}") from error
