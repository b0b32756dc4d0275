"""Routing domains (VRFs): their own blocks answer first in them, and nowhere else; they are this state's own."""

import ipaddress
import json
import os
import random
from pathlib import Path

import pytest

import geolookup
from geolookup.model.errors import (
    BlockError,
    EditError,
    SettingsError,
    StateDamagedError,
    StateError,
    UnknownGeolocationError,
    UnknownVrfError,
)
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.base.current import read_current
from geolookup.state.base.vrfs import folder, layer_path, list_path, read_vrfs
from geolookup.state.publishing import archive
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.publish import Publish
from geolookup.state.publishing.restore import restore
from geolookup.state.publishing.verify import verify
from geolookup.sync.pull.pull import pull
from tests.oracle.vrfs import SIZE, Painted, painted

ROWS = "first,last,country,city\n10.0.0.0,10.255.255.255,DE,Bonn\n8.8.8.0,8.8.8.255,US,Mountain View\n"


def state(home: Path, rows: str = ROWS) -> geolookup.GeoLookup:
    """A state of one source."""
    table = home.parent / "source.csv"
    table.write_text(rows)
    source = SourceSettings(name="source", location=str(table))
    assert pull(StateDirectory(str(home)), Settings(sources=(source,))).outcome == "published"
    return geolookup.GeoLookup(home)


@pytest.fixture
def geo(tmp_path: Path) -> geolookup.GeoLookup:
    """A source, a custom block in it, and two VRFs in which the same block is in different places."""
    found = state(tmp_path / "state")
    editor = found.edit()
    editor.create(country="FR", city="Paris", blocks=["10.1.0.0/16"])
    editor.put_vrf_place("CUST-A", "office", country="NL", city="Utrecht", blocks=["10.1.2.0/24"])
    editor.put_vrf_place("CUST-B", "office", country="GB", city="London", blocks=["10.1.2.0/25", "10.9.0.0/16"])
    return found


def city(geo: geolookup.GeoLookup, address: str, vrf: str | None = None) -> str | None:
    """The city of an address, which all ways to ask agree on."""
    found = geo.lookup(address, vrf=vrf)
    match = geo.match(address, vrf=vrf)
    inside = geo if vrf is None else geo.in_vrf(vrf)
    assert inside.lookup(address) == found
    assert inside.lookup_many([address]) == [found]
    assert (None if match is None else match.geolocation) == found
    return None if found is None else found.city


@pytest.mark.parametrize(
    ("address", "none", "a", "b"),
    [
        ("10.1.2.3", "Paris", "Utrecht", "London"),
        ("10.1.2.200", "Paris", "Utrecht", "Paris"),
        ("10.1.3.1", "Paris", "Paris", "Paris"),
        ("10.9.0.1", "Bonn", "Bonn", "London"),
        ("8.8.8.8", "Mountain View", "Mountain View", "Mountain View"),
        ("1.1.1.1", None, None, None),
    ],
)
def test_own_blocks_answer_first_then_the_custom_layer_then_the_sources(
    geo: geolookup.GeoLookup, address: str, none: str | None, a: str | None, b: str | None
) -> None:
    assert [city(geo, address, vrf) for vrf in (None, "CUST-A", "CUST-B")] == [none, a, b]


def test_a_wide_block_of_a_vrf_beats_a_narrow_one_of_the_custom_layer(geo: geolookup.GeoLookup) -> None:
    geo.edit().put_vrf_place("CUST-A", "all", country="SE", blocks=["10.0.0.0/8"])
    geo.edit().create(country="ES", blocks=["10.7.7.7/32"])
    found = geo.match("10.7.7.7", vrf="CUST-A")
    assert found is not None
    assert (found.country, found.layer) == ("SE", "custom")
    assert geo.match("10.7.7.7").country == "ES"  # type: ignore[union-attr]


def test_ranges_end_where_an_upper_layer_begins(geo: geolookup.GeoLookup) -> None:
    def ends(address: str, vrf: str) -> tuple[str, str]:
        found = geo.match(address, vrf=vrf)
        assert found is not None
        return found.first, found.last

    assert ends("10.1.2.200", "CUST-B") == ("10.1.2.128", "10.1.255.255")
    assert ends("10.1.1.1", "CUST-B") == ("10.1.0.0", "10.1.1.255")
    assert ends("10.3.0.1", "CUST-B") == ("10.2.0.0", "10.8.255.255")
    assert ends("10.3.0.1", "CUST-A") == ("10.2.0.0", "10.255.255.255")


def test_an_edit_is_seen_at_once_in_its_vrf_alone(geo: geolookup.GeoLookup) -> None:
    editor = geo.edit()
    assert city(geo, "10.1.2.3", "CUST-A") == "Utrecht"
    locid = editor.put_vrf_place("CUST-A", "office", country="NL", city="Rotterdam", blocks=["10.1.2.0/24"])
    assert city(geo, "10.1.2.3", "CUST-A") == "Rotterdam"
    assert city(geo, "10.1.2.3", "CUST-B") == "London"
    assert geo.lookup("10.1.2.3", vrf="CUST-A").locid == locid  # type: ignore[union-attr]
    editor.remove_vrf_place("CUST-A", "office")
    assert city(geo, "10.1.2.3", "CUST-A") == "Paris"  # the VRF stays known
    with pytest.raises(UnknownGeolocationError, match="the VRF CUST-A has no place named 'office'"):
        editor.remove_vrf_place("CUST-A", "office")


def test_an_edit_of_the_custom_layer_is_seen_in_every_vrf(geo: geolookup.GeoLookup) -> None:
    assert city(geo, "10.1.3.1", "CUST-A") == "Paris"
    geo.edit().create(country="IT", city="Rome", blocks=["10.1.3.0/24"])
    assert [city(geo, "10.1.3.1", vrf) for vrf in (None, "CUST-A", "CUST-B")] == ["Rome"] * 3


def test_a_vrf_that_is_not_there_is_an_error_that_names_those_that_are(geo: geolookup.GeoLookup) -> None:
    with pytest.raises(UnknownVrfError, match="no VRF is named 'CUST-C': there are CUST-A, CUST-B"):
        geo.match("10.1.2.3", vrf="CUST-C")
    with pytest.raises(SettingsError, match="the VRF CUST-A has no past"):
        geolookup.GeoLookup(geo.home, as_of="served").match("10.1.2.3", vrf="CUST-A")


def test_places_of_vrfs_never_reach_the_outbox(geo: geolookup.GeoLookup) -> None:
    editor = geo.edit()
    assert [row.describe() for row in editor.outbox()] != []
    assert all("Utrecht" not in row.describe() and "London" not in row.describe() for row in editor.outbox())
    assert {laid.place.city for laid in editor.custom()} == {"Paris"}
    assert editor.vrfs() == ["CUST-A", "CUST-B"]
    assert {name: place.city for name, place in editor.vrf_places("CUST-B").items()} == {"office": "London"}


def test_what_cannot_be_a_place_of_a_vrf_is_refused(geo: geolookup.GeoLookup) -> None:
    editor = geo.edit()
    with pytest.raises(BlockError, match=r"10\.1\.2\.0-10\.1\.2\.255 belongs to office of the VRF CUST-A"):
        editor.put_vrf_place("CUST-A", "other", country="NL", blocks=["10.1.2.0/24"])
    with pytest.raises(EditError):
        editor.put_vrf_place("CUST-A", "other", country="Holland", blocks=["10.1.2.0/26"])
    with pytest.raises(EditError):
        editor.put_vrf_place("", "other", country="NL")
    assert city(geo, "10.1.2.3", "CUST-A") == "Utrecht"


def test_a_state_without_vrfs_has_none_of_their_files(tmp_path: Path) -> None:
    geo = state(tmp_path / "state")
    geo.edit().create(country="FR", city="Paris", blocks=["10.1.0.0/16"])
    assert read_current(geo.home).vrfs == 0
    assert not os.path.exists(folder(geo.home))
    with pytest.raises(UnknownVrfError, match="there are none"):
        geo.match("10.1.2.3", vrf="A")


def test_only_the_vrf_that_changed_is_compiled_and_old_files_go(geo: geolookup.GeoLookup) -> None:
    before = {name: each.number for name, each in read_vrfs(geo.home, read_current(geo.home)).items()}
    geo.edit().put_vrf_place("CUST-A", "lab", country="NL", blocks=["10.4.0.0/16"])
    current = read_current(geo.home)
    after = {name: each.number for name, each in read_vrfs(geo.home, current).items()}
    assert after["CUST-B"] == before["CUST-B"]
    assert after["CUST-A"] > before["CUST-A"]
    wanted = [layer_path(geo.home, number) for number in after.values()] + [list_path(geo.home, current.vrfs)]
    assert sorted(os.listdir(folder(geo.home))) == sorted(map(os.path.basename, wanted))


def test_a_sync_and_a_rollback_leave_the_vrfs(geo: geolookup.GeoLookup, tmp_path: Path) -> None:
    table = tmp_path / "source.csv"
    table.write_text(ROWS.replace("Bonn", "Berlin"))
    source = SourceSettings(name="source", location=str(table))
    directory = StateDirectory(geo.home)
    assert pull(directory, Settings(sources=(source,))).outcome == "published"
    geo.look_soon()
    geo.in_vrf("CUST-B").look_soon()
    assert (city(geo, "10.3.0.1"), city(geo, "10.1.2.3", "CUST-A")) == ("Berlin", "Utrecht")
    assert city(geo.in_vrf("CUST-B"), "10.3.0.1") == "Berlin"


def test_an_edit_that_could_not_be_published_is_with_the_next(
    geo: geolookup.GeoLookup, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StateError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(Publish, "commit", fail)
        geo.edit().put_vrf_place("CUST-A", "office", country="NL", city="Delft", blocks=["10.1.2.0/24"])
    assert city(geo, "10.1.2.3", "CUST-A") == "Utrecht"
    assert geo.edit().vrf_places("CUST-A")["office"].city == "Delft"
    geo.edit().sessions.catch_up()
    assert city(geo, "10.1.2.3", "CUST-A") == "Delft"


def test_a_damaged_layer_is_found_and_made_anew_by_the_next_edit(geo: geolookup.GeoLookup) -> None:
    assert verify(geo.home) == []
    path = layer_path(geo.home, read_vrfs(geo.home, read_current(geo.home))["CUST-A"].number)
    os.truncate(path, 100)
    assert any(path in problem for problem in verify(geo.home))
    with pytest.raises(StateDamagedError, match="the layer of the VRF CUST-A cannot be used"):
        geolookup.GeoLookup(geo.home, vrf="CUST-A")
    assert city(geolookup.GeoLookup(geo.home), "10.1.2.3", "CUST-B") == "London"
    geo.edit().put_vrf_place("CUST-B", "lab", country="GB", blocks=["10.4.0.0/16"])
    assert verify(geo.home) == []
    assert city(geolookup.GeoLookup(geo.home), "10.1.2.3", "CUST-A") == "Utrecht"


def test_a_damaged_list_is_found_and_made_anew_by_the_next_edit(geo: geolookup.GeoLookup) -> None:
    path = Path(list_path(geo.home, read_current(geo.home).vrfs))
    path.write_bytes(path.read_bytes().replace(b"CUST-A", b"CUST-X"))
    assert any("is damaged" in problem for problem in verify(geo.home))
    with pytest.raises(StateDamagedError):
        geolookup.GeoLookup(geo.home, vrf="CUST-A")
    assert city(geolookup.GeoLookup(geo.home), "10.1.2.3") == "Paris"
    geo.edit().put_vrf_place("CUST-B", "lab", country="GB", blocks=["10.4.0.0/16"])
    assert city(geolookup.GeoLookup(geo.home), "10.1.2.3", "CUST-A") == "Utrecht"


def test_the_list_says_what_it_names(geo: geolookup.GeoLookup) -> None:
    found = json.loads(Path(list_path(geo.home, read_current(geo.home).vrfs)).read_text())
    assert [(each["name"], each["places"]) for each in found["vrfs"]] == [("CUST-A", 1), ("CUST-B", 1)]


def test_a_million_addresses_in_twenty_overlapping_vrfs_agree_with_an_oracle(tmp_path: Path) -> None:
    chance = random.Random(20)
    begin = int(ipaddress.IPv4Address("10.20.0.0"))

    def drawn(count: int, layer: str) -> list[Painted]:
        found: dict[tuple[int, int], Painted] = {}
        for rank in range(count):
            first = chance.randrange(SIZE)
            last = min(SIZE - 1, first + chance.choice((0, 3, 63, 255, 1000, 9000)))
            found[first, last] = Painted(first, last, rank, f"{layer}-{rank}")
        return list(found.values())

    def text(block: Painted) -> str:
        return f"{ipaddress.IPv4Address(begin + block.first)}-{ipaddress.IPv4Address(begin + block.last)}"

    source, custom = drawn(60, "source"), drawn(40, "custom")
    rows = "".join(f"{text(each).replace('-', ',')},DE,{each.city}\n" for each in source)
    geo = state(tmp_path / "state", f"first,last,country,city\n{rows}")
    editor = geo.edit()
    vrfs = {f"VRF-{number}": drawn(50, f"vrf{number}") for number in range(20)}
    with editor.transaction():
        for each in custom:
            editor.create(country="FR", city=each.city, blocks=[text(each)])
        for vrf, blocks in vrfs.items():
            for each in blocks:
                editor.put_vrf_place(vrf, each.city, country="NL", city=each.city, blocks=[text(each)])
    addresses = [str(ipaddress.IPv4Address(begin + offset)) for offset in range(SIZE)]
    asked = 0
    for vrf, blocks in vrfs.items():
        right = painted([source, custom, blocks])
        found = geo.in_vrf(vrf).lookup_many(addresses)
        assert [None if place is None else place.city for place in found] == right, vrf
        asked += len(found)
    assert asked > 1_000_000
    assert [place and place.city for place in geo.lookup_many(addresses)] == painted([source, custom])


def test_a_backup_and_a_move_take_the_vrfs_along(geo: geolookup.GeoLookup, tmp_path: Path) -> None:
    archive.backup(StateDirectory(geo.home), str(tmp_path / "state.tar.gz"))
    archive.restore(str(tmp_path / "state.tar.gz"), str(tmp_path / "other"))
    archive.move(StateDirectory(geo.home), str(tmp_path / "moved"))
    for home in ("other", "moved"):
        found = geolookup.GeoLookup(tmp_path / home)
        assert (city(found, "10.1.2.3", "CUST-A"), city(found, "10.1.2.3")) == ("Utrecht", "Paris")
        assert verify(found.home) == []
        found.edit().put_vrf_place("CUST-A", "office", country="NL", city="Delft", blocks=["10.1.2.0/24"])
        assert city(found, "10.1.2.3", "CUST-A") == "Delft"


def test_an_empty_edits_db_has_no_vrfs_and_lookups_say_so(geo: geolookup.GeoLookup) -> None:
    restore(StateDirectory(geo.home), empty=True)
    with pytest.raises(UnknownVrfError, match="there are none"):
        geolookup.GeoLookup(geo.home).match("10.1.2.3", vrf="CUST-A")
    assert not os.listdir(folder(geo.home))


def test_the_older_backup_of_the_edits_brings_its_vrfs_back(geo: geolookup.GeoLookup, tmp_path: Path) -> None:
    directory = StateDirectory(geo.home)
    kept = tmp_path / "edits.db"
    directory.edits.copy_to(str(kept))
    geo.edit().put_vrf_place("CUST-A", "office", country="NL", city="Delft", blocks=["10.1.2.0/24"])
    restore(directory, str(kept))
    assert city(geolookup.GeoLookup(geo.home), "10.1.2.3", "CUST-A") == "Utrecht"
    assert verify(geo.home) == []
