"""The names of sites that a service's elements have: read with `site_field`, shown, and never sent."""

from pathlib import Path

import pytest

from geolookup.cli.app import run
from geolookup.lookup.engine import GeoLookup
from geolookup.settings.table import Settings
from geolookup.sites.plan import export_sites
from geolookup.state.editor import Editor
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from tests.faults.raw_server import RawServer
from tests.support.data.lists import item, listed


def _list(name: object) -> bytes:
    custom = item(-1, ("10.0.0.0", "10.0.255.255"), country="DE", name=name, label="Filiale")
    return listed([item(1, ("8.0.0.0", "8.255.255.255"), name="Google"), custom], count=2, etag='"1"')


def _named(home: str, server: RawServer, field: str) -> list[str | None]:
    pull(StateDirectory(home), Settings(url=server.url, attempts=1, site_field=field))
    with GeoLookup(home) as geo:
        return [match and match.site for match in map(geo.match, ("10.0.0.1", "8.8.8.8"))]


def test_the_name_of_an_element_is_the_sites_and_one_that_is_given_here_goes_before_it(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RawServer(*[_list("Bonn")] * 3) as server:
        assert _named(home, server, "") == [None, None]
        assert _named(home, server, "name") == ["Bonn", None], "the setting counts from the first list on"
        assert _named(home, server, "label") == ["Filiale", None]
    editor = Editor(home)
    assert editor.site_names() == {-1: "Filiale"}
    assert [site.name for site in export_sites(editor)] == ["Filiale"]
    editor.update(-1, city="Beuel")
    assert "Filiale" not in str(editor.outbox()), "it is never sent"
    with GeoLookup(home) as geo:
        assert getattr(geo.match("10.0.0.1"), "site", 0) == "Filiale", "an edit keeps it"
    editor.rename(-1, "Head office")
    with GeoLookup(home) as geo:
        assert getattr(geo.match("10.0.0.1"), "site", 0) == "Head office"


@pytest.mark.parametrize("name", [None, 7, "", " Bonn", "two\nlines", {"de": "Bonn"}])
def test_what_cannot_be_a_name_is_none(home: str, tmp_path: Path, name: object) -> None:
    with RawServer(_list(name)) as server:
        assert _named(home, server, "name") == [None, None]


def test_a_name_of_several_is_no_name_of_one(
    home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    two = [item(-at, (f"10.{at}.0.0", f"10.{at}.255.255"), country="DE", name="HQ") for at in (1, 2)]
    one = item(-3, ("10.3.0.0", "10.3.255.255"), country="DE", name="Ulm")
    body = listed([item(1, ("8.0.0.0", "8.255.255.255"), name="Google"), *two, one], count=4, etag='"1"')
    with RawServer(body) as server:
        _named(home, server, "name")
    assert run(["custom", "delete", "HQ"]) == 2
    assert "'HQ' is the name of 2 geolocations: -1, -2. Give the locid of one" in capsys.readouterr().err
    assert [site.name for site in export_sites(Editor(home))] == ["HQ -1", "HQ -2", "Ulm"]
    assert run(["custom", "delete", "Ulm"]) == 0
    assert {laid.place.locid for laid in Editor(home).custom()} == {-1, -2}
