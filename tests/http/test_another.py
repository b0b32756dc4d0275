"""A transport's others: connections of their own for other threads, with the same secret, that can be cut."""

import socket
import threading

import pytest

from geolookup.http.transport import Transport
from geolookup.model.errors import UpstreamUnavailableError
from geolookup.settings.table import Settings

SECRET = "a-secret-of-many-letters"


def heard(connection: socket.socket) -> bytes:
    """A request's head, or what came of it before the connection was shut."""
    found = b""
    while b"\r\n\r\n" not in found and (more := connection.recv(65536)):
        found += more
    return found


def test_what_is_cut_fails_where_it_was_asked_for_and_nothing_is_sent_after_it() -> None:
    failed: list[Exception] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with Transport(Settings(url=url, attempts=4), secret=SECRET) as transport:
            other = transport.another(attempts=1)

            def ask() -> None:
                try:
                    other.request("GET", "/never", idempotent=True)
                except UpstreamUnavailableError as error:
                    failed.append(error)

            thread = threading.Thread(target=ask)
            thread.start()
            connection, _ = server.accept()
            with connection:
                assert f"bearer {SECRET}".encode() in heard(connection).lower()
                other.cut()
                thread.join(20)
                assert len(failed) == 1
            with pytest.raises(UpstreamUnavailableError):
                other.request("GET", "/again", idempotent=False)
            server.settimeout(20)
            connection, _ = server.accept()
            with connection:
                assert heard(connection) == b""
            other.close()
            assert SECRET not in repr(other)
