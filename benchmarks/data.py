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
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from benchmarks.common import arguments, print_table
from geolookup import __version__, addresses
from geolookup.index.layout import VERSION
from geolookup.model import FIELD_NAMES
from geolookup.state.clock import now_text
from geolookup.state.directory import StateDirectory
from geolookup.sync.staging import Staging
from geolookup.upstream.decode import Block, PulledGeolocation

Array: TypeAlias = np.ndarray[Any, Any]

SEED = 20260201
#: Rises whenever the generator changes, so that nothing made by an earlier one is taken for its work.
GENERATION = 1
_SYLLABLES = (
    "an ar bad bel bon bur ca cor da del der dor el en es fa fer fil gar gen gra ham hel in ka kin la len lo lu mar "
    "mel mil mon na nor ol or pa per pol ra ri ro ros sal san sel sin ta ter tor ul va ver vil war win zu ö é ü å"
)
_STATES = (
    "AL AK AZ AR CA CO CT DE FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC ND OH OK OR PA "
    "RI SC SD TN TX UT VT VA WA WV WI WY"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many of what a data set has."""

    name: str
    v4: int
    v6: int
    locations: int

    @property
    def blocks(self) -> int:
        """Blocks of both families."""
        return self.v4 + self.v6


SMALL = Size(name="small", v4=155_000, v6=45_000, locations=5_400)
#: What a slow writer of a peer's format builds in a minute.
PEER = Size(name="peer", v4=390_000, v6=110_000, locations=13_400)
FULL = Size(name="full", v4=3_500_000, v6=1_000_000, locations=120_000)
SIZES = {size.name: size for size in (SMALL, PEER, FULL)}
_ARRAYS = ("first4", "last4", "bits4", "owner4", "first6", "last6", "bits6", "owner6")


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
        if name not in _ARRAYS:
            raise AttributeError(name)
        folder = self._made("blocks", lambda path: _generate(self.size, path))
        array: Array = np.load(os.path.join(folder, f"{name}.npy"))
        setattr(self, name, array)
        return array

    @property
    def home(self) -> str:
        """A state directory in which it is published; what contains it can be ``XDG_DATA_HOME``."""
        return os.path.join(self._made("data-home", self._publish), "geolookup")

    @property
    def service_db(self) -> str:
        """A database of the reference service that holds it."""
        return os.path.join(self._made("service", self._load), "service.db")

    @property
    def mmdb(self) -> str:
        """An MMDB file of the same networks, whose records are flat: locid and the eight fields."""
        return self._made("ranges.mmdb", self._write_mmdb)

    def describe(self) -> str:
        """One line about it."""
        with open(self._made("about.txt", self._describe), encoding="utf-8") as file:
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

    def places(self) -> Iterator[PulledGeolocation]:
        """The geolocations as a pull would hand them out, by ascending locid."""
        fields = _locations(self.size.locations)
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

    def _made(self, name: str, make: Callable[[str], None]) -> str:
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
        with directory.run_lock(), directory.candidate() as candidate:
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
            directory.publish(candidate)

    def _load(self, path: str) -> None:
        from geolookup.service.loader import load_csv
        from geolookup.service.store import Store

        os.mkdir(path)
        source = os.path.join(path, "blocks.csv")
        with open(source, "w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["locid", *FIELD_NAMES, "startip", "endip"])
            for place in self.places():
                fields = [getattr(place, name) for name in ("locid", *FIELD_NAMES)]
                rows.writerows([*fields, start, end] for _, _, _, start, end in place.blocks)
        with Store.open(os.path.join(path, "service.db")) as store:
            load_csv(store, [source])
        os.unlink(source)

    def _write_mmdb(self, path: str) -> None:
        from mmdb_writer import MMDBWriter
        from netaddr import IPNetwork, IPSet

        writer = MMDBWriter(6, ipv4_compatible=True, database_type="geolookup benchmark", float_type="f64")
        fields = _locations(self.size.locations)
        networks: dict[int, list[IPNetwork]] = {}
        for first, bits, owner in zip(self.first4.tolist(), self.bits4.tolist(), self.owner4.tolist(), strict=True):
            networks.setdefault(owner, []).append(IPNetwork((first, int(bits)), version=4))
        for upper, bits, owner in zip(self.first6.tolist(), self.bits6.tolist(), self.owner6.tolist(), strict=True):
            networks.setdefault(owner, []).append(IPNetwork((upper << 64, int(bits)), version=6))
        for owner, own in networks.items():
            record = dict(zip(("locid", *FIELD_NAMES), (owner + 1, *fields[owner]), strict=True))
            writer.insert_network(IPSet(own), record)
        writer.to_db_file(path)


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


def _halve(
    start: Array, bits: Array, wanted: int, longest: int, evenness: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Halve random networks, larger ones rather, until there are ``wanted``, none longer than ``longest`` bits."""
    width = start.dtype.itemsize * 8
    while len(start) < wanted:
        chance = 2.0 ** (evenness * (bits.min() - bits.astype(np.float64))) * 0.2
        split = np.flatnonzero((rng.random(len(start)) < chance) & (bits < longest))
        split = rng.permutation(split)[: wanted - len(start)]
        bits[split] += 1
        upper = start[split] + (np.array(1, start.dtype) << (width - bits[split]).astype(start.dtype))
        start, bits = np.concatenate([start, upper]), np.concatenate([bits, bits[split]])
    order = np.argsort(start)
    return start[order], bits[order]


def _lasts(start: Array, bits: Array) -> Array:
    width = start.dtype.itemsize * 8
    one = np.array(1, start.dtype)
    last: Array = start + ((one << (width - bits).astype(start.dtype)) - one)
    return last


def _generate(size: Size, path: str) -> None:
    rng = np.random.default_rng(SEED)
    octets = np.array([octet for octet in range(1, 224) if octet not in (10, 127)], np.uint32)
    start4, bits4 = _halve(octets << np.uint32(24), np.full(len(octets), 8), int(size.v4 * 1.04), 32, 0.1, rng)
    # What is left out becomes the gaps.
    kept = np.sort(rng.permutation(len(start4))[: size.v4])
    start4, bits4 = start4[kept], bits4[kept]
    tops = np.array([0x2001, 0x2400, 0x2600, 0x2800, 0x2A00, 0x2C00], np.uint64) << np.uint64(48)
    start6, bits6 = _halve(tops, np.array([16, 12, 12, 12, 12, 12]), size.v6 // 25, 32, 0.1, rng)
    # A registry hands out a /32 and keeps the room behind it.
    start6, bits6 = _halve(start6, np.maximum(bits6, 32), size.v6, 56, 0.02, rng)
    owner = _owners(size, rng)
    columns = (
        *(start4, _lasts(start4, bits4), bits4.astype(np.uint8), owner[: size.v4]),
        *(start6, _lasts(start6, bits6), bits6.astype(np.uint8), owner[size.v4 :]),
    )
    os.mkdir(path)
    for name, column in zip(_ARRAYS, columns, strict=True):
        np.save(os.path.join(path, f"{name}.npy"), column)


def _owners(size: Size, rng: np.random.Generator) -> Array:
    """Which location each block belongs to: few have thousands, each has one, and some neighbours share theirs."""
    weight = np.cumsum(rng.lognormal(0.0, 2.0, size.locations))
    owner: Array = np.searchsorted(weight, rng.random(size.blocks) * weight[-1]).astype(np.uint32)
    again = np.flatnonzero(rng.random(size.blocks) < 0.12)
    again = again[again > 0]
    owner[again] = owner[again - 1]
    owner[rng.permutation(size.blocks)[: size.locations]] = np.arange(size.locations, dtype=np.uint32)
    return owner


def _locations(count: int) -> list[tuple[str, str, str, str, float, float, str, str]]:
    """The eight fields of each location; a quarter is in the U.S. and has the codes that only exist there."""
    rng = np.random.default_rng(SEED + 1)
    parts, states = _SYLLABLES.split(), _STATES.split()
    codes = ["US", *(f"{chr(65 + index // 14)}{chr(66 + index % 14)}" for index in range(199))]
    shares = np.concatenate([[0.25], np.full(199, 0.75 / 199)])
    found = []
    for country, syllables, number, latitude, longitude in zip(
        rng.choice(len(codes), count, p=shares).tolist(),
        rng.integers(0, len(parts), (count, 3)).tolist(),
        rng.integers(0, 100_000, count).tolist(),
        np.round(rng.uniform(-60, 70, count), 4).tolist(),
        np.round(rng.uniform(-180, 180, count), 4).tolist(),
        strict=True,
    ):
        city = "".join(parts[index] for index in syllables).capitalize()
        if country == 0:
            place = (
                "US",
                states[number % len(states)],
                city,
                f"{number:05d}",
                latitude,
                longitude,
                str(500 + number % 210),
                str(201 + number % 780),
            )
        else:
            place = (
                codes[country],
                f"{number % 40:02d}",
                city,
                f"{number:05d}"[: 4 + number % 2],
                latitude,
                longitude,
                "",
                "",
            )
        found.append(place)
    return found


def published_rows(home: str) -> dict[str, Any]:
    """The row counts of the published generation."""
    with open(os.path.join(home, "CURRENT"), encoding="utf-8") as file:
        rows: dict[str, Any] = json.load(file)["published"]["rows"]
    return rows


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
