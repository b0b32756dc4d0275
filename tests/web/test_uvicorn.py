"""The insides of uvicorn that are used: the version that they were tested with, and that they are there."""

import inspect
import tomllib
from pathlib import Path

import httptools
import pytest
import uvicorn
from packaging.requirements import Requirement
from packaging.version import Version
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from geolookup.web.protocol import TESTED_UVICORN, Cycle, Protocol
from geolookup.web.request import TESTED_HTTPTOOLS
from geolookup.web.server import Server

ADVICE = "run the tests of limits, attacks and operating with it, then raise its TESTED_ constant and pyproject.toml"


def test_the_version_that_is_installed_was_tested() -> None:
    assert ".".join(uvicorn.__version__.split(".")[:2]) == TESTED_UVICORN, ADVICE


@pytest.mark.parametrize(("name", "version"), [("uvicorn", TESTED_UVICORN), ("httptools", TESTED_HTTPTOOLS)])
def test_no_version_but_the_tested_one_can_be_installed(name: str, version: str) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (allowed,) = {
        requirement.specifier
        for text in project["optional-dependencies"]["serve"]
        if (requirement := Requirement(text)).name == name
    }
    tested = Version(version)
    assert allowed.contains(f"{tested}.99")
    assert not allowed.contains(f"{tested.major}.{tested.minor + 1}.0")
    assert not allowed.contains(f"{tested.major}.{tested.minor - 1}.99")


def test_what_is_overridden_is_there_with_the_same_arguments() -> None:
    for base, ours, names in (
        (uvicorn.Server, Server, {"startup", "shutdown", "handle_exit", "on_tick"}),
        (RequestResponseCycle, Cycle, {"send"}),
    ):
        inherited = {name for name in vars(ours) if name in vars(base) and not name.startswith("__")}
        assert inherited == names
        for name in names:
            theirs, mine = (list(inspect.signature(getattr(one, name)).parameters) for one in (base, ours))
            assert len(theirs) == len(mine), name


def test_the_protocol_has_what_uvicorns_server_calls() -> None:
    """It makes it as it makes its own, and ends it."""
    theirs = list(inspect.signature(HttpToolsProtocol).parameters)
    assert list(inspect.signature(Protocol).parameters)[: len(theirs)] == theirs
    assert "shutdown" in vars(Protocol)


def test_what_is_used_of_a_cycle_is_there() -> None:
    assert list(inspect.signature(RequestResponseCycle).parameters) == [
        "scope",
        "transport",
        "flow",
        "logger",
        "access_logger",
        "access_log",
        "default_headers",
        "message_event",
        "expect_100_continue",
        "keep_alive",
        "on_response",
    ]
    source = inspect.getsource(RequestResponseCycle)
    used = {"disconnected", "message_event", "response_started", "response_complete", "more_body", "body", "keep_alive"}
    used |= {"chunked_encoding", "expected_content_length", "scope"}
    assert {name for name in used if f"self.{name}" not in source} == set()
    assert {"pause_reading", "resume_reading", "pause_writing", "resume_writing"} <= set(vars(FlowControl))
    assert "self.write_paused" in inspect.getsource(FlowControl)
    assert STATUS_LINE[431].startswith(b"HTTP/1.1 431 ")


def test_the_version_of_httptools_that_is_installed_was_tested() -> None:
    assert ".".join(httptools.__version__.split(".")[:2]) == TESTED_HTTPTOOLS, ADVICE
