"""Files of places and networks, a table of our own and custom blocks, each asked by itself: nothing is indexed."""

import csv
import ipaddress
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import maxminddb

import geolookup
from geolookup.model.fields import UNKNOWN
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull

DATA = Path(__file__).parents[1] / "data" / "mmdb"
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
WIDTH = {4: 32, 6: 128}
FORMS = {4: ipaddress.IPv4Address, 6: ipaddress.IPv6Address}


class Plain:
    """All sources as they are."""

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
                if 0 <= value < 1 << WIDTH[version]:
                    address: Any = FORMS[version](value)
                    if version == 4 or not (address.teredo or address.ipv4_mapped or value >> 32 == 0):
                        yield address


def publish_all(folder: Path) -> str:
    """A new state of all of it, in a folder: its path."""
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
    return home
