"""A part of the bundled data, which most tests have for the whole of it: a first state is there in a tenth of the time.

It is of the same shape, and what it holds is as it is there: no country is left out, since the bundled countries get
their locids by the order of their codes, nor any range with an address that stands in a test or on a page.
"""

import contextlib
import gzip
import os
import re
import socket
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
WHOLE: Final = str(ROOT / "src" / "geolookup_data" / "__init__.py")
#: Each of so many ranges is there, besides.
_EVERY: Final = 50
_RANGES: Final = "rir-country-ranges.csv.gz"
_ADDRESS: Final = re.compile(r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7})(?![\w:])")


def small_data(folder: Path) -> Path:
    """Make the package `geolookup_data` in a folder for PYTHONPATH."""
    package = folder / "geolookup_data"
    package.mkdir(parents=True)
    whole = Path(WHOLE).parent
    for name in os.listdir(whole):
        if name not in (_RANGES, "__pycache__"):
            (package / name).symlink_to(whole / name)
    asked = sorted(set(_asked()))
    by_length = {length: [each for each in asked if len(each) == length] for length in (4, 16)}
    with gzip.open(whole / _RANGES, "rt") as every, gzip.open(package / _RANGES, "wt", compresslevel=1) as some:
        some.write(next(every))
        countries = set()
        for number, line in enumerate(every):
            first, last, *_, country = line.split(",")
            if number % _EVERY == 0 or country not in countries or _has_one(first, last, by_length):
                some.write(line)
                countries.add(country)
    return folder


def _asked() -> Iterator[bytes]:
    for path in (*(ROOT / "tests").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"):
        for text in _ADDRESS.findall(path.read_text(encoding="utf-8")):
            with contextlib.suppress(OSError):  # of a time, or a version
                yield _packed(text)


def _packed(address: str) -> bytes:
    """Sorts as addresses of one family do; those of two families are of two lengths."""
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def _has_one(first: str, last: str, by_length: dict[int, list[bytes]]) -> bool:
    begin = _packed(first)
    addresses = by_length[len(begin)]
    at = bisect_left(addresses, begin)
    return at < len(addresses) and addresses[at] <= _packed(last)
