"""What the index file's writer and reader share: its sections, its header, and the rules for both.

The file is in the safetensors layout (https://huggingface.co/docs/safetensors, "Format"): the header's length as a
little-endian u64, a JSON header padded with spaces, then the sections without holes. On top of that, data begin at a
multiple of 64, and sections stand in order of item size, largest first, so every one is aligned to its items.

This module stands on the path of ``geolookup 8.8.8.8``: it imports only what costs nothing.
"""

import sys

from geolookup import plainjson
from geolookup.errors import IndexDamagedError, IndexFileError, IndexTooNewError
from geolookup.fields import DEGREES, LATER_NAMES, TEXT_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

FORMAT: "Final" = "geolookup-index"
VERSION: "Final" = "2.1"
MAJOR: "Final" = 2

#: The slot of a gap: no geolocation of this layer covers the segment.
EMPTY: "Final" = 0xFFFFFFFF

#: One start for each value of an address's upper 16 bits, and one past the last.
TABLE_LENGTH: "Final" = 65_537

#: Every section of version 2 with its safetensors type, in the order in which they stand in the file.
SECTIONS: "Final" = {
    "v6.hi": "U64",
    "v6.lo": "U64",
    "loc.locid": "I64",
    **{f"loc.{name}": "F64" for name in DEGREES},
    "strings.offsets": "I32",
    "v4.table": "U32",
    "v6.table": "U32",
    **{f"loc.{name}": "I32" for name in TEXT_NAMES},
    "v4.low": "U16",
    "v4.slot": "U16",
    "v6.slot": "U16",
    "v4.slot_high": "U8",
    "v6.slot_high": "U8",
    "loc.pending": "U8",
    "loc.source": "U8",
    "strings.bytes": "U8",
}
#: ``v6.lo`` is left out if all of it is 0, the upper bits of slots if 16 bits do, and the sources of locations
#: if all have the same. A file that is older than a field lacks its section: the field is unknown in all its locations.
OPTIONAL_SECTIONS: "Final" = (
    *("v6.lo", "v4.slot_high", "v6.slot_high", "loc.pending", "loc.source"),
    *[f"loc.{name}" for name in LATER_NAMES],
)

#: What stands in the file for `EMPTY`: in slots of 16 bits, and in those of 24. Slots are below it.
NARROW_EMPTY: "Final" = 0xFFFF
WIDE_EMPTY: "Final" = 0xFF_FFFF

#: Each type's `memoryview` format and its size in bytes.
ITEM_FORMATS: "Final" = {
    "U64": ("Q", 8),
    "I64": ("q", 8),
    "F64": ("d", 8),
    "U32": ("I", 4),
    "I32": ("i", 4),
    "U16": ("H", 2),
    "U8": ("B", 1),
}

#: Whole numbers in the metadata. Segments are counted without gaps, and so are the addresses that they cover.
COUNT_NAMES: "Final" = (
    "locations",
    "blocks_v4",
    "blocks_v6",
    "segments_v4",
    "segments_v6",
    "covered_v4",
    "covered_v6",
)

#: The names of the sources in the order of their numbers in ``loc.source``, in one text, a blank between two.
SOURCES: "Final" = "sources"
#: Whether a location has the locid 0: a mask, whose addresses have no geolocation here or in any source below.
MASKS: "Final" = "masks"
#: As many sources as ``loc.source`` can tell apart.
MOST_SOURCES: "Final" = 256

CRC_PREFIX: "Final" = "crc32:"
HEADER_CHECK: "Final" = "header_check"
RESERVED_METADATA: "Final" = ("format", "version", HEADER_CHECK, "layer", SOURCES, MASKS, *COUNT_NAMES)

ALIGNMENT: "Final" = 64
#: Headers are some 3 kB: a larger length is damage, and reading so much would not take constant time.
MAX_HEADER_BYTES: "Final" = 1 << 20

_CHECK_MARK = b'"header_check":"'
_CHECK_DIGITS = 16
_CHECK_MODULUS = (1 << 61) - 1


def _require_little_endian() -> None:
    """Refuse a machine whose integers are not those of the file: sections are used in place, without a copy.

    :raises IndexFileError: on a big-endian machine
    """
    if sys.byteorder != "little":
        raise IndexFileError("index files are little-endian: a machine that is not can neither map nor write them")


def header_check(header: bytes) -> str:
    """The checksum of a header, in which its own value counts as zeros; see `self_check`."""
    return self_check(header, header.find(_CHECK_MARK) + len(_CHECK_MARK))


def self_check(text: bytes, start: int) -> str:
    """The checksum, as 16 hexadecimal digits, of a text that holds it at ``start``: there it counts as zeros.

    It is the text as one little-endian integer, modulo 2**61 - 1. CRC-32 would do as well, but costs an import on
    the way to a first answer, or a loop over each byte; this is a dozen microseconds of plain Python, and
    misses no run of changed bits shorter than 61.
    """
    blanked = text[:start] + b"0" * _CHECK_DIGITS + text[start + _CHECK_DIGITS :]
    return f"{int.from_bytes(blanked, 'little') % _CHECK_MODULUS:0{_CHECK_DIGITS}x}"


class Section:
    """Where one section stands: ``begin`` and ``end`` are offsets in the file, in bytes; ``length`` counts items."""

    __slots__ = ("begin", "dtype", "end", "length")

    def __init__(self, dtype: str, begin: int, end: int, length: int) -> None:
        self.dtype = dtype
        self.begin = begin
        self.end = end
        self.length = length


class Header:
    """A header that was read and checked: every section lies inside the file and fits the others.

    ``raw`` is its text as it stands in the file, padding included, and ``tree`` the decoded JSON; ``metadata`` has
    strings only; ``counts`` has the numbers of `COUNT_NAMES`; ``sections`` has the unknown ones of a newer minor
    version too.
    """

    __slots__ = ("counts", "layer", "metadata", "raw", "sections", "tree")

    def __init__(
        self,
        raw: bytes,
        tree: "dict[str, Any]",
        metadata: dict[str, str],
        counts: dict[str, int],
        sections: dict[str, Section],
    ) -> None:
        self.raw = raw
        self.tree = tree
        self.metadata = metadata
        self.layer = metadata["layer"]
        self.counts = counts
        self.sections = sections


def read_header(data: memoryview, path: str) -> Header:
    """Read and check the header of a mapped file, in time that does not grow with the file.

    :raises IndexFileError: on a big-endian machine
    :raises IndexDamagedError: if it is not a whole index file; the message begins with the path
    :raises IndexTooNewError: if its major version is not ours
    """
    _require_little_endian()
    size = len(data)
    header_bytes = int.from_bytes(data[:8], "little") if size >= 8 else 0
    start = 8 + header_bytes
    if not 2 <= header_bytes <= MAX_HEADER_BYTES or start > size or start % ALIGNMENT:
        raise IndexDamagedError(f"{path}: not an index file, or damaged: the length of its header cannot be right")
    raw = bytes(data[8:start])
    try:
        tree = plainjson.loads(raw)
    except ValueError as error:
        raise IndexDamagedError(f"{path}: not an index file, or damaged: its header is not JSON") from error
    metadata = tree.get("__metadata__") if isinstance(tree, dict) else None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise IndexDamagedError(f"{path}: not an index file: its header does not name the format {FORMAT}")
    _check_version(metadata.get("version"), path)
    if metadata.get(HEADER_CHECK) != header_check(raw):
        raise IndexDamagedError(f"{path}: the header is damaged: its checksum is not {metadata.get(HEADER_CHECK)}")
    if not all(isinstance(value, str) for value in metadata.values()):
        raise IndexDamagedError(f"{path}: __metadata__ has something that is not text")
    if metadata.get("layer") not in ("custom", "default"):
        raise IndexDamagedError(f"{path}: the layer is neither custom nor default, but {metadata.get('layer')!r:.80}")
    counts = {name: _count(metadata.get(name), name, path) for name in COUNT_NAMES}
    sections = {
        name: _section(name, entry, start, size, path) for name, entry in tree.items() if name != "__metadata__"
    }
    if max((section.end for section in sections.values()), default=start) != size:
        raise IndexDamagedError(f"{path}: the sections do not end where the file ends: it is truncated, or has more")
    _check_shapes(sections, counts, path)
    return Header(raw, tree, metadata, counts, sections)


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
    if name in SECTIONS:
        item_bytes = ITEM_FORMATS[SECTIONS[name]][1]
        if (dtype, len(shape)) != (SECTIONS[name], 1) or shape[0] * item_bytes != end - begin or begin % item_bytes:
            raise IndexDamagedError(f"{path}: section {name} has the wrong type, shape or place")
    return Section(dtype, begin, end, shape[0] if len(shape) == 1 else 0)


def _whole_numbers(value: "Any") -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _check_shapes(sections: dict[str, Section], counts: dict[str, int], path: str) -> None:
    missing = [name for name in SECTIONS if name not in sections and name not in OPTIONAL_SECTIONS]
    if missing:
        raise IndexDamagedError(f"{path}: the section {missing[0]} is missing")
    length = {name: section.length for name, section in sections.items()}
    is_wide = "v4.slot_high" in sections
    if is_wide != ("v6.slot_high" in sections) or counts["locations"] > (WIDE_EMPTY if is_wide else NARROW_EMPTY):
        raise IndexDamagedError(f"{path}: the slots do not fit {counts['locations']} locations")
    for name in SECTIONS:
        family, _, column = name.partition(".")
        if name not in length:
            continue
        if column == "table":
            right = length[name] == TABLE_LENGTH
        elif family in ("v4", "v6"):
            right = 0 < length[name] == length[f"{family}.slot"] <= EMPTY
        elif family == "loc":
            right = length[name] == counts["locations"] <= WIDE_EMPTY
        else:
            right = name != "strings.offsets" or length[name] >= 2
        if not right:
            raise IndexDamagedError(f"{path}: section {name} has {length[name]} items, which does not fit the others")


def encode_header(tree: "dict[str, Any]") -> bytes:
    """The text of a header, padded so that data begin at a multiple of 64, its checksum filled in.

    ``tree`` begins with ``__metadata__``, whose ``header_check`` may have any value of 16 characters; it stays as it
    is.

    :raises IndexFileError: if the header would be larger than a reader accepts, or on a big-endian machine
    """
    _require_little_endian()
    import json

    text = json.dumps(tree, separators=(",", ":")).encode("ascii")
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    if len(text) > MAX_HEADER_BYTES:
        raise IndexFileError(f"the header would have {len(text)} bytes: give less extra metadata")
    start = text.find(_CHECK_MARK) + len(_CHECK_MARK)
    return text[:start] + header_check(text).encode("ascii") + text[start + _CHECK_DIGITS :]
