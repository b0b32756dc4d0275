"""Held snapshots and stack changes: why each is held, and opened like a generation, as it would be served."""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from geolookup.history.impact import compiled
from geolookup.index.merging import write_merged
from geolookup.index.reader import IndexReader
from geolookup.index.stack import write_stack
from geolookup.model.errors import IndexFileError, StateDamagedError, UnknownGenerationError
from geolookup.state.base import files
from geolookup.state.base.current import Current, Published
from geolookup.state.base.marks import Begun
from geolookup.state.base.parts import SERVICE, Part, part_of, parts_of, snapshot_path
from geolookup.state.generations.assemble import StackedSource, about_of
from geolookup.state.generations.cache import Cache
from geolookup.state.publishing.catalogue import HELD
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.stack import served_names

#: The name of a held change of the stack among what is held.
STACK = "stack"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldItem:
    """One held item: the newest snapshot of a source, or with ``name`` None a change of the stack.

    ``reasons`` say why, a sentence each. ``record`` is the snapshot's own document and ``report`` its pull's; both are
    empty for a change of the stack, which ``names`` describes: its sources in order. ``path`` has its files. Of a stack
    whose files a person has ``given`` the candidates are held, too.
    """

    name: str | None
    digest: str
    reasons: tuple[str, ...]
    record: Mapping[str, Any]
    report: Mapping[str, Any]
    names: tuple[str, ...] = ()
    path: str = ""
    given: bool = False

    @property
    def reference(self) -> str:
        """The name by which a person tells it from other held ones."""
        return f"{HELD}:{self.name or STACK}"


def held_items(directory: StateDirectory) -> list[HeldItem]:
    """Everything that is held, sources first."""
    found = []
    stack = directory.holding.stack()
    for name, candidate in directory.holding.candidates().items():
        if stack is not None and stack["given"] and name in stack["names"]:
            continue
        document = candidate.document()
        reasons = document["report"].get("reasons") or ()
        record = document["published"]
        found.append(
            HeldItem(
                name=name,
                digest=str(record["digest"]),
                reasons=tuple(map(str, reasons)),
                record=record,
                report=document["report"],
                path=candidate.path,
            )
        )
    if stack is not None:
        reasons, names = tuple(map(str, stack["reasons"])), tuple(stack["names"])
        digest = str(stack["digest"])
        held = HeldItem(name=None, digest=digest, reasons=reasons, record={}, report={}, names=names)
        found.append(replace(held, given=bool(stack["given"])))
    return found


def is_held(reference: object) -> bool:
    """True if a reference means something held."""
    return isinstance(reference, str) and reference.strip().partition(":")[0] == HELD


def find_held(directory: StateDirectory, reference: str) -> HeldItem:
    """The held item that ``held`` or ``held:NAME`` names.

    :raises UnknownGenerationError: if that is not held, or several are and none is named
    """
    found = held_items(directory)
    if not found:
        raise UnknownGenerationError(f"{directory.home}: nothing is held")
    text = reference.strip()
    named = [each for each in found if text in (HELD, each.reference)]
    if len(named) == 1:
        return named[0]
    wrong = "several things are held" if named else f"{text!r:.60} is not held"
    raise UnknownGenerationError(f"{directory.home}: {wrong}: name one: {', '.join(each.reference for each in found)}")


@contextlib.contextmanager
def opened_held(directory: StateDirectory, held: HeldItem) -> Iterator[tuple[Published, dict[Part, str]]]:
    """The generation that would be served if it were accepted now, and the directories of its unnumbered parts.

    The generation of its CURRENT is the served one. Nothing in the state directory is touched.

    :raises NoStateError: if nothing has been published
    :raises StateDamagedError: if a snapshot differs from what was written
    """
    current = directory.require_current()
    layers = _layers(directory, current, held)
    about = about_of(current, layers)
    record = {**about, "stack": [layer.part.as_dict() for layer in layers], "digest": held.digest}
    begun = Begun.of(record)
    cache = _custom(directory, current, layers)
    custom, *_ = directory.local.laid_over([] if cache is None else Cache(cache).custom(), begun)
    with contextlib.ExitStack() as stack:
        try:
            base = stack.enter_context(_base([layer for layer in layers if layer.part.has_places]))
            network = stack.enter_context(_network([layer for layer in layers if layer.part.has_networks]))
        except IndexFileError as error:
            raise StateDamagedError(f"{held.reference} cannot be opened: {error}") from error
        overlay = stack.enter_context(compiled(custom.values(), current.generation))
        published = Published(current.replace(published=record), base, overlay, network)
        yield published, {layer.part: layer.path for layer in layers}


def _layers(directory: StateDirectory, current: Current, held: HeldItem) -> list[StackedSource]:
    """The stack that would be served, each source with its place."""
    layers = {
        part.name: StackedSource(part=part, path=snapshot_path(directory.home, part.snapshot))
        for part in parts_of(current.published)
    }
    if held.name is not None:
        # The number that it would get: a stack names its parts by their numbers.
        number = 1 + current.newest_snapshot
        part = part_of({**held.record, "digest": held.digest}, name=held.name, snapshot=number)
        layers[held.name] = StackedSource(part=part, path=held.path)
        return [layers[name] for name in served_names(current) or [held.name]]
    for entry in current.sources:
        if entry["name"] in held.names and entry.get("digest"):
            part = part_of(entry)
            layers[part.name] = StackedSource(part=part, path=snapshot_path(directory.home, part.snapshot))
    number = current.newest_snapshot
    for name, candidate in directory.holding.candidates().items() if held.given else ():
        if name in held.names:
            number += 1
            part = part_of(candidate.document()["published"], name=name, snapshot=number)
            layers[name] = StackedSource(part=part, path=candidate.path)
    missing = [name for name in held.names if name not in layers]
    if missing:
        raise UnknownGenerationError(f"{held.reference}: {', '.join(missing)} has no snapshot yet: sync first")
    return [layers[name] for name in held.names]


def _custom(directory: StateDirectory, current: Current, layers: list[StackedSource]) -> str | None:
    """The cache.db whose custom geolocations would be served: see `assemble`. None if no source has any."""
    service = next((layer for layer in layers if layer.part.kind == SERVICE), None)
    left = directory.custom_of(current) if service is None else None
    first = service or next((layer for layer in layers if layer.part.has_places), None)
    return left or (None if first is None else os.path.join(first.path, "cache.db"))


@contextlib.contextmanager
def _network(layers: list[StackedSource]) -> Iterator[str | None]:
    """Where the networks of a stack stand: in the one index, or in a temporary file of all; None if there are none."""
    if len(layers) <= 1:
        yield os.path.join(layers[0].path, "network") if layers else None
        return
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(IndexReader.open(os.path.join(layer.path, "network"))) for layer in layers]
        with files.file_errors(tempfile.gettempdir()):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="geolookup-"))
        path = os.path.join(folder, "network")
        with files.file_errors(path):
            named = [(layer.part.name, reader) for layer, reader in zip(layers, readers, strict=True)]
            write_merged(path, named, folder=folder)
        yield path


@contextlib.contextmanager
def _base(layers: list[StackedSource]) -> Iterator[IndexReader]:
    """The default layer of a stack: the one index, or all of them as one temporary file."""
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(IndexReader.open(os.path.join(layer.path, "index"))) for layer in layers]
        if len(readers) == 1 and not readers[0].has_masks:
            readers[0].sources = readers[0].sources or (layers[0].part.name,)
            yield readers[0]
            return
        with files.file_errors(tempfile.gettempdir()):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="geolookup-"))
        path = os.path.join(folder, "index")
        with files.file_errors(path):
            named = [(layer.part.name, reader) for layer, reader in zip(layers, readers, strict=True)]
            write_stack(path, named, extra={}, folder=folder)
        yield stack.enter_context(IndexReader.open(path))
