"""Routing domains (VRFs): a million blocks in twenty, what a lookup costs in one, and how soon an edit is seen."""

import gc
import os
import statistics
import tempfile
import time
from timeit import Timer

import geolookup
from benchmarks.common import arguments, load_average, print_table
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.payload import values_of
from geolookup.state.edits.places.place import Content
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull

VRFS = 20
PLACES = 5_000
BLOCKS_A_PLACE = 10
CALLS = 20_000
ROUNDS = 15
EDITS = 10


def _blocks(place: int) -> list[str]:
    numbers = range(place * BLOCKS_A_PLACE, (place + 1) * BLOCKS_A_PLACE)
    return [f"10.{number >> 8 & 255}.{number & 255}.{(number >> 16) * 64}/26" for number in numbers]


def _fill(editor: Editor, places: int) -> None:
    for number in range(VRFS):
        with editor.sessions.transaction() as session:
            for place in range(places):
                blocks = frozenset(geolookup.IPBlock.parse(text) for text in _blocks(place))
                content = Content(values_of({"country": "DE", "city": f"{number}-{place}"}), blocks)
                session.vrfs.put(f"VRF-{number}", f"site {place}", content, None)


def _pair_ns(one: Timer, other: Timer) -> tuple[float, float]:
    """The medians of two calls, timed in turn."""
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for timer, times in zip((one, other), found, strict=True):
            times.append(timer.timeit(CALLS) / CALLS * 1e9)
    return statistics.median(found[0]), statistics.median(found[1])


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__).parse_args()
    places = PLACES // 50 if options.small else PLACES
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "source.csv")
        with open(table, "w", encoding="utf-8") as file:
            file.write("first,last,country,city\n10.0.0.0,10.255.255.255,DE,Bonn\n")
        home = os.path.join(folder, "state")
        pull(StateDirectory(home), Settings(sources=(SourceSettings(name="source", location=table),)))
        geo = geolookup.GeoLookup(home)
        editor = geo.edit()
        began = time.perf_counter()
        _fill(editor, places)
        filled_s = time.perf_counter() - began
        began = time.perf_counter()
        for number in range(VRFS):
            geo.match("10.0.0.1", vrf=f"VRF-{number}")
        opened_s = time.perf_counter() - began
        gc.collect()
        rows = []
        for name in ("lookup", "match"):
            ask = getattr(geo, name)
            plain, inside = _pair_ns(
                Timer(lambda a=ask: a("10.0.0.1")), Timer(lambda a=ask: a("10.0.0.1", vrf="VRF-7"))
            )
            rows.append((f"`{name}(address)`, and with `vrf=`", f"{plain:,.0f} ns, {inside:,.0f} ns"))
        seen, spent = [], []
        for number in range(EDITS):
            began, began_cpu = time.perf_counter(), time.process_time()
            editor.put_vrf_place("VRF-7", "site 0", country="DE", city=f"edit {number}", blocks=_blocks(0))
            found = geo.lookup("10.0.0.1", vrf="VRF-7")
            seen.append(time.perf_counter() - began)
            spent.append(time.process_time() - began_cpu)
            assert found is not None
            assert found.city == f"edit {number}"
        blocks = places * BLOCKS_A_PLACE
        rows += [
            (f"putting {VRFS * blocks:,} blocks into {VRFS} VRFs", f"{filled_s:,.1f} s"),
            ("the first lookup in each of them", f"{opened_s * 1e3 / VRFS:,.1f} ms"),
            (
                f"an edit in a VRF of {blocks:,} blocks, until a lookup sees it",
                f"{statistics.median(seen) * 1e3:,.0f} ms ({statistics.median(spent) * 1e3:,.0f} ms of CPU)",
            ),
        ]
        print_table("Routing domains", ("what", "median"), rows, f"load average {load_average()}")


if __name__ == "__main__":
    main()
