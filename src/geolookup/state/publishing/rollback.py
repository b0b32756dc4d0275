"""Which generation is served, and which ones are kept: going back, pins, pruning, and what a licence wants gone."""

import logging
import os
from typing import Any

from geolookup.model.errors import StateDamagedError, StateError, UnknownGenerationError
from geolookup.state.base import files
from geolookup.state.base.candidate import Candidate, read_report
from geolookup.state.base.current import Current, generation_path
from geolookup.state.base.parts import entries_of, parts_of, refusal, refusal_of_stack, refused_in
from geolookup.state.edits.local import LocalEdits
from geolookup.state.edits.store import Edits
from geolookup.state.generations import licences, retention
from geolookup.state.generations.held import Held
from geolookup.state.generations.recovery import by_recency, numbered
from geolookup.state.generations.served import required_current
from geolookup.state.publishing.locks import Locks
from geolookup.state.publishing.publish import publishing

_log = logging.getLogger("geolookup")


class Keeping:
    """The kept generations of the state directory ``home``: which is served, and which may go.

    What it does goes into the history. ``keep_generations`` is how many retention leaves.
    """

    def __init__(self, home: str, locks: Locks, edits: Edits, local: LocalEdits, *, keep_generations: int) -> None:
        self._home = home
        self._locks = locks
        self._edits = edits
        self._local = local
        self._keep_generations = keep_generations

    def rollback(self, generation: int | None = None, *, reason: str = "", instead_of: int | None = None) -> Current:
        """Serve another kept generation: by default the one served before, of those that were not rolled back.

        A publish like any other, under the run lock. What was served until now is not published by itself again.
        ``reason`` goes into the history. With ``instead_of`` it takes the place of that generation alone.

        :raises UnknownGenerationError: if the generation is not kept
        :raises StateError: if another one than ``instead_of`` is served by now
        :raises StateDamagedError: if it is not, byte for byte, what was published
        :raises StateBusyError: if a run is under way: it would publish over this
        """
        with self._locks.run():
            current = required_current(self._home)
            if instead_of not in (None, current.generation):
                raise StateError(
                    f"generation {current.generation} is served by now, and not {instead_of} any more: look again "
                    "before you go back"
                )
            target = self.target(generation)
            from geolookup.state.generations.packing import make_generation_whole  # late: it needs numpy

            make_generation_whole(self._home, target)
            Candidate(path=generation_path(self._home, target)).verify()
            record = read_report(generation_path(self._home, target))["published"]
            again = {refusal(part) for part in parts_of(record)}
            left = [part for part in parts_of(current.published) if refusal(part) not in again]
            refused = dict.fromkeys((*current.refused, *map(refusal, left)))
            left_names, names_again = ([part.name for part in parts_of(each)] for each in (current.published, record))
            if left_names != names_again:
                refused[refusal_of_stack(left_names)] = None
                again.add(refusal_of_stack(names_again))
            back = {str(entry["name"]): entry for entry in entries_of(self._home, record)}
            rest = (entry for entry in current.sources if entry["name"] not in back)
            published = self._publish_again(
                generation=target,
                refused=tuple(each for each in refused if each not in again),
                sources=(*back.values(), *rest),
                # That is when the service is known to have had this, however often it confirmed the other.
                checked_at=str(record.get("pulled_at", "")),
            )
            held, parts = Held(self._home), {part.name: part for part in parts_of(record)}
            for name, candidate in held.candidates().items():
                if name in parts and candidate.document()["published"]["digest"] == parts[name].digest:
                    held.drop(name)  # it answers now
            before = {"generation": current.generation}
            after = {"generation": published.generation, **({"reason": reason} if reason else {})}
            self._note_done("rollback", before, after)
        return published

    def target(self, generation: int | None = None) -> int:
        """The generation that `rollback` would serve.

        :raises UnknownGenerationError: if it is not kept, or there is none
        """
        current = required_current(self._home)
        kept = numbered(os.path.join(self._home, "generations"))
        target = self._before(current, kept) if generation is None else generation
        if target is None or target not in kept or target == current.generation:
            raise UnknownGenerationError(f"{self._home}: {self._why_not(current, kept, generation)}")
        return target

    def _before(self, current: Current, kept: list[int]) -> int | None:
        """The generation that was served last before the one that is, leaving out what was rolled back."""
        recent = [number for number in by_recency(current.served) if number in kept]
        older = [number for number in kept if number < current.generation]  # which no record has: published by others
        for number in dict.fromkeys((*recent, *older)):
            if number == current.generation:
                continue
            try:
                record = read_report(generation_path(self._home, number))["published"]
                digest = record["digest"]
            except StateDamagedError:
                return number  # that it cannot be used is for the caller to say
            if digest == current.digest or refused_in(record, current.refused):
                continue
            return number
        return None

    def _why_not(self, current: Current, kept: list[int], asked: int | None) -> str:
        """Why there is nothing to go back to, and what is kept."""
        others = [number for number in reversed(kept) if number != current.generation]
        if asked is not None:
            what = "served already" if asked in kept else "not kept"
            return f"generation {asked} is {what}; the others that are kept: {', '.join(map(str, others)) or 'none'}"
        if not others:
            return f"only generation {current.generation} is kept, which is served: there is nothing to go back to"
        same: list[str] = []
        left: list[str] = []
        for number in others:
            record = read_report(generation_path(self._home, number))["published"]
            (same if record["digest"] == current.digest else left).append(str(number))
        told = []
        if same:
            told.append(f"{_listed(same)} the same content as what is served, so going back would change nothing")
        if left:
            told.append(f"{_listed(left)} content that was rolled back: name one to serve it again")
        return f"no older generation to go back to: {'; '.join(told)}"

    def pin(self, generation: int) -> Current:
        """Keep a generation until `unpin`, even if retention would remove it.

        :raises UnknownGenerationError: if the generation is not kept
        """
        return self._pinned(generation, keep=True)

    def unpin(self, generation: int) -> Current:
        """Leave a pinned generation to retention again: the next publish, or `prune`, removes it if it is past that.

        :raises UnknownGenerationError: if it is not pinned
        """
        return self._pinned(generation, keep=False)

    def _pinned(self, generation: int, *, keep: bool) -> Current:
        with self._locks.run():
            current = required_current(self._home)
            if keep and generation not in numbered(os.path.join(self._home, "generations")):
                raise UnknownGenerationError(
                    f"{self._home}: generation {generation} is not kept, so it cannot be pinned"
                )
            if not keep and generation not in current.pins:
                raise UnknownGenerationError(f"{self._home}: generation {generation} is not pinned")
            if keep and generation in current.pins:
                return current
            pins = {*current.pins, generation} if keep else {*current.pins} - {generation}
            published = self._publish_again(pins=tuple(sorted(pins)), published_at=current.published_at)
            self._note_done("pin" if keep else "unpin", None, {"generation": generation})
        return published

    def prune(self, *, keep: int | None = None, dry_run: bool = False) -> dict[int, int]:
        """Remove what retention would: its generations, each with its size in bytes.

        ``keep`` stands in for `keep_generations` this once; with ``dry_run`` nothing is removed.

        :raises StateDamagedError: if CURRENT is damaged, so that nobody can tell what must stay
        :raises StateBusyError: if a run is under way
        """
        if dry_run:
            return self._past_retention(keep)
        with self._locks.run(), self._locks.publish():
            doomed = self._past_retention(keep)
            retention.retain(self._home, required_current(self._home), self._keep_generations if keep is None else keep)
            left = numbered(os.path.join(self._home, "generations"))
        removed = {number: size for number, size in doomed.items() if number not in left}
        if removed:
            self._note_done("prune", None, {"generations": sorted(removed)})
        return removed

    def expire(self, current: Current) -> dict[int, str]:
        """Remove the generations that a licence wants gone, pinned ones too; each with the source's name.

        Caller holds the run lock; ``current`` is what is served.
        """
        if current.recovered is not None or not licences.expired(self._home, current):
            return {}
        with self._locks.publish():
            current = required_current(self._home)
            doomed = {} if current.recovered is not None else licences.expired(self._home, current)
            for number in doomed:
                path = generation_path(self._home, number)
                files.discard_tree(path, retention.temporary_path(path))
            if doomed:
                retention.retain(self._home, current, self._keep_generations)
        if doomed:
            self._note_done("expire", None, {"generations": sorted(doomed)})
        return doomed

    def pack(self, current: Current | None = None) -> None:
        """Keep what was superseded as what differs from what is served: ``current``, else what CURRENT says.

        Caller holds the run lock.

        :raises StateUnwritableError: if the disk is full; every generation can still be read
        :raises StateDamagedError: if something is damaged; the rest is packed
        """
        from geolookup.state.generations.packing import pack  # late: it needs numpy

        pack(self._home, current)

    def _past_retention(self, keep: int | None) -> dict[int, int]:
        current = required_current(self._home)
        if current.recovered is not None:
            raise StateDamagedError(f"{current.recovered}: nothing is removed until `geolookup sync` has repaired that")
        doomed = retention.past_retention(self._home, current, self._keep_generations if keep is None else keep)
        return {number: files.tree_bytes(generation_path(self._home, number)) for number in doomed}

    def _note_done(self, what: str, before: Any, after: Any) -> None:
        try:
            self._edits.record(what, "done", before=before, after=after)
        except StateError as error:
            # It is done: to fail now would say that it is not.
            _log.warning("the %s is missing from the history, and all else is done: %s", what, error)

    def _publish_again(self, generation: int | None = None, **changes: Any) -> Current:
        with publishing(self._home, self._locks, self._local) as publish:
            return publish.again(generation, keep_generations=self._keep_generations, **changes)


def _listed(numbers: list[str]) -> str:
    """Generations as the beginning of a sentence that says what they hold."""
    return f"generation {numbers[0]} has" if len(numbers) == 1 else f"generations {', '.join(numbers)} have"
