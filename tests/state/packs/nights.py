"""States of similar nights, and packing them however small they are."""

import os
import random
from collections.abc import Iterator

from geolookup.state.generations.packing import pack
from geolookup.state.packs.patch import whole_file
from geolookup.state.publishing.directory import StateDirectory
from geolookup.upstream.decode import PulledGeolocation
from tests.support.data.states import place, publish

#: The files of sources of places.
PLACES = ("cache.db", "index")


def pack_all(home: str) -> None:
    """Pack as a sync does, files of any size."""
    with StateDirectory(home).locks.run():
        pack(home, least_bytes=0)


def similar_nights(count: int, places: int = 300, blocks: int = 6) -> Iterator[list[PulledGeolocation]]:
    """Lists in which one block in a hundred changes from night to night, and some places come and go."""
    rng = random.Random(20260201)
    cities = {locid: f"town {rng.randrange(places)}" for locid in range(1, places + 1)}
    # A hundred addresses in each, so that a block can become a part of what it was.
    firsts = {locid: [(locid * blocks + at) * 256 for at in range(blocks)] for locid in cities}
    lasts = {first: 99 for each in firsts.values() for first in each}
    for _ in range(count):
        listed = [
            place(
                locid,
                *(_range(1 << 24, first, lasts[first]) for first in sorted(firsts[locid])),
                country="DE",
                city=city,
            )
            for locid, city in sorted(cities.items())
        ]
        yield [*listed, place(-1, "192.168.0.0/16", city="ours")]
        for first in rng.sample(sorted(lasts), len(lasts) // 100):
            lasts[first] = rng.randrange(100, 250)
        gone = rng.choice(sorted(cities)[len(cities) // 4 : len(cities) // 2])
        del cities[gone]
        new = max(cities) + 1
        cities[new], firsts[new] = f"village {new}", firsts.pop(gone)


def _range(begin: int, first: int, last: int) -> str:
    ends = (begin + first, begin + first + last)
    return "-".join(".".join(str(end >> shift & 255) for shift in (24, 16, 8, 0)) for end in ends)


def seven_nights(home: str, places: int = 300, blocks: int = 6) -> dict[int, dict[str, str]]:
    """Seven similar nights, not packed; of each generation the SHA-256 of its files."""
    found = {}
    for listed in similar_nights(7, places, blocks):
        number = publish(home, listed).generation
        found[number] = hashes(home, number)
    return found


def hashes(home: str, generation: int) -> dict[str, str]:
    """The SHA-256 of a generation's files."""
    folder = StateDirectory(home).path("generations", f"{generation:06d}")
    return {name: whole_file(os.path.join(folder, name)).sha256 for name in PLACES}


def kept_bytes(home: str) -> int:
    """What generations and snapshots take on the disk: files with several names count once."""
    found = {}
    for group in ("generations", "snapshots"):
        for folder, _, names in os.walk(os.path.join(home, group)):
            for name in names:
                status = os.stat(os.path.join(folder, name))
                found[status.st_ino] = status.st_size
    return sum(found.values())


def generation_bytes(home: str, generation: int) -> int:
    """The files of one generation."""
    folder = StateDirectory(home).path("generations", f"{generation:06d}")
    return sum(os.path.getsize(os.path.join(folder, name)) for name in PLACES)
