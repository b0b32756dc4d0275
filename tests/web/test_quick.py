"""What is answered before the framework is answered as the framework would, and all else is left to it."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from litestar import Litestar

from geolookup.web.lookups import HANDLERS, quick
from geolookup.web.observer import _operation
from geolookup.web.routing import Methods, Quick, routed
from tests.service.test_lookup_routes import Files

Answered = tuple[str, int, dict[bytes, bytes], bytes]


def ask(app: Any, target: str, method: str = "GET") -> Answered:
    """One request: the operation, the status, the headers and the body."""
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {},
    }
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert not sent[1].get("more_body", False)
    return _operation(scope), sent[0]["status"], dict(sent[0]["headers"]), sent[1].get("body", b"")


@pytest.fixture
def app(tmp_path: Path) -> Methods:
    files = Files(tmp_path)
    return routed(HANDLERS, {"lookups": files}, title="files", quick=quick(files))


def without(app: Methods) -> Methods:
    """The same application without what comes before the framework."""
    assert isinstance(app.app, Quick)
    assert isinstance(app.app.app, Litestar)
    return Methods(app.app.app)


SAME = [
    "/healthz",
    "/healthz?x=1",
    "/lookup/192.0.2.5",
    "/lookup/192.0.2.200",
    "/lookup/192.0.2.200?country=DE",
    "/lookup/192.0.2.200?record=true",
    "/lookup/192.0.2.200?%72ecord=true",
    "/lookup/192.0.2.200?record=false",
    "/lookup/198.51.100.1",
    "/lookup/2001:db8::1",
    "/lookup/2001%3Adb8%3A%3A1",
    "/lookup/%3a%3affff:192.0.2.5",
    "/%6cookup/192.0.2.5",
]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("target", SAME)
def test_an_answer_is_the_frameworks(app: Methods, target: str, method: str) -> None:
    found = ask(app, target, method)
    assert found == ask(without(app), target, method)
    assert found[1] == 200
    assert found[0] in ("healthz", "lookupAddress")


@pytest.mark.parametrize("target", [one for one in SAME if "x=1" not in one])
def test_the_framework_is_not_asked(app: Methods, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked(*_: Any) -> None:
        raise AssertionError("the framework was asked")

    assert isinstance(app.app, Quick)
    monkeypatch.setattr(app.app, "app", asked)
    assert ask(app, target)[1] == 200


@pytest.mark.parametrize(
    ("target", "method", "status"),
    [
        ("/lookup/192.0.2", "GET", 400),
        ("/lookup/192.0.2.5/", "GET", 400),
        ("/lookup//192.0.2.5", "GET", 400),
        ("/lookup/192.0.2.0%2F24", "GET", 400),
        ("/lookup/%ff", "GET", 400),
        ("/lookup/::1%25eth0", "GET", 400),
        ("/lookup/192.0.2.5?record=maybe", "GET", 400),
        ("/lookup/192.0.2.5?record=true&record=true", "GET", 400),
        ("/lookup/", "GET", None),
        ("/lookup", "GET", 405),
        ("//lookup/192.0.2.5", "GET", None),
        ("/healthz/", "GET", None),
        ("/healthz/more", "GET", 404),
        ("/", "GET", 404),
        ("/lookup/192.0.2.5", "POST", 405),
        ("/lookup/192.0.2.5", "OPTIONS", 204),
        ("/healthz", "DELETE", 405),
    ],
)
def test_what_is_not_a_plain_answer_is_left_to_the_framework(
    app: Methods, target: str, method: str, status: int | None
) -> None:
    found = ask(app, target, method)
    assert found == ask(without(app), target, method)
    assert status is None or found[1] == status


def test_before_there_is_an_index_a_lookup_is_refused_as_ever(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.ready = False
    found = ask(routed(HANDLERS, {"lookups": files}, title="files", quick=quick(files)), "/lookup/192.0.2.5")
    assert found[1] == 503
    assert b"index-not-ready" in found[3]


def test_an_error_that_nobody_foresaw_is_still_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(tmp_path)
    app = routed(HANDLERS, {"lookups": files}, title="files", quick=quick(files))

    def answer(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(files, "answer", answer)
    found = ask(app, "/lookup/192.0.2.5")
    assert found[1] == 500
    assert found[2][b"content-type"] == b"application/problem+json"
