"""An answer that is streamed from a snapshot, and closes the snapshot even if the client leaves."""

from collections.abc import Iterator
from typing import Any, Protocol

import anyio
from anyio import to_thread
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Send

#: How long one piece may wait for a client that reads some of it. The connection drops a client that reads nothing much
#: sooner (`geolookup.web.protocol`): the snapshot keeps the database's log from shrinking.
STALL_S = 3600.0


class Closable(Protocol):
    """Something that is held open while its pieces are sent: a snapshot of a database, or a file."""

    def close(self) -> None:
        """Give it back."""


class SnapshotStream(ASGIResponse):
    """Streams pieces that are made in worker threads, the next one only when the client took the one before."""

    __slots__ = ("_pieces", "_snapshot", "_stall_s")

    _should_set_content_length = False

    def __init__(
        self, pieces: Iterator[bytes], snapshot: Closable, *, headers: dict[str, str], stall_s: float = STALL_S
    ) -> None:
        super().__init__(headers=headers, media_type="application/json")
        self._pieces = pieces
        self._snapshot = snapshot
        self._stall_s = stall_s

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer; see the class."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            # Shielded: if this is cancelled because the client left, the connection must still be given back.
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(self._snapshot.close)

    async def send_body(self, send: Send, receive: Receive) -> None:
        """Send the pieces until they end or the client leaves or stalls."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._leave_with_the_client, group.cancel_scope, receive)
            while (piece := await to_thread.run_sync(next, self._pieces, None)) is not None:
                with anyio.move_on_after(self._stall_s) as waiting:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                if waiting.cancelled_caught:
                    break  # the answer has no end, so the server closes the connection
            else:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            group.cancel_scope.cancel()

    @staticmethod
    async def _leave_with_the_client(scope: anyio.CancelScope, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()
