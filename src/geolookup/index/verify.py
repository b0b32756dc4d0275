"""Checking every byte and every invariant of an index file."""

import os
import zlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from geolookup.index import mmdb
from geolookup.index.accelerator import accelerator
from geolookup.index.flatten import Array, Flags
from geolookup.index.layout import CRC_PREFIX, EMPTY, ITEM_FORMATS, MASKS, NARROW_EMPTY, PART, SECTIONS
from geolookup.index.reader import IndexReader
from geolookup.index.segments import covered, segments_v4, segments_v6, table_v4, table_v6
from geolookup.index.writer import encode_header
from geolookup.model.errors import IndexDamagedError
from geolookup.model.fields import DEGREES, TEXT_NAMES

_TEXT_COLUMNS = tuple(f"loc.{name}" for name in TEXT_NAMES)


def verify_index(index: IndexReader | str | os.PathLike[str]) -> None:
    """Check an open index, or the file at a path, from end to end.

    :raises IndexDamagedError: naming the section and the position in it
    :raises IndexFileError: if a path cannot be opened
    """
    if isinstance(index, IndexReader):
        _Check(index).run()
    else:
        with IndexReader.open(index) as reader:
            _Check(reader).run()


class _Check:
    def __init__(self, reader: IndexReader) -> None:
        self.reader = reader
        self.arrays = reader.arrays()

    def run(self) -> None:
        self.header()
        self.checksums()
        for name in ("v4.table", "v6.table"):
            table = self.arrays[name]
            self.require(name, np.append(table[0] == 0, table[1:] >= table[:-1]), "is out of order")
        self.v4 = segments_v4(self.reader, records=True)
        self.v6 = segments_v6(self.reader, records=True)
        self.segments()
        self.strings()
        self.locations()
        self.records()
        self.counts()

    def fail(self, what: str) -> NoReturn:
        raise IndexDamagedError(f"{self.reader.path}: {what}: the file is damaged")

    def require(self, section: str, right: Flags | Any, what: str) -> None:
        """Fail at the first item that is not right."""
        if not np.all(right):
            self.fail(f"{section}: entry {int(np.argmin(right))} {what}")

    def header(self) -> None:
        header = self.reader.header
        if encode_header(header.tree) != header.raw:
            self.fail("the header is not in its canonical form")
        end = 8 + len(header.raw)
        size_before = 8
        for name, section in header.sections.items():
            if section.begin != end:
                self.fail(f"{name}: it does not begin where the section before it ends")
            end = section.end
            item_bytes = ITEM_FORMATS.get(section.dtype, ("", size_before))[1]
            if item_bytes > size_before:
                self.fail(f"{name}: its items are larger than those of the section before it")
            size_before = item_bytes

    def checksums(self) -> None:
        metadata = self.reader.metadata
        for name, section in self.reader.header.sections.items():
            said = metadata.get(CRC_PREFIX + name)
            if said is None and name not in SECTIONS:
                continue
            found = f"{zlib.crc32(self.reader.section_bytes(name)):08x}"
            if found != said:
                self.fail(f"{name}: the CRC-32 of bytes {section.begin} to {section.end} is {found}, not {said}")

    def segments(self) -> None:
        arrays = self.arrays
        (first, slot_v4), (hi, lo, slot_v6) = self.v4, self.v6
        self.require("v4.low", np.append(first[0] == 0, first[1:] > first[:-1]), "is out of order")
        rising = (hi[1:] > hi[:-1]) | ((hi[1:] == hi[:-1]) & (lo[1:] > lo[:-1]))
        self.require("v6.hi and v6.lo", np.append((hi[0] == 0) & (lo[0] == 0), rising), "is out of order")
        if "v6.lo" in arrays and not lo.any():
            self.fail("v6.lo: it is there, and has only zeros")
        is_wide = self.reader.record_count > NARROW_EMPTY
        if any((name in arrays) != is_wide for name in ("v4.slot_high", "v6.slot_high")):
            self.fail(f"the slots of {self.reader.record_count} locations are not of the width that they need")
        make_tables: tuple[tuple[str, Callable[[Array], Array], Array, Array], ...] = (
            ("v4", table_v4, first, slot_v4),
            ("v6", table_v6, hi, slot_v6),
        )
        for family, make_table, starts, slot in make_tables:
            known = (slot < self.reader.record_count) | (slot == EMPTY)
            self.require(f"{family}.slot", known, "names no location")
            merged = np.append(True, slot[1:] != slot[:-1])
            self.require(f"{family}.slot", merged, "is the same as the one before it")
            self.require(f"{family}.table", arrays[f"{family}.table"] == make_table(starts), "is not where that begins")

    def strings(self) -> None:
        offsets = self.arrays["strings.offsets"]
        self.require("strings.offsets", np.append(offsets[0] == 0, offsets[1:] >= offsets[:-1]), "is out of order")
        if offsets[1] != 0:
            self.fail('strings.offsets: entry 1 is not 0, so text 0 is not ""')
        data = bytes(self.reader.section_bytes("strings.bytes"))
        if offsets[-1] != len(data):
            self.fail(f"strings.offsets: entry {len(offsets) - 1} is not the number of bytes")
        places = offsets.tolist()
        texts = [data[begin:end] for begin, end in pairwise(places)]
        if len(set(texts)) != len(texts) or not self.are_utf8(data, offsets):
            seen: set[bytes] = set()
            for number, text in enumerate(texts):
                try:
                    text.decode("utf-8")
                except UnicodeDecodeError:
                    self.fail(f"strings.bytes: text {number}, at {places[number]}, is not UTF-8")
                if text in seen:
                    self.fail(f"strings.bytes: text {number}, at {places[number]}, is there twice")
                seen.add(text)

    @staticmethod
    def are_utf8(data: bytes, offsets: Array) -> bool:
        """True if each text is UTF-8: all of them together, and none begins inside a character."""
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            return False
        begins = np.frombuffer(data, np.uint8)[offsets[offsets < len(data)]]
        return not bool(np.any(begins & 0xC0 == 0x80))

    def locations(self) -> None:
        arrays = self.arrays
        texts = len(arrays["strings.offsets"]) - 1
        for name in _TEXT_COLUMNS:
            self.require(name, (arrays[name] >= 0) & (arrays[name] < texts), "names no text")
        locid = arrays["loc.locid"]
        right_sign = locid < 0 if self.reader.layer == "custom" else locid >= (MASKS not in self.reader.metadata)
        self.require("loc.locid", right_sign, f"cannot be in the {self.reader.layer} layer")
        ascending = locid[1:] > locid[:-1]
        if "loc.source" in arrays:
            source = arrays["loc.source"]
            self.require("loc.source", source < len(self.reader.sources), "names no source")
            # Two sources may use the same numbers for their locations.
            ascending |= (locid[1:] == locid[:-1]) & (source[1:] > source[:-1])
        self.require("loc.locid", ascending, "and the next are not ascending")
        for name in (f"loc.{name}" for name in DEGREES):
            self.require(name, ~np.isinf(arrays[name]), "is infinite")
        if "loc.pending" in arrays:
            if self.reader.layer != "custom":
                self.fail("loc.pending: only the custom layer has it")
            self.require("loc.pending", arrays["loc.pending"] <= 1, "is neither 0 nor 1")

    def records(self) -> None:
        arrays = self.arrays
        if (of_record := arrays.get("record.slot")) is not None:
            # Each location has at least one, in its order; then come the weak ones.
            weak = of_record == EMPTY
            own, locations = of_record[~weak], self.reader.location_count
            rising = np.diff(own.astype(np.int64), prepend=-1)
            self.require("record.slot", (rising == 0) | (rising == 1), "is out of order")
            self.require("record.slot", weak[1:] >= weak[:-1], "is out of order")
            if len(np.unique(own)) != locations or (len(own) and int(own[-1]) >= locations):
                self.fail("record.slot: not every location has a record, or one is of no location")
            if len(of_record) == locations:
                self.fail("record.slot: it is there, and each location has one record")
        if "record.source" in arrays:
            self.require("record.source", arrays["record.source"] < len(self.reader.sources), "names no source")
        if "parts.offsets" not in arrays:
            if "record.said" in arrays:
                self.fail("record.said: it is there, and there are no parts")
            return
        offsets = arrays["parts.offsets"]
        self.require("parts.offsets", np.append(offsets[0] == 0, offsets[1:] >= offsets[:-1]), "is out of order")
        data = bytes(self.reader.section_bytes("parts.bytes"))
        if offsets[1] != 0 or offsets[-1] != len(data):
            self.fail("parts.offsets: part 0 is not empty, or the last does not end with the bytes")
        # What the accelerator reads is whole; of all else Python says what is wrong.
        unread = getattr(accelerator(), "unread", lambda _offsets, _octets, number: number)
        number = 1
        while (number := unread(offsets, data, number)) < len(offsets) - 1:
            try:
                mmdb.plain(data[offsets[number] : offsets[number + 1]])
            except mmdb.BadValueError as error:
                self.fail(f"parts.bytes: part {number}, at {offsets[number]}: {error}")
            number += 1
        for name in sorted(name for name in arrays if name.startswith(PART)):
            self.require(name, arrays[name] < len(offsets) - 1, "names no part")
        if "record.said" in arrays:
            self.require("record.said", arrays["record.said"] < len(offsets) - 1, "names no part")
            _, first, which = np.unique(arrays["record.said"], return_index=True, return_inverse=True)
            keys = [self.reader.said(record) for record in first.tolist()]
            for key in self.reader.record_keys:
                says = np.array([key in each for each in keys])[which.reshape(-1)]
                self.require("record.said", says == (arrays[PART + key] != 0), f"does not fit {PART}{key}")

    def counts(self) -> None:
        (first, slot_v4), (hi, lo, slot_v6) = self.v4, self.v6
        if (of_record := self.arrays.get("record.slot")) is not None:
            for slot in (slot_v4, slot_v6):  # their own, no part of the file
                slot[slot >= np.count_nonzero(of_record != EMPTY)] = EMPTY
        found = {
            "segments_v4": int(np.count_nonzero(slot_v4 != EMPTY)),
            "segments_v6": int(np.count_nonzero(slot_v6 != EMPTY)),
            "covered_v4": covered((first,), slot_v4),
            "covered_v6": covered((hi, lo), slot_v6),
        }
        for name, number in found.items():
            if self.reader.counts[name] != number:
                self.fail(f"the header says {name} is {self.reader.counts[name]}, and it is {number}")
