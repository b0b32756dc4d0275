"""Both kinds of knowledge side by side: for every address the number of its place, and that of its network's facts."""

from typing import NamedTuple, TypeAlias

import numpy as np

from geolookup.exports.content import Content
from geolookup.exports.segments import Segments, side_by_side
from geolookup.index.flatten import EMPTY, I64, U32, U64
from geolookup.model.addresses import SIX_TO_FOUR

#: The segments of IPv4 and of IPv6.
Families: TypeAlias = tuple[Segments, Segments]


class Answers(NamedTuple):
    """The values of the segments are numbers of ``place`` and ``network``: the place of each answer, and its network.

    Either is -1 if nothing is known; never both. No two answers have the same two.
    """

    four: Segments
    six: Segments
    place: I64
    network: I64

    def covered(self) -> int:
        """The number of segments that are not gaps."""
        return self.four.covered() + self.six.covered()


def answers_of(content: Content) -> Answers:
    """What some content says of each address."""
    networks = content.networks
    if networks is None:
        count = len(content.places)
        return Answers(content.four, content.six, np.arange(count), np.full(count, -1, np.int64))
    return paired((content.four, content.six), (networks.four, networks.six))


def paired(places: Families, networks: Families) -> Answers:
    """Both families of the places beside those of the networks."""
    families = [(places[0], networks[0]), _with_held(places, networks)]
    starts, pairs = [], []
    for family in families:
        hi, lo, (place, network) = side_by_side(*family)
        starts.append((hi, lo))
        pairs.append((_plus_one(place) << np.uint64(32)) | _plus_one(network))
    distinct, which = np.unique(np.concatenate(pairs), return_inverse=True)
    number: U32 = which.reshape(-1).astype(np.uint32)
    if len(distinct) and not distinct[0]:  # of what neither covers
        distinct = distinct[1:]
        number = np.where(number == 0, np.uint32(EMPTY), number - np.uint32(1))
    four, six = (
        Segments(hi, lo, own).merged() for (hi, lo), own in zip(starts, np.split(number, [len(pairs[0])]), strict=True)
    )
    place, network = distinct >> np.uint64(32), distinct & np.uint64(EMPTY)
    return Answers(four, six, place.astype(np.int64) - 1, network.astype(np.int64) - 1)


def _plus_one(values: U32) -> U64:
    """The values from 1 on; 0 for a gap."""
    found: U64 = values.astype(np.uint64) + np.uint64(1)
    found[values == EMPTY] = 0
    return found


def _with_held(*layers: Families) -> tuple[Segments, ...]:
    """IPv6 of both. Where one has blocks of 6to4 addresses, the other has there what it says of those they hold."""
    begin, end = SIX_TO_FOUR
    every = tuple(six for _, six in layers)
    own = [each.part(max(each.position(begin + 1) - 1, 0), each.position(end + 1)) for each in every]
    if not any((each.value != EMPTY).any() for each in own):
        return every
    hi, lo, values = side_by_side(*every, *(_of_6to4(four) for four, _ in layers))
    covered = (values[0] != EMPTY) | (values[1] != EMPTY)
    found = [np.where(covered & (own == EMPTY), held, own) for own, held in zip(values[:2], values[2:], strict=True)]
    return tuple(Segments(hi, lo, each) for each in found)


def _of_6to4(four: Segments) -> Segments:
    """What IPv4 says, of the 6to4 addresses that hold it; gaps around them."""
    begin, end = SIX_TO_FOUR
    after = end + 1
    hi = np.concatenate(([0], np.uint64(begin >> 64) | four.lo << np.uint64(16), [after >> 64])).astype(np.uint64)
    lo = np.zeros(len(hi), np.uint64)
    return Segments(hi, lo, np.concatenate(([EMPTY], four.value, [EMPTY])).astype(np.uint32))
