"""Rows of a CSV file (RFC 4180) in chunks, with their numbers and lines; a row that is not CSV costs only itself.

The standard library's reader is used: pyarrow's is an optional extra, and does not say in which line it met what it
cannot read. All that is done for each row is done in C, so that the reader itself is the greater part of the time.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from operator import itemgetter

from geolookup.base.reasons import reason
from geolookup.base.text import count
from geolookup.errors import DataFileError
from geolookup.files.limits import Limits
from geolookup.files.lines import Lines, has_surrogates
from geolookup.files.opened import Member
from geolookup.sources.protocol import Gathered

CHUNK_ROWS = 32768
NOT_UTF8 = "is not UTF-8: convert the file, for example with `iconv -f latin1 -t utf-8`"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows as lists of text; ``numbers`` and ``lines`` say for each which row and line (its last) of the file it is."""

    rows: list[list[str]]
    numbers: Sequence[int]
    lines: Sequence[int]
    gathered: Gathered

    def bad(self, at: int, reason: str) -> None:
        """Leave out the row at this position of the chunk."""
        self.gathered.leave_out(self.numbers[at], self.lines[at], reason)

    def column(self, position: int) -> list[str]:
        """One column of all rows."""
        return list(map(itemgetter(position), self.rows))

    def only(self, positions: list[int]) -> "Chunk":
        """The chunk of the rows at these positions."""
        return Chunk(
            [self.rows[at] for at in positions],
            [self.numbers[at] for at in positions],
            [self.lines[at] for at in positions],
            self.gathered,
        )


class Table:
    """The rows of one CSV file. Rows without a value are passed over; those with too few values are bad.

    ``skip`` is the number of lines above the header, or above the first row, that are not CSV;
    ``separator`` stands between values.
    """

    def __init__(
        self,
        member: Member,
        limits: Limits,
        gathered: Gathered,
        *,
        latin1: bool = False,
        skip: int = 0,
        separator: str = ",",
    ) -> None:
        self.name = member.name
        self._gathered = gathered
        self._lines = Lines(member, limits, latin1=latin1)
        lines = chain.from_iterable(self._lines.blocks())
        for _ in range(skip):
            next(lines, None)
        self._skipped = skip
        self._reader = csv.reader(lines, strict=True, delimiter=separator)

    def header(self) -> list[str]:
        """The first row: its column names, lower-cased and without blanks around them.

        :raises DataFileError: if there is none, or it names a column twice
        """
        try:
            first = next((row for row in self._reader if row), None)
        except csv.Error as error:
            raise DataFileError(f"{self.name}, line 1: is not CSV: {reason(error)}") from error
        if first is None:
            raise DataFileError(f"{self.name}: is empty: its first line should name the columns")
        header = [column.strip().lower() for column in first]
        named = [column for column in header if column]  # beside a table spreadsheets write columns without a name
        twice = next((column for at, column in enumerate(named) if column in named[:at]), None)
        if twice is not None:
            raise DataFileError(f"{self.name}, line {1 + self._skipped}: a column is named twice: {twice!r:.60}")
        return header

    def chunks(self, width: int, *, exact: bool = False) -> Iterator[Chunk]:
        """The rows that have at least ``width`` values, or with ``exact`` just so many; the others are bad."""
        ended = False
        while not ended:
            rows: list[list[str]] = []
            begun = self._reader.line_num
            broken = None
            try:
                rows.extend(islice(self._reader, CHUNK_ROWS))  # what came before an error stays
                ended = len(rows) < CHUNK_ROWS
            except csv.Error as error:
                broken = error
            chunk = self._numbered(rows, begun, broken)
            if chunk.rows and (self._lines.undecoded or not _all_wide(chunk.rows, width, exact=exact)):
                chunk = self._checked(chunk, width, exact=exact)
            if chunk.rows:
                yield chunk

    def _numbered(self, rows: list[list[str]], begun: int, broken: csv.Error | None) -> Chunk:
        """The rows without the blank ones, counted; ``broken`` is why the row after them could not be read."""
        gathered, ended, skipped = self._gathered, self._reader.line_num, self._skipped
        lines: Sequence[int]
        if broken is None and ended - begun == len(rows):
            lines = range(begun + 1 + skipped, ended + 1 + skipped)
        else:  # quoted texts have line ends in them
            spans = (1 + sum([value.count("\n") for value in row]) for row in rows)
            lines = list(accumulate(spans, initial=begun + skipped))[1:]
        before = lines[-1] if lines else begun + skipped
        if not all(map(any, rows)):  # an empty line, or separators alone, which spreadsheets write below a table
            filled = [at for at, row in enumerate(rows) if any(row)]
            rows, lines = [rows[at] for at in filled], [lines[at] for at in filled]
        count = gathered.rows
        chunk = Chunk(rows, range(count + 1, count + 1 + len(rows)), lines, gathered)
        gathered.rows += len(rows)
        if broken is not None:
            # A quote that does not end has eaten lines: each counts, so that many stop the pull.
            lost = max(1, ended + skipped - before)
            gathered.leave_out(gathered.rows + 1, before + 1, f"is not CSV: {broken}", count=lost)
            gathered.rows += lost
        return chunk

    def _checked(self, chunk: Chunk, width: int, *, exact: bool) -> Chunk:
        good = []
        for at, row in enumerate(chunk.rows):
            if self._lines.undecoded and any(map(has_surrogates, row)):
                chunk.bad(at, NOT_UTF8)
            elif len(row) < width or (exact and len(row) != width):
                chunk.bad(at, f"has {count(len(row), 'value')}, and {width} are needed")
            else:
                good.append(at)
        return chunk.only(good)


def _all_wide(rows: list[list[str]], width: int, *, exact: bool) -> bool:
    widths = set(map(len, rows))
    return widths == {width} if exact else min(widths) >= width
