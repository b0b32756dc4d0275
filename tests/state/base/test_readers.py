"""Who may read what is published: a process of another user and group does, and meets nothing that is not for it."""

import grp
import os
import stat
import tempfile
from collections.abc import Iterator
from functools import partial

import pytest

from geolookup.cli.app import run
from geolookup.state.base import readers
from geolookup.sync.opening import open as open_lookup
from tests.support.data.states import place, publish
from tests.support.users.as_nobody import NOBODY, as_nobody, as_root

GROUP = "daemon"


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A state directory that others can reach: pytest's own folders are for one user."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = os.path.join(folder, "state")
        monkeypatch.setenv("GEOLOOKUP_HOME", path)
        yield path


def modes(home: str) -> dict[str, str]:
    found = {}
    for directory, names, others in os.walk(home):
        for name in (*names, *others):
            path = os.path.join(directory, name)
            found[os.path.relpath(path, home)] = oct(stat.S_IMODE(os.lstat(path).st_mode))
    return found


def is_published(path: str) -> bool:
    return path == "CURRENT" or path.partition(os.sep)[0] in ("generations", "snapshots", "custom")


@as_root
def test_a_member_of_the_group_looks_up_and_nobody_else_does(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="US"), place(-5, "9.0.0.0/8")])
    group = grp.getgrnam(GROUP).gr_gid
    assert as_nobody(lambda: run(["8.8.8.8"]), group).returncode != 0
    assert run(["config", "init", "--group", GROUP]) == 0
    assert GROUP in capsys.readouterr().out
    assert as_nobody(lambda: run(["8.8.8.8"]), group).stdout.startswith("8.8.8.8\t")
    assert as_nobody(lambda: run(["8.8.8.8"]), NOBODY).returncode != 0
    # What is published later is for them, too: by a pull, and by an edit.
    publish(home, [place(2, "8.0.0.0/8", country="DE"), place(-5, "9.0.0.0/8")])
    assert run(["custom", "add-block", "-5", "8.8.0.0/16"]) == 0
    for command, expected in (
        (["8.8.8.8"], "custom -5"),
        (["explain", "8.8.8.8"], "for its owner only"),
        (["list"], "city 2"),
        (["status"], "unknown"),
        (["doctor", "--offline"], "this user may look up"),
    ):
        found = as_nobody(partial(run, command), group)
        assert expected in found.stdout, (command, found)
        assert found.returncode == 0, (command, found)
        assert "Traceback" not in found.stderr
    assert "edits.db" in as_nobody(lambda: run(["outbox", "list"]), group).stderr


@as_root
def test_the_edits_locks_and_what_is_held_stay_their_owners(home: str) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    assert run(["config", "init", "--group", GROUP]) == 0
    assert run(["custom", "create", "--country", "DE", "--latitude", "52.5", "--longitude", "13.4"]) == 0
    publish(home, [place(2, "8.0.0.0/8", country="DE")])
    found = modes(home)
    assert {"edits.db", "run.lock", "publish.lock", "CURRENT", "generations/000002/index"} <= set(found)
    for path, mode in found.items():
        if is_published(path):
            assert mode in ("0o640", "0o2750"), path
        else:
            assert int(mode, 8) & 0o077 == 0, path
    assert readers.group_of(home) == grp.getgrnam(GROUP).gr_gid


def test_without_a_group_everything_is_for_its_owner_only(home: str) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    assert readers.group_of(home) is None
    assert all(int(mode, 8) & 0o077 == 0 for mode in modes(home).values())
    # A mode that somebody's umask made says nothing about a group.
    os.chmod(home, 0o755)
    publish(home, [place(2, "8.0.0.0/8", country="US")])
    assert all(int(mode, 8) & 0o077 == 0 for mode in modes(home).values())


def test_an_owner_opens_the_state_for_a_group_of_theirs(home: str) -> None:
    mine = grp.getgrgid(os.getegid()).gr_name
    assert run(["config", "init", "--group", mine]) == 0
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    assert modes(home)["CURRENT"] == "0o640"
    with open_lookup(home) as geo:
        assert geo.lookup("8.8.8.8") is not None


def test_an_unknown_group_and_closed_parents_are_named(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "init", "--group", "daemonn"]) == 2
    assert "unknown group 'daemonn': did you mean daemon?" in capsys.readouterr().err
    assert not os.path.exists(home)
    os.chmod(os.path.dirname(home), 0o700)
    mine = grp.getgrgid(os.getegid()).gr_name
    assert run(["config", "init", "--group", mine]) == 0
    assert f"may not enter {os.path.dirname(home)}" in capsys.readouterr().err
