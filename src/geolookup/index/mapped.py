"""An index file in memory: mapping it, and what a failure to read the map means.

This module stands on the path of ``geolookup 8.8.8.8``: it imports only what costs nothing.
"""

import mmap
import os

from geolookup.errors import IndexDamagedError, IndexFileError
from geolookup.fields import FIELDS
from geolookup.index.layout import ITEM_FORMATS, SECTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import numpy as np

    from geolookup.index.layout import Header

_FILE_TYPE = 0o170000
_REGULAR_FILE = 0o100000


def map_file(name: str) -> mmap.mmap:
    """Map the whole file ``name``, read-only, for a few lookups: see `advise_many`.

    :raises IndexFileError: if the file does not exist, or it cannot be read
    :raises IndexDamagedError: if it is too short for an index file
    """
    try:
        # Not blocking, since opening a pipe by mistake would otherwise wait for a writer.
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise IndexFileError(f"{name}: {getattr(error, 'strerror', None) or error}") from error
    try:
        status = os.fstat(descriptor)
        if status.st_mode & _FILE_TYPE != _REGULAR_FILE:
            raise IndexFileError(f"{name}: not a regular file")
        if status.st_size < 8:
            raise IndexDamagedError(f"{name}: not an index file, or truncated: it has {status.st_size} bytes")
        mapped = mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        from geolookup.reasons import reason  # late: a plain lookup passes here and meets no damage

        raise IndexFileError(f"{name}: cannot be mapped: {reason(error)}") from error
    finally:
        os.close(descriptor)
    # A lookup reads some 30 pages here and there. With each the kernel would read on, megabytes on some disks.
    _advise(mapped, "MADV_RANDOM")
    return mapped


def advise_many(mapped: mmap.mmap) -> None:
    """Have the kernel read ahead in a map again, for whoever reads much of it; a closed one is left alone."""
    _advise(mapped, "MADV_NORMAL")


def let_go(mapped: mmap.mmap) -> None:
    """Have the system take a map's pages out of this process's memory: it keeps them in its cache, if there is room."""
    _advise(mapped, "MADV_DONTNEED")


def _advise(mapped: mmap.mmap, name: str) -> None:
    try:  # noqa: SIM105 - contextlib would have to be imported
        mapped.madvise(getattr(mmap, name))
    except (AttributeError, OSError, ValueError):
        # The system knows no such advice, or the map is closed. Lookups still work, only slower.
        pass


def damaged(path: str, what: str) -> IndexDamagedError:
    """The error for something in the file at ``path`` that its writer cannot have written."""
    return IndexDamagedError(f"{path}: {what}: the file is damaged")


def failed(path: str, error: Exception) -> IndexFileError:
    """The error for a view of the map that could not be read: a wrong index is damage, else the map was closed."""
    if isinstance(error, IndexError):
        return damaged(path, "a table points outside its section")
    return IndexFileError(f"{path}: the index was closed")


def section_arrays(header: "Header", view: "Callable[[str], memoryview[int]]") -> "dict[str, np.ndarray[Any, Any]]":
    """Every known section by name as a numpy array over its ``view``; a missing field is unknown everywhere."""
    import numpy as np

    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, section in header.sections.items():
        if name in SECTIONS:
            kind = ITEM_FORMATS[section.dtype][0]
            # numpy refuses to look at the very end of a buffer, even for nothing.
            arrays[name] = np.frombuffer(view(name), kind) if section.length else np.empty(0, kind)
    for field in FIELDS:
        name = f"loc.{field.name}"
        if name not in arrays:
            # The number of the text "", or no number.
            nothing = 0 if field.limit is None else np.nan
            arrays[name] = np.full(header.counts["locations"], nothing, ITEM_FORMATS[SECTIONS[name]][0])
    return arrays
