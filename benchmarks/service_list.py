"""The whole list from the reference service, on SQLite and on PostgreSQL: loading it, sending it, and the memory."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from statistics import median
from urllib.parse import urlsplit

from benchmarks.common import MIB, ROOT, arguments, child, environment, load_average, peak_mib, print_table
from benchmarks.data import FULL, SMALL, DataSet

_PIECE_BYTES = 1 << 20
_PATIENCE_S = 600.0


@contextlib.contextmanager
def service(database: str) -> Iterator[tuple[str, int]]:
    """The reference service in a process of its own, ready: host and port, and its process id."""
    command = [sys.executable, "-m", "geolookup", "serve", "--db", database, "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if "serving on" in line:
                    address = urlsplit(line.split()[-1]).netloc
                    break
            else:
                raise SystemExit("the service did not start")
            deadline = time.monotonic() + _PATIENCE_S
            # It compiles its index for lookups first, which takes memory of its own.
            while ask(address, "GET", "/readyz")[0] != 200 and time.monotonic() < deadline:
                time.sleep(0.5)
            yield address, process.pid
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def ask(address: str, method: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, str, int, float]:
    """One request, its answer thrown away as it comes: status, ETag, bytes, seconds."""
    connection = http.client.HTTPConnection(address, timeout=_PATIENCE_S)
    began = time.perf_counter()
    connection.request(method, path, headers=headers or {})
    answer = connection.getresponse()
    size = 0
    while piece := answer.read(_PIECE_BYTES):
        size += len(piece)
    elapsed = time.perf_counter() - began
    connection.close()
    return answer.status, answer.headers.get("ETag", ""), size, elapsed


def forget_peak(pid: int) -> float:
    """Begin anew to look for a process's peak (Linux: proc(5), clear_refs): the memory that it has now, in MiB."""
    with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    return status_mib(pid, "VmRSS")


def status_mib(pid: int, name: str) -> float:
    """A size from a process's status, in MiB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(name))


@contextlib.contextmanager
def databases() -> Iterator[dict[str, str]]:
    """An empty database of each kind: what to call it, and what `Store.open` takes."""
    from tests.support.services import postgres

    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        found = {"SQLite": os.path.join(folder, "service.db")}
        if postgres.programs() is not None:
            # With fsync, and else as Debian sets it up, shared buffers of 128 MiB among it.
            server = postgres.PostgresServer(careful=True, shared_buffers="128MB", autovacuum="on")
            stack.callback(server.stop)
            found["PostgreSQL"] = stack.enter_context(server.database())
        yield found


def _load(database: str, csv: str) -> None:
    from geolookup.service.geolocations.loader import load_files
    from geolookup.service.store.store import Store

    began = time.perf_counter()
    with Store.open(database) as store:
        load_files(store, [csv])
    print(json.dumps([time.perf_counter() - began, peak_mib()]))


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how many times each is measured (default: 3)")
    options = parser.parse_args()
    if options.child:
        _load(*options.child)
        return
    data = DataSet(SMALL if options.small else FULL, options.data)
    csv = data.blocks_csv
    rows: list[tuple[str, ...]] = []
    with databases() as found:
        for name, database in found.items():
            loaded_s, loading_mib = json.loads(child("service_list", database, csv, data=options.data))
            with service(database) as (address, pid):
                times, size, idle, peak = [], 0, 0.0, 0.0
                for _ in range(options.rounds):
                    idle = forget_peak(pid)
                    status, tag, size, elapsed = ask(address, "GET", "/geolocations")
                    if status != 200:
                        raise SystemExit(f"the list was answered by {status}")
                    times.append(elapsed)
                    peak = max(peak, status_mib(pid, "VmHWM"))
                known = [ask(address, "GET", "/geolocations", {"If-None-Match": tag}) for _ in range(20)]
                head = [ask(address, "HEAD", "/geolocations") for _ in range(5)]
                if {one[0] for one in known} != {304}:
                    raise SystemExit("a list that is known was not answered by 304")
            took = median(times)
            rows.append(
                (
                    name,
                    f"{loaded_s:.1f}",
                    f"{loading_mib:.0f}",
                    f"{took:.1f}",
                    f"{size / MIB / took:.1f}",
                    f"{idle:.0f}",
                    f"{peak:.0f}",
                    f"{1000 * median(one[3] for one in known):.1f}",
                    f"{1000 * median(one[3] for one in head):.0f}",
                )
            )
    columns = ("database", "load s", "peak MiB", "list s", "MiB/s", "idle MiB", "peak MiB", "304 ms", "HEAD ms")
    print_table(
        f"The whole list over loopback: {data.describe()}",
        columns,
        rows,
        f"medians of {options.rounds} lists of {size / MIB:.0f} MiB each (peak: the greatest); load average "
        f"{load_average()}",
        "the service's process has its compiled index besides; the client only receives; PostgreSQL is on this machine",
    )


if __name__ == "__main__":
    main()
