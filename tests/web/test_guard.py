"""What is refused before routing, and what never leaves the service."""

import gzip
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.model.errors import SettingsError
from geolookup.service.geolocations import search
from geolookup.web.application import plain_path
from geolookup.web.options import Options
from tests.support.services.running_service import FIELDS, RunningService


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "127.5.5.5", "[::1]", "[::1]:8080", "[0:0::1]", "localhost:"]
)
def test_names_of_loopback_are_served(client: httpx.Client, host: str) -> None:
    assert client.get("/", headers={"Host": host}).status_code == 200


#: Strangers, and good names with something beside them (RFC 9110, section 7.2).
NOT_OURS = (
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "192.0.2.1",
    "[::2]",
    "",
    "[",
    "localhost.",
    "[::1].evil.example",
    "[::1]evil.example:80",
    "[::1]@evil.example",
    "localhost:80@evil.example",
    "localhost:x",
    "localhost:80:80",
    "127.0.0.1:80@evil.example",
    "127.0.0.1:80.evil.example",
    "localhost:80/evil",
    "[127.0.0.1]",
    "[localhost]",
    "::1",
    "[::1",
    "[::1%25lo]",
    "localhost:65536",
    "localhost:8\t0",
    "localhost evil.example",
    "evil.example@localhost",
    "localhost,evil.example",
    "localhost#evil",
    "localhost?evil",
    "127.1",
    "0177.0.0.1",
)


@pytest.mark.parametrize("host", NOT_OURS)
@pytest.mark.parametrize("path", ["/geolocations", "/nothing"])
def test_any_other_name_is_421_whatever_the_path(client: httpx.Client, host: str, path: str) -> None:
    answer = client.get(path, headers={"Host": host})
    assert answer.status_code == 421
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"].endswith(":unknown-host")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "null", "Sec-Fetch-Site": "none"},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://["},
        {"Origin": "http://evil.example@localhost"},
    ],
)
def test_a_write_from_another_sites_page_is_403(client: httpx.Client, headers: dict[str, str]) -> None:
    answer = client.post("/geolocations", json=FIELDS, headers=headers)
    assert answer.status_code == 403
    assert answer.json()["type"].endswith(":cross-site-request")
    assert len(client.get("/geolocations", headers=headers).json()) == 2


def test_a_write_from_the_services_own_page_is_served(service: RunningService, client: httpx.Client) -> None:
    headers = {"Origin": service.url, "Sec-Fetch-Site": "same-origin"}
    assert client.post("/geolocations", json=FIELDS, headers=headers).status_code == 201
    without_referrer = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}
    assert client.post("/geolocations", json=FIELDS, headers=without_referrer).status_code == 201


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "zstd", "identity, GZIP", "x"])
@pytest.mark.parametrize("path", ["/geolocations", "/lookup", "/admin/product/ratePlans"])
def test_a_body_in_a_content_coding_is_415_and_says_how_to_send_it(
    reading: httpx.Client, path: str, coding: str
) -> None:
    body = gzip.compress(b"{}")
    answer = reading.post(path, content=body, headers={"Content-Encoding": coding})
    assert (answer.status_code, answer.headers["accept-encoding"]) == (415, "identity")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"].endswith(":encoded-body")
    assert answer.json()["detail"] == "send it as it is, without Content-Encoding: it is not decompressed here"


def test_a_body_that_was_forgotten_is_called_so(reading: httpx.Client) -> None:
    for path in ("/geolocations", "/lookup"):
        answer = reading.post(path)
        assert (answer.status_code, answer.json()["detail"]) == (400, "the body is empty: send JSON")


def test_a_content_coding_without_a_body_or_without_effect_is_ignored(client: httpx.Client) -> None:
    assert client.get("/geolocations", headers={"Content-Encoding": "gzip"}).status_code == 200
    assert client.post("/geolocations", json=FIELDS, headers={"Content-Encoding": "identity"}).status_code == 201


def test_an_allowed_name_is_served_whole_only(tmp_path: Path) -> None:
    options = Options(allow_hosts=("Geo.Example", "2001:db8::1"))
    with RunningService(tmp_path / "x.db", options=options) as service, service.client() as client:
        for host in ("geo.example", "GEO.example:443", "[2001:DB8:0::1]:443"):
            assert client.get("/", headers={"Host": host}).status_code == 200
        for host in ("geo.example.evil", "geo.example:80@evil", "a.geo.example", "[2001:db8::1].evil", "2001:db8::1"):
            assert client.get("/", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("name", ["geo.example:8080", "geo.example:", "127.0.0.1:80", "[::1]:443"])
def test_an_allowed_name_with_a_port_is_refused_since_ports_are_not_compared(name: str) -> None:
    with pytest.raises(SettingsError, match="leave out the port"):
        Options(allow_hosts=("good.example", name))


@pytest.mark.parametrize(
    "name", ["http://geo.example", "geo example", "", "fe80::1%eth0", "*.example", "geo.example/x"]
)
def test_an_allowed_name_that_no_request_can_have_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="not a host name"):
        Options(allow_hosts=(name,))


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/", "GET, HEAD, OPTIONS"),
        ("/geolocations", "DELETE, GET, HEAD, OPTIONS, POST, PUT"),
        ("//geolocations/", "DELETE, GET, HEAD, OPTIONS, POST, PUT"),
        ("/geolocations/ipblocks", "DELETE, OPTIONS, POST, PUT"),
        ("/lookup", "OPTIONS, POST"),
        ("/lookup/192.0.2.1", "GET, HEAD, OPTIONS"),
        ("/v1/api/hotel/H1/details", "GET, HEAD, OPTIONS"),
        ("/schema/openapi.json", "GET, HEAD, OPTIONS"),
    ],
)
def test_options_and_405_name_the_same_methods(
    service: RunningService, client: httpx.Client, path: str, methods: str
) -> None:
    asked, refused = (client.request(method, service.url + path) for method in ("OPTIONS", "PATCH"))
    assert (asked.status_code, asked.content, asked.headers["allow"]) == (204, b"", methods)
    assert (refused.status_code, refused.headers["allow"]) == (405, methods)
    assert asked.headers.get_list("allow") == refused.headers.get_list("allow") == [methods]


def test_options_of_nothing_are_404(client: httpx.Client) -> None:
    assert client.options("/nothing").status_code == 404


def test_an_unexpected_failure_is_500_and_says_nothing_of_the_inside(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the secret of the inside")

    monkeypatch.setattr(search, "count", fail)
    answer = client.get("/geolocations")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"].endswith(":internal-error")
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert "the secret of the inside" in caplog.text


@given(st.text("/a", max_size=8))
def test_a_plain_path_has_single_slashes_and_none_at_its_end(path: str) -> None:
    assert plain_path(path) == "/" + "/".join(part for part in path.split("/") if part)
