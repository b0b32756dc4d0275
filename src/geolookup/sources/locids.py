"""Numbers that survive: places without a number of their own keep the one that they were given at first.

Two places are equal if all fields are. A number that was given is never given to another place, even after its
place has gone: so an old number in a log still means what it meant.
"""

import functools
import hashlib
import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

from geolookup.index.flatten import I64, Array
from geolookup.model.fields import DEGREES, FIRST_OWN_LOCID, TEXT_NAMES
from geolookup.sources.places import PlaceFields, degrees_of, texts_of

DIGEST_BYTES = 16
_KIND = np.dtype(f"V{DIGEST_BYTES}")
#: What stands for a place: the digests of its texts, and its degrees.
_ROW = np.dtype([*((name, _KIND) for name in TEXT_NAMES), *((name, "<f8") for name in DEGREES)])
_ROWS_A_STEP = 1 << 14
_Digests: TypeAlias = np.ndarray[Any, np.dtype[np.void]]


def digests_of_texts(texts: Iterable[bytes]) -> _Digests:
    """128 bits that stand for each of these texts, in UTF-8."""
    return np.frombuffer(b"".join([_digest(text) for text in texts]), _KIND)


def digests_of(texts: Mapping[str, Array], degrees: Mapping[str, Array], of_texts: _Digests) -> bytes:
    """128 bits for each of many places in columns, joined: equal for equal places.

    ``texts`` has by field the numbers of texts among ``of_texts``, ``degrees`` numbers or NaN.
    """
    found = []
    count = len(texts[TEXT_NAMES[0]])
    for begin in range(0, count, _ROWS_A_STEP):
        part = slice(begin, begin + _ROWS_A_STEP)
        rows = np.empty(min(_ROWS_A_STEP, count - begin), _ROW)
        for name in TEXT_NAMES:
            rows[name] = of_texts[texts[name][part]]
        for name in DEGREES:
            # Adding zero makes 0.0 of -0.0, which is equal to it and has other bytes; so have those that are not known.
            rows[name] = np.where(np.isnan(degrees[name][part]), math.nan, degrees[name][part] + 0.0)
        found += [_digest(row) for row in rows.view(f"V{_ROW.itemsize}").tolist()]
    return b"".join(found)


def place_digest(place: PlaceFields) -> bytes:
    """`digests_of` for one place."""
    own = b"".join([_known_digest(text) for text in texts_of(place)])
    degrees = [math.nan if value is None else value + 0.0 for value in degrees_of(place)]
    return _digest(own + np.array(degrees, "<f8").tobytes())


def _digest(octets: bytes) -> bytes:
    return hashlib.blake2b(octets, digest_size=DIGEST_BYTES).digest()


@functools.lru_cache(1 << 14)
def _known_digest(text: str) -> bytes:
    return _digest(text.encode("utf-8"))


class Numbered(NamedTuple):
    """Places that have numbers: the numbers, and the digests of the places, joined."""

    locids: I64
    digests: bytes

    @classmethod
    def of(cls, places: Iterable[tuple[int, PlaceFields]]) -> Self:
        """A few places with their numbers."""
        listed = [*places]
        return cls(np.array([locid for locid, _ in listed], np.int64), b"".join([place_digest(at) for _, at in listed]))


class Numbering:
    """Gives a source's places their numbers, by what the source's last snapshots say.

    It keeps 24 bytes for each earlier place.
    """

    def __init__(
        self, earlier: Iterable[Numbered] = (), *, following: int = FIRST_OWN_LOCID, taken: Collection[int] = ()
    ) -> None:
        """``earlier`` are the numbers and places of the source's last snapshots, in any order. ``following`` is the
        next number that no source of this state was ever given. ``taken`` are numbers that a service uses itself: if
        an earlier place has one of these, it gets another.
        """
        known = [*earlier]
        locids = np.concatenate([np.empty(0, np.int64), *(each.locids for each in known)])
        upper, lower = _halves(b"".join([each.digests for each in known]))
        self._taken = frozenset(taken)
        #: The next number to give; keep it with the state, for the next `Numbering` of any source.
        self.following = max(following, int(locids.max(initial=0)) + 1, FIRST_OWN_LOCID)
        order = np.argsort(upper, kind="stable")
        order = order[~np.isin(locids[order], np.fromiter(self._taken, np.int64, len(self._taken)))]
        self._upper, self._lower, self._locids = upper[order], lower[order], locids[order]
        self.kept = 0
        self.given = 0

    def numbers_of(self, digests: bytes) -> I64:
        """The number of each of these places, each of which is asked for once, by their joined digests: its earlier
        one, else the next free ones in their order.
        """
        upper, lower = _halves(digests)
        found = np.full(len(upper), -1, np.int64)
        if len(self._upper):
            at = np.minimum(np.searchsorted(self._upper, upper), len(self._upper) - 1)
            same = (self._upper[at] == upper) & (self._lower[at] == lower)
            found[same] = self._locids[at[same]]
        new = np.flatnonzero(found < 0)
        self.kept += len(upper) - len(new)
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


def _halves(joined: bytes) -> tuple[Array, Array]:
    pairs = np.frombuffer(joined, "<u8").reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
