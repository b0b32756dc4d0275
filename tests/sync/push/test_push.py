"""Pushing to the real service: order, isolation, conflicts, moved URLs."""

from typing import Any

import httpx
import pytest

from geolookup.cli.exit_codes import of_push
from geolookup.model.errors import StateDamagedError, WrongUpstreamError
from geolookup.settings.table import Settings
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.row import State
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from geolookup.sync.push.push import push
from geolookup.upstream.geolocations import GeolocationsClient
from tests.faults.raw_server import RawServer
from tests.support.data.lists import item, listed
from tests.support.services.running_service import FIELDS, RunningService
from tests.sync.push.machine import A, B, C, Machine, add


def test_a_pushed_office_has_the_services_locid_and_its_old_number_still_works(machine: Machine) -> None:
    old = machine.create(A)
    assert of_push(machine.push()) == 0
    ((new, blocks),) = machine.there().items()
    assert blocks == ["10.0.1.0"]
    assert machine.locid("10.0.1.7") == new
    machine.editor.update(old, city="Moved")
    assert of_push(machine.push()) == 0
    assert machine.editor.get(old).place.locid == new
    again = machine.push()
    assert (of_push(again), again.requests) == (0, 0)


def test_what_a_push_says_has_the_services_numbers_and_the_names_of_sites(machine: Machine) -> None:
    office, gone = machine.create(A), machine.create(B, city="Gone")
    machine.editor.keep_sites({"Office": office}, file="sites.toml")
    report = machine.push()
    new, other = machine.editor.get(office).place.locid, machine.editor.get(gone).place.locid
    assert sorted(line["what"] for line in report.edits) == sorted(
        [
            f"create geolocation {new} (Office)",
            f"add 10.0.1.0-10.0.1.255 to {new} (Office)",
            f"create geolocation {other}",
            f"add 10.0.2.0-10.0.2.255 to {other}",
        ]
    )
    machine.editor.delete(gone)
    report = machine.push()
    assert [line["what"] for line in report.edits] == [f"delete geolocation {other}"]


def test_a_refused_edit_blocks_only_its_own_geolocation(machine: Machine, foreign: httpx.Client) -> None:
    machine.service.create(("10.0.1.0", "10.0.1.255"))
    one, two = machine.create(A, city="One", latitude=45), machine.create(B, city="Two")
    machine.editor.update(one, city="One again")
    report = machine.push()
    assert (of_push(report), report.rejected, report.queued) == (3, 1, 0)
    aliases = machine.editor.get(two).place.locid
    assert machine.there()[aliases] == ["10.0.2.0"]


def test_adding_a_block_waits_for_our_own_removal_of_it_elsewhere(machine: Machine, foreign: httpx.Client) -> None:
    one, two = machine.create(A, B, city="One"), machine.create(city="Two")
    assert of_push(machine.push()) == 0
    machine.editor.remove_block(one, A)
    machine.editor.add_block(two, A)
    edits = [row.id for row in machine.editor.pending()]
    add(foreign, machine.editor.get(one).place.locid, "10.0.9.0", "10.0.9.255")  # which stops the removal
    assert of_push(machine.push()) == 3
    assert [str(row.state) for row in machine.editor.pending()] == ["held", "queued"]
    machine.editor.retry(edits[0])
    assert of_push(machine.push()) == 0
    assert sorted(machine.there().values()) == [["10.0.1.0"], ["10.0.2.0", "10.0.9.0"]]


def test_removing_one_block_and_adding_another_is_one_replace(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    locid = machine.create(A, B)
    assert of_push(machine.push()) == 0
    machine.editor.remove_block(locid, A)
    machine.editor.add_block(locid, C)
    cleared: list[int] = []
    monkeypatch.setattr(GeolocationsClient, "delete_blocks", lambda _self, locid: cleared.append(locid))
    assert of_push(machine.push()) == 0
    assert not cleared
    assert list(machine.there().values()) == [["10.0.2.0", "10.0.3.0"]]


def test_a_block_removed_and_added_again_is_there_in_the_end(machine: Machine) -> None:
    locid = machine.create(A, B)
    assert of_push(machine.push()) == 0
    machine.editor.remove_block(locid, A)
    machine.editor.add_block(locid, A)
    assert of_push(machine.push()) == 0
    assert list(machine.there().values()) == [["10.0.1.0", "10.0.2.0"]]


@pytest.mark.parametrize("choice", ["hold", "mine", "theirs"])
def test_what_the_service_changed_meanwhile_is_a_conflict(machine: Machine, foreign: httpx.Client, choice: Any) -> None:
    locid = machine.create(A, city="Base")
    assert of_push(machine.push()) == 0
    new = machine.editor.get(locid).place.locid
    machine.editor.update(locid, city="Mine")
    foreign.put(f"/geolocations?locid={new}", json={**FIELDS, "city": "Theirs"}).raise_for_status()
    report = machine.push(on_conflict=choice)
    city = {"hold": "Theirs", "mine": "Mine", "theirs": "Theirs"}[choice]
    assert [p["city"] for p in foreign.get("/geolocations").json() if p["locid"] < 0] == [city]
    assert of_push(report) == (3 if choice == "hold" else 0)
    if choice == "hold":
        (held,) = machine.editor.pending()
        assert (held.base or {})["fields"]["city"] == "Base"
        hold = machine.editor.hold(held.id)
        assert hold is not None
        assert hold.theirs is not None
        assert "Theirs" in hold.theirs.values
        machine.editor.retry(held.id)
        assert of_push(machine.push()) == 0
        assert [p["city"] for p in foreign.get("/geolocations").json() if p["locid"] < 0] == ["Mine"]


def test_a_delete_of_what_the_service_changed_is_held(machine: Machine, foreign: httpx.Client) -> None:
    locid = machine.create(A)
    assert of_push(machine.push()) == 0
    machine.editor.delete(locid)
    ((new, _),) = machine.there().items()
    add(foreign, new, "10.0.9.0", "10.0.9.255")
    assert of_push(machine.push()) == 3
    assert list(machine.there().values()) == [["10.0.1.0", "10.0.9.0"]]


def test_what_is_gone_already_needs_no_delete(machine: Machine, foreign: httpx.Client) -> None:
    locid = machine.create(A)
    assert of_push(machine.push()) == 0
    machine.editor.delete(locid)
    foreign.delete(f"/geolocations?locid={next(iter(machine.there()))}").raise_for_status()
    report = machine.push()
    assert (of_push(report), report.done) == (0, 1)


def test_what_was_deleted_here_does_not_count_as_gone(machine: Machine) -> None:
    places = [machine.service.create(city=f"City {number}") for number in range(13)]
    machine.pull()
    for locid in places:
        machine.editor.delete(locid)
    assert of_push(machine.push()) == 0
    report = machine.pull()
    assert (report.outcome, report.warnings) == ("published", [])


def test_an_edit_that_somebody_undid_stays_until_a_person_decides(machine: Machine, foreign: httpx.Client) -> None:
    locid = machine.service.create(("10.0.1.0", "10.0.1.255"), city="Before")
    machine.pull()
    machine.editor.update(locid, city="Mine")
    assert of_push(machine.push()) == 0
    foreign.put(f"/geolocations?locid={locid}", json={**FIELDS, "city": "Before"}).raise_for_status()
    assert machine.pull().outcome == "unchanged"
    assert machine.editor.get(locid).place.city == "Mine"  # until a person decides: the service may have lost it
    (held,) = machine.editor.pending()
    machine.editor.drop(held.id)
    assert machine.editor.get(locid).place.city == "Before"


def test_a_push_to_another_url_is_refused_unless_the_service_moved(machine: Machine, tmp_path: Any) -> None:
    machine.create(A)
    with RunningService(tmp_path / "other.db") as other:
        elsewhere = Settings(url=other.url, settle_s=0.0)
        with pytest.raises(WrongUpstreamError, match="--url-moved"):
            push(machine.directory, elsewhere)
        assert of_push(push(machine.directory, elsewhere, url_moved=True)) == 0
        assert machine.directory.upstream_url() == other.url


def test_a_service_that_moved_is_remembered_though_nothing_is_to_be_sent(machine: Machine, tmp_path: Any) -> None:
    machine.create(A)
    assert of_push(machine.push()) == 0
    with RunningService(tmp_path / "other.db") as other:
        elsewhere = Settings(url=other.url, settle_s=0.0)
        (warning,) = push(machine.directory, elsewhere, url_moved=True).warnings
        assert warning.startswith(f"this state belongs to {other.url} from now on")
        assert machine.directory.upstream_url() == other.url
        assert push(machine.directory, elsewhere).warnings == []


def test_a_pull_from_another_url_is_refused_while_edits_are_pending(machine: Machine, tmp_path: Any) -> None:
    machine.create(A)
    with RunningService(tmp_path / "other.db", load=[tmp_path / "defaults.csv"]) as other:
        elsewhere = Settings(url=other.url)
        with pytest.raises(WrongUpstreamError, match="--url-moved"):
            pull(machine.directory, elsewhere)
        assert pull(machine.directory, elsewhere, url_moved=True).generation is not None
        assert machine.directory.upstream_url() == other.url
        assert machine.locid("10.0.1.1") == machine.editor.outbox()[0].locid


def test_a_pull_from_another_url_goes_ahead_where_nothing_is_pending(machine: Machine, tmp_path: Any) -> None:
    machine.create(A)
    assert of_push(machine.push()) == 0
    with RunningService(tmp_path / "other.db", load=[tmp_path / "defaults.csv"]) as other:
        elsewhere = Settings(url=other.url)
        with pytest.raises(WrongUpstreamError, match="no list has shown yet what it said yes to"):
            pull(machine.directory, elsewhere)
        machine.pull()
        report = pull(machine.directory, elsewhere)
        assert report.warnings[-1].startswith(f"from now on this state belongs to {other.url}: before")
        assert machine.directory.upstream_url() == other.url


def test_damaged_edits_are_not_pushed(machine: Machine) -> None:
    machine.create(A)
    path = machine.directory.edits.path
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)
    with pytest.raises(StateDamagedError):
        machine.push()
    assert machine.there() == {}


def test_a_list_that_lost_its_default_geolocations_drives_no_deletion(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    locid = machine.create(A)
    assert of_push(machine.push()) == 0
    machine.editor.update(locid, city="CreatedByCopy")
    real = GeolocationsClient.list

    def capped(client: GeolocationsClient, **options: Any) -> Any:
        return real(client, **{**options, "etag": None, "country": "nowhere"})

    with monkeypatch.context() as patch:
        patch.setattr(GeolocationsClient, "list", capped)
        report = machine.push()
    assert (of_push(report), machine.states()[-1]) == (1, "queued")
    assert "not trusted" in (report.stopped or "")


def test_a_custom_row_that_cannot_be_read_stops_what_would_lose_it(home: str) -> None:
    x, y = ("10.0.1.0", "10.0.1.255"), ("10.0.2.0", "10.0.2.255")
    good = listed([item(1), item(-1, x, y)], count=2)
    bad = listed([item(1), item(-1, x, y, ("10.0.3.9", "10.0.3.1"))], count=2)
    with RawServer(good, bad) as server:
        settings = Settings(url=server.url, settle_s=0.0)
        pull(StateDirectory(home), settings)
        Editor(home).remove_block(-1, *x)
        report = push(StateDirectory(home), settings)
    assert (of_push(report), report.queued) == (1, 1)
    assert "cannot be read" in (report.stopped or "")
    assert {request.method for request in server.requests} == {"GET"}


def test_an_edit_dropped_while_the_push_runs_is_not_sent(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.create(city="First")
    machine.create(city="Second")
    second = machine.editor.pending()[1].id
    real = GeolocationsClient.list

    def meanwhile(client: GeolocationsClient, **options: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(GeolocationsClient, "list", real)
            if machine.editor.edit(second).state == State.QUEUED:
                machine.editor.drop(second)
        return real(client, **options)

    monkeypatch.setattr(GeolocationsClient, "list", meanwhile)
    assert of_push(machine.push()) == 0
    assert len(machine.there()) == 1


def test_an_edit_changed_between_planning_and_sending_goes_out_as_changed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.create(city="Before")
    edit = machine.editor.pending()[0].id
    real = GeolocationsClient.list
    amended = []

    def meanwhile(client: GeolocationsClient, **options: Any) -> Any:
        if not amended:
            amended.append(edit)
            machine.editor.amend(edit, fields={"city": "After"})
        return real(client, **options)

    monkeypatch.setattr(GeolocationsClient, "list", meanwhile)
    assert of_push(machine.push()) == 0
    assert machine.editor.edit(edit).payload["fields"]["city"] == "After"
    (locid,) = machine.there()
    assert machine.editor.get(locid).place.city == "After"


def test_every_outcome_is_in_the_history(machine: Machine) -> None:
    locid = machine.create(A)
    machine.push()
    lines = [(line["what"], line["outcome"]) for line in machine.editor.history(locid)]
    assert lines == [("create", "queued"), ("add_block", "queued"), ("push create", "done"), ("push add_block", "done")]
