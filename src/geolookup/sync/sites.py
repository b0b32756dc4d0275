"""What a refresh did with the sites of a server: the report of a step that stands above this floor."""

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class SitesRun:
    """``outcome`` is what became of the ``changes`` that the ``sites`` of a server ask for.

    They were ``applied``, or there were none (``unchanged``); else they wait for a person: because the settings say so
    (``planned``), or the guard does, for the ``reasons`` (``held``). ``plan`` is the command that shows them, ``apply``
    the one that makes them. ``notes`` say how the server was read.
    """

    outcome: Literal["applied", "unchanged", "planned", "held"]
    url: str
    sites: int
    changes: int
    plan: str
    apply: str
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def waits(self) -> bool:
        """True if a person must decide."""
        return self.outcome in ("planned", "held")

    def as_dict(self) -> dict[str, Any]:
        """All of it by name, for ``--json``."""
        return asdict(self)
