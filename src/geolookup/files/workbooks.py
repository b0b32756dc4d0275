"""Workbooks (.xlsx, .ods): each sheet as a file of CSV, converted by a process of its own that has its limits."""

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from typing import IO, Any, Final

from geolookup.base.text import harmless
from geolookup.files.streams import reading_errors
from geolookup.files.workbook_child import UNREADABLE, UNWRITABLE
from geolookup.model.errors import DataFileError

#: The memory that reading a workbook may take: that of a hostile small one, and more for each byte of a large one.
_MEMORY_BYTES: Final = 200 << 20
_MEMORY_PER_BYTE: Final = 24
_MOST_MEMORY_BYTES: Final = 2 << 30
#: The processor time after which it is given up.
_CPU_S: Final = 60
_TAIL_BYTES: Final = 8
_ODS: Final = b"application/vnd.oasis.opendocument.spreadsheet"
#: The beginning of OLE files: Excel before 2007, and workbooks with a password.
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


@dataclass(frozen=True, slots=True)
class Sheet:
    """A sheet with rows: its name, and where its CSV is in the file of `convert`."""

    name: str
    visible: bool
    begin: int
    end: int


class Part(io.RawIOBase):
    """Bytes of an open file from one position to another. Several may read it in turns; it stays open with them."""

    def __init__(self, file: IO[bytes], begin: int, end: int) -> None:
        self._file = file
        self._at = begin
        self._end = end

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See `io.RawIOBase`."""
        self._file.seek(self._at)
        data = self._file.read(min(len(buffer), self._end - self._at))
        self._at += len(data)
        buffer[: len(data)] = data
        return len(data)


def is_workbook(archive: zipfile.ZipFile) -> bool:
    """True if a zip archive is a workbook of one of the two formats."""
    names = archive.namelist()
    if "xl/workbook.xml" in names:
        return True
    if "mimetype" not in names or "content.xml" not in names:
        return False
    with archive.open("mimetype") as file:
        return file.read(len(_ODS) + 1).strip() == _ODS


def refuse_old(name: str, head: bytes) -> None:
    """Refuse an Excel file of before 2007, or one with a password.

    :raises DataFileError: if the file begins as they do
    """
    if head.startswith(_OLE):
        raise DataFileError(
            f"{name}: is an Excel file with a password, or of the old format .xls: save it as .xlsx without a password"
        )


def convert(
    name: str, file: IO[bytes], *, sheet: str | None = None, most_bytes: int = 4 << 30
) -> tuple[IO[bytes], list[Sheet]]:
    """The sheets of a workbook that have rows and are not hidden, as CSV in a file without a name.

    ``sheet`` is the only one that is read, hidden or not.

    :raises DataFileError: if it is damaged, takes more memory or time than it may, or has no such sheet
    """
    with reading_errors(name):
        size = os.fstat(file.fileno()).st_size
        out = tempfile.TemporaryFile(prefix="geolookup-")  # noqa: SIM115 - the caller closes it
    try:
        memory = min(max(_MEMORY_BYTES, _MEMORY_PER_BYTE * size), _MOST_MEMORY_BYTES)
        _run(name, file, out, memory, most_bytes, sheet)
        with reading_errors(name):
            end = out.seek(-_TAIL_BYTES, os.SEEK_END)
            length = int.from_bytes(out.read(_TAIL_BYTES), "big")
            out.seek(end - length)
            index: list[dict[str, Any]] = json.loads(out.read(length))
        found = [Sheet(**each) for each in index]
        names = ", ".join(harmless(each.name, 40) for each in found)
        if sheet is not None and sheet not in [each.name for each in found]:
            raise DataFileError(f"{name}: has no sheet {harmless(sheet, 40)!r}: there are {names}")
        filled = [each for each in found if each.end > each.begin]
        if not filled:
            raise DataFileError(f"{name}: no sheet has any rows that could be read: there are {names}")
    except BaseException:
        out.close()
        raise
    return out, filled


def _run(name: str, file: IO[bytes], out: IO[bytes], memory: int, most_bytes: int, sheet: str | None) -> None:
    # -P: a stranger's working directory must not bring modules.
    command = [sys.executable, "-P", "-m", "geolookup.files.workbook_child", str(memory), str(_CPU_S), str(most_bytes)]
    with reading_errors(name):
        file.seek(0)
        done = subprocess.run(  # noqa: S603 - our own program
            [*command, *([] if sheet is None else [sheet])], stdin=file, stdout=out, stderr=subprocess.PIPE, check=False
        )
    said = harmless(done.stderr.decode("utf-8", "replace").strip().partition("\n")[0], 200)
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise DataFileError(f"{name}: the workbook took more than {_CPU_S} s to read: it was not read. Save it as CSV")
    if done.returncode == UNREADABLE:
        raise DataFileError(f"{name}: the workbook is damaged or was cut short: {said}")
    if done.returncode == UNWRITABLE:
        raise DataFileError(f"{name}: the workbook's rows (at most {most_bytes} bytes) could not be written: {said}")
    if done.returncode:
        if "ModuleNotFoundError" in done.stderr.decode("utf-8", "replace"):
            raise DataFileError(f"{name}: a workbook is read by another package: pip install python-calamine")
        raise DataFileError(
            f"{name}: the workbook takes more than {memory >> 20} MiB of memory, or is damaged: it was not read. "
            "Delete what stands far outside of its table, or save it as CSV"
        )
