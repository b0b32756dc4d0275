"""What a pull did, as it is printed, kept in the generation's report.json and written in the history."""

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

PullOutcome: TypeAlias = Literal["published", "unchanged", "rolled-back", "previewed", "held", "failed"]


@dataclass(slots=True, kw_only=True)
class PullReport:
    """What a pull saw and did.

    ``outcome``: ``published`` a new generation; ``unchanged``, the service has what is served; ``rolled-back``, it
    still has what was rolled back, which is held instead; ``previewed`` what would be published; ``held`` for a
    person, and ``failed``, if a refresh reports what `pull` would have raised. ``rows`` counts what was pulled
    (None if nothing was); ``difference`` is against the generation before (None if there is nothing to
    compare with); ``twins`` are the late twins of what was created here (see `sync.twins`); ``notices`` are what the
    service acknowledged and does not have; ``durations_s`` are seconds by step. ``name`` is the source's, if there is
    one; ``sources`` has what became of each source, the one of highest precedence first, with the ``problem`` that kept
    it from being published.
    """

    url: str | None
    name: str | None = None
    outcome: PullOutcome = "unchanged"
    generation: int | None = None
    digest: str | None = None
    rows: dict[str, Any] | None = None
    difference: dict[str, Any] | None = None
    twins: list[dict[str, Any]] = field(default_factory=list)
    notices: list[dict[str, Any]] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)
    rejected_geolocations: int = 0
    rejected_blocks: int = 0
    number_disagreements: int = 0
    warnings: list[str] = field(default_factory=list)
    durations_s: dict[str, float] = field(default_factory=dict)
    bytes_read: int = 0
    sources: list[dict[str, Any]] = field(default_factory=list)

    def tell(self, notices: list[dict[str, Any]]) -> None:
        """Add notices, and what they say to the warnings."""
        self.notices += notices
        self.warnings += [notice["reason"] for notice in notices]

    def as_dict(self) -> dict[str, Any]:
        """All of it by name, for ``--json`` and report.json."""
        return {name: getattr(self, name) for name in self.__slots__}
