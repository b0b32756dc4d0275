"""``generations`` of a state with several sources: what is listed, and what a diff says of each source."""

import json
from pathlib import Path

import pytest

from geolookup.cli.app import run
from geolookup.model.errors import HeldError
from geolookup.settings import times
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.accept import accept
from geolookup.sync.pull.pull import pull
from tests.faults.raw_server import RawServer
from tests.support.data.lists import item, listed
from tests.support.users.in_process import asked, asked_json

OWN = 10**9


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)


class Sources:
    """Files of ranges as sources, and maybe a service."""

    def __init__(self, folder: Path, home: str) -> None:
        self.folder = folder
        self.home = home

    def write(self, name: str, *rows: str) -> None:
        """A source of ranges: each row is first, last, country and city."""
        (self.folder / f"{name}.csv").write_text("first,last,country,city\n" + "".join(f"{row}\n" for row in rows))

    def sync(self, *names: str, url: str | None = None) -> None:
        sources = tuple(SourceSettings(name=name, location=str(self.folder / f"{name}.csv")) for name in names)
        service = (SourceSettings(name="service", kind="service"),) if url else ()
        pull(StateDirectory(self.home), Settings(sources=(*sources, *service), url=url, attempts=1))


@pytest.fixture
def sources(tmp_path: Path, home: str) -> Sources:
    return Sources(tmp_path, home)


def lines(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """What ``generations`` prints."""
    return asked(capsys, "generations", *words).splitlines()


def test_a_diff_goes_by_source_and_shows_what_changed_and_nothing_else(
    sources: Sources, capsys: pytest.CaptureFixture[str]
) -> None:
    sources.write("a", "10.0.0.0,10.0.0.255,DE,Bonn")
    sources.write("b", "11.0.0.0,11.0.0.255,DE,Ulm", "11.0.1.0,11.0.1.255,DE,Hof")
    sources.sync("a", "b")
    sources.write("b", "11.0.0.0,11.0.0.255,DE,Ulm", "11.0.1.0,11.0.1.127,DE,Hof", "11.0.2.0,11.0.2.255,DE,Kiel")
    sources.sync("a", "b")
    assert lines(capsys, "diff", "--blocks") == [
        "from generation 1 to 2",
        "source b:",
        "geolocations: 1 added, 0 removed, 1 changed",
        f"  + {OWN + 3}\tcountry DE, city Kiel",
        f"  ~ {OWN + 2}\tblocks +1 -1",
        "blocks: 2 added, 1 removed, 0 changed",
        f"  + 11.0.1.0-11.0.1.127\tof {OWN + 2}",
        f"  + 11.0.2.0-11.0.2.255\tof {OWN + 3}",
        f"  - 11.0.1.0-11.0.1.255\tof {OWN + 2}",
        "addresses whose answer differs: 384 IPv4, 0 IPv6:",
        "  (not covered) -> DE\t256 IPv4\t0 IPv6",
        "  DE -> (not covered)\t128 IPv4\t0 IPv6",
    ]
    found = asked_json(capsys, "generations", "diff", "--json")
    assert found["stack"] == {"from": ["a", "b"], "to": ["a", "b"]}
    assert [(each["name"], each["change"]) for each in found["sources"]] == [("b", "changed")]
    assert found["counts"] == found["sources"][0]["counts"]
    assert [(row["source"], row["city"]) for row in found["geolocations"]["added"]] == [("b", "Kiel")]


def test_a_source_on_one_side_only_is_one_line_of_counts(sources: Sources, capsys: pytest.CaptureFixture[str]) -> None:
    sources.write("a", "10.0.0.0,10.0.0.255,DE,Bonn")
    sources.write("b", "11.0.0.0,11.0.0.255,DE,Ulm", "11.0.1.0,11.0.1.255,DE,Ulm")
    sources.sync("a")
    sources.sync("b", "a")
    added = ["source b is new in the stack: 1 geolocation, 2 blocks"]
    rest = ["addresses whose answer differs: 512 IPv4, 0 IPv6:", "  (not covered) -> DE\t512 IPv4\t0 IPv6"]
    assert lines(capsys, "diff", "--blocks") == ["from generation 1 to 2", *added, *rest]
    assert lines(capsys, "diff", "2", "1", "--blocks")[1] == "source b left the stack: 1 geolocation, 2 blocks"
    found = asked_json(capsys, "generations", "diff", "2", "1", "--json")
    assert [(each["name"], each["change"]) for each in found["sources"]] == [("b", "left")]
    assert found["counts"]["blocks"] == {"added": 0, "removed": 2, "changed": 0}


def test_a_diff_after_a_move_names_the_two_orders(sources: Sources, capsys: pytest.CaptureFixture[str]) -> None:
    sources.write("a", "10.0.0.0,10.0.0.255,DE,Bonn")
    sources.write("b", "10.0.0.0,10.0.0.255,FR,Lyon")
    sources.sync("a", "b")
    with pytest.raises(HeldError) as held:
        sources.sync("b", "a")
    accept(StateDirectory(sources.home), held.value.digest, Settings())
    assert lines(capsys, "diff")[1:4] == [
        "the order of the sources: a, b -> b, a",
        "no row of a source changed",
        "addresses whose answer differs: 256 IPv4, 0 IPv6:",
    ]


def test_two_pulls_of_the_same_rows_differ_in_nothing(sources: Sources, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["10.0.0.0,10.0.0.255,DE,Bonn", "10.0.1.0,10.0.1.255,DE,Ulm"]
    sources.write("a", *rows)
    sources.sync("a")
    sources.write("a", *reversed(rows))
    sources.sync("a")
    assert StateDirectory(sources.home).require_current().generation == 2, "of equal blocks the later wins"
    assert lines(capsys, "diff") == [
        "from generation 1 to 2",
        "geolocations: 0 added, 0 removed, 0 changed",
        "blocks: 0 added, 0 removed, 0 changed",
        "addresses whose answer differs: 0 IPv4, 0 IPv6",
    ]
    assert asked_json(capsys, "generations", "diff", "--json")["sources"] == []


def test_a_number_of_ours_that_the_service_lists_is_given_up_and_the_diff_says_so(
    sources: Sources, capsys: pytest.CaptureFixture[str]
) -> None:
    sources.write("a", "10.0.0.0,10.0.0.255,DE,Bonn", "10.0.1.0,10.0.1.255,DE,Ulm")
    lists = [
        listed([item(number, (f"20.0.{place}.0", f"20.0.{place}.255")) for place, number in enumerate(numbers)])
        for numbers in ((1, 2), (1, OWN))
    ]
    with RawServer(lists[0], lists[0], lists[1]) as server:
        sources.sync("a", url=server.url)
        sources.sync("a", url=server.url)
    out = lines(capsys, "diff")
    at = out.index("source a:")
    assert out[at + 1 : at + 4] == [
        "geolocations: 0 added, 0 removed, 0 changed, 1 renumbered",
        f"  ~ {OWN} -> {OWN + 2}\tanother number: country DE, city Bonn",
        "blocks: 0 added, 0 removed, 0 changed",
    ]
    found = asked_json(capsys, "generations", "diff", "--json")
    assert [(row["source"], row["was"], row["locid"]) for row in found["geolocations"]["renumbered"]] == [
        ("a", OWN, OWN + 2)
    ]
    assert [each["renumbered"] for each in found["sources"] if each["name"] == "a"] == [1]


def test_the_list_names_the_stack_and_everything_that_is_held(
    sources: Sources, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        sources.write(name, *(f"1{name == 'a':d}.{n}.0.0,1{name == 'a':d}.{n}.0.255,DE,{name} {n}" for n in range(40)))
    sources.sync("a", "b")
    for name in ("a", "b"):
        sources.write(name, "10.0.0.0,10.0.0.255,DE,Bonn")
    assert run_sync(sources, "a", "b") == 3
    rows = [line.split("\t") for line in lines(capsys, "list")]
    assert [(row[0], row[5].partition(" from ")[2].rpartition("/")[2], row[6]) for row in rows] == [
        ("1", "a, b", "served"),
        ("-", "a.csv", "held"),
        ("-", "b.csv", "held"),
    ]
    found = asked_json(capsys, "generations", "list", "--format", "json")
    assert [each["stack"] for each in found] == [["a", "b"], ["a"], ["b"]]
    assert run_sync(sources, "a") == 3
    last = lines(capsys, "list")[-1].split("\t")
    assert (last[1], last[2], last[6]) == ("a change of the stack", "a", "held")


def test_the_status_tells_a_monitor_that_a_change_of_the_stack_is_held(
    sources: Sources, capsys: pytest.CaptureFixture[str]
) -> None:
    sources.write("a", "10.0.0.0,10.0.0.255,DE,Bonn")
    sources.write("b", "11.0.0.0,11.0.0.255,DE,Ulm")
    sources.sync("a", "b")
    assert run(["status", "--check"]) == 0
    assert run_sync(sources, "b") == 3
    capsys.readouterr()
    assert run(["status", "--check"]) == 3
    accepting = capsys.readouterr().out.partition("held:")[2].partition(": ")[2].split()[:4]
    assert accepting[:3] == ["geolookup", "sync", "--accept"]
    assert run(accepting[1:]) == 0
    assert run(["status", "--check"]) == 0


def run_sync(sources: Sources, *arguments: str) -> int:
    """Sync the sources of these names; arguments that begin with a dash are options."""
    names = [name for name in arguments if not name.startswith("-")]
    settings = sources.folder / "geolookup.toml"
    settings.write_text(
        "".join(f'[[source]]\nname = "{name}"\nlocation = "{sources.folder}/{name}.csv"\n' for name in names)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEOLOOKUP_CONFIG", str(settings))
        return run(["sync", *(argument for argument in arguments if argument.startswith("-"))])


def test_a_source_that_never_could_be_pulled_is_in_the_status_until_it_is(
    sources: Sources, capsys: pytest.CaptureFixture[str]
) -> None:
    sources.write("a", "10.0.0.0,10.0.0.255,DE,Bonn")
    for _ in range(2):
        assert run_sync(sources, "missing", "a") == 1
    capsys.readouterr()
    assert run(["status", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["sources"]
    assert (first["name"], first["serves"], first["geolocations"]) == ("a", True, 1)
    assert (second["name"], second["digest"], second["checked_at"], second["geolocations"]) == ("missing", "", "", 0)
    assert "missing.csv" in second["problem"]
    assert run(["status"]) == 0
    shown = capsys.readouterr().out
    assert f"never pulled; PROBLEM since {times.shown(second['problem_since'])}: " in shown
    sources.write("missing", "11.0.0.0,11.0.0.255,DE,Ulm")
    assert run_sync(sources, "missing", "a") == 0
    capsys.readouterr()
    assert run(["status", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["sources"]
    assert [(each["name"], each["serves"], each["problem"]) for each in found] == [
        ("missing", True, None),
        ("a", True, None),
    ]


def test_a_preview_of_several_sources_says_what_a_sync_would_publish(
    sources: Sources, capsys: pytest.CaptureFixture[str]
) -> None:
    sources.write("a", "10.0.0.0,10.0.0.255,DE,Bonn")
    sources.write("b", "11.0.0.0,11.0.0.255,DE,Ulm")
    assert run_sync(sources, "a", "b") == 0
    sources.write("b", "11.0.0.0,11.0.0.127,DE,Ulm", "12.0.0.0,12.0.0.255,DE,Hof")
    capsys.readouterr()
    assert run_sync(sources, "a", "b", "--preview") == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == "a sync would publish 3 geolocations, 3 blocks"
    assert out[0] == "addresses whose answer differs: 384 IPv4, 0 IPv6:"
    assert StateDirectory(sources.home).require_current().generation == 1


def test_without_a_service_nothing_stands_in_the_outbox(sources: Sources, capsys: pytest.CaptureFixture[str]) -> None:
    sources.write("a", "10.0.0.0,10.0.0.255,DE,Bonn")
    assert run_sync(sources, "a") == 0
    fields = [f"--{name}=" for name in ("region", "postalcode", "dmacode", "areacode")]
    assert run(["custom", "create", "--country=DE", "--city=Ulm", "--latitude=1", "--longitude=2", *fields]) == 0
    capsys.readouterr()
    assert (run(["outbox", "list"]), capsys.readouterr().out) == (0, "")
    assert run(["outbox", "list", "--all", "--json"]) == 0
    assert [row["operation"] for row in json.loads(capsys.readouterr().out)] == ["create"]
