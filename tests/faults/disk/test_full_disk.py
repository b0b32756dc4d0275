"""Full and read-only disks, and calls that fail: what was published goes on serving, and nothing is left behind."""

import errno
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import geolookup
from geolookup.cli import exit_codes
from geolookup.cli.app import run as run_command
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import GeoLookupError, StateError, StateUnwritableError
from geolookup.settings.table import Settings
from geolookup.state.base import files
from geolookup.state.editor import Editor
from geolookup.state.edits.store import Edits
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import verify
from geolookup.sync.pull.pull import pull
from tests.faults.raw_server import RawServer
from tests.state.generations.staged import served, stamped, strays, tree
from tests.support.data.lists import listed, many
from tests.support.data.states import place, publish
from tests.support.data.three_sources import settings_of, sync_three, write_files
from tests.support.small_disk import small as small  # a fixture

CALLS = ("open", "fsync", "rename", "mkdir", "listdir", "statvfs")
CODES = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT, errno.EACCES, errno.EMFILE)


# Every call fails once


class Faults:
    """From `arm` on, counts the calls that may fail; those whose numbers ``fails`` accepts do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.calls = 0

    def arm(self, fails: Callable[[int], bool] = lambda _number: False) -> None:
        self.calls = 0

        def faulty(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*given: Any, **options: Any) -> Any:
                self.calls += 1
                if fails(self.calls):
                    code = CODES[self.calls % len(CODES)]
                    raise OSError(code, os.strerror(code))
                return real(*given, **options)

            return call

        for name in CALLS:
            self._monkeypatch.setattr(os, name, faulty(getattr(os, name)))

    def disarm(self) -> None:
        self._monkeypatch.undo()


@pytest.mark.parametrize("for_good", [False, True], ids=["once", "from then on"])
def test_whichever_call_fails_the_error_is_ours_and_what_serves_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, for_good: bool, full_sweep: bool
) -> None:
    template, home = str(tmp_path / "before"), str(tmp_path / "state")
    publish(template, stamped(1))
    faults = Faults(monkeypatch)
    shutil.copytree(template, home)
    faults.arm()
    publish(home, stamped(2), keep=1)
    faults.disarm()
    calls = faults.calls
    assert calls > 30
    failed = 0
    for number in range(1, calls + 1, 1 if full_sweep else 3):
        shutil.rmtree(home)
        shutil.copytree(template, home)
        faults.arm(lambda call, number=number: call >= number if for_good else call == number)  # type: ignore[misc]
        error = None
        try:
            publish(home, stamped(2), keep=1)
        except StateError as caught:
            error = caught
            failed += 1
        finally:
            faults.disarm()
        found = served(home)
        assert found in ((1, {"1"}), (2, {"2"})), number
        assert verify(home) == [], number
        if error is None:
            assert found == (2, {"2"}), number
        if not for_good:  # where nothing works any more, nothing can be removed either: that is for the next run
            with_what_was_replaced = [name for name in strays(home) if found[0] == 1]
            assert with_what_was_replaced == [], number
        publish(home, stamped(3), keep=1)
        assert (served(home)[1], verify(home), strays(home)) == ({"3"}, [], []), number
    assert failed > 10


@pytest.mark.parametrize("for_good", [False, True], ids=["once", "from then on"])
def test_whichever_call_of_a_sync_of_several_sources_fails_what_serves_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, for_good: bool, full_sweep: bool
) -> None:
    """A source that fails answers as before, and the others may be published."""
    template, home = str(tmp_path / "before"), str(tmp_path / "state")
    sync_three(template, 1, None)
    write_files(str(tmp_path), 2)
    settings = settings_of(str(tmp_path), None)
    faults = Faults(monkeypatch)
    shutil.copytree(template, home)
    faults.arm()
    pull(StateDirectory(home, keep_generations=1), settings)
    faults.disarm()
    calls = faults.calls
    assert calls > 60
    numbers = range(1, calls + 1, 1 if full_sweep else 9)
    failed = 0
    for number in numbers:
        shutil.rmtree(home)
        shutil.copytree(template, home)
        faults.arm(lambda call, number=number: call >= number if for_good else call == number)  # type: ignore[misc]
        try:
            pull(StateDirectory(home, keep_generations=1), settings)
        except GeoLookupError:
            failed += 1
        finally:
            faults.disarm()
        with GeoLookup(home) as geo:
            cities = [match and match.geolocation.city for match in map(geo.match, ("10.1.1.1", "2001:db8::1"))]
        assert set(cities) <= {"1", "2"}, number
        assert verify(home) == [], number
        pull(StateDirectory(home, keep_generations=1), settings)
        with GeoLookup(home) as geo:
            assert [geo.lookup(each).city for each in ("10.1.1.1", "2001:db8::1")] == ["2", "2"]  # type: ignore[union-attr]
        assert (verify(home), strays(home)) == ([], []), number
    assert failed > len(numbers) // 3


# A small file system


def fill(path: str, free_bytes: int) -> None:
    """Leave that much room, to the page."""
    found = os.statvfs(path)
    with open(os.path.join(path, "filler"), "wb") as file:
        file.write(bytes(found.f_bavail * found.f_frsize - free_bytes))


def without_notes(files_of: dict[str, Any]) -> dict[str, Any]:
    """The files of a state but for these: edits.db and its backup count the start of every list, failures.json says
    what failed, and the lock has the begin of the last run."""
    notes = {"edits.db", "edits.backup.1.db", "failures.json", "run.lock"}
    return {name: content for name, content in files_of.items() if name not in notes}


def test_a_disk_that_fills_up_anywhere_in_a_sync_leaves_the_old_state_and_no_litter(
    small: str, monkeypatch: pytest.MonkeyPatch, full_sweep: bool
) -> None:
    home = os.path.join(small, "state")
    monkeypatch.setattr(files, "require_space", lambda _path, _bytes: None)
    first, second = listed(many(40), count=40), listed(many(41), count=41)
    with RawServer(first, second) as server:
        settings = Settings(url=server.url, attempts=1)
        pull(StateDirectory(home), settings)
        before = without_notes(tree(home))
        failed = 0
        with GeoLookup(home) as geo:
            for free_kib in range(0, 4000, 4 if full_sweep else 80):
                fill(small, free_kib << 10)
                try:
                    pull(StateDirectory(home), settings)
                    break
                except StateUnwritableError as error:
                    failed += 1
                    reason, code = str(error), exit_codes.of_error(error)
                finally:
                    os.unlink(os.path.join(small, "filler"))
                assert "full" in reason
                assert code == exit_codes.FAILED
                assert without_notes(tree(home)) == before, free_kib
                Edits(home).check()
                geo.look_soon()
                found = geo.lookup("10.0.1.1")
                assert found is not None
                assert (found.locid, geo.lookup("10.0.41.1"), geo.status().problem) == (1, None, None)
    assert failed > 8
    assert (verify(home), strays(home)) == ([], [])
    current = StateDirectory(home).current()
    assert current is not None
    assert current.generation == 2


def test_on_a_full_disk_the_command_answers_and_its_sync_fails_with_a_reason(small: str) -> None:
    home = os.path.join(small, "state")
    publish(home, stamped(1))
    before = tree(home)
    fill(small, 0)

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "geolookup", *arguments],
            env={**os.environ, "GEOLOOKUP_HOME": home},
            capture_output=True,
            text=True,
            check=False,
        )

    with RawServer(listed(many(40), count=40)) as server:
        done = run("sync", "--url", server.url)
    assert (done.returncode, done.stdout) == (exit_codes.FAILED, "")
    assert "make room there" in done.stderr
    assert "Traceback" not in done.stderr
    answered = run("10.1.1.1", "192.168.1.1")
    assert (answered.returncode, answered.stdout.count("\n"), answered.stderr) == (0, 2, "")
    assert tree(home) == before


def test_on_a_read_only_disk_lookups_go_on_and_whatever_writes_is_refused(small: str) -> None:
    home = os.path.join(small, "state")
    publish(home, stamped(1))
    publish(home, stamped(2))
    directory = StateDirectory(home)
    directory.edits.record("test", "done")
    before = tree(home)
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)
    attempts: list[Callable[[], object]] = [
        lambda: publish(home, stamped(3)),
        directory.republish,
        directory.keeping.rollback,
        lambda: directory.edits.record("test", "again"),
        lambda: StateDirectory(os.path.join(small, "another")).locks.run().__enter__(),
    ]
    with geolookup.open(home) as geo:
        for attempt in attempts:
            with pytest.raises(StateUnwritableError, match=r"read-?only"):
                attempt()
            place = geo.lookup("10.1.1.1")
            assert place is not None
            assert place.city == "2"
        assert len(geo.explain("10.1.1.1").covering) == 1
    assert verify(home) == []
    assert tree(home) == before


def test_on_a_read_only_disk_the_command_shows_plans_exports_and_checks_custom_geolocations(
    small: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = os.path.join(small, "state")
    publish(home, [place(1, "10.0.0.0/8"), place(-1, "10.9.0.0/16", city="Berlin", latitude=52.5, longitude=13.25)])
    Editor(home).add_block(-1, "10.20.0.0/16")
    sites = os.path.join(os.path.dirname(small), "sites.toml")
    before = tree(home)
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)
    monkeypatch.setenv("GEOLOOKUP_HOME", home)

    def run(*arguments: str, stdin: str = "") -> str:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = run_command(["custom", *arguments])
        printed = capsys.readouterr()
        assert (code, printed.err) == (exit_codes.DONE, "")
        return printed.out

    assert run("export", sites) == f"wrote 1 site to {sites}\n"
    assert run("plan", sites).endswith("= Berlin (-1) is there already\nnothing to change\n")
    with open(sites, "a", encoding="utf-8") as file:
        copied = Path(sites).read_text(encoding="utf-8").replace("Berlin", "Bonn").replace("10.", "10.1")
        file.writelines(line for line in copied.splitlines(keepends=True) if not line.startswith("made_"))
    told = run("plan", sites, "--addresses", "-", stdin="10.19.0.1\n10.20.0.1\n")
    assert "+ create Bonn" in told
    assert "of 2 addresses, 1 change:" in told
    assert run("check") == "nothing found in 1 custom geolocation with 2 blocks\n"
    assert run("list").startswith("-1\t")
    assert tree(home) == before


# Where nothing can be mounted


def test_where_the_default_state_cannot_be_written_a_command_fails_and_a_fallback_answers(
    default_home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = os.mkdir

    def mkdir(path: Any, *more: Any, **options: Any) -> None:
        if os.fspath(path).startswith(default_home):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        real(path, *more, **options)

    monkeypatch.setattr(os, "mkdir", mkdir)
    assert run_command(["8.8.8.8"]) == 1
    error = capsys.readouterr().err
    assert f"{default_home}: nothing has been published here yet" in error
    assert f"; {default_home}: the file system is read-only)" in error
    monkeypatch.setenv("GEOLOOKUP_FALLBACK", "registry")
    assert run_command(["8.8.8.8"]) == 0
    assert "\tUS\t" in capsys.readouterr().out
    assert not os.path.exists(default_home)


def test_a_restore_on_a_full_disk_says_so_and_blames_no_backup(
    small: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = os.path.join(small, "state")
    publish(home, stamped(1))
    Editor(home).create(country="DE", city="Bonn", latitude=50.7, longitude=7.1)
    StateDirectory(home).edits.back_up()
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    fill(small, 16384)
    assert run_command(["outbox", "restore"]) == exit_codes.FAILED
    said = capsys.readouterr().err
    assert "the disk is full: make room there" in said
    assert "damaged" not in said
    assert "--empty" not in said


def test_a_state_that_is_restored_on_a_full_disk_says_so_and_blames_no_backup(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    template, backup = str(tmp_path / "state"), str(tmp_path / "state.tar.gz")
    publish(template, stamped(1))
    monkeypatch.setenv("GEOLOOKUP_HOME", template)
    assert run_command(["state", "backup", backup]) == 0
    monkeypatch.setenv("GEOLOOKUP_HOME", os.path.join(small, "state"))
    fill(small, 8192)
    assert run_command(["state", "restore", backup]) == exit_codes.FAILED
    said = capsys.readouterr().err
    assert "the disk is full: make room there" in said
    assert "damaged" not in said
