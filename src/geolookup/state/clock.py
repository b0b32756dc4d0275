"""Moments as the state directory writes them, and ages by them."""

import time
from datetime import UTC, datetime


def wall() -> datetime:
    """This moment by the wall clock: the one place that asks for it, so that a test can let time pass."""
    return datetime.now(UTC)


def steady_s() -> float:
    """Seconds of a clock that never jumps, for ages within one process."""
    return time.monotonic()


def now_text() -> str:
    """This moment in UTC, as ISO 8601 text with milliseconds: texts of this form order as the moments do."""
    return text_of(wall())


def text_of(moment: datetime) -> str:
    """A moment, whose zone is known, in the form of `now_text`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def age_s(moment: str) -> float:
    """Seconds of wall time since a moment of `now_text`; zero where the clock went back, or it is no moment."""
    try:
        then = datetime.fromisoformat(moment)
        return max(0.0, (wall() - then).total_seconds())
    except (ValueError, TypeError):
        return 0.0
