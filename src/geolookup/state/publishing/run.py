"""One run: the state as it is when the run lock is taken, asked once and handed on, and what a run publishes.

Only a run makes generations and snapshots, pins them or goes back, so what it found about these stays true until it
publishes itself. An edit that is published meanwhile changes the overlay and counters alone: each publish reads CURRENT
again, under the publish lock.
"""

import contextlib
import logging
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from geolookup.base.garbage import rarely_collected
from geolookup.model.errors import NoStateError, StateDamagedError, StateError
from geolookup.state.base import files
from geolookup.state.base.candidate import HELD_MARK, Candidate
from geolookup.state.base.clock import now_text
from geolookup.state.base.current import Current, Published, generation_path, overlay_path
from geolookup.state.base.marks import Start
from geolookup.state.base.parts import (
    BOTH,
    BUNDLED,
    PLACE,
    REGISTRY,
    SERVICE,
    SNAPSHOTS,
    part_of,
    parts_of,
    snapshot_path,
)
from geolookup.state.edits.carry import carry_over
from geolookup.state.edits.outbox.outbox import UPSTREAM_URL, Outbox
from geolookup.state.generations import retention
from geolookup.state.generations.assemble import StackedSource, about_of, assemble, entries_with, receive
from geolookup.state.generations.cache import Cache, digest
from geolookup.state.generations.recovery import numbered
from geolookup.state.generations.served import open_served
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.publish import Publish
from geolookup.state.publishing.vrfs import Vrfs

_log = logging.getLogger("geolookup")


@contextlib.contextmanager
def running(directory: StateDirectory, *, wait_s: float | None = None, to_look: bool = False) -> Iterator["Run"]:
    """The run lock, and a run that holds it.

    A run ``to_look`` changes nothing, so it backs nothing up.

    :raises StateBusyError: if another run holds it for longer than ``wait_s`` seconds, else the directory's own wait
    :raises StateTooNewError: if a newer release wrote CURRENT: nothing was touched
    """
    with directory.locks.run(wait_s=wait_s) as read, rarely_collected():
        run = Run(directory, read)
        try:
            if not to_look:
                run.back_up_edits()
            yield run
        finally:
            run.close()


class Run:
    """One run on a state directory: what it found there, and all that it may do because it holds the run lock."""

    def __init__(self, directory: StateDirectory, read: Current | None) -> None:
        """``read`` is what CURRENT said when the lock was taken, None if it could not be read."""
        self.directory = directory
        self.home = directory.home
        self._read = read
        self._looked = self._edits_are_checked = False
        self._found: Published | None = None
        self._published: Current | None = None

    def close(self) -> None:
        """Close what was found."""
        if self._found is not None:
            self._found.close()

    @property
    def found(self) -> Published | None:
        """The generation served when the run began, open until it ends: named by CURRENT, or found by recovery.

        None if nothing whole was left: then the next publish is the first again.

        :raises StateTooNewError: if a newer release published it
        :raises StateUnreadableError: if this user may not read it
        """
        if not self._looked:
            with contextlib.suppress(NoStateError, StateDamagedError):
                self._found = open_served(self.home, self._read)
            self._looked = True
        return self._found

    @property
    def current(self) -> Current | None:
        """The served state: the one this run published last, else the one it found; the errors are those of `found`."""
        if self._published is not None:
            return self._published
        return None if self.found is None else self.found.current

    @property
    def is_as_found(self) -> bool:
        """True if this run has published nothing."""
        return self._published is None

    def check_edits(self) -> None:
        """Have edits.db checked while nothing has been done; once is enough.

        :raises EditsDamagedError: if it is damaged, gone, or lacks what was published or pushed from it
        """
        if not self._edits_are_checked:
            self.directory.check_edits(self.current)
            self._edits_are_checked = True

    def back_up_edits(self) -> None:
        """Have the newest backup of edits.db hold every edit; what prevents that does not stop the run."""
        if self.directory.edits.is_of_others():
            return
        try:
            with self.directory.locks.publish():
                self.directory.edits.back_up_if_newer(self._read)
        except StateError as error:
            _log.debug("edits.db is not backed up: %s", error)

    @contextlib.contextmanager
    def notices_of_before(self) -> Iterator[list[dict[str, Any]]]:
        """The notices of an earlier run that died before its report; forgotten if this one ends well and tells them.

        :raises EditsDamagedError: if they cannot be read
        """
        yield self._notices()
        if self._notices():
            with self.directory.edits.transaction() as database:
                Outbox(database).told()

    def _notices(self) -> list[dict[str, Any]]:
        if not self.directory.edits.exists():
            return []
        with self.directory.edits.reading() as database:
            return Outbox(database).untold()

    def upstream_url(self) -> str | None:
        """The upstream that this state belongs to: the one pushed to, else the one pulled from; None without either."""
        pushed_to = self.directory.local.setting(UPSTREAM_URL)
        return pushed_to if pushed_to is not None or self.current is None else self.current.published.get("url")

    def custom_cache(self) -> str | None:
        """The cache.db that the custom part of what is served comes from; None if it comes from no service."""
        return self.directory.custom_of(self.current)

    def _publishing(self) -> contextlib.AbstractContextManager[Publish]:
        opened = None if self.found is None or self.found.current.recovered is not None else self.found.current
        return self.directory.publishing(whole=opened)

    @contextlib.contextmanager
    def candidate(self) -> Iterator[Candidate]:
        """A new empty candidate; what is neither published nor held at the end is removed."""
        files.require_space(self.home, self.directory.space_needed(self.current))
        path = self.directory.path("generations", f"{retention.CANDIDATE}{os.getpid()}-{secrets.token_hex(4)}")
        with files.file_errors(path):
            os.mkdir(path, 0o700)
        try:
            yield Candidate(path=path)
        finally:
            files.remove_tree(path)

    def publish(
        self, candidate: Candidate, *, checked_at: str | None = None, refused: tuple[str, ...] | None = None
    ) -> Current:
        """Publish a sealed candidate of one source, as the next snapshot and alone in the next generation.

        If it fails, the candidate is where it was.
        """
        document = candidate.document()
        record = document["published"]
        kind = REGISTRY if record["source"] == BUNDLED else SERVICE
        kind = str(record.get("kind", kind))
        part = part_of({**record, "kind": kind}, name=str(record.get("name", kind)), snapshot=0)
        layer = StackedSource(part=part, path=candidate.path)
        return self.publish_stack([layer], checked_at=checked_at, refused=refused, report=document["report"])

    def publish_stack(
        self,
        layers: Sequence[StackedSource],
        *,
        spare: Sequence[StackedSource] = (),
        entries: Sequence[Mapping[str, Any]] = (),
        checked_at: str | None = None,
        refused: tuple[str, ...] | None = None,
        report: Mapping[str, Any] | None = None,
        next_locid: int = 0,
        url_moved: bool = False,
        received: str | None = None,
        vrfs: Vrfs | None = None,
    ) -> Current:
        """Publish a stack of sources, the one of highest precedence first, as the next generation.

        A layer whose part has the number 0 is a sealed candidate: it becomes a snapshot; the others are snapshots.
        ``spare`` are snapshots of sources that do not answer yet. ``entries`` is what else is known of each source (see
        `generations.entries`), in any order. If a service comes after another has left, what it never had is queued for
        it, unless ``url_moved`` says that it is the same one. If publishing fails, each candidate is where it was.
        With ``received``, a compiled custom layer, all layers are those of a fleet's builder, as `receive` says.
        """
        placed, moves = self._numbered_layers((*layers, *spare))
        stack = [placed[layer.part.name] for layer in layers]
        with self.candidate() as generation:
            before = self.current
            if received is not None:
                record = receive(generation, *stack, report=dict(report or {}))
            else:
                custom = self.custom_cache()
                record = assemble(
                    generation, stack, custom=custom, about=about_of(before, stack), report=dict(report or {})
                )
            with self._publishing() as publish:
                publish.received, publish.received_vrfs = received, vrfs
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
                    **(publish.vrfs(record) if vrfs is not None else {}),
                )
                for _, snapshot in moves:
                    files.remove_file(os.path.join(snapshot, HELD_MARK))
                publish.clean(published, keep_generations=self.directory.keep_generations)
        self._published = published
        return published

    def receive(
        self,
        candidate: Candidate | None,
        custom: str | None,
        *,
        vrfs: Vrfs | None,
        about: Mapping[str, Any],
        entries: Sequence[Mapping[str, Any]],
        checked_at: str,
    ) -> Current:
        """Publish what the builder of a fleet published.

        ``candidate`` has a new default layer, None if that is what is served; ``custom`` is a new custom layer, and
        ``vrfs`` are those of routing domains, None if that is. ``about`` are members of the generation's record that
        may change while its files do not.
        """
        if candidate is not None:
            record = candidate.document()["published"]
            part = part_of({**record, "layer": BOTH if "network" in record["files"] else PLACE}, snapshot=0)
            layer = StackedSource(part=part, path=candidate.path)
            if custom is None:
                assert self.current is not None
                custom = overlay_path(self.home, self.current.overlay)
            return self.publish_stack([layer], entries=entries, checked_at=checked_at, received=custom, vrfs=vrfs)
        with self._publishing() as publish:
            current = publish.required()
            changes: dict[str, Any] = {
                "published": {**current.published, **about},
                "sources": tuple(dict(entry) for entry in entries),
                "checked_at": checked_at,
            }
            publish.received, publish.received_vrfs = custom, vrfs
            if custom is not None or vrfs is not None or current.recovered is not None:
                keep = self.directory.keep_generations
                self._published = publish.again(keep_generations=keep, **changes)
            else:
                self._published = current.replace(sequence=publish.sequence, **changes)
                publish.write_current(self._published)
        return self._published

    def _carry_over(self, before: Current, stack: Sequence[StackedSource]) -> None:
        """Queue what a service that comes has never had, of the custom layer of one that has left."""
        origin = before.published.get("custom")
        service = next((layer for layer in stack if layer.part.kind == SERVICE), None)
        if service is None or origin is None:
            return
        record = service.record()
        url = str(record.get("url"))
        if url == origin:
            return
        layer = self.directory.custom_layer(before.generation, before.published)
        theirs = {place.locid: place for place in Cache(os.path.join(service.path, "cache.db")).custom()}
        with self.directory.edits.ledger() as ledger:
            digests = {number: digest(place) for number, place in theirs.items()}
            made = ledger.outbox.baselines.keep_published(str(record["digest"]), lambda: digests)
            carry_over(ledger, layer, theirs, origin=str(origin), url=url, made=made)

    def _numbered_layers(
        self, layers: Iterable[StackedSource]
    ) -> tuple[dict[str, StackedSource], list[tuple[str, str]]]:
        """The layers by name, candidates with the number that they get, and the moves that give it to them."""
        current = self.current
        number = max([current.newest_snapshot if current else 0, *numbered(self.directory.path(SNAPSHOTS))])
        moves: list[tuple[str, str]] = []
        placed: dict[str, StackedSource] = {}
        for layer in layers:
            if layer.part.snapshot:
                placed[layer.part.name] = layer
                continue
            number += 1
            moves.append((layer.path, snapshot_path(self.home, number)))
            placed[layer.part.name] = StackedSource(part=layer.part._replace(snapshot=number), path=layer.path)
        return placed, moves

    def note_sources(
        self, entries: Sequence[Mapping[str, Any]], *, spare: Sequence[StackedSource] = (), next_locid: int = 0
    ) -> Current:
        """Note what is known of each source; what answers stays as it is.

        ``spare`` are sealed candidates of sources that do not answer yet; they become snapshots.
        """
        placed, moves = self._numbered_layers(spare)
        with self._publishing() as publish:
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
        self._published = noted
        return noted

    def confirm(self, *, etag: str | None, start: Start | None = None, url: str | None = None) -> Current:
        """Note that the service still has what is published, by the list of that start; ``url`` is its new address.

        What it acknowledged before is in that list, so it is laid over no longer: somebody else may have undone it.
        """
        with self._publishing() as publish:
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
                for entry in current.sources
            )
            names = {part.name for part in parts_of(current.published)}
            checked_at = min(str(entry["checked_at"]) for entry in known if entry["name"] in names)
            if current.recovered is not None or self.directory.edits.head() != current.edits:
                draft = publish.draft_overlay(current.generation, self.directory.cache(current.generation), published)
                confirmed = publish.commit(draft, published=published, checked_at=checked_at, sources=known)
            else:
                confirmed = current.replace(
                    sequence=publish.sequence, published=published, checked_at=checked_at, sources=known
                )
                publish.write_current(confirmed)
        self._published = confirmed
        return confirmed

    def note_push(self) -> str | None:
        """Note, in edits.db and in CURRENT, that a push begins: a copy of edits.db from before is told by that.

        :returns: what to say if the edits are of another state, so that one of the two is a copy; None if they are not
        """
        with self.directory.edits.transaction() as database:
            outbox = Outbox(database)
            counter, copied, line = outbox.mark().counter, outbox.claim(), outbox.line()
        with self._publishing() as publish:
            if publish.current is not None:
                self._published = publish.current.replace(sequence=publish.sequence, pushed=counter, line=line)
                publish.write_current(self._published)
        return copied

    def republish(self) -> Current:
        """Publish again with a freshly compiled overlay.

        :raises NoStateError: if nothing has been published
        """
        self._published = self.directory.republish()
        return self._published

    def expire(self) -> dict[int, str]:
        """Remove the generations that a licence wants gone, pinned ones too; each with the source's name."""
        return {} if self.current is None else self.directory.keeping.expire(self.current)

    def pack(self) -> None:
        """Keep what was superseded as what differs from what is served.

        :raises StateUnwritableError: if the disk is full; every generation can still be read
        :raises StateDamagedError: if something is damaged; the rest is packed
        """
        # What recovery falls back to is not what CURRENT names, and that is what must stand whole.
        usable = self.current is not None and self.current.recovered is None
        self.directory.keeping.pack(self.current if usable else None)
