"""The insides of uvicorn that are overridden: the version that they were tested with, and that they are there."""

import inspect
import tomllib
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from packaging.requirements import Requirement
from packaging.version import Version
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from geolookup.service.http.protocol import TESTED_UVICORN, Protocol
from geolookup.service.process.server import Server

ADVICE = "run the tests of limits, attacks and operating with it, then raise TESTED_UVICORN and pyproject.toml"


def test_the_version_that_is_installed_was_tested() -> None:
    assert ".".join(uvicorn.__version__.split(".")[:2]) == TESTED_UVICORN, ADVICE


def test_no_version_but_the_tested_one_can_be_installed() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (allowed,) = {
        requirement.specifier
        for text in project["optional-dependencies"]["serve"]
        if (requirement := Requirement(text)).name == "uvicorn"
    }
    tested = Version(TESTED_UVICORN)
    assert allowed.contains(f"{tested}.99")
    assert not allowed.contains(f"{tested.major}.{tested.minor + 1}.0")
    assert not allowed.contains(f"{tested.major}.{tested.minor - 1}.99")


@pytest.mark.parametrize(
    ("base", "ours", "names"),
    [
        (
            H11Protocol,
            Protocol,
            {"connection_made", "connection_lost", "data_received", "handle_events", "pause_writing"}
            | {"on_response_complete", "send_400_response"},
        ),
        (uvicorn.Server, Server, {"startup", "shutdown", "handle_exit", "on_tick"}),
    ],
)
def test_what_is_overridden_is_there_with_the_same_arguments(base: Any, ours: Any, names: set[str]) -> None:
    inherited = {name for name in vars(ours) if name in vars(base) and not name.startswith("__")}
    assert inherited == names
    for name in names:
        theirs, mine = (list(inspect.signature(getattr(one, name)).parameters) for one in (base, ours))
        assert len(theirs) == len(mine), name


def test_the_attributes_that_are_read_are_there() -> None:
    attributes = {"conn", "transport", "cycle", "connections", "app_state", "server_state", "client", "loop"}
    source = inspect.getsource(H11Protocol)
    assert {name for name in attributes if f"self.{name}" not in source} == set()
    source = inspect.getsource(RequestResponseCycle)
    assert {
        name for name in ("disconnected", "message_event", "response_complete") if f"self.{name}" not in source
    } == (set())
