"""Lookups over HTTP: what they answer and refuse, and that they agree with the precedence rule at any moment."""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from geolookup.model.addresses import parse, to_text
from geolookup.service import lookup_index
from geolookup.service.geolocations.loader import load_files
from geolookup.web.lookups import MAX_ADDRESSES
from tests.contract.answers import BLOCKS, PATH, block, refused, replacement
from tests.index.building import ADDRESSES, around
from tests.oracle.linear_scan import Block, range_around
from tests.support.examples import examples
from tests.support.services.running_service import FIELDS, RunningService


@pytest.fixture(autouse=True)
def looking_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lookup looks at the database and waits for what it finds, so that no test has to wait for the next look."""
    monkeypatch.setattr(lookup_index, "LOOK_INTERVAL_S", 0.0)
    monkeypatch.setattr(lookup_index, "_OLDEST_S", 0.0)
    monkeypatch.setattr(lookup_index, "_REST", 0.0)
    # On a loaded machine one look can take longer than the second that a lookup waits for it.
    monkeypatch.setattr(lookup_index, "_PATIENCE_S", 60.0)


def test_an_address_is_answered_with_the_flat_object_of_the_command(reading: httpx.Client) -> None:
    answer = reading.get("/lookup/192.0.2.5")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    expected = {
        "ip": "192.0.2.5", "locid": 1, "country": "US", "region": "TX", "city": "Austin", "postalcode": "78701",
        "latitude": 30.25, "longitude": -97.75, "dmacode": "635", "areacode": "512",
        "first": "192.0.2.0", "last": "192.0.2.127", "layer": "default", "pending": False, "source": "service",
    }  # fmt: skip
    assert list(answer.json().items()) == list(expected.items())


def test_an_address_that_nothing_covers_is_200_with_a_null_locid(reading: httpx.Client) -> None:
    answer = reading.get("/lookup/203.0.113.9")
    assert answer.status_code == 200
    found = answer.json()
    assert found.pop("ip") == "203.0.113.9"
    assert found == dict.fromkeys([*FIELDS, "locid", "first", "last", "layer", "pending", "source"])


def test_a_record_is_made_of_the_fields_if_it_is_asked_for(reading: httpx.Client) -> None:
    plain = reading.get("/lookup/192.0.2.5").json()
    for found in (
        reading.get("/lookup/192.0.2.5?record=true").json(),
        reading.post("/lookup?record=true", json=["192.0.2.5"]).json()[0],
    ):
        record = found.pop("record")
        assert found == plain
        assert record["subdivisions"] == [{"iso_code": "TX"}]
        assert record["location"] == {"latitude": 30.25, "longitude": -97.75, "metro_code": 635}
    assert reading.get("/lookup/192.0.2.5?record=false").json() == plain
    assert reading.get("/lookup/203.0.113.9?record=true").json()["record"] is None
    for query in ("record=yes", "record=", "record", "record=true&record=true"):
        refused(reading.get(f"/lookup/192.0.2.5?{query}"), 400, "invalid-parameter")
        refused(reading.post(f"/lookup?{query}", json=[]), 400, "invalid-parameter")


def test_an_empty_database_covers_nothing(tmp_path: Path) -> None:
    with RunningService(tmp_path / "empty.db") as service, service.client() as client:
        assert client.get("/lookup/8.8.8.8").json()["locid"] is None
        assert client.post("/lookup", json=[]).json() == []


@pytest.mark.parametrize(
    ("path", "ip"),
    [
        ("2001:db8::7", "2001:db8::7"),
        ("2001%3Adb8%3A%3A7", "2001:db8::7"),
        ("2001:DB8:0:0::7", "2001:DB8:0:0::7"),
        ("::ffff:192.0.2.5", "::ffff:192.0.2.5"),
        ("%31%392.0.2.5", "192.0.2.5"),
    ],
)
def test_text_is_answered_as_it_was_asked_percent_encoded_or_not(reading: httpx.Client, path: str, ip: str) -> None:
    found = reading.get(f"/lookup/{path}").json()
    assert found["ip"] == ip
    assert found["locid"] == (1 if "192" in ip else 2)


@pytest.mark.parametrize(
    "path",
    [
        "1.2.3", "010.8.8.8", "0x7f.1", "2130706433", "1.2.3.4%20", "%201.2.3.4", "1.2.3.4/", "/1.2.3.4", "1.2.3.4//",
        "10.0.0.0/8", "10.0.0.0%2F8", "fe80::1%25eth0", "fe80::1%eth0", "::ffff:010.0.0.1", "localhost", "%ff%fe",
        "%00", "8.8.8.8%00", "%0d%0aX:%20y", "..%2F..%2Fetc%2Fpasswd", "1" * 4000, "%E2%82%AC", "null", "'%20OR%201=1",
    ],
)  # fmt: skip
def test_a_malformed_address_is_400_and_never_not_covered(reading: httpx.Client, path: str) -> None:
    refused(reading.get(f"/lookup/{path}"), 400, "invalid-address")


def test_many_addresses_are_answered_in_their_order(reading: httpx.Client) -> None:
    asked = ["203.0.113.9", "2001:db8::7", "192.0.2.5", "203.0.113.9", "::ffff:198.51.100.1"]
    answer = reading.post("/lookup", json=asked)
    assert answer.status_code == 200
    assert answer.json() == [reading.get(f"/lookup/{address}").json() for address in asked]
    assert [one["locid"] for one in answer.json()] == [None, 2, 1, None, 1]


def test_as_many_of_the_longest_addresses_as_may_be_asked_fit_into_a_body(reading: httpx.Client) -> None:
    longest = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255"
    assert len(reading.post("/lookup", json=[longest] * MAX_ADDRESSES).raise_for_status().json()) == MAX_ADDRESSES


def test_each_malformed_entry_of_a_body_is_named(reading: httpx.Client) -> None:
    asked = b'["192.0.2.5", "1.2.3", 5, null, "\\ud800", ["::1"], "::1%lo", {"ip": 1}, true]'
    body = refused(reading.post("/lookup", content=asked), 400, "invalid-address")
    assert [error["pointer"] for error in body["errors"]] == [f"/{position}" for position in range(1, 9)]
    assert "1.2.3" in body["errors"][0]["detail"]
    assert "zone" in body["errors"][5]["detail"]


@pytest.mark.parametrize("value", [{}, None, "192.0.2.5", 7, ["::"] * (MAX_ADDRESSES + 1)])
def test_a_body_that_is_no_array_or_too_long_a_one_is_422(reading: httpx.Client, value: Any) -> None:
    body = refused(reading.post("/lookup", content=json.dumps(value)), 422, "invalid-body")
    assert str(MAX_ADDRESSES) in body["errors"][0]["detail"]


def test_a_body_that_is_no_json_is_400_and_one_too_large_413(reading: httpx.Client) -> None:
    refused(reading.post("/lookup", content=b"[1.2.3.4"), 400, "malformed-json")
    refused(reading.post("/lookup", content=b"[" + b" " * 70000), 413, "body-too-large")


def test_a_custom_geolocation_is_answered_wherever_it_has_a_block_and_no_longer(
    service: RunningService, client: httpx.Client
) -> None:
    locid = service.create(("192.0.2.8", "192.0.2.15"))
    found = client.get("/lookup/192.0.2.9").json()
    assert (found["locid"], found["layer"], found["first"], found["last"]) == (
        locid,
        "custom",
        "192.0.2.8",
        "192.0.2.15",
    )
    assert (found["city"], found["pending"]) == (FIELDS["city"], False)
    below = client.get("/lookup/192.0.2.7").json()
    assert (below["locid"], below["first"], below["last"]) == (1, "192.0.2.0", "192.0.2.7")
    client.put(PATH, params={"locid": locid}, json={**FIELDS, "city": "Berkeley"}).raise_for_status()
    assert client.get("/lookup/192.0.2.9").json()["city"] == "Berkeley"
    client.delete(PATH, params={"locid": locid}).raise_for_status()
    assert client.get("/lookup/192.0.2.9").json()["locid"] == 1


def test_default_geolocations_that_are_loaded_while_it_runs_are_answered_too(
    service: RunningService, client: httpx.Client, tmp_path: Path
) -> None:
    locid = service.create(("203.0.113.8", "203.0.113.8"))
    more = tmp_path / "more.csv"
    more.write_text("startip,endip,country\n203.0.113.0,203.0.113.255,FR\n")
    load_files(service.store, [more])
    for _ in range(200):  # compiled in a thread of its own, for which no lookup waits
        found = client.get("/lookup/203.0.113.9").json()
        if found["locid"] is not None:
            break
    assert (found["country"], found["first"]) == ("FR", "203.0.113.9")
    assert client.get("/lookup/203.0.113.8").json()["locid"] == locid


# --- the precedence rule

_LOCATIONS = 4
_ends = st.one_of(*(st.tuples(st.just(family), *[st.sampled_from(ADDRESSES[family])] * 2) for family in (4, 6)))
_places = st.integers(0, _LOCATIONS - 1)
_writes = st.lists(
    st.one_of(
        st.tuples(st.just("create block"), _places, _ends, _ends),
        st.tuples(st.just("create block"), _places, _ends, _ends),
        st.tuples(st.just("replace block"), _places, _ends, _ends),
        st.tuples(st.just("delete blocks"), _places, _ends, _ends),
        st.tuples(st.just("delete"), _places, _ends, _ends),
    ),
    min_size=1,
    max_size=12,
)


def as_block(locid: int, ends: tuple[Any, int, int]) -> Block:
    family, one, other = ends
    return Block(locid, family, min(one, other), max(one, other))


def texts(one: Block) -> tuple[str, str]:
    return to_text(one.family, one.first), to_text(one.family, one.last)


class Played:
    """What was acknowledged: custom geolocations, by locid, and their blocks."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self.locids = [self._create() for _ in range(_LOCATIONS)]
        self.blocks: list[Block] = []

    def _create(self) -> int:
        return int(self.client.post(PATH, json=FIELDS).raise_for_status().json()["locid"])

    def play(self, action: str, place: int, ends: Any, other: Any) -> None:
        locid = self.locids[place]
        own = [one for one in self.blocks if one.locid == locid]
        new = as_block(locid, ends)
        where = {"locid": locid}
        if action == "create block":
            answer = self.client.post(BLOCKS, params=where, json=block(*texts(new)))
            if answer.status_code != 409:
                answer.raise_for_status()
                self.blocks.append(new)
        elif action == "replace block" and own:
            old, new = own[0], as_block(locid, other)
            answer = self.client.put(BLOCKS, params=where, json=replacement(texts(old), texts(new)))
            if answer.status_code != 409:
                answer.raise_for_status()
                self.blocks[self.blocks.index(old)] = new
        elif action.startswith("delete"):
            path = BLOCKS if action == "delete blocks" else PATH
            self.client.delete(path, params=where).raise_for_status()
            self.blocks = [one for one in self.blocks if one.locid != locid]
            if path == PATH:
                self.locids[place] = self._create()

    def close(self) -> None:
        for locid in self.locids:
            self.client.delete(PATH, params={"locid": locid}).raise_for_status()


@pytest.fixture
def defaults(tmp_path: Path) -> list[Block]:
    """Default blocks that cross, nest and meet at the same few addresses, in a file beside."""
    found = [
        Block(1, 4, 0, 2**32 - 1), Block(2, 4, 2, 5), Block(3, 4, 4, 0x10000), Block(2, 4, 0xFFFF, 0x30000),
        Block(3, 4, 2**32 - 3, 2**32 - 1), Block(1, 6, 2, 2**64), Block(2, 6, 2**64 - 1, 2**65),
        Block(3, 6, 2**65 + 1, 2**112), Block(1, 6, 2**128 - 4, 2**128 - 2),
    ]  # fmt: skip
    rows = [f"{one.locid},C{one.locid},,,,,,,,{','.join(texts(one))}" for one in found]
    header = "locid,country,region,city,postalcode,latitude,longitude,dmacode,areacode,startip,endip"
    (tmp_path / "crossing.csv").write_text("\n".join([header, *rows]) + "\n")
    return found


@pytest.fixture
def crossing(db: str, tmp_path: Path, defaults: list[Block]) -> Iterator[httpx.Client]:
    with RunningService(db, load=[tmp_path / "crossing.csv"]) as service, service.client() as client:
        yield client


def expected(blocks: list[Block], defaults: list[Block], text: str) -> tuple[Any, ...]:
    """locid, first, last and layer of the answer, by the plain scan."""
    family, value = parse(text)
    found = range_around(blocks, defaults, family, value)
    if found is None:
        return None, None, None, None
    locid, first, last = found
    return locid, to_text(family, first), to_text(family, last), "custom" if locid < 0 else "default"


@given(writes=_writes)
@examples(12, deadline=None, suppress_health_check=list(HealthCheck))
def test_after_any_writes_lookups_agree_with_a_linear_scan(
    crossing: httpx.Client, defaults: list[Block], writes: list[tuple[str, int, Any, Any]]
) -> None:
    with contextlib.closing(Played(crossing)) as played:
        for write in writes:
            played.play(*write)
        asked = [to_text(family, value) for family in (4, 6) for value in around(family)]
        right = [expected(played.blocks, defaults, text) for text in asked]
        # An answer may be some moments old, and older on a machine that has other things to do.
        until = time.monotonic() + 20
        while True:
            found = [
                (one["locid"], one.get("first"), one.get("last"), one.get("layer"))
                for one in crossing.post("/lookup", json=asked).raise_for_status().json()
            ]
            if found == right or time.monotonic() > until:
                break
            time.sleep(0.05)
        assert found == right
