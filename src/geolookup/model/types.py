"""The values that geolookup answers with: geolocations, blocks, matches."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

from geolookup.base.text import place_text
from geolookup.model import addresses
from geolookup.model.facts import PLACE_FACTS
from geolookup.model.fields import FIELD_NAMES as FIELD_NAMES  # handed on: those who have a Geolocation need its fields
from geolookup.model.fields import FIELDS as FIELDS
from geolookup.model.fields import PLACE_NAMES

Layer: TypeAlias = Literal["custom", "default"]
#: What becomes of lookups once the data are older than the limit.
StaleRule: TypeAlias = Literal["serve", "warn", "refuse"]

#: The members of the flat object for one address, in their order.
FLAT_NAMES = ("ip", "locid", *FIELD_NAMES, "first", "last", "layer", "pending", "source")

#: The facts that a match has as members, in their order.
MATCH_FACTS = (*PLACE_FACTS, "asn", "as_organization")

#: Locids at or below this one are provisional: given here, until the service assigns one.
PROVISIONAL_LOCID = -(10**15)


def is_provisional(locid: int) -> bool:
    """True if a locid was given on a machine, not by the service."""
    return locid <= PROVISIONAL_LOCID


class BlockObject(Protocol):
    """An address, a network or a range as an object: those of ``ipaddress`` and ``netaddr`` have this."""

    @property
    def version(self) -> Literal[4, 6]:
        """The version of IP."""
        ...


class AddressObject(BlockObject, Protocol):
    """An address as an object: those of ``ipaddress`` and ``netaddr`` have this.

    An interface of ``ipaddress`` has it too, so type checkers let it pass, but it stands for a network as well: a
    lookup refuses it.
    """

    @property
    def packed(self) -> bytes:
        """Its 4 or 16 bytes, the first one first."""
        ...


#: All that a lookup takes.
AddressLike: TypeAlias = str | AddressObject


#: The values of a geolocation's fields, in their order; of anything that has them as attributes.
field_values: Callable[[Any], tuple[Any, ...]] = attrgetter(*FIELD_NAMES)
_place_parts: Callable[[Any], tuple[str, ...]] = attrgetter(*PLACE_NAMES)


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
        :raises InvalidRangeError: if the two do not make a range; the second may be a netmask
        """
        family, low, high = addresses.parse_range(first, last)
        return cls(family=family, first=low, last=high)

    @classmethod
    def from_ends(cls, startip: str, endip: str) -> "IPBlock":
        """From the two ends that a program wrote, of which the second is never a netmask.

        :raises InvalidAddressError: if an end is not an address
        :raises InvalidRangeError: if the two do not make a range
        """
        family, low, high = addresses.parse_ends(startip, endip)
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


#: All that an editor takes as a block.
BlockLike: TypeAlias = str | BlockObject | IPBlock


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


class NewGeolocation(TypedDict, total=False):
    """The fields that `Editor.create` takes: text is empty, and coordinates (in degrees) unknown, if left out."""

    country: str
    region: str
    city: str
    postalcode: str
    latitude: float | None
    longitude: float | None
    dmacode: str
    areacode: str


class ListFilters(TypedDict, total=False):
    """Filters for a list of geolocations, one a filtered field of `fields.FIELDS`. None or "" filters nothing."""

    country: str | None
    region: str | None
    city: str | None
    postalcode: str | None


class Facts(Protocol):
    """Facts by name, None for what nobody says; perhaps each read when it is asked for."""

    def __getitem__(self, name: str, /) -> Any: ...


class _WithFacts:
    """The facts of a match: ``_known`` says the facts of `facts.FACTS` by name, and is not there in one
    that was made by hand. It counts for no comparison.
    """

    __slots__ = ("_known",)

    def _fact(self, name: str) -> Any:
        known: Facts | None = getattr(self, "_known", None)
        return None if known is None else known[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match(_WithFacts):
    """The answer for an address, and the range that gives it.

    ``address`` is as it was asked for; ``first`` and ``last`` are the inclusive ends of the winning segment: every
    address between them has this same answer, from the same layer. ``pending`` is true while the edit behind it has
    not reached the service. ``source`` names the source that it is from; that of the custom layer is ``custom``.

    The members from ``site`` on are facts of the address's record: None if no source says them. They are read
    when they are asked for, also after the state was closed or replaced; copies and pickles have them all. A match that
    is made by hand, or by `dataclasses.replace`, knows none. Two matches are equal if their fields are: facts do not
    count.

    :raises IndexDamagedError: when a fact is asked for, if the file is damaged there
    :raises StateDamagedError: when the first fact of a network is asked for, if retention has removed its index since
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

    @property
    def network(self) -> str:
        """The largest network from ``first`` to ``last`` that holds the address, in CIDR form: ``8.8.8.0/24``.

        Of an answer for a range of addresses it is the one that holds ``first``.
        """
        return addresses.network_around(self.address, self.first, self.last)

    @property
    def site(self) -> str | None:
        """The name of the site, by the file of sites or by hand; None if it has none, as all of the default layer."""
        found: str | None = self._fact("site")
        return found

    @property
    def vrf(self) -> str | None:
        """The routing domain (VRF) whose own block answers; None if it is the global table, also if one was named."""
        found: str | None = self._fact("vrf")
        return found

    @property
    def country_name(self) -> str | None:
        """The country's name in English, or None."""
        found: str | None = self._fact("country_name")
        return found

    @property
    def continent_code(self) -> str | None:
        """``AF``, ``AN``, ``AS``, ``EU``, ``NA``, ``OC`` or ``SA`` (GeoNames), or None."""
        found: str | None = self._fact("continent_code")
        return found

    @property
    def region_code(self) -> str | None:
        """The code of the first subdivision, as ISO 3166-2 has it after the country's: ``ENG``; or None."""
        found: str | None = self._fact("region_code")
        return found

    @property
    def region_name(self) -> str | None:
        """The first subdivision's name in English: ``England``; or None."""
        found: str | None = self._fact("region_name")
        return found

    @property
    def time_zone(self) -> str | None:
        """The time zone by its name in the IANA database: ``Europe/London``; or None."""
        found: str | None = self._fact("time_zone")
        return found

    @property
    def accuracy_radius(self) -> int | None:
        """Kilometres around the coordinates in which the address likely is, or None."""
        found: int | None = self._fact("accuracy_radius")
        return found

    @property
    def is_in_european_union(self) -> bool | None:
        """Whether the country is a member of the European Union; None if the country is not known."""
        found: bool | None = self._fact("is_in_european_union")
        return found

    @property
    def asn(self) -> int | None:
        """The number of the autonomous system that announces the address, below 2**32; None if no source says it."""
        found: int | None = self._fact("asn")
        return found

    @property
    def as_organization(self) -> str | None:
        """The organisation to which that number is registered, or None."""
        found: str | None = self._fact("as_organization")
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        facts = {name: getattr(self, name) for name in MATCH_FACTS} if hasattr(self, "_known") else None
        return _restored, (_match_values(self), facts)

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


_match_values: Callable[[Match], tuple[Any, ...]] = attrgetter(*Match.__dataclass_fields__)
_KNOWN = vars(_WithFacts)["_known"]


def with_facts(match: Match, known: Facts) -> Match:
    """The match itself, which from now on has the facts that are ``known`` by their names: all of `MATCH_FACTS`."""
    _KNOWN.__set__(match, known)
    return match


def _restored(values: tuple[Any, ...], facts: Facts | None) -> Match:
    match = Match(**dict(zip(Match.__dataclass_fields__, values, strict=True)))
    return match if facts is None else with_facts(match, facts)


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
