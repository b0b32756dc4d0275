"""A process that looks addresses up while another publishes: it prints ``reading``, then what it saw as a JSON object.

Its arguments are the state directory, the number of the last publish, a file that appears once that was made, and the
seconds between two looks.
"""

import json
import os
import sys
import time
from typing import Any

from geolookup.lookup.engine import GeoLookup

ADDRESSES = ["10.1.1.1", "11.1.1.1", "2001:db8::1", "192.168.1.1", "fd00::1", "10.255.255.255"]


def read(home: str, last: str, done: str, pause_s: str) -> dict[str, Any]:
    """Look up until the last publish is seen, or was made and is not."""
    problems: list[str] = []
    seen: list[int] = []
    lookups = 0
    with GeoLookup(home) as geo:
        print("reading", flush=True)
        while not problems:
            over = os.path.exists(done)
            geo.look_soon()  # as if a second had passed
            places = geo.lookup_many(ADDRESSES)
            lookups += 1
            stamps = {text for place in places if place for text in (place.city, place.region, place.postalcode)}
            if None in places or len(stamps) != 1:
                problems.append(f"a mixture: {places}")
                break
            number = int(stamps.pop())
            if not seen or seen[-1] != number:
                seen.append(number)
            status = geo.status()
            if status.problem is not None:
                problems.append(f"at {number}: {status.problem}")
            if number == int(last):
                break
            time.sleep(float(pause_s))
            if over:
                problems.append(f"the last publish was made, and {number} is what this reader sees")
    return {"seen": seen, "lookups": lookups, "problems": problems}


if __name__ == "__main__":
    print(json.dumps(read(*sys.argv[1:])))
