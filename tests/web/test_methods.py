"""HEAD answers on every path of GET as GET does, without the body (RFC 9110, section 9.3.2)."""

import time

import httpx
import pytest

from geolookup.web.auth import Scope, line_for, new_token
from geolookup.web.options import Options
from tests.service.test_operating import samples
from tests.support.services.running_service import RunningService

#: What differs between any two answers.
OWN = {"date", "x-request-id"}


def head_and_get(client: httpx.Client, path: str) -> tuple[httpx.Response, dict[str, str], dict[str, str]]:
    """Both on one connection, which a body after a HEAD would put out of step."""
    head, whole = client.head(path), client.get(path)
    assert head.status_code == whole.status_code
    assert head.content == b""
    own = OWN | ({"content-length"} if path == "/metrics" else set())  # it counts the HEAD, too
    found = [{name: value for name, value in each.headers.items() if name not in own} for each in (head, whole)]
    return head, found[0], found[1]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/geolocations", 200),
        ("/geolocations?country=us", 200),
        ("/geolocations?top=0", 400),
        ("//geolocations/", 200),
        ("/lookup/192.0.2.5", 200),
        ("/lookup/203.0.113.9", 200),
        ("/lookup/1.2.3", 400),
        ("/v1/api/hotel/list?destinationId=nothing", 200),
        ("/v1/api/hotel/list", 400),
        ("/v1/api/hotel/nothing/details", 404),
        ("/healthz", 200),
        ("/readyz", 200),
        ("/metrics", 200),
        ("/schema/openapi.json", 200),
        ("/schema/nothing", 404),
        ("/nothing", 404),
        ("/lookup", 405),
    ],
)
def test_head_has_the_status_and_the_headers_of_get(reading: httpx.Client, path: str, status: int) -> None:
    reading.get("/lookup/192.0.2.5").raise_for_status()  # the index is there
    head, headers, expected = head_and_get(reading, path)
    assert head.status_code == status
    assert headers == expected


def test_head_is_counted_and_logged_as_itself_under_the_operation_of_get(service: RunningService) -> None:
    with service.client() as client:
        client.head("/geolocations")
        counted = ("geolookup_requests_total", "HEAD", "listGeolocations", "200")
        deadline = time.monotonic() + 30  # it is counted when its answer has ended, which the client need not wait for
        while counted not in samples(client) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert samples(client)[counted] == 1


def test_head_needs_a_token_as_get_does(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("tokens")
    token = new_token()
    (folder / "tokens").touch(0o600)
    (folder / "tokens").write_text(line_for("r", Scope.READ, token))
    options = Options(tokens=str(folder / "tokens"))
    with RunningService(folder / "x.db", options=options) as service, service.client() as client:
        assert client.head("/lookup/8.8.8.8").status_code == 401
        assert client.head("/", headers={"Authorization": f"Bearer {token}"}).status_code == 200
