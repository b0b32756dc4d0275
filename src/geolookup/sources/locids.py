"""Numbers that survive: places without a number of their own keep the one that they were given at first.

Two places are equal if all fields are. A number that was given is never given to another place, even after its
place has gone: so an old number in a log still means what it meant.
"""

import hashlib
import struct
from collections.abc import Collection, Iterable
from typing import Any, TypeAlias

import numpy as np

from geolookup.index.flatten import I64
from geolookup.model.fields import DEGREES, FIRST_OWN_LOCID, TEXT_NAMES
from geolookup.sources.places import PlaceFields, Places, degrees_of, texts_of

_DIGEST_BYTES = 16
_pack_degrees = struct.Struct("<" + "?d" * len(DEGREES)).pack
_pack_lengths = struct.Struct(f"<{len(TEXT_NAMES)}I").pack
_Digests: TypeAlias = np.ndarray[Any, np.dtype[np.void]]


def place_digest(place: PlaceFields) -> bytes:
    """128 bits that stand for all fields: equal for equal places."""
    # Whether each is known, and its value; adding zero makes 0.0 of -0.0, which is equal to it and has other bytes.
    known = [part for value in degrees_of(place) for part in (value is not None, (value or 0.0) + 0.0)]
    coordinates = _pack_degrees(*known)
    # A text may hold any character, so their lengths say where each ends.
    encoded = [text.encode("utf-8") for text in texts_of(place)]
    lengths = _pack_lengths(*map(len, encoded))
    return hashlib.blake2b(b"".join((lengths, *encoded, coordinates)), digest_size=_DIGEST_BYTES).digest()


class Numbering:
    """Gives a source's places their numbers, by what the source's last snapshot says.

    It keeps 24 bytes for each earlier place.
    """

    def __init__(
        self,
        earlier: Iterable[tuple[int, PlaceFields]] = (),
        *,
        following: int = FIRST_OWN_LOCID,
        taken: Collection[int] = (),
    ) -> None:
        """``earlier`` are the numbers and places of the source's last snapshot, in any order. ``following`` is the next
        number that no source of this state was ever given. ``taken`` are numbers that a service uses itself: if an
        earlier place has one of these, it gets another.
        """
        digests = bytearray()
        locids: list[int] = []
        highest = FIRST_OWN_LOCID - 1
        for locid, place in earlier:
            highest = max(highest, locid)
            if locid in taken:
                continue
            digests += place_digest(place)
            locids.append(locid)
        self._digests, order = np.unique(_as_digests(bytes(digests)), return_index=True)
        self._locids = np.asarray(locids, np.int64)[order]
        self._taken = frozenset(taken)
        #: The next number to give; keep it with the state, for the next `Numbering` of any source.
        self.following = max(following, highest + 1, FIRST_OWN_LOCID)
        self.kept = 0
        self.given = 0

    def numbers(self, places: Places) -> I64:
        """The number of each place of a complete table: its earlier one, else the next free ones in their order."""
        return self.numbers_of(b"".join(map(place_digest, places)))

    def numbers_of(self, digests: bytes) -> I64:
        """`numbers` for the joined digests of places, each of which is asked for once."""
        wanted = _as_digests(digests)
        found = np.full(len(wanted), -1, np.int64)
        if len(self._digests) and len(wanted):
            at = np.minimum(np.searchsorted(self._digests, wanted), len(self._digests) - 1)
            same = self._digests[at] == wanted
            found[same] = self._locids[at[same]]
        new = np.flatnonzero(found < 0)
        self.kept += len(wanted) - len(new)
        self.given += len(new)
        found[new] = self._next(len(new))
        return found

    def _next(self, count: int) -> I64:
        begin = self.following
        if not any(begin <= number < begin + count + len(self._taken) for number in self._taken):
            self.following = begin + count
            return np.arange(begin, begin + count, dtype=np.int64)
        given: list[int] = []
        while len(given) < count:
            if self.following not in self._taken:
                given.append(self.following)
            self.following += 1
        return np.asarray(given, np.int64)


def _as_digests(joined: bytes) -> _Digests:
    # As big-endian pairs of numbers: numpy sorts and searches structured values field by field.
    return np.frombuffer(joined, np.dtype([("hi", ">u8"), ("lo", ">u8")])).astype([("hi", "<u8"), ("lo", "<u8")])
