"""The locations of an open index file: what stands in each slot.

This module stands on the path of ``geolookup 8.8.8.8``: it imports only what costs nothing.
"""

from geolookup.index.layout import SOURCES
from geolookup.index.mapped import damaged, failed
from geolookup.model.fields import FIELD_NAMES, FIELDS

try:
    # What `bisect` wraps, without that module's own import.
    from _bisect import bisect_left
except ImportError:
    from bisect import bisect_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from geolookup.index.mapped import Header

    Location = tuple[Any, ...]


class Locations:
    """The columns of one open file's locations. The methods are those of `IndexReader`, which describes them
    and closes the file.

    ``count`` is the number of locations; ``sources`` names what the layer was made from. ``columns`` are the fields' in
    their order: a field's texts by their numbers, or its degrees; None if the file is older than the field.
    """

    __slots__ = (
        "_bytes",
        "_country",
        "_locid",
        "_offsets",
        "_path",
        "_pending",
        "_source",
        "columns",
        "count",
        "sources",
    )

    def __init__(self, path: str, header: "Header", sections: "Mapping[str, memoryview[Any]]") -> None:
        """``sections`` are those of the file at ``path``, by name, each in its type."""
        self._path = path
        self.count = header.counts["locations"]
        self.sources = tuple(header.metadata.get(SOURCES, "").split())
        self._locid: memoryview[int] = sections["loc.locid"]
        self.columns: tuple[memoryview[Any], ...] = tuple([sections[f"loc.{name}"] for name in FIELD_NAMES])
        self._country: memoryview[int] = sections["loc.country"]
        self._pending = sections.get("loc.pending")
        self._source = sections.get("loc.source")
        self._offsets: memoryview[int] = sections["strings.offsets"]
        self._bytes = sections["strings.bytes"]

    def _text(self, number: int) -> str:
        if not number:
            return ""
        try:
            begin, end = self._offsets[number], self._offsets[number + 1]
            if number < 0 or not 0 <= begin <= end <= len(self._bytes):
                raise damaged(self._path, f"strings.offsets: entry {number} is out of order")
            return str(self._bytes[begin:end], "utf-8")
        except IndexError as error:
            raise damaged(self._path, f"a location names the text {number}, which is not there") from error
        except UnicodeDecodeError as error:
            raise damaged(self._path, f"strings.bytes: text {number} is not UTF-8") from error

    def _check_slot(self, slot: int) -> None:
        if not 0 <= slot < self.count:
            raise damaged(self._path, f"slot {slot} is not one of {self.count} locations")

    def location(self, slot: int) -> "Location":
        """The locid of a slot, and its fields in the order of `fields.FIELDS`."""
        self._check_slot(slot)
        try:
            found: list[Any] = [self._locid[slot]]
            for column, field in zip(self.columns, FIELDS, strict=True):
                value = column[slot]
                if field.limit is None:
                    found.append(self._text(value))
                else:
                    found.append(value if value == value else None)  # it is NaN if nothing is known
            return tuple(found)
        except (IndexError, ValueError) as error:
            raise failed(self._path, error) from error

    def country(self, slot: int) -> str:
        """The country code of a slot, or ""."""
        self._check_slot(slot)
        try:
            return self._text(self._country[slot])
        except ValueError as error:
            raise failed(self._path, error) from error

    def pending(self, slot: int) -> bool:
        """True if the edit behind a slot has not reached the service."""
        self._check_slot(slot)
        try:
            return self._pending is not None and self._pending[slot] != 0
        except ValueError as error:
            raise failed(self._path, error) from error

    def source(self, slot: int) -> str:
        """The name of the source that a slot's location comes from."""
        self._check_slot(slot)
        try:
            number = 0 if self._source is None else self._source[slot]
        except ValueError as error:
            raise failed(self._path, error) from error
        if number < len(self.sources):
            return self.sources[number]
        if self._source is None:
            return ""
        raise damaged(self._path, f"loc.source: slot {slot} names source {number}, and there are {len(self.sources)}")

    def slot_of(self, locid: int) -> int | None:
        """The slot of a locid, or None if this layer has none."""
        try:
            slot = bisect_left(self._locid, locid, 0, self.count)
            return slot if slot < self.count and self._locid[slot] == locid else None
        except ValueError as error:
            raise failed(self._path, error) from error
