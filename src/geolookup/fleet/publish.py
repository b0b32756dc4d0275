"""The builder: what is served here, signed, as static files in one place that readers fetch from.

Blobs come first, then the manifest, then the metadata that sign it; ``timestamp.json`` is the last, and the one commit.
Whatever stops a publish before that, readers stay with what they have.
"""

import contextlib
import json
import os
import platform
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec
from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import Metadata, MetaFile, Snapshot, Targets, Timestamp

from geolookup.base import disk
from geolookup.base.reasons import reason
from geolookup.fleet import keys as keyring
from geolookup.fleet import manifest as content
from geolookup.fleet.manifest import CUSTOM, INDEX, NETWORK, VRF, Blob, File, Manifest, Step, file_name
from geolookup.fleet.store import BLOBS, METADATA, OWNER, Store
from geolookup.index.writer import restamped
from geolookup.model.errors import SettingsError, StateBusyError, StateDamagedError, StateError
from geolookup.state.base import files
from geolookup.state.base.candidate import read_report
from geolookup.state.base.current import Current, generation_path, overlay_path
from geolookup.state.base.parts import FLEET, snapshot_path
from geolookup.state.base.vrfs import layer_path, list_path, read_vrfs
from geolookup.state.generations.assemble import link_file
from geolookup.state.generations.served import open_served
from geolookup.state.packs.patch import Whole, write_patch
from geolookup.state.packs.reading import readable
from geolookup.state.publishing.publish import compile_overlay

#: The folder in the state that a builder keeps what it published last in.
OUT = "fleet-out"
#: Blobs of so many manifests stay, and those that were replaced less than a day ago.
KEPT_MANIFESTS = 8
KEPT_S = 86_400.0
#: What is known of a source that readers show, and obey; its address and paths stay here.
_PUBLIC = (
    *("name", "kind", "layer", "digest", "dated", "checked_at", "pulled_at", "problem", "since", "recognised"),
    *("max_age_s", "max_data_age_s", "licence", "attribution", "keep_days", "redistribute"),
)
_RECORD = ("digest", "rows", "answers", "network_answers", "pulled_at")
_MOST_METADATA = 1 << 20
_OPEN_ATTEMPTS = 10
#: Behind the name of a file that the next publish's steps begin at, while that is not this one's yet.
_NEXT = ".next"

Layers = Literal["all", "default"]


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest that was published: its blobs stay until ``until`` (s), or until enough others came."""

    blobs: tuple[str, ...]
    replaced_at: float = 0.0


class Memory(msgspec.Struct, kw_only=True):
    """What a builder remembers: who it is, where it publishes and with which keys, and the versions it signed last."""

    builder: str
    place: str = ""
    keys: str | None = None
    layer: str = "all"
    timestamp: int = 0
    snapshot: int = 0
    targets: int = 0
    signed_until: str = ""
    ends_at: str = ""
    root: int = 0
    manifest: Manifest | None = None
    manifest_blob: str = ""
    kept: list[_Kept] = msgspec.field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Published:
    """A publish: whether something is new, and the bytes that a reader of the publish before fetches, and any other.

    ``custom`` counts the custom geolocations in it; ``vrfs`` are the routing domains in it.
    """

    place: str
    new: bool
    generation: int
    builder: str
    version: int
    ends_at: str
    delta_bytes: int = 0
    whole_bytes: int = 0
    written_bytes: int = 0
    layer: str = "all"
    custom: int = 0
    vrfs: tuple[str, ...] = ()
    durations_s: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """All of it by name."""
        return {name: getattr(self, name) for name in self.__slots__}


def remembered(home: str) -> Memory | None:
    """What a builder remembers; None if this state never published.

    :raises StateError: if that cannot be read
    """
    path = os.path.join(home, OUT, "memory.json")
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=Memory)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise StateError(f"{path}: cannot be read: {reason(error)}: remove it, and publish with --take-over") from error


def publish(
    home: str,
    store: Store,
    *,
    keys: str | None,
    layer: Layers = "all",
    allowed: Callable[[Current], None] = lambda _current: None,
    take_over: bool = False,
) -> Published:
    """Publish what is served in a state, and sign the timestamp anew even if nothing changed.

    ``allowed`` raises if a licence forbids it.

    :raises StateBusyError: if another builder publishes there: nothing was written
    :raises SettingsError: if the key must not publish
    :raises LicenceError: if ``allowed`` says so
    """
    out = os.path.join(home, OUT)
    with files.file_errors(out):
        disk.make_directory(out)
        lock = disk.locked(os.path.join(out, "lock"), time.monotonic())
    if lock is None:
        raise StateBusyError(f"{out}: another process publishes this state")
    with lock:
        signer = keyring.publish_key(keys)
        with store.locked(home):
            return _Publish(home, out, store, keys, signer, layer, allowed, take_over).run()


class _Publish:
    """One publish under way, with the locks held."""

    def __init__(
        self,
        home: str,
        out: str,
        store: Store,
        keys: str | None,
        signer: CryptoSigner,
        layer: Layers,
        allowed: Callable[[Current], None],
        take_over: bool,
    ) -> None:
        self._home, self._out, self._store, self._signer = home, out, store, signer
        self._layer, self._allowed, self._take_over = layer, allowed, take_over
        self._keys = keys
        self.memory = remembered(home) or Memory(builder=secrets.token_hex(16), place=str(store))
        if self.memory.place != str(store):  # another place: nothing is known of it
            self.memory = Memory(builder=self.memory.builder, place=str(store))
        self.memory.keys = keys or self.memory.keys
        self._written = 0

    def run(self) -> Published:
        """Publish."""
        before, began = self.memory.manifest, time.monotonic()
        with self._sources() as (current, paths):
            self._allowed(current)
            self._own()
            self._roots()
            self._look()
            made = self._manifest(current, paths)
            new = not made.is_of(before)
            if not new:
                assert before is not None
                made = before
            self._keep(paths)
            ends = self._sign(made, new=new)
        self._sweep(self._oldest(current))
        return Published(
            place=str(self._store),
            new=new,
            generation=made.generation,
            builder=made.builder,
            version=self.memory.timestamp,
            ends_at=ends,
            delta_bytes=_delta_bytes(before, made),
            whole_bytes=sum(file.whole.bytes for file in made.files.values()),
            written_bytes=self._written,
            layer=self._layer,
            custom=int(current.overlay_file.get("locations", 0)) if self._layer == "all" else 0,
            vrfs=tuple(sorted(name.removeprefix(VRF) for name in made.files if name.startswith(VRF))),
            durations_s={"total": round(time.monotonic() - began, 3)},
        )

    def _own(self) -> None:
        """See that this builder is the only one that publishes there, before anything is written."""
        if remembered(self._home) is None:
            self._save()  # or the next publish would be another builder's
        mine = json.dumps({"builder": self.memory.builder, "host": platform.node()}).encode()
        found = self._store.read(OWNER, _MOST_METADATA)
        if found is None and self._store.claim(OWNER, mine):
            return
        found = found or self._store.read(OWNER, _MOST_METADATA) or b""
        try:
            owner = json.loads(found)
            other, host = str(owner["builder"]), str(owner["host"])
        except (ValueError, KeyError, TypeError):
            other, host = "", "something that cannot be read"
        if other == self.memory.builder:
            return
        if not self._take_over:
            raise StateBusyError(
                f"{self._store}: is published by another builder ({host!r:.80}): two would undo each other's work. If "
                "that one is gone, --take-over publishes from here"
            )
        self._store.write(OWNER, mine)

    def _roots(self) -> None:
        """Have all roots there, and see that the newest one lets the key publish."""
        if self._keys is None:
            return
        known = keyring.roots(self._keys)
        newest = max(known)
        keyring.require_may_publish(keyring.read_root(known[newest], self._keys).signed, self._signer, self._keys)
        for version, text in known.items():
            if self._store.read(f"{METADATA}/{version}.root.json", _MOST_METADATA) != text:
                self._put(f"{METADATA}/{version}.root.json", text)
        if newest != self.memory.root:
            self.memory.signed_until = ""  # by other keys, perhaps
        self.memory.root = newest

    def _look(self) -> None:
        """Never sign a version again, nor a lower one: what is there counts if this key signed it."""
        for role, kind in (("timestamp", Timestamp), ("snapshot", Snapshot), ("targets", Targets)):
            version = getattr(self.memory, role)
            name = f"{role}.json" if role == "timestamp" else f"{version + 1}.{role}.json"
            text = self._store.read(f"{METADATA}/{name}", _MOST_METADATA)
            if text is None:
                continue
            with contextlib.suppress(*keyring.ERRORS, KeyError):
                found: Metadata[Any] = Metadata.from_bytes(text)
                if isinstance(found.signed, kind):
                    key = self._signer.public_key
                    key.verify_signature(found.signatures[key.keyid], found.signed_bytes)
                    if found.signed.version > version:
                        setattr(self.memory, role, found.signed.version)
                        self.memory.signed_until = ""
                    if isinstance(found.signed, Timestamp):
                        self.memory.snapshot = max(self.memory.snapshot, found.signed.snapshot_meta.version)
                        self._look_at_targets()

    def _look_at_targets(self) -> None:
        text = self._store.read(f"{METADATA}/{self.memory.snapshot}.snapshot.json", _MOST_METADATA)
        if text is not None:
            found = Metadata[Snapshot].from_bytes(text)
            self.memory.targets = max(self.memory.targets, found.signed.meta["targets.json"].version)

    @contextlib.contextmanager
    def _sources(self) -> Iterator[tuple[Current, dict[str, str]]]:
        """What is served, and its files by names of our own, so that no publish takes them away."""
        work = os.path.join(self._out, "work")
        files.remove_tree(work)
        with files.file_errors(work):
            os.mkdir(work, 0o700)
        try:
            for _ in range(_OPEN_ATTEMPTS):
                served = open_served(self._home)
                served.close()
                current = served.current
                try:
                    linked = self._linked(current, work)
                except FileNotFoundError:
                    continue  # a publish took it away meanwhile
                yield current, linked
                return
            raise StateBusyError(f"{self._home}: generations come and go faster than they can be read")
        finally:
            files.remove_tree(work)

    def _linked(self, current: Current, work: str) -> dict[str, str]:
        if any(part["kind"] == FLEET for part in current.published["stack"]):
            raise SettingsError(
                f"{self._home}: is a reader of a fleet itself: any web server can hand on the files that it reads"
            )
        found = {}
        for name in (INDEX, NETWORK):
            if name not in current.published["files"]:
                continue
            found[name] = os.path.join(work, name)
            source = readable(os.path.join(generation_path(self._home, current.generation), name))
            with contextlib.suppress(FileNotFoundError):
                os.unlink(found[name])
            if not os.path.exists(source):
                raise FileNotFoundError(source)
            link_file(source, found[name])
        found[CUSTOM] = os.path.join(work, CUSTOM)
        files.remove_file(found[CUSTOM])
        with files.file_errors(found[CUSTOM]):
            if self._layer == "all":
                source = overlay_path(self._home, current.overlay)
                if not os.path.exists(source):
                    raise FileNotFoundError(source)
                restamped(found[CUSTOM], source)
                self._link_vrfs(current, work, found)
            else:
                empty = os.path.join(work, "empty")
                files.remove_file(empty)
                compile_overlay(empty, (), generation=0, sequence=0, edits=0, memory="")
                restamped(found[CUSTOM], empty)
        return found

    def _link_vrfs(self, current: Current, work: str, found: dict[str, str]) -> None:
        try:
            listed = read_vrfs(self._home, current)
        except StateDamagedError:
            if not os.path.exists(list_path(self._home, current.vrfs)):
                raise FileNotFoundError from None  # a publish took it away meanwhile
            raise
        for each in listed.values():
            name = f"{VRF}{each.name}"
            found[name] = os.path.join(work, file_name(name))
            files.remove_file(found[name])
            source = layer_path(self._home, each.number)
            if not os.path.exists(source):
                raise FileNotFoundError(source)
            link_file(source, found[name])

    def _manifest(self, current: Current, paths: Mapping[str, str]) -> Manifest:
        before = self.memory.manifest
        known = before.files if before is not None else {}
        records = {name: current.published["files"][name] for name in paths if name in (INDEX, NETWORK)}
        made = {}
        for name, path in paths.items():
            record = records.get(name) or files.file_record(path)
            made[name] = self._file(name, path, record, known.get(name), self._oldest(current))
        entries = [self._entry(entry) for entry in current.serving]
        if any(entry["name"] == FLEET for entry in entries):
            raise SettingsError(
                f"a source is named {FLEET}, which names on readers all that comes by this way: rename it"
            )
        return Manifest(
            version=content.FORMAT_VERSION,
            builder=platform.node() or "the builder",
            generation=current.generation,
            published_at=current.published_at,
            checked_at=current.checked_at,
            files=made,
            record={
                **{key: current.published[key] for key in _RECORD if current.published.get(key) is not None},
                "source": current.source if current.is_embedded else ", ".join(str(entry["name"]) for entry in entries),
            },
            sources=entries,
        )

    def _entry(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """What readers are told of a source."""
        found = {key: entry[key] for key in _PUBLIC if key in entry}
        with contextlib.suppress(StateError):
            rows = read_report(snapshot_path(self._home, int(entry["snapshot"])))["published"]["rows"]
            found["rows"] = {key: value for key, value in rows.items() if isinstance(value, int | str)}
        return found

    def _oldest(self, current: Current) -> float:
        """The moment (s) before which nothing that was superseded may stay, by the licences of the sources."""
        days = [entry["keep_days"] for entry in current.serving if isinstance(entry.get("keep_days"), int)]
        return time.time() - min(days) * 86_400 if days else 0.0

    def _file(self, name: str, path: str, record: Mapping[str, Any], before: File | None, oldest: float) -> File:
        """A file as the manifest names it; blobs that are new are written."""
        if before is not None and before.sha256 == record["sha256"]:
            steps = tuple(step for step in before.steps if step.at >= oldest)
            return msgspec.structs.replace(before, steps=steps)
        whole = self._put_packed(path)
        steps = ()
        base = os.path.join(self._out, file_name(name))
        if before is not None and os.path.exists(base):
            with contextlib.suppress(StateError):
                steps = (*before.steps, self._step(path, record, base, before))
        kept = [step for step in steps if step.at >= oldest][-content.steps_kept(name) :]
        while kept and sum(step.blob.bytes for step in kept) >= whole.bytes:
            del kept[0]  # the whole is shorter
        return File(bytes=record["bytes"], sha256=record["sha256"], whole=whole, steps=tuple(kept))

    def _step(self, path: str, record: Mapping[str, Any], base: str, before: File) -> Step:
        patch = f"{path}.step"
        files.remove_file(patch)
        if files.file_record(base)["sha256"] != before.sha256:
            raise StateError(f"{base}: is not what was published")
        write_patch(
            *(patch, path, base),
            file=Whole(record["bytes"], record["sha256"]),
            base_name="",
            base_file=Whole(before.bytes, before.sha256),
            is_index=True,
        )
        unpacked = os.path.getsize(patch)
        return Step(base=before.sha256, blob=self._put_packed(patch), unpacked=unpacked, at=int(time.time()))

    def _put_packed(self, path: str) -> Blob:
        target = f"{path}.zst"
        files.remove_file(target)
        with files.file_errors(target):
            blob = content.pack_file(path, target)
        self._put_blob(blob, target)
        files.remove_file(target)
        return blob

    def _put_blob(self, blob: Blob, path: str) -> None:
        there = self._store.sizes(BLOBS).get(blob.sha256)
        if there is None or there[0] != blob.bytes:
            self._store.upload(f"{BLOBS}/{blob.sha256}", path)
            self._written += blob.bytes

    def _keep(self, paths: Mapping[str, str]) -> None:
        """Keep the files of this publish: the next one's steps begin at them."""
        for name in files.names_in(self._out):
            if name.endswith(_NEXT):
                files.remove_file(os.path.join(self._out, name))
        for name, path in paths.items():
            link_file(path, os.path.join(self._out, f"{file_name(name)}{_NEXT}"))

    def _sign(self, made: Manifest, *, new: bool) -> str:
        """Write the metadata, ``timestamp.json`` last, and remember what was signed. Returns when that ends."""
        memory, key = self.memory, self._signer
        data = content.encoded(made)
        soon = (datetime.now(UTC) + timedelta(days=keyring.CONTENT_DAYS / 2)).isoformat()
        snapshot_meta, signed_until = memory.snapshot, memory.signed_until
        if new or memory.signed_until < soon or not memory.manifest_blob:
            memory.targets += 1
            memory.snapshot += 1
            memory.signed_until = ""
            self._save()  # a version is never signed twice, whatever stops this
            targets = keyring.targets_of(memory.targets, data)
            digest = targets.targets[content.NAME].hashes["sha256"]
            self._put(f"{BLOBS}/{digest}.{content.NAME}", data)
            self._put(f"{METADATA}/{memory.targets}.targets.json", keyring.text_of(keyring.signed(targets, key)))
            snapshot = Snapshot(version=memory.snapshot, expires=keyring.ends_in(keyring.CONTENT_DAYS))
            snapshot.meta["targets.json"] = MetaFile(version=memory.targets)
            self._put(f"{METADATA}/{memory.snapshot}.snapshot.json", keyring.text_of(keyring.signed(snapshot, key)))
            snapshot_meta = memory.snapshot
            signed_until = snapshot.expires.isoformat()
            memory.manifest_blob = f"{digest}.{content.NAME}"
            self._remember(made)
        memory.timestamp += 1
        self._save()
        timestamp = Timestamp(version=memory.timestamp, expires=keyring.ends_in(keyring.TIMESTAMP_DAYS))
        timestamp.snapshot_meta = MetaFile(version=snapshot_meta)
        self._put(f"{METADATA}/timestamp.json", keyring.text_of(keyring.signed(timestamp, key)))
        for name in files.names_in(self._out):
            if name.endswith(_NEXT):
                path = os.path.join(self._out, name)
                os.replace(path, path.removesuffix(_NEXT))
            elif name.startswith("vrf-") and name not in map(file_name, made.files):
                files.remove_file(os.path.join(self._out, name))
        memory.manifest, memory.signed_until = made, signed_until
        memory.ends_at = timestamp.expires.isoformat()
        memory.layer = self._layer
        self._save()
        return timestamp.expires.isoformat()

    def _remember(self, made: Manifest) -> None:
        blobs = (self.memory.manifest_blob, *(blob.sha256 for file in made.files.values() for blob in file.blobs()))
        now = time.time()
        kept = [
            each if each.replaced_at else msgspec.structs.replace(each, replaced_at=now) for each in self.memory.kept
        ]
        self.memory.kept = [*kept, _Kept(blobs=blobs)]

    def _sweep(self, oldest: float) -> None:
        """Remove blobs and metadata that no kept manifest names, and what was replaced before ``oldest`` (s)."""
        now, kept = time.time(), self.memory.kept
        self.memory.kept = [
            each
            for number, each in enumerate(kept)
            if not each.replaced_at
            or (
                (number >= len(kept) - KEPT_MANIFESTS or now - each.replaced_at < KEPT_S) and each.replaced_at >= oldest
            )
        ]
        named = {blob for each in self.memory.kept for blob in each.blobs}
        for name, (_, changed) in self._store.sizes(BLOBS).items():
            if name not in named and (now - changed >= KEPT_S or changed < oldest):
                self._store.remove(f"{BLOBS}/{name}")
        for name, (_, changed) in self._store.sizes(METADATA).items():
            number, _, role = name.partition(".")
            if role not in ("snapshot.json", "targets.json") or not number.isdecimal():
                continue
            newest = self.memory.snapshot if role == "snapshot.json" else self.memory.targets
            if int(number) <= newest - KEPT_MANIFESTS and now - changed >= KEPT_S:
                self._store.remove(f"{METADATA}/{name}")
        self._save()

    def _put(self, name: str, data: bytes) -> None:
        self._store.write(name, data)
        self._written += len(data)

    def _save(self) -> None:
        path = os.path.join(self._out, "memory.json")
        with files.file_errors(path):
            disk.replace(path, msgspec.json.encode(self.memory))


def _delta_bytes(before: Manifest | None, made: Manifest) -> int:
    """The bytes of blobs that a reader of ``before`` fetches."""
    total = 0
    for name, file in made.files.items():
        held = None if before is None or name not in before.files else before.files[name].sha256
        if held != file.sha256:
            way = file.way_from(held)
            total += file.whole.bytes if way is None else sum(step.blob.bytes for step in way)
    return total
