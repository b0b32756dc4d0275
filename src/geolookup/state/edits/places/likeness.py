"""Likeness of two geolocations, on a service that may store something else than it was sent.

*Same*: every field is equal, or differs as this service was seen to store that field of an acknowledged write. *Like*:
near enough that a person may have meant one of them by the other. Two branches in one town are alike, and are not the
same.
"""

import functools
import math
import struct
import unicodedata
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Any, TypeAlias

from geolookup.model.fields import DEGREES, FIELD_NAMES, TEXT_NAMES
from geolookup.state.edits.places.place import Values

#: What was sent, and what the service made of it.
Seen: TypeAlias = tuple[Values, Values]
#: A way in which a service stores a coordinate.
_Way: TypeAlias = Callable[[float], float]

_TEXTS = tuple(FIELD_NAMES.index(name) for name in TEXT_NAMES)
_DEGREES = tuple(FIELD_NAMES.index(name) for name in DEGREES)
_COUNTRY, _REGION, _CITY = (FIELD_NAMES.index(name) for name in ("country", "region", "city"))
#: Coordinates closer than this are of one place, also if all else differs; in degrees.
NEAR_DEGREES = 0.01
#: Coordinates closer than this are of one place if its texts are alike too; in degrees.
TOWN_DEGREES = 0.1
_TINY = 1e-9
#: Nobody stores more digits, and with fewer than none, two places of one country would be alike.
_DIGITS = range(8)
_NOWHERE = "nowhere"


@functools.lru_cache(maxsize=4096)
def folded(text: str) -> str:
    """A text without what services commonly change: capitals, blanks, signs, leading zeros, the form of its Unicode."""
    shown = (
        each for each in unicodedata.normalize("NFKC", text).casefold() if unicodedata.category(each)[0] not in "ZPC"
    )
    return "".join(shown).lstrip("0")


def _way(sent: str, stored: str) -> Hashable:
    """The way in which a text is stored: of one that only somebody who knows could tell, the two."""
    ours, theirs = folded(sent), folded(stored)
    if not stored or ours == theirs:
        return "folded" if stored else "emptied"
    return "cut" if ours.startswith(theirs) else (ours, theirs)


def _single(degrees: float) -> float:
    return float(struct.unpack("f", struct.pack("f", degrees))[0])


def _ways() -> list[_Way]:
    ways: list[_Way] = [_single]
    for digits in _DIGITS:
        factor = 10.0**digits
        ways.append(lambda degrees, digits=digits: round(degrees, digits))  # type: ignore[misc] # the default binds it
        ways.append(lambda degrees, factor=factor: math.trunc(degrees * factor) / factor)  # type: ignore[misc]
    return ways


_WAYS = _ways()


def _close(one: float | None, other: float | None, most: float = _TINY) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= most


def _is_so(way: _Way, sent: Values, stored: Values) -> bool:
    """True if storing in this way explains both coordinates."""
    return all(
        sent[at] is None if stored[at] is None else sent[at] is not None and _close(way(sent[at]), stored[at])
        for at in _DEGREES
    )


class Forms:
    """The forms in which a service was seen to store what was sent to it; see `looking.recognised`."""

    def __init__(self, seen: Iterable[Seen] = ()) -> None:
        self._seen: set[Seen] = set()
        #: Pairs that were seen since.
        self.learned: list[Seen] = []
        self._is_exact = True
        #: What became of each value of a field.
        self._stored: dict[tuple[int, Any], set[Any]] = {}
        self._texts: set[tuple[int, Hashable]] = set()
        #: The ways that explain all coordinates which any of them explains, and whether one has changed any.
        self._ways, self._moves = _WAYS, False
        for pair in seen:
            self._take(*pair)

    def _take(self, sent: Values, stored: Values) -> None:
        self._seen.add((sent, stored))
        self._is_exact = self._is_exact and sent == stored
        for at, value in enumerate(sent):
            self._stored.setdefault((at, value), set()).add(stored[at])
        for at in _TEXTS:
            if sent[at] != stored[at]:
                way = _way(sent[at], stored[at])
                self._texts |= {(at, way), (at, "folded" if way == "cut" else way)}
        if ways := [way for way in self._ways if _is_so(way, sent, stored)]:
            self._ways = ways
            self._moves = self._moves or any(sent[at] != stored[at] for at in _DEGREES)

    def learn(self, sent: Values, stored: Values) -> None:
        """Take in what the service made of something, if that tells anything new, or that a form was none."""
        pair = sent, stored
        refutes = any(
            stored[at] == value and self._stored.get((at, value), {value}) != {value} for at, value in enumerate(sent)
        )
        if pair not in self._seen and (sent != stored or not self._seen or refutes):
            self._take(*pair)
            self.learned.append(pair)

    def same(self, sent: Values, found: Values) -> bool:
        """True if what was found may be what the service made of what was sent, as far as was seen."""
        return sent == found or all(self._same(at, sent, found) for at in range(len(sent)))

    def may_be(self, sent: Values, found: Values) -> bool:
        """True if what was found is like what was sent, and the service may have made it of that."""
        return not (self._seen and self._is_exact) and self.like(sent, found)

    def as_sent(self, sent: Values, found: Values) -> Values:
        """What was found, with each value as it was sent where it is the same."""
        if sent == found:
            return found
        return tuple(sent[at] if self._same(at, sent, found) else value for at, value in enumerate(found))

    def as_seen(self, sent: Values, found: Values) -> Values:
        """The same, only where just this was seen to be stored of that."""
        return tuple(sent[at] if self._was_stored(at, sent[at], value) else value for at, value in enumerate(found))

    def like(self, sent: Values, found: Values) -> bool:
        """True if two geolocations are so near that either may be meant by the other."""
        if found[_COUNTRY] and folded(sent[_COUNTRY]) != folded(found[_COUNTRY]):
            return False
        if any(sent[at] is None or found[at] is None for at in _DEGREES):
            return _like_texts(sent, found)
        apart = max(abs(sent[at] - found[at]) for at in _DEGREES)
        if apart <= NEAR_DEGREES + _TINY or any(_is_so(way, sent, found) for way in _WAYS):
            return True
        return apart <= TOWN_DEGREES + _TINY and _like_texts(sent, found)

    def identical(self, sent: Values, found: Values) -> bool:
        """True if two have the country and the city, and the coordinates, which a service may have cut or rounded."""
        if not all(self._same(at, sent, found) for at in (_COUNTRY, _CITY)):
            return False
        ways = () if self._seen and self._is_exact else _WAYS
        return all(sent[at] == found[at] for at in _DEGREES) or any(_is_so(way, sent, found) for way in ways)

    def akin(self, one: Values, other: Values) -> bool:
        """True if they have the city or both coordinates in common."""
        where = all(one[at] is not None and one[at] == other[at] for at in _DEGREES)
        return where or bool(one[_CITY] and one[_CITY] == other[_CITY])

    def overlap(self, some: Iterable[Any], others: Collection[Any]) -> bool:
        """True if a block of one has an address of a block of the other."""
        return any(
            one.family == other.family and one.first <= other.last and other.first <= one.last
            for one in some
            for other in others
        )

    def meant(self, sent: Values, found: Values) -> bool:
        """True if what was found has the city, or is where what was sent is."""
        ours, theirs = folded(sent[_CITY]), folded(found[_CITY])
        is_near = all(_close(sent[at], found[at], TOWN_DEGREES) for at in _DEGREES)
        return is_near or any(_is_so(way, sent, found) for way in _WAYS) or bool(theirs and ours.startswith(theirs))

    def cell(self, values: Values) -> Hashable:
        """A square of one degree."""
        latitude, longitude = (values[at] for at in _DEGREES)
        return _NOWHERE if latitude is None or longitude is None else (math.floor(latitude), math.floor(longitude))

    def near(self, values: Values) -> Iterator[Hashable]:
        """The square and those around it: rounding moves nothing by more than one."""
        row, column = (math.floor(values[at] or 0.0) for at in _DEGREES)
        yield _NOWHERE
        yield from ((row + up, column + right) for up in (-1, 0, 1) for right in (-1, 0, 1))

    def _same(self, at: int, sent: Values, found: Values) -> bool:
        if sent[at] == found[at] or self._was_stored(at, sent[at], found[at]):
            return True
        if at in _DEGREES:
            ways = self._ways if self._moves else ()
            return _close(sent[at], found[at]) or any(_is_so(way, sent, found) for way in ways)
        way = _way(sent[at], found[at])
        return (at, way) in self._texts and not (isinstance(way, tuple) and self._was_stored(at, sent[at], sent[at]))

    def keeps(self, at: int) -> bool:
        """True if some value of a field was seen to be stored just as it was sent."""
        return any(which == at and value and value in forms for (which, value), forms in self._stored.items())

    def _was_stored(self, at: int, sent: Any, stored: Any) -> bool:
        """True if this value of a field was seen to be stored so, and never just as it was sent."""
        forms = self._stored.get((at, sent), set())
        return stored in forms and (sent not in forms or sent == stored)


def _like_texts(sent: Values, found: Values) -> bool:
    return all(folded(sent[at]) == folded(found[at]) for at in (_REGION, _CITY))


def may_be_stored(sent: Values, found: Values, *, renamed: Collection[int] = ()) -> bool:
    """True if a service may have made this of what was sent, while its way of storing is not known.

    Capitals, blanks, signs, leading zeros, the form of the Unicode, the beginning of a text, an emptied field or fewer
    digits. Anything else only in the fields that may be ``renamed``, by their positions: a colleague may have written
    it. Another text may stand only where the coordinates agree.
    """
    at_one_place = any(_is_so(way, sent, found) for way in _WAYS)
    if not at_one_place and not all(at in renamed or _close(sent[at], found[at], 1e-4) for at in _DEGREES):
        return False
    return all(
        sent[at] == found[at] or at in renamed or folded(sent[at]).startswith(folded(found[at])) for at in _TEXTS
    )
