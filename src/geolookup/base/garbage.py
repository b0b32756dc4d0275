"""Python's collector of garbage, during what makes many objects that live until its end: to look for cycles among them
again and again takes a fifth of the time, and finds none.
"""

import contextlib
import gc
from collections.abc import Iterator

#: New objects between two looks; Python's own number is some hundreds.
_EACH = 50_000


@contextlib.contextmanager
def rarely_collected() -> Iterator[None]:
    """Have the collector of the process look more rarely until the end of the context."""
    before = gc.get_threshold()
    gc.set_threshold(max(_EACH, before[0]) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
