"""The kept generations: when each was served, and the newest whole one if what CURRENT names is damaged."""

import json
import os
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from geolookup.base.reasons import reason
from geolookup.index.mapped import header_of
from geolookup.model.errors import (
    IndexFileError,
    IndexTooNewError,
    NoStateError,
    StateDamagedError,
    StateError,
    StateTooNewError,
)
from geolookup.state.base import files
from geolookup.state.base.candidate import read_report
from geolookup.state.base.current import (
    Current,
    Published,
    generation_path,
    index_path,
    open_named,
    overlay_path,
    read_current,
)
from geolookup.state.base.parts import SNAPSHOTS, entries_of
from geolookup.state.packs.reading import is_packed, readable

#: One step: the generation (`GONE` if it is no longer kept), and the moment since which it was served.
Step = tuple[int, str]

#: Stands for generations that retention removed: that something was served then must stay known, not what.
GONE = 0

# CURRENT is read before each answer from the shell, so it must stay small however often somebody goes back and forth.
_MOST_STEPS = 200


def advanced(served: Iterable[Step], generation: int, moment: str, kept: Collection[int]) -> tuple[Step, ...]:
    """The steps once ``generation`` is served from ``moment`` on; generations no longer ``kept`` are merged."""
    steps = list(served)
    if not steps or steps[-1][0] != generation:
        steps.append((generation, moment))
    merged: list[Step] = []
    for number, since in steps:
        known = number if number in kept or number == generation else GONE
        if not merged or merged[-1][0] != known:
            merged.append((known, since))
    return tuple(merged[-_MOST_STEPS:])


def by_recency(served: Iterable[Step]) -> list[int]:
    """The generations, the one served last first."""
    return list(dict.fromkeys(number for number, _ in reversed(list(served)) if number != GONE))


def served_at(served: Iterable[Step], moment: str) -> int | None:
    """The generation that was served at a moment of `clock.now_text`, maybe `GONE`; None before the first step."""
    return next((number for number, since in reversed(list(served)) if since <= moment), None)


def served_since(served: Iterable[Step], generation: int) -> str | None:
    """The moment since which a generation was served last; None if that is not known."""
    return next((moment for number, moment in reversed(list(served)) if number == generation), None)


#: The name in an overlay's header under which `memory_text` stands.
MEMORY = "memory"


def numbered(directory: str) -> list[int]:
    """The numbers that stand as names in ``generations/`` or ``custom/``, newest first.

    :raises StateDamagedError: if the directory exists and cannot be read
    """
    return _numbers(_names(directory))


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StateDamagedError(f"{directory}: cannot be read: {error.strerror}") from error


def _numbers(names: Iterable[str]) -> list[int]:
    return sorted((int(name) for name in names if name.isascii() and name.isdecimal()), reverse=True)


class Standing(NamedTuple):
    """The numbers that stand as names in a state directory, newest first.

    ``unfinished`` are the files that a publish has begun, and not named: overlays, and CURRENT.
    """

    overlays: list[int]
    generations: list[int]
    snapshots: list[int]
    unfinished: list[str]


def _standing(home: str) -> Standing:
    custom = os.path.join(home, "custom")
    names = _names(custom)
    return Standing(
        overlays=_numbers(names),
        generations=numbered(os.path.join(home, "generations")),
        snapshots=numbered(os.path.join(home, SNAPSHOTS)),
        unfinished=[
            *(os.path.join(custom, name) for name in names if name.startswith(files.TEMPORARY)),
            *(os.path.join(home, name) for name in _names(home) if name.startswith(f"CURRENT{files.TEMPORARY}")),
        ],
    )


class Remembered(NamedTuple):
    """The facts that a publish must not forget, as far as can be told: see the members of `Current` with these names.

    ``sequence`` and ``newest`` are the highest ever given.
    """

    sequence: int
    newest: int
    refused: tuple[str, ...] = ()
    pins: tuple[int, ...] = ()
    served: tuple[Step, ...] = ()
    sources: tuple[dict[str, Any], ...] = ()
    newest_snapshot: int = 0


def remembered(home: str, current: Current | None) -> tuple[Standing, Remembered]:
    """The files in the directory, all that was ever published, and a person's decisions about it.

    ``current`` is what CURRENT says, None if it cannot be read. A publish must never count backwards: if CURRENT is
    lost, the names and the overlays remember.

    :raises StateDamagedError: if the directory cannot be read
    """
    there = _standing(home)
    if current is None:
        read = [metadata for _, metadata in _headers(home, there.overlays)]
        found = next((memory for metadata in read if (memory := _memory(metadata)) is not None), Remembered(0, 0))
    else:
        # Overlays that CURRENT knows are older than it, so only those of a publish that failed can count further.
        read = [metadata for _, metadata in _headers(home, (each for each in there.overlays if each > current.overlay))]
        found = Remembered(current.sequence, current.newest, current.refused, current.pins, current.served)
        found = found._replace(sources=current.sources, newest_snapshot=current.newest_snapshot)
    return there, found._replace(
        sequence=max([found.sequence, *(int(metadata.get("sequence", 0)) for metadata in read)]),
        newest=max([found.newest, *there.generations]),
        newest_snapshot=max([found.newest_snapshot, *there.snapshots]),
    )


def _remembered(home: str) -> Remembered:
    try:
        current = read_current(home)
    except StateError:
        current = None
    return remembered(home, current)[1]


def memory_text(refused: Iterable[str], pins: Iterable[int], served: Iterable[Step]) -> str:
    """The part of CURRENT that an overlay's header holds, in case CURRENT is lost."""
    return json.dumps({"refused": list(refused), "pins": list(pins), "served": list(served)}, separators=(",", ":"))


def _memory(metadata: dict[str, str]) -> Remembered | None:
    """The content that `memory_text` wrote; None if it is missing, or written by another release."""
    try:
        found = json.loads(metadata[MEMORY])
        served = tuple((int(number), str(moment)) for number, moment in found["served"])
        return Remembered(0, 0, tuple(map(str, found["refused"])), tuple(map(int, found["pins"])), served)
    except (KeyError, ValueError, TypeError):
        return None


def open_newest_whole(home: str, problem: str, *, skip: frozenset[int] = frozenset()) -> Published:
    """Open the generation that was published last among those that can be used, with its newest overlay.

    Overlays are numbered in the order of publishing, so after a rollback this is the generation that was rolled back
    to. ``problem`` is what was wrong with CURRENT or what it names; the result's ``current.recovered`` says it.
    ``skip`` holds generations already found damaged.

    :raises StateDamagedError: if none can be used
    :raises StateTooNewError: if a newer release published the last one
    :raises NoStateError: if there never was one
    """
    generations = numbered(os.path.join(home, "generations"))
    if not generations:
        raise NoStateError(f"{home}: nothing has been published here yet: run `geolookup sync` ({problem})")
    memory = _remembered(home)
    for overlay, metadata in _headers(home, numbered(os.path.join(home, "custom"))):
        generation = int(metadata.get("generation", 0))
        if generation not in generations or generation in skip:
            continue
        try:
            current = _as_published(home, memory, overlay, metadata)
        except (StateDamagedError, OSError):
            continue
        try:
            index = readable(index_path(home, generation)) if is_packed(generation_path(home, generation)) else None
            return open_named(home, current.replace(recovered=problem), index)
        except IndexTooNewError as error:
            raise StateTooNewError(str(error)) from error
        except (IndexFileError, StateError):
            continue  # what it is made again from is damaged too, or there is no room for it
    raise StateDamagedError(
        f"{home}: no generation here is whole ({problem}): run `geolookup sync`, which replaces them, "
        "or remove the directory's `generations` to start again with an empty state"
    )


def open_kept(home: str, generation: int) -> Published:
    """Open a kept generation as it was served last: with the newest overlay that was compiled for it.

    :raises StateDamagedError: if it, or its overlay, is gone or not what was written
    :raises StateTooNewError: if a newer release wrote it
    """
    memory = _remembered(home)
    for overlay, metadata in _headers(home, numbered(os.path.join(home, "custom"))):
        if metadata.get("generation") != str(generation):
            continue
        try:
            index = readable(index_path(home, generation))
            return open_named(home, _as_published(home, memory, overlay, metadata), index)
        except IndexTooNewError as error:
            raise StateTooNewError(str(error)) from error
        except IndexFileError as error:
            raise StateDamagedError(f"{home}: generation {generation} cannot be used: {error}") from error
        except OSError as error:
            raise StateDamagedError(f"{home}: generation {generation} cannot be used: {reason(error)}") from error
    raise StateDamagedError(f"{home}: generation {generation} cannot be used: its custom layer is gone")


def _as_published(home: str, memory: Remembered, overlay: int, metadata: dict[str, str]) -> Current:
    """CURRENT as it was, or would be, for a generation with this overlay."""
    generation = int(metadata.get("generation", 0))
    record = read_report(generation_path(home, generation))["published"]
    pulled_at = str(record.get("pulled_at", ""))
    sources = memory.sources or entries_of(home, record)
    return Current(
        sequence=memory.sequence,
        generation=generation,
        overlay=overlay,
        edits=int(metadata.get("edits", 0)),
        newest=memory.newest,
        published=record,
        overlay_file={"bytes": os.path.getsize(overlay_path(home, overlay)), "sha256": ""},
        published_at=served_since(memory.served, generation) or pulled_at,
        checked_at=pulled_at,
        refused=memory.refused,
        pins=memory.pins,
        served=memory.served,
        sources=sources,
        newest_snapshot=memory.newest_snapshot,
    )


def _headers(home: str, overlays: Iterable[int]) -> Iterator[tuple[int, dict[str, str]]]:
    """Those of the overlays that can be read, each with what is written in its header."""
    for overlay in overlays:
        try:
            metadata = header_of(overlay_path(home, overlay)).metadata
        except IndexFileError:
            continue
        if all(metadata.get(name, "0").isdecimal() for name in ("generation", "sequence", "edits")):
            yield overlay, metadata
