"""Which files are packed, and reading one all the same; light: numpy is imported only if a file is made again."""

import contextlib
import os
import time

from geolookup.model.errors import StateError
from geolookup.state.base import files
from geolookup.state.base.candidate import read_report
from geolookup.state.base.files import PACKED, UNPACKED
from geolookup.state.base.parts import parts_of, snapshot_path

_OLD_S = 3600.0


def readable(path: str) -> str:
    """The path itself if the file is there; if it is packed, that of the same file made again.

    A path that is neither comes back as it is, so that opening it fails with the reason.

    :raises StateDamagedError: if what is packed is damaged
    :raises StateUnwritableError: if the disk is too full to make it again
    """
    if os.path.exists(path):
        return path
    from geolookup.state.packs.unpacking import made_again  # late: it needs numpy, and this is the rare way

    return made_again(path)


def is_packed(folder: str) -> bool:
    """True if one of a kept generation's own indexes is not there, since its snapshots are packed."""
    home = os.path.dirname(os.path.dirname(folder))
    if all(os.path.exists(os.path.join(folder, name)) for name in ("index", "network")):
        return False
    try:
        record = read_report(folder)["published"]
        parts = parts_of(record)
        gone = [
            name for name in record["files"] if name != "cache.db" and not os.path.exists(os.path.join(folder, name))
        ]
    except (StateError, ValueError, KeyError, TypeError):
        return False
    return any(
        os.path.exists(os.path.join(snapshot_path(home, part.snapshot), name + PACKED))
        for part in parts
        for name in gone
    )


def remove_old(home: str) -> None:
    """Remove the files that were made again an hour ago and more: their readers are done. Under the run lock."""
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
