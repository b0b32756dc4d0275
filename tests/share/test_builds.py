"""Builds: one at a time, of the newest publish, kept for ten minutes, the same bytes everywhere; damage, failures."""

import hashlib
import itertools
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from geolookup.lookup.follow import Freshness
from geolookup.model.errors import LicenceError, SettingsError
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.share.background import BackgroundBuilds, shelf_folder
from geolookup.share.build import OWN, editions
from geolookup.share.run import prepared
from geolookup.share.shelf import Shelf
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.opening import open_editor
from geolookup.sync.pull.pull import pull
from tests.exports.states import publish_sources
from tests.support.data.two_sources import NAMES, NOTHING, state
from tests.support.services.running_share import RunningShare

CITY = "/databases/geolookup-City.mmdb"


class Clock:
    """Seconds since 1970 that pass only if a test says so."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def running(tmp_path: Path, clock: Clock) -> Iterator[RunningShare]:
    with RunningShare(state(tmp_path), tmp_path / "built", editions=NAMES[:1], clock=clock) as running:
        yield running


def edit(running: RunningShare, city: str) -> None:
    with open_editor(running.home) as editor:
        locid = editor.create(**{**NOTHING, "city": city})
        editor.add_block(locid, f"10.99.{len(city)}.0/24")


def test_what_was_replaced_stays_for_ten_minutes_and_then_goes(running: RunningShare, clock: Clock) -> None:
    with running.client() as client:
        before = client.get("/databases").json()["databases"][0]["mmdb"]
        old = client.get(before["url"])
        edit(running, "Potsdam")
        running.build()
        after = client.get("/databases").json()["databases"][0]["mmdb"]
        assert after["sha256"] != before["sha256"]
        assert after["modified"] > before["modified"]
        assert client.get(CITY).content == client.get(after["url"]).content != old.content
        kept = Shelf(os.fspath(running.folder)).catalog()
        assert kept is not None
        clock.now = kept.built_at + 599
        running.builder._bench.sweep(clock.now)
        assert client.get(before["url"]).content == old.content
        clock.now += 2
        assert client.get(before["url"]).json()["type"].endswith(":unknown-build")
        clock.now += 30
        running.builder._bench.sweep(clock.now)
        assert before["sha256"] not in os.listdir(running.folder / "files")
        assert client.get(after["url"]).status_code == 200
        again = Shelf(os.fspath(running.folder)).catalog()
        assert again is not None
        assert again.before == ()
        assert len(os.listdir(running.folder / "files")) == len({item.sha256 for item in again.items})


def test_what_metadata_named_is_what_the_download_brings(running: RunningShare) -> None:
    """A publish between the two requests of geoipupdate, which names only the day in the second one."""
    with running.client() as client:
        ask: dict[str, Any] = {"params": {"edition_id": "GeoLite2-City"}}
        named = client.get("/geoip/updates/metadata", **ask).json()["databases"][0]
        edit(running, "Potsdam")
        running.build()
        path = "/geoip/databases/GeoLite2-City/download"
        day = named["date"].replace("-", "")
        answer = client.get(path, params={"date": day, "suffix": "tar.gz"})
        assert md5_in(answer.content, f"GeoLite2-City_{day}/GeoLite2-City.mmdb") == named["md5"]
        newer = client.get("/geoip/updates/metadata", **ask).json()["databases"][0]
        assert newer["md5"] != named["md5"]
        answer = client.get(path, params={"date": day, "suffix": "tar.gz"})
        assert md5_in(answer.content, f"GeoLite2-City_{day}/GeoLite2-City.mmdb") == newer["md5"]


def md5_in(archive: bytes, name: str) -> str:
    import io
    import tarfile

    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        assert tar.getnames() == [name, f"{name.partition('/')[0]}/LICENSE.txt"]
        file, licence = tar.extractfile(name), tar.extractfile(tar.getnames()[1])
        assert file is not None
        assert licence is not None
        assert b"city: Test Licence\n  City data by Example" in licence.read()
        return hashlib.md5(file.read()).hexdigest()


def test_a_download_under_way_ends_with_the_content_that_it_began_with(running: RunningShare, clock: Clock) -> None:
    large = os.urandom(8 << 20)  # more than what fits between the two
    with running.client() as client:
        file = client.get("/databases").json()["databases"][0]["mmdb"]
        (running.folder / "files" / file["sha256"]).write_bytes(large)
        with client.stream("GET", CITY) as answer:
            pieces = answer.iter_raw()
            got = [next(pieces)]
            edit(running, "Potsdam")
            running.build()
            clock.now += 700
            running.builder._bench.sweep(clock.now)
            assert file["sha256"] not in os.listdir(running.folder / "files")
            got += pieces
        assert b"".join(got) == large
        assert client.get(CITY).content != large


def test_two_builds_of_one_publish_have_the_same_bytes(running: RunningShare, tmp_path: Path) -> None:
    first = Shelf(os.fspath(running.folder)).catalog()
    with RunningShare(running.home, tmp_path / "again", editions=NAMES[:1]) as other:
        second = Shelf(os.fspath(other.folder)).catalog()
    assert first is not None
    assert second is not None
    assert first.items == second.items
    running.build()
    third = Shelf(os.fspath(running.folder)).catalog()
    assert third is not None
    assert (third.items, third.before) == (first.items, ())


def test_damage_to_current_leaves_the_last_good_build(running: RunningShare) -> None:
    current = Path(running.home) / "CURRENT"
    whole = current.read_bytes()
    with running.client() as client:
        before = client.get(CITY)
        assert client.get("/readyz").status_code == 200
        current.write_bytes(whole[: len(whole) // 2])
        running.builder.step()
        until(lambda: client.get("/readyz").status_code == 503)
        assert client.get("/readyz").json()["detail"] == "not ready: state"
        assert client.get(CITY).content == before.content
        assert client.get("/lookup/10.20.0.1").json()["city"] == "Berlin"
        current.write_bytes(whole)
        running.builder.step()
        until(lambda: client.get("/readyz").status_code == 200)


def test_stale_data_are_not_given_out_if_the_settings_refuse_them(tmp_path: Path) -> None:
    home = state(tmp_path)
    time.sleep(0.01)
    refusing = Freshness(max_age_s=0.001, rule="refuse")
    with RunningShare(home, tmp_path / "built", freshness=refusing) as running, running.client() as client:
        for path in ("/databases", CITY, "/geofeed.csv", "/lookup/10.20.0.1", "/elastic/database"):
            answer = client.get(path)
            assert (answer.status_code, answer.json()["type"]) == (503, "urn:geolookup:problem:stale-data"), path
            assert int(answer.headers["retry-after"]) > 0
        assert client.get("/geoip/v2.1/city/10.20.0.1").json()["code"] == "STALE_DATA"
        assert client.get("/healthz").status_code == 200


def test_before_the_first_build_files_are_asked_for_later_and_lookups_answered(tmp_path: Path) -> None:
    with RunningShare(state(tmp_path), tmp_path / "built", built=False) as running, running.client() as client:
        answer = client.get(CITY)
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:geolookup:problem:not-built")
        assert int(answer.headers["retry-after"]) > 0
        assert client.get("/readyz").json()["detail"] == "not ready: files"
        assert client.get("/lookup/10.20.0.1").json()["city"] == "Berlin"
        running.build()
        until(lambda: client.get("/readyz").status_code == 200)
        assert client.get(CITY).status_code == 200


# Licences


def test_a_source_that_may_not_be_handed_on_is_refused_at_the_start_and_later(tmp_path: Path) -> None:
    home = state(tmp_path, redistribute=False)
    with (
        pytest.raises(LicenceError, match=r"city \(Test Licence\).* share a state that does not have that source, or"),
        prepared(home, OWN, licence_allows=False),
    ):
        pass
    with RunningShare(home, tmp_path / "built", built=False) as running, running.client() as client:
        with pytest.raises(LicenceError):
            running.build()
        answer = client.get("/lookup/8.8.8.8")
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:geolookup:problem:licence-forbids")
        assert client.post("/lookup", json=["10.20.0.1", "8.8.8.8"]).status_code == 403
        assert client.get("/geoip/v2.1/city/8.8.8.8").json()["code"] == "LICENCE_FORBIDS"
        # What other sources and our own blocks answer is not theirs.
        assert client.get("/lookup/10.20.0.1").json()["city"] == "Berlin"
        assert client.get("/lookup/9.1.2.3").json()["country"] == "DE"
    with RunningShare(home, tmp_path / "allowed", licence_allows=True) as running, running.client() as client:
        assert client.get("/lookup/8.8.8.8").json()["country"] == "US"
        assert client.get(CITY).status_code == 200


def test_files_of_a_source_whose_licence_changed_are_not_given_out_any_more(tmp_path: Path) -> None:
    home = state(tmp_path)
    with RunningShare(home, tmp_path / "built") as running, running.client() as client:
        assert client.get(CITY).status_code == 200
        publish_sources(home, tmp_path, redistribute=False)
        until(lambda: client.get("/lookup/8.8.8.8").status_code == 403)
        for path in (CITY, "/databases", "/elastic/geolookup-City.tgz"):
            assert client.get(path).json()["type"] == "urn:geolookup:problem:licence-forbids"


# The builder


def test_a_damaged_generation_is_not_built_again_and_again(tmp_path: Path) -> None:
    """CURRENT is whole, but what it names is not: what is built then is what lookups answer, an older generation."""
    home = state(tmp_path)
    folder = tmp_path / "built"
    (tmp_path / "country.csv").write_text("network,country\n9.0.0.0/8,FR\n", encoding="utf-8")
    settings = tuple(SourceSettings(name=name, location=str(tmp_path / f"{name}.csv")) for name in ("city", "country"))
    pull(
        StateDirectory(home),
        Settings(sources=settings, attempts=1, guard_addresses=0, guard_blocks=0, guard_uncovered=1, guard_country=1),
    )
    newest = max((Path(home) / "generations").iterdir())
    (newest / "index").write_bytes(b"damaged")
    builder = BackgroundBuilds(home, os.fspath(folder), OWN, licence_allows=True)
    builds = []
    build = builder._build
    builder._build = lambda: builds.append(1) or build()  # type: ignore[method-assign,func-returns-value]
    for _ in range(4):
        builder.step()
    catalog = Shelf(os.fspath(folder)).catalog()
    assert catalog is not None
    assert len(builds) == 1


def test_the_builder_follows_edits_one_build_at_a_time(tmp_path: Path) -> None:
    home, folder = state(tmp_path), tmp_path / "built"
    builder = BackgroundBuilds(home, os.fspath(folder), OWN, licence_allows=False)
    builds: list[tuple[float, float]] = []
    build = builder._build

    def timed() -> bool:
        began = time.monotonic()
        done = build()
        builds.append((began, time.monotonic()))
        return done

    builder._build = timed  # type: ignore[method-assign]
    builder.start()
    shelf = Shelf(os.fspath(folder))
    try:
        until(lambda: shelf.catalog() is not None)
        first = shelf.catalog()
        with open_editor(home) as editor:
            for number in range(8):
                editor.add_block(editor.create(**{**NOTHING, "city": f"Town {number}"}), f"10.77.{number}.0/24")
        from geolookup.share.build import key_of
        from geolookup.state.base.current import read_current

        wanted = key_of(read_current(home), OWN)
        until(lambda: (found := shelf.catalog()) is not None and found.key == wanted)
    finally:
        builder.close()
    assert first is not None
    assert all(ended <= began for (_, ended), (began, _) in itertools.pairwise(builds))
    assert len(builds) < 8  # those in between were never built
    assert not any(name.startswith(".new-") for name in os.listdir(folder / "files"))


def test_what_a_killed_build_left_is_removed(running: RunningShare, clock: Clock) -> None:
    left = running.folder / "files" / ".new-killed"
    left.write_bytes(b"x")
    running.builder._bench.sweep(clock.now)
    assert not left.exists()


def test_a_build_that_fails_is_tried_again_later_and_the_last_one_stays(
    running: RunningShare, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[float] = []
    monkeypatch.setattr(running.builder, "_build", lambda: calls.append(time.monotonic()))  # which is false
    edit(running, "Potsdam")
    running.builder.step()
    running.builder.step()
    assert len(calls) == 1
    with running.client() as client:
        assert client.get(CITY).status_code == 200
    running.builder._retries._not_before = 0.0
    running.builder.step()
    assert len(calls) == 2
    assert running.builder._retries._not_before - time.monotonic() > 15  # each wait is twice as long
    monkeypatch.undo()
    edit(running, "Teltow")  # a newer publish is built at once
    running.builder.step()
    with running.client() as client:
        assert client.get("/databases").json()["published_at"]


def test_a_second_share_of_a_state_has_a_folder_of_its_own(tmp_path: Path) -> None:
    home = state(tmp_path)
    with shelf_folder(home) as first, shelf_folder(home) as second:
        assert first == os.path.join(home, "share")
        assert second != first
        assert os.stat(first).st_mode & 0o777 == os.stat(second).st_mode & 0o777 == 0o700
    assert not os.path.exists(second)
    with shelf_folder(home) as again:
        assert again == first


# Editions


def test_a_name_of_an_edition_says_what_is_in_it() -> None:
    names = [
        "GeoLite2-City",
        "GeoLite2-Country",
        "GeoIP2-Enterprise",
        "GeoLite2-ASN",
        "GeoLite2-City",
        "geolookup-City",
    ]
    found = editions(names)
    assert [each.name for each in found] == [*(each.name for each in OWN), *names[:4]]
    assert [(each.kind.holding, each.kind.precision) for each in found[4:]] == [
        ("both", None),
        ("both", "country"),
        ("all", None),
        ("network", None),
    ]
    for name in ("GeoLite2-Weather", "ASN ", "", "../City", "City.mmdb", "City\n", "x" * 60 + "-City", "a/City"):
        with pytest.raises(SettingsError, match="edition"):
            editions([name])


def until(holds: Any) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        threading.Event().wait(0.05)


def test_notes_of_what_was_named_are_few_and_go(running: RunningShare, clock: Clock) -> None:
    with running.client() as client:
        for _ in range(20):
            client.get("/geoip/updates/metadata?edition_id=GeoLite2-City,geolookup-City")
    assert len(os.listdir(running.folder / "named")) == 2
    clock.now += 700
    running.builder._bench.sweep(clock.now)
    assert os.listdir(running.folder / "named") == []
