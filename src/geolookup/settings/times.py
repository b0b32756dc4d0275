"""Lengths of time and moments as people write and read them: ``36h``; ``yesterday``, ``06:00``, ``2026-02-01 06:00``.

A length of time in the settings is a number with a unit, or seconds. A moment without a zone is of the local zone, and
text that is shown names its zone. The grammar is small and strict on purpose: libraries that understand free text take
``42`` for a day, ``01/02`` for either of two, and "yesterday" for a time of day.
"""

import math
import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from geolookup.base.text import count

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_FORM = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([smhdw]?)", re.ASCII)

_UNITS = {
    "s": ("s", "sec", "secs", "second", "seconds"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hour", "hours"),
    "d": ("d", "day", "days"),
    "w": ("w", "week", "weeks"),
}
_UNIT_OF = {word: unit for unit, words in _UNITS.items() for word in words}
_STEP = rf"([0-9]{{1,9}})\s*({'|'.join(sorted(_UNIT_OF, key=len, reverse=True))})"
_AGO = re.compile(rf"-?((?:{_STEP}\s*)+)(?:\bago)?", re.ASCII | re.IGNORECASE)
_DAY = re.compile(r"(today|yesterday)(?:[ T]+(.*))?", re.ASCII | re.IGNORECASE)
_TIME = re.compile(r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?", re.ASCII)
_ZONE = re.compile(r"(.*[0-9]) *(UTC|GMT|[A-Z][A-Za-z_]+(?:/[A-Za-z0-9_+-]+)+)", re.ASCII)

#: The forms that a person may write, for messages and pages.
FORMS = "yesterday, 2d, 1h30m, 06:00, 2026-02-01, 2026-02-01 06:00 or 2026-02-01T06:00:00Z"


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
        found = float(match[1]) * _SECONDS[match[2] or "s"]
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


def of_day(dated: str | None) -> str:
    """The day that data are of, for people: ``dated`` is a date or moment (ISO 8601), None if their file says none."""
    return f"of {dated[:10]}" if dated else "of unknown date"


def is_ago(text: str) -> bool:
    """True if this is a length of time before now, such as ``2d`` or ``-1h``."""
    return _AGO.fullmatch(text.strip()) is not None


def moment(text: str, now: datetime) -> datetime:
    """The moment that a person means, in UTC; ``now`` is this moment.

    A day, ``yesterday`` too, means its end (of today: now), and a time to the minute or second the end of that second:
    the question is what was so then. A length of time means so long before now. A time without a zone is local.

    :raises ValueError: if it is none, or cannot be in a calendar; the message says what to write
    """
    text = " ".join(text.split())
    try:
        found = _found(text, now)
    except OverflowError:
        found = None
    if found is None:
        raise ValueError(f"{text!r:.60} is not a moment: write {FORMS}")
    return found


def end_of(day: date, now: datetime, zone: tzinfo | None = None) -> datetime:
    """The last millisecond of a day in a zone, None is the local one, in UTC; now, if the day is today.

    :raises OverflowError: if it is before or after all time in UTC
    """
    if day == now.astimezone(zone).date():
        return now
    return to_utc(datetime.combine(day + timedelta(days=1), time(), zone)) - timedelta(milliseconds=1)


def to_utc(found: datetime) -> datetime:
    """A moment in UTC; one without a zone is local. Of a local time that comes twice, as clocks go back, the first.

    :raises OverflowError: if it is before or after all time in UTC
    """
    try:
        return found.astimezone(UTC)
    except (OSError, ValueError) as error:  # beyond what the C library has local times for
        raise OverflowError("beyond the times that this system knows") from error


def shown(moment: datetime | str) -> str:
    """A moment as text for people: to the second, in the local zone, which it names; `moment` reads it again.

    Text is a moment in ISO 8601; text that is none is shown as it is.
    """
    try:
        found = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    except ValueError:
        return str(moment)
    try:
        local = to_utc(found).astimezone()
    except OverflowError:
        local = found
    return local.isoformat(" ", "seconds").replace("+00:00", "Z")


def _found(text: str, now: datetime) -> datetime | None:
    lower = text.lower()
    if lower == "now":
        return now
    ago = _AGO.fullmatch(text)
    if ago is not None:
        steps = re.findall(_STEP, ago[1], re.ASCII | re.IGNORECASE)
        return now - timedelta(seconds=sum(int(count) * _SECONDS[_UNIT_OF[unit.lower()]] for count, unit in steps))
    text, zone = _with_zone(text)
    day = _DAY.fullmatch(text)
    today = now.astimezone(zone).date()
    if day is not None:
        meant = today if day[1].lower() == "today" else today - timedelta(days=1)
        if day[2] is None:
            return end_of(meant, now, zone)
        text = f"{meant.isoformat()} {day[2]}"
    elif _TIME.fullmatch(text):
        text = f"{today.isoformat()} {text}"
    return _iso(text, now, zone)


def _with_zone(text: str) -> tuple[str, tzinfo | None]:
    """A text without the name of a zone at its end, and that zone; None is the local one."""
    named = _ZONE.fullmatch(text)
    if named is None:
        return text, None
    if named[2] in ("UTC", "GMT"):
        return named[1], UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # late: few moments name a zone

    try:
        return named[1], ZoneInfo(named[2])
    except (ZoneInfoNotFoundError, ValueError):
        return text, None


def _iso(text: str, now: datetime, zone: tzinfo | None) -> datetime | None:
    text = re.sub(r"(?<=[ T])([0-9]:)", r"0\1", text)  # 6:00
    try:
        if len(text) <= len("2026-02-01"):
            return end_of(date.fromisoformat(text), now, zone)
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    if found.tzinfo is None and zone is not None:
        found = found.replace(tzinfo=zone)
    found = to_utc(found)
    if "." in text:
        return found
    end = found + timedelta(milliseconds=999)
    return now if found <= now < end else end
