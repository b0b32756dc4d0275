"""A fingerprint of all answers that two layers give together: equal exactly if every address has the same answer.

It is the SHA-256 of what follows, integers big-endian, so that any program can compute it from its own copy:

- the text ``geolookup-answers-1`` and a newline;
- for IPv4, then IPv6: the character ``4`` or ``6``, then each maximal run of addresses with one answer, ascending from
  the first address of the family: the run's first address (4 or 16 bytes), the answer's locid (8, signed; 0 if
  nothing covers);
- the character ``L``, then each geolocation that some address has, by ascending locid: the locid (8), latitude and
  longitude (IEEE 754 binary64; one that is not known as the NaN 7ff8000000000000, zero without a sign), then country,
  region, city, postalcode, dmacode and areacode, each as its length in bytes (4) and its UTF-8. Each field more
  in `fields.FIELDS` raises the number in the first line.

Neither the order of blocks nor how they are split, nor generations, text numbers or pending edits have a part in it.
"""

import hashlib
import struct
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from geolookup.errors import IndexDamagedError
from geolookup.fields import DEGREES, LATER_NAMES, TEXT_NAMES
from geolookup.index.compare import texts_of
from geolookup.index.walk import Stretch, walk

if TYPE_CHECKING:
    from geolookup.index.compare import LayerPair
    from geolookup.index.flatten import I64
    from geolookup.index.reader import IndexReader

_PREFIX = f"geolookup-answers-{1 + len(LATER_NAMES)}\n".encode("ascii")
_RUN_V4 = np.dtype([("first", ">u4"), ("locid", ">i8")])
_RUN_V6 = np.dtype([("hi", ">u8"), ("lo", ">u8"), ("locid", ">i8")])


def fingerprint(layers: "LayerPair") -> str:
    """The fingerprint of what the default and the custom layer answer together, in hexadecimal.

    Walks every segment: some seconds for millions of blocks, in memory that grows with the geolocations only.

    :raises IndexDamagedError: if a file's segments or locations cannot be followed
    """
    digest = hashlib.sha256(_PREFIX)
    used = [np.zeros(reader.location_count + 1, np.bool_) for reader in layers]
    # The item past the last is for what is not covered.
    locids = [np.append(reader.arrays()["loc.locid"], 0).astype(np.int64) for reader in layers]
    families: tuple[Literal[4], Literal[6]] = (4, 6)
    for family in families:
        digest.update(str(family).encode("ascii"))
        before: int | None = None
        for stretch in walk(layers, family):
            runs, before = _runs(stretch, locids, used, family, before)
            digest.update(runs)
    digest.update(b"L")
    # Custom locids are below zero, so their layer comes first.
    for reader, own in reversed(list(zip(layers, used, strict=True))):
        for row in _rows(reader, np.flatnonzero(own[:-1])):
            digest.update(row)
    return digest.hexdigest()


def _runs(
    stretch: Stretch, locids: "list[I64]", used: list[Any], family: Literal[4, 6], before: int | None
) -> tuple[bytes, int]:
    """The runs that begin in a stretch, and the locid of the last; ``before`` is the one that reaches into it."""
    base, over = stretch.slots
    # Of starts at one address only the last reaches any further.
    reaches = np.append((stretch.hi[1:] != stretch.hi[:-1]) | (stretch.lo[1:] != stretch.lo[:-1]), True)
    base, over = base[reaches], over[reaches]
    covered = over != -1
    used[1][over[covered]] = True
    used[0][base[~covered]] = True
    locid = np.where(covered, locids[1][over], locids[0][base])
    begins = np.append(True, locid[1:] != locid[:-1])
    begins[0] = before is None or int(locid[0]) != before
    runs = np.empty(int(begins.sum()), _RUN_V4 if family == 4 else _RUN_V6)
    if family == 4:
        runs["first"] = stretch.lo[reaches][begins]
    else:
        runs["hi"], runs["lo"] = stretch.hi[reaches][begins], stretch.lo[reaches][begins]
    runs["locid"] = locid[begins]
    return runs.tobytes(), int(locid[-1])


def _rows(reader: "IndexReader", slots: "I64") -> "list[bytes]":
    arrays = reader.arrays()
    texts = [struct.pack(">I", len(text)) + text for text in texts_of(reader)]
    numbers = np.empty(len(slots), np.dtype([("locid", ">i8"), *((name, ">f8") for name in DEGREES)]))
    numbers["locid"] = arrays["loc.locid"][slots]
    for name in DEGREES:
        degrees = arrays[f"loc.{name}"][slots] + 0.0  # which takes the sign from a zero
        degrees[np.isnan(degrees)] = np.nan
        numbers[name] = degrees
    columns = [arrays[f"loc.{name}"][slots].tolist() for name in TEXT_NAMES]
    try:
        joined = [b"".join([texts[number] for number in row]) for row in zip(*columns, strict=True)]
    except IndexError as error:
        raise IndexDamagedError(f"{reader.path}: a location names a text that is not there") from error
    width = numbers.dtype.itemsize
    head = numbers.tobytes()
    return [head[at * width : (at + 1) * width] + text for at, text in enumerate(joined)]
