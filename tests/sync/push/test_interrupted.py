"""Pushes that were interrupted, and what they lost: removals half done, creates that arrived or not, twins."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from geolookup.cli.app import run
from geolookup.cli.exit_codes import of_push
from geolookup.model.errors import UnknownGeolocationError, UpstreamUnavailableError
from geolookup.state.edits.outbox.kept import Kept
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.places.place import Place
from geolookup.upstream.geolocations import GeolocationsClient
from tests.oracle.outbox_model import Crash
from tests.support.services.running_service import FIELDS
from tests.sync.push.machine import A, B, C, D, Machine, add


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
    if call is None:  # after that nothing is left to be deleted, and it stands in nobody's way
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
    row = machine.editor.pending()[0]
    assert "the next push puts back" in str(machine.editor.drop(row.id)[0].problem)
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
    assert machine.states() == ["unknown", "queued"]
    assert of_push(machine.push()) == 0
    assert list(machine.there().values()) == [["10.0.1.0"]]


def test_answers_whose_transaction_failed_are_noted_as_the_push_ends(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for block in (A, B):
        machine.create(block)
    saved: list[bool] = []

    def save(ledger: Ledger, kept: Kept, place: Place, **how: Any) -> Kept:
        after = real(ledger, kept, place, **how)
        if place.number is not None and kept.place.number is None:
            saved.append(True)
            if len(saved) == 2:
                raise Crash
        return after

    real = Ledger.save
    monkeypatch.setattr(Ledger, "save", save)
    with pytest.raises(Crash):
        machine.push()
    monkeypatch.undo()
    numbers = {machine.editor.get(row.locid).place.locid for row in machine.editor.outbox()}
    assert numbers == set(machine.there())
    assert of_push(machine.push()) == 0
    assert numbers == set(machine.there())


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
    expected = [{"locid": late, "twin_of": ours, "site": None, "edit": 1}]
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


def test_what_a_person_says_that_a_create_became_stays_so_whatever_it_looks_like(
    machine: Machine, foreign: httpx.Client
) -> None:
    machine.create()
    assert of_push(machine.push()) == 0
    (ours,) = machine.there()
    changed = {**FIELDS, "country": "JP", "latitude": 35.0, "longitude": 139.0}
    foreign.put(f"/geolocations?locid={ours}", json=changed).raise_for_status()
    machine.pull()
    (held,) = machine.editor.pending()
    machine.editor.adopt(held.id, ours)
    machine.pull()
    assert machine.states() == ["done"]


def test_of_ours_that_somebody_changed_and_an_equal_one_of_theirs_neither_is_taken_unasked(
    machine: Machine, foreign: httpx.Client
) -> None:
    old = machine.create(city="Berlin")
    assert of_push(machine.push()) == 0
    (ours,) = machine.there()
    theirs = machine.service.create(city="Berlin")
    foreign.put(f"/geolocations?locid={ours}", json={**FIELDS, "city": "Bonn"}).raise_for_status()
    machine.editor.add_block(old, A)
    report = machine.push()
    assert (of_push(report), report.held, machine.there()) == (3, 1, {ours: [], theirs: []})
    (held,) = machine.editor.pending()
    assert f"the service has something new that may be Berlin ({old}): {theirs} (Berlin" in str(held.problem)
    assert f", or {ours} (Bonn" in str(held.problem)
    machine.editor.adopt(held.id, ours)
    assert of_push(machine.push()) == 0
    assert machine.there() == {ours: ["10.0.1.0"], theirs: []}


def test_what_we_made_equal_to_another_create_of_ours_keeps_its_number(machine: Machine) -> None:
    machine.create(city="Berlin")
    other = machine.create(city="Bonn")
    assert of_push(machine.push()) == 0
    number = machine.editor.get(other).place.locid
    machine.editor.update(other, city="Berlin")
    machine.service.create(city="Bonn")  # a colleague's, equal to what ours was
    assert of_push(machine.push()) == 0
    machine.pull()
    assert machine.editor.get(other).place.locid == number


def test_what_a_lost_create_made_is_known_for_what_was_deleted_since(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = machine.create()
    with monkeypatch.context() as patch:
        _die_at(patch, 0, after=True)
        with pytest.raises(Crash):
            machine.push()
    machine.editor.delete(old)
    machine.pull()  # which tells what the create has made
    (made,) = machine.there()
    with pytest.raises(UnknownGeolocationError):
        machine.editor.add_block(made, A)
    assert of_push(machine.push()) == 0
    assert machine.there() == {}
