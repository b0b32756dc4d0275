"""Sheets of sites in a routing domain (VRF): planned, applied and written."""

import json
from pathlib import Path

import pytest

from geolookup.model.errors import DataFileError
from geolookup.sites.file import read_sites
from geolookup.sites.plan import plan_sites
from geolookup.state.editor import Editor
from tests.cli.lookup.test_lookup import command
from tests.sites.test_exports import folder as exported
from tests.state.test_vrfs import state

HEADER = "name,country,region,city,postalcode,latitude,longitude,dmacode,areacode,blocks\n"
SHEET = HEADER + (
    "Utrecht office,NL,,Utrecht,,52.1,5.1,,,10.1.2.0/24 10.2.0.0/16\n"
    "London office,GB,,London,,51.5,-0.1,,,10.3.0.0/16\n"
)


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editor:
    """A state with a custom geolocation, in the settings' directory."""
    geo = state(tmp_path / "state")
    monkeypatch.setenv("GEOLOOKUP_HOME", geo.home)
    geo.edit().create(name="Paris", country="FR", city="Paris", blocks=["10.1.0.0/16"])
    return geo.edit()


def done(*arguments: str) -> str:
    found = command("custom", *arguments)
    assert found.returncode == 0, found.stderr.decode()
    return found.stdout.decode()


def test_a_sheet_is_planned_applied_and_written_for_a_vrf(editor: Editor, tmp_path: Path) -> None:
    sheet, again = tmp_path / "a.csv", tmp_path / "again.csv"
    sheet.write_text(SHEET)
    assert "+ create London office of the VRF CUST-A: 10.3.0.0/16" in done("plan", str(sheet), "--vrf", "CUST-A")
    assert editor.vrfs() == []
    done("apply", str(sheet), "--vrf", "CUST-A")
    assert {name: place.city for name, place in editor.vrf_places("CUST-A").items()} == {
        "Utrecht office": "Utrecht",
        "London office": "London",
    }
    assert {laid.place.city for laid in editor.custom()} == {"Paris"}
    assert "(0 to create, 0 to change, 0 of 2 to delete)" in done("apply", str(sheet), "--vrf", "CUST-A")
    done("export", str(again), "--vrf", "CUST-A")
    assert "(0 to create, 0 to change, 0 of 2 to delete)" in done("plan", str(again), "--vrf", "CUST-A")
    assert json.loads(command("lookup", "10.3.0.1", "--vrf", "CUST-A", "--json").stdout)[0]["city"] == "London"


def test_sites_of_a_vrf_without_coordinates_or_networks_are_named(editor: Editor, tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    path.write_text("name,country,city,networks\nBonn,DE,Bonn am Meer,10.1.0.0/24\nUlm,DE,Ulm am Meer,\n")
    notes = json.loads(done("plan", str(path), "--vrf", "CUST-A", "--json"))["notes"]
    assert [note.rpartition(": ")[2] for note in notes] == [
        "Ulm of the VRF CUST-A", "Bonn of the VRF CUST-A, Ulm of the VRF CUST-A",
    ]  # fmt: skip


def test_only_what_differs_changes_and_other_vrfs_stay(editor: Editor, tmp_path: Path) -> None:
    sheet = tmp_path / "a.csv"
    sheet.write_text(SHEET)
    for vrf in ("CUST-A", "CUST-B"):
        done("apply", str(sheet), "--vrf", vrf)
    before = editor.vrf_places("CUST-A")
    sheet.write_text(SHEET.replace(",London,", ",Leeds,").replace("10.1.2.0/24 ", ""))
    told = done("apply", str(sheet), "--vrf", "CUST-A")
    assert "~ update London office of the VRF CUST-A: city 'London' -> 'Leeds'" in told
    assert "~ update Utrecht office of the VRF CUST-A: - 10.1.2.0/24" in told
    assert "VRFs that are not named stay as they are: CUST-B" in told
    after = editor.vrf_places("CUST-A")
    assert {name: place.locid for name, place in after.items()} == {name: each.locid for name, each in before.items()}
    assert editor.vrf_places("CUST-B")["London office"].city == "London"


def test_a_sheet_that_lost_its_rows_is_refused_and_nothing_changes(editor: Editor, tmp_path: Path) -> None:
    sheet = tmp_path / "a.csv"
    sheet.write_text(SHEET)
    done("apply", str(sheet), "--vrf", "CUST-A")
    sheet.write_text(HEADER + "Other,NL,,Utrecht,,52.1,5.1,,,10.9.0.0/16\n")
    refused = command("custom", "apply", str(sheet), "--vrf", "CUST-A")
    assert refused.returncode == 3
    assert "all 2 sites of these VRFs would be gone (100%)" in refused.stderr.decode()
    assert set(editor.vrf_places("CUST-A")) == {"Utrecht office", "London office"}
    done("apply", str(sheet), "--vrf", "CUST-A", "--accept")
    assert set(editor.vrf_places("CUST-A")) == {"Other"}


def test_a_block_that_two_sites_have_is_refused_with_both(editor: Editor, tmp_path: Path) -> None:
    sheet = tmp_path / "a.csv"
    sheet.write_text(SHEET + "Twin,GB,,London,,51.5,-0.1,,,10.3.0.0/16\n")
    refused = command("custom", "apply", str(sheet), "--vrf", "CUST-A")
    assert refused.returncode == 1
    told = refused.stderr.decode()
    assert "line 4: site 'Twin': 10.3.0.0/16 belongs to site 'London office' (line 3) too" in told
    assert "if they are of two routing domains, a column `vrf` says of which" in told
    assert editor.vrfs() == []


def test_a_vrf_that_is_not_there_is_not_written(editor: Editor, tmp_path: Path) -> None:
    editor.put_vrf_place("CUST-A", "office", country="NL", blocks=["10.1.2.0/24"])
    refused = command("custom", "export", str(tmp_path / "x.csv"), "--vrf", "CUST-B")
    assert refused.returncode == 2
    assert "no VRF is named 'CUST-B': there are CUST-A" in refused.stderr.decode()


MIXED = HEADER.replace("blocks\n", "blocks,VRF\n") + (
    "Utrecht,NL,,Utrecht,,52.1,5.1,,,10.1.2.0/24,CUST-A\n"
    "London,GB,,London,,51.5,-0.1,,,10.1.2.0/24,CUST-B\n"
    "Paris,FR,,Paris,,48.9,2.3,,,10.1.0.0/16,\n"
    "Rome,IT,,Rome,,41.9,12.5,,,10.5.0.0/16,CORP\n"
)


def cities(editor: Editor) -> dict[str, set[str]]:
    """The cities of each VRF, and of the custom layer."""
    found = {vrf: {place.city for place in editor.vrf_places(vrf).values()} for vrf in editor.vrfs()}
    return {**found, "": {laid.place.city for laid in editor.custom()}}


def test_a_column_says_the_vrf_of_each_site(editor: Editor, tmp_path: Path) -> None:
    sheet = tmp_path / "mixed.csv"
    sheet.write_text(MIXED)
    told = done("plan", str(sheet))
    assert "+ create Utrecht of the VRF CUST-A: 10.1.2.0/24" in told
    assert cities(editor) == {"": {"Paris"}}
    done("apply", str(sheet))
    assert cities(editor) == {"CUST-A": {"Utrecht"}, "CUST-B": {"London"}, "CORP": {"Rome"}, "": {"Paris"}}
    assert "nothing to change" in done("apply", str(sheet))


def test_the_sites_of_one_vrf_may_be_those_of_the_global_table(
    editor: Editor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "geolookup.toml"
    settings.write_text('[sites]\nvrf_global = "CORP"\n')
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(settings))
    sheet = tmp_path / "mixed.csv"
    sheet.write_text(MIXED)
    done("apply", str(sheet))
    assert cities(editor) == {"CUST-A": {"Utrecht"}, "CUST-B": {"London"}, "": {"Paris", "Rome"}}


@pytest.mark.parametrize("name", ["Rome,IT", "Paris,FR"])
def test_if_one_table_cannot_be_made_none_is(editor: Editor, tmp_path: Path, name: str) -> None:
    sheet = tmp_path / "mixed.csv"
    sheet.write_text(MIXED.replace(name, f"{name}X"))
    assert command("custom", "apply", str(sheet)).returncode == 1
    assert cities(editor) == {"": {"Paris"}}


@pytest.mark.parametrize("form", ["csv", "toml"])
def test_a_vrf_is_written_with_its_name(editor: Editor, tmp_path: Path, form: str) -> None:
    sheet, again = tmp_path / "mixed.csv", tmp_path / f"again.{form}"
    sheet.write_text(MIXED)
    done("apply", str(sheet))
    done("export", str(again), "--vrf", "CUST-A")
    assert "CUST-A" in again.read_text()
    assert "nothing to change" in done("plan", str(again))
    assert cities(editor)["CUST-A"] == {"Utrecht"}


def test_an_apply_is_undone_as_a_whole(editor: Editor, tmp_path: Path) -> None:
    sheet = tmp_path / "mixed.csv"
    sheet.write_text(MIXED)
    done("apply", str(sheet))
    before = cities(editor)
    changed = MIXED.replace("Utrecht,,52", "Delft,,52").replace("London,GB,,London", "Leeds,GB,,Leeds")
    sheet.write_text(changed.replace("Paris,,48", "Lyon,,48"))
    done("apply", str(sheet), "--accept")
    assert cities(editor) != before
    done("undo", "--run")
    assert cities(editor) == before
    sheet.write_text("".join(line for line in changed.splitlines(keepends=True) if "Paris" not in line))
    done("apply", str(sheet), "--accept")
    assert cities(editor)["CUST-A"] == {"Delft"}
    done("undo", "--run")
    assert cities(editor) == before


def test_a_door_that_knows_no_vrfs_refuses_their_sites(editor: Editor, tmp_path: Path) -> None:
    sheet = tmp_path / "mixed.csv"
    sheet.write_text(MIXED)
    with pytest.raises(DataFileError, match="line 2: site 'Utrecht': it belongs to the VRF CUST-A"):
        plan_sites(editor, read_sites(str(sheet)))
    assert cities(editor) == {"": {"Paris"}}


def test_exports_as_toml_are_one_file_when_they_are_appended(editor: Editor, tmp_path: Path) -> None:
    editor.put_vrf_place("CUST-A", "Utrecht", country="NL", city="Utrecht", blocks=["10.1.2.0/24"])
    parts, whole = (tmp_path / "global.toml", tmp_path / "vrf.toml"), tmp_path / "all.toml"
    done("export", str(parts[0]))
    done("export", str(parts[1]), "--vrf", "CUST-A")
    whole.write_text("".join(part.read_text() for part in parts))
    read = read_sites(str(whole))
    assert [(site.name, site.vrf) for site in read] == [("Paris", ""), ("Utrecht", "CUST-A")]
    (made_at,) = {site.made_at for site in read}
    later = parts[1].read_text().replace(made_at, "2999-01-01T00:00:00.000Z")
    whole.write_text(parts[0].read_text() + later)
    assert {site.made_at for site in read_sites(str(whole))} == {made_at}, "the older moment counts"
    assert "nothing to change" in done("plan", str(whole))
    editor.put_vrf_place("CUST-A", "Utrecht", country="NL", city="De Bilt", blocks=["10.1.2.0/24"])
    asked = command("custom", "apply", str(whole))
    assert (asked.returncode, b"Utrecht" in asked.stderr) == (3, True), asked.stderr
    whole.write_text(whole.read_text().replace('made_at = "', "made_at = 7 # "))
    with pytest.raises(DataFileError, match="made_at is text"):
        read_sites(str(whole))


def test_addresses_of_a_file_are_looked_up_in_what_a_server_or_its_lists_would_leave(
    editor: Editor, tmp_path: Path
) -> None:
    addresses = tmp_path / "vips.txt"
    addresses.write_text("10.1.2.3\n10.2.9.12\n10.200.0.1\n")
    asked = ("custom", "plan", str(exported(tmp_path)), "--preset", "netbox-csv", "--addresses", str(addresses),
             "--take", f"Munich={editor.sites()['Paris']}")  # fmt: skip
    found = command(*asked)
    told = found.stdout.decode()
    assert "of 3 addresses, 2 change:" in told, found.stderr.decode()
    assert "10.1.2.3\tParis, FR" in told
    assert "--addresses are looked up in the global table" in found.stderr.decode()
    same = command(*asked, "--json")
    assert [each["ip"] for each in json.loads(same.stdout)["addresses"]["changed"]] == ["10.1.2.3", "10.2.9.12"]
    assert {laid.place.city for laid in editor.custom()} == {"Paris"}, "nothing was changed"


def test_a_sheet_of_vrfs_alone_changes_no_answer_of_the_global_table(editor: Editor, tmp_path: Path) -> None:
    addresses, sheet = tmp_path / "vips.txt", tmp_path / "a.csv"
    addresses.write_text("10.1.2.3\n")
    sheet.write_text(SHEET)
    told = done("plan", str(sheet), "--vrf", "CUST-A", "--addresses", str(addresses))
    assert "of 1 address, 0 change" in told or "of 1 addresses, 0 change" in told


def test_a_vrf_that_becomes_the_global_table_keeps_no_sites_of_its_own(
    editor: Editor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheet, config = tmp_path / "a.csv", tmp_path / "geolookup.toml"
    sheet.write_text("name,country,city,blocks,vrf\nHQ,DE,Bonn,10.3.0.0/16,CORP\nLab,DE,Ulm,10.4.0.0/16,CUST-A\n")
    done("apply", str(sheet))
    assert list(editor.vrf_places("CORP")) == ["HQ"]
    config.write_text('[sites]\nvrf_global = "CORP"\n')
    monkeypatch.setenv("GEOLOOKUP_CONFIG", str(config))
    told = done("apply", str(sheet))
    assert "- delete HQ of the VRF CORP: 10.3.0.0/16" in told
    assert (list(editor.vrf_places("CORP")), list(editor.vrf_places("CUST-A"))) == ([], ["Lab"])
    assert "HQ" in editor.sites()
    assert "sites of VRFs: 1 (0 to create, 0 to change, 0 of 1 to delete)" in done("plan", str(sheet))
    lines = command("history").stdout.decode().splitlines()
    assert sum(each.endswith("\tHQ of the VRF CORP") for each in lines) == 2
    assert any(each.split("\t")[1:2] == ["create"] and each.endswith("\tHQ") for each in lines)
