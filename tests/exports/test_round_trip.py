"""The round trip of every real file: what goes in comes out, leaf by leaf and type by type, for the same networks."""

import ipaddress
from pathlib import Path

import maxminddb
import numpy as np
import pytest

from geolookup.exports.content import LAYERS, LayerChoice
from geolookup.exports.mmdb import tree
from geolookup.exports.mmdb.file import encode
from geolookup.exports.segments import Segments
from geolookup.index import mmdb
from geolookup.index.layout import EMPTY
from tests.exports.round_trip import compared, tried
from tests.oracle.mmdb_walk import Database, plain

DATA = Path(__file__).parents[1] / "data" / "mmdb"
FILES = sorted(path.name for path in DATA.glob("Geo*.mmdb"))
#: Those whose records say where addresses are; all others say who runs them.
PLACES = [name for name in FILES if name.split("-")[1] in ("City", "Country", "Enterprise", "Precision")]
NETWORKS = [name for name in FILES if name not in PLACES]
_SPACES = {4: ipaddress.IPv4Address, 6: ipaddress.IPv6Address}


def test_there_are_files_of_every_kind() -> None:
    assert {name.split("-")[1] for name in PLACES} == {"City", "Country", "Enterprise", "Precision"}
    assert {name.partition("-")[2] for name in NETWORKS} >= {
        *("ASN-Test.mmdb", "ISP-Test.mmdb", "Anonymous-IP-Test.mmdb", "Anonymous-Plus-Test.mmdb"),
        *("Connection-Type-Test.mmdb", "Domain-Test.mmdb", "IP-Risk-Test.mmdb", "User-Count-Test.mmdb"),
    }


@pytest.mark.parametrize("name", FILES)
def test_every_leaf_comes_back_with_its_type_for_its_networks_and_no_other(name: str) -> None:
    trip = tried(DATA / name)
    assert (trip.refused, trip.differ, trip.wrong) == ("", 0, ())
    assert trip.now == trip.leaves > 4 * trip.before
    assert (trip.before > 0) is (name in PLACES)
    assert trip.asked > 25


def test_coordinates_of_32_bits_come_back_as_such(tmp_path: Path) -> None:
    """DB-IP writes them so; here some in the same map, and one of each width in another."""
    section, offsets = b"", []
    for number, (north, east) in enumerate([(1.5, 2.5), (3.25, 4.5), (1.5, 4.5), (-8.5, 2.5)]):
        offsets.append(len(section))
        city = mmdb.map_of([(mmdb.text("names"), mmdb.map_of([(mmdb.text("en"), mmdb.text(f"Town {number}"))]))])
        longitude = mmdb.double(east) if number == 3 else mmdb.single(east)
        location = mmdb.map_of([(mmdb.text("latitude"), mmdb.single(north)), (mmdb.text("longitude"), longitude)])
        section += mmdb.map_of([(mmdb.text("city"), city), (mmdb.text("location"), location)])
    four = Segments(*np.array([[0] * 6, [at << 24 for at in range(6)]], np.uint64), np.arange(6, dtype=np.uint32) - 1)
    four.value[-1] = EMPTY
    six = Segments(*np.zeros((2, 1), np.uint64), np.array([EMPTY], np.uint32))
    made = tree.Tree(tree.with_aliases(four, six)[0])
    about = {"database_type": "Test-City", "description": {"en": "a test"}, "build_epoch": 1_700_000_000}
    path = tmp_path / "flat.mmdb"
    path.write_bytes(b"".join(encode(made, section, np.array(offsets), **about)))  # type: ignore[arg-type]
    trip = tried(path)
    assert (trip.refused, trip.differ, trip.now) == ("", 0, trip.leaves)
    assert trip.leaves == 12


@pytest.mark.parametrize("name", NETWORKS)
def test_a_file_of_the_same_type_keeps_the_keys_that_such_files_have(name: str) -> None:
    trip = tried(DATA / name, database_type=name.removesuffix("-Test.mmdb"))
    assert (trip.refused, trip.differ) == ("", 0)
    assert trip.now == trip.leaves


@pytest.mark.parametrize("layer", LAYERS)
def test_the_facts_of_a_file_of_both_are_in_exports_of_both_layers_only(layer: LayerChoice) -> None:
    """With the layer of one it is compared without them."""
    trip = tried(DATA / "GeoIP2-Enterprise-Test.mmdb", layer=layer)
    assert (trip.differ == 0) is (layer in ("default", "both", "all"))
    assert trip.leaves == (1180 if layer in ("network", "all") else 1038)


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
