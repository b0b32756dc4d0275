"""The process that reads a workbook (.xlsx, .ods), started by `files.workbooks`: ``python -m`` this, bounded in memory
and time, since a file of a kilobyte may name a cell that takes a terabyte.

Standard input is the workbook. Standard output is a file: the sheets as CSV (UTF-8, one line a row, from row 1 on),
then a JSON array of `workbooks.Sheet`, and its length in eight bytes. A cell that has a formula or an error in place of
a value is written with a ``=`` or ``#`` before it, so that it passes for no value.
"""

import csv
import datetime
import io
import json
import os
import posixpath
import resource
import sys
import zipfile
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final
from xml.etree import ElementTree
from xml.parsers import expat

from geolookup.base.reasons import reason

#: The exit status if the file is no workbook that can be read; the reason is on standard error.
UNREADABLE: Final = 3
#: The exit status if what it holds cannot be written; the reason is on standard error.
UNWRITABLE: Final = 4
_RELATIONSHIP: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_PIECE: Final = 1 << 20

#: Cells without a value, by row and column from 0, and what stands in them.
_Lacking = dict[tuple[int, int], str]


def main() -> int:
    """Read, convert and write."""
    memory_bytes, seconds, file_bytes, wanted = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from python_calamine import CalamineError, SheetTypeEnum, SheetVisibleEnum, load_workbook

    data = io.BytesIO(sys.stdin.buffer.read())
    out = sys.stdout.buffer
    sheets = []
    try:
        workbook = load_workbook(data)
        lacking = _Cells(zipfile.ZipFile(data))
        for about in workbook.sheets_metadata:
            if about.typ != SheetTypeEnum.WorkSheet:
                continue
            visible = about.visible == SheetVisibleEnum.Visible
            begun = out.tell()
            if about.name in wanted or (visible and not wanted):
                _write(out, workbook.get_sheet_by_name(about.name), lacking.of(about.name))
            sheets.append({"name": about.name, "visible": visible, "begin": begun, "end": out.tell()})
        index = json.dumps(sheets).encode()
        out.write(index + len(index).to_bytes(8, "big"))
        out.flush()
    except (CalamineError, zipfile.BadZipFile, expat.ExpatError, ElementTree.ParseError, KeyError, ValueError) as error:
        sys.stderr.write(f"{reason(error)}\n")
        return UNREADABLE
    except OSError as error:
        sys.stderr.write(f"{error.strerror}\n")
        return UNWRITABLE
    return 0


def _write(out: Any, sheet: Any, lacking: _Lacking) -> None:
    if sheet.start is None:
        return
    left = sheet.start[1]
    without: dict[int, dict[int, str]] = {}
    for (row, column), said in lacking.items():
        if left <= column < left + sheet.width:
            without.setdefault(row, {})[column - left] = said
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    below = range(sheet.end[0] + 1, max(without, default=0) + 1)
    # A cell that is merged over several rows says the same of each.
    merged = sorted(
        (first[0], last[0], first[1] - left)
        for first, last in sheet.merged_cell_ranges or ()
        if last[0] > first[0] and 0 <= first[1] - left < sheet.width
    )
    going: list[tuple[int, int, str]] = []
    for number, row in enumerate(chain(sheet.iter_rows(), ([""] * sheet.width for _ in below))):
        values = list(map(_text, row))
        if merged or going:
            going = [each for each in going if each[0] >= number]
            for _, column, said in going:
                values[column] = said
            while merged and merged[0][0] <= number:
                _, until, column = merged.pop(0)
                going.append((until, column, values[column]))
        for column, said in without.get(number, {}).items():
            values[column] = said
        if any(values):
            writer.writerow(values)
        else:
            text.write("\n")
        if text.tell() > _PIECE:
            out.write(text.getvalue().encode("utf-8", "replace"))
            text.seek(0)
            text.truncate()
    out.write(text.getvalue().encode("utf-8", "replace"))


def _text(value: Any) -> str:
    """A cell's value as a person sees it, on one line."""
    if isinstance(value, str):
        return value if value.isprintable() else " ".join(value.split())
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime.datetime | datetime.time):
        return value.isoformat(*(" ",) if isinstance(value, datetime.datetime) else ())
    return str(value)


class _Cells:
    """The cells of a workbook that have no value, though something stands in them: calamine reads them as empty."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._paths = dict(self._sheets()) if "xl/workbook.xml" in archive.namelist() else None
        self._ods = {} if self._paths is not None else self._of_ods()

    def of(self, sheet: str) -> _Lacking:
        """Those of a sheet."""
        if self._paths is None:
            return self._ods.get(sheet, {})
        path = self._paths.get(sheet)
        return {} if path is None or not self._has(path, (b"<f", b":f>", b":f ", b't="e"')) else self._of_xlsx(path)

    def _has(self, path: str, marks: Iterable[bytes]) -> bool:
        """True if one of the marks is in a file.

        :raises ValueError: if that is cut short, which calamine lets pass
        """
        found = False
        with self._archive.open(path) as file:
            before = b""
            while piece := file.read(_PIECE):
                found = found or any(mark in before + piece for mark in marks)
                before = (before + piece)[-64:]
        if not before.rstrip().endswith((b"worksheet>", b"document-content>")):
            raise ValueError(f"{path} has no end")
        return found

    def _sheets(self) -> Iterator[tuple[str, str]]:
        """The file of each sheet (ECMA-376, part 1, section 18.2.19), as far as it has one."""
        related = ElementTree.fromstring(self._archive.read("xl/_rels/workbook.xml.rels"))  # noqa: S314 - see the top
        targets = {each.get("Id"): each.get("Target", "") for each in related}
        book = ElementTree.fromstring(self._archive.read("xl/workbook.xml"))  # noqa: S314 - see the top
        names = {*self._archive.namelist()}
        for sheet in book.iterfind(".//{*}sheet"):
            path = posixpath.normpath(posixpath.join("xl", targets.get(sheet.get(_RELATIONSHIP), ""))).lstrip("/")
            path = path.removeprefix("xl/xl/") if path not in names else path
            if path in names:
                yield sheet.get("name", ""), path

    def _parse(self, path: str, begin: Any, end: Any, said: Any = None) -> None:
        parser = expat.ParserCreate()
        parser.StartElementHandler, parser.EndElementHandler = begin, end
        if said is not None:
            parser.CharacterDataHandler = said
        with self._archive.open(path) as file:
            parser.ParseFile(file)

    def _of_xlsx(self, path: str) -> _Lacking:
        found: _Lacking = {}
        cell: dict[str, Any] = {}

        def begin(name: str, attributes: dict[str, str]) -> None:
            name = name.rpartition(":")[2]
            if name == "c":
                cell.clear()
                cell.update(attributes, texts={})
            elif name in ("f", "v", "is"):
                cell["in"] = name
                cell.setdefault("texts", {}).setdefault(name, "")

        def said(text: str) -> None:
            if cell.get("in"):
                cell["texts"][cell["in"]] += text

        def end(name: str) -> None:
            name = name.rpartition(":")[2]
            if name in ("f", "v", "is"):
                cell["in"] = ""
            elif name == "c" and cell.get("r"):
                texts = cell["texts"]
                if cell.get("t") == "e":
                    found[_position(cell["r"])] = texts.get("v") or "#ERROR"
                elif "f" in texts and not texts.get("v") and not texts.get("is"):
                    found[_position(cell["r"])] = f"={texts['f']}"

        self._parse(path, begin, end, said)
        return found

    def _of_ods(self) -> dict[str, _Lacking]:
        """By sheet (OpenDocument 1.3, part 3, section 19.642: a formula without a value of any type)."""
        if not self._has("content.xml", (b"table:formula",)):
            return {}
        found: dict[str, _Lacking] = {}
        at = {"row": 0, "column": 0, "rows": 0}
        sheet: list[str] = []

        def begin(name: str, attributes: dict[str, str]) -> None:
            if name == "table:table":
                at.update(row=0, column=0, rows=0)
                sheet[:] = [attributes.get("table:name", "")]
            elif name == "table:table-row":
                at["row"] += at["rows"]
                at.update(column=0, rows=int(attributes.get("table:number-rows-repeated", "1")))
            elif name in ("table:table-cell", "table:covered-table-cell"):
                formula = attributes.get("table:formula")
                lacks = attributes.get("office:value-type") is None or attributes.get("calcext:value-type") == "error"
                if formula is not None and lacks:
                    found.setdefault(sheet[0], {})[at["row"], at["column"]] = "=" + formula.partition("=")[2]
                at["column"] += int(attributes.get("table:number-columns-repeated", "1"))

        self._parse("content.xml", begin, lambda _name: None)
        return found


def _position(reference: str) -> tuple[int, int]:
    """``B3`` as row and column from 0."""
    letters = reference.rstrip("0123456789")
    column = 0
    for letter in letters:
        column = column * 26 + ord(letter) - ord("A") + 1
    return int(reference[len(letters) :]) - 1, column - 1


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)  # what Rust and Python would free, the system frees faster
