"""The members of an answer by name: those of an address's object, the typed facts, and what stands in its record."""

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from geolookup.model.facts import FACT_NAMES, NETWORK_FACTS, PLACE_FACTS
from geolookup.model.types import FLAT_NAMES

if TYPE_CHECKING:
    from geolookup.lookup.engine import GeoLookup
    from geolookup.lookup.network import Network
    from geolookup.model.types import Match

#: The names of members. A name with a dot in it is a path into the record: ``location.time_zone``.
NAMES = (*FLAT_NAMES, "network", *FACT_NAMES)


_OF_MATCH = ("network", *PLACE_FACTS)
_ALL_OF_MATCH = (*FLAT_NAMES, *_OF_MATCH)
_of_match, _of_network, _all_of_match = attrgetter(*_OF_MATCH), attrgetter(*NETWORK_FACTS), attrgetter(*_ALL_OF_MATCH)
_NO_PLACE: dict[str, Any] = dict.fromkeys(_OF_MATCH)
_NO_MATCH: dict[str, Any] = dict.fromkeys(_ALL_OF_MATCH)
_NO_NETWORK: dict[str, Any] = dict.fromkeys(NETWORK_FACTS)


def more_of(match: "Match | None", network: "Network | None") -> dict[str, Any]:
    """The members behind those of `Match.flat`: the CIDR network of the place's range, and all typed facts.

    None if no source says it.
    """
    return {
        **(_NO_PLACE if match is None else dict(zip(_OF_MATCH, _of_match(match), strict=True))),
        **(_NO_NETWORK if network is None else dict(zip(NETWORK_FACTS, _of_network(network), strict=True))),
    }


def all_of(address: str, match: "Match | None", network: "Network | None") -> dict[str, Any]:
    """All members of an address's object but its record, None if no source says it: `Match.flat`, then `more_of`."""
    if match is None:
        found = {**_NO_MATCH, "ip": address}
    else:
        found = dict(zip(_ALL_OF_MATCH, _all_of_match(match), strict=True))
    found.update(_NO_NETWORK if network is None else zip(NETWORK_FACTS, _of_network(network), strict=True))
    return found


class Members:
    """Reads the members of some names, of one address after another."""

    def __init__(self, geo: "GeoLookup", names: Iterable[str]) -> None:
        self._geo = geo
        self._names = tuple(names)
        self._has_network = any(name in NETWORK_FACTS for name in self._names)
        self._has_path = any("." in name for name in self._names)

    def of(self, address: str) -> tuple[Any, ...] | None:
        """The values of an address in the order of the names, None for what is not known.

        None in their place if nothing is known of the address: neither where it is nor who runs it.

        :raises InvalidAddressError: if the address is malformed
        """
        match = self._geo.match(address)
        network = self._geo.network(address) if self._has_network or match is None else None
        if match is None and network is None:
            return None
        record = self._geo.record(address) if self._has_path else None
        found = []
        for name in self._names:
            if name in NETWORK_FACTS:
                found.append(None if network is None else getattr(network, name))
            elif "." in name:
                found.append(None if record is None else record.find(name))
            elif match is None:
                found.append(address if name == "ip" else None)
            else:
                found.append(getattr(match, name))
        return tuple(found)
