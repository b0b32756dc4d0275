"""A folder in memory for temporary files: most of what the tests would wait for are a disk's syncs."""

import os
import stat

_MEMORY = "/dev/shm"
#: Several times as much as the tests leave there.
_LEAST_BYTES = 4 << 30


def folder_in_memory() -> str | None:
    """This user's folder, the same for each run, so that pytest removes what earlier runs left.

    None if there is no room, if what lies there cannot be executed, or if the folder is not this user's alone.
    """
    folder = os.path.join(_MEMORY, f"geolookup-tests-{os.getuid()}")
    try:
        found = os.statvfs(_MEMORY)
        if found.f_flag & os.ST_NOEXEC or found.f_bavail * found.f_frsize < _LEAST_BYTES:
            return None
        os.makedirs(folder, mode=0o711, exist_ok=True)
        status = os.lstat(folder)
    except OSError:
        return None
    # Others may pass through, as in /tmp: some tests run a command as another user.
    private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    return folder if private else None
