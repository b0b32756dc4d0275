"""Commands in a routing domain (VRF)."""

import csv
import json
from pathlib import Path

import pytest

from tests.cli.lookup.test_lookup import command
from tests.state.test_vrfs import state


@pytest.fixture
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A state in which two VRFs have the same block."""
    geo = state(tmp_path / "state")
    editor = geo.edit()
    editor.create(country="FR", city="Paris", blocks=["10.1.0.0/16"])
    editor.put_vrf_place("CUST-A", "office", country="NL", city="Utrecht", blocks=["10.1.2.0/24"])
    editor.put_vrf_place("CUST-B", "office", country="GB", city="London", blocks=["10.1.2.0/24"])
    monkeypatch.setenv("GEOLOOKUP_HOME", geo.home)
    return geo.home


@pytest.mark.usefixtures("state_home")
def test_an_address_is_looked_up_in_a_vrf() -> None:
    for vrf, city in ((None, "Paris"), ("CUST-A", "Utrecht"), ("CUST-B", "London")):
        done = command("lookup", "10.1.2.3", "--json", *(() if vrf is None else ("--vrf", vrf)))
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)[0]["city"] == city
    done = command("lookup", "10.1.2.3", "--vrf", "CUST-C")
    assert done.returncode == 2
    assert "no VRF is named 'CUST-C': there are CUST-A, CUST-B" in done.stderr.decode()


@pytest.mark.usefixtures("state_home")
def test_an_export_is_of_the_global_table_or_of_one_vrf(tmp_path: Path) -> None:
    found = {}
    for vrf in (None, "CUST-A"):
        target = tmp_path / f"{vrf}.csv"
        done = command("export", "csv", str(target), "--layer", "custom", *(() if vrf is None else ("--vrf", vrf)))
        assert done.returncode == 0, done.stderr
        with target.open(newline="") as file:
            found[vrf] = {(row["first"], row["city"]) for row in csv.DictReader(file)}
    assert found[None] == {("10.1.0.0", "Paris")}
    assert found["CUST-A"] == {("10.1.0.0", "Paris"), ("10.1.2.0", "Utrecht"), ("10.1.3.0", "Paris")}
