"""The format of a file by its first bytes: a compression, an archive, or text in UTF-16.

The compressions are gzip, bzip2, xz, and Zstandard by an extra; the archives are zip and tar.
"""

import bz2
import codecs
import gzip
import io
import lzma
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, Final, cast

from geolookup.files.streams import Stream
from geolookup.model.errors import MissingExtraError


@dataclass(frozen=True, slots=True)
class Compression:
    """One compression: the first bytes that its files may have, and the end of their names.

    ``reader`` makes the content's stream of a compressed one, and ``writer`` the other way round. Neither closes what
    it was given. Reading fails as `files.streams.reading_errors` expects, also if the file was cut short.
    """

    name: str
    end: str
    magics: tuple[bytes, ...]
    reader: Callable[[IO[bytes]], Stream]
    writer: Callable[[IO[bytes]], IO[bytes]]


class _Zstandard(io.RawIOBase):
    """A Zstandard stream (RFC 8878) whose damage is a ValueError, as that of the standard library's formats is."""

    def __init__(self, below: IO[bytes]) -> None:
        zstd = _zstd()
        self._damage: type[Exception] = zstd.ZstdError
        self._file = zstd.ZstdFile(below)

    def read(self, size: int = -1, /) -> bytes:
        """See `io.RawIOBase`."""
        try:
            return cast("bytes", self._file.read(size))
        except self._damage as error:
            raise ValueError("its compressed data are damaged") from error

    def close(self) -> None:
        """See `io.RawIOBase`."""
        self._file.close()
        super().close()


def _zstd() -> Any:
    """The module for Zstandard: a part of Python from 3.14 on. Others do not notice if a file was cut short.

    :raises MissingExtraError: if it is not installed
    """
    try:
        from compression import zstd  # type: ignore[import-not-found]
    except ImportError:
        try:
            from backports import zstd
        except ImportError as error:
            raise MissingExtraError(
                f"Zstandard needs another package: pip install 'geolookup[zstd]' ({error}), or decompress the file "
                "with `zstd -dc`"
            ) from error
    return zstd


_COMPRESSIONS = (
    Compression(
        "gzip",
        ".gz",
        (b"\x1f\x8b",),
        lambda below: gzip.GzipFile(fileobj=below, mode="rb"),
        # Without a name and a time: the same content gives the same bytes.
        lambda out: cast("IO[bytes]", gzip.GzipFile("", "wb", 6, out, 0)),
    ),
    Compression("Zstandard", ".zst", (b"\x28\xb5\x2f\xfd",), _Zstandard, lambda out: _zstd().ZstdFile(out, "wb")),
    Compression(
        "bzip2",
        ".bz2",
        tuple(b"BZh%d%s" % (level, then) for level in range(1, 10) for then in (b"1AY&SY", b"\x17rE8P\x90")),
        bz2.BZ2File,
        lambda out: cast("IO[bytes]", bz2.BZ2File(out, "wb")),
    ),
    Compression(
        "xz",
        ".xz",
        (b"\xfd7zXZ\x00",),
        lzma.LZMAFile,
        lambda out: cast("IO[bytes]", lzma.LZMAFile(out, "wb")),  # noqa: SIM115 - the caller closes it
    ),
)


def compression_of(head: bytes) -> Compression | None:
    """The compression of the file that begins with ``head``, or None."""
    return next((each for each in _COMPRESSIONS if head.startswith(each.magics)), None)


def compression_named(name: str) -> Compression | None:
    """The compression that the end of a file's name says, or None."""
    return next((each for each in _COMPRESSIONS if name.lower().endswith(each.end)), None)


def is_undecided(head: bytes) -> bool:
    """True if the few bytes that are there may become those of a compressed file."""
    magics = (magic for each in _COMPRESSIONS for magic in each.magics)
    return any(len(head) < len(magic) and magic.startswith(head) for magic in magics)


#: The beginning of a zip archive with files, and of an empty one.
_ZIP_MAGICS: Final = (b"PK\x03\x04", b"PK\x05\x06")
_TAR_MAGIC: Final = b"ustar"
_TAR_MAGIC_AT: Final = 257
#: As much of a file as tells whether it is UTF-16: an even number of bytes.
_UTF16_BYTES: Final = 512
_UTF16_PIECE: Final = 1 << 16
#: The beginning of UTF-16: its mark, or two characters of ASCII.
_UTF16: Final = {
    "utf-16": re.compile(rb"\xff\xfe|\xfe\xff"),
    "utf-16le": re.compile(rb"([\t\n\r -~]\0){2}"),
    "utf-16be": re.compile(rb"(\0[\t\n\r -~]){2}"),
}


def is_zip(head: bytes) -> bool:
    """True if the file that begins with ``head`` is a zip archive."""
    return head.startswith(_ZIP_MAGICS)


def is_tar(head: bytes) -> bool:
    """True if the file that begins with ``head`` is a tar archive."""
    return head.startswith(_TAR_MAGIC, _TAR_MAGIC_AT)


def utf16_of(head: bytes) -> str | None:
    """The encoding of a text in UTF-16 that begins so, or None: other binary data may begin as it does."""
    encoding = next((encoding for encoding, beginning in _UTF16.items() if beginning.match(head)), None)
    text = "" if encoding is None else head[:_UTF16_BYTES].decode(encoding, "replace")
    return None if "\0" in text or "\ufffd" in text else encoding


class FromUtf16(io.RawIOBase):
    """A text in UTF-16 as UTF-8, without its byte order mark. It fails as damaged data do if it is cut short."""

    def __init__(self, below: Stream, encoding: str) -> None:
        self._below = below
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._left = b""

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See `io.RawIOBase`."""
        while not self._left and (data := self._below.read(_UTF16_PIECE)):
            self._left = self._decoder.decode(data).removeprefix("\ufeff").encode("utf-8", "surrogatepass")
        if not self._left:
            self._decoder.decode(b"", final=True)
        data, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the stream below, too."""
        if not self.closed:
            self._below.close()
        super().close()
