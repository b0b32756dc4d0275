"""Django's class for lookups on a state, where it does more than Django's own."""

from pathlib import Path

import pytest

pytest.importorskip("django", reason="Django comes with the extra test")

from django.conf import settings
from django.test import override_settings

import geolookup
from geolookup.compat.django import GeoIP2, GeoIP2Exception
from tests.compat.test_geoip2 import file_of, sync

if not settings.configured:
    settings.configure()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "own.csv").write_text("network,country,city\n192.0.2.0/24,DE,Bonn\n")
    sync(tmp_path / "state", ("own", str(tmp_path / "own.csv")))
    return tmp_path / "state"


def test_the_setting_names_the_state_whatever_the_files_are_called(home: Path) -> None:
    with override_settings(GEOIP_PATH=home, GEOIP_CITY="a.mmdb", GEOIP_COUNTRY="b.mmdb"):
        found = GeoIP2(city="c.mmdb")
    assert found.city("192.0.2.1")["city"] == "Bonn"
    assert found.country("192.0.2.1")["country_name"] == "Germany"


def test_without_the_setting_the_variable_names_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", str(home))
    assert GeoIP2().country_code("192.0.2.1") == "DE"
    with override_settings(GEOIP_PATH=home / "none"), pytest.raises(GeoIP2Exception, match="geolookup sync"):
        GeoIP2()


def test_an_edit_is_seen_by_an_object_that_is_kept(home: Path) -> None:
    found = GeoIP2(home)
    assert found.city("192.0.2.1")["city"] == "Bonn"
    with geolookup.open_editor(home) as editor:
        texts = dict.fromkeys(("region", "postalcode", "dmacode", "areacode"), "")
        locid = editor.create(country="AT", city="Wien", latitude=48.2, longitude=16.4, **texts)  # type: ignore[typeddict-item]
        editor.add_block(locid, "192.0.2.1")
    assert found.city("192.0.2.1")["city"] == "Wien"
    assert found.lat_lon("192.0.2.1") == (48.2, 16.4)


def test_a_state_that_becomes_one_of_cities_answers_for_cities(tmp_path: Path) -> None:
    country = "country", str(file_of("GeoIP2-Country-Test"))
    sync(tmp_path, country)
    found = GeoIP2(tmp_path)
    assert (found.is_city, found.is_country) == (False, True)
    with pytest.raises(GeoIP2Exception, match="Invalid GeoIP city data file"):
        found.city("81.2.69.160")
    sync(tmp_path, ("city", str(file_of("GeoIP2-City-Test"))), country)
    found._reader._db_reader._geo.look_soon()
    assert found.city("81.2.69.160")["city"] == "London"
