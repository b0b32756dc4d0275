"""Streams that end in an error before they have expanded too far, and whose errors are ours."""

import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from geolookup.base.reasons import reason
from geolookup.errors import DataFileError
from geolookup.files.limits import Limits

#: What the standard library's gzip, zip and tar raise for damaged, cut, encrypted or unknown content.
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
    """What is read from and closed: a file object, or enough of one."""

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

    ``compressed_bytes`` tells how much has gone in, or is None for what is not compressed.
    """

    def __init__(self, name: str, stream: Stream, limits: Limits, compressed_bytes: Callable[[], int] | None) -> None:
        self._name = name
        self._stream = stream
        self._limits = limits
        self._compressed_bytes = compressed_bytes
        self._read = 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most ``size``, and empty only at the end.

        :raises DataFileError: if the stream is damaged, cut short, or larger than the limits allow
        """
        with reading_errors(self._name):
            data = self._stream.read(size)
        self._read += len(data)
        limits = self._limits
        if self._read > limits.expanded_bytes:
            raise DataFileError(f"{self._name}: expands to more than {limits.expanded_bytes} bytes: it was not read")
        if self._compressed_bytes is not None and self._read > limits.ratio_from_bytes:
            most = limits.ratio * max(1, self._compressed_bytes())
            if self._read > most:
                raise DataFileError(
                    f"{self._name}: expands to more than {limits.ratio} times its size: it was not read"
                )
        return data

    def close(self) -> None:
        """Close what is read from."""
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
        """How many bytes were read."""
        return self._position

    def close(self) -> None:
        """Close the stream below, too."""
        if not self.closed:
            self._stream.close()
        super().close()
