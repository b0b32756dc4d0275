"""``geolookup custom …`` and ``history`` in this process: what they print, their JSON and their exit status."""

import json
from typing import Any

import pytest

from geolookup.cli.app import run
from geolookup.model.types import PROVISIONAL_LOCID
from geolookup.state.editor import Editor
from geolookup.state.publishing.directory import StateDirectory
from tests.support.data.states import place, publish

FIRST = PROVISIONAL_LOCID - 1
CREATE = ["custom", "create", "--country", "AU", "--city", "Sydney", "--latitude", "-33.8", "--longitude", "151.2"]


@pytest.fixture(autouse=True)
def state(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    fields = {"country": "DE", "region": "BE", "latitude": 52.5, "longitude": 13.25}
    publish(home, [place(1, "10.0.0.0/8"), place(-3, "10.9.0.0/16", city="Berlin", **fields)])


class Command:
    """Runs commands, and keeps what they printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.error = ""

    def __call__(self, *arguments: object, exits: int = 0) -> str:
        """Run a command that exits so: what it wrote to standard output."""
        self._capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        out, self.error = self._capsys.readouterr()
        assert code == exits, self.error
        return out

    def json(self, *arguments: object, exits: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", exits=exits))


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


def test_an_office_is_created_given_a_network_and_found_at_once(command: Command) -> None:
    assert command(*CREATE) == f"created geolocation {FIRST}\n1 edit pending: `geolookup push` sends it\n"
    assert command("custom", "add-block", FIRST, "10.20.0.0/16") == (
        f"10.20.0.0-10.20.255.255 now resolves to {FIRST}\n2 edits pending: `geolookup push` sends them\n"
    )
    (found,) = [json.loads(command("lookup", "10.20.30.40", "--format", "ndjson"))]
    assert (found["locid"], found["city"], found["latitude"], found["pending"]) == (FIRST, "Sydney", -33.8, True)
    assert f"pending: create geolocation {FIRST} (queued)" in command("explain", "10.20.30.40")


def test_every_edit_has_its_object_with_locid_and_what_is_pending(command: Command) -> None:
    edits: list[tuple[Any, ...]] = [
        (*CREATE[:2], *CREATE[2:]),
        ("custom", "update", -3, "--latitude", "-33.8"),
        ("custom", "add-block", -3, "10.20.0.0", "10.20.0.9"),
        ("custom", "replace-block", -3, "10.20.0.0", "10.20.0.9", "10.21.0.0", "10.21.0.9"),
        ("custom", "remove-block", -3, "10.21.0.0", "10.21.0.9"),
        ("custom", "clear-blocks", -3),
        ("custom", "delete", -3),
    ]
    for number, edit in enumerate(edits, start=1):
        found = command.json(*edit)
        assert found["locid"] == (FIRST if number == 1 else -3)
        assert [row["id"] for row in found["pending"]] == list(range(1, number + 1))
        assert found["pending"][-1]["operation"] == edit[1].replace("-", "_")
        assert found["pending"][-1]["state"] == "queued"
        assert found["pending"][-1]["locid"] == found["locid"]
        assert found["did"]
    assert command.json("custom", "add-block", FIRST, "10.1.0.0/31")["block"] == {
        "startip": "10.1.0.0",
        "endip": "10.1.0.1",
    }


@pytest.mark.parametrize("locid", [-3, FIRST])
@pytest.mark.parametrize("dashes", [(), ("--",)])
def test_negative_locids_are_arguments_with_and_without_two_dashes(
    command: Command, locid: int, dashes: tuple[str, ...]
) -> None:
    command(*CREATE)
    command("custom", "add-block", *dashes, locid, "10.20.0.0/16")
    command("custom", "replace-block", *dashes, locid, "10.20.0.0/16", "10.21.0.0/16")
    command("custom", "remove-block", *dashes, locid, "10.21.0.0/16")
    command("custom", "update", "--city", "Ulm", *dashes, locid)
    assert "Ulm" in command("custom", "show", *dashes, locid)
    command("custom", "clear-blocks", *dashes, locid)
    assert "update" in command("history", *dashes, locid)
    command("custom", "delete", *dashes, locid)
    command("custom", "show", *dashes, locid, exits=2)


def test_a_country_in_small_letters_is_kept_in_capitals(command: Command) -> None:
    degrees = ("--latitude", "48.2", "--longitude", "16.4")
    locid = command.json("custom", "create", "--country", "at", *degrees)["locid"]
    assert command.json("custom", "show", locid)["country"] == "AT"
    command("custom", "update", locid, "--country", "At", exits=2)
    assert "has these values already" in command.error
    command("custom", "update", locid, "--country", "hu")
    assert command.json("custom", "show", locid)["country"] == "HU"


def test_options_may_stand_behind_a_negative_locid(command: Command) -> None:
    command("custom", "update", -3, "--latitude", "-33.8", "--longitude=-70.6", "--city", "-x")
    found = command.json("custom", "show", -3)
    assert (found["latitude"], found["longitude"], found["city"]) == (-33.8, -70.6, "-x")


def test_show_and_list_tell_fields_blocks_and_pending_edits(command: Command) -> None:
    command(*CREATE)
    command("custom", "update", -3, "--city", "Potsdam")
    assert command("custom", "list").splitlines() == [
        "-3\tPotsdam, BE, DE\t1 block\tpending\t",
        f"{FIRST}\tSydney, AU\t0 blocks\tpending\t",
    ]
    assert [(item["locid"], item["pending"]) for item in command.json("custom", "list")] == [(-3, True), (FIRST, True)]
    shown = command("custom", "show", -3).splitlines()
    assert shown[0] == "geolocation -3"
    assert "  latitude:   52.5" in shown
    assert shown[-2:] == ["  block 10.9.0.0-10.9.255.255", "  pending: update geolocation -3 (queued)"]
    found = command.json("custom", "show", -3)
    assert found["ipblocks"] == [{"startip": "10.9.0.0", "endip": "10.9.255.255"}]
    assert [row["operation"] for row in found["edits"]] == ["update"]


def test_the_history_tells_one_geolocation_or_all(command: Command) -> None:
    command(*CREATE)
    command("custom", "update", -3, "--city", "Potsdam")
    assert [line.split("\t")[1:4] for line in command("history").splitlines()] == [
        ["create", str(FIRST), "queued"],
        ["update", "-3", "queued"],
    ]
    (line,) = command.json("history", -3)
    assert (line["before"]["fields"]["city"], line["after"]["fields"]["city"]) == ("Berlin", "Potsdam")


# (arguments, what the message says): each exits with 2 and changes nothing
MISTAKES = [
    (("delete", 1), "geolocation 1 is a default one, and those cannot be changed"),
    (("update", 1, "--city", "x"), "geolocation 1 is a default one"),
    (("add-block", 1, "10.1.0.0/16"), "geolocation 1 is a default one"),
    (("show", 1), "geolocation 1 is a default one"),
    (("delete", -9), "custom geolocation -9 does not exist: see `geolookup custom list`"),
    (("show", -1000000000000099), "custom geolocation -1000000000000099 does not exist"),
    (("add-block", -3, "10.0.0.1/16"), "'10.0.0.1/16' has host bits set: did you mean 10.0.0.0/16?"),
    (("add-block", -3, "10.0.0.9", "10.0.0.1"), "10.0.0.9 comes after 10.0.0.1"),
    (("add-block", -3, "10.0.0.1", "::1"), "not of one family"),
    (("add-block", -3, "10.0.0"), "'10.0.0' is not an IP address"),
    (("add-block", -3, "--jsn", "10.0.0.0/8"), "--jsn"),
    (("add-block", -3, "10.9.0.0/16"), "geolocation -3 has 10.9.0.0-10.9.255.255 already"),
    (("remove-block", -3, "10.9.0.0/17"), "has no block 10.9.0.0-10.9.127.255: it has 10.9.0.0-10.9.255.255"),
    (("replace-block", -3, "10.9.0.0/16"), "give 2 blocks: a network, an address, FIRST-LAST or FIRST LAST"),
    (("update", -3), "give at least one field"),
    (("update", -3, "--latitude", "91"), "latitude is a number of degrees from -90 to 90, not 91.0"),
    (("update", -3, "--latitude", "north"), "--latitude"),
    (("update", -3, "--city", "Berlin"), "geolocation -3 has these values already"),
    (("update", "x", "--city", "Ulm"), "'x' is neither a locid nor the name of a site"),
    (
        ("create", "--country", "DE"),
        "latitude and longitude are missing: the service takes no custom geolocation without",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_mistake_is_wrong_usage_says_what_is_wrong_and_changes_nothing(
    command: Command, home: str, arguments: tuple[Any, ...], message: str
) -> None:
    assert command("custom", *arguments, exits=2) == ""
    assert message in command.error
    assert "Traceback" not in command.error
    assert not StateDirectory(home).edits.exists() or Editor(home).outbox() == []


def test_anothers_block_is_named_with_its_owner(command: Command) -> None:
    command(*CREATE)
    command("custom", "add-block", FIRST, "10.9.0.0/16", exits=2)
    assert "10.9.0.0-10.9.255.255 belongs to custom geolocation -3: remove it there first" in command.error


def test_control_characters_of_a_geolocation_reach_no_terminal(command: Command) -> None:
    command("custom", "update", -3, "--city", "a\x1b[31mb\n\u202e")
    for arguments in (("show", -3), ("list",), ("show", -3, "--json"), ("list", "--json")):
        assert not {"\x1b", "\u202e"} & set(command("custom", *arguments))


def test_check_names_what_is_doubtful_and_exits_with_1(command: Command) -> None:
    assert command("custom", "check") == "nothing found in 1 custom geolocation with 1 block\n"
    assert command.json("custom", "check") == {"ok": True, "findings": []}
    command("custom", "add-block", -3, "10.9.1.0/24")
    assert command("custom", "check", exits=1).startswith("redundant: 10.9.1.0-10.9.1.255 of -3 is not needed")
    (finding,) = command.json("custom", "check", exits=1)["findings"]
    assert finding["finding"] == "redundant"
    assert finding["block"] == {"startip": "10.9.1.0", "endip": "10.9.1.255"}
    assert finding["others"] == [{"locid": -3, "block": {"startip": "10.9.0.0", "endip": "10.9.255.255"}}]


def test_check_names_geolocations_that_the_service_no_longer_lists(command: Command, home: str) -> None:
    command("custom", "update", -3, "--city", "Ulm")
    publish(home, [place(1, "10.0.0.0/8")])
    assert command("custom", "check", exits=1) == (
        "gone: 10.9.0.0-10.9.255.255 belongs to geolocation -3, which the service no longer lists\n"
    )


def test_whatever_is_printed_of_a_range_is_accepted(command: Command) -> None:
    for words in (["192.168.1.50-192.168.1.90"], ["192.168.2.50", "-", "192.168.2.90"], ["192.168.3.1", "192.168.3.9"]):
        command("custom", "add-block", -3, *words)
        new = ["10.77.0.0", "10.77.0.9"] if len(words) == 2 else ["10.77.0.0 - 10.77.0.9"]
        command("custom", "replace-block", -3, *words, *new)
        command("custom", "remove-block", -3, "10.77.0.0-10.77.0.9")
    command("custom", "add-block", -3, exits=2)
    command("custom", "add-block", -3, "10.1.0.0", "10.2.0.0/16", exits=2)
    assert "give a block" in command.error
    assert command("custom", "show", "Berlin", exits=2) == ""
    assert "neither a locid nor the name of a site" in command.error


def test_an_option_is_no_number(command: Command) -> None:
    command("history", "--limt", "5", exits=2)
    assert "No such option '--limt'. Did you mean '--limit'?" in command.error
    command("custom", "show", "-x", exits=2)
    assert "No such option '-x'" in command.error
    command("custom", "update", -3, "--city", "-x")
    command("custom", "update", -3, "--city", "y")
    assert [line.split("\t")[1] for line in command("history", "--limit", "1").splitlines()] == ["update"]
    assert len(command.json("history", -3, "--limit", "2")) == 2


def test_a_block_that_narrower_ones_keep_part_of_says_how_much(command: Command) -> None:
    command(*CREATE)
    assert command("custom", "add-block", FIRST, "10.0.0.0/8").splitlines()[:3] == [
        f"10.0.0.0-10.255.255.255 now resolves to {FIRST}",
        "  of its 16,777,216 addresses, 65,536 (0.391%) go to other blocks:",
        "    65,536 addresses to -3: its block 10.9.0.0-10.9.255.255 is narrower",
    ]
    found = command.json("custom", "add-block", FIRST, "10.9.0.0/17")
    assert found["others"] == []
    command("custom", "add-block", FIRST, "10.9.200.0/24")
    told = command("custom", "remove-block", FIRST, "10.9.200.0/24").splitlines()
    assert told[2] == "    256 addresses to -3: its block 10.9.0.0-10.9.255.255 is wider"


@pytest.mark.parametrize(
    ("block", "network"),
    [
        (["10.7.*.*"], "10.7.0.0/16"),
        (["10.7.0.0/255.255.0.0"], "10.7.0.0/16"),
        (["10.7.0.0", "255.255.0.0"], "10.7.0.0/16"),
        (["10.7.0.5-99"], "10.7.0.5-10.7.0.99"),
    ],
)
def test_a_block_that_is_written_otherwise_is_refused_with_what_to_write(
    command: Command, block: list[str], network: str
) -> None:
    for words in (["add-block", -3, *block], ["replace-block", -3, "10.9.0.0/16", *block]):
        command("custom", *words, exits=2)
    command("custom", "add-block", -3, *block, exits=2)
    assert f"write {network}\n" in command.error
    assert command.json("outbox", "list") == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--country", "Germany", "--latitude", 1, "--longitude", 2], "not a code of two letters: write DE"),
        (["--country", "DE", "--latitude", 13.4, "--longitude", 52.5], "are latitude and longitude swapped"),
        (
            ["--latitude", 151.2, "--longitude", -33.9],
            "latitude is a number of degrees from -90 to 90, not 151.2: are latitude",
        ),
    ],
)
def test_a_place_that_cannot_be_meant_is_refused_everywhere(command: Command, given: list[Any], told: str) -> None:
    command("custom", "create", *given, exits=2)
    assert told in command.error
    command("custom", "update", -3, *given, exits=2)
    assert told in command.error
    assert command.json("outbox", "list") == []
