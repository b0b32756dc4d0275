"""An answer's body as it streams in: framed, decompressed, bounded in time.

One thread keeps all deadlines of the process; without any there is no thread.

Compressed bodies are decompressed here because httpx was seen to pass a truncated gzip body as complete.
"""

import contextlib
import os
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator

import httpx

from geolookup.base.text import unchanged
from geolookup.http.errors import TotalTimeoutError, http_errors
from geolookup.model.errors import UpstreamAnswerError

#: Seconds for which the thread stays though nothing is due: the next request comes soon, or no more do.
_IDLE_S = 5.0


class Deadlines:
    """Calls actions when they are due, unless they are cancelled before, in a thread of its own.

    A timer for each request would be a thread for each, which takes longer to start than to send a small request.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[object, tuple[float, Callable[[], None]]] = {}
        self._thread: threading.Thread | None = None
        #: The moment at which the thread looks again by itself.
        self._looks_at = 0.0

    def add(self, after_s: float, action: Callable[[], None]) -> object:
        """Call ``action`` after so many seconds; the handle that is returned is for `cancel`."""
        at, one = time.monotonic() + after_s, object()
        with self._changed:
            self._due[one] = at, action
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="geolookup-deadlines", daemon=True)
                self._thread.start()
            elif at < self._looks_at:
                self._changed.notify()
        return one

    def cancel(self, one: object) -> None:
        """Do not call it; if it was called already, nothing happens."""
        with self._changed:
            self._due.pop(one, None)

    def _run(self) -> None:
        while True:
            for action in self._next():
                action()
            with self._changed:
                if not self._due and not self._waits(_IDLE_S) and not self._due:
                    self._thread = None
                    return

    def _next(self) -> list[Callable[[], None]]:
        """The actions that are due: waits until there are some, or none is left."""
        with self._changed:
            while self._due:
                now = time.monotonic()
                due = [one for one, (at, _) in self._due.items() if at <= now]
                if due:
                    return [self._due.pop(one)[1] for one in due]
                self._waits(min(at for at, _ in self._due.values()) - now)
        return []

    def _waits(self, seconds: float) -> bool:
        seconds = min(seconds, threading.TIMEOUT_MAX)
        self._looks_at = time.monotonic() + seconds
        return self._changed.wait(seconds)


DEADLINES = Deadlines()
if hasattr(os, "register_at_fork"):
    # Neither the thread nor its actions live on in a child.
    os.register_at_fork(after_in_child=lambda: Deadlines.__init__(DEADLINES))


_PRODUCED_AT_ONCE = 1 << 20
# Lists of geolocations shrink about tenfold; a body that grows two hundredfold past its first megabytes is not a list.
_EXPANSION_FLOOR = 16 << 20
_EXPANSION_RATIO = 200
_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


class Watch:
    """Ends an answer that takes longer than it may, even if bytes keep coming: of headers, chunk sizes or content.

    httpx bounds each silence but not their sum, so at the deadline another thread shuts the socket under the reader.
    ``expired`` tells whether the deadline or the service ended the answer.
    """

    def __init__(self, total_s: float, what: str, clean: Callable[[str], str] = unchanged) -> None:
        self.what = what
        self.clean = clean
        self.total_s = total_s
        self._deadline = time.monotonic() + total_s
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._shut = False
        self._timer = DEADLINES.add(total_s, self._expire)

    @property
    def expired(self) -> bool:
        """True if the time is up."""
        return time.monotonic() >= self._deadline

    def check(self) -> None:
        """:raises TotalTimeoutError: once the time is up"""
        if self.expired:
            raise TotalTimeoutError(f"{self.what}: the answer took longer than {self.total_s:g} s (`total_timeout_s`)")

    def over(self, stream: object) -> None:
        """Watch this network stream of httpcore from now on."""
        found = stream.get_extra_info("socket") if hasattr(stream, "get_extra_info") else None
        with self._lock:
            self._socket = found if isinstance(found, socket.socket) else None
            late = self._shut
        if late:
            self._expire()

    def trace(self, event: str, info: dict[str, object]) -> None:
        """For httpcore's ``trace`` extension: learn of the connection before its answer has begun."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self.over(info.get("return_value"))

    def stop(self) -> None:
        """The answer is over."""
        DEADLINES.cancel(self._timer)
        with self._lock:
            self._socket = None

    def cut(self) -> None:
        """Break the answer off now: a reader meets a broken connection, and a new connection sends nothing."""
        self._expire()

    def _expire(self) -> None:
        with self._lock:
            self._shut = True
            if self._socket is not None:
                # Not the method of an SSLSocket, which resets its state while another thread reads.
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class Body:
    """The body of one answer. Iterating hands out its content, decompressed, in bytes of any length.

    ``clean`` removes the secret from a text that will be shown.
    ``framed`` is false if only the end of the connection marks the end of the body: then the content itself must show
    whether it is whole. ``bytes_read`` counts the bytes that came over the network. `close` it in any case.

    :raises UpstreamAnswerError: while iterating, if the body is cut short or its compression is broken
    :raises UpstreamUnavailableError: while iterating, for a broken connection or a timeout
    """

    def __init__(self, response: httpx.Response, watch: Watch, *, compression: bool) -> None:
        self._response = response
        self._watch = watch
        self.clean = watch.clean
        self.status = response.status_code
        self.headers = response.headers
        self.framed = "content-length" in response.headers or "transfer-encoding" in response.headers
        self.bytes_read = 0
        self._encoding = response.headers.get("content-encoding", "").strip().lower()
        self._compression = compression

    def __iter__(self) -> Iterator[bytes]:
        if self._encoding in ("", "identity"):
            return self._raw()
        if not self._compression:
            raise UpstreamAnswerError(f"{self._watch.what}: the answer is compressed, though that was not asked for")
        if self._encoding not in _WINDOW_BITS:
            raise UpstreamAnswerError(f"{self._watch.what}: the answer is compressed in a way that was not asked for")
        return self._decompressed(zlib.decompressobj(_WINDOW_BITS[self._encoding]))

    def close(self) -> None:
        """Release the connection; it is used again only if the body was read to its end."""
        self._watch.stop()
        with contextlib.suppress(Exception):  # the answer is over either way
            self._response.close()

    def _raw(self) -> Iterator[bytes]:
        with http_errors(self._watch.what, body=True, watch=self._watch):
            for chunk in self._response.iter_raw():
                self._watch.check()
                self.bytes_read += len(chunk)
                yield chunk
        self._watch.check()  # a shut socket looks like the end of a body without framing

    def _decompressed(self, machine: "zlib._Decompress") -> Iterator[bytes]:
        produced = 0
        try:
            for chunk in self._raw():
                more = True
                while more:
                    piece = machine.decompress(chunk, _PRODUCED_AT_ONCE)
                    chunk = machine.unconsumed_tail
                    more = bool(chunk) or len(piece) == _PRODUCED_AT_ONCE
                    produced += len(piece)
                    if produced > _EXPANSION_FLOOR + _EXPANSION_RATIO * self.bytes_read:
                        raise UpstreamAnswerError(
                            f"{self._watch.what}: the answer expands more than {_EXPANSION_RATIO} times"
                        )
                    if piece:
                        yield piece
                if machine.unused_data:
                    raise UpstreamAnswerError(f"{self._watch.what}: something stands after the compressed answer")
        except zlib.error as error:
            raise UpstreamAnswerError(f"{self._watch.what}: the answer's compression is broken") from error
        if not machine.eof:
            raise UpstreamAnswerError(f"{self._watch.what}: the compressed answer was cut short")
