"""Writing an index file: locations and blocks are collected, flattened, checksummed and written in one pass."""

import hashlib
import math
import operator
import os
import zlib
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from geolookup.addresses import IPV4_MAX, IPV6_MAX
from geolookup.errors import IndexFileError
from geolookup.fields import DEGREES, FIELD_NAMES, FIELDS, TEXT_NAMES
from geolookup.index import flatten
from geolookup.index.compare import changed_country_addresses
from geolookup.index.layout import (
    COUNT_NAMES,
    CRC_PREFIX,
    EMPTY,
    FORMAT,
    HEADER_CHECK,
    ITEM_FORMATS,
    MASKS,
    MOST_SOURCES,
    OPTIONAL_SECTIONS,
    RESERVED_METADATA,
    SECTIONS,
    SOURCES,
    VERSION,
    WIDE_EMPTY,
    encode_header,
    require_little_endian,
)
from geolookup.index.segments import split_slots
from geolookup.index.verify import verify_index

__all__ = ["IndexBuilder", "IndexSummary", "changed_country_addresses", "verify_index", "write_index"]

_LOW64 = (1 << 64) - 1
_LARGEST_I32 = (1 << 31) - 1
# Country, latitude and longitude are always there, so there are several of each kind.
_texts_of: Callable[[Sequence[Any]], tuple[str, ...]] = operator.itemgetter(*map(FIELD_NAMES.index, TEXT_NAMES))
_degrees_of: Callable[[Sequence[Any]], tuple[float | None, ...]] = operator.itemgetter(*map(FIELD_NAMES.index, DEGREES))


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSummary:
    """What was written.

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


class IndexBuilder:
    """Collects one layer's locations and blocks, in any order, and writes its index file once.

    Blocks are kept in plain arrays: 12 bytes for IPv4, 36 for IPv6.
    """

    def __init__(self, layer: Literal["custom", "default"], *, source: str = "", later_wins: bool = False) -> None:
        """An empty builder. Locids are below zero in the layer ``custom``, above zero in ``default``.

        ``source`` names what the layer was made from. With ``later_wins``, of two blocks of one size the later added
        wins, for a source whose locids mean nothing; else the one whose locid is further from zero.
        """
        require_little_endian()
        self._sources = (source,) if source else ()
        self._later_wins = later_wins
        self._masks = False
        self._layer = layer
        self._sign = -1 if layer == "custom" else 1
        self._written = False
        self._texts = {"": 0}
        self._slots: dict[int, int] = {}
        self._columns: dict[str, array[Any]] = {
            field.name: array("i" if field.limit is None else "d") for field in FIELDS
        }
        self._text_columns = [self._columns[name] for name in TEXT_NAMES]
        self._degrees_columns = [self._columns[name] for name in DEGREES]
        self._pending = array("B")
        # First, last, slot; and first hi, first lo, last hi, last lo, slot.
        self._v4 = [array("I"), array("I"), array("I")]
        self._v6 = [array("Q"), array("Q"), array("Q"), array("Q"), array("I")]

    def add_location(
        self,
        locid: int,
        *values: str | float | None,
        pending: bool = False,
    ) -> int:
        """Add a location with the values of all fields in their order; degrees may be None, text "": nothing known.

        :returns: its slot, for this builder's other methods. In the file slots ascend by locid.
        :raises IndexFileError: for a locid that is there already or not one of this layer, a coordinate that is not
            finite, or text that is not Unicode
        """
        self._require_open()
        if not 0 < locid * self._sign < 1 << 63:
            raise IndexFileError(f"locid {locid} cannot be in the {self._layer} layer")
        if pending and self._layer != "custom":
            raise IndexFileError(f"locid {locid}: only custom geolocations can be pending")
        # Not value by value: this is a part of a sync that grows with the geolocations.
        if len(values) != len(FIELDS):
            raise IndexFileError(f"locid {locid}: there are {len(FIELDS)} fields, not {len(values)}")
        texts = _texts_of(values)
        numbers = []
        for degrees in _degrees_of(values):
            number = math.nan if degrees is None else float(degrees)
            if degrees is not None and not math.isfinite(number):
                raise IndexFileError(f"locid {locid}: degrees must be a finite number, not {number}")
            numbers.append(number)
        try:
            for text in texts:
                if text not in self._texts:
                    text.encode("utf-8")
                    self._texts[text] = len(self._texts)
        except UnicodeEncodeError as error:
            raise IndexFileError(f"locid {locid}: {error.object!r:.80} is not Unicode text") from error
        return self._append(locid, numbers, texts, pending=pending)

    def _append(self, locid: int, numbers: Sequence[float], texts: Sequence[str], *, pending: bool) -> int:
        if locid in self._slots:
            raise IndexFileError(f"locid {locid} is there twice")
        if len(self._slots) == WIDE_EMPTY:
            raise IndexFileError(f"locid {locid}: a layer has room for {WIDE_EMPTY:,} locations")
        slot = self._slots[locid] = len(self._slots)
        for column, text in zip(self._text_columns, texts, strict=True):
            column.append(self._texts[text])
        for column, number in zip(self._degrees_columns, numbers, strict=True):
            column.append(number)
        self._pending.append(pending)
        return slot

    def add_mask(self) -> int:
        """Add the mask, once: blocks of its slot have no geolocation here or in any source below.

        :returns: its slot
        :raises IndexFileError: in the custom layer, which has none
        """
        self._require_open()
        if self._layer == "custom":
            raise IndexFileError("the custom layer has no masks")
        self._masks = True
        return self._append(0, [math.nan] * len(DEGREES), [""] * len(TEXT_NAMES), pending=False)

    def add_block(self, slot: int, family: Literal[4, 6], first: int, last: int) -> None:
        """Add the inclusive range ``first`` to ``last`` to a location. Blocks may overlap in any way.

        :raises IndexFileError: if the two do not make a range of the family, or no location has the slot
        """
        limit = IPV4_MAX if family == 4 else IPV6_MAX
        if not (0 <= first <= last <= limit and 0 <= slot < len(self._slots)):
            raise IndexFileError(f"{first} to {last} is not a range of IPv{family}, or no location has slot {slot}")
        self._require_open()
        if family == 4:
            self._v4[0].append(first)
            self._v4[1].append(last)
            self._v4[2].append(slot)
        else:
            for column, value in zip(
                self._v6, (first >> 64, first & _LOW64, last >> 64, last & _LOW64, slot), strict=True
            ):
                column.append(value)

    def extend_v4(self, slot: int, firsts: Sequence[int], lasts: Sequence[int]) -> None:
        """Add many IPv4 ranges to one location: several times cheaper than one by one.

        :raises IndexFileError: as `add_block`; none of them was added
        """
        self._require_open()
        try:
            low, high = array("I", firsts), array("I", lasts)
        except (OverflowError, TypeError) as error:
            raise IndexFileError(f"slot {slot}: an end of a block is not an IPv4 address: {error}") from error
        if len(low) != len(high) or not all(map(operator.le, low, high)) or not 0 <= slot < len(self._slots):
            raise IndexFileError(f"the blocks of slot {slot} are not ranges of IPv4, or no location has that slot")
        self._v4[0].extend(low)
        self._v4[1].extend(high)
        self._v4[2].extend(array("I", [slot]) * len(low))

    def extend_v6(self, slot: int, firsts: Sequence[int], lasts: Sequence[int]) -> None:
        """`extend_v4` for IPv6 ranges.

        :raises IndexFileError: as `add_block`; none of them was added
        """
        self._require_open()
        try:
            ends = [
                array("Q", [value >> 64 if upper else value & _LOW64 for value in values])
                for values in (firsts, lasts)
                for upper in (True, False)
            ]
        except (OverflowError, TypeError) as error:
            raise IndexFileError(f"slot {slot}: an end of a block is not an IPv6 address: {error}") from error
        if len(firsts) != len(lasts) or not all(map(operator.le, firsts, lasts)) or not 0 <= slot < len(self._slots):
            raise IndexFileError(f"the blocks of slot {slot} are not ranges of IPv6, or no location has that slot")
        for column, values in zip(self._v6, (*ends, array("I", [slot]) * len(firsts)), strict=True):
            column.extend(values)

    def extend_columns_v4(self, first: flatten.U32, last: flatten.U32, slot: flatten.U32) -> None:
        """Add many IPv4 ranges of any locations, given as columns: as `extend_v4`, without a Python object for each.

        :raises IndexFileError: as `add_block`; none of them was added
        """
        self._require_open()
        if not (len(first) == len(last) == len(slot) and np.all(first <= last) and self._are_slots(slot)):
            raise IndexFileError("the blocks are no ranges of IPv4, or a slot is no location's")
        for column, values in zip(self._v4, (first, last, slot), strict=True):
            column.frombytes(np.ascontiguousarray(values, np.uint32).data.cast("B") if len(values) else b"")

    def extend_columns_v6(
        self,
        first_hi: flatten.U64,
        first_lo: flatten.U64,
        last_hi: flatten.U64,
        last_lo: flatten.U64,
        slot: flatten.U32,
    ) -> None:
        """`extend_columns_v4` for IPv6 ranges, whose ends are given as upper and lower 64 bits.

        :raises IndexFileError: as `add_block`; none of them was added
        """
        self._require_open()
        ends = (first_hi, first_lo, last_hi, last_lo)
        if not (
            all(len(end) == len(slot) for end in ends)
            and np.all((first_hi < last_hi) | ((first_hi == last_hi) & (first_lo <= last_lo)))
            and self._are_slots(slot)
        ):
            raise IndexFileError("the blocks are no ranges of IPv6, or a slot is no location's")
        columns: tuple[flatten.Array, ...] = (*ends, slot)
        for column, values in zip(self._v6, columns, strict=True):
            column.frombytes(np.ascontiguousarray(values, column.typecode).data.cast("B") if len(values) else b"")

    def _are_slots(self, slot: flatten.U32) -> bool:
        return not len(slot) or int(slot.max()) < len(self._slots)

    def _require_open(self) -> None:
        if self._written:
            raise IndexFileError("this index was written: begin another builder")

    def write(self, path: str | os.PathLike[str], *, extra: Mapping[str, str] | None = None) -> IndexSummary:
        """Flatten and write to exactly ``path``, which must not exist, readable to its owner only, and sync it.

        ``extra`` joins the metadata. What was collected is freed on the way, so a builder writes once. Neither is
        the file renamed nor its directory synced: that is publishing.

        :raises IndexFileError: if ``path`` exists or cannot be written; what was begun is removed
        """
        self._require_open()
        self._written = True
        locids = np.fromiter(self._slots, np.int64, len(self._slots))
        self._slots = {}
        # Ascending locids find a locid by bisection, and make the file the same in whatever order rows came.
        order = np.argsort(locids)
        renumbered = np.empty(len(order), np.uint32)
        renumbered[order] = np.arange(len(order), dtype=np.uint32)
        locids = locids[order]
        rank = None if self._later_wins else np.abs(locids)
        sections, counts = self._flatten(renumbered, rank)
        counts["locations"] = len(locids)
        sections["loc.locid"] = locids
        self._text_columns, self._degrees_columns = [], []
        for name in FIELD_NAMES:
            sections[f"loc.{name}"] = _as_array(self._columns.pop(name))[order]
        if self._layer == "custom":
            sections["loc.pending"] = _as_array(self._pending)[order]
        sections["strings.offsets"], sections["strings.bytes"] = string_table(self._texts)
        self._texts = {}
        size, digest = write_index(
            path, sections, layer=self._layer, counts=counts, sources=self._sources, masks=self._masks, extra=extra
        )
        return IndexSummary(**counts, bytes=size, sha256=digest)

    def _flatten(
        self, renumbered: flatten.U32, rank: flatten.I64 | None
    ) -> tuple[dict[str, flatten.Array], dict[str, int]]:
        counts = {"blocks_v4": len(self._v4[2]), "blocks_v6": len(self._v6[4])}
        columns = [_as_array(column) for column in self._v4]
        self._v4 = []
        slot = renumbered[columns.pop()]
        first, slot = flatten.flatten_v4(columns[0], columns[1], slot, rank)
        columns = [_as_array(column) for column in self._v6]
        self._v6 = []
        slot_v6 = renumbered[columns.pop()]
        hi, lo, slot_v6 = flatten.flatten_v6(columns[0], columns[1], columns[2], columns[3], slot_v6, rank)
        del columns
        return segment_sections((first, slot), (hi, lo, slot_v6), len(renumbered), counts)


def segment_sections(
    v4: tuple[flatten.U32, flatten.U32],
    v6: tuple[flatten.U64, flatten.U64, flatten.U32],
    locations: int,
    counts: Mapping[str, int],
) -> tuple[dict[str, flatten.Array], dict[str, int]]:
    """The sections that hold segments, and ``counts`` with what is counted on them.

    ``v4`` and ``v6`` are as `flatten.flatten_v4` and `flatten.flatten_v6` return them.
    """
    (first, slot), (hi, lo, slot_v6) = v4, v6
    counted = {
        **counts,
        "segments_v4": int(np.count_nonzero(slot != EMPTY)),
        "segments_v6": int(np.count_nonzero(slot_v6 != EMPTY)),
        "covered_v4": flatten.covered_v4(first, slot),
        "covered_v6": flatten.covered_v6(hi, lo, slot_v6),
    }
    sections: dict[str, flatten.Array] = {
        "v4.low": first.astype(np.uint16),
        "v4.table": flatten.table_v4(first),
        "v6.hi": hi,
        "v6.table": flatten.table_v6(hi),
    }
    if lo.any():
        sections["v6.lo"] = lo
    for family, slots in (("v4", slot), ("v6", slot_v6)):
        sections.update(split_slots(family, slots, locations))
    return sections, counted


def string_table(texts: Iterable[str]) -> tuple[flatten.Array, flatten.Array]:
    """The two sections of distinct texts, the first of which is "".

    :raises IndexFileError: if they are longer than offsets can say
    """
    encoded = [text.encode("utf-8") for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    if offsets[-1] > _LARGEST_I32:
        raise IndexFileError(f"the locations' distinct texts have {offsets[-1]} bytes: 2 GiB is the most")
    return offsets.astype(np.int32), np.frombuffer(b"".join(encoded), np.uint8)


def _as_array(column: "array[Any]") -> flatten.Array:
    return np.frombuffer(column, column.typecode)


def write_index(
    path: str | os.PathLike[str],
    sections: Mapping[str, flatten.Array],
    *,
    layer: str,
    counts: Mapping[str, int],
    sources: Sequence[str] = (),
    masks: bool = False,
    extra: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Write sections as they are, by the names of `layout.SECTIONS`, and sync the file.

    `IndexBuilder.write` for those who have sorted, disjoint segments already: nothing is checked here but ``extra``
    and the sections' types. ``counts`` has the numbers of `layout.COUNT_NAMES`; ``sources`` are the names that
    ``loc.source`` numbers; ``masks`` is true if a location is a mask.

    :returns: the file's size in bytes and its SHA-256 in hexadecimal
    :raises IndexFileError: if ``path`` exists or cannot be written; what was begun is removed
    """
    require_little_endian()
    metadata = {"format": FORMAT, "version": VERSION, HEADER_CHECK: "0" * 16, "layer": layer}
    metadata.update({name: str(counts[name]) for name in COUNT_NAMES})
    if len(sources) > MOST_SOURCES:
        raise IndexFileError(f"{len(sources)} sources: an index tells {MOST_SOURCES} apart at most")
    if sources:
        metadata[SOURCES] = " ".join(sources)
    if masks:
        metadata[MASKS] = "1"
    for key, text in (extra or {}).items():
        if key in RESERVED_METADATA or key.startswith(CRC_PREFIX) or not isinstance(text, str):
            raise IndexFileError(f"{key!r} cannot be extra metadata: its name is taken, or it is not text")
        metadata[key] = text
    present = [name for name in SECTIONS if name in sections or name not in OPTIONAL_SECTIONS]
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name in present:
        column = sections[name]
        if column.dtype != ITEM_FORMATS[SECTIONS[name]][0] or not column.flags.c_contiguous:
            raise IndexFileError(f"section {name} is {column.dtype}, not {SECTIONS[name]}")
        begin, end = end, end + column.nbytes
        header[name] = {"dtype": SECTIONS[name], "shape": [len(column)], "data_offsets": [begin, end]}
        metadata[CRC_PREFIX + name] = f"{zlib.crc32(_raw(column)):08x}"
    encoded = encode_header(header)
    parts = [memoryview(len(encoded).to_bytes(8, "little") + encoded), *(_raw(sections[name]) for name in present)]
    return _write_file(os.fspath(path), parts)


def _raw(column: flatten.Array) -> memoryview:
    # A view of no items cannot be cast.
    return column.data.cast("B") if len(column) else memoryview(b"")


def _write_file(path: str, parts: Sequence[memoryview]) -> tuple[int, str]:
    digest = hashlib.sha256()
    size = 0
    created = False
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        created = True
        with open(descriptor, "wb", buffering=0) as file:
            for part in parts:
                digest.update(part)
                size += len(part)
                rest = part
                while rest:  # one write takes 2 GiB at most, and may take less than it is given
                    rest = rest[file.write(rest) :]
            os.fsync(descriptor)
    except (OSError, ValueError) as error:
        if created:
            with suppress(OSError):
                os.unlink(path)
        raise IndexFileError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from error
    return size, digest.hexdigest()
