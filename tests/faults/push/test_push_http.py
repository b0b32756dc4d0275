"""Edits and pushes over real HTTP, with any fault at any write: in the end the service has what was meant, once."""

import contextlib
import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from geolookup.cli.exit_codes import of_push
from geolookup.model.errors import EditError
from geolookup.settings.table import Settings
from geolookup.state.base import clock
from geolookup.state.editor import Editor
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from geolookup.sync.push.push import push
from tests.faults.fault_proxy import Fault, FaultProxy, after, cut, instead
from tests.faults.raw_server import answer
from tests.support.services.running_service import FIELDS, RunningService

BLOCKS = [f"10.{number}.0.0/16" for number in range(5)]
FAULTS: list[Fault] = [
    lambda service: service(),
    after(answer(b"", status="500 Internal Server Error")),
    instead(answer(b"", status="500 Internal Server Error")),
    instead(answer(b"", status="503 Service Unavailable", headers=["Retry-After: 1"])),
    instead(answer(b"", status="429 Too Many Requests", headers=["Retry-After: 1"])),
    instead(answer(b"", status="401 Unauthorized")),
    after(answer(b"<html>")),
    after(answer(b'{"locid": 3}')),
    cut(0),
    cut(60),
]

edits = st.lists(
    st.tuples(
        st.sampled_from(["create", "update", "delete", "add", "replace", "remove", "clear", "push"]),
        st.integers(0, 3),
        st.sampled_from(BLOCKS),
        st.sampled_from(BLOCKS),
    ),
    min_size=3,
    max_size=14,
)


def _edit(editor: Editor, what: str, number: int, block: str, other: str) -> None:
    places = editor.custom()
    if what == "create" or not places:
        editor.create(**{**FIELDS, "city": f"City {number % 2}"})
        return
    locid = places[number % len(places)].place.locid
    with contextlib.suppress(EditError):
        if what == "update":
            editor.update(locid, city=f"City {number}")
        elif what == "delete":
            editor.delete(locid)
        elif what == "add":
            editor.add_block(locid, block)
        elif what == "replace":
            editor.replace_block(locid, block, None, other)
        elif what == "remove":
            editor.remove_block(locid, block)
        elif what == "clear":
            editor.clear_blocks(locid)


@pytest.mark.parametrize("keys", [False, True], ids=["keys ignored", "keys honoured"])
def test_whatever_the_network_does_the_service_has_in_the_end_what_was_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_sweep: bool, keys: bool
) -> None:
    monkeypatch.setattr(clock, "sleep", lambda _s: None)
    csv = tmp_path / "defaults.csv"
    csv.write_text("startip,endip,country\n192.0.2.0,192.0.2.255,US\n")
    homes = (str(tmp_path / f"state{number}") for number in itertools.count())

    @hypothesis_settings(max_examples=300 if full_sweep else 8)
    @given(plan=edits, faults=st.lists(st.sampled_from(FAULTS), max_size=12))
    def converges(plan: list[tuple[str, int, str, str]], faults: list[Fault]) -> None:
        home = next(homes)
        settings = Settings(url=proxy.url, settle_s=0.0, idempotency_keys=keys, attempts=2)
        _empty(service)
        pull(StateDirectory(home), settings)
        proxy.faults = list(faults)
        for what, *details in plan:
            if what == "push":
                push(StateDirectory(home), settings)
            else:
                _edit(Editor(home), what, *details)
        meant = sorted(_described(laid.place.fields(), map(str, laid.place.ipblocks)) for laid in Editor(home).custom())
        for _ in range(len(faults) + 2):
            report = push(StateDirectory(home), settings)
            if of_push(report) == 0:
                break
        assert of_push(report) == 0, report
        assert _there(service) == meant
        pull(StateDirectory(home), settings)
        shown = Editor(home).custom()
        assert sorted(_described(laid.place.fields(), map(str, laid.place.ipblocks)) for laid in shown) == meant
        assert not any(laid.pending for laid in shown)
        shutil.rmtree(home)

    with (
        RunningService(tmp_path / "service.db", load=[csv], ignore_idempotency_keys=not keys) as service,
        FaultProxy(service.url) as proxy,
    ):
        converges()


def _described(fields: dict[str, Any], blocks: Any) -> tuple[str, ...]:
    return (*map(str, fields.values()), *sorted(blocks))


def _there(service: RunningService) -> list[tuple[str, ...]]:
    with service.client() as client:
        places = [place for place in client.get("/geolocations").json() if place["locid"] < 0]
    return sorted(
        _described(
            {name: place[name] for name in FIELDS},
            (f"{block['startip']}-{block['endip']}" for block in place["ipblocks"]),
        )
        for place in places
    )


def _empty(service: RunningService) -> None:
    with service.client() as client:
        for place in client.get("/geolocations").json():
            if place["locid"] < 0:
                client.delete(f"/geolocations?locid={place['locid']}").raise_for_status()
