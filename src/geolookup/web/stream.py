"""Answers that take time to send: the pieces of a snapshot, and files.

A file stays open until the answer ends, the client leaves, or it reads nothing for too long. Files have
validators, conditional requests and ranges (RFC 9110, sections 8.8, 13 and 14).
"""

import asyncio
import os
import re
import time
from collections.abc import Iterator, Mapping
from email.utils import formatdate, parsedate_to_datetime
from typing import Any, Protocol

import anyio
from anyio import to_thread
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Send

from geolookup.model.errors import RequestRefusedError
from geolookup.web import wire
from geolookup.web.problems import note, problem

#: How long one piece may wait for a client that reads some of it. The connection drops a client that reads nothing much
#: sooner (`geolookup.web.protocol`): the snapshot keeps the database's log from shrinking.
STALL_S = 3600.0
#: Bytes that are read and sent at once. Each piece holds the event loop for a moment, in which no lookup is answered.
PIECE_BYTES = 1 << 17

_SHORTEST_REST_S = 0.0005
_LONGEST_REST_S = 0.02
#: Linux only: read what is in memory, or fail.
_NO_WAIT: int = getattr(os, "RWF_NOWAIT", 0)

_RANGE = re.compile(r"bytes *= *(?:([0-9]{1,18})-([0-9]{0,18})|-([0-9]{1,18}))", re.ASCII | re.IGNORECASE)


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
            group.start_soon(_leave_with_the_client, group.cancel_scope, receive)
            while (piece := await to_thread.run_sync(next, self._pieces, None)) is not None:
                with anyio.move_on_after(self._stall_s) as waiting:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                if waiting.cancelled_caught:
                    break  # the answer has no end, so the server closes the connection
            else:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            group.cancel_scope.cancel()


class Pace:
    """Turns in which the downloads of one process send their pieces, so that lookups never wait for more than one.

    After each piece the event loop is left alone for as long as the piece took, and at least for a millisecond, which
    is asyncio's shortest sleep: some 100 MB a second at most. Without it, fifty clients that take all they get would
    keep fifty pieces in front of each lookup.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def send(self, send: Send, piece: bytes, *, more: bool) -> None:
        """Send one piece in its turn, to a client that takes more."""
        async with self._turn:
            began = time.perf_counter()
            await send({"type": "http.response.body", "body": piece, "more_body": more})
            if more:
                await asyncio.sleep(min(_LONGEST_REST_S, max(_SHORTEST_REST_S, time.perf_counter() - began)))


class FileAnswer(ASGIResponse):
    """Sends an open file, or the part that the request's headers ask for, and closes it.

    The client gets the content that the descriptor has, even if the file's name is gone meanwhile. ``tag`` is a
    strong validator without its quotes, ``modified`` in seconds since 1970.

    A ``Range`` of one part is answered with 206. One of several parts, or one that cannot be read, is ignored, which
    section 14.2 allows.
    """

    __slots__ = ("_begin", "_descriptor", "_end", "_pace", "_stall_s")

    _should_set_content_length = False

    def __init__(
        self,
        descriptor: int,
        asked: Mapping[str, str],
        *,
        tag: str,
        modified: int,
        media_type: str,
        name: str | None = None,
        pace: Pace | None = None,
        stall_s: float = STALL_S,
    ) -> None:
        self._descriptor = descriptor
        self._pace = pace or Pace()
        self._stall_s = stall_s
        size = os.fstat(descriptor).st_size
        etag = f'"{tag}"'
        headers = {
            "ETag": etag,
            "Last-Modified": formatdate(modified, usegmt=True),
            "Accept-Ranges": "bytes",
            # It is looked for again each time, and usually not sent again.
            "Cache-Control": "no-cache",
        }
        if name is not None:
            headers["Content-Disposition"] = f'attachment; filename="{name}"'
        status = _precondition(asked, etag, modified)
        self._begin, self._end = 0, size
        if status == 200 and (wanted := asked.get("range")) is not None and _range_holds(asked, etag, modified):
            found = _range(wanted, size)
            if found is not None:
                self._begin, self._end = found
                status = 206 if self._begin < self._end else 416
        if status == 206:
            headers["Content-Range"] = f"bytes {self._begin}-{self._end - 1}/{size}"
        elif status in (304, 412, 416):
            self._begin = self._end = 0
        if status == 416:
            headers["Content-Range"] = f"bytes */{size}"
        if status != 304:
            headers["Content-Length"] = str(self._end - self._begin)
        super().__init__(status_code=status, headers=headers, media_type=media_type)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer; see the class."""
        if self.status_code in (412, 416):
            name = "stale-precondition" if self.status_code == 412 else "range-not-satisfiable"
            note(scope, problem(name, ""))
        try:
            await super().__call__(scope, receive, send)
        finally:
            os.close(self._descriptor)

    async def send_body(self, send: Send, receive: Receive) -> None:
        """Send the pieces until they end or the client leaves or stalls."""
        if self._begin == self._end:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        async with anyio.create_task_group() as group:
            group.start_soon(_leave_with_the_client, group.cancel_scope, receive)
            at = self._begin
            while at < self._end:
                with anyio.move_on_after(self._stall_s) as waiting:
                    # Sends nothing, but returns once the client has taken what was sent: no turn waits for a slow one.
                    await send({"type": "http.response.body", "body": b"", "more_body": True})
                if waiting.cancelled_caught:
                    break
                piece = await _read(self._descriptor, min(PIECE_BYTES, self._end - at), at)
                at += len(piece)
                if not piece:
                    break  # the file was made shorter: the answer has no end, so the server closes the connection
                await self._pace.send(send, piece, more=at < self._end)
            group.cancel_scope.cancel()


async def _read(descriptor: int, count: int, at: int) -> bytes:
    """Some bytes of a file: at once if the system has them in memory, else in a thread."""
    if _NO_WAIT:
        piece = bytearray(count)
        try:
            found = os.preadv(descriptor, [piece], at, _NO_WAIT)
        except OSError:  # they would have to be read from the disk, or the file system cannot tell
            pass
        else:
            return bytes(piece[:found])
    return await to_thread.run_sync(os.pread, descriptor, count, at)


async def _leave_with_the_client(scope: anyio.CancelScope, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _precondition(asked: Mapping[str, str], etag: str, modified: int) -> int:
    """200, or the status of a precondition that does not hold, in the order of RFC 9110, section 13.2.2."""
    if (match := asked.get("if-match")) is not None:
        if not wire.tag_matches(match, lambda weak, tag: not weak and tag == etag):
            return 412
    elif (since := _moment(asked.get("if-unmodified-since"))) is not None and modified > since:
        return 412
    if (none_match := asked.get("if-none-match")) is not None:
        return 304 if wire.tag_matches(none_match, lambda _weak, tag: tag == etag) else 200
    if (since := _moment(asked.get("if-modified-since"))) is not None and modified <= since:
        return 304
    return 200


def _range_holds(asked: Mapping[str, str], etag: str, modified: int) -> bool:
    """True if ``If-Range`` (section 13.1.5) lets the range be sent: its validator must be exactly this one."""
    condition = asked.get("if-range")
    if condition is None:
        return True
    if '"' in condition:
        return condition.strip() == etag
    return _moment(condition) == modified


def _range(text: str, size: int) -> tuple[int, int] | None:
    """The begin and end (exclusive) of a range: equal if it has nothing in the file; None if it is not one range."""
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        return None
    first, last, suffix = found.groups()
    if suffix is not None:
        return max(0, size - int(suffix)) if int(suffix) else size, size
    if last and int(last) < int(first):
        return None
    return min(int(first), size), min(int(last) + 1, size) if last else size


def _moment(text: str | None) -> int | None:
    """An HTTP date in seconds since 1970; None if it is not one, which counts as not given."""
    if text is None:
        return None
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return int(found.timestamp()) if found.tzinfo is not None else None


def open_for_reading(path: str) -> int:
    """A descriptor of a file that `FileAnswer` sends and closes.

    :raises RequestRefusedError: ``unknown-build`` if it is not there, ``busy`` if it cannot be opened now
    """
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise RequestRefusedError("it was replaced by a newer one", problem="unknown-build") from error
    except OSError as error:  # most likely too many files are open
        raise RequestRefusedError("the file cannot be opened: ask again later", problem="busy") from error
