"""An answer that is a file: validators, conditional requests and ranges (RFC 9110, sections 8.8, 13 and 14)."""

import os
import re
from collections.abc import Mapping
from email.utils import formatdate, parsedate_to_datetime
from typing import Any

import anyio
from anyio import to_thread
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Send

from geolookup.errors import RequestRefusedError
from geolookup.service.http import wire
from geolookup.service.http.problems import note, problem
from geolookup.service.http.stream import STALL_S

#: Bytes that are read and sent at once. Each piece holds the event loop for a moment, in which no lookup is answered.
PIECE_BYTES = 1 << 16

_RANGE = re.compile(r"bytes *= *(?:([0-9]{1,18})-([0-9]{0,18})|-([0-9]{1,18}))", re.ASCII | re.IGNORECASE)


class FileAnswer(ASGIResponse):
    """Sends an open file, or what the request's headers ask for of it, and closes it.

    The client gets the content that the descriptor has, whatever becomes of the file's name meanwhile. ``tag`` is a
    strong validator without its quotes, ``modified`` in seconds since 1970.

    A ``Range`` of one part is answered with 206. One of several parts, or one that cannot be read, is ignored, which
    section 14.2 allows.
    """

    __slots__ = ("_begin", "_descriptor", "_end", "_stall_s")

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
        stall_s: float = STALL_S,
    ) -> None:
        self._descriptor = descriptor
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
                wanted = min(PIECE_BYTES, self._end - at)
                piece = await to_thread.run_sync(os.pread, self._descriptor, wanted, at)
                at += len(piece)
                if not piece:
                    break  # somebody made the file shorter: the answer has no end, so the server closes the connection
                with anyio.move_on_after(self._stall_s) as waiting:
                    await send({"type": "http.response.body", "body": piece, "more_body": at < self._end})
                if waiting.cancelled_caught:
                    break
            group.cancel_scope.cancel()


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
    """Whether ``If-Range`` (section 13.1.5) lets the range be sent: its validator must be exactly this one."""
    condition = asked.get("if-range")
    if condition is None:
        return True
    if '"' in condition:
        return condition.strip() == etag
    return _moment(condition) == modified


def _range(text: str, size: int) -> tuple[int, int] | None:
    """Where a range begins and ends (exclusive): equal if it has nothing in the file; None if it is not one range."""
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

    :raises RequestRefusedError: ``unknown-build`` if it is not there
    """
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise RequestRefusedError("it was replaced by a newer one", problem="unknown-build") from error
