"""What one edit walks through: each file is read once, however many parts of the code ask for it.

A move is a call whose caller stands in another file, or the end of a ``with`` whose beginning does. A create that is
not the first makes 137 of them, between 47 files, by 76 ways from one file to another. Who wants fewer should know
what they are. 46 is the least for 47 files, and each of these has one business: the lock, CURRENT, the header of an
index, the session, edits.db, the journal of places and an edit of it, the names of sites, the layer, what a country
is, the index's writer, what is packed or past retention. 6 look whether what is served is whole, 9 read what is laid
over what the service listed, and 10 make the new overlay of that, from locations to sections to a file. Each write to
edits.db adds to its seal, and the backup that follows the edit opens the file and its own, and syncs their directory,
once more; five see that edits.db is the file that was published from, and note what of it is now, and one asks which
numbers are bound.
"""

from pathlib import Path

from tests.support.data.states import place, publish
from tests.support.walks import opened_by_the_system, walked


def test_the_system_is_asked_once_for_each_file(home: str, tmp_path: Path) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    walked(home, "create")  # the first edit makes edits.db
    counted, _ = opened_by_the_system(home, tmp_path / "trace", "create")
    assert {"CURRENT", "edits.db", "generations/000001/index", "generations/000001/cache.db"} <= counted.keys()
    # The backup that follows an edit reads edits.db once more; its own files are SQLite's.
    backup = {name: times for name, times in counted.items() if name.startswith(("edits.backup", "edits.db"))}
    assert backup.pop("edits.db") == 2
    assert {times for name, times in counted.items() if name not in (*backup, "edits.db")} == {1}, counted


def test_one_create_reads_current_once_and_opens_each_file_once(home: str) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    for overlay, most in (("000001", 137), ("000002", 137)):  # the first edit of a state, and a later one
        found = walked(home, "create")
        opened = found["opened"]
        assert {name: opened[name] for name in ("CURRENT", "generations/000001/index", f"custom/{overlay}")} == {
            "CURRENT": 1,
            "generations/000001/index": 1,
            f"custom/{overlay}": 1,
        }
        assert opened.pop("", 0) == 2  # the directory is synced for CURRENT, and for the backup that follows
        copied = ("edits.db", "edits.backup")
        assert max(times for name, times in opened.items() if not name.startswith(copied)) == 1, opened
        assert max(found["listed"].values()) == 1, found["listed"]
        assert ":memory:" not in found["databases_opened"]
        databases = {name: times for name, times in found["databases_opened"].items() if "edits.b" not in name}
        assert databases.pop("edits.db", 2) == 2, found["databases_opened"]
        assert max(databases.values(), default=1) == 1, found["databases_opened"]
        assert found["moves"] <= most, found["moves"]
