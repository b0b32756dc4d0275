"""The records of a source on their way into a candidate's index: those that blocks lead to, with their parts."""

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from geolookup.index.builder import IndexBuilder
from geolookup.index.flatten import I64, U32, Array
from geolookup.index.layout import EMPTY
from geolookup.sources.blocks import Batch
from geolookup.sources.recorded import NOWHERE, Records
from geolookup.state.base import files
from geolookup.state.base.candidate import Candidate


class RecordStaging:
    """Puts those records of a source into an index that blocks lead to, and hashes all that is said there."""

    def __init__(self, records: Records, index: IndexBuilder, candidate: Candidate) -> None:
        self._records = records
        self._index = index
        self._candidate = candidate
        #: For each record the number that it has in the index, or -1 as long as no block leads there.
        self._recorded = np.empty(0, np.int64)
        #: By key, the number in the index of each part of the records.
        self._parts: dict[str, I64] = {}
        self._said = hashlib.sha256()
        self._columns: dict[str, Any] = {}

    def add(self, batch: Batch) -> None:
        """Add blocks whose records say no place: nothing but the index has them.

        :raises StateUnwritableError: if the disk is full, or fails
        """
        four, six = batch
        if len(four.place):
            slots = self.numbers(four.place)
            self.hash("weak 4", four.first, four.last, slots)
            with files.file_errors(self._candidate.path):
                self._index.extend_columns_v4(four.first, four.last, slots)
        if len(six.place):
            slots = self.numbers(six.place)
            self.hash("weak 6", *six[:4], slots)
            with files.file_errors(self._candidate.path):
                self._index.extend_columns_v6(*six[:4], slots)

    def numbers(self, numbers: U32, slots: Callable[[U32], U32] | None = None) -> U32:
        """The numbers in the index of records, which are put there; ``slots`` has the slots of their places."""
        begun = len(self._recorded)
        if begun < len(self._records):
            self._recorded = np.concatenate([self._recorded, np.full(len(self._records) - begun, -1, np.int64)])
        new = np.unique(numbers[self._recorded[numbers] < 0]).astype(np.uint32)
        if len(new):
            self._add(new, slots)
        return self._recorded[numbers].astype(np.uint32)

    def add_rest(self, slots: Callable[[U32], U32]) -> None:
        """Put all records into the index that are not there yet: no block may lead to some of them."""
        self.numbers(np.arange(len(self._recorded), len(self._records), dtype=np.uint32), slots)

    def _add(self, new: U32, slots_of: Callable[[U32], U32] | None) -> None:
        """Add records to the index, with those of their parts that it does not have yet."""
        places = self._records.places(new)
        weak = places == NOWHERE
        slots = np.full(len(new), EMPTY, np.uint32)
        if slots_of is not None:
            slots[~weak] = slots_of(places[~weak])
        self._said.update(np.ascontiguousarray(places, "<u4").tobytes())
        columns = {}
        with files.file_errors(self._candidate.path):
            for key in self._records.names:
                column = self._records.column(key, new)
                known = self._parts.get(key, np.zeros(1, np.int64))
                if (room := self._records.part_count(key) - len(known)) > 0:
                    known = np.append(known, np.full(room, -1, np.int64))
                used = np.unique(column)
                if len(fresh := used[known[used] < 0]):
                    parts = [self._records.part(key, number) for number in fresh.tolist()]
                    known[fresh] = self._index.add_parts(key, parts)
                    self._said.update(b"".join([f"{key}:{len(part)}:".encode() + part for part in parts]))
                self._parts[key] = known
                columns[key] = known[column].astype(np.uint32)
                self._said.update(key.encode() + np.ascontiguousarray(columns[key], "<u4").tobytes())
            begin = self._index.extend_records(slots, columns)
        self._recorded[new] = np.arange(begin, begin + len(new))

    def hash(self, named: str, *columns: Array) -> None:
        """Add columns of blocks to what `digest` depends on."""
        for number, column in enumerate(columns):
            name = f"{named}.{number}"
            if name not in self._columns:
                self._columns[name] = hashlib.sha256()
            self._columns[name].update(np.ascontiguousarray(column, column.dtype.newbyteorder("<")))

    def digest(self, counted: str) -> str:
        """The digest of all that was said and hashed."""
        digest = hashlib.sha256(counted.encode())
        for name in sorted(self._columns):
            digest.update(name.encode() + self._columns[name].digest())
        digest.update(self._said.digest())
        return digest.hexdigest()
