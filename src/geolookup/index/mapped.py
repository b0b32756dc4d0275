"""An index file in memory: mapping it, reading its header, and what a failure to read the map means.

This module stands on the path of ``geolookup 8.8.8.8``: it imports only what costs nothing.
"""

import mmap
import os
import sys

from geolookup.base import plainjson
from geolookup.index.layout import (
    ALIGNMENT,
    BIG_ENDIAN,
    CHECK_MARK,
    COUNT_NAMES,
    EMPTY,
    FORMAT,
    HEADER_CHECK,
    ITEM_FORMATS,
    LAYERS,
    MAJOR,
    MAX_HEADER_BYTES,
    NARROW_EMPTY,
    OPTIONAL_SECTIONS,
    PART,
    PART_TYPES,
    SECTIONS,
    TABLE_LENGTH,
    WIDE_EMPTY,
)
from geolookup.model.errors import IndexDamagedError, IndexFileError, IndexTooNewError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

_FILE_TYPE = 0o170000
_REGULAR_FILE = 0o100000


def map_file(name: str) -> mmap.mmap:
    """Map the whole file ``name``, read-only, for a few lookups: see `advise_many`.

    :raises IndexFileError: if the file does not exist, or it cannot be read
    :raises IndexDamagedError: if it is too short for an index file
    """
    try:
        # Not blocking, since opening a pipe by mistake would otherwise wait for a writer.
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise IndexFileError(f"{name}: {getattr(error, 'strerror', None) or error}") from error
    try:
        status = os.fstat(descriptor)
        if status.st_mode & _FILE_TYPE != _REGULAR_FILE:
            raise IndexFileError(f"{name}: not a regular file")
        if status.st_size < 8:
            raise IndexDamagedError(f"{name}: not an index file, or truncated: it has {status.st_size} bytes")
        mapped = mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        from geolookup.base.reasons import reason  # late: a plain lookup passes here and meets no damage

        raise IndexFileError(f"{name}: cannot be mapped: {reason(error)}") from error
    finally:
        os.close(descriptor)
    # A lookup reads some 30 pages here and there. With each the kernel would read on, megabytes on some disks.
    _advise(mapped, "MADV_RANDOM")
    return mapped


def advise_many(mapped: mmap.mmap) -> None:
    """Have the kernel read ahead in a map again, before much of it is read; a closed one is left alone."""
    _advise(mapped, "MADV_NORMAL")


def let_go(mapped: mmap.mmap) -> None:
    """Have the system take a map's pages out of this process's memory: it keeps them in its cache, if there is room."""
    _advise(mapped, "MADV_DONTNEED")


def _advise(mapped: mmap.mmap, name: str) -> None:
    try:  # noqa: SIM105 - contextlib would have to be imported
        mapped.madvise(getattr(mmap, name))
    except (AttributeError, OSError, ValueError):
        # The system knows no such advice, or the map is closed. Lookups still work, only slower.
        pass


class Section:
    """Where one section stands: ``begin`` and ``end`` are offsets in the file, in bytes; ``length`` counts items."""

    __slots__ = ("begin", "dtype", "end", "length")

    def __init__(self, dtype: str, begin: int, end: int, length: int) -> None:
        self.dtype = dtype
        self.begin = begin
        self.end = end
        self.length = length


class Header:
    """A header that was read and checked: every section lies inside the file and fits the others. Nobody changes it.

    ``raw`` is its text as it stands in the file, padding included, and ``tree`` the decoded JSON; ``metadata`` has
    strings only; ``counts`` has the numbers of `COUNT_NAMES`; ``sections`` has the unknown ones of a newer minor
    version too; ``size_bytes`` is the file's size.
    """

    __slots__ = ("counts", "layer", "metadata", "raw", "sections", "size_bytes", "tree")

    def __init__(
        self,
        raw: bytes,
        tree: "dict[str, Any]",
        metadata: dict[str, str],
        counts: dict[str, int],
        sections: dict[str, Section],
        size_bytes: int,
    ) -> None:
        self.raw = raw
        self.tree = tree
        self.metadata = metadata
        self.layer = metadata["layer"]
        self.counts = counts
        self.sections = sections
        self.size_bytes = size_bytes


#: The headers that were read last, by their texts and their files' sizes: a command opens each file several times.
_known: dict[tuple[bytes, int], Header] = {}
_MOST_KNOWN = 16


def header_of(path: str) -> Header:
    """The header of the file at ``path``, of which nothing else is wanted.

    The errors are those of `IndexReader.open`: all that can be seen at once was checked.
    """
    mapped = map_file(path)
    try:
        with memoryview(mapped) as whole:
            return read_header(whole, path)
    finally:
        mapped.close()


def read_header(data: memoryview, path: str) -> Header:
    """Read the header of a mapped file, and check what lookups rely on, in time that does not grow with the file.

    :raises IndexFileError: on a big-endian machine
    :raises IndexDamagedError: if it is not a whole index file; the message begins with the path
    :raises IndexTooNewError: if its major version is not ours
    """
    if sys.byteorder != "little":
        raise IndexFileError(BIG_ENDIAN)
    size = len(data)
    header_bytes = int.from_bytes(data[:8], "little") if size >= 8 else 0
    start = 8 + header_bytes
    if not 2 <= header_bytes <= MAX_HEADER_BYTES or start > size or start % ALIGNMENT:
        raise IndexDamagedError(f"{path}: not an index file, or damaged: the length of its header cannot be right")
    raw = bytes(data[8:start])
    header = _known.get((raw, size))
    if header is None:
        header = _checked(raw, size, path)
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[raw, size] = header
    _check_ends(data, header.sections, path)
    return header


def _checked(raw: bytes, size: int, path: str) -> Header:
    """The header of a file of this size that has this text, with all checked that it says; see `read_header`."""
    try:
        tree, check = plainjson.loads_sealed(raw, CHECK_MARK)
    except ValueError as error:
        raise IndexDamagedError(f"{path}: not an index file, or damaged: its header is not JSON") from error
    metadata = tree.get("__metadata__") if isinstance(tree, dict) else None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise IndexDamagedError(f"{path}: not an index file: its header does not name the format {FORMAT}")
    _check_version(metadata.get("version"), path)
    if metadata.get(HEADER_CHECK) != check:
        raise IndexDamagedError(f"{path}: the header is damaged: its checksum is not {metadata.get(HEADER_CHECK)}")
    if not all(isinstance(value, str) for value in metadata.values()):
        raise IndexDamagedError(f"{path}: __metadata__ has something that is not text")
    if metadata.get("layer") not in LAYERS:
        raise IndexDamagedError(f"{path}: the layer is not one of {', '.join(LAYERS)}: {metadata.get('layer')!r:.80}")
    counts = {name: _count(metadata.get(name), name, path) for name in COUNT_NAMES}
    start = 8 + len(raw)
    sections = {
        name: _section(name, entry, start, size, path) for name, entry in tree.items() if name != "__metadata__"
    }
    if max((section.end for section in sections.values()), default=start) != size:
        raise IndexDamagedError(f"{path}: the sections do not end where the file ends: it is truncated, or has more")
    _check_shapes(sections, counts, metadata["layer"], path)
    return Header(raw, tree, metadata, counts, sections, size)


def _check_version(version: object, path: str) -> None:
    major, _, minor = version.partition(".") if isinstance(version, str) and len(version) < 20 else ("", "", "")
    if not all(part.isascii() and part.isdecimal() for part in (major, minor)):
        raise IndexDamagedError(f"{path}: {version!r:.80} is not a version")
    if int(major) < MAJOR:
        raise IndexDamagedError(
            f"{path}: index format {version} is of an older release and cannot be read by this one: sync again"
        )
    if int(major) > MAJOR:
        raise IndexTooNewError(
            f"{path}: index format {version}, and this release reads version {MAJOR}: update geolookup, or sync again"
        )


def _count(text: str | None, name: str, path: str) -> int:
    if text is None or not (text.isascii() and text.isdecimal()) or len(text) > 40:
        raise IndexDamagedError(f"{path}: the count {name} is not a number: {text!r:.80}")
    return int(text)


def _section(name: str, entry: object, start: int, size: int, path: str) -> Section:
    if not isinstance(entry, dict):
        raise IndexDamagedError(f"{path}: section {name!r:.80} is not described by an object")
    dtype = entry.get("dtype")
    shape: Any = entry.get("shape")
    offsets: Any = entry.get("data_offsets")
    if not (isinstance(dtype, str) and _whole_numbers(shape) and _whole_numbers(offsets) and len(offsets) == 2):
        raise IndexDamagedError(f"{path}: section {name!r:.80} is not described as safetensors asks")
    begin, end = start + offsets[0], start + offsets[1]
    if not begin <= end <= size:
        raise IndexDamagedError(
            f"{path}: section {name!r:.80} does not lie inside the file: it is truncated or damaged"
        )
    if name in SECTIONS or (name.startswith(PART) and dtype in PART_TYPES):
        item_bytes = ITEM_FORMATS[dtype][1] if dtype in ITEM_FORMATS else 0
        known = dtype == SECTIONS.get(name, dtype) and item_bytes and len(shape) == 1
        if not known or shape[0] * item_bytes != end - begin or begin % item_bytes:
            raise IndexDamagedError(f"{path}: section {name} has the wrong type, shape or place")
    return Section(dtype, begin, end, shape[0] if len(shape) == 1 else 0)


def _whole_numbers(value: "Any") -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def record_count(sections: dict[str, Section], counts: dict[str, int], layer: str) -> int:
    """The number of a file's records: as many as locations, if no location has several."""
    if "record.slot" in sections:
        return sections["record.slot"].length
    if layer == "network":
        return max([section.length for name, section in sections.items() if name.startswith(PART)], default=0)
    return counts["locations"]


def _check_shapes(sections: dict[str, Section], counts: dict[str, int], layer: str, path: str) -> None:
    missing = [name for name in SECTIONS if name not in sections and name not in OPTIONAL_SECTIONS]
    if missing:
        raise IndexDamagedError(f"{path}: the section {missing[0]} is missing")
    length = {name: section.length for name, section in sections.items()}
    is_wide = "v4.slot_high" in sections
    records = record_count(sections, counts, layer)
    if is_wide != ("v6.slot_high" in sections) or records > (WIDE_EMPTY if is_wide else NARROW_EMPTY):
        raise IndexDamagedError(f"{path}: the slots do not fit {records} locations or records")
    if ("parts.offsets" in sections) != ("parts.bytes" in sections):
        raise IndexDamagedError(f"{path}: parts.offsets and parts.bytes belong together, and one is missing")
    for name in length:
        family, _, column = name.partition(".")
        if name not in SECTIONS and not name.startswith(PART):
            continue
        if column == "table":
            right = length[name] == TABLE_LENGTH
        elif family in ("v4", "v6"):
            right = 0 < length[name] == length[f"{family}.slot"] <= EMPTY
        elif family == "loc":
            right = length[name] == counts["locations"] <= WIDE_EMPTY
        elif name.startswith(PART):
            right = length[name] == records and "parts.offsets" in sections
        elif name in ("record.source", "record.said"):
            right = length[name] == records
        else:
            right = column != "offsets" or length[name] >= 2
        if not right:
            raise IndexDamagedError(f"{path}: section {name} has {length[name]} items, which does not fit the others")


def _check_ends(data: memoryview, sections: dict[str, Section], path: str) -> None:
    def item(name: str, position: int) -> int:
        section = sections[name]
        item_bytes = ITEM_FORMATS[section.dtype][1]
        begin = (section.begin if position >= 0 else section.end) + position * item_bytes
        return int.from_bytes(data[begin : begin + item_bytes], "little")

    for name in ("strings", "parts"):
        offsets = f"{name}.offsets"
        if offsets in sections and (item(offsets, 0), item(offsets, -1)) != (0, sections[f"{name}.bytes"].length):
            raise damaged(path, f"{offsets}: its ends are not 0 and the number of bytes")
    if item("v4.low", 0) or not item("v4.table", 1) or item("v6.hi", 0) or ("v6.lo" in sections and item("v6.lo", 0)):
        raise damaged(path, "the first segment of a family does not begin at its first address")
    for name, column in (("v4.table", "v4.low"), ("v6.table", "v6.hi")):
        if item(name, 0) != 0 or item(name, -1) != sections[column].length:
            raise damaged(path, f"{name}: its ends are not 0 and the number of segments")


def damaged(path: str, what: str) -> IndexDamagedError:
    """The error for something in the file at ``path`` that its writer cannot have written."""
    return IndexDamagedError(f"{path}: {what}: the file is damaged")


def failed(path: str, error: Exception) -> IndexFileError:
    """The error for a view of the map that could not be read: a wrong index is damage, else the map was closed."""
    if isinstance(error, IndexError):
        return damaged(path, "a table points outside its section")
    return IndexFileError(f"{path}: the index was closed")


def section_arrays(header: Header, content: "memoryview[int]") -> "dict[str, np.ndarray[Any, Any]]":
    """Every known section by name as a numpy array over a file's ``content``, the keys of records among them."""
    import numpy as np

    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, section in header.sections.items():
        if name in SECTIONS or (name.startswith(PART) and section.dtype in PART_TYPES):
            kind = ITEM_FORMATS[section.dtype][0]
            # numpy refuses to look at the very end of a buffer, even for nothing.
            own = content[section.begin : section.end]
            arrays[name] = np.frombuffer(own, kind) if section.length else np.empty(0, kind)
    return arrays
