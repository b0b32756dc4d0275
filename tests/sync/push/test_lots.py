"""Edits that go out together: what is durable before their requests, and what a failure in between leaves."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from geolookup.cli.exit_codes import of_push
from geolookup.model.errors import UpstreamRefusedError, UpstreamUnavailableError
from geolookup.state.base import clock
from geolookup.state.edits.outbox.row import OutboxRow
from geolookup.sync.push import group
from geolookup.upstream.geolocations import GeolocationsClient
from tests.sync.push.machine import A, B, C, D, Machine


def offices(machine: Machine, *cities: str) -> None:
    for city in cities:
        machine.create(city=city)


def meeting(
    monkeypatch: pytest.MonkeyPatch, number: int, error: BaseException | None = None, **seen: Callable[[], Any]
) -> dict[str, Any]:
    """Have the create of that number, counted from 1, meet an error before it leaves; what was ``seen`` right then."""
    real, found, sent = GeolocationsClient.create, {}, []

    def create(client: GeolocationsClient, fields: Any, **options: Any) -> int:
        sent.append(fields["city"])
        if len(sent) == number:
            found.update({name: look() for name, look in seen.items()})
            if error is not None:
                raise error
        return real(client, fields, **options)

    monkeypatch.setattr(GeolocationsClient, "create", create)
    found["sent"] = sent
    return found


def untouched(row: OutboxRow) -> bool:
    return row.never_sent and row.attempted is None and row.baseline is None and row.problem is None


def test_edits_of_different_geolocations_share_a_durable_mark(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    offices(machine, "One", "Two", "Three")
    found = meeting(monkeypatch, 1, states=machine.states)
    assert of_push(machine.push()) == 0
    assert found["states"] == ["sending", "sending", "sending"]
    assert found["sent"] == ["One", "Two", "Three"]


def test_two_edits_of_one_geolocation_are_never_on_their_way_together(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.create(A, B, city="One")
    machine.create(C, city="Two")
    found = meeting(monkeypatch, 1, states=machine.states)
    assert of_push(machine.push()) == 0
    assert found["states"] == ["sending", "queued", "queued", "sending", "queued"]
    assert sorted(machine.there().values()) == [["10.0.1.0", "10.0.2.0"], ["10.0.3.0"]]


@pytest.mark.parametrize(
    ("cities", "states"),
    [
        (["Same", "Same", "Other"], ["sending", "queued", "sending"]),
        (["Other", "Same", "Same"], ["sending", "sending", "queued"]),
    ],
)
def test_equal_creates_are_never_on_their_way_together(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, cities: list[str], states: list[str]
) -> None:
    offices(machine, *cities)
    found = meeting(monkeypatch, 1, states=machine.states)
    assert of_push(machine.push()) == 0
    assert found["states"] == states
    assert len(machine.there()) == 3


def test_two_blocks_of_one_geolocation_are_never_on_their_way_together(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = machine.create(city="One"), machine.create(city="Two")
    assert of_push(machine.push()) == 0
    for locid, block in ((one, A), (one, B), (two, C), (two, D)):
        machine.editor.add_block(locid, block)
    offices(machine, "Three")
    found = meeting(monkeypatch, 1, states=machine.states)
    assert of_push(machine.push()) == 0
    assert found["states"][2:] == ["sending", "queued", "sending", "queued", "sending"]
    assert sorted(machine.there().values()) == [[], ["10.0.1.0", "10.0.2.0"], ["10.0.3.0", "10.0.4.0"]]


def test_a_block_does_not_overtake_what_frees_it(machine: Machine) -> None:
    one, two, three = (machine.create(*blocks, city=city) for city, blocks in (("1", [A]), ("2", [B]), ("3", [])))
    assert of_push(machine.push()) == 0
    machine.editor.replace_block(one, A, None, C)
    machine.editor.replace_block(two, B, None, A)
    machine.editor.add_block(three, B)
    assert of_push(machine.push()) == 0
    assert sorted(machine.there().values()) == [["10.0.1.0"], ["10.0.2.0"], ["10.0.3.0"]]


def test_after_a_lost_answer_what_did_not_leave_is_as_before(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    offices(machine, "One", "Two", "Three", "Four")
    with monkeypatch.context() as patch:
        states: list[list[str]] = []
        patch.setattr(clock, "sleep", lambda _s: states.append(machine.states()))
        busy = UpstreamUnavailableError("busy", status=503, retry_after_s=1.0)
        found = meeting(patch, 2, busy, states=machine.states)
        report = machine.push()
    assert found["states"] == ["sending"] * 4
    assert states == [["done", "unknown", "queued", "queued"]]  # while it waits, nothing else looks sent
    assert found["sent"] == ["One", "Two", "Three", "Four"]
    assert (of_push(report), report.done, report.unknown) == (1, 3, 1)


def test_an_interrupted_group_keeps_what_was_answered(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    offices(machine, "One", "Two", "Three")
    with monkeypatch.context() as patch:
        meeting(patch, 2, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            machine.push()
    assert machine.states() == ["done", "sending", "queued"]
    assert untouched(machine.editor.outbox()[2])
    assert of_push(machine.push()) == 0
    assert len(machine.there()) == 3


def test_of_a_killed_group_each_is_unknown_and_none_is_made_twice(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    offices(machine, "One", "Two", "Three")
    with monkeypatch.context() as patch:
        meeting(patch, 3, KeyboardInterrupt())
        patch.setattr(group.Groups, "_record", lambda _groups, _begun: None)  # nothing more is written
        with pytest.raises(KeyboardInterrupt):
            machine.push()
    assert machine.states() == ["sending"] * 3
    assert len(machine.there()) == 2
    report = machine.push()
    assert (of_push(report), report.done) == (0, 3)
    assert len(machine.there()) == 3


def test_a_refusal_stops_no_other(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    offices(machine, "One", "Two", "Three")
    meeting(monkeypatch, 2, UpstreamRefusedError("no", status=422, problem_type="invalid-body"))
    report = machine.push()
    assert machine.states() == ["done", "rejected", "done"]
    assert (of_push(report), report.done, report.rejected) == (3, 2, 1)


def test_a_number_that_is_given_twice_is_believed_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    offices(machine, "One", "Two", "Three", "Four", "Five")
    monkeypatch.setattr(GeolocationsClient, "create", lambda *_, **__: -77)
    report = machine.push()
    # After three of which nothing is known it leaves.
    assert machine.states() == ["done", "unknown", "unknown", "unknown", "queued"]
    assert of_push(report) == 1


def test_a_slow_service_has_little_on_its_way(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    offices(machine, "One", "Two", "Three", "Four")
    machine.settings = replace(machine.settings, push_connections=1)
    monkeypatch.setattr(group, "_MOST_S", -1.0)  # one answer takes longer than a group may
    found = meeting(monkeypatch, 4, last=machine.states)
    assert of_push(machine.push()) == 0
    assert found["last"] == ["done", "done", "done", "sending"]
    assert found["sent"] == ["One", "Two", "Three", "Four"]


def test_an_edit_that_is_dropped_meanwhile_does_not_go_out_with_the_others(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    offices(machine, "One", "Two", "Three")
    second = machine.editor.pending()[1].id
    real = group.Groups._lot

    def meanwhile(groups: group.Groups, *given: Any) -> list[group.Member]:
        lot = real(groups, *given)
        if second in [member.row.id for member in lot]:
            machine.editor.drop(second)
        return lot

    monkeypatch.setattr(group.Groups, "_lot", meanwhile)
    report = machine.push()
    assert machine.states() == ["done", "dropped", "done"]
    assert (of_push(report), len(machine.there())) == (0, 2)


def test_groups_grow_while_the_service_answers_soon(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    offices(machine, *(f"Office {number}" for number in range(40)))
    monkeypatch.setattr(group, "_MOST_S", 60.0)
    durable = []
    real = group.Groups._record

    def record(groups: group.Groups, begun: list[group.Member]) -> None:
        durable.append(len(begun))
        real(groups, begun)

    monkeypatch.setattr(group.Groups, "_record", record)
    assert of_push(machine.push()) == 0
    assert durable == [8, 16, 16]
