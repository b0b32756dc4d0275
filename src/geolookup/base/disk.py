"""The system's calls for files that are durable, private or locked; its errors are not translated here."""

import contextlib
import errno
import fcntl
import os
import random
import time
from collections.abc import Iterator
from io import FileIO

#: Of Linux: relative to the working directory, and that two names change places.
_HERE, _EXCHANGE = -100, 2


def _sync(path: str, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        # A failure is never tried again: the kernel may have dropped the pages, and would say "synced" next time.
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def sync_file(path: str) -> None:
    """Make a file's bytes durable."""
    _sync(path, os.O_RDONLY)


def make_directory(path: str) -> None:
    """Create a directory of mode 0700 with its parents, durably, unless it is there.

    Not `os.makedirs`: the parents that it makes have the mode that the umask leaves.
    """
    if os.path.isdir(path):
        return
    parent = os.path.dirname(os.path.abspath(path))
    if parent != path:
        make_directory(parent)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError as error:
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, "a file", path) from error
    sync_directory(parent)


def open_private(path: str) -> int:
    """Create a file that must not exist yet, readable by its owner only, and open it: its descriptor."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def write_new(path: str, data: bytes) -> None:
    """Write a file that must not exist yet, durably; its name is durable once the directory is synced."""
    with open(open_private(path), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def overwrite(path: str, data: bytes) -> None:
    """Write over the beginning of a file that is there, durably. Where it had bytes before, that takes no room."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, data, 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(path: str, target: str) -> None:
    """Give a file or directory that is durable itself another name in the same file system, durably."""
    os.rename(path, target)
    sync_directory(os.path.dirname(target))


def exchange(path: str, other: str) -> None:
    """Let two names on one disk change places, at one moment if the system can, else by three renames."""
    import ctypes  # late: one lookup from the shell passes here, and needs none of it

    exchanged = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if exchanged is not None and exchanged(_HERE, os.fsencode(path), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return
    aside = f"{path}.aside"
    os.rename(other, aside)
    os.rename(path, other)
    os.rename(aside, path)


@contextlib.contextmanager
def replacing(path: str, *, mode: int = 0o600, hidden: bool = False) -> Iterator[int]:
    """The descriptor of a new file that takes the place of any at ``path`` at the end, so that readers see old or new.

    Its bytes are durable before its name is. On a failure it goes, and the old file stays. Until the end it stands
    beside ``path``; ``hidden`` is for folders of people, where a kill may leave it.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f"{'.' if hidden else ''}{name}.tmp-{os.getpid()}-{time.monotonic_ns():x}")
    try:
        descriptor = open_private(temporary)
        try:
            if mode != 0o600:
                os.fchmod(descriptor, mode)  # the umask may take some of it away
            yield descriptor
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_directory(folder)


def replace(path: str, data: bytes, *, mode: int = 0o600) -> None:
    """Put a new file with these bytes in the place of any that is there: see `replacing`."""
    with replacing(path, mode=mode) as descriptor, open(descriptor, "wb", closefd=False) as file:
        file.write(data)


def open_lock(path: str) -> int:
    """Open a file to lock, created if it is missing: its descriptor.

    It is never unlinked: that could let two processes hold the lock.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def take_lock(descriptor: int, deadline: float, *, first_pause_s: float = 0.001, last_pause_s: float = 0.05) -> bool:
    """Take an exclusive flock, looking again and again until ``deadline``; false if another process still has it.

    ``deadline`` is a moment of `time.monotonic`. Pauses between two looks double from the first to the last, give or
    take a half, so that processes do not look in step.
    """
    pause_s = first_pause_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause_s * random.uniform(0.5, 1.5))  # noqa: S311 - spreads processes, hides nothing
            pause_s = min(pause_s * 2, last_pause_s)
        else:
            return True


def locked(path: str, deadline: float) -> FileIO | None:
    """The file, opened as by `open_lock` and locked as by `take_lock`; closing it lets the lock go.

    None if another process still has it.
    """
    file = FileIO(open_lock(path))
    try:
        if take_lock(file.fileno(), deadline):
            return file
    except BaseException:
        file.close()
        raise
    file.close()
    return None


def is_locked(path: str) -> bool:
    """True if another process has the file locked now (flock). False if the file is missing or cannot be opened.

    The check takes a shared lock for an instant.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False
