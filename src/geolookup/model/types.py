"""The values that geolookup answers with: geolocations, blocks, matches."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, TypeAlias, TypedDict

from geolookup.base.text import place_text
from geolookup.model import addresses
from geolookup.model.fields import FIELD_NAMES as FIELD_NAMES  # handed on: whoever has a Geolocation needs its fields
from geolookup.model.fields import FIELDS as FIELDS
from geolookup.model.fields import PLACE_NAMES

Layer: TypeAlias = Literal["custom", "default"]
#: What becomes of lookups once the data are older than the limit.
StaleRule: TypeAlias = Literal["serve", "warn", "refuse"]

#: The members of the flat object for one address, in their order.
FLAT_NAMES = ("ip", "locid", *FIELD_NAMES, "first", "last", "layer", "pending", "source")

#: Locids at or below this one are provisional: given here, until the service assigns one.
PROVISIONAL_LOCID = -(10**15)


def is_provisional(locid: int) -> bool:
    """True if a locid was given on a machine, not by the service."""
    return locid <= PROVISIONAL_LOCID


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
    """The arguments of `Editor.create`: the fields of `fields.FIELDS`, text perhaps empty, coordinates in degrees."""

    country: str
    region: str
    city: str
    postalcode: str
    latitude: float
    longitude: float
    dmacode: str
    areacode: str


class ListFilters(TypedDict, total=False):
    """Filters for a list of geolocations, one a filtered field of `fields.FIELDS`. None or "" filters nothing."""

    country: str | None
    region: str | None
    city: str | None
    postalcode: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The answer for an address, and the range that gives it.

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
