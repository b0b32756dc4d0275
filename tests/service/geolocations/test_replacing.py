"""Loading files in place of what is there: the default layer is theirs afterwards, custom geolocations stay."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.model.errors import DataFileError
from geolookup.service.geolocations.loader import Loaded, load_files
from geolookup.service.store.store import Store
from tests.service.geolocations.loading import HEADER, places, write
from tests.support.examples import examples
from tests.support.services.running_service import RunningService
from tests.support.services.service_fixtures import DEFAULTS


def revisions(store: Store) -> tuple[int, int]:
    snapshot = store.snapshot()
    snapshot.close()
    return snapshot.revision, snapshot.default_revision


def test_what_the_files_do_not_have_goes_and_what_clients_made_stays(service: RunningService, tmp_path: Path) -> None:
    mine = service.create(("10.0.0.0", "10.0.0.9"), ("192.0.2.0", "192.0.2.127"))
    before = revisions(service.store)
    # Austin loses its second block, Germany goes, France is new; the custom geolocation is in no file.
    new = HEADER + DEFAULTS.splitlines()[1] + "\n3,FR,,,,,,,,192.0.2.0,192.0.2.127\n"
    loaded = load_files(service.store, [write(tmp_path / "new.csv", new)], replace=True)
    assert loaded == Loaded(
        geolocations_added=1, geolocations_changed=0, blocks_added=1, geolocations_removed=1, blocks_removed=2
    )
    found = {place["locid"]: len(place["ipblocks"]) for place in places(service.store)}
    assert found == {mine: 2, 1: 1, 3: 1}
    assert revisions(service.store) == (before[0] + 1, before[1] + 1)  # so that clients and lookups notice
    again = load_files(service.store, [tmp_path / "new.csv"], replace=True)
    assert again == Loaded(geolocations_added=0, geolocations_changed=0, blocks_added=0)
    assert revisions(service.store) == (before[0] + 1, before[1] + 1)


def test_a_place_without_a_number_keeps_the_one_it_has(db: str, tmp_path: Path) -> None:
    with Store.open(db) as store:
        for codes in (("FR", "DE"), ("AT", "FR", "DE"), ("AT", "FR")):
            rows = "".join(f"10.{at}.0.0,10.{at}.0.9,{code}\n" for at, code in enumerate(codes))
            load_files(store, [write(tmp_path / "c.csv", "startip,endip,country\n" + rows)], replace=True)
        assert {place["country"]: place["locid"] for place in places(store)} == {"FR": 2, "AT": 3}
        # The same range was another's before: it belongs to one of them now.
        assert sorted(block["startip"] for place in places(store) for block in place["ipblocks"]) == [
            "10.0.0.0",
            "10.1.0.0",
        ]


def test_a_load_that_fails_changes_nothing(service: RunningService, tmp_path: Path) -> None:
    before = places(service.store), revisions(service.store)
    good = write(tmp_path / "good.csv", HEADER + "3,FR,,,,,,,,10.0.0.0,10.0.0.9\n")
    bad = write(tmp_path / "bad.csv", HEADER + "4,IT,,,,,,,,10.1.0.9,10.1.0.0\n")
    with pytest.raises(DataFileError, match=r"bad\.csv, line 2"):
        load_files(service.store, [good, bad], replace=True)
    for text in (HEADER, HEADER + "-9,FR,,x,,1,2,,,10.0.0.0,10.0.0.9\n"):  # no rows, and only a custom one
        with pytest.raises(DataFileError, match=r"would remove all 2 that are there: nothing was loaded"):
            load_files(service.store, [write(tmp_path / "empty.csv", text)], replace=True)
    assert (places(service.store), revisions(service.store)) == before


_block = st.integers(0, 5).map(lambda at: (f"10.0.{at}.0", f"10.0.{at}.255"))
_COUNTRIES = ("AT", "CH", "DE", "FR")
_rows = st.lists(st.tuples(st.integers(1, 4), st.one_of(st.none(), _block)), max_size=8)


def _csv(folder: Path, name: str, rows: list[tuple[int, tuple[str, str] | None]]) -> Path:
    lines = [f"{locid},{_COUNTRIES[locid - 1]},,,,,,,,{','.join(block or ('', ''))}\n" for locid, block in rows]
    return write(folder / name, HEADER + "".join(lines))


@examples(15)
@given(before=_rows, files=st.lists(_rows, min_size=1, max_size=3), customs=st.lists(_block, unique=True, max_size=2))
def test_afterwards_the_default_layer_is_as_if_only_these_files_had_been_loaded(
    before: list[Any], files: list[list[Any]], customs: list[tuple[str, str]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = [_csv(folder, f"{at}.csv", rows) for at, rows in enumerate(files)]
        mine = HEADER + "".join(f"-{at},US,,x,,1,2,,,{','.join(block)}\n" for at, block in enumerate(customs, 1))
        with Store.open(folder / "a.db") as old, Store.open(folder / "b.db") as fresh:
            load_files(old, [_csv(folder, "before.csv", before), write(folder / "mine.csv", mine)])
            load_files(fresh, paths)
            own = [place for place in places(old) if place["locid"] < 0]
            if before and not any(files):
                with pytest.raises(DataFileError):
                    load_files(old, paths, replace=True)
            else:
                load_files(old, paths, replace=True)
                assert places(old) == own + places(fresh)
