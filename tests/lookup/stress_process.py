"""A process that opens a GeoLookup, forks, and asks it from eight threads in every process while another publishes.

Its arguments are the state directory and the file of `Progress`. It prints one JSON object: how many answers were
checked, by kind, and what was wrong with any.

Every row of the default layer is stamped with its generation's number, every custom one with the edit's; where the
ranges end depends on the generation. So an answer says itself which publish it must agree with in every respect.
"""

import json
import mmap
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from geolookup.columns.arrow import locate
from geolookup.lookup.engine import GeoLookup
from geolookup.upstream.decode import PulledGeolocation
from tests.support.data.states import place

THREADS = 8
CHILDREN = 2
#: All threads of all processes.
READERS = THREADS * (1 + CHILDREN)
ADDRESSES = ["10.0.1.1", "10.0.200.1", "10.0.3.7", "11.1.1.1", "192.168.1.1", "2001:db8::1", "12.1.2.3", "172.16.3.9"]
COLUMN = pa.array(ADDRESSES * 8)
MANY = ADDRESSES * 25
FIELDS = ("locid", "country", "city", "region", "postalcode")
#: How often a reader asks again for the last publish before it says that it cannot see it.
LAST_LOOKS = 2_000


class Progress:
    """What the publisher has begun and ended, in a mapped file: numbers of generations and of edits, and whether it is
    over; and how often each reader has met something newer."""

    BYTES = (5 + READERS) * 8

    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), self.BYTES)
        self._numbers = memoryview(self._map).cast("q")

    def note(self, place: str, number: int) -> None:
        self._numbers[("generation begun", "generation", "edit begun", "edit", "over").index(place)] = number

    def begun(self) -> tuple[int, int]:
        return self._numbers[0], self._numbers[2]

    def done(self) -> tuple[int, int]:
        return self._numbers[1], self._numbers[3]

    def over(self) -> bool:
        return self._numbers[4] != 0

    def met_newer(self, reader: int, times: int) -> None:
        self._numbers[5 + reader] = times

    def least_newer(self) -> int:
        """How often the reader that met the fewest has met something newer."""
        return min(self._numbers[5:])


def stamp(number: int) -> dict[str, str]:
    return dict.fromkeys(("city", "region", "postalcode"), str(number))


def rows(number: int) -> list[PulledGeolocation]:
    """A generation: how many rows there are changes from one to the next, so that slots and offsets move."""
    found = [
        place(1, f"10.0.0.0-10.{number % 250}.255.255", "2001:db8::/32", **stamp(number)),
        place(2, "11.0.0.0/8", **stamp(number)),
        place(-1, "192.168.0.0/16", "10.0.3.0/24", latitude=1.5, longitude=2.5, **stamp(0)),
        *(place(100 + extra, f"172.16.{extra}.0/24", **stamp(number)) for extra in range(number % 7)),
    ]
    return [*found, place(3, "12.0.0.0/8", **stamp(number))] if number % 2 else found


def expected(address: str, generation: int) -> tuple[int, str, str] | None:
    """The locid and the range that an address has in a generation."""
    return {
        "10.0.1.1": (1, "10.0.0.0", "10.0.2.255"),
        "10.0.200.1": (1, "10.0.4.0", f"10.{generation % 250}.255.255"),
        "10.0.3.7": (-1, "10.0.3.0", "10.0.3.255"),
        "11.1.1.1": (2, "11.0.0.0", "11.255.255.255"),
        "192.168.1.1": (-1, "192.168.0.0", "192.168.255.255"),
        "2001:db8::1": (1, "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
        "12.1.2.3": (3, "12.0.0.0", "12.255.255.255") if generation % 2 else None,
        "172.16.3.9": (103, "172.16.3.0", "172.16.3.255") if generation % 7 > 3 else None,
    }[address]


class Reader:
    """One thread's view: what it saw, and the first thing that was wrong."""

    def __init__(self, geo: GeoLookup, progress: Progress, number: int) -> None:
        self.geo, self.progress, self.number = geo, progress, number
        self.chance = random.Random(number)
        self.seen = (0, 0)
        self.checked: Counter[str] = Counter()
        self.wrong: str | None = None
        self.newer = 0

    def run(self) -> None:
        last_looks = 0
        try:
            while last_looks < LAST_LOOKS:
                over = self.progress.over()
                self.geo.look_soon()  # as if a second had passed
                for ask in self.chance.sample([self.single, self.match, self.many, self.column], 2):
                    ask()
                if over and self.seen == self.progress.done():
                    return
                last_looks += over
            self.wrong = f"the last publish, {self.progress.done()}, is not seen: {self.seen} is"
        except AssertionError as error:
            self.wrong = str(error)
        except Exception as error:  # whatever it is, it is what the test is after
            self.wrong = f"{type(error).__name__}: {error}"

    def single(self) -> None:
        for address in self.chance.choices(ADDRESSES, k=50):
            found = self.geo.lookup(address)
            self.check("single", [address], [None if found is None else (found.locid, found.city, found.region)])

    def match(self) -> None:
        for address in self.chance.choices(ADDRESSES, k=50):
            found = self.geo.match(address)
            if found is None:
                self.check("match", [address], [None])
                continue
            place = found.geolocation
            assert found.layer == ("custom" if place.locid < 0 else "default"), f"match: {found}"
            self.check("match", [address], [(place.locid, place.city, place.postalcode)])
            # The custom ranges are the same in every generation.
            generation = int(place.city) if place.locid > 0 else 0
            right = expected(address, generation)
            assert right == (place.locid, found.first, found.last), f"match: of two publishes: {found}"

    def many(self) -> None:
        found = self.geo.lookup_many(MANY)
        self.check("many", MANY, [one and (one.locid, one.city, one.region) for one in found])

    def column(self) -> None:
        table = locate(self.geo, COLUMN, FIELDS)
        columns = [table[name].to_pylist() for name in ("locid", "city", "region")]
        answers = [None if locid is None else (locid, *rest) for locid, *rest in zip(*columns, strict=True)]
        self.check("column", ADDRESSES * (len(COLUMN) // len(ADDRESSES)), answers)

    def check(self, kind: str, asked: Sequence[str], answers: Sequence[Any]) -> None:
        """All are of one publish, which lies between what this thread saw before and what has begun by now."""
        begun = self.progress.begun()
        stamps: list[set[int]] = [set(), set()]
        for answer in answers:
            if answer is not None:
                assert answer[1] == answer[2], f"{kind}: fields of two publishes: {answer}"
                stamps[answer[0] < 0].add(int(answer[1]))
        assert max(map(len, stamps)) <= 1, f"{kind}: answers of two publishes: {stamps}"
        generation, edit = (one.pop() if one else None for one in stamps)
        for new, before, latest in zip((generation, edit), self.seen, begun, strict=True):
            assert new is None or before <= new <= latest, f"{kind}: {new} after {before}, begun {latest}"
        # Where only uncovered addresses were asked for, one of the generations that it can have been must say so.
        latest = begun[0] if generation is None else generation
        possible = range(self.seen[0] if generation is None else generation, latest + 1)
        locids = {(address, answer and answer[0]) for address, answer in zip(asked, answers, strict=True)}
        assert any(
            all(
                locid == (right and right[0])
                for right, locid in ((expected(at, number), locid) for at, locid in locids)
            )
            for number in possible
        ), f"{kind}: {dict(zip(asked, answers, strict=True))} fits no generation from {self.seen[0]} to {latest}"
        now = generation or self.seen[0], edit or self.seen[1]
        self.newer += now > self.seen
        self.progress.met_newer(self.number, self.newer)
        self.seen = now
        self.checked[kind] += len(answers)


def ask_from_threads(geo: GeoLookup, progress: Progress, seed: int) -> dict[str, Any]:
    readers = [Reader(geo, progress, seed * THREADS + number) for number in range(THREADS)]
    threads = [threading.Thread(target=reader.run) for reader in readers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        "checked": sum((reader.checked for reader in readers), Counter()),
        "wrong": [reader.wrong for reader in readers if reader.wrong is not None],
        "newer": min(reader.newer for reader in readers),
        "reader": geo.status().reader,
        "problem": geo.status().problem,
    }


def main(home: str, path: str) -> list[dict[str, Any]]:
    progress = Progress(path)
    found = []
    # Threads take turns so often that some stand in the midst of every call when a publish is swapped in.
    sys.setswitchinterval(1e-5)
    with GeoLookup(home) as geo:
        # In use before the fork: what it keeps is copied.
        Reader(geo, progress, 0).column()
        Reader(geo, progress, 0).many()
        children = []
        for number in range(CHILDREN):
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    os.write(writer, json.dumps(ask_from_threads(geo, progress, 1 + number)).encode())
                    status = 0
                finally:
                    os._exit(status)
            os.close(writer)
            children.append((child, reader))
        print("asking", flush=True)
        found.append(ask_from_threads(geo, progress, 0))
        for child, reader in children:
            with os.fdopen(reader, "rb") as pipe:
                found.append(json.loads(pipe.read()))
            assert os.waitpid(child, 0)[1] == 0
    return found


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
