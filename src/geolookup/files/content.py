"""The content of one open file that may be compressed, for whoever reads it as it comes."""

import io
import re
from typing import IO, Any, BinaryIO, Final, cast

from geolookup.errors import DataFileError
from geolookup.files.compression import compression_of, is_undecided
from geolookup.files.limits import Limits
from geolookup.files.streams import BoundedStream, Chained

#: What is read here is handled as it comes and never held, so it may have any length.
_ANY_SIZE: Final = Limits(expanded_bytes=1 << 62)
_BUFFER_BYTES: Final = 1 << 18

#: How UTF-16 begins: with its mark, or with two characters of ASCII.
_UTF16: Final = {
    "utf-16": re.compile(rb"\xff\xfe|\xfe\xff"),
    "utf-16le": re.compile(rb"([\t\n\r -~]\0){2}"),
    "utf-16be": re.compile(rb"(\0[\t\n\r -~]){2}"),
}
_ZIP_MAGIC: Final = b"PK\x03\x04"
_TAR_MAGIC: Final = slice(257, 262), b"ustar"


def utf16_of(head: bytes) -> str | None:
    """The encoding of a file that begins as UTF-16 does, by the name that iconv has for it, or None."""
    return next((encoding for encoding, beginning in _UTF16.items() if beginning.match(head)), None)


def content_of(name: str, stream: Any) -> BinaryIO:
    """The content of an open file: itself unless it is compressed. ``name`` is for messages.

    :raises DataFileError: if it is an archive, or UTF-16
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
        below = compression.reader(cast("IO[bytes]", stream))
        expanded = Chained(BoundedStream(name, below, _ANY_SIZE, None))
        return content_of(name, io.BufferedReader(expanded, _BUFFER_BYTES))
    if (encoding := utf16_of(head)) is not None:
        raise DataFileError(
            f"{name}: is UTF-16, and must be UTF-8: convert it first, for example with `iconv -f {encoding} -t utf-8`"
        )
    if head.startswith(_ZIP_MAGIC):
        raise DataFileError(f"{name}: is a zip archive: take the file out of it first, for example with `unzip -p`")
    if head[_TAR_MAGIC[0]] == _TAR_MAGIC[1]:
        raise DataFileError(f"{name}: is a tar archive: take the file out of it first, for example with `tar -xO`")
    return cast("BinaryIO", stream)


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
