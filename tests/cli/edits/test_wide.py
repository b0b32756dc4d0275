"""Blocks of very many public addresses: asked about on a terminal, refused without one, and allowed when meant."""

import subprocess
import sys
from pathlib import Path

import pytest

from geolookup.cli.edits import options
from geolookup.model.errors import WideBlockError
from geolookup.state.editor import Editor
from tests.cli.edits.test_custom import Command
from tests.cli.edits.test_custom import command as command  # a fixture
from tests.cli.edits.test_custom import state as state  # a fixture

WIDE = ("0.0.0.0", "245.255.255.255")
COVERS = "0.0.0.0-245.255.255.255 covers 3,702,258,688 public addresses, 86 % of IPv4"
ROW = "name,country,region,city,postalcode,latitude,longitude,dmacode,areacode,blocks\n{},DE,,B,,52,13,,,{}\n"


def blocks(home: str) -> list[str]:
    with Editor(home) as editor:
        return [str(block) for laid in editor.custom() for block in laid.place.ipblocks]


@pytest.mark.parametrize("edit", [["add-block", -3], ["replace-block", -3, "10.9.0.0", "10.9.255.255"]])
def test_a_script_needs_yes(command: Command, home: str, edit: list[object]) -> None:
    command("custom", *edit, *WIDE, exits=3)
    assert f"{COVERS}: add --yes if that is meant. Nothing was changed" in command.error
    assert blocks(home) == ["10.9.0.0-10.9.255.255"]
    command("custom", *edit, *WIDE, "--json", exits=3)
    command("custom", *edit, *WIDE, "--preview")
    command("custom", *edit, *WIDE, "--yes")
    assert "-".join(WIDE) in blocks(home)


def test_a_terminal_is_asked(command: Command, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "may_ask", lambda *, as_json: not as_json)
    asked: list[str] = []
    answers = iter([False, True])
    monkeypatch.setattr("click.confirm", lambda text, **_: (asked.append(text), next(answers))[1])
    assert command("custom", "add-block", -3, *WIDE) == "nothing was changed\n"
    assert blocks(home) == ["10.9.0.0-10.9.255.255"]
    command("custom", "add-block", -3, *WIDE)
    assert asked == [f"{COVERS}. Is that meant?"] * 2
    assert "-".join(WIDE) in blocks(home)
    command("custom", "add-block", -3, "8.0.0.0/8")
    command("custom", "add-block", -3, "10.0.0.0/9")
    assert len(asked) == 2


def test_the_library_needs_wide(home: str) -> None:
    with Editor(home) as editor:
        for make in (
            lambda wide: editor.add_block(-3, *WIDE, wide=wide),
            lambda wide: editor.replace_block(-3, *WIDE, "0.0.0.0/1", wide=wide),
        ):
            with pytest.raises(WideBlockError, match=r"pass wide=True if that is meant\. Nothing was changed$"):
                make(False)
            make(True)
        number = editor.outbox()[0].id
        with pytest.raises(WideBlockError):
            editor.amend(number, block=("0.0.0.0/2", None))
        editor.amend(number, block=("8.0.0.0/8", None))


def test_an_edit_that_waits_is_not_widened_by_accident(command: Command) -> None:
    command("custom", "add-block", -3, "9.0.0.0/8")
    command("outbox", "edit", 1, "--block", "8.0.0.0/7", exits=3)
    assert "add --yes" in command.error
    command("outbox", "edit", 1, "--block", "8.0.0.0/7", "--yes")


def test_a_file_of_sites_needs_accept(command: Command, home: str, tmp_path: Path) -> None:
    sheet = tmp_path / "sites.csv"
    sheet.write_text(ROW.format("Berlin", "8.0.0.0/8 9.0.0.0/8"))
    told = "site 'Berlin': 2 IPv4 blocks together cover 33,554,432 public addresses, 0.78 % of IPv4"
    command("custom", "plan", sheet)
    assert f"needs --accept for this: {told}" in command.error
    assert command.json("custom", "plan", sheet)["held"] == [told]
    command("custom", "apply", sheet, exits=3)
    assert f"{told}: apply it with --accept if that is meant. Nothing was changed" in command.error
    assert blocks(home) == ["10.9.0.0-10.9.255.255"]
    command("custom", "apply", sheet, "--accept")
    assert len(blocks(home)) == 3
    command("custom", "apply", sheet)  # nothing is added any more
    command("custom", "undo", "--run")
    sheet.write_text(ROW.format("Berlin", "8.0.0.0/8") + ROW.format("Ulm", "9.0.0.0/8 10.0.0.0/8").split("\n")[1])
    command("custom", "apply", sheet)  # each site by itself


def test_the_question_is_asked_on_a_real_terminal(home: str) -> None:
    code = "import sys; from geolookup.cli.app import run; sys.exit(run(sys.argv[1:]))"
    script = "import pty, sys; pty.spawn(sys.argv[1:])"
    add = [sys.executable, "-c", code, "custom", "add-block", "--", "-3", *WIDE]
    found = subprocess.run(
        [sys.executable, "-c", script, *add], input="n\n", capture_output=True, text=True, timeout=60
    )
    assert COVERS in found.stdout
    assert blocks(home) == ["10.9.0.0-10.9.255.255"]
