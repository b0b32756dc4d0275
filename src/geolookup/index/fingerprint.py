"""A fingerprint of all answers that two layers give together: equal if and only if every address has the same answer.

It is the SHA-256 of what follows, integers big-endian, so that any program can compute it from its own copy:

- the text ``geolookup-answers-1`` and a newline;
- for IPv4, then IPv6: the character ``4`` or ``6``, then each maximal run of addresses with one answer, ascending from
  the first address of the family: the run's first address (4 or 16 bytes), the answer's locid (8, signed; 0 if no block
  covers the addresses);
- the character ``L``, then each geolocation that some address has, by ascending locid: the locid (8), latitude and
  longitude (IEEE 754 binary64; an unknown one as the NaN 7ff8000000000000, zero without a sign), then country,
  region, city, postalcode, dmacode and areacode, each as its length in bytes (4) and its UTF-8. If a field is added to
  `fields.FIELDS`, the number in the first line rises.

Places without a number of their own get one from this state, from 10^9 on; another machine may give them other numbers.
So the fingerprint has 10^9 for the place that answers the first address of all, 10^9 + 1 for the next one, and so on.
Places that are equal in all fields count as one here, even of several sources.

The order of blocks, how they are split, generations, text numbers and pending edits do not change it.
"""

import hashlib
import struct
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from geolookup.index.compare import degrees_as_numbers, texts_of
from geolookup.index.walk import Stretch, walk
from geolookup.model.errors import IndexDamagedError
from geolookup.model.fields import DEGREES, FIRST_OWN_LOCID, TEXT_NAMES

if TYPE_CHECKING:
    from geolookup.index.compare import LayerPair
    from geolookup.index.flatten import I64
    from geolookup.index.reader import IndexReader

_PREFIX = b"geolookup-answers-1\n"
_RUN_V4 = np.dtype([("first", ">u4"), ("locid", ">i8")])
_RUN_V6 = np.dtype([("hi", ">u8"), ("lo", ">u8"), ("locid", ">i8")])


def fingerprint(layers: "LayerPair") -> str:
    """The fingerprint of what the default and the custom layer answer together, in hexadecimal.

    Walks every segment: some seconds for millions of blocks, in memory that grows with the geolocations only.

    :raises IndexDamagedError: if a file's segments or locations cannot be followed
    """
    digest = hashlib.sha256(_PREFIX)
    used = [np.zeros(reader.location_count + 1, np.bool_) for reader in layers]
    # The item past the last stands for not covered.
    locids = [np.append(reader.arrays()["loc.locid"], 0).astype(np.int64) for reader in layers]
    own = _OwnNumbers(layers[0], locids[0])
    families: tuple[Literal[4], Literal[6]] = (4, 6)
    for family in families:
        digest.update(str(family).encode("ascii"))
        before: int | None = None
        for stretch in walk(layers, family):
            runs, before = _runs(stretch, locids, used, own, family, before)
            digest.update(runs)
    digest.update(b"L")
    # Custom locids are below zero, so their layer comes first. The locids that we give are above all that services
    # give.
    base, over = layers
    for reader, slots, numbers in (
        (over, np.flatnonzero(used[1][:-1]), locids[1]),
        (base, np.flatnonzero((used[0] & ~own.is_own)[:-1]), locids[0]),
        (base, *own.first_slots()),
    ):
        for row in _rows(reader, slots, numbers[slots]):
            digest.update(row)
    return digest.hexdigest()


class _OwnNumbers:
    """The numbers that replace ours, in the order in which the places are met; equal places share one."""

    def __init__(self, reader: "IndexReader", locids: "I64") -> None:
        """``locids`` has one item more than the reader has slots."""
        self.is_own = locids >= FIRST_OWN_LOCID
        slots = np.flatnonzero(self.is_own)
        self._place = np.full(len(locids), -1, np.int64)
        self._place[slots] = _distinct(reader, slots)
        self._any = len(slots) > 0
        count = int(self._place.max(initial=-1)) + 1
        self._number = np.zeros(count, np.int64)
        self._slot = np.zeros(count, np.int64)
        self._following = FIRST_OWN_LOCID

    def put(self, locid: "I64", slot: "I64", covered: Any) -> None:
        """Replace our numbers by those that stand for them, if no custom geolocation ``covered`` the address."""
        if not self._any:
            return
        mine = np.flatnonzero(~covered & self.is_own[slot])
        place = self._place[slot[mine]]
        new, first = np.unique(place, return_index=True)
        order = np.argsort(first[self._number[new] == 0])
        first, new = first[self._number[new] == 0][order], new[self._number[new] == 0][order]
        self._number[new] = np.arange(self._following, self._following + len(new))
        self._slot[new] = slot[mine[first]]
        self._following += len(new)
        locid[mine] = self._number[place]

    def first_slots(self) -> "tuple[I64, I64]":
        """The slots of the places that were met, in the order of their numbers; and the number of each slot."""
        met = np.flatnonzero(self._number)
        met = met[np.argsort(self._number[met])]
        numbers = np.zeros(len(self._place), np.int64)
        numbers[self._slot[met]] = self._number[met]
        return self._slot[met], numbers


def _distinct(reader: "IndexReader", slots: "I64") -> "I64":
    """A number for each of these slots, the same for those that are equal in all fields."""
    arrays = reader.arrays()
    found = np.zeros(len(slots), np.int64)
    for name in (*DEGREES, *TEXT_NAMES):
        column = arrays[f"loc.{name}"][slots]
        _, number = np.unique(degrees_as_numbers(column) if name in DEGREES else column, return_inverse=True)
        # Both are below the number of slots, so the pair fits into 64 bits.
        _, found = np.unique(found * (len(slots) + 1) + number, return_inverse=True)
    return found


def _runs(
    stretch: Stretch,
    locids: "list[I64]",
    used: list[Any],
    own: _OwnNumbers,
    family: Literal[4, 6],
    before: int | None,
) -> tuple[bytes, int]:
    """The runs that begin in a stretch, and the locid of the last; ``before`` is the locid of the run that reaches into
    it."""
    base, over = stretch.slots
    covered = over != -1
    used[1][over[covered]] = True
    used[0][base[~covered]] = True
    locid = np.where(covered, locids[1][over], locids[0][base])
    own.put(locid, base, covered)
    begins = np.append(True, locid[1:] != locid[:-1])
    begins[0] = before is None or int(locid[0]) != before
    runs = np.empty(int(begins.sum()), _RUN_V4 if family == 4 else _RUN_V6)
    if family == 4:
        runs["first"] = stretch.lo[begins]
    else:
        runs["hi"], runs["lo"] = stretch.hi[begins], stretch.lo[begins]
    runs["locid"] = locid[begins]
    return runs.tobytes(), int(locid[-1])


def _rows(reader: "IndexReader", slots: "I64", locids: "I64") -> "list[bytes]":
    """The geolocations of these slots, with these numbers."""
    arrays = reader.arrays()
    texts = [struct.pack(">I", len(text)) + text for text in texts_of(reader)]
    numbers = np.empty(len(slots), np.dtype([("locid", ">i8"), *((name, ">f8") for name in DEGREES)]))
    numbers["locid"] = locids
    for name in DEGREES:
        numbers[name] = degrees_as_numbers(arrays[f"loc.{name}"][slots]).view(np.float64)
    columns = [arrays[f"loc.{name}"][slots].tolist() for name in TEXT_NAMES]
    try:
        joined = [b"".join([texts[number] for number in row]) for row in zip(*columns, strict=True)]
    except IndexError as error:
        raise IndexDamagedError(f"{reader.path}: a location names a text that is not there") from error
    width = numbers.dtype.itemsize
    head = numbers.tobytes()
    return [head[at * width : (at + 1) * width] + text for at, text in enumerate(joined)]
