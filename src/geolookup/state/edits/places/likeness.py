"""Likeness of two geolocations, on a service that may store something else than it was sent.

*Same*: every field is equal, or differs as this service was seen to store that field of an acknowledged write. *Like*:
near enough that a person may have meant one of them by the other. Two branches in one town are alike, and are not the
same.
"""

import math
import struct
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from geolookup.model.fields import DEGREES, TEXT_NAMES

Fields: TypeAlias = Mapping[str, Any]
#: What was sent, and what the service made of it.
Seen: TypeAlias = tuple[Fields, Fields]
#: A way in which a service stores a coordinate.
_Way: TypeAlias = Callable[[float], float]

#: Coordinates closer than this are of one place, also if all else differs; in degrees.
NEAR_DEGREES = 0.01
#: Coordinates closer than this are of one place if its texts are alike too; in degrees.
TOWN_DEGREES = 0.1
_TINY = 1e-9
#: Texts that a service may replace by its own name of the same thing.
_RENAMED = ("country", "region", "city")
#: Nobody stores more digits, and with fewer than none, two places of one country would be alike.
_DIGITS = range(8)


def folded(text: str) -> str:
    """A text without what services commonly change: capitals, blanks, and the form of its Unicode."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


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


def _is_so(way: _Way, sent: Fields, stored: Fields) -> bool:
    """True if storing in this way explains both coordinates."""
    return all(
        sent[name] is None if stored[name] is None else sent[name] is not None and _close(way(sent[name]), stored[name])
        for name in DEGREES
    )


class Forms:
    """The forms in which a service was seen to store what was sent to it.

    ``exact`` is true if it was seen at all, and stored everything as it came.
    """

    def __init__(self, seen: Iterable[Seen]) -> None:
        pairs = list(seen)
        self.exact = bool(pairs) and all(dict(sent) == dict(stored) for sent, stored in pairs)
        self._folding: set[str] = set()
        self._emptying: set[str] = set()
        self._renaming: set[tuple[str, str, str]] = set()
        self._ways: list[_Way] = []
        for sent, stored in pairs:
            for name in TEXT_NAMES:
                self._learn(name, sent[name], stored[name])
        moved = [pair for pair in pairs if any(pair[0][name] != pair[1][name] for name in DEGREES)]
        if moved:
            self._ways = [way for way in _WAYS if all(_is_so(way, sent, stored) for sent, stored in pairs)]

    def _learn(self, name: str, sent: str, stored: str) -> None:
        if sent == stored:
            return
        if not stored:
            self._emptying.add(name)
        elif folded(sent) == folded(stored):
            self._folding.add(name)
        else:
            self._renaming.add((name, folded(sent), folded(stored)))

    def same(self, sent: Fields, found: Fields) -> bool:
        """True if what was found may be what the service made of what was sent, as far as was seen."""
        if dict(sent) == dict(found):
            return True
        return self._same_coordinates(sent, found) and all(
            self._same_text(name, sent[name], found[name]) for name in TEXT_NAMES
        )

    def _same_coordinates(self, sent: Fields, found: Fields) -> bool:
        if all(_close(sent[name], found[name]) for name in DEGREES):
            return True
        return any(_is_so(way, sent, found) for way in self._ways)

    def _same_text(self, name: str, sent: str, found: str) -> bool:
        if sent == found:
            return True
        if not found:
            return name in self._emptying
        if folded(sent) == folded(found):
            return name in self._folding
        return (name, folded(sent), folded(found)) in self._renaming


def like(sent: Fields, found: Fields) -> bool:
    """True if two geolocations are so near that either may be meant by the other."""
    if found["country"] and folded(sent["country"]) != folded(found["country"]):
        return False
    if any(sent[name] is None or found[name] is None for name in DEGREES):
        return _like_texts(sent, found)
    apart = max(abs(sent[name] - found[name]) for name in DEGREES)
    if apart <= NEAR_DEGREES + _TINY or any(_is_so(way, sent, found) for way in _WAYS):
        return True
    return apart <= TOWN_DEGREES + _TINY and _like_texts(sent, found)


def _like_texts(sent: Fields, found: Fields) -> bool:
    return all(folded(sent[name]) == folded(found[name]) for name in ("region", "city"))


def may_be_stored(sent: Fields, found: Fields, *, renamed: bool = False) -> bool:
    """True if a service may have made this of what was sent, while its way of storing is not known.

    Capitals, blanks, the form of the Unicode, an emptied field or fewer digits. Another text only if it may be
    ``renamed``, and the coordinates agree, and not in the fields that tell one branch from the next: a colleague may
    have written it, so that is for the first look at what was just created.
    """
    at_one_place = any(_is_so(way, sent, found) for way in _WAYS)
    if not at_one_place and not all(_close(sent[name], found[name], 1e-4) for name in DEGREES):
        return False
    return all(
        sent[name] == found[name]
        or not found[name]
        or folded(sent[name]) == folded(found[name])
        or (renamed and name in _RENAMED and bool(sent[name]))
        for name in TEXT_NAMES
    )
