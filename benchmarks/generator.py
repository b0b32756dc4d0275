"""The generator of the benchmarks' data: networks and locations shaped like a city database's, always the same."""

import os
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]

SEED = 20260201
#: Rises whenever the generator changes, so that nothing made by an earlier one is taken for its work.
GENERATION = 2
_SYLLABLES = (
    "an ar bad bel bon bur ca cor da del der dor el en es fa fer fil gar gen gra ham hel in ka kin la len lo lu mar "
    "mel mil mon na nor ol or pa per pol ra ri ro ros sal san sel sin ta ter tor ul va ver vil war win zu ö é ü å"
)
_STATES = (
    "AL AK AZ AR CA CO CT DE FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC ND OH OK OR PA "
    "RI SC SD TN TX UT VT VA WA WV WI WY"
)
#: The files of `generate`.
ARRAYS = ("first4", "last4", "bits4", "owner4", "first6", "last6", "bits6", "owner6")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many of what a data set has."""

    name: str
    v4: int
    v6: int
    locations: int

    @property
    def blocks(self) -> int:
        """Blocks of both families."""
        return self.v4 + self.v6


def _halve(
    start: Array, bits: Array, wanted: int, longest: int, evenness: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Halve random networks, larger ones rather, until there are ``wanted``, none longer than ``longest`` bits."""
    width = start.dtype.itemsize * 8
    while len(start) < wanted:
        chance = 2.0 ** (evenness * (bits.min() - bits.astype(np.float64))) * 0.2
        split = np.flatnonzero((rng.random(len(start)) < chance) & (bits < longest))
        split = rng.permutation(split)[: wanted - len(start)]
        bits[split] += 1
        upper = start[split] + (np.array(1, start.dtype) << (width - bits[split]).astype(start.dtype))
        start, bits = np.concatenate([start, upper]), np.concatenate([bits, bits[split]])
    order = np.argsort(start)
    return start[order], bits[order]


def _lasts(start: Array, bits: Array) -> Array:
    width = start.dtype.itemsize * 8
    one = np.array(1, start.dtype)
    last: Array = start + ((one << (width - bits).astype(start.dtype)) - one)
    return last


def generate(size: Size, path: str) -> None:
    """Make the folder ``path`` with an array a file: see `benchmarks.data.DataSet` for what they are."""
    rng = np.random.default_rng(SEED)
    octets = np.array([octet for octet in range(1, 224) if octet not in (10, 127)], np.uint32)
    start4, bits4 = _halve(octets << np.uint32(24), np.full(len(octets), 8), int(size.v4 * 1.04), 32, 0.1, rng)
    # What is left out becomes the gaps.
    kept = np.sort(rng.permutation(len(start4))[: size.v4])
    start4, bits4 = start4[kept], bits4[kept]
    tops = np.array([0x2001, 0x2400, 0x2600, 0x2800, 0x2A00, 0x2C00], np.uint64) << np.uint64(48)
    start6, bits6 = _halve(tops, np.array([16, 12, 12, 12, 12, 12]), size.v6 // 25, 32, 0.1, rng)
    # A registry hands out a /32 and keeps the room behind it.
    start6, bits6 = _halve(start6, np.maximum(bits6, 32), size.v6, 56, 0.02, rng)
    owner = _owners(size, rng)
    columns = (
        *(start4, _lasts(start4, bits4), bits4.astype(np.uint8), owner[: size.v4]),
        *(start6, _lasts(start6, bits6), bits6.astype(np.uint8), owner[size.v4 :]),
    )
    os.mkdir(path)
    for name, column in zip(ARRAYS, columns, strict=True):
        np.save(os.path.join(path, f"{name}.npy"), column)


def _owners(size: Size, rng: np.random.Generator) -> Array:
    """Which location each block belongs to: few have thousands, each has one, and some neighbours share theirs."""
    weight = np.cumsum(rng.lognormal(0.0, 2.0, size.locations))
    owner: Array = np.searchsorted(weight, rng.random(size.blocks) * weight[-1]).astype(np.uint32)
    again = np.flatnonzero(rng.random(size.blocks) < 0.12)
    again = again[again > 0]
    owner[again] = owner[again - 1]
    owner[rng.permutation(size.blocks)[: size.locations]] = np.arange(size.locations, dtype=np.uint32)
    return owner


def locations(count: int) -> list[tuple[str, str, str, str, float, float, str, str]]:
    """The eight fields of each location; a quarter is in the U.S. and has the codes that only exist there."""
    rng = np.random.default_rng(SEED + 1)
    parts, states = _SYLLABLES.split(), _STATES.split()
    codes = ["US", *(f"{chr(65 + index // 14)}{chr(66 + index % 14)}" for index in range(199))]
    shares = np.concatenate([[0.25], np.full(199, 0.75 / 199)])
    found = []
    for country, syllables, number, latitude, longitude in zip(
        rng.choice(len(codes), count, p=shares).tolist(),
        rng.integers(0, len(parts), (count, 3)).tolist(),
        rng.integers(0, 100_000, count).tolist(),
        np.round(rng.uniform(-60, 70, count), 4).tolist(),
        # Nearer to Greenwich, some would look as if latitude and longitude were swapped, and be refused.
        np.round(rng.uniform(91, 180, count) * rng.choice([-1, 1], count), 4).tolist(),
        strict=True,
    ):
        city = "".join(parts[index] for index in syllables).capitalize()
        if country == 0:
            place = (
                "US",
                states[number % len(states)],
                city,
                f"{number:05d}",
                latitude,
                longitude,
                str(500 + number % 210),
                str(201 + number % 780),
            )
        else:
            place = (
                codes[country],
                f"{number % 40:02d}",
                city,
                f"{number:05d}"[: 4 + number % 2],
                latitude,
                longitude,
                "",
                "",
            )
        found.append(place)
    return found
