"""Rows and their answers, written as CSV, NDJSON or Parquet."""

import codecs
import contextlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, BinaryIO, Protocol

import numpy as np

from geolookup.base.reasons import reason
from geolookup.columns.arrow_addresses import pa, pc
from geolookup.columns.arrow_rows import decoded, plain_type
from geolookup.columns.blocks import bytes_of, data_of, pieces, without_blanks_after
from geolookup.columns.cells import CsvCells, joined, json_cells, json_of, shown_degrees
from geolookup.columns.readers import Chunk, Form, Reader, split_record
from geolookup.model.errors import DataFileError


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
    metadata: Mapping[str, str] = MappingProxyType({}),
) -> Writer:
    """A writer of one form for the rows of ``reader``; ``delimiter`` stands between the values of CSV.

    If ``out`` is a terminal, the text that it adds has unprintable characters escaped. Parquet has ``metadata`` beside
    that of the rows.
    """
    if form == "csv":
        return _CsvWriter(out, reader, [prefix + name for name in fields], terminal=terminal, delimiter=delimiter)
    if form == "ndjson":
        return _NdjsonWriter(out, [prefix + name for name in fields])
    return _ParquetWriter(out, reader, fields, prefix, metadata)


class _CsvWriter:
    """Lossless: rows that are handed out as they stand keep every byte, and values are not changed for spreadsheets."""

    def __init__(self, out: BinaryIO, reader: Reader, added: Sequence[str], *, terminal: bool, delimiter: str) -> None:
        self._out = out
        self._cells = CsvCells(delimiter, terminal=terminal)
        self._added = added
        self._begun = bool(reader.header)
        if reader.header:
            header, end = split_record(reader.header)
            more = [self._cells.between, self._names(added)]
            self._out.write(b"".join([header, *(more if added else []), end]))
        elif reader.schema is not None:
            self._begin(reader.schema.names)

    def _names(self, names: Sequence[str]) -> bytes:
        cells = self._cells.of(pa.array(names, pa.string())).to_pylist()
        return self._cells.between.join(cells)

    def _begin(self, names: Sequence[str]) -> None:
        self._begun = True
        self._out.write(self._names([*names, *self._added]) + b"\n")

    def write(self, chunk: Chunk, answers: Any) -> None:
        """See `Writer`."""
        more = [self._cells.of(shown_degrees(column)) for column in answers.columns]
        if chunk.records is None:
            if not self._begun:
                self._begin(chunk.batch.schema.names)
            columns = [self._cells.of(column) for column in chunk.batch.columns] + more
            between: list[Any] = [self._cells.between] * (len(columns) - 1)
            parts = [part for pair in zip(columns, [*between, b"\n"], strict=True) for part in pair]
            self._out.write(joined(parts, chunk.batch.num_rows))
            return
        parts = [part for cells in more for part in (self._cells.between, cells)]
        self._out.write(joined(_amended(chunk, chunk.records, parts), chunk.batch.num_rows))

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

    def write(self, chunk: Chunk, answers: Any) -> None:
        """See `Writer`."""
        if chunk.records is None:
            names = [*chunk.batch.schema.names, *self._added]
            values = [*chunk.batch.columns, *map(shown_degrees, answers.columns)]
            columns = dict(zip(names, values, strict=True))  # of two names the last
            self._out.write(joined([b"{", *self._members(columns), b"}\n"], chunk.batch.num_rows))
            return
        insides, tails = _opened(chunk.records)
        parts = self._members(dict(zip(self._added, map(shown_degrees, answers.columns), strict=True)))
        comma = pc.if_else(pc.ends_with(insides, b"{"), b"", b",")
        more = [pc.binary_join_element_wise(comma, *parts, b"}", b"")]
        self._out.write(joined(_amended(chunk, insides, more, tails), chunk.batch.num_rows))

    @staticmethod
    def _members(columns: dict[str, Any]) -> list[Any]:
        keys = [(b"," if at else b"") + json_of(name) + b":" for at, name in enumerate(columns)]
        return [part for key, column in zip(keys, columns.values(), strict=True) for part in (key, json_cells(column))]

    def close(self) -> None:
        """See `Writer`."""

    def abandon(self) -> None:
        """See `Writer`."""


def _amended(chunk: Chunk, records: Any, more: list[Any], tails: Any = None) -> list[Any]:
    """The parts of rows as they stand: their ``records``, and ``more`` behind them where there is a row.

    A value cannot be added in its place to a row that does not have the header's columns, or is not a row at all:
    there ``tails`` stands instead.
    """
    is_row = np.asarray(pc.greater(pc.binary_length(chunk.records), 0))
    if tails is not None and len(chunk.records) and chunk.records[0].as_py() == codecs.BOM_UTF8:
        is_row = is_row & (np.arange(len(is_row)) > 0)
    if chunk.bad:
        is_row = is_row.copy()
        is_row[[row for row, _ in chunk.bad]] = False
    if not is_row.all():
        mask = pa.array(is_row)
        more = (
            [pc.if_else(mask, pc.binary_join_element_wise(*more, b""), b"" if tails is None else tails)] if more else []
        )
    return [records, *more, chunk.ends]


def _opened(records: Any) -> tuple[Any, Any]:
    """JSON objects without their last brace, and the blanks before it; and what was left out."""
    data, offsets = data_of(records)
    begins, stops = offsets[:-1], offsets[1:]
    ends = without_blanks_after(bytes_of(data), begins, np.maximum(stops - 1, begins))
    return pieces(data, begins, ends), pieces(data, ends, stops)


class _ParquetWriter:
    """The input's columns and metadata as they are; answers as plain text, for which Parquet has its own dictionary.

    Otherwise the whole string table of the index would be written, once for each row group.
    """

    def __init__(
        self, out: BinaryIO, reader: Reader, fields: Sequence[str], prefix: str, metadata: Mapping[str, str]
    ) -> None:
        self._metadata = metadata
        self._out = out
        self._added = [pa.field(prefix + name, plain_type(name)) for name in fields]
        self._file: Any = None
        if reader.schema is not None:
            self._begin(reader.schema)

    def _begin(self, schema: Any) -> None:
        from pyarrow import parquet

        for field in self._added:
            schema = schema.append(field)
        self._schema = schema = schema.with_metadata({**(schema.metadata or {}), **_encoded(self._metadata)})
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


def _encoded(metadata: Mapping[str, str]) -> dict[bytes, bytes]:
    return {name.encode(): value.encode() for name, value in metadata.items()}
