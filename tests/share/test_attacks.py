"""What hostile clients send to a share, row by row: the refusal that each gets, and right answers afterwards."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from geolookup.web.auth import Scope, line_for, new_token
from geolookup.web.options import Limits, Options
from tests.service.test_operating import samples
from tests.support.data.two_sources import NAMES, state
from tests.support.services.running_share import RunningShare

TOKEN = new_token()
CITY = "/databases/geolookup-City.mmdb"
#: Every operation as a good client calls it.
OPERATIONS = (
    "/databases",
    CITY,
    "/databases/GeoLite2-City.mmdb.gz",
    "/geofeed.csv",
    "/geoip/updates/metadata?edition_id=GeoLite2-City",
    "/geoip/databases/GeoLite2-City/download?suffix=tar.gz",
    "/elastic/database?elastic_geoip_service_tos=agree",
    "/elastic/GeoLite2-City.tgz",
    "/geoip/v2.1/city/10.20.0.1",
    "/geoip/v2.1/country/10.20.0.1",
    "/lookup/10.20.0.1",
)
INJECTIONS = (
    "' OR '1'='1",
    "x\r\nSet-Cookie: a=b",
    "../../../../etc/passwd",
    "..%2f..%2fCURRENT",
    "\x00",
    "${jndi:ldap://127.0.0.1/a}",
    "{{7*7}}",
    "\u202e\u2066",
    "\U0001f4a9" * 50,
    "9" * 300,
    ".",
    "..",
    "",
    " ",
    "geofeed",
    ".mmdb",
    "catalog.json",
)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningShare]:
    folder = tmp_path_factory.mktemp("attacked")
    tokens = folder / "tokens"
    tokens.touch(0o600)
    tokens.write_text(line_for("tools", Scope.READ, TOKEN) + "\n")
    options = Options(tokens=str(tokens), limits=Limits(request_s=2.0))
    with RunningShare(state(folder), folder / "built", editions=NAMES, options=options) as running:
        yield running


@pytest.fixture
def client(attacked: RunningShare) -> Iterator[httpx.Client]:
    """A client with a token; after each row, the same files are there, and answers are right."""
    files = sorted(os.listdir(attacked.folder / "files"))
    with attacked.client(TOKEN) as client:
        yield client
        assert sorted(os.listdir(attacked.folder / "files")) == files
        assert client.get("/lookup/10.20.0.1").json()["city"] == "Berlin"
        assert client.get(CITY).status_code == 200
        assert client.get("/readyz").status_code == 200


def code(answer: httpx.Response) -> str:
    """The name of a problem, in whichever form."""
    found = answer.json()
    return str(found["type"].rpartition(":")[2] if "type" in found else found["code"].lower().replace("_", "-"))


@pytest.mark.parametrize("path", OPERATIONS)
def test_a_foreign_name_is_refused(client: httpx.Client, path: str) -> None:
    for host in ("evil.example", "", "localhost.evil.example", "127.0.0.1@evil.example"):
        answer = client.get(path, headers={"Host": host})
        assert (answer.status_code, code(answer)) == (421, "unknown-host")


@pytest.mark.parametrize("path", OPERATIONS)
def test_nothing_can_be_written(client: httpx.Client, path: str) -> None:
    for method in ("PUT", "PATCH", "DELETE", "POST", "TRACE", "PROPFIND"):
        answer = client.request(method, path, content=b"x")
        assert answer.status_code in (403, 405), (method, answer.text)
    allowed = client.options(path)
    assert (allowed.status_code, allowed.headers["allow"]) == (204, "GET, HEAD, OPTIONS")


@pytest.mark.parametrize("text", INJECTIONS)
def test_a_hostile_name_or_digest_finds_nothing(client: httpx.Client, text: str) -> None:
    for path, name in (
        (CITY, "sha256"),
        ("/geofeed.csv", "sha256"),
        ("/elastic/GeoLite2-City.tgz", "md5"),
        ("/geoip/updates/metadata", "edition_id"),
        ("/geoip/databases/GeoLite2-City/download", "date"),
        ("/geoip/databases/GeoLite2-City/download", "suffix"),
    ):
        answer = client.get(path, params={name: text})
        assert answer.status_code in (400, 404), (path, name, answer.status_code)
        assert "set-cookie" not in answer.headers
    for path in (
        "/databases/{}",
        "/databases/{}.mmdb",
        "/elastic/{}",
        "/elastic/{}.tgz",
        "/geoip/databases/{}/download",
    ):
        answer = client.get(httpx.URL(str(client.base_url), raw_path=path.format(percent(text)).encode()))
        if answer.status_code == 200:  # what is left of the path is another one: a list
            assert answer.json()
        else:
            assert answer.status_code in (400, 404), (path, answer.status_code)


def percent(text: str) -> str:
    return "".join(f"%{octet:02x}" for octet in text.encode())


@pytest.mark.parametrize("path", OPERATIONS)
def test_parameters_that_are_repeated_or_unreadable_are_refused_or_ignored(client: httpx.Client, path: str) -> None:
    separator = "&" if "?" in path else "?"
    for more in ("x=" + "y" * 8200, "%ff=%fe", "&".join(f"p{number}=1" for number in range(200))):
        answer = client.get(f"{path}{separator}{more}")
        assert answer.status_code in (200, 400, 414), (path, answer.status_code)
    for name in ("sha256", "md5", "date", "suffix"):
        answer = client.get(f"{path}{separator}{name}=a&{name}=b")
        assert answer.status_code in (200, 400), (path, answer.status_code)


def test_hostile_headers_of_downloads_get_an_answer(client: httpx.Client) -> None:
    whole = client.get(CITY).content
    for name, value in (
        ("Range", "bytes=" + ",".join(f"{number}-" for number in range(1000))),
        ("Range", "bytes=0-" + "9" * 5000),
        ("Range", "bytes=--1"),
        ("Range", "bytes=1-1-1"),
        ("If-None-Match", '"' * 5000),
        ("If-None-Match", ",".join('"a"' for _ in range(2000))),
        ("If-Modified-Since", "Sat, 99 Foo 99999 99:99:99 GMT"),
        ("If-Modified-Since", "Sat, 21 Nov 99999999999 10:00:00 GMT"),
        ("If-Range", '"' + "a" * 5000 + '"'),
    ):
        answer = client.get(CITY, headers={name: value})
        assert (answer.status_code, answer.content) == (200, whole), (name, value[:40])
    twice = client.get(CITY, headers=[("Range", "bytes=0-1"), ("Range", "bytes=2-3")])
    assert (twice.status_code, twice.content) == (200, whole)


def test_requests_make_no_series_of_metrics(client: httpx.Client) -> None:
    for number in range(50):
        client.get(f"/databases/edition-{number}.mmdb")
        client.get(f"/nowhere-{number}/elastic/database")
        client.request(f"METHOD{number}", "/databases")
    found = json.dumps([list(name) for name in samples(client)])
    assert "edition-" not in found
    assert "nowhere-" not in found
    assert "METHOD1" not in found


def test_the_folder_of_built_files_is_of_its_owner_alone(attacked: RunningShare) -> None:
    for root, folders, files in os.walk(attacked.folder):
        for name in (*folders, *files):
            assert (Path(root) / name).stat().st_mode & 0o077 == 0, name
