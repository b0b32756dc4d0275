"""``source``: adding, listing, moving and removing sources, and what is refused before anything is written."""

import json
from pathlib import Path

import pytest

from geolookup.cli.app import run
from geolookup.settings.load import load
from geolookup.sources.providers import PRESETS


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "geolookup.toml"
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "office.csv").write_text("first,last,city\n10.0.0.1,10.0.0.2,Austin\n")
    return path


def source(*arguments: str, code: int = 0) -> None:
    assert run(["source", *arguments]) == code


def test_sources_are_added_listed_moved_and_removed(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source("add", "dbip-city-lite")
    source("add", "office.csv", "--first", "--max-age", "36h")
    source("add", "registry")
    source("add", "./office.csv", "--name", "again", "--before", "registry", "--field", "country=city")
    assert "`geolookup sync` pulls it" in capsys.readouterr().out
    office, dbip, again, registry = load().stack
    assert (office.name, office.location, office.max_age) == ("office", str(tmp_path / "office.csv"), "36h")
    assert (dbip.name, dbip.preset, dbip.location) == ("dbip-city-lite", "dbip-city-lite", "")
    assert (again.name, again.fields) == ("again", {"country": "city"})
    assert (registry.name, registry.kind) == ("registry", "registry")
    source("list")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == [
        *("office", "dbip-city-lite", "again", "registry"),
        "IP Geolocation by DB-IP (https://db-ip.com)",
    ]
    source("show", "dbip-city-lite", "--json")
    shown = json.loads(capsys.readouterr().out)
    assert (shown["kind"], shown["max_age_s"], shown["redistribute"]) == ("mmdb", 40 * 86400, True)
    source("show", "dbip-city-lite")
    assert "max age:       40 days" in capsys.readouterr().out.splitlines()
    source("move", "office", "--last")
    source("remove", "again")
    capsys.readouterr()
    source("list", "--json")
    listed = json.loads(capsys.readouterr().out)["sources"]
    assert [each["name"] for each in listed] == ["dbip-city-lite", "registry", "office"]
    assert config.read_text().startswith("[[source]]\n")


def test_a_change_of_the_sources_is_in_the_history_of_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "state"))
    source("add", "office.csv")
    assert not (tmp_path / "state").exists()
    assert run(["sync"]) == 0
    source("add", "./office.csv", "--name", "again", "--first")
    source("move", "again", "--last")
    source("move", "again", "--last")
    source("remove", "office")
    capsys.readouterr()
    assert run(["history", "--json"]) == 0
    lines = [line for line in json.loads(capsys.readouterr().out) if line["what"] == "sources"]
    assert [(line["before"]["sources"], line["after"]["sources"]) for line in lines] == [
        (["office"], ["again", "office"]),
        (["again", "office"], ["office", "again"]),
        (["office", "again"], ["again"]),
    ]
    assert {line["via"] for line in lines} == {"command"}


def test_who_removes_the_last_source_is_told_that_there_is_nothing_to_sync(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("office", "other"):
        source("add", "office.csv", "--name", name)
    source("remove", "other")
    assert "the next `geolookup sync` goes without it" in capsys.readouterr().out
    source("remove", "office")
    assert "it was the last one, so there is nothing to sync until you add another" in capsys.readouterr().out
    source("show", "office", code=2)
    assert "unknown source 'office': no source is configured" in capsys.readouterr().err


def test_an_empty_list_says_how_to_get_cities(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text("")
    source("list")
    assert "geolookup source add dbip-city-lite" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("dbip-city-lite-2026-10.mmdb.gz", "dbip-city-lite-2026-10"),
        ("Office Ranges.CSV", "office-ranges"),
        ("GeoLite2-City-CSV_20260101.zip", "geolite2-city-csv-20260101"),
    ],
)
def test_the_name_is_that_of_the_file_without_its_endings(tmp_path: Path, location: str, name: str) -> None:
    (tmp_path / location).write_text("first,last,city\n10.0.0.1,10.0.0.2,Austin\n")
    source("add", location)
    assert load().stack[0].name == name


def test_an_address_gives_its_last_part_or_its_host_as_a_name() -> None:
    source("add", "https://geo.example/files/feed-{YYYY}.csv")
    source("add", "https://geo.example/")
    assert [each.name for each in load().stack] == ["feed", "geo-example"]


def test_what_could_not_be_pulled_is_refused_and_nothing_is_written(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "letter").write_text("Dear Madam,\n")
    open_token = tmp_path / "open-token"
    open_token.write_text("secret")
    open_token.chmod(0o644)
    for name, content in (("short", "abc123"), ("empty", "\n")):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o600)
    wrong: list[tuple[list[str], int, str]] = [
        (["nowhere.csv"], 1, "nowhere.csv: reading failed"),
        ([""], 2, "the name of the file is empty"),
        (["ftp://geo.example/x.csv"], 2, "ftp:// cannot be fetched"),
        (["-"], 2, "'-': a pipe or device cannot be a source"),
        (["/dev/null"], 2, "'/dev/null': a pipe or device cannot be a source"),
        (["dbip-city-lte"], 2, "'dbip-city-lte' is neither a file nor a preset: did you mean dbip-city-lite?"),
        (["letter"], 1, "no kind of source begins so"),
        (["office.csv", "--kind", "csv"], 2, "csv: must be one of"),
        (["office.csv", "--field", "colour=x"], 2, "colour"),
        (["office.csv", "--name", "Custom!"], 2, "use a-z, 0-9 and -"),
        (["office.csv", "--name", "custom"], 2, "the custom layer has this name"),
        (["office.csv", "--max-age", "soon"], 2, "max_age"),
        (["office.csv", "--before", "nobody"], 2, f"unknown source 'nobody': {config} has no sources"),
        (["office.csv", "--first", "--last"], 2, "one of --first, --before and --last"),
        (["http://geo.example/x.csv"], 2, "plain http:// is for loopback"),
        (["https://geo.example/{YEAR}.csv"], 2, "{YEAR} is unknown"),
        (["https://geo.example/a.csv?token={token}"], 2, "needs a secret"),
        (["https://geo.example/a.csv?token=abc123"], 2, "a secret must not stand here"),
        (["https://me:abc123@geo.example/a.csv"], 2, "a secret must not stand here"),
        (["geolite2-city"], 2, "https://dev.maxmind.com/geoip/updating-databases/"),
        (["geolite2-city", "--token-file", str(open_token)], 2, "chmod 600"),
        (["geolite2-city", "--token-file", "short"], 2, "short: must hold account:key"),
        (["geolite2-city", "--token-file", "nowhere"], 2, "nowhere: reading the secret failed"),
        (["ipinfo-lite", "--token-file", "empty"], 2, "empty: contains no token"),
        (["ipinfo-lite", "--token-file", "."], 2, "reading the secret failed: Is a directory"),
        (["office.csv", "--token-file", "nowhere"], 2, "nowhere: reading the secret failed"),
        (["registry", "--token-file", "nowhere"], 2, "nowhere: reading the secret failed"),
        (["registry", "--token-file", str(open_token)], 2, "chmod 600"),
        (["ipinfo-lite"], 2, "needs a secret"),
    ]
    for arguments, code, message in wrong:
        capsys.readouterr()
        source("add", *arguments, code=code)
        said = capsys.readouterr().err
        assert message in said, arguments
        assert "abc123" not in said
    assert not config.exists()
    source("add", "office.csv")
    before = config.read_text()
    source("add", "office.csv", code=2)
    assert "a source office exists already" in capsys.readouterr().err
    source("move", "office", code=2)
    source("remove", "nobody", code=2)
    source("show", "nobody", code=2)
    assert config.read_text() == before


def test_the_file_that_was_synced_by_hand_is_named_before_it_leaves(
    config: Path, tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    config.touch()
    (tmp_path / "own.csv").write_text("first,last,city\n10.0.0.1,10.0.0.2,Bonn\n")
    assert run(["sync", "own.csv"]) == 0
    capsys.readouterr()
    source("add", "office.csv")
    told = capsys.readouterr().err
    assert f"{tmp_path}/own.csv, which was synced by hand, is not in the settings" in told
    assert f"geolookup source add {tmp_path}/own.csv" in told
    source("add", "own.csv")
    assert "by hand" not in capsys.readouterr().err


def test_every_preset_can_be_added_with_a_secret_if_it_needs_one(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("123:abc")
    token.chmod(0o600)
    for preset in PRESETS:
        source("add", preset.name, *([] if preset.auth == "none" else ["--token-file", "token"]))
    assert [each.name for each in load().stack] == [preset.name for preset in PRESETS]
    secrets = {each.name: each.token_file for each in load().stack}
    assert secrets == {preset.name: "" if preset.auth == "none" else str(token) for preset in PRESETS}


def test_a_secret_that_somebody_wrote_into_the_file_is_not_shown(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text('[[source]]\nname = "x"\nlocation = "https://u:abc123@geo.example/a?license_key=abc123&b=1"\n')
    source("list")
    source("show", "x")
    source("list", "--json")
    said = capsys.readouterr().out
    assert "abc123" not in said
    assert "b=1" in said


def test_the_service_of_url_is_listed_where_it_stands(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text('url = "https://geo.example"\n')
    source("add", "office.csv")
    source("list")
    assert capsys.readouterr().out.splitlines()[1].split("\t")[:3] == ["service", "service", "https://geo.example"]
    source("move", "office", "--before", "service")
    assert [each.name for each in load().stack] == ["office", "service"]


def test_the_places_of_a_source_that_is_used_for_networks_only_from_now_on_are_gone_in_the_difference(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "home"))
    (tmp_path / "both.csv").write_text("network,country,asn\n192.0.2.0/24,DE,7\n198.51.100.0/24,FR,8\n")
    source("add", "both.csv")
    assert run(["sync"]) == 0
    source("remove", "both")
    source("add", "both.csv", "--layer", "network")
    assert run(["sync"]) == 3
    digest = capsys.readouterr().err.rpartition("--accept ")[2].split()[0]
    assert run(["sync", "--accept", digest]) == 0
    capsys.readouterr()
    assert run(["generations", "diff", "1", "2"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[1:5] == [
        "source both left the stack: 2 geolocations, 2 blocks",
        "ranges of networks: 0 added, 2 removed, 0 changed (512 IPv4 addresses and 0 of IPv6)",
        "source both is new in the stack: 0 geolocations, 0 blocks",
        "ranges of networks: 2 added, 0 removed, 0 changed (512 IPv4 addresses and 0 of IPv6)",
    ]
