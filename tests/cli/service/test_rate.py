"""``geolookup rate put`` against the real service: what is sent, what is said of each row, exit status."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import select

from geolookup.service.hotels.records import load_hotels
from geolookup.service.store.schema import rate_plans
from tests.cli.edits.test_custom import Command
from tests.faults.raw_server import RawServer, Script, answer
from tests.support.data.hotels import RATE_PLAN, hotel, ndjson
from tests.support.services.running_service import RunningService

GROUP = {**RATE_PLAN, "ratePlanCode": "GRP", "type": "groupRate"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    """A service that knows one hotel."""
    with RunningService(tmp_path / "service.db") as service:
        load_hotels(service.store, [ndjson(tmp_path / "hotels.ndjson", [hotel("A1")])])
        yield service


@pytest.fixture
def command(
    service: RunningService, home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    monkeypatch.setenv("GEOLOOKUP_HOME", home)
    monkeypatch.setenv("GEOLOOKUP_URL", service.url)
    return Command(capsys)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rates.ndjson"


def stored(service: RunningService) -> list[str]:
    snapshot = service.store.snapshot()
    try:
        return list(snapshot.connection.execute(select(rate_plans.c.content).order_by(rate_plans.c.code)).scalars())
    finally:
        snapshot.close()


def test_each_row_is_created_updated_or_unchanged_and_says_so(command: Command, file: Path) -> None:
    ndjson(file, [RATE_PLAN, "", GROUP])
    assert command("rate", "put", file) == "created\tA1\tBAR\ncreated\tA1\tGRP\n"
    assert command("rate", "put", file) == "unchanged\tA1\tBAR\nunchanged\tA1\tGRP\n"
    ndjson(file, [RATE_PLAN, {**GROUP, "amount": 7}])
    assert command("rate", "put", file) == "unchanged\tA1\tBAR\nupdated\tA1\tGRP\n"


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_the_outcomes_for_programs_have_the_stored_record(command: Command, file: Path, form: str) -> None:
    ndjson(file, [RATE_PLAN, "7", GROUP])
    out = command("rate", "put", file, "--format", form, exits=5)
    rows = json.loads(out) if form == "json" else [json.loads(line) for line in out.splitlines()]
    assert rows == [
        {"line": 1, "hotelId": "A1", "ratePlanCode": "BAR", "outcome": "created", "ratePlan": RATE_PLAN},
        {"line": 2, "outcome": "malformed", "error": "is not a JSON object"},
        {"line": 3, "hotelId": "A1", "ratePlanCode": "GRP", "outcome": "created", "ratePlan": GROUP},
    ]


def test_one_object_may_stand_on_several_lines(command: Command, file: Path) -> None:
    file.write_text("\ufeff\n" + json.dumps({**RATE_PLAN, "text": "a\nb"}, indent=2), encoding="utf-8")
    assert command("rate", "put", file) == "created\tA1\tBAR\n"
    file.write_text(json.dumps(RATE_PLAN, indent=2) + json.dumps(GROUP, indent=2))
    command("rate", "put", file, exits=5)
    assert f"{file}, line 1: is not JSON" in command.error


def test_members_that_are_not_known_and_numbers_arrive_as_they_are_written(
    command: Command, service: RunningService, file: Path
) -> None:
    text = json.dumps(RATE_PLAN, separators=(",", ":"))[:-1] + ',"amount":189.50,"huge":1e999,"é":[true]}'
    file.write_text(text, encoding="utf-8")
    assert '"amount":189.50,"huge":1e999' in command("rate", "put", file, "--format", "ndjson")
    assert stored(service) == [text]


def test_standard_input_is_a_file_too(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [RATE_PLAN, GROUP, "x"]
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows).encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    assert command("rate", "put", "-", exits=5) == "created\tA1\tBAR\ncreated\tA1\tGRP\n"
    assert "standard input, line 3: is not JSON" in command.error


@pytest.mark.parametrize(
    ("row", "exits", "said"),
    [
        ("{", 5, "is not JSON"),
        ("[]", 5, "is not a JSON object"),
        ({"ratePlanCode": "BAR"}, 5, "hotelId is missing"),
        ("x" * (2 << 20), 5, "is not JSON"),
        (json.dumps(RATE_PLAN) + " " * (1 << 20) + "x", 5, "is not JSON"),
        ({**RATE_PLAN, "hotelId": "Z9"}, 1, "hotel 'Z9' does not exist"),
        ({**RATE_PLAN, "type": "discount"}, 1, "/type: must be rate or groupRate"),
        ({**RATE_PLAN, "currency": 7}, 1, "/currency: must be text"),
        ({**RATE_PLAN, "x": "y" * 70_000}, 1, "413"),
    ],
    ids=lambda value: "",
)
def test_a_bad_row_is_named_and_the_others_are_done(
    command: Command, service: RunningService, file: Path, row: Any, exits: int, said: str
) -> None:
    ndjson(file, [GROUP, row, {**RATE_PLAN, "ratePlanCode": "ZZZ"}])
    assert command("rate", "put", file, exits=exits) == "created\tA1\tGRP\ncreated\tA1\tZZZ\n"
    (line,) = command.error.splitlines()
    assert line.startswith(f"geolookup: {file}, line 2: ")
    assert said in line
    assert len(stored(service)) == 2
    ndjson(file, [row, GROUP])
    assert command("rate", "put", file, exits=exits) == "unchanged\tA1\tGRP\n"


def test_a_refused_row_beats_a_malformed_one_since_putting_it_again_may_help(command: Command, file: Path) -> None:
    ndjson(file, ["{}", {**RATE_PLAN, "hotelId": "Z9"}, "{}"])
    command("rate", "put", file, exits=1)
    assert [line.split(":")[1].rpartition(", ")[2] for line in command.error.splitlines()] == [
        "line 1", "line 2", "line 3",
    ]  # fmt: skip


def test_a_service_that_goes_away_stops_the_run_and_the_array_is_closed(
    command: Command, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ndjson(file, [RATE_PLAN, GROUP, {**RATE_PLAN, "ratePlanCode": "ZZZ"}])
    monkeypatch.setenv("GEOLOOKUP_ATTEMPTS", "1")
    for last in (answer(b"", status="401 X"), answer(b"<html>"), Script([], reset=True)):
        with RawServer(answer(json.dumps(RATE_PLAN).encode(), status="201 Created"), last) as server:
            out = command("rate", "put", file, "--url", server.url, "--format", "json", exits=1)
            assert server.connections == 2
        assert [row["outcome"] for row in json.loads(out)] == ["created"]
        assert f"{file}, line 2: " in command.error


def test_a_file_that_cannot_be_read_and_an_empty_one(command: Command, tmp_path: Path, file: Path) -> None:
    command("rate", "put", tmp_path / "nowhere", exits=2)
    assert "cannot be read" in command.error
    file.write_text("\n\n")
    assert command("rate", "put", file) == ""
    assert command("rate", "put", file, "--format", "json") == "[]\n"
