"""Edits: from the call to the answer, here and in another process; and how fast a push sends them."""

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import geolookup
from benchmarks.common import ROOT, arguments, environment, load_average, print_table
from benchmarks.data import FULL, SMALL, DataSet
from benchmarks.sync import service
from geolookup.settings.table import Settings
from geolookup.state.directory import StateDirectory
from geolookup.state.edits.editor import Editor
from geolookup.sync.pull.pull import pull
from geolookup.sync.push.push import push

CUSTOM = 2_000
EDITS = 200
PUSHED = 1_000
#: Edits a second: before edits went out in groups (on the machine of RESULTS.md), and what is wanted.
ONE_AT_A_TIME, GOAL = 83, 400
_PLACE: dict[str, Any] = {
    "country": "DE", "region": "BE", "postalcode": "10115", "latitude": 52.5, "longitude": 13.4,
    "dmacode": "", "areacode": "",
}  # fmt: skip


def _network(number: int) -> str:
    return f"10.{number >> 8}.{number & 255}.0/24"


@contextlib.contextmanager
def _copy(home: str) -> Iterator[str]:
    """A copy of a state directory that may be edited; the large files are linked, since nothing changes them."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.dirname(home))) as folder:
        target = os.path.join(folder, "geolookup")
        shutil.copytree(home, target, copy_function=_link, symlinks=True)
        yield target


def _link(source: str, target: str) -> None:
    if os.path.basename(source) in ("cache.db", "index"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def _child(home: str) -> None:
    """Follow the state in another process: print the moment at which each edit was first seen."""
    with geolookup.open(home) as geo:
        print("ready", flush=True)
        for line in sys.stdin:
            address = line.strip()
            while geo.lookup(address) is None:
                time.sleep(0.001)
            print(repr(time.time()), flush=True)


def _visible(home: str, edits: int) -> tuple[list[float], list[float]]:
    """Milliseconds until each edit was seen in this process, and in another."""
    here, elsewhere = [], []
    command = [sys.executable, "-m", "benchmarks.edits", "--child", home]
    with (
        geolookup.open(home) as geo,
        geo.edit() as editor,
        subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other,
    ):
        assert other.stdin is not None
        assert other.stdout is not None
        with editor.transaction():
            for number in range(CUSTOM):
                locid = editor.create(**_PLACE, city=f"office {number}")
                editor.add_block(locid, _network(number))
        other.stdout.readline()
        for number in range(CUSTOM, CUSTOM + edits):
            address = _network(number).removesuffix(".0/24") + ".1"
            began = time.time()
            editor.add_block(locid, _network(number))
            assert geo.lookup(address) is not None
            here.append((time.time() - began) * 1e3)
            if number % 10 == 0:
                other.stdin.write(f"{address}\n")
                other.stdin.flush()
                elsewhere.append((float(other.stdout.readline()) - began) * 1e3)
        other.stdin.close()
    return here, elsewhere


def _push(data: DataSet) -> tuple[float, int]:
    """Seconds and requests of a push of new geolocations, to a service with the whole data set."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        database = os.path.join(folder, "service.db")
        shutil.copy2(data.service_db, database)
        url = stack.enter_context(service(database, []))
        directory = StateDirectory(os.path.join(folder, "state"))
        pull(directory, Settings(url=url))
        with Editor(directory.home).transaction() as editor:
            for number in range(PUSHED // 2):
                locid = editor.create(**_PLACE, city=f"office {number}")
                editor.add_block(locid, _network(number))
        report = push(directory, Settings(url=url))
        assert report.done == PUSHED, report.as_dict()
        return report.duration_s, report.done


def main() -> None:
    """Print both tables."""
    options = arguments(__doc__).parse_args()
    if options.child:
        _child(*options.child)
        return
    data = DataSet(SMALL if options.small else FULL, options.data)
    with _copy(data.home) as home:
        here, elsewhere = _visible(home, EDITS)
    print_table(
        f"An edit of one of {CUSTOM:,} custom geolocations over {data.describe()}, until it is seen",
        ("where", "median ms", "maximum ms", "target ms"),
        [
            ("in the same process", f"{statistics.median(here):.1f}", f"{max(here):.1f}", "20"),
            ("in another process", f"{statistics.median(elsewhere):.0f}", f"{max(elsewhere):.0f}", "1100"),
        ],
    )
    print()
    seconds, edits = _push(data)
    print_table(
        "A push over loopback, half creates and half blocks",
        ("edits", "seconds", "edits a second", "one at a time", "goal"),
        [(f"{edits:,}", f"{seconds:.2f}", f"{edits / seconds:.0f}", ONE_AT_A_TIME, GOAL)],
        "each edit is one durable transaction of the service; up to 64 share the two of edits.db; one connection",
        f"one at a time: what this printed when each edit had two of its own; load average {load_average()}",
    )


if __name__ == "__main__":
    main()
