"""The reference reader: an index file, memory-mapped and searched by bisection.

This module stands on the path of ``geolookup 8.8.8.8``: it imports only what costs nothing, and opening takes the
same time for a file of any size. A damaged file never makes it crash or read outside the file. Two readers
answer as one by `segment_of_both`: the custom layer first.
"""

import os

from geolookup.index.layout import (
    EMPTY,
    ITEM_FORMATS,
    MASKS,
    NARROW_EMPTY,
    PART,
    WIDE_EMPTY,
)
from geolookup.index.locations import Locations
from geolookup.index.mapped import (
    advise_many,
    damaged,
    failed,
    let_go,
    map_file,
    read_header,
    record_count,
    section_arrays,
)
from geolookup.model.addresses import IPV4_MAX, IPV6_MAX, held_in, holding

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Any, Literal

    import numpy as np

    from geolookup.index.locations import Location
    from geolookup.index.records import Records
    from geolookup.model.addresses import Family

try:
    # What `bisect` wraps, without that module's own import.
    from _bisect import bisect_left, bisect_right
except ImportError:
    from bisect import bisect_left, bisect_right

__all__ = ["EMPTY", "IndexReader"]


_LOW64 = (1 << 64) - 1
_CHUNK = 4096


class IndexReader:
    """One open index file: which slot an address has, and what stands in that slot.

    ``layer`` is ``"custom"``, ``"default"`` or ``"network"``; ``metadata`` has the header's strings, the caller's own
    among them; ``counts`` the whole numbers in it, by the names of `layout.COUNT_NAMES`; ``segment_count_v4`` and
    ``segment_count_v6`` count segments without gaps; ``size_bytes`` is the file's size; ``sources`` names what
    the layer was made from, nothing if its writer named none. A slot is a number below ``location_count``, or `EMPTY`
    if no geolocation of this layer covers the address.

    Nothing in it changes after opening, so threads and forked children may share one. To replace it under running
    lookups, drop the reference: `close` makes those that are under way fail.
    """

    __slots__ = (
        "_empty",
        "_locations",
        "_map",
        "_of_record",
        "_records",
        "_sections",
        "_v4_low",
        "_v4_slot",
        "_v4_slot_high",
        "_v4_table",
        "_v6_hi",
        "_v6_lo",
        "_v6_slot",
        "_v6_slot_high",
        "_v6_table",
        "counts",
        "header",
        "layer",
        "location_count",
        "metadata",
        "path",
        "segment_count_v4",
        "segment_count_v6",
        "size_bytes",
        "sources",
    )

    def __init__(self, path: str, mapped: "mmap.mmap") -> None:
        """Use `open`: this takes over a map of the whole file at ``path``."""
        whole = memoryview(mapped)
        header = read_header(whole, path)
        self.path = path
        self.header = header
        self.layer: Literal["custom", "default"] = header.layer  # type: ignore[assignment] # or `network`, whose readers know
        self.metadata = header.metadata
        self.counts = header.counts
        self.segment_count_v4 = header.counts["segments_v4"]
        self.segment_count_v6 = header.counts["segments_v6"]
        self.size_bytes = header.size_bytes
        self._map = mapped

        sections: dict[str, memoryview[Any]] = {
            name: whole[section.begin : section.end].cast(ITEM_FORMATS[section.dtype][0])  # type: ignore[call-overload] # its stub knows no computed format
            for name, section in header.sections.items()
            if section.dtype in ITEM_FORMATS  # a later minor version may have sections of types not known here
        }
        self._sections = sections
        self._v4_low: memoryview[int] = sections["v4.low"]
        self._v4_slot: memoryview[int] = sections["v4.slot"]
        self._v4_slot_high = sections.get("v4.slot_high")
        self._v4_table: memoryview[int] = sections["v4.table"]
        self._v6_hi: memoryview[int] = sections["v6.hi"]
        self._v6_lo = sections.get("v6.lo")
        self._v6_slot: memoryview[int] = sections["v6.slot"]
        self._v6_slot_high = sections.get("v6.slot_high")
        self._v6_table: memoryview[int] = sections["v6.table"]
        self._empty = NARROW_EMPTY if self._v4_slot_high is None else WIDE_EMPTY
        #: The slot of each record, if segments have records in place of slots.
        self._of_record: memoryview[int] | None = sections.get("record.slot")
        self._records: Records | None = None
        self._locations = Locations(path, header, sections)
        self.location_count = self._locations.count
        self.sources = self._locations.sources

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "IndexReader":
        """Map the file at ``path``, in a few hundred microseconds at any size. It must not change afterwards.

        :raises IndexFileError: if the file does not exist, it cannot be read, or the machine is big-endian
        :raises IndexDamagedError: if it is not an index file, is truncated, or has damage that can be seen at once
        :raises IndexTooNewError: if its major version is not ours
        """
        name = os.fspath(path)
        return cls(name, map_file(name))

    def _position4(self, value: int) -> int:
        prefix = value >> 16
        table = self._v4_table
        return bisect_right(self._v4_low, value & 0xFFFF, table[prefix], table[prefix + 1]) - 1

    def _first4(self, position: int, near: int = 0) -> int:
        """Where a segment begins: the table knows the upper 16 bits, often those of an address ``near`` it."""
        prefix, table = near >> 16, self._v4_table
        if not prefix or not table[prefix] <= position < table[prefix + 1]:
            prefix = bisect_right(table, position) - 1
        if prefix > 0xFFFF:
            raise damaged(self.path, f"v4.table: it leads nowhere for segment {position}")
        return prefix << 16 | self._v4_low[position]

    def _record4(self, position: int) -> int:
        record = self._v4_slot[position]
        if self._v4_slot_high is not None:
            record |= self._v4_slot_high[position] << 16
        return EMPTY if record == self._empty else record

    def _record6(self, position: int) -> int:
        record = self._v6_slot[position]
        if self._v6_slot_high is not None:
            record |= self._v6_slot_high[position] << 16
        return EMPTY if record == self._empty else record

    def _slot4(self, position: int) -> int:
        record = self._record4(position)
        return record if self._of_record is None or record == EMPTY else self._of_record[record]

    def _slot6(self, position: int) -> int:
        record = self._record6(position)
        return record if self._of_record is None or record == EMPTY else self._of_record[record]

    def _first6(self, position: int) -> int:
        return self._v6_hi[position] << 64 | (0 if self._v6_lo is None else self._v6_lo[position])

    def _position6(self, value: int) -> int:
        prefix = value >> 112
        upper = value >> 64
        table = self._v6_table
        first = table[prefix]
        position = bisect_right(self._v6_hi, upper, first, table[prefix + 1]) - 1
        # Segments rarely share their upper half, and if they do, the last is often the right one.
        lo = self._v6_lo
        if lo is None or position < first or self._v6_hi[position] != upper or lo[position] <= value & _LOW64:
            return position
        run = bisect_left(self._v6_hi, upper, first, position)
        return bisect_right(lo, value & _LOW64, run, position) - 1

    def find4(self, value: int) -> int:
        """The slot of an IPv4 address, or `EMPTY`. ``value`` must be below 2**32.

        :raises IndexDamagedError: if the file's tables lead outside it
        """
        # This repeats _position4 and _slot4: calling them would double the time.
        prefix = value >> 16
        table = self._v4_table
        high = self._v4_slot_high
        try:
            position = bisect_right(self._v4_low, value & 0xFFFF, table[prefix], table[prefix + 1]) - 1
            slot = self._v4_slot[position] if high is None else self._v4_slot[position] | high[position] << 16
            if slot == self._empty:
                return EMPTY
            return slot if self._of_record is None else self._of_record[slot]
        except (IndexError, ValueError) as error:
            raise failed(self.path, error) from error

    def find6(self, value: int) -> int:
        """The slot of an IPv6 address, or `EMPTY`. ``value`` must be below 2**128.

        :raises IndexDamagedError: if the file's tables lead outside it
        """
        # This repeats the common part of _position6, and _slot6, for the same reason.
        upper = value >> 64
        prefix = upper >> 48
        table = self._v6_table
        high, lo = self._v6_slot_high, self._v6_lo
        try:
            first = table[prefix]
            position = bisect_right(self._v6_hi, upper, first, table[prefix + 1]) - 1
            if (
                lo is not None
                and position >= first
                and self._v6_hi[position] == upper
                and lo[position] > value & _LOW64
            ):
                position = self._position6(value)
            slot = self._v6_slot[position] if high is None else self._v6_slot[position] | high[position] << 16
            if slot == self._empty:
                return EMPTY
            return slot if self._of_record is None else self._of_record[slot]
        except (IndexError, ValueError) as error:
            raise failed(self.path, error) from error

    def record(self, family: "Literal[4, 6]", value: int) -> int:
        """The number of an address's record, for `parts`, or `EMPTY`. It may be weak: see `slot_of_record`.

        :raises IndexDamagedError: if the file's tables lead outside it
        """
        try:
            if family == 4:
                return self._record4(self._position4(value))
            return self._record6(self._position6(value))
        except (IndexError, ValueError) as error:
            raise failed(self.path, error) from error

    def piece(self, family: "Literal[4, 6]", value: int) -> tuple[int, int, int]:
        """The number of an address's record, as `record` has it, and the ends of the range, or gap, that has it.

        :raises IndexDamagedError: if what the file says there cannot be
        """
        try:
            if family == 4:
                position, last = self._position4(value), IPV4_MAX
                found, first = self._record4(position), self._first4(position, value)
                if position + 1 < len(self._v4_low):
                    last = self._first4(position + 1, value) - 1
            else:
                position, last = self._position6(value), IPV6_MAX
                found, first = self._record6(position), self._first6(position)
                if position + 1 < len(self._v6_hi):
                    last = self._first6(position + 1) - 1
        except (IndexError, ValueError) as error:
            raise failed(self.path, error) from error
        if not first <= value <= last:
            raise damaged(self.path, f"v{family}: segment {position} is out of order")
        return found, first, last

    def slot_of_record(self, record: int) -> int:
        """The slot of a record, or `EMPTY` if it is weak: it says something, but not where its addresses are.

        :raises IndexDamagedError: if there is no such record
        """
        try:
            return record if self._of_record is None else self._of_record[record]
        except (IndexError, ValueError) as error:
            raise failed(self.path, error) from error

    def parts(self, record: int) -> dict[str, bytes]:
        """What the source said of a place, by the keys of `record_keys`: self-contained values of `mmdb`.

        What a record does not have is left out; a file without records has none.

        :raises IndexDamagedError: if the file is damaged there
        """
        return self._opened_records().parts(record)

    def said(self, record: int) -> dict[str, str]:
        """The name of the source that said each fact of a record, by the facts' keys, in the layer ``network``.

        :raises IndexDamagedError: if the file is damaged there
        """
        return self._opened_records().said(record, self.sources)

    def record_part(self, record: int, key: str) -> "Any":
        """One part of a record, decoded and never to be changed; None if the record lacks it.

        :raises IndexDamagedError: if the file is damaged there
        """
        return self._opened_records().decoded(record, key)

    @property
    def record_count(self) -> int:
        """The number of records: as many as locations, if no location has several."""
        return record_count(self.header.sections, self.counts, self.layer)

    @property
    def record_keys(self) -> tuple[str, ...]:
        """The keys that records of this file may have."""
        return self._opened_records().keys

    def _opened_records(self) -> "Records":
        if self._records is None:
            from geolookup.index.records import Records  # late: a plain lookup needs none

            self._records = Records(self.path, self.header, self._sections)
        return self._records

    def records(self) -> "Records":
        """The records by themselves: they keep the file mapped, and so can be asked after `close` too."""
        from geolookup.index.records import Records  # late: a plain lookup needs none

        own: dict[str, memoryview[Any]] = {
            name: self.section_bytes(name).cast(ITEM_FORMATS[section.dtype][0])  # type: ignore[call-overload] # its stub knows no computed format
            for name, section in self.header.sections.items()
            if name.startswith((PART, "parts.", "record.said")) and section.dtype in ITEM_FORMATS
        }
        return Records(self.path, self.header, own)

    def write_to(self, path: str) -> None:
        """Write the bytes of the file to another: what is mapped stays, also if its name is gone.

        :raises OSError: if that is impossible
        """
        with open(path, "wb") as file:
            file.write(self._map)

    def segment4(self, value: int) -> tuple[int, int, int]:
        """The segment or gap around an IPv4 address: its slot or `EMPTY`, and its inclusive ends.

        :raises IndexDamagedError: if what the file says there cannot be
        """
        try:
            position = self._position4(value)
            slot, following = self._slot4(position), position + 1
            if self._of_record is not None:
                position, following = self._joined(self._slot4, position, len(self._v4_low))
            first = self._first4(position)
            last = self._first4(following) - 1 if following < len(self._v4_low) else IPV4_MAX
        except (IndexError, ValueError) as error:
            raise failed(self.path, error) from error
        if not first <= value <= last:
            raise damaged(self.path, f"v4.low: entry {position} is out of order")
        return slot, first, last

    def segment6(self, value: int) -> tuple[int, int, int]:
        """The segment or gap around an IPv6 address: its slot or `EMPTY`, and its inclusive ends.

        :raises IndexDamagedError: if what the file says there cannot be
        """
        try:
            position = self._position6(value)
            slot, following = self._slot6(position), position + 1
            if self._of_record is not None:
                position, following = self._joined(self._slot6, position, len(self._v6_hi))
            first = self._first6(position)
            last = self._first6(following) - 1 if following < len(self._v6_hi) else IPV6_MAX
        except (IndexError, ValueError) as error:
            raise failed(self.path, error) from error
        if not first <= value <= last:
            raise damaged(self.path, f"v6.hi: entry {position} is out of order")
        return slot, first, last

    def _joined(self, slot_of: "Callable[[int], int]", position: int, count: int) -> tuple[int, int]:
        """The first segment around one, and one past the last, that have its slot: of different records."""
        slot, begin, end = slot_of(position), position, position + 1
        while begin and slot_of(begin - 1) == slot:
            begin -= 1
        while end < count and slot_of(end) == slot:
            end += 1
        return begin, end

    def first(self, family: "Literal[4, 6]", position: int) -> int:
        """The first address of a segment, counted from 0, gaps included.

        :raises IndexDamagedError: if the file is damaged there, or the segment does not exist
        """
        try:
            return self._first4(position) if family == 4 else self._first6(position)
        except (IndexError, ValueError) as error:
            raise failed(self.path, error) from error

    def segment(self, family: "Literal[4, 6]", value: int) -> tuple[int, int, int]:
        """`segment4` or `segment6`, by the family."""
        return self.segment4(value) if family == 4 else self.segment6(value)

    def segments(
        self, family: "Literal[4, 6]", start: int = 0, *, gaps: bool = False
    ) -> "Iterator[tuple[int, int, int]]":
        """Walk the segments of a family as (first, last, slot), inclusive and ascending.

        The walk begins with the whole segment around the address ``start``; gaps (slot `EMPTY`) are left out unless
        asked for.

        :raises IndexDamagedError: if the file's segments are out of order
        """
        self.expect_many()
        try:
            position = self._position4(start) if family == 4 else self._position6(start)
            count = len(self._v4_slot if family == 4 else self._v6_slot)
            if position < 0:
                raise damaged(self.path, f"v{family}.table: it leads before the first segment")
            if self._of_record is not None:
                position, _ = self._joined(self._slot4 if family == 4 else self._slot6, position, count)
            previous, before = None, -1
            while position < count:
                slots, firsts = self._read_segments(family, position, min(position + _CHUNK, count))
                for slot, first in zip(slots, firsts, strict=True):
                    if previous is not None:
                        if before >= first:
                            raise damaged(self.path, f"v{family}: a segment is out of order after entry {position}")
                        before = first
                        if previous[1] == slot:
                            continue  # another record of the same place
                        if gaps or previous[1] != EMPTY:
                            yield previous[0], first - 1, previous[1]
                    previous, before = (first, slot), first
                position += len(slots)
        except (IndexError, ValueError) as error:
            raise failed(self.path, error) from error
        if previous is not None and (gaps or previous[1] != EMPTY):
            yield previous[0], IPV4_MAX if family == 4 else IPV6_MAX, previous[1]

    def _read_segments(self, family: int, begin: int, end: int) -> tuple[list[int], list[int]]:
        if family == 6:
            return list(map(self._slot6, range(begin, end))), list(map(self._first6, range(begin, end)))
        table, firsts = self._v4_table, []
        prefix = bisect_right(table, begin) - 1
        for position, low in enumerate(self._v4_low[begin:end].tolist(), begin):
            while table[prefix + 1] <= position:
                prefix += 1
            firsts.append(prefix << 16 | low)
        return list(map(self._slot4, range(begin, end))), firsts

    def location(self, slot: int) -> "Location":
        """The locid of a slot, and its fields in the order of `fields.FIELDS`: (locid, country, region, …).

        Text is "" and a coordinate (degrees) None if nothing is known.

        :raises IndexDamagedError: if the slot does not exist, or its text is damaged
        """
        return self._locations.location(slot)

    def country(self, slot: int) -> str:
        """The country code of a slot, or "".

        :raises IndexDamagedError: if the slot does not exist, or its text is damaged
        """
        return self._locations.country(slot)

    def pending(self, slot: int) -> bool:
        """True if the edit behind a slot has not reached the service; always false in the default layer.

        :raises IndexDamagedError: if the slot does not exist
        """
        return self._locations.pending(slot)

    @property
    def has_masks(self) -> bool:
        """True if some of its addresses are known to have no geolocation: the location of locid 0 stands for that."""
        return MASKS in self.metadata

    def source(self, slot: int) -> str:
        """The name of the source that a slot's location comes from; "" if the file names none.

        :raises IndexDamagedError: if the slot does not exist, or it names no source
        """
        return self._locations.source(slot)

    def source_of_weak(self, record: int) -> str:
        """The name of the source that a weak record comes from; "" if the file names none.

        :raises IndexDamagedError: if there is no such record, or it names no source
        """
        own = self._sections.get("record.source")
        try:
            return self.sources[0 if own is None else own[record]] if self.sources else ""
        except (IndexError, ValueError) as error:
            raise failed(self.path, error) from error

    def slot_of(self, locid: int) -> int | None:
        """The slot of a locid, or None if this layer has none."""
        return self._locations.slot_of(locid)

    def arrays(self) -> "dict[str, np.ndarray[Any, Any]]":
        """Every known section by name, as a read-only numpy array over the map: no copy, and valid after `close`.

        A field that is newer than the file is there too, unknown everywhere.
        The functions of `segments` give whole addresses and slots instead.
        """
        self.expect_many()
        return section_arrays(self.header, self._content())

    def expect_many(self) -> None:
        """Have the kernel read ahead from now on: many addresses will be asked for, or the file read through."""
        advise_many(self._map)

    def let_go(self) -> None:
        """Give the memory of what was read of the file back to the system, after all of it was read once."""
        let_go(self._map)

    def section_bytes(self, name: str) -> "memoryview[int]":
        """A section as it stands in the file, without a copy; it may be one that this release does not know."""
        section = self.header.sections[name]
        return self._content()[section.begin : section.end]

    def _content(self) -> "memoryview[int]":
        try:
            return memoryview(self._map)
        except ValueError as error:
            raise failed(self.path, error) from error

    def close(self) -> None:
        """Unmap the file; if arrays are still in use, the last of them unmaps it. A second call does nothing."""
        for view in self._sections.values():
            view.release()
        try:  # noqa: SIM105 - contextlib would have to be imported
            self._map.close()
        except BufferError:
            # An array still uses the map: the memory is freed with that array.
            pass

    def __enter__(self) -> "IndexReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<IndexReader {self.path!r}: {self.layer} layer, {self.location_count} locations>"


def source_of(reader: "IndexReader", slot: int) -> str:
    """The name of the source that a slot's location comes from: ``custom`` in the custom layer.

    In a file that names none it is ``service``.

    :raises IndexDamagedError: if the slot does not exist, or it names no source
    """
    return "custom" if reader.layer == "custom" else reader.source(slot) or "service"


def source_of_record(reader: "IndexReader", record: int) -> str:
    """The name of the source that a record comes from, which may be weak; else as `source_of`.

    :raises IndexDamagedError: if there is no such record, or it names no source
    """
    slot = reader.slot_of_record(record)
    if slot != EMPTY:
        return source_of(reader, slot)
    return reader.source_of_weak(record) or "service"


def network_record(reader: "IndexReader", family: "Family", value: int) -> int:
    """The number of an address's record in an index of networks, `EMPTY` if nothing covers it.

    A 6to4 address of which no source says anything has that of the IPv4 address that it holds.

    :raises IndexDamagedError: if the file is damaged there
    """
    found = reader.record(family, value)
    if found == EMPTY and family == 6 and (held := held_in(value)) is not None:
        return reader.record(4, held)
    return found


def segment_of_both(
    base: "IndexReader", overlay: "IndexReader", family: "Family", value: int
) -> "tuple[IndexReader, int, int, int] | None":
    """Which layer answers for an address, with which slot, and from where to where; None if neither covers it.

    The range is inclusive, and the largest in which every address has this answer from this layer. A 6to4 address that
    no block covers has the answer of the IPv4 address that it holds.

    :raises IndexDamagedError: if the file is damaged there
    """
    found = piece_of_both(base, overlay, family, value)
    return None if found[1] == EMPTY else found


def piece_of_both(
    base: "IndexReader", overlay: "IndexReader", family: "Family", value: int
) -> "tuple[IndexReader, int, int, int]":
    """`segment_of_both`, with the slot `EMPTY` and the ends of the gap if neither layer covers the address."""
    slot, first, last = overlay.segment(family, value)
    if slot != EMPTY:
        return overlay, slot, first, last
    slot, base_first, base_last = base.segment(family, value)
    first, last = max(first, base_first), min(last, base_last)
    if slot != EMPTY or family == 4 or (held := held_in(value)) is None:
        return base, slot, first, last
    reader, slot, low, high = piece_of_both(base, overlay, 4, held)
    low, high = holding(low, high)
    return reader, slot, max(first, low), min(last, high)
