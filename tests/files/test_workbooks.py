"""Workbooks as people make them, written by openpyxl; and hostile ones, refused or harmless within 200 MiB."""

import datetime
import io
import itertools
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from geolookup.files.opened import Opened, content_of
from geolookup.files.streams import Limits
from geolookup.model.errors import DataFileError

openpyxl = pytest.importorskip("openpyxl")

_CONTENT = """<?xml version="1.0" encoding="UTF-8"?>
<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0">
<office:body><office:spreadsheet><table:table table:name="Sites">{rows}</table:table></office:spreadsheet></office:body>
</office:document-content>"""


def saved(path: Path, fill: Callable[[Any], None], *, title: str = "Sites") -> Path:
    book = openpyxl.Workbook()
    book.active.title = title
    fill(book.active)
    book.save(path)
    return path


def ods(path: Path, rows: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", _CONTENT.format(rows=rows))
        archive.writestr(
            "META-INF/manifest.xml",
            '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0" '
            'manifest:version="1.2"><manifest:file-entry manifest:full-path="/" '
            'manifest:media-type="application/vnd.oasis.opendocument.spreadsheet"/></manifest:manifest>',
        )
    return path


def rewritten(path: Path, member: str, change: Callable[[bytes], bytes | Iterable[bytes]]) -> Path:
    """The workbook with one of its files changed, or added."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    changed = change(files.pop(member, b""))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        with archive.open(member, "w") as out:
            for piece in [changed] if isinstance(changed, bytes) else changed:
                out.write(piece)
    return path


def lines(path: Path, sheet: str | None = None) -> list[str]:
    opened = Opened(path, Limits(), sheet=sheet)
    try:
        (member,) = opened.members
        with member.open() as stream:
            return stream.read().decode("utf-8").split("\n")[:-1]
    finally:
        opened.close()


def test_cells_are_read_as_a_person_sees_them_each_row_on_the_line_of_its_number(tmp_path: Path) -> None:
    def fill(sheet: Any) -> None:
        sheet["B2"] = "shared"
        sheet["B4"], sheet["C4"], sheet["D4"], sheet["E4"] = "shared", 1067, 52.5, True
        sheet["F4"] = "two\nlines"
        sheet["G4"] = "01067"
        sheet["H4"] = datetime.date(2012, 5, 3)
        sheet["I4"] = datetime.datetime(2012, 5, 3, 4, 5)  # noqa: DTZ001 - as cells are
        sheet["J4"] = 'a "quote", and more'

    assert lines(saved(tmp_path / "a.xlsx", fill)) == [
        "",
        "shared,,,,,,,,",
        "",
        'shared,1067,52.5,TRUE,two lines,01067,2012-05-03,2012-05-03 04:05:00,"a ""quote"", and more"',
    ]


def test_hidden_rows_and_merged_titles_are_read_and_empty_rows_cost_nothing(tmp_path: Path) -> None:
    def fill(sheet: Any) -> None:
        sheet["A1"] = "Our sites"
        sheet.merge_cells("A1:C1")
        sheet.append(["name", "blocks", "city"])
        sheet.append(["a", "10.1.0.0/16", "x"])
        sheet.row_dimensions[3].hidden = True
        sheet.row_dimensions[1_048_576].height = 30

    assert lines(saved(tmp_path / "a.xlsx", fill)) == ["Our sites,,", "name,blocks,city", "a,10.1.0.0/16,x"]


def test_a_cell_that_is_merged_over_rows_says_the_same_of_each(tmp_path: Path) -> None:
    def fill(sheet: Any) -> None:
        for row in (["name", "blocks"], ["a", "10.1.0.0/16"], ["", "10.2.0.0/16"], ["b", "10.3.0.0/16"]):
            sheet.append(row)
        sheet.merge_cells("A2:A3")

    assert lines(saved(tmp_path / "a.xlsx", fill)) == ["name,blocks", "a,10.1.0.0/16", "a,10.2.0.0/16", "b,10.3.0.0/16"]


def test_the_date_of_a_workbook_that_counts_from_1904_is_that_date(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    book = openpyxl.Workbook()
    book.epoch = openpyxl.utils.datetime.CALENDAR_MAC_1904
    book.active["A1"] = datetime.date(2012, 5, 3)
    book.save(path)
    assert lines(path) == ["2012-05-03"]


def test_formulas_without_a_value_and_errors_stand_there_as_such(tmp_path: Path) -> None:
    def fill(sheet: Any) -> None:
        sheet.append(["name", "blocks", "city"])
        sheet.append(["a", '=B9&"/24"', "x"])
        sheet.append(["b", "#N/A", "=A1"])

    path = saved(tmp_path / "a.xlsx", fill)
    assert lines(path) == ["name,blocks,city", 'a,"=B9&""/24""",x', "b,#N/A,=A1"]


def test_a_formula_with_a_value_is_the_value(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.xlsx", lambda sheet: sheet.append(["name", "=1+1"]))
    rewritten(
        path,
        "xl/worksheets/sheet1.xml",
        lambda data: data.replace(b"<v></v>", b"<v>2</v>").replace(b"<v />", b"<v>2</v>").replace(b"<v/>", b"<v>2</v>"),
    )
    assert lines(path) == ["name,2"]


def test_sheets_are_files_and_hidden_ones_are_read_if_they_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    book = openpyxl.Workbook()
    book.active.title = "Info"
    book.active["A1"] = "read me"
    book.create_sheet("Sites")["A1"] = "name"
    book.create_sheet("Old")["A1"] = "hidden"
    book["Old"].sheet_state = "hidden"
    book.create_sheet("Empty")
    book.save(path)
    opened = Opened(path, Limits())
    assert [(member.inside, member.head) for member in opened.members] == [("Info", b"read me\n"), ("Sites", b"name\n")]
    opened.close()
    assert lines(path, "Old") == ["hidden"]
    with pytest.raises(DataFileError, match=r"has no sheet 'sites': there are Info, Sites, Old, Empty"):
        Opened(path, Limits(), sheet="sites")
    with path.open("rb") as stream, pytest.raises(DataFileError, match=r"several sheets: Info, Sites\. .*--sheet NAME"):
        content_of("a.xlsx", stream)
    with path.open("rb") as stream:
        assert content_of("a.xlsx", stream, sheet="Sites").read() == b"name\n"


def test_an_ods_is_read_and_its_formulas_without_a_value_stand_there(tmp_path: Path) -> None:
    text = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
    rows = (
        f"<table:table-row>{text.format('name')}{text.format('blocks')}{text.format('city')}</table:table-row>"
        '<table:table-row table:number-rows-repeated="2"><table:table-cell table:number-columns-repeated="3"/>'
        "</table:table-row>"
        f'<table:table-row>{text.format("a")}<table:table-cell table:formula="of:=[.A1]"/>{text.format("x")}'
        "</table:table-row>"
    )
    assert lines(ods(tmp_path / "a.ods", rows)) == ["name,blocks,city", "", "", "a,=[.A1],x"]


def test_what_is_no_workbook_that_is_read_is_refused_by_name(tmp_path: Path) -> None:
    old = tmp_path / "a.xls"
    old.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    with pytest.raises(DataFileError, match=r"a\.xls: is an Excel file with a password, or of the old format"):
        Opened(old, Limits())
    path = saved(tmp_path / "a.xlsx", lambda sheet: sheet.append(["name"]))
    rewritten(path, "xl/worksheets/sheet1.xml", lambda data: data[: len(data) // 2])
    with pytest.raises(DataFileError, match=r"the workbook is damaged or was cut short"):
        Opened(path, Limits())
    with pytest.raises(DataFileError, match="is not a workbook, and has no sheet"):
        Opened(__file__, Limits(), sheet="Sites")


# Hostile workbooks


def _far(sheet: Any) -> None:
    sheet["XFD1048576"] = "far"


def _near_and_far(sheet: Any) -> None:
    sheet["A1"] = "near"
    _far(sheet)


def _wide(sheet: Any) -> None:
    for row in (1, 2, 3):
        for column in range(1, 16_385):
            sheet.cell(row, column, f"{column}")


def _big_xml(member: str, before: bytes, piece: bytes, after: bytes) -> Callable[[Path], Path]:
    """A bomb: a file of the workbook that expands to 300 MB."""

    def make(path: Path) -> Path:
        saved(path, lambda sheet: sheet.append(["name"]))
        pieces = itertools.repeat(piece * 1000, 300_000 // len(piece))
        return rewritten(path, member, lambda _data: itertools.chain([before], pieces, [after]))

    return make


_SHEET = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
_ENTITY = b"""<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd"><!ENTITY b "%s">]>
<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row r="1">
<c r="A1" t="inlineStr"><is><t>&a;&b;</t></is></c><c r="B1"><f>A1</f></c></row></sheetData></worksheet>"""


def _entities(path: Path) -> Path:
    saved(path, lambda sheet: sheet.append(["name"]))
    return rewritten(path, "xl/worksheets/sheet1.xml", lambda _data: _ENTITY % (b"lol" * 1000))


HOSTILE: dict[str, Callable[[Path], Path]] = {
    "one cell at the end": lambda path: saved(path, _far),
    "two cells at both ends": lambda path: saved(path, _near_and_far),
    "16,384 columns": lambda path: saved(path, _wide),
    "external entities": _entities,
    "a shared strings bomb": _big_xml(
        "xl/sharedStrings.xml",
        b'<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">',
        b"<si><t>" + b"x" * 1000 + b"</t></si>",
        b"</sst>",
    ),
    "a bomb of cells": _big_xml(
        "xl/worksheets/sheet1.xml",
        _SHEET + b'<row r="1">',
        b'<c t="inlineStr"><is><t>' + b"x" * 1000 + b"</t></is></c>",
        b"</row></sheetData></worksheet>",
    ),
}

_MEASURE = """
import resource, sys
from geolookup.files.opened import Opened
from geolookup.files.streams import Limits
from geolookup.model.errors import DataFileError
try:
    opened = Opened(sys.argv[1], Limits())
    print(sum(len(member.head) for member in opened.members))
except DataFileError as error:
    print("refused:", error)
# Not what the kernel says of this process itself: before it was this program, it was a copy of the tests' process.
own = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds the limit of memory")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_workbook_is_refused_or_harmless_within_200_mib(name: str, tmp_path: Path) -> None:
    path = HOSTILE[name](tmp_path / "a.xlsx")
    command = [sys.executable, "-c", _MEASURE, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told, most = done.stdout.splitlines()
    assert int(most) < 200 << 10, "kilobytes"
    assert "root:" not in told
    if name in ("two cells at both ends", "a shared strings bomb"):
        assert "takes more than 200 MiB of memory" in told


def test_a_child_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = HOSTILE["a bomb of cells"](tmp_path / "a.xlsx")
    monkeypatch.setattr("geolookup.files.workbooks._CPU_S", 0)
    with pytest.raises(DataFileError, match="the workbook took more than 0 s to read: it was not read"):
        Opened(path, Limits())


def test_a_workbook_whose_rows_do_not_fit_on_the_disk_is_refused(tmp_path: Path) -> None:
    from geolookup.files.workbooks import convert

    path = saved(tmp_path / "a.xlsx", lambda sheet: [sheet.append(["x" * 1000]) for _ in range(100)])
    with path.open("rb") as file, pytest.raises(DataFileError, match="could not be written: File too large"):
        convert("a.xlsx", file, most_bytes=1000)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000


# Text in UTF-16


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_read_as_utf8(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.csv"
    text = "name,city\n" + "a,K\xf6ln \U0001f600\n" * 100_000
    path.write_bytes(text.encode(encoding))
    (member,) = Opened(path, Limits()).members
    with member.open() as stream:
        assert stream.read() == text.encode()
    assert content_of("a.csv", io.BytesIO(path.read_bytes())).read() == text.encode()
    path.write_bytes(text.encode(encoding)[:-1])
    with pytest.raises(DataFileError, match="the file is damaged or was cut short"), member.open() as stream:
        stream.read()
