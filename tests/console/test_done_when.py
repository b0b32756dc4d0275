"""A person who has only the pages: from an empty state to a rollback, against a real service on loopback."""

from pathlib import Path
from typing import Any

from geolookup.service.geolocations.loader import load_files
from geolookup.settings.table import Settings
from tests.support.services.running_service import FIELDS, RunningService
from tests.support.services.service_fixtures import DEFAULTS
from tests.support.users.browser import Watched
from tests.support.users.running_console import RunningConsole


class Person:
    """Clicks and types, and reads what the page says."""

    def __init__(self, tab: Any) -> None:
        self.tab = tab

    def go(self, name: str) -> None:
        self.tab.get_by_role("navigation", name="Pages").get_by_role("link", name=name, exact=True).click()
        self.tab.get_by_role("heading", level=1).wait_for()

    def click(self, name: str, *, link: bool = False, exact: bool = True) -> None:
        self.tab.get_by_role("link" if link else "button", name=name, exact=exact).first.click()

    def look_up(self, address: str) -> str:
        """What the page says about an address."""
        self.go("Look up")
        self.tab.get_by_label("Address, network, range or site").fill(address)
        self.click("Look up")
        return str(self.tab.get_by_role("region", name=address).locator(".place").inner_text())

    def push(self) -> str:
        """Push what waits, and what the page says at its end."""
        self.go("Changes to send")
        self.click("Send to the service", link=True)
        self.click("Send these changes")
        self.tab.get_by_text(" sent in ").wait_for()
        return str(self.tab.locator("#run").inner_text())

    def sync(self) -> None:
        """Sync, and wait for its end."""
        self.go("Sources")
        self.click("Update now")
        self.tab.get_by_role("link", name="To the sources").wait_for()


def test_a_person_corrects_pushes_resolves_a_conflict_and_rolls_back_a_bad_night(tmp_path: Path, browser: Any) -> None:
    csv = tmp_path / "defaults.csv"
    csv.write_text(DEFAULTS)
    with RunningService(tmp_path / "service.db", load=[csv]) as service:
        settings = Settings(url=service.url, attempts=1)
        with RunningConsole(tmp_path / "home", settings=lambda: settings) as console:
            watched = Watched(browser, console.url)
            tab = watched.page()
            person = Person(tab)
            tab.goto(console.address)
            assert tab.url == f"{console.url}/"

            # An empty state.
            person.sync()
            assert person.look_up("192.0.2.5") == "Austin, TX, 78701, US"

            # A correction, and whose answer it changes.
            person.click("Correct this for 192.0.2.0/25 (128 addresses)", link=True)
            tab.get_by_label("City").fill("Round Rock")
            person.click("Show whose answer would change")
            changes = tab.get_by_role("region", name="Whose answer would change").inner_text()
            assert "Addresses whose answer differs: 128 IPv4, 0 IPv6." in changes
            assert "Austin" in changes
            assert "Round Rock" in changes
            person.click("Create this site")
            assert "Created Round Rock" in tab.get_by_role("status").inner_text()
            assert person.look_up("192.0.2.5").startswith("Round Rock, TX")

            # To the service.
            assert "2 sent in" in person.push()
            with service.client() as client:
                (there,) = [place for place in client.get("/geolocations").json() if place["locid"] < 0]
            assert there["city"] == "Round Rock"
            assert [(block["startip"], block["endip"]) for block in there["ipblocks"]] == [("192.0.2.0", "192.0.2.127")]

            # A conflict: somebody else changes the same place meanwhile.
            person.look_up("192.0.2.5")
            person.click("Correct this site", link=True)
            tab.get_by_label("City").fill("Pflugerville")
            person.click("Show whose answer would change")
            person.click("Save this place")
            with service.client() as client:
                body = {**{name: there[name] for name in FIELDS}, "city": "Georgetown"}
                client.put(f"/geolocations?locid={there['locid']}", json=body).raise_for_status()
            assert "1 for you to decide" in person.push()
            person.click("Decide", link=True)
            city = tab.get_by_role("row").filter(has=tab.get_by_role("rowheader", name="city", exact=True)).inner_text()
            assert [cell.strip() for cell in city.split("\t")][:3] == ["city", "Round Rock", "Pflugerville"]
            assert "Georgetown" in city
            person.click("Keep mine, overwrite theirs", link=True)
            person.click("Keep mine, overwrite theirs")
            assert "1 sent in" in person.push()
            with service.client() as client:
                assert client.get(f"/geolocations?locid={there['locid']}").json()[0]["city"] == "Pflugerville"

            # A bad night: what the service has by default is wrong, and served.
            csv.write_text(DEFAULTS.replace("Austin", "Wrongtown"))
            load_files(service.store, [csv])
            person.sync()
            assert person.look_up("198.51.100.7").startswith("Wrongtown")
            person.go("Versions")
            person.click("what changed since", link=True, exact=False)
            assert "Wrongtown" in tab.locator("main").inner_text()
            person.go("Versions")
            person.click("Roll back to this version", link=True, exact=False)
            person.click("Roll back to this version")
            tab.get_by_role("status").wait_for()
            assert person.look_up("198.51.100.7").startswith("Austin")
            assert person.look_up("192.0.2.5").startswith("Pflugerville")
            watched.close()
            assert watched.unwanted == []
