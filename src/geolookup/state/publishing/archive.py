"""A state as one file, put back, and moved: complete and verified before it takes the place of anything."""

import contextlib
import fcntl
import glob
import hashlib
import io
import json
import os
import secrets
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from geolookup.base import disk
from geolookup.base.reasons import reason
from geolookup.base.version import __version__
from geolookup.model.errors import GeoLookupError, NoStateError, StateDamagedError, StateError
from geolookup.state.base import files
from geolookup.state.base.clock import now_text, wall
from geolookup.state.base.current import Current, generation_path, overlay_path, parse_current
from geolookup.state.base.parts import FLEET, FLEET_JOINED, FLEET_ROOT, has_service, parts_of, snapshot_path
from geolookup.state.base.vrfs import vrf_files
from geolookup.state.edits.names import SiteNames
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.payload import content_of
from geolookup.state.edits.outbox.row import PENDING_STATES, State
from geolookup.state.edits.store import Edits
from geolookup.state.edits.vrfs import VrfPlaces
from geolookup.state.publishing import restore as edits_restore
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import verify

_MANIFEST = "geolookup-state.json"
_FORMAT = "1.0"
_MAX_MANIFEST_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 20
#: Not moved to another disk: locks, and what is made again.
_LEFT = ("run.lock", "publish.lock", "unpacked", "share")


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """A backup of a state, or what came of one: ``path`` is the file or directory, ``files`` how many are in it.

    ``bytes`` are theirs, ``generation`` is the one that is served, ``at`` when the backup was made. ``unfinished`` are
    edits that may have been sent since, which the next push looks for; ``replaced`` is where the state is that was
    there before, None if there was none. ``given_up`` is what its edits had, in words, that no service has and the
    backup lacks.
    """

    path: str
    generation: int
    files: int
    bytes: int
    at: str
    unfinished: int = 0
    replaced: str | None = None
    given_up: tuple[str, ...] = ()


def backup(directory: StateDirectory, path: str) -> Archived:
    """Write what is published, and the edits, to a new file or over an old backup; it is read back before it counts.

    Lookups, edits and runs go on meanwhile: the files are held by hard links, which take the publish lock for a moment.

    :raises NoStateError: if nothing has been published
    :raises StateDamagedError: if what is published, or edits.db, is damaged: nothing was written
    :raises StateUnwritableError: if the file cannot be written
    """
    with _staging(directory.home) as staged:
        with directory.locks.publish():
            current = directory.require_current()
            if current.recovered is not None:
                raise StateDamagedError(f"{directory.home}: {current.recovered}: run `geolookup sync` first")
            _link_all(directory, current, staged)
            directory.check_edits(current)
        if problems := verify(staged):
            raise StateDamagedError(f"{problems[0]}: no backup was made of what is damaged")
        manifest = _manifest(staged, current)
        with files.file_errors(path), disk.replacing(os.path.abspath(path), hidden=True) as descriptor:
            with open(descriptor, "wb", closefd=False) as out:
                _write(out, staged, manifest)
            with open(f"/dev/fd/{descriptor}", "rb") as written:
                _read_back(written, path)
    return _archived(path, manifest)


def restore(path: str, home: str, *, replace: bool = False) -> Archived:
    """Put a backup in the place of a state: ``home`` must be empty or missing, unless ``replace`` is true.

    Every byte is verified in a directory beside ``home``, which then becomes it by one rename. A state that was there
    is kept beside it. Edits that were unfinished may have been sent since: the next push looks for them at the service.

    :raises StateError: if a state is there, the file is damaged or no backup, or another run is under way: nothing was
        changed
    """
    home = os.path.abspath(home)
    is_there = _is_taken(home)
    if is_there and not replace:
        raise StateError(
            f"{home}: is not empty: restore into another directory, or add --replace, which keeps it aside"
        )
    with contextlib.ExitStack() as held, _beside(home) as staged:
        if is_there:
            directory = StateDirectory(home)
            held.enter_context(directory.locks.run())
            held.enter_context(directory.locks.publish())
        manifest = _unpack(path, staged)
        current = _current_in(staged)
        if problems := verify(staged):
            raise StateDamagedError(f"{path}: {problems[0].replace(staged, home)}: nothing was restored")
        given_up = _given_up(home, staged) if is_there else ()
        before = directory.current_or_none() if is_there else None
        unfinished = _maybe_sent(staged, current, 0 if before is None else before.edits)
        _sync_tree(staged)
        kept = f"{home}.replaced-{wall():%Y%m%dT%H%M%S}-{secrets.token_hex(2)}" if is_there else None
        _take_place(staged, home, kept)
    return _archived(home, manifest, unfinished=unfinished, replaced=kept, given_up=given_up)


def move(directory: StateDirectory, target: str) -> str:
    """Move a state to another directory, empty or missing, also on another disk: the new path.

    There it is copied and verified first. Killed at any moment, it leaves the old state or both, each whole.

    :raises StateError: if something is at ``target``, or a run is under way: nothing was changed
    """
    home, target = os.path.abspath(directory.home), os.path.abspath(target)
    if target == home or target.startswith(f"{home}{os.sep}"):
        raise StateError(f"{target}: is inside the state that would be moved: name a directory outside of {home}")
    if _is_taken(target):
        raise StateError(f"{target}: is not empty: name a directory that is new")
    directory.require_current()
    with directory.locks.run(), directory.locks.publish():
        files.make_directory(os.path.dirname(target))
        with files.file_errors(target):
            if _is_one_disk(home, os.path.dirname(target)):
                disk.rename(home, target)
                disk.sync_directory(os.path.dirname(home))
                return target
        with _beside(target) as staged:
            _copy_tree(home, staged)
            if problems := verify(staged):
                raise StateDamagedError(f"{problems[0].replace(staged, home)}: nothing was moved")
            _sync_tree(staged)
            _take_place(staged, target, None)
        files.discard_tree(home, f"{home}.tmp-moved-{os.getpid()}")
    return target


# One file


@contextlib.contextmanager
def _staging(home: str) -> Iterator[str]:
    """A directory in the state, of hard links, which the next run removes if this process is killed."""
    if not os.path.isdir(home):
        raise NoStateError(f"{home}: nothing has been published here yet: run `geolookup sync`")
    path = os.path.join(home, f"{files.BACKUP_STAGE}{os.getpid()}-{secrets.token_hex(4)}")
    with files.file_errors(path):
        os.mkdir(path, 0o700)
    try:
        # A run that begins now must not take it for a leftover.
        with files.lock(f"{path}.lock", wait_s=0.0, busy=f"{path}: is in use"):
            yield path
    finally:
        files.remove_tree(path)
        files.remove_file(f"{path}.lock")


def _link_all(directory: StateDirectory, current: Current, staged: str) -> None:
    home = directory.home
    numbers = {part.snapshot for part in parts_of(current.published)}
    numbers |= {int(entry["snapshot"]) for entry in current.sources}
    folders = [
        generation_path(home, current.generation),
        *(snapshot_path(home, each) for each in sorted(numbers) if each),
    ]
    with files.file_errors(staged):
        paths = [os.path.join(folder, name) for folder in folders for name in sorted(os.listdir(folder))]
        # What a reader believed otherwise comes anew, by these.
        own = [os.path.join(home, FLEET, name) for name in (FLEET_ROOT, FLEET_JOINED)]
        paths += filter(os.path.exists, own)
        for path in (*paths, overlay_path(home, current.overlay), *vrf_files(home, current)):
            target = os.path.join(staged, os.path.relpath(path, home))
            os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
            os.link(path, target)
        disk.write_new(os.path.join(staged, "CURRENT"), current.encoded())
        if directory.edits.exists():
            directory.edits.copy_to(os.path.join(staged, "edits.db"))


def _manifest(staged: str, current: Current) -> dict[str, Any]:
    """The files with their sizes and digests; one that is another's second name says so."""
    seen: dict[int, str] = {}
    found: dict[str, dict[str, Any]] = {}
    for folder, _, names in os.walk(staged):
        for name in sorted(names):
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, staged)
            inode = os.stat(path).st_ino
            if inode in seen:
                found[relative] = {"same_as": seen[inode]}
            else:
                seen[inode] = relative
                found[relative] = dict(files.file_record(path))
    generation = {"generation": current.generation, "at": now_text(), "geolookup": __version__}
    return {"version": _FORMAT, **generation, "files": dict(sorted(found.items()))}


def _write(out: IO[bytes], staged: str, manifest: dict[str, Any]) -> None:
    text = (json.dumps(manifest, indent=1) + "\n").encode("ascii")
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=3, format=tarfile.PAX_FORMAT) as tar:
        head = tarfile.TarInfo(_MANIFEST)
        head.size, head.mode = len(text), 0o600
        tar.addfile(head, io.BytesIO(text))
        for name, record in manifest["files"].items():
            if "same_as" in record:
                continue
            member = tarfile.TarInfo(name)
            member.size, member.mode = record["bytes"], 0o600
            with open(os.path.join(staged, name), "rb") as file:
                tar.addfile(member, file)


def _read_back(out: IO[bytes], path: str) -> None:
    """See that a backup that was just written can be read to its end.

    :raises StateDamagedError: if it is not what was written
    """
    for _ in _members(out, path, lambda _name: None):
        pass


def _members(source: IO[bytes], path: str, target: Any) -> Iterator[dict[str, Any]]:
    """Read a backup through, each file into what ``target`` gives for its name, if that is any: its manifest, once.

    :raises StateDamagedError: if a byte of it is not what was written, or it is no backup
    """
    try:
        with tarfile.open(fileobj=source, mode="r:gz") as tar:
            manifest = _manifest_of(tar, path)
            left = {name for name, record in manifest["files"].items() if "same_as" not in record}
            for member in tar:
                if member.name == _MANIFEST:
                    continue
                record = manifest["files"].get(member.name)
                if record is None or member.name not in left or not member.isreg():
                    raise ValueError(f"{member.name!r:.80} does not belong into it")
                left.discard(member.name)
                _one(tar.extractfile(member), record, target(member.name), member.name)
            if left:
                raise ValueError(f"{min(left)} is missing")
            # gzip's own checksum covers what stands between the files, and is compared at the end alone.
            while tar.fileobj is not None and tar.fileobj.read(_CHUNK_BYTES):
                pass
            yield manifest
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, GeoLookupError):
            raise
        if isinstance(error, FileNotFoundError):
            raise StateError(f"{path}: is not there") from error
        raise StateDamagedError(f"{path}: is damaged, or no backup of a state: {reason(error)}") from error


def _manifest_of(tar: tarfile.TarFile, path: str) -> dict[str, Any]:
    head = tar.next()
    if head is None or head.name != _MANIFEST or head.size > _MAX_MANIFEST_BYTES:
        raise StateDamagedError(f"{path}: is no backup of a state: `geolookup state backup` writes one")
    read = tar.extractfile(head)
    assert read is not None
    manifest: dict[str, Any] = json.loads(read.read())
    if str(manifest["version"]).partition(".")[0] != _FORMAT.partition(".")[0]:
        raise StateError(f"{path}: has version {manifest['version']!r:.20}: upgrade geolookup")
    for name, record in manifest["files"].items():
        if os.path.isabs(name) or os.path.normpath(name) != name or name.startswith(".."):
            raise ValueError(f"{name!r:.80} is no name in a state")
        if "same_as" in record and "sha256" not in manifest["files"][record["same_as"]]:
            raise ValueError(f"{name} has no content")
    return manifest


def _one(read: IO[bytes] | None, record: dict[str, Any], path: str | None, name: str) -> None:
    assert read is not None
    digest, size = hashlib.sha256(), 0
    with contextlib.ExitStack() as opened:
        out = None if path is None else opened.enter_context(_new_file(path))
        while chunk := read.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
            if out is not None:
                out(chunk)
    if (size, digest.hexdigest()) != (record["bytes"], record["sha256"]):
        raise ValueError(f"{name} is not what was written: its size or SHA-256 differs")


@contextlib.contextmanager
def _new_file(path: str) -> Iterator[Callable[[bytes], None]]:
    """A function that writes to a new file; its errors name that file, so that nobody throws a good backup away."""
    with contextlib.ExitStack() as opened:
        with files.file_errors(path):
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            file = opened.enter_context(open(disk.open_private(path), "wb", buffering=0))

        def write(chunk: bytes) -> None:
            with files.file_errors(path):
                while chunk:
                    chunk = chunk[file.write(chunk) :]

        yield write


def _unpack(path: str, staged: str) -> dict[str, Any]:
    with contextlib.ExitStack() as opened:
        try:
            source = opened.enter_context(open(path, "rb"))
        except OSError as error:
            raise StateError(f"{path}: cannot be read: {reason(error)}") from error
        (manifest,) = _members(source, path, lambda name: os.path.join(staged, name))
    with files.file_errors(staged):
        for name, record in manifest["files"].items():
            if "same_as" in record:
                target = os.path.join(staged, name)
                os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
                os.link(os.path.join(staged, record["same_as"]), target)
    return manifest


def _archived(path: str, manifest: dict[str, Any], **more: Any) -> Archived:
    sizes = [record["bytes"] for record in manifest["files"].values() if "bytes" in record]
    return Archived(
        path=path,
        generation=manifest["generation"],
        files=len(manifest["files"]),
        bytes=sum(sizes),
        at=manifest["at"],
        **more,
    )


# Directories


def _is_taken(home: str) -> bool:
    """True if something stands in a directory, or it is none."""
    try:
        return bool(os.listdir(home))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StateError(f"{home}: cannot be read: {reason(error)}") from error


def _is_one_disk(path: str, other: str) -> bool:
    return os.stat(path).st_dev == os.stat(other).st_dev


@contextlib.contextmanager
def _beside(home: str) -> Iterator[str]:
    """A new directory beside ``home``, on the same disk; it is gone at the end unless it was renamed.

    What killed runs left there is removed: a run that works in one has it locked.
    """
    files.make_directory(os.path.dirname(home))
    for left in glob.glob(f"{glob.escape(home)}.tmp-*"):
        if not disk.is_locked(left):
            files.remove_tree(left)
    path = f"{home}.tmp-{os.getpid()}-{secrets.token_hex(4)}"
    with files.file_errors(path):
        os.mkdir(path, 0o700)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield path
    finally:
        os.close(descriptor)
        files.remove_tree(path)


def _current_in(staged: str) -> Current:
    path = os.path.join(staged, "CURRENT")
    try:
        with open(path, "rb") as file:
            return parse_current(file.read(), path)
    except OSError as error:
        raise StateDamagedError(f"{path}: cannot be read: {reason(error)}") from error


def _maybe_sent(staged: str, current: Current, edits_since: int) -> int:
    """Mark the unfinished edits as ones that may have been sent since; none without a service."""
    edits = Edits(staged)
    if not edits.exists():
        return 0
    if has_service(current.published):
        return edits_restore.prepared(edits, current, pushed_since=True, edits_since=edits_since)[1]
    with edits.transaction() as database:
        Outbox(database).skip_numbers(edits_since)
    return 0


def _given_up(home: str, staged: str) -> tuple[str, ...]:
    """The pending edits, names of sites and places of VRFs that a backup lacks; empty if edits.db cannot be read."""
    with contextlib.suppress(StateError):
        kept = _own(staged)
        return tuple(words for what, words in _own(home, *PENDING_STATES).items() if what not in kept)
    return ()


def _own(home: str, *states: State) -> dict[tuple[Any, ...], str]:
    """The edits in these states (all, if none is named), the names of sites and the places of VRFs, each in words."""
    with Edits(home).reading() as database:
        outbox = Outbox(database)
        numbers, vrfs = outbox.aliases(), VrfPlaces(database, outbox)
        found: dict[tuple[Any, ...], str] = {}
        found |= edits_restore.in_words(database, outbox.rows(*states))
        for name, named in SiteNames(database).all().items():
            zone = f", and its time zone {named.time_zone}" if named.time_zone else ""
            found[name, named] = f"the name {name} of geolocation {numbers.get(named.locid, named.locid)}{zone}"
        for block, place in edits_restore.owed_of(Ledger(database), or_asked=not states):
            words = f"{block} of geolocation {place.locid}, which a removal took from the service: give it again"
            found["owed", place.locid, block] = words
        for vrf in vrfs.revisions():
            for name, place in vrfs.places(vrf).items():
                found[vrf, name, content_of(place)] = f"{name} of the VRF {vrf}"
        return found


def _sync_tree(path: str) -> None:
    with files.file_errors(path):
        for folder, _, names in os.walk(path):
            for name in names:
                disk.sync_file(os.path.join(folder, name))
            disk.sync_directory(folder)


def _take_place(staged: str, home: str, kept: str | None) -> None:
    """Rename a complete directory to ``home``; what is there goes to ``kept``, at the same moment if the disk can."""
    with files.file_errors(home):
        if kept is None:
            disk.rename(staged, home)  # over an empty directory, too
        else:
            # First under the name that the old state shall have: that is never under one which anybody removes.
            os.rename(staged, kept)
            try:
                disk.exchange(kept, home)
            except OSError:
                os.rename(kept, staged)
                raise
            disk.sync_directory(os.path.dirname(home))


def _copy_tree(home: str, staged: str) -> None:
    """Copy all that is not made again, with hard links as they are."""
    copied: dict[int, str] = {}
    with files.file_errors(staged):
        for folder, folders, names in os.walk(home):
            if folder == home:
                folders[:] = [name for name in folders if name not in _LEFT]
                names = [name for name in names if name not in _LEFT]
            place = os.path.join(staged, os.path.relpath(folder, home))
            os.makedirs(place, mode=0o700, exist_ok=True)
            shutil.copystat(folder, place)
            for name in names:
                path, target = os.path.join(folder, name), os.path.join(place, name)
                inode = os.stat(path).st_ino
                if inode in copied:
                    os.link(copied[inode], target)
                    continue
                copied[inode] = target
                shutil.copy2(path, target)
                if files.file_record(path) != files.file_record(target):
                    raise StateDamagedError(f"{target}: is not what was copied: nothing was moved")
