"""From geolocations, as they stream in, to a candidate's two files: rows in cache.db, segments in the index."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from geolookup.errors import PullError
from geolookup.index.builder import IndexBuilder
from geolookup.index.scratch.seen import Seen
from geolookup.model.types import field_values
from geolookup.state.base import files
from geolookup.state.base.candidate import Candidate
from geolookup.state.generations.cache import BlockRow, CacheWriter, GeolocationRow
from geolookup.upstream.decode import PulledGeolocation

_DIGEST_MODULUS = 1 << 256
#: The most blocks of one geolocation whose rows or text are made at a time.
_BLOCKS_A_STEP = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """What a candidate holds: ``rows`` as CURRENT records them, and the ``digest`` of the content.

    The digest depends on locids, fields and ranges only: not on the order, nor on how an address was written.
    """

    rows: dict[str, Any]
    digest: str


class Staging:
    """Takes batches of geolocations; holds some 20 bytes for each and for each distinct text, never the blocks: those
    go to temporary files in the candidate's directory.
    """

    def __init__(self, candidate: Candidate, *, source: str = "") -> None:
        """``source`` names what the answers are from."""
        self._candidate = candidate
        self._cache = CacheWriter(candidate.cache)
        self._index = IndexBuilder("default", source=source, folder=candidate.path)
        self._encoder = msgspec.json.Encoder()
        self._seen = Seen()
        self._digest = 0
        self._rows = {"geolocations": 0, "custom_geolocations": 0, "blocks": 0, "custom_blocks": 0}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cache.__exit__(kind, error, trace)

    def add(self, batch: list[PulledGeolocation]) -> None:
        """Add geolocations with their blocks.

        :raises PullError: if a locid has come before
        :raises StateUnwritableError: if the disk is full, or fails
        """
        with files.file_errors(self._candidate.index):
            self._add(batch)

    def _add(self, batch: list[PulledGeolocation]) -> None:
        places: list[GeolocationRow] = []
        blocks: list[BlockRow] = []
        for place in batch:
            locid = place.locid
            if not self._seen.add(locid):
                raise PullError(f"locid {locid} comes twice in the list: nothing was published")
            fields = field_values(place)
            ranges = sorted([block[:3] for block in place.blocks])
            digest = self._digest_of(locid, fields, ranges)
            self._digest = (self._digest + int.from_bytes(digest, "big")) % _DIGEST_MODULUS
            places.append((locid, *fields, len(ranges), digest.hex()[:32]))
            self._rows["geolocations"] += 1
            self._rows["blocks"] += len(ranges)
            if locid > 0:
                slot = self._index.add_location(locid, *fields)
                if ranges:
                    self._add_ranges(slot, ranges)
            else:
                self._rows["custom_geolocations"] += 1
                self._rows["custom_blocks"] += len(ranges)
            del ranges
            for begin in range(0, len(place.blocks), _BLOCKS_A_STEP):
                # The numbers as `cache.stored_number` makes them, without its call: this line runs millions of times.
                blocks += [
                    (locid, 4, text, end, first, last)
                    if family == 4
                    else (locid, 6, text, end, str(first).zfill(39), str(last).zfill(39))
                    for family, first, last, text, end in place.blocks[begin : begin + _BLOCKS_A_STEP]
                ]
                if len(blocks) >= _BLOCKS_A_STEP:
                    self._cache.add(places, blocks)
                    places, blocks = [], []
        self._cache.add(places, blocks)

    def _digest_of(self, locid: int, fields: tuple[Any, ...], ranges: list[tuple[Literal[4, 6], int, int]]) -> bytes:
        """The BLAKE2b of the JSON text of all three: of many ranges a part at a time."""
        if len(ranges) <= _BLOCKS_A_STEP:
            return hashlib.blake2b(self._encoder.encode((locid, fields, ranges)), digest_size=32).digest()
        hashed = hashlib.blake2b(self._encoder.encode((locid, fields))[:-1] + b",[", digest_size=32)
        for begin in range(0, len(ranges), _BLOCKS_A_STEP):
            text = self._encoder.encode(ranges[begin : begin + _BLOCKS_A_STEP])[1:-1]
            hashed.update(b"," + text if begin else text)
        hashed.update(b"]]")
        return hashed.digest()

    def _add_ranges(self, slot: int, ranges: list[tuple[Literal[4, 6], int, int]]) -> None:
        """Add sorted ranges, IPv4 before IPv6, in two calls: one for each of millions took a tenth of a sync."""
        families, firsts, lasts = zip(*ranges, strict=True)
        cut = families.count(4)
        if cut:
            self._index.extend_v4(slot, firsts[:cut], lasts[:cut])
        if cut < len(families):
            self._index.extend_v6(slot, firsts[cut:], lasts[cut:])

    def finish(self, about: Mapping[str, str]) -> Staged:
        """Complete both files durably. ``about`` is written into cache.db beside the digest."""
        digest = hashlib.sha256(f"{self._rows['geolocations']}:{self._digest:064x}".encode()).hexdigest()
        self._seen = Seen()
        self._cache.finish({**about, "digest": digest})
        with files.file_errors(self._candidate.index):
            summary = self._index.write(self._candidate.index, extra={"digest": digest})
        rows = {
            **self._rows,
            "segments_v4": summary.segments_v4,
            "segments_v6": summary.segments_v6,
            "addresses_v4": str(summary.covered_v4),
            "addresses_v6": str(summary.covered_v6),
        }
        return Staged(rows=rows, digest=digest)
