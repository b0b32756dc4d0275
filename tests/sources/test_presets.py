"""Presets: whole, and honest about what was tried."""

import pytest

from geolookup.errors import SettingsError
from geolookup.settings import times
from geolookup.sources.detect import named
from geolookup.sources.providers import PRESETS, preset


def test_the_contracts_presets_are_there_and_complete() -> None:
    assert [found.name for found in PRESETS] == [
        *("rir", "dbip-city-lite", "dbip-country-lite", "geolite2-city", "geolite2-country"),
        *("ipinfo-lite", "ip2location-lite-db11"),
    ]
    for found in PRESETS:
        assert found.location.startswith("https://")
        assert found.licence_url.startswith("https://")
        assert found.documentation.startswith("https://")
        assert found.attribution
        assert named(found.kind).name == found.kind
        assert times.seconds(found.max_age) > 0
        assert ("{token}" in found.location) == (found.auth == "token")
        assert not found.tried


def test_what_geolite2_asks_for() -> None:
    found = preset("geolite2-city")
    assert (found.keep_days, found.redistribute, found.auth) == (30, False, "basic")
    assert found.location == "https://download.maxmind.com/geoip/databases/GeoLite2-City/download?suffix=tar.gz"


def test_an_unknown_preset_is_told_which_there_are() -> None:
    with pytest.raises(SettingsError, match="'dbip' is an unknown preset: there are rir, dbip-city-lite"):
        preset("dbip")
