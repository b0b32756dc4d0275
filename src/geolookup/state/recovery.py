"""What to serve where CURRENT, or what it names, is damaged: what was published last and is whole."""

import os

from geolookup.errors import (
    IndexFileError,
    IndexTooNewError,
    NoStateError,
    StateDamagedError,
    StateError,
    StateTooNewError,
)
from geolookup.index.reader import IndexReader
from geolookup.state.candidate import read_report
from geolookup.state.current import Current, Published, generation_name, open_named, overlay_path, read_current


def numbered(directory: str) -> list[int]:
    """The numbers that stand as names in ``generations/`` or ``custom/``, newest first.

    :raises StateDamagedError: where the directory is there and cannot be read
    """
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StateDamagedError(f"{directory}: cannot be read: {error.strerror}") from error
    return sorted((int(name) for name in names if name.isascii() and name.isdecimal()), reverse=True)


def remembered(home: str) -> tuple[int, int, tuple[str, ...]]:
    """The highest sequence and generation that were ever published, and the digests refused, as far as can be told.

    A publish must never count backwards: where CURRENT is lost, the names and the overlays remember.
    """
    sequences, generations = [0], [0, *numbered(os.path.join(home, "generations"))]
    refused: tuple[str, ...] = ()
    try:
        current = read_current(home)
    except StateError:
        pass
    else:
        sequences.append(current.sequence)
        generations.append(current.newest)
        refused = current.refused
    sequences += [int(metadata.get("sequence", 0)) for _, metadata in _overlays(home)]
    return max(sequences), max(generations), refused


def open_newest_whole(home: str, problem: str, *, skip: frozenset[int] = frozenset()) -> Published:
    """Open the generation that was published last among those that can be used, with its newest overlay.

    Overlays are numbered in the order of publishing, so after a rollback this is the generation that was rolled back
    to. ``problem`` is what was wrong with CURRENT or what it names; the result's ``current.recovered`` says it.
    ``skip`` holds generations already found damaged.

    :raises StateDamagedError: where none can be used
    :raises StateTooNewError: where a newer release published the last one
    :raises NoStateError: where there never was one
    """
    generations = numbered(os.path.join(home, "generations"))
    if not generations:
        raise NoStateError(f"{home}: nothing has been published here yet: run `geolookup sync` ({problem})")
    sequence, newest, refused = remembered(home)
    for overlay, metadata in _overlays(home):
        generation = int(metadata.get("generation", 0))
        if generation not in generations or generation in skip:
            continue
        try:
            record = read_report(os.path.join(home, "generations", generation_name(generation)))["published"]
            size_bytes = os.path.getsize(overlay_path(home, overlay))
        except (StateDamagedError, OSError):
            continue
        current = Current(
            sequence=sequence,
            generation=generation,
            overlay=overlay,
            edits=int(metadata.get("edits", 0)),
            newest=newest,
            published=record,
            overlay_file={"bytes": size_bytes, "sha256": ""},
            published_at=str(record.get("pulled_at", "")),
            checked_at=str(record.get("pulled_at", "")),
            refused=refused,
            recovered=problem,
        )
        try:
            return open_named(home, current)
        except IndexTooNewError as error:
            raise StateTooNewError(str(error)) from error
        except IndexFileError:
            continue
    raise StateDamagedError(
        f"{home}: no generation here is whole ({problem}): run `geolookup sync`, which replaces them, "
        "or remove the directory's `generations` to begin anew"
    )


def _overlays(home: str) -> list[tuple[int, dict[str, str]]]:
    """Every readable overlay, newest first, with what is written in its header."""
    found = []
    for overlay in numbered(os.path.join(home, "custom")):
        try:
            with IndexReader.open(overlay_path(home, overlay)) as reader:
                metadata = dict(reader.metadata)
        except IndexFileError:
            continue
        if all(metadata.get(name, "0").isdecimal() for name in ("generation", "sequence", "edits")):
            found.append((overlay, metadata))
    return found
