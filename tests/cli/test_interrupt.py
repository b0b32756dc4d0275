"""Ctrl-C and SIGTERM, in a process of its own, at a known moment: how far it came, what is safe, what to run next."""

import array
import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import click
import pytest

import geolookup_data
from geolookup.cli import interrupt
from geolookup.cli.app import app, run
from geolookup.state.editor import Editor
from tests.dials.dials import Dials
from tests.dials.faces import OverHttp
from tests.dials.person import BERLIN, Person
from tests.dials.upstream import Upstream
from tests.support.data.states import place, publish
from tests.support.users.quick_commands import forked

INTERRUPTED = 130
BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
#: How the sentence begins.
HOW = {signal.SIGINT: "geolookup: interrupted", signal.SIGTERM: "geolookup: ended by SIGTERM"}
#: Ctrl-C before or after a function, once it is called: {when} is the line before or after the call.
SIGNALLED = """
import functools, os, signal, sys
import {module} as module
owner = functools.reduce(getattr, {names!r}[:-1], module)
real = getattr(owner, {names!r}[-1])
def signalled(*arguments, **named):
    if {before}:
        os.kill(os.getpid(), signal.SIGINT)
    found = real(*arguments, **named)
    os.kill(os.getpid(), signal.SIGINT)
    return found
setattr(owner, {names!r}[-1], signalled)
sys.argv = ["geolookup", *sys.argv[1:]]
from geolookup.__main__ import main
sys.exit(main())
"""


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state with two generations."""
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    publish(home, [place(1, "10.0.0.0/8"), place(-3, "10.9.0.0/16", latitude=1.0, longitude=2.0)])
    publish(home, [place(1, "10.0.0.0/8"), place(-3, "10.8.0.0/16", latitude=1.0, longitude=2.0)])


def command(*words: object, **options: Any) -> subprocess.Popen[bytes]:
    """A command, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "geolookup", *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def said(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGINT) -> str:
    """What an interrupted process said on its last line of standard error."""
    _, error = process.communicate(timeout=60)
    assert process.returncode == 128 + number, error.decode()
    assert b"Traceback" not in error
    assert number == signal.SIGINT or not {"", "Aborted!"} & {*error.decode().splitlines()}  # no ^C to stand below
    return error.decode().splitlines()[-1].removeprefix(HOW[number])


def signalled(where: str, *words: object, before: bool = True) -> str:
    """What a command says that is interrupted as this function is called, or as it is done."""
    module, _, names = where.partition(":")
    code = SIGNALLED.format(module=module, names=names.split("."), before=before)
    return said(
        subprocess.Popen([*forked(), "-c", code, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    )


def waits(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process waits for something: Python may overlook a signal just before that, until the wait ends."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def read_all(process: subprocess.Popen[bytes], text: bytes) -> None:
    """Have a process read this from its standard input, and wait for more."""
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.flush()
    left = array.array("i", [1])
    while left[0] or not waits(process):
        time.sleep(0.01)
        fcntl.ioctl(process.stdin.fileno(), termios.FIONREAD, left)


# Streams and files


def test_a_stream_of_lookups_says_how_many_were_answered_and_has_them() -> None:
    process = command("-", "--format", "csv")
    read_all(process, b"10.1.1.1\n10.2.2.2\n10.3.3.3\n")
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED
    assert b"interrupted after 3 addresses: what it answered before is right; give it the rest" in error
    assert [line.split(b",")[0] for line in out.splitlines()] == [b"ip", b"10.1.1.1", b"10.2.2.2", b"10.3.3.3"]


def test_annotate_says_after_how_many_lines() -> None:
    process = command("annotate")
    read_all(process, b"10.1.1.1\n10.2.2.2\n")
    process.send_signal(signal.SIGINT)
    assert said(process) == " after 2 lines: what it wrote before is right; give it the rest, or all of it again"


@pytest.mark.parametrize("old", [None, b"old"])
def test_enrich_says_that_its_file_is_as_before(tmp_path: Path, old: bytes | None) -> None:
    pytest.importorskip("pyarrow")
    target = tmp_path / "out.csv"
    if old is not None:
        target.write_bytes(old)
    process = command("enrich", "-", target, "--in-format", "csv")
    read_all(process, b"ip\n10.1.1.1\n")
    process.send_signal(signal.SIGINT)
    became = "is as before" if old else "was not written"
    assert said(process) == f": {target} {became}; run it again"
    assert (target.read_bytes() if target.exists() else None) == old
    assert list(tmp_path.glob(".out*")) == []


@pytest.mark.parametrize(("before", "became"), [(True, "was not written"), (False, "is complete")])
def test_an_export_says_whether_its_file_is_there(tmp_path: Path, before: bool, became: str) -> None:
    target = tmp_path / "out.csv"
    words = signalled("geolookup.base.disk:os.rename", "export", "csv", target, before=before)
    assert words == f" after 100 % of the work: {target} {became}; run it again"
    assert target.exists() != before


def test_an_export_of_sites_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    target = tmp_path / "sites.toml"
    target.write_text("old")
    words = signalled("geolookup.base.disk:os.rename", "custom", "export", target)
    assert words == f": {target} is as before; run it again"
    assert target.read_text() == "old"


# Edits and settings


@pytest.mark.parametrize("before", [True, False])
def test_applying_a_file_says_whether_its_changes_were_made(home: str, tmp_path: Path, before: bool) -> None:
    """The signal comes before the first change, or between the commit and the publish."""
    file = tmp_path / "sites.csv"
    file.write_text(
        "name,country,region,city,postalcode,latitude,longitude,dmacode,areacode,blocks\n"
        "Berlin,DE,,Berlin,,52.5,13.4,,,10.20.0.0/16\n"
    )
    where = "cli.edits.sites:apply_all" if before else "state.sessions:Sessions._publish"
    words = signalled(f"geolookup.{where}", "custom", "apply", file)
    became = "nothing was changed" if before else "the edits are made: `geolookup outbox list` shows them"
    assert words == f": {became}; `geolookup custom plan FILE` says what is left"
    assert bool(Editor(home).pending()) != before
    assert run(["custom", "apply", str(file)]) == 0
    assert len(Editor(home).pending()) == 2


BETWEEN = """
import os, signal, sys
from geolookup.state.sessions import Sessions
def between(*arguments, real=Sessions._publish, **more):
    os.kill(os.getpid(), signal.{name})
    return real(*arguments, **more)
Sessions._publish = between
sys.argv = ["geolookup", *sys.argv[1:]]
from geolookup.__main__ import main
sys.exit(main())
"""


def signalled_between(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command that gets this signal between the commit of its edit and the publish."""
    return subprocess.run(
        [*forked(), "-c", BETWEEN.format(name=name), *words], capture_output=True, text=True, check=False
    )


@BOTH
def test_an_interrupt_between_a_commit_and_its_publish_waits_for_the_publish(
    capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    done = signalled_between(number.name, "custom", "add-block", "-3", "10.77.0.0/16")
    assert done.returncode == 128 + number
    assert f"{HOW[number]}: the edits are made" in done.stderr
    assert run(["10.77.1.1", "--field", "locid"]) == 0
    assert capsys.readouterr().out == "-3\n"


def test_what_was_killed_between_a_commit_and_its_publish_is_published_by_the_next_look_at_the_edits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert signalled_between("SIGKILL", "custom", "add-block", "-3", "10.77.0.0/16").returncode == -signal.SIGKILL
    assert run(["10.77.1.1", "--field", "locid"]) == 0
    assert capsys.readouterr().out == "1\n"
    assert run(["outbox", "list"]) == 0
    capsys.readouterr()
    assert run(["10.77.1.1", "--field", "locid"]) == 0
    assert capsys.readouterr().out == "-3\n"


@pytest.mark.parametrize("before", [True, False])
def test_the_settings_are_as_before_or_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool) -> None:
    settings = tmp_path / "geolookup.toml"
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(settings))
    words = signalled("geolookup.settings.edit:replace", "source", "add", "registry", before=before)
    assert words == f": {settings} {'is as before' if before else 'was changed'}"
    assert settings.exists() != before


# What is published


@pytest.mark.parametrize(
    ("before", "became"),
    [(True, "nothing was published, and generation 2 goes on serving"), (False, "generation 1 is served now")],
)
def test_going_back_says_what_is_served(before: bool, became: str) -> None:
    where = "geolookup.state.publishing.rollback:Keeping.rollback"
    words = signalled(where, "generations", "rollback", before=before)
    assert words == f": {became}; `geolookup generations list` shows what is kept"


@pytest.mark.parametrize("words", [["verify"], ["8.8.8.8"]])
def test_what_only_reads_says_that_nothing_was_changed(words: list[str]) -> None:
    read = "geolookup.state.base.current:read_current"
    where = "geolookup.state.publishing.verify:verify" if words == ["verify"] else read
    assert signalled(where, *words).startswith((": nothing was changed", ": what it answered before is right"))


# A service


class Interrupting(Upstream):
    """A service that interrupts its client at a request, which it has carried out, and does not answer it."""

    def __init__(self, is_it: Callable[[str, str], bool]) -> None:
        super().__init__(Dials(), Random(1), time.monotonic)
        self.is_it = is_it
        self.number = signal.SIGINT
        self.client: subprocess.Popen[bytes] | None = None

    def handle(self, method: str, target: str, headers: Any, body: bytes) -> Any:
        """Answer a request, or interrupt who sent it."""
        answer = super().handle(method, target, headers, body)
        if self.client is not None and self.is_it(method, target):
            client, self.client = self.client, None
            while not waits(client):  # for the answer
                time.sleep(0.01)
            client.send_signal(self.number)
            client.wait(60)
        return answer


@pytest.fixture
def service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[tuple[Interrupting, Person]]:
    """A service, and a person whose state is of it, with three places that wait to be sent."""
    upstream = Interrupting(lambda _method, _target: False)
    with OverHttp(upstream) as face:
        monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "served"))
        monkeypatch.setenv("GEOLOOKUP_URL", face.url)
        monkeypatch.setenv("GEOLOOKUP_SETTLE_S", "0.1")
        person = Person(upstream, capsys)
        person("sync")
        for city in ("Berlin", "Bonn", "Ulm"):
            person("custom", "create", *(f"--{name}={value}" for name, value in {**BERLIN, "city": city}.items()))
        yield upstream, person


def interrupted(
    upstream: Interrupting,
    at: Callable[[str, str], bool],
    *words: str,
    number: signal.Signals = signal.SIGINT,
) -> str:
    """What a command says that the service interrupts at such a request."""
    upstream.is_it, upstream.number = at, number
    upstream.client = process = command(*words)  # no fork: another process waits for that
    return said(process, number)


@BOTH
def test_a_push_says_what_was_sent_and_the_next_one_sends_nothing_twice(
    service: tuple[Interrupting, Person], number: signal.Signals
) -> None:
    upstream, person = service
    creates = iter(range(10))
    words = interrupted(upstream, lambda method, _: method == "POST" and next(creates) == 1, "push", number=number)
    assert words == (
        ": 1 of 3 edits reached the service, the next push asks the service what became of 1 before it sends anything "
        "again, 1 waits; `geolookup push` goes on from there"
    )
    until = time.monotonic() + 60
    while run(["push"]) != 0 and time.monotonic() < until:  # what was under way has to settle
        time.sleep(0.1)
    assert sorted(city for city, _ in person.there.values()) == ["Berlin", "Bonn", "Ulm"]


def test_a_sync_says_what_goes_on_serving(service: tuple[Interrupting, Person]) -> None:
    upstream, person = service
    words = interrupted(upstream, lambda method, _: method == "GET", "sync")
    assert words == ": nothing was published, and generation 1 goes on serving; run it again, it begins anew"
    person("sync")


@BOTH
def test_a_refresh_says_both_and_its_monitor_hears_of_it(
    service: tuple[Interrupting, Person], monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    upstream, person = service
    pings: list[tuple[str, bytes]] = []
    handle = upstream.handle

    def or_ping(method: str, target: str, headers: Any, body: bytes) -> Any:
        if target.startswith("/ping"):
            pings.append((target, body))
            return handle("GET", "/geolocations?locid=1", headers, b"")
        return handle(method, target, headers, body)

    monkeypatch.setattr(upstream, "handle", or_ping)
    monkeypatch.setenv("GEOLOOKUP_PING_URL", f"{os.environ['GEOLOOKUP_URL']}/ping")
    sent = iter(range(100))
    words = interrupted(
        upstream,
        lambda method, _: method == "GET" and len(person.there) == 3 and next(sent) == 0,
        "refresh",
        number=number,
    )
    both = "3 of 3 edits reached the service; nothing was published, and generation 1 goes on serving"
    assert words == f": {both}; `geolookup refresh` goes on from there"
    assert [target for target, _ in pings] == ["/ping/start", f"/ping/{128 + number}"]
    assert both.encode() in pings[1][1]


def test_a_check_of_a_service_says_that_nothing_was_changed(service: tuple[Interrupting, Person]) -> None:
    words = interrupted(service[0], lambda method, _: method == "GET", "check", "--source", "service")
    assert words == ": nothing was changed; run it again to know of all rows"


def test_a_check_of_what_is_published_says_how_far_it_came() -> None:
    words = signalled("geolookup.state.publishing.verify:Cache.check", "verify")
    head, _, rest = words.partition(" % of the work: ")
    assert rest == "nothing was changed; what is published was not checked to its end: run it again"
    assert 0 < int(head.removeprefix(" after ")) < 100


@pytest.mark.parametrize("kind", ["own", "countries", "source", "hotels"])
def test_a_service_that_still_loads_says_after_how_many_rows(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "load.csv"
    hotel = json.loads((Path(geolookup_data.__file__).parent / "hotels.ndjson").read_text().splitlines()[0])
    networks = [f"10.{number // 256}.{number % 256}.0/24" for number in range(1500)]
    ends = [(text.replace("/24", ""), text.replace(".0/24", ".255")) for text in networks]
    texts = {
        "own": "locid,startip,endip,country,region,city,postalcode,latitude,longitude,dmacode,areacode\n"
        + "".join(f"1,{first},{last},DE,,,,,,,\n" for first, last in ends),
        "countries": "startip,endip,country\n" + "".join(f"{first},{last},DE\n" for first, last in ends),
        "source": "network,country,city\n" + "".join(f"{text},DE,Bonn\n" for text in networks),
        "hotels": "".join(json.dumps({**hotel, "hotelId": f"H{number}"}) + "\n" for number in range(1500)),
    }
    file.write_text(texts[kind])
    option = "--load-hotels" if kind == "hotels" else "--load"
    where = "store.store:Store.is_empty" if kind == "hotels" else "geolocations.loader:merge.merge"
    words = signalled(f"geolookup.service.{where}", "serve", "--port", 0, "--db", tmp_path / "x.db", option, file)
    assert words == (
        " after 1,500 rows: it did not serve yet; of each kind of data all files are loaded, or none; start it again"
    )


def test_a_service_that_still_loads_says_that_it_never_served(tmp_path: Path) -> None:
    pipe = tmp_path / "endless.csv"
    os.mkfifo(pipe)
    process = command("serve", "--port", 0, "--db", tmp_path / "x.db", "--load", pipe)
    with pipe.open("w") as writing:  # opens when the loader reads
        writing.write("startip,endip,country\n")
        writing.flush()
        process.send_signal(signal.SIGINT)
        assert said(process) == (
            ": it did not serve yet; of each kind of data all files are loaded, or none; start it again"
        )


# All commands


def _leaves(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        if isinstance(found, click.Group):
            yield from _leaves(found, *path, name)
        else:
            yield (*path, name)


def test_every_command_has_words_for_it() -> None:
    for path in _leaves(app):
        assert {path[0], " ".join(path)} & set(interrupt.SAID), path
        interrupt.begin([*path, "--json", "x"])
        assert interrupt.sentence(KeyboardInterrupt()).startswith("interrupted: ")


def test_a_second_ctrl_c_ends_it_without_a_word_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(*_arguments: object) -> str:
        raise KeyboardInterrupt

    error = io.StringIO()
    monkeypatch.setattr(sys, "stderr", error)
    monkeypatch.setattr(interrupt, "sentence", again)
    monkeypatch.setattr("geolookup.state.publishing.verify.verify", lambda _home, **_options: again())
    assert run(["verify"]) == INTERRUPTED
    assert error.getvalue().strip() == ""
