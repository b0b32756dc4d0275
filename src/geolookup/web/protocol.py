"""One connection of HTTP/1.1: what comes is read one request at a time, answered at once or by the application.

Slow clients have deadlines, and refusals are problems.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import msgspec
from uvicorn._types import ASGISendEvent
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl
from uvicorn.server import ServerState

from geolookup.model.errors import RequestRefusedError
from geolookup.web.application import Paths, not_at_once
from geolookup.web.guard import CROWDED
from geolookup.web.options import Limits
from geolookup.web.problems import HTML, MEDIA_TYPE, Problem, problem
from geolookup.web.request import (
    END_OF_HEAD,
    SAME,
    Request,
    accepted_in,
    beginning_fault,
    cannot_become_a_head,
    path_in,
)
from geolookup.web.timeouts import Deadline, Stall

#: The minor version of uvicorn whose insides are used here and in `geolookup.web.server`. pyproject.toml allows no
#: other, and a test fails with any other.
TESTED_UVICORN = "0.54"

#: Called with the problem's name and the client's address; returns the id for the answer.
Refused: TypeAlias = Callable[[str, str], str]
#: Given a request's scope: headers, as they are sent, and the body of its 200; None if the application must be asked.
AtOnce: TypeAlias = Callable[[Any], tuple[bytes, bytes] | None]

_LOGGER: Final = logging.getLogger("uvicorn.error")

#: Seconds until a connection is closed whose body does not come, after the application had time to say so; and until a
#: refused one is closed whose client continues to send.
_LAST_WORDS_S = 3.0
#: Requests of one client that are answered at once in a row: then others have their turn.
_IN_A_ROW = 16

#: The states of a connection that waits; None while it is answering.
_HEAD, _BODY, _NEXT, _END = "head", "body", "next", "end"


class Cycle(RequestResponseCycle):
    """uvicorn's, and two things that it leaves out about an answer whose length the application does not say.

    HTTP/1.0 has no chunks: there the end of such an answer is the end of the connection. And ``HEAD`` tells that the
    answer to ``GET`` would come in chunks.
    """

    _until_end = False

    async def send(self, message: ASGISendEvent) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start" and not self.response_started:
            headers = message.get("headers", ())
            if all(name.lower() != b"content-length" for name, _ in headers):
                if self.scope["http_version"] == "1.0":
                    self._until_end, self.chunked_encoding = True, False
                elif self.scope["method"] == "HEAD" and message["status"] not in (204, 304):
                    message = {**message, "headers": [*headers, (b"transfer-encoding", b"chunked")]}
        elif message["type"] == "http.response.body" and self._until_end:
            self.expected_content_length = len(message.get("body", b""))
        await super().send(message)


class Protocol(asyncio.Protocol):
    """One connection. ``believe`` puts into a scope the client that a trusted proxy names."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: Limits,
        refused: Refused,
        paths: Paths | None = None,
        at_once: AtOnce = not_at_once,
        believe: Callable[[Any], None] | None = None,
    ) -> None:
        if not config.loaded:
            config.load()
        self._app = config.loaded_app
        self._server_state = server_state
        self._app_state = app_state
        self._loop = _loop or asyncio.get_event_loop()
        self._limits = limits
        self._refused = refused
        self._paths = paths or Paths()
        self._at_once = at_once
        self._believe = believe
        #: The bytes that have come and were not read yet.
        self._unread = bytearray()
        #: The number of them that were searched for the end of a head.
        self._searched = 0
        #: The last request that could be read, and what its scope has in common with that of one with the same headers.
        self._last: Request | None = None
        self._common: dict[str, Any] = {}
        #: The request whose body is coming.
        self._request: Request | None = None
        #: The number of bytes that came since the last one that was part of a body.
        self._idle_bytes = 0
        self._cycle: Cycle | None = None
        self._waits_for: str | None = None
        self._deadline = Deadline(self._loop, self._too_late)
        #: True once it was refused: what still comes is dropped.
        self._over = False

    # Called by the loop and uvicorn's server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        assert isinstance(transport, asyncio.Transport)
        connections: set[Any] = self._server_state.connections
        connections.add(self)
        self._transport = transport
        self._flow = FlowControl(transport)
        self._stall = Stall(self._loop, transport, self._limits.stall_s)
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "server": get_local_addr(transport),
            "client": get_remote_addr(transport),
            "scheme": "https" if is_ssl(transport) else "http",
            "root_path": "",
        }
        most = self._limits.connections
        if len(connections) > 2 * most:
            transport.abort()
            return
        if len(connections) > most:
            self._app_state = {**self._app_state, CROWDED: True}
        self._wait(_HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection ended, from either side."""
        connections: set[Any] = self._server_state.connections
        connections.discard(self)
        self._over = True
        self._deadline.close()
        self._stall.close()
        self._leave()
        self._flow.resume_writing()
        if exc is None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Something came."""
        if not self._over and not self._transport.is_closing():
            self._unread += data
            self._proceed()

    def pause_writing(self) -> None:
        """The client is slower than we are."""
        self._flow.pause_writing()
        self._stall.watch()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._flow.resume_writing()

    def shutdown(self) -> None:
        """End after the answer that is under way."""
        if self._cycle is None or self._cycle.response_complete:
            self._transport.close()
        else:
            self._cycle.keep_alive = False

    # Requests

    def _proceed(self) -> None:
        """Read what has come, as far as it can be read now."""
        for _ in range(_IN_A_ROW):
            if self._request is not None:
                if self._unread:
                    self._read_body(self._request)
                if self._request is not None:
                    break
            elif self._is_answering():
                if self._unread:
                    self._flow.pause_reading()
                break
            elif not self._read_head():
                break
            if self._over or self._transport.is_closing():
                return
        else:
            self._flow.pause_reading()
            self._loop.call_soon(self._proceed_later)
        self._watch_request()

    def _proceed_later(self) -> None:
        if not self._over and not self._transport.is_closing():
            self._flow.resume_reading()
            self._proceed()

    def _is_answering(self) -> bool:
        return self._cycle is not None and not self._cycle.response_complete

    def _read_head(self) -> bool:
        """Read a head if one has come as a whole, and begin to answer; false if there is none."""
        if not self._unread:
            return False
        end = self._unread.find(END_OF_HEAD, max(0, self._searched - len(END_OF_HEAD) + 1))
        if end < 0:
            if len(self._unread) > self._limits.head_bytes:
                self._refuse("head-too-large", f"at most {self._limits.head_bytes} bytes", bytes(self._unread))
            elif cannot_become_a_head(self._unread, self._searched):
                self._refuse("bad-request", beginning_fault(bytes(self._unread)), bytes(self._unread))
            self._searched = len(self._unread)
            return False
        end += len(END_OF_HEAD)
        head = bytes(self._unread[:end])
        del self._unread[:end]
        self._searched = 0
        self._wait(None)  # its deadline too: an answer may take longer than a request
        try:
            request = self._last
            if request is None or not request.became(head):
                request = self._last = self._read(head)
            scope = self._scope_of(request)
        except RequestRefusedError as error:
            self._refuse(error.problem, str(error), head)
        else:
            self._begin(request, scope)
        return True

    def _read(self, head: bytes) -> Request:
        """:raises RequestRefusedError: ``bad-request`` or ``not-implemented``"""
        self._last = None
        request = Request(head)
        self._common = {**self._scope, "http_version": request.version, "headers": request.headers, SAME: {}}
        if self._believe is not None:
            self._believe(self._common)
        return request

    def _scope_of(self, request: Request) -> dict[str, Any]:
        """:raises RequestRefusedError: ``bad-request`` if the request is meant for another scheme"""
        raw_path, _, query = request.in_origin_form(self._common["scheme"]).partition(b"?")
        path = raw_path.decode("ascii")
        return {
            **self._common,
            "method": request.method,
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "state": self._app_state.copy(),
        }

    def _begin(self, request: Request, scope: dict[str, Any]) -> None:
        """Answer a request at once, or have the application answer it."""
        if request.is_whole and not self._flow.write_paused:
            answer = self._at_once(scope)
            if answer is not None:
                self._send(*answer, keep_alive=request.keep_alive)
                return
        event = asyncio.Event()
        cycle = self._cycle = Cycle(
            scope=scope,  # type: ignore[arg-type]  # a dictionary with all that uvicorn's type has
            transport=self._transport,
            flow=self._flow,
            logger=_LOGGER,
            access_logger=_LOGGER,
            access_log=False,
            default_headers=self._server_state.default_headers,
            message_event=event,
            expect_100_continue=request.expects_continue,
            keep_alive=request.keep_alive,
            on_response=self._answered,
        )
        if request.is_whole:
            cycle.more_body = False
            event.set()
        else:
            self._request = request
        task = self._loop.create_task(cycle.run_asgi(self._app))
        task.add_done_callback(self._server_state.tasks.discard)
        self._server_state.tasks.add(task)

    def _send(self, headers: bytes, body: bytes, *, keep_alive: bool) -> None:
        """Write an answer that was given at once."""
        ours = b"".join(b"%s: %s\r\n" % header for header in self._server_state.default_headers)
        end = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
        self._transport.write(b"".join((STATUS_LINE[200], ours, headers, end, body)))
        self._server_state.total_requests += 1
        if not keep_alive:
            self._transport.close()
        else:
            self._stall.watch()

    def _read_body(self, request: Request) -> None:
        """Pass on what has come of a body."""
        before = len(self._unread)
        try:
            request.feed(self._unread)
        except RequestRefusedError as error:
            self._refuse(error.problem, str(error), b"")
            return
        cycle = self._cycle
        assert cycle is not None
        answered = cycle.response_complete
        if request.piece:
            self._idle_bytes = 0
            if not answered:
                cycle.body += request.piece
                if len(cycle.body) > HIGH_WATER_LIMIT:
                    self._flow.pause_reading()
            request.piece = b""
        else:
            # Extensions of chunks, and trailers are not read, so they need not be long.
            self._idle_bytes += before
            if self._idle_bytes > self._limits.head_bytes:
                self._refuse("head-too-large", f"its trailers have more than {self._limits.head_bytes} bytes", b"")
                return
        if request.is_whole:
            self._request, self._idle_bytes = None, 0
            cycle.more_body = False
            if request.followed:
                cycle.keep_alive = False
                if answered:
                    self._transport.close()
        if not answered:
            cycle.message_event.set()

    def _answered(self) -> None:
        """An answer was written, though perhaps not read yet."""
        self._server_state.total_requests += 1
        if self._transport.is_closing():
            return
        self._flow.resume_reading()
        self._stall.watch()
        self._proceed()

    # Requests that come slowly

    def _watch_request(self) -> None:
        if self._over:
            return
        if self._request is not None:
            self._wait(_BODY)
        elif self._is_answering():
            self._wait(None)
        elif self._unread or self._waits_for == _HEAD:
            self._wait(_HEAD)
        else:
            self._wait(_NEXT)

    def _wait(self, what: str | None) -> None:
        """Wait for that from now on, unless it was waited for already; the next request may come late each time."""
        if what == self._waits_for:
            return
        self._waits_for = what
        if what is None:
            self._deadline.clear()
        elif what == _NEXT:
            self._deadline.set(self._limits.keep_alive_s)
        else:
            self._deadline.set(self._limits.request_s + (_LAST_WORDS_S if what == _BODY else 0))

    def _too_late(self) -> None:
        if self._transport.is_closing():
            return
        if self._waits_for == _HEAD and self._unread:
            self._refuse("request-timeout", "the request's head took too long", bytes(self._unread))
        elif self._waits_for in (_HEAD, _NEXT):
            self._transport.close()
        else:
            self._transport.abort()

    # Refusals

    def _leave(self) -> bool:
        """Tell the application that the client has left; true if an answer was under way."""
        cycle = self._cycle
        if cycle is None:
            return False
        answering = not cycle.response_complete
        cycle.disconnected = cycle.disconnected or answering
        cycle.message_event.set()
        return answering

    def _refuse(self, name: str, detail: str, head: bytes) -> None:
        """Answer with a problem instead of the application, and close the connection."""
        self._over = True
        body = problem(name, detail)
        client: Any = self._scope["client"]
        identity = self._refused(name, client[0] if client else "")
        begun = self._cycle is not None and self._cycle.response_started
        if (self._leave() or self._request is not None) and begun:
            self._transport.close()
            return
        content, media_type, more = self._formed(name, body, head)
        headers = [
            *self._server_state.default_headers,
            *((key.encode(), value.encode()) for key, value in more.items()),
            (b"content-type", media_type.encode()),
            (b"content-length", str(len(content)).encode()),
            (b"x-request-id", identity.encode()),
            (b"connection", b"close"),
        ]
        lines = b"".join(b"%s: %s\r\n" % header for header in headers)
        self._transport.write(b"".join((STATUS_LINE[body.status], lines, b"\r\n", content)))
        # Closing with unread bytes would reset the connection, and the client would lose the answer: for a while, what
        # still comes is read and dropped.
        self._unread.clear()
        self._flow.resume_reading()
        if self._transport.can_write_eof():  # not with TLS
            self._transport.write_eof()
        self._waits_for = _END
        self._deadline.set(_LAST_WORDS_S)

    def _formed(self, name: str, body: Problem, head: bytes) -> tuple[bytes, str, Mapping[str, str]]:
        """The content that is sent for a problem, its media type, and more headers."""
        # Of a head that is too long or too slow, the path and what is accepted are known nevertheless.
        if (page := self._paths.page_for(accepted_in(head))) is not None:
            text, headers = page(name, body.status, body.detail)
            return text.encode(), f"{HTML}; charset=utf-8", headers
        form = self._paths.error_form(path_in(head))
        if form is not None:
            return msgspec.json.encode(form(name, body.status, body.detail)), "application/json", {}
        return msgspec.json.encode(body), MEDIA_TYPE, {}
