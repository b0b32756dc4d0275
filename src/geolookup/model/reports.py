"""Reports on an answer and on a state: explanations; what is served, from which sources, how well.

Apart from `model`, since a lookup needs none of it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from geolookup.model.types import Geolocation, IPBlock, Layer, Match, StaleRule

#: What of a run can fail by itself: its beginning (settings, the state), reading the sites of a server, sending edits,
#: pulling sources.
Stage: TypeAlias = Literal["start", "sites", "push", "pull"]

#: Called with how much is done, and how much there is if that is known.
Progress: TypeAlias = Callable[[int, int | None], None]


def unwatched(_done: int, _total: int | None) -> None:
    """The progress of work that is shown to no one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveringBlock:
    """One block that covers an explained address, and what became of it.

    ``wins`` is true for exactly one of an explanation's blocks; ``reason`` says in words by which rule this one wins
    or loses. ``source`` names the source that it is from. ``masks`` is true for a block that says that its addresses
    are known to have no location: then ``geolocation`` has locid 0 and nothing else, and if it wins, the address has no
    answer. ``vrf`` is the routing domain whose block it is, empty for the global table.
    """

    block: IPBlock
    geolocation: Geolocation
    layer: Layer
    wins: bool
    reason: str
    pending: bool = False
    source: str = "service"
    masks: bool = False
    vrf: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedFact:
    """One fact of an address's network: its ``value``, and the ``source`` that said it.

    ``name`` is its member of `Network`, or its key if it has none. ``others`` are the sources below that said something
    else, each with what it said.
    """

    name: str
    value: object
    source: str
    others: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSince:
    """Since when an address has had its answer.

    ``generation`` is the one that brought it, ``at`` since when that was served, ``age_s`` the seconds since. If an
    edit on this machine brought it later, ``generation`` is None, ``at`` is the edit's moment, and ``edit`` describes
    it. If ``is_exact`` is false, nothing older is kept, and the answer may be older. ``before`` is what the generation
    ``generation_before`` answered, None if nothing covered the address then or nothing older is kept.
    """

    generation: int | None
    at: str
    age_s: float
    is_exact: bool = True
    generation_before: int | None = None
    before: Match | None = None
    edit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsSince:
    """Since when the network of an address has had its facts.

    ``generation`` is the one that brought them, ``at`` since when that was served, ``age_s`` the seconds since. If
    ``is_exact`` is false, nothing older is kept, and the facts may be older. ``before`` are the facts by name that the
    generation ``generation_before`` had, empty if none was known then, None if nothing older is kept.
    """

    generation: int
    at: str
    age_s: float
    is_exact: bool = True
    generation_before: int | None = None
    before: dict[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why an address resolves as it does.

    ``match`` is None if nothing covers the address; ``covering`` has every block of both layers that covers it,
    the winner first and the others in the order in which they would have won. ``generation`` is the published sync
    that answered and ``age_s`` the seconds since it was pulled or last confirmed; nobody confirms the bundled data
    (``confirmed`` is false), so theirs count from their own date. ``edits`` describes the pending edits behind the
    answer, oldest first. ``since`` says since when this has been the answer, None if that was not recorded. ``facts``
    are those of its network, empty if nothing is known of that; ``facts_since`` says since when they are all as they
    are.
    """

    address: str
    match: Match | None
    covering: tuple[CoveringBlock, ...]
    generation: int
    source: str
    age_s: float
    edits: tuple[str, ...] = ()
    confirmed: bool = True
    since: AnswerSince | None = None
    facts: tuple[ExplainedFact, ...] = ()
    facts_since: FactsSince | None = None

    def __iter__(self) -> Iterator[CoveringBlock]:
        return iter(self.covering)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """One source of default geolocations, as `Status` shows it.

    ``dated`` is the date or moment (ISO 8601, UTC) that its file says the data are of, of a folder the oldest that its
    files say; None if it says none. ``checked_at`` is when it was last asked with success, ``age_s`` the seconds since,
    and ``stale`` whether that is more than ``max_age_s`` (None: no limit). ``max_data_age_s`` is this source's own
    limit to the seconds since ``dated``, or None. ``geolocations``, ``blocks`` and ``masks`` count its rows, and
    ``addresses_v4`` and ``addresses_v6`` the addresses that it answers; a source that does not answer yet, because a
    change of the stack is held, has 0 and ``serves`` false. ``held`` is the digest of its held snapshot, or None.
    ``problem`` says why the last sync could not use it, and ``problem_since`` from when on; both are None while all is
    well. Of a source that never could be pulled ``digest`` and ``checked_at`` are empty. ``overdue`` is true if its
    licence wants the served version gone. ``layer`` is the one that it feeds, ``place``, ``network`` or ``both``; what
    it says of networks is counted by ``network_blocks``, and the addresses of which it says a fact that answers by
    ``network_addresses_v4`` and ``network_addresses_v6``.
    """

    name: str
    kind: str
    location: str
    serves: bool
    snapshot: int
    digest: str
    dated: str | None
    checked_at: str
    age_s: float
    max_age_s: float | None
    max_data_age_s: float | None
    stale: bool
    geolocations: int
    blocks: int
    masks: int
    addresses_v4: int
    addresses_v6: int
    licence: str
    attribution: str
    keep_days: int | None
    redistribute: bool
    held: str | None
    problem: str | None
    problem_since: str | None
    overdue: bool = False
    layer: str = "place"
    network_blocks: int = 0
    network_addresses_v4: int = 0
    network_addresses_v6: int = 0

    def as_dict(self) -> dict[str, object]:
        """All of it by name; counts of IPv6 addresses as text, since they have up to 39 digits."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            **found,
            "addresses_v6": str(self.addresses_v6),
            "network_addresses_v6": str(self.network_addresses_v6),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailure:
    """A failure of the last run that did this, without a success since.

    ``run`` is the command (``sync``, ``push`` or ``refresh``), ``stage`` what of it failed. ``since`` is when it first
    failed, ``at`` when it failed last.
    """

    stage: Stage
    run: str
    message: str
    since: str
    at: str

    def as_dict(self) -> dict[str, object]:
        """All of it by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCheck:
    """One thing that the next sync needs, as it was tried.

    ``name`` is ``write`` (a durable write into the state), ``disk`` (room for one more generation), ``edits``
    (edits.db), ``lock`` or ``runs`` (how the last runs ended is known). ``what`` was found, and ``advice`` is what to
    do about it, "" if nothing. A check is ``not tried`` if this user may not do what it takes.
    """

    name: Literal["write", "disk", "edits", "lock", "runs", "signature"]
    verdict: Literal["ok", "warning", "wrong", "not tried"]
    what: str
    advice: str = ""

    def as_dict(self) -> dict[str, str]:
        """All of it by name."""
        return {field.name: str(getattr(self, field.name)) for field in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The data that an open GeoLookup serves, and how well.

    ``dated`` is the oldest date or moment (ISO 8601, UTC) that a source which answers says its data are of, None if
    none says one. ``age_s`` counts seconds since the sources were last asked with success (``checked_at``), or for
    the embedded default since its own date. ``stale`` is true if that is more than ``max_age_s`` (None: no limit),
    and ``stale_rule`` what then becomes of lookups. Counts are of what is published, those of blocks that
    say who runs addresses in ``network_blocks``; ``pinned`` are generations, and so
    are those ``rolled_back`` of which an update that brings most of it back is held.
    ``problem`` says why a newer publish could not be opened, and ``problem_since_s`` for how many seconds that has
    been so; both are None while all is well. ``temporary`` is true while there is no state, and the countries
    that were asked for instead serve. ``pending_edits`` is None if edits.db cannot be read, or is locked; of them,
    ``waiting_edits`` wait for a person. ``reader`` names the implementation in use. ``sources`` are those that answer,
    the one of highest precedence first, and then those that do not yet. ``failures`` are what failed in the last
    runs, until it succeeds. ``sites_wait``
    says in words what a refresh found changed on the server of the sites, and left to a person; None if nothing waits.
    """

    home: str
    sequence: int
    generation: int
    overlay: int
    source: str
    url: str | None
    digest: str
    published_at: str
    checked_at: str
    dated: str | None
    age_s: float
    max_age_s: float | None
    stale: bool
    stale_rule: StaleRule
    geolocations: int
    custom_geolocations: int
    blocks: int
    network_blocks: int
    segments: int
    overlay_segments: int
    pending_edits: int | None
    pinned: tuple[int, ...]
    rolled_back: tuple[int, ...]
    held: str | None
    problem: str | None
    problem_since_s: float | None
    temporary: bool
    reader: str
    sources: tuple[SourceStatus, ...] = ()
    failures: tuple[RunFailure, ...] = ()
    sites_wait: str | None = None
    waiting_edits: int = 0

    def as_dict(self) -> dict[str, object]:
        """All of it by name, for ``status --json``."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        sources, failures = ([each.as_dict() for each in many] for many in (self.sources, self.failures))
        return {**found, "sources": sources, "failures": failures}
