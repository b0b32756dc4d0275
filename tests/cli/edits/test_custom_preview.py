"""``--preview`` of the commands that edit: what it says is what the edit then changes, and it changes nothing."""

import os
from pathlib import Path
from typing import Any

import pytest

from geolookup.state.editor import Editor
from tests.cli.edits.test_custom import CREATE, Command, command, state

__all__ = ["command", "state"]

#: (arguments, IPv4 addresses whose answer differs, what a line says)
EDITS: tuple[tuple[tuple[object, ...], int, str], ...] = (
    (tuple(CREATE), 0, ""),
    (
        ("custom", "update", -3, "--city", "Ulm"),
        65536,
        "  Berlin, BE, DE (custom -3) -> Ulm, BE, DE (custom -3)\t65,536 IPv4\t0 IPv6\t10.9.0.0/16",
    ),
    (("custom", "delete", -3), 65536, "  Berlin, BE, DE (custom -3) -> city 1 (service 1)\t65,536 IPv4\t"),
    (
        ("custom", "add-block", -3, "10.8.255.0-10.9.0.255"),
        256,
        "  city 1 (service 1) -> Berlin, BE, DE (custom -3)\t256 IPv4\t0 IPv6\t10.8.255.0/24",
    ),
    (
        ("custom", "replace-block", -3, "10.9.0.0/16", "10.9.0.0/17"),
        32768,
        "  Berlin, BE, DE (custom -3) -> city 1 (service 1)\t32,768 IPv4\t0 IPv6\t10.9.128.0/17",
    ),
    (
        ("custom", "remove-block", -3, "10.9.0.0/16"),
        65536,
        "  Berlin, BE, DE (custom -3) -> city 1 (service 1)\t65,536 ",
    ),
    (("custom", "clear-blocks", -3), 65536, "  Berlin, BE, DE (custom -3) -> city 1 (service 1)\t65,536 IPv4\t"),
    (
        ("custom", "add-block", -3, "2001:db8::/64"),
        0,
        "  (not covered) -> Berlin, BE, DE (custom -3)\t0 IPv4\t1 network (/64) IPv6\t2001:db8::/64",
    ),
)


def files(home: str) -> dict[str, bytes]:
    return {name: Path(root, name).read_bytes() for root, _, names in os.walk(home) for name in names}


@pytest.mark.parametrize(("edit", "count", "line"), EDITS, ids=[" ".join(map(str, row[0][:4])) for row in EDITS])
def test_a_preview_says_what_the_edit_then_changes_and_changes_nothing(
    command: Command, home: str, edit: tuple[object, ...], count: int, line: str
) -> None:
    before = files(home)
    said = command(*edit, "--preview")
    assert said.startswith(f"addresses whose answer differs: {count:,} IPv4, ")
    assert any(each.startswith(line) for each in said.splitlines()), said
    assert said.endswith("nothing was changed: the same command without --preview makes the edit\n")
    found = command.json(*edit, "--preview")
    assert (found["ipv4"], found["by_country"]) == (count, None)
    assert sum(change["ipv4"] for change in found["by_place"]) == count
    assert files(home) == before
    command(*edit)
    assert len(Editor(home).pending()) == 1


def test_a_preview_names_what_the_linter_would_newly_find(command: Command) -> None:
    found = command("custom", "add-block", -3, "10.9.0.0/24", "--preview")
    assert "`geolookup custom check` would find: redundant: 10.9.0.0-10.9.0.255 of -3" in found
    command("custom", "add-block", -3, "10.9.0.0/24")
    assert command.json("custom", "add-block", -3, "10.9.1.0/30", "--preview")["findings"][0]["finding"] == "redundant"


def test_a_preview_of_very_much_is_counted_by_country(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("geolookup.cli.edits.showing._MOST_SEGMENTS", 0)
    edit = ("custom", "delete", -3, "--preview")
    assert "  DE -> (no country)\t65,536 IPv4\t0 IPv6" in command(*edit)
    found: Any = command.json(*edit)
    assert found["by_place"] is None
    assert found["by_country"] == [{"from": "DE", "to": "", "ipv4": 65536, "ipv6": "0"}]


@pytest.mark.parametrize(
    ("edit", "error"),
    [
        (("delete", 1), "is a default one"),
        (("add-block", -3, "10.9.0.0/16"), "has 10.9.0.0-10.9.255.255 already"),
        (("remove-block", -3, "10.1.0.0/16"), "has no block"),
        (("update", -3, "--city", "Berlin"), "nothing was changed"),
    ],
    ids=str,
)
def test_what_cannot_be_made_cannot_be_previewed(command: Command, edit: tuple[object, ...], error: str) -> None:
    command("custom", *edit, "--preview", exits=2)
    assert error in command.error
