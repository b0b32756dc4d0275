"""Counts of addresses by location. They take one number for each location, for an input of any length.

`Distinct` is the exact set of the addresses, in bounded memory: what exceeds it goes to files.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from geolookup.columns.kernel import ABSENT, BAD, EMPTY, OVERLAY, SlotFinder, Slots, parse_quads
from geolookup.index.reader import IndexReader
from geolookup.model.addresses import parse, to_text
from geolookup.model.errors import InvalidAddressError

#: Addresses in memory before they go to files: some 100 MiB if all are IPv6.
IN_MEMORY: Final = 4_000_000
#: Files for each family. Equal addresses are in the same one, so each can be handled by itself.
_FILES: Final = 256
_SIX: Final = np.dtype([("upper", "<u8"), ("lower", "<u8")])
_DTYPES: Final = {4: np.dtype("<u4"), 6: _SIX}
_LOW64: Final = (1 << 64) - 1

_SLOT: Final = np.uint32(~OVERLAY & EMPTY)

Array = NDArray[Any]
Numbers = NDArray[np.int64]


class Distinct:
    """A set of addresses. It is a context manager, since it may have files.

    ``in_memory`` is how many addresses it may hold in memory.
    """

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._in_memory = in_memory
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        # Sorted arrays, each at most half as long as the one before: so an address is seldom sorted again.
        self._runs: dict[int, list[Array]] = {4: [], 6: []}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            self._folder.cleanup()
        self._runs = {4: [], 6: []}

    def add(self, tokens: Sequence[bytes]) -> None:
        """Add the addresses among some tokens, which follow each other; what is not an address is left out."""
        ends = np.zeros(len(tokens) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, tokens), np.int64, len(tokens)), out=ends[1:])
        values, is_quad = parse_quads(np.frombuffer(b"".join(tokens), np.uint8), ends)
        fours = [values[is_quad]]
        others: list[int] = []
        for row in np.flatnonzero(~is_quad).tolist():
            try:
                family, value = parse(tokens[row].decode("ascii"))
            except (InvalidAddressError, UnicodeDecodeError):
                continue
            if family == 4:
                fours.append(np.array([value], np.uint32))
            else:
                others.append(value)
        self._put(4, np.unique(np.concatenate(fours)))
        if others:
            halves = np.empty(len(others), _SIX)
            halves["upper"] = [value >> 64 for value in others]
            halves["lower"] = [value & _LOW64 for value in others]
            self._put(6, np.unique(halves))

    def _put(self, family: int, run: Array) -> None:
        runs = self._runs[family]
        while runs and len(runs[-1]) < 2 * len(run):
            run = np.union1d(runs.pop(), run)
        if len(run):
            runs.append(run)
        if sum(map(len, (*self._runs[4], *self._runs[6]))) > self._in_memory:
            self._spill()

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="geolookup-addresses-")
        for family, runs in self._runs.items():
            for run in runs:
                files = _file_of(family, run)
                order = np.argsort(files, kind="stable")
                bounds = np.searchsorted(files[order], np.arange(_FILES + 1))
                for number in np.flatnonzero(np.diff(bounds)).tolist():
                    with open(self._path(family, number), "ab") as file:
                        file.write(run[order[bounds[number] : bounds[number + 1]]].tobytes())
            runs.clear()

    def _path(self, family: int, number: int) -> str:
        assert self._folder is not None
        return os.path.join(self._folder.name, f"{family}-{number}")

    def fours(self) -> Iterator[NDArray[np.uint32]]:
        """Every IPv4 address once, as numbers: array after array."""
        for part in self._parts(4):
            yield part.astype(np.uint32, copy=False)

    def sixes(self) -> Iterator[list[int]]:
        """Every IPv6 address once, as numbers: list after list."""
        for part in self._parts(6):
            for begin in range(0, len(part), 1 << 16):
                some = part[begin : begin + (1 << 16)]
                yield [
                    upper << 64 | lower
                    for upper, lower in zip(some["upper"].tolist(), some["lower"].tolist(), strict=True)
                ]

    def _parts(self, family: int) -> Iterator[Array]:
        if self._folder is None:
            runs = self._runs[family]
            if runs:
                yield np.unique(np.concatenate(runs))
            return
        self._spill()
        for number in range(_FILES):
            path = self._path(family, number)
            if os.path.exists(path):
                yield np.unique(np.fromfile(path, _DTYPES[family]))


def _file_of(family: int, run: Array) -> NDArray[np.int64]:
    """The number of each address' file; any function of the address that spreads them would do."""
    if family == 4:
        mixed = run.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    else:
        mixed = (run["upper"] ^ (run["lower"] >> np.uint64(1))) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(56)).astype(np.int64)


class Tally:
    """Counts tokens by the location that answers for them, in one snapshot.

    ``layers`` are the default and the custom layer with the count of each of their slots; ``covered`` and
    ``not_covered`` count tokens. What is not an address is not counted.
    """

    def __init__(self, base: IndexReader, overlay: IndexReader, finder: SlotFinder | None = None) -> None:
        self._finder = finder or SlotFinder(base, overlay)
        self.layers = tuple((reader, np.zeros(reader.location_count, np.int64)) for reader in (base, overlay))
        self.covered = self.not_covered = 0

    def anew(self) -> "Tally":
        """A tally of the same snapshot in which nothing is counted yet."""
        (base, _), (overlay, _) = self.layers
        return Tally(base, overlay, self._finder)

    def add(self, found: Mapping[bytes, int]) -> list[bytes]:
        """Count tokens, each as often as ``found`` says; returns those that are not addresses."""
        tokens = list(found)
        times = np.fromiter(found.values(), np.int64, len(tokens))
        slots = self._add(_search(tokens), times)
        return [tokens[row] for row in np.flatnonzero(slots == BAD).tolist()]

    def add_distinct(self, found: Distinct) -> None:
        """Count each address of a set once."""
        for numbers in found.fours():
            data = np.ascontiguousarray(numbers).data
            once = np.ones(len(numbers), np.int64)
            self._add(lambda finder, data=data: finder.integers(data, None, 0, len(data), bits=32), once)  # type: ignore[misc]
        for many in found.sixes():
            tokens = [to_text(6, value).encode("ascii") for value in many]
            self._add(_search(tokens), np.ones(len(tokens), np.int64))

    def _add(self, search: Callable[[SlotFinder], Slots], times: Numbers) -> Slots:
        """Count what a search for some addresses finds, each so many times; returns their slots."""
        slots = search(self._finder)
        self.covered += count_slots(self.layers, slots, times)
        self.not_covered += int(times[slots == EMPTY].sum())
        return slots


def _search(tokens: Sequence[bytes]) -> Callable[[SlotFinder], Slots]:
    """What asks a finder about tokens."""
    offsets = np.zeros(len(tokens) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, tokens), np.int64, len(tokens)), out=offsets[1:])
    data = b"".join(tokens)
    return lambda finder: finder.strings(data, offsets.data, None, 0, len(tokens), large=True)


def count_slots(layers: Sequence[tuple[IndexReader, Numbers]], slots: Slots, times: Numbers) -> int:
    """Count each slot so many times in the numbers of its layer, the base's first; returns the sum of the times."""
    is_base = slots < OVERLAY
    is_over = (slots >= OVERLAY) & (slots < ABSENT)
    for (_, counts), chosen in zip(layers, (is_base, is_over), strict=False):
        np.add.at(counts, slots[chosen] & _SLOT, times[chosen])
    return int(times[is_base | is_over].sum())
