"""Python's collector of garbage, during what makes many objects that live until its end: to look for cycles among them
again and again takes a fifth of the time, and finds none. And giving the system what is free between larger steps.
"""

import contextlib
import ctypes
import gc
from collections.abc import Iterator

#: New objects between two looks; Python's own number is some hundreds. With 50,000, the looks were a third of the time
#: of a night of 100,000 prefixes.
_EACH = 1_000_000


@contextlib.contextmanager
def rarely_collected() -> Iterator[None]:
    """Have the collector of the process look more rarely until the end of the context."""
    before = gc.get_threshold()
    gc.set_threshold(max(_EACH, before[0]) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def give_back() -> None:
    """Give the system the memory that lies free between what is in use: else what one step had adds to the next one's.

    The library of C does so by itself at the end of its memory only, and other libraries know no such call.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
