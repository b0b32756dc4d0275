"""Making an index file: locations and blocks are collected, flattened and written in one pass."""

import math
import operator
import os
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from geolookup.addresses import IPV4_MAX, IPV6_MAX
from geolookup.errors import IndexFileError
from geolookup.fields import DEGREES, FIELD_NAMES, FIELDS, TEXT_NAMES
from geolookup.index import flatten
from geolookup.index.layout import WIDE_EMPTY, require_little_endian
from geolookup.index.scratch.column import Column
from geolookup.index.segments import SegmentSections
from geolookup.index.writer import IndexSummary, string_table, write_index

_LOW64 = (1 << 64) - 1
# Country, latitude and longitude are always there, so there are several of each kind.
_texts_of: Callable[[Sequence[Any]], tuple[str, ...]] = operator.itemgetter(*map(FIELD_NAMES.index, TEXT_NAMES))
_degrees_of: Callable[[Sequence[Any]], tuple[float | None, ...]] = operator.itemgetter(*map(FIELD_NAMES.index, DEGREES))


class IndexBuilder:
    """Collects the locations and blocks of one layer, in any order, and writes its index file once.

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
        :raises IndexFileError: for a locid that was added before or cannot be in this layer, a coordinate that is not
            finite, or text that is not Unicode
        """
        self._require_open()
        if not 0 < locid * self._sign < 1 << 63:
            raise IndexFileError(f"locid {locid} cannot be in the {self._layer} layer")
        if pending and self._layer != "custom":
            raise IndexFileError(f"locid {locid}: only custom geolocations can be pending")
        # Not value by value: this is a part of a sync whose time grows with the geolocations.
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
        :raises IndexFileError: in the custom layer, which cannot have masks
        """
        self._require_open()
        if self._layer == "custom":
            raise IndexFileError("the custom layer has no masks")
        self._masks = True
        return self._append(0, [math.nan] * len(DEGREES), [""] * len(TEXT_NAMES), pending=False)

    def add_block(self, slot: int, family: Literal[4, 6], first: int, last: int) -> None:
        """Add the inclusive range ``first`` to ``last`` to a location. Blocks may overlap in any way.

        :raises IndexFileError: if the two are not a range of the family, or no location has the slot
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
            raise IndexFileError(f"slot {slot}: an end of a block is not an IPv4 address") from error
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
            raise IndexFileError(f"slot {slot}: an end of a block is not an IPv6 address") from error
        if len(firsts) != len(lasts) or not all(map(operator.le, firsts, lasts)) or not 0 <= slot < len(self._slots):
            raise IndexFileError(f"the blocks of slot {slot} are not ranges of IPv6, or no location has that slot")
        for column, values in zip(self._v6, (*ends, array("I", [slot]) * len(firsts)), strict=True):
            column.extend(values)

    def extend_columns_v4(self, first: flatten.U32, last: flatten.U32, slot: flatten.U32) -> None:
        """Add many IPv4 ranges of any locations, given as columns: like `extend_v4`, without a Python object for each
        range.

        :raises IndexFileError: as `add_block`; none of them was added
        """
        self._require_open()
        if not (len(first) == len(last) == len(slot) and np.all(first <= last) and self._are_slots(slot)):
            raise IndexFileError("the blocks are not ranges of IPv4, or no location has a slot of theirs")
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
            raise IndexFileError("the blocks are not ranges of IPv6, or no location has a slot of theirs")
        columns: tuple[flatten.Array, ...] = (*ends, slot)
        for column, values in zip(self._v6, columns, strict=True):
            column.frombytes(np.ascontiguousarray(values, column.typecode).data.cast("B") if len(values) else b"")

    def _are_slots(self, slot: flatten.U32) -> bool:
        return not len(slot) or int(slot.max()) < len(self._slots)

    def _require_open(self) -> None:
        if self._written:
            raise IndexFileError("this index was written already: use a new builder")

    def write(self, path: str | os.PathLike[str], *, extra: Mapping[str, str] | None = None) -> IndexSummary:
        """Flatten and write to exactly ``path``, which must not exist, readable to its owner only, and sync it.

        ``extra`` joins the metadata. The collected data are freed on the way, so a builder writes once. It does not
        rename the file or sync its directory: publishing does both.

        :raises IndexFileError: if ``path`` exists or cannot be written; an unfinished file is removed
        """
        self._require_open()
        self._written = True
        locids = np.fromiter(self._slots, np.int64, len(self._slots))
        self._slots = {}
        # With ascending locids a locid is found by bisection, and the order in which rows came does not change the
        # file.
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
    ) -> tuple[dict[str, flatten.Array | Column], dict[str, int]]:
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
        sections = SegmentSections(len(renumbered))
        sections.add_v4(first, slot)
        sections.add_v6(hi, lo, slot_v6)
        return sections.finish(counts)


def _as_array(column: "array[Any]") -> flatten.Array:
    return np.frombuffer(column, column.typecode)
