"""Lines of text from a stream of bytes: UTF-8 with or without a byte order mark, any line of bounded length."""

import codecs
import io
from collections.abc import Iterator
from typing import Any, BinaryIO

from geolookup.files.opened import Member
from geolookup.files.streams import Limits
from geolookup.model.errors import DataFileError

_BLOCK_BYTES = 1 << 20
_PIECE_BYTES = 1 << 18


class Lines:
    """An iterator of the lines of a file, each with its ``\\n``; the last may lack it.

    A line that is not UTF-8 is read as cp1252 (Latin-1, as Windows writes it) if ``cp1252`` allows it, and ``guessed``
    counts it. Otherwise lone surrogates stand for its bytes, and ``undecoded`` counts it: callers must look at that.

    :raises DataFileError: while iterating, if the file is damaged or cut short, or a line is too long
    """

    def __init__(self, member: Member, limits: Limits, *, cp1252: bool = False) -> None:
        self.name = member.name
        self.undecoded = 0
        self.guessed = 0
        self._member = member
        self._most = limits.line_bytes
        self._cp1252 = cp1252
        self._number = 0

    def __iter__(self) -> Iterator[str]:
        for block in self.blocks():
            yield from block

    def blocks(self) -> Iterator[list[str]]:
        """The lines, many at once."""
        with self._member.open() as stream:
            rest = b""
            begun = False
            while block := stream.read(_BLOCK_BYTES):
                block = rest + block
                if not begun:
                    if len(block) < 3 and codecs.BOM_UTF8.startswith(block):
                        rest = block
                        continue
                    block = block.removeprefix(codecs.BOM_UTF8)
                    begun = True
                cut = block.rfind(b"\n") + 1
                rest = block[cut:]
                if len(rest) > self._most:
                    self._refuse(block[:cut].count(b"\n"))
                if cut:
                    yield self._split(block[:cut])
            if rest and not (not begun and rest == codecs.BOM_UTF8):
                yield self._split(rest)

    def _split(self, block: bytes) -> list[str]:
        try:
            text = block.decode("utf-8")
        except UnicodeDecodeError:
            text = "".join(self._decoded(block))
        # Not `splitlines`: it also cuts at characters that stand inside of texts.
        lines = io.StringIO(text, newline="\n").readlines()
        if max(map(len, lines)) > self._most:
            self._refuse(next(at for at, line in enumerate(lines) if len(line) > self._most))
        self._number += len(lines)
        return lines

    def _decoded(self, block: bytes) -> Iterator[str]:
        # Not `splitlines`: it also cuts at carriage returns.
        for line in io.BytesIO(block):
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError:
                if self._cp1252:
                    self.guessed += 1
                    yield in_cp1252(line)
                else:
                    self.undecoded += 1
                    yield line.decode("utf-8", "surrogateescape")

    def _refuse(self, ahead: int) -> None:
        raise DataFileError(f"{self.name}, line {self._number + ahead + 1}: the line has more than {self._most} bytes")


class FromCp1252(io.RawIOBase):
    """A stream of lines in UTF-8: those that are not are read as cp1252, and ``guessed`` counts them.

    It hands out whole lines as soon as they are there.
    """

    def __init__(self, below: BinaryIO) -> None:
        self.guessed = 0
        self._below = below
        self._rest: list[bytes] = []
        self._ready = b""

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See `io.RawIOBase`."""
        while not self._ready:
            read = getattr(self._below, "read1", self._below.read)  # what a pipe has brought, not more
            piece: bytes = read(_PIECE_BYTES)
            cut = piece.rfind(b"\n") + 1 if piece else 0
            if piece and not cut:
                self._rest.append(piece)
                continue
            self._ready = self._as_utf8(b"".join([*self._rest, piece[:cut]]))
            self._rest = [piece[cut:]] if piece else []
            if not piece:
                break
        data, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)

    def _as_utf8(self, data: bytes) -> bytes:
        if data.isascii():
            return data
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            return b"".join(map(self._line, io.BytesIO(data)))
        return data

    def _line(self, line: bytes) -> bytes:
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            self.guessed += 1
            return in_cp1252(line).encode("utf-8")
        return line


def in_cp1252(data: bytes) -> str:
    """Text in cp1252; the five bytes that it does not define are read as Latin-1."""
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def has_surrogates(text: str) -> bool:
    """True if a text holds bytes that are not UTF-8."""
    return not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)
