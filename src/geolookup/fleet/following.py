"""The two long-running commands: a builder that publishes each publish of its state, and a reader that polls."""

import os
import threading
import time
from collections.abc import Callable

from geolookup.base.stamp import Stamp, stamp_of
from geolookup.fleet.publish import Published
from geolookup.fleet.reader import Received
from geolookup.model.errors import StateBusyError
from geolookup.state.publishing.following import LOOK_S, Retries, follow

#: How often a builder signs anew though nothing changed: what it signs holds for seven days.
SIGN_S = 43_200.0


def follow_builder(
    home: str,
    publish: Callable[[], Published],
    done: Callable[[Published], None],
    tell: Callable[[str], None],
    stop: threading.Event,
    *,
    sign_s: float = SIGN_S,
) -> None:
    """Publish what is served in a state, and each change of it, until ``stop`` is set.

    ``done`` is told of each publish, ``tell`` of what failed, which is tried again, later each time.
    """
    seen: Stamp | None = None
    signed_at = 0.0
    retries = Retries()

    def step() -> None:
        nonlocal seen, signed_at
        stamp = stamp_of(os.path.join(home, "CURRENT"))
        due = stamp != seen or time.monotonic() - signed_at >= sign_s
        if not due or not retries.may(str(stamp)):
            return
        retries.failed(str(stamp))  # unless it ends well
        found = publish()
        retries.done()
        seen, signed_at = stamp, time.monotonic()
        done(found)

    follow(step, _once(tell), stop, folder=home)


def follow_reader(
    home: str,
    sync: Callable[[], Received],
    done: Callable[[Received], None],
    tell: Callable[[str], None],
    stop: threading.Event,
    *,
    every_s: float,
) -> None:
    """Take what is new again and again, until ``stop`` is set; what failed is tried again, later each time."""
    retries = Retries(every_s)
    told = _once(tell)

    def step() -> None:
        if not retries.may("sync"):
            return
        retries.failed("sync")
        try:
            found = sync()
        except StateBusyError:
            retries.done()  # another run does it
            return
        retries.done()
        told("")
        if found.outcome == "published":
            done(found)

    follow(step, told, stop, folder=home, look_s=max(LOOK_S, every_s))


def _once(tell: Callable[[str], None]) -> Callable[[str], None]:
    """Tell each problem once, until there is another or none."""
    before = ""

    def told(problem: str) -> None:
        nonlocal before
        if problem and problem != before:
            tell(problem)
        before = problem

    return told
