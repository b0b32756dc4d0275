"""The GeoIP2 web service: the records of the database, the errors that its clients know, the client's own address."""

import io
import ipaddress
from pathlib import Path
from typing import Any

import geoip2.errors
import geoip2.webservice
import httpx
import maxminddb
import pytest

from geolookup.exports.export import export
from geolookup.web.auth import Scope, line_for, new_token
from geolookup.web.options import Options
from tests.support.data.two_sources import state
from tests.support.services.certificates import Certificates
from tests.support.services.running_share import RunningShare

ADDRESSES = (
    *("10.20.0.1", "10.20.255.255", "10.21.0.0", "44.10.20.7", "8.8.8.8", "9.0.0.1", "9.1.0.0", "9.255.255.255"),
    *("2001:db8::1", "2001:db8::ffff", "2400::1"),
)


@pytest.mark.parametrize("detail", ["city", "country"])
def test_an_answer_is_the_record_of_the_database(
    shared: RunningShare, client: httpx.Client, detail: str, tmp_path: Path
) -> None:
    path = tmp_path / "oracle.mmdb"
    out = io.BytesIO()
    export(shared.geo, "mmdb", out, fields=detail)
    path.write_bytes(out.getvalue())
    with maxminddb.open_database(path) as reader:
        for address in ADDRESSES:
            answer = client.get(f"/geoip/v2.1/{detail}/{address}")
            assert answer.headers["content-type"].startswith(f"application/vnd.maxmind.com-{detail}+json")
            found: dict[str, Any] = answer.json()
            traits = found.pop("traits")
            wanted, bits = reader.get_with_prefix_len(address)
            assert found == wanted
            assert traits["ip_address"] == address
            network = ipaddress.ip_network(traits["network"])
            assert ipaddress.ip_address(address) in network
            if detail == "city":  # of countries, neighbours are one network in the database
                assert network.prefixlen == bits


def test_the_network_is_the_largest_one_around_the_address_with_its_answer(client: httpx.Client) -> None:
    for address, network in (("9.0.0.255", "9.0.0.0/24"), ("9.0.1.0", "9.0.1.0/24"), ("9.0.2.0", "9.0.2.0/23")):
        assert client.get(f"/geoip/v2.1/city/{address}").json()["traits"]["network"] == network


def test_me_is_the_address_of_the_client(client: httpx.Client) -> None:
    assert client.get("/geoip/v2.1/city/me").json() == {
        "code": "IP_ADDRESS_NOT_FOUND",
        "error": "no source says anything of it",
    }


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("city/nowhere", 400, "IP_ADDRESS_INVALID"),
        ("city/1.2.3.4/5", 400, "IP_ADDRESS_INVALID"),
        ("city/1.2.3", 400, "IP_ADDRESS_INVALID"),
        ("city/fe80::1%25eth0", 400, "IP_ADDRESS_INVALID"),
        ("country/%00", 400, "IP_ADDRESS_INVALID"),
        ("city/203.0.113.9", 404, "IP_ADDRESS_NOT_FOUND"),
        ("country/2001:db9::", 404, "IP_ADDRESS_NOT_FOUND"),
        ("enterprise/8.8.8.8", 404, "NOT_FOUND"),
        ("insights/203.0.113.9", 404, "IP_ADDRESS_NOT_FOUND"),
        ("", 404, "NOT_FOUND"),
        ("city/" + "1" * 9000, 414, "TARGET_TOO_LONG"),
    ],
)
def test_an_error_has_the_form_that_clients_know(client: httpx.Client, path: str, status: int, code: str) -> None:
    answer = client.get(f"/geoip/v2.1/{path}")
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
    assert set(answer.json()) == {"code", "error"}
    assert answer.json()["code"] == code
    head = client.head(f"/geoip/v2.1/{path}")
    assert (head.status_code, head.content) == (status, b"")


def test_what_the_guard_refuses_has_the_same_form(client: httpx.Client) -> None:
    for method, headers, status, code in (
        ("GET", {"Host": "evil.example"}, 421, "UNKNOWN_HOST"),
        ("POST", {}, 405, "METHOD_NOT_ALLOWED"),
        ("POST", {"Origin": "https://evil.example"}, 403, "CROSS_SITE_REQUEST"),
        ("GET", {"X-Large": "x" * 16370}, 431, "HEAD_TOO_LARGE"),  # by the guard, or by what reads heads
        ("GET", {"X-Large": "x" * 100_000}, 431, "HEAD_TOO_LARGE"),
    ):
        answer = client.request(method, "/geoip/v2.1/city/8.8.8.8", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
    # Everywhere else they are problems.
    assert client.get("/lookup/x", headers={"Host": "evil.example"}).headers["content-type"].endswith("problem+json")


def test_the_client_of_geoip2_gets_answers_and_its_own_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificates = Certificates(tmp_path)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificates.bundle))
    tokens, token = tmp_path / "tokens", new_token()
    tokens.touch(0o600)
    tokens.write_text(line_for("tools", Scope.READ, token) + "\n")
    options = Options(tokens=str(tokens), tls_cert=str(certificates.cert), tls_key=str(certificates.key))
    with RunningShare(state(tmp_path), tmp_path / "built", options=options) as running:
        host = running.url.removeprefix("https://")
        with geoip2.webservice.Client(1, token, host=host) as client:
            city = client.city("10.20.3.4")  # a private address that the custom layer covers
            assert (city.city.name, city.country.iso_code, city.country.is_in_european_union) == ("Berlin", "DE", True)
            assert city.traits.network == ipaddress.ip_network("10.20.0.0/16")
            assert client.country("8.8.8.8").country.iso_code == "US"
            with pytest.raises(geoip2.errors.AddressNotFoundError):
                client.city("203.0.113.9")
        stranger = geoip2.webservice.Client(1, new_token(), host=host)
        with stranger as client, pytest.raises(geoip2.errors.AuthenticationError):
            client.city("8.8.8.8")
