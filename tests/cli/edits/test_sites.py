"""``geolookup custom plan|apply|export`` in this process: what they print, their JSON and their exit status."""

import bz2
import csv
import gzip
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from geolookup.model.types import PROVISIONAL_LOCID
from geolookup.state.base import actor
from tests.cli.edits.test_custom import Command
from tests.support.data.states import place, publish
from tests.support.data.stations import acknowledge
from tests.support.users.quick_commands import forked

FIRST = PROVISIONAL_LOCID - 1
SITES = """\
[[site]]
name = "Sydney"
country = "AU"
region = ""
city = "Sydney"
postalcode = ""
latitude = -33.8
longitude = 151.2
dmacode = ""
areacode = ""
blocks = ["10.20.0.0/16"]
"""


@pytest.fixture
def command(home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    publish(home, [place(1, "10.0.0.0/8"), place(-3, "10.9.0.0/16", latitude=1.0, longitude=2.0)])
    return Command(capsys)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sites.toml"
    path.write_text(SITES)
    return path


def test_a_plan_shows_and_an_apply_makes_the_changes_once(command: Command, file: Path) -> None:
    told = "sites in the file: 1 (1 to create); to delete: 0 of 0\nnetworks: 1 more, 0 to another site, 0 of 0 gone\n"
    content = "country AU, city Sydney, latitude -33.8, longitude 151.2; 10.20.0.0/16\n"
    assert command("custom", "plan", file) == (
        f"{told}+ create Sydney: {content}2 changes: `geolookup custom apply` makes them\n"
    )
    assert command("custom", "list").splitlines() == ["-3\tcity -3\t1 block\t\t"]
    assert command("custom", "apply", file) == (
        f"{told}+ create Sydney ({FIRST}): {content}2 changes made\n2 edits pending: `geolookup push` sends them\n"
    )
    assert "Sydney" in command("10.20.30.40")
    still = "sites in the file: 1 (1 as they are); to delete: 0 of 1\nnothing to change\n"
    assert command("custom", "plan", file) == still
    assert command("custom", "apply", file) == f"{still}2 edits pending: `geolookup push` sends them\n"
    assert command("custom", "plan", file, "--prune-all") == (
        "sites in the file: 1 (1 as they are); to delete: 1 of 2\nnetworks: 0 more, 0 to another site, 1 of 2 gone\n"
        "- delete geolocation (-3): city city -3, latitude 1.0, longitude 2.0; 10.9.0.0/16\n"
        "1 change: `geolookup custom apply` makes it\n"
    )


def test_a_file_that_lost_rows_needs_accept_and_the_whole_one_takes_it_back(
    command: Command, home: str, tmp_path: Path
) -> None:
    head, *rows = [
        "name,country,region,city,postalcode,latitude,longitude,dmacode,areacode,blocks",
        *(f"s{at:02},DE,,x,{at},50,10,,,10.{at}.0.0/16" for at in range(100, 120)),
    ]
    whole, half = tmp_path / "whole.csv", tmp_path / "half.csv"
    whole.write_text("\n".join([head, *rows]))
    half.write_text("\n".join([head, *rows[:9]]))
    command("custom", "apply", whole)
    acknowledge(home)
    assert command("custom", "apply", half, exits=3) == ""
    assert f"{half}: 11 of 20 sites would be gone (55%)" in command.error
    assert "Nothing was changed" in command.error
    assert "to delete: 11 of 20" in command("custom", "plan", half)
    assert "needs --accept" in command.error
    assert command.json("custom", "plan", half)["held"][0] == "11 of 20 sites would be gone (55%)"
    assert command("custom", "apply", half, "--accept").splitlines()[-1].startswith("11 edits pending")
    told = command("custom", "apply", whole)
    assert "20 (11 whose delete is taken back, 9 as they are)" in told
    assert told.splitlines()[-1] == "nothing is pending"
    assert command("custom", "undo").splitlines()[-1].startswith("0 edits to take back, 11 new edits: add --run")
    command("custom", "undo", "--run")
    assert len(command.json("outbox", "list")) == 11
    assert command("custom", "undo", "--run").splitlines()[-2:] == ["11 changes made", "nothing is pending"]


def test_any_step_is_undone_or_what_it_did_to_one_site_and_an_undo_too(
    command: Command, home: str, tmp_path: Path
) -> None:
    sheet = tmp_path / "two.csv"
    sheet.write_text("name,country,latitude,longitude,blocks\nHere,DE,50,10,10.30.0.0/24\nThere,FR,47,2,10.31.0.0/24\n")
    command("custom", "apply", sheet)
    acknowledge(home)
    step = max(line["step"] or 0 for line in command.json("history"))
    command("custom", "rename", "There", "Elsewhere")
    assert "- delete Here" in command("custom", "undo", "--step", str(step), "--site", "Here", "--run")
    sites = command("custom", "list")
    assert "Elsewhere" in sites
    assert "Here" not in sites
    undo = max(line["step"] or 0 for line in command.json("history"))
    assert "Here" in command("custom", "undo", "--step", str(undo), "--run")
    assert "Here" in command("custom", "list")
    command("custom", "undo", "--step", str(undo), exits=2)
    assert f"already undone by {actor.who()}, 20" in command.error
    command("custom", "undo", "--step", "4711", exits=2)
    assert "step 4711 of the history changed no site" in command.error
    for options in (("--step", "1", "--last", "2"), ("--site", "Here")):
        command("custom", "undo", *options, exits=2)


def test_a_file_may_only_add_and_change(command: Command, file: Path, tmp_path: Path) -> None:
    file.write_text(SITES)
    command("custom", "apply", file)
    file.write_text(SITES.replace("Sydney", "Perth").replace("10.20", "10.21"))
    assert "to delete: 1 of 1" in command("custom", "plan", file)
    planned = command("custom", "plan", file, "--add-only")
    assert "to delete: 0 of 1" in planned
    assert "`geolookup custom apply --add-only` makes them" in planned
    command("custom", "apply", file, "--add-only", "--prune-all", exits=2)
    command("custom", "apply", file, "--add-only")
    listed = command("custom", "list")
    assert "Sydney" in listed
    assert "Perth" in listed
    assert "nothing to change" in command("custom", "apply", file, "--add-only")


def test_a_network_of_a_site_that_an_added_file_does_not_name_is_told_by_both_names(
    command: Command, file: Path
) -> None:
    file.write_text(SITES)
    command("custom", "apply", file)
    file.write_text(SITES.replace("Sydney", "Perth"))
    command("custom", "apply", file, "--add-only", exits=1)
    assert f"{file}, line 11: site 'Perth': 10.20.0.0/16 belongs to site 'Sydney' too, which the file" in command.error


def test_an_empty_file_and_emptied_blocks_need_accept(command: Command, file: Path, tmp_path: Path) -> None:
    two = SITES.replace("10.20", "10.21").replace('"Sydney"\ncountry', '"Perth"\ncountry')
    file.write_text(SITES + two)
    command("custom", "apply", file)
    file.write_text("site = []")
    command("custom", "apply", file, exits=3)
    assert "all 2 sites would be gone" in command.error
    file.write_text((SITES + two).replace('["10.20.0.0/16"]', "[]").replace('["10.21.0.0/16"]', "[]"))
    command("custom", "apply", file, exits=3)
    assert "all 2 networks would be gone" in command.error


def test_plan_and_apply_as_json(command: Command, file: Path) -> None:
    planned = command.json("custom", "plan", file)
    assert [(step["change"], step["site"], step["locid"]) for step in planned["changes"]] == [
        ("create", "Sydney", None),
        ("add_block", "Sydney", None),
    ]
    made = command.json("custom", "apply", file)
    assert [(step["change"], step["locid"]) for step in made["changes"]] == [("create", FIRST), ("add_block", FIRST)]
    assert made["sites"] == {"Sydney": FIRST}
    assert len(made["pending"]) == 2
    file.write_text(SITES.replace('"Sydney"', '"Perth"').replace("10.20", "10.21"))
    changes = {step["change"]: step for step in command.json("custom", "plan", file)["changes"]}
    assert changes["delete"]["site"] == "Sydney"
    assert changes["create"]["fields"]["city"] == "Perth"
    file.write_text(SITES.replace('city = "Sydney"', 'city = "Perth"'))
    (update,) = command.json("custom", "plan", file)["changes"]
    assert update["fields"] == {"city": {"before": "Sydney", "after": "Perth"}}
    file.write_text(SITES.replace('name = "Sydney"', 'name = "SYD"'))
    plan = command.json("custom", "plan", file)
    assert (plan["changes"], plan["claims"][0]["was"]) == ([], "Sydney")


@pytest.mark.parametrize("verb", ["plan", "apply"])
def test_a_bad_site_exits_with_1_names_file_line_and_reason_and_changes_nothing(
    command: Command, file: Path, verb: str
) -> None:
    for old, new, line, message in (
        ("10.20.0.0/16", "10.20.0.1/16", 11, "'10.20.0.1/16' has host bits set"),
        ("latitude = -33.8", "latitude = -133.8", 7, "latitude is a number"),
        ("country", "county", 3, "unknown key 'county'"),
    ):
        file.write_text(SITES.replace(old, new))
        assert command("custom", verb, file, exits=1) == ""
        assert f"{file}, line {line}: site 'Sydney': {message}" in command.error
    file.rename(file.with_suffix(".txt"))
    command("custom", verb, file, exits=1)
    assert "cannot be read" in command.error
    assert command.json("outbox", "list", "--all") == []


def test_a_file_with_an_unknown_ending_is_read_by_its_content_and_written_as_the_format_says(
    command: Command, file: Path
) -> None:
    other = file.rename(file.with_suffix(".txt"))
    assert "(1 to create)" in command("custom", "plan", other)
    command("custom", "export", other, exits=1)
    assert "--format" in command.error
    command("custom", "export", other, "--format", "toml")


@pytest.mark.parametrize("form", ["toml", "csv"])
def test_an_export_to_a_file_or_standard_output_applies_as_it_is(
    command: Command, file: Path, tmp_path: Path, form: str
) -> None:
    command("custom", "apply", file)
    exported = tmp_path / f"all.{form}"
    assert command("custom", "export", exported) == f"wrote 2 sites to {exported}\n"
    assert command("custom", "export", "-", "--format", form) == exported.read_text()
    assert command("custom", "apply", exported, "--prune-all").splitlines() == [
        "sites in the file: 2 (2 as they are); to delete: 0 of 2",
        "= city -3 (-3) is there already",
        "nothing to change",
        "2 edits pending: `geolookup push` sends them",
    ]


def test_a_folder_is_called_one(command: Command, tmp_path: Path) -> None:
    for words in ("plan", "apply", "export"):
        command("custom", words, tmp_path, exits=1)
        assert f"{tmp_path}: is a directory: give the name of a file" in command.error


def test_an_export_that_cannot_be_written_exits_with_1(command: Command, tmp_path: Path) -> None:
    command("custom", "export", tmp_path / "none" / "sites.toml", exits=1)
    assert "sites.toml: its folder is not there: make it first, or name another" in command.error


def test_an_export_to_a_terminal_is_harmless_and_to_a_pipe_lossless(command: Command) -> None:
    command("custom", "update", -3, "--city", "a\x1b[31mb")
    line = [*forked(), "-m", "geolookup", "custom", "export", "-", "--format", "csv"]
    piped = subprocess.run(line, capture_output=True, check=True, timeout=60).stdout
    assert b"a\x1b[31mb" in piped
    outer, inner = pty.openpty()
    try:
        subprocess.run(line, stdout=inner, check=True, timeout=60)
        shown = os.read(outer, 65536)
    finally:
        os.close(inner)
        os.close(outer)
    assert rb"a\x1b[31mb" in shown
    assert b"\x1b" not in shown


EXCEL = (
    "\ufeffName;Country;Region;City;Postalcode;Latitude;Longitude;DMAcode;Areacode;Owner;Blocks\r\n"
    "Berlin;DE;;Berlin;;52.5;13.4;;;Ann;10.1.0.0 - 10.1.0.9, 10.3.0.1\r\n"
    "Bonn;DE;;Bonn;;50.7;7.1;;;Eve;\r\n"
    ";;;;;;;;;;\r\n"
)


@pytest.mark.parametrize("packed", [bytes, gzip.compress, bz2.compress])
def test_what_a_spreadsheet_saves_is_read_packed_and_from_standard_input(
    command: Command, tmp_path: Path, packed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = packed(EXCEL.encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    told = command("custom", "plan", "-")
    assert "+ create Berlin: country DE, city Berlin, latitude 52.5, longitude 13.4; 10.1.0.0-10.1.0.9 10.3.0.1" in told
    assert "standard input: these columns are not read: 'Owner'" in command.error
    assert "without networks, so that no address resolves to them: Bonn" in command.error
    path = tmp_path / "sites.csv.gz"
    path.write_bytes(content)
    command("custom", "apply", path, "--delimiter", ";")
    assert "Berlin" in command("custom", "show", "Berlin")
    assert command("custom", "list").splitlines()[1].endswith("\tBerlin")
    assert command("outbox", "list").splitlines()[0].endswith(f"create geolocation {FIRST} (Berlin)\t")
    assert "(Berlin, DE), site Berlin: " in command("explain", "10.3.0.1")


def test_utf16_is_read_and_cp1252_is_said_aloud(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "sites.csv"
    text = EXCEL.removeprefix("\ufeff").replace("Bonn;", "K\xf6ln \u20ac;")
    path.write_bytes(text.encode("utf-16"))
    assert "city K\xf6ln \u20ac" in command("custom", "plan", path)
    assert "read as cp1252" not in command.error
    path.write_bytes(text.encode("cp1252"))
    assert "city K\xf6ln \u20ac" in command("custom", "plan", path)
    assert f"{path}: is not UTF-8: 1 line read as cp1252 (Windows)" in command.error


def test_all_bad_rows_are_named_up_to_twenty(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "sites.csv"
    rows = [
        "a;Germany;;;;52,5;13.4;;;;10.1.0.0/33",
        "b;FR;;;;2.35;48.85;;;;10.2.0.0/16",
        *(f"x{at};DE;;;;north;1;;;;" for at in range(22)),
    ]
    path.write_text("\n".join([EXCEL.splitlines()[0].removeprefix("\ufeff"), *rows]))
    command("custom", "apply", path, exits=1)
    told = command.error.partition(": 1 country in words (line 2: 'Germany' is DE)\n")[2].splitlines()
    assert told[0].endswith("24 problems, of 3 kinds:")
    assert told[1].endswith("'10.1.0.0/33' is not a network: after the slash stands a number of bits, 0 to 32")
    assert told[1].startswith("1 row: is not a network or range; the first: ")
    assert told[2].startswith("22 rows: latitude is not a number of degrees; the first: ")
    assert told[2].endswith("line 4: site 'x0': latitude is a number of degrees, not 'north'")
    assert told[3].startswith("1 row: coordinates are swapped; the first: ")
    assert told[4:] == ["nothing was changed: correct what is named, and try again"]
    report = tmp_path / "wrong.csv"
    failed = json.loads(command("custom", "plan", path, "--report", report, "--json", exits=1))
    assert failed["kinds"] == {
        "is not a network or range": 1,
        "latitude is not a number of degrees": 22,
        "coordinates are swapped": 1,
    }
    assert failed["problems"][1]["line"] == 4
    wrong = list(csv.DictReader(report.open(encoding="utf-8")))
    assert [(row["line"], row["site"], row["column"], row["value"]) for row in wrong][:2] == [
        ("2", "a", "Blocks", "10.1.0.0/33"),
        ("4", "x0", "Latitude", "north"),
    ]
    assert len(wrong) == 24
    path.write_text("\n".join([EXCEL.splitlines()[0].removeprefix("\ufeff"), rows[1]]))
    command("custom", "apply", path, exits=1)
    assert "line 2: site 'b': latitude 2.35, longitude 48.85 is not in FR, and would be with the two" in command.error
    assert command.json("outbox", "list") == []


def test_all_that_is_wrong_with_a_row_is_named_at_once_and_counted_by_its_own_kind(
    command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "sites.csv"
    header = EXCEL.splitlines()[0].removeprefix("\ufeff")
    path.write_text(f"{header}\na;Absurdistan;;;;50;200;;;;10.1.0.0/33\n")
    failed = json.loads(command("custom", "plan", path, "--json", exits=1))
    assert failed["kinds"] == {
        "is not a network or range": 1,
        "country cannot be that": 1,
        "longitude cannot be that": 1,
    }


def test_a_site_that_others_changed_since_is_refused_line_by_line(command: Command, tmp_path: Path) -> None:
    command("custom", "create", "Bonn office", "--city", "Bonn", "--latitude", "50.7", "--longitude", "7.1")
    command("custom", "export", tmp_path / "sites.csv")
    command("custom", "update", "Bonn office", "--city", "Beuel")
    assert command("custom", "apply", tmp_path / "sites.csv", exits=3) == ""
    head, site, say = command.error.splitlines()
    assert head.endswith("sites.csv: 1 site changed since the file was made, not by it:")
    assert site.startswith("Bonn office: ")
    assert say.startswith("Say which to keep: --keep theirs ")


def test_a_name_that_undo_gives_back_is_a_change(command: Command) -> None:
    command("custom", "create", "Bonn office", "--city", "Bonn", "--latitude", "50.7", "--longitude", "7.1")
    command("custom", "rename", "Bonn office", "Beuel office")
    step, name, end = command("custom", "undo").splitlines()
    assert step.endswith(": names of sites")
    assert name == "Beuel office is named Bonn office again"
    assert end == "0 edits to take back, 0 new edits, 1 other change: add --run to carry it out. Nothing was changed"
    assert command("custom", "undo", "--run").splitlines()[2] == "1 change made"
    assert "Bonn office" in command("custom", "list")


def test_a_plan_and_an_apply_say_which_added_blocks_others_keep_in_part(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "sites.csv"
    rows = [("Head office", "10.0.0.0/8 fd00::/8"), ("A", "10.1.0.0/16"), ("B", "10.2.0.0-10.2.255.255 fd00::/64")]
    header = "name,country,region,city,postalcode,latitude,longitude,dmacode,areacode,blocks"
    file.write_text("\n".join([header, *(f"{name},DE,,,,52,13,,,{blocks}" for name, blocks in rows)]) + "\n")
    kept = (
        "2 of 5 added networks do not get all of their addresses: 1 network (/64) go to other networks\n"
        "  fd00::/8 of Head office: 1 network (/64) of 16.8 million networks (/32) (less than 0.01%) "
        "go to fd00::/64 of B\n"
        "  10.0.0.0/8 of Head office: 196,608 of 16,777,216 addresses (1.17%) go to 3 networks, "
        "65,536 of them to 10.1.0.0/16 of A\n"
    )
    assert kept in command("custom", "plan", file)
    found = command.json("custom", "plan", file)["elsewhere"]
    assert found["addresses"] == str(2**64 + 3 * 65536)
    assert [other["site"] for other in found["blocks"][1]["others"]] == ["A", "B", None]
    assert found["blocks"][1] | {"others": []} == {
        "site": "Head office",
        "locid": None,
        "startip": "10.0.0.0",
        "endip": "10.255.255.255",
        "addresses": "196608",
        "others": [],
    }
    assert kept in command("custom", "apply", file)
    assert "go to other networks" not in command("custom", "apply", file)  # nothing is added now
    command("custom", "delete", "Head office")
    back = f"10.0.0.0/8 of Head office ({FIRST}): 196,608 of 16,777,216 addresses (1.17%)"
    assert back in command("custom", "undo")


def test_only_the_first_few_of_many_such_blocks_are_named(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "sites.csv"
    header = "name,country,region,city,postalcode,latitude,longitude,dmacode,areacode,blocks"
    rows = [f"S{number},DE,,,,52,13,,,10.{number}.0.0/16 10.{number}.0.0/24" for number in range(20, 30)]
    rows += [f"T{number},DE,,,,52,13,,,10.{number}.1.0/24" for number in range(20, 30)]
    file.write_text("\n".join([header, *rows]) + "\n")
    lines = command("custom", "plan", file).splitlines()
    at = lines.index("10 of 30 added networks do not get all of their addresses: 2,560 go to other networks")
    assert lines[at + 1] == "  10.20.0.0/16 of S20: 256 of 65,536 addresses (0.391%) go to 10.20.1.0/24 of T20"
    assert lines[at + 4 :] == ["  and 7 more", "50 changes: `geolookup custom apply` makes them"]
