"""A server that somebody else writes to: nothing wrong is taken, and the reader says which rule was broken."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from tuf.api.metadata import Metadata, Timestamp

from geolookup.fleet import keys, reader
from geolookup.model.errors import SettingsError, StateBusyError, UpstreamAnswerError, UpstreamUnavailableError
from geolookup.settings.table import Settings
from geolookup.state.publishing.checks import checks, wrong
from geolookup.state.publishing.run import running
from tests.fleet.attacks import KINDS, Battlefield, put_back, taken
from tests.fleet.served import Builder, Reader, Served, fingerprint, marker


@pytest.fixture
def battlefield(tmp_path: Path, builder: Builder, served: Served) -> Battlefield:
    return Battlefield(tmp_path, served, builder)


def test_no_attack_of_any_kind_is_accepted(battlefield: Battlefield, full_sweep: bool) -> None:
    for kind in (*KINDS, "combined"):
        found = battlefield.play(kind, 1000 if full_sweep else 6, seed=1)
        assert found.accepted == []
        assert found.refused or kind == "fast forward"  # it is signed by the key that may
    battlefield.reader.sync()
    assert fingerprint(battlefield.reader.home) == battlefield.newest


def test_an_older_state_that_is_served_again_is_named_a_rollback(
    builder: Builder, joined: Reader, served: Served
) -> None:
    old = taken(served.folder)
    builder.night(1)
    builder.publish()
    joined.sync()
    before = marker(joined.home)
    put_back(served.folder, old)
    with pytest.raises(UpstreamAnswerError, match="rollback"):
        joined.sync()
    assert marker(joined.home) == before


def test_a_reader_whose_folder_of_metadata_went_back_still_refuses_older_ones(
    builder: Builder, joined: Reader, served: Served, tmp_path: Path
) -> None:
    """The client's own files may be lost in a power cut; the versions that were seen stand beside them."""
    old = taken(served.folder)
    builder.night(1)
    builder.publish()
    joined.sync()
    for name in ("timestamp.json", "snapshot.json", "targets.json"):
        Path(joined.home, "fleet", name).unlink()
    put_back(served.folder, old)
    with pytest.raises(
        UpstreamAnswerError, match=r"rollback: timestamp\.json has version 1, and this reader has seen 2"
    ):
        joined.sync()


def test_a_signature_that_ended_is_a_freeze_and_fails_the_check(
    builder: Builder, joined: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "TIMESTAMP_DAYS", -1)
    builder.edit("10.2.0.0/24")
    builder.publish()
    with pytest.raises(UpstreamAnswerError, match="freeze"):
        joined.sync()
    assert not list(wrong(checks(joined.directory, joined.directory.current())))
    import geolookup.state.publishing.checks as module
    from geolookup.state.base import clock

    later = clock.wall().replace(year=clock.wall().year + 1)
    monkeypatch.setattr(module, "wall", lambda: later)
    assert any("freeze" in text for text in wrong(checks(joined.directory, joined.directory.current())))


def test_a_file_of_another_generation_is_mix_and_match(builder: Builder, joined: Reader, served: Served) -> None:
    old = taken(served.folder)
    builder.night(1)
    builder.publish()
    old_manifest = next(data for name, data in old.items() if name.endswith(".manifest"))
    served.change = lambda name, data: old_manifest if name.endswith(".manifest") else data
    with pytest.raises(UpstreamAnswerError, match="mix and match"):
        joined.sync()


def test_a_slow_server_is_given_up(builder: Builder, joined: Reader, served: Served) -> None:
    import time

    def slow(_name: str, data: bytes | None) -> bytes | None:
        time.sleep(1.0)
        return data

    served.change = slow
    settings = Settings(attempts=1, max_wait_s=0.0, read_timeout_s=0.2, total_timeout_s=0.5)
    with running(joined.directory) as run, pytest.raises(UpstreamUnavailableError):
        reader.sync(run, settings)


def test_a_version_that_jumps_to_the_largest_is_recovered_from_by_new_keys(
    builder: Builder, joined: Reader, served: Served
) -> None:
    signer = keys.publish_key(builder.keys)
    path = served.folder / "metadata" / "timestamp.json"
    metadata: Metadata[Any] = Metadata[Timestamp].from_bytes(path.read_bytes())
    metadata.signed.version = 2**31 - 1
    path.write_bytes(keys.text_of(keys.signed(metadata.signed, signer)))
    joined.sync()
    path.write_bytes(keys.text_of(keys.signed(_with(metadata.signed, 2), signer)))
    with pytest.raises(UpstreamAnswerError, match="rollback"):
        joined.sync()
    keys.rotate(builder.keys, new_publish=True)
    builder.edit("10.2.0.0/24")
    builder.publish()
    assert joined.sync().outcome == "published"
    assert fingerprint(joined.home) == fingerprint(builder.home)


def _with(signed: Any, version: int) -> Any:
    signed.version = version
    return signed


def test_a_stolen_publish_key_is_revoked_and_signs_nothing_any_more(
    builder: Builder, joined: Reader, served: Served, tmp_path: Path
) -> None:
    stolen = tmp_path / "stolen"
    shutil.copytree(builder.keys, stolen)
    keys.rotate(builder.keys, new_publish=True)
    builder.publish()
    joined.sync()
    assert marker(joined.home)[2][0] == 2
    thief = Builder(tmp_path / "thief", served.folder)
    thief.keys = str(stolen)
    thief.edit("10.1.0.0/24", "Falsch")
    thief.publish(take_over=True)
    before = fingerprint(joined.home)
    with pytest.raises(UpstreamAnswerError, match="not signed by enough"):
        joined.sync()
    assert fingerprint(joined.home) == before
    with pytest.raises(StateBusyError):
        builder.publish()
    builder.publish(take_over=True)
    joined.sync()
    assert fingerprint(joined.home) == fingerprint(builder.home)


def test_a_builder_is_told_that_its_key_is_revoked(builder: Builder, served: Served, tmp_path: Path) -> None:
    builder.publish()
    old = Path(builder.keys, keys.PUBLISH_KEY).read_bytes()
    keys.rotate(builder.keys, new_publish=True)
    Path(builder.keys, keys.PUBLISH_KEY).write_bytes(old)
    with pytest.raises(SettingsError, match="is revoked"):
        builder.publish()


def test_two_of_three_root_keys_change_keys_and_one_does_not(tmp_path: Path, served: Served) -> None:
    builder = Builder(tmp_path, served.folder, root_keys=3, threshold=2)
    builder.publish()
    found = Reader(tmp_path)
    found.join(served.url, builder.root)
    safe = tmp_path / "safe"
    safe.mkdir()
    for number in (2, 3):
        shutil.move(f"{builder.keys}/root-{number}.key", safe)
    made, waits = keys.rotate(builder.keys, new_publish=True)
    assert (made.signed.version, waits) == (2, f"{builder.keys}/next.root.json")
    with pytest.raises(SettingsError, match="does not let this key publish"):
        builder.publish()  # by the root that is in force
    made, waits = keys.sign(builder.keys, str(safe / "root-3.key"))
    assert waits is None
    builder.edit()
    builder.publish()
    assert found.sync().outcome == "published"
    assert marker(found.home)[2][0] == 2
    # One key of three is lost: the others put another in its place.
    lost = keys.read_key(str(safe / "root-2.key")).public_key.keyid
    _, waits = keys.rotate(
        builder.keys, add=[f"{builder.keys}/root-4.key"], drop=[lost[:12]], keys=[str(safe / "root-3.key")]
    )
    assert waits is None
    builder.edit("10.7.0.0/24")
    builder.publish()
    assert found.sync().outcome == "published"
    assert marker(found.home)[2][0] == 3


def test_a_root_signed_by_too_few_is_not_followed(tmp_path: Path, served: Served) -> None:
    builder = Builder(tmp_path, served.folder, root_keys=3, threshold=2)
    builder.publish()
    found = Reader(tmp_path)
    found.join(served.url, builder.root)
    for number in (2, 3):
        Path(f"{builder.keys}/root-{number}.key").unlink()
    keys.rotate(builder.keys, new_publish=True)
    waiting = Path(builder.keys, "next.root.json").read_bytes()
    (served.folder / "metadata" / "2.root.json").write_bytes(waiting)
    with pytest.raises(UpstreamAnswerError, match="not signed by enough"):
        found.sync()
