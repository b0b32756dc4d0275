"""The name of a site is in every answer: matches, records, rows, exports. It is not sent, and in no fingerprint."""

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
from geolookup.model.errors import EditError
from geolookup.sites.file import read_sites
from geolookup.sites.plan import apply_sites
from geolookup.sites.undo import undo
from geolookup.state.editor import Editor
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.sessions import Sessions
from tests.state.edits.editing import acknowledge
from tests.support.data.states import place, publish

SITES = (
    "Site,Country,City,Lat,Lon,Network\nK\xf6ln 2,DE,K\xf6ln,50.9,6.9,10.1.0.0/16\nBonn,DE,Bonn,50.7,7.1,10.2.0.0/16\n"
)


@pytest.fixture
def editor(home: str, monkeypatch: pytest.MonkeyPatch) -> Editor:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    publish(home, [place(1, "8.0.0.0/8", country="US"), place(-1, "10.9.0.0/16", country="FR")])
    return Editor(home)


def applied(editor: Editor, tmp_path: Path, text: str = SITES) -> None:
    path = tmp_path / "sites.csv"
    path.write_text(text, encoding="utf-8")
    apply_sites(editor, read_sites(str(path)), file="sites.csv")


@pytest.mark.parametrize("pure", [False, True])
def test_every_answer_has_the_sites_name(
    home: str, editor: Editor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pure: bool
) -> None:
    if pure:
        monkeypatch.setenv("GEOLOOKUP_PURE", "1")
    applied(editor, tmp_path)
    with GeoLookup(home) as geo:
        matches = [geo.match(address) for address in ("10.1.2.3", "10.2.2.3", "10.9.0.1", "8.8.8.8")]
        assert [found and found.site for found in matches] == ["K\xf6ln 2", "Bonn", None, None]
        assert matches[0] is not None
        assert matches[0].country_name == "Germany", "other facts follow from the fields, as ever"
        record = geo.record("10.1.2.3")
        assert record is not None
        assert record["geolookup"] == {"site": "K\xf6ln 2"}
        assert record.find("city.names.en") == "K\xf6ln"
        assert "geolookup" not in (geo.record("10.9.0.1") or {})
        rows = arrow.locate(geo, pa.array(["10.1.2.3", "8.8.8.8"]), fields=["site", "country"]).to_pylist()
        assert rows == [{"site": "K\xf6ln 2", "country": "DE"}, {"site": None, "country": "US"}]


def test_commands_and_exports_say_the_name(
    home: str, editor: Editor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    applied(editor, tmp_path)
    assert run(["--field", "site", "10.1.2.3", "10.2.2.3"]) == 0
    assert capsys.readouterr().out == "K\xf6ln 2\nBonn\n"
    assert run(["--json", "10.1.2.3"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["site"] == "K\xf6ln 2"
    out = tmp_path / "out.mmdb"
    with GeoLookup(home) as geo:
        with out.open("wb") as file:
            export(geo, "mmdb", file)
        with maxminddb.open_database(out) as database:
            found: Any = database.get("10.2.2.3")
            assert found["geolookup"]["site"] == "Bonn"
            other: Any = database.get("8.8.8.8")
            assert "site" not in other["geolookup"]
        rows = io.BytesIO()
        export(geo, "csv", rows, fields=["site", "city"])
        assert "10.1.0.0,10.1.255.255,K\xf6ln 2,K\xf6ln" in rows.getvalue().decode()
        rows = io.BytesIO()
        export(geo, "csv", rows, fields=["site", "city"], precision="city")
        assert "K\xf6ln 2" not in rows.getvalue().decode(), "a name tells more than a city"


def test_a_name_is_seen_as_soon_as_it_changes_and_survives_a_sync(home: str, editor: Editor, tmp_path: Path) -> None:
    applied(editor, tmp_path)
    with GeoLookup(home) as geo:
        before = geo.fingerprint()
    applied(editor, tmp_path, SITES.replace("K\xf6ln 2", "K\xf6ln S\xfcd"))
    with GeoLookup(home) as geo:
        found = geo.match("10.1.0.1")
        assert found is not None
        assert found.site == "K\xf6ln S\xfcd"
        assert geo.fingerprint() == before
    publish(home, [place(1, "8.0.0.0/8", country="DE")])
    with GeoLookup(home) as geo:
        found = geo.match("10.1.0.1")
        assert found is not None
        assert found.site == "K\xf6ln S\xfcd"


def test_a_name_stays_when_the_service_gives_its_own_number(home: str, editor: Editor, tmp_path: Path) -> None:
    applied(editor, tmp_path)
    acknowledge(home, p1=-7)
    publish(home, [place(1, "8.0.0.0/8"), place(-7, "10.1.0.0/16", country="DE", city="K\xf6ln")])
    with GeoLookup(home) as geo:
        found = geo.match("10.1.0.1")
        assert found is not None
        assert (found.locid, found.site) == (-7, "K\xf6ln 2")


def test_what_is_sent_has_no_name(editor: Editor, tmp_path: Path) -> None:
    applied(editor, tmp_path)
    assert all("K\xf6ln 2" not in json.dumps(row.payload, ensure_ascii=False) for row in editor.outbox())


def test_a_state_with_names_is_whole(home: str, editor: Editor, tmp_path: Path) -> None:
    applied(editor, tmp_path)
    assert run(["verify"]) == 0
    assert StateDirectory(home).open().current.overlay > 0


def test_a_site_gets_another_name_and_undo_gives_it_back(home: str, editor: Editor, tmp_path: Path) -> None:
    applied(editor, tmp_path)
    bonn = editor.sites()["Bonn"]
    edits = editor.outbox()
    assert editor.rename(bonn, "Bonn Süd") == "Bonn"
    assert editor.rename(-1, "Paris") is None
    with GeoLookup(home) as geo:
        assert [geo.match(address).site for address in ("10.2.2.3", "10.9.0.1")] == ["Bonn Süd", "Paris"]
    assert editor.sites().keys() == {"K\xf6ln 2", "Bonn Süd", "Paris"}
    assert editor.outbox() == edits  # no service hears of it
    assert [line["what"] for line in editor.history(bonn)][-1] == "sites"
    assert undo(editor).put_back == ("Paris has no name again",)
    assert undo(editor).put_back == ("Bonn Süd is named Bonn again",)
    assert editor.sites() == {"K\xf6ln 2": editor.sites()["K\xf6ln 2"], "Bonn": bonn}
    with GeoLookup(home) as geo:
        assert [geo.match(address).site for address in ("10.2.2.3", "10.9.0.1")] == ["Bonn", None]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Bonn", "is named 'Bonn' already"),
        ("K\xf6ln 2", "there is a site"),
        ("", "one line"),
        (" B", "no blanks around"),
    ],
)
def test_a_name_that_cannot_be_is_refused(editor: Editor, tmp_path: Path, name: str, told: str) -> None:
    applied(editor, tmp_path)
    before = editor.sites()
    with pytest.raises(EditError, match=told):
        editor.rename(before["Bonn"], name)
    assert editor.sites() == before


def test_a_new_name_that_was_not_published_is_by_the_next_edit(
    home: str, editor: Editor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied(editor, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Sessions, "_publish", lambda *_, **__: None)  # as if it was killed there
        editor.rename(editor.sites()["Bonn"], "Bonn Süd")
    editor.sessions.catch_up()
    with GeoLookup(home) as geo:
        assert geo.match("10.2.2.3").site == "Bonn Süd"
