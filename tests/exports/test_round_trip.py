"""The round trip of every real file: what goes in comes out, leaf by leaf and type by type, for the same networks."""

import ipaddress
from pathlib import Path

import maxminddb
import pytest

from tests.exports.round_trip import compared, tried
from tests.oracle.mmdb_walk import Database, plain

DATA = Path(__file__).parents[1] / "data" / "mmdb"
#: The files of places: what others say of networks is exported by nothing yet.
FILES = sorted(
    path.name
    for path in DATA.glob("Geo*.mmdb")
    if path.name.split("-")[1] in ("City", "Country", "Enterprise", "Precision")
)
_SPACES = {4: ipaddress.IPv4Address, 6: ipaddress.IPv6Address}


def test_there_are_files_of_every_kind_that_says_places() -> None:
    assert {name.split("-")[1] for name in FILES} >= {"City", "Country", "Enterprise", "Precision"}


@pytest.mark.parametrize("name", FILES)
def test_every_leaf_comes_back_with_its_type_for_its_networks_and_no_other(name: str) -> None:
    trip = tried(DATA / name)
    assert (trip.refused, trip.differ, trip.wrong) == ("", 0, ())
    assert trip.now == trip.leaves > 4 * trip.before > 0
    assert trip.asked > 80


@pytest.mark.parametrize("name", FILES)
def test_the_walk_says_what_the_reader_says(name: str) -> None:
    with maxminddb.open_database(str(DATA / name)) as reader:
        for family, first, last, record in Database((DATA / name).read_bytes()).networks():
            for address in (first, last):
                assert reader.get(_SPACES[family](address)) == plain(record)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"accuracy_radius\xa1", b"accuracy_radius\xc1"),  # a uint32 in place of a uint16
        (b"time_zone", b"tame_zone"),
        (b"Europe/London", b"Europe/Lisbon"),
    ],
)
def test_another_type_key_or_value_is_found(tmp_path: Path, before: bytes, after: bytes) -> None:
    source, changed = DATA / "GeoIP2-City-Test.mmdb", tmp_path / "changed.mmdb"
    content = source.read_bytes()
    assert before in content
    changed.write_bytes(content.replace(before, after))
    trip = compared(source, changed)
    assert trip.differ > 0
    assert trip.now < trip.leaves


def test_a_network_that_has_gone_or_come_is_found() -> None:
    one, other = DATA / "GeoIP2-City-Test.mmdb", DATA / "GeoLite2-City-Test.mmdb"
    assert compared(one, one).differ == 0
    assert compared(one, other).differ > 0
    assert compared(other, one).differ > 0
