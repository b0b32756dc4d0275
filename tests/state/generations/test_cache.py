"""cache.db: openable by other tools as it is, ordered as addresses are, and its questions against plain loops."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.model.addresses import to_text
from geolookup.model.errors import StateDamagedError, StateTooNewError, StateUnwritableError
from geolookup.state.generations.cache import Cache, CacheWriter, stored_number
from geolookup.state.generations.cache_compare import compare, row_differences
from tests.oracle import cache_rows
from tests.oracle.cache_rows import Range, Rows
from tests.support.examples import examples

V6_EDGES = (0, 1, 9, 10, 2**32, 2**63 - 1, 2**63, 2**64, 2**127, 10**38, 2**128 - 1)
V4_EDGES = (0, 1, 9, 10, 255, 256, 2**31, 2**32 - 1)


def write(path: str, rows: Rows, *, compact: bool = False, **about: str) -> Cache:
    """A cache.db with these rows; the text of each geolocation is its city. The locid 0 is a mask's."""
    with CacheWriter(path, compact=compact) as writer:
        for locid, (city, blocks) in rows.items():
            place = (locid, "DE", "", city, "", None, 1.5, "", "", len(blocks), repr((city, sorted(blocks))))
            if compact:
                writer.add([place] if locid else [], ())
                for family in (4, 6):
                    ends = [(first, last) for of, first, last in blocks if of == family]
                    writer.add_numbers(family, [(locid, *(_compact(family, end) for end in pair)) for pair in ends])
                continue
            writer.add(
                [place],
                [
                    (
                        locid,
                        family,
                        to_text(6 if family == 6 else 4, first),
                        to_text(6 if family == 6 else 4, last),
                        stored_number(family, first),
                        stored_number(family, last),
                    )
                    for family, first, last in blocks
                ],
            )
        writer.finish(about)
    return Cache(path)


def _compact(family: int, end: int) -> int | bytes:
    return end if family == 4 else end.to_bytes(16, "big")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "cache.db")


SOME: Rows = {
    1: ("Köln", frozenset({(4, 10, 20), (6, 2**64, 2**65)})),
    2: ("", frozenset()),
    -1: ("hier", frozenset({(4, 15, 15)})),
    -2: ("dort", frozenset({(4, 1, 2), (6, 7, 7), (4, 0, 2**32 - 1)})),
}

# Other tools


def test_the_sqlite_utils_command_opens_it_as_it_is(path: str) -> None:
    write(path, SOME, url="http://127.0.0.1:9")
    command = [sys.executable, "-m", "sqlite_utils"]
    counts = subprocess.run([*command, "tables", path, "--counts", "--csv"], capture_output=True, text=True, check=True)
    assert counts.stdout.split() == ["table,count", "geolocations,4", "ipblocks,6", "about,1"]
    rows = subprocess.run([*command, "rows", path, "about"], capture_output=True, text=True, check=True)
    assert "http://127.0.0.1:9" in rows.stdout
    query = "select city from geolocations join ipblocks using (locid) where startip = '0.0.0.15'"
    found = subprocess.run([*command, path, query], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == '[{"city": "hier"}]'


def test_datasette_serves_it_as_it_is(path: str) -> None:
    from datasette.app import Datasette

    write(path, SOME)

    async def ask() -> tuple[object, object, int]:
        datasette = Datasette([], immutables=[path])
        places = await datasette.client.get("/cache/geolocations.json?_shape=array&_sort=locid")
        blocks = await datasette.client.get("/cache/ipblocks.json?_shape=array&family=6&_sort=startipnum")
        page = await datasette.client.get("/cache/ipblocks")
        return places.json(), blocks.json(), page.status_code

    places, blocks, status = asyncio.run(ask())
    assert isinstance(places, list)
    assert isinstance(blocks, list)
    assert [(row["locid"], row["city"], row["longitude"]) for row in places] == [
        (-2, "dort", 1.5),
        (-1, "hier", 1.5),
        (1, "Köln", 1.5),
        (2, "", 1.5),
    ]
    assert [row["startipnum"] for row in blocks] == [f"{7:039d}", f"{2**64:039d}"]
    assert status == 200


# The rows


@pytest.mark.parametrize(("family", "edges"), [(4, V4_EDGES), (6, V6_EDGES)])
def test_stored_numbers_order_as_the_addresses_do(path: str, family: int, edges: tuple[int, ...]) -> None:
    write(path, {1: ("", frozenset((family, value, value) for value in edges))})
    with sqlite3.connect(path) as connection:
        found = connection.execute(
            "SELECT typeof(startipnum), startipnum FROM ipblocks ORDER BY startipnum DESC"
        ).fetchall()
    connection.close()
    assert [int(number) for _, number in found] == sorted(edges, reverse=True)
    assert {kind for kind, _ in found} == {"integer" if family == 4 else "text"}
    assert family == 4 or {len(number) for _, number in found} == {39}


def test_the_file_is_private_and_must_not_exist_before(path: str) -> None:
    write(path, SOME)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert os.listdir(os.path.dirname(path)) == ["cache.db"]
    with pytest.raises(StateUnwritableError, match="File exists"):
        CacheWriter(path)


def test_custom_geolocations_come_with_their_blocks_and_the_others_without(path: str) -> None:
    cache = write(path, SOME)
    found = cache.custom()
    assert [(place.locid, place.city) for place in found] == [(-2, "dort"), (-1, "hier")]
    assert [[(block.family, block.first, block.last) for block in place.ipblocks] for place in found] == [
        [(4, 0, 2**32 - 1), (4, 1, 2), (6, 7, 7)],
        [(4, 15, 15)],
    ]
    place = cache.geolocation(1)
    assert place is not None
    assert (place.city, place.latitude, place.longitude, place.ipblocks) == ("Köln", None, 1.5, ())
    assert cache.geolocation(99) is None
    assert cache.counts() == {"default": 2, "custom": 2, "default_blocks": 2, "custom_blocks": 4}
    assert cache.country_blocks() == {"DE": 2}
    assert set(cache.custom_digests()) == {-1, -2}


# The questions against plain loops


def ranges(family: int, edges: tuple[int, ...]) -> st.SearchStrategy[Range]:
    ends = st.lists(st.sampled_from(edges), min_size=2, max_size=2).map(sorted)
    return ends.map(lambda pair: (family, pair[0], pair[1]))


some_rows = st.dictionaries(
    st.sampled_from([1, 2, 3, 2**40, -1, -2]),
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.frozensets(ranges(4, V4_EDGES[:4]) | ranges(6, V6_EDGES[4:8]), max_size=4),
    ),
    max_size=5,
)


@given(old=some_rows, new=some_rows)
@examples(40)
def test_the_difference_agrees_with_plain_loops(old: Rows, new: Rows) -> None:
    with tempfile.TemporaryDirectory() as directory:
        paths = os.path.join(directory, "o l%d?.db"), os.path.join(directory, "new.db")
        for path, rows in zip(paths, (old, new), strict=True):
            write(path, rows)
        assert compare(*paths) == cache_rows.difference(old, new)
        assert compare(*reversed(paths)) == cache_rows.difference(new, old)


@given(old=some_rows, new=some_rows, top=st.sampled_from([None, 1]))
@examples(40)
def test_the_rows_that_differ_are_those_that_plain_loops_find(old: Rows, new: Rows, top: int | None) -> None:
    with tempfile.TemporaryDirectory() as directory:
        paths = os.path.join(directory, "old.db"), os.path.join(directory, "new.db")
        for path, rows in zip(paths, (old, new), strict=True):
            write(path, rows)
        found = row_differences(*paths, top=top, blocks=True)
    assert found.counts == cache_rows.difference(old, new)
    assert [place.locid for place in found.added] == sorted(set(new) - set(old))[:top]
    assert [place.locid for place in found.removed] == sorted(set(old) - set(new))[:top]
    touched = [locid for locid in sorted(set(old) & set(new)) if old[locid] != new[locid]]
    assert [(each.after.locid, each.fields(), each.blocks_added, each.blocks_removed) for each in found.changed] == [
        (
            locid,
            {} if old[locid][0] == new[locid][0] else {"city": (old[locid][0], new[locid][0])},
            len(new[locid][1] - old[locid][1]),
            len(old[locid][1] - new[locid][1]),
        )
        for locid in touched[:top]
    ]
    for blocks, mine, other in ((found.blocks_added, new, old), (found.blocks_removed, old, new)):
        before = {(locid, block) for locid, (_, ranges) in other.items() for block in ranges}
        after = {(locid, block) for locid, (_, ranges) in mine.items() for block in ranges}
        expected = sorted((block, locid) for locid, block in after - before)
        assert [((block.family, block.first, block.last), locid) for locid, block in blocks] == expected[:top]
    if top is None:
        shown = [
            ((block.family, block.first, block.last), *(side and side.locid for side in sides))
            for block, *sides in found.moves
        ]
        assert sorted(map(repr, shown)) == sorted(map(repr, _moves(old, new)))
    else:
        assert len(found.moves) <= top


def _moves(old: Rows, new: Rows) -> list[tuple[Range, int | None, int | None]]:
    """Each range that another geolocation has, with those before and after."""
    was, now = ({(locid, each) for locid, (_, ranges) in rows.items() for each in ranges} for rows in (old, new))
    gone, came = was - now, now - was
    found: list[tuple[Range, int | None, int | None]] = []
    for each in {block for _, block in gone | came}:
        before, after = ([locid for locid, block in side if block == each] or [None] for side in (gone, came))
        found += [(each, one, other) for one in before for other in after]
    return found


@given(old=some_rows, new=some_rows)
@examples(20)
def test_a_compact_file_is_compared_with_one_that_has_text(old: Rows, new: Rows) -> None:
    with tempfile.TemporaryDirectory() as directory:
        paths = os.path.join(directory, "old.db"), os.path.join(directory, "new.db")
        write(paths[0], old)
        write(paths[1], new, compact=True)
        assert compare(*paths) == cache_rows.difference(old, new)
        assert compare(*reversed(paths)) == cache_rows.difference(new, old)


def test_blocks_that_are_known_to_have_no_location_count_too(tmp_path: Path) -> None:
    paths = str(tmp_path / "old.db"), str(tmp_path / "new.db")
    old: Rows = {1: ("Bonn", frozenset({(4, 0, 9)})), 0: ("", frozenset({(4, 10, 19), (6, 5, 6)}))}
    new: Rows = {1: ("Bonn", frozenset({(4, 0, 9), (4, 10, 19)})), 0: ("", frozenset({(6, 5, 6), (4, 30, 39)}))}
    for path, rows in zip(paths, (old, new), strict=True):
        write(path, rows, compact=True)
    found = row_differences(*paths, top=None, blocks=True)
    assert found.counts["geolocations"] == {"added": 0, "removed": 0, "changed": 1}
    assert found.counts["blocks"] == {"added": 1, "removed": 0, "changed": 1}
    assert [(locid, block.first) for locid, block in found.blocks_added] == [(1, 10), (0, 30)]
    assert [(locid, block.first) for locid, block in found.blocks_removed] == [(0, 10)]
    assert row_differences(paths[0], paths[0], top=None, blocks=True).is_empty


own_rows = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.tuples(
        st.sampled_from([10**9, 10**9 + 1, 10**9 + 2, 10**9 + 3, 7]),
        st.frozensets(ranges(4, V4_EDGES[:4]), max_size=3),
    ),
).filter(lambda places: len({locid for locid, _ in places.values()}) == len(places))


@given(old=own_rows, new=own_rows)
@examples(40)
def test_a_place_of_ours_that_has_another_number_is_said_to_have_and_nothing_else(
    old: dict[str, tuple[int, frozenset[Range]]], new: dict[str, tuple[int, frozenset[Range]]]
) -> None:
    numbers = [{locid for locid, _ in places.values()} for places in (old, new)]
    renumbered = {
        old[city][0]: new[city][0]
        for city in old
        if city in new and old[city][0] not in numbers[1] and new[city][0] not in numbers[0]
    }
    renumbered = {was: now for was, now in renumbered.items() if min(was, now) >= 10**9}
    rows = [{locid: (city, blocks) for city, (locid, blocks) in places.items()} for places in (old, new)]
    as_if = {renumbered.get(locid, locid): row for locid, row in rows[0].items()}
    with tempfile.TemporaryDirectory() as directory:
        paths = os.path.join(directory, "old.db"), os.path.join(directory, "new.db")
        for path, each in zip(paths, rows, strict=True):
            write(path, each, compact=True)
        found = row_differences(*paths, top=None, blocks=True)
    expected = cache_rows.difference(as_if, rows[1])
    # That some of its blocks changed is among the blocks.
    expected["geolocations"]["changed"] -= sum(as_if[now] != rows[1][now] for now in renumbered.values())
    assert found.counts == expected
    assert {was: place.locid for was, place in found.renumbered} == renumbered
    assert found.renumbered_count == len(renumbered)


@given(rows=some_rows)
@examples(40)
def test_covering_agrees_with_a_linear_scan(rows: Rows) -> None:
    with tempfile.TemporaryDirectory() as directory:
        cache = write(os.path.join(directory, "cache.db"), rows)
        for family, edges in ((4, V4_EDGES[:5]), (6, V6_EDGES[3:9])):
            for value in edges:
                found = [(block, place) for block, place, _ in cache.covering_rows(family, value) if place is not None]
                assert len(found) == len({(place.locid, block) for block, place in found})
                assert {
                    (place.locid, (block.family, block.first, block.last)) for block, place in found
                } == cache_rows.covering(rows, family, value)
                assert all(place.city == rows[place.locid][0] for _, place in found)


CITIES = ("Köln", "KÖLN", "köln", "Koln", "İstanbul", "istanbul", "STRASSE", "straße", "ΣΊΣΥΦΟΣ", "σίσυφος", "")


@pytest.mark.parametrize("wanted", [*CITIES, "k", "%", "k_ln", "' OR 1=1"])
def test_a_filter_ignores_case_in_every_script_and_knows_no_wildcards(path: str, wanted: str) -> None:
    cache = write(path, {number: (city, frozenset()) for number, city in enumerate(CITIES, start=1)})
    found = [place.city for place, _ in cache.find(city=wanted)]
    assert found == (cache_rows.equal_without_case(wanted, CITIES) if wanted else list(CITIES))


def test_filters_combine_and_an_end_can_be_asked_for(path: str) -> None:
    cache = write(path, SOME)
    assert [(place.locid, blocks) for place, blocks in cache.find()] == [(-2, 3), (-1, 1), (1, 2), (2, 0)]
    assert [place.locid for place, _ in cache.find(layer="custom", country="de")] == [-2, -1]
    assert [place.locid for place, _ in cache.find(layer="default", top=1)] == [1]
    assert [place.locid for place, _ in cache.find(country="de", city="HIER", region="")] == [-1]
    assert [*cache.find(country="fr", city="hier")] == []
    abandoned = cache.find()
    next(abandoned)
    abandoned.close()


# Damage and versions


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE geolocations SET city = x'ff' WHERE locid = -1",
        "UPDATE geolocations SET latitude = 'north' WHERE locid = -1",
        "UPDATE geolocations SET city = CAST(x'ff' AS TEXT) WHERE locid = -1",
        "UPDATE ipblocks SET startipnum = 'x' WHERE locid = -1",
        "UPDATE ipblocks SET startipnum = 16 WHERE locid = -1",
        "UPDATE ipblocks SET endipnum = 4294967296 WHERE locid = -1",
        "UPDATE ipblocks SET family = 5 WHERE locid = -1",
        "UPDATE ipblocks SET startipnum = -1 WHERE locid = -1",
        "DROP TABLE ipblocks",
    ],
)
def test_a_damaged_row_is_damage_and_no_answer(path: str, statement: str) -> None:
    cache = write(path, SOME)
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()
    with pytest.raises(StateDamagedError, match=r"cache\.db"):
        cache.custom()


@pytest.mark.parametrize("damage", [b"", b"\0" * 5000, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_file_that_is_no_database_is_damage(path: str, damage: bytes) -> None:
    cache = write(path, SOME)
    whole = path + ".whole"
    os.rename(path, whole)
    Path(path).write_bytes(damage)
    for question in (cache.custom, cache.counts, lambda: cache.covering_rows(4, 1), lambda: list(cache.find())):
        with pytest.raises(StateDamagedError, match=r"cache\.db"):
            question()
    for old, new in ((path, whole), (whole, path)):
        with pytest.raises(StateDamagedError, match=r"cache\.db"):
            compare(old, new)


def test_check_finds_a_damaged_page(path: str) -> None:
    cache = write(path, {1: ("x", frozenset((4, value, value) for value in range(2000)))})
    cache.check()
    data = bytearray(Path(path).read_bytes())
    data[4096 * 4 : 4096 * 5] = bytes(4096)
    Path(path).write_bytes(data)
    with pytest.raises(StateDamagedError, match=r"cache\.db"):
        cache.check()


def test_a_newer_schema_is_refused_by_name(path: str) -> None:
    cache = write(path, SOME)
    other = path + ".other"
    write(other, SOME)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 4")
    connection.close()
    before = Path(path).read_bytes()
    for question in (
        cache.custom,
        cache.counts,
        cache.check,
        lambda: cache.geolocation(1),
        lambda: next(cache.find()),
        lambda: compare(path, other),
        lambda: compare(other, path),
    ):
        with pytest.raises(StateTooNewError, match=r"cache\.db: has schema 4.*upgrade"):
            question()
    assert Path(path).read_bytes() == before
