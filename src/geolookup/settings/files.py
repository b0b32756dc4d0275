"""Writing the files of the settings: one writer at a time, replaced by rename, their mode and owner kept."""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator

from geolookup.base import disk
from geolookup.errors import SettingsError, StateBusyError, StateUnwritableError

_WAIT_S = 10.0
_NEW_MODE = 0o644


@contextlib.contextmanager
def one_writer(folder: str) -> Iterator[None]:
    """Only one process at a time edits the settings in a folder.

    :raises StateBusyError: if another one does not finish
    :raises StateUnwritableError: if the folder cannot be opened or locked
    """
    # The folder itself is locked, so that no file of a lock is left beside the settings.
    with writing_errors(folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            locked = disk.take_lock(descriptor, time.monotonic() + _WAIT_S)
        except OSError as error:
            raise StateUnwritableError(f"{folder}: locking failed: {error.strerror}") from error
        if not locked:
            raise StateBusyError(f"{folder}: the settings are being edited by another run")
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def writing_errors(path: str) -> Iterator[None]:
    """:raises StateUnwritableError: naming ``path``, for an OSError"""
    try:
        yield
    except OSError as error:
        raise StateUnwritableError(f"{path}: writing failed: {error.strerror}") from error


def read(path: str) -> bytes | None:
    """The bytes of a file, None if it is not there.

    :raises SettingsError: if it cannot be read
    """
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"{path}: reading failed: {error.strerror}") from error


def replace(path: str, before: bytes | None, after: bytes) -> None:
    """Replace the file by rename, and keep its mode and owner, unless it was changed meanwhile."""
    folder = os.path.dirname(path)
    with writing_errors(path):
        descriptor, temporary = tempfile.mkstemp(prefix=".geolookup.toml.", dir=folder)
        try:
            with open(descriptor, "wb") as file:
                if before is None:
                    os.fchmod(descriptor, _NEW_MODE)
                else:
                    status = os.stat(path)
                    os.fchmod(descriptor, status.st_mode & 0o7777)
                    with contextlib.suppress(PermissionError):  # only root can give a file to its owner
                        os.fchown(descriptor, status.st_uid, status.st_gid)
                file.write(after)
                file.flush()
                os.fsync(descriptor)
            if read(path) != before:
                raise SettingsError(f"{path}: the file was changed meanwhile: run the command again")
            os.rename(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        disk.sync_directory(folder)


def write_secret(path: str, secret: str) -> None:
    """Write a file that only its owner can read (mode 0600), in place of any that is there.

    :raises StateUnwritableError: if it cannot be written
    """
    folder = os.path.dirname(path)
    with writing_errors(path):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        disk.replace(path, f"{secret}\n".encode("ascii"))
