"""What changes for whom is asked at every publish: of another file, another stack, a service in front."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import maxminddb
import pytest
from mmdb_writer import MMDBWriter
from netaddr import IPSet

import geolookup
from geolookup.state.base.current import read_current
from tests.faults.raw_server import RawServer, answer
from tests.support.data.source_files import mmdb
from tests.support.services.running_service import RunningService
from tests.support.users.in_process import accept_digest, asked, asked_json, said

MMDB = Path(__file__).parents[2] / "data" / "mmdb"
HEADER = "first,last,country,city\n"


@pytest.fixture(autouse=True)
def config(tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    path = tmp_path / "geolookup.toml"
    path.touch()
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(path))
    monkeypatch.setenv("GEOLOOKUP_ATTEMPTS", "1")
    monkeypatch.chdir(tmp_path)
    return path


def towns(count: int, *, octet: int = 11, country: str = "US") -> list[str]:
    return [
        f"{octet}.{number >> 8}.{number & 255}.0,{octet}.{number >> 8}.{number & 255}.255,{country},Town {number}"
        for number in range(count)
    ]


def write(name: str, rows: Sequence[str]) -> None:
    Path(name).write_text(csv(rows).decode())


def csv(rows: Sequence[str]) -> bytes:
    return (HEADER + "".join(f"{row}\n" for row in rows)).encode()


def city(address: str) -> str | None:
    """The city of the answer, empty if it names none; None without an answer."""
    with geolookup.GeoLookup(os.environ["GEOLOOKUP_HOME"]) as geo:
        match = geo.match(address)
    return None if match is None else match.geolocation.city


def test_what_was_accepted_is_what_the_next_sync_compares_with(capsys: pytest.CaptureFixture[str]) -> None:
    write("towns.csv", towns(100))
    said(capsys, "sync", "towns.csv")
    write("towns.csv", towns(100)[:40])
    said(capsys, "sync", "--accept", accept_digest(said(capsys, "sync", code=3)))
    assert city("11.0.50.1") is None
    assert "nothing new" in said(capsys, "sync"), "the same file is not held again"
    assert "nothing new" in said(capsys, "sync", "towns.csv")
    write("towns.csv", towns(100))
    assert "published" in said(capsys, "sync")
    assert [city(f"11.0.{number}.1") for number in range(100)] == [f"Town {number}" for number in range(100)]


def test_the_validators_that_are_sent_are_those_of_the_file_that_was_accepted(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, part = csv(towns(100)), csv(towns(100)[:40])
    day = "Last-Modified: Sat, {} Nov 2025 10:00:00 GMT"
    with RawServer(
        answer(whole, headers=['ETag: "whole"', day.format("01")]),
        answer(part, headers=['ETag: "part"', day.format("08")]),
        answer(b"", status="304 Not Modified", framing="length"),
        answer(whole, headers=['ETag: "again"', day.format("22")]),
    ) as server:
        config.write_text(f'[[source]]\nname = "towns"\nlocation = "{server.url}/towns.csv"\n')
        said(capsys, "sync")
        said(capsys, "sync", "--accept", accept_digest(said(capsys, "sync", code=3)))
        assert "nothing new" in said(capsys, "sync")
        said(capsys, "sync")
        sent = [(each.headers.get("if-none-match"), each.headers.get("if-modified-since")) for each in server.requests]
    assert city("11.0.50.1") == "Town 50"
    dates = [day.format(number).partition(": ")[2] for number in ("01", "08")]
    assert sent == [(None, None), ('"whole"', dates[0]), ('"part"', dates[1]), ('"part"', dates[1])]


def test_a_file_that_was_accepted_has_its_own_licence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_dbip(tmp_path)
    said(capsys, "sync", "city.mmdb")
    assert "DB-IP" in said(capsys, "status")
    shutil.copy(MMDB / "GeoLite2-City-Test.mmdb", "city.mmdb")
    said(capsys, "sync", "--accept", accept_digest(said(capsys, "sync", code=3)))
    told = said(capsys, "status")
    assert "GeoLite2 data created by MaxMind" in told
    assert "DB-IP" not in told
    said(capsys, "export", "mmdb", "out.mmdb", "--licence-allows")
    with maxminddb.open_database("out.mmdb") as written:
        credit = written.metadata().description["en"]
    assert "GeoLite2 data created by MaxMind" in credit
    assert "DB-IP" not in credit


def write_dbip(folder: Path) -> None:
    """A file that says of itself that it is of DB-IP."""
    writer = MMDBWriter(6, "DBIP-City-Lite", description="DB-IP.com - City Lite", ipv4_compatible=True)
    london = {"city": {"names": {"en": "London"}}, "country": {"iso_code": "GB"}}
    writer.insert_network(IPSet(["9.0.0.0/8"]), london)
    writer.to_db_file(str(folder / "city.mmdb"))


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("other", ["city-2026-11.csv", "copy/city-2026-10.csv"])
def test_another_file_with_one_place_is_held_and_the_old_one_is_followed(
    capsys: pytest.CaptureFixture[str], other: str, twice: bool
) -> None:
    Path("copy").mkdir()
    write("city-2026-10.csv", towns(6000))
    write(other, ["11.0.0.0,11.0.255.255,US,Springfield"])
    said(capsys, "sync", "city-2026-10.csv")
    told = said(capsys, "sync", other, code=3)
    assert "1 place would answer instead of 6000: fewer than half" in told
    if twice:
        told = said(capsys, "sync", other, code=3)
    assert city("11.0.9.1") == "Town 9"
    assert "nothing new" in said(capsys, "sync")
    write("city-2026-10.csv", [*towns(6000), "12.0.0.0,12.0.0.255,US,Austin"])
    said(capsys, "sync")
    assert (city("11.0.9.1"), city("12.0.0.9")) == ("Town 9", "Austin")
    if "/" in other:  # what is published of a source takes the place of what was held of it
        said(capsys, "sync", other, code=3)
    said(capsys, "sync", "--accept", accept_digest(told))
    assert (city("11.0.9.1"), city("12.0.0.9")) == ("Springfield", None)
    assert "nothing new" in said(capsys, "sync")


def test_one_family_in_the_place_of_the_other_is_held_and_both_are_served_if_both_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"country": {"iso_code": "US"}, "city": {"names": {"en": "Mountain View"}}}
    Path("v4.mmdb").write_bytes(mmdb({"8.8.8.0/24": record}, tmp_path, version=4))
    Path("v6.mmdb").write_bytes(mmdb({"2001:4860::/32": record}, tmp_path))
    said(capsys, "sync", "v4.mmdb")
    told = said(capsys, "sync", "v6.mmdb", code=3)
    assert "IPv4 would have no answer at all" in told
    assert "To have both: geolookup sync" in told
    assert city("8.8.8.8") == "Mountain View"
    assert "published" in said(capsys, "sync", "v4.mmdb", "v6.mmdb")
    assert [city(address) for address in ("8.8.8.8", "2001:4860::8")] == ["Mountain View"] * 2
    Path("v4.mmdb").write_bytes(mmdb({"8.8.8.0/24": record, "9.9.9.0/24": record}, tmp_path, version=4))
    Path("v6.mmdb").write_bytes(mmdb({"2001:4860::/32": record, "2a00::/32": record}, tmp_path))
    assert "published" in said(capsys, "sync")
    assert [city(address) for address in ("8.8.8.8", "9.9.9.9", "2a00::1")] == ["Mountain View"] * 3


def test_a_service_of_countries_above_cities_is_held(
    config: Path, tmp_path: Path, home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write("city.csv", ["8.8.8.0,8.8.8.255,US,Mountain View", *towns(30)])
    config.write_text('[[source]]\nname = "city"\nlocation = "city.csv"\n')
    said(capsys, "sync")
    (tmp_path / "defaults.csv").write_text(
        "locid,country,region,city,postalcode,latitude,longitude,dmacode,areacode,startip,endip\n"
        "1,US,,,,,,,,0.0.0.0,223.255.255.255\n"
    )
    with RunningService(tmp_path / "service.db", load=[tmp_path / "defaults.csv"]) as service:
        monkeypatch.setenv("GEOLOOKUP_URL", service.url)
        told = said(capsys, "sync", code=3)
        assert "would have one that names none" in told
        assert city("8.8.8.8") == "Mountain View"
        said(capsys, "sync", code=3)
        assert city("8.8.8.8") == "Mountain View"
        said(capsys, "sync", "--accept", accept_digest(told))
        assert city("8.8.8.8") == ""


def test_one_place_for_everything_on_top_of_all_is_held(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("city.csv", towns(200))
    config.write_text('[[source]]\nname = "city"\nlocation = "city.csv"\n')
    said(capsys, "sync")
    write("all.csv", ["0.0.0.0,255.255.255.255,US,Springfield"])
    said(capsys, "source", "add", "all.csv", "--first")
    told = said(capsys, "sync", code=3)
    assert "1 place would answer instead of 200: fewer than half" in told
    assert city("11.0.9.1") == "Town 9"
    said(capsys, "source", "remove", "all")
    said(capsys, "sync")
    assert city("11.0.9.1") == "Town 9"


def test_a_preview_of_a_file_shows_what_changes_and_publishes_nothing(
    home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("city-10.csv", towns(100))
    write("city-11.csv", [*towns(99), "11.0.99.0,11.0.99.255,CA,Toronto"])
    write("city-12.csv", towns(100)[:10])
    said(capsys, "sync", "city-10.csv")
    assert "256" in asked(capsys, "sync", "--preview", "city-11.csv")
    found = asked_json(capsys, "sync", "--preview", "city-11.csv", "--json")
    assert found["answers"]["ipv4"] == 256
    held = asked_json(capsys, "sync", "--preview", "city-12.csv", "--json", code=3)
    assert held["outcome"] == "held"
    assert held["answers"]["ipv4"] == 90 * 256
    assert read_current(home).generation == 1
    said(capsys, "sync")
    assert city("11.0.99.1") == "Town 99"
    assert [each["name"] for each in asked_json(capsys, "status", "--json")["sources"]] == ["city-10"]


def test_nothing_is_compared_with_the_bundled_data_or_at_the_first_publish(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "sync", "--bundled")
    write("office.csv", towns(3))
    said(capsys, "sync", "office.csv")
    assert city("8.8.8.8") is None
    write("office.csv", towns(4))
    said(capsys, "sync")
    registry = '[[source]]\nname = "registry"\nkind = "registry"\n'
    office = '[[source]]\nname = "office"\nlocation = "office.csv"\n'
    config.write_text(office + registry)
    said(capsys, "sync")
    assert city("8.8.8.8") == ""
    config.write_text(office)
    said(capsys, "sync")
    assert city("8.8.8.8") is None


def test_to_have_back_what_was_served_before_is_never_held(capsys: pytest.CaptureFixture[str]) -> None:
    write("towns.csv", towns(2000))
    said(capsys, "sync", "towns.csv")
    write("towns.csv", towns(2000)[:15])
    said(capsys, "sync", "--accept", accept_digest(said(capsys, "sync", code=3)))
    write("towns.csv", towns(2000))
    assert "published" in said(capsys, "sync")


def test_of_two_sources_the_one_that_loses_is_held_and_the_other_is_published(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text("".join(f'[[source]]\nname = "{name}"\nlocation = "{name}.csv"\n' for name in ("one", "two")))
    write("one.csv", towns(100))
    write("two.csv", towns(100, octet=12))
    said(capsys, "sync")
    write("one.csv", [row.replace("Town", "") for row in towns(50)])
    write("two.csv", [*towns(99, octet=12), "12.0.99.0,12.0.99.255,US,Austin"])
    told = said(capsys, "sync", code=3)
    assert "source one: the pulled list is held" in told
    assert (city("11.0.60.1"), city("12.0.99.1")) == ("Town 60", "Austin")
    found = asked_json(capsys, "status", "--json")["sources"]
    assert {each["name"]: bool(each["problem"]) for each in found} == {"one": True, "two": False}


def test_an_older_file_is_held_under_the_same_name_and_under_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    june, july = 1780617600, 1783209600

    def built(name: str, epoch: int, town: str) -> None:
        record = {"country": {"iso_code": "US"}, "city": {"names": {"en": town}}}
        with monkeypatch.context() as patch:
            patch.setattr("mmdb_writer.time.time", lambda: epoch)
            (tmp_path / name).write_bytes(mmdb({"8.8.8.0/24": record}, tmp_path, version=4))

    built("city.mmdb", july, "Mountain View")
    said(capsys, "sync", "city.mmdb")
    built("city-old.mmdb", june, "Palo Alto")
    told = said(capsys, "sync", "city-old.mmdb", code=3)
    assert "the data are of 2026-06-05, older than those that are served, of 2026-07-05" in told
    assert city("8.8.8.8") == "Mountain View"
    built("city.mmdb", june, "Palo Alto")
    told = said(capsys, "sync", code=3)
    assert "2026-06-05, older than those that are served" in told
    said(capsys, "sync", "--accept", accept_digest(told))
    assert city("8.8.8.8") == "Palo Alto"
    assert "nothing new" in said(capsys, "sync")


def test_an_older_file_is_held_by_another_name_in_the_settings(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for month, town in (("06", "Palo Alto"), ("07", "Mountain View"), ("08", "Sunnyvale")):
        Path(f"feed-{month}.csv").write_text(f"# updated: 2026-{month}-05\n8.8.8.0/24,US,US-CA,{town},\n")
    for month, code in (("07", 0), ("06", 3), ("06", 3), ("08", 0), ("06", 3)):
        config.write_text(f'[[source]]\nname = "feed-{month}"\nlocation = "feed-{month}.csv"\n')
        told = said(capsys, "sync", code=code)
        assert ("the data are of 2026-06-05, older than those that are served" in told) == (code == 3)
        assert city("8.8.8.8") != "Palo Alto"
    said(capsys, "sync", "--accept", accept_digest(told))
    assert city("8.8.8.8") == "Palo Alto"
    assert "nothing new" in said(capsys, "sync")
    said(capsys, "source", "add", "feed-08.csv", "--last")
    assert "published" in said(capsys, "sync"), "an addition takes no other's place"
