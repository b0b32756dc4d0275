"""``geolookup refresh`` in this process: what it prints, its JSON, its exit status, its log, metrics and pings."""

import json
import os
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from geolookup.cli.app import run
from geolookup.state.edits.outbox.row import State
from geolookup.state.publishing.directory import StateDirectory
from tests.cli.edits.test_custom import CREATE, Command
from tests.faults.fault_proxy import FaultProxy
from tests.faults.raw_server import RawServer, Script, answer
from tests.support.data.lists import item, listed, many
from tests.support.data.stations import stand
from tests.support.users.quick_commands import forked

UNCHANGED = answer(b"", status="304 Not Modified")
FIRST = listed(many(40), count=40, etag='"a"')
HTML = answer(b"<html>Sign in")


@pytest.fixture
def command(home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    monkeypatch.setenv("GEOLOOKUP_ATTEMPTS", "1")
    return Command(capsys)


def metrics(path: Path) -> dict[str, float]:
    """The file's samples, as Prometheus' own parser reads them: a name with its one label's value."""
    families = text_string_to_metric_families(path.read_text(encoding="utf-8"))
    found = {}
    for family in families:
        assert family.documentation
        assert family.type == "gauge"
        for sample in family.samples:
            found[" ".join([sample.name, *sample.labels.values()])] = sample.value
    return found


def test_a_run_is_one_line_and_silent_otherwise(command: Command) -> None:
    with RawServer(FIRST, UNCHANGED) as server:
        assert command("refresh", "--url", server.url) == (
            "refreshed: published generation 1: 40 geolocations, 80 blocks\n"
        )
        assert command.error == ""
        assert command("refresh", "--url", server.url) == "refreshed: nothing new: generation 1 goes on serving\n"
        assert command.error == ""


def test_the_report_says_what_was_pushed_what_changed_how_long_it_took_and_what_is_next(command: Command) -> None:
    with RawServer(FIRST, listed([*many(41)], count=41)) as server:
        command("refresh", "--url", server.url)
        report = command.json("refresh", "--url", server.url)
    assert report["exit_status"] == 0
    assert report["next_action"] == {"code": "none", "words": "nothing to do"}
    assert report["summary"].endswith("(geolocations +1 -0 ~0, blocks +2 -0 ~0)")
    assert report["pull"]["difference"]["geolocations"] == {"added": 1, "removed": 0, "changed": 0}
    assert (report["generation_before"], report["generation"], report["changed"]) == (1, 2, True)
    assert report["push"]["done"] == 0
    assert {"push", "pull", "total"} <= set(report["durations_s"])
    assert (report["failures"], report["warnings"], report["skipped"]) == ([], [], None)


def test_the_exit_status_tells_failed_held_left_over_wrong_and_busy(command: Command, home: str) -> None:
    with RawServer(FIRST, HTML, listed(many(2), count=2), FIRST) as server:
        url = ("--url", server.url)
        command("refresh", *url)
        assert command("refresh", *url, exits=1) == "failed: generation 1 goes on serving\n"
        assert "geolookup: pull: " in command.error
        assert "geolookup: warning: next: " in command.error
        report = command.json("refresh", *url, exits=3)
        assert report["next_action"]["code"] == "decide-on-the-list"
        assert report["next_action"]["words"].split()[-1] in command.error
        assert report["failures"][0]["error"] == "HeldError"
        with StateDirectory(home).locks.run():
            assert command("refresh", *url, exits=75) == "busy: another run is under way\n"
            busy = command.json("refresh", *url, exits=75)
            assert (busy["exit_status"], busy["next_action"]["code"]) == (75, "wait-for-the-other-run")
        command(*CREATE)
        stand(home, 1, State.UNKNOWN)
        assert command("refresh", *url, exits=1).startswith("left over: 1 edit unknown; nothing new")
        stand(home, 1, State.REJECTED)
        assert command("refresh", *url, exits=3).startswith("held: 1 edit rejected; ")
    report = command.json("refresh", "--url", "http://127.0.0.1:9", exits=2)  # edits wait for another
    assert report["next_action"]["code"] == "fix-configuration"
    command("refresh", "--url", "ftp://x", exits=2)


def test_a_change_is_told_by_exit_status_where_that_is_wanted_and_only_a_change(command: Command) -> None:
    with RawServer(FIRST, UNCHANGED, listed(many(41), count=41), HTML, listed(many(42), count=42)) as server:
        arguments = ("refresh", "--url", server.url, "--changed-exit-code", 10)
        command(*arguments, exits=10)
        command(*arguments, exits=0)
        assert command.json(*arguments, exits=10)["exit_status"] == 10
        command(*arguments, exits=1)
        command(*CREATE)
        stand(os.environ["GEOLOOKUP_HOME"], 1, State.REJECTED)
        assert command.json(*arguments, exits=3)["changed"], "a person is asked for all the same"


@pytest.mark.parametrize("taken", [1, 2, 3, 75])
def test_a_change_cannot_be_told_by_an_exit_status_that_means_something_else(command: Command, taken: int) -> None:
    command("refresh", "--print-cron", "--changed-exit-code", taken, exits=2)
    assert "has a meaning already" in command.error


def test_log_lines_are_json_where_that_is_wanted(command: Command) -> None:
    with RawServer(FIRST, answer(b'{"title": "\xc2\x9b"}', status="500 X")) as server:
        command("refresh", "--url", server.url, "--log-format", "json")
        first = [json.loads(line) for line in command.error.splitlines()]
        command("refresh", "--url", server.url, "--log-format", "json", exits=1)
        failed = [json.loads(line) for line in command.error.splitlines()]
    assert [line["level"] for line in first] == ["info", "info"]
    assert first[-1]["message"].startswith("refreshed: published generation 1")
    assert (first[-1]["generation"], first[-1]["exit_status"], first[-1]["next_action"]) == (1, 0, "none")
    assert [line["level"] for line in failed] == ["info", "error", "warning", "info"]
    assert failed[1]["failure"]["stage"] == "pull"
    assert all(set(line) >= {"at", "level", "logger", "message"} for line in failed)
    assert command.error.replace("\n", "").isprintable()


def test_metrics_are_whole_readable_by_all_and_remember_the_last_success(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "geolookup.prom"
    (tmp_path / "geolookup.prom.tmp-1-a").write_text("left by a kill")
    (tmp_path / "other.prom.tmp-1-a").write_text("somebody else's")
    monkeypatch.setenv("GEOLOOKUP_TEXTFILE", str(path))
    before = os.umask(0o077)
    try:
        with RawServer(listed([*many(40), item(-1, ("10.99.0.0", "10.99.0.9"))], count=41), HTML) as server:
            began = time.time()
            command("refresh", "--url", server.url)
            well = metrics(path)
            command("refresh", "--url", server.url, exits=1)
            badly = metrics(path)
            with StateDirectory(os.environ["GEOLOOKUP_HOME"]).locks.run():
                command("refresh", "--url", server.url, exits=75)
    finally:
        os.umask(before)
    assert metrics(path) == badly, "whoever has to wait leaves the metrics to the run that goes on"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert sorted(each.name for each in tmp_path.glob("*.prom*")) == ["geolookup.prom", "other.prom.tmp-1-a"]
    assert (well["geolookup_generation"], well["geolookup_refresh_exit_status"]) == (1, 0)
    assert (well["geolookup_geolocations default"], well["geolookup_geolocations custom"]) == (40, 1)
    assert (well["geolookup_edits_waiting held"], well["geolookup_list_held"], well["geolookup_refresh_changed"]) == (
        0,
        0,
        1,
    )
    assert well["geolookup_refresh_duration_seconds total"] > 0
    success = "geolookup_refresh_last_success_timestamp_seconds"
    assert well[success] == well["geolookup_refresh_last_run_timestamp_seconds"] >= int(began)
    assert (badly[success], badly["geolookup_refresh_exit_status"]) == (well[success], 1)
    assert badly["geolookup_refresh_last_run_timestamp_seconds"] > badly[success]


def test_metrics_that_cannot_be_written_are_a_warning(command: Command, tmp_path: Path) -> None:
    with RawServer(FIRST) as server:
        report = command.json("refresh", "--url", server.url, "--textfile", tmp_path / "none" / "x.prom")
    assert "the metrics were not written" in report["warnings"][0]
    assert "warning: the metrics were not written" in command.error


def test_the_monitor_hears_of_start_success_and_failure_and_its_address_stays_secret(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RawServer(answer(b"OK")) as monitor, RawServer(FIRST, UNCHANGED, HTML) as server:
        monkeypatch.setenv("GEOLOOKUP_PING_URL", f"{monitor.url}/canary-4711")
        out = [command("refresh", "--url", server.url, "--changed-exit-code", 10, exits=10)]
        out.append(json.dumps(command.json("refresh", "--url", server.url)))
        out.append(json.dumps(command.json("refresh", "--url", server.url, exits=1)) + command.error)
        with StateDirectory(os.environ["GEOLOOKUP_HOME"]).locks.run():
            command("refresh", "--url", server.url, exits=75)
    assert [request.target for request in monitor.requests] == [
        "/canary-4711/start",
        "/canary-4711",
        "/canary-4711/start",
        "/canary-4711",
        "/canary-4711/start",
        "/canary-4711/1",
    ]
    assert monitor.requests[1].body.startswith(b"refreshed: published generation 1")
    assert b"HTML" in monitor.requests[5].body or b"JSON" in monitor.requests[5].body
    assert "canary" not in "".join(out)


def test_a_monitor_out_of_reach_fails_no_run(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_PING_URL", "http://127.0.0.1:9/canary-4711")
    with RawServer(FIRST) as server:
        report = command.json("refresh", "--url", server.url)
    assert len(report["warnings"]) == 2
    assert all("the monitor was not told" in warning for warning in report["warnings"])
    assert "canary" not in json.dumps(report) + command.error


def test_what_is_no_address_to_ping_is_refused_unseen(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("canary-4711", "ftp://canary-4711", "https://", "http://x:y/canary-4711", "https://x/canary-4711 b"):
        monkeypatch.setenv("GEOLOOKUP_PING_URL", wrong)
        command("refresh", "--url", "http://127.0.0.1:9", exits=2)
        assert "GEOLOOKUP_PING_URL" in command.error
        assert "canary" not in command.error


def refreshing(home: str, url: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "GEOLOOKUP_HOME": home, "GEOLOOKUP_URL": url}
    return subprocess.Popen(
        [*forked(), "-m", "geolookup", "refresh"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_two_at_once_are_one_run_and_one_that_goes_away(home: str) -> None:
    over = threading.Event()

    def slow(service: Callable[[], bytes]) -> bytes:
        over.wait(60)
        return service()

    with RawServer(FIRST) as server, FaultProxy(server.url) as proxy:
        proxy.read_fault = slow
        first = refreshing(home, proxy.url)
        try:
            for _ in range(1000):
                if proxy.requests:
                    break
                time.sleep(0.02)
            second = refreshing(home, proxy.url)
            out, error = second.communicate(timeout=60)
            over.set()
            assert (second.returncode, out) == (75, "busy: another run is under way\n"), error
            assert first.communicate(timeout=60)[0].startswith("refreshed: published generation 1")
        finally:
            over.set()
            first.kill()
            first.wait()
        assert len(proxy.requests) == 1


def test_a_run_that_is_killed_leaves_what_is_served_and_the_next_one_goes_on(command: Command, home: str) -> None:
    with RawServer(FIRST, Script([listed(many(41))[:3000]], hold=True), listed(many(41), count=41)) as server:
        command("refresh", "--url", server.url)
        killed = refreshing(home, server.url)
        generations = Path(home, "generations")
        for _ in range(1000):
            if len(os.listdir(generations)) > 1:
                break
            time.sleep(0.02)
        killed.kill()
        killed.communicate(timeout=60)
        assert len(os.listdir(generations)) == 2, "it was killed while it built a candidate"
        assert run(["verify"]) == 0
        report = command.json("refresh", "--url", server.url)
    assert (report["generation"], report["failures"]) == (2, [])
    assert sorted(os.listdir(generations)) == ["000001", "000002"]


def test_a_run_by_hand_tells_no_monitor_and_writes_no_metrics(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEOLOOKUP_TEXTFILE", str(tmp_path / "geolookup.prom"))
    with RawServer(FIRST) as server, RawServer() as monitor:
        monkeypatch.setenv("GEOLOOKUP_PING_URL", f"{monitor.url}/canary-4711")
        report = command.json("refresh", "--url", server.url, "--no-ping", "--no-textfile")
    assert report["warnings"] == []
    assert monitor.requests == []
    assert not (tmp_path / "geolookup.prom").exists()
    command("refresh", "--textfile", tmp_path / "x.prom", "--no-textfile", exits=2)
