"""`geolookup share`: lookups beside downloads, and how soon geoipupdate sees an edit.

Run as ``python -m benchmarks.share``.
"""

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.common import ROOT, arguments, environment, load_average, print_table
from benchmarks.service_list import ask

CLIENTS, FILE_MB = 50, 40
SECONDS, WARM_UP_S = 8.0, 1.0
BLOCKS, EDITS = 100_000, 5
_TARGET_MS, _TARGET_S = 2.0, 15.0
_PATIENCE_S = 300.0
_EDITION = "GeoLite2-City"


@contextlib.contextmanager
def share(home: str, *more: str) -> Iterator[tuple[str, int]]:
    """The share in processes of its own, ready: host and port, and the first one's process id."""
    command = [sys.executable, "-m", "geolookup", "share", "--port", "0", "--edition", _EDITION, *more]
    told = {**environment(), "GEOLOOKUP_HOME": home}
    with subprocess.Popen(command, cwd=ROOT, env=told, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            address = next((line.split("//")[1].split()[0] for line in process.stderr if "sharing on" in line), None)
            if address is None:
                raise SystemExit("the share did not start")
            threading.Thread(target=process.stderr.read, daemon=True).start()
            deadline = time.monotonic() + _PATIENCE_S
            while ask(address, "GET", "/readyz")[0] != 200 and time.monotonic() < deadline:
                time.sleep(0.2)
            yield address, process.pid
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def lookups(address: str, seconds: float) -> Any:
    """Milliseconds of each lookup on one connection, one every 5 ms."""
    host, port = address.split(":")
    found = []
    with socket.create_connection((host, int(port))) as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        until = time.perf_counter() + seconds
        number = 0
        while time.perf_counter() < until:
            number += 1
            request = f"GET /lookup/10.{number % 256}.{number // 256 % 256}.7 HTTP/1.1\r\nHost: {address}\r\n\r\n"
            began = time.perf_counter()
            one.sendall(request.encode())
            answer = b""
            while not answer.endswith(b"}"):  # head and body may come apart
                answer += one.recv(65536)
            found.append((time.perf_counter() - began) * 1000)
            assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
            time.sleep(0.005)
    return np.array(found)


def downloads(address: str, path: str) -> None:
    """Clients that download the file again and again, until this process is ended."""
    host, port = address.split(":")
    request = f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode()
    buffer = bytearray(1 << 20)
    with selectors.DefaultSelector() as waiting:

        def begin() -> None:
            one = socket.create_connection((host, int(port)))
            one.sendall(request)
            one.setblocking(False)
            waiting.register(one, selectors.EVENT_READ)

        for _ in range(CLIENTS):
            begin()
        got, began = 0, time.monotonic()
        while True:
            for key, _ in waiting.select(1.0):
                one: Any = key.fileobj
                size = one.recv_into(buffer)
                got += size
                if not size:
                    waiting.unregister(one)
                    one.close()
                    begin()
            if time.monotonic() - began > 1:
                print(f"{got / (time.monotonic() - began) / 1e6:.0f}", flush=True)
                got, began = 0, time.monotonic()


def _beside(home: str) -> None:
    with share(home) as (address, _):
        path = f"/databases/{_EDITION}.mmdb"
        folder = os.path.join(home, "share", "files")
        # What is sent is of no interest here, its size is: a file of that size takes the database's place.
        whole = os.path.join(folder, ask(address, "GET", path)[1].strip('"'))
        with open(whole, "wb") as file:
            file.write(os.urandom(FILE_MB * 1_000_000))
        lookups(address, WARM_UP_S)
        rows = []
        alone = lookups(address, SECONDS)
        command = [sys.executable, "-m", "benchmarks.share", "--download", address, path]
        with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True) as clients:
            time.sleep(2 * WARM_UP_S)
            beside = lookups(address, SECONDS)
            clients.terminate()
            assert clients.stdout is not None
            rates = [int(line) for line in clients.stdout.read().split()]
        again = lookups(address, SECONDS)
        for title, values in (("alone", alone), (f"beside {CLIENTS} downloads", beside), ("alone again", again)):
            rows.append([title, len(values), *(f"{np.percentile(values, each):.2f}" for each in (50, 99, 99.9))])
        print_table("one lookup every 5 ms", ["", "asked", "p50 ms", "p99 ms", "p99.9 ms"], rows)
        more = np.percentile(beside, 99) - max(np.percentile(alone, 99), np.percentile(again, 99))
        print(f"{FILE_MB} MB each, {np.median(rates or [0]):.0f} MB/s together")
        print(f"p99 beside downloads is {more:+.2f} ms from that alone (target: within {_TARGET_MS} ms)")


def _state(folder: str) -> str:
    home, path = os.path.join(folder, "home"), os.path.join(folder, "blocks.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.write("first,last,country,city\n")
        for number in range(BLOCKS):
            first = (11 << 24) + number * 64
            text = ".".join(str(first >> shift & 255) for shift in (24, 16, 8)) + f".{first & 255}"
            file.write(f"{text},{text.rpartition('.')[0]}.{(first & 255) + 63},DE,Town {number % 5000}\n")
    _run(home, "sync", path)
    return home


def _run(home: str, *words: str) -> str:
    told = {**environment(), "GEOLOOKUP_HOME": home}
    command = [sys.executable, "-m", "geolookup", *words]
    return subprocess.run(command, cwd=ROOT, env=told, check=True, capture_output=True, text=True).stdout


def _edit_until_seen(home: str, folder: str) -> None:
    with share(home) as (address, _):
        config = os.path.join(folder, "GeoIP.conf")
        with open(config, "w", encoding="utf-8") as file:
            file.write(
                f"AccountID 1\nLicenseKey x\nEditionIDs {_EDITION}\nHost http://{address}\nDatabaseDirectory {folder}\n"
            )
        program = os.path.join(os.path.dirname(sys.executable), "pygeoipupdate")
        target = os.path.join(folder, f"{_EDITION}.mmdb")

        def seen() -> float:
            before = os.stat(target).st_ino if os.path.exists(target) else 0
            began = time.perf_counter()
            while not os.path.exists(target) or os.stat(target).st_ino == before:
                subprocess.run([program, "-f", config], check=True, capture_output=True)
            return time.perf_counter() - began

        seen()
        fields = ["--country", "DE", "--latitude", "1", "--longitude", "1"]
        created = _run(home, "custom", "create", *fields, "--city", "Berlin")
        locid = next(word for word in created.split() if word.lstrip("-").isdigit())
        took: list[float] = []
        commands: list[float] = []
        for number in range(EDITS):
            seen_before = time.perf_counter()
            _run(home, "custom", "add-block", locid, f"10.20.{number}.0/24")
            commands.append(time.perf_counter() - seen_before)
            seen()
            took.append(time.perf_counter() - seen_before)
        size = os.path.getsize(target)
        shown = ", ".join(f"{each:.1f}" for each in took)
        print(
            f"an edit with the command until pygeoipupdate has the file ({BLOCKS} blocks, {size / 1e6:.1f} MB): "
            f"{shown} s; worst {max(took):.1f} s (target: {_TARGET_S:.0f} s), the command itself {max(commands):.1f} s"
        )


def main() -> None:
    """Measure both."""
    parser = arguments(__doc__)
    parser.add_argument("--download", nargs=2, metavar=("ADDRESS", "PATH"), help="be the clients that download")
    options = parser.parse_args()
    if options.download:
        downloads(*options.download)
    print(f"load average {load_average()}")
    with tempfile.TemporaryDirectory() as folder:
        home = _state(folder)
        _beside(home)
        _edit_until_seen(home, folder)


if __name__ == "__main__":
    main()
