"""Where a file of results is written: under a temporary name beside it, until it is complete."""

import contextlib
import gzip
import io
import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, cast

from geolookup.base import disk
from geolookup.model.errors import DataFileError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


@contextlib.contextmanager
def _writing_errors(name: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of a pipe had enough: that is not an error
    except OSError as error:
        raise DataFileError(f"{name}: writing failed: {error.strerror}") from error


class _Target(io.BufferedWriter):
    """A file whose errors name it: what is done in the same ``with`` may fail in ways of its own."""

    def __init__(self, name: str, raw: io.FileIO) -> None:
        super().__init__(raw)
        self._shown = name

    def write(self, data: "ReadableBuffer", /) -> int:
        """See `io.BufferedWriter`."""
        with _writing_errors(self._shown):
            return super().write(data)

    def flush(self) -> None:
        """See `io.BufferedWriter`; closing comes here, too."""
        with _writing_errors(self._shown):
            super().flush()


@contextlib.contextmanager
def open_target(name: str) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of ``name`` at the end; on a failure it goes, and ``name`` stays.

    It has the mode of the file whose place it takes. Its bytes are durable before its name is. A named pipe or a device
    is written to as it is.

    :raises DataFileError: if it cannot be written
    """
    path = os.path.realpath(name)
    if os.path.isdir(path):
        raise DataFileError(f"{name}: is a directory: give the name of a file")
    if os.path.exists(path) and not os.path.isfile(path):
        # A named pipe, /dev/null: nothing there can be replaced.
        with _writing_errors(name):
            device = _Target(name, open(path, "wb", buffering=0))  # noqa: SIM115 - `_Target` closes it
        with device:
            yield device
        return
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise DataFileError(f"{name}: its folder is not there: make it first, or name another")
    with contextlib.ExitStack() as replacing:
        with _writing_errors(name):
            descriptor = replacing.enter_context(disk.replacing(path, mode=_mode(path), hidden=True))
        with _Target(name, open(descriptor, "wb", buffering=0, closefd=False)) as out:
            yield out
        with _writing_errors(name):
            replacing.close()


def _mode(path: str) -> int:
    """The permissions of the file that is replaced, or those that a new one would have."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


@contextlib.contextmanager
def compressed(out: BinaryIO) -> Iterator[BinaryIO]:
    """A stream whose content goes to ``out`` in gzip's format; the same content gives the same bytes."""
    with gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=6, mtime=0) as file:
        yield cast("BinaryIO", file)
