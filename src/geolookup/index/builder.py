"""Making an index file: locations and blocks are collected, flattened and written in one pass."""

import contextlib
import math
import operator
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from geolookup.index import flatten, mmdb
from geolookup.index.layout import EMPTY, OURS, WIDE_EMPTY
from geolookup.index.recording import RecordColumns
from geolookup.index.scratch import Column, Runs, Seen, Texts
from geolookup.index.segments import SegmentSections
from geolookup.index.writer import IndexSummary, string_table, unwritable, write_errors, write_index
from geolookup.model.addresses import IPV4_MAX, IPV6_MAX
from geolookup.model.errors import IndexFileError
from geolookup.model.fields import DEGREES, FIELD_NAMES, FIELDS, TEXT_NAMES
from geolookup.model.types import Geolocation, field_values

_LOW64 = (1 << 64) - 1
#: With a folder for what is large: how many blocks of a family, and how many locations, are collected in memory.
_BLOCKS = {4: 1 << 19, 6: 1 << 17}
_LOCATIONS = 1 << 14
#: The columns of blocks: first, last, slot; and first hi, first lo, last hi, last lo, slot.
_KINDS = {4: "III", 6: "QQQQI"}
#: So many blocks are flattened at a time.
_PIECE = 1 << 18
# Country, latitude and longitude are always there, so there are several of each kind.
_texts_of: Callable[[Sequence[Any]], tuple[str, ...]] = operator.itemgetter(*map(FIELD_NAMES.index, TEXT_NAMES))
_degrees_of: Callable[[Sequence[Any]], tuple[float | None, ...]] = operator.itemgetter(*map(FIELD_NAMES.index, DEGREES))


class IndexBuilder:
    """Collects the locations and blocks of one layer, in any order, and writes its index file once.

    Blocks are kept in plain arrays: 12 bytes for IPv4, 36 for IPv6. With a folder for temporary files, only the newest
    of them: memory then grows by some 10 bytes for a location and 20 for a distinct text, and not with the blocks.
    """

    def __init__(
        self,
        layer: Literal["custom", "default", "network"],
        *,
        source: str = "",
        later_wins: bool = False,
        records: bool = False,
        folder: str | None = None,
    ) -> None:
        """An empty builder. Locids are below zero in the layer ``custom``, above zero in ``default``.

        With ``records``, blocks are of records, of which a location may have several: see `add_record`. The layer
        ``network`` has records alone, whose parts are facts.

        ``source`` names what the layer was made from. With ``later_wins``, of two blocks of one size the later added
        wins, for a source whose locids mean nothing; else the one whose locid is further from zero. In ``folder``
        stands what does not fit into memory, in files without names, until the index is written.
        """
        self._sources = (source,) if source else ()
        self._later_wins = later_wins
        self._masks = False
        self._layer = layer
        self._sign = -1 if layer == "custom" else 1
        self._written = False
        #: False once `write` has met two blocks that overlap.
        self.disjoint = True
        self._texts: dict[str, int] | Texts = {"": 0} if folder is None else Texts(folder)
        self._folder = folder
        self._seen: Seen | set[int] = set() if folder is None else Seen()
        self._count = 0
        self._records = RecordColumns(folder) if records or layer == "network" else None
        kinds = {
            "locid": "q",
            **{field.name: "i" if field.limit is None else "d" for field in FIELDS},
            **({"pending": "B"} if layer == "custom" else {}),
        }
        #: What is known of each location, by slot; and of the newest ones: without a folder, of all.
        self._columns = {} if folder is None else {name: Column(kind, folder) for name, kind in kinds.items()}
        self._newest: dict[str, array[Any]] = {name: array(kind) for name, kind in kinds.items()}
        self._text_columns = [self._newest[name] for name in TEXT_NAMES]
        self._degrees_columns = [self._newest[name] for name in DEGREES]
        #: The newest blocks, and all others, by family.
        self._blocks: dict[int, list[array[Any]]] = {
            family: [array(kind) for kind in kinds] for family, kinds in _KINDS.items()
        }
        self._runs: dict[int, Runs] = {}
        self._added = {4: 0, 6: 0}

    def add_location(
        self,
        locid: int,
        *values: str | float | None,
        pending: bool = False,
    ) -> int:
        """Add a location with the values of all fields in their order; degrees may be None, text "": nothing known.

        :returns: its slot, for this builder's other methods. In the file slots ascend by locid.
        :raises IndexFileError: for a locid that was added before or cannot be in this layer, a coordinate that is not
            finite, or text that is not Unicode
        """
        self._require_open()
        if not 0 < locid * self._sign < 1 << 63:
            raise IndexFileError(f"locid {locid} cannot be in the {self._layer} layer")
        if pending and self._layer != "custom":
            raise IndexFileError(f"locid {locid}: only custom geolocations can be pending")
        # Not value by value: this is a part of a sync whose time grows with the geolocations.
        if len(values) != len(FIELDS):
            raise IndexFileError(f"locid {locid}: there are {len(FIELDS)} fields, not {len(values)}")
        texts = _texts_of(values)
        numbers = []
        for degrees in _degrees_of(values):
            number = math.nan if degrees is None else float(degrees)
            if degrees is not None and not math.isfinite(number):
                raise IndexFileError(f"locid {locid}: degrees must be a finite number, not {number}")
            numbers.append(number)
        try:
            if isinstance(self._texts, dict):
                known = [_number(self._texts, text) for text in texts]
            else:
                known = [*map(self._texts.number, texts)]
        except UnicodeEncodeError as error:
            raise IndexFileError(f"locid {locid}: {error.object!r:.80} is not Unicode text") from error
        except OSError as error:
            raise unwritable(self._folder or "", error) from error
        return self._append(locid, numbers, known, pending=pending)

    def add_texts(self, texts: Sequence[str]) -> Sequence[int]:
        """The numbers of texts that were not added before, none of which is empty (that has 0), for `extend_locations`;
        with a folder they cost no memory.

        :raises IndexFileError: if one is not Unicode
        """
        self._require_open()
        try:
            if isinstance(self._texts, dict):
                return [_number(self._texts, text) for text in texts]
            return self._texts.extend([text.encode("utf-8") for text in texts])
        except UnicodeEncodeError as error:
            raise IndexFileError(f"{error.object!r:.80} is not Unicode text") from error
        except OSError as error:
            raise unwritable(self._folder or "", error) from error

    def extend_locations(
        self, locids: flatten.I64, texts: Mapping[str, flatten.Array], degrees: Mapping[str, flatten.Array]
    ) -> int:
        """Add many locations of the default layer, in columns: by field the numbers of texts, and degrees or NaN.

        :returns: the slot of the first; the others follow
        :raises IndexFileError: as `add_location`
        """
        self._require_open()
        if self._layer != "default" or np.any(locids <= 0):
            raise IndexFileError(f"locid {locids.min()} cannot be in the {self._layer} layer, or not in columns")
        if any(np.isinf(column).any() for column in degrees.values()):
            raise IndexFileError("degrees must be finite numbers")
        first = self._count
        if first + len(locids) > WIDE_EMPTY:
            raise IndexFileError(f"locid {locids[-1]}: a layer has room for {WIDE_EMPTY:,} locations")
        if not (isinstance(self._seen, Seen) and self._seen.rise(locids)):
            for locid in locids.tolist():
                if not self._is_new(locid):
                    raise IndexFileError(f"locid {locid} is there twice")
        for begin in range(0, len(locids), _LOCATIONS):
            part = slice(begin, begin + _LOCATIONS)
            for name, column in (("locid", locids), *texts.items(), *degrees.items()):
                newest = self._newest[name]
                newest.frombytes(np.ascontiguousarray(column[part], newest.typecode).data.cast("B"))
            if self._folder is not None:
                self._keep_locations()
        self._count += len(locids)
        return first

    def _append(self, locid: int, numbers: Sequence[float], texts: Sequence[int], *, pending: bool) -> int:
        if not self._is_new(locid):
            raise IndexFileError(f"locid {locid} is there twice")
        slot = self._count
        if slot == WIDE_EMPTY:
            raise IndexFileError(f"locid {locid}: a layer has room for {WIDE_EMPTY:,} locations")
        self._count += 1
        self._newest["locid"].append(locid)
        for column, text in zip(self._text_columns, texts, strict=True):
            column.append(text)
        for column, number in zip(self._degrees_columns, numbers, strict=True):
            column.append(number)
        if self._layer == "custom":
            self._newest["pending"].append(pending)
        if self._folder is not None and not self._count % _LOCATIONS:
            self._keep_locations()
        return slot

    def _is_new(self, locid: int) -> bool:
        if isinstance(self._seen, Seen):
            return self._seen.add(locid)
        before = len(self._seen)
        self._seen.add(locid)
        return len(self._seen) > before

    def _keep_locations(self) -> None:
        with self._errors():
            for name, newest in self._newest.items():
                self._columns[name].append(np.frombuffer(newest, newest.typecode))
                del newest[:]

    def add_mask(self) -> int:
        """Add the mask, once: blocks of its slot have no geolocation here or in any source below.

        :returns: its slot; with records, that of its record
        :raises IndexFileError: in the custom layer, which cannot have masks
        """
        self._require_open()
        if self._layer == "custom":
            raise IndexFileError("the custom layer has no masks")
        self._masks = True
        slot = self._append(0, [math.nan] * len(DEGREES), [0] * len(TEXT_NAMES), pending=False)
        return slot if self._records is None else self.add_record(slot, {})

    def add_record(self, slot: int | None, parts: Mapping[str, bytes]) -> int:
        """Add a record of a location: for each key a self-contained value of `mmdb`, which is its part.

        Every location needs one, perhaps without parts. Without a slot the record is weak: it says something of its
        addresses, but not where they are.

        :returns: its number, which blocks have in place of the slot
        :raises IndexFileError: if no location has the slot, or there are more records than numbers
        """
        self._require_open()
        assert self._records is not None, "this builder was not made for records"
        if slot is not None and not 0 <= slot < self._count:
            raise IndexFileError(f"no location has slot {slot}")
        if len(self._records) == WIDE_EMPTY:
            raise IndexFileError(f"a layer has room for {WIDE_EMPTY:,} records")
        with self._errors():
            return self._records.add(EMPTY if slot is None else slot, parts)

    def add_part(self, key: str, part: bytes) -> int:
        """The number of a part of records, for `extend_records`: a self-contained value of `mmdb`."""
        self._require_open()
        assert self._records is not None, "this builder was not made for records"
        with self._errors():
            return self._records.part(key, part)

    def add_parts(self, key: str, parts: Sequence[bytes]) -> Sequence[int]:
        """`add_part` for parts that were not added before, none of which is empty: they cost no memory."""
        self._require_open()
        assert self._records is not None, "this builder was not made for records"
        with self._errors():
            return self._records.parts(key).extend(parts)

    def extend_records(self, slots: flatten.U32, parts: Mapping[str, flatten.U32]) -> int:
        """Add many records: of each the slot, `EMPTY` for a weak one, and for each key the number of its part, or 0.

        :returns: the number of the first; the others follow
        :raises IndexFileError: if no location has one of the slots, or there are more records than numbers
        """
        self._require_open()
        assert self._records is not None, "this builder was not made for records"
        if np.any((slots >= self._count) & (slots != EMPTY)):
            raise IndexFileError("a record is of a slot that no location has")
        if len(self._records) + len(slots) > WIDE_EMPTY:
            raise IndexFileError(f"a layer has room for {WIDE_EMPTY:,} records")
        with self._errors():
            return self._records.extend(slots, parts)

    def add_block(self, slot: int, family: Literal[4, 6], first: int, last: int) -> None:
        """Add the inclusive range ``first`` to ``last`` to a location. Blocks may overlap in any way.

        :raises IndexFileError: if the two are not a range of the family, or no location has the slot
        """
        limit = IPV4_MAX if family == 4 else IPV6_MAX
        if not (0 <= first <= last <= limit and 0 <= slot < self._limit):
            raise IndexFileError(f"{first} to {last} is not a range of IPv{family}, or no location has slot {slot}")
        self._require_open()
        ends = (first, last) if family == 4 else (first >> 64, first & _LOW64, last >> 64, last & _LOW64)
        for column, value in zip(self._blocks[family], (*ends, slot), strict=True):
            column.append(value)
        self._room(family)

    def add_places(
        self, places: Iterable[tuple[Geolocation, bool]], names: Mapping[int, Mapping[str, str]] | None = None
    ) -> None:
        """Add geolocations with their blocks, each with whether an edit of it is pending.

        ``names`` are those of sites and what else is known of them (facts by their names), by locid, which only a
        builder for records takes.

        :raises IndexFileError: as `add_location`; those before it were added
        """
        names = names or {}
        for place, pending in places:
            slot = self.add_location(place.locid, *field_values(place), pending=pending)
            if self._records is not None:
                known = [(mmdb.text(key), mmdb.text(said)) for key, said in names.get(place.locid, {}).items()]
                slot = self.add_record(slot, {OURS: mmdb.map_of(known)} if known else {})
            for block in place.ipblocks:
                self.add_block(slot, block.family, block.first, block.last)

    def extend_v4(self, slot: int, firsts: Sequence[int], lasts: Sequence[int]) -> None:
        """Add many IPv4 ranges to one location: several times cheaper than one by one.

        :raises IndexFileError: as `add_block`; none of them was added
        """
        self._require_open()
        try:
            low, high = array("I", firsts), array("I", lasts)
        except (OverflowError, TypeError) as error:
            raise IndexFileError(f"slot {slot}: an end of a block is not an IPv4 address") from error
        if len(low) != len(high) or not all(map(operator.le, low, high)) or not 0 <= slot < self._limit:
            raise IndexFileError(f"the blocks of slot {slot} are not ranges of IPv4, or no location has that slot")
        self._extend(4, (low, high, array("I", [slot]) * len(low)))

    def extend_v6(self, slot: int, firsts: Sequence[int], lasts: Sequence[int]) -> None:
        """`extend_v4` for IPv6 ranges.

        :raises IndexFileError: as `add_block`; none of them was added
        """
        self._require_open()
        try:
            ends = [
                array("Q", [value >> 64 if upper else value & _LOW64 for value in values])
                for values in (firsts, lasts)
                for upper in (True, False)
            ]
        except (OverflowError, TypeError) as error:
            raise IndexFileError(f"slot {slot}: an end of a block is not an IPv6 address") from error
        if len(firsts) != len(lasts) or not all(map(operator.le, firsts, lasts)) or not 0 <= slot < self._limit:
            raise IndexFileError(f"the blocks of slot {slot} are not ranges of IPv6, or no location has that slot")
        self._extend(6, (*ends, array("I", [slot]) * len(firsts)))

    def extend_columns_v4(self, first: flatten.U32, last: flatten.U32, slot: flatten.U32) -> None:
        """Add many IPv4 ranges of any locations, given as columns: like `extend_v4`, without a Python object for each
        range.

        :raises IndexFileError: as `add_block`; none of them was added
        """
        self._require_open()
        if not (len(first) == len(last) == len(slot) and np.all(first <= last) and self._are_slots(slot)):
            raise IndexFileError("the blocks are not ranges of IPv4, or no location has a slot of theirs")
        self._extend(4, (first, last, slot))

    def extend_columns_v6(
        self,
        first_hi: flatten.U64,
        first_lo: flatten.U64,
        last_hi: flatten.U64,
        last_lo: flatten.U64,
        slot: flatten.U32,
    ) -> None:
        """`extend_columns_v4` for IPv6 ranges, whose ends are given as upper and lower 64 bits.

        :raises IndexFileError: as `add_block`; none of them was added
        """
        self._require_open()
        ends = (first_hi, first_lo, last_hi, last_lo)
        if not (
            all(len(end) == len(slot) for end in ends)
            and np.all((first_hi < last_hi) | ((first_hi == last_hi) & (first_lo <= last_lo)))
            and self._are_slots(slot)
        ):
            raise IndexFileError("the blocks are not ranges of IPv6, or no location has a slot of theirs")
        self._extend(6, (*ends, slot))

    def _extend(self, family: int, columns: "Sequence[array[Any] | flatten.Array]") -> None:
        """Add blocks that were checked, as many at a time as there is room for."""
        step = len(columns[0]) if self._folder is None else _BLOCKS[family]
        for begin in range(0, len(columns[0]), max(step, 1)):
            for column, values in zip(self._blocks[family], columns, strict=True):
                part = values[begin : begin + step]
                column.frombytes(np.ascontiguousarray(part, column.typecode).data.cast("B"))
            self._room(family)

    def _room(self, family: int) -> None:
        """Once so many blocks have come that they would grow too large for memory: keep them as a sorted run."""
        if self._folder is None or len(self._blocks[family][0]) < _BLOCKS[family]:
            return
        kinds = _KINDS[family] + "q" * self._later_wins
        runs = self._runs.setdefault(family, Runs(kinds, 1 if family == 4 else 2, self._folder))
        with self._errors():
            runs.add(self._sorted(family))

    def _sorted(self, family: int) -> list[flatten.Array]:
        """The newest blocks, sorted by their first addresses; with `later_wins`, each with the order of its coming."""
        columns = [_as_array(column) for column in self._blocks[family]]
        self._blocks[family] = [array(kind) for kind in _KINDS[family]]
        count, begin = len(columns[0]), self._added[family]
        self._added[family] += count
        if self._later_wins:
            columns.append(np.arange(begin, begin + count))
        if not count:
            return columns
        order = flatten.in_order(columns[: 1 if family == 4 else 2])
        if order is not None:
            for at, column in enumerate(columns):  # one at a time: the memory of each can be used for the next
                columns[at] = column[order]
        return columns

    def _errors(self) -> contextlib.AbstractContextManager[None]:
        """For all that is kept in the folder."""
        return contextlib.nullcontext() if self._folder is None else write_errors(self._folder)

    def _are_slots(self, slot: flatten.U32) -> bool:
        return not len(slot) or int(slot.max()) < self._limit

    @property
    def _limit(self) -> int:
        """One past the last number that a block may have."""
        return self._count if self._records is None else len(self._records)

    def _require_open(self) -> None:
        if self._written:
            raise IndexFileError("this index was written already: use a new builder")

    def write(self, path: str | os.PathLike[str], *, extra: Mapping[str, str] | None = None) -> IndexSummary:
        """Flatten and write to exactly ``path``, which must not exist, readable to its owner only, and sync it.

        ``extra`` joins the metadata. The collected data are freed on the way, so a builder writes once. It does not
        rename the file or sync its directory: publishing does both.

        :raises IndexFileError: if ``path`` exists or cannot be written; an unfinished file is removed
        """
        self._require_open()
        self._written = True
        del self._seen
        if self._folder is not None:
            self._keep_locations()
        columns: Mapping[str, flatten.Array | Column] = self._columns
        if self._folder is None:
            columns = {name: _as_array(newest) for name, newest in self._newest.items()}
        with self._errors():
            locids = _whole(columns["locid"])
            # With ascending locids a locid is found by bisection, and the order in which rows came does not change the
            # file. They ascend already if a list is sorted.
            order = flatten.in_order([locids])
            renumbered = _renumbered(order)
            records: dict[str, flatten.Array | Column] = {}
            weak = EMPTY
            if self._records is not None:
                if self._layer == "network":
                    records = self._records.facts()
                else:
                    renumbered, weak, records = self._records.sections(renumbered, self._count)
            sections, counts = self._flatten(renumbered, weak)
            counts["locations"] = self._count
            sections |= records
            for name, column in columns.items():
                sections[f"loc.{name}"] = column if order is None else _in_order(column, order, self._folder)
            texts = string_table(self._texts) if isinstance(self._texts, dict) else self._texts.sections()
            sections["strings.offsets"], sections["strings.bytes"] = texts
        self._columns, self._newest, self._texts, self._records = {}, {}, {}, None
        size, digest = write_index(
            path, sections, layer=self._layer, counts=counts, sources=self._sources, masks=self._masks, extra=extra
        )
        return IndexSummary(**counts, bytes=size, sha256=digest)

    def _flatten(
        self, renumbered: flatten.Array | None, weak: int
    ) -> tuple[dict[str, flatten.Array | Column], dict[str, int]]:
        sections = SegmentSections(self._limit, self._folder, weak=weak)
        adding: dict[int, Callable[..., None]] = {4: sections.add_v4, 6: sections.add_v6}
        for family, add in adding.items():
            if not self._blocks[family][0] and family not in self._runs:
                continue  # most overlays have no IPv6
            flattener = flatten.Flattener(family, None if self._later_wins else self._ranks, weak=weak)
            slot = len(_KINDS[family]) - 1
            for piece in self._pieces(family):
                columns = list(piece)
                if renumbered is not None:
                    columns[slot] = renumbered[columns[slot]]
                starts, slots = flattener.add(columns[: slot + 1], columns[-1])
                add(*starts, slots)
            starts, slots = flattener.finish()
            add(*starts, slots)
            self.disjoint &= not flattener.overlaps
        return sections.finish({"blocks_v4": self._added[4], "blocks_v6": self._added[6]})

    def _ranks(self, slots: flatten.U32) -> flatten.Array:
        """Slots ascend by locid: away from zero in the default layer, towards zero in the custom one."""
        return slots.astype(np.int64) * self._sign

    def _pieces(self, family: int) -> Iterator[Sequence[flatten.Array]]:
        """All blocks of a family, sorted by their first addresses, in pieces. They are freed."""
        newest = self._sorted(family)
        runs = self._runs.pop(family, None)
        if runs is not None:
            runs.add(newest)
            del newest
            yield from runs.pieces()
            runs.close()
            return
        for begin in range(0, len(newest[0]), _PIECE):
            yield [column[begin : begin + _PIECE] for column in newest]


def _number(texts: dict[str, int], text: str) -> int:
    """The number of a text, which is added if it is new."""
    found = texts.get(text)
    if found is None:
        text.encode("utf-8")  # what cannot be written is not added
        found = texts[text] = len(texts)
    return found


def _renumbered(order: flatten.Array | None) -> flatten.Array | None:
    """The new slot of each location, if its slots are put in an order."""
    if order is None:
        return None
    renumbered = np.empty(len(order), np.uint32)
    renumbered[order] = np.arange(len(order), dtype=np.uint32)
    return renumbered


def _whole(column: flatten.Array | Column) -> flatten.Array:
    return column.whole() if isinstance(column, Column) else column


def _in_order(column: flatten.Array | Column, order: flatten.Array, folder: str | None) -> flatten.Array | Column:
    if not isinstance(column, Column):
        return column[order]
    sorted_one = Column(column.dtype.str, folder)
    sorted_one.append(column.whole()[order])
    column.close()
    return sorted_one


def _as_array(column: "array[Any]") -> flatten.Array:
    return np.frombuffer(column, column.typecode)
