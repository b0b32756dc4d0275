"""Kinds of MaxMind DBs by the type in their metadata: what a program that reads one of them expects in its records."""

import re
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from geolookup.exports.content import Content
from geolookup.exports.precision import Precision, coarsened
from geolookup.index.flatten import EMPTY

#: What records hold: places, the facts of networks at their top, or both, the facts under `TRAITS`.
Holding: TypeAlias = Literal["both", "network", "all"]


class Kind(NamedTuple):
    """The content of records: places no more precise than ``precision`` says (None: as they are known), and those of
    the ``facts`` of networks (None: all that there are)."""

    holding: Holding
    precision: Precision | None = None
    facts: frozenset[str] | None = None


_ASN = ("autonomous_system_number", "autonomous_system_organization")
_ANONYMOUS = (
    *("is_anonymous", "is_anonymous_vpn", "is_hosting_provider"),
    *("is_public_proxy", "is_residential_proxy", "is_tor_exit_node"),
)
_PLUS = (*_ANONYMOUS, "anonymizer_confidence", "network_last_seen", "provider_name")


def _of_facts(*keys: str) -> Kind:
    return Kind("network", facts=frozenset(keys))


#: By the words of a type that say what it is: GeoLite2-ASN, GeoIP2-Anonymous-IP.
_KINDS = {
    "Anonymous-IP": _of_facts(*_ANONYMOUS),
    "Anonymous-Plus": _of_facts(*_PLUS),
    "ASN": _of_facts(*_ASN),
    "City": Kind("both"),
    "Connection-Type": _of_facts("connection_type"),
    "Country": Kind("both", precision="country"),
    "Domain": _of_facts("domain"),
    "Enterprise": Kind("all"),
    "IP-Risk": _of_facts(*_PLUS, "ip_risk"),
    "ISP": _of_facts(*_ASN, "isp", "organization", "mobile_country_code", "mobile_network_code"),
    "Network": Kind("network"),
    "Residential-Proxy": _of_facts("anonymizer_confidence", "network_last_seen", "provider_name"),
    "Static-IP-Score": _of_facts("score"),
    "User-Count": _of_facts("ipv4_24", "ipv4_32", "ipv6_32", "ipv6_48", "ipv6_64"),
}
#: The words of a type that say what a database holds.
KINDS = tuple(_KINDS)
_WORDS = re.compile(rf"(?:^|[-_ ])({'|'.join(_KINDS)})(?:[-_ ]|$)", re.ASCII)


def kind_of(database_type: str) -> Kind | None:
    """The kind of a database of this type, or None if its name does not say it."""
    found = _WORDS.search(database_type)
    return None if found is None else _KINDS[found[1]]


def narrowed(content: Content, kind: Kind) -> Content:
    """The part of some content that a database of this kind has: its sources are then those that answer some of it."""
    networks = content.networks
    if kind.holding == "both" or networks is None:
        content = replace(content, networks=None)
    elif kind.facts is not None:
        facts = kind.facts
        content = replace(content, networks=networks.kept(lambda key, _: key in facts))
    if kind.holding == "network":
        nothing = np.full(len(content.places), EMPTY, np.uint32)
        four, six = content.four.with_values(nothing), content.six.with_values(nothing)
        places = content.places.taken(np.empty(0, np.int64))
        return replace(content, four=four, six=six, places=places, answering=(), origins=(), dated=None)
    return content if kind.precision is None else coarsened(content, kind.precision)
