"""Lookups of a share in a routing domain (VRF)."""

from pathlib import Path

from tests.state.test_vrfs import state
from tests.support.services.running_share import RunningShare


def test_a_share_answers_in_the_vrf_that_is_asked_for(tmp_path: Path) -> None:
    geo = state(tmp_path / "state")
    geo.edit().put_vrf_place("CUST-A", "office", country="NL", city="Utrecht", blocks=["10.1.2.0/24"])
    with RunningShare(geo.home, tmp_path / "built") as running, running.client() as client:
        assert client.get("/lookup/10.1.2.3").json()["city"] == "Bonn"
        for _ in range(2):
            assert client.get("/lookup/10.1.2.3", params={"vrf": "CUST-A"}).json()["city"] == "Utrecht"
        many = client.post("/lookup", params={"vrf": "CUST-A"}, json=["10.1.2.3", "10.1.3.3"]).json()
        assert [each["city"] for each in many] == ["Utrecht", "Bonn"]
        refused = client.get("/lookup/10.1.2.3", params={"vrf": "CUST-B"})
        assert (refused.status_code, refused.json()["type"]) == (400, "urn:geolookup:problem:invalid-parameter")
        assert "CUST-A" not in refused.text
