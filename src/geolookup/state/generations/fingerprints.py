"""Fingerprints of all answers, kept beside what they are of: one of millions of blocks takes seconds.

A line of the file ``fingerprints`` has the SHA-256 of an index and of a custom layer, as CURRENT names them, the
fingerprint of both together, and a checksum of these. So none is ever taken for that of other files: an edit or a sync
publishes files with other digests. Only the owner of the state directory keeps any, and nothing depends on it: where
they cannot be kept, they are computed in each process that asks.
"""

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING, Final

from geolookup.base import disk
from geolookup.state.base.current import overlay_path

if TYPE_CHECKING:
    from geolookup.index.compare import LayerPair
    from geolookup.state.base.current import Current

#: Beside CURRENT.
FINGERPRINTS: Final = "fingerprints"
_KEPT: Final = 32
#: In each checksum: a release whose fingerprints are of another kind has another one.
_KIND: Final = b"geolookup-answers-1"
_MAX_BYTES: Final = 1 << 16
#: Those that this process has computed or read, by the digests of their files.
_known: dict[tuple[str, str], str] = {}


def fingerprint_of(home: str, current: "Current", layers: "LayerPair") -> str:
    """The fingerprint of ``layers``; it is kept if they are what ``current`` names.

    :raises IndexDamagedError: if it has to be computed, and a file cannot be followed
    """
    if current.recovered is not None or layers[1].path != overlay_path(home, current.overlay):
        return _computed(layers)  # it is not what CURRENT names, or in a VRF
    key = str(current.published["files"]["index"]["sha256"]), str(current.overlay_file["sha256"])
    if key not in _known:
        kept = _kept(home)
        if key not in kept:
            kept = {key: _computed(layers), **kept}
            with contextlib.suppress(OSError):
                _keep(home, kept)
        if len(_known) >= _KEPT:
            _known.clear()
        _known[key] = kept[key]
    return _known[key]


def _computed(layers: "LayerPair") -> str:
    from geolookup.index.fingerprint import fingerprint  # late: it needs numpy

    return fingerprint(layers)


def _kept(home: str) -> dict[tuple[str, str], str]:
    try:
        with open(os.path.join(home, FINGERPRINTS), "rb") as file:
            lines = file.read(_MAX_BYTES).decode("ascii").splitlines()
    except (OSError, ValueError):
        return {}
    found = {}
    for line in lines:
        index, _, rest = line.partition(" ")
        custom, _, rest = rest.partition(" ")
        if line == _line((index, custom), rest.partition(" ")[0]):
            found[index, custom] = rest.partition(" ")[0]
    return found


def _keep(home: str, found: dict[tuple[str, str], str]) -> None:
    """:raises OSError: if they cannot be written"""
    status = os.stat(home)
    if status.st_uid != os.geteuid():
        return  # a file of another user's would be in the way of its owner
    lines = [f"{_line(key, value)}\n" for key, value in list(found.items())[:_KEPT]]
    mode = 0o640 if status.st_mode & 0o2050 == 0o2050 else 0o600  # as what is published: see `readers`
    disk.replace(os.path.join(home, FINGERPRINTS), "".join(lines).encode("ascii"), mode=mode)


def _line(key: tuple[str, str], value: str) -> str:
    text = " ".join((*key, value))
    return f"{text} {hashlib.sha256(_KIND + text.encode('ascii')).hexdigest()}"
