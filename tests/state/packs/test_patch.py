"""Patches make the file again, byte for byte; what is damaged makes nothing."""

import os
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.index.builder import IndexBuilder
from geolookup.model.errors import StateDamagedError
from geolookup.state.packs import forms
from geolookup.state.packs.patch import apply_patch, check_patch, read_patch, whole_file, write_patch

_TEXT = st.text(max_size=6)
_PLACE = st.tuples(_TEXT, _TEXT, st.lists(st.integers(0, 4000), max_size=4))
_PLACES = st.dictionaries(st.integers(1, 300), _PLACE, max_size=40)


def _index(path: str, places: dict[int, tuple[str, str, list[int]]]) -> None:
    builder = IndexBuilder("default", source="one")
    for locid, (country, city, starts) in places.items():
        slot = builder.add_location(locid, country, "", city, "", None, 1.5, "", "")
        firsts = sorted(set(starts))
        builder.extend_v4(slot, [start * 1000 for start in firsts], [start * 1000 + 500 for start in firsts])
        builder.extend_v6(slot, [start << 64 for start in firsts], [(start << 64) + 7 for start in firsts])
    builder.write(path)


def _database(path: str, places: dict[int, tuple[str, str, list[int]]]) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE places (locid INTEGER PRIMARY KEY, country, city)")
        connection.execute("CREATE TABLE blocks (locid, start BLOB)")
        for locid, (country, city, starts) in places.items():
            connection.execute("INSERT INTO places VALUES (?, ?, ?)", (locid, country, city * 30))
            connection.executemany("INSERT INTO blocks VALUES (?, ?)", [(locid, start) for start in starts] * 20)
        connection.execute("CREATE INDEX by_locid ON blocks (locid)")
    connection.close()


def _packed(folder: str, *, is_index: bool) -> tuple[str, str, str]:
    old, new, patch = (os.path.join(folder, name) for name in ("old", "new", "patch"))
    write_patch(patch, old, new, file=whole_file(old), base_name="new", base_file=whole_file(new), is_index=is_index)
    return old, new, patch


@pytest.mark.parametrize("is_index", [True, False])
@given(old=_PLACES, new=_PLACES, common=_PLACES)
def test_the_file_comes_back_whatever_it_is_compared_with(
    is_index: bool,
    old: dict[int, tuple[str, str, list[int]]],
    new: dict[int, tuple[str, str, list[int]]],
    common: dict[int, tuple[str, str, list[int]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, places in (("old", common | old), ("new", common | new)):
            (_index if is_index else _database)(os.path.join(folder, name), places)
        path, base, patch = _packed(folder, is_index=is_index)
        again = os.path.join(folder, "again")
        apply_patch(read_patch(patch), base, again)
        assert Path(again).read_bytes() == Path(path).read_bytes()
        check_patch(patch)


@given(
    data=st.binary(min_size=forms.PAGE_BYTES, max_size=forms.PAGE_BYTES),
    cells=st.integers(0, 3000),
    rest=st.binary(max_size=9),
)
def test_pages_of_any_bytes_come_back(data: bytes, cells: int, rest: bytes) -> None:
    page = bytes([13]) + data[1:3] + cells.to_bytes(2, "big") + data[5:] + rest
    assert forms.restored(forms.turned(page)) == page


def test_row_numbers_and_places_of_cells_become_equal(tmp_path: Path) -> None:
    """One row more moves all others; turned, the pages behind it still have runs of equal bytes."""
    for name, extra in (("old", 0), ("new", 1)):
        with sqlite3.connect(tmp_path / name) as connection:
            connection.execute("CREATE TABLE blocks (locid, first, last)")
            rows = [(7, 0, 0)] * extra + [(number * 7919 % 90001, number * 256, number) for number in range(20000)]
            connection.executemany("INSERT INTO blocks VALUES (?, ?, ?)", rows)
        connection.close()
    old, _, patch = _packed(str(tmp_path), is_index=False)
    assert os.path.getsize(patch) < 0.03 * os.path.getsize(old)


def test_a_place_that_goes_and_a_text_that_comes_cost_little(tmp_path: Path) -> None:
    places = {locid: ("DE", f"town {locid}", [locid * 2, locid * 2 + 20000]) for locid in range(1, 9000)}
    _index(str(tmp_path / "old"), places)
    del places[17]
    places[18] = ("FR", "another", [1])
    _index(str(tmp_path / "new"), places)
    old, _, patch = _packed(str(tmp_path), is_index=True)
    assert os.path.getsize(patch) < 0.02 * os.path.getsize(old)


def test_every_flipped_byte_is_noticed_and_leaves_nothing(tmp_path: Path) -> None:
    places = {locid: ("DE", f"town {locid}", [locid]) for locid in range(1, 200)}
    _database(str(tmp_path / "old"), places)
    _database(str(tmp_path / "new"), places | {500: ("FR", "new", [9])})
    old, base, patch = _packed(str(tmp_path), is_index=False)
    whole = Path(patch).read_bytes()
    again = str(tmp_path / "again")
    for at in range(0, len(whole), max(1, len(whole) // 150)):
        for bad in (whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :], whole[:at]):
            Path(patch).write_bytes(bad)
            with pytest.raises(StateDamagedError, match="patch: "):
                check_patch(patch)
            try:
                apply_patch(read_patch(patch), base, again)
            except StateDamagedError:
                assert not os.path.exists(again)
            else:  # what was flipped says nothing of the file
                assert Path(again).read_bytes() == Path(old).read_bytes()
                os.unlink(again)


def test_another_base_makes_nothing(tmp_path: Path) -> None:
    places = {locid: ("DE", f"town {locid}", [locid]) for locid in range(1, 200)}
    for name, city in (("old", "a"), ("new", "b"), ("other", "c")):
        _index(str(tmp_path / name), places | {7: ("DE", city, [3])})
    _, _, patch = _packed(str(tmp_path), is_index=True)
    with pytest.raises(StateDamagedError, match="cannot be unpacked"):
        apply_patch(read_patch(patch), str(tmp_path / "other"), str(tmp_path / "again"))
    assert not (tmp_path / "again").exists()
