"""The readers of what is published: its owner alone, or also the members of a group.

The state directory itself says so: if its group may enter and read it, and it has the set-group-ID bit (mode 2750),
then what is published gets that group, and is readable by it. Everything else, the edits above all, stays its owner's.
"""

import os
import stat
from collections.abc import Iterator

from geolookup.state.base import files
from geolookup.state.base.parts import SNAPSHOTS

_OPEN = stat.S_ISGID | stat.S_IRGRP | stat.S_IXGRP
DIRECTORY_MODE = 0o2750
#: The directories whose content is published; the files beside them are CURRENT, and what is nobody else's business.
_PUBLISHED = ("generations", SNAPSHOTS, "custom")


def group_of(home: str) -> int | None:
    """The number of the group whose members may read what is published in a state directory; None if there is none."""
    try:
        found = os.stat(home)
    except OSError:
        return None
    return found.st_gid if found.st_mode & _OPEN == _OPEN else None


def open_to_group(home: str, path: str, group: int) -> None:
    """Let the group read a file or directory that is complete and about to be published.

    :raises StateUnwritableError: if that fails
    """
    with files.file_errors(path):
        _open(os.path.join(home, os.path.relpath(path, home).partition(os.sep)[0]), group)
        for each in _with_content(path):
            _open(each, group)


def open_home(home: str, group: int) -> None:
    """Let a group read what is published in a state directory, now and from now on. The publish lock must be held.

    :raises StateUnwritableError: if that fails: only its owner may do so, and only for a group that the owner is in
    """
    with files.file_errors(home):
        for name in _PUBLISHED:
            path = os.path.join(home, name)
            if os.path.isdir(path):
                for each in _with_content(path):
                    _open(each, group)
        current = os.path.join(home, "CURRENT")
        if os.path.exists(current):
            _open(current, group)
        # Last: publishers ask the directory, and readers enter by it.
        _open(home, group)


def closed_parents(home: str, group: int) -> Iterator[str]:
    """The directories above a state directory that the members of a group may not enter, the highest first."""
    path = os.path.dirname(os.path.realpath(home))
    found = []
    while True:
        status = os.stat(path)
        if not status.st_mode & stat.S_IXOTH and not (status.st_gid == group and status.st_mode & stat.S_IXGRP):
            found.append(path)
        if os.path.dirname(path) == path:
            return iter(reversed(found))
        path = os.path.dirname(path)


def _with_content(path: str) -> Iterator[str]:
    """A path and what is below it, without what is not complete yet: that has a name that begins with a point."""
    yield path
    for directory, names, others in os.walk(path):
        names[:] = [name for name in names if not name.startswith(".")]
        yield from (os.path.join(directory, name) for name in (*names, *others) if not name.startswith("."))


def _open(path: str, group: int) -> None:
    found = os.lstat(path)
    mode = DIRECTORY_MODE if stat.S_ISDIR(found.st_mode) else 0o640
    if found.st_gid != group:
        os.chown(path, -1, group)
    if stat.S_IMODE(found.st_mode) != mode or found.st_gid != group:  # giving it to a group takes some bits away
        os.chmod(path, mode)
