"""Loading CSV files: both forms, nothing twice, all or nothing."""

import csv
import gzip
from pathlib import Path
from typing import Any

import pytest

from geolookup.model.errors import DataFileError
from geolookup.model.fields import FIELD_NAMES
from geolookup.service.geolocations.loader import Loaded, load_files
from geolookup.service.store.store import Store
from geolookup.sources.bundled import bundled_ranges_path
from tests.service.geolocations.loading import HEADER, places, write
from tests.support.data.source_files import examples
from tests.support.services.running_service import FIELDS, RunningService

AUSTIN = "1,US,TX,Austin,78701,30.25,-97.75,635,512,"


@pytest.fixture
def store(db: str) -> Any:
    with Store.open(db) as store:
        yield store


def revision(store: Store) -> int:
    snapshot = store.snapshot()
    snapshot.close()
    return snapshot.revision


def blocks(store: Store) -> dict[int, list[str]]:
    return {
        place["locid"]: [f"{one['startip']}-{one['endip']}" for one in place["ipblocks"]] for place in places(store)
    }


def test_the_eight_fields_are_loaded_one_row_a_block(store: Store, tmp_path: Path) -> None:
    text = (
        HEADER
        + AUSTIN
        + "192.0.2.0,192.0.2.9\n"
        + "2,DE,,,,,,,,2001:DB8::,2001:db8::1\n"
        + AUSTIN
        + "10.0.0.0,10.0.0.1\n"
    )
    loaded = load_files(store, [write(tmp_path / "a.csv", text)])
    assert loaded == Loaded(geolocations_added=2, geolocations_changed=0, blocks_added=3)
    assert blocks(store) == {1: ["10.0.0.0-10.0.0.1", "192.0.2.0-192.0.2.9"], 2: ["2001:db8::-2001:db8::1"]}
    austin, germany = places(store)
    assert (austin["city"], austin["longitude"], germany["latitude"]) == ("Austin", -97.75, None)


def test_columns_may_come_in_any_order_and_others_are_ignored(store: Store, tmp_path: Path) -> None:
    text = (
        "endip,startip,note,Locid,country,region,city,postalcode,latitude,longitude,dmacode,areacode\r\n"
        '10.0.0.1,10.0.0.0,"x, ""y""",5,US,TX,"Austin, TX",1,1,2,3,4\r\n'
    )
    load_files(store, [write(tmp_path / "a.csv", "\ufeff" + text)])
    assert places(store)[0]["city"] == "Austin, TX"


def test_every_text_is_kept_as_it_is(store: Store, tmp_path: Path) -> None:
    texts = ["tab\there", "back\\slash \\N \\.", "line\r\nbreak", "\\N", "Żółć 東京 🗺", "quote '", "%s %(x)s"]
    with (tmp_path / "a.csv").open("w", encoding="utf-8", newline="") as file:
        file.write(HEADER)
        csv.writer(file).writerows([number, "US", "", text, *[""] * 7] for number, text in enumerate(texts, 1))
    load_files(store, [tmp_path / "a.csv"])
    assert [place["city"] for place in places(store)] == texts


def test_a_row_without_a_range_is_a_geolocation_without_blocks(store: Store, tmp_path: Path) -> None:
    load_files(store, [write(tmp_path / "a.csv", HEADER + AUSTIN + ",\n")])
    assert blocks(store) == {1: []}


def test_countries_become_locids_in_alphabetical_order(store: Store, tmp_path: Path) -> None:
    text = "startip,endip,country\n10.0.0.0,10.0.0.1,US\n::1,::2,DE\n10.1.0.0,10.1.0.1,FR\n10.2.0.0,10.2.0.1,DE\n"
    load_files(store, [write(tmp_path / "a.csv", text)])
    assert [(place["locid"], place["country"]) for place in places(store)] == [(1, "DE"), (2, "FR"), (3, "US")]
    assert blocks(store)[1] == ["10.2.0.0-10.2.0.1", "::1-::2"]


def test_a_country_keeps_its_locid_when_more_are_loaded(store: Store, tmp_path: Path) -> None:
    load_files(store, [write(tmp_path / "a.csv", "startip,endip,country\n10.0.0.0,10.0.0.1,FR\n")])
    load_files(
        store, [write(tmp_path / "b.csv", "startip,endip,country\n10.1.0.0,10.1.0.1,AT\n10.2.0.0,10.2.0.1,FR\n")]
    )
    assert [(place["locid"], place["country"]) for place in places(store)] == [(1, "FR"), (2, "AT")]
    assert len(blocks(store)[1]) == 2


@pytest.mark.parametrize(
    "text",
    [
        HEADER + AUSTIN + "192.0.2.0,192.0.2.9\n" + AUSTIN + "192.0.2.0,192.0.2.9\n-3,US,,x,,1,2,,,10.0.0.1,10.0.0.2\n",
        "startip,endip,country\n10.0.0.0,10.0.0.1,US\n::1,::2,DE\n10.0.0.0,10.0.0.1,US\n",
    ],
    ids=["fields", "countries"],
)
def test_loading_the_same_twice_changes_nothing(store: Store, tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "a.csv", text)
    load_files(store, [path])
    before = revision(store), places(store)
    assert load_files(store, [path]) == Loaded(geolocations_added=0, geolocations_changed=0, blocks_added=0)
    assert (revision(store), places(store)) == before
    assert before[0] == 1


def test_loading_again_changes_fields_and_adds_blocks_and_removes_nothing(store: Store, tmp_path: Path) -> None:
    load_files(store, [write(tmp_path / "a.csv", HEADER + AUSTIN + "192.0.2.0,192.0.2.9\n")])
    changed = AUSTIN.replace("Austin", "AUSTIN").replace("30.25", "")
    loaded = load_files(store, [write(tmp_path / "b.csv", HEADER + changed + "10.0.0.0,10.0.0.1\n")])
    assert loaded == Loaded(geolocations_added=0, geolocations_changed=1, blocks_added=1)
    (place,) = places(store)
    assert (place["city"], place["latitude"], len(place["ipblocks"])) == ("AUSTIN", None, 2)


def test_a_loaded_custom_locid_is_not_given_out_again(db: str, tmp_path: Path) -> None:
    csv = write(tmp_path / "a.csv", HEADER + "-7,US,,x,,1,2,,,10.0.0.1,10.0.0.2\n-3,US,,y,,1,2,,,,\n")
    with RunningService(db, load=[csv]) as service:
        assert service.create() == -8
        with service.client() as client:
            assert client.put("/geolocations?locid=-7", json=FIELDS).status_code == 200


@pytest.mark.parametrize("name", ["a.csv.gz", "named.csv"])
def test_a_compressed_file_is_known_by_its_content(store: Store, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"startip,endip,country\n10.0.0.0,10.0.0.1,US\n"))
    assert load_files(store, [path]).blocks_added == 1


GOOD = HEADER + AUSTIN + "192.0.2.0,192.0.2.9\n"
CUSTOM = "-1,US,,x,,1,2,,,10.0.0.1,10.0.0.2\n"


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        (GOOD + AUSTIN.replace("Austin", "Dallas") + "10.0.0.0,10.0.0.1\n", "line 3", "other fields"),
        (GOOD + AUSTIN + "10.0.0.0,10.0.0.x\n", "line 3", "10.0.0.x"),
        (GOOD + AUSTIN + "10.0.0.1,10.0.0.0\n", "line 3", "comes after"),
        (GOOD + AUSTIN + "10.0.0.1,\n", "line 3", "empty"),
        (GOOD + AUSTIN + "10.0.0.1\n", "line 3", "10 values"),
        (GOOD + "0" + AUSTIN[1:] + ",\n", "line 3", "locid"),
        (GOOD + "1.0" + AUSTIN[1:] + ",\n", "line 3", "locid"),
        (GOOD + "-1000000000000000" + AUSTIN[1:] + ",\n", "line 3", "locid"),
        (GOOD + "9223372036854775808" + AUSTIN[1:] + ",\n", "line 3", "locid"),
        (GOOD + AUSTIN.replace("1,", "3,", 1).replace("30.25", "90.5") + ",\n", "line 3", "latitude"),
        (GOOD + "-3,US,,x,,,,,,,\n", "line 3", "latitude"),
        (GOOD + "3,Germany,,x,,,,,,,\n", "line 3", "is not a code of two letters: write DE"),
        (GOOD + "3,FR,,x,,2.35,48.85,,,,\n", "line 3", "are latitude and longitude swapped"),
        (GOOD + f"3,{'x' * 256},,,,,,,,,\n", "line 3", "country"),
        (GOOD + '3,"US"x,,,,,,,,,\n', "line 3", "CSV"),
        (GOOD + '3,"US,,,,,,,,,\n', "line 3", "CSV"),
        (GOOD + CUSTOM + CUSTOM.replace("-1", "-2"), "line", "custom geolocation"),
        ("", "is empty", ""),
        ("startip,endip\n", "not one good row", ""),
        ("startip,endip,country,country\n", "line 1", "twice"),
        ("startip,endip,country\n10.0.0.0,10.0.0.1,\n", "line 2", "country"),
        (HEADER.replace("region,", ""), "line 1", "region"),
    ],
)
def test_a_bad_row_is_named_and_nothing_is_kept(store: Store, tmp_path: Path, text: str, where: str, what: str) -> None:
    good = write(tmp_path / "good.csv", "startip,endip,country\n10.0.0.0,10.0.0.1,US\n")
    bad = write(tmp_path / "bad.csv", text)
    with pytest.raises(DataFileError) as refused:
        load_files(store, [good, bad])
    assert str(refused.value).startswith(str(bad))
    assert where in str(refused.value)
    assert what in str(refused.value)
    assert (places(store), revision(store)) == ([], 0)
    assert load_files(store, [good]).blocks_added == 1  # and the store is as usable as before


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,US,TX,Austin,78701,-1,1,635,512,", "1,US,TX,Austin,78701,-2,1,635,512,"),
        ("1,US,TX,Austin,78701,1,-1,635,512,", "1,US,TX,Austin,78701,1,-2,635,512,"),
        ("1,US,TX,Austin,78701,0,,635,512,", "1,US,TX,Austin,78701,,0,635,512,"),
        ("1,US,TX,Austin,78701,1,1,,512,", "1,US,TX,Austin,78701,1,1,512,,"),
        ("1,US,TX,Austin,78701,1,1,63,5512,", "1,US,TX,Austin,78701,1,1,635,512,"),
        ("1,US,TX,Austin,78701,1,2,635,512,", "1,US,TX,Austin,78701,1,2.0000000000000004,635,512,"),
    ],
    ids=["latitude", "longitude", "no latitude", "another column", "a moved character", "the last bit"],
)
def test_rows_of_one_locid_are_compared_by_their_values(store: Store, tmp_path: Path, one: str, other: str) -> None:
    # -1.0 and -2.0 have the same hash in Python.
    text = HEADER + one + "192.0.2.0,192.0.2.9\n" + other + "10.0.0.0,10.0.0.1\n"
    with pytest.raises(DataFileError, match="line 3: locid 1 has other fields"):
        load_files(store, [write(tmp_path / "a.csv", text)])
    assert places(store) == []


def test_two_spellings_of_the_same_values_agree(store: Store, tmp_path: Path) -> None:
    rows = ("1,US,,,,-0,30.250,,,10.0.0.0,10.0.0.1", "01,US,,,,0.0,3.025e1,,,10.0.0.2,10.0.0.3")
    loaded = load_files(store, [write(tmp_path / "a.csv", HEADER + "\n".join(rows) + "\n")])
    assert loaded == Loaded(geolocations_added=1, geolocations_changed=0, blocks_added=2)


def test_a_custom_block_of_another_custom_geolocation_there_is_refused(store: Store, tmp_path: Path) -> None:
    load_files(store, [write(tmp_path / "a.csv", HEADER + CUSTOM)])
    with pytest.raises(DataFileError, match=r"b\.csv, line 2: .*-1"):
        load_files(store, [write(tmp_path / "b.csv", HEADER + CUSTOM.replace("-1", "-2", 1))])


@pytest.mark.parametrize(
    "content",
    [gzip.compress(GOOD.encode())[:-9], gzip.compress(GOOD.encode())[:-8] + bytes(8), b"\x1f\x8bnot gzip", b"\xff\xfe"],
    ids=["cut", "wrong checksum", "no gzip", "no UTF-8"],
)
def test_a_damaged_file_is_refused(store: Store, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=r"a\.csv"):
        load_files(store, [path])
    assert places(store) == []


def test_a_missing_file_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"nowhere\.csv: reading failed"):
        load_files(store, [tmp_path / "nowhere.csv"])


def test_the_bundled_data_are_237_countries_with_207564_blocks(tmp_path: Path, whole_data: None) -> None:
    """In a file: what PostgreSQL makes of a hundred thousand rows is shown by the long lists of `test_stream.py`."""
    with Store.open(tmp_path / "service.db") as store:
        assert load_files(store, [bundled_ranges_path()]) == Loaded(
            geolocations_added=237, geolocations_changed=0, blocks_added=207564
        )
        codes = [place["country"] for place in places(store)]
        assert codes == sorted(codes)


def test_a_source_of_every_kind_is_loaded(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    for at, example in enumerate(examples(tmp_path_factory.mktemp("examples"))):
        folder = tmp_path / str(at)
        folder.mkdir()
        with Store.open(str(folder / "service.db")) as own:
            path = example.write(folder)
            of_places = [block for block in example.blocks if not isinstance(block[2], dict)]
            if not of_places:
                with pytest.raises(DataFileError, match="says who runs addresses, and not where they are"):
                    load_files(own, [path])
                continue
            loaded = load_files(own, [path])
            found = [
                (block["startip"], block["endip"], *(place[name] for name in FIELD_NAMES))
                for place in places(own)
                for block in place["ipblocks"]
            ]
            expected = [(first, last, *fields) for first, last, fields in of_places if fields is not None]
            assert sorted(found, key=str) == sorted(expected, key=str), example.kind
            assert loaded.blocks_added == len(expected)
            before = revision(own), places(own)
            assert load_files(own, [path]) == Loaded(geolocations_added=0, geolocations_changed=0, blocks_added=0)
            assert (revision(own), places(own)) == before


def test_places_of_a_source_get_free_locids_or_those_of_equal_ones(store: Store, tmp_path: Path) -> None:
    load_files(store, [write(tmp_path / "a.csv", HEADER + AUSTIN.replace("1,", "7,", 1) + "192.0.2.0,192.0.2.9\n")])
    text = "network,country,region,city,postalcode,latitude,longitude,dmacode,areacode\n"
    text += "10.0.0.0/8,DE,,Bonn,,,,,\n" + "11.0.0.0/8," + AUSTIN[2:-1] + "\n2001:db8::/32,DE,,Bonn,,,,,\n"
    loaded = load_files(store, [write(tmp_path / "b.csv", text)])
    assert loaded == Loaded(geolocations_added=1, geolocations_changed=0, blocks_added=3)
    assert blocks(store) == {
        7: ["11.0.0.0-11.255.255.255", "192.0.2.0-192.0.2.9"],
        8: ["10.0.0.0-10.255.255.255", "2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"],
    }


def test_a_block_of_two_places_is_refused_and_masks_are_not_loaded(store: Store, tmp_path: Path) -> None:
    rows = ["first,last,city", "10.0.0.0,10.0.0.9,a", "::1,::9,a", "10.0.0.0,10.0.0.9,b", "10.0.0.0,10.0.0.8,d"]
    with pytest.raises(DataFileError, match=r"line 2: 10\.0\.0\.0-10\.0\.0\.9 is in line 4 too, with another place"):
        load_files(store, [write(tmp_path / "a.csv", "\n".join([*rows, ""]))])
    assert places(store) == []
    del rows[3]
    load_files(store, [write(tmp_path / "a.csv", "\n".join([*rows, rows[1], ""]))])
    assert {place["city"]: len(place["ipblocks"]) for place in places(store)} == {"a": 2, "d": 1}
    load_files(store, [write(tmp_path / "b.csv", "192.0.2.0/24,US,,,\n192.0.2.0/25,,,,\n")])
    assert sum(len(place["ipblocks"]) for place in places(store)) == 4


@pytest.mark.parametrize(
    ("head", "row"),
    [
        (HEADER + AUSTIN + "192.0.2.0,192.0.2.9\n", "5,DE,,,,,,,,10.0.0.{0},10.0.0.x\n"),
        (HEADER + AUSTIN + "192.0.2.0,192.0.2.9\n", "5,DE,{0}\n"),
        ("startip,endip,country\n10.0.0.0,10.0.0.9,US\n", "10.0.0.{0},10.0.0.x,DE\n"),
        ("first,last,city\n10.0.0.0,10.0.0.9,US\n", "10.0.0.{0},10.0.0.x,DE\n"),
        ("".join(f"10.0.{number}.0/24,US,,,\n" for number in range(40)), "10.0.0.{0}/2x,DE,,,\n"),
    ],
    ids=["fields", "too few values", "countries", "ranges", "geofeed"],
)
def test_bad_rows_are_named_up_to_twenty_and_nothing_is_kept(store: Store, tmp_path: Path, head: str, row: str) -> None:
    first = head.count("\n") + 1
    for count in (3, 20, 29):
        path = write(tmp_path / "a.csv", head + "".join(row.format(number) for number in range(count)))
        with pytest.raises(DataFileError) as refused:
            load_files(store, [path])
        lines = str(refused.value).splitlines()
        assert [line.partition(": ")[0] for line in lines[: min(count, 20)]] == [
            f"{path}, line {number}" for number in range(first, first + min(count, 20))
        ]
        assert lines[min(count, 20) :] == [
            *(["and 9 more bad rows"] if count == 29 else []),
            "nothing was loaded: correct what is named, and load again",
        ]
        assert (places(store), revision(store)) == ([], 0)
