"""Coordinates and countries as people write them, read as the numbers and codes that they mean."""

import re
from typing import Final

from geolookup.model.countries import country_in_words, is_code

_NUMBER: Final = r"[0-9]+(?:[.,][0-9]+)?"
#: An angle with its sign or side of the world: ``50°43'12,5"N``, ``N 50.72``, ``-0,12``.
_ANGLE: Final = re.compile(
    rf"(?P<before>[NSEW]?)\s*(?P<sign>[+-]?)\s*(?P<degrees>{_NUMBER})\s*(?:[°º]\s*"
    rf"(?:(?P<minutes>{_NUMBER})\s*['′’]\s*(?:(?P<seconds>{_NUMBER})\s*(?:\"|″|”|''|′′|’’)\s*)?)?)?(?P<after>[NSEW]?)",
    re.IGNORECASE,
)
_PLAIN: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_SIDES: Final = {"latitude": "NS", "longitude": "EW"}

DECIMAL_COMMA: Final = "with a decimal comma"
ANGLE: Final = "with degree signs or a side of the world"


def degrees_of(text: str, field: str) -> tuple[float, str] | None:
    """The degrees that a text means for ``latitude`` or ``longitude``, and how it is written ("" as numbers are).

    None if it means none.
    """
    text = text.strip().replace("\u2212", "-")
    if _PLAIN.fullmatch(text):
        return float(text), ""
    found = _ANGLE.fullmatch(text)
    if found is None:
        return None
    side = (found["before"] or found["after"]).upper()
    if (found["before"] and found["after"]) or (side and (found["sign"] or side not in _SIDES[field])):
        return None
    degrees, minutes, seconds = (
        float((found[part] or "0").replace(",", ".")) for part in ("degrees", "minutes", "seconds")
    )
    if minutes >= 60 or seconds >= 60:
        return None
    value = degrees + minutes / 60 + seconds / 3600
    value = round(value, 7) if minutes or seconds else value
    comma = "," in text and not found["minutes"] and not side
    return -value if side in ("S", "W") or found["sign"] == "-" else value, DECIMAL_COMMA if comma else ANGLE


def pair_of(text: str) -> tuple[str, str] | None:
    """The texts of a latitude and a longitude that stand in one: ``52.52, 13.40``, ``52,52; 13,40``, ``50°N 7°E``."""
    text = text.strip().strip("()[]")
    # A comma between digits alone is a decimal one: 52,52 is one number, or one that is lacking.
    points = (r"\s*,\s*",) if "." in text and text.count(",") == 1 else ()
    for between in (r"\s*[;/|]\s*", r"\s*,\s+", r"(?<=[NSEWnsew])\s*,?\s*(?=[0-9])", *points, r"\s+"):
        parts = re.split(between, text)
        if len(parts) == 2 and degrees_of(parts[0], "latitude") and degrees_of(parts[1], "longitude"):
            return parts[0], parts[1]
    return None


def country_of(text: str) -> str | None:
    """The code of a country that is written as a code or in words, in any of eight languages; None if it is neither."""
    text = text.strip()
    return text if not text or is_code(text) else country_in_words(text) or None
