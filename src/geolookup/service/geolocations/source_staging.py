"""Staging a source of any kind: its places become default geolocations, its blocks theirs."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sqlalchemy import select

from geolookup.base.reasons import reason
from geolookup.files.bad_rows import BadRows
from geolookup.index.flatten import Flags
from geolookup.model import addresses
from geolookup.model.fields import FIELD_NAMES, TEXT_NAMES
from geolookup.service.geolocations import merge
from geolookup.service.store.counted import OnRows
from geolookup.service.store.schema import geolocations, padded, with_keys
from geolookup.service.store.store import Transaction
from geolookup.sources.blocks import MASKED
from geolookup.sources.locids import place_digest
from geolookup.sources.places import PlaceFields, Places
from geolookup.sources.protocol import Reading
from geolookup.web import wire

Row = tuple[Any, ...]
_AT_ONCE = 65536


def stage_source(
    transaction: Transaction,
    reading: Reading,
    bad: BadRows,
    add_geolocation: Callable[[Row], None],
    add_block: Callable[[Row], None],
    on_rows: OnRows,
) -> None:
    """Hand on the rows of both staging tables.

    A place keeps the locid that its source gives it, or that a default geolocation with the same fields has; others get
    the next free ones. Prefixes that are known to have no location are left out, since the service cannot hold them. Of
    equal blocks the later row wins, unless the source has locids of its own, which then decide. ``on_rows`` is told how
    many more rows were read.

    :raises DataFileError: if the source is damaged
    :raises PullError: if it has no good row
    """
    batches = []
    for batch in reading.batches(lenient=True):
        batches.append(batch)
        on_rows(sum(len(columns[0]) for columns in (batch.v4, batch.v6)))
    gathered = reading.gathered
    for row in gathered.bad_in_order():
        bad.add(f"{reading.name}, {row}")
    bad.add_unnamed(gathered.bad - len(gathered.bad_rows))
    if bad:
        return
    gathered.check(reading.name, reading.limits)
    places = gathered.places
    for number, locid in enumerate(_locids(transaction, places)):
        fields = dict(zip(FIELD_NAMES, places[number], strict=True))
        try:
            for name in TEXT_NAMES:
                wire.text(fields[name])
        except ValueError as error:
            bad.add(f"{reading.name}: {name} {reason(error)}")
            continue
        add_geolocation((number, locid, 0, *with_keys(fields).values()))
    own = places.locids is not None
    for family, columns in (
        (4, [np.concatenate(parts) for parts in zip(*(batch.v4 for batch in batches), strict=True)]),
        (6, [np.concatenate(parts) for parts in zip(*(batch.v6 for batch in batches), strict=True)]),
    ):
        if columns:
            for first, last, number in _blocks(columns, keep_equal=own):
                ends = addresses.to_text(family, first), addresses.to_text(family, last)
                add_block((number, family, padded(family, first), padded(family, last), *ends, 0))


def _blocks(columns: list[Any], *, keep_equal: bool) -> Iterator[tuple[int, int, int]]:
    """First, last and place of the blocks of one family that are kept."""
    *ends, place = columns
    kept: Flags = place != MASKED
    if not keep_equal:
        kept &= _last_of_equal(ends)
    at = np.flatnonzero(kept)
    for begin in range(0, len(at), _AT_ONCE):
        part = [column[at[begin : begin + _AT_ONCE]].tolist() for column in columns]
        if len(part) == 3:
            yield from zip(*part, strict=True)
        else:
            for first_hi, first_lo, last_hi, last_lo, number in zip(*part, strict=True):
                yield first_hi << 64 | first_lo, last_hi << 64 | last_lo, number


def _last_of_equal(ends: list[Any]) -> Flags:
    """The rows that no later row with the same ends replaces. Masks count: they hide the rows before them."""
    order = np.lexsort(ends)  # stable, so that equal ones stay in their order
    followed: Flags = np.zeros(len(order), np.bool_)
    if len(order) > 1:
        followed[:-1] = np.logical_and.reduce([column[order][:-1] == column[order][1:] for column in ends])
    kept: Flags = np.empty(len(order), np.bool_)
    kept[order] = ~followed
    return kept


def _locids(transaction: Transaction, places: Places) -> Iterator[int]:
    if places.locids is not None:
        yield from places.locids
        return
    columns = [geolocations.c[name] for name in FIELD_NAMES]
    rows = select(geolocations.c.locid, *columns).where(geolocations.c.locid > 0).order_by(geolocations.c.locid.desc())
    # Of several that are equal the lowest number stays.
    known = {place_digest(PlaceFields._make(row[1:])): row[0] for row in transaction.connection.execute(rows)}
    following = merge.greatest_locid(transaction) + 1
    for place in places:
        locid = known.get(place_digest(place))
        if locid is None:
            yield following
            following += 1
        else:
            yield locid
