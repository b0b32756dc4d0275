"""Columns of numbers that grow at their end and are read in parts. The large ones lie in files without a name.

Such a file is gone as soon as it is closed, or its process has ended, however that ended: nobody has to clear away.
"""

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from geolookup.index.flatten import Array

#: Above this, the newest part of a column is moved from memory to its file.
_KEPT_BYTES = 1 << 20
_PART = 1 << 16


class Column:
    """Numbers of one type. What is read is a copy, or must not be changed."""

    def __init__(self, kind: str, folder: str | None = None) -> None:
        """``kind`` is numpy's name of the type. The file is made in ``folder``, if one is needed; without a folder
        everything stays in memory.
        """
        self.dtype: np.dtype[Any] = np.dtype(kind)
        self._folder = folder
        self._newest = bytearray()
        self._file: Any = None
        self._stored = 0

    def __len__(self) -> int:
        return (self._stored + len(self._newest)) // self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """How many bytes all numbers have."""
        return self._stored + len(self._newest)

    def append(self, values: Array) -> None:
        """Add numbers at the end.

        :raises OSError: if the disk is full, or fails
        """
        if len(values):
            self._newest += np.ascontiguousarray(values, self.dtype).data.cast("B")
        if self._folder is not None and len(self._newest) >= _KEPT_BYTES:
            self._store()

    def _store(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 - as long as the column lives
        self._file.seek(self._stored)
        rest = memoryview(self._newest)
        while rest:  # a write may take less than it is given
            rest = rest[self._file.write(rest) :]
        rest.release()
        self._stored += len(self._newest)
        self._newest = bytearray()

    def read(self, begin: int, end: int) -> Array:
        """The numbers from ``begin`` up to ``end``.

        :raises OSError: if the disk fails
        """
        size = self.dtype.itemsize
        begin, end = begin * size, min(end * size, self.nbytes)
        if begin >= self._stored:
            begin, end = begin - self._stored, end - self._stored
            return np.frombuffer(bytes(memoryview(self._newest)[begin:end]), self.dtype)
        found = bytearray(end - begin)
        inside = min(end, self._stored) - begin
        self._file.seek(begin)
        rest = memoryview(found)[:inside]
        while rest:
            count = self._file.readinto(rest)
            if not count:
                raise OSError(f"a temporary file lost {len(rest)} bytes")
            rest = rest[count:]
        if end > self._stored:
            found[inside:] = self._newest[: end - self._stored]
        return np.frombuffer(found, self.dtype)

    def parts(self, items: int = _PART) -> Iterator[Array]:
        """All numbers, so many at a time."""
        for begin in range(0, len(self), items):
            yield self.read(begin, begin + items)

    def whole(self) -> Array:
        """All numbers."""
        return self.read(0, len(self))

    def close(self) -> None:
        """Let the numbers go."""
        self._newest = bytearray()
        if self._file is not None:
            self._file.close()
            self._file, self._stored = None, 0
