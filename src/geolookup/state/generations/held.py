"""Held for a decision: of each source the newest snapshot that the guard holds, and a change of the stack."""

import contextlib
import os
from collections.abc import Collection
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
        """Keep a sealed candidate of a source for a person, in place of one held before. Caller holds the run lock."""
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

    def hold_stack(
        self, names: list[str], digest: str, reasons: list[str], *, given: bool = False, ends: tuple[int, ...] = ()
    ) -> None:
        """Keep a change of the stack for a person: the names of its sources in their order, and why it is held.

        ``given`` says that a person gave its files: it becomes the stack with the candidates that are held of it. To
        accept it ``ends`` the roll-backs of these generations.
        """
        target = os.path.join(self._path, STACK)
        with files.file_errors(target):
            self._prepare()
            self._drop_given(but=names if given else ())
            document = {"names": names, "digest": digest, "reasons": reasons, "given": given, "ends": ends}
            files.replace_durably(target, dump(document))

    def stack(self) -> dict[str, Any] | None:
        """The held change of the stack: its ``names``, ``digest``, ``reasons`` and ``given``; None if there is none."""
        found = _read(os.path.join(self._path, STACK))
        names = found.get("names")
        right = isinstance(found.get("digest"), str) and isinstance(names, list)
        return {"given": False, "reasons": [], **found, "names": [str(name) for name in names or ()]} if right else None

    def drop_stack(self, *, given: bool = True) -> None:
        """Forget the held change of the stack; without ``given``, only one that the settings asked for."""
        held = self.stack()
        if held is None or (held["given"] and not given):
            return
        self._drop_given(but=())
        files.remove_file(os.path.join(self._path, STACK))

    def _drop_given(self, *, but: Collection[str]) -> None:
        """Forget the candidates of given files that are held, other than these."""
        held = self.stack()
        for name in held["names"] if held is not None and held["given"] else ():
            if name not in but:
                self.drop(name)


def _read(path: str) -> dict[str, Any]:
    """A JSON object; empty if it cannot be read."""
    import json

    try:
        with open(path, "rb") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
