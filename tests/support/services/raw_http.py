"""HTTP spoken byte by byte, for requests that no client library sends."""

import contextlib
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

PATIENCE_S = 30.0


@dataclass(frozen=True)
class Answer:
    """What came back: ``status`` 0 where the connection ended without an answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def problem(self) -> str:
        """The problem's name."""
        assert self.headers["content-type"] == "application/problem+json", self
        document: dict[str, Any] = json.loads(self.body)
        assert document["status"] == self.status
        return str(document["type"].rpartition(":")[2])


@contextlib.contextmanager
def connected(url: str, *, receive_bytes: int | None = None) -> Iterator[socket.socket]:
    """A connection to the service; ``receive_bytes`` is how much of an answer the system takes unasked."""
    host, port = url.removeprefix("http://").split(":")
    with socket.socket() as connection:
        if receive_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.settimeout(PATIENCE_S)
        connection.connect((host, int(port)))
        yield connection


def read_all(connection: socket.socket) -> bytes:
    """Everything until the service closes the connection; a reset is an end, too."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while more := connection.recv(65536):
            data += more
    return data


def read_until(connection: socket.socket, end: bytes) -> bytes:
    """Everything up to ``end``, which must come."""
    data = b""
    while not data.endswith(end):
        more = connection.recv(65536)
        assert more, data
        data += more
    return data


def parse(data: bytes) -> Answer:
    """The first answer in the bytes."""
    if not data:
        return Answer(0, {}, b"")
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers["content-length"]) if "content-length" in headers else len(body)
    return Answer(int(first.split(" ")[1]), headers, body[:length])


def exchange(url: str, *parts: bytes) -> Answer:
    """Send the parts, and read until the connection ends: ask for its end, or send what ends it."""
    with connected(url) as connection:
        with contextlib.suppress(ConnectionError):
            for part in parts:
                connection.sendall(part)
        return parse(read_all(connection))
