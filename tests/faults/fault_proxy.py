"""A proxy on raw sockets in front of a service, that does to the answers of writes what no framework will."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.faults.listener import LONGEST_S, Listener
from tests.faults.raw_server import Request, Script, _read_request

#: What a fault makes of a request: given a function that has the service do it and returns the whole answer, the
#: bytes to send, or a script to play; None holds the connection open and silent.
Fault = Callable[[Callable[[], bytes]], bytes | Script | None]


def instead(answer: bytes | Script) -> Fault:
    """Answer without asking the service."""
    return lambda _service: answer


def after(answer: bytes) -> Fault:
    """Have the service do it, and answer something else."""

    def fault(service: Callable[[], bytes]) -> bytes:
        service()
        return answer

    return fault


def cut(offset: int) -> Fault:
    """Have the service do it, and send the first bytes of its answer alone."""
    return lambda service: service()[:offset]


def silence(service: Callable[[], bytes]) -> None:
    """Have the service do it, and say nothing."""
    service()


class FaultProxy:
    """Listens on 127.0.0.1; the next writes meet ``faults``, in order; then all goes through as it is.

    Every read meets ``read_fault``, while there is one. ``writes`` has the writes that came, ``requests`` everything. A
    context manager.
    """

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        self._upstream = (str(parts.hostname), int(parts.port or 80))
        self.faults: list[Fault] = []
        self.read_fault: Fault | None = None
        self.requests: list[Request] = []
        self._listener = Listener(self._meet)
        self.url = self._listener.url

    @property
    def writes(self) -> list[Request]:
        """The requests that may change something."""
        return [request for request in self.requests if request.method != "GET"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def _meet(self, connection: socket.socket) -> None:
        threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(LONGEST_S)
            request = _read_request(connection)
            if request is None:
                return
            self.requests.append(request)
            fault = self._fault_of(request)
            answer = self._ask(request) if fault is None else fault(lambda: self._ask(request))
            if answer is None:
                connection.recv(1)  # until the client gives up
                return
            if isinstance(answer, Script):
                self._play(connection, answer)
                return
            connection.sendall(answer)
            connection.shutdown(socket.SHUT_WR)

    def _fault_of(self, request: Request) -> Fault | None:
        if request.method == "GET":
            return self.read_fault
        return self.faults.pop(0) if self.faults else None

    def _play(self, connection: socket.socket, script: Script) -> None:
        for number, part in enumerate(script.parts):
            if number and script.pause_s and self._listener.over.wait(script.pause_s):
                return
            connection.sendall(part or b"")
        if script.reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            connection.shutdown(socket.SHUT_WR)

    def _ask(self, request: Request) -> bytes:
        headers = {**request.headers, "connection": "close", "host": f"{self._upstream[0]}:{self._upstream[1]}"}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        with socket.create_connection(self._upstream, timeout=LONGEST_S) as service:
            service.sendall(
                f"{request.method} {request.target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + request.body
            )
            parts = []
            while part := service.recv(65536):
                parts.append(part)
        return b"".join(parts)
