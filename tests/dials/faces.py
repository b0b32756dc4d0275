"""Two ways to reach a service with dials: through httpx without a socket, and over HTTP on a loopback port."""

import contextlib
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import httpx

from tests.dials.upstream import LostError, Response, Upstream


class InProcess(httpx.BaseTransport):
    """Stands in for httpx's own transport. ``before`` and ``after`` are called around each request, and may raise."""

    def __init__(self, upstream: Upstream, before: Callable[[], None], after: Callable[[], None]) -> None:
        self._upstream, self._before, self._after = upstream, before, after

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request by calling the service."""
        self._before()
        headers = {name.lower(): value for name, value in request.headers.items()}
        target = request.url.raw_path.decode("ascii")
        try:
            answer = self._upstream.handle(request.method, target, headers, request.read())
        except LostError:
            raise httpx.ReadError("the connection broke", request=request) from None
        finally:
            self._after()
        sent = [("content-length", str(len(answer.body))), *answer.headers]
        return httpx.Response(answer.status, headers=sent, stream=httpx.ByteStream(answer.body))


class OverHttp:
    """The service on a free port of 127.0.0.1, for the length of a ``with``; ``url`` is its address."""

    def __init__(self, upstream: Upstream) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else the second of two writes waits for the client, which waits too

            def _answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length)
                headers = {name.lower(): value for name, value in self.headers.items()}
                try:
                    answer = upstream.handle(self.command, self.path, headers, body)
                except LostError:
                    self.close_connection = True
                    return
                self._send(answer)

            def _send(self, answer: Response) -> None:
                self.send_response_only(answer.status)
                for name, value in answer.headers:
                    self.send_header(name, value)
                if answer.status != 304:
                    self.send_header("content-length", str(len(answer.body)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(answer.body)

            do_GET = do_POST = do_PUT = do_DELETE = _answer

            def log_message(self, *_: Any) -> None:
                """Nothing: the service keeps a log of its own."""

        self.upstream = upstream
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
