"""How old the data behind lookups may be, and what happens to a lookup if they are older."""

from dataclasses import dataclass

from geolookup.errors import StaleDataError
from geolookup.model.types import StaleRule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from geolookup.state.base.current import Current


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """A limit to the age of the data: seconds since the service last confirmed them; None for no limit.

    The embedded default has no service that could confirm it: its age counts from its own date. ``rule`` says what
    happens to lookups past the limit: they are answered, answered with one warning, or refused.
    """

    max_age_s: float | None = None
    rule: StaleRule = "warn"

    def has_limits(self, current: "Current") -> bool:
        """Whether there is any limit for what is published."""
        return self.max_age_s is not None or any(limit is not None for _, _, limit in self.limits(current))

    def is_stale(self, current: "Current") -> bool:
        """Whether what is published is older than the limit, or one of its sources is older than its own limit."""
        return self._too_old(current) is not None

    def limits(self, current: "Current") -> "list[tuple[str, str, float | None]]":
        """Each source that answers: its name, the moment from which its age counts, and its limit in seconds."""
        named = {str(each["name"]) for each in current.published.get("stack", ())}
        entries = [entry for entry in current.sources if entry["name"] in named]
        if len(entries) <= 1:
            name = str(entries[0]["name"]) if entries else ""
            own = entries[0].get("max_age_s") if entries else None
            return [(name, current.dated, self.max_age_s if own is None else own)]
        return [
            (
                str(entry["name"]),
                str(entry["checked_at"]),
                self.max_age_s if entry.get("max_age_s") is None else entry["max_age_s"],
            )
            for entry in entries
        ]

    def _too_old(self, current: "Current") -> "tuple[str, str, float] | None":
        """The source that is furthest past its limit."""
        limited = [(name, since, limit) for name, since, limit in self.limits(current) if limit is not None]
        if not limited:
            return None
        from geolookup.state.base.clock import age_s  # late: without a limit nobody asks how late it is

        past = [(age_s(since) - limit, name, since, limit) for name, since, limit in limited if age_s(since) > limit]
        return max(past)[1:] if past else None

    def warn(self, current: "Current") -> None:
        """Write in the log that stale data are served."""
        import logging  # late: its import takes longer than opening a state

        logging.getLogger("geolookup").warning("%s", self._describe(current))

    def error(self, current: "Current") -> StaleDataError:
        """The error that refuses a lookup."""
        from geolookup.state.base.clock import age_s

        return StaleDataError(
            f'{self._describe(current)}; or set stale = "warn" to get answers anyway', age_s=age_s(current.dated)
        )

    def _describe(self, current: "Current") -> str:
        from geolookup.settings import times
        from geolookup.state.base.clock import age_s

        found = self._too_old(current)
        assert found is not None
        name, moment, limit_s = found
        many = len(current.published.get("stack", ())) > 1
        what = f"the data of {name}" if many else "the data"
        confirmed = "last confirmed" if many else "last confirmed by the service"
        since = "dated" if "dated" in current.published else confirmed
        return (
            f"{what} are {times.in_words(age_s(moment))} old ({since} {times.shown(moment)}), "
            f"more than max_age allows ({times.in_words(limit_s)}): run `geolookup sync`"
        )


NO_LIMIT = Freshness()
