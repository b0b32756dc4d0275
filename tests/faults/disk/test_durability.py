"""Power cuts: whatever CURRENT names is synced before CURRENT is renamed, and each of those syncs is needed."""

from pathlib import Path

import pytest

from geolookup.state.base.parts import SERVICE
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running
from tests.faults.disk.watched_disk import WatchedDisk
from tests.state.generations.staged import staged, stamped
from tests.support.data.states import publish

#: Every sync of a first publish, in order.
FIRST_PUBLISH = [
    "..",  # the state directory's own name
    ".",  # generations' name
    ".",  # custom's name
    ".",  # snapshots' name
    # The snapshot, while it is still a candidate:
    "generations/*/cache.db",
    "generations/*/index",
    "generations/*/report.json",
    "generations/*",
    # the generation that is made of it, whose index is the snapshot's by another name:
    "generations/*/report.json",
    "generations/*",
    "custom/*",
    "snapshots",
    "generations",
    "custom",
    "*",  # CURRENT's temporary
    ".",
]
#: Every sync of a later one, which finds the folders.
LATER_PUBLISH = FIRST_PUBLISH[4:]


def test_all_that_current_names_is_synced_before_it_is_renamed(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = WatchedDisk(home, monkeypatch)
    publish(home, stamped(1))
    assert disk.synced == FIRST_PUBLISH
    publish(home, stamped(2))
    assert disk.synced == FIRST_PUBLISH + LATER_PUBLISH
    assert (disk.problems, disk.lost_at_a_power_cut()) == ([], [])


@pytest.mark.parametrize("skip", sorted(set(FIRST_PUBLISH)))
def test_a_publish_without_any_one_of_its_syncs_would_be_lost_in_part(
    home: str, monkeypatch: pytest.MonkeyPatch, skip: str
) -> None:
    disk = WatchedDisk(home, monkeypatch, skip=skip)
    publish(home, stamped(1))
    assert disk.problems + disk.lost_at_a_power_cut() != []


@pytest.mark.parametrize("skip", sorted(set(LATER_PUBLISH)))
def test_a_later_publish_needs_each_of_its_syncs_as_well(home: str, monkeypatch: pytest.MonkeyPatch, skip: str) -> None:
    disk = WatchedDisk(home, monkeypatch)
    publish(home, stamped(1))
    disk.skip = skip
    publish(home, stamped(2))
    assert disk.problems + disk.lost_at_a_power_cut() != []


def test_an_edit_a_confirmation_and_an_acceptance_are_durable_when_they_return(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = WatchedDisk(home, monkeypatch)
    publish(home, stamped(1))
    directory = StateDirectory(home)
    begun = len(disk.synced)
    directory.republish()
    assert disk.synced[begun:] == ["custom/*", "custom", "*", "."]
    with running(directory) as run:
        begun = len(disk.synced)
        run.confirm(etag='"x"')
        assert disk.synced[begun:] == ["*", "."]
    with staged(directory, stamped(2)) as candidate:
        directory.holding.hold(candidate, SERVICE)
        assert disk.lost_at_a_power_cut() == []
    with running(directory) as run:
        held = directory.held()
        assert held is not None
        run.publish(held)
    assert (disk.problems, disk.lost_at_a_power_cut()) == ([], [])


def test_the_parents_that_a_new_state_directory_needs_are_synced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = WatchedDisk(str(tmp_path), monkeypatch)
    publish(str(tmp_path / "a" / "b" / "state"), stamped(1))
    assert disk.lost_at_a_power_cut() == []
