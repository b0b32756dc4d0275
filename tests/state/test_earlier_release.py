"""A state that the release before sources wrote: read in place, and nothing of it is lost.

``before-sources.tar.gz`` was made with that release's own code, its reference service on a loopback port. Generation
1 is pinned, 3 was rolled back, 2 is served, a shrunken list is held, one create was pushed, four edits wait.
``before-sources.json`` is what the commands of that release said of it.
"""

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import geolookup
from geolookup.cli.app import run
from geolookup.errors import PullError
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.base.parts import parts_of
from geolookup.state.editor import Editor
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import verify
from geolookup.sync.pull.accept import accept
from geolookup.sync.pull.pull import pull
from tests.faults.raw_server import RawServer
from tests.state.generations.staged import strays, tree
from tests.support.data.lists import item, listed

DATA = Path(__file__).parent.parent / "data" / "states"
SAID: dict[str, Any] = json.loads((DATA / "before-sources.json").read_text(encoding="utf-8"))
ADDRESSES = [row["ip"] for row in SAID["lookup"]]
URL = "http://127.0.0.1:18931"


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    with tarfile.open(DATA / "before-sources.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    home = str(tmp_path / "state")
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    return home


def says_the_same(before: Any, now: Any) -> bool:
    """Whether every member that the earlier release gave is as it was; there may be more."""
    if isinstance(before, Mapping):
        return all(name in now and says_the_same(value, now[name]) for name, value in before.items())
    if isinstance(before, list):
        return len(before) == len(now) and all(map(says_the_same, before, now))
    return bool(before == now)


@pytest.mark.parametrize(
    ("what", "command"),
    [
        ("lookup", ["lookup", "--format", "json", *ADDRESSES]),
        ("then", ["lookup", "--as-of", "1", "--format", "json", *ADDRESSES]),
        ("generations", ["generations", "list", "--format", "json"]),
        ("custom", ["custom", "list", "--json"]),
        ("outbox", ["outbox", "list", "--json"]),
        ("history", ["history", "--json"]),
    ],
)
def test_every_command_says_of_it_what_it_said_before(
    old: str, what: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command) in (0, 4)
    assert says_the_same(SAID[what], json.loads(capsys.readouterr().out))


def test_reading_it_changes_no_byte(old: str) -> None:
    before = tree(old)
    with geolookup.GeoLookup(old) as geo:
        assert [match and match.geolocation.city for match in map(geo.match, ADDRESSES)] == [
            row["city"] or None for row in SAID["lookup"]
        ]
        assert [source.name for source in geo.status().sources] == ["service"]
    after = tree(old)
    assert {name: data for name, data in after.items() if name in before} == before
    assert strays(old) == []


def cities(home: str) -> list[str | None]:
    with geolookup.GeoLookup(home) as geo:
        return [match and match.geolocation.city for match in map(geo.match, ADDRESSES)]


def waiting(home: str) -> list[tuple[Any, ...]]:
    return [(row.id, row.key, row.locid, row.state) for row in Editor(home).pending()]


def test_a_source_is_added_while_the_service_is_away_and_the_edits_still_wait(old: str, tmp_path: Path) -> None:
    answers, edits = cities(old), waiting(old)
    assert [key for _, key, *_ in edits] == [row["key"] for row in SAID["outbox"]]
    (tmp_path / "office.csv").write_text("first,last,country,city\n13.0.0.0,13.0.0.255,JP,Osaka\n")
    office = SourceSettings(name="office", location=str(tmp_path / "office.csv"))
    settings = Settings(url=URL, sources=(office,), attempts=1, connect_timeout_s=0.2)
    with pytest.raises(PullError, match="1 of 2 sources failed"):
        pull(StateDirectory(old), settings)
    current = StateDirectory(old).require_current()
    assert [(part.name, part.snapshot > 0) for part in parts_of(current.published)] == [
        ("service", True),
        ("office", True),
    ]
    expected = ["Osaka" if address == "13.0.0.1" else city for address, city in zip(ADDRESSES, answers, strict=True)]
    assert cities(old) == expected
    assert waiting(old) == edits
    assert (verify(old), strays(old)) == ([], [])
    StateDirectory(old).keeping.rollback()
    assert (cities(old), waiting(old)) == (answers, edits)
    StateDirectory(old).keeping.rollback(1)
    with geolookup.GeoLookup(old) as geo:
        match = geo.match("11.0.0.1")
        assert match is not None
        assert match.geolocation.city == "Bonn"


def test_what_it_held_is_accepted_without_network(old: str) -> None:
    edits = waiting(old)
    held = StateDirectory(old).held()
    assert held is not None
    accept(StateDirectory(old), str(held.document()["published"]["digest"]))
    assert cities(old)[ADDRESSES.index("12.0.0.1")] is None
    assert cities(old)[ADDRESSES.index("10.2.0.1")] == "Hamburg"
    assert waiting(old) == edits
    assert (StateDirectory(old).held(), verify(old), strays(old)) == (None, [], [])


def test_a_pull_that_brings_another_list_publishes_it_as_a_snapshot_and_keeps_the_old_generations(old: str) -> None:
    edits = waiting(old)
    theirs = [
        item(1, ("10.0.0.0", "10.255.255.255"), ("2001:db8::", "2001:db8::ffff"), city="Austin"),
        item(2, ("11.0.0.0", "11.255.255.255"), city="Bonn"),
        item(3, ("12.0.0.0", "12.255.255.255"), city="Lyon"),
        item(-5, ("192.168.0.0", "192.168.255.255"), city="Kassel"),
        item(-6, ("10.1.0.0", "10.1.255.255"), city="Berlin"),
    ]
    with RawServer(*[listed(theirs, count=len(theirs))] * 2) as server:
        report = pull(StateDirectory(old), Settings(url=server.url, attempts=1), url_moved=True)
    assert (report.outcome, report.generation) == ("published", 4)
    answers = dict(zip(ADDRESSES, cities(old), strict=True))
    assert (answers["12.0.0.1"], answers["192.168.0.1"]) == ("Lyon", "Goettingen")
    assert waiting(old) == edits
    assert run(["generations", "diff", "2", "4"]) == 0
    assert run(["lookup", "--as-of", "1", "11.0.0.1"]) == 0
    assert (verify(old), strays(old)) == ([], [])
