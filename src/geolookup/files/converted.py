"""Values of a table that people write otherwise than programs do, read as they are meant, and counted by kind."""

from collections.abc import Iterator
from typing import Final

from geolookup.base.text import count, harmless
from geolookup.model.fields import DEGREES
from geolookup.model.written import country_of, degrees_of, pair_of

#: Things of a kind that are counted: the words for one of them, and for several.
Kind = tuple[str, str]
_PAIRS: Final = ("pair of coordinates in one cell", "pairs of coordinates in one cell")
_COUNTRIES: Final = ("country in words", "countries in words")


class Counted:
    """Things by their kinds, each with their number and the first of them."""

    def __init__(self) -> None:
        self._found: dict[Kind, tuple[int, str]] = {}

    def add(self, kind: Kind, example: str) -> None:
        """Count one."""
        number, first = self._found.get(kind, (0, example))
        self._found[kind] = number + 1, first

    def lines(self, name: str) -> Iterator[str]:
        """A line for each kind, in the order of the first of each; ``name`` is the table's."""
        for kind, (number, first) in self._found.items():
            yield f"{name}: {count(number, *kind)} ({first})"


def as_meant(values: dict[str, str]) -> list[tuple[Kind, str]]:
    """Put coordinates and the country in the place of what stands for them: what was read otherwise, and as what.

    ``values`` are texts by field, and ``coordinates`` for a latitude and a longitude in one. What means nothing stays.
    """
    told: list[tuple[Kind, str]] = []
    if pair := values.pop("coordinates", "").strip():
        found = pair_of(pair)
        if found is None:
            values["latitude"] = pair  # which is refused as such
        else:
            values.update(zip(DEGREES, found, strict=True))
            told.append((_PAIRS, f"{pair!r:.40}"))
    for name in DEGREES:
        text = values.get(name, "")
        read = degrees_of(text, name) if text.strip() else None
        if read is not None and read[1]:
            values[name] = repr(read[0])
            told.append(((f"coordinate {read[1]}", f"coordinates {read[1]}"), f"{text!r:.40} is {values[name]}"))
    country = values.get("country", "")
    code = country_of(country)
    if code is not None and code != country.strip():
        values["country"] = code
        told.append((_COUNTRIES, f"{harmless(country, 40)!r} is {code}"))
    return told


def guessed(name: str, word: str, lines: int) -> str:
    """What is said of lines that were not UTF-8, and were read as cp1252."""
    return f"{name}: is not UTF-8: {count(lines, word)} read as cp1252 (Windows): look at the names"
