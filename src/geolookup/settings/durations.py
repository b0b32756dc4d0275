"""Lengths of time as people write them in settings: 90, "36h", "2d"."""

import math
import re
from datetime import timedelta

from geolookup.base.text import count

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_FORM = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([smhdw]?)", re.ASCII)


def seconds(duration: str | float | timedelta) -> float:
    """The seconds of a duration: a number of them, or text of a number and a unit (s, m, h, d or w).

    :raises ValueError: if it is not a duration, or not greater than zero
    """
    if isinstance(duration, timedelta):
        found = duration.total_seconds()
    elif isinstance(duration, str):
        match = _FORM.fullmatch(duration.strip())
        if match is None:
            raise ValueError(f"{duration!r:.40} is not a length of time: write 90, 36h or 2d")
        found = float(match[1]) * _UNITS[match[2] or "s"]
    else:
        try:
            found = float(duration)
        except (TypeError, OverflowError) as error:
            raise ValueError(f"{duration!r:.40} is not a length of time: write 90, 36h or 2d") from error
    if not 0 < found < math.inf:
        raise ValueError(f"{duration!r:.40} must be greater than zero")
    return found


def limit(text: str | float) -> float | None:
    """The seconds of a limit to an age, or None for ``none``.

    :raises ValueError: if it is neither that nor a duration
    """
    return None if text == "none" else seconds(text)


def in_words(length_s: float) -> str:
    """A length of time for people, in the largest unit of which it has at least two."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if length_s >= 2 * length:
            return f"{length_s / length:.0f} {unit}"
    return count(round(length_s), "second")
