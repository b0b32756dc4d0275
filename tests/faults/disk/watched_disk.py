"""A model of what a power cut would leave: which files and names were synced, as the calls of `os` went by."""

import os
import stat
from collections.abc import Callable
from typing import Any

import pytest


class WatchedDisk:
    """Wraps the calls that change names or sync; nothing is really synced.

    A name is lost in a power cut until its directory was synced after it was made, and a file's bytes until the file
    was synced after the last write. ``skip`` names one sync that is left out, as `synced` lists them.
    """

    def __init__(self, root: str, monkeypatch: pytest.MonkeyPatch, *, skip: str | None = None) -> None:
        self.root = root
        self.skip = skip
        self.synced: list[str] = []
        self.problems: list[str] = []
        self._unsynced_names: set[tuple[int, str]] = set()
        self._durable_content: dict[int, tuple[int, int]] = {}
        real = {name: getattr(os, name) for name in ("open", "mkdir", "rename")}

        def open_(path: Any, flags: int, *more: Any, **options: Any) -> int:
            new = flags & os.O_CREAT and not os.path.lexists(path)
            descriptor: int = real["open"](path, flags, *more, **options)
            if new:
                self._made(os.fspath(path))
            return descriptor

        def mkdir(path: Any, *more: Any, **options: Any) -> None:
            real["mkdir"](path, *more, **options)
            self._made(os.fspath(path))

        def rename(source: Any, target: Any) -> None:
            if os.path.basename(target) == "CURRENT":
                self.problems += self.lost_at_a_power_cut(current=os.fspath(source))
            real["rename"](source, target)
            self._made(os.fspath(target))

        calls: dict[str, Callable[..., Any]] = {"open": open_, "mkdir": mkdir, "rename": rename, "fsync": self._fsync}
        for name, call in calls.items():
            monkeypatch.setattr(os, name, call)

    def _made(self, path: str) -> None:
        self._unsynced_names.add((os.stat(os.path.dirname(path)).st_ino, os.path.basename(path)))

    def _fsync(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        label = self._label(found.st_ino)
        self.synced.append(label)
        if label == self.skip:
            return
        if stat.S_ISDIR(found.st_mode):
            self._unsynced_names = {entry for entry in self._unsynced_names if entry[0] != found.st_ino}
        else:
            self._durable_content[found.st_ino] = found.st_size, found.st_mtime_ns

    def _label(self, inode: int) -> str:
        """What is synced, under a name that is the same in every run."""
        for directory, folders, names in os.walk(self.root):
            for name in [*folders, *names]:
                path = os.path.join(directory, name)
                if os.stat(path).st_ino == inode:
                    parts = os.path.relpath(path, self.root).split(os.sep)
                    return "/".join("*" if ".tmp-" in part or ".candidate-" in part else part for part in parts)
        return "." if os.stat(self.root).st_ino == inode else ".."

    def lost_at_a_power_cut(self, *, current: str | None = None) -> list[str]:
        """What would be lost of the whole directory; of CURRENT, what stands in the file ``current`` if given."""
        lost = []
        for directory, folders, names in os.walk(self.root):
            inode = os.stat(directory).st_ino
            for name in [*folders, *names]:
                path = os.path.join(directory, name)
                if name.endswith(".lock") or (current is not None and path.startswith(f"{self.root}/CURRENT")):
                    continue
                if (inode, name) in self._unsynced_names:
                    lost.append(f"the name {path}")
                if name in names and not self._is_durable(path):
                    lost.append(f"the bytes of {path}")
        if current is not None and not self._is_durable(current):
            lost.append(f"the bytes of {current}")
        parent = os.path.dirname(self.root)
        if (os.stat(parent).st_ino, os.path.basename(self.root)) in self._unsynced_names:
            lost.append(f"the name {self.root}")
        return lost

    def _is_durable(self, path: str) -> bool:
        found = os.stat(path)
        return self._durable_content.get(found.st_ino) == (found.st_size, found.st_mtime_ns)
