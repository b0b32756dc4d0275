"""The table of the facts: what answers say beyond the fields of `fields.py`, each with a type and a name of its own.

A fact of the layer ``place`` says something of where an address is, one of the layer ``network`` of who runs it. Facts
are read from records in GeoIP2's shape; what no source says, or says as a value of another type or as empty text, is
None.

Like the table of fields it is plain classes, since lookups from the shell may need it. To add a fact: an entry here,
and its property in `types.Match`, so that types are checked.
"""

from geolookup.model.fields import Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Literal, TypeAlias

    #: The type of a fact: text that is not empty, true or false, or a whole number from 0 of 16 or 32 bits.
    FactKind: TypeAlias = Literal["text", "boolean", "uint16", "uint32"]
    FactLayer: TypeAlias = Literal["place", "network"]


class Fact(Entry):
    """One fact.

    ``path`` is where a record has it, its keys joined by dots; an item of a list is named by its number, from 0.
    """

    __slots__ = ("kind", "layer", "name", "path")

    kind: "FactKind"
    layer: "FactLayer"
    name: str
    path: str

    def __init__(self, name: str, kind: "FactKind", path: str, layer: "FactLayer") -> None:
        """A fact of a layer."""
        self._fill(kind, layer, name, path)

    @property
    def most(self) -> int:
        """The largest number of its type; 0 of true and false, and -1 of text."""
        return {"text": -1, "boolean": 0, "uint16": 0xFFFF, "uint32": 0xFFFF_FFFF}[self.kind]

    def typed(self, value: object) -> "str | int | bool | None":
        """A value as one of its type, or None if it is none: text that is empty, or anything else."""
        if self.kind == "text":
            return value if isinstance(value, str) and value else None
        if self.kind == "boolean":
            return value if isinstance(value, bool) else None
        return value if type(value) is int and 0 <= value <= self.most else None

    def __repr__(self) -> str:
        return f"<Fact {self.name}: {self.kind} at {self.path}>"


FACTS: "Final" = (
    Fact("site", "text", "geolookup.site", "place"),  # the name of a custom geolocation, which no service knows
    Fact("vrf", "text", "geolookup.vrf", "place"),  # the routing domain that it belongs to, and the answer with it
    Fact("country_name", "text", "country.names.en", "place"),
    Fact("continent_code", "text", "continent.code", "place"),
    Fact("region_code", "text", "subdivisions.0.iso_code", "place"),
    Fact("region_name", "text", "subdivisions.0.names.en", "place"),
    Fact("time_zone", "text", "location.time_zone", "place"),
    Fact("accuracy_radius", "uint16", "location.accuracy_radius", "place"),  # kilometres
    Fact("is_in_european_union", "boolean", "country.is_in_european_union", "place"),
    Fact("asn", "uint32", "traits.autonomous_system_number", "network"),
    Fact("as_organization", "text", "traits.autonomous_system_organization", "network"),
    Fact("isp", "text", "traits.isp", "network"),
    Fact("organization", "text", "traits.organization", "network"),
    Fact("domain", "text", "traits.domain", "network"),
    Fact("connection_type", "text", "traits.connection_type", "network"),
    Fact("user_type", "text", "traits.user_type", "network"),
    Fact("is_anonymous", "boolean", "traits.is_anonymous", "network"),
    Fact("is_anonymous_vpn", "boolean", "traits.is_anonymous_vpn", "network"),
    Fact("is_hosting_provider", "boolean", "traits.is_hosting_provider", "network"),
    Fact("is_public_proxy", "boolean", "traits.is_public_proxy", "network"),
    Fact("is_residential_proxy", "boolean", "traits.is_residential_proxy", "network"),
    Fact("is_tor_exit_node", "boolean", "traits.is_tor_exit_node", "network"),
    Fact("is_anycast", "boolean", "traits.is_anycast", "network"),
    Fact("cloud", "text", "traits.cloud", "network"),
    Fact("cloud_region", "text", "traits.cloud_region", "network"),
    Fact("cloud_service", "text", "traits.cloud_service", "network"),
)

FACT_NAMES: "Final" = tuple([fact.name for fact in FACTS])
#: The facts of each layer by name, in their order.
PLACE_FACTS: "Final" = {fact.name: fact for fact in FACTS if fact.layer == "place"}
NETWORK_FACTS: "Final" = {fact.name: fact for fact in FACTS if fact.layer == "network"}

#: The name, which no answer has, by which exports of MMDBs ask for the time zone of a site, and not of its country.
SITE_ZONE: "Final" = "site_time_zone"
OF_SITE_ZONE: "Final" = Fact("time_zone", "text", "geolookup.time_zone", "place")
