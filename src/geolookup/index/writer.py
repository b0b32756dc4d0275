"""Writing an index file: sections in, checksums and header made, one synced file out."""

import hashlib
import json
import os
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from geolookup.base import disk, plainjson
from geolookup.index import flatten
from geolookup.index.layout import (
    ALIGNMENT,
    BIG_ENDIAN,
    CHECK_MARK,
    COUNT_NAMES,
    CRC_PREFIX,
    FORMAT,
    HEADER_CHECK,
    ITEM_FORMATS,
    MASKS,
    MAX_HEADER_BYTES,
    MOST_SOURCES,
    OPTIONAL_SECTIONS,
    PART,
    PART_TYPES,
    RESERVED_METADATA,
    SECTIONS,
    SOURCES,
    VERSION,
)
from geolookup.index.mapped import header_of
from geolookup.index.scratch import Column, too_long
from geolookup.model.errors import IndexFileError

_LARGEST_I32 = (1 << 31) - 1
_PART_BYTES = 1 << 20
#: The types that sections of keys may have, by numpy's characters for them.
_PART_TYPES = {ITEM_FORMATS[kind][0]: kind for kind in PART_TYPES}


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSummary:
    """The size and content of a written index file.

    Segments are counted without gaps, and so are the addresses that they cover; ``bytes`` is the file's size and
    ``sha256`` the whole file's, in hexadecimal.
    """

    locations: int
    blocks_v4: int
    blocks_v6: int
    segments_v4: int
    segments_v6: int
    covered_v4: int
    covered_v6: int
    bytes: int
    sha256: str


def string_table(texts: Iterable[str | bytes]) -> tuple[flatten.Array, flatten.Array]:
    """The two sections of distinct texts, or octets, the first of which is empty.

    :raises IndexFileError: if they are longer than offsets can say
    """
    joined, ends = bytearray(), array("q", [0])
    for text in texts:
        joined += text if isinstance(text, bytes) else text.encode("utf-8")
        ends.append(len(joined))
    if ends[-1] > _LARGEST_I32:
        raise too_long(ends[-1])
    return np.frombuffer(ends, np.int64).astype(np.int32), np.frombuffer(joined, np.uint8)


def write_index(
    path: str | os.PathLike[str],
    sections: Mapping[str, flatten.Array | Column],
    *,
    layer: str,
    counts: Mapping[str, int],
    sources: Sequence[str] = (),
    masks: bool = False,
    extra: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Write sections as they are, by the names of `layout.SECTIONS` or those of keys of records, and sync the file.

    Like `IndexBuilder.write`, for segments that are already sorted and disjoint: only ``extra`` and the sections' types
    are checked. ``counts`` has the numbers of `layout.COUNT_NAMES`; ``sources`` are the names that ``loc.source``
    numbers; ``masks`` is true if a location is a mask.

    :returns: the file's size in bytes and its SHA-256 in hexadecimal
    :raises IndexFileError: if ``path`` exists or cannot be written; an unfinished file is removed
    """
    path = os.fspath(path)
    metadata = {"format": FORMAT, "version": VERSION, HEADER_CHECK: "0" * 16, "layer": layer}
    metadata.update({name: str(counts[name]) for name in COUNT_NAMES})
    if len(sources) > MOST_SOURCES:
        raise IndexFileError(f"{len(sources)} sources: an index can tell at most {MOST_SOURCES} apart")
    if sources:
        metadata[SOURCES] = " ".join(sources)
    if masks:
        metadata[MASKS] = "1"
    for key, text in (extra or {}).items():
        if key in RESERVED_METADATA or key.startswith(CRC_PREFIX) or not isinstance(text, str):
            raise IndexFileError(f"{key!r} cannot be extra metadata: its name is taken, or it is not text")
        metadata[key] = text
    types = {name: kind for name, kind in SECTIONS.items() if name in sections or name not in OPTIONAL_SECTIONS}
    types.update({name: _PART_TYPES[sections[name].dtype.char] for name in sorted(sections) if name.startswith(PART)})
    present = sorted(types, key=lambda name: -ITEM_FORMATS[types[name]][1])  # largest first, else in their order
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name in present:
        column = sections[name]
        if column.dtype != ITEM_FORMATS[types[name]][0]:
            raise IndexFileError(f"section {name} is {column.dtype}, not {types[name]}")
        begin, end = end, end + column.nbytes
        header[name] = {"dtype": types[name], "shape": [len(column)], "data_offsets": [begin, end]}
        checked = 0
        with write_errors(path):
            for part in _raw(column):
                checked = zlib.crc32(part, checked)
        metadata[CRC_PREFIX + name] = f"{checked:08x}"
    encoded = encode_header(header)
    begun = memoryview(len(encoded).to_bytes(8, "little") + encoded)
    return _write_file(path, chain([begun], chain.from_iterable(_raw(sections[name]) for name in present)))


def restamped(path: str, source: str, *, extra: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Write the sections of another index file with other ``extra`` metadata, and sync the file.

    Without any, two files of the same content are the same, byte for byte. Returns and errors are those of
    `write_index`.
    """
    header = header_of(source)
    own = {
        name: text for name, text in header.metadata.items() if name in RESERVED_METADATA or name.startswith(CRC_PREFIX)
    }
    encoded = encode_header({**header.tree, "__metadata__": {**own, HEADER_CHECK: "0" * 16, **(extra or {})}})
    begun = memoryview(len(encoded).to_bytes(8, "little") + encoded)
    with write_errors(source), open(source, "rb") as file:
        file.seek(8 + len(header.raw))
        return _write_file(path, chain([begun], map(memoryview, iter(lambda: file.read(_PART_BYTES), b""))))


def encode_header(tree: dict[str, Any]) -> bytes:
    """The text of a header, padded so that data begin at a multiple of 64, its checksum filled in.

    ``tree`` begins with ``__metadata__``, whose ``header_check`` may have any value of 16 characters; it stays as it
    is.

    :raises IndexFileError: if the header would be larger than a reader accepts, or on a big-endian machine
    """
    if sys.byteorder != "little":
        raise IndexFileError(BIG_ENDIAN)
    text = json.dumps(tree, separators=(",", ":")).encode("ascii")
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    if len(text) > MAX_HEADER_BYTES:
        raise IndexFileError(f"the header would have {len(text)} bytes: give less extra metadata")
    return plainjson.sealed(text, CHECK_MARK)


def _raw(column: flatten.Array | Column) -> Iterator[memoryview]:
    """The bytes of a section, in parts."""
    if isinstance(column, Column):
        yield from (part.data.cast("B") for part in column.parts(_PART_BYTES // column.dtype.itemsize))
    elif len(column):  # a view of no items cannot be cast
        yield np.ascontiguousarray(column).data.cast("B")


@contextmanager
def write_errors(path: str) -> Iterator[None]:
    """Turn errors of the file system into ours.

    :raises IndexFileError: for any OSError, which is its cause; also for a name that cannot be one
    """
    try:
        yield
    except (OSError, ValueError) as error:
        raise unwritable(path, error) from error


def unwritable(path: str, error: OSError | ValueError) -> IndexFileError:
    """The error for a file or folder that cannot be written."""
    return IndexFileError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}")


def _write_file(path: str, parts: Iterable[memoryview]) -> tuple[int, str]:
    digest = hashlib.sha256()
    size = 0
    with write_errors(path), ExitStack() as undo:
        descriptor = disk.open_private(path)
        undo.callback(_remove, path)
        with open(descriptor, "wb", buffering=0) as file:
            for part in parts:
                digest.update(part)
                size += len(part)
                rest = part
                while rest:  # one write takes 2 GiB at most, and may take less than it is given
                    rest = rest[file.write(rest) :]
            os.fsync(descriptor)
        undo.pop_all()
    return size, digest.hexdigest()


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
