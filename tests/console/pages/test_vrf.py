"""The page Look up in a routing domain (VRF)."""

import msgspec
import pytest

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


def test_the_answer_of_a_vrf_names_it_with_its_site_and_its_reason(console: RunningConsole, mine: Visitor) -> None:
    editor = console.console.editor()
    editor.create(name="Hamburg office", country="DE", city="Hamburg", blocks=["10.20.0.0/20"])
    editor.put_vrf_place("CUST-N", "Utrecht office", country="NL", city="Utrecht", blocks=["10.20.0.0/24"])
    text = mine.get("/?q=10.20.0.1&vrf=CUST-N").text
    assert "Utrecht office<br>" in text
    assert "<dt>Routing domain (VRF)</dt><dd>CUST-N</dd>" in text
    assert "a network of the VRF CUST-N comes before all others" in text
    assert "your site in CUST-N" in text
    assert "Correct this" not in text  # the form would make a site of the global table
    beside = mine.get("/?q=10.20.1.1&vrf=CUST-N").text
    assert "Hamburg office</a><br>" in beside
    assert "Correct this" in beside
    assert "<dt>Routing domain (VRF)</dt>" not in beside
    pieces = mine.get("/?q=10.20.0.0/20&vrf=CUST-N").text
    assert "Utrecht office: Utrecht, NL" in pieces
    assert "&amp;vrf=CUST-N" in pieces
    assert "Correct this" not in pieces


def test_the_vrf_of_the_settings_is_chosen_until_another_is(
    console: RunningConsole, mine: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    console.console.editor().put_vrf_place("CUST-A", "office", country="NL", city="Utrecht", blocks=["10.20.0.0/24"])
    settings = msgspec.structs.replace(console.console.settings(), vrf="CUST-A")
    monkeypatch.setattr(console.console, "settings", lambda: settings)
    text = mine.get("/?q=10.20.0.1").text
    assert "Utrecht, NL" in text
    assert "<option selected>CUST-A</option>" in text
    none = mine.get("/?q=10.20.0.0/16&vrf=").text
    assert "Utrecht" not in none
    assert "&amp;vrf=&amp;" in none or '&amp;vrf="' in none


def test_the_history_names_the_site_of_a_vrf_and_leads_to_no_page_that_is_not_there(
    console: RunningConsole, mine: Visitor
) -> None:
    locid = console.console.editor().put_vrf_place("CUST-H", "Hall 7", country="NL", blocks=["10.77.0.0/24"])
    text = mine.get("/history").text
    assert "Hall 7 of the VRF CUST-H" in text
    assert "site of a routing domain" in text
    assert f"/custom/{locid}" not in text
