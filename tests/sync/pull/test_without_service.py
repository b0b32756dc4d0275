"""Custom geolocations of a state without a service are final; a service that comes gets them."""

from pathlib import Path

import pytest

import geolookup
from geolookup.errors import WrongUpstreamError
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.sources.definition import given
from geolookup.state.directory import StateDirectory
from geolookup.state.edits.editor import Editor
from geolookup.state.verify import verify
from geolookup.sync.pull.pull import pull
from tests.faults.raw_server import RawServer
from tests.support.lists import item, listed
from tests.support.running_service import FIELDS


@pytest.fixture
def office(tmp_path: Path) -> Path:
    path = tmp_path / "office.csv"
    path.write_text("first,last,country,city\n10.0.0.0,10.0.255.255,DE,Bonn\n")
    return path


def with_service(url: str, office: Path | None = None) -> Settings:
    sources = () if office is None else (SourceSettings(name="office", location=str(office)),)
    return Settings(url=url, sources=sources, attempts=1, max_wait_s=0.0)


def create(home: str, block: str) -> int:
    editor = Editor(home)
    locid = editor.create(**{**FIELDS, "city": "Mine"})
    editor.add_block(locid, block)
    return locid


def test_without_a_service_nothing_is_pending_and_nothing_waits(home: str, office: Path) -> None:
    pull(StateDirectory(home), Settings(), given=given(str(office)))
    locid = create(home, "10.0.1.0/24")
    with geolookup.GeoLookup(home) as geo:
        match, why, status = geo.match("10.0.1.1"), geo.explain("10.0.1.1"), geo.status()
    assert match is not None
    assert (match.source, match.pending, why.edits, why.covering[0].pending) == ("custom", False, (), False)
    assert status.pending_edits == 0
    editor = Editor(home)
    assert (editor.pending(), editor.get(locid).pending, [laid.pending for laid in editor.custom()]) == (
        [],
        False,
        [False],
    )
    editor.delete(locid)
    with geolookup.GeoLookup(home) as geo:
        assert [match.source for match in [geo.match("10.0.1.1")] if match] == ["office"]
    assert verify(home) == []


def test_a_service_that_comes_gets_what_was_made_here_and_it_is_pending_again(home: str, office: Path) -> None:
    pull(StateDirectory(home), Settings(), given=given(str(office)))
    create(home, "10.0.1.0/24")
    with RawServer(listed([item(1, ("11.0.0.0", "11.0.0.255"))])) as server:
        pull(StateDirectory(home), with_service(server.url, office))
    with geolookup.GeoLookup(home) as geo:
        match = geo.match("10.0.1.1")
        assert match is not None
        assert (match.source, match.pending, geo.status().pending_edits) == ("custom", True, 2)
    assert [type(row.edit).__name__ for row in Editor(home).pending()] == ["Create", "AddBlock"]


def test_when_the_service_leaves_the_custom_layer_stays_as_it_stands(home: str, office: Path) -> None:
    directory = StateDirectory(home)
    theirs = [item(1, ("11.0.0.0", "11.0.0.255")), item(-5, ("192.168.0.0", "192.168.0.255"), city="Theirs")]
    with RawServer(listed(theirs, etag='"1"')) as server:
        pull(directory, with_service(server.url, office))
        create(home, "10.0.1.0/24")
        alone = Settings(sources=with_service(server.url, office).sources)
        pull(directory, alone)

    def cities() -> list[str | None]:
        with geolookup.GeoLookup(home) as geo:
            found = [geo.match(each) for each in ("192.168.0.1", "10.0.1.1", "11.0.0.1")]
        return [match and match.geolocation.city for match in found]

    assert cities() == ["Theirs", "Mine", None]
    office.write_text("first,last,country,city\n10.0.0.0,10.0.255.255,DE,Ulm\n")
    pull(directory, alone)
    assert (cities(), verify(home)) == (["Theirs", "Mine", None], [])
    with geolookup.GeoLookup(home) as geo:
        assert geo.status().pending_edits == 0
    with (
        RawServer(listed([item(1, ("11.0.0.0", "11.0.0.255"))])) as other,
        pytest.raises(WrongUpstreamError, match=r"1 custom geolocations here came from.*would take their place"),
    ):
        pull(directory, Settings(url=other.url, sources=alone.sources, attempts=1), url_moved=False)
    assert cities() == ["Theirs", "Mine", None]
