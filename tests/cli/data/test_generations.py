"""``generations``, lookups as of another time, and what the status says of age and answers."""

import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from geolookup.cli.app import run
from geolookup.lookup.engine import GeoLookup
from geolookup.state.base import clock
from geolookup.state.base.current import read_current
from geolookup.state.editor import Editor
from geolookup.state.publishing.directory import StateDirectory
from tests.faults.raw_server import RawServer
from tests.state.edits.editing import BERLIN
from tests.state.generations.staged import tree
from tests.support.data.lists import listed, many
from tests.support.data.states import place, publish
from tests.support.users.in_process import asked, asked_json
from tests.support.users.quick_commands import forked

FIRST = [
    place(1, "8.0.0.0/8", "2001:db8::/32", country="US", city="Austin"),
    place(2, "9.0.0.0/8", country="DE", city="Köln"),
    place(3, "10.0.0.0/8", country="FR"),
    place(-1, "192.168.0.0/16", country="DE", city="Bonn"),
]
SECOND = [
    place(1, "8.0.0.0/8", "2001:db8::/32", country="US", city="Dallas"),
    place(3, "9.0.0.0/9", "10.0.0.0/8", country="FR"),
    place(4, "11.0.0.0/24", country="JP"),
    place(-1, "192.168.0.0/16", country="DE", city="Bonn"),
]


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)


@pytest.fixture
def two(home: str) -> str:
    publish(home, FIRST)
    publish(home, SECOND)
    return home


def test_the_list_has_one_row_a_generation_in_every_format(two: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line.split("\t") for line in asked(capsys, "generations", "list").splitlines()]
    assert [(row[0], row[2], row[3], row[6]) for row in rows] == [
        ("1", "4 geolocations (1 custom)", "5 blocks", ""),
        ("2", "4 geolocations (1 custom)", "6 blocks", "served"),
    ]
    listed_json = asked_json(capsys, "generations", "list", "--format", "json")
    lines = asked(capsys, "generations", "list", "--format", "ndjson").splitlines()
    assert listed_json == [json.loads(line) for line in lines]
    assert [(each["number"], each["served"], each["digest"]) for each in listed_json] == [
        (1, False, StateDirectory(two).report(1)["published"]["digest"]),
        (2, True, read_current(two).digest),
    ]


def test_the_list_of_nothing_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generations", "list"]) == 1
    assert "geolookup sync" in capsys.readouterr().err


def test_a_diff_says_what_changed_and_for_whom(two: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    addresses = tmp_path / "vips.txt"
    addresses.write_text("8.8.8.8\n9.0.0.1\n10.0.0.1\n9.200.0.1\n11.0.0.9\n192.168.1.1\n2001:db8::1\n")
    found = asked_json(capsys, "generations", "diff", "1", "2", "--blocks", "--addresses", str(addresses), "--json")
    assert (found["from"], found["to"]) == (1, 2)
    assert found["counts"] == {
        "geolocations": {"added": 1, "removed": 1, "changed": 2},
        "blocks": {"added": 2, "removed": 1, "changed": 0},
    }
    geolocations = found["geolocations"]
    assert ([each["locid"] for each in geolocations["added"]], geolocations["removed"][0]["city"]) == ([4], "Köln")
    assert geolocations["changed"] == [
        {
            "source": "service",
            "locid": 1,
            "fields": {"city": {"before": "Austin", "after": "Dallas"}},
            "blocks": {"added": 0, "removed": 0},
        },
        {"source": "service", "locid": 3, "fields": {}, "blocks": {"added": 1, "removed": 0}},
    ]
    assert found["blocks"] == {
        "added": [
            {"source": "service", "locid": 3, "startip": "9.0.0.0", "endip": "9.127.255.255"},
            {"source": "service", "locid": 4, "startip": "11.0.0.0", "endip": "11.0.0.255"},
        ],
        "removed": [{"source": "service", "locid": 2, "startip": "9.0.0.0", "endip": "9.255.255.255"}],
    }
    assert found["answers"] == {
        "ipv4": 2 * 2**24 + 256,
        "ipv6": str(2**96),
        "by_country": [
            {"from": "US", "to": "US", "ipv4": 2**24, "ipv6": str(2**96)},
            {"from": "DE", "to": None, "ipv4": 2**23, "ipv6": "0"},
            {"from": "DE", "to": "FR", "ipv4": 2**23, "ipv6": "0"},
            {"from": None, "to": "JP", "ipv4": 256, "ipv6": "0"},
        ],
    }
    assert found["addresses"]["asked"] == 7
    assert [
        (each["ip"], each["before"] and each["before"]["locid"], each["after"] and each["after"]["locid"])
        for each in found["addresses"]["changed"]
    ] == [("8.8.8.8", 1, 1), ("9.0.0.1", 2, 3), ("9.200.0.1", 2, None), ("11.0.0.9", None, 4), ("2001:db8::1", 1, 1)]


def test_a_diff_as_text_compares_previous_with_served(
    two: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    addresses = tmp_path / "vips.txt"
    addresses.write_text("9.200.0.1\nx\n")
    out = asked(capsys, "generations", "diff", "--addresses", str(addresses), "--top", "1", "--blocks", code=5)
    assert out.splitlines() == [
        "from generation 1 to 2",
        "geolocations: 1 added, 1 removed, 2 changed",
        "  + 4\tcountry JP, city city 4",
        "  - 2\tcountry DE, city Köln",
        "  ~ 1\tcity 'Austin' -> 'Dallas'",
        "  and 1 more: --top 0 shows all",
        "blocks: 2 added, 1 removed, 0 changed",
        "  + 9.0.0.0-9.127.255.255\tof 3",
        "  - 9.0.0.0-9.255.255.255\tof 2",
        f"addresses whose answer differs: {2 * 2**24 + 256:,} IPv4, 4.3 billion networks (/64) IPv6:",
        f"  US -> US\t{2**24:,} IPv4\t4.3 billion networks (/64) IPv6",
        "  and 3 more: --top 0 shows all",
        "of 1 address, 1 change:",
        "  9.200.0.1\tKöln, DE (default 2)\t->\tnot covered",
    ]


def test_a_diff_of_a_generation_with_itself_is_empty(two: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked_json(capsys, "generations", "diff", "served", "2", "--json")
    assert found["answers"] == {"ipv4": 0, "ipv6": "0", "by_country": []}
    assert set(found["counts"]["geolocations"].values()) == {0}


def test_a_local_edit_between_two_generations_is_in_the_answers_and_not_in_the_rows(
    home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(home, FIRST)
    publish(home, [*FIRST[:3], place(-1, "192.168.0.0/16", country="DE", city="Jena")])
    with Editor(home) as editor:
        editor.add_block(editor.create(**BERLIN), "8.8.8.8")
    found = asked_json(capsys, "generations", "diff", "--json")
    assert found["counts"]["geolocations"] == {"added": 0, "removed": 0, "changed": 1}
    assert {"from": "US", "to": "DE", "ipv4": 1, "ipv6": "0"} in found["answers"]["by_country"]


def test_rolling_back_says_how_to_return_and_a_lookup_follows(two: str, capsys: pytest.CaptureFixture[str]) -> None:
    with GeoLookup(two) as geo:
        assert run(["generations", "rollback"]) == 3
        told = capsys.readouterr().err
        assert "20.0% of the IPv4 addresses whose answer names a country would have another country" in told
        assert "If that is meant: geolookup generations rollback 1 --yes" in told
        assert geo.status().generation == 2
        out = asked(capsys, "generations", "rollback", "--yes", "--reason", "Dallas?")
        assert (
            "rolled back: generation 1 answers now. An update that brings back most of what that took away is held"
            in out
        )
        found = geo.lookup("8.8.8.8")
        assert found is not None
        assert found.city == "Austin"
    history = asked_json(capsys, "history", "--json")
    assert history[-1]["after"] == {"generation": 1, "reason": "Dallas?"}
    back = out.strip().rpartition("geolookup ")[2].split()
    found_json = asked_json(capsys, *back, "--yes", "--json")
    assert (found_json["from"], found_json["generation"]) == (1, 2)


def test_on_a_terminal_a_rollback_shows_whose_answers_change_and_asks(
    two: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("geolookup.cli.data.generations.may_ask", lambda *, as_json: not as_json)
    answers = iter([False, True])
    asked_for = []

    def confirm(question: str) -> bool:
        asked_for.append(question)
        return next(answers)

    monkeypatch.setattr("click.confirm", confirm)
    assert run(["generations", "rollback"]) == 0
    out, err = capsys.readouterr()
    assert "addresses whose answer differs: " in out
    assert "20.0% of the IPv4 addresses whose answer names a country would have another country" in err
    assert out.endswith("nothing was changed\n")
    assert asked_json(capsys, "status", "--json")["generation"] == 2
    assert run(["generations", "rollback"]) == 0
    assert asked_json(capsys, "status", "--json")["generation"] == 1
    assert asked_for == ["Serve generation 1 again?"] * 2


def test_going_back_to_the_bundled_data_loses_all_cities_and_is_not_done_by_a_script(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    (tmp_path / "cities.csv").write_text("network,country,city\n8.8.8.0/24,US,Mountain View\n9.9.0.0/16,CH,Zürich\n")
    asked(capsys, "sync", "--bundled")
    asked(capsys, "sync", str(tmp_path / "cities.csv"))
    assert run(["generations", "rollback", "1"]) == 3
    assert (
        "IPv4 would have no answer at all but that of the bundled registry data: 65,792 addresses have one"
        in capsys.readouterr().err
    )
    assert "Mountain View" in asked(capsys, "8.8.8.8")
    asked(capsys, "generations", "rollback", "1", "--yes")
    assert "Mountain View" not in asked(capsys, "8.8.8.8")


def test_pins_are_shown_and_prune_says_what_it_removed(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(4):
        publish(home, FIRST[: 1 + number % 3])
    asked(capsys, "generations", "pin", "1")
    assert "pinned:       generation 1" in asked(capsys, "status")
    promised = asked_json(capsys, "generations", "prune", "--keep", "1", "--dry-run", "--json")
    found = asked_json(capsys, "generations", "prune", "--keep", "1", "--json")
    assert [each["generation"] for each in found["removed"]] == [2, 3]
    assert found == {**promised, "dry_run": False}
    assert "nothing is past retention" in asked(capsys, "generations", "prune")
    assert asked_json(capsys, "generations", "unpin", "1", "--json")["pinned"] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["generations", "rollback", "9"],
        ["generations", "rollback", "2"],
        ["generations", "pin", "9"],
        ["generations", "unpin", "1"],
        ["generations", "diff", "1", "yesterday"],
        ["lookup", "--as-of", "9", "8.8.8.8"],
        ["sync", "--accept", "abc", "--preview"],
        ["sync", "--addresses", "x"],
        ["custom", "plan", "-", "--addresses", "-"],
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(two: str, arguments: list[str]) -> None:
    before = tree(two)
    assert run(arguments) == 2
    after = tree(two)
    for name in ("edits.db", "run.lock", "publish.lock"):
        before.pop(name, None)
        after.pop(name, None)
    assert after == before


def test_a_lookup_as_of_another_time(
    home: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = datetime(2026, 3, 1, 6, tzinfo=UTC)
    monkeypatch.setattr(clock, "wall", lambda: moment)
    publish(home, FIRST)
    moment += timedelta(days=1)
    publish(home, SECOND)
    for when, city in (("1", "Austin"), ("2026-03-01", "Austin"), ("2026-03-02", "Dallas"), ("previous", "Austin")):
        assert city in asked(capsys, "lookup", "--as-of", when, "8.8.8.8")
    assert run(["lookup", "--as-of", "2026-02-01", "8.8.8.8"]) == 2
    assert "kept are 1 (served from 2026-03-01 06:00:00Z), 2" in capsys.readouterr().err


def test_as_of_builds_no_state_where_there_is_none(home: str) -> None:
    assert run(["lookup", "--as-of", "1", "8.8.8.8"]) == 1
    assert not Path(home).exists()


# Age and answers


@pytest.fixture
def aged(home: str) -> str:
    """A state that the service confirmed 50 hours ago."""
    publish(home, FIRST)
    StateDirectory(home).republish(checked_at=clock.text_of(datetime.now(UTC) - timedelta(hours=50)))
    return home


@pytest.mark.parametrize(
    ("rule", "code", "says"), [("serve", 0, ""), ("warn", 0, "max_age"), ("refuse", 1, "geolookup sync")]
)
@pytest.mark.parametrize("command", [[], ["lookup"], ["lookup", "--format", "ndjson"]])
def test_stale_data_are_served_warned_of_or_refused_on_every_path(
    aged: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    rule: str,
    code: int,
    says: str,
    command: list[str],
) -> None:
    settings = tmp_path / "geolookup.toml"
    settings.write_text(f'max_age = "36h"\nstale = "{rule}"\n')
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(settings))

    def answered() -> "subprocess.CompletedProcess[str]":
        program = [*forked(), "-m", "geolookup", *command, "8.8.8.8", "9.9.9.9"]
        return subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)

    result = answered()
    assert (result.returncode, len(result.stdout.splitlines())) == (code, 0 if rule == "refuse" else 2)
    assert (len(result.stderr.splitlines()), says in result.stderr) == (0 if rule == "serve" else 1, True)
    found = asked_json(capsys, "status", "--check", "--json", code=1)
    assert (found["stale"], found["stale_rule"], found["max_age_s"]) == (True, rule, 36 * 3600)
    monkeypatch.setenv("GEOLOOKUP_MAX_AGE", "3d")
    result = answered()
    assert (result.returncode, result.stderr) == (0, "")
    assert asked_json(capsys, "status", "--check", "--json")["stale"] is False


def test_the_status_tells_the_age_and_what_it_means(
    aged: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "max age" not in asked(capsys, "status", "--check")
    monkeypatch.setenv("GEOLOOKUP_MAX_AGE", "1d")
    assert "max age:      24 hours: STALE, lookups are served with a warning" in asked(capsys, "status")
    monkeypatch.setenv("GEOLOOKUP_MAX_AGE", "1 week and a bit")
    assert run(["status"]) == 2
    assert "max_age" in capsys.readouterr().err


def test_the_status_for_monitoring_tells_held_from_bad(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    publish(home, [place(number, f"10.0.{number}.0/24") for number in range(1, 50)])
    asked(capsys, "status", "--check")
    with RawServer(listed(many(2), count=2)) as server:
        assert run(["sync", "--url", server.url]) == 3
    asked(capsys, "status", "--check", code=3)
    asked(capsys, "status")
    Path(home, "CURRENT").write_bytes(b"{")
    asked(capsys, "status", "--check", code=1)


def test_a_rollback_to_what_is_stale_says_so(
    two: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    later = datetime.now(UTC) + timedelta(days=3)
    monkeypatch.setattr(clock, "wall", lambda: later)
    monkeypatch.setenv("GEOLOOKUP_MAX_AGE", "2d")
    assert run(["generations", "rollback", "--yes"]) == 0
    assert 'past max_age, and stale is "warn"' in capsys.readouterr().err


def test_two_machines_have_one_fingerprint_where_they_answer_alike(
    home: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = str(tmp_path / "other")
    publish(home, FIRST)
    publish(other, SECOND)
    publish(other, list(reversed(FIRST)))
    one = asked_json(capsys, "status", "--fingerprint", "--json")["answers"]
    monkeypatch.setenv("GEOLOOKUP_HOME", other)
    assert f"answers:      {one}" in asked(capsys, "status", "--fingerprint")
    assert "answers" not in asked_json(capsys, "status", "--json")
    with Editor(other) as editor:
        locid = editor.create(**BERLIN)
    assert one in asked(capsys, "status", "--fingerprint")  # without a block nobody has that answer
    with Editor(other) as editor:
        editor.add_block(locid, "8.8.8.8")
    assert one not in asked(capsys, "status", "--fingerprint")
