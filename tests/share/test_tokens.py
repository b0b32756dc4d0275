"""Tokens of a share: as bearer, as basic credentials and in the path; never in a log or a metric."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from geolookup.web.auth import Scope, line_for, new_token
from geolookup.web.options import Options
from tests.support.data.two_sources import NAMES, state
from tests.support.services.raw_http import exchange
from tests.support.services.running_share import RunningShare

TOKEN, STRANGER = new_token(), new_token()
PATHS = (
    "/",
    "/databases",
    "/databases/geolookup-City.mmdb",
    "/geofeed.csv",
    "/geoip/updates/metadata?edition_id=geolookup-City",
    "/geoip/databases/geolookup-City/download?suffix=tar.gz",
    "/elastic/database?elastic_geoip_service_tos=agree",
    "/elastic/geolookup-City.tgz",
    "/geoip/v2.1/city/10.20.0.1",
    "/geoip/v2.1/country/10.20.0.1",
    "/lookup/10.20.0.1",
    "/metrics",
    "/schema/openapi.json",
)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningShare]:
    folder = tmp_path_factory.mktemp("guarded")
    tokens = folder / "tokens"
    tokens.touch(0o600)
    tokens.write_text(line_for("reader", Scope.READ, TOKEN) + "\n")
    options = Options(tokens=str(tokens), access_log=str(folder / "log"))
    with RunningShare(state(folder), folder / "built", editions=NAMES, options=options) as running:
        yield running


@pytest.fixture(scope="module")
def client(guarded: RunningShare) -> Iterator[httpx.Client]:
    with guarded.client() as client:
        yield client


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


@pytest.mark.parametrize("path", PATHS)
def test_a_token_is_asked_for_and_may_come_as_bearer_or_password(client: httpx.Client, path: str) -> None:
    refused = client.get(path)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Basic ")
    assert "Bearer" in refused.headers["www-authenticate"]
    for headers in ({"Authorization": f"Bearer {TOKEN}"}, basic("12345", TOKEN), basic("", TOKEN)):
        assert client.get(path, headers=headers).status_code == 200
    for headers in (
        basic("12345", STRANGER),
        basic(TOKEN, ""),
        basic(TOKEN, "x"),
        basic("a", f":{TOKEN}"),
        {"Authorization": f"Bearer {STRANGER}"},
        {"Authorization": "Basic " + base64.b64encode(TOKEN.encode()).decode()},
        {"Authorization": "Basic !!!!"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Basic " + base64.b64encode(b"a:\xff\xfe").decode()},
    ):
        assert client.get(path, headers=headers).status_code == 401, headers


@pytest.mark.parametrize("path", [path for path in PATHS if path.startswith("/elastic/")])
def test_before_the_paths_of_elastic_a_token_may_stand(client: httpx.Client, path: str) -> None:
    assert client.get(f"/{TOKEN}{path}").status_code == 200
    assert client.head(f"/{TOKEN}{path}").status_code == 200
    assert client.get(f"{client.base_url}/{TOKEN}/{path}").status_code == 200
    assert client.get(f"/{STRANGER}{path}").status_code == 401
    # One that is wrong in the path is not made good by a header.
    assert client.get(f"/{STRANGER}{path}", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 401


@pytest.mark.parametrize("path", [path for path in PATHS if not path.startswith("/elastic/")])
def test_nowhere_else_does_a_token_in_the_path_count(client: httpx.Client, path: str) -> None:
    assert client.get(f"/{TOKEN}{path}").status_code == 401
    assert client.get(f"/x/{TOKEN}{path}").status_code == 401


def test_no_token_reaches_a_log_or_a_metric(guarded: RunningShare, client: httpx.Client, tmp_path: Path) -> None:
    good = {"Authorization": f"Bearer {TOKEN}"}
    for token in (TOKEN, STRANGER):
        for path in (
            "/elastic/database",
            "/elastic/none",
            "/elastc/database",
            "/",
            "",
            "/databases",
            "/lookup/1.2.3.4",
        ):
            for method in ("GET", "HEAD", "POST", "OPTIONS", "DELETE"):
                client.request(method, f"/{token}{path}")
                client.request(method, f"/{token}{path}", headers=good)
                client.request(method, f"{client.base_url}/x/{token}{path}", headers=good)
        client.get(f"/{token}/elastic/database", headers={"Host": "evil.example"})
        client.get(f"/{token}/elastic/{'x' * 9000}")
        client.get(f"/elastic/database?token={token}")
        client.get(f"/%67{token[1:]}/elastic/database")
        exchange(guarded.url, f"GET {guarded.url}/{token}/elastic/tls HTTP/1.0\r\n\r\n".encode())
    metrics = client.get("/metrics", headers=good).text
    log = (guarded.folder.parent / "log").read_text()
    for token in (TOKEN, STRANGER):
        assert token not in metrics
        assert token not in log
        assert token[4:] not in log
    entries = [json.loads(line) for line in log.splitlines()]
    assert any(entry["path"] == "/elastic/database" and entry["token"] == "reader" for entry in entries)
    assert any("{token}" in entry["path"] for entry in entries)
    assert [entry["token"] for entry in entries if entry["path"] == "/elastic/tls"] == ["reader", ""]


def test_addresses_that_were_looked_up_are_not_logged(guarded: RunningShare, client: httpx.Client) -> None:
    good = {"Authorization": f"Bearer {TOKEN}"}
    for path in ("/lookup/", "/geoip/v2.1/city/", "/geoip/v2.1/country/", "//geoip//v2.1/city/"):
        client.get(f"{client.base_url}{path}10.20.211.212", headers=good)
        client.get(f"{client.base_url}{path}10.20.211.212")
    log = (guarded.folder.parent / "log").read_text()
    assert "211.212" not in log
    assert "/geoip/v2.1/city/{ip}" in log
