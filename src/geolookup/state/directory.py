"""The state directory: its candidates, what is held, what is published, and what is gone back to, pinned or pruned."""

import contextlib
import logging
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from geolookup.errors import NoStateError, StateDamagedError, StateError, UnknownGenerationError
from geolookup.state import files, machine
from geolookup.state.clock import now_text
from geolookup.state.current import Current, Published, generation_name
from geolookup.state.edits.carry import carry_over
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.local import LocalEdits
from geolookup.state.edits.outbox.outbox import MACHINE, Outbox
from geolookup.state.edits.store import Edits
from geolookup.state.generations import licences
from geolookup.state.generations import retention as retention
from geolookup.state.generations.assemble import Layer, about_of, assemble, entries_with
from geolookup.state.generations.cache import Cache
from geolookup.state.generations.candidate import HELD_MARK, read_report
from geolookup.state.generations.candidate import Candidate as Candidate
from geolookup.state.generations.digest import digest
from geolookup.state.generations.entries import entries, entries_of
from geolookup.state.generations.parts import (
    BUNDLED,
    REGISTRY,
    SERVICE,
    SNAPSHOTS,
    Part,
    parts_of,
    refusal,
    refusal_of_stack,
    refused_in,
    snapshot_path,
)
from geolookup.state.generations.recovery import numbered
from geolookup.state.generations.timeline import by_recency
from geolookup.state.held import Held
from geolookup.state.locks import Locks
from geolookup.state.marks import Begun, Start
from geolookup.state.publish import Publish, publishing
from geolookup.state.served import open_served

_log = logging.getLogger("geolookup")

#: Below this much free space a sync is not begun; above, the served generation's own size decides.
_LEAST_SPACE_BYTES = 16 << 20


class StateDirectory:
    """One state directory. Opening it touches nothing; whatever writes creates what is missing.

    ``locks`` are its two locks; ``edits`` is its edits.db, and ``local`` what is asked of that; ``holding`` is what
    waits for a person. ``keep_generations`` is how many generations a publish keeps.
    """

    def __init__(self, home: str, *, keep_generations: int = 7) -> None:
        self.home = home
        self.keep_generations = keep_generations
        self.locks = Locks(home)
        self.edits = Edits(home)
        self.local = LocalEdits(self.edits)
        self.holding = Held(home)

    def path(self, *parts: str) -> str:
        """A path inside the directory."""
        return os.path.join(self.home, *parts)

    # What is published

    def open(self) -> Published:
        """Open what is published, or the newest whole generation if CURRENT or what it names is damaged.

        :raises NoStateError: if nothing has been published
        :raises StateDamagedError: if nothing whole is left
        :raises StateTooNewError: if a newer release published it
        """
        return open_served(self.home)

    def current(self) -> Current | None:
        """What is published, or what recovery falls back to; None if nothing was ever published.

        :raises StateTooNewError: if a newer release wrote CURRENT
        """
        try:
            published = self.open()
        except NoStateError:
            return None
        published.close()
        return published.current

    def current_or_none(self) -> Current | None:
        """`current` for whoever publishes: if nothing whole is left, what comes next is the first again."""
        try:
            return self.current()
        except StateDamagedError:
            return None

    def require_current(self) -> Current:
        """What is published.

        :raises NoStateError: if nothing is
        """
        current = self.current_or_none()
        if current is None:
            raise NoStateError(f"{self.home}: nothing has been published here yet: run `geolookup sync`")
        return current

    @contextlib.contextmanager
    def publishing(self) -> Iterator[Publish]:
        """The publish lock, and a publish under way.

        :raises StateBusyError: if another process has been publishing for ten seconds
        :raises StateTooNewError: if a newer release wrote CURRENT
        """
        with self.locks.publish(), publishing(self.home, self.local) as publish:
            yield publish

    def cache(self, generation: int) -> Cache:
        """A generation's cache.db."""
        return Cache(self.path("generations", generation_name(generation), "cache.db"))

    def report(self, generation: int) -> dict[str, Any]:
        """What a generation's report.json holds.

        :raises StateDamagedError: if it is not what was written
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
        path = self.path("generations", f"{retention.CANDIDATE}{os.getpid()}-{secrets.token_hex(4)}")
        with files.file_errors(path):
            os.mkdir(path, 0o700)
        try:
            yield Candidate(path=path)
        finally:
            files.remove_tree(path)

    def hold(self, candidate: Candidate) -> None:
        """Keep a sealed candidate for a person, in place of one held before of the same source."""
        self.holding.hold(candidate, str(candidate.document()["published"].get("name", SERVICE)))

    def held(self) -> Candidate | None:
        """The held candidate of the service, else of another source; None if there is none that can be read.

        :raises StateTooNewError: if a newer release holds one
        """
        found = self.holding.candidates()
        return found.get(SERVICE) or next(iter(found.values()), None)

    def drop_held(self) -> None:
        """Forget every held candidate."""
        for name in self.holding.candidates():
            self.holding.drop(name)

    # Publishing

    def publish(
        self, candidate: Candidate, *, checked_at: str | None = None, refused: tuple[str, ...] | None = None
    ) -> Current:
        """Publish a sealed candidate of one source, as the next snapshot and alone in the next generation.

        The run lock must be held. If it fails, the candidate is where it was.
        """
        document = candidate.document()
        record = document["published"]
        kind = REGISTRY if record["source"] == BUNDLED else SERVICE
        kind = str(record.get("kind", kind))
        part = Part(str(record.get("name", kind)), kind, 0, record["digest"])
        layer = Layer(part=part, path=candidate.path)
        return self.publish_stack([layer], checked_at=checked_at, refused=refused, report=document["report"])

    def publish_stack(
        self,
        layers: Sequence[Layer],
        *,
        spare: Sequence[Layer] = (),
        entries: Sequence[Mapping[str, Any]] = (),
        checked_at: str | None = None,
        refused: tuple[str, ...] | None = None,
        report: Mapping[str, Any] | None = None,
        next_locid: int = 0,
        url_moved: bool = False,
    ) -> Current:
        """Publish a stack of sources, the one of highest precedence first, as the next generation.

        The run lock must be held. A layer whose part has the number 0 is a sealed candidate: it becomes a snapshot;
        the others are snapshots. ``spare`` are snapshots of sources that do not answer yet. ``entries`` is what else
        is known of each source (see `generations.entries`), in any order. If a service comes after another has left,
        what it never had is queued for it, unless ``url_moved`` says that it is the same one. If publishing fails, each
        candidate is where it was.
        """
        placed, moves = self._numbered_layers((*layers, *spare))
        stack = [placed[layer.part.name] for layer in layers]
        with self.candidate() as generation:
            before = self.current_or_none()
            custom = self.custom_of(before)
            record = assemble(
                generation, stack, custom=custom, about=about_of(before, stack), report=dict(report or {})
            )
            with self.publishing() as publish:
                publish.refused = publish.refused if refused is None else refused
                if before is not None and not url_moved:
                    self._carry_over(before, stack)
                target = self.path("generations", generation_name(1 + publish.newest))
                # The overlay first: it reads the candidate's cache.db, and should it fail nothing has moved.
                draft = publish.draft_overlay(1 + publish.newest, Cache(generation.cache), record)
                now = now_text()
                members = entries_with(placed.values(), entries, checked_at or now)
                for path, snapshot in moves:
                    publish.move(path, snapshot)
                publish.move(generation.path, target)
                publish.newest_snapshot = max(
                    [publish.newest_snapshot, *(layer.part.snapshot for layer in placed.values())]
                )
                served = {layer.part.name for layer in stack}
                oldest = min(str(entry["checked_at"]) for entry in members if entry["name"] in served)
                published = publish.commit(
                    draft,
                    generation=1 + publish.newest,
                    newest=1 + publish.newest,
                    published=record,
                    published_at=now,
                    checked_at=oldest,
                    sources=members,
                    **({"next_locid": next_locid} if next_locid else {}),
                )
                for _, snapshot in moves:
                    files.remove_file(os.path.join(snapshot, HELD_MARK))
                publish.clean(published, keep_generations=self.keep_generations)
        return published

    def _carry_over(self, before: Current, stack: Sequence[Layer]) -> None:
        """Queue what a service that comes has never had, of the custom layer of one that has left."""
        origin = before.published.get("custom")
        service = next((layer for layer in stack if layer.part.kind == SERVICE), None)
        if service is None or origin is None:
            return
        record = service.record()
        url = str(record.get("url"))
        if url == origin:
            return
        layer = self.custom_layer(before.generation, before.published)
        theirs = {place.locid: digest(place) for place in Cache(os.path.join(service.path, "cache.db")).custom()}
        with self.edits.transaction() as database:
            outbox = Outbox(database)
            made = outbox.keep_published(str(record["digest"]), lambda: theirs)
            carry_over(outbox, layer, origin=str(origin), url=url, made=made)

    def _numbered_layers(self, layers: Iterable[Layer]) -> tuple[dict[str, Layer], list[tuple[str, str]]]:
        """The layers by name, candidates with the number that they get, and the moves that give it to them."""
        current = self.current_or_none()
        number = max([current.newest_snapshot if current else 0, *numbered(self.path(SNAPSHOTS))])
        moves: list[tuple[str, str]] = []
        placed: dict[str, Layer] = {}
        for layer in layers:
            if layer.part.snapshot:
                placed[layer.part.name] = layer
                continue
            number += 1
            moves.append((layer.path, snapshot_path(self.home, number)))
            placed[layer.part.name] = Layer(part=layer.part._replace(snapshot=number), path=layer.path)
        return placed, moves

    def note_sources(
        self, entries: Sequence[Mapping[str, Any]], *, spare: Sequence[Layer] = (), next_locid: int = 0
    ) -> Current:
        """Note what is known of each source; what answers stays as it is. The run lock must be held.

        ``spare`` are sealed candidates of sources that do not answer yet; they become snapshots.
        """
        placed, moves = self._numbered_layers(spare)
        with self.publishing() as publish:
            current = publish.required()
            members = entries_with(placed.values(), entries, now_text())
            for path, snapshot in moves:
                publish.move(path, snapshot)
            served = {part.name for part in parts_of(current.published)}
            checked = [str(entry["checked_at"]) for entry in members if entry["name"] in served]
            noted = current.replace(
                sequence=publish.sequence,
                sources=members,
                newest_snapshot=max([publish.newest_snapshot, *(layer.part.snapshot for layer in placed.values())]),
                checked_at=min(checked, default=current.checked_at),
                next_locid=next_locid or current.next_locid,
            )
            publish.write_current(noted)
            return noted

    def custom_of(self, current: Current | None) -> str | None:
        """The cache.db that the custom part of what is served comes from; None if it comes from no service."""
        if current is None or not (current.published.get("url") or current.published.get("custom")):
            return None
        return self.cache(current.generation).path

    def republish(
        self,
        *,
        generation: int | None = None,
        refused: tuple[str, ...] | None = None,
        pins: tuple[int, ...] | None = None,
        **changes: Any,
    ) -> Current:
        """Publish again with a freshly compiled overlay: after an edit, or to serve another kept ``generation``.

        ``refused`` and ``pins`` are as in `Current`, and so are ``changes``: other members of it.

        :raises NoStateError: if nothing has been published
        """
        with self.publishing() as publish:
            current = publish.required()
            publish.refused = publish.refused if refused is None else refused
            publish.pins = publish.pins if pins is None else pins
            number = current.generation if generation is None else generation
            record = current.published if generation is None else self.report(number)["published"]
            draft = publish.draft_overlay(number, self.cache(number), record)
            members = {"generation": number, "published": record, "published_at": now_text(), **changes}
            published = publish.commit(draft, **members)
            publish.clean(published, keep_generations=self.keep_generations)
        return published

    def confirm(self, *, etag: str | None, start: Start | None = None) -> Current:
        """Note that the service still has what is published, by the list of that start.

        What it acknowledged before is in that list, so it is laid over no longer: somebody else may have undone it. The
        run lock must be held.
        """
        with self.publishing() as publish:
            current = publish.required()
            changes: dict[str, Any] = {} if etag is None else {"etag": etag}
            if start is not None:
                changes |= {"began_at": start.at, "mark": start.mark.as_json()}
            published = {**current.published, **changes}
            known = tuple(
                {**entry, **changes, "checked_at": now_text()} if entry["kind"] == SERVICE else entry
                for entry in entries(self.home, current)
            )
            names = {part.name for part in parts_of(current.published)}
            checked_at = min(str(entry["checked_at"]) for entry in known if entry["name"] in names)
            acknowledged = self.local.acknowledged_since(Begun.of(current.published))
            if current.recovered is not None or acknowledged or self.local.head() != current.edits:
                draft = publish.draft_overlay(current.generation, self.cache(current.generation), published)
                return publish.commit(draft, published=published, checked_at=checked_at, sources=known)
            confirmed = current.replace(
                sequence=publish.sequence, published=published, checked_at=checked_at, sources=known
            )
            publish.write_current(confirmed)
            return confirmed

    def check_edits(self) -> None:
        """Have edits.db checked before a run, while nothing has been done.

        :raises EditsDamagedError: if it is damaged, gone, or older than what was published or pushed from it
        """
        current = self.current_or_none()
        if current is not None:
            self.edits.require_newest(edits=current.edits, counter=current.pushed)
        self.edits.check()

    def note_push(self) -> bool:
        """Note, in edits.db and in CURRENT, that a push begins: a copy of edits.db from before is told by that.

        The run lock must be held. True if the edits are another machine's: one of the two states is a copy.
        """
        with self.edits.transaction() as database:
            outbox = Outbox(database)
            begun, before, here = outbox.mark(), outbox.setting(MACHINE), machine.machine_id()
            counter = begun.counter
            if before != here:
                outbox.keep_setting(MACHINE, here)
            copied = before not in (None, here)
            if copied:
                outbox.found_here(begun)
        with self.publishing() as publish:
            if publish.current is not None:
                publish.write_current(publish.current.replace(sequence=publish.sequence, pushed=counter))
        return copied

    def rollback(self, generation: int | None = None, *, reason: str = "") -> Current:
        """Serve another kept generation: by default the one served before, of those that were not rolled back.

        A publish like any other, under the run lock. What was served until now is not published by itself again.
        ``reason`` goes into the history.

        :raises UnknownGenerationError: if there is no such generation
        :raises StateDamagedError: if it is not, byte for byte, what was published
        :raises StateBusyError: if a run is under way: it would publish over this
        """
        with self.locks.run():
            current = self.require_current()
            kept = numbered(self.path("generations"))
            target = self._before(current, kept) if generation is None else generation
            if target is None or target not in kept or target == current.generation:
                wanted = "older generation" if generation is None else f"generation {generation} to go back to"
                names = ", ".join(str(number) for number in reversed(kept) if number != current.generation) or "none"
                raise UnknownGenerationError(f"{self.home}: there is no {wanted}: kept besides the served one: {names}")
            Candidate(path=self.path("generations", generation_name(target))).verify()
            record = self.report(target)["published"]
            again = {refusal(part) for part in parts_of(record)}
            left = [part for part in parts_of(current.published) if refusal(part) not in again]
            refused = dict.fromkeys((*current.refused, *map(refusal, left)))
            left_names, names_again = ([part.name for part in parts_of(each)] for each in (current.published, record))
            if left_names != names_again:
                refused[refusal_of_stack(left_names)] = None
                again.add(refusal_of_stack(names_again))
            back = {str(entry["name"]): entry for entry in entries_of(self.home, target, record)}
            rest = (entry for entry in current.sources if entry["name"] not in back)
            published = self.republish(
                generation=target,
                refused=tuple(each for each in refused if each not in again),
                sources=(*back.values(), *rest),
                # That is when the service is known to have had this, however often it confirmed the other.
                checked_at=str(record.get("pulled_at", "")),
            )
            before = {"generation": current.generation}
            after = {"generation": published.generation, **({"reason": reason} if reason else {})}
            self._note_done("rollback", before, after)
        return published

    def _before(self, current: Current, kept: list[int]) -> int | None:
        """The generation that was served last before the one that is, leaving out what was rolled back."""
        recent = [number for number in by_recency(current.served) if number in kept]
        older = [number for number in kept if number < current.generation]  # which no record has: published by others
        for number in dict.fromkeys((*recent, *older)):
            if number == current.generation:
                continue
            try:
                record = self.report(number)["published"]
                digest = record["digest"]
            except StateDamagedError:
                return number  # that it cannot be used is for the caller to say
            if digest == current.digest or refused_in(record, current.refused):
                continue
            return number
        return None

    def pin(self, generation: int) -> Current:
        """Keep a generation whatever retention says, until `unpin`.

        :raises UnknownGenerationError: if there is no such generation
        """
        return self._pinned(generation, keep=True)

    def unpin(self, generation: int) -> Current:
        """Leave a pinned generation to retention again: the next publish, or `prune`, removes it if it is past that.

        :raises UnknownGenerationError: if it is not pinned
        """
        return self._pinned(generation, keep=False)

    def _pinned(self, generation: int, *, keep: bool) -> Current:
        with self.locks.run():
            current = self.require_current()
            if keep and generation not in numbered(self.path("generations")):
                raise UnknownGenerationError(f"{self.home}: there is no generation {generation} to pin")
            if not keep and generation not in current.pins:
                raise UnknownGenerationError(f"{self.home}: generation {generation} is not pinned")
            if keep and generation in current.pins:
                return current
            pins = {*current.pins, generation} if keep else {*current.pins} - {generation}
            published = self.republish(pins=tuple(sorted(pins)), published_at=current.published_at)
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
        with self.locks.run(), self.locks.publish():
            doomed = self._past_retention(keep)
            retention.retain(self.home, self.require_current(), self.keep_generations if keep is None else keep)
            left = numbered(self.path("generations"))
        removed = {number: size for number, size in doomed.items() if number not in left}
        if removed:
            self._note_done("prune", None, {"generations": sorted(removed)})
        return removed

    def expire(self) -> dict[int, str]:
        """Remove the generations that a licence wants gone, pinned ones too; each with the source's name.

        The run lock must be held.
        """
        with self.locks.publish():
            current = self.require_current()
            doomed = {} if current.recovered is not None else licences.expired(self.home, current)
            for number in doomed:
                path = self.path("generations", generation_name(number))
                files.discard_tree(path, retention.temporary_path(path))
            if doomed:
                retention.retain(self.home, current, self.keep_generations)
        if doomed:
            self._note_done("expire", None, {"generations": sorted(doomed)})
        return doomed

    def _past_retention(self, keep: int | None) -> dict[int, int]:
        current = self.require_current()
        if current.recovered is not None:
            raise StateDamagedError(f"{current.recovered}: nothing is removed until `geolookup sync` has mended that")
        doomed = retention.past_retention(self.home, current, self.keep_generations if keep is None else keep)
        return {number: files.tree_bytes(self.path("generations", generation_name(number))) for number in doomed}

    def _note_done(self, what: str, before: Any, after: Any) -> None:
        try:
            self.edits.record(what, "done", before=before, after=after)
        except StateError as error:
            # It is done: to fail now would say that it is not.
            _log.warning("the %s is missing from the history, and all else is done: %s", what, error)

    def custom_layer(self, generation: int, record: dict[str, Any]) -> dict[int, Laid]:
        """The custom layer over a kept generation, with the local edits laid over it, as lookups see it."""
        return self.local.laid_over(self.cache(generation).custom(), Begun.of(record))[0]

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
