"""A part of the bundled data: of the same shape, and what it holds is as it is there."""

import gzip
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import geolookup_data

_EVERY: Final = 50
_RANGES: Final = "rir-country-ranges.csv.gz"


def small_data(folder: Path, asked: Iterable[str]) -> Path:
    """Make the package `geolookup_data` in a folder for PYTHONPATH: each fiftieth range, and those of ``asked``.

    No country is left out, since the bundled countries get their locids by the order of their codes.
    """
    package = folder / "geolookup_data"
    package.mkdir(parents=True)
    whole = Path(geolookup_data.__file__).parent
    for name in os.listdir(whole):
        if name not in (_RANGES, "__pycache__"):
            (package / name).symlink_to(whole / name)
    addresses = [_packed(address) for address in asked]
    with gzip.open(whole / _RANGES, "rt") as every, gzip.open(package / _RANGES, "wt", compresslevel=1) as some:
        some.write(next(every))
        countries = set()
        for number, line in enumerate(every):
            country = line.rpartition(",")[2]
            if number % _EVERY == 0 or country not in countries or _has_one(line, addresses):
                some.write(line)
                countries.add(country)
    return folder


def _packed(address: str) -> bytes:
    """Sorts as addresses of one family do; those of two families are of two lengths."""
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def _has_one(line: str, addresses: list[bytes]) -> bool:
    texts = line.split(",")
    first, last = _packed(texts[0]), _packed(texts[1])
    return any(first <= address <= last and len(first) == len(address) for address in addresses)
