"""The blocks of a cache.db that has no rows of them: they are the segments of the index beside it, one by one.

That is so if no two blocks overlap, and no two neighbours say the same: nearly always in a MaxMind DB. Rows of 8
million blocks would take twice the room of the index, and a third of the time of a sync.
"""

import contextlib
import itertools
import os
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Literal

import numpy as np

from geolookup.index.flatten import I64, U32, U64, Array
from geolookup.index.layout import EMPTY
from geolookup.index.reader import IndexReader
from geolookup.index.segments import segments_v4, segments_v6
from geolookup.index.walk import walk
from geolookup.model.errors import IndexFileError, StateDamagedError
from geolookup.state.packs.reading import readable

#: So many segments are read at a time.
_PIECE = 1 << 18
#: In place of the locid of what is no block.
_NOBODY = np.iinfo(np.int64).min


def covering(cache: str, family: Literal[4, 6], value: int) -> tuple[int, int, int] | None:
    """The block of the file ``cache`` that covers an address: locid (0 of a mask), first and last; None if none does.

    :raises StateDamagedError: if the index is not what was written
    """
    with _index_of(cache) as reader:
        record, first, last = reader.piece(family, value)
        slot = EMPTY if record == EMPTY else reader.slot_of_record(record)
        return None if slot == EMPTY else (int(reader.location(slot)[0]), first, last)


def blocks_of(cache: str, locids: Collection[int]) -> Iterator[Iterator[tuple[int, int, int | bytes, int | bytes]]]:
    """The blocks of places of the file ``cache``, in parts: family, locid, first and last as `number_rows` has them.

    :raises StateDamagedError: if the index is not what was written
    """
    families: tuple[Literal[4, 6], ...] = (4, 6)
    with _index_of(cache) as reader:
        for family in families:
            for chosen, *ends in _pieces(reader, family, locids):
                yield number_rows(chosen, *(ends[1::2] if family == 4 else ends), family=family)


def addresses_v4(cache: str, locids: Collection[int]) -> dict[int, int]:
    """The number of IPv4 addresses of each of these places of the file ``cache`` that has any.

    :raises StateDamagedError: if the index is not what was written
    """
    found: dict[int, int] = {}
    with _index_of(cache) as reader:
        for chosen, _, first, _, last in _pieces(reader, 4, locids):
            for locid, size in zip(chosen.tolist(), (last - first + np.uint64(1)).tolist(), strict=True):
                found[locid] = found.get(locid, 0) + size
    return found


def changes(old: str, new: str, renumbered: Iterable[tuple[int, int]]) -> dict[str, int]:
    """How many blocks of the file ``new`` are none of ``old`` (``added``), the reverse (``removed``), and how many have
    the range of one of ``old`` and belong to another place (``changed``).

    SQL would sort nearly all blocks of both files: after a night most places have another block or two.

    :param renumbered: the numbers that places of ``old`` had, and those that they have in ``new``
    :raises StateDamagedError: if an index is not what was written
    """
    counts = dict.fromkeys(("added", "removed", "changed"), 0)
    for _, starts in _side_by_side(old, new, renumbered):
        was, now, shared = _of_whom(starts)
        counts["added"] += int(np.count_nonzero(now & ~shared))
        counts["removed"] += int(np.count_nonzero(was & ~shared))
        counts["changed"] += int(np.count_nonzero(shared & (starts[2, :-1] != starts[3, :-1])))
    return counts


def changed_blocks(
    old: str, new: str, renumbered: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, Iterator[tuple[Any, ...]]]]:
    """The blocks that `changes` counts, in parts: 0 for those of ``old``, or 1, and rows as `blocks_of` has them.

    One that is changed is among both, each with its place; the places of ``old`` have the numbers of now.

    :raises StateDamagedError: if an index is not what was written
    """
    waiting = [np.empty((4, 0), np.int64)] * 2  # the newest block of each file, whose end is not known yet
    for family, starts in _side_by_side(old, new, renumbered):
        *owned, shared = _of_whom(starts)
        stays = shared & (starts[2, :-1] == starts[3, :-1])
        for side, own in enumerate(owned):
            blocks = np.stack([own & ~stays, *starts[(2 + side, 4, 5), :-1]])[:, starts[side, :-1] != 0]
            blocks = np.concatenate([waiting[side], blocks], axis=1)
            waiting[side] = blocks[:, -1:]
            chosen = np.flatnonzero(blocks[0, :-1])
            first, past = blocks[2:, chosen].view(np.uint64), blocks[2:, chosen + 1].view(np.uint64)
            ends = (*first, *_one_before(*past))
            yield side, number_rows(blocks[1, chosen], *(ends[1::2] if family == 4 else ends), family=family)


def _side_by_side(old: str, new: str, renumbered: Iterable[tuple[int, int]]) -> Iterator[tuple[Literal[4, 6], I64]]:
    """The starts of two files, in parts, of which the last one comes again as the first of the next part.

    In columns: whether a segment of either file begins there, whose it is, and both halves of the address. The last
    ones are one past the last address.
    """
    families: tuple[Literal[4, 6], ...] = (4, 6)
    with _index_of(old) as before, _index_of(new) as after:
        locids = _locids(before, renumbered), _locids(after, ())
        for family in families:
            waiting, newest = np.empty((6, 0), np.int64), [-2, -2]
            for stretch in walk((before, after), family, records=True):
                begins = [np.diff(own, prepend=last) != 0 for own, last in zip(stretch.slots, newest, strict=True)]
                newest = [int(own[-1]) for own in stretch.slots]
                places = [own[numbers] for own, numbers in zip(locids, stretch.slots, strict=True)]
                starts = np.stack([*begins, *places, stretch.hi.view(np.int64), stretch.lo.view(np.int64)])
                waiting = np.concatenate([waiting, starts[:, begins[0] | begins[1]]], axis=1)
                yield family, waiting
                waiting = waiting[:, -1:]
            end = [[1], [1], [_NOBODY], [_NOBODY], [0], [1 << 32 if family == 4 else 0]]
            yield family, np.concatenate([waiting, end, end], axis=1)


def _of_whom(starts: I64) -> tuple[Array, Array, Array]:
    """Of all starts but the last: whether a block of the first file, and of the second, begins there, and whether both
    do and end together.
    """
    both = (starts[0] & starts[1]) != 0
    was, now = ((starts[at, :-1] != 0) & (starts[at + 2, :-1] != _NOBODY) for at in (0, 1))
    return was, now, was & now & both[:-1] & both[1:]


def _one_before(hi: U64, lo: U64) -> tuple[U64, U64]:
    return hi - (lo == 0), lo - np.uint64(1)


def _locids(reader: IndexReader, renumbered: Iterable[tuple[int, int]]) -> I64:
    """The locid of each record, with those numbers that places have now; `_NOBODY` of a weak one, and at the end."""
    arrays = reader.arrays()
    known = np.append(arrays["loc.locid"], _NOBODY)
    moved = np.array([*renumbered], np.int64).reshape(-1, 2)
    known[np.searchsorted(known[:-1], moved[:, 0])] = moved[:, 1]
    of_record = arrays.get("record.slot")
    if of_record is None:
        return known
    return np.append(known[np.minimum(of_record, len(known) - 1)], _NOBODY)


def number_rows(locids: I64, *ends: Array, family: int | None = None) -> Iterator[tuple[Any, ...]]:
    """Blocks as rows of a compact file have them: the locid, and both ends, those of IPv6 as 16 bytes; behind the
    ``family``, if there is one.

    ``ends`` are the first and last addresses: of IPv6 the halves of both, the upper one first.
    """
    if len(ends) == 4:
        ends = _packed(*ends[:2]), _packed(*ends[2:])
    before = [] if family is None else [itertools.repeat(family, len(locids))]
    return zip(*before, locids.tolist(), *(end.tolist() for end in ends), strict=True)


def _packed(hi: Array, lo: Array) -> Array:
    pairs = np.empty((len(hi), 2), ">u8")
    pairs[:, 0], pairs[:, 1] = hi, lo
    return pairs.view("V16")[:, 0]


def _pieces(reader: IndexReader, family: Literal[4, 6], locids: Collection[int]) -> Iterator[tuple[Array, ...]]:
    """Of the blocks of these places the locids, and the upper and lower halves of first and last, piece by piece."""
    known = reader.arrays()["loc.locid"]
    # A gap, or a record that says no place, has a slot above all others.
    wanted = np.append(np.isin(known, np.fromiter(locids, np.int64, len(locids))), False)
    count = reader.header.sections[f"v{family}.slot"].length
    for begin in range(0, count, _PIECE):
        end = min(begin + _PIECE, count)
        hi, lo, slots = _segments(reader, family, begin, min(end + 1, count))
        if end == count:  # one past the last address, of which the upper half is not needed
            hi, lo = np.append(hi, np.uint64(0)), np.append(lo, np.uint64(1 << 32 if family == 4 else 0))
        chosen = np.flatnonzero(wanted[np.minimum(slots[: end - begin], len(known))])
        first_hi, first_lo, past_hi, past_lo = hi[chosen], lo[chosen], hi[chosen + 1], lo[chosen + 1]
        last_hi, last_lo = _one_before(past_hi, past_lo)
        if np.any((first_hi > last_hi) | ((first_hi == last_hi) & (first_lo > last_lo))):
            raise StateDamagedError(f"{reader.path}: segments of IPv{family} are out of order: the file is damaged")
        yield known[slots[chosen]], first_hi, first_lo, last_hi, last_lo
        if count > _PIECE:
            reader.let_go()  # it was copied; else the whole file would stand in this process's memory


def _segments(reader: IndexReader, family: Literal[4, 6], begin: int, end: int) -> tuple[U64, U64, U32]:
    if family == 6:
        return segments_v6(reader, begin, end)
    first, slots = segments_v4(reader, begin, end)
    return np.zeros(len(first), np.uint64), first.astype(np.uint64), slots


@contextlib.contextmanager
def _index_of(cache: str) -> Iterator[IndexReader]:
    try:
        with IndexReader.open(readable(os.path.join(os.path.dirname(cache), "index"))) as reader:
            yield reader
    except IndexFileError as error:
        raise StateDamagedError(f"{cache}: its blocks cannot be read: {error}") from error
