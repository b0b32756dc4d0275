"""Following CURRENT: something is done for each publish, one at a time, and then for the newest."""

import threading
import time
from collections.abc import Callable

from geolookup.model.errors import GeoLookupError

#: How often it is checked whether something was published.
LOOK_S = 0.5
#: Seconds until what failed is tried again; each failure of the same doubles them.
_RETRY_S = 10.0
_LONGEST_RETRY_S = 600.0


class Retries:
    """When what failed may be tried again: by what it was done for, the newest failure only."""

    def __init__(self, first_s: float = _RETRY_S) -> None:
        self._first_s = first_s
        self._of = ""
        self._times = 0
        self._not_before = 0.0

    def may(self, of: str) -> bool:
        """True if it is time to try it (again)."""
        return of != self._of or time.monotonic() >= self._not_before

    def failed(self, of: str) -> None:
        """It failed: the next try is later each time."""
        self._times = self._times + 1 if of == self._of else 0
        self._of = of
        self._not_before = time.monotonic() + min(_LONGEST_RETRY_S, self._first_s * 2**self._times)

    def done(self) -> None:
        """It was done."""
        self._of = ""


def follow(
    step: Callable[[], None], tell: Callable[[str], None], stop: threading.Event, *, folder: str, look_s: float = LOOK_S
) -> None:
    """Call ``step`` again and again until ``stop`` is set; ``tell`` is told of what it raises, in words.

    ``folder`` is where it writes, for errors of the system.
    """
    while not stop.is_set():
        try:
            step()
        except GeoLookupError as error:
            tell(str(error))
        except OSError as error:
            tell(f"{folder}: {error.strerror}")
        stop.wait(look_s)
