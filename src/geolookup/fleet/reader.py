"""A reader: a state whose only source is a fleet. It joins once, and takes what is new at each sync.

What comes is published as in any state, by the one rename of CURRENT. The folder ``fleet/`` of the state has the
metadata that were believed, and what CURRENT's entry of the source says of the versions that were seen.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from geolookup.base import disk
from geolookup.base.reasons import reason
from geolookup.base.text import count
from geolookup.fleet import keys as keyring
from geolookup.fleet.client import Client, Seen, Versions
from geolookup.fleet.manifest import CUSTOM, INDEX, NETWORK, VRF, Blob, File, Manifest, Step, file_name, unpack_file
from geolookup.http.download import Downloader
from geolookup.index.mapped import header_of
from geolookup.index.writer import restamped
from geolookup.model.errors import (
    IndexFileError,
    IndexTooNewError,
    PullError,
    SettingsError,
    StateDamagedError,
    StateError,
    StateTooNewError,
    UpstreamAnswerError,
)
from geolookup.model.reports import Progress, unwatched
from geolookup.settings.secrets import read_secret
from geolookup.settings.table import Settings
from geolookup.state.base import files
from geolookup.state.base.clock import age_s, now_text
from geolookup.state.base.current import Current, index_path, network_path, overlay_path
from geolookup.state.base.parts import FLEET, FLEET_JOINED, FLEET_ROOT, is_received
from geolookup.state.base.vrfs import layer_path, read_vrfs
from geolookup.state.generations.assemble import link_file
from geolookup.state.generations.cache import CacheWriter
from geolookup.state.packs.patch import apply_patch, read_patch
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import Run, running
from geolookup.state.publishing.vrfs import VrfsOfFleet

#: The folder in the state for what a reader believed, and within it for what is being fetched.
FOLDER, _PARTIAL = FLEET, "partial"
#: How often a reader that finds nothing new notes that, so that one that polls does not write each time.
_CONFIRM_S = 300.0
#: The layers and the files that hold them.
_LAYERS = {INDEX: "default", NETWORK: "network"}


@dataclass(slots=True, kw_only=True)
class Received:
    """The outcome of a reader's sync.

    ``outcome`` is ``published``, ``unchanged`` or ``rolled-back`` (what is published was rolled back here). ``way``
    says how each file came: ``there``, ``steps`` or ``whole``. ``bytes_read`` and ``requests`` are those of all.
    """

    url: str
    outcome: str = "unchanged"
    builder: str = ""
    builder_generation: int = 0
    generation: int = 0
    way: dict[str, str] = field(default_factory=dict)
    bytes_read: int = 0
    requests: int = 0
    digest: str = ""
    ends_at: str = ""
    rows: dict[str, Any] = field(default_factory=dict)
    durations_s: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """All of it by name."""
        return {name: getattr(self, name) for name in self.__slots__}


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet that a reader belongs to: its address, the versions that were seen, and when they end.

    It stands beside the metadata, and not in CURRENT alone, which goes back with a rollback.
    """

    url: str
    versions: Versions | None = None
    ends_at: str = ""


def joined(home: str) -> Joined | None:
    """The fleet that a state belongs to; None if it belongs to none.

    :raises StateDamagedError: if that cannot be read
    """
    path = os.path.join(home, FOLDER, FLEET_JOINED)
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=Joined)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise StateDamagedError(f"{path}: cannot be read: {reason(error)}: join again") from error


def _note(home: str, found: Joined) -> None:
    path = os.path.join(home, FOLDER, FLEET_JOINED)
    with files.file_errors(path):
        disk.replace(path, msgspec.json.encode(found))


def join(
    directory: StateDirectory, settings: Settings, url: str, root: bytes, *, where: str, progress: Progress = unwatched
) -> Received:
    """Make a state a reader of the fleet at ``url``; ``root`` is its root.json, from the file ``where``.

    :raises StateError: if the state has edits of its own
    :raises SettingsError: if ``root`` is no root.json, or the address cannot be used
    :raises UpstreamError: if the fleet cannot be reached, or must not be believed: the state is as it was
    """
    keyring.read_root(root, where)
    with running(directory) as run:
        folder = directory.path(FOLDER)
        current = run.current
        is_reader = current is not None and is_received(current.published)
        if not is_reader:
            _require_no_edits(directory, current)
        before = joined(directory.home) if is_reader and _root_of(directory) == root else None
        with contextlib.ExitStack() as undo:
            aside = f"{folder}{files.TEMPORARY}before"
            with files.file_errors(folder):
                files.remove_tree(aside)
                if before is None and os.path.isdir(folder):
                    os.rename(folder, aside)  # it comes back if this one cannot be joined
                    undo.callback(os.rename, aside, folder)
                if before is None:
                    disk.make_directory(folder)
                    undo.callback(files.remove_tree, folder)
                    disk.replace(os.path.join(folder, FLEET_ROOT), root)
            found = _receive(
                run, settings, Joined(url=url, versions=None if before is None else before.versions), progress
            )
            undo.pop_all()
            files.remove_tree(aside)
        return found


def _require_no_edits(directory: StateDirectory, current: Current | None) -> None:
    if current is None:
        return
    custom = int(current.overlay_file.get("locations", 0))
    if directory.edits.head() or custom:
        raise StateError(
            f"{directory.home}: has edits of its own ({count(custom, 'custom geolocation')}), which a reader cannot "
            "have: `geolookup custom export` keeps them for the builder; then join with an empty directory "
            "(GEOLOOKUP_HOME)"
        )


def _root_of(directory: StateDirectory) -> bytes | None:
    try:
        with open(directory.path(FOLDER, FLEET_ROOT), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def sync(run: Run, settings: Settings, *, progress: Progress = unwatched) -> Received:
    """Take what the fleet's builder has published, if it is new. Caller holds the run lock.

    :raises UpstreamError: if the fleet cannot be reached, or must not be believed: what is served goes on
    """
    found = joined(run.home)
    if found is None or _root_of(run.directory) is None:
        raise StateDamagedError(
            f"{run.directory.path(FOLDER)}: is gone, so nothing says whom to believe: geolookup fleet join URL "
            "--root FILE"
        )
    return _receive(run, settings, found, progress)


def _receive(run: Run, settings: Settings, fleet: Joined, progress: Progress) -> Received:
    directory, began, url = run.directory, time.monotonic(), fleet.url
    root = _root_of(directory)
    assert root is not None, "the caller asked for it"
    # A reader has no service, so the token of the settings is for this server.
    secret = read_secret(settings)
    _remove_leftovers(directory.path(FOLDER))
    with Downloader(settings, secret=secret, auth=settings.auth, auth_header=settings.auth_header or "") as downloader:
        client = Client(directory.path(FOLDER), url, root, downloader)
        seen = client.look(fleet.versions)
        if (seen.versions, seen.ends_at) != (fleet.versions, fleet.ends_at):
            _note(run.home, Joined(url=url, versions=seen.versions, ends_at=seen.ends_at))
        report = Received(
            url=downloader.shown(url),
            builder=seen.manifest.builder,
            builder_generation=seen.manifest.generation,
            digest=seen.manifest.record["digest"],
            ends_at=seen.ends_at,
            rows=dict(seen.manifest.record.get("rows", {})),
        )
        try:
            _take(run, client, seen, url, report, progress)
        finally:
            report.bytes_read, report.requests = client.bytes_read, client.requests
    report.durations_s["total"] = round(time.monotonic() - began, 3)
    return report


def _take(run: Run, client: Client, seen: Seen, url: str, report: Received, progress: Progress) -> None:
    manifest, current = seen.manifest, run.current
    held = _entry(current)
    if current is not None:
        report.generation = current.generation
    if (
        held is not None
        and current is not None
        and current.recovered is None
        and current.published.get("manifest") == seen.sha256
    ):
        if held.get("ends_at") != seen.ends_at or age_s(str(held.get("asked_at", ""))) > _CONFIRM_S:
            entries = _entries(manifest, seen, url, held)
            run.receive(None, None, vrfs=None, about={}, entries=entries, checked_at=manifest.checked_at)
        return
    digest = _digest(manifest)
    if current is not None and f"{FLEET}:{digest}" in current.refused:
        report.outcome = "rolled-back"
        return
    with _work(run.directory) as work:
        have = _held(run.directory, current, work) if held is not None else {}
        made = {}
        total = sum(_size(file, have.get(name)) for name, file in manifest.files.items())

        def watched() -> None:
            progress(client.bytes_read, max(total, client.bytes_read))

        for name, file in manifest.files.items():
            made[name] = _made(client, name, file, have.get(name), work, report, lambda *_: watched())
        _check(made)
        entries = _entries(manifest, seen, url, held)
        about = _about(manifest, seen)
        same = held is not None and current is not None and current.recovered is None
        vrfs = _of_vrfs(made)
        received = None if same and vrfs == _of_vrfs(have) else VrfsOfFleet(vrfs)
        if not same or any(made.get(name) != have.get(name) for name in (INDEX, NETWORK)):
            with run.candidate() as candidate:
                for name in (INDEX, NETWORK):
                    if name in made:
                        link_file(made[name].path, os.path.join(candidate.path, name))
                with files.file_errors(candidate.cache), CacheWriter(candidate.cache, compact=True) as cache:
                    cache.finish({"digest": digest})
                record = {
                    **about,
                    "name": FLEET,
                    "kind": FLEET,
                    "digest": digest,
                    "pulled_at": manifest.record.get("pulled_at", manifest.checked_at),
                }
                candidate.seal(record, {**report.as_dict(), "outcome": "published"})
                published = run.receive(
                    candidate,
                    made[CUSTOM].path,
                    vrfs=received,
                    about=about,
                    entries=entries,
                    checked_at=manifest.checked_at,
                )
        else:
            published = run.receive(
                None,
                made[CUSTOM].path if have.get(CUSTOM) != made[CUSTOM] else None,
                vrfs=received,
                about=about,
                entries=entries,
                checked_at=manifest.checked_at,
            )
    report.outcome = "published"
    report.generation = published.generation


def _entry(current: Current | None) -> dict[str, Any] | None:
    """CURRENT's entry of the fleet; None if this is no reader yet."""
    if current is None or not is_received(current.published):
        return None
    return next((entry for entry in current.sources if entry["name"] == FLEET), None)


@dataclass(frozen=True, slots=True)
class _Have:
    """A file that is there, by its SHA-256."""

    sha256: str
    path: str = field(compare=False)


def _held(directory: StateDirectory, current: Current | None, work: str) -> dict[str, _Have]:
    """The files of what is served, as the builder has them."""
    if current is None or current.recovered is not None:
        return {}
    found = {}
    records = current.published["files"]
    for name, path in ((INDEX, index_path), (NETWORK, network_path)):
        if name in records:
            found[name] = _Have(str(records[name]["sha256"]), path(directory.home, current.generation))
    plain = os.path.join(work, "held")
    with contextlib.suppress(IndexFileError), files.file_errors(plain):
        _, sha256 = restamped(plain, overlay_path(directory.home, current.overlay))
        found[CUSTOM] = _Have(sha256, plain)
    with contextlib.suppress(StateDamagedError):
        for each in read_vrfs(directory.home, current).values():
            layer = layer_path(directory.home, each.number)
            with contextlib.suppress(OSError):
                if os.path.getsize(layer) == each.file["bytes"]:
                    found[f"{VRF}{each.name}"] = _Have(str(each.file["sha256"]), layer)
    return found


def _of_vrfs(have: dict[str, _Have]) -> dict[str, tuple[str, str]]:
    """The paths and SHA-256 of the VRFs' files, by the names of the VRFs."""
    return {name.removeprefix(VRF): (each.path, each.sha256) for name, each in have.items() if name.startswith(VRF)}


def _size(file: File, have: _Have | None) -> int:
    """The bytes that are fetched for a file."""
    if have is not None and have.sha256 == file.sha256:
        return 0
    way = file.way_from(None if have is None else have.sha256)
    return file.whole.bytes if way is None else sum(step.blob.bytes for step in way)


def _made(
    client: Client, name: str, file: File, have: _Have | None, work: str, report: Received, progress: Progress
) -> _Have:
    """The file that the manifest names: the one that is there, or made by steps, or whole."""
    if have is not None and have.sha256 == file.sha256:
        report.way[name] = "there"
        return have
    files.require_space(work, 2 * file.bytes)
    way = file.way_from(None if have is None else have.sha256)
    if way is not None and have is not None:
        try:
            path = _by_steps(client, name, file, have, way, work, progress)
            report.way[name] = "steps"
            return _Have(file.sha256, path)
        except StateDamagedError:
            pass  # the base is not what it was, though it has its name: the whole mends that
    path = os.path.join(work, file_name(name))
    files.remove_file(path)
    _unpack(client, file.whole, path, file.bytes, work, progress)
    if files.file_record(path) != {"bytes": file.bytes, "sha256": file.sha256}:
        raise UpstreamAnswerError(f"{report.url}: {name}: is not what was signed: its size or SHA-256 differs")
    report.way[name] = "whole"
    return _Have(file.sha256, path)


def _by_steps(
    client: Client, name: str, file: File, have: _Have, way: tuple[Step, ...], work: str, progress: Progress
) -> str:
    base = have
    for number, step in enumerate(way):
        patch, target = (os.path.join(work, f"{file_name(name)}.{end}") for end in ("step", number))
        files.remove_file(patch)
        _unpack(client, step.blob, patch, step.unpacked, work, progress)
        found = read_patch(patch)
        wanted = way[number + 1].base if number + 1 < len(way) else file.sha256
        if found.base_file is None or found.base_file.sha256 != base.sha256 or found.file.sha256 != wanted:
            raise StateDamagedError(
                f"{name}: a step leads from another file, or to another one, than the manifest says"
            )
        if found.file.bytes > _most(file.bytes):
            raise StateDamagedError(f"{name}: a step makes a file that is too large")
        apply_patch(found, base.path, target)
        if base is not have:
            files.remove_file(base.path)
        base = _Have(wanted, target)
    return base.path


def _most(size: int) -> int:
    """The bytes that a file between two others may have."""
    return 4 * size + (64 << 20)


def _unpack(client: Client, blob: Blob, path: str, most_bytes: int, work: str, progress: Progress) -> None:
    packed = os.path.join(os.path.dirname(work), _PARTIAL, blob.sha256)
    client.fetch(blob, packed, progress=progress)
    try:
        with files.file_errors(path):
            unpack_file(packed, path, most_bytes)
            disk.sync_file(path)
    except ValueError as error:
        raise UpstreamAnswerError(f"blobs/{blob.sha256}: cannot be unpacked: {reason(error)}") from error
    finally:
        files.remove_file(packed)


def _check(made: dict[str, _Have]) -> None:
    """See that this release can read all files, before any of them is published."""
    for name, have in made.items():
        try:
            header = header_of(have.path)
        except IndexTooNewError as error:
            raise StateTooNewError(f"the builder has a newer release: {error}: upgrade geolookup here") from error
        except IndexFileError as error:
            raise PullError(f"{name}: was signed, and is no index: {reason(error)}") from error
        if header.layer != _LAYERS.get(name, "custom"):
            raise PullError(f"{name}: was signed, and is the layer {header.layer}")


def _digest(manifest: Manifest) -> str:
    """The digest of the default layer: a stack has one of its own at the builder."""
    return str(manifest.record["digest"])


def _about(manifest: Manifest, seen: Seen) -> dict[str, Any]:
    """The members of the generation's record: those of the builder's, and whose it is."""
    return {
        "source": str(manifest.record.get("source", FLEET)),
        "rows": {},
        **manifest.record,
        "url": None,
        "etag": None,
        "serves": [str(entry["name"]) for entry in manifest.sources],
        "manifest": seen.sha256,
        "builder": manifest.builder,
        "builder_generation": manifest.generation,
        "published_there": manifest.published_at,
    }


def _entries(manifest: Manifest, seen: Seen, url: str, held: dict[str, Any] | None) -> list[dict[str, Any]]:
    """CURRENT's entries: the fleet's own, and one for each source of the builder."""
    days = [entry["keep_days"] for entry in manifest.sources if isinstance(entry.get("keep_days"), int)]
    own = {
        "name": FLEET,
        "kind": FLEET,
        "snapshot": 0 if held is None else held["snapshot"],
        "digest": _digest(manifest),
        "location": url,
        "ends_at": seen.ends_at,
        "asked_at": now_text(),
        "checked_at": manifest.checked_at,
        **({"keep_days": min(days)} if days else {}),
        **({"layer": held["layer"]} if held is not None and "layer" in held else {}),
    }
    return [own, *({**entry, "snapshot": 0} for entry in manifest.sources)]


def _remove_leftovers(folder: str) -> None:
    """Remove what a run that was killed was making; what it had fetched in part stays."""
    files.remove_tree(os.path.join(folder, "work"))
    for name in files.names_in(folder):
        if ".tmp-" in name:
            files.remove_file(os.path.join(folder, name))


@contextlib.contextmanager
def _work(directory: StateDirectory) -> Iterator[str]:
    """A folder to make files in; what was fetched in part stays beside it for the next time."""
    work = directory.path(FOLDER, "work")
    files.remove_tree(work)
    with files.file_errors(work):
        os.mkdir(work, 0o700)
        disk.make_directory(directory.path(FOLDER, _PARTIAL))
    try:
        yield work
    finally:
        files.remove_tree(work)
    with files.file_errors(work):
        for name in os.listdir(directory.path(FOLDER, _PARTIAL)):
            files.remove_file(directory.path(FOLDER, _PARTIAL, name))


def require_no_sources(settings: Settings) -> None:
    """See that the settings name no other source than the fleet.

    :raises SettingsError: if they do
    """
    if settings.url is not None or settings.stack:
        raise SettingsError(
            "a reader of a fleet has no other sources, and the settings name some: remove them (`url`, [[source]]), or "
            "use another state (GEOLOOKUP_HOME)"
        )
