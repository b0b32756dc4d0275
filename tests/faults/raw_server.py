"""A server on a raw socket that plays scripted bytes: for the faults that no framework will commit."""

import socket
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from tests.faults.listener import LONGEST_S, Listener


@dataclass(frozen=True)
class Script:
    """What one connection gets, after its request was read: the parts, with a pause before each but the first.

    A part that is None reads the next request on the same connection.
    ``reset`` ends it with a TCP reset in place of an orderly end; ``hold`` keeps it open and silent at the end;
    ``read_request`` false plays without having read anything.
    """

    parts: Sequence[bytes | None]
    pause_s: float = 0.0
    reset: bool = False
    hold: bool = False
    read_request: bool = True


@dataclass
class Request:
    """A request as it came: the method, the target, the headers by lower-case name, the body."""

    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


def answer(body: bytes, *, status: str = "200 OK", framing: str = "length", headers: Sequence[str] = ()) -> bytes:
    """A whole HTTP/1.1 answer; ``framing`` is ``length``, ``chunked`` or ``close`` (by the connection's end)."""
    head = [f"HTTP/1.1 {status}", "Content-Type: application/json", "Connection: close", *headers]
    if framing == "length":
        head.append(f"Content-Length: {len(body)}")
    elif framing == "chunked":
        head.append("Transfer-Encoding: chunked")
        middle = max(1, len(body) // 2)
        chunks = [chunk for chunk in (body[:middle], body[middle:]) if chunk]
        body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    else:
        assert framing == "close"
    return "\r\n".join([*head, "", ""]).encode("latin-1") + body


class RawServer:
    """Listens on 127.0.0.1 from construction on, and plays one script a connection; the last one is repeated.

    A script may be given as bytes. ``requests`` has what was asked, in order; ``broken_off`` is set once a client went
    away while a script played. A context manager.
    """

    def __init__(self, *scripts: Script | bytes) -> None:
        self.scripts = [Script([script]) if isinstance(script, bytes) else script for script in scripts]
        self.requests: list[Request] = []
        self.connections = 0
        self.broken_off = threading.Event()
        self._listener = Listener(self._meet, accept_s=LONGEST_S)
        self.port, self.url = self._listener.port, self._listener.url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and playing."""
        self._listener.close()

    def _meet(self, connection: socket.socket) -> None:
        number = min(self.connections, len(self.scripts) - 1)
        self.connections += 1
        with connection:
            connection.settimeout(LONGEST_S)
            try:
                self._play(connection, self.scripts[number])
            except OSError:
                self.broken_off.set()

    def _play(self, connection: socket.socket, script: Script) -> None:
        if script.read_request and not self._read(connection):
            return
        end = time.monotonic() + LONGEST_S
        for number, part in enumerate(script.parts):
            if (number and script.pause_s and self._listener.over.wait(script.pause_s)) or time.monotonic() > end:
                return
            if part is not None:
                connection.sendall(part)
            elif not self._read(connection):
                return
        if script.hold:
            connection.settimeout(0.05)
            while not self._listener.over.is_set() and time.monotonic() < end:
                try:
                    if not connection.recv(65536):
                        return
                except TimeoutError:
                    continue
        if script.reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            connection.shutdown(socket.SHUT_WR)

    def _read(self, connection: socket.socket) -> bool:
        request = _read_request(connection)
        if request is not None:
            self.requests.append(request)
        return request is not None


def _read_request(connection: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    method, target, _ = lines[0].split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    while len(body) < int(headers.get("content-length", "0")):
        more = connection.recv(65536)
        if not more:
            return None
        body += more
    return Request(method, target, headers, body)
