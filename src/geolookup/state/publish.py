"""Publishing: the two locks, and what leads to the one rename that makes anything visible.

A publish is one rename of CURRENT; everything that it names is durable before. Locks are taken in one order: run, then
publish.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from geolookup.errors import NoStateError, StateDamagedError, StateError
from geolookup.state import files, notices
from geolookup.state.clock import now_text
from geolookup.state.current import (
    Current,
    Published,
    content_check,
    generation_name,
    open_published,
    overlay_path,
    read_current,
)
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.local import LocalEdits
from geolookup.state.edits.store import Edits
from geolookup.state.generations import retention as cleaning
from geolookup.state.generations.cache import Cache
from geolookup.state.generations.candidate import HELD_MARK, dump
from geolookup.state.generations.recovery import Remembered, memory_text, numbered, open_newest_whole, remembered
from geolookup.state.generations.timeline import Step, advanced
from geolookup.state.overlay import compile_overlay

PUBLISH_WAIT_S = 10.0


@dataclass(slots=True, kw_only=True)
class Attempt:
    """A publish under way: what was published before it, its own sequence, and what to undo should it fail.

    ``refused``, ``pins`` and ``served`` are those of the CURRENT that it will write.
    """

    current: Current | None
    sequence: int
    newest: int
    refused: tuple[str, ...]
    pins: tuple[int, ...]
    served: tuple[Step, ...]
    undo: contextlib.ExitStack


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An overlay that was compiled under a temporary name; ``edits`` is the newest edit in it."""

    path: str
    record: dict[str, Any]
    edits: int


class Publishing:
    """What every publish in one state directory goes through."""

    def __init__(self, home: str, *, keep_generations: int = 7) -> None:
        self.home = home
        self.keep_generations = keep_generations
        self.edits = Edits(home)
        self.local = LocalEdits(self.edits)

    def path(self, *parts: str) -> str:
        """A path inside the directory."""
        return os.path.join(self.home, *parts)

    def _prepare(self) -> None:
        # What a newer release wrote is refused before anything is touched, the creation of a lock's file included.
        with contextlib.suppress(NoStateError, StateDamagedError):
            read_current(self.home)
        for path in (self.home, self.path("generations"), self.path("custom")):
            files.make_directory(path)

    @contextlib.contextmanager
    def run_lock(self, *, wait_s: float = 0.0) -> Iterator[None]:
        """Held by sync, push and refresh for their whole run. Removes what an interrupted run left behind.

        :raises StateBusyError: where another run holds it
        :raises StateTooNewError: where a newer release wrote CURRENT: nothing was touched
        """
        self._prepare()
        busy = f"{self.home}: another sync, push or refresh is running: try again later"
        with files.locked(self.path("run.lock"), wait_s=wait_s, busy=busy):
            cleaning.remove_run_leftovers(self.home)
            with self.publish_lock():
                cleaning.remove_uncommitted(self.home)
            yield

    @contextlib.contextmanager
    def publish_lock(self) -> Iterator[None]:
        """Held for the milliseconds of a publish; waited for.

        :raises StateBusyError: where it is not free within ten seconds
        """
        self._prepare()
        busy = f"{self.home}: another process has been publishing for {PUBLISH_WAIT_S:.0f} s: try again later"
        with files.locked(self.path("publish.lock"), wait_s=PUBLISH_WAIT_S, busy=busy):
            yield

    def current(self) -> Current | None:
        """What is published, or what recovery falls back to; None where nothing was ever published.

        :raises StateTooNewError: where a newer release wrote CURRENT
        """
        try:
            published = self.open()
        except NoStateError:
            return None
        published.close()
        return published.current

    def current_or_none(self) -> Current | None:
        """`current` for whoever publishes: where nothing whole is left, what comes next is the first again."""
        try:
            return self.current()
        except StateDamagedError:
            return None

    def open(self) -> Published:
        """Open what is published, or the newest whole generation where CURRENT or what it names is damaged.

        :raises NoStateError: where nothing has been published
        :raises StateDamagedError: where nothing whole is left
        """
        try:
            return open_published(self.home)
        except StateDamagedError as error:
            return open_newest_whole(self.home, str(error))

    @contextlib.contextmanager
    def _attempt(self, *, locked: bool = False) -> Iterator[Attempt]:
        """The publish lock, unless held; where the publish fails before CURRENT is replaced, what it made goes."""
        with contextlib.nullcontext() if locked else self.publish_lock():
            before = self._current_bytes()
            current = self.current_or_none()
            attempt = self._new_attempt(current, remembered(self.home))
            try:
                yield attempt
            except BaseException:
                # Where CURRENT cannot be read it may name what was made: then the next run decides.
                with contextlib.suppress(OSError):
                    if self._current_bytes() == before:
                        attempt.undo.close()
                raise

    def _new_attempt(self, current: Current | None, memory: Remembered) -> Attempt:
        served = memory.served
        if current is not None and not served:  # an earlier release published it, which kept no record of this
            served = ((current.generation, current.published_at),)
        return Attempt(
            current=current,
            sequence=1 + memory.sequence,
            newest=memory.newest,
            refused=memory.refused,
            pins=memory.pins,
            served=served,
            undo=contextlib.ExitStack(),
        )

    def _current_bytes(self) -> bytes | None:
        try:
            with open(self.path("CURRENT"), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def _required(self, current: Current | None) -> Current:
        if current is None:
            raise NoStateError(f"{self.home}: nothing has been published here yet: run `geolookup sync`")
        return current

    def _draft_overlay(self, attempt: Attempt, generation: int, cache: Cache, record: dict[str, Any]) -> Draft:
        """Compile the overlay that goes with a generation."""
        layer, edits = self.local.laid_over(cache.custom(), began_at_of(record))
        return self._draft(attempt, generation, list(layer.values()), edits)

    def _draft(self, attempt: Attempt, generation: int, layer: list[Laid], edits: int) -> Draft:
        """Compile an overlay under a temporary name, for ``generation`` to be served with."""
        kept = numbered(self.path("generations"))
        attempt.served = advanced(attempt.served, generation, now_text(), kept)
        attempt.pins = tuple(number for number in attempt.pins if number in kept or number == generation)
        path = cleaning.temporary_path(self.path("custom", "overlay"))
        attempt.undo.callback(files.remove_file, path)
        record = compile_overlay(
            path,
            layer,
            generation=generation,
            sequence=attempt.sequence,
            edits=edits,
            memory=memory_text(attempt.refused, attempt.pins, attempt.served),
        )
        return Draft(path=path, record=record, edits=edits)

    def _commit(self, attempt: Attempt, draft: Draft, **changes: Any) -> Current:
        """Name the overlay and write CURRENT: the one moment at which anything becomes visible."""
        current = attempt.current
        overlay = 1 + max([current.overlay if current else 0, *numbered(self.path("custom"))[:1]])
        target = overlay_path(self.home, overlay)
        with files.translated(target):
            os.rename(draft.path, target)
            attempt.undo.callback(files.remove_file, target)
            files.sync_directory(self.path("custom"))
        members = {
            "sequence": attempt.sequence,
            "overlay": overlay,
            "overlay_file": draft.record,
            "edits": draft.edits,
            "refused": attempt.refused,
            "pins": attempt.pins,
            "served": attempt.served,
            "recovered": None,
            **changes,
        }
        published = Current(**members) if current is None else current.replace(**members)
        self._write_current(published)
        return published

    def _write_current(self, current: Current) -> None:
        data = dump({**current.as_json(), "check": "0" * 16})
        head, mark, tail = data.rpartition(b"0" * 16)
        assert mark, "the line above wrote it"
        with files.translated(self.path("CURRENT")):
            files.replace_durably(self.path("CURRENT"), head + content_check(data).encode("ascii") + tail)
        notices.published(self.home)

    def _clean(self, published: Current, *, generations: bool = True) -> None:
        # What is published is published: whatever cannot be cleaned now waits for the next time.
        with contextlib.suppress(StateError, OSError):
            files.remove_file(self.path("generations", generation_name(published.generation), HELD_MARK))
            cleaning.retain(self.home, published, self.keep_generations if generations else None)
            cleaning.remove_publish_temporaries(self.home)


def began_at_of(record: dict[str, Any]) -> str:
    """When the list of a generation began, by its record; what has none (the embedded default) began first."""
    return str(record.get("began_at", ""))
