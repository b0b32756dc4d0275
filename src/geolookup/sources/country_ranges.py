"""CSV of address ranges by country (``startip,endip,country``), as the bundled registry data is; plain or with gzip.

`CsvRows` reads the rows of any such CSV with a header line (RFC 4180), one at a time.
"""

import csv
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import IO, Literal, NamedTuple, TypeAlias, cast

from geolookup.base.reasons import reason
from geolookup.base.text import count
from geolookup.model import addresses
from geolookup.model.errors import DataFileError, InvalidAddressError, InvalidRangeError

_GZIP_MAGIC = b"\x1f\x8b"

#: Told why a row is bad; it may raise that.
OnBadRow: TypeAlias = Callable[[DataFileError], None]


def at_once(error: DataFileError) -> None:
    """End at the first bad row.

    :raises DataFileError: the one that is given
    """
    raise error


class CsvRows:
    """An open CSV file: a context manager, and an iterator of its rows as lists of text.

    ``name`` is the file's path; ``header`` its column names, lower-cased and without blanks around them; ``line`` the
    number (from 1) of the line on which the row handed out last ends. The file's first bytes, not its name, say
    whether it is compressed. Blank lines are passed over.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file and read its header.

        :raises DataFileError: if it cannot be read, is empty, or its header names a column twice
        """
        self.name = os.fspath(path)
        try:
            raw = open(self.name, "rb")  # noqa: SIM115 - closed by `close`
        except OSError as error:
            raise DataFileError(f"{self.name}: cannot be read: {error.strerror}") from error
        self._raw = raw
        self.header: list[str] = []
        try:
            compressed = raw.peek(2)[:2] == _GZIP_MAGIC
            binary = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if compressed else raw
            self._text = io.TextIOWrapper(binary, encoding="utf-8-sig", newline="")
            self._reader = csv.reader(self._text, strict=True)
            self._rows = self._read()
            first = next(self._rows, None)
            if first is None:
                raise DataFileError(f"{self.name}: is empty: its first line should name the columns")
            self.header = [column.strip().lower() for column in first]
            if len(set(self.header)) != len(self.header):
                raise DataFileError(f"{self.name}, line 1: a column is named twice")
        except BaseException:
            self.close()
            raise

    @property
    def line(self) -> int:
        """See the class."""
        return self._reader.line_num

    def columns(self, *names: str) -> list[int]:
        """The positions of the named columns.

        :raises DataFileError: if one is missing
        """
        missing = [name for name in names if name not in self.header]
        if missing:
            raise DataFileError(f"{self.name}, line 1: these columns are missing: {', '.join(missing)}")
        return [self.header.index(name) for name in names]

    def error(self, message: str) -> DataFileError:
        """An error about the row that was handed out last."""
        return DataFileError(f"{self.name}, line {self.line}: {message}")

    def __iter__(self) -> Iterator[list[str]]:
        """The rows after the header, each with as many values as the header has.

        :raises DataFileError: at a row that has more or fewer, or is not CSV, or if reading the file fails
        """
        return self.good(at_once)

    def good(self, on_bad: "OnBadRow") -> Iterator[list[str]]:
        """The same, but ``on_bad`` is told of rows that have more or fewer values.

        :raises DataFileError: at a row that is not CSV, or if reading the file fails
        """
        width = len(self.header)
        for row in self._rows:
            if len(row) != width:
                on_bad(self.error(f"has {count(len(row), 'value')}, and the header names {width} columns"))
            else:
                yield row

    def _read(self) -> Iterator[list[str]]:
        try:
            for row in self._reader:
                if row:
                    yield row
        except csv.Error as error:
            raise self.error(f"is not CSV: {reason(error)}") from error
        except UnicodeDecodeError as error:
            raise DataFileError(f"{self.name}, after line {self.line}: is not UTF-8") from error
        except (EOFError, OSError, zlib.error) as error:  # gzip's own BadGzipFile is an OSError
            raise DataFileError(f"{self.name}, after line {self.line}: reading failed: {reason(error)}") from error

    def close(self) -> None:
        """Close the file; harmless when repeated."""
        self._raw.close()

    def __enter__(self) -> "CsvRows":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


COLUMNS = ("startip", "endip", "country")


class CountryRange(NamedTuple):
    """An inclusive range and its country's code, from one line of a file.

    ``startip`` and ``endip`` are in the form that `addresses.to_text` writes; ``first`` and ``last`` are the
    same as integers.
    """

    startip: str
    endip: str
    country: str
    family: Literal[4, 6]
    first: int
    last: int
    line: int


def read_country_ranges(path: str | os.PathLike[str]) -> Iterator[CountryRange]:
    """The file's rows in its order, read as they are asked for. Other columns are ignored.

    :raises DataFileError: if the file cannot be read, lacks a column, or at a row with a malformed range or without
        a country: names the file and the line
    """
    with CsvRows(path) as rows:
        yield from ranges(rows)


def ranges(rows: CsvRows, on_bad: OnBadRow = at_once) -> Iterator[CountryRange]:
    """The same from a file that is already open; ``on_bad`` is told of bad rows, which are left out.

    :raises DataFileError: as `read_country_ranges` does
    """
    start, end, code = rows.columns(*COLUMNS)
    for row in rows.good(on_bad):
        try:
            startip, endip, family, first, last = read_range(rows, row[start], row[end])
            country = row[code]
            if not country:
                raise rows.error("names no country")
        except DataFileError as error:
            on_bad(error)
            continue
        yield CountryRange(startip, endip, country, family, first, last, rows.line)


def read_range(rows: CsvRows, startip: str, endip: str) -> tuple[str, str, Literal[4, 6], int, int]:
    """The two ends of a row's range as text, and its family and ends as integers.

    :raises DataFileError: if it is not a range
    """
    try:
        family, first, last = addresses.parse_range(startip, endip)
    except (InvalidAddressError, InvalidRangeError) as error:
        raise rows.error(str(error)) from error
    # A dotted quad that was accepted is canonical already: this saves writing millions of them again.
    if family == 6 or ":" in startip or ":" in endip:
        startip, endip = addresses.to_text(family, first), addresses.to_text(family, last)
    return startip, endip, family, first, last
