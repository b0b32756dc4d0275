"""The state directory: its paths, its two locks, publishing, what is held, and retention.

A publish is one rename of CURRENT; everything that it names is durable before. Locks are taken in one order: run, then
publish.
"""

import contextlib
import logging
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from geolookup.errors import NoStateError, StateDamagedError, StateError
from geolookup.state import cleaning, files, notices
from geolookup.state.cache import Cache
from geolookup.state.candidate import HELD_MARK, dump, read_report
from geolookup.state.candidate import Candidate as Candidate
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
from geolookup.state.custom import Laid
from geolookup.state.edits import Edits
from geolookup.state.local_edits import LocalEdits
from geolookup.state.outbox import Outbox
from geolookup.state.overlay import compile_overlay
from geolookup.state.recovery import numbered, open_newest_whole, remembered

_log = logging.getLogger("geolookup")

PUBLISH_WAIT_S = 10.0

#: Below this much free space a sync is not begun; above, the served generation's own size decides.
_LEAST_SPACE_BYTES = 16 << 20


@dataclass(slots=True, kw_only=True)
class _Attempt:
    """A publish under way: what was published before it, its own sequence, and what to undo should it fail."""

    current: Current | None
    sequence: int
    newest: int
    refused: tuple[str, ...]
    undo: contextlib.ExitStack


class StateDirectory:
    """One state directory. Opening it touches nothing; whatever writes creates what is missing."""

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

        :raises StateDamagedError: where nothing whole is left
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

    def cache(self, generation: int) -> Cache:
        """A generation's cache.db."""
        return Cache(self.path("generations", generation_name(generation), "cache.db"))

    def report(self, generation: int) -> dict[str, Any]:
        """What a generation's report.json holds.

        :raises StateDamagedError: where it is not what was written
        """
        return read_report(self.path("generations", generation_name(generation)))

    # Candidates

    @contextlib.contextmanager
    def candidate(self) -> Iterator[Candidate]:
        """A new empty candidate, under the run lock; what is neither published nor held at the end is removed."""
        found = self.current_or_none()
        needed_bytes = _LEAST_SPACE_BYTES
        if found is not None:
            sizes = (record["bytes"] for record in found.published["files"].values())
            needed_bytes = max(needed_bytes, int(1.2 * sum(sizes)))
        files.require_space(self.home, needed_bytes)
        path = self.path("generations", f"{cleaning.CANDIDATE}{os.getpid()}-{secrets.token_hex(4)}")
        with files.translated(path):
            os.mkdir(path, 0o700)
        try:
            yield Candidate(path=path)
        finally:
            files.remove_tree(path)

    def hold(self, candidate: Candidate) -> None:
        """Keep a sealed candidate for a person, in place of one held before."""
        held = self.path("held")
        old = cleaning.temporary_path(held)
        with files.translated(held):
            # So that a run killed while it publishes this one leaves it to be held again, and not to be lost.
            files.write_new(os.path.join(candidate.path, HELD_MARK), b"")
            files.sync_directory(candidate.path)
            with contextlib.suppress(FileNotFoundError):
                os.rename(held, old)
            try:
                os.rename(candidate.path, held)
            except OSError:
                with contextlib.suppress(OSError):
                    os.rename(old, held)
                raise
            files.sync_directory(self.home)
        files.remove_tree(old)

    def held(self) -> Candidate | None:
        """The held candidate, or None where there is none that can be read.

        :raises StateTooNewError: where a newer release holds one
        """
        candidate = Candidate(path=self.path("held"))
        try:
            candidate.document()
        except StateDamagedError:
            return None
        return candidate

    def drop_held(self) -> None:
        """Forget the held candidate: something else was published."""
        held = self.path("held")
        files.discard_tree(held, cleaning.temporary_path(held))

    # Publishing

    def publish(
        self, candidate: Candidate, *, checked_at: str | None = None, refused: tuple[str, ...] | None = None
    ) -> Current:
        """Publish a sealed candidate as the next generation. The run lock must be held.

        Where that fails, the candidate is where it was.
        """
        record = candidate.document()["published"]
        with self._attempt() as attempt:
            number = 1 + attempt.newest
            target = self.path("generations", generation_name(number))
            # The overlay first: it reads the candidate's cache.db, and should it fail nothing has moved.
            draft = self._draft_overlay(attempt, number, Cache(candidate.cache), record)
            with files.translated(target):
                os.rename(candidate.path, target)
                attempt.undo.callback(_rename_back, target, candidate.path)
                files.sync_directory(self.path("generations"))
            now = now_text()
            published = self._commit(
                attempt,
                draft,
                generation=number,
                newest=number,
                published=record,
                published_at=now,
                checked_at=checked_at or now,
                **({} if refused is None else {"refused": refused}),
            )
            self._clean(published)
        return published

    def republish(self, *, generation: int | None = None, **changes: Any) -> Current:
        """Publish again with a freshly compiled overlay: after an edit, or to serve another kept ``generation``.

        ``changes`` are members of `Current`: ``checked_at``, ``refused``.

        :raises NoStateError: where nothing has been published
        """
        with self._attempt() as attempt:
            current = self._required(attempt.current)
            number = current.generation if generation is None else generation
            record = current.published if generation is None else self.report(number)["published"]
            draft = self._draft_overlay(attempt, number, self.cache(number), record)
            published = self._commit(
                attempt, draft, **{"generation": number, "published": record, "published_at": now_text(), **changes}
            )
            self._clean(published)
        return published

    def confirm(self, *, etag: str | None, began_at: str | None = None) -> Current:
        """Note that the service still has what is published, by a list begun at ``began_at`` where that is known.

        What it acknowledged before is in that list, so it is laid over no longer: somebody else may have undone it. The
        run lock must be held.
        """
        with self._attempt() as attempt:
            current = self._required(attempt.current)
            changes = {name: value for name, value in (("etag", etag), ("began_at", began_at)) if value}
            published = {**current.published, **changes}
            acknowledged = self.local.acknowledged_since(str(current.published.get("began_at", "")))
            if current.recovered is not None or acknowledged or self.local.head() != current.edits:
                draft = self._draft_overlay(attempt, current.generation, self.cache(current.generation), published)
                return self._commit(attempt, draft, published=published, checked_at=now_text())
            confirmed = current.replace(sequence=attempt.sequence, published=published, checked_at=now_text())
            self._write_current(confirmed)
            return confirmed

    def rollback(self, generation: int | None = None) -> Current:
        """Serve an older kept generation (default: the one before). Takes the run lock.

        What was served until now is not published by itself again.

        :raises StateError: where there is no such generation
        :raises StateDamagedError: where it is not, byte for byte, what was published
        :raises StateBusyError: where a run is under way: it would publish over this
        """
        with self.run_lock():
            current = self._required(self.current_or_none())
            kept = numbered(self.path("generations"))
            older = [number for number in kept if number < current.generation]
            target = generation if generation is not None else (older[0] if older else None)
            if target is None or target not in kept or target == current.generation:
                wanted = "older generation" if generation is None else f"generation {generation} to go back to"
                names = ", ".join(str(number) for number in reversed(kept) if number != current.generation) or "none"
                raise StateError(f"{self.home}: there is no {wanted}: kept besides the served one: {names}")
            Candidate(path=self.path("generations", generation_name(target))).verify()
            digest = self.report(target)["published"]["digest"]
            refused = dict.fromkeys((*current.refused, current.digest))
            published = self.republish(generation=target, refused=tuple(each for each in refused if each != digest))
            before, after = {"generation": current.generation}, {"generation": published.generation}
            try:
                self.edits.record("rollback", "done", before=before, after=after)
            except StateError as error:
                # It is published: to fail now would say that it is not.
                _log.warning("the rollback is missing from the history, and all else is done: %s", error)
        return published

    def publish_edits(self, current: Current, layer: dict[int, Laid], *, edits: int) -> Current:
        """Publish the custom layer as an edit left it. The publish lock must be held.

        ``current`` is what was read under that lock, and ``edits`` the newest edit in ``layer``.
        """
        with self._attempt(locked=True) as attempt:
            draft = self._draft(attempt, current.generation, list(layer.values()), edits)
            published = self._commit(attempt, draft, published_at=now_text())
            self._clean(published)
        return published

    def require_current(self) -> Current:
        """What is published.

        :raises NoStateError: where nothing is
        """
        return self._required(self.current_or_none())

    def custom_layer(self, generation: int, record: dict[str, Any]) -> dict[int, Laid]:
        """The custom layer over a kept generation, with the local edits laid over it, as lookups see it."""
        return self.local.laid_over(self.cache(generation).custom(), began_at_of(record))[0]

    def upstream_url(self) -> str | None:
        """The upstream that this state belongs to: the one pushed to, else the one pulled from; None without either."""
        kept = self.local.upstream_url()
        if kept is not None:
            return kept
        current = self.current_or_none()
        return None if current is None else current.published.get("url")

    def remember_upstream(self, url: str) -> None:
        """Note that this state belongs to an upstream."""
        with self.edits.transaction() as database:
            Outbox(database).keep_setting("upstream_url", url)

    @contextlib.contextmanager
    def _attempt(self, *, locked: bool = False) -> Iterator[_Attempt]:
        """The publish lock, unless held; where the publish fails before CURRENT is replaced, what it made goes."""
        with contextlib.nullcontext() if locked else self.publish_lock():
            before = self._current_bytes()
            current = self.current_or_none()
            sequence, newest, refused = remembered(self.home)
            attempt = _Attempt(
                current=current,
                sequence=1 + sequence,
                newest=newest,
                refused=refused,
                undo=contextlib.ExitStack(),
            )
            try:
                yield attempt
            except BaseException:
                # Where CURRENT cannot be read it may name what was made: then the next run decides.
                with contextlib.suppress(OSError):
                    if self._current_bytes() == before:
                        attempt.undo.close()
                raise

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

    def _draft_overlay(
        self, attempt: _Attempt, generation: int, cache: Cache, record: dict[str, Any]
    ) -> tuple[str, dict[str, Any], int]:
        """Compile the overlay that goes with a generation."""
        layer, edits = self.local.laid_over(cache.custom(), began_at_of(record))
        return self._draft(attempt, generation, list(layer.values()), edits)

    def _draft(
        self, attempt: _Attempt, generation: int, layer: list[Laid], edits: int
    ) -> tuple[str, dict[str, Any], int]:
        """Compile an overlay under a temporary name: (its path, its record, the newest edit in it)."""
        path = cleaning.temporary_path(self.path("custom", "overlay"))
        attempt.undo.callback(files.remove_file, path)
        record = compile_overlay(path, layer, generation=generation, sequence=attempt.sequence, edits=edits)
        return path, record, edits

    def _commit(self, attempt: _Attempt, draft: tuple[str, dict[str, Any], int], **changes: Any) -> Current:
        """Name the overlay and write CURRENT: the one moment at which anything becomes visible."""
        path, record, edits = draft
        current = attempt.current
        overlay = 1 + max([current.overlay if current else 0, *numbered(self.path("custom"))[:1]])
        target = overlay_path(self.home, overlay)
        with files.translated(target):
            os.rename(path, target)
            attempt.undo.callback(files.remove_file, target)
            files.sync_directory(self.path("custom"))
        members = {
            "sequence": attempt.sequence,
            "overlay": overlay,
            "overlay_file": record,
            "edits": edits,
            "refused": attempt.refused,
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

    def _clean(self, published: Current) -> None:
        # What is published is published: whatever cannot be cleaned now waits for the next time.
        with contextlib.suppress(StateError, OSError):
            files.remove_file(self.path("generations", generation_name(published.generation), HELD_MARK))
            cleaning.retain(self.home, published, self.keep_generations)
            cleaning.remove_publish_temporaries(self.home)


def began_at_of(record: dict[str, Any]) -> str:
    """When the list of a generation began, by its record; what has none (the embedded default) began first."""
    return str(record.get("began_at", ""))


def _rename_back(path: str, before: str) -> None:
    with contextlib.suppress(OSError):
        os.rename(path, before)
