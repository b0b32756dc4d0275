"""Living in another time zone."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from zoneinfo import ZoneInfo


@contextmanager
def local_zone(name: str) -> Iterator[ZoneInfo]:
    """Live in a zone for a while."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = name
    time.tzset()
    try:
        yield ZoneInfo(name)
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()
