"""The stamp of a file, by which a change is noticed without reading it; light, since one lookup passes here."""

import os
from typing import TypeAlias

#: Inode, time of the last change in nanoseconds, and size.
Stamp: TypeAlias = tuple[int, int, int]


def stamp_of(path: str) -> Stamp | None:
    """The stamp of a file; None if it is not there, or cannot be looked at. Another file has another stamp."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
