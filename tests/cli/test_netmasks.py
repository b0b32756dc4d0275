"""A netmask is refused with the network to write: in the library, by each command, in sheets and in tables."""

from pathlib import Path

import pytest

from geolookup.model.errors import InvalidRangeError
from geolookup.model.fields import FIELD_NAMES
from geolookup.state.editor import Editor
from tests.cli.edits.test_custom import Command
from tests.cli.edits.test_custom import command as command  # a fixture
from tests.cli.edits.test_custom import state as state  # a fixture
from tests.support.data.source_files import read_all

MASKED = ["10.1.7.0 255.255.255.0", "10.1.7.0/255.255.255.0", "10.1.7.0 - 255.255.255.0", "10.1.7.0-255.255.255.0"]
SHEET = "name,country,region,city,postalcode,latitude,longitude,dmacode,areacode,blocks"


@pytest.mark.parametrize("text", [*MASKED, "10.1.7.0 0.0.0.255"])
def test_no_edit_takes_a_netmask(command: Command, home: str, text: str) -> None:
    for edit in (["add-block", -3], ["replace-block", -3, "10.9.0.0/16"], ["remove-block", -3]):
        command("custom", *edit, *text.split(), exits=2)
        assert command.error.rstrip().endswith("write 10.1.7.0/24"), command.error
    with Editor(home) as editor, pytest.raises(InvalidRangeError, match=r"write 10\.1\.7\.0/24$"):
        editor.add_block(-3, *text.split()) if " " in text and "-" not in text else editor.add_block(-3, text)


@pytest.mark.parametrize("text", MASKED)
def test_no_lookup_takes_a_netmask(command: Command, text: str) -> None:
    command("lookup", text, exits=5)
    assert "write 10.1.7.0/24" in command.error
    command("lookup", text, "8.8.8.8", "--format", "csv", exits=5)
    assert "write 10.1.7.0/24" in command.error


@pytest.mark.parametrize("blocks", [*MASKED, "10.8.0.1 10.1.7.0 255.255.255.0 10.9.0.1", "10.1.7.0 0.0.0.255"])
def test_a_sheet_with_a_netmask_is_refused_whole(command: Command, tmp_path: Path, blocks: str) -> None:
    sheet = tmp_path / "sites.csv"
    sheet.write_text(f"{SHEET}\nBerlin,DE,,Berlin,,52,13,,,{blocks}\n")
    for what in ("plan", "apply"):
        command("custom", what, sheet, exits=1)
        assert "line 2: site 'Berlin': " in command.error
        assert "write 10.1.7.0/24" in command.error
    texts = ", ".join(f'"{text}"' for text in ([blocks] if "-" in blocks or "/" in blocks else blocks.split()))
    fields = "".join(f'{name} = ""\n' for name in FIELD_NAMES if name not in ("latitude", "longitude"))
    toml = tmp_path / "sites.toml"
    toml.write_text(f'[[site]]\nname = "Berlin"\n{fields}latitude = 1\nlongitude = 2\nblocks = [{texts}]\n')
    command("custom", "apply", toml, exits=1)
    assert "write 10.1.7.0/24" in command.error


def test_a_column_with_the_mask_is_not_passed_over_in_a_sheet(command: Command, tmp_path: Path) -> None:
    sheet = tmp_path / "sites.csv"
    sheet.write_text(f"{SHEET},Netmask\nBerlin,DE,,Berlin,,52,13,,,10.1.7.0,255.255.255.0\n")
    command("custom", "plan", sheet, exits=1)
    assert "write 10.1.7.0/24" in command.error
    sheet.write_text(f"{SHEET},Netmask\nBerlin,DE,,Berlin,,52,13,,,10.1.7.0/24,255.255.255.0\n")
    command("custom", "plan", sheet)


@pytest.mark.parametrize("ends", ["first,last", "startip,endip", "start_ip,end_ip", "network,netmask"])
def test_a_row_of_a_table_that_has_a_netmask_is_bad(command: Command, tmp_path: Path, ends: str) -> None:
    table = tmp_path / "table.csv"
    honest = "10.2.0.0/24," if ends == "network,netmask" else "10.2.0.0,10.2.0.255"
    rows = [f"{honest},DE", "10.1.7.0,255.255.255.0,DE", f"{honest.replace('10.2', '10.3')},DE"]
    table.write_text("\n".join([f"{ends},country", *rows, ""]))
    found, gathered = read_all(table)
    assert [first for first, _, _ in found] == ["10.2.0.0", "10.3.0.0"]
    assert [(bad.line, bad.reason.rpartition("write ")[2]) for bad in gathered.bad_rows] == [(3, "10.1.7.0/24")]
    command("check", table, exits=1)
    assert "write 10.1.7.0/24" in command.error
