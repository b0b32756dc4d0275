"""The values that geolookup answers with: geolocations, blocks, matches, explanations."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Literal, TypeAlias, TypedDict

from geolookup import addresses
from geolookup.fields import FIELD_NAMES as FIELD_NAMES  # handed on: whoever has a Geolocation needs its fields
from geolookup.fields import FIELDS as FIELDS
from geolookup.fields import PLACE_NAMES
from geolookup.text import place_text

Layer: TypeAlias = Literal["custom", "default"]
#: What becomes of lookups once the data are older than the limit.
StaleRule: TypeAlias = Literal["serve", "warn", "refuse"]

#: The members of the flat object for one address, in their order.
FLAT_NAMES = ("ip", "locid", *FIELD_NAMES, "first", "last", "layer", "pending", "source")

#: Locids at or below this one are provisional: given here, until the service assigns one.
PROVISIONAL_LOCID = -(10**15)

#: The values of a geolocation's fields, in their order; of anything that has them as attributes.
field_values: Callable[[Any], tuple[Any, ...]] = attrgetter(*FIELD_NAMES)
_place_parts: Callable[[Any], tuple[str, ...]] = attrgetter(*PLACE_NAMES)


_BETWEEN = re.compile(r"\s*[-\u2010-\u2015]\s*|\s+")


def range_ends(text: str) -> tuple[str, str | None]:
    """The two ends of a block as people write it: a network, an address, or a range with a dash or blanks between.

    Of any other text the whole, for `IPBlock.parse` to say what is wrong with it.
    """
    first, *rest = _BETWEEN.sub(" ", text.strip()).split(" ")
    return (first, rest[0]) if len(rest) == 1 else (text.strip(), None)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class IPBlock:
    """An inclusive range of addresses that belongs to a geolocation.

    ``first`` and ``last`` are integers below 2**32 (``family`` 4) or 2**128 (``family`` 6), ``first <= last``.
    """

    family: Literal[4, 6]
    first: int
    last: int

    @classmethod
    def parse(cls, first: str, last: str | None = None) -> "IPBlock":
        """From two addresses, or from one network or address.

        :raises InvalidAddressError: if an end is not an address
        :raises InvalidRangeError: if the two do not make a range
        """
        family, low, high = addresses.parse_range(first, last)
        return cls(family=family, first=low, last=high)

    @property
    def startip(self) -> str:
        """The first address as text."""
        return addresses.to_text(self.family, self.first)

    @property
    def endip(self) -> str:
        """The last address as text."""
        return addresses.to_text(self.family, self.last)

    def __str__(self) -> str:
        if self.first == self.last:
            return self.startip
        return f"{self.startip}-{self.endip}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Geolocation:
    """A place that addresses resolve to.

    Text is empty if the service knows nothing; ``latitude`` and ``longitude`` are degrees, or None.
    ``locid`` is below zero for custom geolocations and above zero for default ones; one at or below -10**15 is
    provisional: it was created here and the service has not assigned its own yet. ``ipblocks`` is empty in what a
    lookup returns: ask `explain` for blocks.
    """

    locid: int
    country: str
    region: str
    city: str
    postalcode: str
    latitude: float | None
    longitude: float | None
    dmacode: str
    areacode: str
    ipblocks: tuple[IPBlock, ...] = ()

    @property
    def layer(self) -> Layer:
        """``custom`` or ``default``, as the sign of the locid says."""
        return "custom" if self.locid < 0 else "default"

    def fields(self) -> dict[str, str | float | None]:
        """The fields of the service's create and update, by name."""
        return dict(zip(FIELD_NAMES, field_values(self), strict=True))

    def place_text(self) -> str:
        """The place as a person reads it on a line: what is known of city, region, postal code and country, or "-"."""
        return place_text(_place_parts(self))


_SLOTS = tuple(vars(Geolocation)[name] for name in ("locid", *FIELD_NAMES, "ipblocks"))


def geolocation_of(row: tuple[Any, ...]) -> Geolocation:
    """The geolocation of a locid followed by its fields in the order of `fields.FIELDS`, without blocks.

    It writes the slots themselves: the constructor of a frozen dataclass takes twice as long, and this is most of the
    time of a lookup that meets a place for the first time.
    """
    place: Geolocation = object.__new__(Geolocation)
    for slot, value in zip(_SLOTS, (*row, ()), strict=True):
        slot.__set__(place, value)
    return place


class NewGeolocation(TypedDict):
    """What `Editor.create` takes: the fields of `fields.FIELDS`, text perhaps empty, coordinates in degrees."""

    country: str
    region: str
    city: str
    postalcode: str
    latitude: float
    longitude: float
    dmacode: str
    areacode: str


class ListFilters(TypedDict, total=False):
    """What geolocations can be listed by: those of `fields.FIELDS` that are filtered; None or "" is no filter."""

    country: str | None
    region: str | None
    city: str | None
    postalcode: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """What an address resolves to, and by which range.

    ``address`` is as it was asked for; ``first`` and ``last`` are the inclusive ends of the winning segment: every
    address between them has this same answer, from the same layer. ``pending`` is true while the edit behind it has
    not reached the service. ``source`` names the source that it is from; that of the custom layer is ``custom``.
    """

    address: str
    geolocation: Geolocation
    first: str
    last: str
    layer: Layer
    pending: bool
    source: str = "service"

    @property
    def ip(self) -> str:
        """The address, by the name that it has in JSON."""
        return self.address

    @property
    def locid(self) -> int:
        """That of the geolocation, as are the following."""
        return self.geolocation.locid

    @property
    def country(self) -> str:
        """The country's code; empty if it is not known."""
        return self.geolocation.country

    @property
    def region(self) -> str:
        """The region's code or name; empty if it is not known."""
        return self.geolocation.region

    @property
    def city(self) -> str:
        """The city's name; empty if it is not known."""
        return self.geolocation.city

    @property
    def postalcode(self) -> str:
        """The postal code; empty if it is not known."""
        return self.geolocation.postalcode

    @property
    def latitude(self) -> float | None:
        """Degrees, or None if it is not known."""
        return self.geolocation.latitude

    @property
    def longitude(self) -> float | None:
        """Degrees, or None if it is not known."""
        return self.geolocation.longitude

    @property
    def dmacode(self) -> str:
        """The Designated Market Area code; empty if it is not known."""
        return self.geolocation.dmacode

    @property
    def areacode(self) -> str:
        """The telephone area code; empty if it is not known."""
        return self.geolocation.areacode

    def flat(self) -> dict[str, str | int | float | bool | None]:
        """The object that the command line and the services write for an address, in the order of its keys.

        Each key is also an attribute of the match.
        """
        place = self.geolocation
        return {
            "ip": self.address,
            "locid": place.locid,
            **place.fields(),
            "first": self.first,
            "last": self.last,
            "layer": self.layer,
            "pending": self.pending,
            "source": self.source,
        }


def flat_not_covered(address: str) -> dict[str, str | int | float | bool | None]:
    """`Match.flat` for an address that nothing covers: all but the address is None."""
    return {**dict.fromkeys(FLAT_NAMES), "ip": address}


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A piece of the flattened index: disjoint from all others, with one answer.

    ``first`` and ``last`` are inclusive integers of the family that was asked for.
    """

    first: int
    last: int
    geolocation: Geolocation
    layer: Layer
    pending: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveringBlock:
    """One block that covers an explained address, and what became of it.

    ``wins`` is true for exactly one of an explanation's blocks; ``reason`` says in words by which rule this one wins
    or loses. ``source`` names the source that it is from. ``masks`` is true for a block that says that its addresses
    are known to have no location: then ``geolocation`` has locid 0 and nothing else, and if it wins, the address has no
    answer.
    """

    block: IPBlock
    geolocation: Geolocation
    layer: Layer
    wins: bool
    reason: str
    pending: bool = False
    source: str = "service"
    masks: bool = False


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
class Explanation:
    """Why an address resolves as it does.

    ``match`` is None if nothing covers the address; ``covering`` has every block of both layers that covers it,
    the winner first and the others in the order in which they would have won. ``generation`` is the published sync
    that answered and ``age_s`` the seconds since it was pulled or last confirmed; nobody confirms the bundled data
    (``confirmed`` is false), so theirs count from their own date. ``edits`` describes the pending edits behind the
    answer, oldest first. ``since`` says since when this has been the answer, None if that was not recorded.
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

    def __iter__(self) -> Iterator[CoveringBlock]:
        return iter(self.covering)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """One source of default geolocations, as `Status` shows it.

    ``checked_at`` is when it was last found to have what is here, ``age_s`` the seconds since, and ``stale`` whether
    that is more than ``max_age_s`` (None: no limit). ``geolocations``, ``blocks`` and ``masks`` count its rows, and
    ``addresses_v4`` and ``addresses_v6`` the addresses that it answers; a source that does not answer yet, because a
    change of the stack is held, has 0 and ``serves`` false. ``held`` is the digest of its held snapshot, or None.
    ``problem`` says why the last sync could not use it, and ``problem_since`` from when on; both are None while all is
    well. Of a source that never could be pulled ``digest`` and ``checked_at`` are empty. ``overdue`` is true if its
    licence wants the served version gone.
    """

    name: str
    kind: str
    location: str
    serves: bool
    snapshot: int
    digest: str
    checked_at: str
    age_s: float
    max_age_s: float | None
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

    def as_dict(self) -> dict[str, object]:
        """All of it by name; counts of IPv6 addresses as text, since they have up to 39 digits."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**found, "addresses_v6": str(self.addresses_v6)}


#: What of a run can fail by itself: its beginning (settings, the state), sending edits, pulling sources.
Stage: TypeAlias = Literal["start", "push", "pull"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailure:
    """What failed in the last run that did it, and has not succeeded since.

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
class Status:
    """What an open GeoLookup serves, and how well.

    ``age_s`` counts seconds since ``dated``: since the service last confirmed the generation (``checked_at``), or for
    the embedded default since its own date. ``stale`` is true if that is more than ``max_age_s`` (None: no limit),
    and ``stale_rule`` what then becomes of lookups. Counts are of what is published; ``pinned`` are generations.
    ``problem`` says why a newer publish could not be opened, and ``problem_since_s`` for how many seconds that has
    been so; both are None while all is well. ``temporary`` is true if no state could be written and a throwaway
    one serves. ``pending_edits`` is None if edits.db cannot be read, or is locked. ``reader`` names the
    implementation in use. ``sources`` are those that answer, the one of highest precedence first, and then those that
    do not yet. ``failures`` are what failed in the last runs, until it succeeds.
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
    dated: str
    age_s: float
    max_age_s: float | None
    stale: bool
    stale_rule: StaleRule
    geolocations: int
    custom_geolocations: int
    blocks: int
    segments: int
    overlay_segments: int
    pending_edits: int | None
    pinned: tuple[int, ...]
    held: str | None
    problem: str | None
    problem_since_s: float | None
    temporary: bool
    reader: str
    sources: tuple[SourceStatus, ...] = ()
    failures: tuple[RunFailure, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """All of it by name, for ``status --json``."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        sources, failures = ([each.as_dict() for each in many] for many in (self.sources, self.failures))
        return {**found, "sources": sources, "failures": failures}
