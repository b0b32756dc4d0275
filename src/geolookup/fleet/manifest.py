"""The manifest: length and SHA-256 of every file, and of every delta, of one generation; the one thing that is signed.

All else on the server is ``blobs/SHA256``, compressed by Zstandard. A file comes whole, or by steps: patches
(`state.packs`) made forward, each from the file of one publish to that of the next.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from geolookup.base.reasons import reason
from geolookup.model.errors import UpstreamAnswerError
from geolookup.state.packs.patch import zstandard

FORMAT_VERSION = 1
#: The one target of the signed metadata.
NAME = "manifest"
#: The files that a manifest may name: the index of each layer, and that of networks.
INDEX, NETWORK, CUSTOM = "index", "network", "custom"
#: And, each behind this, the custom layers of routing domains.
VRF = "vrf:"
#: No manifest is larger, packed or not.
MOST_BYTES = 4 << 20
#: A step stays for so many publishes, of the default layers and of custom ones.
_NIGHTS, _EDITS = 7, 24
_LEVEL = 10
_LONGEST_WINDOW = 27
_PIECE_BYTES = 1 << 20


def steps_kept(name: str) -> int:
    """For how many publishes a step to a file stays."""
    return _NIGHTS if name in (INDEX, NETWORK) else _EDITS


def file_name(name: str) -> str:
    """A name for a file that the manifest names, in a folder of ours: that of a VRF may have any characters."""
    return f"vrf-{hashlib.sha256(name.encode()).hexdigest()[:32]}" if name.startswith(VRF) else name


class Blob(msgspec.Struct, frozen=True, array_like=True):
    """Compressed bytes on the server, by their SHA-256."""

    sha256: str
    bytes: int


class Step(msgspec.Struct, frozen=True, array_like=True):
    """A patch from the file with the SHA-256 ``base``; ``unpacked`` is its own size, ``at`` when it was made (s)."""

    base: str
    blob: Blob
    unpacked: int
    at: int


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file: its size and SHA-256, the whole of it, and the steps to it, the oldest first."""

    bytes: int
    sha256: str
    whole: Blob
    steps: tuple[Step, ...] = ()

    def way_from(self, sha256: str | None) -> tuple[Step, ...] | None:
        """The steps from the file that is there; None if the whole is shorter, or nothing leads from there."""
        for number, step in enumerate(self.steps):
            if step.base == sha256:
                way = self.steps[number:]
                return way if sum(each.blob.bytes for each in way) < self.whole.bytes else None
        return None

    def blobs(self) -> Iterable[Blob]:
        """All blobs that it names."""
        return (self.whole, *(step.blob for step in self.steps))


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One generation. ``record`` and ``sources`` are what `geolookup status` says of it, without addresses or paths.

    ``builder`` is the machine that edits it, ``generation`` and ``published_at`` are that machine's.
    """

    version: int
    builder: str
    generation: int
    published_at: str
    checked_at: str
    files: dict[str, File]
    record: dict[str, Any]
    sources: list[dict[str, Any]]

    def is_of(self, other: "Manifest | None") -> bool:
        """True if it says the same as another one."""
        return other is not None and msgspec.json.encode(_plain(self)) == msgspec.json.encode(_plain(other))


def _plain(manifest: Manifest) -> Manifest:
    files = {name: msgspec.structs.replace(file, steps=()) for name, file in manifest.files.items()}
    return msgspec.structs.replace(manifest, files=files)


def encoded(manifest: Manifest) -> bytes:
    """The bytes of the target."""
    return packed(msgspec.json.encode(manifest))


def decoded(data: bytes, what: str) -> Manifest:
    """Read a manifest that was signed.

    :raises UpstreamAnswerError: if this release cannot read it
    """
    try:
        text = _unpacked(data, MOST_BYTES)
        version = msgspec.json.decode(text, type=_Version).version
        if version != FORMAT_VERSION:
            raise UpstreamAnswerError(
                f"{what}: the manifest has version {version}, and this release reads {FORMAT_VERSION}: upgrade "
                "geolookup"
            )
        found = msgspec.json.decode(text, type=Manifest)
    except (msgspec.MsgspecError, ValueError) as error:
        raise UpstreamAnswerError(f"{what}: the manifest cannot be read: {reason(error)}") from error
    named = {name for name in found.files if not name.startswith(VRF)}
    if not {INDEX, CUSTOM} <= named <= {INDEX, NETWORK, CUSTOM}:
        raise UpstreamAnswerError(f"{what}: the manifest does not name the files that this release knows")
    return found


class _Version(msgspec.Struct):
    version: int


def packed(data: bytes) -> bytes:
    """Bytes compressed by Zstandard."""
    return bytes(zstandard().compress(data, level=_LEVEL))


def pack_file(path: str, target: str) -> Blob:
    """Compress a file into a new one, piece by piece."""
    digest, size = hashlib.sha256(), 0
    machine = zstandard().ZstdCompressor(level=_LEVEL)
    with open(path, "rb") as file, open(target, "xb") as out:
        while True:
            data = file.read(_PIECE_BYTES)
            more = machine.compress(data) if data else machine.flush()
            digest.update(more)
            size += len(more)
            out.write(more)
            if not data:
                return Blob(digest.hexdigest(), size)


def unpack_file(path: str, target: str, most_bytes: int) -> None:
    """Decompress a file into a new one.

    :raises ValueError: if it is not what `pack_file` writes, or longer than it may be
    """
    zstd = zstandard()
    machine = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _LONGEST_WINDOW})
    size = 0
    try:
        with open(path, "rb") as file, open(target, "xb") as out:
            while not machine.eof:
                data = file.read(_PIECE_BYTES) if machine.needs_input else b""
                if machine.needs_input and not data:
                    raise ValueError("it was cut short")
                piece = machine.decompress(data, _PIECE_BYTES)
                size += len(piece)
                if size > most_bytes:
                    raise ValueError("it is longer than it should be")
                out.write(piece)
            if machine.unused_data or file.read(1):
                raise ValueError("something stands behind it")
    except zstd.ZstdError as error:
        raise ValueError(f"it is not compressed as it should be: {reason(error)}") from error


def _unpacked(data: bytes, most_bytes: int) -> bytes:
    zstd = zstandard()
    machine = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _LONGEST_WINDOW})
    try:
        found = bytes(machine.decompress(data, most_bytes))
    except zstd.ZstdError as error:
        raise ValueError(f"it is not compressed as it should be: {reason(error)}") from error
    if not machine.eof:
        raise ValueError("it was cut short, or is too long")
    return found
