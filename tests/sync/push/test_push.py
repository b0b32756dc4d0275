"""Pushing to the real service: order, isolation, conflicts, removals, twins, moved URLs."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from geolookup.cli.app import run
from geolookup.cli.exit_codes import of_push
from geolookup.errors import StateDamagedError, UpstreamUnavailableError, WrongUpstreamError
from geolookup.lookup.engine import GeoLookup
from geolookup.settings.table import Settings
from geolookup.state.directory import StateDirectory
from geolookup.state.edits.editor import Editor
from geolookup.state.edits.outbox.operations import Create
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.row import State
from geolookup.sync.pull.pull import pull
from geolookup.sync.push.attempts import PushReport
from geolookup.sync.push.push import push
from geolookup.upstream.geolocations import GeolocationsClient
from tests.faults.raw_server import RawServer
from tests.oracle.outbox_model import Crash
from tests.support.lists import item, listed
from tests.support.running_service import FIELDS, RunningService

A, B, C, D = "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24", "10.0.4.0/24"


class Machine:
    """One machine with a state of its own, and the service that it belongs to."""

    def __init__(self, home: str, service: RunningService) -> None:
        self.home, self.service = home, service
        self.settings = Settings(url=service.url, settle_s=0.0)
        self.pull()

    @property
    def directory(self) -> StateDirectory:
        return StateDirectory(self.home)

    @property
    def editor(self) -> Editor:
        return Editor(self.home)

    def pull(self, **changes: Any) -> Any:
        return pull(self.directory, self.settings, **changes)

    def push(self, **options: Any) -> PushReport:
        return push(self.directory, self.settings, **options)

    def create(self, *blocks: str, **fields: Any) -> int:
        locid = self.editor.create(**{**FIELDS, **fields})
        for block in blocks:
            self.editor.add_block(locid, block)
        return locid

    def there(self) -> dict[int, list[str]]:
        """The service's custom geolocations: the beginnings of their blocks."""
        with self.service.client() as client:
            places = client.get("/geolocations").json()
        return {p["locid"]: sorted(b["startip"] for b in p["ipblocks"]) for p in places if p["locid"] < 0}

    def states(self) -> list[str]:
        return [str(row.state) for row in self.editor.outbox()]

    def locid(self, address: str) -> int | None:
        with GeoLookup(self.home) as geo:
            found = geo.lookup(address)
        return None if found is None else found.locid


@pytest.fixture
def machine(home: str, service: RunningService) -> Machine:
    return Machine(home, service)


@pytest.fixture
def foreign(service: RunningService) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client


def add(foreign: httpx.Client, locid: int, first: str, last: str) -> None:
    foreign.post(f"/geolocations/ipblocks?locid={locid}", json={"startip": first, "endip": last}).raise_for_status()


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


def test_a_refused_edit_blocks_only_its_own_geolocation(machine: Machine, foreign: httpx.Client) -> None:
    machine.service.create(("10.0.1.0", "10.0.1.255"))
    one, two = machine.create(A, city="One"), machine.create(B, city="Two")
    machine.editor.update(one, city="One again")
    report = machine.push()
    assert (of_push(report), report.rejected, report.queued) == (3, 1, 1)
    aliases = machine.editor.get(two).place.locid
    assert machine.there()[aliases] == ["10.0.2.0"]


def test_adding_a_block_waits_for_our_own_removal_of_it_elsewhere(machine: Machine) -> None:
    one, two = machine.create(A, B, city="One"), machine.create(city="Two")
    assert of_push(machine.push()) == 0
    machine.editor.remove_block(one, A)
    machine.editor.add_block(two, A)
    edits = [row.id for row in machine.editor.pending()]
    with machine.directory.edits.transaction() as database:  # as if somebody else's block had stopped the removal
        Outbox(database).change(edits[0], state=State.HELD, problem="held for this test")
    assert of_push(machine.push()) == 3
    assert [str(row.state) for row in machine.editor.pending()] == ["held", "queued"]
    machine.editor.retry(edits[0])
    assert of_push(machine.push()) == 0
    assert sorted(machine.there().values()) == [["10.0.1.0"], ["10.0.2.0"]]


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
    locid = machine.create(city="Base")
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
        assert (held.journal or {})["theirs"]["fields"]["city"] == "Theirs"
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


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after the call"])
@pytest.mark.parametrize("call", range(4))
def test_a_removal_interrupted_at_any_remote_call_converges_from_a_fresh_process(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, call: int, after: bool
) -> None:
    locid = machine.create(A, B, C, D)
    assert of_push(machine.push()) == 0
    machine.editor.remove_block(locid, B)
    with monkeypatch.context() as patch:
        _die_at(patch, call, after=after)
        with pytest.raises(Crash):
            machine.push()
    assert machine.locid("10.0.2.1") is None
    assert machine.locid("10.0.4.1") == next(iter(machine.there()))
    assert of_push(machine.push()) == 0
    assert list(machine.there().values()) == [["10.0.1.0", "10.0.3.0", "10.0.4.0"]]


def _die_at(patch: pytest.MonkeyPatch, number: int, *, after: bool) -> None:
    """Die at the write of that number: right before it, or right after it was done."""
    calls = 0

    def deadly(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == number + 1 and not after:
                raise Crash
            answer = real(*given, **options)
            if calls == number + 1:
                raise Crash
            return answer

        return call

    for name in ("create", "create_block", "update", "replace_block", "delete", "delete_blocks"):
        patch.setattr(GeolocationsClient, name, deadly(getattr(GeolocationsClient, name)))


@pytest.mark.parametrize("call", [None, 0, 1], ids=["before it began", "after deleting", "after the first came back"])
def test_somebody_elses_block_is_never_deleted_by_a_removal(
    machine: Machine, foreign: httpx.Client, monkeypatch: pytest.MonkeyPatch, call: int | None
) -> None:
    locid = machine.create(A, B, C)
    assert of_push(machine.push()) == 0
    new = next(iter(machine.there()))
    machine.editor.remove_block(locid, B)
    if call is not None:
        with monkeypatch.context() as patch:
            _die_at(patch, call, after=True)
            with pytest.raises(Crash):
                machine.push()
    add(foreign, new, "10.0.9.0", "10.0.9.255")
    report = machine.push()
    assert "10.0.9.0" in machine.there()[new]
    if call != 1:  # by then nothing is left to be deleted, and it stands in nobody's way
        assert (of_push(report), report.held) == (3, 1)
        machine.editor.retry(machine.editor.pending()[0].id)
        report = machine.push()
    assert of_push(report) == 0
    assert machine.there()[new] == ["10.0.1.0", "10.0.3.0", "10.0.9.0"]


def test_a_block_that_does_not_come_back_keeps_none_of_the_others_away(
    machine: Machine, foreign: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    locid = machine.create(A, B, C, D)
    assert of_push(machine.push()) == 0
    machine.editor.remove_block(locid, B)
    with monkeypatch.context() as patch:
        _die_at(patch, 0, after=True)
        with pytest.raises(Crash):
            machine.push()
    other = machine.service.create(("10.0.1.0", "10.0.1.255"), city="Took it")
    assert of_push(machine.push()) == 3
    assert sorted(machine.there().values()) == [["10.0.1.0"], ["10.0.3.0", "10.0.4.0"]]
    foreign.delete(f"/geolocations?locid={other}").raise_for_status()
    machine.editor.retry(machine.editor.pending()[0].id)
    assert of_push(machine.push()) == 0
    assert list(machine.there().values()) == [["10.0.1.0", "10.0.3.0", "10.0.4.0"]]


def test_a_removal_that_is_half_done_is_turned_round_when_it_is_dropped(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    locid = machine.create(A, B, C)
    assert of_push(machine.push()) == 0
    machine.editor.remove_block(locid, B)
    with monkeypatch.context() as patch:

        def refused(*_: Any, **__: Any) -> None:
            raise UpstreamUnavailableError("the network is down", sent=False)

        patch.setattr(GeolocationsClient, "create_block", refused)
        assert of_push(machine.push()) == 1
    (row,) = machine.editor.pending()
    assert machine.editor.drop(row.id)[0].state == State.QUEUED
    assert of_push(machine.push()) == 0
    assert list(machine.there().values()) == [["10.0.1.0", "10.0.2.0", "10.0.3.0"]]


@pytest.mark.parametrize("after", [False, True], ids=["before the request", "after it was done"])
def test_a_create_whose_process_died_is_made_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    machine.create(A)
    with monkeypatch.context() as patch:
        _die_at(patch, 0, after=after)
        with pytest.raises(Crash):
            machine.push()
    assert machine.states() == ["sending", "queued"]
    assert of_push(machine.push()) == 0
    assert list(machine.there().values()) == [["10.0.1.0"]]


def test_an_edit_of_what_a_lost_create_made_becomes_an_edit_of_what_was_created(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = machine.create(A)
    with monkeypatch.context() as patch:
        _die_at(patch, 0, after=True)
        with pytest.raises(Crash):
            machine.push()
    (made,) = machine.there()
    machine.pull()
    machine.editor.add_block(made, B)
    late = push(machine.directory, Settings(url=machine.service.url, settle_s=3600.0))
    assert (late.unknown, late.queued, machine.there()) == (1, 2, {made: []})
    assert of_push(machine.push()) == 0
    assert machine.there() == {made: ["10.0.1.0", "10.0.2.0"]}
    assert machine.editor.get(old) == machine.editor.get(made)


def test_several_geolocations_that_a_lost_create_may_have_made_wait_for_a_person(
    machine: Machine, foreign: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.create(A)
    with monkeypatch.context() as patch:
        _die_at(patch, 0, after=True)
        with pytest.raises(Crash):
            machine.push()
    twin = machine.service.create()
    assert of_push(machine.push()) == 3
    held, waits = machine.editor.pending()
    assert [str(held.state), str(waits.state)] == ["held", "queued"]
    machine.editor.adopt(held.id, max(machine.there()))
    assert of_push(machine.push()) == 0
    assert machine.there()[twin] == []


def test_a_late_twin_of_what_was_created_here_is_reported_by_every_pull(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.create()
    with monkeypatch.context() as patch:
        _die_at(patch, 0, after=False)
        with pytest.raises(Crash):
            machine.push()
    assert of_push(machine.push()) == 0
    assert machine.pull().twins == []
    (ours,) = machine.there()
    late = machine.service.create()
    expected = [{"locid": late, "twin_of": ours, "edit": 1}]
    assert machine.pull().twins == expected
    unchanged = machine.pull()
    assert (unchanged.outcome, unchanged.twins) == ("unchanged", expected)
    monkeypatch.setenv("GEOLOOKUP_HOME", machine.home)
    assert run(["sync", "--url", machine.service.url]) == 3
    assert f"geolookup custom delete {late}" in capsys.readouterr().err
    machine.editor.delete(late)
    assert of_push(machine.push()) == 0
    assert machine.pull().twins == []


def test_an_equal_geolocation_of_somebody_else_is_no_twin_once_a_list_was_conclusive(machine: Machine) -> None:
    machine.create()
    assert of_push(machine.push()) == 0
    assert machine.pull().twins == []
    machine.service.create()
    assert machine.pull().twins == []


def test_what_was_deleted_here_does_not_count_as_gone(machine: Machine) -> None:
    places = [machine.service.create(city=f"City {number}") for number in range(13)]
    machine.pull()
    for locid in places:
        machine.editor.delete(locid)
    assert of_push(machine.push()) == 0
    report = machine.pull()
    assert (report.outcome, report.warnings) == ("published", [])


def test_an_edit_that_somebody_undid_is_not_laid_over_a_list_that_has_not_changed(
    machine: Machine, foreign: httpx.Client
) -> None:
    locid = machine.service.create(("10.0.1.0", "10.0.1.255"), city="Before")
    machine.pull()
    machine.editor.update(locid, city="Mine")
    assert of_push(machine.push()) == 0
    foreign.put(f"/geolocations?locid={locid}", json={**FIELDS, "city": "Before"}).raise_for_status()
    assert machine.pull().outcome == "unchanged"
    assert machine.editor.get(locid).place.city == "Before"


def test_a_push_to_another_url_is_refused_unless_the_service_moved(machine: Machine, tmp_path: Any) -> None:
    machine.create(A)
    with RunningService(tmp_path / "other.db") as other:
        elsewhere = Settings(url=other.url, settle_s=0.0)
        with pytest.raises(WrongUpstreamError, match="--url-moved"):
            push(machine.directory, elsewhere)
        assert of_push(push(machine.directory, elsewhere, url_moved=True)) == 0
        assert machine.directory.upstream_url() == other.url


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
        pull(machine.directory, Settings(url=other.url))
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
    machine.editor.update(locid, city="Elsewhere")
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
    real = Outbox.begin_attempt
    amended = []

    def meanwhile(outbox: Outbox, row: Any, **options: Any) -> bool:
        if not amended:
            amended.append(row)
            outbox.amend(row, Create(fields={**FIELDS, "city": "After"}))
        return real(outbox, row, **options)

    monkeypatch.setattr(Outbox, "begin_attempt", meanwhile)
    assert of_push(machine.push()) == 1
    assert machine.there() == {}
    assert of_push(machine.push()) == 0
    assert machine.editor.edit(edit).payload["fields"]["city"] == "After"
    (locid,) = machine.there()
    assert machine.editor.get(locid).place.city == "After"


def test_every_outcome_is_in_the_history(machine: Machine) -> None:
    locid = machine.create(A)
    machine.push()
    lines = [(line["what"], line["outcome"]) for line in machine.editor.history(locid)]
    assert lines == [("create", "queued"), ("add_block", "queued"), ("push create", "done"), ("push add_block", "done")]
