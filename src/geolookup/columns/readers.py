"""Files of rows, read some thousand rows at a time: CSV (RFC 4180), NDJSON and Parquet."""

import codecs
import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, Literal, Protocol, TypeAlias

import msgspec

from geolookup.base.reasons import reason
from geolookup.base.text import count
from geolookup.columns.arrow_addresses import pa
from geolookup.columns.arrow_index import sample_of
from geolookup.columns.common import ENOUGH_VALUES, check_columns
from geolookup.model.addresses import to_text
from geolookup.model.errors import ColumnError, DataFileError

Form: TypeAlias = Literal["csv", "ndjson", "parquet"]

#: What may stand between the values of CSV, the likeliest first.
DELIMITERS: Final = (",", ";", "\t", "|")
#: Rows read, answered and written together.
CHUNK_ROWS: Final = 16_384
#: A longer line cannot be a row, and must not fill the memory.
MAX_LINE_BYTES: Final = 1 << 26


@dataclass(slots=True, kw_only=True)
class Chunk:
    """Some rows that follow each other.

    ``batch`` is a record batch: all columns, or only the address column if ``raw`` has the rows' bytes as they
    stand, line ends included. ``lines`` are the rows' numbers in the file, from 1. Those of ``bad`` (row in the chunk,
    what is wrong) could not be read. With ``raw`` they are still in it, and their address is null; without it they are
    left out, and their number is that of the line itself.
    """

    batch: Any
    lines: Sequence[int]
    raw: list[bytes] | None = None
    bad: list[tuple[int, str]] = field(default_factory=list)


class Reader(Protocol):
    """An open file of rows.

    ``header`` is the first line as it stands if a CSV's rows are handed out as they stand, else empty; ``schema``
    the columns if they are known beforehand, else None; ``rows`` how many there are, or None; ``word`` what a row
    is called in a message.
    """

    header: bytes
    schema: Any
    rows: int | None
    word: str

    def chunks(self) -> Iterator[Chunk]:
        """All rows.

        :raises DataFileError: if reading the file fails
        """

    def sample(self) -> Mapping[str, Iterable[Any]]:
        """The first values of the columns, by name: of those rows that `chunks` has handed out."""


class CsvReader:
    """A CSV file with a header; if ``as_is``, rows are handed out as they stand, in any encoding.

    ``delimiter`` stands between values; if it is None, that one of `DELIMITERS` with which the header has the column.

    :raises DataFileError: if it is empty
    :raises ColumnError: if the column is missing or there twice, or one of ``added`` is there already
    """

    rows: int | None = None
    word = "line"

    def __init__(
        self,
        name: str,
        stream: BinaryIO,
        *,
        column: str,
        added: Sequence[str],
        as_is: bool,
        delimiter: str | None = None,
    ) -> None:
        self._name = name
        self._stream = stream
        self._as_is = as_is
        self._column = column
        self._line = 0
        self._taken: list[bytes] = []
        self._ahead: list[bytes] = []
        self._sample: list[list[str]] = []
        self.delimiter = delimiter or self._likely_delimiter()
        self._reader = csv.reader(self._texts(), delimiter=self.delimiter)
        names, header = self._header()
        check_columns(names, column, added)
        self.header = header if as_is else b""
        self._names = names
        self._place = names.index(column)
        self.schema = None if as_is else pa.schema([(name, pa.string()) for name in names])

    def _likely_delimiter(self) -> str:
        """The delimiter of the first line that is not blank; it is read again."""
        first = b""
        while not first.removeprefix(codecs.BOM_UTF8).strip():
            try:
                first = self._stream.readline(MAX_LINE_BYTES)
            except OSError as error:
                raise DataFileError(f"{self._name}: reading failed: {error.strerror}") from error
            if not first:
                return DELIMITERS[0]
            self._ahead.append(first)
        text = first.decode("utf-8-sig", "replace")
        named = {each: self._names_in(text, each) for each in DELIMITERS}
        fitting = [each for each, names in named.items() if self._column in names]
        return fitting[0] if fitting else max(DELIMITERS, key=lambda each: len(named[each]))

    @staticmethod
    def _names_in(text: str, delimiter: str) -> list[str]:
        try:
            return next(csv.reader([text], delimiter=delimiter), [])
        except csv.Error:
            return []

    def _header(self) -> tuple[list[str], bytes]:
        """The columns' names, and the bytes of the file up to their end; blank lines before them are skipped."""
        before = b""
        for _, names, data in self._records():
            if names not in ([], [""]):
                return names, before + data
            before += data
        raise DataFileError(f"{self._name}: is empty: its first line should name the columns")

    def _texts(self) -> Iterator[str]:
        ahead = iter(self._ahead)
        while line := next(ahead, b"") or self._stream.readline(MAX_LINE_BYTES):
            self._line += 1
            if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                raise DataFileError(f"{self._name}, line {self._line}: is longer than {MAX_LINE_BYTES} bytes")
            self._taken.append(line)
            if self._line == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            try:
                yield line.decode("utf-8", "replace" if self._as_is else "strict")
            except UnicodeDecodeError as error:
                raise DataFileError(f"{self._name}, line {self._line}: is not UTF-8") from error

    def _records(self) -> Iterator[tuple[int, list[str], bytes]]:
        """Each record: the line on which it begins, its values, and its bytes."""
        while True:
            begins = self._line + 1
            self._taken.clear()
            try:
                row = next(self._reader, None)
            except csv.Error as error:
                raise DataFileError(f"{self._name}, line {begins}: is not CSV: {reason(error)}") from error
            except OSError as error:
                raise DataFileError(f"{self._name}: reading failed: {error.strerror}") from error
            if row is None:
                return
            yield begins, row, b"".join(self._taken)

    def chunks(self) -> Iterator[Chunk]:
        """See `Reader`."""
        lines: list[int] = []
        rows: list[list[str]] = []
        raw: list[bytes] = []
        bad: list[tuple[int, str]] = []
        for line, row, data in self._records():
            if row and len(row) != len(self._names):
                what = f"has {count(len(row), 'value')}, and the header names {len(self._names)} columns"
                bad.append((len(lines) if self._as_is else line, what))
                row = []
            if self._as_is or row:
                lines.append(line)
                rows.append(row)
                raw.append(data)
            if len(lines) >= CHUNK_ROWS:
                yield self._chunk(lines, rows, raw, bad)
                lines, rows, raw, bad = [], [], [], []
        if lines or bad:
            yield self._chunk(lines, rows, raw, bad)

    def sample(self) -> dict[str, list[str]]:
        """See `Reader`."""
        return {name: [row[place] for row in self._sample] for place, name in enumerate(self._names)}

    def _chunk(self, lines: list[int], rows: list[list[str]], raw: list[bytes], bad: list[tuple[int, str]]) -> Chunk:
        self._sample = self._sample or [row for row in rows[:ENOUGH_VALUES] if row]
        if not self._as_is:
            # An empty value stays empty text, except the address: in CSV, empty means that the row has no address.
            columns = [pa.array([row[place] for row in rows], pa.string()) for place in range(len(self._names))]
            columns[self._place] = pa.array([row[self._place] or None for row in rows], pa.string())
            return Chunk(batch=pa.RecordBatch.from_arrays(columns, schema=self.schema), lines=lines, bad=bad)
        addresses = [row[self._place] or None if row else None for row in rows]
        batch = pa.RecordBatch.from_arrays([pa.array(addresses, pa.string())], names=[self._column])
        return Chunk(batch=batch, lines=lines, raw=raw, bad=bad)


class NdjsonReader:
    """A file of JSON objects, one a line (https://github.com/ndjson/ndjson-spec); blank lines are not rows.

    A byte order mark at its beginning is skipped (RFC 8259, section 8.1). If not ``as_is``, the members of the
    first rows decide which columns there are, and of which types.
    """

    rows: int | None = None
    word = "line"
    header = b""
    schema: Any = None

    def __init__(self, name: str, stream: BinaryIO, *, column: str, added: Sequence[str], as_is: bool) -> None:
        self._name = name
        self._stream = stream
        self._column = column
        self._added = added
        self._as_is = as_is
        self._fixed: Any = None
        self._has_rows = self._has_column = False
        self._sample: list[dict[str, Any]] = []

    def chunks(self) -> Iterator[Chunk]:
        """See `Reader`.

        :raises ColumnError: at the end, if no row had the column
        """
        lines: list[int] = []
        rows: list[dict[str, Any]] = []
        raw: list[bytes] = []
        bad: list[tuple[int, str]] = []
        number = 0
        try:
            while data := self._stream.readline(MAX_LINE_BYTES):
                number += 1
                if len(data) == MAX_LINE_BYTES and not data.endswith(b"\n"):
                    raise DataFileError(f"{self._name}, line {number}: is longer than {MAX_LINE_BYTES} bytes")
                row: dict[str, Any] = {}
                text = data.removeprefix(codecs.BOM_UTF8) if number == 1 else data
                if text.strip():
                    self._has_rows = True
                    try:
                        row = self._row(text)
                    except (ValueError, RecursionError) as error:
                        bad.append((len(lines) if self._as_is else number, reason(error)))
                if self._as_is or row:
                    lines.append(number)
                    rows.append(row)
                    raw.append(data)
                if len(lines) >= CHUNK_ROWS:
                    yield self._chunk(lines, rows, raw, bad)
                    lines, rows, raw, bad = [], [], [], []
        except OSError as error:
            raise DataFileError(f"{self._name}: reading failed: {error.strerror}") from error
        if lines or bad:
            yield self._chunk(lines, rows, raw, bad)
        if self._has_rows and not self._has_column:
            raise ColumnError(f"{self._name}: no row has a member {self._column!r}")

    def sample(self) -> dict[str, list[Any]]:
        """See `Reader`."""
        names = dict.fromkeys(name for row in self._sample for name in row)
        return {name: [_address(row.get(name)) for row in self._sample] for name in names}

    def _row(self, data: bytes) -> dict[str, Any]:
        try:
            row = msgspec.json.decode(data)
        except msgspec.DecodeError as error:
            raise ValueError(f"is not JSON: {reason(error)}") from error
        if not isinstance(row, dict):
            raise ValueError("is not a JSON object")  # noqa: TRY004 - it is the row that is wrong
        for name in self._added:
            if name in row:
                raise ValueError(f"has a member {name!r} already")
        self._has_column |= self._column in row
        return row

    def _chunk(
        self, lines: list[int], rows: list[dict[str, Any]], raw: list[bytes], bad: list[tuple[int, str]]
    ) -> Chunk:
        self._sample = self._sample or [row for row in rows[:ENOUGH_VALUES] if row]
        if self._as_is:
            addresses = [_address(row.get(self._column)) for row in rows]
            batch = pa.RecordBatch.from_arrays([pa.array(addresses, pa.string())], names=[self._column])
            return Chunk(batch=batch, lines=lines, raw=raw, bad=bad)
        try:
            if self._fixed is None:
                names = list(dict.fromkeys(name for row in rows for name in row))
                batch = pa.RecordBatch.from_arrays(
                    [pa.array([self._value(row, name) for row in rows]) for name in names], names=names
                )
                self._fixed = batch.schema
                return Chunk(batch=batch, lines=lines, bad=bad)
            strange = next((name for row in rows for name in row if name not in self._fixed.names), None)
            if strange is not None:
                raise DataFileError(
                    f"{self._name}, after line {lines[0] - 1}: has a member {strange!r} that the first rows lack"
                )
            columns = [pa.array([self._value(row, field.name) for row in rows], field.type) for field in self._fixed]
        except (pa.ArrowException, OverflowError) as error:
            raise DataFileError(
                f"{self._name}, after line {lines[0] - 1}: the rows do not fit the columns of those before"
            ) from error
        return Chunk(batch=pa.RecordBatch.from_arrays(columns, schema=self._fixed), lines=lines, bad=bad)

    def _value(self, row: dict[str, Any], name: str) -> Any:
        return _address(row.get(name)) if name == self._column else row.get(name)


class ParquetReader:
    """A Parquet file (https://parquet.apache.org/docs/file-format/). It cannot be a stream, since it is read from its
    end. If ``alone``, no other column than ``column`` is read.

    :raises DataFileError: if it cannot be read
    :raises ColumnError: as for `CsvReader`
    """

    word = "row"
    header = b""

    def __init__(self, name: str, stream: BinaryIO, *, column: str, added: Sequence[str], alone: bool = False) -> None:
        from pyarrow import parquet

        self._name = name
        try:
            self._file = parquet.ParquetFile(stream)
            self.schema = self._file.schema_arrow
        except (pa.ArrowException, OSError) as error:
            raise DataFileError(f"{name}: cannot be read as Parquet: {reason(error)}") from error
        self.rows: int | None = self._file.metadata.num_rows
        check_columns(self.schema.names, column, added)
        self._read = [column] if alone else None

    def chunks(self) -> Iterator[Chunk]:
        """See `Reader`."""
        before = 0
        try:
            for batch in self._file.iter_batches(CHUNK_ROWS, columns=self._read):
                yield Chunk(batch=batch, lines=range(before + 1, before + 1 + batch.num_rows))
                before += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise DataFileError(f"{self._name}, after row {before}: reading failed: {reason(error)}") from error

    def sample(self) -> dict[str, list[Any]]:
        """See `Reader`."""
        first = next(self._file.iter_batches(ENOUGH_VALUES), None)
        return {} if first is None else sample_of(first)


def _address(value: Any) -> str | None:
    """A JSON value as the text of an address; a value that is not an address becomes text that is not one either."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 32:
        return to_text(4, value)
    return msgspec.json.encode(value).decode("utf-8")
