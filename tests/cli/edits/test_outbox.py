"""``geolookup outbox …`` in this process: what it prints, its JSON and its exit status."""

from pathlib import Path
from typing import Any

import pytest

from geolookup.model.types import PROVISIONAL_LOCID, IPBlock
from geolookup.state.edits.outbox.payload import values_of
from geolookup.state.edits.outbox.row import State
from geolookup.state.edits.places.place import Content
from tests.cli.edits.test_custom import CREATE, Command
from tests.support.data.states import place, publish
from tests.support.data.stations import acknowledge, stand
from tests.support.users.terminals import on_terminal

FIRST = PROVISIONAL_LOCID - 1


@pytest.fixture
def command(home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Two edits wait: a create (1), and a block of it (2)."""
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    publish(home, [place(1, "10.0.0.0/8"), place(-3, "10.9.0.0/16", latitude=1.0, longitude=2.0)])
    command = Command(capsys)
    command(*CREATE)
    command("custom", "add-block", FIRST, "10.20.0.0/16")
    return command


def test_the_list_tells_what_waits_and_all_on_demand(command: Command, home: str) -> None:
    stand(home, 1, State.HELD)
    assert command("outbox", "list") == (
        f"1\theld\tcreate geolocation {FIRST}\tof the test\n2\tqueued\tadd 10.20.0.0-10.20.255.255 to {FIRST}\t\n"
    )
    command("outbox", "retry", 1)
    acknowledge(home)
    assert command.json("outbox", "list") == []
    rows = command.json("outbox", "list", "--all")
    assert [(row["id"], row["state"], row["locid"]) for row in rows] == [(1, "done", FIRST), (2, "done", FIRST)]


def test_an_edit_is_shown_with_what_it_says_and_what_stands_in_its_way(command: Command, home: str) -> None:
    command("custom", "update", -3, "--city", "Ulm")
    fields = {"country": "", "city": "Bonn", "latitude": 1.0, "longitude": 2.0}
    theirs = Content(values_of(fields), frozenset({IPBlock.parse("10.9.0.0/16")}))
    stand(home, 3, State.HELD, theirs=theirs)
    assert command("outbox", "show", 3).splitlines() == [
        "edit 3: update geolocation -3: held",
        "  of the test",
        "  fields: city Ulm, latitude 1.0, longitude 2.0",
        "  based on: fields city city -3, latitude 1.0, longitude 2.0, blocks 10.9.0.0-10.9.255.255",
        "  the service has: fields city Bonn, latitude 1.0, longitude 2.0, blocks 10.9.0.0-10.9.255.255",
    ]
    found = command.json("outbox", "show", 3)
    assert (found["locid"], found["state"]) == (-3, "held")


def test_a_held_edit_is_queued_again_and_the_rest_is_still_told(command: Command, home: str) -> None:
    stand(home, 1, State.HELD)
    told = command("custom", "update", -3, "--city", "Ulm").splitlines()[-1]
    assert (
        told == "3 edits pending: `geolookup push` sends them; 1 of them held or rejected: see `geolookup outbox list`"
    )
    out = command("outbox", "retry", 1).splitlines()
    assert out[0] == f"edit 1: create geolocation {FIRST}: queued"
    assert out[-1] == "3 edits pending: `geolookup push` sends them"
    stand(home, 1, State.REJECTED)
    found = command.json("outbox", "retry", 1)
    assert (found["locid"], found["state"], len(found["pending"])) == (FIRST, "queued", 3)


def test_an_edit_is_changed_in_its_fields_or_its_block(command: Command, home: str) -> None:
    stand(home, 2, State.REJECTED)
    fields = command.json("outbox", "edit", 1, "--city", "Ulm", "--latitude", "-1.5")["payload"]["fields"]
    assert (fields["city"], fields["country"], fields["latitude"]) == ("Ulm", "AU", -1.5)
    for given, expected in (
        ("10.21.0.0/24", ["10.21.0.0", "10.21.0.255"]),
        ("10.21.0.5-10.21.0.9", ["10.21.0.5", "10.21.0.9"]),
        ("10.21.0.7", ["10.21.0.7", "10.21.0.7"]),
    ):
        assert command.json("outbox", "edit", 2, "--block", given)["payload"]["block"] == expected
    assert "\tdefault 1" not in command("10.21.0.7")
    assert "2 edits pending" in command("outbox", "edit", 2, "--block", "10.22.0.0/16")


def test_dropping_all_that_waits_keeps_the_edits_of_a_state_without_a_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "state"))
    command = Command(capsys)
    command("sync", "--bundled")
    command(*CREATE)
    command("custom", "add-block", FIRST, "10.20.0.0/16")
    assert command("outbox", "list") == ""
    assert command("outbox", "drop", "--all", "--yes") == ""
    assert f"custom {FIRST}" in command("10.20.0.1")
    assert command("outbox", "drop", "--all") == ""  # nobody has to say --yes to nothing
    assert "dropped edit 2" in command("outbox", "drop", 2), "an edit that is named is dropped"


def test_dropping_a_create_tells_every_edit_that_goes_with_it(command: Command) -> None:
    command("custom", "update", -3, "--city", "Ulm")
    assert command("outbox", "drop", 1) == (
        f"dropped edit 1: create geolocation {FIRST}\n"
        f"dropped edit 2: add 10.20.0.0-10.20.255.255 to {FIRST}\n"
        "1 edit pending: `geolookup push` sends it\n"
    )
    found = command.json("outbox", "drop", 3)
    assert (found["locid"], [row["id"] for row in found["dropped"]], found["pending"]) == (-3, [3], [])


def test_a_held_create_is_adopted(command: Command, home: str) -> None:
    like: dict[str, Any] = {"country": "AU", "city": "Sydney", "latitude": -33.8, "longitude": 151.2}
    others = [place(1, "10.0.0.0/8"), place(-3, latitude=1.0, longitude=2.0)]
    publish(home, [*others, *(place(number, **like) for number in (-7, -8))])
    stand(home, 1, State.HELD)
    command("outbox", "adopt", 1, -3, exits=2)
    assert "geolocation -3 (city -3) is not like what edit 1 creates" in command.error
    found = command.json("outbox", "adopt", 1, -7)
    assert (found["locid"], found["state"], [row["id"] for row in found["pending"]]) == (FIRST, "done", [2])
    assert "geolocation -7" in command("custom", "show", FIRST)
    command(*CREATE)
    stand(home, 3, State.HELD)
    command("outbox", "adopt", 3, -7, exits=2)
    assert "-7 is already the locid of another geolocation that was edited here" in command.error
    assert command("outbox", "adopt", "--", 3, -8).endswith("1 edit pending: `geolookup push` sends it\n")
    assert "geolocation -8" in command("custom", "show", FIRST - 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", 9), "the outbox has no edit 9: see `geolookup outbox list`"),
        (("show", 1 << 70), f"the outbox has no edit {1 << 70}: see `geolookup outbox list`"),
        (("retry", 1), "edit 1 is queued: it does not wait for a person"),
        (("adopt", 1, -7), "edit 1 is queued: it does not wait for a person"),
        (("edit", 1), "give a field or --block to change"),
        (("edit", 2, "--block", ""), "an address is missing"),
        (("edit", 1, "--block", "10.0.0.0/8"), "drop it, and make a new edit"),
        (("edit", 2, "--city", "x"), "it has no fields"),
        (("edit", 2, "--block", "10.0.0.1/8"), "host bits"),
        (("edit", 2, "--block", "10.0.0.1-"), "an address is missing"),
        (("edit", 2, "--block", "10.9.0.0/16"), "10.9.0.0-10.9.255.255 belongs to custom geolocation -3"),
        (("edit", 1, "--latitude", "91"), "latitude is a number of degrees"),
        (("show", "x"), "not a valid integer"),
    ],
)
def test_a_mistake_is_wrong_usage_and_changes_nothing(
    command: Command, arguments: tuple[Any, ...], message: str
) -> None:
    before = command.json("outbox", "list", "--all")
    assert command("outbox", *arguments, exits=2) == ""
    assert message in command.error
    assert command.json("outbox", "list", "--all") == before


def test_several_edits_are_dropped_at_once_or_none(command: Command) -> None:
    command("custom", "update", -3, "--city", "Ulm")
    command("outbox", "drop", 3, 99, exits=2)
    assert len(command.json("outbox", "list")) == 3
    command("outbox", "drop", exits=2)
    command("outbox", "drop", "--all", exits=2)
    assert "--all would drop 3 edits: add --yes" in command.error
    assert command("outbox", "drop", 3, 2).splitlines()[-1].startswith("1 edit pending")
    assert command("outbox", "drop", "--all", "--yes").splitlines()[-1] == "nothing is pending"


@pytest.mark.parametrize(("answer", "dropped"), [("y", True), ("n", False), ("", False)])
def test_on_a_terminal_drop_shows_the_edits_and_asks(command: Command, answer: str, dropped: bool) -> None:
    code, seen = on_terminal(["outbox", "drop", "1", "2"], [("Drop 2 edits? [y/N]: ", f"{answer}\n")], columns=120)
    assert code == 0
    shown, _, after = seen.partition("Drop 2 edits? [y/N]: ")
    assert shown.splitlines() == [
        f"1  queued  create geolocation {FIRST}",
        f"2  queued  add 10.20.0.0-10.20.255.255 to {FIRST}",
    ]
    assert ("nothing was changed" in after) != dropped
    assert len(command.json("outbox", "list")) == (0 if dropped else 2)


def test_on_a_terminal_yes_is_an_answer_and_ctrl_c_is_no(command: Command) -> None:
    code, seen = on_terminal(["outbox", "drop", "--all"], [("Drop 2 edits? [y/N]: ", "\x03")])
    assert (code, len(command.json("outbox", "list"))) == (130, 2)
    assert "interrupted: nothing was changed" in seen
    code, seen = on_terminal(["outbox", "drop", "--all", "--yes"])
    assert (code, "[y/N]" in seen) == (0, False)
    assert command.json("outbox", "list") == []
    assert command("outbox", "drop", "--all") == "nothing is pending\n"  # nobody has to say --yes to nothing
