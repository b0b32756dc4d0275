"""Lookups of a share: the same answers as the library's, and an edit is seen without a restart."""

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from geolookup.lookup.members import more_of
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.errors import IndexDamagedError
from geolookup.model.types import flat_not_covered
from geolookup.sync.opening import open_editor
from tests.support.data.states import place, publish
from tests.support.data.two_sources import state
from tests.support.services.running_share import RunningShare, ShareCommand
from tests.web.test_openapi import OF_SHARE

ADDRESSES = ("10.20.0.1", "9.0.0.7", "9.1.2.3", "8.8.8.8", "44.10.20.1", "203.0.113.9", "2001:db8::1", "2a00::1")


def test_lookups_answer_as_the_library_does(shared: RunningShare, client: httpx.Client) -> None:
    wanted = [
        {**(flat_not_covered(address) if found is None else found.flat()), **more_of(found, None)}
        for address in ADDRESSES
        for found in [shared.geo.match(address)]
    ]
    assert [client.get(f"/lookup/{address}").json() for address in ADDRESSES] == wanted
    assert client.post("/lookup", json=ADDRESSES).json() == wanted
    assert client.get("/lookup/nowhere").json()["type"].endswith(":invalid-address")


def test_damage_found_by_a_lookup_is_answered_from_an_older_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEOLOOKUP_PURE", "1")  # else the accelerator asks no method here
    home = str(tmp_path / "home")
    publish(home, [place(1, "9.0.0.0/8", country="DE", city="Old")])
    publish(home, [place(1, "9.0.0.0/8", country="DE", city="New")])
    with RunningShare(home, tmp_path / "built") as running, running.client() as client:
        assert client.get("/lookup/9.9.9.9").json()["city"] == "New"
        damaged, match = running.geo.with_snapshot(lambda snapshot: snapshot), Snapshot.match
        calls: list[str] = []

        def broken(self: Snapshot, address: str, family: Any, value: int) -> Any:
            calls.append(address)
            if self is damaged and (address == "9.9.9.9" or len(calls) > 1):
                raise IndexDamagedError("it is damaged")
            return match(self, address, family, value)

        monkeypatch.setattr(Snapshot, "match", broken)
        # The first of two was answered from what turns out to be damaged: the two must not come from two generations.
        answer = client.post("/lookup", json=["9.0.0.1", "9.0.0.2"])
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:geolookup:problem:index-not-ready")
        assert client.post("/lookup", json=["9.0.0.1", "9.0.0.2"]).json()[1]["city"] == "Old"
        assert client.get("/lookup/9.9.9.9").json()["city"] == "Old"
        assert client.get("/readyz").status_code == 503


def test_a_lookup_that_finds_damage_first_is_answered_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = str(tmp_path / "home")
    publish(home, [place(1, "9.0.0.0/8", country="DE", city="Old")])
    publish(home, [place(1, "9.0.0.0/8", country="DE", city="New")])
    with RunningShare(home, tmp_path / "built") as running, running.client() as client:
        damaged, record = running.geo.with_snapshot(lambda snapshot: snapshot), Snapshot.record

        def broken(self: Snapshot, family: Any, value: int) -> Any:
            if self is damaged:
                raise IndexDamagedError("it is damaged")
            return record(self, family, value)

        monkeypatch.setattr(Snapshot, "record", broken)
        assert client.get("/geoip/v2.1/city/9.9.9.9").json()["city"]["names"]["en"] == "Old"


def test_an_edit_is_seen_by_lookups_within_a_second(tmp_path: Path) -> None:
    with RunningShare(state(tmp_path), tmp_path / "built") as running, running.client() as client:
        locid = client.get("/lookup/10.20.0.1").json()["locid"]
        with open_editor(running.home) as editor:
            editor.update(locid, city="Potsdam")
        time.sleep(1.2)
        assert client.get("/lookup/10.20.0.1").json()["city"] == "Potsdam"
        assert client.get("/geoip/v2.1/city/10.20.0.1").json()["city"]["names"]["en"] == "Potsdam"


def test_a_share_of_the_default_state_that_is_not_there_yet_answers_from_the_bundled_data(default_home: str) -> None:
    Path(default_home).parent.mkdir(parents=True)
    with ShareCommand(default_home) as share, share.client() as client:
        assert client.get("/lookup/8.8.8.8").json()["country"] == "US"
        share.wait_until(lambda: client.get("/readyz").status_code == 200, "the first build")
        listed = client.get("/databases").json()
        assert {each["edition"] for each in listed["databases"]} == {"geolookup-City", "geolookup-Country"}


def test_every_problem_of_a_share_is_documented_by_its_name(client: httpx.Client) -> None:
    text = client.get("/schema/openapi.json").text
    assert {name for name in OF_SHARE if f"`{name}`" not in text} == set()
