"""Loading hotels: every bad line named, all files or none, the same again for nothing; and the bundled ones."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from geolookup.model.errors import DataFileError
from geolookup.service.hotels.records import MAX_DEPTH, MAX_LINE_BYTES, LoadedHotels, load_demo_hotels, load_hotels
from geolookup.service.store.schema import hotel_amenities, hotels, rate_plans
from geolookup.service.store.store import Store
from geolookup.sources.bundled import bundled_ranges_path
from geolookup.sources.country_ranges import read_country_ranges
from tests.support.data.hotels import RATE_PLAN, SECTIONS, hotel, ndjson
from tests.support.services.running_service import RunningService

LIST = "/v1/api/hotel/list"


@pytest.fixture
def store(db: str) -> Any:
    with Store.open(db) as store:
        yield store


def content(store: Store) -> list[list[tuple[Any, ...]]]:
    """Every row that a load of hotels may change, and the revision, which it must not."""
    snapshot = store.snapshot()
    try:
        rows = [
            [tuple(row) for row in snapshot.connection.execute(select(table).order_by(*table.primary_key))]
            for table in (hotels, hotel_amenities, rate_plans)
        ]
        return [*rows, [(snapshot.revision,)]]
    finally:
        snapshot.close()


def ids(store: Store) -> list[str]:
    return [json.loads(row[-1])["hotelId"] for row in content(store)[0]]


def test_each_line_is_a_hotel_and_blank_lines_and_a_mark_at_the_beginning_are_none(
    store: Store, tmp_path: Path
) -> None:
    path = ndjson(tmp_path / "a.ndjson", ["\ufeff" + json.dumps(hotel("A1")), "", "  ", hotel("A2")])
    path.write_text(path.read_text() + json.dumps(hotel("A3")))  # without an end of its line
    assert load_hotels(store, [path]) == LoadedHotels(added=3, changed=0)
    assert ids(store) == ["A1", "A2", "A3"]


def test_the_same_again_changes_nothing_at_all(store: Store, tmp_path: Path) -> None:
    path = ndjson(tmp_path / "a.ndjson", [hotel("A1", "Austin", "wifi"), hotel("A2")])
    other = ndjson(
        tmp_path / "b.ndjson", [json.dumps(dict(reversed(hotel("A1", "Austin", "wifi").items())), indent=None)]
    )
    load_hotels(store, [path])
    before = content(store)
    assert load_hotels(store, [path, other]) == LoadedHotels(added=0, changed=0)
    assert content(store) == before


@pytest.mark.parametrize("hotel_id", ["A1", "a1"])
def test_a_hotel_again_replaces_it_with_its_keys_and_keeps_its_rate_plans(
    service: RunningService, client: httpx.Client, tmp_path: Path, hotel_id: str
) -> None:
    load_hotels(service.store, [ndjson(tmp_path / "a.ndjson", [hotel("A1", "Austin", "wifi"), hotel("A2")])])
    client.post("/admin/product/ratePlans", json=RATE_PLAN).raise_for_status()
    again = [hotel(hotel_id, "Dallas", "pool", destinationId="D-9")]
    assert load_hotels(service.store, [ndjson(tmp_path / "b.ndjson", again)]) == LoadedHotels(added=0, changed=1)
    for query, expected in {
        "city=Austin": ["A2"],
        "city=Dallas": [hotel_id],
        "amenity=wifi": [],
        "amenity=pool": [hotel_id],
        "destinationId=D-9": [hotel_id],
    }.items():
        assert [one["hotelId"] for one in client.get(f"{LIST}?{query}").json()] == expected
    assert client.post("/admin/product/ratePlans", json=RATE_PLAN).headers["x-outcome"] == "unchanged"


def test_the_last_of_several_lines_for_one_hotel_stays(store: Store, tmp_path: Path) -> None:
    path = ndjson(tmp_path / "a.ndjson", [hotel("A1", "Austin", "wifi"), hotel("A1", "Dallas", "pool")])
    assert load_hotels(store, [path]) == LoadedHotels(added=1, changed=1)
    assert content(store)[1] == [("pool", "a1")]


def test_loading_hotels_leaves_the_geolocations_and_their_etag_alone(
    service: RunningService, client: httpx.Client, tmp_path: Path
) -> None:
    before = client.get("/geolocations").headers["etag"]
    load_hotels(service.store, [ndjson(tmp_path / "a.ndjson", [hotel("A1")])])
    assert client.get("/geolocations").headers["etag"] == before


def test_every_bad_line_of_every_file_is_named_and_nothing_is_kept(store: Store, tmp_path: Path) -> None:
    before = ndjson(tmp_path / "before.ndjson", [hotel("A0", "Austin", "wifi")])
    load_hotels(store, [before])
    kept = content(store)
    one = ndjson(
        tmp_path / "one.ndjson", [hotel("A0", "Dallas"), hotel("A1"), "{", hotel("A2", amenities="wifi"), "[]"]
    )
    good = ndjson(tmp_path / "good.ndjson", [hotel("A4")])
    two = ndjson(tmp_path / "two.ndjson", ["", hotel("A3", latitude=91, country=1)])
    with pytest.raises(DataFileError) as refused:
        load_hotels(store, [one, good, two])
    lines = str(refused.value).splitlines()
    assert [Path(line.split(":")[0]).name for line in lines[:-1]] == [
        "one.ndjson, line 3",
        "one.ndjson, line 4",
        "one.ndjson, line 5",
        "two.ndjson, line 2",
    ]
    assert lines[0].startswith(str(one))
    assert "amenities must be an array" in lines[1]
    assert "address/country must be text" in lines[3]
    assert "latitude must be degrees" in lines[3]
    assert "no hotel was loaded" in lines[-1]
    assert content(store) == kept
    assert load_hotels(store, [good]).added == 1  # and the store is as usable as before


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in hotel("A1").items() if key != name}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        *((without(name), f"{name} is required") for name in hotel("A1") if name not in SECTIONS),
        (hotel("A1", address={"city": "Austin"}), "address/line1 is required; address/state is required"),
        (hotel("A1", address={}), "address must be an object"),
        (hotel("A1", address="x"), "address must be an object"),
        (hotel("A1", state=None), "address/state must be text"),
        (hotel("A1", city="x" * 256), "address/city must be text of at most 255"),
        (hotel("A1", name="a\0b"), "name must not hold a NUL"),
        (hotel(""), "hotelId must be 1 to 100"),
        (hotel(" A1"), "hotelId must be 1 to 100"),
        (hotel("A" * 101), "hotelId must be 1 to 100"),
        (hotel("A\n1"), "hotelId must be 1 to 100"),
        (hotel("A,1"), "hotelId must not hold a comma"),
        (hotel("A/1"), "hotelId must not hold a comma, slash"),
        (hotel(".."), "hotelId must not hold"),
        (hotel("A1", hotelId=7), "hotelId must be text"),
        (hotel("A1", "Austin", "gym, open"), "amenities must not hold a comma"),
        (hotel("A1", "Austin", ""), "amenities must be 1 to 100"),
        (hotel("A1", amenities=["wifi", 1]), "amenities must be text"),
        (hotel("A1", amenities=["x"] * 1001), "amenities must be an array of at most 1000"),
        (hotel("A1", latitude=True), "latitude must be degrees"),
        (hotel("A1", longitude="x"), "longitude must be degrees"),
        (hotel("A1", longitude=10**400), "longitude must be degrees"),
        (hotel("A1", Attributes={}), "Attributes must be an array"),
        (hotel("A1", DiningOptions=None), "DiningOptions must be an array"),
        (hotel("A1", Features="x"), "Features must be an array"),
        ('{"hotelId":"A1","hotelId":"A2"}', "same member twice"),
        ('{"hotelId":"\\ud800"}', "is not JSON"),
        ('{"hotelId":NaN}', "NaN is not JSON"),
        ("{} {}", "is not JSON"),
        ("7", "must be an object"),
        ("[" * 100_000, "nested"),
        (f'{{"x":{"[" * MAX_DEPTH}{"]" * MAX_DEPTH}}}', f"nested more than {MAX_DEPTH} deep"),
        ('{"x":"' + "x" * MAX_LINE_BYTES + '"}', f"more than {MAX_LINE_BYTES} bytes"),
        ('{"x":' + "9" * 5000 + "}", "is not JSON"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_a_bad_line_says_what_is_wrong(tmp_path: Path, line: Any, reason: str) -> None:
    path = ndjson(tmp_path / "a.ndjson", [hotel("A0"), line, hotel("A2")])
    with Store.open(tmp_path / "x.db") as store:
        with pytest.raises(DataFileError) as refused:
            load_hotels(store, [path])
        shown = str(refused.value).splitlines()
        assert shown[0].startswith(f"{path}, line 2: ")
        assert reason in shown[0]
        assert len(shown) == 2
        assert len(shown[0]) < 1000
        assert ids(store) == []


def test_bytes_that_are_no_utf8_are_a_bad_line(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(json.dumps(hotel("A1")).encode().replace(b"Hotel", b"H\xfftel"))
    with pytest.raises(DataFileError, match=r"a\.ndjson, line 1: .*not JSON"):
        load_hotels(store, [path])


def test_of_very_many_bad_lines_a_hundred_are_named_and_the_others_counted(store: Store, tmp_path: Path) -> None:
    with pytest.raises(DataFileError) as refused:
        load_hotels(store, [ndjson(tmp_path / "a.ndjson", ["{"] * 105)])
    lines = str(refused.value).splitlines()
    assert len(lines) == 102
    assert lines[100] == "and 5 more"


def test_a_missing_file_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"nowhere\.ndjson: cannot be read"):
        load_hotels(store, [ndjson(tmp_path / "a.ndjson", [hotel("A1")]), tmp_path / "nowhere.ndjson"])
    assert ids(store) == []


def test_the_deepest_hotel_that_is_loaded_can_be_read(
    service: RunningService, client: httpx.Client, tmp_path: Path
) -> None:
    deep = json.loads("[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1))
    load_hotels(service.store, [ndjson(tmp_path / "a.ndjson", [hotel("A1", deep=deep)])])
    assert client.get("/v1/api/hotel/A1/details").json()["deep"] == deep


def test_the_bundled_hotels_are_sound_have_every_section_and_name_nobody(store: Store) -> None:
    assert load_demo_hotels(store) == LoadedHotels(added=40, changed=0)
    assert load_demo_hotels(store) == LoadedHotels(added=0, changed=0)
    countries = {row.country for row in read_country_ranges(bundled_ranges_path())}
    found = [json.loads(row[-1]) for row in content(store)[0]]
    for record in found:
        assert set(SECTIONS) < set(record)
        assert record["address"]["country"] in countries
        text = json.dumps(record)
        assert re.search(r"\+1-202-555-01\d\d\"", text)
        assert set(re.findall(r"[\w-]+\.(?:com|org|net)\b", text)) == {"example.com"}
    amenities = [set(record["amenities"]) for record in found]
    assert sum({"wifi", "pool"} <= one for one in amenities) >= 5
    assert len({record["address"]["city"] for record in found}) > 20
    assert len({record["destinationId"] for record in found}) < len({record["address"]["city"] for record in found})
