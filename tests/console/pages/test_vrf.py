"""The page Look up in a routing domain (VRF)."""

from tests.support.users.running_console import RunningConsole, Visitor


def test_a_state_without_vrfs_does_not_offer_them(mine: Visitor) -> None:
    assert "Routing domain" not in mine.get("/?q=10.20.0.1").text


def test_an_address_is_looked_up_in_the_vrf_that_is_chosen(console: RunningConsole, mine: Visitor) -> None:
    assert "Berlin, DE" in mine.get("/?q=10.20.0.1").text
    console.console.editor().put_vrf_place("CUST-A", "office", country="NL", city="Utrecht", blocks=["10.20.0.0/24"])
    text = mine.get("/?q=10.20.0.1&vrf=CUST-A").text
    assert "Utrecht, NL" in text
    assert "<option selected>CUST-A</option>" in text
    assert "Berlin, DE" in mine.get("/?q=10.20.0.1").text
    assert "no VRF is named" in mine.get("/?q=10.20.0.1&vrf=CUST-B").text
