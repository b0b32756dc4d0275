"""A process that looks addresses up while others refresh and edit: what it saw, and what it took of the machine.

Its arguments are the state directory and a file that appears when it shall end; it prints one JSON object.
"""

import json
import os
import sys
import time
from typing import Any

from geolookup.lookup.engine import GeoLookup

STAMPED = ["10.1.1.1", "11.1.1.1", "2001:db8::1", "192.168.1.1", "10.255.255.255"]
#: An edit moves one block from here to there and back: at any time exactly one of the two is covered.
MOVED = ["172.16.0.1", "172.17.0.1"]
SAMPLE_EVERY = 3


def usage(home: str) -> dict[str, int]:
    """What this process has: private memory, open descriptors, and mapped files of the state."""
    with open("/proc/self/status", encoding="ascii") as file:
        anonymous_kib = next(int(line.split()[1]) for line in file if line.startswith("RssAnon:"))
    with open("/proc/self/maps", encoding="utf-8") as file:
        maps = sum(home in line for line in file)
    return {"memory_kib": anonymous_kib, "descriptors": len(os.listdir("/proc/self/fd")), "maps": maps}


def read(home: str, done: str) -> dict[str, Any]:
    """Look up until told to end."""
    problems: list[str] = []
    samples: list[dict[str, int]] = []
    lookups = newest = seen = 0
    over = False
    with GeoLookup(home) as geo:
        while not over and not problems:
            over = os.path.exists(done)  # then one last look, which must find the last
            geo.look_soon()  # as if a second had passed
            places = geo.lookup_many([*STAMPED, *MOVED])
            lookups += 1
            stamps = {
                (place.city, place.region, place.postalcode) if place else None for place in places[: len(STAMPED)]
            }
            here, there = places[len(STAMPED) :]
            if len(stamps) != 1 or None in stamps:
                problems.append(f"a mixture of generations: {places}")
                break
            if (here is None) == (there is None):
                problems.append(f"half an edit: {here}, {there}")
            number = int(stamps.pop()[0])  # type: ignore[index] # None is excluded above
            if number < newest:
                problems.append(f"{number} after {newest}")
            if number > newest:
                newest, seen = number, seen + 1
                if seen % SAMPLE_EVERY == 0:
                    samples.append({"number": number, **usage(home)})
            time.sleep(0.01)
        if geo.status().problem is not None:
            problems.append(str(geo.status().problem))
    return {"lookups": lookups, "newest": newest, "seen": seen, "problems": problems, "samples": samples}


if __name__ == "__main__":
    print(json.dumps(read(*sys.argv[1:])))
