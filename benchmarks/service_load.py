"""The service under load: requests a second and p99 by operation, beside bad clients; how soon lookups follow."""

import contextlib
import json
import os
import random
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any
from urllib.parse import quote

import numpy as np

from benchmarks.common import ROOT, arguments, child, environment, load_average, peak_mib, print_table
from benchmarks.data import FULL, SMALL, DataSet
from benchmarks.service_list import ask, databases
from geolookup.service.geolocations.loader import load_files
from geolookup.service.lookup_index import Compiler
from geolookup.service.store.store import Store

#: Client processes, and connections of each; every connection asks again as soon as it was answered.
PROCESSES, CONNECTIONS = 2, 8
SECONDS, WARM_UP_S = 4.0, 1.0
_PATIENCE_S = 120.0
_FIELDS = {
    "country": "DE", "region": "BE", "city": "Berlin", "postalcode": "10115", "latitude": 52.5, "longitude": 13.4,
    "dmacode": "", "areacode": "",
}  # fmt: skip
_SLOW_READERS, _SLOW_SENDERS, _LARGE = 20, 50, 2


@contextlib.contextmanager
def service(database: str, workers: int) -> Iterator[str]:
    """The service in processes of its own, ready: host and port."""
    command = [sys.executable, "-m", "geolookup", "serve", "--db", database, "--port", "0", "--workers", str(workers)]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            address = next((line.split("//")[1].split()[0] for line in process.stderr if "serving on" in line), None)
            if address is None:
                raise SystemExit("the service did not start")
            deadline = time.monotonic() + _PATIENCE_S
            while ask(address, "GET", "/readyz")[0] != 200 and time.monotonic() < deadline:
                time.sleep(0.2)
            yield address
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


# --- what clients ask


def _request(method: str, path: str, body: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body


def _lookups(data: DataSet, seed: int, _locid: int) -> Iterator[bytes]:
    addresses = data.covered4(5000, np.random.default_rng(seed))
    while True:
        for address in addresses:
            yield _request("GET", f"/lookup/{address}")


def _many(data: DataSet, seed: int, _locid: int) -> Iterator[bytes]:
    rng = np.random.default_rng(seed)
    bodies = [json.dumps(data.covered4(100, rng)).encode() for _ in range(50)]
    while True:
        for body in bodies:
            yield _request("POST", "/lookup", body)


def _lists(data: DataSet, seed: int, _locid: int) -> Iterator[bytes]:
    places = [(place.country, place.city) for place in data.places()]
    chosen = random.Random(seed)
    while True:
        country, city = chosen.choice(places)
        yield _request("GET", f"/geolocations?country={country}&city={quote(city)}")


def _blocks(_data: DataSet, _seed: int, locid: int) -> Iterator[bytes]:
    # No block twice in one database: it would be another geolocation's.
    for number in range(1 << 16):
        text = f"10.{-locid & 255}.{number >> 8}.{number & 255}"
        body = json.dumps({"startip": text, "endip": text}).encode()
        yield _request("POST", f"/geolocations/ipblocks?locid={locid}", body)


_KINDS: dict[str, tuple[str, Callable[[DataSet, int, int], Iterator[bytes]]]] = {
    "lookup": ("lookup of one address", _lookups),
    "many": ("lookup of 100 addresses", _many),
    "list": ("list, by country and city", _lists),
    "block": ("block creation", _blocks),
}


# --- one client process: raw sockets, since an HTTP library would take longer for a request than the service does


class _Connection:
    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=_PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""
        self.began = 0.0

    def ask(self, request: bytes) -> None:
        self.received = b""
        self.began = time.perf_counter()
        self.socket.sendall(request)

    def whole(self, request: bytes) -> Any:
        """The JSON of the answer, waited for."""
        self.ask(request)
        while self.answered() is None:
            pass
        return json.loads(self.received.partition(b"\r\n\r\n")[2])

    def answered(self) -> int | None:
        """Take what has come: the status once the answer is whole, None until then."""
        piece = self.socket.recv(1 << 18)
        if not piece:
            raise SystemExit("the service closed a connection")
        self.received += piece
        head, end, body = self.received.partition(b"\r\n\r\n")
        if not end:
            return None
        lower = head.lower()
        _, named, length = lower.partition(b"content-length: ")
        whole = len(body) >= int(length.partition(b"\r")[0]) if named else body.endswith(b"0\r\n\r\n")
        return int(head[9:12]) if whole else None


def _client(data: DataSet, kind: str, address: str, seed: int, locid: int, seconds: float) -> None:
    """Ask for ``seconds`` over several connections: print the milliseconds of each answer, and the refusals."""
    requests = _KINDS[kind][1](data, seed, locid)
    connections = [_Connection(address) for _ in range(CONNECTIONS)]
    selector = selectors.DefaultSelector()
    first = next(requests)
    print("ready", flush=True)
    sys.stdin.readline()
    taken: list[float] = []
    refused = 0
    began = time.perf_counter()
    for number, connection in enumerate(connections):
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.ask(first if number == 0 else next(requests))
    counted_from, until = began + WARM_UP_S, began + WARM_UP_S + seconds
    while time.perf_counter() < until:
        for key, _ in selector.select(1.0):
            connection = key.data
            status = connection.answered()
            if status is None:
                continue
            now = time.perf_counter()
            if connection.began >= counted_from:
                taken.append(round((now - connection.began) * 1e3, 3))
                refused += not 200 <= status < 300
            connection.ask(next(requests))
    print(json.dumps({"ms": taken, "refused": refused}), flush=True)


def load(options: Any, kind: str, address: str, seconds: float) -> tuple[float, float, float, int]:
    """Requests a second, median and 99th percentile in milliseconds, and how many were refused."""
    command = [sys.executable, "-m", "benchmarks.service_load", "--data", options.data]
    command += ["--seconds", str(seconds), "--child", "client", kind, address]
    with contextlib.ExitStack() as stack:
        clients = []
        for seed in range(PROCESSES):
            words = [*command, str(seed), str(_create(address))]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            clients.append(
                stack.enter_context(subprocess.Popen(words, cwd=ROOT, env=environment(), text=True, **pipes))
            )
        for client in clients:
            assert client.stdout is not None
            client.stdout.readline()
        for client in clients:
            assert client.stdin is not None
            client.stdin.write("go\n")
            client.stdin.close()
        printed = [json.loads(client.stdout.read()) for client in clients if client.stdout is not None]
    taken = np.array([one for found in printed for one in found["ms"]])
    rate = len(taken) / seconds
    return rate, float(np.median(taken)), float(np.percentile(taken, 99)), sum(found["refused"] for found in printed)


def _create(address: str) -> int:
    return int(_Connection(address).whole(_request("POST", "/geolocations", json.dumps(_FIELDS).encode()))["locid"])


# --- how soon lookups follow


def _seen_ms(address: str, edits: int) -> list[float]:
    """Milliseconds from the answer to the creation of a block until a lookup shows it, for each of some."""
    connection = _Connection(address)
    locid = _create(address)
    taken = []
    for number in range(edits):
        text = f"172.16.{-locid & 255}.{number}"
        body = json.dumps({"startip": text, "endip": text}).encode()
        connection.whole(_request("POST", f"/geolocations/ipblocks?locid={locid}", body))
        began = time.perf_counter()
        while connection.whole(_request("GET", f"/lookup/{text}"))["locid"] != locid:
            time.sleep(0.002)
            if time.perf_counter() > began + _PATIENCE_S:
                raise SystemExit(f"{text}: lookups do not show what was written")
        taken.append((time.perf_counter() - began) * 1e3)
        time.sleep(0.05)
    return taken


def _compile(database: str) -> None:
    """Compile the default layer of a copy of the database: print the seconds and this process's peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "service.db")
        shutil.copy2(database, copy)  # opening one of an older schema changes it
        with Store.open(copy) as store:
            began = time.perf_counter()
            Compiler(store, None, lambda: False).default_layer()
            print(json.dumps([time.perf_counter() - began, peak_mib()]))


# --- bad clients


def _bad(address: str) -> None:
    """Until standard input ends: read lists slowly, send heads slowly, and send bodies that are too large."""
    readers = [_Connection(address) for _ in range(_SLOW_READERS)]
    for reader in readers:
        reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.ask(_request("GET", "/geolocations"))
    senders = [_Connection(address) for _ in range(_SLOW_SENDERS)]
    for sender in senders:
        sender.socket.sendall(b"GET /geolocations HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
    large = _request("POST", "/lookup", b"[" + b" " * (1 << 20))
    os.set_blocking(sys.stdin.fileno(), False)
    print("ready", flush=True)
    while sys.stdin.read(1) != "":
        for number, reader in enumerate(readers):
            if not reader.socket.recv(1024):
                readers[number] = _Connection(address)
                readers[number].ask(_request("GET", "/geolocations"))
        for number, sender in enumerate(senders):
            try:
                sender.socket.sendall(b"x")
            except OSError:  # its time was over
                senders[number] = _Connection(address)
        for _ in range(_LARGE):
            with contextlib.suppress(OSError), contextlib.closing(_Connection(address).socket) as one:
                one.sendall(large)
                one.recv(4096)
        time.sleep(0.05)


@contextlib.contextmanager
def bad_clients(options: Any, address: str) -> Iterator[None]:
    """Beside whatever is measured."""
    command = [sys.executable, "-m", "benchmarks.service_load", "--data", options.data, "--child", "bad", address]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, env=environment(), text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        time.sleep(1)
        try:
            yield
        finally:
            process.stdin.close()


def main() -> None:
    """Print both tables."""
    parser = arguments(__doc__)
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="how long each is measured (default: %(default)s)"
    )
    options = parser.parse_args()
    data = DataSet(SMALL, options.data)
    if options.child:
        task, *words = options.child
        if task == "client":
            kind, address, seed, locid = words
            _client(data, kind, address, int(seed), int(locid), options.seconds)
        elif task == "compile":
            _compile(*words)
        else:
            _bad(*words)
        return
    rows = []
    beside = []
    followed = []
    with databases() as found:
        for name, database in found.items():
            with Store.open(database) as store:
                load_files(store, [data.blocks_csv])
            for workers in (1, 2):
                with service(database, workers) as address:
                    seen = _seen_ms(address, 40)
                    followed.append((name, workers, f"{median(seen):.0f}", f"{max(seen):.0f}"))
                    for kind, (title, _) in _KINDS.items():
                        rate, middle, p99, refused = load(options, kind, address, options.seconds)
                        rows.append((title, name, workers, f"{rate:,.0f}", f"{middle:.1f}", f"{p99:.1f}", refused))
                        if kind == "lookup":
                            alone = (rate, p99)
                    with bad_clients(options, address):
                        rate, _, p99, refused = load(options, "lookup", address, options.seconds)
                    beside.append(
                        (name, workers, f"{alone[0]:,.0f}", f"{alone[1]:.1f}", f"{rate:,.0f}", f"{p99:.1f}", refused)
                    )
    print_table(
        f"The service with {data.describe()}; {PROCESSES * CONNECTIONS} connections that ask without pause",
        ("operation", "database", "workers", "a second", "median ms", "p99 ms", "refused"),
        sorted(rows, key=lambda row: [title for title, _ in _KINDS.values()].index(str(row[0]))),
        f"{PROCESSES} client processes share the machine's cores with the service; load average {load_average()}",
    )
    print_table(
        f"Lookups beside {_SLOW_READERS} slow readers of the whole list, {_SLOW_SENDERS} who send a head byte by byte, "
        "and bodies of 1 MiB",
        ("database", "workers", "a second alone", "p99 ms alone", "a second beside", "p99 ms beside", "refused"),
        beside,
    )

    print_table(
        "From the answer to a block's creation until a lookup shows it",
        ("database", "workers", "median ms", "maximum ms"),
        followed,
        "by contract a second at the most",
    )
    sizes = (SMALL,) if options.small else (SMALL, FULL)
    compiled = []
    for size in sizes:
        database = DataSet(size, options.data).service_db
        seconds, mib = json.loads(child("service_load", "compile", database, data=options.data))
        compiled.append((f"{size.blocks:,} blocks", f"{seconds:.1f}", f"{mib:.0f}"))
    print_table("The first index of a service on SQLite", ("data", "seconds", "peak MiB"), compiled)


if __name__ == "__main__":
    main()
