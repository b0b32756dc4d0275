"""Distinct texts by number, in the order in which they came: some 20 bytes for each, where a dictionary takes 150."""

import hashlib
from array import array
from bisect import bisect_left

import numpy as np

from geolookup.errors import IndexFileError
from geolookup.index.scratch.column import Column

#: Of the texts that came or were asked for last, between so many and twice as many are found without a digest.
_RECENT = 1 << 17
_KEPT_OFFSETS = 1 << 14
_LARGEST_I32 = (1 << 31) - 1
_LOW64 = (1 << 64) - 1


class Texts:
    """A table of texts. The recent ones are in dictionaries; of all others there are digests of 128 bits, sorted.

    The texts themselves go to columns, which become the sections of a file.
    """

    def __init__(self, folder: str | None = None) -> None:
        """A table that has the text "" alone. What is large is kept in ``folder``; without one, in memory."""
        self._recent: dict[str, int] = {}
        self._before: dict[str, int] = {}
        # The digests of the texts that are in neither: upper and lower halves, and numbers.
        self._upper = np.empty(0, np.uint64)
        self._lower = np.empty(0, np.uint64)
        self._numbers = np.empty(0, np.uint32)
        self._bytes = Column("u1", folder)
        self._offsets = Column("i4", folder)
        self._newest = bytearray()
        self._newest_offsets = array("q", [0])
        self._size = 0
        self._count = 0
        self.number("")

    def __len__(self) -> int:
        return self._count

    def number(self, text: str) -> int:
        """The number of a text, which is added if it is new.

        :raises UnicodeEncodeError: if it is not Unicode: then it is not added
        :raises OSError: if the disk is full, or fails
        """
        found = self._recent.get(text)
        if found is not None:
            return found
        found = self._before.get(text)
        if found is None:
            encoded = text.encode("utf-8")
            found = self._find(encoded) if len(self._numbers) else None
            if found is None:
                found = self._add(encoded)
        self._recent[text] = found
        if len(self._recent) == _RECENT:
            self._forget()
        return found

    def _add(self, encoded: bytes) -> int:
        self._newest += encoded
        self._size += len(encoded)
        self._newest_offsets.append(self._size)
        if len(self._newest_offsets) >= _KEPT_OFFSETS:
            self._keep()
        self._count += 1
        return self._count - 1

    def _keep(self) -> None:
        if self._size <= _LARGEST_I32:  # else it is refused in the end
            self._bytes.append(np.frombuffer(self._newest, np.uint8))
            self._offsets.append(np.frombuffer(self._newest_offsets, np.int64))
        self._newest, self._newest_offsets = bytearray(), array("q")

    def _forget(self) -> None:
        """Keep the digests of the texts that are not among the recent ones any more."""
        digests = b"".join([_digest(text.encode("utf-8")) for text in self._before])
        pairs = np.frombuffer(digests, np.uint64)
        upper = np.concatenate([self._upper, pairs[::2]])
        lower = np.concatenate([self._lower, pairs[1::2]])
        numbers = np.concatenate([self._numbers, np.fromiter(self._before.values(), np.uint32, len(self._before))])
        order = np.lexsort((lower, upper))
        upper, lower, numbers = upper[order], lower[order], numbers[order]
        # One that was found by its digest is there already.
        new = np.ones(len(order), np.bool_)
        new[1:] = (upper[1:] != upper[:-1]) | (lower[1:] != lower[:-1])
        self._upper, self._lower, self._numbers = upper[new], lower[new], numbers[new]
        self._before, self._recent = self._recent, {}

    def _find(self, encoded: bytes) -> int | None:
        digest = int.from_bytes(_digest(encoded), "little")
        wanted, lower = digest & _LOW64, digest >> 64
        upper = self._upper.data
        at = bisect_left(upper, wanted)
        while at < len(upper) and upper[at] == wanted:
            if self._lower[at] == lower:
                return int(self._numbers[at])
            at += 1
        return None

    def sections(self) -> tuple[Column, Column]:
        """The offsets of all texts, and their bytes. No more can be added.

        :raises IndexFileError: if they are longer than offsets can say
        :raises OSError: if the disk is full, or fails
        """
        if self._size > _LARGEST_I32:
            raise IndexFileError(f"the locations' distinct texts have {self._size} bytes: 2 GiB is the most")
        self._recent, self._before = {}, {}
        self._upper = self._lower = np.empty(0, np.uint64)
        self._numbers = np.empty(0, np.uint32)
        self._keep()
        return self._offsets, self._bytes


def _digest(encoded: bytes) -> bytes:
    return hashlib.blake2b(encoded, digest_size=16).digest()
