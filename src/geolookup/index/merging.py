"""Several sources' networks as one layer, merged fact by fact: for each key the first source that has it says it.

The AS number of one source and the VPN flag of another do not contradict each other. So for each address the records
that the sources have there become one record, and each distinct tuple of their numbers one number. All inputs are
disjoint and sorted: it is two walks over all of them side by side, and a lookup in the result costs the same for one
source and for ten.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from geolookup.index import mmdb
from geolookup.index.flatten import EMPTY, I64, U64, Array
from geolookup.index.layout import MOST_SOURCES, PART, WIDE_EMPTY
from geolookup.index.recording import part_sections, renumbered_parts
from geolookup.index.scratch import Column, Texts
from geolookup.index.segments import SegmentSections
from geolookup.index.walk import Stretch, walk
from geolookup.index.writer import IndexSummary, string_table, unwritable, write_index
from geolookup.model.errors import IndexFileError, PullError
from geolookup.model.fields import DEGREES, TEXT_NAMES

if TYPE_CHECKING:
    from geolookup.index.reader import IndexReader

_NOTHING = -1
_SAID = "record.said"
_FAMILIES: tuple[Literal[4], Literal[6]] = (4, 6)


def write_merged(
    path: str | os.PathLike[str],
    layers: "Sequence[tuple[str, IndexReader]]",
    *,
    extra: Mapping[str, str] | None = None,
    folder: str | None = None,
) -> IndexSummary:
    """Write one layer of networks from several: (name, index) pairs, the one of highest precedence first.

    In ``folder`` stands what is large meanwhile, in files without names; without one, it is in memory. The file is
    written to exactly ``path``, which must not exist, and synced; it is not renamed, and its directory is not synced.
    ``extra`` joins the metadata.

    :raises PullError: if the sources together say more different things than a file can number
    :raises IndexDamagedError: if an index is damaged
    :raises IndexFileError: if ``path`` exists or cannot be written, or there are more sources than a file can name
    """
    names, readers = [name for name, _ in layers], [reader for _, reader in layers]
    if len(names) > MOST_SOURCES:
        raise IndexFileError(f"{len(names)} sources: an index can tell at most {MOST_SOURCES} apart")
    try:
        merged = _Merged(names, readers, folder)
        for family in _FAMILIES:
            for stretch in walk(readers, family, records=True):
                merged.numbers(stretch)
        segments = SegmentSections(len(merged), folder)
        for family in _FAMILIES:
            before = _NOTHING - 1  # unlike any number: the first segment always begins
            for stretch in walk(readers, family, records=True):
                found = merged.numbers(stretch)
                starts = np.append(True, found[1:] != found[:-1])
                starts[0] = found[0] != before
                before = int(found[-1])
                number = found[starts].astype(np.uint32)
                number[found[starts] == _NOTHING] = EMPTY
                if family == 4:
                    segments.add_v4(stretch.lo[starts].astype(np.uint32), number)
                else:
                    segments.add_v6(stretch.hi[starts], stretch.lo[starts], number)
        recorded = merged.sections()
    except OSError as error:
        raise unwritable(os.fspath(path), error) from error
    blocks = {name: sum(reader.counts[name] for reader in readers) for name in ("blocks_v4", "blocks_v6")}
    found_sections, counts = segments.finish(blocks)
    counts["locations"] = 0
    sections = {**no_locations(), **recorded, **found_sections}
    size, digest = write_index(path, sections, layer="network", counts=counts, sources=names, extra=extra)
    return IndexSummary(**counts, bytes=size, sha256=digest)


def no_locations() -> dict[str, Array]:
    """The sections of a file without locations."""
    offsets, octets = string_table([""])
    return {
        "loc.locid": np.empty(0, np.int64),
        **{f"loc.{name}": np.empty(0, np.float64) for name in DEGREES},
        **{f"loc.{name}": np.empty(0, np.int32) for name in TEXT_NAMES},
        "strings.offsets": offsets,
        "strings.bytes": octets,
    }


def said_by(reader: "IndexReader") -> dict[str, tuple[int, int]]:
    """The numbers of IPv4 and IPv6 addresses of which each source said a fact, by its name.

    :raises IndexDamagedError: if the index cannot be followed
    """
    names = reader.sources or ("",)
    says = np.zeros((reader.record_count + 1, len(names)), np.bool_)
    arrays = reader.arrays()
    if _SAID in arrays:
        # Few distinct ones: each is understood once.
        for number in np.unique(arrays[_SAID]).tolist():
            which = np.flatnonzero(arrays[_SAID] == number)
            for name in set(reader.said(int(which[0])).values()):
                says[which, names.index(name)] = True
    else:
        says[:-1] = True
    found = {name: [0, 0] for name in names}
    for family in _FAMILIES:
        position = _FAMILIES.index(family)
        for stretch in walk([reader], family, records=True):
            lengths = stretch.lengths()
            for number, name in enumerate(names):
                mine = says[stretch.slots[0], number]
                found[name][position] += sum(int(limb[mine].sum(dtype=np.uint64)) << shift for limb, shift in lengths)
    return {name: (v4, v6) for name, (v4, v6) in found.items()}


class _Merged:
    """The records of several sources together, numbered in the order in which the tuples of theirs were met."""

    def __init__(self, names: Sequence[str], readers: "Sequence[IndexReader]", folder: str | None) -> None:
        self._names = names
        self._folder = folder
        self._keys = list(dict.fromkeys(key for reader in readers for key in reader.record_keys))
        self._texts = {key: Texts(folder) for key in self._keys}
        #: By source and key the number of each record's part, in one table for all sources.
        self._parts = [
            {
                key: renumbered_parts(reader, key, self._texts[key])
                for key in self._keys
                if PART + key in reader.arrays()
            }
            for reader in readers
        ]
        self._tuples = [_Pairs() for _ in readers[1:]]
        #: The number of each tuple's record, or `_NOTHING` as long as it is not known.
        self._record_of = np.full(1, _NOTHING, np.int64)
        self._known: dict[bytes, int] = {}
        self._rows = {key: Column("u4", folder) for key in (*self._keys, _SAID)}
        self._said = Texts(folder)
        self._said_numbers: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def numbers(self, stretch: Stretch) -> I64:
        """The number of the merged record at each start of a stretch; `_NOTHING` where no source says anything."""
        found = stretch.slots[0]
        if not self._tuples:
            found = found.copy()
        for pairs, slots in zip(self._tuples, stretch.slots[1:], strict=True):
            found = pairs.numbers(found, slots)
        distinct, first = np.unique(found, return_index=True)
        most = int(distinct[-1]) + 1
        if most > len(self._record_of):
            self._record_of = np.append(self._record_of, np.full(most - len(self._record_of), _NOTHING, np.int64))
        at = first[(distinct >= 0) & (self._record_of[distinct] == _NOTHING)]
        if len(at):
            self._record_of[found[at]] = self._merge([slots[at] for slots in stretch.slots])
        return np.where(found < 0, _NOTHING, self._record_of[found])

    def _merge(self, slots: Sequence[I64]) -> I64:
        """The numbers of the merged records of tuples, added if they are new. A tuple has an item in each array."""
        count = len(slots[0])
        row = np.zeros((count, len(self._keys)), np.uint32)
        source = np.zeros((count, len(self._keys)), np.uint8)
        for number, (own, parts) in enumerate(zip(slots, self._parts, strict=True)):
            there = own >= 0
            for at, key in enumerate(self._keys):
                if key in parts:
                    its = np.where(there, parts[key][np.where(there, own, 0)], 0)
                    takes = (row[:, at] == 0) & (its != 0)
                    row[takes, at] = its[takes]
                    source[takes, at] = number
        found = np.empty(count, np.int64)
        new: list[int] = []
        said: list[int] = []
        for at in range(count):
            own_row = row[at].tobytes() + source[at].tobytes()
            known = self._known.get(own_row)
            if known is None:
                known = self._known[own_row] = len(self._known)
                new.append(at)
                said.append(self._said_number(row[at], source[at]))
            found[at] = known
        if len(self._known) > WIDE_EMPTY:
            raise PullError(
                f"{', '.join(self._names)}: together they say more than {WIDE_EMPTY:,} different things of networks, "
                "more than an index can number: leave one of them out"
            )
        for at, key in enumerate(self._keys):
            self._rows[key].append(row[new, at])
        self._rows[_SAID].append(np.array(said, np.uint32))
        return found

    def _said_number(self, row: Array, source: Array) -> int:
        """The number of the part that says which source said each key of a record."""
        key = (row != 0).tobytes() + source.tobytes()
        number = self._said_numbers.get(key)
        if number is None:
            members = [
                (mmdb.text(name), mmdb.uint16(int(its)))
                for name, part, its in zip(self._keys, row, source, strict=True)
                if part
            ]
            number = self._said_numbers[key] = self._said.number(mmdb.map_of(members))
        return number

    def sections(self) -> dict[str, "Array | Column"]:
        """The sections of all records."""
        keys = {PART + key: (self._texts[key], self._rows[key].whole()) for key in self._keys}
        if len(self._names) == 1:
            return part_sections(keys, self._folder)
        found = part_sections({**keys, _SAID: (self._said, self._rows[_SAID].whole())}, self._folder)
        said = found[_SAID]
        assert not isinstance(said, Column)
        found[_SAID] = said.astype(np.uint32)
        return found


class _Pairs:
    """Numbers of distinct pairs, from 0 in the order in which they came; -1 and -1 are -1."""

    def __init__(self) -> None:
        self._sorted: U64 = np.empty(0, np.uint64)
        self._numbers: I64 = np.empty(0, np.int64)

    def numbers(self, one: I64, other: I64) -> I64:
        """The number of each pair; both are below 2**32 - 1."""
        keys = (one + 1).astype(np.uint64) << np.uint64(32) | (other + 1).astype(np.uint64)
        distinct, which = np.unique(keys, return_inverse=True)
        shift = int(distinct[0] == 0)  # the pair of nothing and nothing
        distinct = distinct[shift:]
        at: I64 = np.asarray(np.searchsorted(self._sorted, distinct), np.int64)
        there = np.zeros(len(distinct), np.bool_)
        inside = at < len(self._sorted)
        there[inside] = self._sorted[at[inside]] == distinct[inside]
        new = np.flatnonzero(~there)
        added = np.arange(len(self._sorted), len(self._sorted) + len(new))
        if len(self._sorted) + len(new) >= EMPTY:
            raise PullError("the sources of networks have too many different answers together: leave one of them out")
        found = np.empty(len(distinct), np.int64)
        found[there] = self._numbers[at[there]]
        found[new] = added
        self._sorted = np.insert(self._sorted, at[new], distinct[new])
        self._numbers = np.insert(self._numbers, at[new], added)
        numbered: I64 = np.append(np.full(shift, _NOTHING), found)[which.reshape(-1)]
        return numbered
