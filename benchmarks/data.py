"""Generated data shaped like a city database, and a state, a service's database and an MMDB file made from it."""

import contextlib
import csv
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.common import arguments, print_table
from benchmarks.generator import ARRAYS, GENERATION, SEED, Array, Size, generate, locations
from geolookup import __version__
from geolookup.index.builder import IndexBuilder
from geolookup.index.layout import VERSION
from geolookup.model import addresses
from geolookup.model.types import FIELD_NAMES
from geolookup.state.base.clock import now_text
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import running
from geolookup.sync.pull.staging import Staging
from geolookup.upstream.decode import Block, PulledGeolocation

SMALL = Size(name="small", v4=155_000, v6=45_000, locations=5_400)
#: What a slow writer of a peer's format builds in a minute.
PEER = Size(name="peer", v4=390_000, v6=110_000, locations=13_400)
FULL = Size(name="full", v4=3_500_000, v6=1_000_000, locations=120_000)
SIZES = {size.name: size for size in (SMALL, PEER, FULL)}


class DataSet:
    """One size of the data in a directory; everything is made when it is first asked for, and kept.

    ``first4`` and ``last4`` are addresses, ``first6`` and ``last6`` upper halves (the lower are zeros and ones);
    ``owner4`` and ``owner6`` the location, counted from 0, of each block. Blocks are disjoint networks by ascending
    address. ``bits4`` and ``bits6`` are the networks' prefix lengths.
    """

    def __init__(self, size: Size, root: str) -> None:
        self.size = size
        self.folder = os.path.join(root, f"{size.name}-{SEED}.{GENERATION}-{__version__}-{VERSION}")
        os.makedirs(self.folder, exist_ok=True)

    def __getattr__(self, name: str) -> Array:
        """An array, once it is asked for: a process that only starts others should stay small."""
        if name not in ARRAYS:
            raise AttributeError(name)
        folder = self.made("blocks", lambda path: generate(self.size, path))
        array: Array = np.load(os.path.join(folder, f"{name}.npy"))
        setattr(self, name, array)
        return array

    @property
    def home(self) -> str:
        """A state directory in which it is published; what contains it can be ``XDG_DATA_HOME``."""
        return os.path.join(self.made("data-home", self._publish), "geolookup")

    @property
    def service_db(self) -> str:
        """A database of the reference service that holds it."""
        return os.path.join(self.made("service", self._load), "service.db")

    @property
    def blocks_csv(self) -> str:
        """A CSV file for the reference service to load, one row a block."""
        return self.made("blocks.csv", self._write_csv)

    @property
    def mmdb(self) -> str:
        """An MMDB file of the same networks, whose records are flat: locid and the eight fields."""
        return self.made("ranges.mmdb", self._write_mmdb)

    def describe(self) -> str:
        """One line about it."""
        with open(self.made("about.txt", self._describe), encoding="utf-8") as file:
            return file.read()

    def _describe(self, path: str) -> None:
        families = ", ".join(
            f"{len(bits):,} {name} blocks (/{bits.min()} to /{bits.max()}, median /{int(np.median(bits))})"
            for name, bits in (("IPv4", self.bits4), ("IPv6", self.bits6))
        )
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{self.size.locations:,} locations, {families}, seed {SEED}")

    def covered4(self, count: int, rng: np.random.Generator, *, zipf: bool = False) -> list[str]:
        """Texts of covered IPv4 addresses: of random blocks, or with ``zipf`` few of them over and over."""
        chosen = _choose(len(self.first4), count, rng, zipf=zipf)
        # One address a block where they repeat: it is the address that comes again, not the block.
        share = _share(chosen) if zipf else rng.random(count)
        first, last = self.first4[chosen].astype(np.float64), self.last4[chosen].astype(np.float64)
        return [
            addresses.to_text(4, int(low + (high - low) * part))
            for low, high, part in zip(first, last, share, strict=True)
        ]

    def covered6(self, count: int, rng: np.random.Generator, *, zipf: bool = False) -> list[str]:
        """The same for IPv6."""
        chosen = _choose(len(self.first6), count, rng, zipf=zipf)
        share = (_share(chosen) if zipf else rng.random(count)).tolist()
        ends = zip(self.first6[chosen].tolist(), self.last6[chosen].tolist(), share, strict=True)
        return [
            addresses.to_text(6, (low + int((high - low) * part)) << 64 | int(part * 2**53) << 11)
            for low, high, part in ends
        ]

    def column4(self, rows: int, *, zipf: bool = False) -> str:
        """An Arrow file of one batch: texts of covered IPv4 addresses (``ip``), and the same as numbers (``n``)."""
        return self.made(
            f"column-{rows}{'-zipf' if zipf else ''}.arrow", lambda path: self._write_column(path, rows, zipf=zipf)
        )

    def _write_column(self, path: str, rows: int, *, zipf: bool) -> None:
        import pyarrow as pa

        rng = np.random.default_rng(SEED + 2)
        parts = [
            pa.array(self.covered4(min(1_000_000, rows - begin), rng, zipf=zipf)) for begin in range(0, rows, 1_000_000)
        ]
        texts = pa.concat_arrays(parts)
        numbers = np.array([addresses.parse(text)[1] for part in parts for text in part.to_pylist()], np.uint32)
        batch = pa.record_batch({"ip": texts, "n": pa.array(numbers)})
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, batch.schema) as out:
            out.write_batch(batch)

    def texts(self, name: str) -> list[str]:
        """A field of text, ``country`` to ``postalcode`` or a code, of each location counted from 0."""
        return [str(place[FIELD_NAMES.index(name)]) for place in locations(self.size.locations)]

    def places(self) -> Iterator[PulledGeolocation]:
        """The geolocations as a pull would hand them out, by ascending locid."""
        fields = locations(self.size.locations)
        order4, order6 = (np.argsort(owner, kind="stable") for owner in (self.owner4, self.owner6))
        everyone = np.arange(self.size.locations + 1)
        bounds4 = np.searchsorted(self.owner4[order4], everyone).tolist()
        bounds6 = np.searchsorted(self.owner6[order6], everyone).tolist()
        to_text = addresses.to_text
        for number in range(self.size.locations):
            own4 = order4[bounds4[number] : bounds4[number + 1]]
            own6 = order6[bounds6[number] : bounds6[number + 1]]
            blocks: list[Block] = [
                (4, first, last, to_text(4, first), to_text(4, last))
                for first, last in zip(self.first4[own4].tolist(), self.last4[own4].tolist(), strict=True)
            ]
            for upper, upper_last in zip(self.first6[own6].tolist(), self.last6[own6].tolist(), strict=True):
                first, last = upper << 64, upper_last << 64 | 0xFFFF_FFFF_FFFF_FFFF
                blocks.append((6, first, last, to_text(6, first), to_text(6, last)))
            yield PulledGeolocation(number + 1, *fields[number], blocks)

    def batches(self, blocks: int = 2000) -> Iterator[list[PulledGeolocation]]:
        """The same in lists of about as many blocks as a pull decodes at a time."""
        batch: list[PulledGeolocation] = []
        count = 0
        for place in self.places():
            batch.append(place)
            count += len(place.blocks)
            if count >= blocks:
                yield batch
                batch, count = [], 0
        yield batch

    def made(self, name: str, make: Callable[[str], None]) -> str:
        """The path of a file or folder, made under another name first, so that half of one is never taken for whole."""
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            began = time.monotonic()
            print(f"making {self.size.name}/{name} ...", end=" ", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(dir=self.folder) as temporary:
                make(os.path.join(temporary, name))
                os.rename(os.path.join(temporary, name), path)
            print(f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        return path

    def _publish(self, path: str) -> None:
        directory = StateDirectory(os.path.join(path, "geolookup"))
        with running(directory) as run, run.candidate() as candidate:
            with Staging(candidate) as staging:
                for batch in self.batches():
                    staging.add(batch)
                staged = staging.finish({})
            record = {
                "source": "http://127.0.0.1:9",
                "url": "http://127.0.0.1:9",
                "digest": staged.digest,
                "etag": None,
                "began_at": now_text(),
                "pulled_at": now_text(),
                "rows": staged.rows,
            }
            candidate.seal(record, {})
            run.publish(candidate)

    def _load(self, path: str) -> None:
        from geolookup.service.geolocations.loader import load_files
        from geolookup.service.store.store import Store

        os.mkdir(path)
        with Store.open(os.path.join(path, "service.db")) as store:
            load_files(store, [self.blocks_csv])

    def _write_csv(self, path: str) -> None:
        with open(path, "w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["locid", *FIELD_NAMES, "startip", "endip"])
            for place in self.places():
                fields = [getattr(place, name) for name in ("locid", *FIELD_NAMES)]
                rows.writerows([*fields, start, end] for _, _, _, start, end in place.blocks)

    def _write_mmdb(self, path: str) -> None:
        self.write_mmdb(path, self.first4, self.last4)

    def write_mmdb(self, path: str, first4: Array, last4: Array, *, only4: bool = False) -> int:
        """An MMDB file of these IPv4 ranges of the locations in ``owner4``, and of the IPv6 ones unless ``only4``.

        :returns: the networks that the IPv4 ranges take: one that is none takes several
        """
        from mmdb_writer import MMDBWriter
        from netaddr import IPAddress, IPNetwork, IPSet, iprange_to_cidrs

        writer = MMDBWriter(
            4 if only4 else 6, ipv4_compatible=not only4, database_type="geolookup benchmark", float_type="f64"
        )
        fields = locations(self.size.locations)
        networks: dict[int, list[IPNetwork]] = {}
        for first, last, owner in zip(first4.tolist(), last4.tolist(), self.owner4.tolist(), strict=True):
            own = networks.setdefault(owner, [])
            length = last - first + 1
            if length & (length - 1) == 0 and first % length == 0:
                own.append(IPNetwork((first, 33 - length.bit_length()), version=4))
            else:
                own += iprange_to_cidrs(IPAddress(first, 4), IPAddress(last, 4))
        count = sum(map(len, networks.values()))
        if not only4:
            for upper, bits, owner in zip(self.first6.tolist(), self.bits6.tolist(), self.owner6.tolist(), strict=True):
                networks.setdefault(owner, []).append(IPNetwork((upper << 64, int(bits)), version=6))
        for owner, own in networks.items():
            record = dict(zip(("locid", *FIELD_NAMES), (owner + 1, *fields[owner]), strict=True))
            writer.insert_network(IPSet(own), record)
        writer.to_db_file(path)
        return count

    def write_index(self, path: str, first4: Array, last4: Array, *, only4: bool = False) -> None:
        """The same as an index file."""
        builder = IndexBuilder("default")
        for number, fields in enumerate(locations(self.size.locations)):
            builder.add_location(number + 1, *fields)
        owners: list[tuple[Array, Callable[[int, Array], None]]] = [
            (self.owner4, lambda slot, own: builder.extend_v4(slot, first4[own].tolist(), last4[own].tolist()))
        ]
        if not only4:
            owners.append((self.owner6, lambda slot, own: builder.extend_v6(slot, *self._ends6(own))))
        for owner, extend in owners:
            order = np.argsort(owner, kind="stable")
            bounds = np.searchsorted(owner[order], np.arange(self.size.locations + 1)).tolist()
            for slot in range(self.size.locations):
                extend(slot, order[bounds[slot] : bounds[slot + 1]])
        builder.write(path)

    def _ends6(self, own: Array) -> tuple[list[int], list[int]]:
        firsts = [upper << 64 for upper in self.first6[own].tolist()]
        return firsts, [upper << 64 | 0xFFFF_FFFF_FFFF_FFFF for upper in self.last6[own].tolist()]


def _choose(blocks: int, count: int, rng: np.random.Generator, *, zipf: bool) -> Array:
    if not zipf:
        uniform: Array = rng.integers(0, blocks, count)
        return uniform
    # Ranks by Zipf's law; a fixed shuffle, so that what is frequent does not stand side by side.
    ranks = rng.zipf(1.2, count) % blocks
    shuffled: Array = (ranks * np.int64(2_654_435_761) + 12_345) % blocks
    return shuffled


def _share(chosen: Array) -> Array:
    share: Array = ((chosen * np.int64(40_503)) % 65_536) / 65_536.0
    return share


def published_rows(home: str) -> dict[str, Any]:
    """The row counts of the published generation."""
    with open(os.path.join(home, "CURRENT"), encoding="utf-8") as file:
        rows: dict[str, Any] = json.load(file)["published"]["rows"]
    return rows


def mmdb_files(path: str) -> list[str]:
    """The file, or the MaxMind DBs of a folder."""
    if os.path.isfile(path):
        return [path]
    return sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith(".mmdb"))


def main() -> None:
    """Make everything that the benchmarks need, and say how large it is."""
    parser = arguments(__doc__)
    parser.add_argument("--remove", action="store_true", help="remove what was generated, and make nothing")
    options = parser.parse_args()
    if options.remove:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(options.data)
        return
    rows = []
    for size in (SMALL,) if options.small else (PEER, FULL):
        data = DataSet(size, options.data)
        print(f"{size.name}: {data.describe()}")
        made = [("state", data.home), ("service database", data.service_db)]
        if size is not FULL:
            made.append(("MMDB file", data.mmdb))
        rows += [(f"{size.name}: {what}", f"{_bytes(path) / 1e6:.1f}") for what, path in made]
    print_table("Generated data", ("what", "MB"), rows)


def _bytes(path: str) -> int:
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)


if __name__ == "__main__":
    main()
