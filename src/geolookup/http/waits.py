"""Whether and when a request is tried again, in the words of stamina."""

import random

from geolookup.errors import UpstreamUnavailableError
from geolookup.http.problems import WORTH_WAITING
from geolookup.http.translate import TotalTimeoutError


class Waits:
    """Decides whether and when one request is tried again: full jitter, ``Retry-After``, and a limit.

    The first wait is at most ``first_s`` seconds, each next one at most twice as long; all waits together are at most
    ``max_wait_s``.
    """

    def __init__(self, first_s: float, max_wait_s: float) -> None:
        self._longest_s = first_s
        self._left_s = max_wait_s

    def before_retrying(self, error: Exception) -> bool | float:
        """The seconds to wait, or false if the error is final."""
        if not isinstance(error, UpstreamUnavailableError) or isinstance(error, TotalTimeoutError):
            return False
        if error.status is not None and error.status not in WORTH_WAITING:
            return False
        wait_s = random.uniform(0, self._longest_s)  # noqa: S311 - spreads clients, hides nothing
        self._longest_s *= 2
        if error.retry_after_s is not None:
            wait_s = max(wait_s, error.retry_after_s)
        self._left_s -= wait_s
        return wait_s if self._left_s >= 0 else False
