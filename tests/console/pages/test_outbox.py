"""The page Outbox, against a real service: what a push would send, the push, a conflict, and what a person decides."""

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from geolookup.model.errors import StateBusyError
from geolookup.settings.table import Settings
from geolookup.state.edits.outbox.row import State
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.restore import restore
from geolookup.sync.opening import open_editor
from geolookup.sync.pull.pull import pull
from geolookup.sync.push.push import push
from tests.support.data.two_sources import NOTHING
from tests.support.services.running_service import FIELDS, RunningService
from tests.support.services.service_fixtures import DEFAULTS
from tests.support.users.running_console import RunningConsole, Visitor, hidden


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("service")
    csv = folder / "defaults.csv"
    csv.write_text(DEFAULTS)
    with RunningService(folder / "service.db", load=[csv]) as running:
        running.create(("10.1.0.0", "10.1.0.255"), city="Oldtown")
        yield running


@pytest.fixture(scope="module")
def console(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """A console of a state that was pulled from the service."""
    home = str(tmp_path_factory.mktemp("console") / "home")
    settings = Settings(url=service.url, attempts=1)
    pull(StateDirectory(home), settings)
    with RunningConsole(home, settings=lambda: settings) as running:
        yield running


def edit(console: RunningConsole, work: Callable[[Any], Any]) -> Any:
    """Edit as a command does."""
    with open_editor(console.home, settings=console.console.settings()) as editor:
        return work(editor)


def change_there(service: RunningService, locid: int, **fields: Any) -> None:
    """Somebody else changes a geolocation at the service."""
    with service.client() as client:
        client.put(f"/geolocations?locid={locid}", json={**FIELDS, **fields}).raise_for_status()


def pushed(tab: Any) -> str:
    """Push from the outbox, wait for its end, and say what it said."""
    tab.get_by_role("link", name="Send to the service", exact=True).click()
    tab.get_by_role("button", name="Send these changes").click()
    tab.get_by_text(" sent in ").wait_for()
    return str(tab.locator("#run").inner_text())


def test_a_person_pushes_meets_a_conflict_and_takes_theirs(
    tab: Any, console: RunningConsole, service: RunningService
) -> None:
    edit(console, lambda editor: editor.update(-1, city="Mine"))
    number = edit(console, lambda editor: editor.pending()[-1].id)
    tab.goto(f"{console.url}/outbox")
    assert "1 change to send" in tab.locator("main").inner_text()
    tab.get_by_role("link", name="Send to the service", exact=True).click()
    plan = tab.get_by_role("region", name="Requests").inner_text()
    assert "PUT /geolocations?locid=-1" in plan
    assert f"change {number}: update geolocation -1" in plan
    tab.get_by_role("link", name="Cancel").click()
    change_there(service, -1, city="Theirs")
    assert "Decide: update geolocation -1" in pushed(tab)
    tab.get_by_role("link", name="To all changes").click()
    assert "1 of them waits for your decision" in tab.locator("main").inner_text()
    tab.get_by_role("link", name="Mine,").click()
    row = tab.get_by_role("row").filter(has=tab.get_by_role("rowheader", name="city", exact=True))
    assert row.inner_text().split("\t")[:3] == ["city", "Oldtown", "Mine"]
    assert "Theirs" in row.get_by_role("cell").nth(2).inner_text()
    tab.get_by_role("link", name="Keep theirs").click()
    assert "Mine" in tab.get_by_role("region", name="Whose answer would change").inner_text()
    tab.get_by_role("button", name="Keep theirs").click()
    assert f"change {number} (change the place of mine, us): given up" in (
        tab.get_by_role("status").inner_text().casefold()
    )
    assert edit(console, lambda editor: editor.pending()) == []


def test_mine_may_go_over_theirs(tab: Any, console: RunningConsole, service: RunningService) -> None:
    locid = service.create(("10.2.0.0", "10.2.0.255"), city="Before")
    pull(StateDirectory(console.home), console.console.settings())
    edit(console, lambda editor: editor.update(locid, city="Mine"))
    change_there(service, locid, city="Theirs")
    tab.goto(f"{console.url}/outbox")
    assert "1 for you to decide" in pushed(tab)
    tab.get_by_role("link", name="Decide", exact=True).click()
    tab.get_by_role("link", name="Keep mine, overwrite theirs").click()
    tab.get_by_role("button", name="Keep mine, overwrite theirs").click()
    assert "(change the place of Mine, US): to be sent" in tab.get_by_role("status").inner_text()
    tab.goto(f"{console.url}/outbox")
    assert "1 sent in" in pushed(tab)
    with service.client() as client:
        (there,) = client.get(f"/geolocations?locid={locid}").json()
    assert there["city"] == "Mine"


def test_an_edit_is_amended_before_it_is_sent(console: RunningConsole, mine: Visitor) -> None:
    locid = edit(console, lambda editor: editor.create(**{**NOTHING, "city": "Tpyo"}))
    edit(console, lambda editor: editor.add_block(locid, "10.3.0.0/24"))
    create, block = edit(console, lambda editor: [row.id for row in editor.pending()[-2:]])
    fields = {**{name: str(value) for name, value in NOTHING.items()}, "city": "Typo"}
    assert "Typo" in mine.fill(f"/outbox/{create}/edit", **fields, step="check").text
    told = mine.save(f"/outbox/{create}/edit", **fields).text
    assert re.search(rf"Change {create} \(create Tpyo.*?\): to be sent", told)
    mine.save(f"/outbox/{block}/edit", block="10.3.0.0/25")
    place = edit(console, lambda editor: editor.get(locid).place)
    assert (place.city, [str(each) for each in place.ipblocks]) == ("Typo", ["10.3.0.0-10.3.0.127"])
    looked = mine.get(f"/outbox/{create}/drop")
    told = mine.post(f"/outbox/{create}/drop", data={**hidden(looked.text), "step": "save"}).text
    assert re.search(rf"Change {create} \(create Typo.*?\): given up; Change {block} \(add 10.3.0.0/25 to Typo", told)


def test_a_decision_that_was_overtaken_is_not_made(console: RunningConsole, mine: Visitor) -> None:
    locid = edit(console, lambda editor: editor.create(**NOTHING))
    number = edit(console, lambda editor: editor.pending()[-1].id)
    looked = mine.get(f"/outbox/{number}/drop")
    edit(console, lambda editor: editor.amend(number, fields={"city": "Meanwhile"}))
    answer = mine.post(f"/outbox/{number}/drop", data={**hidden(looked.text), "step": "save"})
    assert answer.status_code == 409
    assert "<dd>Meanwhile</dd>" in answer.text
    assert edit(console, lambda editor: editor.edit(number)).state == State.QUEUED
    edit(console, lambda editor: editor.delete(locid))


def test_what_a_restore_left_in_doubt_may_be_left_as_the_service_has_it(
    tmp_path: Path, service: RunningService
) -> None:
    home, settings = str(tmp_path / "home"), Settings(url=service.url, attempts=1, settle_s=0.0)
    directory = StateDirectory(home)
    locid = service.create(*((f"10.6.{third}.0", f"10.6.{third}.255") for third in range(3)), city="Thrice")
    pull(directory, settings)
    with open_editor(home) as editor:
        editor.remove_block(locid, "10.6.0.0/24")
    shutil.copy(directory.edits.path, tmp_path / "older.db")
    push(directory, settings)
    with open_editor(home) as editor:
        editor.remove_block(locid, "10.6.1.0/24")
    push(directory, settings)
    restore(directory, str(tmp_path / "older.db"))
    push(directory, settings)
    with RunningConsole(home, settings=lambda: settings) as running, running.client() as client:
        assert "Leave it as the service has it" in client.get("/outbox/1").text
        looked = client.get("/outbox/1/adopt")
        client.post("/outbox/1/adopt", data={**hidden(looked.text), "step": "save"}).raise_for_status()
    push(directory, settings)
    pull(directory, settings)
    with open_editor(home) as editor:
        assert [str(each) for each in editor.get(locid).place.ipblocks] == ["10.6.2.0-10.6.2.255"]
        assert editor.pending() == []


def test_the_edits_are_listed_by_state(mine: Visitor) -> None:
    assert "dropped" in mine.get("/outbox?state=dropped").text
    assert "No change is in this state." in mine.get("/outbox?state=rejected").text
    assert mine.get("/outbox/999999").status_code == 409
    assert mine.get("/outbox/1/nothing").status_code == 404
    assert mine.get("/custom/-1/nothing").status_code == 404


def test_a_service_that_does_not_answer_is_said(tmp_path: Path, service: RunningService) -> None:
    home = str(tmp_path / "home")
    pull(StateDirectory(home), Settings(url=service.url, attempts=1))
    with open_editor(home) as editor:
        editor.create(**NOTHING)
    gone = Settings(url="http://127.0.0.1:9", attempts=1)
    with RunningConsole(home, settings=lambda: gone) as running, running.client() as client:
        assert f"this state belongs to {service.url}" in client.get("/outbox/plan").text
        client.post("/outbox/push", data=hidden(client.get("/").text))
        running.console.runs.wait()
        assert f"this state belongs to {service.url}" in client.get("/outbox/push").text


def test_a_run_goes_on_without_its_page_and_is_found_again(console: RunningConsole, mine: Visitor) -> None:
    going, end = threading.Event(), threading.Event()

    def work(run: Any) -> None:
        run.progress(1, 3)
        going.set()
        assert end.wait(60)

    runs = console.console.runs
    runs.start("push", work)
    assert going.wait(60)
    for _ in range(2):
        page = mine.get("/outbox/push").text
        assert "Under way since" in page
        assert ": 1 of 3 changes." in page
        assert '<meta http-equiv="refresh" content="2">' in page
    assert "Changes are being sent" in mine.get("/outbox").text
    with pytest.raises(StateBusyError, match="a push is under way since"):
        runs.start("push", work)
    answer = mine.post("/outbox/push", data=hidden(mine.get("/").text))
    assert (answer.status_code, answer.url.path) == (200, "/outbox/push")
    assert "a push is under way since" in answer.text
    end.set()
    runs.wait()
    page = mine.get("/outbox/push").text
    assert "Under way" not in page
    assert "http-equiv" not in page
