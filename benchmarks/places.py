"""Each place of real data looked up once and again: what asking costs, what reading does, and what is left in memory.

Run as ``python -m benchmarks.places STATE FILE``: a state directory, and the MaxMind DB or the folder of them that was
synced into it. `benchmarks.sources` runs it on the state that it makes.
"""

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from statistics import mean
from typing import Any

from benchmarks.common import arguments, child, environment, load_average, print_table
from benchmarks.figures import record

_READERS = {"accelerator": "", "pure": "1", "maxminddb (C)": ""}
_PASSES = 2


def write_texts(home: str, path: str) -> None:
    """One address of each place that has any, a line each, in no order."""
    import numpy as np

    from geolookup.index.layout import EMPTY
    from geolookup.index.segments import segments_v4, segments_v6
    from geolookup.model import addresses
    from geolookup.state.generations.served import open_served

    reader = open_served(home).base
    first4, slot4 = segments_v4(reader)
    hi, lo, slot6 = segments_v6(reader)
    slots, at = np.unique(np.concatenate([slot4, slot6]), return_index=True)
    texts = []
    for slot, place in zip(slots.tolist(), at.tolist(), strict=True):
        if slot == EMPTY:
            continue
        if place < len(slot4):
            texts.append(addresses.to_text(4, int(first4[place])))
        else:
            place -= len(slot4)
            texts.append(addresses.to_text(6, int(hi[place]) << 64 | int(lo[place])))
    random.Random(7).shuffle(texts)
    with open(path, "w", encoding="ascii") as file:
        file.writelines(f"{text}\n" for text in texts)


def _private_mib() -> float:
    """What this process has written: pages of a mapped file are the system's, who can drop them."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_Dirty")) / 1024


def _batches(path: str) -> Iterator[list[str]]:
    """The texts in small lists, so that asking makes no lasting objects."""
    with open(path, encoding="ascii") as file:
        while batch := [line[:-1] for _, line in zip(range(1000), file, strict=False)]:
            yield batch


def _us(call: Callable[[str], Any], path: str) -> tuple[float, int]:
    """Microseconds of processor time a call over all of the texts, and how many there are."""
    took, count = 0.0, 0
    for batch in _batches(path):
        began = time.process_time()
        for text in batch:
            call(text)
        took += time.process_time() - began
        count += len(batch)
    return took / count * 1e6, count


def _ours(home: str) -> tuple[Callable[[str], Any], Callable[[str], Any], Callable[[str], Any]]:
    import geolookup

    lookup: Any = geolookup.open(home).lookup

    def country(text: str) -> Any:
        return lookup(text).country

    def every(text: str) -> Any:
        place = lookup(text)
        return (
            *(place.locid, place.country, place.region, place.city, place.postalcode),
            *(place.latitude, place.longitude, place.dmacode, place.areacode),
        )

    return lookup, country, every


def _theirs(files: list[str]) -> tuple[Callable[[str], Any], Callable[[str], Any], Callable[[str], Any]]:
    import maxminddb

    readers = {}
    for file in files:
        opened: Any = maxminddb.open_database(file, maxminddb.MODE_MMAP_EXT)
        readers[opened.metadata().ip_version] = opened.get
    six = readers.get(6)
    four = readers.get(4, six)

    def get(text: str) -> Any:
        return (six if ":" in text else four)(text)

    def country(text: str) -> Any:
        return get(text).get("country_code")

    # A dict has all of it already, so reading is next to nothing.
    return get, country, lambda text: tuple(get(text).values())


def meet(reader: str, home: str, texts: str, files: list[str]) -> dict[str, float]:
    """What a process pays for each place: the first time, and later with one field and with all of them read."""
    asking = _theirs(files) if reader.startswith("maxminddb") else _ours(home)
    found: dict[str, float] = {"before": _private_mib()}
    found["first"], found["places"] = _us(asking[0], texts)
    found["met"] = _private_mib()
    for name, call in zip(("again", "country", "all"), asking, strict=True):
        found[name] = mean(_us(call, texts)[0] for _ in range(_PASSES))
    found["read"] = _private_mib()
    return found


def measure(home: str, files: list[str], shown: str, data: str) -> None:
    """Print the table."""
    if sys.platform != "linux":
        print("places: left out, since only Linux tells a process's private memory (smaps_rollup)")
        return
    with tempfile.TemporaryDirectory() as folder:
        texts = os.path.join(folder, "texts")
        child("places", "texts", home, texts, data=data)
        found: dict[str, dict[str, float]] = {
            reader: json.loads(
                child("places", "meet", reader, home, texts, *files, data=data, env=environment(GEOLOOKUP_PURE=pure))
            )
            for reader, pure in _READERS.items()
        }
    for reader in ("accelerator", "pure"):
        record(f"places/{reader}/MiB more", found[reader]["read"] - found[reader]["before"])
    print_table(
        f"Each of {found['pure']['places']:,.0f} places once, and again (us of processor time an address), on: {shown}",
        ("reader", "first time", "again", "and country", "and all fields", "private MiB", "met", "read", "more"),
        [
            (
                reader,
                *(f"{one[name]:.2f}" for name in ("first", "again", "country", "all")),
                *(f"{one[name]:.1f}" for name in ("before", "met", "read")),
                f"{one['read'] - one['before']:.1f}",
            )
            for reader, one in found.items()
        ],
        f"an address of each place, in no order; a process each, later passes are means of {_PASSES}",
        "private: what the process has written (Private_Dirty of smaps_rollup), before opening, after the first pass,",
        f"and after all had been read; load average {load_average()}",
    )


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("words", nargs="*", metavar="STATE FILE")
    options = parser.parse_args()
    if options.child:
        verb, *words = options.child
        if verb == "texts":
            write_texts(*words)
        else:
            reader, home, texts, *files = words
            print(json.dumps(meet(reader, home, texts, files)))
        return
    from benchmarks.data import mmdb_files

    home, path = options.words
    measure(home, mmdb_files(os.path.abspath(path)), os.path.basename(path), options.data)


if __name__ == "__main__":
    main()
