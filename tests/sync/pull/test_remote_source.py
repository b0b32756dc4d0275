"""A source at an address: asked on a condition, through redirects, its secret for its own host and nobody's eyes."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

import geolookup
from geolookup.model.errors import (
    GeoLookupError,
    HeldError,
    SettingsError,
    UpstreamAnswerError,
    UpstreamRefusedError,
    UpstreamUnavailableError,
)
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.sources import definition
from geolookup.state.base import clock
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.context import PullReport
from geolookup.sync.pull.pull import pull
from tests.faults.raw_server import RawServer, Script, answer
from tests.state.generations.staged import tree

CSV = b"first,last,country,city\n10.0.0.0,10.0.0.255,DE,Bonn\n"
CANARY = "canary/7f3a+token"


def sync(home: str, location: str, **source: object) -> PullReport:
    found = SourceSettings(name="far", location=location, **source)  # type: ignore[arg-type] # what a test gives
    settings = Settings(sources=(found,), attempts=1, read_timeout_s=5.0, max_wait_s=0.0)
    return pull(StateDirectory(home), settings)


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.write_text(CANARY + "\n")
    path.chmod(0o600)
    return str(path)


def test_an_unchanged_file_is_asked_for_on_a_condition_and_not_read_again(home: str) -> None:
    fresh = answer(CSV, headers=['ETag: "one"', "Last-Modified: Sat, 21 Nov 2026 10:00:00 GMT"])
    same = answer(b"", status="304 Not Modified", framing="length")
    with RawServer(fresh, same, answer(CSV.replace(b"Bonn", b"Ulm"))) as server:
        assert sync(home, f"{server.url}/x.csv").outcome == "published"
        assert sync(home, f"{server.url}/x.csv").outcome == "unchanged"
        assert sync(home, f"{server.url}/x.csv").outcome == "published"
        asked = [(each.headers.get("if-none-match"), each.headers.get("if-modified-since")) for each in server.requests]
    assert asked == [
        (None, None),
        ('"one"', "Sat, 21 Nov 2026 10:00:00 GMT"),
        ('"one"', "Sat, 21 Nov 2026 10:00:00 GMT"),
    ]
    with geolookup.GeoLookup(home) as geo:
        match = geo.match("10.0.0.1")
    assert match is not None
    assert (match.source, match.geolocation.city) == ("far", "Ulm")


def test_a_server_without_validators_is_told_apart_by_the_files_bytes(home: str) -> None:
    with RawServer(answer(CSV)) as server:
        assert [sync(home, f"{server.url}/x.csv").outcome for _ in range(2)] == ["published", "unchanged"]
    assert StateDirectory(home).require_current().generation == 1


def test_a_file_that_was_cut_short_is_never_published(home: str) -> None:
    with RawServer(Script([answer(CSV)[:-9]])) as server, pytest.raises(GeoLookupError):
        sync(home, f"{server.url}/x.csv")
    assert StateDirectory(home).current() is None


def test_a_file_without_a_length_that_was_cut_between_rows_is_held_by_the_guard(home: str) -> None:
    rows = [b"10.%d.%d.0,10.%d.%d.255,DE,Town %d\n" % (n // 256, n % 256, n // 256, n % 256, n) for n in range(400)]
    head = b"HTTP/1.0 200 OK\r\n\r\nfirst,last,country,city\n"
    with RawServer(head + b"".join(rows), head + b"".join(rows[:150])) as server:
        assert sync(home, f"{server.url}/x.csv").outcome == "published"
        with pytest.raises(HeldError, match="150 instead of 400"):
            sync(home, f"{server.url}/x.csv")
    assert StateDirectory(home).require_current().generation == 1


@pytest.mark.parametrize(("auth", "secret"), [("bearer", CANARY), ("basic", f"account:{CANARY}"), ("header", CANARY)])
def test_the_secret_goes_to_the_first_host_only_and_into_no_file(
    home: str, tmp_path: Path, token_file: str, auth: str, secret: str
) -> None:
    Path(token_file).write_text(secret + "\n")
    with RawServer(answer(CSV, headers=[f"ETag: {CANARY}"])) as other:
        moved = answer(b"", status="302 Found", headers=[f"Location: {other.url}/elsewhere.csv"])
        with RawServer(moved) as server:
            sync(home, f"{server.url}/x.csv", token_file=token_file, auth=auth, auth_header="X-Key")
            sent = server.requests[0].headers
    assert ("x-key" if auth == "header" else "authorization") in sent
    assert not {"authorization", "x-key"} & set(other.requests[0].headers)
    for content in tree(home).values():
        assert content is None or CANARY.encode() not in content


def test_a_token_in_the_address_is_redacted_wherever_a_person_reads(
    home: str, token_file: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        RawServer(answer(b"no", status="403 Forbidden")) as server,
        pytest.raises(GeoLookupError) as caught,
        caplog.at_level("DEBUG"),
    ):
        sync(home, f"{server.url}/x.csv?token={{token}}", token_file=token_file)
    assert server.requests[0].target == "/x.csv?token=canary%2F7f3a%2Btoken"
    assert "canary" not in str(caught.value) + caplog.text
    with RawServer(answer(CSV)) as server:
        sync(home, f"{server.url}/x.csv?token={{token}}", token_file=token_file)
    for content in tree(home).values():
        assert content is None or b"canary" not in content
    with pytest.raises(SettingsError, match="name a `token_file`"):
        sync(home, "https://geo.example/x.csv?token={token}")


def test_five_redirects_are_followed_and_no_more(home: str) -> None:
    with RawServer(answer(CSV)) as server:
        hops = [answer(b"", status="302 Found", headers=[f"Location: {server.url}/hop"]) for _ in range(5)]
        server.scripts[:0] = [Script([hop]) for hop in hops]
        assert sync(home, f"{server.url}/x.csv").outcome == "published"
    with RawServer(hops[0].replace(server.url.encode(), b"/x")) as server:
        with pytest.raises(UpstreamAnswerError, match="redirects more than 5 times"):
            sync(home, f"{server.url}/x.csv")
        assert len(server.requests) == 6


def test_a_redirect_to_plain_http_beyond_this_machine_is_not_followed(home: str) -> None:
    moved = answer(b"", status="302 Found", headers=["Location: http://geo.example/x.csv"])
    with RawServer(moved) as server, pytest.raises(UpstreamAnswerError, match="not https"):
        sync(home, f"{server.url}/x.csv")


def test_an_address_that_cannot_be_reached_is_named_also_behind_a_redirect(home: str) -> None:
    with pytest.raises(UpstreamUnavailableError, match=r"x\.csv: http://127\.0\.0\.1:9 cannot be reached: "):
        sync(home, "http://127.0.0.1:9/x.csv")
    moved = answer(b"", status="302 Found", headers=["Location: http://127.0.0.2:9/y.csv?key=abc"])
    with RawServer(moved) as server, pytest.raises(UpstreamUnavailableError) as caught:
        sync(home, f"{server.url}/x.csv")
    assert f"{server.url}/x.csv: http://127.0.0.2:9 cannot be reached: " in str(caught.value)
    assert "abc" not in str(caught.value)


def test_after_a_404_the_month_before_is_tried_for_a_preset_that_says_so(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = answer(b"", status="404 Not Found")
    monkeypatch.setattr(clock, "wall", lambda: datetime(2026, 1, 2, tzinfo=UTC))
    with RawServer(missing, answer(CSV)) as server:
        found = definition.Definition(
            name="monthly", location=f"{server.url}/x-{{YYYY}}-{{MM}}.csv", dated="month", given=True
        )
        report = pull(StateDirectory(home), Settings(attempts=1), given=[found])
        assert [each.target for each in server.requests] == ["/x-2026-01.csv", "/x-2025-12.csv"]
    assert any("the month before is used" in text for text in report.warnings)
    with RawServer(missing) as server, pytest.raises(UpstreamRefusedError):
        sync(home, f"{server.url}/x.csv")


def test_a_preset_fills_in_what_the_settings_leave_empty() -> None:
    found = definition.define(SourceSettings(name="city", preset="geolite2-city", token_file="t", max_age="3d"))
    assert (found.kind, found.auth, found.keep_days, found.redistribute) == ("mmdb", "basic", 30, False)
    assert (found.max_age_s, found.dated) == (259200.0, "")
    mirror = SourceSettings(name="city", preset="dbip-city-lite", location="/srv/dbip.mmdb", keep_days=3)
    assert (definition.define(mirror).location, definition.define(mirror).keep_days) == ("/srv/dbip.mmdb", 3)
    with pytest.raises(SettingsError, match="unknown preset"):
        definition.define(SourceSettings(name="city", preset="dbip"))


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("/srv/DBIP-city-lite.mmdb.gz", "dbip-city-lite"),
        ("https://geo.example/a/b.csv.gz?token=x#y", "b"),
        ("/srv/custom.csv", "file"),
        ("/srv/ä.csv", "file"),
        ("/srv/" + "x" * 50 + ".csv", "x" * 32),
        ("folder/", "folder"),
    ],
)
def test_a_source_without_a_name_has_its_files_without_the_endings(location: str, name: str) -> None:
    assert definition.name_of(location) == name
