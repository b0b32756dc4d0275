"""Streams that end in an error before they have expanded too far, and whose errors are ours.

The limits keep any file from filling the memory, or being read for ever.
"""

import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from geolookup.base.reasons import reason
from geolookup.model.errors import DataFileError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on one source.

    ``expanded_bytes`` is the most that one file may have after decompression, and ``ratio`` the most bytes that come
    of one compressed byte, once ``ratio_from_bytes`` have come out. ``members`` is the most files in an archive or
    folder, ``depth`` the most layers of compression, ``line_bytes`` the longest line. ``tree_visits`` is how often, on
    average, a node of an MMDB's search tree may be visited: damaged trees have cycles. A source may leave out
    ``bad_rows`` rows, or the share ``bad_rows_share`` of all, whichever is greater. ``advice`` is for a person whose
    file expands to more.
    """

    expanded_bytes: int = 16 << 30
    ratio: int = 200
    ratio_from_bytes: int = 16 << 20
    members: int = 1000
    depth: int = 3
    line_bytes: int = 1 << 20
    tree_visits: int = 4
    bad_rows: int = 10
    bad_rows_share: float = 0.01
    advice: str = ""

    def bad_rows_allowed(self, rows: int) -> int:
        """The most of so many rows that may be bad."""
        return max(self.bad_rows, int(self.bad_rows_share * rows))


#: The errors of the standard library's gzip, zip and tar for damaged, cut, encrypted or unknown content.
_DAMAGE = (
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
)


class Stream(Protocol):
    """An open file object, or enough of one."""

    def read(self, size: int = ..., /) -> bytes:
        """The next bytes."""

    def close(self) -> None:
        """Let go of the file."""


@contextmanager
def reading_errors(name: str) -> Iterator[None]:
    """Turn errors of files and of the standard library's decompression into DataFileError that names the file."""
    try:
        yield
    except OSError as error:  # gzip's BadGzipFile too
        raise DataFileError(f"{name}: reading failed: {reason(error)}") from error
    except _DAMAGE as error:
        raise DataFileError(f"{name}: the file is damaged or was cut short: {reason(error)}") from error


class BoundedStream:
    """Reads a decompressed stream and counts what comes out of it.

    ``compressed_bytes`` tells how much has gone in, or is None for what is not compressed. ``before_read`` is called
    before each read, and what it raises ends the reading.
    """

    def __init__(
        self,
        name: str,
        stream: Stream,
        limits: Limits,
        compressed_bytes: Callable[[], int] | None,
        before_read: Callable[[], None] | None = None,
    ) -> None:
        self._name = name
        self._stream = stream
        self._limits = limits
        self._compressed_bytes = compressed_bytes
        self._before_read = before_read
        self._read = 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most ``size``, and empty only at the end.

        :raises DataFileError: if the stream is damaged, cut short, or larger than the limits allow
        """
        if self._before_read is not None:
            self._before_read()
        with reading_errors(self._name):
            data = self._stream.read(size)
        self._read += len(data)
        limits = self._limits
        if self._read > limits.expanded_bytes:
            raise DataFileError(
                f"{self._name}: expands to more than {limits.expanded_bytes} bytes: it was not read{limits.advice}"
            )
        if self._compressed_bytes is not None and self._read > limits.ratio_from_bytes:
            most = limits.ratio * max(1, self._compressed_bytes())
            if self._read > most:
                raise DataFileError(
                    f"{self._name}: expands to more than {limits.ratio} times its size: it was not read"
                )
        return data

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()

    def __enter__(self) -> "BoundedStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Chained(io.RawIOBase):
    """A bounded stream as the file object that gzip and tarfile want to read from."""

    def __init__(self, stream: BoundedStream) -> None:
        self._stream = stream
        self._position = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See `io.RawIOBase`."""
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        """The number of bytes that were read."""
        return self._position

    def close(self) -> None:
        """Close the stream below, too."""
        if not self.closed:
            self._stream.close()
        super().close()
