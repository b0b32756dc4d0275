"""The reference reader: an index file, memory-mapped and searched by bisection.

This module stands on the path of ``geolookup 8.8.8.8``: it imports only what costs nothing, and opening takes the
same time whatever the file's size. No content of the file, however damaged, makes it crash or read elsewhere.
"""

import mmap
import os

from geolookup.addresses import IPV4_MAX, IPV6_MAX
from geolookup.errors import IndexDamagedError, IndexFileError
from geolookup.index.layout import EMPTY, ITEM_FORMATS, SECTIONS, read_header, require_little_endian

try:
    # What `bisect` wraps, without that module's own import.
    from _bisect import bisect_left, bisect_right
except ImportError:
    from bisect import bisect_left, bisect_right

__all__ = ["EMPTY", "IndexReader"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Any, Literal

    import numpy as np

    Location = tuple[int, str, str, str, str, float | None, float | None, str, str]

_LOW64 = (1 << 64) - 1
_CHUNK = 4096
_FILE_TYPE = 0o170000
_REGULAR_FILE = 0o100000


class IndexReader:
    """One open index file: which slot an address has, and what stands in that slot.

    ``layer`` is ``"custom"`` or ``"default"``; ``metadata`` has the header's strings, the caller's own among them;
    ``counts`` the whole numbers in it, by the names of `layout.COUNT_NAMES`; ``segment_count_v4`` and
    ``segment_count_v6`` count segments without gaps; ``size_bytes`` is the file's size. A slot is a number below
    ``location_count``, or `EMPTY` where no geolocation of this layer covers the address.

    Nothing in it changes after opening, so threads and forked children may share one. To replace it under running
    lookups, drop the reference: `close` makes those that are under way fail.
    """

    __slots__ = (
        "_bytes",
        "_latitude",
        "_locid",
        "_longitude",
        "_map",
        "_offsets",
        "_pending",
        "_texts",
        "_v4_first",
        "_v4_slot",
        "_v4_table",
        "_v6_hi",
        "_v6_lo",
        "_v6_slot",
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
    )

    def __init__(self, path: str, mapped: mmap.mmap) -> None:
        """Use `open`: this takes over a map of the whole file at ``path``."""
        whole = memoryview(mapped)
        header = read_header(whole, path)
        self.path = path
        self.header = header
        self.layer: Literal["custom", "default"] = header.layer  # type: ignore[assignment] # read_header saw to it
        self.metadata = header.metadata
        self.counts = header.counts
        self.location_count = header.counts["locations"]
        self.segment_count_v4 = header.counts["segments_v4"]
        self.segment_count_v6 = header.counts["segments_v6"]
        self.size_bytes = len(whole)
        self._map = mapped

        def view(name: str) -> "memoryview[Any]":
            section = header.sections[name]
            typed: memoryview[Any] = whole[section.begin : section.end].cast(ITEM_FORMATS[section.dtype][0])  # type: ignore[call-overload] # its stub knows no computed format
            return typed

        self._v4_first: memoryview[int] = view("v4.first")
        self._v4_slot: memoryview[int] = view("v4.slot")
        self._v4_table: memoryview[int] = view("v4.table")
        self._v6_hi: memoryview[int] = view("v6.hi")
        self._v6_lo: memoryview[int] = view("v6.lo")
        self._v6_slot: memoryview[int] = view("v6.slot")
        self._v6_table: memoryview[int] = view("v6.table")
        self._locid: memoryview[int] = view("loc.locid")
        self._latitude: memoryview[float] = view("loc.latitude")
        self._longitude: memoryview[float] = view("loc.longitude")
        self._texts: tuple[memoryview[int], ...] = tuple(
            [view(f"loc.{name}") for name in ("country", "region", "city", "postalcode", "dmacode", "areacode")]
        )
        self._pending: memoryview[int] | None = view("loc.pending") if "loc.pending" in header.sections else None
        self._offsets: memoryview[int] = view("strings.offsets")
        self._bytes = whole[header.sections["strings.bytes"].begin : header.sections["strings.bytes"].end]
        self._check_ends()

    def _check_ends(self) -> None:
        """What searching relies on, as far as it can be seen at once."""
        if self._v4_first[0] != 0 or self._v6_hi[0] != 0 or self._v6_lo[0] != 0:
            raise self._damaged("the first segment of a family does not begin at its first address")
        for name, table, count in (
            ("v4.table", self._v4_table, len(self._v4_first)),
            ("v6.table", self._v6_table, len(self._v6_hi)),
        ):
            if table[0] != 0 or table[len(table) - 1] != count:
                raise self._damaged(f"{name}: its ends are not 0 and the number of segments")
        if self._offsets[0] != 0 or self._offsets[len(self._offsets) - 1] != len(self._bytes):
            raise self._damaged("strings.offsets: its ends are not 0 and the number of bytes")

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "IndexReader":
        """Map the file at ``path``, in a few hundred microseconds whatever its size. It must not change afterwards.

        :raises IndexFileError: where there is no such file, it cannot be read, or the machine is big-endian
        :raises IndexDamagedError: where it is no index file, truncated, or damaged where that can be seen at once
        :raises IndexTooNewError: where its major version is not ours
        """
        require_little_endian()
        name = os.fspath(path)
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
            raise IndexFileError(f"{name}: cannot be mapped: {error}") from error
        finally:
            os.close(descriptor)
        return cls(name, mapped)

    def _damaged(self, what: str) -> IndexDamagedError:
        return IndexDamagedError(f"{self.path}: {what}: the file is damaged")

    def _failed(self, error: Exception) -> IndexFileError:
        if isinstance(error, IndexError):
            return self._damaged("a table points outside its section")
        return IndexFileError(f"{self.path}: the index was closed")

    def _position4(self, value: int) -> int:
        prefix = value >> 16
        table = self._v4_table
        return bisect_right(self._v4_first, value, table[prefix], table[prefix + 1]) - 1

    def _position6(self, value: int) -> int:
        prefix = value >> 112
        upper = value >> 64
        table = self._v6_table
        first = table[prefix]
        position = bisect_right(self._v6_hi, upper, first, table[prefix + 1]) - 1
        # Segments rarely share their upper half, and where they do, the last is right as often as not.
        if position < first or self._v6_hi[position] != upper or self._v6_lo[position] <= value & _LOW64:
            return position
        run = bisect_left(self._v6_hi, upper, first, position)
        return bisect_right(self._v6_lo, value & _LOW64, run, position) - 1

    def find4(self, value: int) -> int:
        """The slot of an IPv4 address, or `EMPTY`. ``value`` must be below 2**32.

        :raises IndexDamagedError: where the file's tables lead outside it
        """
        # _position4 again: the call would cost a third of the whole.
        prefix = value >> 16
        table = self._v4_table
        try:
            return self._v4_slot[bisect_right(self._v4_first, value, table[prefix], table[prefix + 1]) - 1]
        except (IndexError, ValueError) as error:
            raise self._failed(error) from error

    def find6(self, value: int) -> int:
        """The slot of an IPv6 address, or `EMPTY`. ``value`` must be below 2**128.

        :raises IndexDamagedError: where the file's tables lead outside it
        """
        # The common part of _position6 again, for the same reason.
        upper = value >> 64
        prefix = upper >> 48
        table = self._v6_table
        try:
            first = table[prefix]
            position = bisect_right(self._v6_hi, upper, first, table[prefix + 1]) - 1
            if position >= first and self._v6_hi[position] == upper and self._v6_lo[position] > value & _LOW64:
                position = self._position6(value)
            return self._v6_slot[position]
        except (IndexError, ValueError) as error:
            raise self._failed(error) from error

    def segment4(self, value: int) -> tuple[int, int, int]:
        """The segment or gap around an IPv4 address: its slot or `EMPTY`, and its inclusive ends.

        :raises IndexDamagedError: where what the file says there cannot be
        """
        try:
            position = self._position4(value)
            slot = self._v4_slot[position]
            first = self._v4_first[position]
            following = position + 1
            last = self._v4_first[following] - 1 if following < len(self._v4_first) else IPV4_MAX
        except (IndexError, ValueError) as error:
            raise self._failed(error) from error
        if not first <= value <= last:
            raise self._damaged(f"v4.first: entry {position} is out of order")
        return slot, first, last

    def segment6(self, value: int) -> tuple[int, int, int]:
        """The segment or gap around an IPv6 address: its slot or `EMPTY`, and its inclusive ends.

        :raises IndexDamagedError: where what the file says there cannot be
        """
        try:
            position = self._position6(value)
            slot = self._v6_slot[position]
            first = self._v6_hi[position] << 64 | self._v6_lo[position]
            following = position + 1
            if following < len(self._v6_hi):
                last = (self._v6_hi[following] << 64 | self._v6_lo[following]) - 1
            else:
                last = IPV6_MAX
        except (IndexError, ValueError) as error:
            raise self._failed(error) from error
        if not first <= value <= last:
            raise self._damaged(f"v6.hi: entry {position} is out of order")
        return slot, first, last

    def segment(self, family: "Literal[4, 6]", value: int) -> tuple[int, int, int]:
        """`segment4` or `segment6`, by the family."""
        return self.segment4(value) if family == 4 else self.segment6(value)

    def segments(
        self, family: "Literal[4, 6]", start: int = 0, *, gaps: bool = False
    ) -> "Iterator[tuple[int, int, int]]":
        """Walk the segments of a family as (first, last, slot), inclusive and ascending.

        The walk begins with the whole segment around the address ``start``; gaps (slot `EMPTY`) are left out unless
        asked for.

        :raises IndexDamagedError: where the file's segments are out of order
        """
        try:
            position = self._position4(start) if family == 4 else self._position6(start)
            count = len(self._v4_slot if family == 4 else self._v6_slot)
            if position < 0:
                raise self._damaged(f"v{family}.table: it leads before the first segment")
            previous = None
            while position < count:
                slots, firsts = self._read_segments(family, position, min(position + _CHUNK, count))
                for slot, first in zip(slots, firsts, strict=True):
                    if previous is not None:
                        if previous[0] >= first:
                            raise self._damaged(f"v{family}: a segment is out of order after entry {position}")
                        if gaps or previous[1] != EMPTY:
                            yield previous[0], first - 1, previous[1]
                    previous = first, slot
                position += len(slots)
        except (IndexError, ValueError) as error:
            raise self._failed(error) from error
        if previous is not None and (gaps or previous[1] != EMPTY):
            yield previous[0], IPV4_MAX if family == 4 else IPV6_MAX, previous[1]

    def _read_segments(self, family: int, begin: int, end: int) -> tuple[list[int], list[int]]:
        if family == 4:
            return self._v4_slot[begin:end].tolist(), self._v4_first[begin:end].tolist()
        upper, lower = self._v6_hi[begin:end].tolist(), self._v6_lo[begin:end].tolist()
        return self._v6_slot[begin:end].tolist(), [hi << 64 | lo for hi, lo in zip(upper, lower, strict=True)]

    def _text(self, number: int) -> str:
        if not number:
            return ""
        try:
            begin, end = self._offsets[number], self._offsets[number + 1]
            if number < 0 or not 0 <= begin <= end <= len(self._bytes):
                raise self._damaged(f"strings.offsets: entry {number} is out of order")
            return str(self._bytes[begin:end], "utf-8")
        except IndexError as error:
            raise self._damaged(f"a location names the text {number}, which is not there") from error
        except UnicodeDecodeError as error:
            raise self._damaged(f"strings.bytes: text {number} is not UTF-8") from error

    def _check_slot(self, slot: int) -> None:
        if not 0 <= slot < self.location_count:
            raise self._damaged(f"slot {slot} is not one of {self.location_count} locations")

    def location(self, slot: int) -> "Location":
        """(locid, country, region, city, postalcode, latitude, longitude, dmacode, areacode) of a slot.

        Text is "" and a coordinate (degrees) None where nothing is known.

        :raises IndexDamagedError: where there is no such slot, or its text is damaged
        """
        self._check_slot(slot)
        text = self._text
        try:
            country, region, city, postalcode, dmacode, areacode = [text(column[slot]) for column in self._texts]
            latitude, longitude = self._latitude[slot], self._longitude[slot]
            return (
                self._locid[slot],
                country,
                region,
                city,
                postalcode,
                latitude if latitude == latitude else None,
                longitude if longitude == longitude else None,
                dmacode,
                areacode,
            )
        except (IndexError, ValueError) as error:
            raise self._failed(error) from error

    def country(self, slot: int) -> str:
        """The country code of a slot, or "".

        :raises IndexDamagedError: where there is no such slot, or its text is damaged
        """
        self._check_slot(slot)
        try:
            return self._text(self._texts[0][slot])
        except ValueError as error:
            raise self._failed(error) from error

    def pending(self, slot: int) -> bool:
        """Whether the edit behind a slot has not reached the service; always false in the default layer.

        :raises IndexDamagedError: where there is no such slot
        """
        self._check_slot(slot)
        try:
            return self._pending is not None and self._pending[slot] != 0
        except ValueError as error:
            raise self._failed(error) from error

    def slot_of(self, locid: int) -> int | None:
        """The slot of a locid, or None where this layer has none."""
        try:
            slot = bisect_left(self._locid, locid, 0, self.location_count)
            return slot if slot < self.location_count and self._locid[slot] == locid else None
        except ValueError as error:
            raise self._failed(error) from error

    def arrays(self) -> "dict[str, np.ndarray[Any, Any]]":
        """Every known section by name, as a read-only numpy array over the map: no copy, and valid after `close`."""
        import numpy as np

        try:
            return {
                name: np.frombuffer(
                    self._map, dtype=ITEM_FORMATS[section.dtype][0], count=section.length, offset=section.begin
                )
                # numpy refuses to look at the very end of a buffer, even for nothing.
                if section.length
                else np.empty(0, dtype=ITEM_FORMATS[section.dtype][0])
                for name, section in self.header.sections.items()
                if name in SECTIONS
            }
        except ValueError as error:
            raise self._failed(error) from error

    def section_bytes(self, name: str) -> "memoryview[int]":
        """A section as it stands in the file, those unknown to this release included, without a copy."""
        section = self.header.sections[name]
        try:
            return memoryview(self._map)[section.begin : section.end]
        except ValueError as error:
            raise self._failed(error) from error

    def check(self) -> None:
        """Check every byte and every invariant: reads the whole file.

        :raises IndexDamagedError: naming the section and the position in it
        """
        from geolookup.index.verify import verify_index

        verify_index(self)

    def close(self) -> None:
        """Unmap the file, or, where arrays are still in use, leave that to the last of them; again does nothing."""
        for name in self.__slots__:
            views = getattr(self, name, None)
            for view in views if name == "_texts" and views is not None else (views,):
                if isinstance(view, memoryview):
                    view.release()
        try:  # noqa: SIM105 - contextlib would have to be imported
            self._map.close()
        except BufferError:
            # Someone's array still looks into it; its memory goes with that array.
            pass

    def __enter__(self) -> "IndexReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<IndexReader {self.path!r}: {self.layer} layer, {self.location_count} locations>"
