"""Making a packed file again, for as long as it is read.

It stands in ``unpacked/`` under its SHA-256, where the next reader finds it. The newest few stay until the next run.
"""

import atexit
import contextlib
import functools
import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any

from geolookup.base import disk
from geolookup.index.merging import write_merged
from geolookup.index.reader import IndexReader
from geolookup.index.stack import write_stack
from geolookup.model.errors import IndexFileError, StateDamagedError, StateError
from geolookup.state.base import files
from geolookup.state.base.candidate import CONTENT, read_report
from geolookup.state.base.files import PACKED, UNPACKED
from geolookup.state.base.parts import SNAPSHOTS, Part, parts_of, snapshot_path
from geolookup.state.packs.patch import Patch, apply_patch, read_patch

#: What is made again stays until this many newer ones were: both files of the two sides of a comparison.
_MOST_FILES = 4
#: The files that are made of those of several snapshots.
_LAYERED = {"index": write_stack, "network": write_merged}
#: Below this it takes no time worth a word.
_LONG_BYTES = 32 << 20

_log = logging.getLogger("geolookup")


def whole(path: str) -> str:
    """`reading.readable`, for callers that need numpy anyway."""
    return path if os.path.exists(path) else made_again(path)


def made_again(path: str) -> str:
    """`reading.readable` of a file that is not there."""
    folder, name = os.path.split(path)
    home, group = os.path.split(os.path.dirname(folder))
    if group == SNAPSHOTS and os.path.exists(path + PACKED):
        return _made(home, read_patch(path + PACKED))
    if group == "generations" and name in CONTENT:
        try:
            record = read_report(folder)["published"]
        except StateDamagedError:
            return path  # its record is lost, so nothing says what it was
        same = same_in_snapshot(home, record, name)
        if same is not None:
            return whole(same)
        if name in _LAYERED and len(layered(record, name)) > 1:
            return _stacked(home, record, name)
    return path


def same_in_snapshot(home: str, record: Mapping[str, Any], name: str) -> str | None:
    """The file of a generation's snapshot that is the generation's own by another name, None if there is none."""
    for part in parts_of(record):
        folder = snapshot_path(home, part.snapshot)
        with contextlib.suppress(StateError):
            if name in record["files"] and read_report(folder)["published"]["files"].get(name) == record["files"][name]:
                return os.path.join(folder, name)
    return None


def base_of(home: str, patch: Patch) -> str:
    """The file that a patch refers to, made again if it is packed itself; "" if it refers to none."""
    if patch.base_file is None:
        return ""
    path = whole(os.path.join(home, *patch.base.split("/")))
    if not os.path.exists(path) or os.path.getsize(path) != patch.base_file.bytes:
        raise StateDamagedError(f"{patch.path}: cannot be unpacked: {path}, which it refers to, is gone or damaged")
    return path


def layered(record: Mapping[str, Any], name: str) -> list[Part]:
    """The parts of a generation whose files of that name are laid over each other in its own."""
    return [part for part in parts_of(record) if (part.has_networks if name == "network" else part.has_places)]


def write_stacked(home: str, record: Mapping[str, Any], name: str, path: str) -> None:
    """Lay the snapshots of a generation over each other again: its ``index``, or its ``network``.

    :raises StateDamagedError: if that is not the file that the generation had
    """
    with contextlib.ExitStack() as opened:
        layers = []
        for part in layered(record, name):
            index = whole(os.path.join(snapshot_path(home, part.snapshot), name))
            try:
                layers.append((part.name, opened.enter_context(IndexReader.open(index))))
            except IndexFileError as error:
                raise StateDamagedError(f"source {part.name}: its snapshot cannot be used: {error}") from error
        summary = _LAYERED[name](path, layers, extra={"digest": str(record["digest"])})
    if {"bytes": summary.bytes, "sha256": summary.sha256} != record["files"][name]:
        files.remove_file(path)
        raise StateDamagedError(f"{path}: laying the snapshots over each other gave another index than there was")


def _made(home: str, patch: Patch) -> str:
    def make(path: str) -> None:
        base = base_of(home, patch)
        files.require_space(os.path.dirname(path), patch.file.bytes)
        apply_patch(patch, base, path)

    return _stored(home, patch.file.sha256, patch.file.bytes, make)


def _stacked(home: str, record: Mapping[str, Any], name: str) -> str:
    file = record["files"][name]
    return _stored(home, file["sha256"], file["bytes"], lambda path: write_stacked(home, record, name, path))


def _stored(home: str, sha256: str, size_bytes: int, make: Any) -> str:
    store = _store(home)
    target = os.path.join(store, sha256)
    if os.path.exists(target):
        os.utime(target)
        return target
    if size_bytes >= _LONG_BYTES:
        _say_once()
    temporary = os.path.join(store, f"{files.TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}")
    with files.file_errors(target):
        try:
            make(temporary)
            os.rename(temporary, target)
        finally:
            files.remove_file(temporary)
    _trim(store)
    return target


@functools.cache
def _say_once() -> None:
    _log.warning("an earlier generation is unpacked: this takes a moment")


def _store(home: str) -> str:
    path = os.path.join(home, UNPACKED)
    if os.access(home, os.W_OK):
        files.make_directory(path)
    return path if os.access(path, os.W_OK) else _private_store()


@functools.cache
def _private_store() -> str:
    """The folder of a process that may read a state and not write there."""
    path = tempfile.mkdtemp(prefix="geolookup-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def _trim(store: str) -> None:
    made = []
    for name in files.names_in(store):
        if not name.startswith(files.TEMPORARY):
            with contextlib.suppress(OSError):
                made.append((os.stat(os.path.join(store, name)).st_mtime_ns, name))
    for _, name in sorted(made)[:-_MOST_FILES]:
        files.remove_file(os.path.join(store, name))


def put_in_place(path: str, temporary: str) -> None:
    """Give a durable file its name, durably."""
    with files.file_errors(path):
        os.rename(temporary, path)
        disk.sync_directory(os.path.dirname(path))
