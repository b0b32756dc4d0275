"""An application on the project's own server, in a thread of this process, for the length of a test."""

import asyncio
import threading
from types import TracebackType
from typing import Any, Self

import httpx
import uvicorn.server

from geolookup.web.options import Options
from geolookup.web.server import Server, bind
from tests.support.services.plain_http import PLAIN

PATIENCE_S = 60


class _Asyncio:
    """`asyncio` as uvicorn has it here: it looks ten times as often whether it is to end, since many tests end one."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(delay: float) -> None:
        await asyncio.sleep(delay / 10)


uvicorn.server.asyncio = _Asyncio()  # type: ignore[assignment]


class ServerThread:
    """A server on loopback: ``url`` is its base address. `stop` ends it, and so does the end of a ``with``."""

    server: Server
    url: str

    def start(self, app: Any, options: Options | None = None, *, port: int = 0) -> None:
        """Run an application, on a free port if none is given, and wait until it answers."""
        socket = bind("127.0.0.1", port)
        self.server = Server(app, socket, options or Options())
        self.url = self.server.url
        ready = threading.Event()
        self.server.when_ready = lambda _url: ready.set()
        self._thread = threading.Thread(target=self.server.run, kwargs={"sockets": [socket]}, daemon=True)
        self._thread.start()
        assert ready.wait(PATIENCE_S), "the server did not start"

    def stop(self) -> None:
        """End it; a second call does nothing."""
        self.server.should_exit = True
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the server did not stop"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def client_of(url: str, token: str | None = None) -> httpx.Client:
    """A client whose paths are relative to a server, with the token in each request if one is given."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=PATIENCE_S, verify=PLAIN)
