"""Who runs an address, and what it is: the facts of its network, each as the first source says it that has it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from geolookup.index.layout import EMPTY
from geolookup.index.reader import IndexReader, network_record
from geolookup.lookup.record import Record
from geolookup.model.addresses import IPV4_MAX, IPV6_MAX, held_in, holding, network_around, to_text
from geolookup.model.errors import IndexFileError, StateDamagedError
from geolookup.model.facts import NETWORK_FACTS, Fact
from geolookup.state.base.current import require_network
from geolookup.state.packs.reading import readable

if TYPE_CHECKING:
    from geolookup.model.addresses import Family
    from geolookup.state.base.current import Current

_TRAITS = "traits."


def key_of(fact: Fact) -> str:
    """The key of a fact of networks, which is GeoIP2's: ``asn`` is ``autonomous_system_number``."""
    return fact.path.removeprefix(_TRAITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Who runs an address, and what it is.

    ``address`` is as it was asked for; ``first`` and ``last`` are the inclusive ends of the largest range around it in
    which every address has these facts from these sources. ``facts`` are all that is said, with their types, by
    GeoIP2's keys (``autonomous_system_number``) or, if GeoIP2 has none, by the source's own: a read-only mapping,
    decoded where it is asked for. ``sources`` has the name of the source that said each, by the same keys. The typed
    facts are members too; each is None if no source says it. All of it can be read after the state was closed or
    replaced.

    :raises IndexDamagedError: when a member is asked for, if the file is damaged there
    """

    address: str
    first: str
    last: str
    facts: Mapping[str, Any]
    sources: Mapping[str, str]

    @property
    def asn(self) -> int | None:
        """The number of the autonomous system."""
        return cast("int | None", self.typed("asn"))

    @property
    def as_organization(self) -> str | None:
        """The organisation that the autonomous system is of."""
        return cast("str | None", self.typed("as_organization"))

    @property
    def isp(self) -> str | None:
        """The internet service provider."""
        return cast("str | None", self.typed("isp"))

    @property
    def organization(self) -> str | None:
        """The organisation that uses the addresses."""
        return cast("str | None", self.typed("organization"))

    @property
    def domain(self) -> str | None:
        """The second-level domain of the addresses' names."""
        return cast("str | None", self.typed("domain"))

    @property
    def connection_type(self) -> str | None:
        """How they are connected: ``Cable/DSL``, ``Cellular``, ``Corporate``, ``Satellite`` …"""
        return cast("str | None", self.typed("connection_type"))

    @property
    def user_type(self) -> str | None:
        """Who uses them: ``residential``, ``business``, ``hosting`` …"""
        return cast("str | None", self.typed("user_type"))

    @property
    def is_anonymous(self) -> bool | None:
        """Whether they belong to any kind of anonymous network."""
        return cast("bool | None", self.typed("is_anonymous"))

    @property
    def is_anonymous_vpn(self) -> bool | None:
        """Whether they are of a provider of anonymous VPNs."""
        return cast("bool | None", self.typed("is_anonymous_vpn"))

    @property
    def is_hosting_provider(self) -> bool | None:
        """Whether they are of a hosting provider."""
        return cast("bool | None", self.typed("is_hosting_provider"))

    @property
    def is_public_proxy(self) -> bool | None:
        """Whether there is a public proxy."""
        return cast("bool | None", self.typed("is_public_proxy"))

    @property
    def is_residential_proxy(self) -> bool | None:
        """Whether there is a proxy on a residential connection."""
        return cast("bool | None", self.typed("is_residential_proxy"))

    @property
    def is_tor_exit_node(self) -> bool | None:
        """Whether there is a Tor exit."""
        return cast("bool | None", self.typed("is_tor_exit_node"))

    @property
    def is_anycast(self) -> bool | None:
        """Whether they are announced from several places."""
        return cast("bool | None", self.typed("is_anycast"))

    @property
    def cloud(self) -> str | None:
        """The cloud that says they are its own: ``aws``, ``azure``, ``google`` …"""
        return cast("str | None", self.typed("cloud"))

    @property
    def cloud_region(self) -> str | None:
        """Its region, by its own name: ``eu-central-1``, ``westeurope`` …"""
        return cast("str | None", self.typed("cloud_region"))

    @property
    def cloud_service(self) -> str | None:
        """What it uses them for, by its own words; several are joined by commas: ``EC2``, ``EBS, EC2`` …"""
        return cast("str | None", self.typed("cloud_service"))

    @property
    def network(self) -> str:
        """The largest network (CIDR) inside ``first`` to ``last`` that holds the address."""
        return network_around(self.address, self.first, self.last)

    def typed(self, name: str) -> str | int | bool | None:
        """A fact by its name among the members; None if no source says it, or as a value of another type.

        :raises KeyError: if no fact of networks has this name
        """
        fact = NETWORK_FACTS[name]
        return fact.typed(self.facts.get(key_of(fact)))

    def source_of(self, name: str) -> str | None:
        """The name of the source that said a fact, by its name among the members or its key; None if none did."""
        fact = NETWORK_FACTS.get(name)
        return self.sources.get(name if fact is None else key_of(fact))

    def flat(self) -> dict[str, Any]:
        """The object that the command line writes: the typed facts by name, all others that are said by their keys."""
        facts = self.facts
        keys = {key_of(fact): fact for fact in NETWORK_FACTS.values()}
        return {
            **{fact.name: fact.typed(facts.get(key)) for key, fact in keys.items()},
            **{key: value for key, value in facts.items() if key not in keys},
        }


class Said:
    """What is said in one file of networks, by record. It keeps the file mapped, so it can be asked after a `close`."""

    __slots__ = ("_names", "_records")

    def __init__(self, reader: IndexReader) -> None:
        self._records = reader.records()
        self._names = reader.sources

    def facts(self, record: int) -> Record:
        """All facts of a record by their keys.

        :raises IndexDamagedError: if the file is damaged there
        """
        return Record(self._records.parts(record), {})

    def sources(self, record: int) -> dict[str, str]:
        """The name of the source that said each, by the same keys.

        :raises IndexDamagedError: if the file is damaged there
        """
        return self._records.said(record, self._names)


class Networks:
    """The open index of a generation's networks."""

    __slots__ = ("reader",)

    def __init__(self, path: str, current: "Current") -> None:
        """Open the file at ``path``, which may be packed.

        :raises IndexDamagedError: if it is not what was published
        :raises StateDamagedError: if it is gone
        """
        try:
            reader = IndexReader.open(readable(path))
        except IndexFileError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise StateDamagedError(f"{path}: is gone: sync again, or open the state anew") from error
            raise
        require_network(reader.header, path, current)
        self.reader = reader

    def record(self, family: "Family", value: int) -> int:
        """The number of an address's facts in the index, `EMPTY` if nothing covers it.

        :raises IndexDamagedError: if the file is damaged there
        """
        return network_record(self.reader, family, value)

    def piece(self, family: "Family", value: int) -> tuple[int, int, int]:
        """`record`, with the ends of the range, or of the gap, around the address.

        A 6to4 address of which no source says anything has the facts of the IPv4 address that it holds.
        """
        found, first, last = self.reader.segment(family, value)
        if found != EMPTY or family == 4 or (held := held_in(value)) is None:
            return found, first, last
        found, low, high = self.reader.segment(4, held)
        low, high = holding(low, high)
        return found, max(first, low), min(last, high)

    def said_by_record(self) -> Said:
        """What is said in it, by itself."""
        return Said(self.reader)

    def facts(self, family: "Family", value: int) -> Record | None:
        """The facts of an address by their keys, or None."""
        found = self.record(family, value)
        return None if found == EMPTY else Record(self.reader.parts(found), {})

    def network(self, address: str, family: "Family", value: int) -> Network | None:
        """The facts of an address with their range and sources, or None; it repeats ``address``."""
        found, first, last = self.piece(family, value)
        if found == EMPTY:
            return None
        return Network(
            address=address,
            first=to_text(family, first),
            last=to_text(family, last),
            facts=Record(self.reader.parts(found), {}),
            sources=self.reader.said(found),
        )

    def pieces(self, family: "Family", first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """The ranges from one address to another, cut to them: (first, last, number), gaps with `EMPTY`."""
        limit = IPV4_MAX if family == 4 else IPV6_MAX
        reached = first
        while reached <= min(last, limit):
            found, _, end = self.piece(family, reached)
            yield reached, min(end, last), found
            reached = end + 1
