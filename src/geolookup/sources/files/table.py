"""Rows of a CSV file (RFC 4180) in chunks, with their numbers and lines; a row that is no CSV costs only itself.

The standard library's reader takes 0.6 µs for a row of ten fields. pyarrow's is four times faster, but is an optional
extra, and does not say in which line it met what it cannot read.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass

from geolookup.errors import DataFileError
from geolookup.sources.files.limits import Limits
from geolookup.sources.files.lines import Lines, has_surrogates
from geolookup.sources.files.opened import Member
from geolookup.sources.protocol import Gathered

CHUNK_ROWS = 32768
NOT_UTF8 = "is not UTF-8: convert the file, for example with `iconv -f latin1 -t utf-8`"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows as lists of text; ``numbers`` and ``lines`` say for each which row and line (its last) of the file it is."""

    rows: list[list[str]]
    numbers: list[int]
    lines: list[int]
    gathered: Gathered

    def bad(self, at: int, reason: str) -> None:
        """Leave out the row at this position of the chunk."""
        self.gathered.leave_out(self.numbers[at], self.lines[at], reason)

    def column(self, position: int) -> list[str]:
        """One column of all rows."""
        return [row[position] for row in self.rows]


class Table:
    """The rows of one CSV file. Blank lines are passed over; rows with too few values are bad.

    ``skip`` is the number of lines above the header, or above the first row, that are no CSV.
    """

    def __init__(
        self, member: Member, limits: Limits, gathered: Gathered, *, latin1: bool = False, skip: int = 0
    ) -> None:
        self.name = member.name
        self._gathered = gathered
        self._lines = Lines(member, limits, latin1=latin1)
        lines = iter(self._lines)
        for _ in range(skip):
            next(lines, None)
        self._skipped = skip
        self._reader = csv.reader(lines, strict=True)

    def header(self) -> list[str]:
        """The first row: its column names, lower-cased and without blanks around them.

        :raises DataFileError: if there is none, or it names a column twice
        """
        try:
            first = next((row for row in self._reader if row), None)
        except csv.Error as error:
            raise DataFileError(f"{self.name}, line 1: is not CSV: {error}") from error
        if first is None:
            raise DataFileError(f"{self.name}: is empty: its first line should name the columns")
        header = [column.strip().lower() for column in first]
        if len(set(header)) != len(header):
            raise DataFileError(f"{self.name}, line 1: a column is named twice")
        return header

    def chunks(self, width: int, *, exact: bool = False) -> Iterator[Chunk]:
        """The rows that have at least ``width`` values, or with ``exact`` just so many; the others are bad."""
        ended = False
        while not ended:
            chunk = Chunk([], [], [], self._gathered)
            ended = self._fill(chunk)
            if chunk.rows and (self._lines.undecoded or not _all_wide(chunk.rows, width, exact=exact)):
                chunk = self._checked(chunk, width, exact=exact)
            if chunk.rows:
                yield chunk

    def _fill(self, chunk: Chunk) -> bool:
        """Read one chunk; true at the end of the file."""
        gathered, reader, skipped = self._gathered, self._reader, self._skipped
        rows, numbers, lines = chunk.rows, chunk.numbers, chunk.lines
        count = gathered.rows
        begun = reader.line_num
        while True:
            try:
                for row in reader:
                    if row:
                        count += 1
                        rows.append(row)
                        numbers.append(count)
                        lines.append(reader.line_num + skipped)
                        if len(rows) == CHUNK_ROWS:
                            gathered.rows = count
                            return False
            except csv.Error as error:
                # A quote that does not end has eaten lines: each counts, so that many stop the pull.
                before = max(begun, lines[-1] - skipped) if lines else begun
                lost = max(1, reader.line_num - before)
                gathered.leave_out(count + 1, before + 1 + skipped, f"is not CSV: {error}", count=lost)
                count += lost
                begun = reader.line_num
            else:
                gathered.rows = count
                return True

    def _checked(self, chunk: Chunk, width: int, *, exact: bool) -> Chunk:
        good = []
        for at, row in enumerate(chunk.rows):
            if self._lines.undecoded and any(map(has_surrogates, row)):
                chunk.bad(at, NOT_UTF8)
            elif len(row) < width or (exact and len(row) != width):
                chunk.bad(at, f"has {len(row)} values, and {width} are needed")
            else:
                good.append(at)
        return Chunk(
            [chunk.rows[at] for at in good],
            [chunk.numbers[at] for at in good],
            [chunk.lines[at] for at in good],
            self._gathered,
        )


def _all_wide(rows: list[list[str]], width: int, *, exact: bool) -> bool:
    widths = set(map(len, rows))
    return widths == {width} if exact else min(widths) >= width
