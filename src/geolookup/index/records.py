"""The records of an open index file: what the source said of each place, in parts, one for each key."""

from geolookup.index.layout import OURS, PART, PART_TYPES
from geolookup.index.mapped import damaged, failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from geolookup.index.mapped import Header


#: Parts kept decoded for one file: some 20 MB, if all have names in eight languages.
MOST_DECODED = 1 << 13


class Records:
    """The columns of one open file's records.

    ``columns`` has the number of each record's part by its key, 0 if the record lacks it; ``keys`` names them.
    """

    __slots__ = (
        *("_all", "_bytes", "_decoded", "_known", "_offsets", "_one", "_ours", "_path", "_said"),
        *("columns", "keys"),
    )

    def __init__(self, path: str, header: "Header", sections: "Mapping[str, memoryview[Any]]") -> None:
        """``sections`` are those of the file at ``path``, by name, each in its type."""
        self._path = path
        self.columns = {
            name[len(PART) :]: sections[name]
            for name, section in header.sections.items()
            if name.startswith(PART) and section.dtype in PART_TYPES
        }
        #: What is known of a custom geolocation besides its fields, which is no part of its record.
        self._ours = self.columns.pop(OURS, None) if header.layer == "custom" else None
        self.keys = tuple(self.columns)
        self._offsets = sections.get("parts.offsets")
        self._bytes = sections.get("parts.bytes")
        self._said = sections.get("record.said")
        #: What was said by whom, by the number of the part: few distinct ones.
        self._known: dict[int, dict[str, str]] = {}
        self._decoded: dict[int, Any] = {}
        #: What decodes, once it is known: a part, and all of a record.
        self._one: Any = None
        self._all: Any = None

    def parts(self, record: int) -> dict[str, bytes]:
        """The parts of a record by their keys: self-contained values of `mmdb`. What it lacks is left out.

        :raises IndexDamagedError: if the file is damaged there
        """
        found = {}
        try:
            for key, column in self.columns.items():
                number = column[record]
                if number:
                    found[key] = self._part(number)
        except (IndexError, ValueError) as error:
            raise failed(self._path, error) from error
        return found

    def whole(self, record: int) -> "dict[str, Any]":
        """All parts of a record by their keys, decoded for the caller alone. What it lacks is left out.

        :raises IndexDamagedError: if the file is damaged there
        """
        if self._offsets is None or self._bytes is None:
            return {}
        if self._all is None:
            from geolookup.index.accelerator import accelerator

            self._all = getattr(accelerator(), "parts", _of_no_accelerator), tuple(self.columns.items())
        parts, columns = self._all
        found: dict[str, Any] | None = parts(columns, self._offsets, self._bytes, record)
        if found is not None:
            return found
        try:
            numbers = {key: column[record] for key, column in columns}
        except (IndexError, ValueError) as error:
            raise failed(self._path, error) from error
        return {key: self.own(number) for key, number in numbers.items() if number}

    def said(self, record: int, sources: "Sequence[str]") -> dict[str, str]:
        """The one of the ``sources`` that said each part of a record, by their keys.

        :raises IndexDamagedError: if the file is damaged there
        """
        if self._said is None:
            return dict.fromkeys(self.parts(record), sources[0] if sources else "")
        from geolookup.index import mmdb  # late: a plain lookup needs none

        try:
            number = self._said[record]
            if number not in self._known:
                found = mmdb.plain(self._part(number))
                self._known[number] = {key: sources[its] for key, its in found.items()}
            return dict(self._known[number])
        except (IndexError, ValueError, AttributeError, TypeError) as error:
            raise damaged(self._path, f"record.said: entry {record} names no sources") from error

    def number(self, record: int, key: str) -> int:
        """The number of the part of a record by its key, or 0 if the record lacks it.

        :raises IndexDamagedError: if the file is damaged there
        """
        try:
            if key == OURS and self._ours is not None:
                return int(self._ours[record])
            return self.columns[key][record] if key in self.columns else 0
        except (IndexError, ValueError) as error:
            raise failed(self._path, error) from error

    def own_part(self, record: int, key: str) -> "Any":
        """One part of a record, decoded for the caller alone; None if the record lacks it.

        :raises IndexDamagedError: if the file is damaged there
        """
        try:
            number = self.columns[key][record] if key in self.columns else 0
        except (IndexError, ValueError) as error:
            raise failed(self._path, error) from error
        return self.own(number) if number else None

    def decoded(self, record: int, key: str) -> "Any":
        """One part of a record, for Python and never to be changed; None if the record lacks it. It is decoded once.

        :raises IndexDamagedError: if the file is damaged there
        """
        return self.value(self.number(record, key))

    def value(self, number: int) -> "Any":
        """The part of a number, as `decoded` gives it; None of 0.

        :raises IndexDamagedError: if the file is damaged there
        """
        found = self._decoded.get(number)  # no value is None
        if found is None and number:
            found = self.own(number)
            if len(self._decoded) >= MOST_DECODED:
                self._decoded.clear()  # cheaper than an order of use; parts that are needed again come back
            self._decoded[number] = found
        return found

    def own(self, number: int) -> "Any":
        """The part of a number, which is above 0, decoded for the caller alone.

        :raises IndexDamagedError: if the file is damaged there
        """
        part = self._one
        if part is None:
            from geolookup.index.accelerator import accelerator

            part = self._one = getattr(accelerator(), "part", _of_no_accelerator)
        found = part(self._offsets, self._bytes, number)
        return self._reference(number) if found is None else found

    def _reference(self, number: int) -> "Any":
        from geolookup.index import mmdb  # late: a plain lookup needs none

        try:
            return mmdb.plain(self._part(number))
        except mmdb.BadValueError as error:
            raise damaged(self._path, f"parts.bytes: entry {number}: {error}") from error
        except (IndexError, ValueError) as error:
            raise failed(self._path, error) from error

    def _part(self, number: int) -> bytes:
        assert self._offsets is not None
        assert self._bytes is not None
        begin, end = self._offsets[number], self._offsets[number + 1]
        if not 0 <= begin <= end <= len(self._bytes):
            raise damaged(self._path, f"parts.offsets: entry {number} is out of order")
        return bytes(self._bytes[begin:end])


def _of_no_accelerator(*_of: object) -> None:
    """None, which leaves a value to the reference."""
