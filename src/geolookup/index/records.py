"""The records of an open index file: what the source said of each place, in parts, one for each key."""

from geolookup.index.layout import PART, PART_TYPES
from geolookup.index.mapped import damaged, failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from geolookup.index.mapped import Header


class Records:
    """The columns of one open file's records; ``keys`` names them."""

    __slots__ = ("_bytes", "_columns", "_offsets", "_path", "keys")

    def __init__(self, path: str, header: "Header", sections: "Mapping[str, memoryview[Any]]") -> None:
        """``sections`` are those of the file at ``path``, by name, each in its type."""
        self._path = path
        self._columns = {
            name[len(PART) :]: sections[name]
            for name, section in header.sections.items()
            if name.startswith(PART) and section.dtype in PART_TYPES
        }
        self.keys = tuple(self._columns)
        self._offsets = sections.get("parts.offsets")
        self._bytes = sections.get("parts.bytes")

    def parts(self, record: int) -> dict[str, bytes]:
        """The parts of a record by their keys: self-contained values of `mmdb`. What it lacks is left out.

        :raises IndexDamagedError: if the file is damaged there
        """
        found = {}
        try:
            for key, column in self._columns.items():
                number = column[record]
                if number:
                    found[key] = self._part(number)
        except (IndexError, ValueError) as error:
            raise failed(self._path, error) from error
        return found

    def _part(self, number: int) -> bytes:
        assert self._offsets is not None
        assert self._bytes is not None
        begin, end = self._offsets[number], self._offsets[number + 1]
        if not 0 <= begin <= end <= len(self._bytes):
            raise damaged(self._path, f"parts.offsets: entry {number} is out of order")
        return bytes(self._bytes[begin:end])
