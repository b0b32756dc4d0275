"""A folder in memory for temporary files: most of what the tests would wait for are a disk's syncs."""

import os

_FOLDER = "/dev/shm"
#: Several times as much as the tests leave there.
_LEAST_BYTES = 4 << 30


def folder_in_memory() -> str | None:
    """The folder, None if it lacks room, or what lies there cannot be executed, or this process may not write there."""
    try:
        found = os.statvfs(_FOLDER)
    except OSError:
        return None
    if found.f_flag & os.ST_NOEXEC or found.f_bavail * found.f_frsize < _LEAST_BYTES:
        return None
    return _FOLDER if os.access(_FOLDER, os.W_OK) else None
