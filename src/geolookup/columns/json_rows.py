"""NDJSON, some thousand rows at a time: rows as they stand, of which one member is read, or whole columns."""

import codecs
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from geolookup.base.reasons import reason
from geolookup.columns.arrow_addresses import pa
from geolookup.columns.blocks import Source, bytes_of, pieces, without_blanks_after
from geolookup.columns.common import ENOUGH_VALUES
from geolookup.columns.readers import CHUNK_ROWS, Chunk
from geolookup.model.addresses import to_text
from geolookup.model.errors import ColumnError, DataFileError

_LF: Final = 10
_OPENS, _CLOSES = b"{}"


class NdjsonReader:
    """A file of JSON objects, one a line (https://github.com/ndjson/ndjson-spec); blank lines are not rows.

    A byte order mark at its beginning is skipped (RFC 8259, section 8.1). If ``as_is``, a row is read no further than
    to see that it is JSON, and what address it has. Else the members of the first rows decide which columns there are,
    and of which types.
    """

    rows: int | None = None
    word = "line"
    header = b""
    schema: Any = None

    def __init__(self, name: str, stream: BinaryIO, *, column: str, added: Sequence[str], as_is: bool) -> None:
        self._name = name
        self._source = Source(name, stream)
        self.column = column
        self._added = added
        self._as_is = as_is
        self._fixed: Any = None
        self._has_rows = self._has_column = False
        self._sample: list[bytes] = []
        self._glance = _Glance(column, added)

    def chunks(self) -> Iterator[Chunk]:
        """See `Reader`.

        :raises ColumnError: at the end, if no row had the column
        """
        while (chunk := self._of_block() if self._as_is else self._of_rows()) is not None:
            yield chunk
        if self._has_rows and not self._has_column:
            raise ColumnError(f"{self._name}: no row has a member {self.column!r}")

    def sample(self) -> dict[str, list[Any]]:
        """See `Reader`."""
        rows = []
        for data in self._sample:
            with contextlib.suppress(ValueError, RecursionError):
                rows.append(_object(data))
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [_address(row.get(name)) for row in rows] for name in names}

    def _of_block(self) -> Chunk | None:
        """The rows of the next block as they stand."""
        data, ended = self._source.block()
        size = len(data) if ended else data.rfind(b"\n") + 1
        before = self._source.line_number
        if size:
            data = data[:size]
            self._source.take(size, data.count(b"\n") + (not data.endswith(b"\n")))
        else:
            data = self._source.line()  # it is longer than a block
        if not data:
            return None
        octets = bytes_of(data)
        stops = np.append(np.flatnonzero(octets[:-1] == _LF), len(data) - (octets[-1] == _LF))
        begins = np.append(0, stops[:-1] + 1)
        follows = np.append(begins[1:], len(data))
        if before == 0 and data.startswith(codecs.BOM_UTF8):
            begins[0] = len(codecs.BOM_UTF8)
        ends = without_blanks_after(octets, begins, stops)
        rows = np.flatnonzero(ends > begins)
        self._has_rows |= len(rows) > 0
        found, bad = self._addresses(data, begins[rows], ends[rows])
        addresses = np.full(len(begins), None, np.object_)
        addresses[rows] = found
        begins[0] = 0
        return Chunk(
            batch=pa.RecordBatch.from_arrays([pa.array(addresses, pa.string())], names=[self.column]),
            lines=range(before + 1, before + 1 + len(begins)),
            records=pieces(data, begins, ends),
            ends=pieces(data, ends, follows),
            bad=[(int(rows[at]), what) for at, what in bad],
        )

    def _addresses(
        self, data: bytes, begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[list[str | None], list[tuple[int, str]]]:
        """The address of each row; and the rows that cannot be read, with the reason."""
        if not self._sample:
            self._sample = pieces(data, begins[:ENOUGH_VALUES], ends[:ENOUGH_VALUES]).to_pylist()
        bad: list[tuple[int, str]] = []
        found = self._glance.all_of(data, begins, ends)
        if found is None:
            found = []
            for at, text in enumerate(pieces(data, begins, ends).to_pylist()):
                try:
                    found.append(self._address_in(text))
                except (ValueError, RecursionError) as error:
                    found.append(msgspec.UNSET)
                    bad.append((at, reason(error)))
        self._has_column = self._has_column or any(value is not msgspec.UNSET for value in found)
        return [value if type(value) is str else _address(value) for value in found], bad

    def _address_in(self, text: bytes) -> Any:
        """The address of a row as it stands in JSON, UNSET if it has none.

        :raises ValueError: if the row cannot be read
        """
        try:
            return self._glance.at(text)
        except ValueError:  # this says why
            return self._row(text).get(self.column, msgspec.UNSET)

    def _of_rows(self) -> Chunk | None:
        """The next rows, in columns."""
        lines: list[int] = []
        rows: list[dict[str, Any]] = []
        bad: list[tuple[int, str]] = []
        while len(lines) < CHUNK_ROWS and (data := self._source.line()):
            number = self._source.line_number
            text = data.removeprefix(codecs.BOM_UTF8) if number == 1 else data
            if not text.strip():
                continue
            self._has_rows = True
            try:
                row = self._row(text)
            except (ValueError, RecursionError) as error:
                bad.append((number, reason(error)))
                continue
            if len(self._sample) < ENOUGH_VALUES and self._fixed is None:
                self._sample.append(text)
            if row:
                lines.append(number)
                rows.append(row)
        return self._chunk(lines, rows, bad) if lines or bad else None

    def _row(self, data: bytes) -> dict[str, Any]:
        row = _object(data)
        for name in self._added:
            if name in row:
                raise ValueError(f"has a member {name!r} already")
        self._has_column |= self.column in row
        return row

    def _chunk(self, lines: list[int], rows: list[dict[str, Any]], bad: list[tuple[int, str]]) -> Chunk:
        before = f"{self._name}, after line {lines[0] - 1 if lines else self._source.line_number}"
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
                raise DataFileError(f"{before}: has a member {strange!r} that the first rows lack")
            columns = [pa.array([self._value(row, field.name) for row in rows], field.type) for field in self._fixed]
        except (pa.ArrowException, OverflowError) as error:
            raise DataFileError(f"{before}: the rows do not fit the columns of those before") from error
        return Chunk(batch=pa.RecordBatch.from_arrays(columns, schema=self._fixed), lines=lines, bad=bad)

    def _value(self, row: dict[str, Any], name: str) -> Any:
        return _address(row.get(name)) if name == self.column else row.get(name)


def _object(data: bytes) -> dict[str, Any]:
    """:raises ValueError: if it is no JSON object"""
    try:
        row = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise ValueError(f"is not JSON: {reason(error)}") from error
    if not isinstance(row, dict):
        raise ValueError("is not a JSON object")  # noqa: TRY004 - it is the row that is wrong
    return row


def _address(value: Any) -> str | None:
    """A JSON value as the text of an address; a value that is not an address becomes text that is not one either."""
    if value is None or value is msgspec.UNSET:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 32:
        return to_text(4, value)
    return msgspec.json.encode(value).decode("utf-8")


class _Glance:
    """Reads the member ``column`` of objects that have none of the members ``added``; UNSET stands for a missing one.

    Numbers that are not asked for may be larger than Python's.
    """

    def __init__(self, column: str, added: Sequence[str]) -> None:
        others = [name for name in added if name != column]
        names = {"address": column, **{f"added{at}": name for at, name in enumerate(others)}}
        self._added = list(names)[1:]
        self._keys = [msgspec.json.encode(name) for name in others]
        self._decoder: Any = None
        if column in added:
            return
        try:
            shape = msgspec.defstruct("Row", [(name, Any, msgspec.UNSET) for name in names], rename=names, gc=False)
        except ValueError:  # of names that would have to be escaped
            return
        self._decoder = msgspec.json.Decoder(shape)

    def at(self, data: bytes) -> Any:
        """The member of one object.

        :raises ValueError: if it cannot be read so, or has one of ``added``
        """
        if self._decoder is None:
            raise ValueError
        data.decode("utf-8")  # the decoder does not look at the text of other members
        row = self._decoder.decode(data)
        if self._has_added(row):
            raise ValueError
        return row.address

    def all_of(self, data: bytes, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> list[Any] | None:
        """The members of the objects between these places, one a line; None if one of them cannot be read so."""
        octets = bytes_of(data)
        # Nothing in an object has a brace at the end of a line and one at the beginning of the next, so none is longer
        # than its line; and if there are as many objects as lines, none is shorter.
        if self._decoder is None or (octets[begins] != _OPENS).any() or (octets[ends - 1] != _CLOSES).any():
            return None
        try:
            data.decode("utf-8")
            rows = self._decoder.decode_lines(data[int(begins[0]) :]) if len(begins) else []
        except (ValueError, RecursionError):
            return None
        if len(rows) != len(begins):
            return None
        may_have = b"\\" in data or any(key in data for key in self._keys)
        if may_have and any(map(self._has_added, rows)):
            return None
        return [row.address for row in rows]

    def _has_added(self, row: Any) -> bool:
        return any(getattr(row, name) is not msgspec.UNSET for name in self._added)
