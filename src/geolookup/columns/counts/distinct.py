"""Which addresses there are, each once, exactly and in bounded memory: what is too much for it goes to files."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from geolookup.columns.kernel import parse_quads
from geolookup.errors import InvalidAddressError
from geolookup.model.addresses import parse

#: Addresses that are held before they go to files: some 100 MiB if all are IPv6.
HELD: Final = 4_000_000
#: Files for each family. Equal addresses are in the same one, so each can be handled by itself.
_FILES: Final = 256
_SIX: Final = np.dtype([("upper", "<u8"), ("lower", "<u8")])
_DTYPES: Final = {4: np.dtype("<u4"), 6: _SIX}
_LOW64: Final = (1 << 64) - 1

Array = NDArray[Any]


class Distinct:
    """A set of addresses. It is a context manager, since it may have files.

    ``held`` is how many addresses it may hold in memory.
    """

    def __init__(self, held: int = HELD) -> None:
        self._held = held
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
        if sum(map(len, (*self._runs[4], *self._runs[6]))) > self._held:
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
