"""From what streams in to a candidate's two files: rows in cache.db, segments in the index.

`Staging` takes geolocations, as a service lists them; `ColumnStaging` the batches of a file, in columns: there no
Python object stands for a single block.
"""

import hashlib
import itertools
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

import msgspec
import numpy as np

from geolookup.index.builder import IndexBuilder
from geolookup.index.flatten import I64, U32, Array
from geolookup.index.reader import IndexReader
from geolookup.index.scratch import Column, Seen, spread
from geolookup.model.checked import wrong_name
from geolookup.model.errors import IndexFileError, PullError
from geolookup.model.fields import DEGREES, FIRST_OWN_LOCID, TEXT_NAMES
from geolookup.model.types import field_values
from geolookup.sources.blocks import MASKED, Batch
from geolookup.sources.elements import Elements
from geolookup.sources.locids import DIGEST_BYTES, Numbered, Numbering, digests_of, digests_of_texts
from geolookup.sources.places import PlaceFields, Places
from geolookup.sources.recorded import Records
from geolookup.state.base import files
from geolookup.state.base.candidate import Candidate
from geolookup.state.base.parts import PLACE
from geolookup.state.generations.assemble import counts_of
from geolookup.state.generations.cache import BlockRow, CacheWriter, GeolocationRow
from geolookup.state.generations.cache_segments import number_rows
from geolookup.sync.pull.recording import RecordStaging
from geolookup.upstream.decode import PulledGeolocation

_DIGEST_MODULUS = 1 << 256

#: The most blocks of one geolocation whose rows or text are made at a time.
_BLOCKS_A_STEP = 1 << 14

#: Of so many blocks the index alone may tell, since rows are most of what a sync costs, in time and in room. Fewer are
#: rows of cache.db, which people ask by SQL.
MANY_BLOCKS = 1_000_000

#: The locid of a mask's blocks, which no geolocation has.
MASK = 0

_PART = 1 << 16

#: The types of the columns of blocks, by family.
_KINDS = {4: ("u4", "u4", "u4"), 6: ("u8", "u8", "u8", "u8", "u4")}

_ROWS_A_STEP = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The content of a candidate: ``rows`` as CURRENT records them, and the ``digest`` of the content.

    The digest depends on locids, fields and ranges only: not on the order, nor on how an address was written.
    ``layer`` is the one that it feeds.
    """

    rows: dict[str, Any]
    digest: str
    layer: str = PLACE


class Staging:
    """Takes batches of geolocations; holds some 20 bytes for each and for each distinct text, never the blocks: those
    go to temporary files in the candidate's directory.
    """

    def __init__(self, candidate: Candidate, *, source: str = "", site_field: str = "") -> None:
        """``source`` names what the answers are from, ``site_field`` the member of an element that names a site."""
        self._candidate = candidate
        self._site_field = site_field
        self._sites: dict[int, str] = {}
        self._cache = CacheWriter(candidate.cache)
        self._index = IndexBuilder("default", source=source, records=True, folder=candidate.path)
        self._elements = Elements()
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
        records = iter(self._add_places(batch))
        for place in batch:
            locid = place.locid
            fields = field_values(place)
            ranges = sorted([block[:3] for block in place.blocks])
            digest = self._digest_of(locid, fields, ranges)
            said = digest if place.more is None else self._digest_with(digest, place.more)
            if locid < 0 and place.more is not None:
                site: Any = place.more.get(self._site_field)
                if wrong_name(site) is None:
                    self._sites[locid] = site
                    said = self._digest_with(said, {"site": site})  # so that it counts from the first list on
            self._digest = (self._digest + int.from_bytes(said, "big")) % _DIGEST_MODULUS
            places.append((locid, *fields, len(ranges), digest.hex()[:32]))
            self._rows["geolocations"] += 1
            self._rows["blocks"] += len(ranges)
            if locid > 0:
                record = next(records)
                if ranges:
                    self._add_ranges(record, ranges)
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

    def _add_places(self, batch: list[PulledGeolocation]) -> range:
        """Add the default geolocations, each with its one record: the numbers of those."""
        slots: list[int] = []
        columns: dict[str, dict[int, int]] = {}
        for place in batch:
            locid = place.locid
            if not self._seen.add(locid):
                raise PullError(f"locid {locid} comes twice in the list: nothing was published")
            if locid > 0:
                fields = field_values(place)
                if place.more is not None:
                    for key, part in self._elements.says(PlaceFields._make(fields), place.more).items():
                        columns.setdefault(key, {})[len(slots)] = self._index.add_part(key, part)
                slots.append(self._index.add_location(locid, *fields))
        parts = {key: np.zeros(len(slots), np.uint32) for key in columns}
        for key, numbers in columns.items():
            parts[key][list(numbers)] = list(numbers.values())
        first = self._index.extend_records(np.array(slots, np.uint32), parts)
        return range(first, first + len(slots))

    @staticmethod
    def _digest_with(digest: bytes, more: Mapping[str, Any]) -> bytes:
        """That of a geolocation whose element has more than fields."""
        return hashlib.blake2b(digest + msgspec.json.encode(more, order="deterministic"), digest_size=32).digest()

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
        sites = {"site_field": self._site_field, "sites": msgspec.json.encode(self._sites).decode()}
        self._cache.finish({**about, **(sites if self._site_field else {}), "digest": digest})
        with files.file_errors(self._candidate.index):
            summary = self._index.write(self._candidate.index, extra={"digest": digest})
        rows = {
            **self._rows,
            **counts_of(summary),
        }
        return Staged(rows=rows, digest=digest)


class ColumnStaging:
    """Takes a source's batches, whose places have their own locids or get them from ``numbering``.

    It holds the places, never the rows or blocks: those go to temporary files in the candidate's directory. Blocks that
    are the segments of the index, one by one, get no rows: they stand there already.
    """

    def __init__(
        self, candidate: Candidate, name: str, places: Places, numbering: Numbering, records: Records | None = None
    ) -> None:
        """``name`` is the source's; ``places`` the table that the batches' numbers are of, which may still grow.

        With ``records`` the batches' numbers are of those.
        """
        self._records = records
        self._candidate = candidate
        self._places = places
        self._numbering = numbering
        self._numbered = places.locids is not None
        self._cache = CacheWriter(candidate.cache, compact=True)
        self._index = IndexBuilder(
            "default",
            source=name,
            later_wins=not self._numbered,
            records=records is not None,
            folder=candidate.path,
        )
        self._recording = None if records is None else RecordStaging(records, self._index, candidate)
        self._mask_slot: int | None = None
        #: For each text of the table its number in the index, or -1 as long as no place that is there has it.
        self._texts = np.zeros(1, np.int64)
        self._text_digests = digests_of_texts(())
        #: For each number in the table the position in the arrays, or -1 as long as no block leads there.
        self._at = np.empty(0, np.int64)
        self._kept = array("I")
        # These have room for all places of the table; their last item is the mask's.
        self._locids = np.full(1, MASK, np.int64)
        self._slots = np.zeros(1, np.uint32)
        self._counts = np.zeros(1, np.int64)
        self._sums = np.zeros((2, 1), np.uint64)
        self._digests = bytearray()
        self._columns: dict[str, Any] = {}
        self._masks = 0
        #: By family the columns of all blocks in their order: what `_hashed` gives, and the ends.
        self._rows = {family: [Column(kind, candidate.path) for kind in kinds] for family, kinds in _KINDS.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._cache.__exit__(*error)

    def add(self, batch: Batch) -> None:
        """Add blocks whose places are all in the table by now.

        :raises StateUnwritableError: if the disk is full, or fails
        """
        if self._records is not None and self._recording is not None:
            batch, weak = self._records.apart(batch)
            self._recording.add(weak)
        numbers = batch.v4.place, batch.v6.place
        four, six = batch if self._records is None else self._records.as_places(batch)
        self._number_new_places(np.concatenate([four.place, six.place]))
        if len(four.place):
            self._add(4, self._index.extend_columns_v4, four[:2], four.place, numbers[0])
        if len(six.place):
            self._add(6, self._index.extend_columns_v6, six[:4], six.place, numbers[1])

    def _add(
        self, family: int, extend: Callable[..., None], ends: tuple[Array, ...], places: U32, numbers: U32
    ) -> None:
        place = self._position(places)
        slots = self._slots[place] if self._records is None else self._slots_of(numbers)
        self._note(place, ends)
        row = (*ends, self._hashed(place))
        self._hash(str(family), *row)
        with files.file_errors(self._candidate.index):
            extend(*ends, slots)
            for column, values in zip(self._rows[family], row, strict=True):
                column.append(values)

    def finish(self, about: Mapping[str, str]) -> Staged:
        """Complete both files durably, once the source's last batch was added. ``about`` is written into cache.db.

        The digest depends on the places' fields (and locids, if they are the source's own) and on the blocks in their
        order: of two that are equal, the later wins.
        """
        self._number_new_places(np.empty(0, np.uint32))
        self._places.seal()
        count = len(self._kept)
        self._locids = np.append(self._locids[:count], MASK)
        digest = hashlib.sha256(f"{count}:{self._masks}".encode())
        for name in sorted(self._columns):
            digest.update(self._columns[name].digest())
        digest.update(hashlib.sha256(self._digests).digest())
        if self._recording is not None:
            digest.update(self._recording.digest("").encode())
        if self._numbered:
            digest.update(np.ascontiguousarray(self._locids[:-1], "<i8").tobytes())
        text = digest.hexdigest()
        for rows in self._place_rows():
            self._cache.add(rows, ())
        custom = self._locids[:-1] < 0
        counts = self._counts[:count]
        self._digests = bytearray()
        with files.file_errors(self._candidate.index):
            summary = self._index.write(self._candidate.index, extra={"digest": text})
        blocks = {family: len(columns[0]) for family, columns in self._rows.items()}
        segments = {4: summary.segments_v4, 6: summary.segments_v6}
        are_segments = self._index.disjoint and blocks == segments and sum(blocks.values()) >= MANY_BLOCKS
        if not are_segments:
            for family in self._rows:
                for numbers in self._block_rows(family):
                    self._cache.add_numbers(family, numbers)
        self._cache.finish({**about, "digest": text}, blocks_in_index=are_segments)
        return Staged(
            rows={
                "geolocations": count,
                "custom_geolocations": int(np.count_nonzero(custom)),
                "blocks": sum(blocks.values()),
                "custom_blocks": int(counts[custom].sum()),
                "masks": self._masks,
                **counts_of(summary),
            },
            digest=text,
        )

    def _number_new_places(self, used: U32) -> None:
        """Give positions to places: to those that blocks lead to, and in a list to all.

        The place of a row whose range is bad is in the table as well, and must not be published.
        """
        begun, table = len(self._at), len(self._places)
        if table > begun:
            self._at = np.append(self._at, np.full(table - begun, -1, np.int64))
            self._locids, self._slots, self._counts = (
                _with_room(column, table - begun) for column in (self._locids, self._slots, self._counts)
            )
            self._sums = np.stack([_with_room(sums, table - begun) for sums in self._sums])
        own = self._places.locids
        if own is not None:
            numbers = list(range(begun, table))
        else:
            used = used[used != MASKED]
            numbers = np.unique(used[self._at[used] < 0]).tolist()
        if not numbers:
            return
        known = len(self._kept)
        new = slice(known, known + len(numbers))
        self._at[numbers] = np.arange(new.start, new.stop)
        self._kept.extend(numbers)
        digests = self._digests_of(numbers)
        self._digests += digests
        locids = np.asarray(own[begun:], np.int64) if own is not None else self._numbering.numbers_of(digests)
        with files.file_errors(self._candidate.index):
            slots = self._add_locations(numbers, locids)
        self._locids[new], self._slots[new] = locids, slots
        if own is not None and self._recording is not None:  # a place without blocks has its record as well
            self._recording.add_rest(self._slots_of_places)

    def _digests_of(self, numbers: list[int]) -> bytes:
        known, count = len(self._text_digests), self._places.text_count
        if count > known:
            new = digests_of_texts([text.encode("utf-8") for text in self._places.texts(known, count)])
            self._text_digests = np.concatenate([self._text_digests, new])
        return digests_of(*self._places.columns(numbers), self._text_digests)

    def _add_locations(self, numbers: list[int], locids: I64) -> U32:
        """Add places to the index, with those of their texts that it does not have yet: their slots."""
        texts, degrees = self._places.columns(numbers)
        if (room := self._places.text_count - len(self._texts)) > 0:
            self._texts = np.append(self._texts, np.full(room, -1, np.int64))
        used = np.unique(np.concatenate(list(texts.values())))
        new = used[self._texts[used] < 0]
        self._texts[new] = self._index.add_texts([self._places.text(number) for number in new.tolist()])
        columns = {name: self._texts[column] for name, column in texts.items()}
        first = self._index.extend_locations(locids, columns, degrees)
        return np.arange(first, first + len(locids), dtype=np.uint32)

    def _slots_of(self, numbers: U32) -> U32:
        """What blocks have in the index in place of slots: the numbers there of their records."""
        assert self._recording is not None
        masked = numbers == MASKED
        found = np.full(len(numbers), self._slots[-1], np.uint32)
        if not masked.all():
            found[~masked] = self._recording.numbers(numbers[~masked], self._slots_of_places)
            self._recording.hash("record", found[~masked])
        return found

    def _slots_of_places(self, numbers: U32) -> U32:
        slots: U32 = self._slots[self._at[numbers]]
        return slots

    def _position(self, place: U32) -> I64:
        """Places as positions in the arrays, of which the last is the mask's."""
        masked = place == MASKED
        if not masked.any():
            return self._at[place]
        if self._mask_slot is None:
            self._mask_slot = self._index.add_mask()
            self._slots[-1] = self._mask_slot
        self._masks += int(np.count_nonzero(masked))
        found = np.full(len(place), -1, np.int64)
        found[~masked] = self._at[place[~masked]]
        return found

    def _hashed(self, position: I64) -> U32:
        """Positions as a digest has them: the mask's does not depend on how many places there are."""
        return np.where(position < 0, MASKED, position).astype(np.uint32)

    def _note(self, position: I64, ends: tuple[Array, ...]) -> None:
        """Count the blocks of each place, and add up what stands for them, in any order."""
        np.add.at(self._counts, position, 1)
        for row, seed in enumerate((0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)):
            mixed = np.full(len(position), seed * (2 * len(ends) + 1) % (1 << 64), np.uint64)
            for end in ends:
                mixed = spread(mixed ^ end.astype(np.uint64))
            np.add.at(self._sums[row], position, mixed)

    def _hash(self, family: str, *columns: Array) -> None:
        for number, column in enumerate(columns):
            name = f"{family}.{number}"
            if name not in self._columns:
                self._columns[name] = hashlib.sha256()
            self._columns[name].update(np.ascontiguousarray(column, column.dtype.newbyteorder("<")))

    def _block_rows(self, family: int) -> Iterator[Iterator[tuple[int, Any, Any]]]:
        """The blocks of a family as `CacheWriter.add_numbers` takes them, in parts."""
        for begin in range(0, len(self._rows[family][0]), _PART):
            with files.file_errors(self._candidate.path):
                *ends, place = (column.read(begin, begin + _PART) for column in self._rows[family])
            yield number_rows(self._locids[np.minimum(place, len(self._locids) - 1)], *ends)

    def _place_rows(self) -> Iterator[Iterator[GeolocationRow]]:
        width = 2 * DIGEST_BYTES
        of_places = np.frombuffer(self._digests, "<u8").reshape(-1, 2)
        # In the order of the table, so that its pages are filled one after the other.
        order = np.argsort(self._locids[:-1], kind="stable")
        kept = np.frombuffer(self._kept, np.uint32)
        for begin in range(0, len(order), _ROWS_A_STEP):
            part = order[begin : begin + _ROWS_A_STEP]
            # The sum stands for a place with its blocks, as both stand for what they are of.
            digests = (of_places[part] + self._sums.T[part]).astype("<u8").tobytes().hex()
            own = [digests[at : at + width] for at in range(0, len(digests), width)]
            places = self._places.lists(kept[part].tolist())
            yield zip(self._locids[part].tolist(), *places, self._counts[part].tolist(), own, strict=True)


def earlier_places(index: str) -> Numbered:
    """The numbers of ours and places of a source's last snapshot, for `Numbering`; none if it cannot be read."""
    try:
        with IndexReader.open(index) as reader:
            arrays = reader.arrays()
            ours = np.flatnonzero(arrays["loc.locid"] >= FIRST_OWN_LOCID)
            octets, ends = arrays["strings.bytes"].tobytes(), arrays["strings.offsets"].tolist()
            of_texts = digests_of_texts([octets[begin:end] for begin, end in itertools.pairwise(ends)])
            texts, degrees = ({name: arrays[f"loc.{name}"][ours] for name in each} for each in (TEXT_NAMES, DEGREES))
            if any(int(column.max(initial=0)) >= len(of_texts) or np.any(column < 0) for column in texts.values()):
                return Numbered.of(())
            return Numbered(arrays["loc.locid"][ours].astype(np.int64), digests_of(texts, degrees, of_texts))
    except IndexFileError:
        return Numbered.of(())


def _with_room(column: Any, new: int) -> Any:
    """``new`` zeros before the last item."""
    return np.concatenate([column[:-1], np.zeros(new, column.dtype), column[-1:]])
