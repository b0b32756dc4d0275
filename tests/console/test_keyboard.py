"""A person without a mouse: corrects an address, settles a conflict, uploads a sheet and rolls back."""

from pathlib import Path
from typing import Any

from geolookup.settings.table import Settings
from geolookup.sync.pull.pull import pull
from tests.console.pages.test_sheet import HEAD, LYON
from tests.support.services.running_service import FIELDS, RunningService
from tests.support.services.service_fixtures import DEFAULTS
from tests.support.users.browser import Watched, settled
from tests.support.users.running_console import RunningConsole

#: The name of what has the focus, as a person hears it, and whether it can be seen where that is.
_FOCUSED = """() => {
  const each = document.activeElement, style = getComputedStyle(each);
  const label = each.labels && each.labels.length ? each.labels[0].textContent : each.getAttribute('aria-label');
  const name = (label || each.textContent || '').replace(/\\s+/g, ' ').trim();
  return [name, ['BODY', 'MAIN'].includes(each.tagName) || style.outlineStyle === 'solid'];
}"""


class Keys:
    """Presses keys, and nothing else."""

    def __init__(self, tab: Any) -> None:
        self.tab = tab

    def reach(self, name: str) -> None:
        """Press Tab until the control of this name has the focus, which can be seen at each step."""
        settled(self.tab)
        passed = []
        for _ in range(60):
            focused, seen = self.tab.evaluate(_FOCUSED)
            assert seen, focused
            if focused.startswith(name):
                return
            passed.append(focused)
            self.tab.keyboard.press("Tab")
        raise AssertionError(f"{name} was not reached: {passed}")

    def press(self, name: str) -> None:
        """Reach a link or a button, and press it; what it leads to is there afterwards."""
        self.reach(name)
        self.tab.keyboard.press("Enter")

    def go(self, page: str) -> None:
        """Go to a page by the navigation."""
        self.tab.evaluate("document.activeElement.blur()")
        self.press(page)
        self.tab.get_by_role("heading", level=1).wait_for()

    def type(self, name: str, text: str) -> None:
        """Reach a field, and type over what it has."""
        self.reach(name)
        self.tab.keyboard.press("Control+A")
        self.tab.keyboard.type(text)


def correct(keys: Keys, address: str, city: str, button: str) -> None:
    """Look an address up, and correct its city."""
    keys.tab.goto(keys.tab.url.split("/", 3)[0] + "//" + keys.tab.url.split("/", 3)[2])
    keys.type("Address, network, range or site", address)
    keys.tab.keyboard.press("Enter")
    keys.tab.get_by_role("heading", name=address).wait_for()
    keys.press("Correct this")
    keys.tab.wait_for_url("**/custom/**")
    keys.type("City", city)
    keys.press("Show whose answer would change")
    keys.tab.get_by_role("button", name=button).wait_for()
    keys.press(button)
    keys.tab.get_by_role("heading", level=1, name=city).wait_for()


def test_all_that_matters_is_done_by_the_keyboard_alone(tmp_path: Path, browser: Any) -> None:
    csv = tmp_path / "defaults.csv"
    csv.write_text(DEFAULTS)
    with RunningService(tmp_path / "service.db", load=[csv]) as service:
        settings = Settings(url=service.url, attempts=1)
        locid = service.create(("192.0.2.0", "192.0.2.127"), city="Oldtown")
        with RunningConsole(tmp_path / "home", settings=lambda: settings) as console:
            pull(console.console.directory(), settings)
            watched = Watched(browser, console.url)
            tab = watched.page()
            tab.goto(console.address)
            keys = Keys(tab)

            correct(keys, "192.0.2.5", "Newtown", "Save this place")

            # Somebody else changed it too.
            with service.client() as client:
                client.put(f"/geolocations?locid={locid}", json={**FIELDS, "city": "Theirs"}).raise_for_status()
            keys.go("Changes to send")
            keys.press("Send to the service")
            tab.get_by_role("button", name="Send these changes").wait_for()
            keys.press("Send these changes")
            tab.get_by_role("link", name="Decide").wait_for()
            keys.press("Decide")
            tab.get_by_role("link", name="Keep mine, overwrite theirs").wait_for()
            keys.press("Keep mine, overwrite theirs")
            tab.get_by_role("button", name="Keep mine, overwrite theirs").wait_for()
            keys.press("Keep mine, overwrite theirs")
            tab.get_by_role("status").wait_for()
            assert "to be sent" in tab.get_by_role("status").inner_text()

            # A sheet: the dialog of files is the browser's own.
            (tmp_path / "sites.csv").write_text(HEAD + LYON, encoding="utf-8")
            keys.go("Sites")
            keys.press("Upload a sheet")
            tab.get_by_label("Your sheet").wait_for()
            keys.reach("Your sheet")
            tab.get_by_label("Your sheet").set_input_files(tmp_path / "sites.csv")
            keys.press("Show what it would change")
            tab.get_by_role("button", name="Make these changes").wait_for()
            keys.press("Make these changes")
            tab.get_by_text("changes made from sites.csv").wait_for()

            # A bad night.
            with service.client() as client:
                client.post("/geolocations", json={**FIELDS, "city": "Bad"}).raise_for_status()
            pull(console.console.directory(), settings)
            served = console.console.directory().require_current().generation
            keys.go("Versions")
            keys.press("Roll back to this version")
            tab.get_by_role("button", name="Roll back to this version").wait_for()
            keys.press("Roll back to this version")
            tab.get_by_role("status").wait_for()
            assert console.console.directory().require_current().generation != served
            watched.close()
            assert watched.unwanted == []
