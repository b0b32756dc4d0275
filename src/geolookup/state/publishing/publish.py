"""Publishing: build, check, rename; the rename makes it visible.

A publish is one rename of CURRENT; everything that it names is durable before. A publisher holds the publish
lock.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from geolookup.base import disk
from geolookup.index.builder import IndexBuilder
from geolookup.index.mapped import header_of
from geolookup.index.writer import restamped
from geolookup.model.errors import NoStateError, StateDamagedError, StateError
from geolookup.state.base import files, readers
from geolookup.state.base.candidate import read_report
from geolookup.state.base.clock import now_text
from geolookup.state.base.current import (
    Current,
    current_bytes,
    generation_path,
    overlay_path,
    read_to_publish,
)
from geolookup.state.base.marks import Begun
from geolookup.state.base.parts import has_service, is_received
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.local import LocalEdits
from geolookup.state.edits.names import facts_of_sites
from geolookup.state.edits.outbox.outbox import Newest
from geolookup.state.generations import retention
from geolookup.state.generations.cache import Cache
from geolookup.state.generations.recovery import MEMORY, advanced, memory_text, remembered
from geolookup.state.generations.served import nothing_published, open_other, tell_followers
from geolookup.state.publishing.locks import PUBLISH_WAIT_S, Locks
from geolookup.state.publishing.vrfs import VrfLayers, Vrfs, VrfsOfEdits, remove_unlisted


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An overlay that was compiled under a temporary name; ``newest`` is the newest edit in it, ``at`` when it was."""

    path: str
    record: dict[str, Any]
    newest: Newest
    at: str


@contextlib.contextmanager
def publishing(
    home: str, locks: Locks, local: LocalEdits, *, whole: Current | None = None, wait_s: float = PUBLISH_WAIT_S
) -> Iterator["Publish"]:
    """The publish lock, and a publish under way. If it fails before CURRENT is replaced, what it made goes.

    ``whole`` is what the caller has opened, of which nothing is looked at again.

    :raises StateBusyError: if another process has been publishing for ten seconds, or ``wait_s``
    :raises StateTooNewError: if a newer release wrote CURRENT: nothing was touched
    """
    with locks.publish(wait_s=wait_s):
        publish = Publish(home, local, whole)
        try:
            yield publish
        except BaseException:
            publish.take_back()
            raise


class Publish:
    """One publish under way, of a CURRENT that is read once and files that are opened once.

    ``current`` is what was published before it, None if nothing whole was: then the next publish is the first again.
    ``newest`` is the highest generation ever committed; ``refused``, ``pins`` and ``served`` are those of the CURRENT
    that it will write; ``undo`` takes back what it made.
    """

    def __init__(self, home: str, local: LocalEdits, whole: Current | None = None) -> None:
        self.home = home
        self.local = local
        #: Of a reader: the compiled custom layer that came from its fleet's builder, None for the one that is served.
        self.received: str | None = None
        #: Of a reader: the VRFs that came from there, None for those that are served.
        self.received_vrfs: Vrfs | None = None
        self.undo = contextlib.ExitStack()
        self._before, said, problem = read_to_publish(home, whole)
        self.current = said if problem is None else self._recovered(problem)
        self._there, memory = remembered(home, said)
        self._group = readers.group_of(home)
        # Each with the generation that it was compiled for, as far as that is known.
        self._overlays: dict[int, int | None] = dict.fromkeys(self._there.overlays)
        self.sequence = 1 + memory.sequence
        self.newest = memory.newest
        self.refused = memory.refused
        self.pins = memory.pins
        self.served = memory.served
        self.newest_snapshot = memory.newest_snapshot
        if self.current is not None:
            self._overlays[self.current.overlay] = self.current.generation

    def _recovered(self, problem: str) -> Current | None:
        """The generation served instead of a CURRENT that cannot be; None if nothing whole is left."""
        with contextlib.suppress(NoStateError, StateDamagedError):
            published = open_other(self.home, problem)
            published.close()
            return published.current
        return None

    def take_back(self) -> None:
        """Remove what was made, unless CURRENT was replaced and names it."""
        # If CURRENT cannot be read it may name what was made: then the next run decides.
        with contextlib.suppress(StateDamagedError):
            if current_bytes(self.home) == self._before:
                self.undo.close()

    def required(self) -> Current:
        """The state published before.

        :raises NoStateError: if nothing was
        """
        if self.current is None:
            raise nothing_published(self.home)
        return self.current

    def _path(self, *parts: str) -> str:
        return os.path.join(self.home, *parts)

    def _open_to_group(self, path: str) -> None:
        """Let the group read what is complete, if it may read what is published."""
        if self._group is not None:
            readers.open_to_group(self.home, path, self._group)

    def move(self, path: str, target: str) -> None:
        """Give a directory that is complete the name by which CURRENT will know it."""
        self._open_to_group(path)
        with files.file_errors(target):
            os.rename(path, target)
            self.undo.callback(_rename_back, target, path)
            disk.sync_directory(os.path.dirname(target))

    def draft_overlay(self, generation: int, cache: Cache, record: dict[str, Any]) -> Draft:
        """Compile the overlay that goes with a generation, from its list and the local edits.

        :raises EditsDamagedError: if edits.db is not the one, or newer than the one, that was published from
        """
        if is_received(record):
            return self._stamped(generation)
        self.local.edits.require_newest(self.current)
        custom, sites = cache.named()
        layer, newest, names = self.local.laid_over(custom, Begun.of(record))
        return self.draft(generation, list(layer.values()), newest, record, {**facts_of_sites(sites), **names})

    def draft(
        self,
        generation: int,
        layer: list[Laid],
        newest: Newest,
        record: dict[str, Any],
        names: Mapping[int, Mapping[str, str]],
    ) -> Draft:
        """Compile an overlay under a temporary name, for ``generation``, whose record that is, to be served with."""
        path, now = self._overlay_of(generation)
        record = compile_overlay(
            path,
            layer,
            generation=generation,
            sequence=self.sequence,
            edits=newest.edits,
            memory=memory_text(self.refused, self.pins, self.served),
            has_service=has_service(record),
            names=names,
        )
        return Draft(path=path, record=record, newest=newest, at=now)

    def _stamped(self, generation: int) -> Draft:
        """The custom layer of a reader, which was compiled by its builder, as the overlay of ``generation``."""
        source = self.received
        if source is None:
            source = overlay_path(self.home, self.required().overlay)
        path, now = self._overlay_of(generation)
        with files.file_errors(path):
            extra = overlay_extra(generation, self.sequence, 0, memory_text(self.refused, self.pins, self.served))
            size, sha256 = restamped(path, source, extra=extra)
        counts = header_of(path).counts
        segments = counts["segments_v4"] + counts["segments_v6"]
        record = {"bytes": size, "sha256": sha256, "locations": counts["locations"], "segments": segments}
        return Draft(path=path, record=record, newest=Newest(), at=now)

    def _overlay_of(self, generation: int) -> tuple[str, str]:
        """The path of a new overlay under a temporary name, and the moment from which on it is served."""
        now = now_text()
        self.served = advanced(self.served, generation, now, self._there.generations)
        self.pins = tuple(number for number in self.pins if number in self._there.generations or number == generation)
        path = retention.temporary_path(self._path("custom", "overlay"))
        self.undo.callback(files.remove_file, path)
        return path, now

    def commit(self, draft: Draft, **changes: Any) -> Current:
        """Name the overlay and write CURRENT: the one moment at which anything becomes visible."""
        current = self.current
        overlay = 1 + max([current.overlay if current else 0, *self._overlays])
        target = overlay_path(self.home, overlay)
        self._open_to_group(draft.path)
        self.undo.callback(files.remove_file, target)
        files.rename_durably(draft.path, target)
        members = {
            "sequence": self.sequence,
            "overlay": overlay,
            "overlay_file": draft.record,
            **draft.newest._asdict(),
            "refused": self.refused,
            "pins": self.pins,
            "served": self.served,
            "newest_snapshot": self.newest_snapshot,
            "recovered": None,
            **changes,
        }
        published = Current(**members) if current is None else current.replace(**members)
        self._overlays[overlay] = published.generation
        self.write_current(published)
        return published

    def edited(
        self, layer: list[Laid], newest: Newest, names: Mapping[int, Mapping[str, str]], *, vrfs: bool = False
    ) -> Current:
        """Publish ``layer``, the custom layer as the edits up to ``newest`` left it, over the generation of before.

        ``names`` are those of its sites and what else is known of them, by locid. ``vrfs`` is true if VRFs may have
        changed.
        """
        current = self.required()
        draft = self.draft(current.generation, layer, newest, current.published, names)
        published = self.commit(draft, published_at=draft.at, **(self.vrfs(current.published) if vrfs else {}))
        # Generations go with the runs that make them, by the retention that those were told.
        self.clean(published, keep_generations=None)
        return published

    def vrfs(self, record: dict[str, Any]) -> dict[str, int]:
        """The member of CURRENT that names the VRFs served with a generation, whose record that is.

        Those that changed are compiled, if they are not a reader's: then what came is served, or what is.
        """
        if self.received_vrfs is None and is_received(record):
            return {}
        layers = VrfLayers(self.home, self.current, self.received_vrfs or VrfsOfEdits(self.local))
        self.undo.callback(layers.take_back)
        number = layers.compiled()
        for path in layers.made:
            self._open_to_group(path)
        return {"vrfs": number}

    def again(
        self,
        generation: int | None = None,
        *,
        refused: tuple[str, ...] | None = None,
        pins: tuple[int, ...] | None = None,
        keep_generations: int,
        **changes: Any,
    ) -> Current:
        """Publish again with a freshly compiled overlay: after an edit, or to serve another kept ``generation``.

        ``refused`` and ``pins`` are as in `Current`, and so are ``changes``: other members of it.

        :raises NoStateError: if nothing has been published
        """
        current = self.required()
        self.refused = self.refused if refused is None else refused
        self.pins = self.pins if pins is None else pins
        number = current.generation if generation is None else generation
        path = generation_path(self.home, number)
        record = current.published if generation is None else read_report(path)["published"]
        draft = self.draft_overlay(number, Cache(os.path.join(path, "cache.db")), record)
        members = {"generation": number, "published": record, "published_at": draft.at, **changes}
        if current.vrfs or current.recovered is not None or self.received_vrfs is not None:
            members |= self.vrfs(record)  # a backup of the edits may have been put back
        published = self.commit(draft, **members)
        self.clean(published, keep_generations=keep_generations)
        return published

    def write_current(self, current: Current) -> None:
        """Replace CURRENT, durably, and tell the lookups of this process."""
        mode = 0o600 if self._group is None else 0o640
        files.replace_durably(self._path("CURRENT"), current.encoded(), mode=mode)
        tell_followers(self.home)

    def clean(self, published: Current, *, keep_generations: int | None) -> None:
        """Remove overlays no longer needed and, unless ``keep_generations`` is None, generations past retention."""
        # It is published already: what cannot be removed now waits for the next time.
        with contextlib.suppress(StateError, OSError):
            retention.after_publish(
                self.home,
                published,
                keep_generations,
                overlays=self._overlays,
                before=self._there,
            )
            remove_unlisted(self.home, published)


def compile_overlay(
    path: str,
    layer: Iterable[Laid],
    *,
    generation: int,
    sequence: int,
    edits: int,
    memory: str,
    has_service: bool = True,
    names: Mapping[int, Mapping[str, str]] | None = None,
) -> dict[str, Any]:
    """Write the overlay of ``generation`` durably to the new file ``path``; its name is for the caller to sync.

    ``sequence``, ``edits`` and ``memory`` (see `recovery.memory_text`) are of the CURRENT that will name it: should
    CURRENT be lost, they are found here. Without a service in the stack nothing is pending. ``names`` are those of
    sites and what else is known of them, by locid. Returns the file's record for CURRENT.
    """
    builder = IndexBuilder("custom", records=bool(names))
    # In an order of their own, so that the same geolocations make the same file, which readers of a fleet have then.
    ordered = sorted(layer, key=lambda laid: laid.place.locid)
    builder.add_places([(laid.place, has_service and bool(laid.edits)) for laid in ordered], names)
    with files.file_errors(path):
        summary = builder.write(path, extra=overlay_extra(generation, sequence, edits, memory))
    return {
        "bytes": summary.bytes,
        "sha256": summary.sha256,
        "locations": summary.locations,
        "segments": summary.segments_v4 + summary.segments_v6,
    }


def overlay_extra(generation: int, sequence: int, edits: int, memory: str) -> dict[str, str]:
    """The members of an overlay's header that say which CURRENT names it."""
    return {"generation": str(generation), "sequence": str(sequence), "edits": str(edits), MEMORY: memory}


def _rename_back(path: str, before: str) -> None:
    with contextlib.suppress(OSError):
        os.rename(path, before)
