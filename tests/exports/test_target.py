"""A file appears once it is complete and durable, or not at all; licences are heeded before anything is written."""

import io
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest

import geolookup
from geolookup.exports import target
from tests.exports.states import publish_sources
from tests.support.data.states import place, publish


@pytest.fixture
def geo(home: str) -> Any:
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    with geolookup.open(home) as opened:
        yield opened


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in ("state", "home"))


def test_a_file_is_replaced_and_keeps_its_mode(geo: geolookup.GeoLookup, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("old")
    path.chmod(0o640)
    geolookup.export(geo, "csv", path)
    assert path.read_text().startswith("first,last,")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert names(tmp_path) == ["x.csv"]


@pytest.mark.parametrize("form", ["mmdb", "geofeed", "csv", "parquet"])
def test_a_file_that_is_open_for_text_is_refused_with_what_to_do(
    geo: geolookup.GeoLookup, tmp_path: Path, form: Any
) -> None:
    path = tmp_path / "x"
    with path.open("w") as text, tempfile.NamedTemporaryFile("w") as wrapped:
        for stream, name in ((text, str(path)), (wrapped, wrapped.name), (io.StringIO(), "StringIO"), (7, "int")):
            with pytest.raises(geolookup.DataFileError, match=f'^{re.escape(name)}: takes no bytes: open it with "wb"'):
                geolookup.export(geo, form, stream, layer="both")  # type: ignore[arg-type]
    assert path.read_bytes() == b""


@pytest.mark.parametrize("form", ["mmdb", "geofeed", "csv", "parquet"])
def test_an_interrupted_export_leaves_what_was_there(
    geo: geolookup.GeoLookup, tmp_path: Path, form: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    geo.fingerprint()  # which is kept, durably, too

    def interrupt(descriptor: int) -> None:
        assert len(names(tmp_path)) == 2, "there is a temporary file"
        raise KeyboardInterrupt

    monkeypatch.setattr(target.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        geolookup.export(geo, form, path)
    assert (names(tmp_path), path.read_text()) == (["x"], "old")


def test_bytes_are_durable_before_the_name(
    geo: geolookup.GeoLookup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = []
    for name in ("fsync", "rename"):
        original = getattr(os, name)
        monkeypatch.setattr(
            target.os, name, lambda *given, name=name, original=original: (order.append(name), original(*given))
        )
    geolookup.export(geo, "csv", tmp_path / "x.csv")
    assert order == ["fsync", "rename", "fsync"]


def test_a_full_disk_is_said(geo: geolookup.GeoLookup) -> None:
    with pytest.raises(geolookup.DataFileError, match=r"^/dev/full: writing failed: No space left"):
        geolookup.export(geo, "mmdb", "/dev/full")


def test_what_is_no_file_is_refused(geo: geolookup.GeoLookup, tmp_path: Path) -> None:
    with pytest.raises(geolookup.DataFileError, match="is a directory"):
        geolookup.export(geo, "csv", tmp_path)
    with pytest.raises(geolookup.DataFileError, match="its folder is not there: make it first, or name another"):
        geolookup.export(geo, "csv", tmp_path / "none" / "x.csv")


def test_options_of_another_format_are_refused(geo: geolookup.GeoLookup, tmp_path: Path) -> None:
    path = tmp_path / "x"
    for form, option, message in (
        ("csv", {"postal_codes": True}, "`postal_codes` is for geofeed, not for csv"),
        ("mmdb", {"networks": True}, "`networks` is for csv and parquet, not for mmdb"),
        ("mmdb", {"fields": "latitude"}, "must be one of city, country"),
        ("mmdb", {"database_type": ""}, "1 to 100 printable characters"),
        ("geofeed", {"fields": "city"}, "`fields` is for mmdb and csv and parquet, not for geofeed"),
        ("csv", {"layer": "overlay"}, "must be one of custom, default, both"),
        ("xml", {}, "unknown format 'xml': the formats are mmdb, geofeed, csv, parquet"),
    ):
        with pytest.raises(geolookup.SettingsError, match=message):
            geolookup.export(geo, form, path, **option)  # type: ignore[arg-type]
    assert not path.exists()


def test_progress_rises_to_all(geo: geolookup.GeoLookup, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    geolookup.export(geo, "mmdb", tmp_path / "x", progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert len(told) > 5
    assert told[-1] == (1000, 1000)


def test_data_that_must_not_be_handed_on_are_refused(home: str, tmp_path: Path) -> None:
    publish_sources(home, tmp_path, redistribute=False)
    path = tmp_path / "x.mmdb"
    with geolookup.open(home) as geo:
        with pytest.raises(geolookup.LicenceError, match=r"city \(Test Licence\) answers .* --licence-allows"):
            geolookup.export(geo, "mmdb", path)
        assert not path.exists()
        # Nothing of it is in these.
        assert geolookup.export(geo, "mmdb", path, source="country").ranges > 0
        assert geolookup.export(geo, "csv", path, layer="custom").ranges == 0
        written = geolookup.export(geo, "mmdb", path, licence_allows=True)
    assert written.attributions == ("City data by Example (https://example.com)",)


def test_a_licence_is_known_without_current(home: str, tmp_path: Path) -> None:
    """What the last sync knew is lost with CURRENT: then the snapshot tells."""
    publish_sources(home, tmp_path, redistribute=False)
    (Path(home) / "CURRENT").write_text("damaged")
    with geolookup.open(home) as geo:
        assert not geo.status().sources[0].redistribute
        with pytest.raises(geolookup.LicenceError):
            geolookup.export(geo, "csv", tmp_path / "x.csv")
