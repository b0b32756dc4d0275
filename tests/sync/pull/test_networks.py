"""Sources of networks through a sync: guard, packs, as-of, rollback, retention, licences, verify, diff, backups."""

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest

import geolookup
from geolookup.history.diff import opened
from geolookup.index.reader import IndexReader
from geolookup.model.errors import HeldError
from geolookup.model.fields import UNKNOWN
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.sources.definition import given
from geolookup.state.base.candidate import read_report
from geolookup.state.base.current import generation_path, network_path, read_current
from geolookup.state.base.parts import parts_of, snapshot_path
from geolookup.state.publishing.archive import backup, restore
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import verify
from geolookup.sync.first import build_bundled_state
from geolookup.sync.pull.accept import accept
from geolookup.sync.pull.context import PullReport
from geolookup.sync.pull.pull import pull
from tests.state.packs.nights import pack_all

DATA = Path(__file__).parent.parent.parent / "data" / "mmdb"


def asn_csv(path: Path, count: int = 64, *, of: str = "asn,as_organization", shift: int = 0, only: int = 0) -> Path:
    """A table of so many networks of one size, each of another AS; only the first ``only`` of them if that is given."""
    rows = []
    for number in range(only or count):
        asn = 64512 + number + shift
        facts = {"asn": f"AS{asn}", "as_organization": f"AS of {asn}", "is_vpn": "yes", "isp": f"ISP {asn}"}
        rows.append(",".join([f"10.{number}.0.0/16", *(facts[name] for name in of.split(","))]))
    path.write_text(f"network,{of}\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def city_csv(path: Path, count: int = 64) -> Path:
    rows = [f"10.{number}.0.0/16,DE,City {number}" for number in range(count)]
    path.write_text("network,country,city\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def stack(*sources: tuple[str, Path], **more: Any) -> Settings:
    return Settings(
        sources=tuple(SourceSettings(name=name, location=str(path), **more) for name, path in sources), guard_growth=9
    )


def synced(home: str, settings: Settings) -> PullReport:
    return pull(StateDirectory(home), settings)


def asn_of(home: str, address: str, **options: Any) -> int | None:
    with geolookup.GeoLookup(home, **options) as geo:
        found = geo.network(address)
        return None if found is None else found.asn


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path / "state")


def test_a_state_of_networks_alone_is_a_state(home: str, tmp_path: Path) -> None:
    report = synced(home, stack(("asn", asn_csv(tmp_path / "asn.csv"))))
    assert report.outcome == "published"
    assert verify(home) == []
    with geolookup.GeoLookup(home) as geo:
        assert geo.lookup("10.1.2.3") is None
        assert geo.match("10.1.2.3") is None
        found = geo.network("10.1.2.3")
        assert found is not None
        assert (found.asn, found.as_organization) == (64513, "AS of 64513")
        assert (found.first, found.last, found.network) == ("10.1.0.0", "10.1.255.255", "10.1.0.0/16")
        assert found.source_of("asn") == "asn"
        assert geo.network("9.9.9.9") is None
        record = geo.record("10.1.2.3")
        assert record is not None
        assert record.as_dict() == {
            "traits": {"autonomous_system_number": 64513, "autonomous_system_organization": "AS of 64513"}
        }
        assert geo.record("9.9.9.9") is None
        assert geo.explain("10.1.2.3").match is None
        assert [source.name for source in geo.status().sources] == ["asn"]
    assert synced(home, stack(("asn", tmp_path / "asn.csv"))).outcome == "unchanged"
    with geolookup.open_editor(home) as editor:
        paris = {**UNKNOWN, "country": "FR", "city": "Paris", "latitude": 48.9, "longitude": 2.4}
        editor.add_block(editor.create(**paris), "10.1.0.0/16")
    with geolookup.GeoLookup(home) as geo:
        place, network = geo.lookup("10.1.2.3"), geo.network("10.1.2.3")
        assert place is not None
        assert place.city == "Paris"
        assert network is not None
        assert network.asn == 64513


def test_networks_in_the_place_of_the_bundled_countries_are_told(home: str, tmp_path: Path) -> None:
    build_bundled_state(home, quiet=True)
    asn, city = asn_csv(tmp_path / "asn.csv"), city_csv(tmp_path / "city.csv")
    told = [
        [line for line in synced(home, settings).warnings if "no source says where addresses are" in line]
        for settings in (stack(("asn", asn)), stack(("asn", asn)), stack(("asn", asn), ("city", city)))
    ]
    assert [len(lines) for lines in told] == [1, 0, 0]
    assert "geolookup source add rir" in told[0][0]


def test_a_snapshot_of_networks_is_an_index_and_a_report(home: str, tmp_path: Path) -> None:
    synced(home, stack(("city", city_csv(tmp_path / "city.csv")), ("asn", asn_csv(tmp_path / "asn.csv"))))
    current = read_current(home)
    city, asn = parts_of(current.published)
    assert (city.layer, asn.layer) == ("place", "network")
    assert sorted(os.listdir(snapshot_path(home, city.snapshot))) == ["cache.db", "index", "report.json"]
    assert sorted(os.listdir(snapshot_path(home, asn.snapshot))) == ["network", "report.json"]
    generation = generation_path(home, current.generation)
    assert sorted(os.listdir(generation)) == ["cache.db", "index", "network", "report.json"]
    assert os.path.samefile(
        os.path.join(generation, "network"), os.path.join(snapshot_path(home, asn.snapshot), "network")
    )
    with contextlib.closing(IndexReader.open(os.path.join(generation, "network"))) as reader:
        assert reader.location_count == 0


def test_without_a_source_of_networks_there_is_no_index_of_them(home: str, tmp_path: Path) -> None:
    synced(home, stack(("city", city_csv(tmp_path / "city.csv"))))
    assert not os.path.exists(network_path(home, 1))
    with geolookup.GeoLookup(home) as geo:
        assert geo.network("10.1.2.3") is None
        record = geo.record("10.1.2.3")
        assert record is not None
        assert "traits" not in record


def test_the_index_of_networks_is_opened_when_a_fact_is_asked_for(home: str, tmp_path: Path) -> None:
    synced(home, stack(("city", city_csv(tmp_path / "city.csv")), ("asn", asn_csv(tmp_path / "asn.csv"))))
    paths = [network_path(home, 1), os.path.join(snapshot_path(home, 2), "network")]
    for path in paths:
        os.rename(path, path + ".gone")
    with geolookup.GeoLookup(home) as geo:
        assert geo.lookup("10.1.2.3") is not None
        assert geo.match("10.1.2.3") is not None
        with pytest.raises(geolookup.StateDamagedError, match="network: is gone"):
            geo.network("10.1.2.3")
        os.rename(paths[0] + ".gone", paths[0])
        assert geo.network("10.1.2.3") is not None


def test_facts_of_several_sources_are_merged_by_their_order(home: str, tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text("network,asn,is_vpn\n10.1.2.0/24,,yes\n10.1.3.0/24,AS0,no\n10.99.0.0/16,4.1,\n", encoding="utf-8")
    synced(home, stack(("own", own), ("asn", asn_csv(tmp_path / "asn.csv"))))
    with geolookup.GeoLookup(home) as geo:
        found = geo.network("10.1.2.3")
        assert found is not None
        assert (found.asn, found.is_anonymous_vpn, found.is_anycast) == (64513, True, None)
        assert dict(found.sources) == {
            "is_anonymous_vpn": "own",
            "autonomous_system_number": "asn",
            "autonomous_system_organization": "asn",
        }
        zero = geo.network("10.1.3.1")
        assert zero is not None
        assert (zero.asn, zero.is_anonymous_vpn) == (64513, False)
        alone = geo.network("10.99.0.1")
        assert alone is not None
        assert (alone.asn, alone.as_organization, alone.sources) == (
            4 << 16 | 1,
            None,
            {"autonomous_system_number": "own"},
        )


def test_6to4_addresses_have_the_network_of_the_address_that_they_hold(home: str, tmp_path: Path) -> None:
    path = asn_csv(tmp_path / "asn.csv")
    path.write_text(path.read_text() + "2002:a02::/32,7,Seven\n")
    synced(home, stack(("asn", path)))
    with geolookup.GeoLookup(home) as geo:
        held = geo.network("2002:a01:203::1")
        assert held is not None
        assert (held.asn, held.first, held.last) == (64513, "2002:a01::", "2002:a01:ffff:ffff:ffff:ffff:ffff:ffff")
        own = geo.network("2002:a02:203::1")
        assert own is not None
        assert own.asn == 7
        mapped = geo.network("::ffff:10.1.2.3")
        assert mapped is not None
        assert (mapped.asn, mapped.network) == (64513, "10.1.0.0/16")
        record = geo.record("2002:a01:203::1")
        assert record is not None
        assert record.find("traits.autonomous_system_number") == 64513


@pytest.mark.parametrize(
    ("layer", "has_place", "has_network"), [("place", True, False), ("network", False, True), ("", True, True)]
)
def test_the_layer_of_a_source_leaves_the_other_out(
    home: str, tmp_path: Path, layer: str, has_place: bool, has_network: bool
) -> None:
    synced(home, stack(("whole", DATA / "GeoIP2-Enterprise-Test.mmdb"), layer=layer))
    (part,) = parts_of(read_current(home).published)
    assert (part.has_places, part.has_networks) == (has_place, has_network)
    with geolookup.GeoLookup(home) as geo:
        assert (geo.lookup("74.209.24.0") is not None) == has_place
        assert (geo.network("74.209.24.0") is not None) == has_network
    assert verify(home) == []


# The guard


def test_facts_that_vanish_are_held_and_named(home: str, tmp_path: Path) -> None:
    path = asn_csv(tmp_path / "asn.csv", of="asn,as_organization,isp")
    settings = stack(("city", city_csv(tmp_path / "city.csv")), ("asn", path))
    synced(home, settings)
    asn_csv(path, of="isp,as_organization")
    with pytest.raises(HeldError, match="the asn of IPv4 networks would be gone, which the served data have") as held:
        synced(home, settings)
    assert asn_of(home, "10.1.2.3") == 64513
    assert accept(StateDirectory(home), held.value.digest, Settings()).outcome == "published"
    assert asn_of(home, "10.1.2.3") is None
    assert verify(home) == []


def test_networks_of_which_nothing_is_known_any_more_are_held(home: str, tmp_path: Path) -> None:
    path = asn_csv(tmp_path / "asn.csv")
    settings = stack(("asn", path))
    synced(home, settings)
    asn_csv(path, only=52)
    with pytest.raises(HeldError, match=r"18\.8% of the IPv4 addresses whose network is known would have none"):
        synced(home, settings)
    asn_csv(path, shift=1)
    assert synced(home, settings).outcome == "published", "other values are no loss"


def test_a_source_of_networks_that_leaves_the_stack_is_held(home: str, tmp_path: Path) -> None:
    city, asn = ("city", city_csv(tmp_path / "city.csv")), ("asn", asn_csv(tmp_path / "asn.csv"))
    synced(home, stack(city, asn))
    with pytest.raises(HeldError, match="nothing would be known of the networks of IPv4 at all") as held:
        synced(home, stack(city))
    assert asn_of(home, "10.1.2.3") == 64513
    accept(StateDirectory(home), held.value.digest, Settings())
    assert asn_of(home, "10.1.2.3") is None
    assert not os.path.exists(network_path(home, read_current(home).generation))


def test_networks_in_the_place_of_places_are_held(home: str, tmp_path: Path) -> None:
    synced(home, stack(("city", city_csv(tmp_path / "city.csv"))))
    with pytest.raises(HeldError, match="IPv4 would have no answer at all"):
        synced(home, stack(("asn", asn_csv(tmp_path / "asn.csv"))))


def test_a_loss_is_charged_to_the_source_that_had_it_and_the_others_publish(home: str, tmp_path: Path) -> None:
    city, asn = city_csv(tmp_path / "city.csv"), asn_csv(tmp_path / "asn.csv")
    settings = stack(("city", city), ("asn", asn))
    synced(home, settings)
    asn_csv(asn, only=52)
    city.write_text(city.read_text().replace("City 7", "Town 7"))
    with pytest.raises(HeldError, match="source asn: the pulled list is held"):
        synced(home, settings)
    with geolookup.GeoLookup(home) as geo:
        place = geo.lookup("10.7.0.1")
        assert place is not None
        assert place.city == "Town 7"
    assert asn_of(home, "10.60.0.1") == 64572


def test_a_few_rows_of_a_small_table_hold_nothing(home: str, tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("network,asn\n10.0.0.0/24,1\n10.0.1.0/24,2\n", encoding="utf-8")
    settings = stack(("own", path))
    synced(home, settings)
    path.write_text("network,asn\n10.0.0.0/24,1\n", encoding="utf-8")
    assert synced(home, settings).outcome == "published"


# What was served before


def test_as_of_rollback_and_retention_keep_networks_too(home: str, tmp_path: Path) -> None:
    path = asn_csv(tmp_path / "asn.csv")
    settings = stack(("city", city_csv(tmp_path / "city.csv")), ("asn", path))
    for shift in range(3):
        asn_csv(path, shift=shift)
        synced(home, settings)
    assert asn_of(home, "10.1.2.3") == 64515
    with geolookup.open(home, as_of=1) as geo:
        found = geo.network("10.1.2.3")
        assert found is not None
        assert found.asn == 64513
    directory = StateDirectory(home, keep_generations=2)
    directory.keeping.rollback(1)
    assert asn_of(home, "10.1.2.3") == 64513
    assert verify(home) == []
    assert synced(home, settings).sources[1]["outcome"] == "rolled-back", "it is not published by itself"
    bad = path.read_text("utf-8")
    path.write_text(bad.replace("10.63.0.0/16,AS64577", "10.63.0.0/16,AS7"), encoding="utf-8")
    with pytest.raises(HeldError, match="brings back the facts of the networks of 4,128,768 of the 4,194,304 IPv4"):
        synced(home, settings)
    assert asn_of(home, "10.1.2.3") == 64513
    directory.keeping.prune(keep=1)
    assert asn_of(home, "10.1.2.3") == 64513
    assert verify(home) == []


@pytest.mark.parametrize("more", [False, True], ids=["one source of networks", "two"])
def test_what_was_superseded_is_packed_and_comes_back_byte_for_byte(home: str, tmp_path: Path, more: bool) -> None:
    path = asn_csv(tmp_path / "asn.csv", 200)
    own = tmp_path / "own.csv"
    own.write_text("network,is_vpn\n10.1.2.0/24,yes\n", encoding="utf-8")
    sources = [("city", city_csv(tmp_path / "city.csv")), ("asn", path), *([("own", own)] if more else [])]
    whole = {}
    for shift in range(4):
        asn_csv(path, 200, shift=shift)
        synced(home, stack(*sources))
        whole[shift + 1] = Path(network_path(home, shift + 1)).read_bytes()
    pack_all(home)
    assert any(name.endswith(".pack") for _, _, names in os.walk(home) for name in names)
    assert not os.path.exists(network_path(home, 1))
    assert verify(home) == []
    for number in range(1, 5):
        with geolookup.open(home, as_of=number) as geo:
            found = geo.network("10.1.2.3")
            assert found is not None
            assert found.asn == 64512 + number
            assert found.is_anonymous_vpn is (True if more else None)
    StateDirectory(home).keeping.rollback(1)
    assert Path(network_path(home, 1)).read_bytes() == whole[1]


def test_a_licence_has_superseded_networks_destroyed(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = asn_csv(tmp_path / "asn.csv")
    settings = stack(("asn", path), keep_days=0)
    synced(home, settings)
    asn_csv(path, shift=1)
    synced(home, settings)
    from datetime import timedelta

    from geolookup.state.base import clock

    now = clock.wall()
    monkeypatch.setattr(clock, "wall", lambda: now + timedelta(days=1))
    synced(home, settings)
    assert sorted(os.listdir(os.path.join(home, "generations"))) == ["000002"]
    assert len(os.listdir(os.path.join(home, "snapshots"))) == 1


def test_damage_to_the_networks_is_found_and_repaired_by_the_next_sync(home: str, tmp_path: Path) -> None:
    settings = stack(("city", city_csv(tmp_path / "city.csv")), ("asn", asn_csv(tmp_path / "asn.csv")))
    synced(home, settings)
    path = Path(network_path(home, 1))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    os.chmod(path, 0o600)
    path.write_bytes(content)  # the snapshot's own file, too: they are one
    problems = verify(home)
    assert any("network: is not what was published" in problem for problem in problems)
    assert synced(home, settings).outcome == "published"
    assert verify(home) == []
    assert asn_of(home, "10.1.2.3") == 64513


def test_a_diff_says_what_changed_in_networks(home: str, tmp_path: Path) -> None:
    path = asn_csv(tmp_path / "asn.csv")
    settings = stack(("city", city_csv(tmp_path / "city.csv")), ("asn", path))
    synced(home, settings)
    rows = path.read_text().replace("AS64513,AS of 64513", "AS7,Seven")
    path.write_text(rows + "10.200.0.0/24,8,Eight\n")
    report = synced(home, settings)
    changed = {"added": 1, "removed": 0, "changed": 1}
    assert report.sources[1]["difference"]["networks"]["ranges"] == changed
    with opened(StateDirectory(home), 1, 2) as sides:
        (source,) = sides.sources(top=10, blocks=True)
        assert source.name == "asn"
        assert source.rows is None
        assert source.networks is not None
        assert source.networks.ranges == changed
        assert source.networks.addresses[4] == {"added": 256, "removed": 0, "changed": 65536}
        assert sides.losses(Settings()) == ()
    with opened(StateDirectory(home), 2, 1) as sides:
        assert sides.losses(Settings()) == (), "one network of 64 is little"


def test_a_backup_has_the_networks(home: str, tmp_path: Path) -> None:
    synced(home, stack(("city", city_csv(tmp_path / "city.csv")), ("asn", asn_csv(tmp_path / "asn.csv"))))
    backup(StateDirectory(home), str(tmp_path / "backup"))
    again = str(tmp_path / "again")
    restore(str(tmp_path / "backup"), again)
    assert verify(again) == []
    assert asn_of(again, "10.1.2.3") == 64513


def test_given_files_of_both_layers_make_one_stack(home: str, tmp_path: Path) -> None:
    files = [str(city_csv(tmp_path / "city.csv")), str(asn_csv(tmp_path / "asn.csv"))]
    pull(StateDirectory(home), Settings(), given=given(files))
    assert [part.layer for part in parts_of(read_current(home).published)] == ["place", "network"]
    assert asn_of(home, "10.1.2.3") == 64513
    assert pull(StateDirectory(home), Settings()).outcome == "unchanged"


def test_a_record_counts_what_each_source_says_of_networks(home: str, tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text("network,asn\n10.0.0.0/24,1\n", encoding="utf-8")
    synced(home, stack(("own", own), ("asn", asn_csv(tmp_path / "asn.csv", 2))))
    record = read_report(generation_path(home, 1))["published"]
    assert record["network_answers"] == {"own": [256, "0"], "asn": [2 << 16, "0"]}
    assert record["rows"]["network_blocks"] == 3
    assert record["rows"]["network_addresses_v4"] == str(2 << 16)
