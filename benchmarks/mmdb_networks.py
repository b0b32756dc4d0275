"""The networks of a MaxMind DB, and whether an index answers for their ends as maxminddb does."""

import ipaddress
import mmap
import random
from collections.abc import Iterator

import maxminddb
import numpy as np

from geolookup.files.streams import Limits
from geolookup.index.layout import EMPTY
from geolookup.index.reader import IndexReader
from geolookup.sources.mmdb_records import Recogniser
from geolookup.sources.mmdb_tree import Networks, Tree, last_addresses, read_metadata
from geolookup.sources.places import PlaceFields


def _parts(path: str) -> Iterator[tuple[int, Networks]]:
    with open(path, "rb") as file:
        buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    yield from Tree(path, buffer, read_metadata(path, buffer), Limits()).networks()


def some_networks(path: str, count: int, chance: random.Random) -> dict[int, list[tuple[int, int]]]:
    """By family, the first and last addresses of networks drawn with equal chances, or of all if they are few."""
    parts: dict[int, list[Networks]] = {}
    for family, networks in _parts(path):
        parts.setdefault(family, []).append(networks)
    found = {}
    for family, several in parts.items():
        whole = Networks._make(np.concatenate([part[at] for part in several]) for at in range(4))
        total = len(whole.hi)
        drawn = sorted(chance.sample(range(total), min(count, total)))
        chosen = Networks._make(column[drawn] for column in whole)
        ends = (chosen.hi, chosen.lo, *last_addresses(chosen))
        found[family] = [(a << 64 | b, c << 64 | d) for a, b, c, d in zip(*(end.tolist() for end in ends), strict=True)]
    return found


def disagreements(path: str, index: str, every: int) -> tuple[int, int]:
    """Look up the first and last address of every n-th network in the index, and in maxminddb.

    :returns: how many addresses were asked for, and how many answers differ
    """
    asked = wrong = 0
    recogniser = Recogniser(path, {})
    with IndexReader.open(index) as reader, maxminddb.open_database(path) as oracle:
        known: dict[int, PlaceFields | None] = {EMPTY: None}
        for family, networks in _parts(path):
            find = reader.find4 if family == 4 else reader.find6
            form = ipaddress.IPv4Address if family == 4 else ipaddress.IPv6Address
            last_hi, last_lo = last_addresses(networks)
            for hi, lo in ((networks.hi, networks.lo), (last_hi, last_lo)):
                for high, low in zip(hi[::every].tolist(), lo[::every].tolist(), strict=True):
                    value = high << 64 | low
                    slot = find(value)
                    if slot not in known:
                        known[slot] = PlaceFields(*reader.location(slot)[1:])
                    record = oracle.get(form(value))
                    asked += 1
                    wrong += known[slot] != (recogniser.place(record) if record else None)
    return asked, wrong
