"""The routing domain (VRF) of the settings, `explain` in a VRF, and the name of a site before its place."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import geolookup
from geolookup.columns import arrow
from geolookup.compat.maxminddb import open_database
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import SettingsError, UnknownVrfError
from tests.cli.lookup.test_lookup import command
from tests.state.test_vrfs import state
from tests.support.services.running_share import ShareCommand


@pytest.fixture
def geo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GeoLookup:
    found = state(tmp_path / "state")
    editor = found.edit()
    editor.create(name="Paris office", country="FR", city="Paris", blocks=["10.1.0.0/16"])
    editor.put_vrf_place("CUST-A", "Utrecht office", country="NL", city="Utrecht", blocks=["10.1.2.0/24"])
    config = tmp_path / "geolookup.toml"
    config.write_text('vrf = "CUST-A"\n')
    monkeypatch.setenv("GEOLOOKUP_HOME", found.home)
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(config))
    return found


def test_the_vrf_of_the_settings_is_that_of_lookups_unless_another_is_named(geo: GeoLookup, tmp_path: Path) -> None:
    assert command("10.1.2.3").stdout.startswith(b"10.1.2.3\tUtrecht office: Utrecht, NL\t10.1.2.0-10.1.2.255")
    assert b"Paris office: Paris" in command("lookup", "--vrf", "", "10.1.2.3").stdout
    table = tmp_path / "a.csv"
    table.write_text("ip,vrf\n10.1.2.3,\n")
    assert command("enrich", str(table), "-", "--fields", "city").stdout.endswith(b"10.1.2.3,,Utrecht\n")
    assert b",,Paris\n" in command("enrich", str(table), "-", "--fields", "city", "--vrf", "").stdout
    (tmp_path / "geolookup.toml").write_text('vrf = "CUST-B"\n')
    wrong = command("10.1.2.3")
    assert (wrong.returncode, b"(the setting `vrf` names it)" in wrong.stderr) == (2, True)


def test_explain_names_the_block_of_the_vrf_first(geo: GeoLookup) -> None:
    told = command("explain", "10.1.2.3").stdout.decode().splitlines()
    assert "wins  10.1.2.0/24" in told[1] or "wins  10.1.2.0-10.1.2.255" in told[1]
    assert told[1].endswith(
        "site Utrecht office of the VRF CUST-A: a network of the VRF CUST-A comes before all others"
    )
    assert told[2].endswith("site Paris office: a network of the VRF CUST-A covers the address")
    covering = json.loads(command("explain", "10.1.2.3", "--json").stdout)["covering"]
    assert [(item["vrf"], item["site"], item["wins"]) for item in covering][:2] == [
        ("CUST-A", "Utrecht office", True),
        (None, "Paris office", False),
    ]
    outside = geo.in_vrf("CUST-A").explain("10.1.9.9")
    assert outside.since is not None
    assert next((item.vrf, item.wins) for item in outside.covering) == ("", True)


def test_the_name_of_a_site_stands_before_its_place(geo: GeoLookup) -> None:
    for vrf in ("CUST-A", ""):
        told = command("lookup", "10.1.9.9", "--vrf", vrf).stdout
        assert told.startswith(b"10.1.9.9\tParis office: Paris, FR\t"), vrf
    match = geo.match("10.1.2.3", vrf="CUST-A")
    assert match is not None
    assert match.site == "Utrecht office"


def test_the_vrf_of_the_settings_is_that_of_programs_and_of_all_commands_that_look_up(
    geo: GeoLookup, tmp_path: Path
) -> None:
    def city(**options: Any) -> object:
        with geolookup.open(**options) as opened:
            found = opened.match("10.1.2.3")
            assert found is not None
            assert opened.in_vrf("").match("10.1.2.3").city == "Paris"  # type: ignore[union-attr]
            assert opened.lookup("10.1.2.3", vrf="").city == "Paris"  # type: ignore[union-attr]
            return found.city

    assert (city(), city(vrf="CUST-A"), city(vrf="")) == ("Utrecht", "Utrecht", "Paris")
    with pytest.raises(UnknownVrfError, match="there are CUST-A"):
        geolookup.open(vrf="CUST-B")
    with pytest.raises(SettingsError, match="the VRF CUST-A has no past"):
        geolookup.open(as_of="served")
    assert city(as_of="served", vrf="") == "Paris"
    assert arrow.locate(None, pa.array(["10.1.2.3"]), "city").column(0).to_pylist() == ["Utrecht"]
    with open_database(geo.home) as database:
        assert database.get("10.1.2.3")["city"]["names"]["en"] == "Utrecht"  # type: ignore[index, call-overload]
    log = tmp_path / "access.log"
    log.write_text("10.1.2.3 -\n")
    for words, there in (
        (("annotate", "--fields", "city", str(log)), b"[Utrecht]"),
        (("annotate", "--fields", "city", "--vrf", "", str(log)), b"[Paris]"),
        (("top", "--by", "city", str(log)), b"Utrecht"),
        (("export", "csv", "-", "--fields", "city"), b"Paris"),
        (("list", "--blocks"), b"Paris"),
    ):
        told = command(*words)
        assert there in told.stdout, (words, told.stderr)
    assert b"Utrecht" not in command("export", "csv", "-").stdout + command("list", "--blocks").stdout


def test_a_map_of_the_sites_of_a_vrf_has_their_names(geo: GeoLookup, tmp_path: Path) -> None:
    picture = tmp_path / "sites.svg"
    assert command("map", "--custom", "-o", str(picture)).returncode == 0
    assert "Utrecht office" in picture.read_text()
    assert command("map", "--custom", "-o", str(picture), "--vrf", "").returncode == 0
    assert "Utrecht office" not in picture.read_text()
    assert "Paris office" in picture.read_text()


def test_a_share_answers_in_the_vrf_of_the_settings(geo: GeoLookup, tmp_path: Path) -> None:
    Path(geo.home).with_suffix(".toml").write_text('vrf = "CUST-A"\n')
    with ShareCommand(geo.home) as running, running.client() as client:
        for _ in range(2):
            assert client.get("/lookup/10.1.2.3").json()["vrf"] == "CUST-A"
            assert client.get("/lookup/10.1.2.3", params={"vrf": ""}).json()["city"] == "Paris"
        assert client.get("/geoip/v2.1/city/10.1.2.3").json()["city"]["names"]["en"] == "Utrecht"
