"""From a column's buffers to location slots, and from those to values.

This is the one place that knows whether the accelerator or numpy does it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from geolookup.index import native
from geolookup.index.native import ABSENT, BAD, OVERLAY
from geolookup.index.reader import EMPTY, IndexReader
from geolookup.index.segments import numbers_of_records, segments_v4, segments_v6
from geolookup.model.addresses import IPV4_MAX, parse
from geolookup.model.errors import IndexDamagedError, InvalidAddressError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["ABSENT", "BAD", "EMPTY", "OVERLAY", "OutsideError", "SlotFinder", "SlotValues", "Slots"]

Slots: TypeAlias = NDArray[np.uint32]
#: Memory for so many items of a type, not yet written.
Room: TypeAlias = Callable[[int, "np.dtype[Any]"], NDArray[Any]]

#: Rows whose text is parsed together: their characters, 15 a row, stay in the processor's cache.
_GROUP: Final = 8192
_SLOT: Final = np.dtype(np.uint32)
_LONGEST_QUAD: Final = 15
_SHORTEST_QUAD: Final = 7
#: Longer text does not fit into its view, but stands in a buffer.
_IN_A_VIEW: Final = 12


class OutsideError(Exception):
    """A row of a column whose text stands outside of the column's buffers: its number from 0, and the reason."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(row, reason)
        self.row = row
        self.reason = reason


@dataclass(frozen=True, slots=True)
class SlotValues:
    """The values that stand in the slots of a column.

    ``values`` has an array a field, with an item a row, 0 if the row has no location; ``validity`` has a bit a row in
    Arrow's order, set if it has one. The other rows are counted: ``not_covered`` by any block, ``malformed``, and
    ``absent`` (a null).
    """

    values: list[NDArray[Any]]
    validity: NDArray[np.uint8]
    not_covered: int
    malformed: int
    absent: int

    @property
    def is_whole(self) -> bool:
        """True if every row has a location."""
        return not (self.not_covered or self.malformed or self.absent)


class SlotFinder:
    """Searches both layers for whole columns, the overlay first.

    Every method takes a column in Arrow's memory layout (https://arrow.apache.org/docs/format/Columnar.html): its
    buffers, its ``offset`` and its ``length`` in rows; ``validity`` may be None. The answer has an unsigned 32-bit
    integer a row: a slot of the base, a slot of the overlay with `OVERLAY` set, `EMPTY` if no block covers the address,
    `BAD` for what is not an address, `ABSENT` for a null. `accelerated` says whether C searches; what it writes goes
    into memory that ``room`` gives.

    With ``records`` the answer has the numbers of records in place of slots, and passes over weak records as over gaps.
    So without ``overlay`` it answers for a file of networks, which has records alone.

    :raises IndexDamagedError: if a file's slots lead outside it
    :raises OutsideError: at the first row that is not null and whose text is not inside the buffers
    :raises ValueError: if the buffers are too short for the rows
    """

    def __init__(
        self, base: IndexReader, overlay: IndexReader | None, room: Room = np.empty, *, records: bool = False
    ) -> None:
        self._room = room
        module = native.accelerator()
        self._native: Any = None
        if module is not None:
            self._native = (
                native.open_records(module, base, overlay)
                if records or overlay is None
                else native.open_searcher(module, base, overlay)
            )
        self.accelerated = self._native is not None
        # A checkout may still hold a build that is older than this file.
        self._take: Any = getattr(module, "take", None)
        records = records or overlay is None
        layers = [_Layer(base, 0, records=records)]
        if overlay is not None:
            layers.insert(0, _Layer(overlay, OVERLAY, records=records))
        self._counts = layers[-1].count, layers[0].count if overlay is not None else 0
        self._layers = [layer for layer in layers if layer.count]

    def strings(
        self,
        data: "Buffer | None",
        offsets: "Buffer",
        validity: "Buffer | None",
        offset: int,
        length: int,
        *,
        large: bool = False,
    ) -> Slots:
        """Strings one after another in ``data``; ``offsets`` are 64 bits wide if ``large``."""
        if self._native is not None:
            out = self._room(length, _SLOT)
            try:
                self._native.locate_strings(data, offsets, validity, offset, length, out, large)
            except ValueError:  # it does not say which row
                check_strings(data, string_ends(offsets, offset, length, large), valid_rows(validity, offset, length))
                raise
            return out
        if not length:  # a column without rows may come without offsets
            return np.empty(0, np.uint32)
        ends, valid = string_ends(offsets, offset, length, large), valid_rows(validity, offset, length)
        check_strings(data, ends, valid)
        text = np.frombuffer(memoryview(b"" if data is None else data), np.uint8)
        if valid is not None:  # the ends of a null may be any
            ends = np.clip(ends, 0, len(text))
        values, is_quad = parse_quads(text, ends)
        return self._search_parsed(text, ends, values, is_quad, valid)

    def views(
        self, views: "Buffer", buffers: "tuple[Buffer, ...]", validity: "Buffer | None", offset: int, length: int
    ) -> Slots:
        """String views. Only if `accelerated`: otherwise the caller first copies the text into one buffer."""
        out: Slots = self._room(length, _SLOT)
        try:
            self._native.locate_views(views, buffers, validity, offset, length, out)
        except ValueError:
            check_views(views_of(views, offset, length), buffers, valid_rows(validity, offset, length))
            raise
        return out

    def integers(self, values: "Buffer", validity: "Buffer | None", offset: int, length: int, *, bits: int) -> Slots:
        """IPv4 addresses as integers, unsigned if ``bits`` is 32, of either kind if it is 64."""
        if self._native is not None:
            out = self._room(length, _SLOT)
            locate = self._native.locate_u32 if bits == 32 else self._native.locate_u64
            locate(values, validity, offset, length, out)
            return out
        if not length:
            return np.empty(0, np.uint32)
        # A negative number, read as unsigned, is far above the largest address.
        kind: Any = np.uint32 if bits == 32 else np.uint64
        numbers = np.frombuffer(memoryview(values), kind, length, offset * bits // 8)
        valid = valid_rows(validity, offset, length)
        good = numbers <= IPV4_MAX
        out = np.where(good, ABSENT, BAD).astype(np.uint32)
        if valid is not None:
            out[~valid] = ABSENT
            good &= valid
        out[good] = self._search4(numbers[good].astype(np.uint32))
        return out

    def halves(self, values: NDArray[np.uint64], families: NDArray[np.uint8]) -> Slots:
        """Addresses of both families as numbers: a row of ``values`` has the upper and the lower half of one.

        ``families`` has 4, 6, or another number for what is not an address. IPv4-mapped addresses are of family 4.
        """
        if self._native is not None:
            out: Slots = self._room(len(families), _SLOT)
            self._native.locate_halves(np.ascontiguousarray(values), families, out)
            return out
        found = np.full(len(families), BAD, np.uint32)
        four, six = np.flatnonzero(families == 4), np.flatnonzero(families == 6)
        found[four] = self._search4(values[four, 1].astype(np.uint32))
        found[six] = self._search6([upper << 64 | lower for upper, lower in values[six].tolist()])
        return found

    def take(self, slots: Slots, fields: "Sequence[tuple[NDArray[Any], NDArray[Any]]]") -> SlotValues:
        """The values that stand in slots of this finder; a field is its values by slot in the base and in the overlay.

        The arrays of a field are contiguous and of one type.
        """
        values = [self._room(len(slots), base.dtype) for base, _ in fields]
        if self._take is None:
            return _take(slots, fields, values)
        validity = np.empty(-(-len(slots) // 8), np.uint8)
        given = tuple((*field, out, out.itemsize) for field, out in zip(fields, values, strict=True))
        return SlotValues(values, validity, *self._take(slots, *self._counts, given, validity))

    # Without the accelerator

    def _search_parsed(
        self, text: NDArray[np.uint8], ends: NDArray[Any], values: Slots, is_quad: NDArray[np.bool_], valid: Any
    ) -> Slots:
        out = np.full(len(values), ABSENT, np.uint32)
        others = ~is_quad
        if valid is not None:
            is_quad &= valid
            others &= valid
        quads = np.flatnonzero(is_quad)
        rows6: list[int] = []
        values6: list[int] = []
        for row in np.flatnonzero(others).tolist():
            try:
                family, value = parse(str(text[ends[row] : ends[row + 1]].tobytes(), "ascii"))
            except (InvalidAddressError, UnicodeDecodeError):
                out[row] = BAD
                continue
            if family == 4:  # an IPv4-mapped one
                values[row] = value
                is_quad[row] = True
            else:
                rows6.append(row)
                values6.append(value)
        quads = np.flatnonzero(is_quad)
        out[quads] = self._search4(values[quads])
        if rows6:
            out[rows6] = self._search6(values6)
        return out

    def _search4(self, values: Slots) -> Slots:
        # Sorted, the searches walk through the index once: twelve times as fast as in the rows' own order. One integer
        # holds the value and where it came from, since sorting those is faster than sorting an order.
        packed = values.astype(np.uint64) << np.uint64(32) | np.arange(len(values), dtype=np.uint64)
        packed.sort()
        ordered = (packed >> np.uint64(32)).astype(np.uint32)
        found = np.full(len(values), EMPTY, np.uint32)
        for layer in self._layers:
            first, slots = layer.v4
            _lay_under(found, slots[np.searchsorted(first, ordered, "right") - 1], layer)
        out = np.empty(len(values), np.uint32)
        out[packed & np.uint64(IPV4_MAX)] = found
        return out

    def _search6(self, values: list[int]) -> Slots:
        upper = np.array([value >> 64 for value in values], np.uint64)
        lower = np.array([value & (1 << 64) - 1 for value in values], np.uint64)
        found = np.full(len(values), EMPTY, np.uint32)
        for layer in self._layers:
            hi, lo, slots_of = layer.v6
            position = np.searchsorted(hi, upper, "right") - 1
            slots = slots_of[position]
            # Few segments begin inside a /64, so few rows have to look further than the upper half.
            further = (hi[position] == upper) & (lo[position] > lower)
            for row in np.flatnonzero(further).tolist():
                slots[row] = layer.find6(values[row])
            _lay_under(found, slots, layer)
        held = np.flatnonzero((found == EMPTY) & (upper >> np.uint64(48) == 0x2002))  # of 6to4
        if len(held):
            found[held] = self._search4((upper[held] >> np.uint64(16)).astype(np.uint32))
        return found


class _Layer:
    """One layer's segments for searches without the accelerator, as they are needed: private memory, 8 bytes each.

    ``count`` is how many slots it has, or records if their numbers stand for slots.
    """

    def __init__(self, reader: IndexReader, mark: int, *, records: bool) -> None:
        self.reader = reader
        self.mark = np.uint32(mark)
        self.count = reader.record_count if records else reader.location_count
        self._records = records

    @cached_property
    def v4(self) -> tuple[Slots, Slots]:
        first, slots = segments_v4(self.reader, records=self._records)
        return first, self._without_weak(slots)

    @cached_property
    def v6(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], Slots]:
        upper, lower, slots = segments_v6(self.reader, records=self._records)
        return upper, lower, self._without_weak(slots)

    def find6(self, value: int) -> int:
        """The slot or record number of one IPv6 address; `EMPTY` if it has none."""
        if not self._records:
            return self.reader.find6(value)
        found = self.reader.record(6, value)
        return found if found == EMPTY or self.reader.slot_of_record(found) != EMPTY else EMPTY

    def _without_weak(self, slots: Slots) -> Slots:
        """The numbers of segments, with `EMPTY` in place of those of weak records: these name no place."""
        if not self._records or "record.slot" not in self.reader.header.sections:
            return slots
        numbers = numbers_of_records(self.reader)
        covered = slots != EMPTY
        if covered.any() and int(slots[covered].max()) >= len(numbers):
            raise IndexDamagedError(
                f"{self.reader.path}: a segment has a record that is not there: the file is damaged"
            )
        slots[covered] = numbers[slots[covered]]
        return slots


def _lay_under(found: Slots, slots: Slots, layer: _Layer) -> None:
    """Fill what is still empty in ``found`` with one layer's answers."""
    covered = slots != EMPTY
    if covered.any() and int(slots[covered].max()) >= layer.count:
        raise IndexDamagedError(f"{layer.reader.path}: a slot points to no location: the file is damaged")
    covered &= found == EMPTY
    np.copyto(found, slots | layer.mark, where=covered)


def _take(
    slots: Slots, fields: "Sequence[tuple[NDArray[Any], NDArray[Any]]]", values: list[NDArray[Any]]
) -> SlotValues:
    """`SlotFinder.take` in numpy; ``values`` are filled."""
    in_overlay = np.flatnonzero((slots >= OVERLAY) & (slots < ABSENT))
    overlay_slots = slots[in_overlay] & np.uint32(~OVERLAY & EMPTY)
    in_base = np.flatnonzero(slots < OVERLAY)
    base_slots = slots[in_base]
    for (base, overlay), out in zip(fields, values, strict=True):
        out[:] = 0
        out[in_base] = base[base_slots]
        out[in_overlay] = overlay[overlay_slots]
    counts = [int(np.count_nonzero(slots == mark)) for mark in (EMPTY, BAD, ABSENT)]
    return SlotValues(values, np.packbits(slots < ABSENT, bitorder="little"), *counts)


def valid_rows(validity: "Buffer | None", offset: int, length: int) -> NDArray[np.bool_] | None:
    """Which rows are not null; None if all are not."""
    if validity is None or not length:
        return None
    first = offset // 8
    bits = np.frombuffer(memoryview(validity), np.uint8, (offset + length + 7) // 8 - first, first)
    return np.unpackbits(bits, bitorder="little")[offset % 8 : offset % 8 + length].view(np.bool_)


def string_ends(offsets: "Buffer", offset: int, length: int, large: bool) -> NDArray[Any]:
    """The places where the strings of a column begin, and where the last one ends."""
    return np.frombuffer(memoryview(offsets), np.int64 if large else np.int32, length + 1, offset * (8 if large else 4))


def check_strings(
    data: "Buffer | None",
    ends: NDArray[Any],
    valid: NDArray[np.bool_] | None,
    rows: NDArray[np.int64] | None = None,
) -> None:
    """Check that the strings, or those in ``rows``, stand in ``data``, but for nulls.

    :raises OutsideError: at the first that does not
    """
    begin, end = (ends[:-1], ends[1:]) if rows is None else (ends[rows], ends[rows + 1])
    size = 0 if data is None else memoryview(data).nbytes
    _check((begin >= 0) & (begin <= end) & (end <= size), valid, rows)


def views_of(views: "Buffer", offset: int, length: int) -> NDArray[np.int32]:
    """String views as they are: a row a view, of its size, its first characters, the buffer's number, and the place."""
    return np.frombuffer(memoryview(views), np.int32, 4 * length, 16 * offset).reshape(length, 4)


def check_views(
    views: NDArray[np.int32],
    buffers: "tuple[Buffer, ...]",
    valid: NDArray[np.bool_] | None,
    rows: NDArray[np.int64] | None = None,
) -> None:
    """Check that the views, or those in ``rows``, lead into ``buffers``, but for nulls.

    :raises OutsideError: at the first that does not
    """
    size, _, number, place = (views if rows is None else views[rows]).astype(np.int64).T
    sizes = np.array([*(memoryview(buffer).nbytes for buffer in buffers), -1], np.int64)
    known = (number >= 0) & (number < len(buffers))
    room = sizes[np.where(known, number, -1)]
    short = (size >= 0) & (size <= _IN_A_VIEW)
    _check(short | (size > _IN_A_VIEW) & (place >= 0) & (size + place <= room), valid, rows)


def _check(inside: NDArray[np.bool_], valid: NDArray[np.bool_] | None, rows: NDArray[np.int64] | None) -> None:
    if valid is not None:
        inside = inside | ~(valid if rows is None else valid[rows])
    if not inside.all():
        row = int(np.argmin(inside))
        raise OutsideError(
            row if rows is None else int(rows[row]), "its text is outside of the column's data: the array is damaged"
        )


def parse_quads(text: NDArray[np.uint8], ends: NDArray[Any]) -> tuple[Slots, NDArray[np.bool_]]:
    """The IPv4 addresses among strings that follow each other in ``text``, and which of the strings are dotted quads.

    String ``i`` is ``text[ends[i]:ends[i + 1]]``. What stands for a string that is not a dotted quad means nothing.
    """
    length = len(ends) - 1
    values = np.empty(length, np.uint32)
    is_quad = np.empty(length, np.bool_)
    for begin in range(0, length, _GROUP):
        rows = slice(begin, min(begin + _GROUP, length))
        _parse_quads(text, ends[rows.start : rows.stop + 1].astype(np.int64), values[rows], is_quad[rows])
    return values, is_quad


def _parse_quads(text: NDArray[np.uint8], ends: NDArray[np.int64], values: Slots, is_quad: NDArray[np.bool_]) -> None:
    """Read dotted quads, a character of every row at a time. Other text is only marked as such."""
    sizes = ends[1:] - ends[:-1]
    count = len(sizes)
    if not len(text):
        is_quad[:] = False
        return
    places = np.minimum(ends[:-1] + np.arange(_LONGEST_QUAD)[:, None], len(text) - 1)
    characters = text[places]
    good = (sizes >= _SHORTEST_QUAD) & (sizes <= _LONGEST_QUAD)
    octet = np.zeros(count, np.uint16)
    digits = np.zeros(count, np.uint8)
    dots = np.zeros(count, np.uint8)
    values[:] = 0
    longest = int(sizes[good].max(initial=0))
    for column in range(longest):
        live = sizes > column
        digit = characters[column] - np.uint8(48)  # what stands before "0" wraps round to a large number
        is_digit = digit < 10
        is_dot = characters[column] == 46
        after_zero = (digits == 1) & (octet == 0)
        good &= ~live | (is_digit & ~after_zero) | (is_dot & (digits > 0))
        is_digit &= live
        is_dot &= live
        np.copyto(octet, octet * np.uint16(10) + digit, where=is_digit)
        good &= octet <= 255
        np.copyto(values, values << np.uint32(8) | octet, where=is_dot)
        octet[is_dot] = 0
        digits += is_digit
        digits[is_dot] = 0
        dots += is_dot
    values[:] = values << np.uint32(8) | octet
    is_quad[:] = good & (dots == 3) & (digits > 0)
