"""The accelerator's searcher written in Python over the reference reader: what ``_native.Searcher`` is held against."""

import struct
from typing import TYPE_CHECKING, Any

from geolookup.index.native import ABSENT, BAD, OVERLAY
from geolookup.index.reader import EMPTY, IndexReader, piece_of_both
from geolookup.model.addresses import IPV4_MAX, network_around, parse, to_text
from geolookup.model.errors import IndexDamagedError, InvalidAddressError

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer


class PureSearcher:
    """What ``_native.Searcher`` does, by the reference reader alone.

    A column is given by its buffers in Arrow's memory layout (https://arrow.apache.org/docs/format/Columnar.html), its
    ``offset`` and its ``length`` in rows; ``validity`` may be None. ``out`` is a writable buffer of that many unsigned
    32-bit integers. Every method for columns returns how many rows were `BAD`.

    :raises IndexDamagedError: where a file's tables or slots lead outside it; what ``out`` holds is undefined then
    :raises ValueError: where the buffers do not fit the rows
    """

    __slots__ = ("_base", "_overlay")

    def __init__(self, base: IndexReader, overlay: IndexReader) -> None:
        self._base = base
        self._overlay = overlay

    def find(self, address: str) -> int:
        """The slot of an address given as text."""
        try:
            family, value = parse(address)
        except InvalidAddressError:
            return BAD
        slot = self._find(self._overlay, family, value)
        return self._find(self._base, family, value) if slot == EMPTY else slot | OVERLAY

    def range(self, address: str) -> tuple[str, str, int] | None:
        """The ends of the range around an address that has its slot, and the length of the network around it there."""
        if self.find(address) == BAD:  # it also sees damage that the ends alone do not show
            return None
        family, value = parse(address)
        _, slot, *ends = piece_of_both(self._base, self._overlay, family, value)
        if slot == EMPTY:
            return None
        first, last = (to_text(family, end) for end in ends)
        return first, last, int(network_around(address, first, last).rpartition("/")[2])

    @staticmethod
    def _find(reader: IndexReader, family: int, value: int) -> int:
        slot = reader.find4(value) if family == 4 else reader.find6(value)
        if slot != EMPTY and slot >= reader.location_count:
            raise IndexDamagedError(f"{reader.path}: slot {slot} is no location's: the file is damaged")
        return slot

    def locate_strings(
        self,
        data: "Buffer | None",
        offsets: "Buffer",
        validity: "Buffer | None",
        offset: int,
        length: int,
        out: "Buffer",
        large: bool = False,
    ) -> int:
        """Strings one after another in ``data``; ``offsets`` are 64 bits wide where ``large``."""
        # A column without rows may come without any offsets.
        ends = _items(offsets, "q" if large else "i", offset, length + 1 if length else 0)
        texts = memoryview(b"" if data is None else data).cast("B")

        def text(row: int) -> str | None:
            begin, end = ends[row], ends[row + 1]
            if not 0 <= begin <= end <= len(texts):
                raise ValueError("the column's buffers do not fit its rows")
            return _decoded(texts[begin:end])

        return self._locate(text, validity, offset, length, out)

    def locate_views(
        self,
        views: "Buffer",
        buffers: "tuple[Buffer, ...]",
        validity: "Buffer | None",
        offset: int,
        length: int,
        out: "Buffer",
    ) -> int:
        """String views: 16 bytes each, whose text is in them or in one of ``buffers``."""
        words = _items(views, "i", 4 * offset, 4 * length)
        inline = memoryview(words).cast("B")
        variadic = [memoryview(buffer).cast("B") for buffer in buffers]

        def text(row: int) -> str | None:
            size, _, number, begin = words[4 * row : 4 * row + 4]
            if 0 <= size <= 12:
                return _decoded(inline[16 * row + 4 : 16 * row + 4 + size])
            if not (0 <= number < len(variadic) and 0 <= begin <= begin + size <= len(variadic[number])):
                raise ValueError("the column's buffers do not fit its rows")
            return _decoded(variadic[number][begin : begin + size])

        return self._locate(text, validity, offset, length, out)

    def locate_u32(self, values: "Buffer", validity: "Buffer | None", offset: int, length: int, out: "Buffer") -> int:
        """IPv4 addresses as unsigned 32-bit integers."""
        numbers = _items(values, "I", offset, length)
        return self._locate(numbers.__getitem__, validity, offset, length, out)

    def locate_u64(self, values: "Buffer", validity: "Buffer | None", offset: int, length: int, out: "Buffer") -> int:
        """IPv4 addresses as 64-bit integers: those that do not fit 32 bits, the negative ones among them, are bad."""
        numbers = _items(values, "Q", offset, length)
        return self._locate(numbers.__getitem__, validity, offset, length, out)

    def _locate(
        self,
        read: "Callable[[int], str | int | None]",
        validity: "Buffer | None",
        offset: int,
        length: int,
        out: "Buffer",
    ) -> int:
        bits = None if validity is None else memoryview(validity).cast("B")
        room = memoryview(out).cast("B")
        if (
            min(offset, length) < 0
            or len(room) < 4 * length
            or (length and bits is not None and 8 * len(bits) < offset + length)
        ):
            raise ValueError("the column's buffers do not fit its rows")
        slots = room[: 4 * length].cast("I")
        bad = 0
        for row in range(length):
            place = offset + row
            if bits is not None and not bits[place >> 3] >> (place & 7) & 1:
                slots[row] = ABSENT
                continue
            value = read(row)
            if isinstance(value, int):
                value = to_text(4, value) if value <= IPV4_MAX else None
            slots[row] = BAD if value is None else self.find(value)
            bad += slots[row] == BAD
        return bad


def _items(buffer: "Buffer", kind: str, begin: int, count: int) -> "memoryview[Any]":
    """``count`` items of a buffer from ``begin`` on."""
    size = struct.calcsize(kind)
    found = memoryview(buffer).cast("B")[size * begin : size * (begin + count)]
    if begin < 0 or count < 0 or len(found) != size * count:
        raise ValueError("the column's buffers do not fit its rows")
    return found.cast(kind)  # type: ignore[call-overload,no-any-return] # a computed format


def _decoded(text: "memoryview[int]") -> str | None:
    try:
        return str(text, "utf-8")
    except UnicodeDecodeError:
        return None
