"""Opening an input by its content: one file or a set of files, taken out of zip, tar and every compression.

`Opened` reads a file or folder as often as it must; `content_of` reads an open stream once, as it comes.
"""

import io
import os
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, BinaryIO, Final, cast

from geolookup.base.text import harmless
from geolookup.files.formats import FromUtf16, compression_of, is_tar, is_undecided, is_zip, utf16_of
from geolookup.files.streams import BoundedStream, Chained, Limits, Stream, reading_errors
from geolookup.files.workbooks import Part, Sheet, convert, is_workbook, refuse_old
from geolookup.model.errors import DataFileError

#: How much of each file is looked at to tell its kind.
HEAD_BYTES = 64 << 10

_COPY_BYTES = 1 << 20
#: The limits of content that is handled as it comes and never held, so it may have any length.
_ANY_SIZE: Final = Limits(expanded_bytes=1 << 62)
_BUFFER_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Member:
    """One file of an input.

    ``name`` is for messages; ``inside`` its name in the archive or folder, empty for an input of one file. ``head`` has
    the first 64 KiB. ``open`` reads it from the beginning, any number of times. ``path`` is set if a file holds these
    bytes as they are. ``is_sheet`` is true for a sheet of a workbook, as CSV.
    """

    name: str
    inside: str
    head: bytes
    open: Callable[[], BoundedStream]
    path: str | None
    is_sheet: bool = False

    @property
    def word(self) -> str:
        """A line of it is called so: the lines of a sheet are its rows, with their numbers."""
        return "row" if self.is_sheet else "line"

    def seekable(self) -> IO[bytes]:
        """The content as an open file that can be mapped: the file itself, or a temporary copy without a name.

        :raises DataFileError: if it cannot be read or expanded
        """
        if self.path is not None:
            with reading_errors(self.name):
                return open(self.path, "rb")
        with reading_errors(self.name):
            copy = tempfile.TemporaryFile(prefix="geolookup-")  # noqa: SIM115 - the caller closes it
        try:
            with self.open() as stream:
                while data := stream.read(_COPY_BYTES):
                    with reading_errors(self.name):
                        copy.write(data)
            copy.flush()
        except BaseException:
            copy.close()
            raise
        return copy


class Opened:
    """An input: ``name`` for messages, and its files, ``members``, in the order of their names.

    Each sheet of a workbook is a file of CSV, in the workbook's order; ``sheet`` is the only one that is read. Text in
    UTF-16 is read as UTF-8.
    """

    def __init__(
        self, path: str | os.PathLike[str], limits: Limits, *, sheet: str | None = None, name: str | None = None
    ) -> None:
        """Open a file, an archive, a workbook or a folder; ``name`` is for messages, if that is not its path.

        :raises DataFileError: if it cannot be read, is damaged at its beginning, or is larger than the limits allow
        """
        path = os.fspath(path)
        self.name = path if name is None else name
        self._limits = limits
        self._sheet = sheet
        self._closing: list[zipfile.ZipFile | IO[bytes]] = []
        try:
            if os.path.isdir(path):
                found = [member for inside, full in self._files() for member in self._file(full, full, inside)]
            else:
                found = list(self._file(path, self.name, ""))
        except BaseException:
            self.close()
            raise
        self.members = tuple(sorted(found, key=lambda member: "" if member.is_sheet else member.inside))
        if sheet is not None and not any(member.is_sheet for member in found):
            raise DataFileError(f"{self.name}: is not a workbook, and has no sheet")

    def fitting(self, fits: Callable[[Member], bool]) -> list[Member]:
        """The files that fit; a file that is alone fits anything, since its kind may have been forced."""
        return [member for member in self.members if len(self.members) == 1 or fits(member)]

    def close(self) -> None:
        """Close the archives; harmless when repeated."""
        for each in self._closing:
            each.close()

    def _files(self) -> Iterator[tuple[str, str]]:
        """The files of a folder, and of folders in it: GeoLite2's zip holds a dated one."""
        count = 0
        with reading_errors(self.name):
            for folder, folders, files in os.walk(self.name):
                depth = os.path.relpath(folder, self.name).count(os.sep)
                folders[:] = [] if depth >= self._limits.depth else sorted(folders)
                for file in sorted(files):
                    full = os.path.join(folder, file)
                    if file.startswith(".") or not os.path.isfile(full):
                        continue
                    count += 1
                    self._check_count(count)
                    yield os.path.relpath(full, self.name), full

    def _check_count(self, count: int) -> None:
        if count > self._limits.members:
            raise DataFileError(f"{self.name}: holds more than {self._limits.members} files: name one of them")

    def _file(self, path: str, name: str, inside: str) -> Iterator[Member]:
        with reading_errors(name), open(path, "rb") as file:
            magic = file.read(4)
        if is_zip(magic) and not inside:
            yield from self._zip(path, name)
            return

        def open_plain() -> BoundedStream:
            with reading_errors(name):
                return BoundedStream(name, open(path, "rb"), self._limits, None)

        yield from self._layers(name, inside, open_plain, path, 0)

    def _layers(
        self, name: str, inside: str, opener: Callable[[], BoundedStream], path: str | None, depth: int
    ) -> Iterator[Member]:
        """The files in a stream: of its tar, of what is compressed in it, or itself."""
        with opener() as stream:
            head = stream.read(HEAD_BYTES)
        if (compression := compression_of(head)) is not None:
            if depth >= self._limits.depth:
                raise DataFileError(f"{name}: is compressed more than {self._limits.depth} times over")

            def open_expanded() -> BoundedStream:
                below = Chained(opener())
                return BoundedStream(
                    name, _Closing(compression.reader(cast("IO[bytes]", below)), below), self._limits, below.tell
                )

            yield from self._layers(name, inside, open_expanded, None, depth + 1)
        elif is_tar(head):
            yield from self._tar(name, opener)
        elif (encoding := utf16_of(head)) is not None:

            def open_utf8() -> BoundedStream:
                return BoundedStream(name, FromUtf16(opener(), encoding), self._limits, None)

            with open_utf8() as stream:
                yield Member(name, inside, stream.read(HEAD_BYTES), open_utf8, None)
        else:
            refuse_old(name, head)
            yield Member(name, inside, head, opener, path)

    def _tar(self, name: str, opener: Callable[[], BoundedStream]) -> Iterator[Member]:
        entries: list[str] = []
        with reading_errors(name), opener() as stream, tarfile.open(fileobj=Chained(stream), mode="r|") as archive:
            for count, entry in enumerate(archive, 1):
                self._check_count(count)
                if entry.isreg():
                    entries.append(entry.name)
        for number, entry_name in enumerate(entries):
            # A tar has no table of contents, so each file is looked for from the beginning.
            def open_entry(number: int = number, shown: str = f"{name}: {entry_name}") -> BoundedStream:
                chain = Chained(opener())
                try:
                    with reading_errors(shown):
                        archive = tarfile.open(fileobj=chain, mode="r|")  # noqa: SIM115 - lives as long as the stream
                        regular = (entry for entry in archive if entry.isreg())
                        entry = next(entry for at, entry in enumerate(regular) if at == number)
                        content = archive.extractfile(entry)
                    assert content is not None
                    return BoundedStream(shown, _ClosingTar(content, entry.size, chain), self._limits, None)
                except BaseException:
                    chain.close()
                    raise

            with open_entry() as stream:
                head = stream.read(HEAD_BYTES)
            yield Member(f"{name}: {entry_name}", entry_name, head, open_entry, None)

    def _zip(self, path: str, archive_name: str) -> Iterator[Member]:
        with reading_errors(archive_name):
            archive = zipfile.ZipFile(path)
            self._closing.append(archive)
            workbook = is_workbook(archive)
        if workbook:
            yield from self._workbook(path, archive_name)
            return
        entries = archive.infolist()
        self._check_count(len(entries))
        for entry in entries:
            if entry.is_dir() or entry.filename.startswith("__MACOSX/"):
                continue
            name = f"{archive_name}: {entry.filename}"

            def open_entry(entry: zipfile.ZipInfo = entry, name: str = name) -> BoundedStream:
                with reading_errors(name):
                    content = archive.open(entry)
                return BoundedStream(name, content, self._limits, lambda: entry.compress_size)

            yield from self._layers(name, entry.filename, open_entry, None, 1)

    def _workbook(self, path: str, name: str) -> Iterator[Member]:
        with open(path, "rb") as file:
            content, sheets = convert(name, file, sheet=self._sheet)
        self._closing.append(content)
        for sheet in sheets:

            def open_sheet(sheet: Sheet = sheet) -> BoundedStream:
                return BoundedStream(
                    name_of_sheet(name, sheet.name), Part(content, sheet.begin, sheet.end), self._limits, None
                )

            with open_sheet() as stream:
                head = stream.read(HEAD_BYTES)
            shown = name_of_sheet(name, sheet.name)
            alone = len(sheets) == 1
            yield Member(shown, "" if alone else sheet.name, head, open_sheet, None, is_sheet=True)


def name_of_sheet(workbook: str, sheet: str) -> str:
    """The name of a sheet in messages."""
    return f"{workbook}, sheet {harmless(sheet, 40)!r}"


class SheetStream(io.BufferedReader):
    """A sheet of a workbook as CSV: its lines are the rows of the sheet ``sheet``."""

    def __init__(self, part: Part, sheet: str) -> None:
        super().__init__(part, _BUFFER_BYTES)
        self.sheet = sheet


class _Closing:
    """The content of a compressed stream, closed together with the stream below it."""

    def __init__(self, content: Stream, below: Chained) -> None:
        self._content = content
        self._below = below

    def read(self, size: int = -1) -> bytes:
        return self._content.read(size)

    def close(self) -> None:
        self._content.close()
        self._below.close()


class _ClosingTar:
    """A tar's file, which must have as many bytes as its header says."""

    def __init__(self, content: IO[bytes], size: int, chain: Chained) -> None:
        self._content = content
        self._left = size
        self._chain = chain

    def read(self, size: int = -1) -> bytes:
        data = self._content.read(size)
        self._left -= len(data)
        if not data and size and self._left:
            raise EOFError("the file ends before its size")
        return data

    def close(self) -> None:
        self._content.close()
        self._chain.close()


def content_of(
    name: str,
    stream: Any,
    limits: Limits = _ANY_SIZE,
    before_read: Callable[[], None] | None = None,
    depth: int = 0,
    *,
    sheet: str | None = None,
) -> BinaryIO:
    """The content of an open file: itself unless it is compressed, a workbook or UTF-16. ``name`` is for messages.

    Of a workbook it is the sheet of that name as CSV, or its only one; UTF-16 is read as UTF-8. ``limits`` and
    ``before_read`` (see `BoundedStream`) hold for each layer of compression, ``depth`` counts them.

    :raises DataFileError: if it is an archive, a workbook of several sheets, or compressed too many times over
    :raises MissingExtraError: if decompressing it needs a package that is not installed
    """
    if not hasattr(stream, "peek"):  # a test's stand-in, or what a browser sent
        stream = io.BufferedReader(stream)
    try:
        head = stream.peek(1)
        if head and is_undecided(head):  # a pipe that has brought a byte or two; nothing else waits for more
            head = b""
            while is_undecided(head) and (byte := stream.read(1)):
                head += byte
            stream = io.BufferedReader(_Resumed(head, stream))
    except OSError as error:
        raise DataFileError(f"{name}: reading failed: {error.strerror}") from error
    compression = compression_of(head)
    if compression is not None:
        if depth >= limits.depth:
            raise DataFileError(f"{name}: is compressed more than {limits.depth} times over")
        below = compression.reader(cast("IO[bytes]", stream))
        expanded = Chained(BoundedStream(name, below, limits, None, before_read))
        stream = io.BufferedReader(expanded, _BUFFER_BYTES)
        return content_of(name, stream, limits, before_read, depth + 1, sheet=sheet)
    if (encoding := utf16_of(head)) is not None:
        utf8 = Chained(BoundedStream(name, FromUtf16(stream, encoding), limits, None, before_read))
        return io.BufferedReader(utf8, _BUFFER_BYTES)
    refuse_old(name, head)
    if is_zip(head):
        with _copied(name, stream, limits, before_read) as copy:
            if (found := _sheet_of(name, copy, sheet)) is not None:
                return found
        raise DataFileError(f"{name}: is a zip archive: take the file out of it first, for example with `unzip -p`")
    if is_tar(head):
        raise DataFileError(f"{name}: is a tar archive: take the file out of it first, for example with `tar -xO`")
    return cast("BinaryIO", stream)


@contextmanager
def _copied(name: str, stream: BinaryIO, limits: Limits, before_read: Callable[[], None] | None) -> Iterator[IO[bytes]]:
    """The rest of a stream as a file without a name: an archive is read from its end."""
    with reading_errors(name), tempfile.TemporaryFile(prefix="geolookup-") as copy:
        bounded = BoundedStream(name, stream, limits, None, before_read)
        while data := bounded.read(_COPY_BYTES):
            copy.write(data)
        copy.flush()
        yield copy


def _sheet_of(name: str, copy: IO[bytes], sheet: str | None) -> BinaryIO | None:
    """A sheet of a workbook as CSV; None if it is another archive.

    :raises DataFileError: if none was named and there are several, or it cannot be read
    """
    try:
        with zipfile.ZipFile(copy) as archive:
            if not is_workbook(archive):
                return None
    except zipfile.BadZipFile:
        return None
    content, sheets = convert(name, copy, sheet=sheet)
    if len(sheets) > 1:
        content.close()
        names = ", ".join(harmless(each.name, 40) for each in sheets)
        raise DataFileError(f"{name}: has several sheets: {names}. Say which is meant: --sheet NAME")
    return SheetStream(Part(content, sheets[0].begin, sheets[0].end), sheets[0].name)


class _Resumed(io.RawIOBase):
    """A stream from its beginning, of which the first bytes were read already."""

    def __init__(self, head: bytes, stream: io.BufferedReader) -> None:
        self._head = head
        self._stream = stream

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See `io.RawIOBase`."""
        data = self._head[: len(buffer)] or self._stream.read1(len(buffer))
        self._head = self._head[len(data) :]
        buffer[: len(data)] = data
        return len(data)
