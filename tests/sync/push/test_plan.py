"""The plan of a push: it says what is sent then, and is refused once anything moved."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from geolookup.cli.app import run
from geolookup.cli.exit_codes import of_push
from geolookup.model.errors import PlanError
from geolookup.settings.table import Settings
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.places.place import Request
from geolookup.state.edits.places.reconcile import Hold
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from geolookup.sync.push import plan as plans
from geolookup.sync.push.push import push
from tests.faults.fault_proxy import FaultProxy
from tests.support.services.running_service import FIELDS, RunningService


@pytest.fixture
def synced(home: str, service: RunningService) -> Settings:
    """A state with two custom geolocations of the service, and edits of every kind pending."""
    first = service.create(("10.1.0.0", "10.1.255.255"), ("10.2.0.0", "10.2.255.255"), ("10.3.0.0", "10.3.255.255"))
    second = service.create(("10.4.0.0", "10.4.255.255"), ("10.5.0.0", "10.5.255.255"), city="Second")
    third = service.create(("10.6.0.0", "10.6.255.255"), city="Third")
    settings = Settings(url=service.url, settle_s=0.0)
    pull(StateDirectory(home), settings)
    editor = Editor(home)
    new = editor.create(**{**FIELDS, "city": "New"})
    editor.add_block(new, "10.7.0.0/16")
    editor.remove_block(first, "10.2.0.0/16")  # cleared and restored
    editor.update(first, city="First")
    editor.remove_block(second, "10.4.0.0/16")  # one replace with the next
    editor.add_block(second, "10.8.0.0/16")
    editor.add_block(new, "10.4.0.0/16")
    editor.replace_block(second, "10.5.0.0/16", None, "10.9.0.0/16")
    editor.clear_blocks(third)
    editor.delete(third)
    editor.create(**FIELDS)
    return settings


def test_a_plan_names_exactly_the_requests_that_the_push_then_sends(home: str, synced: Settings) -> None:
    assert synced.url is not None
    with FaultProxy(synced.url) as proxy:
        through = Settings(url=proxy.url, settle_s=0.0)
        plan = plans.make(StateDirectory(home), through, url_moved=True)
        assert proxy.writes == []
        assert of_push(push(StateDirectory(home), through, url_moved=True)) == 0
        sent = [
            (request.method, request.target, json.loads(request.body) if request.body else None)
            for request in proxy.writes
        ]
    aliases = {row.locid: Editor(home).get(row.locid).place.locid for row in Editor(home).outbox() if not row.base}
    planned = []
    for request in plan["requests"]:
        target = request["target"]
        for old, new in aliases.items():
            target = target.replace(f"={old}", f"={new}")
        planned.append((request["method"], target, request["body"]))
    assert planned == sent
    assert [request[0] for request in sent].count(
        "DELETE"
    ) == 2  # all blocks of one, to put others back, and another with its blocks
    assert plan["waiting"] == []
    assert all(request["reason"] for request in plan["requests"])


def test_a_plan_says_why_other_edits_stay(home: str, synced: Settings) -> None:
    editor = Editor(home)
    rows = editor.pending()
    with StateDirectory(home).edits.transaction() as database:
        ledger = Ledger(database)
        new, first = (ledger.of(rows[number].locid) for number in (0, 2))
        create = Request(what="create", values=new.place.intents[0].values, upto=rows[0].id, said="no")
        hold = Hold("refused")
        ledger.save(new, replace(new.place, refused=create), hold=hold, problem="for a reason")
        begun = ledger.begin(first, Request(what="clear", before=first.place.baseline, upto=rows[3].id))
        ledger.save(begun, ledger.ended(begun.place))
    settings = Settings(url=synced.url, settle_s=3600.0)
    waiting = {waiting["edit"]: waiting["reason"] for waiting in plans.make(StateDirectory(home), settings)["waiting"]}
    assert "the service refuses this edit of New" in waiting[rows[0].id]
    assert "unknown" in waiting[rows[2].id]
    assert "earlier edit" in waiting[rows[1].id]
    assert set(waiting) == {rows[number].id for number in (0, 1, 2, 3, 6)}


def test_a_saved_plan_is_applied_where_nothing_moved(home: str, synced: Settings, tmp_path: Path) -> None:
    path = str(tmp_path / "plan.json")
    plans.save(plans.make(StateDirectory(home), synced), path)
    check = plans.checker(plans.read(path), StateDirectory(home), synced)
    report = push(StateDirectory(home), synced, check=check)
    assert (of_push(report), report.queued) == (0, 0)


def _service_moves(home: str, service: RunningService) -> None:
    service.create(city="Somebody else's")


def _outbox_moves(home: str, service: RunningService) -> None:
    Editor(home).create(**{**FIELDS, "city": "One more"})


def _already_pushed(home: str, service: RunningService) -> None:
    push(StateDirectory(home), Settings(url=service.url))


@pytest.mark.parametrize("move", [_service_moves, _outbox_moves, _already_pushed])
def test_a_saved_plan_is_refused_once_anything_moved(
    home: str, synced: Settings, service: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, move: Any
) -> None:
    path = str(tmp_path / "plan.json")
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    monkeypatch.setenv("GEOLOOKUP_URL", service.url)
    assert run(["push", "--plan-out", path]) == 0
    move(home, service)
    there = _there(service)
    with pytest.raises(PlanError, match="Nothing was sent"):
        push(StateDirectory(home), synced, check=plans.checker(plans.read(path), StateDirectory(home), synced))
    assert run(["push", "--plan", path]) == 1
    assert _there(service) == there


def _there(service: RunningService) -> Any:
    with service.client() as client:
        return client.get("/geolocations").json()


def test_a_plan_is_pushed_with_the_choice_that_it_was_made_with(
    home: str, service: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locid = service.create(("10.1.0.0", "10.1.255.255"), city="Base")
    pull(StateDirectory(home), Settings(url=service.url))
    Editor(home).update(locid, city="Mine")
    with service.client() as client:
        client.put(f"/geolocations?locid={locid}", json={**FIELDS, "city": "Theirs"}).raise_for_status()
    path = str(tmp_path / "plan.json")
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    monkeypatch.setenv("GEOLOOKUP_URL", service.url)
    assert run(["push", "--plan-out", path, "--on-conflict", "mine"]) == 0
    assert run(["push", "--plan", path]) == 0
    assert [place["city"] for place in _there(service) if place["locid"] < 0] == ["Mine"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '"text"',
        "\udcff",
        '{"version": "1.0"}',
        '{"version": "1.0", "url": "", "service": "", "requests": [], "waiting": [], "on_conflict": "both"}',
        '{"version": "2.0", "url": "", "service": "", "requests": [], "waiting": [], "on_conflict": "hold"}',
    ],
)
def test_a_file_that_is_no_plan_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(PlanError, match=r"plan\.json"):
        plans.read(str(path))


def test_a_plan_that_is_not_there_or_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"missing\.json"):
        plans.read(str(tmp_path / "missing.json"))
    with pytest.raises(PlanError, match=r"plan\.json"):
        plans.save({}, os.path.join(tmp_path, "nowhere", "plan.json"))
