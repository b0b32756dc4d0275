"""What one edit walks through: each file is read once, however many parts of the code ask for it.

A move is a call whose caller stands in another file, or the end of a ``with`` whose beginning does. A create makes 74
of them, between 35 files, by 46 ways from one file to another; the first one, which makes edits.db, 6 more. Who wants
fewer should know what they are. 34 is the least for 35 files, and each of these has one business: the lock, CURRENT,
the header of an index, edits.db, the outbox and a row of it, the layer, what a country is, the index's writer, what is
packed or past retention. 6 look whether what is served is whole: CURRENT, and both index files by their headers. 4 read
what the service listed, and 5 more come with each edit that is laid over it. 10 make the new overlay, from locations to
sections to a file. 3 hand what must be durable from `state.files`, which says what failed, to `disk`, which does it,
and 3 are ends of a ``with``. What is left is that publishing asks for the time, a number, a name and a mode where those
are decided. To make it 40, many of these files would have to become one.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.faults.kills.traced import why_not
from tests.support.data.states import place, publish

ROOT = Path(__file__).parents[3]

WALK = """
import json, os, sys
from collections import Counter
import geolookup

home, source = sys.argv[1], os.path.dirname(geolookup.__file__)
fields = dict(country="DE", region="", city="", postalcode="", latitude=52.5, longitude=13.4, dmacode="", areacode="")
editor = geolookup.open_editor(home)
opened, listed, databases, moves, walking = Counter(), Counter(), Counter(), Counter(), False

def hook(event, arguments):
    if walking and event in ("open", "os.listdir", "sqlite3.connect"):
        counter = {"open": opened, "os.listdir": listed, "sqlite3.connect": databases}[event]
        if event == "sqlite3.connect" or str(arguments[0]).startswith(home):
            counter[str(arguments[0]).removeprefix(home).split("-")[0]] += 1

def called(frame, event, _):
    file, caller = frame.f_code.co_filename, frame.f_back
    if event != "call" or not file.startswith(source):
        return
    while caller is not None and not caller.f_code.co_filename.startswith(source):
        caller = caller.f_back
    if caller is not None and caller.f_code.co_filename != file:
        moves[f"{caller.f_code.co_filename} {file}"] += 1

def mark(name):  # which the system sees, too
    try:
        os.open(os.path.join(home, name), os.O_RDONLY)
    except FileNotFoundError:
        pass

sys.addaudithook(hook)
mark("BEGINS")
walking = True
sys.setprofile(called)
editor.create(**fields)
sys.setprofile(None)
walking = False
mark("ENDS")
print(json.dumps({"opened": opened, "listed": listed, "databases": databases, "moves": sum(moves.values())}))
"""


def walked(home: str, *command: str) -> dict[str, Any]:
    """One create in a process of its own, whose audit hook cannot be taken back; ``command`` runs it."""
    done = subprocess.run(
        [*command, sys.executable, "-c", WALK, home], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def strace() -> None:
    """What SQLite and the C library open, Python's audit hooks do not see."""
    reason = why_not()
    if reason is not None:
        if os.environ.get("REQUIRE_STRACE") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


def test_the_system_is_asked_once_for_each_file(strace: None, home: str, tmp_path: Path) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    walked(home)  # the first edit makes edits.db
    log = tmp_path / "trace"
    walked(home, "strace", "-f", "-qq", "-e", "trace=open,openat,openat2", "-o", str(log))
    walk = log.read_text().partition("/BEGINS")[2].partition("/ENDS")[0]
    files = re.findall(rf'"{re.escape(home)}/([^"]+)", (?!.*O_DIRECTORY).* = \d+$', walk, re.MULTILINE)
    counted = Counter(re.sub(r"\.tmp-.*", ".tmp", name) for name in files)
    assert {"CURRENT", "edits.db", "generations/000001/index", "generations/000001/cache.db"} <= counted.keys()
    assert set(counted.values()) == {1}, counted


def test_one_create_reads_current_once_and_opens_each_file_once(home: str) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    for overlay, most in (("000001", 80), ("000002", 74)):  # the first edit of a state, and a later one
        found = walked(home)
        opened = found["opened"]
        assert {name: opened[name] for name in ("/CURRENT", "/generations/000001/index", f"/custom/{overlay}")} == {
            "/CURRENT": 1,
            "/generations/000001/index": 1,
            f"/custom/{overlay}": 1,
        }
        assert max(opened.values()) == 1, opened
        assert max(found["listed"].values()) == 1, found["listed"]
        assert ":memory:" not in found["databases"]
        assert max(found["databases"].values()) == 1, found["databases"]
        assert found["moves"] <= most, found["moves"]
