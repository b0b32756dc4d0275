"""Files of rows, read some thousand rows at a time: CSV (RFC 4180) and Parquet; `json_rows` has NDJSON."""

import codecs
import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, Literal, Protocol, TypeAlias

import numpy as np

from geolookup.base.reasons import reason
from geolookup.base.text import count
from geolookup.columns.arrow_addresses import pa, pc
from geolookup.columns.arrow_index import sample_of
from geolookup.columns.blocks import BLOCK_BYTES, Source, pieces
from geolookup.columns.common import ENOUGH_VALUES, check_columns
from geolookup.columns.csv_blocks import Records, split
from geolookup.files.headers import MOST_TITLES, SEPARATOR_LINE, Header, column_like, said_of
from geolookup.model.errors import DataFileError

Form: TypeAlias = Literal["csv", "ndjson", "parquet"]

#: What may stand between the values of CSV, the likeliest first.
DELIMITERS: Final = (",", ";", "\t", "|")
#: Rows read, answered and written together.
CHUNK_ROWS: Final = 16_384
#: Rows that are read one by one are handed out once they have so many bytes.
_CHUNK_BYTES: Final = 8 * BLOCK_BYTES


@dataclass(slots=True, kw_only=True)
class Chunk:
    """Some rows that follow each other.

    ``batch`` is a record batch: all columns, or only the address column if ``records`` has the bytes of each row as
    they stand, and ``ends`` what ends its line (both of type binary). ``lines`` are the rows' numbers in the file,
    from 1. Those of ``bad`` (row in the chunk, what is wrong) could not be read. With ``records`` they are still in it,
    and their address is null; without it they are left out, and their number is that of the line itself.
    """

    batch: Any
    lines: Sequence[int]
    records: Any = None
    ends: Any = None
    bad: list[tuple[int, str]] = field(default_factory=list)

    def problems(self) -> list[tuple[int, str]]:
        """The rows that could not be read: their numbers in the file, and what is wrong."""
        return self.bad if self.records is None else [(self.lines[row], what) for row, what in self.bad]


class Reader(Protocol):
    """An open file of rows.

    ``header`` is the first line as it stands if a CSV's rows are handed out as they stand, else empty; ``schema``
    the columns if they are known beforehand, else None; ``rows`` how many there are, or None; ``word`` what a row
    is called in a message; ``column`` the name of the column of addresses.
    """

    header: bytes
    schema: Any
    rows: int | None
    word: str
    column: str

    def chunks(self) -> Iterator[Chunk]:
        """All rows.

        :raises DataFileError: if reading the file fails
        """

    def sample(self) -> Mapping[str, Iterable[Any]]:
        """The first values of the columns, by name: of those rows that `chunks` has handed out."""


class CsvReader:
    """A CSV file with a header; if ``as_is``, rows are handed out as they stand, in any encoding.

    The header is the first row that has the column, or one that is like it (`files.headers`); rows above it are titles,
    and ``said`` tells of both. ``word`` is what a line is called: a sheet has rows.

    ``delimiter`` stands between values; if it is None, that which a first line ``sep=;`` says, as Excel writes it, or
    that one of `DELIMITERS` with which the header has the column.

    A block is split in whole arrays. Where that would have to guess (a quotation mark inside of a value, a record that
    is longer than a block), the standard library's reader takes the next rows: it decides what they mean.

    :raises DataFileError: if it is empty
    :raises ColumnError: if the column is missing or there twice, or one of ``added`` is there already
    """

    rows: int | None = None

    def __init__(
        self,
        name: str,
        stream: BinaryIO,
        *,
        column: str,
        added: Sequence[str],
        as_is: bool,
        delimiter: str | None = None,
        word: str = "line",
    ) -> None:
        self._name = name
        self.word = word
        self.said: list[str] = []
        self._source = Source(name, stream)
        self._as_is = as_is
        self.column = column
        self._ahead: list[bytes] = []
        self._sample: list[bytes] = []
        self._above = b""
        self.delimiter = delimiter or self._likely_delimiter()
        names, header = self._header()
        check_columns(names, self.column, added)
        self.header = header if as_is else b""
        self._names = names
        self._place = names.index(self.column)
        self.schema = None if as_is else pa.schema([(name, pa.string()) for name in names])

    def _likely_delimiter(self) -> str:
        """The delimiter of the first line that is not blank; it is read again, unless it says what stands between."""
        text = ""
        while not text.strip():
            first = self._source.line()
            if not first:
                return DELIMITERS[0]
            self._ahead.append(first)
            text = first.decode("utf-8-sig", "replace")
        if said := SEPARATOR_LINE.fullmatch(text):
            self._above = b"".join(self._ahead)
            self._ahead.clear()
            return said[1]
        first_named = {each: self._names_in(text, each) for each in DELIMITERS}
        for _ in range(MOST_TITLES):
            for each in DELIMITERS:
                if column_like(self._names_in(text, each), self.column) is not None:
                    return each
            line = self._source.line()
            if not line:
                break
            self._ahead.append(line)
            text = line.decode("utf-8-sig", "replace")
        return max(DELIMITERS, key=lambda each: len(first_named[each]))

    @staticmethod
    def _names_in(text: str, delimiter: str) -> list[str]:
        try:
            return next(csv.reader([text], delimiter=delimiter), [])
        except csv.Error:
            return []

    def _header(self) -> tuple[list[str], bytes]:
        """The columns' names, and the bytes of the file up to their end; titles and blank lines are passed over."""
        before = self._above
        first: tuple[list[str], bytes] | None = None
        titles: list[str] = []
        for line, names, data in self._records():
            if names not in ([], [""]):
                found = column_like(names, self.column)
                if found is not None:
                    header = Header(names, self.delimiter, line - 1, titles)
                    self.said = said_of(self._name, self.word, header, {self.column: [found]})
                    self.column = found
                    return names, before + data
                first = first or (names, before + data)
                titles.append(" ".join(filter(None, map(str.strip, names))))
            before += data
            if len(titles) == MOST_TITLES:
                break
        if first is None:
            raise DataFileError(f"{self._name}: is empty: its first line should name the columns")
        return first

    def _records(self) -> Iterator[tuple[int, list[str], bytes]]:
        """Each record: the line on which it begins, its values, and its bytes. It reads no line too many."""
        number = self._source.line_number - len(self._ahead)
        taken: list[bytes] = []

        def texts() -> Iterator[str]:
            nonlocal number
            while line := self._ahead.pop(0) if self._ahead else self._source.line():
                number += 1
                taken.append(line)
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                try:
                    yield line.decode("utf-8", "replace" if self._as_is else "strict")
                except UnicodeDecodeError as error:
                    raise DataFileError(f"{self._name}, {self.word} {number}: is not UTF-8") from error

        reader = csv.reader(texts(), delimiter=self.delimiter)
        while True:
            begins = number + 1
            taken.clear()
            try:
                row = next(reader, None)
            except csv.Error as error:
                raise DataFileError(f"{self._name}, {self.word} {begins}: is not CSV: {reason(error)}") from error
            if row is None:
                return
            yield begins, row, b"".join(taken)

    def chunks(self) -> Iterator[Chunk]:
        """See `Reader`."""
        while True:
            data, ended = self._source.block()
            if not data:
                return
            found = split(data, self.delimiter, ended=ended) if self.delimiter.isascii() else None
            chunk = self._of_block(found) if found is not None else None
            if found is not None and chunk is not None:
                self._source.take(found.size, found.lines)
                yield chunk
            else:
                yield self._of_records()

    def sample(self) -> dict[str, list[str]]:
        """See `Reader`."""
        texts = (record.decode("utf-8", "replace") for record in self._sample)
        rows = [row for row in csv.reader(texts, delimiter=self.delimiter) if len(row) == len(self._names)]
        return {name: [row[place] for row in rows] for place, name in enumerate(self._names)}

    def _of_block(self, found: Records) -> Chunk | None:
        """The rows of a block; None if not all of their text is UTF-8, and it has to be: for another to say where."""
        width = len(self._names)
        before = self._source.line_number + 1
        lines = (
            [before + line for line in found.line]
            if isinstance(found.line, list)
            else range(before, before + len(found.line))
        )
        strange = np.flatnonzero((found.values != width) & (found.values != 0))
        bad = [
            (row, self._wrong_width(values))
            for row, values in zip(strange.tolist(), found.values[strange].tolist(), strict=True)
        ]
        if self._as_is:
            records = pieces(found.data, found.begins, found.ends)
            self._sample = self._sample or records[:ENOUGH_VALUES].to_pylist()
            return self._as_they_stand(
                lines, found.column(self._place, width), records, pieces(found.data, found.ends, found.follows), bad
            )
        whole = found.values == width
        kept = pa.array(whole)
        try:
            columns = [found.column(place, width).filter(kept).cast(pa.string()) for place in range(width)]
        except pa.ArrowInvalid:
            return None
        if not self._sample:
            self._sample = pieces(found.data, found.begins, found.ends)[:ENOUGH_VALUES].to_pylist()
        return self._in_columns(
            [lines[row] for row in np.flatnonzero(whole).tolist()], columns, [(lines[row], what) for row, what in bad]
        )

    def _of_records(self) -> Chunk:
        """The next rows, one by one."""
        lines: list[int] = []
        rows: list[list[str]] = []
        raw: list[bytes] = []
        bad: list[tuple[int, str]] = []
        size = 0
        for line, row, data in self._records():
            size += len(data)
            if row and len(row) != len(self._names):
                bad.append((len(lines) if self._as_is else line, self._wrong_width(len(row))))
                row = []
            if self._as_is or row:
                lines.append(line)
                rows.append(row)
                raw.append(data)
            if len(lines) >= CHUNK_ROWS or size >= _CHUNK_BYTES:
                break
        self._sample = self._sample or raw[:ENOUGH_VALUES]
        if self._as_is:
            cut = [split_record(data) for data in raw]
            records, ends = (pa.array([each[part] for each in cut], pa.binary()) for part in (0, 1))
            addresses = pa.array([row[self._place] if row else None for row in rows], pa.string())
            return self._as_they_stand(lines, addresses.cast(pa.binary()), records, ends, bad)
        columns = [pa.array([row[place] for row in rows], pa.string()) for place in range(len(self._names))]
        return self._in_columns(lines, columns, bad)

    def _wrong_width(self, values: int) -> str:
        return f"has {count(values, 'value')}, and the header names {len(self._names)} columns"

    def _as_they_stand(
        self, lines: Sequence[int], addresses: Any, records: Any, ends: Any, bad: list[tuple[int, str]]
    ) -> Chunk:
        batch = pa.RecordBatch.from_arrays([_none_if_empty(_as_text(addresses))], names=[self.column])
        return Chunk(batch=batch, lines=lines, records=records, ends=ends, bad=bad)

    def _in_columns(self, lines: Sequence[int], columns: list[Any], bad: list[tuple[int, str]]) -> Chunk:
        # An empty value stays empty text, except the address: in CSV, empty means that the row has no address.
        columns[self._place] = _none_if_empty(columns[self._place])
        return Chunk(batch=pa.RecordBatch.from_arrays(columns, schema=self.schema), lines=lines, bad=bad)


def _none_if_empty(texts: Any) -> Any:
    return pc.if_else(pc.equal(pc.binary_length(texts), 0), pa.scalar(None, texts.type), texts)


def _as_text(values: Any) -> Any:
    """Bytes as text; what is not UTF-8 in it is replaced."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [None if each is None else each.decode("utf-8", "replace") for each in values.to_pylist()], pa.string()
        )


def split_record(raw: bytes) -> tuple[bytes, bytes]:
    """A record and what ends its line."""
    for end in (b"\r\n", b"\n"):
        if raw.endswith(end):
            return raw[: -len(end)], end
    return raw, b""


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
        self.column = column
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
