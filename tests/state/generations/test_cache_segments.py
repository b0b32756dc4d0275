"""Blocks that stand in the index alone: questions answer as they do from rows, and from plain loops."""

import itertools
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.index import walk
from geolookup.model.errors import StateDamagedError
from geolookup.model.fields import FIRST_OWN_LOCID
from geolookup.sources.blocks import MASKED, NO_V4, NO_V6, Batch, BlocksV4, BlocksV6
from geolookup.sources.locids import Numbering
from geolookup.sources.places import PlaceFields, Places
from geolookup.sources.recorded import Records
from geolookup.state.base.candidate import Candidate
from geolookup.state.generations import cache_segments
from geolookup.state.generations.cache import COMPACT, IN_INDEX, Cache
from geolookup.state.generations.cache_compare import compare, row_differences
from geolookup.sync.pull import staging
from geolookup.sync.pull.staging import ColumnStaging, earlier_places
from tests.oracle import cache_rows
from tests.support.examples import examples


@pytest.fixture(autouse=True, scope="module")
def _few_are_many() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staging, "MANY_BLOCKS", 0)
        yield


#: (family, first, last, number of the city, or None if it is known to be nowhere)
Row = tuple[int, int, int, int | None]
CITIES = tuple(PlaceFields(country="DE", city=city, latitude=1.0, longitude=2.0) for city in ("Köln", "köln", "Ulm"))
LAST = {4: 2**32 - 1, 6: 2**128 - 1}
POINTS = {
    4: (0, 1, 9, 2**16 - 1, 2**16, 2**31 - 1, 2**31, 2**32 - 9),
    6: (0, 1, 2**33, 2**64 - 1, 2**64, 2**127, 2**127 + 1, 2**128 - 9),
}


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    found: list[Row] = []
    for family, points in POINTS.items():
        cuts = [*sorted(draw(st.sets(st.sampled_from(points)))), LAST[family] + 1]
        for first, after in itertools.pairwise(cuts):
            for city in draw(st.lists(st.sampled_from((0, 1, 2, None)), max_size=1)):
                found.append((family, first, after - 1 - draw(st.sampled_from((0, 0, 8))) * (after - first > 8), city))
        if draw(st.integers(0, 3)) == 3:
            first, last = sorted(draw(st.tuples(st.sampled_from(points), st.sampled_from(points))))
            found.append((family, first, last, draw(st.sampled_from((0, 1, 2, None)))))
    found = [*dict.fromkeys(found)]  # one that comes twice is more than the loops know
    return draw(st.sampled_from((found, found[::-1])))


def halves(values: Sequence[int]) -> tuple[Any, Any]:
    return np.array([value >> 64 for value in values], np.uint64), np.array(
        [value & (1 << 64) - 1 for value in values], np.uint64
    )


def staged(folder: str, of: Sequence[Row], earlier: str | None, *, records: bool) -> Cache:
    candidate = Candidate(path=folder)
    places, said = Places(), Records()
    cities = [places.add(city) for city in CITIES]
    numbers = [said.add(place, {}) for place in cities] if records else cities
    before = () if earlier is None else [earlier_places(earlier)]
    with ColumnStaging(candidate, "file", places, Numbering(before), said if records else None) as staging:
        for at in range(0, len(of), 3):
            part = of[at : at + 3]
            own = {family: [row for row in part if row[0] == family] for family in (4, 6)}
            place = {
                family: np.array([MASKED if row[3] is None else numbers[row[3]] for row in found], np.uint32)
                for family, found in own.items()
            }
            firsts, lasts = ({family: [row[end] for row in own[family]] for family in own} for end in (1, 2))
            four = BlocksV4(np.array(firsts[4], np.uint32), np.array(lasts[4], np.uint32), place[4])
            six = BlocksV6(*halves(firsts[6]), *halves(lasts[6]), place[6])
            staging.add(Batch(four if own[4] else NO_V4, six if own[6] else NO_V6))
        staging.finish({})
    return Cache(candidate.cache)


def stand_in_index(of: Sequence[Row]) -> bool:
    """Whether no two blocks overlap, and no two neighbours are of one city."""
    ordered = sorted(of, key=lambda row: row[:2])
    for row, after in itertools.pairwise(ordered):
        if row[0] == after[0] and (row[2] >= after[1] or (row[2] + 1 == after[1] and row[3] == after[3])):
            return False
    return True


def version(cache: Cache) -> int:
    connection = sqlite3.connect(cache.path)
    try:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    finally:
        connection.close()


def by_locid(cache: Cache, of: Sequence[Row]) -> dict[int, tuple[str, frozenset[cache_rows.Range]]]:
    """What plain loops say, by the numbers that the file has given. The locid 0 is the mask's."""
    numbers: dict[int | None, int] = {None: 0}
    for place, _ in cache.find():
        numbers[next(at for at, city in enumerate(CITIES) if city.city == place.city)] = place.locid
    return {
        locid: ("" if at is None else CITIES[at].city, frozenset(row[:3] for row in of if row[3] == at))
        for at, locid in numbers.items()
    }


@given(old=rows(), new=rows(), records=st.booleans(), at_once=st.sampled_from([2, walk._CHUNK]))
@examples(120)
def test_blocks_of_the_index_answer_as_rows_and_loops_do(
    old: list[Row], new: list[Row], records: bool, at_once: int
) -> None:
    with TemporaryDirectory() as one, TemporaryDirectory() as other, mock.patch.object(walk, "_CHUNK", at_once):
        before = staged(one, old, None, records=records)
        after = staged(other, new, os.path.join(one, "index"), records=records)
        for cache, own in ((before, old), (after, new)):
            assert version(cache) == (IN_INDEX if stand_in_index(own) else COMPACT)
            expected = by_locid(cache, own)
            for family, value in {(row[0], end) for row in own for end in row[1:3]}:
                found = cache.covering_rows(4 if family == 4 else 6, value)
                assert {
                    (0 if place is None else place.locid, (block.family, block.first, block.last))
                    for block, place, _ in found
                } == cache_rows.covering(expected, family, value)
            for city in CITIES:
                of_city = {
                    locid: sum(last - first + 1 for family, first, last in blocks if family == 4)
                    for locid, (name, blocks) in expected.items()
                    if name.casefold() == city.city.casefold()
                }
                asked = {place.locid: addresses for place, addresses, _ in cache.city("DE", city.city)}
                assert asked == (of_city if len(of_city) > 1 else dict.fromkeys(of_city, 0))
        was, now = by_locid(before, old), by_locid(after, new)
        expected_counts = cache_rows.difference(was, now)
        # The mask is no geolocation, and its blocks are some all the same.
        expected_counts["geolocations"]["changed"] -= was[0] != now[0]
        assert compare(before.path, after.path) == expected_counts
        listed = row_differences(before.path, after.path, top=None, blocks=True)
        assert listed.counts == expected_counts
        gone = {(locid, each) for locid, (_, blocks) in was.items() for each in blocks}
        came = {(locid, each) for locid, (_, blocks) in now.items() for each in blocks}
        for found_blocks, wanted in ((listed.blocks_added, came - gone), (listed.blocks_removed, gone - came)):
            assert {(locid, (each.family, each.first, each.last)) for locid, each in found_blocks} == wanted


def test_a_large_index_is_read_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own: list[Row] = [(4, at * 4, at * 4 + 3, at % 2) for at in range(40)]
    cache = staged(str(tmp_path), own, None, records=True)
    expected = [(4, FIRST_OWN_LOCID + at % 2, at * 4, at * 4 + 3) for at in range(40)]
    for piece in (1, 2, 7, 41):
        monkeypatch.setattr(cache_segments, "_PIECE", piece)
        found = cache_segments.blocks_of(cache.path, {row[1] for row in expected})
        assert sorted(itertools.chain.from_iterable(found)) == sorted(expected)
        assert [row for rows in cache_segments.blocks_of(cache.path, ()) for row in rows] == []


def test_an_index_that_is_gone_or_out_of_order_is_damage(tmp_path: Path) -> None:
    cache = staged(str(tmp_path), [(4, 0, 9, 0), (4, 10, 19, 1)], None, records=False)
    index = tmp_path / "index"
    data = bytearray(index.read_bytes())
    at = data.index(np.array([0, 10, 20], "<u2").tobytes())
    data[at : at + 6] = np.array([0, 30, 20], "<u2").tobytes()
    index.write_bytes(data)
    with pytest.raises(StateDamagedError, match="out of order"):
        [*cache_segments.blocks_of(cache.path, [FIRST_OWN_LOCID, FIRST_OWN_LOCID + 1])]
    os.unlink(index)
    with pytest.raises(StateDamagedError, match=r"cache\.db: its blocks cannot be read"):
        cache.covering_rows(4, 1)
