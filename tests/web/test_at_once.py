"""What is answered at once is guarded, answered, counted and logged as if it had gone through the whole application."""

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from geolookup.web.application import not_at_once
from geolookup.web.auth import Scope, Tokens, line_for, new_token, parse
from geolookup.web.guard import Guard
from geolookup.web.logs import AccessLog
from geolookup.web.lookups import HANDLERS, PATHS, quick
from geolookup.web.observer import Observer
from geolookup.web.options import Limits
from geolookup.web.probes import Health, Metrics
from geolookup.web.protocol import Protocol
from geolookup.web.routing import routed
from tests.service.test_lookup_routes import Files
from tests.web.test_protocol import Transport, _settle


class Seen:
    """What a client and an operator see of some requests."""

    def __init__(
        self,
        folder: Path,
        sent: bytes,
        *,
        fast: bool,
        limits: Limits,
        draining: bool = False,
        tokens: Tokens | None = None,
    ) -> None:
        folder /= f"{fast}"
        folder.mkdir()
        files, metrics, health = Files(folder), Metrics(), Health()
        health.draining = draining
        app = routed(HANDLERS, {"lookups": files}, title="files", quick=quick(files), health=health, metrics=metrics)
        log = folder / "log"
        guard = Guard(app, paths=PATHS, tokens=tokens, limits=limits, health=health, at_once=app.at_once)
        observer = Observer(guard, metrics, AccessLog(str(log)), PATHS, at_once=guard.at_once)
        asked = 0

        async def counted(scope: Any, receive: Any, send: Any) -> None:
            nonlocal asked
            asked += 1
            await observer(scope, receive, send)

        async def run() -> bytes:
            transport = Transport()
            transport.protocol = Protocol(
                Config(cast(Any, counted), lifespan="off", log_config=None),
                ServerState(),
                {},
                limits=limits,
                refused=observer.refused_unread,
                at_once=observer.at_once if fast else not_at_once,
            )
            transport.protocol.connection_made(transport)
            transport.protocol.data_received(sent)
            for _ in range(20):
                await _settle()
                await asyncio.sleep(0.005)
            return transport.written

        self.written = asyncio.run(run())
        self.asked = asked
        # Neither how long it took.
        self.counted = [line for line in metrics.exposition().decode().splitlines() if "_created" not in line]
        self.counted = [line for line in self.counted if "seconds_sum" not in line and "seconds_bucket" not in line]
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        self.logged = [{name: value for name, value in line.items() if name not in ("time", "ms")} for line in lines]


def get(path: str, *more: str, host: str = "localhost") -> bytes:
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", "X-Request-Id: abc", *more]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()


ANSWERED = (
    get("/lookup/192.0.2.5"),
    get("/lookup/192.0.2.200", "Accept: text/html"),
    get("/lookup/2001%3Adb8%3A%3A1"),
    get("/lookup/198.51.100.1?x=y", "Connection: close"),
    get("/healthz"),
    get("/healthz", host="evil.example"),
    get("http://localhost/lookup/192.0.2.5", host="evil.example"),
    get("/lookup/192.0.2.5") * 5 + get("/lookup/192.0.2.200"),
)
NOT_ANSWERED = (
    get("/lookup/192.0.2"),
    get("/lookup/192.0.2.5", host="evil.example"),
    get("http://evil.example/lookup/192.0.2.5"),
    get("/lookup/192.0.2.5", "Content-Length: 2") + b"{}",
    get("/lookup/192.0.2.5", "X: " + "a" * 17000),
    get("/lookup/192.0.2.5").replace(b"GET", b"HEAD"),
    get("/lookup/192.0.2.5").replace(b"GET", b"DELETE"),
    get("/no/such"),
)


@pytest.mark.parametrize("sent", [*ANSWERED, *NOT_ANSWERED], ids=range(len(ANSWERED) + len(NOT_ANSWERED)))
@pytest.mark.parametrize("draining", [False, True])
def test_nobody_can_tell_which_way_it_went(tmp_path: Path, sent: bytes, draining: bool) -> None:
    fast, ordinary = (Seen(tmp_path, sent, fast=way, limits=Limits(), draining=draining) for way in (True, False))
    assert ordinary.asked > 0
    assert (fast.asked == 0) == (sent in ANSWERED and not draining)
    assert fast.written == ordinary.written
    assert fast.counted == ordinary.counted
    assert fast.logged == ordinary.logged
    assert fast.written.startswith(b"HTTP/1.1 ")


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("path", ["/lookup/192.0.2.5", "/lookup/192.0.2", "/no/such"])
def test_every_request_counts_once_against_the_rate(tmp_path: Path, path: str, fast: bool) -> None:
    seen = Seen(tmp_path, get(path) * 6, fast=fast, limits=Limits(rate=2.0))
    assert [line["problem"] for line in seen.logged].count("too-many-requests") == 2


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    ("path", "scope", "status"),
    [("/lookup/192.0.2.5", Scope.READ, 200), ("/lookup/192.0.2", Scope.READ, 400), ("/no/such", Scope.WRITE, 404)],
)
def test_the_log_names_the_token_however_it_was_answered(
    tmp_path: Path, path: str, scope: Scope, status: int, fast: bool
) -> None:
    token = new_token()
    tokens = Tokens(parse([line_for("reader", scope, token)], "here"))
    sent = get(path, f"Authorization: Bearer {token}") + get(path, "Authorization: Bearer glk_other")
    seen = Seen(tmp_path, sent, fast=fast, limits=Limits(), tokens=tokens)
    assert [(line["token"], line["status"]) for line in seen.logged] == [("reader", status), ("", 401)]
