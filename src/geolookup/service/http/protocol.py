"""uvicorn's HTTP/1.1 connection with two additions: deadlines for slow clients, and refusals that are problems.

Bytes that are not a request never reach the application: uvicorn would answer them in plain text.
"""

import array
import asyncio
import contextlib
import fcntl
import sys
import termios
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from geolookup.service.http.access.guard import CROWDED
from geolookup.service.http.access.limits import Limits
from geolookup.service.http.paths import Paths
from geolookup.service.http.problems import HTML, MEDIA_TYPE, Problem, problem

#: The minor version of uvicorn whose insides are overridden here and in `geolookup.service.process.server`.
#: pyproject.toml allows no other, and a test fails with any other.
TESTED_UVICORN = "0.54"

#: Called with the problem's name and the client's address; returns the id for the answer.
Refused = Callable[[str, str], str]

_BY_STATUS = {431: "head-too-large", 501: "not-implemented"}
#: Seconds until a connection is closed whose body does not come, after the application had time to say so; and until a
#: refused one is closed whose client continues to send.
_LAST_WORDS_S = 3.0
#: How often progress is checked before a client counts as one that reads nothing.
_LOOKS = 4


class Protocol(H11Protocol):
    """One connection."""

    def __init__(
        self, *arguments: Any, limits: Limits, refused: Refused, paths: Paths | None = None, **more: Any
    ) -> None:
        super().__init__(*arguments, **more)
        self._paths = paths or Paths()
        self._limits = limits
        self._refused = refused
        self._awaited: str | None = None
        self._overdue: asyncio.TimerHandle | None = None
        self._look: asyncio.TimerHandle | None = None
        self._unsent_before = 0
        self._looks_without_progress = 0
        self._over = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the base class has it
        """A client connected."""
        super().connection_made(transport)
        most = self._limits.connections
        if len(self.connections) > 2 * most:
            transport.abort()
            return
        if len(self.connections) > most:
            self.app_state = {**self.app_state, CROWDED: True}
        self._watch_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection ended, from either side."""
        super().connection_lost(exc)
        for timer in (self._overdue, self._look):
            if timer is not None:
                timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Something came."""
        if not self._over:
            super().data_received(data)

    # Requests that come slowly

    def handle_events(self) -> None:
        """Read what came."""
        super().handle_events()
        self._watch_request()

    def _watch_request(self) -> None:
        if self._over:
            return
        state = self.conn.their_state
        awaited = None
        if state is h11.SEND_BODY:
            awaited = "body"
        elif state is h11.IDLE and (self.cycle is None or self.conn.trailing_data[0]):
            awaited = "head"  # else it is a connection between two requests, which may be idle
        if awaited == self._awaited:
            return
        self._awaited = awaited
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
        if awaited is not None:
            seconds = self._limits.request_s + (_LAST_WORDS_S if awaited == "body" else 0)
            self._overdue = self.loop.call_later(seconds, self._too_late)

    def _too_late(self) -> None:
        if self.transport.is_closing():
            return
        if self._awaited == "head" and not self.conn.trailing_data[0]:
            self.transport.close()
        elif self._awaited == "head":
            self._refuse("request-timeout", "the request's head took too long")
        else:
            self.transport.abort()

    # Answers that are not read

    def pause_writing(self) -> None:
        """The client is slower than we are."""
        super().pause_writing()
        self._watch_answer()

    def on_response_complete(self) -> None:
        """An answer was written, though perhaps not read yet."""
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self._watch_answer()

    def _watch_answer(self) -> None:
        if self._look is None:
            self._unsent_before, self._looks_without_progress = self._unsent(), 0
            self._look_later()

    def _look_later(self) -> None:
        self._look = self.loop.call_later(self._limits.stall_s / _LOOKS, self._look_for_progress)

    def _look_for_progress(self) -> None:
        self._look = None
        if not self.transport.get_write_buffer_size():
            return
        unsent = self._unsent()
        # Several checks: between two of them, as many bytes may have been added as were read.
        self._looks_without_progress = self._looks_without_progress + 1 if unsent == self._unsent_before else 0
        self._unsent_before = unsent
        if self._looks_without_progress >= _LOOKS:
            self.transport.abort()
        else:
            self._look_later()

    def _unsent(self) -> int:
        """Bytes that the client has not read: ours, and those that the system holds for it.

        The system takes some megabytes at once and then nothing for minutes, even if a slow client reads steadily.
        """
        waiting = self.transport.get_write_buffer_size()
        system = array.array("i", [0])
        with contextlib.suppress(OSError, ValueError, AttributeError):
            fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, system)
        return waiting + system[0]

    # What is not a request

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that could not be parsed; uvicorn calls this if its parser fails."""
        error = sys.exc_info()[1]
        hint = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        self._refuse(_BY_STATUS.get(hint, "bad-request"), str(error or msg))

    def _refuse(self, name: str, detail: str) -> None:
        """Answer with a problem instead of the application, and close the connection."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            # The application is reading this request's body: for it, the client has left.
            cycle.disconnected = True
            cycle.message_event.set()
        body = problem(name, detail)
        identity = self._refused(name, self.client[0] if self.client else "")
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        content, media_type, more = self._formed(name, body)
        headers = [
            *self.server_state.default_headers,
            *((key.encode(), value.encode()) for key, value in more.items()),
            (b"content-type", media_type.encode()),
            (b"content-length", str(len(content)).encode()),
            (b"x-request-id", identity.encode()),
            (b"connection", b"close"),
        ]
        events = (
            h11.Response(status_code=body.status, headers=headers, reason=STATUS_PHRASES[body.status]),
            h11.Data(data=content),
            h11.EndOfMessage(),
        )
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        # Closing with unread bytes would reset the connection, and the client would lose the answer: for a while, what
        # still comes is read and dropped.
        self._over = True
        if self.transport.can_write_eof():  # not with TLS
            self.transport.write_eof()
        if self._overdue is not None:
            self._overdue.cancel()
        self._overdue = self.loop.call_later(_LAST_WORDS_S, self.transport.abort)

    def _formed(self, name: str, body: Problem) -> tuple[bytes, str, Mapping[str, str]]:
        """What is sent for a problem, its media type, and more headers."""
        # Of a head that is too long or too slow, the path and what is accepted are known nevertheless.
        head = self.conn.trailing_data[0]
        if (page := self._paths.page_for(_accepted_in(head))) is not None:
            text, headers = page(name, body.status, body.detail)
            return text.encode(), f"{HTML}; charset=utf-8", headers
        form = self._paths.error_form(_path_in(head))
        if form is not None:
            return msgspec.json.encode(form(name, body.status, body.detail)), "application/json", {}
        return msgspec.json.encode(body), MEDIA_TYPE, {}


def _accepted_in(head: bytes) -> str:
    """What the beginning of a request's head says that the client accepts."""
    lines = head.split(b"\n")[1:]
    return ", ".join(line.decode("latin-1").strip() for line in lines if line[:7].lower() == b"accept:")


def _path_in(head: bytes) -> str:
    """The path in the beginning of a request's head; nothing if it is not there."""
    words = head.partition(b"\n")[0].split(b" ", 2)
    return unquote(words[1].partition(b"?")[0].decode("latin-1")) if len(words) == 3 else ""
