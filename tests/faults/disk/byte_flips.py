"""Each byte of a state's files flipped, each truncation, all opened: ``python -m tests.faults.disk.byte_flips``.

A process of its own, so that a crash would be seen. For each file it prints how many damages it tried, what became of
them, and ``bad``: those that gave a wrong answer that `verify` does not find, or an error that is not ours.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from copy import copy
from typing import Any

import geolookup
from geolookup.index.reader import IndexReader
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import GeoLookupError
from geolookup.state.publishing.verify import verify
from tests.state.generations.staged import stamped
from tests.support.data.states import publish

FILES = ("CURRENT", "custom/000002", "generations/000002/index")
MASKS = (0x01, 0x80, 0xFF)
ADDRESSES = (
    "10.1.1.1",
    "10.255.255.255",
    "11.1.1.1",
    "2001:db8::1",
    "192.168.1.1",
    "12.1.1.1",
    "0.0.0.0",
    "::",
    "ff::",
)
#: Of what `verify` is not asked about because the answers were right, every so many-th is asked about after all.
_SAMPLE = 101
_SLOW_S = 5.0


def make_state(home: str) -> None:
    """Generations 1 and 2 with answers of their own; CURRENT names 2."""
    publish(home, stamped(1))
    publish(home, stamped(2))


def ask(geo: GeoLookup) -> list[Any]:
    """All that lookups say, read now: an answer itself looks into the file, which is damaged again right after."""
    answers: list[Any] = [copy(geo.lookup(address)) for address in ADDRESSES]
    for address in ADDRESSES:
        match = geo.match(address)
        answers.append(match and (copy(match.geolocation), match.first, match.last, match.layer, match.pending))
    return [*answers, *map(copy, geo.lookup_many(ADDRESSES))]


def positions(path: str, *, every: bool, text_step: int) -> Iterator[int]:
    """All positions in a file; or all but most of those in an index's two tables, which hold the same few numbers.

    Of text, which has a checksum (CURRENT and an index's header), only every ``text_step``-th.
    """
    size = os.path.getsize(path)
    if path.endswith("CURRENT"):
        yield from range(0, size, text_step)
        return
    with IndexReader.open(path) as reader:
        sections = reader.header.sections
        tables = [(sections[name].begin, sections[name].end) for name in ("v4.table", "v6.table")]
    # The length of the header stands in eight bytes before it.
    position = min(section.begin for section in sections.values())
    yield from (*range(8), *range(8, position, text_step))
    if every:
        yield from range(position, size)
        return
    for begin, end in tables:
        yield from (*range(position, begin + 16), *range(begin + 16, end - 16, 9973))
        position = end - 16
    yield from range(position, size)


class Flips:
    """Damages one file of a state, again and again."""

    def __init__(self, home: str, name: str) -> None:
        self._home, self.path = home, os.path.join(home, name)
        with open(self.path, "rb") as file:
            self._whole = file.read()
        with geolookup.open(home) as geo:
            self._right = ask(geo)
        self._descriptor = os.open(self.path, os.O_RDWR)
        self.outcomes: Counter[str] = Counter()
        self.bad: list[str] = []

    def flip(self, position: int, mask: int) -> None:
        os.pwrite(self._descriptor, bytes([self._whole[position] ^ mask]), position)
        self._look(f"byte {position} ^ {mask:#x}")
        os.pwrite(self._descriptor, self._whole[position : position + 1], position)

    def truncate(self, size: int) -> None:
        os.truncate(self._descriptor, size)
        self._look(f"cut to {size} bytes")
        os.pwrite(self._descriptor, self._whole[size:], size)

    def _look(self, damage: str) -> None:
        began = time.monotonic()
        try:
            with geolookup.open(self._home) as geo:
                answers = ask(geo)
                recovered = geo.problem is not None
                # A status asks for a lot besides, which takes longer than all the rest.
                if sum(self.outcomes.values()) % 10 == 0 and (geo.status().problem is not None) != recovered:
                    self.bad.append(f"{damage}: the status says something else than the lookups")
        except GeoLookupError:
            self.outcomes["refused"] += 1
            return
        except Exception as error:
            self.bad.append(f"{damage}: {error!r}")
            return
        if time.monotonic() - began > _SLOW_S:
            self.bad.append(f"{damage}: took {time.monotonic() - began:.1f} s")
        if answers == self._right:
            self.outcomes["recovered" if recovered else "same answers"] += 1
            if sum(self.outcomes.values()) % _SAMPLE or self.path.endswith("CURRENT"):
                return
        elif recovered and {place and place.city for place in answers[: len(ADDRESSES)]} <= {"1", None}:
            self.outcomes["previous generation"] += 1
        else:
            self.outcomes["wrong, and verify finds it"] += 1
        if not self._verify_finds_it():
            self.bad.append(f"{damage}: verify finds nothing, and the answers are {answers}")

    def _verify_finds_it(self) -> bool:
        try:
            return bool(verify(self._home))
        except GeoLookupError:
            return True


def sweep(
    home: str, name: str, *, every: bool, step: int, start: int, text_step: int, masks: tuple[int, ...] | None
) -> dict[str, Any]:
    """Flip and cut at every ``step``-th of the `positions` from the ``start``-th on; without ``masks``, each has one in
    turn."""
    flips = Flips(home, name)
    chosen = list(positions(flips.path, every=every, text_step=text_step))[start::step]
    tried = 0
    for position in chosen:
        for mask in masks or (MASKS[position % len(MASKS)],):
            flips.flip(position, mask)
            tried += 1
    for size in reversed(chosen):
        flips.truncate(size)
        tried += 1
    return {"tried": tried, "outcomes": dict(flips.outcomes), "bad": flips.bad[:20], "bad_count": len(flips.bad)}


def main() -> int:
    """Damage each file; 1 where anything was bad."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", choices=[*FILES, []], help="all where none is named")
    parser.add_argument("--every", action="store_true", help="every byte of an index's tables, too")
    parser.add_argument("--step", type=int, default=1, help="every so many-th position only")
    parser.add_argument("--start", type=int, default=0, help="how many positions are left out before the first")
    parser.add_argument("--text-step", type=int, default=1, help="every so many-th only of CURRENT and of headers")
    parser.add_argument("--masks", action="store_true", help="every mask at every position")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory(prefix="byte-flips-") as folder:
        home = os.path.join(folder, "state")
        make_state(home)
        for name in options.files or FILES:
            masks = MASKS if options.masks else None
            which = {"step": options.step, "start": options.start, "text_step": options.text_step}
            one = sweep(home, name, every=options.every, masks=masks, **which)
            found[name] = one
            if not options.json:
                print(f"{name}: {one['tried']} damages: {one['outcomes']}, {one['bad_count']} bad", flush=True)
    if options.json:
        print(json.dumps(found))
    return 1 if any(one["bad_count"] for one in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
