"""The rows of CSV and NDJSON as they stand, read line by line: what `columns.readers` does in whole arrays."""

import codecs
import csv
import json
from collections.abc import Iterator

#: The line on which a row begins; its bytes without the end of its line, and that; its address; what is wrong with it.
Row = tuple[int, bytes, bytes, str | None, bool]


def csv_rows(data: bytes, column: str, delimiter: str) -> tuple[bytes, list[Row]]:
    """The header as it stands, and the rows after it.

    :raises csv.Error: if a row is not CSV
    """
    lines = _lines(data)
    records = _records(lines, delimiter)
    header, names = b"", list[str]()
    while names in ([], [""]):
        _, names, taken = next(records)
        header += taken
    found = []
    for line, row, taken in records:
        is_bad = bool(row) and len(row) != len(names)
        address = row[names.index(column)] or None if row and not is_bad else None
        found.append((line, *_split(taken), address, is_bad))
    return header, found


def _records(lines: list[bytes], delimiter: str) -> Iterator[tuple[int, list[str], bytes]]:
    taken: list[bytes] = []

    def texts() -> Iterator[str]:
        for number, line in enumerate(lines):
            taken.append(line)
            yield (line.removeprefix(codecs.BOM_UTF8) if number == 0 else line).decode("utf-8", "replace")

    number = 1
    for row in csv.reader(texts(), delimiter=delimiter):
        yield number, row, b"".join(taken)
        number += len(taken)
        taken.clear()


def ndjson_rows(data: bytes, column: str, added: tuple[str, ...]) -> list[Row]:
    """All rows."""
    found = []
    for number, line in enumerate(_lines(data), start=1):
        text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        record = line[: len(line) - len(text)] + text.rstrip()
        address, is_bad = None, False
        if text.strip():
            try:
                row = json.loads(text.decode("utf-8"), parse_constant=float)
            except ValueError:
                row = None
            is_bad = not isinstance(row, dict) or any(name in row for name in added)
            value = None if is_bad else row.get(column)
            address = value if value is None or isinstance(value, str) else json.dumps(value)
        found.append((number, record, line[len(record) :], address, is_bad))
    return found


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _split(raw: bytes) -> tuple[bytes, bytes]:
    end = b"\r\n" if raw.endswith(b"\r\n") else b"\n" if raw.endswith(b"\n") else b""
    return raw[: len(raw) - len(end)], end
