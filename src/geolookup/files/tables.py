"""Rows of a CSV file (RFC 4180) in chunks, with their numbers and lines, and what becomes of bad ones.

A row that is not CSV costs only itself. A reader reports bad rows as it goes, or collects them to refuse the file.

The standard library's reader is used: pyarrow's is an optional extra, and does not say in which line it met what it
cannot read. All that is done for each row is done in C, so that the reader itself is the greater part of the time.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from operator import itemgetter
from typing import Protocol

from geolookup.base.reasons import reason
from geolookup.base.text import count
from geolookup.files.lines import Lines, has_surrogates
from geolookup.files.opened import Member
from geolookup.files.streams import Limits
from geolookup.model.errors import DataFileError

CHUNK_ROWS = 32768
MOST_NAMED = 20
NOT_UTF8 = "is not UTF-8: convert the file, for example with `iconv -f latin1 -t utf-8`"


class Report(Protocol):
    """The counts of a reader: all ``rows`` so far, and the bad ones, which are left out."""

    rows: int

    def leave_out(self, number: int, line: int | None, reason: str, *, count: int = 1) -> None:
        """Count bad rows: ``number`` is the count that ``rows`` had with the first of them."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows as lists of text; ``numbers`` and ``lines`` are for each its row and its (last) line in the file."""

    rows: list[list[str]]
    numbers: Sequence[int]
    lines: Sequence[int]
    report: Report

    def bad(self, at: int, reason: str) -> None:
        """Leave out the row at this position of the chunk."""
        self.report.leave_out(self.numbers[at], self.lines[at], reason)

    def column(self, position: int) -> list[str]:
        """One column of all rows."""
        return list(map(itemgetter(position), self.rows))

    def only(self, positions: list[int]) -> "Chunk":
        """The chunk of the rows at these positions."""
        return Chunk(
            [self.rows[at] for at in positions],
            [self.numbers[at] for at in positions],
            [self.lines[at] for at in positions],
            self.report,
        )


class Table:
    """The rows of one CSV file. Rows without a value are passed over; those with too few values are bad.

    ``skip`` is the number of lines above the header, or above the first row, that are not CSV;
    ``separator`` stands between values. Without ``quotes`` a quotation mark is a character like any other.
    """

    def __init__(
        self,
        member: Member,
        limits: Limits,
        report: Report,
        *,
        cp1252: bool = False,
        skip: int = 0,
        separator: str = ",",
        quotes: bool = True,
    ) -> None:
        self.name = member.name
        self._report = report
        self._lines = Lines(member, limits, cp1252=cp1252)
        lines = chain.from_iterable(self._lines.blocks())
        for _ in range(skip):
            next(lines, None)
        self._skipped = skip
        self._reader = csv.reader(
            lines, strict=True, delimiter=separator, quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
        )

    @property
    def guessed(self) -> int:
        """The lines so far that are not UTF-8, and were read as cp1252."""
        return self._lines.guessed

    def header(self, *, repeated: bool = False) -> list[str]:
        """The first row: its column names, lower-cased and without blanks around them.

        :raises DataFileError: if there is none, or it names a column twice and that may not be
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
        if twice is not None and not repeated:
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
        report, ended, skipped = self._report, self._reader.line_num, self._skipped
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
        count = report.rows
        chunk = Chunk(rows, range(count + 1, count + 1 + len(rows)), lines, report)
        report.rows += len(rows)
        if broken is not None:
            # A quote that does not end has eaten lines: each counts, so that many stop the pull.
            lost = max(1, ended + skipped - before)
            report.leave_out(report.rows + 1, before + 1, f"is not CSV: {broken}", count=lost)
            report.rows += lost
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


class BadRows:
    """The bad rows of a file: all are counted, the first are named, and one is enough to refuse the file.

    True if there is any. ``closing`` says what became of the file, and what to do.
    """

    def __init__(self, closing: str = "nothing was loaded: correct what is named, and load again") -> None:
        self.closing = closing
        self._named: list[str] = []
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, problem: str | DataFileError) -> None:
        """Note one; its text says in which file and line."""
        self._count += 1
        if len(self._named) < MOST_NAMED:
            self._named.append(str(problem))

    def add_unnamed(self, count: int) -> None:
        """Note more bad rows, of which only the number is known."""
        self._count += count

    def refuse(self) -> None:
        """End the reading, if there was one.

        :raises DataFileError: names the first twenty, and says how many more there are
        """
        if not self._count:
            return
        more = self._count - len(self._named)
        lines = [*self._named, *([f"and {more} more bad {'row' if more == 1 else 'rows'}"] if more else [])]
        raise DataFileError(*lines, self.closing)
