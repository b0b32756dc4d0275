"""A service that is attacked, its operations, and what must hold after each attack."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from geolookup.web.auth import Scope, line_for, new_token
from geolookup.web.options import Limits, Options
from tests.support.services.raw_http import Answer, exchange
from tests.support.services.running_service import FIELDS, RunningService
from tests.support.services.service_fixtures import DEFAULTS

READER, WRITER, STRANGER = new_token(), new_token(), new_token()
HOTEL = {
    "hotelId": "H1",
    "name": "Inn",
    "address": {"line1": "1 Main", "city": "Austin", "state": "TX", "postalCode": "78701", "country": "US"},
    "destinationId": "D1",
    "amenities": ["wifi"],
    "latitude": 30.25,
    "longitude": -97.75,
}
PLAN = {"hotelId": "H1", "ratePlanCode": "BAR", "type": "rate", "name": "Best", "currency": "USD"}
BLOCK = {"startip": "10.0.0.0", "endip": "10.0.0.255"}


@dataclass(frozen=True)
class Operation:
    """One operation as a good client calls it; ``texts`` are its parameters that take any text, ``numbers`` not."""

    method: str
    path: str
    body: Any = None
    numbers: tuple[str, ...] = ()
    texts: dict[str, int] = field(default_factory=dict)
    writes: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path.partition('?')[0]}"


#: What any text in a parameter gets: 200 where it is compared, 400 where it must be one of a few.
OPERATIONS = (
    Operation(
        "GET",
        "/geolocations",
        numbers=("top", "locid"),
        texts=dict.fromkeys(("country", "region", "city", "postalcode"), 200),
    ),
    Operation("POST", "/geolocations", FIELDS, writes=True),
    Operation("PUT", "/geolocations?locid=-1", FIELDS, numbers=("locid",), writes=True),
    Operation("DELETE", "/geolocations?locid=-1", numbers=("locid",), writes=True),
    Operation("POST", "/geolocations/ipblocks?locid=-1", BLOCK, numbers=("locid",), writes=True),
    Operation(
        "PUT",
        "/geolocations/ipblocks?locid=-1",
        {**BLOCK, "newstartip": "10.1.0.0", "newendip": "10.1.0.1"},
        numbers=("locid",),
        writes=True,
    ),
    Operation("DELETE", "/geolocations/ipblocks?locid=-1", numbers=("locid",), writes=True),
    Operation("GET", "/v1/api/hotel/H1/details", texts={"@include": 400}),
    Operation(
        "GET",
        "/v1/api/hotel/list?amenity=wifi",
        texts={
            **dict.fromkeys(("city", "state", "postalCode", "country", "destinationId", "amenity", "id"), 200),
            "@include": 400,
        },
    ),
    Operation("POST", "/admin/product/ratePlans", PLAN, writes=True),
    Operation("GET", "/lookup/192.0.2.1"),
    Operation("POST", "/lookup", ["192.0.2.1"]),
)
WITH_BODY = tuple(one for one in OPERATIONS if one.body is not None)

# One service for all rows: each leaves it as it was, or what is checked at its end would fail.


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("attacked")
    tokens = folder / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"{line_for('reader', Scope.READ, READER)}\n{line_for('writer', Scope.WRITE, WRITER)}\n")
    csv = folder / "defaults.csv"
    csv.write_text(DEFAULTS)
    options = Options(tokens=str(tokens), limits=Limits(request_s=2.0))
    with RunningService(folder / "x.db", load=[csv], options=options) as service:
        load_hotel(service, folder)
        with client_with(service, WRITER) as client:
            client.post("/geolocations", json=FIELDS).raise_for_status()
            wait_until_ready(client)
        yield service


def load_hotel(service: RunningService, folder: Path) -> None:
    from geolookup.service.hotels.records import load_hotels

    file = folder / "hotels.ndjson"
    file.write_text(json.dumps(HOTEL) + "\n")
    load_hotels(service.store, [file])


def wait_until_ready(client: httpx.Client) -> None:
    """Until lookups have their index: before that, a malformed address is answered as any other."""
    for _ in range(600):
        if client.get("/readyz").status_code == httpx.codes.OK:
            return
        time.sleep(0.05)
    pytest.fail(f"not ready: {client.get('/readyz').text}")


def client_with(service: RunningService, token: str) -> httpx.Client:
    client = service.client()
    client.headers["Authorization"] = f"Bearer {token}"
    return client


# A client takes longer to make than any row: one of each kind for all.


@pytest.fixture(scope="module")
def client(running: RunningService) -> Iterator[httpx.Client]:
    """Has the token that may write."""
    with client_with(running, WRITER) as client:
        yield client


@pytest.fixture(scope="module")
def reader(running: RunningService) -> Iterator[httpx.Client]:
    with client_with(running, READER) as client:
        yield client


@pytest.fixture(scope="module")
def nobody(running: RunningService) -> Iterator[httpx.Client]:
    with running.client() as client:
        yield client


@pytest.fixture(autouse=True)
def unharmed(reader: httpx.Client) -> Iterator[None]:
    """After each row everything is as it was, and every kind of request is answered rightly."""
    yield
    places = reader.get("/geolocations").json()
    assert [(place["locid"], len(place["ipblocks"])) for place in places] == [(-1, 0), (1, 2), (2, 1)]
    assert places[0] == {"locid": -1, **FIELDS, "ipblocks": []}
    assert reader.get("/v1/api/hotel/H1/details").json()["hotelId"] == "H1"
    assert reader.get("/lookup/192.0.2.1").json()["locid"] == 1


def refused(answer: httpx.Response | Answer, status: int, problem: str) -> None:
    if isinstance(answer, Answer):
        assert (answer.status, answer.problem) == (status, problem), answer
        return
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == f"urn:geolookup:problem:{problem}"


def ask(running: RunningService, line: str, *headers: str, body: bytes = b"") -> Answer:
    head = [line, "Host: localhost", f"Authorization: Bearer {WRITER}", "Connection: close", *headers]
    return exchange(running.url, "\r\n".join([*head, "", ""]).encode("latin-1") + body)
