"""The time zone of a site: read and checked, kept beside its name, in every answer, and told to no service."""

import io
import json
from pathlib import Path
from typing import Any

import maxminddb
import pyarrow as pa
import pytest

from geolookup.cli.app import run
from geolookup.columns import arrow
from geolookup.exports.export import export
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import DataFileError, EditError
from geolookup.sites.file import read_sites, write_sites
from geolookup.sites.plan import apply_sites, export_sites, plan_sites
from geolookup.sites.site import Problems
from geolookup.sites.undo import undo
from geolookup.sites.vrfs import apply_vrfs, by_vrf, export_vrf
from geolookup.state.editor import Editor
from geolookup.state.publishing.directory import StateDirectory
from tests.support.data.states import place, publish

HEAD = "Standort,Land,Ort,Breite,L\xe4nge,Netz,Zeitzone\n"
#: The country of the first has several zones, that of the second has one, and the third says another than that.
SITES = HEAD + (
    "Boston,US,Boston,42.3,-71,10.1.0.0/16,America/New_York\nWien,AT,Wien,48.2,16.4,10.2.0.0/16,\n"
    "Ceuta,ES,Ceuta,35.9,-5.3,10.3.0.0/16,Africa/Ceuta\n"
)


@pytest.fixture
def editor(home: str, monkeypatch: pytest.MonkeyPatch) -> Editor:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    return Editor(home)


def sheet(tmp_path: Path, text: str) -> str:
    (tmp_path / "sites.csv").write_text(text, encoding="utf-8")
    return str(tmp_path / "sites.csv")


def applied(editor: Editor, path: str) -> Any:
    return apply_sites(editor, read_sites(path), file="sites.csv")


@pytest.mark.parametrize("pure", [False, True])
def test_every_answer_has_the_time_zone_and_no_fingerprint(
    home: str, editor: Editor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pure: bool
) -> None:
    if pure:
        monkeypatch.setenv("GEOLOOKUP_PURE", "1")
    applied(editor, sheet(tmp_path, SITES.replace("America/New_York", "").replace("Africa/Ceuta", "")))
    with GeoLookup(home) as geo:
        before = geo.fingerprint()
        assert [getattr(geo.match(f"10.{n}.0.1"), "time_zone", 0) for n in (1, 2, 3)] == [None, "Europe/Vienna", None]
    plan = applied(editor, sheet(tmp_path, SITES))
    assert [change.describe().split(" (")[0] for change in plan.edits] == [
        "~ time zone of Boston",
        "~ time zone of Ceuta",
    ]
    assert plan.summary.changed == 2
    zones = ["America/New_York", "Europe/Vienna", "Africa/Ceuta"]
    with GeoLookup(home) as geo:
        assert geo.fingerprint() == before
        assert [getattr(geo.match(f"10.{n}.0.1"), "time_zone", 0) for n in (1, 2, 3)] == zones
        record = geo.record("10.1.0.1")
        assert record is not None
        assert record.find("location.time_zone") == "America/New_York"
        assert record.find("location.latitude") == 42.3
        column = pa.array(["10.1.0.1", "10.2.0.1", "10.3.0.1", "8.8.8.8"])
        assert [row["time_zone"] for row in arrow.locate(geo, column, fields=["time_zone"]).to_pylist()] == [
            *zones,
            None,
        ]
        for precision, told in ((None, zones), ("city", zones), ("country", [None, "Europe/Vienna", None])):
            target = tmp_path / f"{precision}.mmdb"
            export(geo, "mmdb", str(target), precision=precision)
            with maxminddb.open_database(str(target)) as reader:
                found = [reader.get(f"10.{n}.0.1") for n in (1, 2, 3)]
            assert [each["location"].get("time_zone") if "location" in each else None for each in found] == told
        target = tmp_path / "all.csv"
        export(geo, "csv", str(target), fields=("site", "time_zone"), layer="custom")
        assert "Boston,America/New_York" in target.read_text("utf-8")


@pytest.mark.parametrize("form", ["csv", "toml"])
def test_files_have_it_and_it_comes_back_as_it_was(editor: Editor, tmp_path: Path, form: Any) -> None:
    applied(editor, sheet(tmp_path, SITES))
    text = write_sites(export_sites(editor), form)
    again = tmp_path / f"again.{form}"
    again.write_text(text, encoding="utf-8")
    assert not plan_sites(editor, read_sites(str(again))).changes
    again.write_text(text.replace("Africa/Ceuta", "Europe/Madrid"), encoding="utf-8")
    applied(editor, str(again))
    assert editor.time_zones() == {"Boston": "America/New_York", "Ceuta": "Europe/Madrid"}
    assert [told for told in undo(editor).put_back if "Ceuta" in told] == ["Ceuta has the time zone Africa/Ceuta again"]
    assert editor.time_zones()["Ceuta"] == "Africa/Ceuta"


def test_what_is_no_time_zone_is_named_with_what_to_write(editor: Editor, tmp_path: Path) -> None:
    with pytest.raises(DataFileError) as caught:
        read_sites(sheet(tmp_path, SITES.replace("America/New_York", "America/New York")))
    assert "line 2: site 'Boston': a time zone is a name of the IANA database" in str(caught.value)
    assert "is it America/New_York?" in str(caught.value)
    with pytest.raises(EditError, match="has no name, and a time zone is a site's"):
        editor.create(country="DE", latitude=1, longitude=2, time_zone="Europe/Berlin")
    assert editor.custom() == []


def test_commands_give_show_and_take_it(home: str, editor: Editor, capsys: pytest.CaptureFixture[str]) -> None:
    place_of = ["--country", "US", "--latitude", "42", "--longitude", "-71"]
    assert (
        run(["custom", "create", "Boston", "--block", "10.1.0.0/16", *place_of, "--time-zone", "America/New_York"]) == 0
    )
    assert run(["custom", "create", "Other", *place_of, "--time-zone", "Mars"]) == 2
    capsys.readouterr()
    assert run(["--field", "time_zone", "10.1.0.1"]) == 0
    assert capsys.readouterr().out == "America/New_York\n"
    assert run(["custom", "update", "Boston", "--time-zone", "America/Detroit"]) == 0
    edits = len(StateDirectory(home).edits.history())
    assert run(["custom", "update", "Boston", "--time-zone", "America/Detroit"]) != 0
    assert len(StateDirectory(home).edits.history()) == edits
    capsys.readouterr()
    assert run(["custom", "show", "Boston"]) == 0
    assert "time zone:  America/Detroit" in capsys.readouterr().out
    assert run(["custom", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["time_zone"] == "America/Detroit"
    assert run(["custom", "rename", "Boston", "Boston office"]) == 0
    assert editor.time_zones() == {"Boston office": "America/Detroit"}
    assert run(["custom", "update", "Boston office", "--time-zone", ""]) == 0
    assert editor.time_zones() == {}
    assert [str(row.operation) for row in editor.pending()] == ["create", "add_block"], "no service hears of it"


def test_a_place_of_a_vrf_has_one(home: str, editor: Editor, tmp_path: Path) -> None:
    path = sheet(
        tmp_path, HEAD.replace("Netz,", "Netz,VRF,") + "Boston,US,Boston,42.3,-71,10.1.0.0/16,A,America/New_York\n"
    )

    def apply() -> int:
        return len(apply_vrfs(editor, by_vrf(read_sites(path), None), file=path, problems=Problems()).changes)

    assert (apply(), apply()) == (1, 0)
    with GeoLookup(home) as geo:
        match = geo.match("10.1.0.1", vrf="A")
        assert match is not None
        assert (match.site, match.time_zone) == ("Boston", "America/New_York")
    Path(path).write_text(Path(path).read_text("utf-8").replace("New_York", "Detroit"), encoding="utf-8")
    assert (apply(), apply()) == (1, 0)
    assert [site.time_zone for site in export_vrf(editor, "A")] == ["America/Detroit"]
    undo(editor)
    assert [site.time_zone for site in export_vrf(editor, "A")] == ["America/New_York"]
    assert io.StringIO(write_sites(export_vrf(editor, "A"), "csv")).readline().strip().startswith("name,")
