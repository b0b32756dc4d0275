"""The index file, as its writer and reader share it: its sections, its header, and the rules for both.

The file is in the safetensors layout (https://huggingface.co/docs/safetensors, "Format"): the header's length as a
little-endian u64, a JSON header padded with spaces, then the sections without holes. On top of that, data begin at a
multiple of 64, and sections stand in order of item size, largest first, so every one is aligned to its items.

This module stands on the path of ``geolookup 8.8.8.8``: it imports only what costs nothing.
"""

from geolookup.model.fields import DEGREES, TEXT_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

FORMAT: "Final" = "geolookup-index"
VERSION: "Final" = "1.0"
MAJOR: "Final" = 1

#: The slot of a gap: no geolocation of this layer covers the segment.
EMPTY: "Final" = 0xFFFFFFFF

#: The layers that a file may hold. The file of the layer ``network`` has no locations: its segments have records, whose
#: keys are the facts of their networks. ``record.said`` has for each record the number of a part, which is a map from
#: each of its keys to the number of the source that said it; it is left out if the file has one source.
LAYERS: "Final" = ("custom", "default", "network")

#: One start for each value of an address's upper 16 bits, and one past the last.
TABLE_LENGTH: "Final" = 65_537

#: Every section with its safetensors type, in the order in which they stand in the file.
SECTIONS: "Final" = {
    "v6.hi": "U64",
    "v6.lo": "U64",
    "loc.locid": "I64",
    **{f"loc.{name}": "F64" for name in DEGREES},
    "strings.offsets": "I32",
    "v4.table": "U32",
    "v6.table": "U32",
    **{f"loc.{name}": "I32" for name in TEXT_NAMES},
    "record.slot": "U32",
    "record.said": "U32",
    "parts.offsets": "I32",
    "v4.low": "U16",
    "v4.slot": "U16",
    "v6.slot": "U16",
    "v4.slot_high": "U8",
    "v6.slot_high": "U8",
    "loc.pending": "U8",
    "loc.source": "U8",
    "record.source": "U8",
    "strings.bytes": "U8",
    "parts.bytes": "U8",
}
#: ``v6.lo`` is left out if all of it is 0, the upper bits of slots if 16 bits do, the sources of locations
#: if all have the same, and what has to do with records if there are none, or if each location has one.
OPTIONAL_SECTIONS: "Final" = (
    *("v6.lo", "v4.slot_high", "v6.slot_high", "loc.pending", "loc.source"),
    *("record.slot", "record.said", "record.source", "parts.offsets", "parts.bytes"),
)
#: Before the name of a key of records: such a section has for each record the number of the key's part, 0 for none.
#: There may be any of them, each of the narrowest of these types.
PART: "Final" = "part."
PART_TYPES: "Final" = ("U8", "U16", "U32")
#: The key of what the custom layer knows of its geolocations besides their fields: the names and time zones of sites.
#: No source says it, so it is no part of what records are compared by.
OURS: "Final" = "geolookup"

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

#: Before the checksum of the header, which stands in its own text: see `plainjson.sealed`.
CHECK_MARK: "Final" = b'"header_check":"'
#: Why sections can be used in place, without a copy, and where they cannot be.
BIG_ENDIAN: "Final" = "index files are little-endian: a machine that is not can neither map nor write them"
