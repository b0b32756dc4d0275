"""The report of a push."""

from dataclasses import dataclass, field
from typing import Any

from geolookup.state.edits.outbox.row import OutboxRow


@dataclass(slots=True, kw_only=True)
class PushReport:
    """The report of a push.

    ``edits`` has a line for each edit that it dealt with; the counts are of what is in the outbox afterwards, but
    ``done``, which counts what this push brought to its end. ``notices`` are said once: what a person must look at,
    though no edit waits for it. ``half_done`` are removals that leave the service without blocks that it shall have,
    until a push goes through. ``requests`` counts what was sent, and each reading of the
    service as one. ``stopped`` says why the push ended early, None if it went through; ``service_refuses`` that any
    other request would have met the same (a wrong token, no connection, told to wait for longer than may be);
    ``lacks_permission`` that the right token was missing.
    """

    url: str
    requests: int = 0
    waited_s: float = 0.0
    edits: list[dict[str, Any]] = field(default_factory=list)
    done: int = 0
    queued: int = 0
    unknown: int = 0
    held: int = 0
    rejected: int = 0
    notices: list[dict[str, Any]] = field(default_factory=list)
    half_done: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    stopped: str | None = None
    service_refuses: bool = False
    lacks_permission: bool = False
    duration_s: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """All of it by name, for ``--json``."""
        return {name: getattr(self, name) for name in self.__slots__}


def line_of(row: OutboxRow, reason: str | None = None) -> dict[str, Any]:
    """The line of an edit."""
    return {
        "edit": row.id,
        "locid": row.locid,
        "what": row.describe(),
        "state": str(row.state),
        "reason": row.problem or "" if reason is None else reason,
    }
