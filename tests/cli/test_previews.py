"""``custom plan`` and ``sync --preview``: what would be published, whom it would change, and nothing else happens."""

import json
from pathlib import Path

import pytest

from geolookup.cli.app import run
from geolookup.lookup.engine import GeoLookup
from geolookup.state.base.current import read_current
from geolookup.state.editor import Editor
from geolookup.state.publishing.directory import StateDirectory
from tests.cli.data.test_generations import FIRST, asked, asked_json
from tests.faults.raw_server import RawServer, answer
from tests.state.edits.editing import BERLIN
from tests.state.generations.staged import strays, tree
from tests.support.data.lists import item, listed, many
from tests.support.data.states import publish


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)


SITES = """
[[site]]
name = "Berlin"
country = "DE"
region = "BE"
city = "Berlin"
postalcode = "10115"
latitude = 52.5
longitude = 13.4
dmacode = ""
areacode = "030"
blocks = ["8.8.8.0/24", "fd00::/64"]
"""


def test_the_preview_of_a_plan_is_what_applying_it_does_and_changes_nothing(
    home: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(home, FIRST)
    sites, addresses = tmp_path / "sites.toml", tmp_path / "vips.txt"
    sites.write_text(SITES)
    asked_for = ["8.8.8.8", "8.8.9.8", "fd00::1", "192.168.3.4", "1.1.1.1"]
    addresses.write_text("\n".join(asked_for))
    asked(capsys, "custom", "plan", str(sites), "--prune-all")
    with GeoLookup(home) as geo:
        before = {address: geo.lookup(address) for address in asked_for}
        whole = {name: data for name, data in tree(home).items() if name != "edits.db"}
        command = ["custom", "plan", str(sites), "--prune-all", "--addresses", str(addresses)]
        found = asked_json(capsys, *command, "--json")
        assert {name: data for name, data in tree(home).items() if name != "edits.db"} == whole
        with Editor(home) as editor:
            assert (editor.pending(), editor.sites(), editor.history()) == ([], {}, [])
        assert found["answers"]["by_country"] == [
            {"from": "DE", "to": None, "ipv4": 2**16, "ipv6": "0"},
            {"from": "US", "to": "DE", "ipv4": 256, "ipv6": "0"},
            {"from": None, "to": "DE", "ipv4": 0, "ipv6": str(2**64)},
        ]
        asked(capsys, "custom", "apply", str(sites), "--prune-all")
        after = {address: geo.lookup(address) for address in asked_for}
    expected = {address for address in asked_for if before[address] != after[address]}
    assert {each["ip"] for each in found["addresses"]["changed"]} == expected
    for each in found["addresses"]["changed"]:
        place_after = after[each["ip"]]
        assert (each["after"] and each["after"]["locid"]) == (place_after and place_after.locid)
    assert found["addresses"]["asked"] == len(asked_for)


def test_the_preview_of_a_sync_publishes_nothing_and_says_what_the_sync_then_does(
    home: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked_for = ["8.8.8.8", "10.0.100.9", "10.0.100.7", "1.1.1.1"]
    addresses = tmp_path / "vips.txt"
    addresses.write_text("\n".join(asked_for))
    lists = [
        listed([item(1, ("8.0.0.0", "8.255.255.255"), country="US", city=city), *many(5, first=100)], count=6)
        for city in ("Austin", "Dallas")
    ]
    with RawServer(lists[0], lists[1], lists[1]) as server:
        asked(capsys, "sync", "--url", server.url)
        with Editor(home) as editor:
            editor.add_block(editor.create(**BERLIN), "10.0.100.7")
        before = tree(home)
        command = ["sync", "--url", server.url, "--preview", "--addresses", str(addresses)]
        found = asked_json(capsys, *command, "--json")
        assert tree(home) == before
        assert found["outcome"] == "previewed"
        assert found["answers"]["by_country"] == [{"from": "US", "to": "US", "ipv4": 2**24, "ipv6": "0"}]
        assert [each["after"]["city"] for each in found["addresses"]["changed"]] == ["Dallas"]
        with GeoLookup(home) as geo:
            answers = {address: geo.lookup(address) for address in asked_for}
            asked(capsys, "sync", "--url", server.url)
            changed = {address for address in answers if answers[address] != geo.lookup(address)}
    assert changed == {each["ip"] for each in found["addresses"]["changed"]}
    assert strays(home) == []


def test_the_preview_of_what_the_guard_holds_says_whom_it_would_change_and_holds_it(
    home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with RawServer(listed(many(40), count=40), *[listed(many(2), count=2)] * 2) as server:
        asked(capsys, "sync", "--url", server.url)
        found = json.loads(asked(capsys, "sync", "--url", server.url, "--preview", "--json", code=3))
        assert (found["outcome"], found["answers"]["by_country"][0]["ipv4"]) == ("held", 38 * 256)
        assert "geolocations" in found["reason"]
        out = asked(capsys, "sync", "--url", server.url, "--preview", code=3)
    assert f"addresses whose answer differs: {38 * 256:,} IPv4" in out
    held = StateDirectory(home).held()
    assert held is not None
    assert read_current(home).generation == 1
    assert run(["sync", "--accept", held.document()["published"]["digest"]]) == 0


def test_the_preview_of_what_was_rolled_back_says_that_a_sync_would_not_publish_it(
    home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with RawServer(*[listed(many(count), count=count) for count in (5, 6, 6)]) as server:
        for _ in range(2):
            asked(capsys, "sync", "--url", server.url)
        asked(capsys, "generations", "rollback")
        before = tree(home)
        out = asked(capsys, "sync", "--url", server.url, "--preview")
    assert "a sync would not publish 6 geolocations" in out
    assert "addresses whose answer differs: 256 IPv4" in out
    assert tree(home) == before


def test_a_preview_that_fails_is_no_different_from_a_sync_that_does(
    home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(home, FIRST)
    with RawServer(answer(b"<html>")) as server:
        assert run(["sync", "--url", server.url, "--preview"]) == 1
    assert (strays(home), read_current(home).sequence) == ([], 1)


@pytest.mark.parametrize("second", [answer(b"", status="304 Not Modified"), listed(many(3), count=3)])
def test_the_preview_of_what_is_served_already_confirms_nothing(
    home: str, capsys: pytest.CaptureFixture[str], second: bytes
) -> None:
    with RawServer(listed(many(3), count=3, etag='"a"'), second) as server:
        assert run(["sync", "--url", server.url]) == 0
        before = tree(home)
        out = asked(capsys, "sync", "--url", server.url, "--preview")
    assert out == "nothing new: generation 1 is what the service has\n"
    assert tree(home) == before


def test_a_preview_where_nothing_is_published_yet_counts_and_publishes_nothing(
    home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with RawServer(listed(many(3), count=3)) as server:
        out = asked(capsys, "sync", "--url", server.url, "--preview")
    assert out == "a sync would publish 3 geolocations, 6 blocks\n"
    assert StateDirectory(home).current() is None
