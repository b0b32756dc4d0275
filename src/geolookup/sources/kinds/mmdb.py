"""``mmdb``: a MaxMind DB file of version 2.0, by MaxMind, DB-IP, IPinfo or anybody who maps the fields."""

import mmap
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import IO

import numpy as np

from geolookup.base.garbage import give_back
from geolookup.files.opened import Member, Opened
from geolookup.files.streams import reading_errors
from geolookup.index import mmdb
from geolookup.index.flatten import U32, Flags
from geolookup.index.mapped import let_go
from geolookup.model.errors import DataFileError
from geolookup.sources.blocks import NO_V4, NO_V6, Batch, BlocksV4, BlocksV6, NetworkBatch
from geolookup.sources.mmdb_columns import Columns
from geolookup.sources.mmdb_records import Recogniser, SaidByMany
from geolookup.sources.mmdb_tree import (
    MARKER,
    TAIL_BYTES,
    Networks,
    Tree,
    last_addresses,
    read_metadata,
)
from geolookup.sources.places import Places
from geolookup.sources.protocol import Gathered, Kind, Request
from geolookup.sources.recorded import Records

#: The first sentence of our exports' descriptions: each source, with the day that its data are of.
_OUR_EXPORT = re.compile("What geolookup answers, from [^.]*")
_OF_DAY = re.compile(r"\(of ([0-9]{4}-[0-9]{2}-[0-9]{2})")
_NOWHERE = 0xFFFF_FFFF
_TOLD_RECORDS = 4096
#: So many records are read at a time.
_BATCH = 1 << 14


def fits(member: Member) -> bool:
    """True if the metadata's marker stands near the file's end, or the file begins as a search tree and is binary."""
    if MARKER in member.head:
        return True
    if b"\0" not in member.head:
        return False
    if member.path is not None:
        with reading_errors(member.name), open(member.path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_BYTES))
            return MARKER in file.read(TAIL_BYTES)
    tail = b""
    with member.open() as stream:
        while data := stream.read(1 << 20):
            tail = (tail + data)[-TAIL_BYTES:]
    return MARKER in tail


def read(opened: Opened, request: Request, gathered: Gathered) -> Iterator[Batch]:
    """The networks, of which neighbours of one place become one block. All places are there before the first batch.

    :raises DataFileError: if anything of the file is damaged, before the first batch for records
    :raises SettingsError: if ``fields`` cannot be a mapping
    """
    members = opened.fitting(fits)
    gathered.fields = {}
    for number, member in enumerate(members):
        gathered.begin_file(member.inside)
        with member.seekable() as file:
            later = sum(os.path.getsize(each.path) for each in members[number + 1 :] if each.path is not None)
            yield from _read_file(member.name, file, request, gathered, later=later, last=number + 1 == len(members))


def _read_file(
    name: str, file: IO[bytes], request: Request, gathered: Gathered, *, later: int, last: bool
) -> Iterator[Batch]:
    """
    :param later: how many bytes the files have that come after it: they are taken to be as dense
    :param last: whether none comes after it
    """
    with reading_errors(name):
        # Not closed by name: the arrays over it must be gone first, and with them it goes by itself.
        buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    about = read_metadata(name, buffer)
    gathered.about.update(about.about)
    if (own := _OUR_EXPORT.match(about.about.get("description", ""))) is not None:
        for day in _OF_DAY.findall(own[0]):  # its build_epoch is when it was published
            gathered.says_date(day)
    elif (epoch := about.about.get("build_epoch", "")) and 0 < len(epoch) < 11 and int(epoch):
        gathered.says_date(datetime.fromtimestamp(int(epoch), UTC).isoformat())
    tree = Tree(name, buffer, about, request.limits)
    records = tree.records()
    steps = len(records) + tree.pointers
    gathered.expected = gathered.decoded + gathered.rows + steps + steps * later // len(buffer)
    let_go(buffer)
    give_back()
    # A copy: slices of bytes are cheaper than those of a map, and no pointer can lead out of the data.
    section = mmdb.Section(buffer[about.data_begin : about.data_end])
    let_go(buffer)
    said = _said(name, section, records, Recogniser(name, request.fields, request.layer), gathered)
    del section
    give_back()
    if last:
        gathered.seal()
    runs: tuple[_Run, ...] = ()
    for family, networks in tree.networks():
        if not runs or family != runs[0].family:
            for run in runs:
                yield from run.rest()
            runs = _Run(family, Batch), _Run(family, NetworkBatch)
        let_go(buffer)
        gathered.rows += len(networks.record)
        at = np.searchsorted(records, networks.record)
        assert gathered.records is not None
        empty = said[1][at] == _NOWHERE
        place = said[0][at]
        empty[place != _NOWHERE] &= gathered.records.are_weak(place[place != _NOWHERE])
        gathered.rows_without_location += int(np.count_nonzero(empty))
        for run, numbers in zip(runs, said, strict=True):
            number = numbers[at]
            covered = number != _NOWHERE
            if covered.any():
                yield run.join(Networks._make(column[covered] for column in networks), number[covered])
    for run in runs:
        yield from run.rest()


def _said(
    name: str, section: mmdb.Section, records: U32, recogniser: Recogniser, gathered: Gathered
) -> tuple[U32, U32]:
    """The numbers among `Gathered.records` and `Gathered.networks` of each record, or `_NOWHERE`: each is read once."""
    records_of = gathered.records
    assert records_of is not None  # the kind asks for them
    columns = Columns(section)
    places = np.full(len(records), _NOWHERE, np.uint32)
    networks = np.full(len(records), _NOWHERE, np.uint32)

    def read_one(at: int, *, last: bool) -> bool:
        """Whether the record said what it has to say; if not, it is to be asked again, as one of the last."""
        position = int(records[at])
        try:
            record = section.members(position)
        except mmdb.BadValueError as error:
            raise _unreadable(name, section, position, recogniser) from error
        found = recogniser.record(record, last=last)
        if found == "later":
            return False
        if found is not None:
            place, parts, facts = found
            if place is not None or parts:
                places[at] = records_of.add(None if place is None else gathered.places.add(place), parts)
            if facts:
                networks[at] = gathered.networks.add(None, facts)
        return True

    later: list[int] = []
    # The first one tells the shape.
    for begin, end in pairwise([0, *range(1, len(records), _BATCH), len(records)]):
        single = np.ones(end - begin, np.bool_)
        for group in columns.groups(records[begin:end].astype(np.int64)) if begin else ():
            many = recogniser.many(columns, group)
            if many is not None:
                single[many.rows] = False
                places[begin + many.rows] = _added(many, gathered.places, records_of)
        gathered.decoded += int(np.count_nonzero(~single))
        for step, at in enumerate((begin + np.flatnonzero(single)).tolist()):
            if read_one(at, last=False):
                gathered.decoded += 1
            else:
                later.append(at)
            if not step % _TOLD_RECORDS:
                gathered.tell(gathered.decoded + gathered.rows, gathered.expected)
        gathered.tell(gathered.decoded + gathered.rows, gathered.expected)
        give_back()
    for at in later:
        read_one(at, last=True)
        gathered.decoded += 1
        if not gathered.decoded % _TOLD_RECORDS:
            gathered.tell(gathered.decoded + gathered.rows, gathered.expected)
    recogniser.finish()
    gathered.keep(recogniser.kept())
    return places, networks


def _added(many: SaidByMany, places: Places, records: Records) -> U32:
    """The numbers of the records, which are added with their places."""
    texts = {name: places.text_numbers(values)[which] for name, (values, which) in many.texts.items()}
    numbers = places.extend(texts, many.degrees, len(many.rows))
    parts = {name: records.part_numbers(name, values)[which] for name, (values, which) in many.parts.items()}
    return records.extend(numbers, parts)


def _unreadable(name: str, section: mmdb.Section, position: int, recogniser: Recogniser) -> DataFileError:
    """The error for a record that is damaged, or is no map."""
    try:
        return recogniser.unknown(section.at(position).plain)
    except mmdb.BadValueError as error:
        return DataFileError(f"{name}: the file is damaged: a record cannot be read: {error}")


class _Run:
    """Joins neighbouring networks of one place, from part to part; the last block stays open, it may go on."""

    def __init__(self, family: int, form: type[Batch]) -> None:
        """``form`` is the type of the batches."""
        self.family = family
        self._form = form
        self._open: BlocksV6 | None = None

    def rest(self) -> Iterator[Batch]:
        """The last block, if there is one."""
        if self._open is not None:
            yield self._batch(self._open)

    def join(self, networks: Networks, place: U32) -> Batch:
        found = BlocksV6(networks.hi, networks.lo, *last_addresses(networks), place)
        if self._open is not None:
            found = BlocksV6._make(np.concatenate([self._open[at], found[at]]) for at in range(5))
        next_lo = found.last_lo[:-1] + np.uint64(1)
        next_hi = found.last_hi[:-1] + (next_lo == 0)
        begins: Flags = np.ones(len(found.place), np.bool_)
        begins[1:] = (
            (found.place[1:] != found.place[:-1]) | (next_hi != found.first_hi[1:]) | (next_lo != found.first_lo[1:])
        )
        ends = np.append(begins[1:], True)
        joined = BlocksV6(
            found.first_hi[begins],
            found.first_lo[begins],
            found.last_hi[ends],
            found.last_lo[ends],
            found.place[begins],
        )
        self._open = BlocksV6._make(column[-1:] for column in joined)
        return self._batch(BlocksV6._make(column[:-1] for column in joined))

    def _batch(self, found: BlocksV6) -> Batch:
        if self.family == 6:
            return self._form(NO_V4, found)
        four = BlocksV4(found.first_lo.astype(np.uint32), found.last_lo.astype(np.uint32), found.place)
        return self._form(four, NO_V6)


KIND = Kind(
    name="mmdb",
    summary="a MaxMind DB file: GeoLite2, GeoIP2, DB-IP, IPinfo",
    fits=fits,
    read=read,
    maps_fields=True,
    records=True,
)
