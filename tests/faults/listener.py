"""A socket on loopback whose connections are handed on: what the servers of faults have in common."""

import contextlib
import socket
import threading
from collections.abc import Callable

#: Nothing here takes longer than this, whatever a test forgets.
LONGEST_S = 30.0


class Listener:
    """Listens on 127.0.0.1 from construction on, and hands each connection to ``meet``, from a thread of its own.

    ``accept_s`` is how long it waits for the next connection; if None, until it is closed. ``over`` is set once it is.
    """

    def __init__(self, meet: Callable[[socket.socket], None], *, accept_s: float | None = None) -> None:
        self._meet = meet
        self.over = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(accept_s)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self.over.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(LONGEST_S)

    def _serve(self) -> None:
        while not self.over.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._meet(connection)
