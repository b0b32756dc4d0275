"""Held for a decision: of each source the newest snapshot that the guard holds, and a change of the stack."""

import contextlib
import os
from typing import Any

from geolookup.base import disk
from geolookup.model.errors import StateDamagedError
from geolookup.state.base import files
from geolookup.state.base.candidate import HELD_MARK, Candidate, dump
from geolookup.state.generations import retention

#: In ``held/``: what a held change of the stack is. No source can have this name.
STACK = ".stack"


class Held:
    """The directory ``held/`` of the state directory ``home``: ``held/NAME/`` for a source, ``held/.stack``."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._path = os.path.join(home, "held")

    def hold(self, candidate: Candidate, name: str) -> None:
        """Keep a sealed candidate of a source for a person, in place of one held before. The run lock must be held."""
        target = os.path.join(self._path, name)
        old = retention.temporary_path(target)
        with files.file_errors(target):
            self._prepare()
            # If a run is killed while it publishes this one, it is held again and not lost.
            disk.write_new(os.path.join(candidate.path, HELD_MARK), b"")
            disk.sync_directory(candidate.path)
            with contextlib.suppress(FileNotFoundError):
                os.rename(target, old)
            try:
                os.rename(candidate.path, target)
            except OSError:
                with contextlib.suppress(OSError):
                    os.rename(old, target)
                raise
            disk.sync_directory(self._path)
        files.remove_tree(old)

    def _prepare(self) -> None:
        if not os.path.isdir(self._path):
            os.mkdir(self._path, 0o700)
            disk.sync_directory(self._home)

    def candidates(self) -> dict[str, Candidate]:
        """The held candidate of each source, by name; one that cannot be read is left out.

        :raises StateTooNewError: if a newer release holds one
        """
        found = {}
        for name, path in self._places():
            candidate = Candidate(path=path)
            with contextlib.suppress(StateDamagedError):
                candidate.document()
                found[name] = candidate
        return found

    def _places(self) -> list[tuple[str, str]]:
        try:
            names = sorted(os.listdir(self._path))
        except OSError:
            return []
        return [(name, os.path.join(self._path, name)) for name in names if not name.startswith(".")]

    def drop(self, name: str) -> None:
        """Forget what is held of a source: something else was published."""
        for each, path in self._places():
            if each == name:
                files.discard_tree(path, retention.temporary_path(path))
        with contextlib.suppress(OSError):
            os.rmdir(self._path)

    def hold_stack(self, names: list[str], digest: str, reasons: list[str]) -> None:
        """Keep a change of the stack for a person: the names of its sources in their order, and why it is held."""
        target = os.path.join(self._path, STACK)
        with files.file_errors(target):
            self._prepare()
            document: dict[str, Any] = {"names": names, "digest": digest, "reasons": reasons}
            files.replace_durably(target, dump(document))

    def stack(self) -> dict[str, Any] | None:
        """The held change of the stack: its ``names``, ``digest`` and ``reasons``; None if there is none."""
        import json

        try:
            with open(os.path.join(self._path, STACK), "rb") as file:
                found = json.load(file)
            right = isinstance(found["digest"], str) and all(isinstance(name, str) for name in found["names"])
            return dict(found) if right else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def drop_stack(self) -> None:
        """Forget the held change of the stack."""
        files.remove_file(os.path.join(self._path, STACK))
