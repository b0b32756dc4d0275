"""What packed files are called, and the folder of those that were made again for a moment."""

import contextlib
import os
import time

from geolookup.errors import StateError
from geolookup.state.base import files
from geolookup.state.base.candidate import read_report
from geolookup.state.base.parts import parts_of, snapshot_path

#: The end of a packed file's name.
PACKED = ".pack"
UNPACKED = "unpacked"
_OLD_S = 3600.0


def is_packed(folder: str) -> bool:
    """Whether a kept generation's own files are not there, since its snapshots are packed."""
    if os.path.exists(os.path.join(folder, "index")):
        return False
    home = os.path.dirname(os.path.dirname(folder))
    try:
        parts = parts_of(read_report(folder)["published"])
    except (StateError, ValueError, KeyError, TypeError):
        return False
    return any(os.path.exists(os.path.join(snapshot_path(home, part.snapshot), "index" + PACKED)) for part in parts)


def remove_old(home: str) -> None:
    """Remove what was made again for somebody who is done with it by now. Under the run lock."""
    store = os.path.join(home, UNPACKED)
    if not os.path.isdir(store):
        return
    for name in files.names_in(store):
        path = os.path.join(store, name)
        with contextlib.suppress(OSError):
            if name.startswith(files.TEMPORARY) or os.stat(path).st_mtime < time.time() - _OLD_S:
                os.unlink(path)
    with contextlib.suppress(OSError):
        os.rmdir(store)
