"""Durable files and locks: what publishing is made of."""

import contextlib
import errno
import hashlib
import os
import pwd
import shlex
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from io import FileIO

from geolookup.base import disk
from geolookup.model.errors import (
    IndexFileError,
    StateBusyError,
    StateTooNewError,
    StateUnreadableError,
    StateUnwritableError,
)

_CHUNK_BYTES = 1 << 20
#: So begins the name of what is being made; nobody reads it.
TEMPORARY = ".tmp-"
#: So begins the name of a file that only tries whether it can be written.
CHECK = "check.tmp-"
#: So begins the name of what a backup of the state is made of, and of the lock beside it.
BACKUP_STAGE = "backup.tmp-"
#: The end of a packed file's name, and the folder of packed files that were made again.
PACKED, UNPACKED = ".pack", "unpacked"
FULL = "the disk is full: make room there"
_UNWRITABLE = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: "the disk quota is used up: make room there",
    errno.EROFS: "the file system is read-only",
    errno.EMFILE: "this process has too many open files: raise its limit",
    errno.ENFILE: "this machine has too many open files",
    errno.EIO: "the disk failed: what was published is as it was",
    errno.ENOTDIR: "there is a file instead of a directory",
}


@contextlib.contextmanager
def file_errors(what: str) -> Iterator[None]:
    """Turn errors of the file system into ours; ``what`` names the file or directory in the message.

    :raises StateUnwritableError: for any OSError, and for an index file that could not be written because of one
    """
    try:
        yield
    except OSError as error:
        raise StateUnwritableError(f"{what}: {_reason(what, error)}") from error
    except IndexFileError as error:
        # The index knows nothing of state directories; in a sync, its full disk is the same full disk.
        if isinstance(error.__cause__, OSError):
            raise StateUnwritableError(f"{what}: {_reason(what, error.__cause__)}") from error
        raise


def _reason(path: str, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return _forbidden(path, "write there")
    return _UNWRITABLE.get(error.errno or 0, error.strerror or str(error))


def unreleased(path: str) -> StateTooNewError:
    """The error of a file of a build before the first release: no release reads what those wrote."""
    return StateTooNewError(
        f"{path}: made by an unreleased build: sync into a new directory "
        "(edits can be taken along by `geolookup custom export`, if that build can still be run)"
    )


def unreadable(path: str) -> StateUnreadableError:
    """The error of a user who may not read this file or directory: whose it is, and what to do."""
    return StateUnreadableError(f"{path}: {_forbidden(path, 'read it')}")


def _forbidden(path: str, what: str) -> str:
    me = user_name(os.geteuid())
    found = _in_the_way(path, os.R_OK if what == "read it" else os.W_OK)
    if found is None:
        return f"this user ({me}) may not {what}: check the owner and mode"
    where, owner, mode = found
    whose = f"{where} belongs to {owner} (mode {mode:04o})"
    own = f"or set GEOLOOKUP_HOME to a directory of {me}'s own"
    if owner == me:
        return f"this user ({me}) may not {what}: {whose}: chmod u+rwX {shlex.quote(where)}, {own}"
    return f"this user ({me}) may not {what}: {whose}: run geolookup as {owner} (`sudo -u {owner} geolookup`), {own}"


def _in_the_way(path: str, need: int) -> tuple[str, str, int] | None:
    """The first folder on the way to a path that this user may not use, its owner and mode; None if all may be."""
    path = os.path.abspath(path)
    parents = []
    while path != os.path.dirname(path):
        parents.append(path)
        path = os.path.dirname(path)
    last = None
    for each in reversed(parents):
        try:
            found = os.stat(each)
        except OSError:
            break  # not there: making it takes write access to the last one that is
        last = (each, user_name(found.st_uid), stat.S_IMODE(found.st_mode))
        if stat.S_ISDIR(found.st_mode) and not os.access(each, os.X_OK):
            return last
    return last if last is not None and not os.access(last[0], need) else None


def user_name(number: int) -> str:
    """The name of a user of this machine; of one without a name, the number."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def open_to_all(path: str) -> str | None:
    """The warning if every user of this machine may write to a directory; None if not, or if it is not there."""
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return None
    if not mode & 0o002:
        return None
    return (
        f"{path}: every user of this machine may write there (mode {mode:04o}), and so change what lookups answer and "
        f"what is pushed: chmod 700 {shlex.quote(path)}"
    )


def nearest_directory(path: str) -> str:
    """The directory, or the nearest one above it that is there."""
    while not os.path.isdir(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path


def is_read_only(path: str) -> bool:
    """True if the file system of a directory is mounted read-only."""
    return not os.access(path, os.W_OK) and bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def make_directory(path: str) -> None:
    """Create a directory of mode 0700 with its parents, durably, unless it is there."""
    with file_errors(path):
        disk.make_directory(path)


def names_in(path: str) -> list[str]:
    """The names in a directory, in any order."""
    with file_errors(path):
        return os.listdir(path)


def rename_durably(path: str, target: str) -> None:
    """Give a file or directory that is durable itself another name, durably.

    :raises StateUnwritableError: naming ``target``, if that fails
    """
    with file_errors(target):
        disk.rename(path, target)


def replace_durably(path: str, data: bytes, *, mode: int = 0o600) -> None:
    """Replace a file by rename, so that readers see the old bytes or the new ones.

    :raises StateUnwritableError: naming the file, if that fails
    """
    with file_errors(path):
        disk.replace(path, data, mode=mode)


def file_record(path: str, on_bytes: Callable[[int], object] = lambda _count: None) -> dict[str, int | str]:
    """A file's size and SHA-256, as CURRENT records them; ``on_bytes`` is told how many more bytes were read."""
    with open(path, "rb") as file:
        digest, chunk = hashlib.sha256(), memoryview(bytearray(_CHUNK_BYTES))
        while count := file.readinto(chunk):
            digest.update(chunk[:count])
            on_bytes(count)
        return {"bytes": os.fstat(file.fileno()).st_size, "sha256": digest.hexdigest()}


def remove_file(path: str) -> None:
    """Remove a file; if it is gone already, nothing happens; if it cannot be removed, it is left."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def remove_tree(path: str) -> None:
    """Remove a directory and all in it; if it is gone already, nothing happens; if it cannot be removed, it is left."""
    shutil.rmtree(path, ignore_errors=True)


def discard_tree(path: str, temporary: str) -> None:
    """Remove a directory whose name says that it is whole: it is renamed to ``temporary`` first."""
    with contextlib.suppress(OSError):
        os.rename(path, temporary)
        remove_tree(temporary)


def tree_bytes(path: str) -> int:
    """The bytes of all files in a directory; what goes away meanwhile counts for nothing."""
    total = 0
    for directory, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(directory, name)).st_size
    return total


def require_space(path: str, needed_bytes: int) -> None:
    """Refuse to begin if there is too little room.

    :raises StateUnwritableError: if less than ``needed_bytes`` is free for this user
    """
    found = free_bytes(path)
    if found < needed_bytes:
        raise StateUnwritableError(
            f"{path}: about {needed_bytes >> 20} MiB are needed and {found >> 20} MiB are free: make room there"
        )


def free_bytes(path: str) -> int:
    """The bytes that this user may still write on the file system of a directory."""
    with file_errors(path):
        found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def lock(path: str, *, wait_s: float, busy: str) -> FileIO:
    """Take an exclusive flock on ``path``, whose file is created if it is missing, and never unlinked.

    :returns: the file; closing it, or the end of a ``with``, lets the lock go
    :raises StateBusyError: with the message ``busy``, if another process still holds it after ``wait_s`` seconds
    :raises StateUnwritableError: if the lock file cannot be opened, or its file system has no locks
    """
    with file_errors(path):
        file = disk.locked(path, time.monotonic() + wait_s)
    if file is None:
        raise StateBusyError(busy)
    return file
