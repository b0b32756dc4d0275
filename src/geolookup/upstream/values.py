"""The values of a row, as a service may send them: whole numbers that may be quoted, text, degrees."""

import math
import re

from geolookup.base.text import harmless

#: The most characters that a text field may have.
MAX_TEXT = 65536

_WHOLE = re.compile(r"-?[0-9]{1,40}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?", re.ASCII)


class BadRowError(Exception):
    """Why a row or block is left out; `geolookup.upstream.decode` catches it."""


def whole(value: object) -> int | None:
    """A whole number, or a quoted one; None for anything else."""
    if type(value) is int:
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    return None


def text_of(value: str | int | float | None) -> str:
    """A text field, empty if there is none; some services send numbers.

    :raises BadRowError: if it is a number of thousands of digits
    """
    if type(value) is str:
        return value
    if value is None:
        return ""
    try:
        return str(value)
    except ValueError as error:
        raise BadRowError("a text field is a number too long to be text") from error


def checked_text(value: object, name: str) -> str | int | float | None:
    """A text field that no type was given for, as it was sent.

    :raises BadRowError: if it is not text, or not text that can be kept
    """
    if value is None:
        return None
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise BadRowError(f"{name} has more than {MAX_TEXT} characters")
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise BadRowError(f"{name} has half of a surrogate pair")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise BadRowError(f"{name} is not text")
    return value


def _is_finite(value: int | float) -> bool:
    return isinstance(value, int) or math.isfinite(value)


def degrees(value: int | float | str | None, most: int, name: str) -> float | None:
    """A coordinate, None if there is none; ``most`` is the largest that ``name`` may have, north or east.

    :raises BadRowError: if it is not a number, or is too large
    """
    if value is None or value == "":
        return None
    if isinstance(value, str):
        if not _DECIMAL.fullmatch(value):
            raise BadRowError(f"{name} is not a number: {harmless(value, 40)!r}")
        value = float(value)
    if not -most <= value <= most:
        raise BadRowError(f"{name} is not between -{most} and {most}")
    return float(value)
