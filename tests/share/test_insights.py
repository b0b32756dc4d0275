"""The GeoIP2 web services of a state with networks: whole records, the traits that each service has, their network."""

import io
import ipaddress
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import geoip2.errors
import geoip2.webservice
import httpx
import maxminddb
import pytest

from geolookup.exports.export import export
from geolookup.model.types import IPBlock
from geolookup.web.auth import Scope, line_for, new_token
from geolookup.web.options import Options
from tests.support.data.networked import ADDRESSES, CUSTOM, FILES, state
from tests.support.services.certificates import Certificates
from tests.support.services.running_share import RunningShare

#: What the models of geoip2 say of the services that have each of the traits that our files have.
_OF_COUNTRY = {"is_anycast"}
_OF_CITY = _OF_COUNTRY | {
    *("autonomous_system_number", "autonomous_system_organization", "connection_type", "domain", "isp"),
    *("mobile_country_code", "mobile_network_code", "organization"),
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningShare]:
    folder = tmp_path_factory.mktemp("insights")
    with RunningShare(state(folder), folder / "built", built=False) as share:
        yield share


@pytest.fixture(scope="module")
def client(running: RunningShare) -> Iterator[httpx.Client]:
    with running.client() as client:
        yield client


def _starts() -> Iterator[str]:
    """An address of each network of the files, some of many."""
    for path in FILES.values():
        with maxminddb.open_database(path) as reader:
            networks = [network for network, _ in reader]
            for network in networks[:: max(1, len(networks) // 40)]:
                address: Any = network[0]
                if network.version == 4 or not (address.teredo or address.sixtofour or int(address) >> 32 == 0):
                    yield str(address)


def test_an_answer_is_what_each_file_says_by_itself(client: httpx.Client) -> None:
    files = {name: maxminddb.open_database(path) for name, path in FILES.items()}
    custom = [IPBlock.parse(*block.split("-")) for block in CUSTOM]
    answered = seen = 0
    for address in dict.fromkeys(_starts()):
        asked = ipaddress.ip_address(address)
        if any(block.family == asked.version and block.first <= int(asked) <= block.last for block in custom):
            continue
        said: dict[str, Any] = {name: file.get(address) or {} for name, file in files.items()}
        place = {key: value for key, value in said["city"].items() if key != "traits"}
        traits: dict[str, Any] = {}
        for facts in (said["city"].get("traits", {}), *(said[name] for name in FILES if name != "city")):
            traits = {**facts, **traits}
        for service, kept in (
            ("country", traits.keys() & _OF_COUNTRY),
            ("city", traits.keys() & _OF_CITY),
            ("insights", traits.keys()),
        ):
            wanted = {
                key: value
                for key, value in place.items()
                if service != "country" or key in ("continent", "country", "registered_country", "represented_country")
            }
            answer = client.get(f"/geoip/v2.1/{service}/{address}")
            answered += 1
            if not wanted and not kept:
                assert (answer.status_code, answer.json()["code"]) == (404, "IP_ADDRESS_NOT_FOUND"), address
                continue
            found = answer.json()
            own_map = found.pop("geolookup")
            assert own_map.keys() >= ({"layer", "source"} if place else set()) | ({"sources"} if kept else set()), (
                address
            )
            its = found.pop("traits")
            assert its.pop("ip_address") == address
            network = ipaddress.ip_network(its.pop("network"))
            assert asked in network
            assert its == {key: traits[key] for key in kept}, address
            assert found == wanted, address
            seen += len(kept)
    assert answered > 500
    assert seen > 300


def test_the_network_is_the_largest_around_the_address_with_its_record(
    running: RunningShare, client: httpx.Client
) -> None:
    edges: dict[int, list[int]] = {4: [], 6: []}
    for path in FILES.values():
        with maxminddb.open_database(path) as reader:
            for network, _ in reader:
                edges[network.version] += [int(network[0]), int(network[-1]) + 1]
    for block in (IPBlock.parse(*text.split("-")) for text in CUSTOM):
        edges[block.family] += [block.first, block.last + 1]

    def record(value: int, version: int) -> Any:
        form = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
        try:
            address = form(value)
        except ValueError:
            return "beyond"
        found = running.geo.record(address)
        match = running.geo.match(address)
        return found, match and (match.layer, match.locid)

    checked = 0
    for address in ("2.3.3.7", "10.20.1.1", *dict.fromkeys(_starts())):
        answer = client.get(f"/geoip/v2.1/insights/{address}")
        if answer.status_code == 404:
            continue
        asked, network = ipaddress.ip_address(address), ipaddress.ip_network(answer.json()["traits"]["network"])
        own = record(int(asked), asked.version)
        first, last = int(network[0]), int(network[-1])
        inside = [edge for edge in edges[asked.version] if first < edge <= last]
        assert all(record(value, asked.version) == own for value in (first, last, *inside)), address
        wider = network.supernet()
        around = [edge for edge in edges[asked.version] if int(wider[0]) < edge <= int(wider[-1])]
        assert any(
            record(value, asked.version) != own
            for edge in around
            for value in (edge - 1, edge)
            if value in _ints(wider)
        ), (address, network)
        checked += 1
    assert checked > 150


def test_insights_are_the_record_of_the_database_of_everything(
    running: RunningShare, client: httpx.Client, tmp_path: Path
) -> None:
    out = io.BytesIO()
    export(running.geo, "mmdb", out, layer="all")
    (tmp_path / "all.mmdb").write_bytes(out.getvalue())
    with maxminddb.open_database(tmp_path / "all.mmdb") as reader:
        for address in (*ADDRESSES, *_starts()):
            wanted: Any = reader.get(address)
            found = client.get(f"/geoip/v2.1/insights/{address}").json()
            if wanted is None:
                assert found["code"] == "IP_ADDRESS_NOT_FOUND", address
                continue
            its = found["traits"]
            del its["ip_address"], its["network"]
            if not its:
                del found["traits"]
            assert found == wanted, address


def _ints(network: Any) -> range:
    return range(int(network[0]), int(network[-1]) + 1)


def test_the_client_of_geoip2_has_whole_records_and_traits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificates = Certificates(tmp_path)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificates.bundle))
    tokens, token = tmp_path / "tokens", new_token()
    tokens.touch(0o600)
    tokens.write_text(line_for("tools", Scope.READ, token) + "\n")
    options = Options(tokens=str(tokens), tls_cert=str(certificates.cert), tls_key=str(certificates.key))
    with RunningShare(state(tmp_path), tmp_path / "built", options=options, built=False) as share:
        host = share.url.removeprefix("https://")
        with geoip2.webservice.Client(1, token, host=host, locales=["de", "en"]) as client:
            city = client.city("81.2.69.160")
            assert (city.country.name, city.city.name, city.city.geoname_id) == (
                "Vereinigtes Königreich",
                "London",
                2643743,
            )
            assert (city.location.time_zone, city.location.accuracy_radius) == ("Europe/London", 100)
            assert (city.subdivisions[0].iso_code, city.subdivisions.most_specific.name) == ("ENG", "England")
            assert city.registered_country.iso_code == "US"
            assert (city.traits.isp, city.traits.domain) == ("Andrews & Arnold Ltd", "in-addr.arpa")
            assert city.traits.is_anonymous_vpn is False  # which the City service does not say
            assert city.traits.ip_address == ipaddress.ip_address("81.2.69.160")
            insights = client.insights("81.2.69.160")
            assert insights.traits.is_anonymous_vpn is True
            assert insights.traits.isp == city.traits.isp
            assert insights.country == city.country
            country = client.country("81.2.69.160")
            assert (country.country.name, country.traits.isp) == ("Vereinigtes Königreich", None)
            alone = client.city("1.128.0.1")  # nobody says where it is
            assert (alone.country.iso_code, alone.traits.autonomous_system_number) == (None, 1221)
            assert alone.traits.network == ipaddress.ip_network("1.128.0.0/22")
            with pytest.raises(geoip2.errors.AddressNotFoundError):
                client.country("1.128.0.1")
            custom = client.insights("1.128.5.7")  # our place, their network
            assert (custom.country.names["fr"], custom.traits.isp) == ("Nouvelle-Zélande", "Telstra Internet")
            assert custom.traits.network == ipaddress.ip_network("1.128.5.0/24")
            for address in ADDRESSES[:-2]:
                client.insights(address)
            with pytest.raises(geoip2.errors.AddressNotFoundError):
                client.insights("203.0.113.9")
