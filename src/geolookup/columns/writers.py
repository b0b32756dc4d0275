"""Rows and their answers, written as CSV, NDJSON or Parquet."""

import codecs
import contextlib
from collections.abc import Sequence
from typing import Any, BinaryIO, Protocol

import msgspec

from geolookup.base.reasons import reason
from geolookup.base.text import harmless
from geolookup.columns.arrow_addresses import pa
from geolookup.columns.arrow_rows import decoded, plain_type
from geolookup.columns.readers import Chunk, Form, Reader
from geolookup.model.errors import DataFileError

_KNOWN_ANSWERS = 1 << 14
_LINE_ENDS = (b"\r\n", b"\n")


class Writer(Protocol):
    """Takes rows in their order; `close` completes the file, and leaves the stream open."""

    def write(self, chunk: Chunk, answers: Any) -> None:
        """Write a chunk's rows with ``answers``, a record batch with one column for each field."""

    def close(self) -> None:
        """Complete the file."""

    def abandon(self) -> None:
        """Release the file after a failure, whether it is complete or not."""


def open_writer(
    form: Form,
    out: BinaryIO,
    reader: Reader,
    fields: Sequence[str],
    prefix: str,
    *,
    terminal: bool = False,
    delimiter: str = ",",
) -> Writer:
    """A writer of one form for the rows of ``reader``; ``delimiter`` stands between the values of CSV.

    If ``out`` is a terminal, the text that it adds has unprintable characters escaped.
    """
    if form == "csv":
        return _CsvWriter(out, reader, [prefix + name for name in fields], terminal=terminal, delimiter=delimiter)
    if form == "ndjson":
        return _NdjsonWriter(out, [prefix + name for name in fields])
    return _ParquetWriter(out, reader, fields, prefix)


def _rows(answers: Any) -> list[tuple[Any, ...]]:
    return list(zip(*(decoded(column).to_pylist() for column in answers.columns), strict=True))


def _split(raw: bytes) -> tuple[bytes, bytes]:
    """A record and its line end."""
    for end in _LINE_ENDS:
        if raw.endswith(end):
            return raw[: -len(end)], end
    return raw, b""


class _CsvWriter:
    """Lossless: rows that are handed out as they stand keep every byte, and values are not changed for spreadsheets."""

    def __init__(self, out: BinaryIO, reader: Reader, added: Sequence[str], *, terminal: bool, delimiter: str) -> None:
        self._out = out
        self._delimiter = delimiter
        self._special = (delimiter, '"', "\r", "\n")
        self._known: dict[Sequence[Any], bytes] = {}
        self._added = added
        self._terminal = terminal
        self._begun = bool(reader.header)
        if reader.header:
            header, end = _split(reader.header)
            self._out.write(header + self._more(added) + end)
        elif reader.schema is not None:
            self._begin(reader.schema.names)

    def _begin(self, names: Sequence[str]) -> None:
        self._begun = True
        self._out.write(self._delimiter.join(map(self._cell, [*names, *self._added])).encode("utf-8") + b"\n")

    def write(self, chunk: Chunk, answers: Any) -> None:
        """See `Writer`."""
        rows = _rows(answers)
        if chunk.raw is None:
            if not self._begun:
                self._begin(chunk.batch.schema.names)
            columns = [column.to_pylist() for column in chunk.batch.columns]
            for row, answer in zip(zip(*columns, strict=True), rows, strict=True):
                self._out.write(
                    self._delimiter.join(map(self._cell, row + answer)).encode("utf-8", "backslashreplace") + b"\n"
                )
            return
        ragged = {row for row, _ in chunk.bad}
        for number, (raw, answer) in enumerate(zip(chunk.raw, rows, strict=True)):
            record, end = _split(raw)
            # A value cannot be added in its place to a row that does not have the header's columns, or is not a row at
            # all.
            more = b"" if number in ragged or not record else self._known.get(answer) or self._more(answer)
            self._out.write(record + more + end)

    def _more(self, values: Sequence[Any]) -> bytes:
        """The text after a row's last value; kept, since most logs have few answers, many times each."""
        if len(self._known) >= _KNOWN_ANSWERS:
            self._known.clear()
        more = "".join(f"{self._delimiter}{self._cell(value)}" for value in values).encode("utf-8")
        self._known[tuple(values)] = more
        return more

    def _cell(self, value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        text = value if isinstance(value, str) else _as_text(value)
        if self._terminal:
            text = harmless(text, 1 << 20)
        if any(character in text for character in self._special):
            return '"' + text.replace('"', '""') + '"'
        return text

    def close(self) -> None:
        """See `Writer`."""
        if not self._begun:
            self._begin([])

    def abandon(self) -> None:
        """See `Writer`."""


class _NdjsonWriter:
    """Objects that are handed out as they stand keep every byte: the answers follow their last member."""

    def __init__(self, out: BinaryIO, added: Sequence[str]) -> None:
        self._out = out
        self._added = added
        self._keys = [msgspec.json.encode(name) + b":" for name in added]

    def write(self, chunk: Chunk, answers: Any) -> None:
        """See `Writer`."""
        rows = _rows(answers)
        if chunk.raw is None:
            for row, answer in zip(chunk.batch.to_pylist(), rows, strict=True):
                row.update(zip(self._added, answer, strict=True))
                self._out.write(_encode(row) + b"\n")
            return
        bad = {row for row, _ in chunk.bad}
        for number, (raw, answer) in enumerate(zip(chunk.raw, rows, strict=True)):
            record = raw.rstrip()
            if number in bad or not record.removeprefix(codecs.BOM_UTF8):
                self._out.write(raw)
                continue
            inside = record[:-1].rstrip()
            more = b",".join(key + _encode(value) for key, value in zip(self._keys, answer, strict=True))
            comma = b"" if inside.endswith(b"{") else b","
            self._out.write(inside + comma + more + b"}" + raw[len(record) :])

    def close(self) -> None:
        """See `Writer`."""

    def abandon(self) -> None:
        """See `Writer`."""


class _ParquetWriter:
    """The input's columns and metadata as they are; answers as plain text, for which Parquet has its own dictionary.

    Otherwise the whole string table of the index would be written, once for each row group.
    """

    def __init__(self, out: BinaryIO, reader: Reader, fields: Sequence[str], prefix: str) -> None:
        self._out = out
        self._added = [pa.field(prefix + name, plain_type(name)) for name in fields]
        self._file: Any = None
        if reader.schema is not None:
            self._begin(reader.schema)

    def _begin(self, schema: Any) -> None:
        from pyarrow import parquet

        for field in self._added:
            schema = schema.append(field)
        self._schema = schema
        try:
            self._file = parquet.ParquetWriter(self._out, schema)
        except pa.ArrowException as error:
            raise DataFileError(f"these columns cannot be written as Parquet: {reason(error)}") from error

    def write(self, chunk: Chunk, answers: Any) -> None:
        """See `Writer`."""
        if self._file is None:
            self._begin(chunk.batch.schema)
        columns = [*chunk.batch.columns, *(decoded(column) for column in answers.columns)]
        self._file.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        """See `Writer`."""
        if self._file is None:
            self._begin(pa.schema([]))
        self._file.close()

    def abandon(self) -> None:
        """See `Writer`."""
        if self._file is not None:
            # Otherwise it would be closed when it is collected, long after ``out``, and report an error.
            with contextlib.suppress(pa.ArrowException, OSError, ValueError):
                self._file.close()
            self._file.is_open = False


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=str)


def _as_text(value: Any) -> str:
    text = _encode(value).decode("utf-8")
    # Dates and similar values come as JSON text; without its quotes, that is how CSV writes them.
    return text[1:-1] if text.startswith('"') else text
