"""Remove what a state directory no longer needs: leftovers of interrupted runs, and files past retention."""

import contextlib
import os
import secrets
from collections.abc import Collection, Mapping

from geolookup.base import disk
from geolookup.index.mapped import header_of
from geolookup.model.errors import IndexFileError, IndexTooNewError, StateError
from geolookup.state.base import files
from geolookup.state.base.candidate import CONTENT, HELD_MARK, read_report
from geolookup.state.base.current import Current, generation_path, overlay_path
from geolookup.state.base.failures import FAILURES
from geolookup.state.base.files import PACKED
from geolookup.state.base.parts import SERVICE, SNAPSHOTS, parts_of, snapshot_path
from geolookup.state.generations.fingerprints import FINGERPRINTS
from geolookup.state.generations.recovery import Standing, by_recency, numbered
from geolookup.state.generations.rolled_back import needed
from geolookup.state.packs.reading import remove_old

CANDIDATE = ".candidate-"
#: The newest copy of edits.db, which is made under the publish lock.
BACKUP = "edits.backup.1.db"


def temporary_path(path: str) -> str:
    """A name that nobody reads, beside ``path``, for what is being written there or removed from there.

    In ``generations/``, ``snapshots/`` and ``held/`` only the holder of the run lock removes what was left under it.
    """
    directory = os.path.dirname(path)
    return os.path.join(directory, f"{files.TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}")


def remove_run_leftovers(home: str) -> None:
    """The leftovers of killed runs. Caller holds the run lock."""
    generations = os.path.join(home, "generations")
    with files.file_errors(home):
        in_generations, in_home = os.listdir(generations), os.listdir(home)
        in_snapshots = os.listdir(os.path.join(home, SNAPSHOTS))
    for name in in_generations:
        if name.startswith((CANDIDATE, files.TEMPORARY)):
            files.remove_tree(os.path.join(generations, name))
    for name in in_snapshots:
        if name.startswith(files.TEMPORARY):
            files.remove_tree(os.path.join(home, SNAPSHOTS, name))
    _mend_held(home)
    remove_old(home)
    for name in in_home:
        if name.startswith((f"{FAILURES}{files.TEMPORARY}", f"{FINGERPRINTS}{files.TEMPORARY}", files.CHECK)):
            files.remove_file(os.path.join(home, name))
        elif name.startswith(files.BACKUP_STAGE) and not name.endswith(".lock"):
            path = os.path.join(home, name)
            if not disk.is_locked(f"{path}.lock"):
                files.remove_tree(path)
                files.remove_file(f"{path}.lock")


def _mend_held(home: str) -> None:
    """Killed between the two renames that replace what is held of a source: what was held before still is."""
    held = os.path.join(home, "held")
    with files.file_errors(held):
        names = os.listdir(held) if os.path.isdir(held) else []
    for name in names:
        if name.startswith(files.TEMPORARY):
            _hold_again(home, os.path.join(held, name))
        elif name.startswith(".stack.tmp-"):
            files.remove_file(os.path.join(held, name))


def _hold_again(home: str, path: str) -> None:
    """Hold a snapshot again, unless something else of its source is held by now."""
    try:
        record = read_report(path)["published"]
    except StateError:
        files.remove_tree(path)
        return
    name = str(record.get("name", SERVICE))
    target = os.path.join(home, "held", name)
    if os.path.lexists(target):
        files.remove_tree(path)
        return
    with files.file_errors(target):
        files.make_directory(os.path.dirname(target))
        os.rename(path, target)


def remove_uncommitted(home: str, current: Current | None) -> None:
    """Remove generations, overlays and temporaries of a publish that never reached CURRENT. Under both locks.

    A snapshot that had been held, and was being accepted, is held again: nothing but this run knows its content.
    ``current`` is what CURRENT says; without it nothing tells what was committed, and all that has a number stays.
    """
    if current is not None:
        for number in numbered(os.path.join(home, "generations")):
            if number > current.newest:
                path = generation_path(home, number)
                files.discard_tree(path, temporary_path(path))
        for number in numbered(os.path.join(home, SNAPSHOTS)):
            if number > current.newest_snapshot:
                path = snapshot_path(home, number)
                if os.path.exists(os.path.join(path, HELD_MARK)):
                    _hold_again(home, path)
                else:
                    files.discard_tree(path, temporary_path(path))
        for number in numbered(os.path.join(home, "custom")):
            if number > current.overlay:
                files.remove_file(overlay_path(home, number))
    _remove_publish_temporaries(home)


def _remove_publish_temporaries(home: str) -> None:
    """Temporary names that only a holder of the publish lock makes."""
    for directory, prefix in (
        (os.path.join(home, "custom"), files.TEMPORARY),
        (home, f"CURRENT{files.TEMPORARY}"),
        (home, f"{BACKUP}{files.TEMPORARY}"),  # the journal of a backup as well
    ):
        for name in files.names_in(directory):
            if name.startswith(prefix):
                files.remove_file(os.path.join(directory, name))


def past_retention(home: str, current: Current, keep: int) -> list[int]:
    """The generations that retention removes, newest first.

    The ``keep`` that were served last are kept, and pinned ones too. The last served, not the highest numbers: after
    a rollback the generation that was gone back to is the one to go back to again. What `rolled_back.needed` says stays
    as well.
    """
    found = numbered(os.path.join(home, "generations"))
    recent = dict.fromkeys((current.generation, *by_recency(current.served), *found))
    counted = [number for number in recent if number in found and number not in current.pins]
    if current.generation in current.pins:
        keep -= 1
    kept = {current.generation, *current.pins, *counted[: max(0, keep)], *needed(home, current)}
    return [number for number in found if number not in kept]


def after_publish(
    home: str, current: Current, keep: int | None, *, overlays: Mapping[int, int | None], before: Standing
) -> None:
    """Remove what the publish of ``current`` made needless: see `retain`. Under the publish lock.

    ``before`` is what stood there when the publish began.
    """
    # Unless generations go too, it is known which stand there.
    retain(home, current, keep, overlays=overlays, kept=before.generations if keep is None else None)
    for path in before.unfinished:
        files.remove_file(path)


def retain(
    home: str,
    current: Current,
    keep: int | None,
    *,
    overlays: Mapping[int, int | None] | None = None,
    kept: Collection[int] | None = None,
) -> None:
    """Remove generations past retention, and overlays that nothing kept needs; failures wait for the next time.

    With ``keep`` None only overlays are removed. ``overlays`` are those that stand in ``custom/``, if that is known,
    each with the generation that it was compiled for, None if that must be read from it; ``kept`` are the generations
    that stand there, if that is known.
    """
    if keep is not None:
        for number in past_retention(home, current, keep):
            path = generation_path(home, number)
            files.discard_tree(path, temporary_path(path))
        remove_unnamed_snapshots(home, current)
    if overlays is None:
        overlays = dict.fromkeys(numbered(os.path.join(home, "custom")))
    superseded = {number: known for number, known in overlays.items() if number != current.overlay}
    if not superseded:
        return
    if kept is None:
        kept = numbered(os.path.join(home, "generations"))
    has_newer = {current.generation}  # whose overlay is the one that CURRENT names
    for overlay, known in sorted(superseded.items(), reverse=True):
        path = overlay_path(home, overlay)
        generation = _compiled_for(path) if known is None else known
        if generation is None:
            continue
        if generation in kept and generation not in has_newer:
            has_newer.add(generation)
        else:
            files.remove_file(path)


def remove_unnamed_snapshots(home: str, current: Current) -> None:
    """Remove the snapshots that neither CURRENT nor a kept generation names, nor a packed file of those needs."""
    named = {int(entry["snapshot"]) for entry in current.sources}
    named.update(part.snapshot for part in parts_of(current.published))
    for number in numbered(os.path.join(home, "generations")):
        try:
            record = read_report(generation_path(home, number))["published"]
            named.update(part.snapshot for part in parts_of(record))
        except (StateError, ValueError, KeyError, TypeError):
            return  # nobody can tell which it needs
    wanted = list(named)
    while wanted:
        for base in bases(home, wanted.pop()):
            if base not in named:
                named.add(base)
                wanted.append(base)
    for number in numbered(os.path.join(home, SNAPSHOTS)):
        if number not in named:
            path = snapshot_path(home, number)
            files.discard_tree(path, temporary_path(path))


def bases(home: str, number: int) -> list[int]:
    """The snapshots that the packed files of one refer to."""
    found = []
    folder = snapshot_path(home, number)
    for name in CONTENT:
        path = os.path.join(folder, name + PACKED)
        if os.path.exists(path):
            from geolookup.state.packs.patch import read_patch  # late: it needs numpy

            with contextlib.suppress(StateError, ValueError, IndexError):  # one that refers to no other, or is damaged
                found.append(int(read_patch(path).base.split("/")[1]))
    return found


def _compiled_for(path: str) -> int | None:
    """The generation that an overlay was compiled for; 0 if it is damaged, None if a newer release wrote it."""
    try:
        generation = header_of(path).metadata.get("generation", "")
    except IndexTooNewError:
        return None
    except IndexFileError:
        return 0
    return int(generation) if generation.isdecimal() else 0
