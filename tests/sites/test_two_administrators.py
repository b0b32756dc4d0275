"""Two administrators of one state: the second does not revert what the first changed, and is told who and when."""

import csv
import json
import os
import re
import shlex
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from geolookup.model.errors import ChangedSinceError
from geolookup.sites.file import read_sites, write_sites
from geolookup.sites.plan import apply_sites, export_sites, plan_sites
from geolookup.sites.since import Keep
from geolookup.sites.site import Problems
from geolookup.sites.undo import undo
from geolookup.state.base import actor, clock
from geolookup.state.editor import Editor
from geolookup.state.edits import steps
from geolookup.state.edits.outbox import outbox
from tests.cli.lookup.test_lookup import command
from tests.state.test_vrfs import state

HEAD = "name,country,region,city,postalcode,latitude,longitude,dmacode,areacode,blocks\n"
BONN = "Bonn,DE,,Bonn,,50.73,7.1,,,10.1.0.0/24\n"
ULM = "Ulm,DE,,Ulm,,48.4,9.99,,,10.2.0.0/24\n"
ASK = Keep(sites={})
THEIRS, MINE = Keep(sites={}, others="theirs"), Keep(sites={}, others="mine")


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editor:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    geo = state(tmp_path / "state")
    monkeypatch.setenv("GEOLOOKUP_HOME", geo.home)
    return geo.edit()


@pytest.fixture
def as_user(monkeypatch: pytest.MonkeyPatch) -> Any:
    def become(name: str) -> None:
        monkeypatch.setattr(actor, "who", lambda: name)
        monkeypatch.setattr(steps, "who", lambda: name)

    assert outbox.actor is actor
    return become


def sheet(folder: Path, text: str, name: str = "sites.csv") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def apply(editor: Editor, path: str, keep: Keep | None = ASK) -> Any:
    return apply_sites(editor, read_sites(path), file=path, keep=keep)


def export(editor: Editor, folder: Path, form: Any = "csv") -> str:
    return sheet(folder, write_sites(export_sites(editor), form), f"export.{form}")


def cities(editor: Editor) -> dict[str, str]:
    names = editor.site_names()
    return {names[laid.place.locid]: laid.place.city for laid in editor.custom()}


def edited(path: str, old: str, new: str) -> str:
    text = Path(path).read_text("utf-8")
    assert old in text
    Path(path).write_text(text.replace(old, new), "utf-8")
    return path


def test_the_second_of_two_does_not_revert_the_first_by_the_commands(editor: Editor, tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        return command("custom", *arguments)

    assert run("apply", sheet(tmp_path, HEAD + BONN + ULM)).returncode == 0
    mine, theirs = str(tmp_path / "mine.csv"), str(tmp_path / "theirs.csv")
    for path in (mine, theirs):
        assert run("export", path).returncode == 0
    assert run("apply", edited(theirs, ",Bonn,,", ",Bonn am Rhein,,")).returncode == 0
    edited(mine, ",Ulm,,", ",Ulm an der Donau,,")
    planned = run("plan", mine)
    assert planned.returncode == 0
    assert "theirs.csv): city was Bonn, is Bonn am Rhein, and Bonn in the file" in planned.stderr.decode()
    report = tmp_path / "report.csv"
    refused = run("apply", mine, "--report", str(report))
    assert refused.returncode == 3
    assert f"Bonn: {actor.who()} changed it at 20" in refused.stderr.decode()
    assert "--keep theirs" in refused.stderr.decode()
    assert cities(editor) == {"Bonn": "Bonn am Rhein", "Ulm": "Ulm"}
    with report.open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert [row[name] for name in ("line", "site", "column", "was", "is now", "value")] == [
        *("2", "Bonn", "city", "Bonn", "Bonn am Rhein", "Bonn")
    ]
    (told,) = json.loads(run("apply", mine, "--json").stdout)["changed_since"]
    assert (told["was"], told["theirs"], told["value"]) == ("Bonn", "Bonn am Rhein", "Bonn")
    assert run("apply", mine, "--keep", "Bonn=theirs").returncode == 0
    assert cities(editor) == {"Bonn": "Bonn am Rhein", "Ulm": "Ulm an der Donau"}
    assert run("apply", mine).returncode == 0, "what a person has said holds until the site or its row changes again"
    assert cities(editor)["Bonn"] == "Bonn am Rhein"
    editor.update(editor.sites()["Bonn"], city="Beuel")
    assert run("apply", mine).returncode == 3
    assert run("apply", mine, "--keep", "mine").returncode == 0
    assert cities(editor)["Bonn"] == "Bonn"
    assert run("apply", mine, "--keep", "ours").returncode == 2


@pytest.mark.parametrize("vrf", [[], ["--vrf", "A"]], ids=["global", "of a VRF"])
def test_what_the_file_alone_changes_of_a_site_that_is_left_is_named(
    editor: Editor, tmp_path: Path, vrf: list[str]
) -> None:
    def run(*arguments: str) -> Any:
        return command("custom", *arguments, *vrf)

    assert run("apply", sheet(tmp_path, HEAD + BONN)).returncode == 0
    mine, theirs = str(tmp_path / "mine.csv"), str(tmp_path / "theirs.csv")
    for path in (mine, theirs):
        assert run("export", path).returncode == 0
    assert run("apply", edited(theirs, ",Bonn,,", ",Beuel,,")).returncode == 0
    refused = run("apply", edited(mine, "10.1.0.0/24", "10.1.0.0/24 10.9.0.0/24"))
    assert refused.returncode == 3
    own = "blocks 10.1.0.0/24 10.9.0.0/24"
    assert f"and Bonn in the file; the file also changes it, to {own}" in refused.stderr.decode()
    left = run("apply", mine, "--keep", "theirs")
    assert left.returncode == 0
    said = (left.stdout + left.stderr).decode()
    assert f"Bonn stays as others left it, so this of the file is not made: {own}" in said


def test_what_both_changed_alike_is_no_conflict_though_the_file_changes_more(editor: Editor, tmp_path: Path) -> None:
    assert command("custom", "apply", sheet(tmp_path, HEAD + BONN)).returncode == 0
    mine = str(tmp_path / "mine.csv")
    assert command("custom", "export", mine).returncode == 0
    editor.update(editor.sites()["Bonn"], city="Beuel")
    edited(mine, ",Bonn,,50.73,7.1,", ",Beuel,,50.74,7.2,")
    assert command("custom", "apply", mine).returncode == 0
    (laid,) = (each for each in editor.custom() if each.place.locid == editor.sites()["Bonn"])
    assert (laid.place.city, laid.place.latitude, laid.place.longitude) == ("Beuel", 50.74, 7.2)
    editor.update(editor.sites()["Bonn"], city="Bad Godesberg")
    refused = command("custom", "apply", mine).stderr.decode()
    assert "is Bad Godesberg, and Beuel in the file" in refused
    assert "latitude" not in refused


def test_the_name_of_a_site_is_quoted_in_the_command_that_keeps_it(editor: Editor, tmp_path: Path) -> None:
    assert command("custom", "apply", sheet(tmp_path, HEAD + BONN.replace("Bonn,DE", "L'Aquila,DE"))).returncode == 0
    mine = str(tmp_path / "mine.csv")
    assert command("custom", "export", mine).returncode == 0
    editor.update(editor.sites()["L'Aquila"], city="Beuel")
    said = command("custom", "apply", edited(mine, ",Bonn,,", ",Bad Godesberg,,")).stderr.decode()
    (keep,) = re.findall(r"--keep (\S*Aquila\S*) is about one", said)
    assert shlex.split(keep) == ["L'Aquila=theirs"]


def test_what_came_after_an_export_is_told_though_the_clock_was_put_back(
    editor: Editor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(editor, sheet(tmp_path, HEAD + BONN + ULM))
    path = export(editor, tmp_path)
    now = clock.wall
    monkeypatch.setattr(clock, "wall", lambda: now() - timedelta(days=1))
    editor.update(editor.sites()["Bonn"], city="Beuel")
    editor.delete(editor.sites()["Ulm"])
    (later_folder := tmp_path / "later").mkdir()
    later = export(editor, later_folder)
    (changed, gone) = plan_sites(editor, read_sites(path), keep=ASK).conflicts
    assert (changed.name, changed.line is not None, gone.name, gone.theirs) == ("Bonn", True, "Ulm", None)
    assert plan_sites(editor, read_sites(later), keep=ASK).conflicts == ()


@pytest.mark.parametrize("form", ["csv", "toml"])
def test_an_export_says_what_it_was_made_from(editor: Editor, tmp_path: Path, form: Any) -> None:
    apply(editor, sheet(tmp_path, HEAD + BONN + ULM))
    path = export(editor, tmp_path, form)
    read = read_sites(path)
    assert read == export_sites(editor)
    assert [(each.made_from, each.made_at) for each in read] == [
        (each.made_from, each.made_at) for each in export_sites(editor)
    ]
    assert all(each.made_from and each.made_at for each in read)
    assert apply(editor, path).edits == ()
    locid = editor.sites()["Bonn"]
    editor.update(locid, city="Beuel")
    (conflict,) = plan_sites(editor, read, keep=ASK).conflicts
    assert conflict.columns() == [("city", "Bonn", "Beuel", "Bonn")]
    editor.update(locid, city="Bonn")
    assert plan_sites(editor, read, keep=ASK).conflicts == (), "it is what it was again"


@pytest.mark.parametrize(
    "keep",
    [Keep(sites={}, others="theirs"), Keep(sites={"Bonn": "theirs", "Ulm": "theirs"}), Keep(sites={"Ulm": "theirs"})],
)
@pytest.mark.parametrize("exports", [True, False])
def test_what_stays_theirs_stays_so_as_the_same_is_said_of_another_site(
    editor: Editor, tmp_path: Path, as_user: Any, keep: Keep, exports: bool
) -> None:
    path = sheet(tmp_path, HEAD + BONN + ULM)
    apply(editor, path)
    path = export(editor, tmp_path) if exports else path
    as_user("anna")
    editor.add_block(editor.sites()["Bonn"], "10.66.0.0/24")
    editor.rename(editor.sites()["Bonn"], "Bonn head office")
    as_user("berta")
    apply(editor, path, THEIRS)
    as_user("anna")
    editor.update(editor.sites()["Ulm"], areacode="0731")
    as_user("berta")
    for _ in range(2):
        assert not apply(editor, path, keep).changes
    assert {len(laid.place.ipblocks) for laid in editor.custom()} == {1, 2}
    assert editor.sites().keys() == {"Bonn head office", "Ulm"}


@pytest.mark.parametrize("ahead", [timedelta(0), timedelta(minutes=2)])
def test_a_file_from_a_machine_whose_clock_is_ahead_reverts_nothing_that_changed_since(
    editor: Editor, tmp_path: Path, as_user: Any, ahead: timedelta
) -> None:
    apply(editor, sheet(tmp_path, HEAD + BONN + ULM))
    path = export(editor, tmp_path)
    (moment,) = {each.made_at for each in read_sites(path) if each.made_at}
    later = (datetime.fromisoformat(moment) + ahead).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    edited(path, moment, later)
    as_user("anna")
    editor.update(editor.sites()["Ulm"], areacode="0731")
    as_user("berta")
    with pytest.raises(ChangedSinceError, match="areacode was empty, is 0731, and empty in the file"):
        apply(editor, path)


def test_what_both_changed_alike_is_no_conflict(editor: Editor, tmp_path: Path) -> None:
    apply(editor, sheet(tmp_path, HEAD + BONN + ULM))
    path = edited(export(editor, tmp_path), ",Bonn,,", ",Beuel,,")
    editor.update(editor.sites()["Bonn"], city="Beuel")
    assert apply(editor, path).edits == ()


def test_what_others_added_since_is_not_deleted_without_a_word(editor: Editor, tmp_path: Path) -> None:
    apply(editor, sheet(tmp_path, HEAD + BONN))
    path = export(editor, tmp_path)
    apply(editor, sheet(tmp_path, HEAD + BONN + ULM))
    with pytest.raises(ChangedSinceError, match=r"Ulm: .* added it at .*, and the file does not have it"):
        apply(editor, path)
    assert apply(editor, path, THEIRS).edits == ()
    assert cities(editor).keys() == {"Bonn", "Ulm"}
    assert apply(editor, path, MINE).summary.deleted == 1
    assert cities(editor).keys() == {"Bonn"}


def test_a_row_that_was_deleted_from_an_export_is_no_conflict(editor: Editor, tmp_path: Path) -> None:
    apply(editor, sheet(tmp_path, HEAD + BONN + ULM))
    path = export(editor, tmp_path)
    lines = Path(path).read_text("utf-8").splitlines(keepends=True)
    Path(path).write_text("".join(line for line in lines if "Ulm" not in line), "utf-8")
    assert apply(editor, path).summary.deleted == 1


def test_what_others_changed_is_not_deleted_by_a_file_that_dropped_it(editor: Editor, tmp_path: Path) -> None:
    apply(editor, sheet(tmp_path, HEAD + BONN + ULM))
    path = export(editor, tmp_path)
    lines = Path(path).read_text("utf-8").splitlines(keepends=True)
    Path(path).write_text("".join(line for line in lines if "Ulm" not in line), "utf-8")
    editor.update(editor.sites()["Ulm"], city="Neu-Ulm")
    with pytest.raises(ChangedSinceError, match=r"Ulm: .* changed it at .*, and the file does not have it"):
        apply(editor, path)
    assert apply(editor, path, THEIRS).edits == ()
    assert cities(editor)["Ulm"] == "Neu-Ulm"


@pytest.mark.parametrize("by_file", [True, False])
def test_what_others_deleted_since_does_not_come_back_without_a_word(
    editor: Editor, tmp_path: Path, by_file: bool
) -> None:
    apply(editor, sheet(tmp_path, HEAD + BONN + ULM))
    path = export(editor, tmp_path)
    if by_file:
        apply(editor, sheet(tmp_path, HEAD + BONN))
    else:
        editor.delete(editor.sites()["Ulm"])
    with pytest.raises(ChangedSinceError, match=r"Ulm: .* deleted it at .*, and the file has it"):
        apply(editor, path)
    apply(editor, path, THEIRS)
    assert cities(editor).keys() == {"Bonn"}
    apply(editor, path, MINE)
    assert cities(editor).keys() == {"Bonn", "Ulm"}


def test_without_digests_the_last_apply_is_the_base(editor: Editor, tmp_path: Path, as_user: Any) -> None:
    as_user("anna")
    mine = sheet(tmp_path, HEAD + BONN + ULM, "anna.csv")
    apply(editor, mine)
    as_user("ben")
    apply(editor, sheet(tmp_path, HEAD + BONN.replace(",Bonn,,", ",Beuel,,") + ULM, "ben.csv"))
    as_user("anna")
    with pytest.raises(ChangedSinceError, match=r"Bonn: ben changed it at .* \(apply .*ben.csv\)"):
        apply(editor, mine)
    as_user("ben")
    assert apply(editor, sheet(tmp_path, HEAD + ULM, "ben.csv")).summary.deleted == 1, "ben's own apply is his base"
    as_user("carl")
    apply(editor, sheet(tmp_path, HEAD + ULM.replace(",Ulm,,", ",Neu-Ulm,,"), "carl.csv"))
    assert cities(editor) == {"Ulm": "Neu-Ulm"}, "who has applied nothing goes on from the last apply of all"


def test_an_apply_that_changes_nothing_is_a_base_too(editor: Editor, tmp_path: Path) -> None:
    path = sheet(tmp_path, HEAD + BONN + ULM)
    apply(editor, path)
    editor.update(editor.sites()["Bonn"], city="Beuel")
    apply(editor, edited(path, ",Bonn,,", ",Beuel,,"))
    assert apply(editor, edited(path, ",Beuel,,", ",Bonn,,")).summary.changed == 1


def test_an_undone_apply_is_no_base_and_no_change(editor: Editor, tmp_path: Path) -> None:
    path = sheet(tmp_path, HEAD + BONN + ULM)
    apply(editor, path)
    apply(editor, edited(path, ",Bonn,,", ",Beuel,,"))
    undo(editor)
    assert cities(editor)["Bonn"] == "Bonn"
    assert apply(editor, path).summary.changed == 1
    editor.update(editor.sites()["Bonn"], city="Kessenich")
    with pytest.raises(ChangedSinceError):
        apply(editor, path)


def test_a_file_of_another_state_is_not_held_against_this_one(editor: Editor, tmp_path: Path) -> None:
    apply(editor, sheet(tmp_path, HEAD + BONN + ULM))
    exported = [replace(site, made_from="abcdefghijkl", made_at="2999-01-01T00:00:00.000Z") for site in read_sites(
        edited(export(editor, tmp_path), ",Bonn,,", ",Beuel,,")
    )]  # fmt: skip
    assert plan_sites(editor, exported, keep=ASK).conflicts == ()


def test_a_digest_that_no_export_wrote_is_named(editor: Editor, tmp_path: Path) -> None:
    apply(editor, sheet(tmp_path, HEAD + BONN))
    path = export(editor, tmp_path)
    digest = read_sites(path)[0].made_from
    problems = Problems()
    read_sites(edited(path, digest, digest.upper()), problems=problems)
    assert "made_from is not what an export wrote" in problems.kinds()


def test_places_of_vrfs_are_held_against_their_own_past(editor: Editor, tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        return command("custom", *arguments)

    path, exported = sheet(tmp_path, HEAD + BONN + ULM), str(tmp_path / "export.csv")
    assert run("apply", path, "--vrf", "CUST-A").returncode == 0
    assert run("export", exported, "--vrf", "CUST-A").returncode == 0
    assert run("apply", edited(path, ",Bonn,,", ",Beuel,,"), "--vrf", "CUST-A").returncode == 0
    assert run("apply", sheet(tmp_path, HEAD + BONN, "b.csv"), "--vrf", "CUST-B").returncode == 0
    refused = run("apply", exported)
    assert refused.returncode == 3
    assert "Bonn of the VRF CUST-A: " in refused.stderr.decode()
    assert "is Beuel" in refused.stderr.decode()
    assert run("apply", exported, "--keep", "theirs").returncode == 0
    again = run("apply", exported)
    assert (again.returncode, "decided at an earlier apply" in again.stderr.decode()) == (0, True)
    assert "Bonn of the VRF CUST-A" in again.stderr.decode()
    assert editor.vrf_places("CUST-A")["Bonn"].city == "Beuel"
    editor.remove_vrf_place("CUST-A", "Ulm")
    assert "Ulm of the VRF CUST-A" in run("apply", exported, "--keep", "Bonn=mine").stderr.decode()
    editor.put_vrf_place("CUST-A", "Köln", country="DE", city="Köln", blocks=["10.9.0.0/24"])
    assert "Köln of the VRF CUST-A" in run("plan", exported).stderr.decode()
    for keep in (("--keep", "Bonn=mine", "--keep", "Ulm=mine", "--keep", "theirs"), ()):
        assert run("apply", exported, *keep).returncode == 0
        assert editor.vrf_places("CUST-A").keys() == {"Bonn", "Ulm", "Köln"}
    assert run("apply", exported, "--keep", "mine").returncode == 0
    assert editor.vrf_places("CUST-A").keys() == {"Bonn", "Ulm"}


def test_a_site_that_a_colleague_renamed_is_asked_for_and_not_named_back_without_a_word(
    editor: Editor, tmp_path: Path, as_user: Any
) -> None:
    mine = sheet(tmp_path, HEAD + BONN + ULM)
    apply(editor, mine)
    as_user("anna")
    editor.rename(editor.sites()["Bonn"], "Bonn head office")
    as_user("berta")
    edited(mine, ",Bonn,,50.73", ",Bonn am Rhein,,50.73")  # the same site still, though its fields differ
    (conflict,) = plan_sites(editor, read_sites(mine), keep=ASK).conflicts
    assert "Bonn: anna changed it at 20" in conflict.describe()
    assert "name was Bonn, is Bonn head office, and Bonn in the file" in conflict.describe()
    with pytest.raises(ChangedSinceError):
        apply(editor, mine)
    apply(editor, mine, THEIRS)
    assert cities(editor) == {"Bonn head office": "Bonn", "Ulm": "Ulm"}
    assert not apply(editor, mine).changes, "what was said holds as long as neither changes"
    assert cities(editor) == {"Bonn head office": "Bonn", "Ulm": "Ulm"}
    edited(mine, ",Bonn am Rhein,,50.73", ",Bonn,,50.73")
    made = apply(editor, mine, Keep(sites={"Bonn": "mine"}))
    assert (made.renamed, len(made.edits)) == (1, 0)
    assert cities(editor) == {"Bonn": "Bonn", "Ulm": "Ulm"}


def test_a_sheet_that_only_adds_says_nothing_of_other_sites(editor: Editor, tmp_path: Path) -> None:
    whole = sheet(tmp_path, HEAD + BONN)
    apply(editor, whole)
    editor.add_block(editor.sites()["Bonn"], "10.9.0.0/24")
    apply(editor, sheet(tmp_path, HEAD + ULM, "more.csv"), Keep(sites={}, absent=True))
    assert editor.sites().keys() == {"Bonn", "Ulm"}
    assert {conflict.name for conflict in plan_sites(editor, read_sites(whole), keep=ASK).conflicts} == {"Bonn"}


def test_a_colleagues_time_zone_is_asked_for_and_one_that_the_file_does_not_say_stays(
    editor: Editor, tmp_path: Path, as_user: Any
) -> None:
    mine = sheet(tmp_path, HEAD + BONN + ULM)
    apply(editor, mine)
    as_user("anna")
    editor.update(editor.sites()["Bonn"], time_zone="Europe/Berlin")
    as_user("berta")
    assert not plan_sites(editor, read_sites(mine), keep=ASK).changes, "the file has no column of time zones"
    head = HEAD.replace("blocks", "blocks,time zone")
    other = sheet(tmp_path, head + BONN.replace("\n", ",Europe/Paris\n") + ULM.replace("\n", ",\n"))
    (conflict,) = plan_sites(editor, read_sites(other), keep=ASK).conflicts
    assert "time_zone was empty, is Europe/Berlin, and Europe/Paris in the file" in conflict.describe()
    apply(editor, other, THEIRS)
    assert editor.time_zones() == {"Bonn": "Europe/Berlin"}
    apply(editor, other, MINE)
    assert editor.time_zones() == {"Bonn": "Europe/Paris"}


def test_what_was_left_to_a_colleague_is_asked_for_again_if_another_sheet_says_less_of_it(
    editor: Editor, tmp_path: Path
) -> None:
    apply(editor, sheet(tmp_path, HEAD + BONN + ULM))
    locid = editor.sites()["Bonn"]
    editor.add_block(locid, "10.9.0.0/24")
    editor.rename(locid, "Bonn (Mitte)")
    editor.update(locid, areacode="0228")
    apply(editor, sheet(tmp_path, HEAD + BONN + ULM), THEIRS)
    left = editor.get(locid).place
    few = sheet(tmp_path, "name,country,city,blocks\nBonn,DE,Bonn,10.1.0.0/24\nUlm,DE,Ulm,10.2.0.0/24\n", "few.csv")
    plan = plan_sites(editor, read_sites(few), keep=ASK)
    assert [conflict.name for conflict in plan.conflicts] == ["Bonn"]
    assert {field: (theirs, mine) for field, _, theirs, mine in plan.conflicts[0].columns()} == {
        "name": ("Bonn (Mitte)", "Bonn"), "blocks": ("10.1.0.0/24 10.9.0.0/24", "10.1.0.0/24"),
    }  # fmt: skip
    with pytest.raises(ChangedSinceError, match="1 site changed since the file was made, not by it"):
        apply(editor, few)
    assert editor.get(locid).place == left
    apply(editor, few, THEIRS)
    assert apply(editor, few).edits == ()
    assert editor.get(locid).place == left
    apply(editor, few, MINE)
    assert apply(editor, edited(few, "10.1.0.0/24", "10.1.0.0/25")).edits != (), "the file has had its way since"
    assert editor.sites()["Bonn"] == locid
