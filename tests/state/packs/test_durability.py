"""A power cut while files are packed or made again: what goes is durable by its other form before."""

import os
from pathlib import Path
from typing import Any

import pytest

from geolookup.state.base.candidate import CONTENT
from geolookup.state.base.files import PACKED
from geolookup.state.base.parts import SNAPSHOTS
from geolookup.state.publishing.directory import StateDirectory
from tests.state.packs.nights import pack_all, similar_nights
from tests.support.data.states import publish


class _Watched:
    """Notes what is synced, and at each removal of a file of a snapshot whether its other form would be lost."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, skip: int = 0) -> None:
        self.problems: list[str] = []
        self.removed = 0
        self.syncs = 0
        self._skip = skip
        self._files: dict[int, int] = {}
        self._unsynced: set[str] = set()
        self._real = {name: getattr(os, name) for name in ("fsync", "rename", "unlink")}
        for name, call in (("fsync", self._fsync), ("rename", self._rename), ("unlink", self._unlink)):
            monkeypatch.setattr(os, name, call)

    def _fsync(self, descriptor: int) -> None:
        self.syncs += 1
        if self.syncs == self._skip:
            return
        found = os.fstat(descriptor)
        self._files[found.st_ino] = found.st_size
        folder = os.readlink(f"/proc/self/fd/{descriptor}")
        self._unsynced = {path for path in self._unsynced if os.path.dirname(path) != folder}

    def _rename(self, source: Any, target: Any) -> None:
        self._real["rename"](source, target)
        self._unsynced.add(os.fspath(target))

    def _unlink(self, path: Any, **options: Any) -> None:
        path = os.fspath(path)
        name = os.path.basename(path).removesuffix(PACKED)
        if name in CONTENT and f"{os.sep}{SNAPSHOTS}{os.sep}" in path and os.path.exists(path):
            other = path.removesuffix(PACKED) if path.endswith(PACKED) else path + PACKED
            self.removed += 1
            status = os.stat(other)
            if self._files.get(status.st_ino) != status.st_size or other in self._unsynced:
                self.problems.append(path)
        self._real["unlink"](path, **options)


def _packed_and_back(home: str) -> None:
    for listed in similar_nights(3, places=20):
        publish(home, listed)
    pack_all(home)
    StateDirectory(home).keeping.rollback(1)


def test_nothing_goes_before_its_other_form_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = _Watched(monkeypatch)
    _packed_and_back(str(tmp_path / "state"))
    assert watched.removed == 6  # four were packed, and two of them made again
    assert watched.problems == []


def test_syncs_that_are_left_out_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        watched = _Watched(patched)
        home = str(tmp_path / "all")
        for listed in similar_nights(3, places=20):
            publish(home, listed)
        begun = watched.syncs
        pack_all(home)
        ended = watched.syncs
    noticed = 0
    for skip in range(begun + 1, ended + 1):
        with monkeypatch.context() as patched:
            watched = _Watched(patched, skip=skip)
            _packed_and_back(str(tmp_path / str(skip)))
            noticed += bool(watched.problems)
    # Of each packed file: the patch, and its name. The trial, and what else packing syncs, may be lost.
    assert noticed == 8
