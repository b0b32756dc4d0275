"""What a night and an edit cost a reader of a fleet, beside casync, zchunk, zstd --patch-from and a gzipped MMDB.

A night changes one block in a hundred and one place in ten. Casync and zchunk (Debian's packages), and Zstandard, get
the index as it is; the MMDB is that of the same answers. The simulated readers ask nginx on loopback for what one edit
changed, with real requests, all within ``--every`` seconds; they check each file's SHA-256, and keep none.
"""

import asyncio
import contextlib
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import geolookup
from benchmarks.common import arguments, child, load_average, peak_mib, print_table
from benchmarks.generator import SEED
from geolookup.exports.content import collect
from geolookup.exports.export import database
from geolookup.exports.mmdb.kinds import Kind
from geolookup.fleet import keys, publish, reader
from geolookup.fleet.manifest import CUSTOM, INDEX
from geolookup.fleet.store import Folder
from geolookup.index.builder import IndexBuilder
from geolookup.settings.table import Settings
from geolookup.state.base.candidate import Candidate
from geolookup.state.base.clock import now_text
from geolookup.state.base.current import index_path, read_current
from geolookup.state.generations.cache import CacheWriter
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running

_LARGE, _SMALL = 3_700_000, 200_000
_PLACES = 1 / 25
_PATIENCE_S = 60.0
_COUNTRIES = ("DE", "FR", "IT", "US", "SE", "NO")


class _Nights:
    """A map of IPv4 that changes: the first addresses of its blocks, the place of each, and what is said of places."""

    def __init__(self, blocks: int) -> None:
        self._rng = np.random.default_rng(SEED)
        self._first = (
            np.sort(self._rng.choice(1 << 24, min(blocks, (1 << 24) - 1), replace=False)).astype(np.uint64) << 8
        )
        self._owner = self._rng.integers(0, int(blocks * _PLACES), blocks)
        self._said = self._rng.integers(0, 1 << 30, int(blocks * _PLACES))

    def change(self) -> None:
        """One block in a hundred belongs to another place, or begins elsewhere; one place in ten says other things."""
        some = self._rng.choice(len(self._owner), len(self._owner) // 100, replace=False)
        self._owner[some] = self._rng.choice(self._owner, len(some))
        moved = some[: len(some) // 2]
        self._first[moved] = (self._first[moved] >> np.uint64(8) << np.uint64(8)) + self._rng.integers(
            0, 255, len(moved)
        ).astype(np.uint64)
        places = self._rng.choice(len(self._said), len(self._said) // 10, replace=False)
        self._said[places] = self._rng.integers(0, 1 << 30, len(places))

    def publish(self, home: str) -> None:
        """Publish the map as the next generation."""
        directory = StateDirectory(home)
        with running(directory) as run, run.candidate() as candidate:
            rows = self._write(candidate)
            about = {"source": "nights", "url": None, "etag": None, "began_at": now_text(), "pulled_at": now_text()}
            digest = f"{self._rng.integers(1 << 62):064x}"
            candidate.seal({**about, "name": "nights", "kind": "mmdb", "digest": digest, "rows": rows}, {})
            run.publish(candidate)

    def _write(self, candidate: Candidate) -> dict[str, int | str]:
        builder = IndexBuilder("default", source="nights")
        for number, said in enumerate(self._said.tolist()):
            builder.add_location(
                1 + number, _COUNTRIES[said % 6], f"region {said % 900}", f"town {said % 60_000}",
                f"{said % 99_999:05}", said % 180 - 90 + said % 97 / 97, said % 360 - 180 + said % 89 / 89, "", "",
            )  # fmt: skip
        first = self._first.astype(np.uint32)
        lasts = np.append(first[1:] - np.uint32(1), np.uint32(0xFFFF_FFFF))
        for begin in range(0, len(first), 1 << 18):
            own = slice(begin, begin + (1 << 18))
            builder.extend_columns_v4(first[own], lasts[own], self._owner[own].astype(np.uint32))
        summary = builder.write(candidate.index)
        with CacheWriter(candidate.cache, compact=True) as cache:
            cache.finish({"digest": "0"})
        return {
            "geolocations": summary.locations,
            "blocks": len(self._first),
            "segments_v4": summary.segments_v4,
            "segments_v6": 0,
            "addresses_v4": str(summary.covered_v4),
            "addresses_v6": "0",
        }


@contextlib.contextmanager
def _nginx(folder: str, work: str) -> Iterator[str]:
    """Nginx with two processes on a folder, on loopback."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    conf = os.path.join(work, "nginx.conf")
    Path(conf).write_text(
        f"""worker_processes 2; daemon off; pid {work}/pid; error_log {work}/error.log;
        events {{ worker_connections 12000; }}
        http {{ access_log off; sendfile on; keepalive_requests 100000;
          client_body_temp_path {work}; proxy_temp_path {work}; fastcgi_temp_path {work}; uwsgi_temp_path {work};
          scgi_temp_path {work};
          server {{ listen 127.0.0.1:{port} backlog=8192; root {folder}; }} }}"""
    )
    with subprocess.Popen(["nginx", "-c", conf], stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(100):
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def _bytes(path: str | Path) -> int:
    found = Path(path)
    return (
        sum(each.stat().st_size for each in found.rglob("*") if each.is_file())
        if found.is_dir()
        else found.stat().st_size
    )


def _others(old: str, new: str, work: str) -> dict[str, int]:
    """The bytes that other tools fetch for the same night: of the index, or of an MMDB of the same answers."""
    found = {}
    patch = os.path.join(work, "patch")
    if shutil.which("zstd"):
        command = ["zstd", "-q", "-f", "-12", "--long=27", f"--patch-from={old}", new, "-o", patch]
        subprocess.run(command, check=True)
        found["zstd -12 --patch-from"] = _bytes(patch)
    if shutil.which("zck") and shutil.which("zck_delta_size"):
        for name, path in (("old", old), ("new", new)):
            subprocess.run(
                ["zck", "-o", os.path.join(work, f"{name}.zck"), path], check=True, stdout=subprocess.DEVNULL
            )
        said = subprocess.run(
            ["zck_delta_size", os.path.join(work, "old.zck"), os.path.join(work, "new.zck")],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        told = [line.split() for line in said.splitlines() if "download" in line.lower()]
        numbers = [int(word) for words in told for word in words if word.isdigit()]
        if numbers:
            found["zchunk"] = numbers[0]
    if shutil.which("casync"):
        store = os.path.join(work, "store.castr")
        before = 0
        for name, path in (("old", old), ("new", new)):
            subprocess.run(
                ["casync", "make", f"--store={store}", os.path.join(work, f"{name}.caibx"), path],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            before, found["casync"] = _bytes(store), _bytes(store) - before
        found["casync"] += _bytes(os.path.join(work, "new.caibx"))
    return found


def _mmdb(home: str, path: str) -> int:
    with geolookup.open(home) as geo, open(path, "wb") as out:
        content = geo.with_snapshot(
            lambda snapshot: collect(snapshot, layer="all", source=None, progress=lambda *_: None, records=True)
        )
        encoded, _ = database(content, (), Kind("both"), lambda *_: None)
        with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=6) as packed:
            for part in (*encoded.body, encoded.metadata("GeoLite2-City")):
                packed.write(part)
    return _bytes(path)


def _measure(blocks: int, nights_missed: int, work: str) -> dict[str, object]:
    home, www, ring = (os.path.join(work, name) for name in ("builder", "www", "keys"))
    nights = _Nights(blocks)
    keys.init(ring)
    nights.publish(home)
    with geolookup.open_editor(home) as editor, editor.transaction():
        for number in range(2_000):
            editor.create(
                country="SE", city=f"site {number}", latitude=1.0, longitude=number / 30,
                blocks=[f"10.{number // 250}.{number % 250}.0/24"],
            )  # fmt: skip
    store = Folder(www)
    publish.publish(home, store, keys=ring)
    figures: dict[str, object] = {"blocks": blocks}
    with _nginx(www, work) as url:
        homes = {missed: os.path.join(work, f"reader-{missed}") for missed in (0, 8)}
        root = Path(ring, "root.json").read_bytes()
        for each in homes.values():
            reader.join(StateDirectory(each), Settings(), url, root, where="root")
        for night in range(1, nights_missed + 1):
            old = os.path.join(work, "old")
            shutil.copy(index_path(home, read_current(home).generation), old)
            nights.change()
            nights.publish(home)
            began = time.monotonic()
            publish.publish(home, store, keys=ring)
            figures["publish_s"] = round(time.monotonic() - began, 1)
            if night == 1:
                new = index_path(home, read_current(home).generation)
                figures["index_bytes"] = _bytes(new)
                memory = publish.remembered(home)
                assert memory is not None
                assert memory.manifest is not None
                figures["whole_bytes"] = memory.manifest.files[INDEX].whole.bytes
                figures["others"] = _others(old, new, work) | {"gzipped MMDB": _mmdb(home, os.path.join(work, "db.gz"))}
                found = json.loads(child("fleet", homes[0], data=work))
                figures |= {"night_bytes": found["bytes_read"], "night_way": found["way"],
                            "night_requests": found["requests"],
                            "sync_s": found["seconds"], "sync_mib": found["mib"]}  # fmt: skip
        if nights_missed == 8:
            for name, missed in (("after_8_nights", 8), ("after_7_nights", 0)):
                with running(StateDirectory(homes[missed])) as run:
                    late = reader.sync(run, Settings())
                figures[name] = [late.bytes_read, late.way[INDEX]]
        with geolookup.open_editor(home) as editor:
            editor.create(country="SE", city="one more", latitude=1.0, longitude=1.0, blocks=["10.200.0.0/24"])
        publish.publish(home, store, keys=ring)
        with running(StateDirectory(homes[0])) as run:
            edit = reader.sync(run, Settings())
        figures |= {"edit_bytes": edit.bytes_read, "edit_requests": edit.requests, "edit_s": edit.durations_s["total"]}
        with running(StateDirectory(homes[0])) as run:
            poll = reader.sync(run, Settings())
        figures |= {"poll_bytes": poll.bytes_read, "poll_requests": poll.requests}
        figures["equal"] = _fingerprint(home) == _fingerprint(homes[0])
    return figures


def _fingerprint(home: str) -> str:
    with geolookup.open(home) as geo:
        return geo.fingerprint()


def _sync(home: str) -> None:
    """One sync, in a process of its own."""
    began = time.monotonic()
    with running(StateDirectory(home)) as run:
        found = reader.sync(run, Settings())
    print(json.dumps({**found.as_dict(), "seconds": round(time.monotonic() - began, 2), "mib": round(peak_mib())}))


async def _reader(url: str, name: str, begin_s: float, files: dict[str, tuple[str, str]]) -> tuple[float, int]:
    """One simulated reader: when it asks, the six requests of a changed poll, each checked by its SHA-256.

    Returns the moment at which it was current, and how many bytes it got.
    """
    await asyncio.sleep(begin_s)
    host, _, port = url.removeprefix("http://").partition(":")
    stream, writer = await asyncio.open_connection(host, int(port))
    total = 0
    try:
        for path, (status, sha256) in files.items():
            writer.write(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {name}\r\n\r\n".encode())
            head = (await stream.readuntil(b"\r\n\r\n")).decode()
            length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
            body = await stream.readexactly(length)
            total += len(head) + length
            if head.split()[1] != status or (sha256 and hashlib.sha256(body).hexdigest() != sha256):
                raise SystemExit(f"{path}: {head}")
    finally:
        writer.close()
    return time.monotonic(), total


async def _all_readers(url: str, files: dict[str, tuple[str, str]], readers: int, every_s: float) -> dict[str, float]:
    rng = np.random.default_rng(SEED)
    began = time.monotonic()
    tasks = [_reader(url, f"reader-{number}", float(rng.uniform(0, every_s)), files) for number in range(readers)]
    done = await asyncio.gather(*tasks)
    ends = sorted(end - began for end, _ in done)
    return {
        "readers": readers,
        "poll_s": every_s,
        "requests": readers * len(files),
        "bytes_each": done[0][1],
        "half_current_s": round(ends[len(ends) // 2], 1),
        "all_current_s": round(ends[-1], 1),
    }


def _edits_followed(work: str, edits: int) -> dict[str, object]:
    """So many edits, one after the other: from the call that makes one until a reader that asks each 2 s answers so.

    Builder and reader are processes of their own, as `--print-systemd` prints their units.
    """
    home, www, ring, one = (os.path.join(work, name) for name in ("builder", "www", "keys", "reader"))
    keys.init(ring)
    _Nights(_SMALL).publish(home)
    publish.publish(home, Folder(www), keys=ring)
    command = [sys.executable, "-m", "geolookup", "fleet"]
    waits = []
    with _nginx(www, work) as url, contextlib.ExitStack() as running_:
        reader.join(StateDirectory(one), Settings(), url, Path(ring, "root.json").read_bytes(), where="root")
        for state, words in ((home, ["publish", "--follow"]), (one, ["follow", "--every", "2s"])):
            process = subprocess.Popen(
                [*command, *words], env={**os.environ, "GEOLOOKUP_HOME": state}, stdout=subprocess.DEVNULL
            )
            running_.callback(process.wait)
            running_.callback(process.terminate)
        with geolookup.open(one) as geo, geolookup.open_editor(home) as editor:
            for number in range(edits + 1):
                block = f"10.{number}.0.0/24"
                began = time.monotonic()
                editor.create(country="SE", city=f"Hus {number}", latitude=1.0, longitude=1.0, blocks=[block])
                while (found := geo.lookup(f"10.{number}.0.1")) is None or found.city != f"Hus {number}":
                    if time.monotonic() - began > _PATIENCE_S:
                        raise SystemExit(f"edit {number} did not come within {_PATIENCE_S} s")
                    time.sleep(0.02)
                waits.append(time.monotonic() - began)
    waits = sorted(waits[1:])  # while the first one waited, the two began
    return {"edits": edits, "half_answered_s": round(waits[edits // 2], 1), "all_answered_s": round(waits[-1], 1)}


def _simulate(work: str, readers: int, every_s: float) -> dict[str, float]:
    """That many readers, one publish with an edit, and nginx: until the last reader is current."""
    home, www, ring = (os.path.join(work, name) for name in ("builder", "www", "keys"))
    keys.init(ring)
    _Nights(_SMALL).publish(home)
    with geolookup.open_editor(home) as editor, editor.transaction():
        for number in range(2_000):
            block = f"10.{number // 250}.{number % 250}.0/24"
            editor.create(country="SE", city=f"site {number}", latitude=1.0, longitude=number / 30, blocks=[block])
    store = Folder(www)
    publish.publish(home, store, keys=ring)
    with _nginx(www, work) as url:
        one = os.path.join(work, "reader")
        reader.join(StateDirectory(one), Settings(), url, Path(ring, "root.json").read_bytes(), where="root")
        with geolookup.open_editor(home) as editor:
            editor.create(country="SE", city="one more", latitude=1.0, longitude=1.0, blocks=["10.200.0.0/24"])
        before = set(os.listdir(os.path.join(www, "blobs")))
        publish.publish(home, store, keys=ring)
        memory = publish.remembered(home)
        assert memory is not None
        assert memory.manifest is not None
        step = memory.manifest.files[CUSTOM].steps[-1].blob.sha256
        manifest = memory.manifest_blob
        assert {step, manifest} <= set(os.listdir(os.path.join(www, "blobs"))) - before
        files = {"metadata/2.root.json": ("404", "")}
        for path in (
            "metadata/timestamp.json",
            f"metadata/{memory.snapshot}.snapshot.json",
            f"metadata/{memory.targets}.targets.json",
            f"blobs/{manifest}",
            f"blobs/{step}",
        ):
            files[path] = "200", hashlib.sha256(Path(www, path).read_bytes()).hexdigest()
        return asyncio.run(_all_readers(url, files, readers, every_s))


def main() -> None:
    """Measure, and print three tables."""
    parser = arguments(__doc__)
    parser.add_argument("--readers", type=int, default=5_000, metavar="N", help="so many simulated readers")
    parser.add_argument("--every", type=float, default=30.0, metavar="S", help="how often each of them asks (s)")
    options = parser.parse_args()
    if options.child:
        _sync(*options.child)
        return
    with tempfile.TemporaryDirectory(prefix="fleet-") as work:
        found = _measure(_SMALL if options.small else _LARGE, 1, work)
    others = found["others"]
    assert isinstance(others, dict)
    night, whole = int(str(found["night_bytes"])), int(str(found["whole_bytes"]))
    rows: list[list[object]] = [["geolookup fleet, all that is fetched", night, f"{night / whole:.1%}"]]
    rows += [[name, size, f"{size / whole:.1%}"] for name, size in sorted(others.items(), key=lambda item: item[1])]
    rows += [["the index whole, compressed", whole, "100%"], ["the index", found["index_bytes"], ""]]
    print_table(f"One night of {found['blocks']:,} blocks", ("what", "bytes", "of the index, compressed"), rows)
    names = (
        "edit_bytes",
        "edit_requests",
        "edit_s",
        "poll_bytes",
        "poll_requests",
        "night_requests",
        "sync_s",
        "sync_mib",
    )
    with tempfile.TemporaryDirectory(prefix="fleet-") as work:
        small = _measure(_SMALL, 8, work)
    rows = [[name.replace("_", " "), found[name]] for name in (*names, "publish_s", "equal")]
    rows += [
        [f"{name.replace('_', ' ')}, {_SMALL:,} blocks", small[name]] for name in ("after_7_nights", "after_8_nights")
    ]
    print_table("What a reader fetches and takes", ("what", "figure"), rows)
    with tempfile.TemporaryDirectory(prefix="fleet-") as work:
        followed = _edits_followed(work, 10)
    rows = [[name.replace("_", " "), value] for name, value in followed.items()]
    print_table(
        "From an edit to the answer of a reader that asks each 2 s",
        ("what", "figure"),
        rows,
        f"load average {load_average()}",
    )
    with tempfile.TemporaryDirectory(prefix="fleet-") as work:
        figures = _simulate(work, options.readers, options.every)
    rows = [[name.replace("_", " "), value] for name, value in figures.items()]
    print_table(
        f"{options.readers:,} readers, nginx, and one edit", ("what", "figure"), rows, f"load average {load_average()}"
    )


if __name__ == "__main__":
    main()
