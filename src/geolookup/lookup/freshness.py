"""How old the data may be that lookups are answered from, and what becomes of a lookup when they are older."""

import logging
from dataclasses import dataclass

from geolookup.errors import StaleDataError
from geolookup.model import StaleRule
from geolookup.state.clock import age_s

TYPE_CHECKING = False
if TYPE_CHECKING:
    from geolookup.state.current import Current

_log = logging.getLogger("geolookup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """A limit to the age of the data: seconds since the service last confirmed them; None for no limit.

    The embedded default has no service that could confirm it: its age counts from its own date. ``rule`` says what
    becomes of lookups past the limit: they are served, served with one warning, or refused.
    """

    max_age_s: float | None = None
    rule: StaleRule = "warn"

    def is_stale(self, current: "Current") -> bool:
        """Whether what is published is older than the limit."""
        return self.max_age_s is not None and age_s(current.dated) > self.max_age_s

    def warn(self, current: "Current") -> None:
        """Say in the log that stale data are served."""
        _log.warning("%s", self._describe(current))

    def error(self, current: "Current") -> StaleDataError:
        """What refuses a lookup."""
        return StaleDataError(
            f'{self._describe(current)}; or set stale = "warn" to be answered all the same', age_s=age_s(current.dated)
        )

    def _describe(self, current: "Current") -> str:
        from geolookup.settings import durations

        assert self.max_age_s is not None
        since = "dated" if "dated" in current.published else "last confirmed by the service"
        return (
            f"the data are {durations.in_words(age_s(current.dated))} old ({since} {current.dated}), "
            f"more than max_age allows ({durations.in_words(self.max_age_s)}): run `geolookup sync`"
        )


NO_LIMIT = Freshness()
