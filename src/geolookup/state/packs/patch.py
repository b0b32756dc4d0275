"""Patches: a file as its differences from another, or as it is, and the file made again, byte for byte.

Each part of a column is compressed by Zstandard with the same stretch of the other file's column before it, so that
what both have costs next to nothing, and memory does not grow with the files. Behind the parts stand their list,
as JSON, and a SHA-256 over all of it.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from geolookup.base import disk
from geolookup.base.reasons import reason
from geolookup.model.errors import GeoLookupError, StateDamagedError
from geolookup.state.packs.forms import Pages, PagesAgain, Source, Target
from geolookup.state.packs.sections import Sections, SectionsAgain

FORMAT_VERSION = 2
_MAGIC = b"geopack\n"
_LENGTH_BYTES = 8
_TAIL_BYTES = _LENGTH_BYTES + 32 + len(_MAGIC)
#: A part, and how much more of the base is looked at before and behind where it should stand.
_PART_BYTES = 4 << 20
_SLACK_BYTES = 2 << 20
_WINDOW_LOG = 24
#: For an index, and for all else: of whole pages a higher level saves a seventh, and takes three times as long.
_INDEX_LEVEL, _LEVEL = 6, 3
_COPIED_BYTES = 1 << 20


class Whole(NamedTuple):
    """A file's size and SHA-256."""

    bytes: int
    sha256: str


class Patch(NamedTuple):
    """The end of a patch: the file that it makes, the base (``base_file`` is None if it needs none), and its parts."""

    path: str
    file: Whole
    base: str
    base_file: Whole | None
    is_index: bool
    parts: list[list[Any]]


def write_patch(
    path: str,
    source: str,
    base: str | None,
    *,
    file: Whole,
    base_name: str = "",
    base_file: Whole | None = None,
    is_index: bool = False,
) -> None:
    """Write the patch that makes ``source`` again from ``base``, or from nothing; durable, under a name that must not
    exist yet.

    :raises StateDamagedError: if one of the two files is damaged
    """
    base_form: Source = Sections(base) if base and is_index else Pages(base or os.devnull)
    form: Source = Sections(source, base_form) if isinstance(base_form, Sections) else Pages(source)
    parts: list[list[Any]] = []
    digest = hashlib.sha256()
    with open(disk.open_private(path), "wb") as out:
        sizes = {column.name: column.items for column in base_form.columns()}
        for column in form.columns():
            for begin, end in _parts(column.items, column.item_bytes):
                window = _window(begin, end, column.items, sizes.get(column.name, 0), column.item_bytes)
                data = form.read(column.name, begin, end)
                before = b"".join(base_form.read(column.name, *window)) if window[1] > window[0] else b""
                packed = _compressed(data, before, _INDEX_LEVEL if isinstance(form, Sections) else _LEVEL)
                digest.update(packed)
                out.write(packed)
                parts.append([column.name, begin, *window, sum(map(len, data)), len(packed)])
        about = {
            "version": FORMAT_VERSION,
            "file": file._asdict(),
            "base": base_name,
            "base_file": None if base_file is None else base_file._asdict(),
            "is_index": is_index,
            "parts": parts,
        }
        text = json.dumps(about, separators=(",", ":")).encode("ascii")
        text += len(text).to_bytes(_LENGTH_BYTES, "little")
        digest.update(text)
        out.write(text + digest.digest() + _MAGIC)
        out.flush()
        os.fsync(out.fileno())


def read_patch(path: str) -> Patch:
    """Read the end of a patch, and not its other bytes: see `check_patch`.

    :raises StateDamagedError: if that cannot be read
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            text, _ = _end_of(file, size)
        about = json.loads(text)
        if about["version"] != FORMAT_VERSION:
            raise ValueError(f"it has version {about['version']}, and this release reads {FORMAT_VERSION}")
        whole = [
            None if about[name] is None else Whole(int(about[name]["bytes"]), str(about[name]["sha256"]))
            for name in ("file", "base_file")
        ]
        if whole[0] is None:
            raise ValueError("it does not say what it makes")
        return Patch(path, whole[0], str(about["base"]), whole[1], bool(about["is_index"]), list(about["parts"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StateDamagedError(f"{path}: cannot be unpacked: {reason(error)}") from error


def _end_of(file: IO[bytes], size: int) -> tuple[bytes, bytes]:
    if size < _TAIL_BYTES:
        raise ValueError("it was cut short")
    file.seek(size - _TAIL_BYTES)
    tail = file.read(_TAIL_BYTES)
    length = int.from_bytes(tail[:_LENGTH_BYTES], "little")
    if not tail.endswith(_MAGIC) or length > size - _TAIL_BYTES:
        raise ValueError("it does not end as a packed file does")
    file.seek(size - _TAIL_BYTES - length)
    return file.read(length), tail[_LENGTH_BYTES : -len(_MAGIC)]


def check_patch(path: str) -> None:
    """Check every byte of a patch.

    :raises StateDamagedError: if it is not what was written
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            _, expected = _end_of(file, size)
            digest = hashlib.sha256()
            file.seek(0)
            left = size - _TAIL_BYTES + _LENGTH_BYTES
            while left and (chunk := file.read(min(left, _COPIED_BYTES))):
                digest.update(chunk)
                left -= len(chunk)
        if digest.digest() != expected:
            raise ValueError("its SHA-256 differs")
    except (OSError, ValueError) as error:
        raise StateDamagedError(f"{path}: is damaged: {reason(error)}") from error


def apply_patch(patch: Patch, base: str, path: str) -> None:
    """Make the file again under a name that must not exist yet; durable, and the one that was packed, byte for byte.

    :raises StateDamagedError: if patch or base are not what was written; nothing is left then
    """
    try:
        descriptor = disk.open_private(path)
        try:
            os.truncate(path, patch.file.bytes)
            base_form: Source = Sections(base) if patch.is_index else Pages(base or os.devnull)
            form: Target
            if isinstance(base_form, Sections):
                form = SectionsAgain(descriptor, base_form)
            else:
                form = PagesAgain(descriptor, patch.file.bytes)
            for name, begin, data in _unpacked(patch, base_form):
                form.place(name, begin, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if whole_file(path) != patch.file:
            raise ValueError("what it makes is not what was packed: it, or the file that it refers to, is damaged")
    except BaseException as error:
        if os.path.exists(path):
            os.unlink(path)
        if isinstance(error, ValueError | KeyError | TypeError | IndexError | GeoLookupError | zstandard().ZstdError):
            raise StateDamagedError(f"{patch.path}: cannot be unpacked: {reason(error)}") from error
        raise


def whole_file(path: str) -> Whole:
    """A file's size and SHA-256."""
    with open(path, "rb") as file:
        return Whole(os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest())


def _unpacked(patch: Patch, base: Source) -> Iterator[tuple[str, int, bytes]]:
    with open(patch.path, "rb") as file:
        for name, begin, first, last, size, packed in patch.parts:
            before = b"".join(base.read(name, first, last)) if last > first else b""
            data = _decompressed(file.read(packed), before)
            if len(data) != size:
                raise ValueError("a part has another size")
            yield name, begin, data


def _parts(items: int, item_bytes: int) -> Iterator[tuple[int, int]]:
    step = max(1, _PART_BYTES // item_bytes)
    for begin in range(0, max(1, items), step):  # an empty column has one part, too
        yield begin, min(items, begin + step)


def _window(begin: int, end: int, items: int, base_items: int, item_bytes: int) -> tuple[int, int]:
    """The items of the base that a part is compared with: those as far from its ends, and more around them."""
    slack = max(1, _SLACK_BYTES // item_bytes)
    at = begin * base_items // max(1, items)
    return max(0, at - slack), min(base_items, at + end - begin + slack)


def zstandard() -> Any:
    """The module for Zstandard: a part of Python from 3.14 on."""
    try:
        from compression import zstd  # type: ignore[import-not-found]
    except ImportError:
        from backports import zstd
    return zstd


def _compressed(pieces: list[bytes], before: bytes, level: int) -> bytes:
    zstd = zstandard()
    kind = zstd.CompressionParameter
    options = {kind.compression_level: level, kind.window_log: _WINDOW_LOG, kind.hash_log: 22, kind.chain_log: 21}
    machine = zstd.ZstdCompressor(options=options, zstd_dict=_prefix(before))
    machine.set_pledged_input_size(sum(map(len, pieces)))  # or it takes the memory for the longest
    # A block of its own for each piece: it has a table of its own of how often each byte is there.
    found = [machine.compress(piece, machine.FLUSH_BLOCK) for piece in pieces]
    return b"".join([*found, machine.flush()])


def _decompressed(data: bytes, before: bytes) -> bytes:
    zstd = zstandard()
    options = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}
    return bytes(zstd.decompress(data, zstd_dict=_prefix(before), options=options))


def _prefix(before: bytes) -> Any:
    # Shorter ones are refused.
    return zstandard().ZstdDict(before, is_raw=True).as_prefix if len(before) >= 8 else None
