"""What is particular to single kinds."""

import datetime
import json
from pathlib import Path

import pytest

from geolookup.model.errors import DataFileError, PullError, SettingsError
from geolookup.sources.bundled import bundled_ranges_path
from geolookup.sources.country_ranges import read_country_ranges
from geolookup.sources.detect import open_source
from geolookup.sources.places import PlaceFields
from tests.support.data.source_files import examples, read_all

_CITY = PlaceFields("AU", "Queensland", "Brisbane")
_PLACE = _CITY._replace(latitude=-27.5, longitude=153.0)
_POSTAL = _PLACE._replace(postalcode="4000")


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "input"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_an_unknown_file_is_told_what_was_seen_and_which_kinds_there_are(tmp_path: Path) -> None:
    with pytest.raises(DataFileError) as caught:
        read_all(write(tmp_path, "Dear\x1b Madam,\nhow are you?\n"))
    message = str(caught.value)
    assert 'its first line is "Dear\\x1b Madam,"' in message
    for name in ("mmdb", "geolite2-csv", "legacy-csv", "ip2location-csv", "dbip-csv", "geofeed", "rir", "ranges-csv"):
        assert f"\n  {name}: " in message
    with pytest.raises(SettingsError, match="'csv' is an unknown kind: there are mmdb, list"):
        open_source(tmp_path / "input", kind="csv")
    with pytest.raises(SettingsError, match="`fields` is for other kinds: this is geofeed"):
        open_source(write(tmp_path, "192.0.2.0/24,US,,,\n"), fields={"country": "x"})


def test_an_empty_file_is_said_to_be_empty_and_nothing_else(tmp_path: Path) -> None:
    with pytest.raises(DataFileError) as caught:
        read_all(write(tmp_path, ""))
    assert str(caught.value).endswith("input: the file is empty")


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_ranges_may_be_separated_as_a_spreadsheet_does_it(tmp_path: Path, separator: str) -> None:
    rows = [
        ["Network", "Country", "City"],
        ["10.0.0.0/24", "DE", '"Frankfurt, Main; Hessen"'],
        ["10.0.1.0/24", "DE"],
    ]
    text = "\ufeff" + "".join(separator.join(row) + "\r\n" for row in rows)
    blocks, gathered = read_all(write(tmp_path, text))
    assert gathered.bad_rows[0].reason == "has 2 values, and 3 are needed"
    assert blocks == [("10.0.0.0", "10.0.0.255", PlaceFields("DE", "", "Frankfurt, Main; Hessen"))]


@pytest.mark.parametrize("above", ["", "sep=;\r\n", '"SEP=;"\n', "\ufeffsep=;\r\n"])
def test_what_a_spreadsheet_writes_around_a_table_is_passed_over(tmp_path: Path, above: str) -> None:
    rows = ["Network;Country;;City;", "10.0.0.0/24;DE;;Ulm;", ";;;;", "10.0.1.0/24;AT;x;;", *[";;;;"] * 30]
    rows.append("10.0.9.9/24;DE;;;")
    blocks, gathered = read_all(write(tmp_path, above + "\r\n".join(rows) + "\r\n"))
    assert [place for _, _, place in blocks] == [PlaceFields("DE", "", "Ulm"), PlaceFields("AT")]
    assert (gathered.rows, gathered.bad_rows[0].line) == (3, 35 + bool(above))
    feed = "10.0.0.0/24,DE,DE-BE,Berlin,\n,,,,\n" + ",,,,\n" * 30
    assert read_all(write(tmp_path, feed))[1].bad == 0


def test_a_column_that_is_named_twice_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="line 1: a column is named twice: 'country'"):
        read_all(write(tmp_path, "network,country,Country \n10.0.0.0/24,DE,AT\n"))


def test_a_table_without_a_field_of_ours_is_refused_and_columns_that_are_not_read_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, "network,country_name,lat\n10.0.0.0/24,Germany,52\n")
    with pytest.raises(DataFileError, match=r"line 1: no column is one of the fields country, .*country_name\. "):
        read_all(path)
    found = "network,country,comment,zip,,country_code\n10.0.0.0/24,Germany,x,y,z,DE\n"
    assert read_all(write(tmp_path, found))[1].columns_not_read == ["comment"]
    assert read_all(write(tmp_path, "network\n10.0.0.0/24\n"))[0] == [("10.0.0.0", "10.0.0.255", PlaceFields())]


def test_columns_may_have_the_names_that_providers_give_our_fields(tmp_path: Path) -> None:
    rows = "network,country_code,country,region_code,region_name,zip,lat,lng,timezone,dma\n"
    rows += "10.0.0.0/24,GB,United Kingdom,ENG,England,OX1,51.75,-1.25,Europe/London,7\n"
    blocks, gathered = read_all(write(tmp_path, rows))
    assert blocks[0][2] == PlaceFields("GB", "ENG", "", "OX1", 51.75, -1.25, "7")
    assert gathered.columns_not_read == []
    assert gathered.fields == {
        "country": "country_code",
        "region": "region_code",
        "postalcode": "zip",
        "latitude": "lat",
        "longitude": "lng",
        "dmacode": "dma",
    }
    assert {each.key: each.kept_as for each in gathered.keys} == {
        "country": "country.names.en",
        "region_name": "subdivisions.0.names.en",
        "timezone": "location.time_zone",
    }
    # Our own name goes before another's.
    both = "network,postalcode,zip\n10.0.0.0/24,1,2\n"
    assert read_all(write(tmp_path, both))[0][0][2].postalcode == "1"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("ranges-csv", "network,country\n8.0.0.0/24,de\n"),
        ("dbip-csv", "8.0.0.0,8.0.0.255,de\n"),
        ("ip2location-csv", '"134217728","134217983","de","x"\n'),
        ("geofeed", "8.0.0.0/24,de,,,\n"),
        ("rir", "2|arin|1|2|1|1|0\narin|de|ipv4|8.0.0.0|256|1|allocated\n"),
    ],
)
def test_a_country_in_small_letters_is_read_in_capitals(tmp_path: Path, kind: str, text: str) -> None:
    blocks, _ = read_all(write(tmp_path, text), kind=kind)
    assert blocks == [("8.0.0.0", "8.0.0.255", PlaceFields("DE"))]


def test_a_decimal_comma_is_read_and_said_and_what_means_nothing_is_a_bad_row(tmp_path: Path) -> None:
    text = "network;country;latitude\n10.0.0.0/24;DE;52,5\n10.0.1.0/24;DE;1,2,3\n10.0.2.0/24;DE;52.5\n"
    blocks, gathered = read_all(write(tmp_path, text))
    assert [place.latitude for _, _, place in blocks if place] == [52.5, 52.5]
    assert [row.reason for row in gathered.bad_rows] == ["latitude is not a number: '1,2,3'"]
    (told,) = gathered.warnings
    assert told.endswith(": 1 coordinate with a decimal comma (line 2: '52,5' is 52.5)")


def test_utf16_is_read_and_text_with_other_line_ends_is_told_as_that(tmp_path: Path) -> None:
    text = "network,country\n10.0.0.0/24,DE\n"
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        assert len(read_all(write(tmp_path, text.encode(encoding)))[0]) == 1
    with pytest.raises(DataFileError, match=r"its lines end in carriage returns alone .*first is \"network,country\":"):
        read_all(write(tmp_path, text.replace("\n", "\r")))


def test_all_sheets_of_a_workbook_that_name_ranges_are_read(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["read", "me"])
    for name, network in (("North", "10.0.0.0/24"), ("South", "10.0.1.0/24")):
        sheet = book.create_sheet(name)
        sheet.append(["network", "country", "latitude"])
        sheet.append([network, "DE", 52.5])
        sheet.append([datetime.date(2012, 5, 3), "DE", 52.5])
    path = tmp_path / "office.xlsx"
    book.save(path)
    batches, gathered = read_all(path)
    assert len(batches) == 2
    assert [(row.file, row.line) for row in gathered.bad_in_order()] == [("North", 3), ("South", 3)]


def test_the_registry_is_the_bundled_data() -> None:
    blocks, gathered = read_all("anything", kind="registry")
    rows = list(read_country_ranges(bundled_ranges_path()))
    assert [(first, last, place.country if place else "") for first, last, place in blocks if ":" not in first] == [
        (row.startip, row.endip, row.country) for row in rows if row.family == 4
    ]
    assert gathered.blocks == len(rows)
    assert gathered.about["attribution"].startswith("registry delegation data")


def test_a_prefix_that_a_geofeed_has_twice_is_left_out_both_times(tmp_path: Path) -> None:
    text = "192.0.2.0/24,US,,,\n192.0.2.0/25,DE,,,\n192.0.2.0/24,FR,,,\n192.0.2.0/24,FR,,,\n"
    blocks, gathered = read_all(write(tmp_path, text))
    assert blocks == [("192.0.2.0", "192.0.2.127", PlaceFields("DE"))]
    assert sorted((row.line, row.reason) for row in gathered.bad_rows) == [
        (1, "its prefix, from 192.0.2.0 on, is in the file more than once"),
        (3, "192.0.2.0/24 is here for a second time: first in line 1"),
        (4, "192.0.2.0/24 is here for a second time: first in line 1"),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("192.0.2.1/24,US,,,", "host bits"),
        ("192.0.2.0/33,US,,,", "bits"),
        ("192.0.2/24,US,,,", "not an IP address"),
        ("192.0.2.0/24,USA,,,", "its country 'USA' is not a code of two letters"),
        ("192.0.2.0/24,US,TX,,", "its region 'TX' is not like US-CA"),
        ("192.0.2.0/24,US,DE-BY,,", "its region DE-BY is not in its country US"),
        ('192.0.2.0/24,US,"US-TX,,', "is not CSV"),
    ],
)
def test_a_bad_field_leaves_out_a_geofeeds_entry(tmp_path: Path, line: str, reason: str) -> None:
    good = "198.51.100.0/24,US,US-CA,Los Angeles,\n203.0.113.0/24,,US-NY,,\n"
    blocks, gathered = read_all(write(tmp_path, good + line + "\n"))
    assert [place for _, _, place in blocks] == [PlaceFields("US", "CA", "Los Angeles"), PlaceFields("US", "NY")]
    (bad,) = gathered.bad_rows
    assert bad.line == 3
    assert reason in bad.reason


def test_a_country_of_a_geofeed_that_iso_3166_1_does_not_list_is_kept_with_a_warning(tmp_path: Path) -> None:
    codes = ("UK", "GB", "EN", "XX", "uk", "ZZ", "XK", "")
    path = write(tmp_path, "".join(f"192.0.{n}.0/24,{code},,Town,\n" for n, code in enumerate(codes)))
    blocks, gathered = read_all(path)
    assert [place.country for _, _, place in blocks if place] == ["UK", "GB", "EN", "XX", "UK", "XK", ""]
    assert [text.removeprefix(str(path)) for text in gathered.warnings] == [
        ", line 1: the country UK is not in ISO 3166-1, which has GB: 2 prefixes",
        ", line 3: the country EN is not in ISO 3166-1: 1 prefix",
        ", line 4: the country XX is not in ISO 3166-1: 1 prefix",
    ]


def test_text_that_is_not_utf8_is_read_as_cp1252_where_people_keep_tables_and_a_bad_row_elsewhere(
    tmp_path: Path,
) -> None:
    rows = b"10.0.0.1,10.0.0.2,US,Austin\n10.0.0.3,10.0.0.4,DE,K\xf6ln\n10.0.0.5,10.0.0.6,DE,K\xc3\xb6ln\n"
    blocks, gathered = read_all(write(tmp_path, b"first,last,country,city\n" + rows))
    assert [place.city for _, _, place in blocks if place] == ["Austin", "Köln", "Köln"]
    assert gathered.bad_rows == []
    assert [told.partition(": ")[2] for told in gathered.warnings] == [
        "is not UTF-8: 1 line read as cp1252 (Windows): look at the names"
    ]
    blocks, gathered = read_all(
        write(tmp_path, b"# geofeed\n10.0.0.0/24,DE,,K\xf6ln,\n10.0.1.0/24,DE,,Ulm,\n"), kind="geofeed"
    )
    (bad,) = gathered.bad_rows
    assert (bad.line, bad.reason.startswith("is not UTF-8")) == (2, True)


def test_a_quote_that_does_not_end_counts_every_line_that_it_eats(tmp_path: Path) -> None:
    rows = "".join(f"10.0.{number}.0,10.0.{number}.9,Austin\n" for number in range(200))
    with pytest.raises(PullError, match=r"\d\d\d of \d+ rows are bad"):
        read_all(write(tmp_path, f'first,last,city\n10.1.0.0,10.1.0.9,"Aus\n{rows}'))


def test_a_bad_row_is_named_by_its_line_below_blank_lines_and_texts_of_several_lines(tmp_path: Path) -> None:
    rows = 'first,last,city\n\n10.0.0.1,10.0.0.2,"Aus\ntin"\n10.0.0.9,10.0.0.3,\n\n10.0.0.4,10.0.0.5,x\n'
    rows += "10.0.0.9,10.0.0.6,\n"
    blocks, gathered = read_all(write(tmp_path, rows))
    assert [place.city for _, _, place in blocks if place] == ["Aus\ntin", "x"]
    assert [(row.number, row.line) for row in gathered.bad_rows] == [(2, 5), (4, 8)]
    gathered = read_all(write(tmp_path, rows + '10.0.0.7,10.0.0.8,a"b\n10.0.0.1,10.0.0.2,"a"b\n'))[1]
    assert [(row.number, row.line) for row in gathered.bad_in_order()] == [(2, 5), (4, 8), (6, 10)]
    assert gathered.rows == 6


def test_each_bad_row_has_its_own_reason(tmp_path: Path) -> None:
    rows = ["first,last,latitude,longitude", "10.0.0.1,10.0.0.2,91,1", "10.0.0.1,10.0.0.2,1,x", "10.0.0.1,10.0.0.2,1,1"]
    gathered = read_all(write(tmp_path, "\n".join([*rows, rows[1]])))[1]
    assert [(row.line, row.reason) for row in gathered.bad_in_order()] == [
        (2, "latitude is not between -90 and 90"),
        (3, "longitude is not a number: 'x'"),
        (5, "latitude is not between -90 and 90"),
    ]


@pytest.mark.parametrize(
    ("columns", "place"),
    [
        ('"AU","Australia"', PlaceFields("AU")),
        ('"AU","Australia","Example ISP"', PlaceFields("AU")),
        ('"AU","Australia","Queensland","Brisbane"', _CITY),
        ('"AU","Australia","Queensland","Brisbane","Example ISP"', _CITY),
        ('"AU","Australia","Queensland","Brisbane","-27.5","153"', _PLACE),
        ('"AU","Australia","Queensland","Brisbane","Example ISP","example.com"', _CITY),
        ('"AU","Australia","Queensland","Brisbane","-27.5","153","Example ISP"', _PLACE),
        ('"AU","Australia","Queensland","Brisbane","-27.5","153","4000"', _POSTAL),
        ('"AU","Australia","Queensland","Brisbane","-27.5","153","ISP Ltd","example.com"', _PLACE),
        ('"AU","Australia","Queensland","Brisbane","-27.5","153","4000","+10:00"', _POSTAL),
        ('"AU","Australia","Queensland","Brisbane","-27.5","153","4000","ISP Ltd","example.com"', _POSTAL),
    ],
    ids=["DB1", "DB2", "DB3", "DB4", "DB5", "DB7", "DB6", "DB9", "DB8", "DB11", "DB10"],
)
@pytest.mark.parametrize("header", [False, True], ids=["", "with a header"])
@pytest.mark.parametrize("cidr", [False, True], ids=["ranges", "networks"])
def test_every_layout_of_ip2location_is_told_by_its_values(
    tmp_path: Path, columns: str, place: PlaceFields, header: bool, cidr: bool
) -> None:
    count = columns.count('","') + 1
    names = ["country_code", "country_name", *(f"column {at}" for at in range(2, count))]
    ends = ["cidr"] if cidr else ["ip_from", "ip_to"]
    nothing, first, second = ",".join(['"-"'] * count), '"0","16777215"', '"16777216","16777471"'
    if cidr:
        first, second = '"0.0.0.0/8"', '"1.0.0.0/24"'
    head = ",".join(f'"{name}"' for name in (*ends, *names)) + "\n" if header else ""
    with open_source(write(tmp_path, f"{head}{first},{nothing}\n{second},{columns}\n")) as reading:
        assert reading.kind == "ip2location-csv"
    blocks, gathered = read_all(tmp_path / "input")
    assert blocks == [("1.0.0.0", "1.0.0.255", place)]
    assert (gathered.rows, gathered.rows_without_location, gathered.bad) == (2, 1, 0)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("16777216,16777471,AU\n16777472,16778239,CN\n", ["1.0.0.0", "1.0.1.0"]),
        (
            "16777216,16777471,AU,Queensland,,Brisbane,101,-27.5,153.1,Australia/Brisbane\n16777472,16778239,,,,,,,,\n",
            ["1.0.0.0"],
        ),
        (
            "42540488161975842760550356425300246528,42540488241204005274814694018844196863,AU\n",
            ["2001::"],
        ),
    ],
    ids=["countries", "cities", "IPv6"],
)
def test_numbers_of_ip_location_db_are_addresses(tmp_path: Path, rows: str, expected: list[str]) -> None:
    with open_source(write(tmp_path, rows)) as reading:
        assert reading.kind == "dbip-csv"
    blocks, gathered = read_all(tmp_path / "input")
    assert [first for first, _, _ in blocks] == expected
    assert gathered.bad == 0
    assert blocks[0][2].country == "AU"


def test_a_sheet_of_networks_is_not_taken_for_ip2location(tmp_path: Path) -> None:
    for header in ("network,country,city", "cidr,country_code,site"):
        with open_source(write(tmp_path, f"{header}\n1.0.0.0/24,AU,Brisbane\n1.0.1.0/24,CN,Fuzhou City\n")) as reading:
            assert reading.kind == "ranges-csv"


def test_numbers_with_the_number_of_a_network_are_no_places(tmp_path: Path) -> None:
    path = write(tmp_path, '16777216,16777471,13335,"Cloudflare, Inc."\n')
    blocks, gathered = read_all(path)
    assert blocks == []
    assert gathered.network_blocks == 1


@pytest.mark.parametrize(
    ("rows", "place"),
    [
        ("1.0.0.0,1.0.0.255,OC,AU,Queensland,Brisbane,-27.5,153.0", _PLACE),
        ("1.0.0.0,1.0.0.255,AU,Queensland,,Brisbane,4000,-27.5,153.0,", _POSTAL),
    ],
    ids=["DB-IP", "ip-location-db"],
)
def test_dbips_cities_are_read_in_both_layouts(tmp_path: Path, rows: str, place: PlaceFields) -> None:
    blocks, _ = read_all(write(tmp_path, rows + "\n"))
    assert blocks == [("1.0.0.0", "1.0.0.255", place)]


def test_a_delegation_file_that_lacks_many_records_was_cut_short(tmp_path: Path) -> None:
    record = "ripencc|FR|ipv4|2.0.0.0|256|20100712|allocated\n"
    with pytest.raises(DataFileError, match="has 1 records, and its first line declares 12: it was cut short"):
        read_all(write(tmp_path, f"2|ripencc|20260101|12|19830705|20260101|+0100\n{record}"))
    _, gathered = read_all(write(tmp_path, f"2.3|nro|20260101|11|19830705|20260101|+0100\n{record}"))
    assert len(gathered.warnings) == 1
    with pytest.raises(DataFileError, match="is of version 3"):
        read_all(write(tmp_path, f"3|nro|20260101|1|19830705|20260101|+0100\n{record}"))


def test_json_without_geolocations_is_not_a_list(tmp_path: Path) -> None:
    path = tmp_path / "package.json"
    for text in ('{"name": "x", "version": "1.0.0"}', "[1, 2]", "[]", '{"hotelId": 5}\n{"hotelId": 6}\n'):
        path.write_text(text)
        with pytest.raises(DataFileError, match=r"it is JSON without a geolocation .*: no kind of source begins so"):
            read_all(path)
    path.write_text('{"a": 1}')
    (tmp_path / "notes.txt").write_text("hello\n")
    with pytest.raises(DataFileError, match=r"2 files \(notes.txt: its first .*; package.json: it is JSON without"):
        read_all(tmp_path)
    networks = [f"10.{at // 256}.{at % 256}." for at in range(4000)]
    blocks = [{"startip": f"{network}0", "endip": f"{network}9"} for network in networks]
    path.write_text(json.dumps([{"ipblocks": blocks, "locid": 5, "country": "DE"}]))
    assert len(read_all(path)[0]) == 4000


def test_a_list_in_a_folder_is_found_beside_other_json(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "x"}')
    listed = [{"locid": 7, "country": "DE", "ipblocks": [{"startip": "1.1.1.1", "endip": "1.1.1.2"}]}]
    (tmp_path / "list.json").write_text(json.dumps(listed))
    found, gathered = read_all(tmp_path)
    assert [place and place.country for _, _, place in found] == ["DE"]
    assert gathered.files == ["list.json"]


def test_data_of_another_kind_in_a_folder_are_named_and_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("network,country\n10.0.0.0/8,DE\n")
    (tmp_path / "README.md").write_text("# Read me\n")
    assert read_all(tmp_path)[1].warnings == []
    (tmp_path / "feed.txt").write_text("11.0.0.0/8,FR,,,\n")
    blocks, gathered = read_all(tmp_path)
    assert [first for first, _, _ in blocks] == ["10.0.0.0"]
    (warning,) = gathered.warnings
    assert warning.endswith("read as ranges-csv, so files of other kinds in it are not read: feed.txt (geofeed)")


def test_the_parts_of_one_kind_are_not_taken_for_other_kinds(tmp_path: Path) -> None:
    for number, example in enumerate(examples(tmp_path)):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert read_all(example.write(folder))[1].warnings == []


def test_a_max_mind_db_that_was_cut_short_is_told_what_it_may_be(tmp_path: Path) -> None:
    whole = (Path(__file__).parents[1] / "data" / "mmdb" / "GeoLite2-City-Test.mmdb").read_bytes()
    with pytest.raises(DataFileError, match="a MaxMind DB that was cut short has lost the metadata at its end"):
        read_all(write(tmp_path, whole[: len(whole) // 2]))


def test_a_web_page_in_place_of_a_file_is_called_one(tmp_path: Path) -> None:
    path = tmp_path / "feed.csv"
    for text in ("<!DOCTYPE html>\n<html>", "\n <HTML><body>", "<html lang=en>"):
        path.write_text(text)
        with pytest.raises(DataFileError, match="it is a web page"):
            read_all(path)


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("dbip-csv", "8.0.0.0,8.0.0.9,US\n9.0.0.0,9.0.0.9,{}\n"),
        ("ip2location-csv", '"134217728","134217737","US","x"\n"150994944","150994953","{}","x"\n'),
        ("geofeed", "8.0.0.0/24,US,,,\n9.0.0.0/24,{},,,\n"),
        ("rir", "2|arin|1|2|1|1|0\narin|US|ipv4|8.0.0.0|256|1|allocated\narin|{}|ipv4|9.0.0.0|256|1|allocated\n"),
    ],
)
def test_a_country_in_words_is_a_bad_row_that_says_which_code_to_write(tmp_path: Path, kind: str, row: str) -> None:
    path = tmp_path / "x"
    for name, advice in (
        ("Germany", ": write DE"),
        ("the united arab emirates", ": write AE"),
        ("Curacao", ": write CW"),
        ("Atlantis", ""),
        ("DEU", ""),
    ):
        path.write_text(row.format(name))
        blocks, gathered = read_all(path, kind=kind)
        assert len(blocks) == 1
        (bad,) = gathered.bad_rows
        assert bad.number == 2
        assert bad.reason.casefold() == f"its country {name!r} is not a code of two letters{advice}".casefold()


def test_a_country_in_words_among_the_places_spoils_the_blocks_that_lead_there(tmp_path: Path) -> None:
    geolite2 = tmp_path / "geolite2"
    legacy = tmp_path / "legacy"
    for folder in (geolite2, legacy):
        folder.mkdir()
    (geolite2 / "Blocks.csv").write_text(
        "network,geoname_id,registered_country_geoname_id\n8.0.0.0/24,1,1\n9.0.0.0/24,2,2\n"
    )
    (geolite2 / "Locations.csv").write_text("geoname_id,locale_code,country_iso_code\n1,en,US\n2,en,Germany\n")
    (legacy / "Blocks.csv").write_text("startIpNum,endIpNum,locId\n134217728,134217737,1\n150994944,150994953,2\n")
    (legacy / "Location.csv").write_text(
        "locId,country,region,city,postalCode,latitude,longitude,metroCode,areaCode\n1,US,,,,,,,\n2,Germany,,,,,,,\n"
    )
    for folder, bad in ((geolite2, 1), (legacy, 2)):
        blocks, gathered = read_all(folder)
        assert [first for first, _, _ in blocks] == ["8.0.0.0"]
        assert gathered.bad == bad
        assert "write DE" in str(gathered.bad_rows[0])


def test_places_of_a_list_keep_their_numbers_and_a_number_twice_stops(tmp_path: Path) -> None:
    places = [
        {"locid": 7, "country": "DE"},
        {"locid": 9, "country": "DE"},
        {"locid": -1, "country": "US", "ipblocks": []},
    ]
    _, gathered = read_all(write(tmp_path, json.dumps(places)))
    assert gathered.places.locids is not None
    assert list(gathered.places.locids) == [7, 9]
    assert gathered.custom_left_out == 1
    with pytest.raises(PullError, match="locid 7 comes twice"):
        read_all(write(tmp_path, json.dumps(places + places[:1])))


def test_of_ranges_in_a_spreadsheet_any_fields_and_a_mapping_are_taken(tmp_path: Path) -> None:
    path = write(tmp_path, "Network,Land,dmacode\n10.0.0.0/8,DE,7\n2001:db8::1,US,\n")
    blocks, _ = read_all(path, fields={"country": "Land"})
    assert blocks == [
        ("10.0.0.0", "10.255.255.255", PlaceFields("DE", dmacode="7")),
        ("2001:db8::1", "2001:db8::1", PlaceFields("US")),
    ]
    with pytest.raises(DataFileError, match="these columns are missing: stadt"):
        read_all(path, fields={"city": "Stadt"})
