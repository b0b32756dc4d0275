"""Places and networks of several files and of our own, at every boundary, against each file by itself."""

import csv
import ipaddress
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import maxminddb
import pytest

import geolookup
from geolookup.model.fields import UNKNOWN
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import verify
from geolookup.sync.pull.pull import pull

DATA = Path(__file__).parent.parent / "data" / "mmdb"
FILES = {"city": "GeoIP2-City-Test", "asn": "GeoLite2-ASN-Test", "anonymous": "GeoIP2-Anonymous-IP-Test"}
#: It overlaps networks of the files, leaves places or facts out, and has a narrower row inside a wider one.
OWN = """network,country,asn,as_organization,is_vpn,organization
1.128.0.0/12,,AS64512,Ours,,
1.128.4.0/22,AU,0,Nobody,no,
81.2.69.128/25,DE,,,yes,Branch
81.2.69.160/28,,1.10,,,
175.16.199.0/25,FR,,,,
2001:218::/33,JP,64513,Six,false,
2.125.160.216/29,,,,t,
"""
CUSTOM = {
    "81.2.69.140-81.2.69.150": "CH",
    "214.78.0.0-214.78.0.9": "IT",
    "1.128.5.0/24": "NZ",
    "2001:218:8000::/34": "ES",
}
_WIDTH = {4: 32, 6: 128}
_FORMS = {4: ipaddress.IPv4Address, 6: ipaddress.IPv6Address}


class Plain:
    """All sources as they are: nothing is indexed."""

    def __init__(self) -> None:
        self.files = {name: maxminddb.open_database(str(DATA / f"{file}.mmdb")) for name, file in FILES.items()}
        self.own = [(ipaddress.ip_network(row.pop("network")), row) for row in csv.DictReader(OWN.splitlines())]
        self.custom = {self.ends(text): country for text, country in CUSTOM.items()}

    @staticmethod
    def ends(text: str) -> tuple[int, int, int]:
        if "/" in text:
            network = ipaddress.ip_network(text)
            return network.version, int(network[0]), int(network[-1])
        low, high = map(ipaddress.ip_address, text.split("-"))
        return low.version, int(low), int(high)

    def own_row(self, address: Any, *, of: str) -> dict[str, Any]:
        """The narrowest row that says something of this layer."""
        rows = [
            (network.prefixlen, at, row)
            for at, (network, row) in enumerate(self.own)
            if network.version == address.version and address in network and self.said(row, of)
        ]
        return self.said(max(rows)[2], of) if rows else {}

    @staticmethod
    def said(row: dict[str, str], of: str) -> dict[str, Any]:
        if of == "place":
            return {"country": row["country"]} if row["country"] else {}
        facts: dict[str, Any] = {}
        number = {"": 0, "0": 0, "1.10": (1 << 16) + 10, "64513": 64513, "AS64512": 64512}[row["asn"]]
        if number:
            facts["autonomous_system_number"] = number
        if row["as_organization"] and row["asn"] != "0":
            facts["autonomous_system_organization"] = row["as_organization"]
        if row["is_vpn"]:
            facts["is_anonymous_vpn"] = row["is_vpn"] in ("yes", "t")
        if row["organization"]:
            facts["organization"] = row["organization"]
        return facts

    def of_file(self, name: str, address: Any) -> Any:
        if self.held(address) is not None:
            return {}  # its tree leads to the IPv4 address, which is asked by itself
        return self.files[name].get(address) or {}

    def held(self, address: Any) -> Any:
        """The IPv4 address that a 6to4 address holds."""
        return address.sixtofour if address.version == 6 else None

    def network(self, address: Any) -> tuple[dict[str, Any], dict[str, str]]:
        facts: dict[str, Any] = {}
        said: dict[str, str] = {}
        for name, own in (
            ("own", self.own_row(address, of="network")),
            ("asn", self.of_file("asn", address)),
            ("anonymous", self.of_file("anonymous", address)),
            ("city", self.of_file("city", address).get("traits", {})),
        ):
            for key, value in own.items():
                if key not in facts:
                    facts[key], said[key] = value, name
        if not facts and self.held(address) is not None:
            return self.network(self.held(address))
        return facts, said

    def country(self, address: Any) -> str | None:
        """Of our own and custom ones; None if the file answers."""
        for (version, low, high), country in self.custom.items():
            if version == address.version and low <= int(address) <= high:
                return country
        return self.own_row(address, of="place").get("country")

    def place(self, address: Any) -> Any:
        """A country of ours, or the whole record of the file without its traits; None if nothing says a place."""
        country = self.country(address)
        if country is not None:
            return country
        record = {key: value for key, value in self.of_file("city", address).items() if key != "traits"}
        if not record and self.held(address) is not None:
            return self.place(self.held(address))
        return record or None

    def boundaries(self) -> Iterator[Any]:
        """Both ends of each network and the addresses next to them outside, but for addresses of Teredo."""
        edges: set[tuple[int, int]] = set()
        networks = [network for file in self.files.values() for network, _ in file]
        for network in (*networks, *(network for network, _ in self.own)):
            edges |= {(network.version, int(network[0])), (network.version, int(network[-1]))}
        for version, low, high in self.custom:
            edges |= {(version, low), (version, high)}
        for version, edge in sorted(edges):
            for value in (edge - 1, edge, edge + 1):
                if 0 <= value < 1 << _WIDTH[version]:
                    address: Any = _FORMS[version](value)
                    if version == 4 or not (address.teredo or address.ipv4_mapped or value >> 32 == 0):
                        yield address


@pytest.fixture(scope="module")
def plain() -> Plain:
    return Plain()


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("oracle")
    (folder / "own.csv").write_text(OWN, encoding="utf-8")
    sources = [SourceSettings(name="own", location=str(folder / "own.csv"))]
    for name in ("asn", "anonymous", "city"):
        sources.append(SourceSettings(name=name, location=str(DATA / f"{FILES[name]}.mmdb")))
    home = str(folder / "state")
    pull(StateDirectory(home), Settings(sources=tuple(sources)))
    with geolookup.open_editor(home) as editor:
        for blocks, country in CUSTOM.items():
            locid = editor.create(**{**UNKNOWN, "country": country, "latitude": 1.0, "longitude": 1.0})  # type: ignore[arg-type]
            editor.add_block(locid, *blocks.split("-"))
    assert verify(home) == []
    return home


def test_each_boundary_has_the_facts_and_the_place_that_the_files_say(plain: Plain, state: str) -> None:
    seen = networks = places = merged = 0
    with geolookup.GeoLookup(state) as geo:
        for address in plain.boundaries():
            seen += 1
            facts, said = plain.network(address)
            found = geo.network(str(address))
            assert (
                (facts, said) == ({}, {})
                if found is None
                else (dict(found.facts), dict(found.sources)) == (facts, said)
            ), address
            networks += bool(facts)
            merged += len(set(said.values())) > 1
            place = plain.place(address)
            places += place is not None
            record = geo.record(str(address))
            whole = {} if record is None else record.as_dict()
            assert whole.pop("traits", {}) == facts, address
            if isinstance(place, str):
                assert whole["country"]["iso_code"] == place, address
            else:
                assert (whole or None) == place, address
    assert seen > 5000
    assert min(networks, places, merged) > 50


def test_a_range_is_the_largest_with_the_same_facts_from_the_same_sources(plain: Plain, state: str) -> None:
    with geolookup.GeoLookup(state) as geo:
        for address in plain.boundaries():
            found = geo.network(str(address))
            if found is None:
                continue
            expected = plain.network(address)
            form = _FORMS[address.version]
            first, last = int(form(found.first)), int(form(found.last))
            assert first <= int(address) <= last
            for value in (first, last):
                assert plain.network(form(value)) == expected
            for value in (first - 1, last + 1):
                outside = not 0 <= value < 1 << _WIDTH[address.version]
                assert outside or plain.network(form(value)) != expected or _is_edge_of_6to4(form(value), address)
            inner = ipaddress.ip_network(found.network)
            assert address in inner
            assert first <= int(inner[0])
            assert int(inner[-1]) <= last


def _is_edge_of_6to4(one: Any, other: Any) -> bool:
    """True if only one of two addresses holds another: then their ranges end between them."""
    return bool(one.version == 6 and (one.sixtofour is None) != (other.sixtofour is None))


def test_an_explanation_names_who_said_each_fact_and_who_said_something_else(plain: Plain, state: str) -> None:
    with geolookup.GeoLookup(state) as geo:
        found = {fact.name: fact for fact in geo.explain("1.128.0.1").facts}
        assert found.keys() == {"asn", "as_organization"}
        assert (found["asn"].value, found["asn"].source, found["asn"].others) == (64512, "own", (("asn", 1221),))
        assert found["as_organization"].others == (("asn", "Telstra Pty Ltd"),)
        zero = {fact.name: fact for fact in geo.explain("1.128.4.1").facts}
        assert (zero["asn"].source, zero["asn"].others) == ("asn", ())
        assert (zero["is_anonymous_vpn"].value, zero["is_anonymous_vpn"].source) == (False, "own")
        agreed = {fact.name: fact for fact in geo.explain("81.2.69.155").facts}
        assert agreed["is_anonymous_vpn"].source == "own"
        assert agreed["is_anonymous_vpn"].others == (), "anonymous says the same"
        assert geo.explain("9.9.9.9").facts == ()
        for address in ("1.128.4.1", "81.2.69.160", "2002:180:401::1"):
            facts, said = plain.network(ipaddress.ip_address(address))
            explained = geo.explain(address).facts
            assert sorted((str(fact.value), fact.source) for fact in explained) == sorted(
                (str(value), said[key]) for key, value in facts.items()
            )


def test_custom_edits_change_no_fact_of_a_network(plain: Plain, state: str) -> None:
    with geolookup.GeoLookup(state) as geo:
        match, network = geo.match("214.78.0.5"), geo.network("214.78.0.5")
    assert match is not None
    assert (match.layer, match.geolocation.country) == ("custom", "IT")
    assert network is not None
    assert network.asn == 721
    assert network.last != match.last
