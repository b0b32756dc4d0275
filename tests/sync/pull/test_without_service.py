"""Custom geolocations of a state without a service are final; a service that comes gets them."""

from pathlib import Path

import pytest

import geolookup
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.sources.definition import given
from geolookup.state.editor import Editor
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.publish import Publish
from geolookup.state.publishing.verify import verify
from geolookup.sync.pull.pull import pull
from geolookup.sync.push.push import push
from tests.faults.raw_server import RawServer
from tests.support.data.lists import item, listed
from tests.support.services.running_service import FIELDS, RunningService


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
    pull(StateDirectory(home), Settings(), given=given([str(office)]))
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
    pull(StateDirectory(home), Settings(), given=given([str(office)]))
    create(home, "10.0.1.0/24")
    with RawServer(listed([item(1, ("11.0.0.0", "11.0.0.255"))])) as server:
        pull(StateDirectory(home), with_service(server.url, office))
    with geolookup.GeoLookup(home) as geo:
        match = geo.match("10.0.1.1")
        assert match is not None
        assert (match.source, match.pending, geo.status().pending_edits) == ("custom", True, 2)
    assert [row.operation for row in Editor(home).pending()] == ["create", "add_block"]


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


def answers(home: str, *addresses: str) -> list[tuple[int, str, bool] | None]:
    with geolookup.GeoLookup(home) as geo:
        found = map(geo.match, addresses)
        return [match and (match.geolocation.locid, match.geolocation.city, match.pending) for match in found]


def push_all(home: str, settings: Settings) -> None:
    report = push(StateDirectory(home), settings)
    assert (report.queued, report.unknown, report.held, report.rejected) == (0, 0, 0, 0)


def customs(service: RunningService) -> list[tuple[int, str, tuple[str, ...]]]:
    with service.client() as client:
        found = [place for place in client.get("/geolocations").json() if place["locid"] < 0]
    return sorted(
        (place["locid"], place["city"], tuple(block["startip"] for block in place["ipblocks"])) for place in found
    )


def test_another_service_gets_one_create_for_each_custom_geolocation_that_it_never_had(
    home: str, office: Path, tmp_path: Path
) -> None:
    directory = StateDirectory(home)
    alone = Settings(sources=(SourceSettings(name="office", location=str(office)),))
    asked = ("10.0.1.1", "10.0.2.1", "10.0.3.1", "10.0.4.1")
    csv = tmp_path / "one.csv"
    csv.write_text("startip,endip,country\n11.0.0.0,11.0.0.255,US\n")
    with (
        RunningService(tmp_path / "first.db", load=[csv]) as first,
        RunningService(tmp_path / "second.db", load=[csv]) as second,
    ):
        old, new = with_service(first.url, office), with_service(second.url, office)
        theirs = first.create(("10.0.2.0", "10.0.2.255"), city="Theirs")
        # The second service has given the same number to something else.
        assert second.create(("10.0.3.0", "10.0.3.255"), city="Stranger") == theirs
        pull(directory, old)
        mine = create(home, "10.0.1.0/24")
        push_all(home, old)
        pull(directory, old)
        assert [city for _, city, _ in customs(first)] == ["Mine", "Theirs"]
        pull(directory, alone)
        editor = Editor(home)
        editor.update(theirs, city="Changed")
        last = create(home, "10.0.4.0/24")

        report = pull(directory, new)
        assert any("comes after" in text and "geolookup push" in text for text in report.warnings)
        assert [answer and answer[1:] for answer in answers(home, *asked)] == [
            ("Mine", True),
            ("Changed", True),
            ("Stranger", False),
            ("Mine", True),
        ]
        assert sorted(row.operation for row in Editor(home).pending()) == ["add_block"] * 3 + ["create"] * 3
        pull(directory, new)
        push_all(home, new)
        pull(directory, new)
        at_second = customs(second)
        assert sorted((city, blocks) for _, city, blocks in at_second) == [
            ("Changed", ("10.0.2.0",)),
            ("Mine", ("10.0.1.0",)),
            ("Mine", ("10.0.4.0",)),
            ("Stranger", ("10.0.3.0",)),
        ]
        assert [Editor(home).get(number).place.city for number in (mine, last)] == ["Mine", "Mine"]

        # The first one comes back: what it had is not sent again, and what it never had is.
        before = customs(first)
        pull(directory, alone)
        Editor(home).update(mine, city="Renamed")
        pull(directory, old)
        push_all(home, old)
        pull(directory, old)
        after = customs(first)
        assert len(after) == len(before) + 2, "the one made without a service, and the stranger"
        assert sorted(city for _, city, _ in after) == ["Mine", "Renamed", "Stranger", "Theirs"]
        assert [answer and answer[1:] for answer in answers(home, *asked)] == [
            ("Renamed", False),
            ("Theirs", False),
            ("Stranger", False),
            ("Mine", False),
        ]
        assert customs(second) == at_second
    assert verify(home) == []


def test_what_one_service_refused_goes_to_another_that_comes_after_it(home: str, office: Path, tmp_path: Path) -> None:
    directory = StateDirectory(home)
    csv = tmp_path / "one.csv"
    csv.write_text("startip,endip,country\n11.0.0.0,11.0.0.255,US\n")
    with (
        RunningService(tmp_path / "first.db", load=[csv]) as first,
        RunningService(tmp_path / "second.db", load=[csv]) as second,
    ):
        pull(directory, with_service(first.url, office))
        mine = create(home, "10.0.1.0/24")
        push_all(home, with_service(first.url, office))
        pull(directory, with_service(first.url, office))
        first.create(("10.0.2.0", "10.0.2.255"), city="Theirs")
        Editor(home).add_block(mine, "10.0.2.0/24")
        assert push(directory, with_service(first.url, office)).rejected == 1
        pull(directory, Settings(sources=with_service(first.url, office).sources))
        pull(directory, with_service(second.url, office))
        push_all(home, with_service(second.url, office))
        assert [(city, blocks) for _, city, blocks in customs(second)] == [("Mine", ("10.0.1.0", "10.0.2.0"))]


def test_what_was_carried_is_queued_once_though_the_publish_is_cut_off(
    home: str, office: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = StateDirectory(home)
    theirs = [item(1, ("11.0.0.0", "11.0.0.255")), item(-5, ("192.168.0.0", "192.168.0.255"), city="Theirs")]
    with RawServer(listed(theirs)) as server:
        pull(directory, with_service(server.url, office))
    pull(directory, Settings(sources=with_service("http://127.0.0.1:1", office).sources))
    with RawServer(*[listed([item(1, ("11.0.0.0", "11.0.0.255"))])] * 3) as other:
        with monkeypatch.context() as patch:
            patch.setattr(Publish, "commit", cut_off)
            with pytest.raises(KeyboardInterrupt):
                pull(directory, with_service(other.url, office))
        assert [match and match[1] for match in answers(home, "192.168.0.1")] == ["Theirs"]
        pull(directory, with_service(other.url, office))
    assert [match and match[1:] for match in answers(home, "192.168.0.1")] == [("Theirs", True)]
    assert [row.operation for row in Editor(home).pending()] == ["create", "add_block"]


def cut_off(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_service_that_has_only_moved_gets_nothing(home: str, office: Path) -> None:
    directory = StateDirectory(home)
    theirs = [item(1, ("11.0.0.0", "11.0.0.255")), item(-5, ("192.168.0.0", "192.168.0.255"), city="Theirs")]
    with RawServer(listed(theirs)) as server:
        pull(directory, with_service(server.url, office))
    pull(directory, Settings(sources=with_service("http://127.0.0.1:1", office).sources))
    with RawServer(*[listed(theirs)] * 2) as other:
        pull(directory, with_service(other.url, office), url_moved=True)
    assert (answers(home, "192.168.0.1"), Editor(home).pending()) == ([(-5, "Theirs", False)], [])
