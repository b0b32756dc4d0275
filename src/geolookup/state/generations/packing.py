"""Packing what was superseded: which files, against which others, and making them whole again.

What is served stands whole, and so does the newest snapshot of each source. Of the generation that was served before,
the index is packed by itself, so that lookups go back to it even if what is served is damaged. All other files are
patches against the same file of the snapshot that was served when they were packed. As only a whole file gets to be a
base, no two depend on each other.

A patch takes its name once it was tried, and only then the file goes: wherever this stops, each file is there, or what
makes it again. Nothing here touches CURRENT, or what it names.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from geolookup.base import disk
from geolookup.base.reasons import reason
from geolookup.model.errors import IndexFileError, StateDamagedError, StateError
from geolookup.state.base import files, readers
from geolookup.state.base.candidate import CONTENT, read_report
from geolookup.state.base.current import Current, generation_path, read_current
from geolookup.state.base.files import PACKED
from geolookup.state.base.parts import SNAPSHOTS, Part, parts_of, snapshot_path
from geolookup.state.generations import retention
from geolookup.state.generations.assemble import link_file
from geolookup.state.generations.recovery import by_recency, numbered
from geolookup.state.packs.patch import Whole, apply_patch, check_patch, read_patch, whole_file, write_patch
from geolookup.state.packs.unpacking import base_of, layered, put_in_place, same_in_snapshot, whole, write_stacked

#: Smaller files are not worth it.
LEAST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Kept:
    """The inventory: records of the kept generations by number, the snapshots that must stand whole, by the source's
    name, and the generation that was served before.
    """

    current: Current
    records: dict[int, dict[str, Any]]
    whole: dict[str, int]
    previous: int | None


def pack(home: str, current: Current | None = None, *, least_bytes: int | None = None) -> None:
    """Pack what was superseded by ``current``, else by what CURRENT says. Caller holds the run lock.

    :raises StateUnwritableError: if the disk is full; some files are packed then, the others are as they were
    :raises StateDamagedError: if what should be packed is damaged: it stays as it is, and the rest is packed
    """
    least_bytes = LEAST_BYTES if least_bytes is None else least_bytes
    kept = _look(home, current)
    if kept is None:
        return
    for number in kept.whole.values():
        _make_snapshot_whole(home, number)
    make_generation_whole(home, kept.current.generation)
    damage: list[StateError] = []
    for number in _based_on_what_goes(home, kept):
        _make_snapshot_whole(home, number)
    for generation in sorted(kept.records):
        if generation == kept.current.generation:
            continue
        _remove_temporaries(generation_path(home, generation))
        for part in _parts(kept.records[generation]):
            for name, base in _to_pack(home, kept, part):
                try:
                    _pack_file(home, part.snapshot, base, name, least_bytes)
                except StateDamagedError as error:
                    damage.append(error)
        try:
            _drop_what_can_be_made(home, kept, generation)
        except StateDamagedError as error:
            damage.append(error)
    retention.remove_unnamed_snapshots(home, kept.current)
    if damage:
        raise damage[0]


def _look(home: str, current: Current | None) -> _Kept | None:
    current = current or read_current(home)
    records = {}
    for number in numbered(os.path.join(home, "generations")):
        with contextlib.suppress(StateError):
            records[number] = read_report(generation_path(home, number))["published"]
    if current.generation not in records:
        return None
    whole = {str(entry["name"]): int(entry["snapshot"]) for entry in current.sources if entry["snapshot"]}
    whole |= {part.name: part.snapshot for part in _parts(current.published)}
    recent = (*by_recency(current.served), *sorted(records, reverse=True))
    previous = next((number for number in recent if number in records and number != current.generation), None)
    return _Kept(current, records, whole, previous)


def _parts(record: Mapping[str, Any]) -> list[Part]:
    """The snapshots of a generation; none if its record is damaged."""
    try:
        return list(parts_of(record))
    except (ValueError, KeyError, TypeError):
        return []


def _must_stand(kept: _Kept) -> set[int]:
    newest = {int(entry["snapshot"]) for entry in kept.current.sources}
    return newest | {part.snapshot for part in _parts(kept.current.published)}


def _to_pack(home: str, kept: _Kept, part: Part) -> Iterator[tuple[str, int | None]]:
    """The files of a snapshot that need not stand whole, and the snapshot that each is packed against, if any."""
    if part.snapshot in _must_stand(kept) or part.name not in kept.whole:
        return
    folder = snapshot_path(home, part.snapshot)
    before = kept.records.get(kept.previous) if kept.previous is not None else None
    for name in read_report(folder)["published"]["files"]:
        own = os.path.join(folder, name)
        is_previous = name != "cache.db" and before is not None and same_in_snapshot(home, before, name) == own
        yield name, None if is_previous else kept.whole[part.name]


def _based_on_what_goes(home: str, kept: _Kept) -> list[int]:
    """The snapshots, needed themselves, whose patches refer to one that is needed for nothing else."""
    needed = _must_stand(kept) | {part.snapshot for record in kept.records.values() for part in _parts(record)}
    return [number for number in sorted(needed) if not set(retention.bases(home, number)) <= needed]


def _pack_file(home: str, number: int, base: int | None, name: str, least_bytes: int) -> None:
    folder = snapshot_path(home, number)
    path, other = os.path.join(folder, name), None if base is None else os.path.join(snapshot_path(home, base), name)
    _remove_temporaries(folder)
    if not os.path.exists(path):
        if other is None or read_patch(path + PACKED).base_file is not None:
            return  # it is packed
        _make_whole(home, path)  # it was packed by itself, when it was served before
    record = read_report(folder)["published"]["files"][name]
    known = {} if other is None else read_report(os.path.dirname(other))["published"]["files"]
    if record["bytes"] < least_bytes or (other is not None and name not in known):
        return
    files.remove_file(path + PACKED)  # of a run that was stopped before the file went
    file = whole_file(path)
    if file._asdict() != record:
        raise StateDamagedError(f"{path}: is not what was published, so it is not packed: its size or SHA-256 differs")
    temporary = retention.temporary_path(path)
    trial = retention.temporary_path(path)
    with files.file_errors(path + PACKED):
        try:
            try:
                if other is None:
                    write_patch(temporary, path, None, file=file)
                else:
                    write_patch(
                        *(temporary, path, other),
                        file=file,
                        base_name="/".join((SNAPSHOTS, os.path.basename(os.path.dirname(other)), name)),
                        base_file=Whole(**known[name]),
                        is_index=name != "cache.db",
                    )
            except (IndexFileError, ValueError, KeyError) as error:
                raise StateDamagedError(f"{path}: is not packed: {reason(error)}") from error
            apply_patch(read_patch(temporary), other or "", trial)  # what cannot be made again stays as it is
            if os.path.getsize(temporary) * 2 > record["bytes"]:
                return
            _open_to_readers(home, temporary)
            put_in_place(path + PACKED, temporary)
        finally:
            files.remove_file(temporary)
            files.remove_file(trial)
    files.remove_file(path)


def _drop_what_can_be_made(home: str, kept: _Kept, generation: int) -> None:
    """Remove a generation's own names of files that are packed, and an index that its snapshots make again."""
    record = kept.records[generation]
    parts = _parts(record)
    for name in CONTENT:
        path = os.path.join(generation_path(home, generation), name)
        if not os.path.exists(path) or not parts:
            continue
        same = same_in_snapshot(home, record, name)
        if same is not None:
            if not os.path.exists(same) and os.path.exists(same + PACKED):
                files.remove_file(path)
            continue
        own = layered(record, name)
        if name == "cache.db" or len(own) < 2 or generation == kept.previous:
            continue
        folders = [snapshot_path(home, part.snapshot) for part in own]
        if not any(os.path.exists(os.path.join(folder, name + PACKED)) for folder in folders):
            continue  # all of them are small, or served still
        trial = retention.temporary_path(path)
        with files.file_errors(path):
            try:
                write_stacked(home, record, name, trial)
            finally:
                files.remove_file(trial)
        files.remove_file(path)


def make_generation_whole(home: str, generation: int) -> None:
    """Make the files of a generation stand again, and those of its snapshots. The run lock must be held.

    :raises StateDamagedError: if what is packed is damaged
    :raises StateUnwritableError: if the disk is full; what is packed stays packed
    """
    folder = generation_path(home, generation)
    record = read_report(folder)["published"]
    for part in _parts(record):
        _make_snapshot_whole(home, part.snapshot)
    for name in CONTENT:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            continue
        found = whole(path)
        if os.path.exists(found):
            link_file(found, path)
            _open_to_readers(home, path)
            with files.file_errors(path):
                disk.sync_directory(folder)


def _make_snapshot_whole(home: str, number: int) -> None:
    folder = snapshot_path(home, number)
    _remove_temporaries(folder)
    for name in CONTENT:
        path = os.path.join(folder, name)
        if os.path.exists(path + PACKED):
            _make_whole(home, path)


def _make_whole(home: str, path: str) -> None:
    """Make a packed file stand again."""
    if not os.path.exists(path):
        patch = read_patch(path + PACKED)
        base = base_of(home, patch)
        files.require_space(os.path.dirname(path), patch.file.bytes)
        temporary = retention.temporary_path(path)
        with files.file_errors(path):
            apply_patch(patch, base, temporary)
            _open_to_readers(home, temporary)
            put_in_place(path, temporary)
    files.remove_file(path + PACKED)


def _open_to_readers(home: str, path: str) -> None:
    group = readers.group_of(home)
    if group is not None:
        readers.open_to_group(home, path, group)


def _remove_temporaries(folder: str) -> None:
    """The leftovers of a killed run in a snapshot or generation."""
    if os.path.isdir(folder):
        for name in files.names_in(folder):
            if name.startswith(files.TEMPORARY):
                files.remove_file(os.path.join(folder, name))


def packed_files(home: str) -> list[str]:
    """The patches that stand in a state directory."""
    found = []
    for number in reversed(numbered(os.path.join(home, SNAPSHOTS))):
        folder = snapshot_path(home, number)
        with contextlib.suppress(OSError):
            found += [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(PACKED)]
    return found


def problems(home: str) -> Iterator[str]:
    """The damage in packed files: every byte of it is checked, and that what it refers to is there."""
    for path in packed_files(home):
        try:
            check_patch(path)
            patch = read_patch(path)
            if patch.base_file is None:
                continue
            base = os.path.join(home, *patch.base.split("/"))
            if os.path.exists(base):
                if os.path.getsize(base) != patch.base_file.bytes:
                    yield f"{path}: cannot be unpacked: {base}, which it refers to, is damaged"
            elif not os.path.exists(base + PACKED):
                yield f"{path}: cannot be unpacked: {base}, which it refers to, is gone"
        except StateDamagedError as error:
            if os.path.exists(path):  # else a run made it whole since
                yield str(error)
