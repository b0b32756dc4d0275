"""Several sources as one layer: their flattened indexes, stacked in order, make one index file.

For each address the first source that covers it answers, with its whole record. A mask (a location of locid 0) ends the
search too: its addresses become a gap. All inputs are disjoint and sorted, so this is one walk over all of them side by
side, and a lookup in the result costs the same for one source and for ten.
"""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from geolookup.index import recording
from geolookup.index.flatten import EMPTY, I64, U32, U64, Array
from geolookup.index.segments import SegmentSections
from geolookup.index.walk import Stretch, walk
from geolookup.index.writer import IndexSummary, string_table, write_errors, write_index
from geolookup.model.fields import DEGREES, TEXT_NAMES

if TYPE_CHECKING:
    from geolookup.index.reader import IndexReader

_NOTHING = -1


def write_stack(
    path: str | os.PathLike[str],
    layers: "Sequence[tuple[str, IndexReader]]",
    *,
    layer: Literal["default", "custom"] = "default",
    extra: Mapping[str, str] | None = None,
    folder: str | None = None,
) -> IndexSummary:
    """Write one layer from several: (name, index) pairs, the one of highest precedence first.

    In ``folder`` stands what is large meanwhile, in files without names; without one, it is in memory. The file is
    written to exactly ``path``, which must not exist, and synced; it is not renamed, and its directory is not synced.
    ``extra`` joins the metadata. Locids may occur in several sources: then slots ascend by locid and, within one, by
    source. Of custom layers, which name no sources, the names do not matter.

    :raises IndexDamagedError: if an index is damaged
    :raises IndexFileError: if ``path`` exists or cannot be written, or there are more sources than a file can name
    """
    readers = [reader for _, reader in layers]
    sections, slots = _locations(readers)
    locations = len(sections["loc.locid"])
    if layer == "custom":
        sections.pop("loc.source", None)
    blocks = {name: sum(reader.counts[name] for reader in readers) for name in ("blocks_v4", "blocks_v6")}
    with write_errors(os.fspath(path)):
        recorded, numbers, weak = recording.stacked(readers, slots, folder)
        segments = SegmentSections(sum(int(np.count_nonzero(own >= 0)) for own in numbers), folder, weak=weak)
        for _, lo, number in _laid_over(readers, 4, numbers, weak):
            segments.add_v4(lo.astype(np.uint32), number)
        for hi, lo, number in _laid_over(readers, 6, numbers, weak):
            segments.add_v6(hi, lo, number)
    found, counts = segments.finish(blocks)
    counts["locations"] = locations
    size, digest = write_index(
        path,
        {**sections, **recorded, **found},
        layer=layer,
        counts=counts,
        sources=[name for name, _ in layers] if layer == "default" else (),
        extra=extra,
    )
    return IndexSummary(**counts, bytes=size, sha256=digest)


def answered_by(reader: "IndexReader") -> dict[str, tuple[int, int]]:
    """The numbers of IPv4 and IPv6 addresses that each source answers, by its name; of a file that names none, by "".

    :raises IndexDamagedError: if the index cannot be followed
    """
    arrays = reader.arrays()
    names = reader.sources or ("",)
    source = np.asarray(arrays["loc.source"], np.int64) if "loc.source" in arrays else None
    if source is None:
        source = np.zeros(reader.location_count, np.int64)
    numbers = np.append(source, -1)
    found = {name: [0, 0] for name in names}
    families: tuple[Literal[4, 6], ...] = (4, 6)
    for position, family in enumerate(families):
        for stretch in walk([reader], family):
            own = numbers[stretch.slots[0]]
            for number, name in enumerate(names):
                mine = np.flatnonzero(own == number)
                found[name][position] += sum(
                    int(limb[mine].sum(dtype=np.uint64)) << shift for limb, shift in stretch.lengths()
                )
    return {name: (v4, v6) for name, (v4, v6) in found.items()}


def _locations(readers: "Sequence[IndexReader]") -> tuple[dict[str, Array], list[I64]]:
    """The location sections of all files together, and for each file the new slot of each of its own.

    A mask has no slot: it is `_NOTHING`. A last item stands for what a file does not cover (slot -1 in a walk).
    """
    texts: dict[str, int] = {"": 0}
    arrays = [reader.arrays() for reader in readers]
    kept = [each["loc.locid"] != 0 for each in arrays]

    def together(columns: Sequence[Array]) -> Array:
        chosen = [column[keep] for column, keep in zip(columns, kept, strict=True)]
        return np.concatenate(chosen) if chosen else np.empty(0, np.int64)

    numbers = [_text_numbers(each, texts) for each in arrays]
    locid = together([each["loc.locid"] for each in arrays]).astype(np.int64)
    source = together([np.full(len(each["loc.locid"]), number, np.uint8) for number, each in enumerate(arrays)])
    order = np.lexsort((source, locid))
    sections: dict[str, Array] = {"loc.locid": locid[order]}
    for name in DEGREES:
        sections[f"loc.{name}"] = together([each[f"loc.{name}"] for each in arrays]).astype(np.float64)[order]
    for name in TEXT_NAMES:
        columns = [own[each[f"loc.{name}"]] for own, each in zip(numbers, arrays, strict=True)]
        sections[f"loc.{name}"] = together(columns).astype(np.int32)[order]
    if arrays and all("loc.pending" in each for each in arrays):
        sections["loc.pending"] = together([each["loc.pending"] for each in arrays]).astype(np.uint8)[order]
    if len(readers) > 1:
        sections["loc.source"] = source.astype(np.uint8)[order]
    sections["strings.offsets"], sections["strings.bytes"] = string_table(texts)
    renumbered = np.empty(len(order), np.int64)
    renumbered[order] = np.arange(len(order))
    slots = []
    begin = 0
    for keep in kept:
        own = np.full(len(keep) + 1, _NOTHING, np.int64)
        count = int(np.count_nonzero(keep))
        own[:-1][keep] = renumbered[begin : begin + count]
        slots.append(own)
        begin += count
    return sections, slots


def _text_numbers(arrays: Mapping[str, Array], texts: dict[str, int]) -> I64:
    """The number in ``texts``, which grows, of each text of a file."""
    data = arrays["strings.bytes"].tobytes()
    offsets = arrays["strings.offsets"].tolist()
    own = [data[begin:end].decode("utf-8") for begin, end in itertools.pairwise(offsets)]
    return np.array([texts.setdefault(text, len(texts)) for text in own], np.int64)


def _laid_over(
    readers: "Sequence[IndexReader]", family: Literal[4, 6], numbers: Sequence[I64], weak: int
) -> Iterator[tuple[U64, U64, U32]]:
    """Upper and lower halves of the first addresses, and records, of one family's segments, in pieces."""
    before = _NOTHING - 1  # unlike any slot: the first segment always begins
    for stretch in walk(readers, family, records=True):
        hi, lo, found = _winners(stretch, numbers, weak)
        starts = np.append(True, found[1:] != found[:-1])
        starts[0] = found[0] != before
        before = int(found[-1])
        slot = found[starts].astype(np.uint32)
        slot[found[starts] == _NOTHING] = EMPTY
        yield hi[starts], lo[starts], slot


def _winners(stretch: Stretch, numbers: Sequence[I64], weak: int) -> tuple[Array, Array, I64]:
    """The winner from each start on. What is weak wins only where nothing else does, and hides nothing."""
    winner = np.full(len(stretch.lo), _NOTHING, np.int64)
    undecided = np.ones(len(winner), np.bool_)
    for own, here in zip(numbers, stretch.slots, strict=True):
        found = own[here]
        strong = found < weak
        winner = np.where(undecided & (strong & (found >= 0) | (winner == _NOTHING)), found, winner)
        undecided &= (here < 0) | ~strong
    return stretch.hi, stretch.lo, winner
