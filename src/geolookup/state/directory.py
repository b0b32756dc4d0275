"""The state directory: its candidates, what is held, and what is published."""

import contextlib
import logging
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from geolookup.state import files, machine
from geolookup.state.clock import now_text
from geolookup.state.current import Current, Published, cache_path, generation_path
from geolookup.state.edits.carry import carry_over
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.local import LocalEdits
from geolookup.state.edits.outbox.baselines import keep_published
from geolookup.state.edits.outbox.outbox import MACHINE, Outbox
from geolookup.state.edits.store import Edits
from geolookup.state.generations import retention
from geolookup.state.generations.assemble import Layer, about_of, assemble, entries_with
from geolookup.state.generations.cache import Cache
from geolookup.state.generations.candidate import HELD_MARK, Candidate, read_report
from geolookup.state.generations.digest import digest
from geolookup.state.generations.entries import entries
from geolookup.state.generations.held import Held
from geolookup.state.generations.keeping import Keeping
from geolookup.state.generations.parts import (
    BUNDLED,
    REGISTRY,
    SERVICE,
    SNAPSHOTS,
    Part,
    parts_of,
    snapshot_path,
)
from geolookup.state.generations.recovery import numbered
from geolookup.state.locks import PUBLISH_WAIT_S, Locks
from geolookup.state.marks import Begun, Start
from geolookup.state.publish import Publish, publishing
from geolookup.state.served import current_or_none, open_served, required_current, served_current
from geolookup.state.sqlite import RUN_WAIT_S

_log = logging.getLogger("geolookup")

#: Below this much free space a sync is not begun; above, the served generation's own size decides.
_LEAST_SPACE_BYTES = 16 << 20
#: What a block of each family takes on disk while its index is built.
_SCRATCH_BYTES = {"segments_v4": 12, "segments_v6": 36}


class StateDirectory:
    """One state directory. Opening it touches nothing; whatever writes creates what is missing.

    ``locks`` are its two locks; ``edits`` is its edits.db, and ``local`` what is asked of that; ``holding`` is what
    waits for a person, and ``keeping`` decides which generation is served and which are kept. ``keep_generations`` is
    how many a publish keeps, ``run_wait_s`` how long a run waits for another one to end.
    """

    def __init__(self, home: str, *, keep_generations: int = 7, run_wait_s: float = 0.0) -> None:
        self.home = home
        self.keep_generations = keep_generations
        self.locks = Locks(home, run_wait_s=run_wait_s)
        self.edits = Edits(home)
        self.local = LocalEdits(self.edits)
        self.holding = Held(home)
        self.keeping = Keeping(home, self.locks, self.edits, self.local, keep_generations=keep_generations)

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
        return served_current(self.home)

    def current_or_none(self) -> Current | None:
        """`current` for whoever publishes: if nothing whole is left, what comes next is the first again."""
        return current_or_none(self.home)

    def require_current(self) -> Current:
        """What is published.

        :raises NoStateError: if nothing is
        """
        return required_current(self.home)

    def publishing(self, *, wait_s: float = PUBLISH_WAIT_S) -> AbstractContextManager[Publish]:
        """The publish lock, and a publish under way.

        :raises StateBusyError: if another process has been publishing for ten seconds, or ``wait_s``
        :raises StateTooNewError: if a newer release wrote CURRENT
        """
        return publishing(self.home, self.locks, self.local, wait_s=wait_s)

    def cache(self, generation: int) -> Cache:
        """A generation's cache.db."""
        return Cache(cache_path(self.home, generation))

    def report(self, generation: int) -> dict[str, Any]:
        """What a generation's report.json holds.

        :raises StateDamagedError: if it is not what was written
        """
        return read_report(generation_path(self.home, generation))

    # Candidates

    def space_needed(self) -> int:
        """How many free bytes a sync asks for before it begins."""
        found = self.current_or_none()
        if found is None:
            return _LEAST_SPACE_BYTES
        published = found.published
        rows = published.get("rows", {})
        # The blocks stand in temporary files, and then the index's sections, before the index itself is written.
        scratch = sum(size * int(rows.get(name, 0)) for name, size in _SCRATCH_BYTES.items())
        sizes = {name: int(record["bytes"]) for name, record in published["files"].items()}
        scratch += sizes["index"] if scratch else 0
        return max(_LEAST_SPACE_BYTES, int(1.2 * (sum(sizes.values()) + scratch)))

    @contextlib.contextmanager
    def candidate(self) -> Iterator[Candidate]:
        """A new empty candidate, under the run lock; what is neither published nor held at the end is removed."""
        files.require_space(self.home, self.space_needed())
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
                target = generation_path(self.home, 1 + publish.newest)
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
            made = keep_published(database, str(record["digest"]), lambda: theirs)
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

    def republish(self, **changes: Any) -> Current:
        """Publish again with a freshly compiled overlay; ``changes`` are members of `Current`.

        :raises NoStateError: if nothing has been published
        """
        with self.publishing() as publish:
            return publish.again(keep_generations=self.keep_generations, **changes)

    def confirm(self, *, etag: str | None, start: Start | None = None, url: str | None = None) -> Current:
        """Note that the service still has what is published, by the list of that start; ``url`` is its new address.

        What it acknowledged before is in that list, so it is laid over no longer: somebody else may have undone it. The
        run lock must be held.
        """
        with self.publishing() as publish:
            current = publish.required()
            # An ETag is of one address.
            changes: dict[str, Any] = {} if etag is None and url is None else {"etag": etag}
            if start is not None:
                changes |= {"began_at": start.at, "mark": start.mark.as_json()}
            published = {**current.published, **changes}
            if url is not None:
                before = str(published["url"])
                published |= {"url": url, "source": current.source.replace(before, url)}
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
        self.edits.require_in_order()

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

    def custom_layer(self, generation: int, record: dict[str, Any], *, wait_s: float = RUN_WAIT_S) -> dict[int, Laid]:
        """The custom layer over a kept generation, with the local edits laid over it, as lookups see it.

        :raises StateBusyError: if another process holds edits.db exclusively for longer than ``wait_s`` seconds
        """
        return self.local.laid_over(self.cache(generation).custom(), Begun.of(record), wait_s=wait_s)[0]

    def service_url(self) -> str | None:
        """The address of the service that what is served came from; None if there is none in it."""
        current = self.current_or_none()
        return None if current is None else current.published.get("url")

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
