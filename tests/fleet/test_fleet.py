"""From a builder to a reader: what is served there, and how little comes for it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import geolookup
from geolookup.cli.app import run as command
from geolookup.fleet import keys, publish
from geolookup.fleet.store import Folder
from geolookup.model.errors import (
    EditError,
    LicenceError,
    SettingsError,
    StateBusyError,
    StateError,
    StateUnwritableError,
    UnknownVrfError,
    UpstreamAnswerError,
    UpstreamUnavailableError,
)
from geolookup.state.base.current import read_current
from geolookup.state.publishing import archive
from geolookup.state.publishing.verify import verify
from tests.fleet.attacks import taken
from tests.fleet.served import Builder, Reader, Served, blobs, fingerprint, marker


def test_a_reader_answers_as_its_builder_and_is_whole(builder: Builder, joined: Reader) -> None:
    with geolookup.open(joined.home) as geo:
        assert geo.lookup("20.0.7.9").city == "Ort 7"  # type: ignore[union-attr]
        assert geo.lookup("10.1.0.9").city == "Hus"  # type: ignore[union-attr]
    assert fingerprint(joined.home) == fingerprint(builder.home)
    assert verify(joined.home) == []


def test_an_unchanged_poll_makes_two_requests_and_a_changed_one_six(
    builder: Builder, joined: Reader, served: Served
) -> None:
    served.asked.clear()
    builder.edit_many(60)
    builder.publish()
    joined.sync()
    served.asked.clear()
    assert joined.sync().outcome == "unchanged"
    assert served.asked == ["metadata/2.root.json", "metadata/timestamp.json"]
    builder.edit("10.2.0.0/24", "Lager")
    builder.publish()
    served.asked.clear()
    found = joined.sync()
    assert (found.outcome, found.way) == ("published", {"index": "there", "custom": "steps"})
    assert len(served.asked) == found.requests == 6
    assert fingerprint(joined.home) == fingerprint(builder.home)


def test_one_edit_costs_at_most_ten_kilobytes(builder: Builder, joined: Reader, served: Served) -> None:
    builder.edit_many(60)
    builder.publish()
    joined.sync()
    served.sent_bytes = 0
    builder.edit("10.2.0.0/24", "Lager")
    builder.publish()
    assert joined.sync().bytes_read <= 10_000
    assert served.sent_bytes <= 10_000


def test_an_edit_leaves_the_generation_as_it_is_and_a_night_makes_one(builder: Builder, joined: Reader) -> None:
    builder.edit("10.2.0.0/24")
    builder.publish()
    assert joined.sync().generation == 1
    builder.night(1)
    builder.publish()
    assert joined.sync().generation == 2
    assert fingerprint(joined.home) == fingerprint(builder.home)
    assert verify(joined.home) == []


@pytest.mark.parametrize("missed", [1, 7, 9])
def test_missed_nights_come_by_steps_up_to_seven_and_else_whole(builder: Builder, joined: Reader, missed: int) -> None:
    builder.night(0, count=2500)
    builder.publish()
    joined.sync()
    for number in range(1, missed + 1):
        builder.night(number, count=2500)
        builder.publish()
    assert joined.sync().way["index"] == ("steps" if missed <= 7 else "whole")
    assert fingerprint(joined.home) == fingerprint(builder.home)


def test_a_step_from_a_file_that_is_damaged_here_is_given_up_for_the_whole(builder: Builder, joined: Reader) -> None:
    path = Path(joined.home, "generations", "000001", "index")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    os.chmod(path, 0o600)
    path.write_bytes(data)
    builder.night(1)
    builder.publish()
    assert joined.sync().way["index"] == "whole"
    assert fingerprint(joined.home) == fingerprint(builder.home)


def test_edits_on_a_reader_are_refused_with_the_name_of_the_builder(joined: Reader) -> None:
    host = os.uname().nodename
    with pytest.raises(EditError, match=f"reader of a fleet: edit on {host}"):
        geolookup.open_editor(joined.home)
    with geolookup.open(joined.home) as geo, pytest.raises(EditError, match=f"reader of a fleet: edit on {host}"):
        geo.edit().create(country="SE", city="X", latitude=1.0, longitude=1.0)
    assert not os.path.exists(os.path.join(joined.home, "edits.db"))


def test_a_state_with_edits_of_its_own_does_not_join(builder: Builder, served: Served, tmp_path: Path) -> None:
    builder.publish()
    other = Builder(tmp_path / "other", tmp_path / "elsewhere")
    other.edit()
    reader = Reader(tmp_path / "other", "builder")
    with pytest.raises(StateError, match="has edits of its own"):
        reader.join(served.url, builder.root)
    assert not os.path.exists(os.path.join(reader.home, "fleet"))


def test_a_reader_that_could_not_join_is_as_it_was(builder: Builder, served: Served, tmp_path: Path) -> None:
    builder.publish()
    other = Builder(tmp_path / "other", tmp_path / "elsewhere")
    reader = Reader(tmp_path)
    with pytest.raises(UpstreamAnswerError, match="not signed by enough of the keys"):
        reader.join(served.url, other.root)
    assert not os.path.exists(os.path.join(reader.home, "fleet"))
    with pytest.raises(SettingsError, match=r"is not the root\.json of a fleet"):
        reader.join(served.url, b"{}")


def test_nothing_private_of_the_sources_goes_out(builder: Builder, served: Served) -> None:
    builder.publish()
    manifest = publish.remembered(builder.home)
    assert manifest is not None
    assert manifest.manifest is not None
    text = json.dumps([manifest.manifest.record, manifest.manifest.sources])
    assert "127.0.0.1" not in text
    assert builder.home not in text


def test_the_layer_default_leaves_custom_geolocations_out(builder: Builder, served: Served, tmp_path: Path) -> None:
    builder.edit()
    builder.publish(layer="default")
    reader = Reader(tmp_path)
    reader.join(served.url, builder.root)
    with geolookup.open(reader.home) as geo:
        assert geo.lookup("10.1.0.9") is None
        assert geo.lookup("20.0.7.9") is not None


def test_a_licence_that_forbids_it_stops_before_anything_is_written(builder: Builder, tmp_path: Path) -> None:
    def refuse(_current: object) -> None:
        raise LicenceError("no")

    with pytest.raises(LicenceError):
        builder.publish(allowed=refuse)
    assert blobs(tmp_path / "www") == []
    assert os.listdir(tmp_path / "www" / "metadata") == []


def test_a_second_builder_is_refused_before_it_writes(builder: Builder, tmp_path: Path, served: Served) -> None:
    builder.publish()
    before = {path: path.read_bytes() for path in (tmp_path / "www").rglob("*") if path.is_file()}
    other = Builder(tmp_path / "other", tmp_path / "www")
    with pytest.raises(StateBusyError, match="published by another builder"):
        other.publish()
    assert {path: path.read_bytes() for path in (tmp_path / "www").rglob("*") if path.is_file()} == before
    with builder.store.locked(builder.home), pytest.raises(StateBusyError, match="another machine or process"):
        builder.publish()


def test_a_publish_that_fails_elsewhere_leaves_what_is_remembered_of_the_place(
    builder: Builder, joined: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder.edit_many(40)
    builder.publish()
    joined.sync()

    def full(self: Folder, name: str, path: str) -> None:
        raise StateUnwritableError(f"{name}: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "upload", full)
        with pytest.raises(StateUnwritableError):
            publish.publish(builder.home, Folder(str(tmp_path / "full")), keys=builder.keys)
    found = publish.remembered(builder.home)
    assert found is not None
    assert found.place == str(builder.store)
    builder.edit("10.2.0.0/24")
    builder.publish()
    assert joined.sync().way["custom"] == "steps"


def test_another_builder_with_the_same_keys_takes_over_and_readers_follow(
    builder: Builder, joined: Reader, tmp_path: Path
) -> None:
    builder.publish()
    joined.sync()
    other = Builder(tmp_path / "other", tmp_path / "www")
    other.keys = builder.keys
    other.night(5)
    other.publish(take_over=True)
    assert joined.sync().outcome == "published"
    assert fingerprint(joined.home) == fingerprint(other.home)
    with pytest.raises(StateBusyError):
        builder.publish()


def test_a_rollback_of_the_builder_is_a_new_version_with_the_old_content(builder: Builder, joined: Reader) -> None:
    before = fingerprint(joined.home)
    builder.night(1)
    builder.publish()
    joined.sync()
    _, _, versions = marker(joined.home)
    from geolookup.state.publishing.directory import StateDirectory

    StateDirectory(builder.home).keeping.rollback(1)
    builder.publish()
    assert joined.sync().outcome == "published"
    assert fingerprint(joined.home) == before
    assert marker(joined.home)[2] > versions


def test_a_rollback_of_a_reader_keeps_the_custom_layer_and_is_not_undone_by_the_next_sync(
    builder: Builder, joined: Reader
) -> None:
    builder.night(1)
    builder.edit("10.2.0.0/24", "Lager")
    builder.publish()
    joined.sync()
    joined.directory.keeping.rollback(1)
    with geolookup.open(joined.home) as geo:
        assert geo.lookup("10.2.0.9").city == "Lager"  # type: ignore[union-attr]
        assert geo.lookup("20.0.1.9").city == "Ort 1"  # type: ignore[union-attr]
    assert joined.sync().outcome == "rolled-back"
    assert read_current(joined.home).generation == 1


def test_a_large_file_is_resumed_after_a_cut(builder: Builder, served: Served, tmp_path: Path) -> None:
    builder.night(0, count=3000)
    builder.publish()
    reader = Reader(tmp_path)
    largest = max((tmp_path / "www" / "blobs" / name).stat().st_size for name in blobs(tmp_path / "www"))
    served.cut_after = largest // 3
    done = reader.join(served.url, builder.root)
    assert done.bytes_read < 2 * largest
    assert fingerprint(reader.home) == fingerprint(builder.home)


def test_a_server_without_ranges_is_asked_for_the_whole_again(builder: Builder, served: Served, tmp_path: Path) -> None:
    builder.night(0, count=3000)
    builder.publish()
    served.knows_ranges = False
    largest = max((tmp_path / "www" / "blobs" / name).stat().st_size for name in blobs(tmp_path / "www"))
    served.cut_after = largest // 2
    reader = Reader(tmp_path)
    with pytest.raises((UpstreamAnswerError, UpstreamUnavailableError)):
        reader.join(served.url, builder.root)
    served.cut_after = None
    reader.join(served.url, builder.root)
    assert fingerprint(reader.home) == fingerprint(builder.home)


def test_blobs_of_eight_manifests_stay_and_older_ones_go_after_a_day(
    builder: Builder, joined: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = set(blobs(tmp_path / "www"))
    for number in range(1, 9):
        builder.night(number)
        builder.publish()
    assert first <= set(blobs(tmp_path / "www"))
    monkeypatch.setattr(publish, "KEPT_S", 0.0)
    builder.night(9)
    builder.publish()
    assert not first & {name for name in blobs(tmp_path / "www") if name.endswith(".manifest")}
    assert joined.sync().outcome == "published"
    assert fingerprint(joined.home) == fingerprint(builder.home)


def test_a_publish_key_that_others_may_read_is_refused(builder: Builder) -> None:
    path = os.path.join(builder.keys, keys.PUBLISH_KEY)
    os.chmod(path, 0o640)
    with pytest.raises(SettingsError, match="chmod 600"):
        builder.publish()


def test_the_publish_key_may_come_from_the_environment(
    builder: Builder, joined: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(builder.keys, keys.PUBLISH_KEY)
    monkeypatch.setenv(keys.ENVIRONMENT, path.read_text())
    path.unlink()
    builder.edit("10.2.0.0/24")
    builder.publish()
    assert joined.sync().outcome == "published"


def test_routing_domains_reach_readers_by_steps_and_go_with_their_last_place(
    builder: Builder, joined: Reader, served: Served
) -> None:
    with geolookup.open_editor(builder.home) as editor:
        for number in range(300):
            editor.put_vrf_place(
                "plant",
                f"hall {number}",
                country="SE",
                city="Kiruna",
                blocks=[f"10.{number // 250}.{number % 250}.0/24"],
            )
        editor.put_vrf_place("ship/../1", "deck", country="NO", city="Bergen", blocks=["10.0.0.0/8"])
    assert builder.publish().vrfs == ("plant", "ship/../1")
    joined.sync()
    with geolookup.open(joined.home) as geo:
        assert geo.lookup("10.0.0.1", vrf="plant").city == "Kiruna"  # type: ignore[union-attr]
        assert geo.lookup("10.1.0.1", vrf="ship/../1").city == "Bergen"  # type: ignore[union-attr]
        assert geo.lookup("10.1.0.1").city == "Hus"  # type: ignore[union-attr]
    assert verify(joined.home) == []
    before = read_current(joined.home)
    with geolookup.open_editor(builder.home) as editor:
        editor.put_vrf_place("plant", "hall 7", country="SE", city="Gällivare", blocks=["10.0.7.0/24"])
    builder.publish()
    served.sent_bytes = 0
    assert joined.sync().way == {"index": "there", "custom": "there", "vrf:plant": "steps", "vrf:ship/../1": "there"}
    assert served.sent_bytes < 10_000
    with geolookup.open(joined.home) as geo:
        assert geo.lookup("10.0.7.1", vrf="plant").city == "Gällivare"  # type: ignore[union-attr]
        assert geo.lookup("10.0.6.1", vrf="plant").city == "Kiruna"  # type: ignore[union-attr]
    assert len(os.listdir(Path(joined.home, "custom", "vrfs"))) == 3  # what was superseded is gone
    assert read_current(joined.home).generation == before.generation
    builder.night(1)
    builder.publish()
    joined.sync()
    with geolookup.open(joined.home) as geo:
        assert geo.lookup("10.0.7.1", vrf="plant").city == "Gällivare"  # type: ignore[union-attr]
    joined.directory.keeping.rollback(1)
    with geolookup.open(joined.home) as geo:
        assert geo.lookup("10.0.7.1", vrf="plant").city == "Gällivare"  # type: ignore[union-attr]
    builder.night(2)
    assert builder.publish(layer="default").vrfs == ()
    joined.sync()
    with geolookup.open(joined.home) as geo, pytest.raises(UnknownVrfError):
        geo.lookup("10.0.0.1", vrf="plant")
    assert not [name for name in os.listdir(Path(builder.home, publish.OUT)) if name.startswith("vrf-")]


def test_names_of_sites_and_routing_domains_are_there_for_commands_on_a_reader(
    builder: Builder,
    joined: Reader,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def answer(*words: str) -> Any:
        assert command([*words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    sites = tmp_path / "sites.csv"
    sites.write_text(
        "name,country,city,latitude,longitude,networks,vrf\n"
        "Head office,SE,Kiruna,67.8,20.2,10.7.0.0/24,\n"
        "Plant 1,NO,Bergen,60.4,5.3,10.7.0.0/24,plant\n"
    )
    monkeypatch.setenv("GEOLOOKUP_HOME", builder.home)
    answer("custom", "apply", str(sites))
    builder.publish()
    joined.sync()
    monkeypatch.setenv("GEOLOOKUP_HOME", joined.home)
    assert answer("10.7.0.1")[0]["site"] == "Head office"
    found = answer("10.7.0.1", "--vrf", "plant")[0]
    assert (found["city"], found["site"], found["vrf"]) == ("Bergen", "Plant 1", "plant")
    for vrf, site in (("", "Head office"), ("plant", "Plant 1")):
        covering = answer("explain", "10.7.0.1", "--vrf", vrf)["covering"]
        assert (covering[0]["site"], covering[0]["wins"]) == (site, True)


def test_a_backup_of_a_reader_goes_on_as_a_reader_that_refuses_older_states(
    builder: Builder, joined: Reader, served: Served, tmp_path: Path
) -> None:
    older = taken(served.folder)
    builder.edit("10.2.0.0/24", "Lager")
    builder.publish()
    joined.sync()
    archive.backup(joined.directory, str(tmp_path / "backup"))
    again = Reader(tmp_path, "restored")
    archive.restore(str(tmp_path / "backup"), again.home)
    served.change = lambda name, _data: older.get(name)
    with pytest.raises(UpstreamAnswerError, match="rollback"):
        again.sync()
    served.change = None
    assert again.sync().outcome == "unchanged"
    builder.edit("10.3.0.0/24", "Butik")
    builder.publish()
    assert again.sync().way["index"] == "there"
    assert fingerprint(again.home) == fingerprint(builder.home)
