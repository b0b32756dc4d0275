"""What a night and an edit cost a reader of a fleet, beside casync, zchunk, zstd --patch-from and a gzipped MMDB.

A night changes one block in a hundred and one place in ten. Casync and zchunk (Debian's packages), and Zstandard, get
the index as it is; the MMDB is that of the same answers.
"""

import contextlib
import gzip
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
from geolookup.fleet.manifest import INDEX
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
_COUNTRIES = ("DE", "FR", "IT", "US", "SE", "NO")
_MISSED = (8,)


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
            run.pack()

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
        command = ["zstd", "-q", "-f", "-19", "--long=27", f"--patch-from={old}", new, "-o", patch]
        subprocess.run(command, check=True)
        found["zstd -19 --patch-from"] = _bytes(patch)
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


def _measure(blocks: int, work: str) -> dict[str, object]:
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
        homes = {missed: os.path.join(work, f"reader-{missed}") for missed in (0, *_MISSED)}
        root = Path(ring, "root.json").read_bytes()
        for each in homes.values():
            reader.join(StateDirectory(each), Settings(), url, root, where="root")
        for night in range(1, max(_MISSED) + 1):
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
        with running(StateDirectory(homes[8])) as run:
            eight = reader.sync(run, Settings())
        figures["after_8_nights"] = [eight.bytes_read, eight.way[INDEX]]
        with running(StateDirectory(homes[0])) as run:
            seven = reader.sync(run, Settings())
        figures["after_7_nights"] = [seven.bytes_read, seven.way[INDEX]]
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


def main() -> None:
    """Measure, print a table, record."""
    parser = arguments(__doc__)
    options = parser.parse_args()
    if options.child:
        _sync(*options.child)
        return
    with tempfile.TemporaryDirectory(prefix="fleet-") as work:
        found = _measure(_SMALL if options.small else _LARGE, work)
    print(json.dumps(found, indent=1), file=sys.stderr)
    others = found["others"]
    assert isinstance(others, dict)
    rows = [["geolookup fleet, all that is fetched", f"{found['night_bytes']:,}"]]
    rows += [[name, f"{size:,}"] for name, size in sorted(others.items(), key=lambda item: item[1])]
    rows += [["the index whole, compressed", f"{found['whole_bytes']:,}"], ["the index", f"{found['index_bytes']:,}"]]
    print_table(f"One night of {found['blocks']:,} blocks", ("what", "bytes"), rows, load_average())


if __name__ == "__main__":
    main()
