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
from dataclasses import dataclass
from typing import Any

import geolookup
from benchmarks.common import ROOT, arguments, environment, load_average, print_table
from benchmarks.data import FULL, SMALL, DataSet
from benchmarks.figures import record
from benchmarks.sync import service
from geolookup.http.transport import Transport
from geolookup.settings.table import Settings
from geolookup.state.editor import Editor
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from geolookup.sync.push import plan
from geolookup.sync.push.push import push
from geolookup.upstream.geolocations import GeolocationsClient

CUSTOM = 2_000
EDITS = 200
PUSHED = 1_000
CHANGED = 200
GROWING = (2_000, 4_000, 10_000)
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


def _processor_s(process: int) -> float:
    """Seconds of CPU that a process and those that it started have used."""
    with open(f"/proc/{process}/stat", encoding="ascii") as file:
        used = file.read().rpartition(")")[2].split()[11:13]
    own = sum(map(int, used)) / os.sysconf("SC_CLK_TCK")
    return own + sum(map(_processor_s, _children(process)))


def _children(process: int) -> list[int]:
    found = []
    for task in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{task}/children", encoding="ascii") as file:
            found += [int(child) for child in file.read().split()]
    return found


@dataclass(frozen=True, slots=True)
class Pushed:
    """One push: its edits, its seconds, and the seconds of CPU here and in the service."""

    what: str
    edits: int
    seconds: float
    client_s: float
    service_s: float

    def cells(self) -> tuple[str, ...]:
        """A line of the table."""
        each = (f"{seconds / self.edits * 1e3:.2f}" for seconds in (self.seconds, self.client_s, self.service_s))
        return (self.what, f"{self.edits:,}", f"{self.seconds:.2f}", f"{self.edits / self.seconds:.0f}", *each)


def _push(data: DataSet) -> list[Pushed]:
    """Pushes of new geolocations with blocks, of updates and of deletes, to a service with the whole data set."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        database = os.path.join(folder, "service.db")
        shutil.copy2(data.service_db, database)
        url = stack.enter_context(service(database, []))
        (process,) = _children(os.getpid())
        directory = StateDirectory(os.path.join(folder, "state"))
        pull(directory, Settings(url=url))

        def timed(what: str) -> Pushed:
            service_s, client_s = _processor_s(process), time.process_time()
            report = push(directory, Settings(url=url))
            assert not report.queued + report.unknown + report.held + report.rejected, report.as_dict()
            client_s = time.process_time() - client_s
            return Pushed(what, report.done, report.duration_s, client_s, _processor_s(process) - service_s)

        with Editor(directory.home).transaction() as editor:
            made = [editor.create(**_PLACE, city=f"office {number}") for number in range(PUSHED // 2)]
            for number, locid in enumerate(made):
                editor.add_block(locid, _network(number))
        found = [timed("half creates, half blocks")]
        with Editor(directory.home).transaction() as editor:
            for number, locid in enumerate(made[:CHANGED]):
                editor.update(locid, areacode=str(number))
        found.append(timed("updates"))
        with Editor(directory.home).transaction() as editor:
            for locid in made[:CHANGED]:
                editor.delete(locid)
        return [*found, timed("deletes")]


def _grown() -> list[Pushed]:
    """The same with more and more edits: the plan, the push, and the two lists that are read after it."""
    found = []
    for edits in GROWING:
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            url = stack.enter_context(service(os.path.join(folder, "service.db"), []))
            (process,) = _children(os.getpid())
            settings = Settings(url=url)
            with Transport(settings) as transport:  # a service without any geolocation is not believed
                GeolocationsClient(transport).create({**_PLACE, "city": "first"}, idempotency_key="first")
            directory = StateDirectory(os.path.join(folder, "state"))
            pull(directory, settings)
            with Editor(directory.home).transaction() as editor:
                for number in range(edits // 2):
                    here = {"latitude": number % 160 - 80.0, "longitude": number % 350 - 170.0}
                    editor.add_block(editor.create(**{**_PLACE, **here}, city=f"office {number}"), _network(number))
            for what, action in (
                ("plan (--dry-run)", plan.make), ("push", push), ("first sync after it", pull), ("next sync", pull),
            ):  # fmt: skip
                service_s, client_s, began = _processor_s(process), time.process_time(), time.perf_counter()
                report: Any = action(directory, settings)
                took_s, client_s = time.perf_counter() - began, time.process_time() - client_s
                if action is push:
                    assert (report.done, report.requests) == (edits, edits + 1), report.as_dict()
                found.append(Pushed(what, edits, took_s, client_s, _processor_s(process) - service_s))
    return sorted(found, key=lambda each: each.what)


def main() -> None:
    """Print the tables."""
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
    pushed = _push(data)
    record("edits/push/a second", pushed[0].edits / pushed[0].seconds)
    each = ("ms each", "of them client's CPU", "service's CPU")
    print_table(
        "A push over loopback",
        ("what", "edits", "seconds", "edits a second", *each),
        [each_push.cells() for each_push in pushed],
        "each edit is durable at the service before it is answered; up to 64 share the two commits of edits.db",
        "of each update and delete the service is first asked what it has: a list that is filtered by its fields",
        f"one at a time: {ONE_AT_A_TIME} creates or blocks a second; goal {GOAL}; load average {load_average()}",
    )
    print()
    print_table(
        "Half creates, half blocks, over loopback to a service that has nothing else, on the same machine",
        ("what", "edits", "seconds", "edits a second", *each),
        [grown.cells() for grown in _grown()],
        "wanted of 10,000: a push in 30 s, its plan in 3 s, the first sync after it in 5 s, and all of it linear",
        f"load average {load_average()}",
    )


if __name__ == "__main__":
    main()
