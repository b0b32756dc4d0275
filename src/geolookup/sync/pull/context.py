"""One pull of all sources: its report, the state that it began with, and the result of each source."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from geolookup.model.errors import GeoLookupError, StateDamagedError
from geolookup.model.reports import Progress
from geolookup.settings.table import Settings
from geolookup.sources.definition import Definition
from geolookup.state.base.candidate import Candidate, read_report
from geolookup.state.base.current import Current
from geolookup.state.base.parts import BUNDLED, Part, part_of, snapshot_path
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import Run

PullOutcome: TypeAlias = Literal["published", "unchanged", "rolled-back", "previewed", "held", "failed"]


@dataclass(slots=True, kw_only=True)
class PullReport:
    """A pull as it is printed, kept in the generation's report.json and written in the history.

    ``outcome``: ``published`` a new generation; ``unchanged``, the service has what is served; ``rolled-back``, it
    still has what was rolled back, which is held instead; ``previewed`` what would be published; ``held`` for a
    person, and ``failed``, if a refresh reports what `pull` would have raised. ``rows`` counts what was pulled
    (None if nothing was); ``custom_places`` counts those of the custom layer that was published with it (None if
    nothing was); ``difference`` is against the generation before (None if there is nothing to
    compare with); ``twins`` are the late twins of what was created here (see `service`); ``notices`` are what a person
    must look at, or decide on, of what was edited here; ``durations_s`` are seconds by step. ``name`` is the
    source's, if there is one; ``sources`` has what became of each source, the one of highest precedence first, with the
    ``problem`` that kept it from being published.
    """

    url: str | None
    name: str | None = None
    outcome: PullOutcome = "unchanged"
    generation: int | None = None
    digest: str | None = None
    rows: dict[str, Any] | None = None
    custom_places: int | None = None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A source's newest snapshot, which the next one is measured against: where it stands, and its record."""

    part: Part
    path: str
    record: Mapping[str, Any]

    @property
    def cache(self) -> str:
        """Its cache.db."""
        return os.path.join(self.path, "cache.db")

    @property
    def index(self) -> str:
        """Its index of places."""
        return os.path.join(self.path, "index")

    @property
    def network(self) -> str:
        """Its index of networks."""
        return os.path.join(self.path, "network")


@dataclass(slots=True, kw_only=True)
class Pull:
    """One pull of all sources under way.

    ``current`` is what is served, ``entries`` what CURRENT knows of each source, by name; ``damaged`` are the sources
    whose served files are not what was written. ``owned`` keeps candidates until the end. With ``preview`` nothing is
    published or confirmed. ``following`` is the next free locid. ``service_indexes`` are those of the service's new
    candidates.
    """

    run: Run
    settings: Settings
    current: Current | None
    entries: dict[str, dict[str, Any]]
    owned: contextlib.ExitStack
    progress: Progress
    preview: bool = False
    damaged: frozenset[str] = frozenset()
    following: int = 0
    service_indexes: list[str] = field(default_factory=list)
    _baselines: dict[str, Baseline | None] = field(default_factory=dict)

    @property
    def directory(self) -> StateDirectory:
        """The state that is pulled into."""
        return self.run.directory

    def baseline(self, name: str) -> Baseline | None:
        """A source's newest snapshot, the embedded default too; None if there is none, or its record cannot be read."""
        if name not in self._baselines:
            self._baselines[name] = self._baseline(name)
        return self._baselines[name]

    def _baseline(self, name: str) -> Baseline | None:
        entry = self.entries.get(name)
        if entry is None or self.current is None or not entry["digest"]:
            return None
        part = part_of(entry, name=name)
        path = snapshot_path(self.directory.home, part.snapshot)
        try:
            record = read_report(path)["published"]
            # A later file of the same content may have brought a newer date.
            return Baseline(part=part, path=path, record={**record, "dated": entry.get("dated") or record.get("dated")})
        except StateDamagedError:
            # Alone in what is served, its counts stand in CURRENT too.
            alone = len(self.current.published["stack"]) == 1 and self.current.digest == part.digest
            return Baseline(part=part, path=path, record=self.current.published) if alone else None

    def guarded(self, name: str) -> Baseline | None:
        """The snapshot that the guard measures against: the embedded default never is."""
        found = self.baseline(name)
        return None if found is None or found.record["source"] == BUNDLED else found

    def before(self, definition: Definition) -> list[Baseline]:
        """The snapshots that a source's next one follows: its own, else those that a given file takes the place of."""
        if (own := self.guarded(definition.name)) is not None:
            return [own]
        names = [name for name, entry in self.entries.items() if entry.get("given")] if definition.given else []
        return [found for name in names if (found := self.guarded(name)) is not None]

    def candidate(self) -> Candidate:
        """A new empty candidate, which goes at the end of the run unless it was published or held."""
        return self.owned.enter_context(self.run.candidate())


@dataclass(slots=True, kw_only=True)
class Result:
    """The result of pulling one source.

    ``candidate`` is a new snapshot with its ``record``, None if the source has nothing new; it is held if there are
    ``reasons``, or if it is what was ``rolled_back``; to accept it ``ends`` the roll-backs of these generations. It is
    ``lenient`` if only a few rows of a small source differ. ``entry`` are the members of CURRENT's entry that changed.
    ``error`` is why there is nothing of the source.
    """

    definition: Definition
    report: PullReport
    candidate: Candidate | None = None
    record: dict[str, Any] = field(default_factory=dict)
    digest: str = ""
    reasons: tuple[str, ...] = ()
    ends: tuple[int, ...] = ()
    rolled_back: bool = False
    lenient: bool = False
    entry: dict[str, Any] = field(default_factory=dict)
    error: GeoLookupError | None = None

    def seal(self) -> None:
        """Seal the candidate with the report of its pull, and with what speaks against publishing it."""
        if self.candidate is None:
            return
        if not self.rolled_back:
            self.report.outcome = "held" if self.reasons else "published"
        reasons = ["rolled back on this machine"] if self.rolled_back else list(self.reasons)
        held = {"reasons": reasons, "ends": self.ends} if reasons else {}
        self.candidate.seal(self.record, {**self.report.as_dict(), **held})

    @property
    def published(self) -> Candidate | None:
        """The candidate, if it may be published."""
        return None if self.reasons or self.rolled_back else self.candidate


def older(record: Mapping[str, Any], before: Sequence[Baseline]) -> list[str]:
    """Say that a file is older than the served ones in whose place it comes, by the dates inside all of them."""
    dates = [date for each in before if (date := _date(each.record)) is not None]
    own = _date(record)
    if own is None or not dates or len(dates) < len(before) or own >= min(dates):
        return []
    return [f"the data are of {own:%Y-%m-%d}, older than those that are served, of {min(dates):%Y-%m-%d}"]


def _date(record: Mapping[str, Any]) -> datetime | None:
    """The moment that a file says its data are of; None if it says none, or one that cannot be read."""
    try:
        found = datetime.fromisoformat(str(record.get("dated") or ""))
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
