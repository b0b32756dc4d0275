"""Moments as the state directory writes them, and the clocks that they come from; the one place that asks for them."""

import functools
import sys
import time
from datetime import UTC, datetime


def wall() -> datetime:
    """This moment by the wall clock: the one place that asks for it, so that a test can let time pass."""
    return datetime.now(UTC)


def steady_s() -> float:
    """Seconds of a clock that never jumps, for ages within one process."""
    return time.monotonic()


def boot_s() -> float:
    """Seconds since this machine was started, its sleep included if the system counts that."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


@functools.cache
def boot_id() -> str:
    """A text that is another one after each start of the machine; "" if the system has none, which equals no boot."""
    if sys.platform == "darwin":
        return _sysctl(b"kern.bootsessionuuid")
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _sysctl(name: bytes) -> str:
    """A text that the kernel of macOS or a BSD keeps by name; "" if there is none."""
    import ctypes  # late: it costs some milliseconds
    import ctypes.util

    try:
        library = ctypes.CDLL(ctypes.util.find_library("c"))
        size = ctypes.c_size_t(256)
        buffer = ctypes.create_string_buffer(size.value)
        failed = library.sysctlbyname(name, buffer, ctypes.byref(size), None, ctypes.c_size_t(0))
    except (OSError, AttributeError):
        return ""
    return "" if failed else buffer.value.decode("ascii", "replace")


def sleep(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)


def now_text() -> str:
    """This moment in UTC, as ISO 8601 text with milliseconds: texts of this form order as the moments do."""
    return text_of(wall())


def text_of(moment: datetime) -> str:
    """A moment, whose zone is known, in the form of `now_text`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def age_s(moment: str) -> float:
    """Seconds of wall time since a moment of `now_text`, or the begin of a day in UTC.

    Zero if the clock went back, or the text is neither.
    """
    try:
        then = datetime.fromisoformat(moment)
        then = then.replace(tzinfo=UTC) if then.tzinfo is None else then
        return max(0.0, (wall() - then).total_seconds())
    except (ValueError, TypeError):
        return 0.0
