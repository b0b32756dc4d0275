"""Builders and readers that go on by themselves, and programs that open a fleet by its address."""

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import geolookup
from geolookup.cli.app import run as command
from geolookup.fleet import publish, reader
from geolookup.fleet.following import follow_builder, follow_reader
from geolookup.model.errors import SettingsError, UpstreamUnavailableError
from geolookup.state.publishing.run import running
from tests.fleet.served import SETTINGS, Builder, Reader, Served, fingerprint


def test_a_builder_publishes_each_change_and_a_reader_takes_it(builder: Builder, joined: Reader) -> None:
    stop, published, taken = threading.Event(), [], []
    arrived = threading.Event()

    def received(found: reader.Received) -> None:
        taken.append(found.way)
        arrived.set()

    def sync() -> reader.Received:
        with running(joined.directory) as run:
            return reader.sync(run, SETTINGS)

    threads = [
        threading.Thread(
            target=follow_builder, args=(builder.home, builder.publish, published.append, pytest.fail, stop)
        ),
        threading.Thread(
            target=follow_reader,
            args=(joined.home, sync, received, pytest.fail, stop),
            kwargs={"every_s": 0.1},
        ),
    ]
    for thread in threads:
        thread.start()
    try:
        with geolookup.open(joined.home) as geo:
            builder.edit("10.2.0.0/24", "Lager")
            while geo.lookup("10.2.0.1") is None:
                assert arrived.wait(120)
                arrived.clear()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert fingerprint(joined.home) == fingerprint(builder.home)


def test_what_fails_is_told_once_and_tried_again_later(builder: Builder, joined: Reader, served: Served) -> None:
    told: list[str] = []
    stop = threading.Event()
    tries = 0

    def sync() -> Any:
        nonlocal tries
        tries += 1
        if tries == 3:
            stop.set()
        raise UpstreamUnavailableError("the server is away")

    follow_reader(joined.home, sync, pytest.fail, told.append, stop, every_s=0.0)
    assert told == ["the server is away"]


def test_a_program_opens_a_fleet_by_its_address_and_fetches_only_when_it_says_so(
    builder: Builder, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    builder.edit()
    builder.publish()
    with geolookup.open(served.url, root=builder.root) as geo:
        asked = len(served.asked)
        builder.edit("10.2.0.0/24", "Lager")
        builder.publish()
        assert geo.lookup("10.2.0.1") is None
        assert len(served.asked) == asked
        assert geo.refresh()
        assert geo.lookup("10.2.0.1").city == "Lager"  # type: ignore[union-attr]
        assert not geo.refresh()
    root = tmp_path / "root.json"
    root.write_bytes(builder.root)
    served.change = lambda _name, _data: None
    with geolookup.open(served.url, root=root) as geo:
        assert geo.lookup("10.2.0.1").city == "Lager"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda url, home: geolookup.open(url), "root.json"),
        (lambda url, home: geolookup.open(home, root=b""), "begins with https"),
        (lambda url, home: geolookup.open(home).refresh(), "was not opened from an address"),
    ],
)
def test_what_is_no_fleet_is_refused(
    builder: Builder, served: Served, call: Callable[[str, str], object], reason: str
) -> None:
    builder.publish()
    with pytest.raises(SettingsError, match=reason):
        call(served.url, builder.home)


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = command(list(words))
    found = capsys.readouterr()
    return code, found.out, found.err


def test_commands_from_keys_to_a_reader(
    builder: Builder,
    served: Served,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    keys, www = str(tmp_path / "own"), str(served.folder)
    monkeypatch.setenv("GEOLOOKUP_HOME", builder.home)
    builder.edit()
    assert _run(capsys, "fleet", "init", keys)[0] == 0
    code, out, err = _run(capsys, "fleet", "publish", www, "--keys", keys)
    assert code == 0
    assert re.match(r"published generation 1: [\d,]+ bytes for each reader; signed until", out)
    assert "can read the names and networks of 1 custom geolocation" in err
    code, out, _ = _run(capsys, "fleet", "publish")  # the folder and the keys are remembered
    assert (code, "nothing new" in out) == (0, True)
    code, out, _ = _run(capsys, "fleet", "status", "--json")
    assert (code, json.loads(out)["role"]) == (0, "builder")
    builder.edit_many(40)
    assert "bytes for readers of the one before" in _run(capsys, "fleet", "publish")[1]
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "second"))
    assert _run(capsys, "fleet", "status")[0] == 2
    assert _run(capsys, "fleet", "follow")[0] == 2
    code, _, told = _run(capsys, "fleet", "join", f"file://{keys}", "--root", f"{keys}/root.json")
    assert (code, "not the address of a web server, which begins with https://" in told) == (2, True)
    code, out, _ = _run(capsys, "fleet", "join", served.url, "--root", f"{keys}/root.json")
    assert (code, "joined the fleet" in out) == (0, True)
    for words, said in (
        (("sync",), "nothing new"),
        (("refresh",), "nothing new"),
        (("10.1.0.1",), "Hus"),
        (("verify",), "whole"),
        (("status",), "source fleet"),
        (("explain", "20.0.7.9"), "default geolocation 107, 20.0.7.0-20.0.7.255"),
        (("fleet", "status"), "role:               reader"),
        (("fleet", "follow", "--print-systemd"), "geolookup fleet follow"),
    ):
        code, out, err = _run(capsys, *words)
        assert code == 0, (words, out, err)
        assert said in out
    code, _, err = _run(capsys, "custom", "create", "--country", "SE", "--city", "X")
    assert (code, "reader of a fleet" in err) == (2, True)
    code, _, err = _run(capsys, "custom", "list")
    assert (code, "reader of a fleet" in err) == (2, True)
    code, _, err = _run(capsys, "list")
    assert (code, "no rows to list" in err) == (1, True)
    code, _, err = _run(capsys, "sync", "cities.csv")
    assert (code, "takes no FILE" in err) == (2, True)


def test_a_publish_of_a_reader_is_refused(joined: Reader, tmp_path: Path, builder: Builder) -> None:
    builder.home = joined.home
    with pytest.raises(SettingsError, match="is a reader of a fleet itself"):
        builder.publish()
    assert publish.remembered(joined.home) is None
