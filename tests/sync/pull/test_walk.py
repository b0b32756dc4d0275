"""What one sync of a file asks for: the state is looked at once, under the run lock, and handed on."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.users.quick_commands import forked
from tests.support.walks import opened_by_the_system

ROWS = "startip,endip,country,city\n8.8.8.0,8.8.8.255,US,Here\n9.9.9.0,9.9.9.255,DE,There\n"


@pytest.fixture
def file(home: str, tmp_path: Path) -> Path:
    """A file that was synced once."""
    path = tmp_path / "places.csv"
    path.write_text(ROWS)
    environment = {**os.environ, "GEOLOOKUP_HOME": home}
    subprocess.run([*forked(), "-m", "geolookup", "sync", path], check=True, capture_output=True, env=environment)
    return path


def test_an_unchanged_sync_opens_what_is_published_once_and_hashes_it_once(
    home: str, file: Path, tmp_path: Path
) -> None:
    counted, found = opened_by_the_system(home, tmp_path / "trace", "sync", str(file))
    # CURRENT before the command, under the run lock, and by the publish that notes when the file was looked at.
    assert counted["CURRENT"] <= 3
    assert sum(count for name, count in counted.items() if name.endswith("/index")) <= 2
    assert sum(count for name, count in counted.items() if name.startswith("custom/0")) <= 2
    assert (found["CURRENT"], found["indexes"]) == (3, 4)
    assert found["moves"] <= 350


def test_a_changed_sync_opens_what_it_replaces_and_what_it_makes(home: str, file: Path, tmp_path: Path) -> None:
    file.write_text(f"{ROWS}1.1.1.0,1.1.1.255,AU,CreatedByCopy\n")
    counted, found = opened_by_the_system(home, tmp_path / "trace", "sync", str(file))
    assert counted["CURRENT"] <= 3
    # What is served twice, as above; the snapshot before, for its numbers, its blocks, and to compare; the new one, to
    # write, for its blocks, to compare, hash and publish.
    assert sum(count for name, count in counted.items() if name.endswith("/index")) <= 10
    assert sum(count for name, count in counted.items() if name.startswith("custom/0")) <= 2
    assert found["CURRENT"] == 3
    assert found["moves"] <= 1200
