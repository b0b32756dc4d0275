"""The service's operations 1 to 7: list, create, update and delete geolocations and their blocks."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Self, Unpack

from geolookup.base import plainjson
from geolookup.base.text import harmless
from geolookup.http.body import Body
from geolookup.http.transport import Answer, Transport
from geolookup.model.errors import EditError, UpstreamAnswerError, UpstreamError, UpstreamRefusedError
from geolookup.model.fields import FIELD_NAMES, FILTER_NAMES
from geolookup.model.types import PROVISIONAL_LOCID, ListFilters
from geolookup.upstream.decode import PulledGeolocation, RejectedRow, RowDecoder, whole
from geolookup.upstream.listreader import ListReader, links_to_more

# Larger chunks make the splitter's fixed costs small; most memory goes to the decoded batch, about ten times this.
_CHUNK_BYTES = 256 << 10
_STRONG_ETAG = re.compile(r'"[\x21\x23-\x7e]*"')  # RFC 9110 section 8.8.3, in ASCII
_COUNT = re.compile(r"[0-9]{1,18}", re.ASCII)
#: More geolocations than any service has: asked for if a list may have been capped silently.
PROBE_TOP = 10_000_000
_OF_PAGES = (
    "geolookup does not read pages: let the service answer with the whole list. If it can be asked for longer pages, "
    'put that into `path_list`, for example path_list = "/geolocations?per_page=1000000"'
)


class Listing:
    """One answer to `GeolocationsClient.list`: a context manager, and an iterator of its good geolocations.

    ``not_modified`` says that the service answered 304; then there is nothing to iterate. ``etag`` is the answer's
    strong ETag or None; ``total_count`` the number that the service declares, or None; ``framed`` whether HTTP itself
    marks the body's end. While and after iterating: ``geolocations_seen`` (rejected ones too), ``blocks_seen``
    (rejected ones too), ``rejected`` (the first thousand), ``rejected_geolocations``, ``rejected_blocks``,
    ``number_disagreements`` (blocks) and ``bytes_read`` (from the network). ``complete`` is true after everything was
    read and is complete: only then does iterating end normally.

    ``top`` is how many were asked for at most; ``is_whole`` says that all were asked for: then one page is an error.

    :raises UpstreamAnswerError: while iterating, if the answer is cut short, not a JSON list, has something after
        its end, a different number of geolocations than declared, or is one page of several
    :raises UpstreamUnavailableError: while iterating, for a broken connection or a timeout
    """

    def __init__(self, body: Body, *, top: int | None = None, is_whole: bool = False) -> None:
        self._body = body
        self._top = top
        self._is_whole = is_whole
        self._decoder = RowDecoder()
        self._begun = False
        self.complete = False
        self.not_modified = body.status == 304
        self.framed = body.framed
        etag = body.headers.get("etag", "")
        # An ETag is stored, so one that repeats the secret is dropped.
        self.etag = etag if _STRONG_ETAG.fullmatch(etag) and body.clean(etag) == etag else None
        count = body.headers.get("x-total-count", "").strip()
        self.total_count = int(count) if _COUNT.fullmatch(count) else None
        if self.not_modified:
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[PulledGeolocation]:
        for batch in self.iter_batches():
            yield from batch

    @property
    def geolocations_seen(self) -> int:
        """Elements of the list so far, rejected ones too."""
        return self._decoder.geolocations_seen

    @property
    def blocks_seen(self) -> int:
        """Blocks so far of geolocations that were not rejected, rejected blocks too."""
        return self._decoder.blocks_seen

    @property
    def rejected(self) -> list[RejectedRow]:
        """The first thousand rows and blocks that were left out."""
        return self._decoder.rejected

    @property
    def rejected_geolocations(self) -> int:
        """All geolocations that were left out."""
        return self._decoder.rejected_geolocations

    @property
    def rejected_blocks(self) -> int:
        """All blocks that were left out of good geolocations."""
        return self._decoder.rejected_blocks

    def unread_of_custom(self) -> str | None:
        """Which custom geolocation the list does not tell wholly, and why; None if it tells all of them.

        A list that tells less of them than the service has proves nothing: neither that one is gone nor what it lost.
        """
        if self.rejected_geolocations + self.rejected_blocks > len(self.rejected):
            return "too many rows of the service's list cannot be read"
        for row in self.rejected:
            if row.locid is None or row.locid <= 0:
                return f"a row of a custom geolocation cannot be read (locid {row.locid}: {row.reason})"
        return None

    @property
    def number_disagreements(self) -> int:
        """Blocks whose numbers are missing, quoted, or not those of their text."""
        return self._decoder.number_disagreements

    @property
    def bytes_read(self) -> int:
        """Bytes of the body that came over the network, before decompression."""
        return self._body.bytes_read

    def iter_batches(self) -> Iterator[list[PulledGeolocation]]:
        """The same geolocations as iterating gives, some thousand blocks at a time, which is faster."""
        if self._begun:
            raise UpstreamError("a listing can be read once: ask for another")
        self._begun = True
        if self.not_modified:
            self.complete = True
            return
        try:
            if self._body.headers.get("content-type", "").lower().startswith("application/problem+json"):
                raise UpstreamAnswerError("the list is a problem report, though its status says that all is well")
            if self._is_whole and links_to_more(self._body.headers.get("link", "")):
                raise UpstreamAnswerError(
                    f"the list is one page of several: its header Link names the next. {_OF_PAGES}"
                )
            of_pages = _OF_PAGES if self._is_whole else None
            reader = ListReader(self._decoder, clean=self._body.clean, of_pages=of_pages)
            for chunk in _joined(self._body):
                if rows := reader.feed(chunk):
                    yield rows
            if rows := reader.close():
                yield rows
            self._check_count()
            self.complete = True
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the connection; iterating cannot go on."""
        self._body.close()

    def _check_count(self) -> None:
        seen, declared = self.geolocations_seen, self.total_count
        if declared is None or seen == declared or (seen < declared and not self._is_whole and self._top is None):
            return  # some services count all geolocations, whatever is filtered: what such a list lacks proves nothing
        if self._top is not None and seen == min(self._top, declared):
            return  # some services count all geolocations, not those that they send
        raise UpstreamAnswerError(f"the list has {seen} geolocations, but the service declared {declared}")


def is_round(count: int) -> bool:
    """True of a number at which a service may have cut its list."""
    return count % 50 == 0 or (count >= 16 and count & (count - 1) == 0)


class GeolocationsClient:
    """Geolocations and their blocks on the service. Only `list` is sent again automatically.

    Errors are those of `Transport.request`; operations that change something also raise UpstreamAnswerError if the
    answer has a success status but not the promised content: then the outcome is unknown.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._settings = transport.settings

    def another(self) -> Self:
        """One more, with connections of its own, for another thread. It tries nothing again. Close it."""
        return type(self)(self._transport.another(attempts=1))

    def cut(self) -> None:
        """Break off the request that another thread has under way: it fails there."""
        self._transport.cut()

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    def list(
        self,
        *,
        top: int | None = None,
        etag: str | None = None,
        **filters: Unpack[ListFilters],
    ) -> Listing:
        """Operation 1. ``top`` is the most geolocations to return; with ``etag`` the answer may be 304.

        The request is sent at once and tried again until an answer begins, but never after.
        """
        params = {"top": top, **{name: str(filters.get(name) or "") or None for name in FILTER_NAMES}}
        try:
            body = self._transport.stream(
                self._settings.path_list,
                params=params,
                headers={"If-None-Match": etag} if etag else None,
                good=(200, 304) if etag else (200,),
            )
        except UpstreamRefusedError as error:
            if error.status not in (404, 405, 410):
                raise
            asked = harmless(f"{self._settings.url}{self._settings.path_list}")
            raise UpstreamRefusedError(
                f"{error}; the service has no list at {asked}: check `url` and `path_list`",
                status=error.status,
                problem_type=error.problem_type,
                errors=error.errors,
            ) from error
        return Listing(body, top=top, is_whole=not any(params.values()))

    def require_whole(self, count: int) -> None:
        """See that a list of so many, which declares no count, was not cut silently, by asking for any number.

        :raises UpstreamAnswerError: if there are more
        :raises UpstreamRefusedError: if the service takes no ``top``
        """
        # If the same question has more by now, too, somebody has created one between the two.
        if self._has_more(count, top=PROBE_TOP) and not self._has_more(count):
            raise UpstreamAnswerError(
                f"the list is truncated: {count} geolocations without `top`, and more with top={PROBE_TOP}: "
                "the service caps its list silently. Nothing was published or sent: ask for all by a query in "
                f"`path_list`, such as {self._settings.path_list}?top={PROBE_TOP}"
            )

    def _has_more(self, count: int, *, top: int | None = None) -> bool:
        with self.list(top=top) as listing:
            return any(listing.geolocations_seen > count for _ in listing.iter_batches())

    def create(self, fields: Mapping[str, object], *, idempotency_key: str) -> int:
        """Operation 2: create a custom geolocation from all of its fields; returns the locid from the service."""
        answer = self._send("POST", self._settings.path_create, None, _fields(fields), idempotency_key)
        locid = _locid(answer)
        if not PROVISIONAL_LOCID < locid < 0:
            what = "not negative, as that of a custom one is" if locid >= 0 else "below all that a service gives"
            raise UpstreamAnswerError(f"create: the service answered with locid {locid}, which is {what}")
        return locid

    def create_block(self, locid: int, startip: str, endip: str, *, idempotency_key: str) -> int:
        """Operation 3: add a block to a custom geolocation; returns its locid."""
        block = {"startip": startip, "endip": endip}
        return _same(locid, self._send("POST", self._settings.path_create_block, locid, block, idempotency_key))

    def update(self, locid: int, fields: Mapping[str, object]) -> int:
        """Operation 4: replace the fields of a custom geolocation; returns its locid."""
        return _same(locid, self._send("PUT", self._settings.path_update, locid, _fields(fields)))

    def replace_block(self, locid: int, startip: str, endip: str, newstartip: str, newendip: str) -> int:
        """Operation 5: replace a block by another; returns the geolocation's locid."""
        block = {"startip": startip, "endip": endip, "newstartip": newstartip, "newendip": newendip}
        return _same(locid, self._send("PUT", self._settings.path_replace_block, locid, block))

    def delete(self, locid: int) -> int:
        """Operation 6: delete a custom geolocation with its blocks; returns its locid."""
        return _same(locid, self._send("DELETE", self._settings.path_delete, locid))

    def delete_blocks(self, locid: int) -> tuple[int, int]:
        """Operation 7: delete all blocks of a custom geolocation; returns how many matched and were deleted."""
        found = _members(self._send("DELETE", self._settings.path_delete_blocks, locid))
        matching, deleted = found.get("totalMatchingBlocks"), found.get("customerDefinedMatchingBlocks")
        if type(matching) is not int or type(deleted) is not int or matching < 0 or deleted < 0:
            raise UpstreamAnswerError(
                "delete blocks: the service did not answer with two counts: the outcome is unknown"
            )
        return matching, deleted

    def _send(
        self, method: str, path: str, locid: int | None, body: object = None, idempotency_key: str | None = None
    ) -> Answer:
        answer = self._transport.request(
            method,
            path,
            params={"locid": locid},
            json=body,
            headers={"Idempotency-Key": idempotency_key} if idempotency_key else None,
            idempotent=False,
        )
        if answer.status not in (200, 201):  # 202 for one promises nothing
            raise UpstreamAnswerError(f"{method} {path}: the service answered {answer.status}: the outcome is unknown")
        return answer


def _joined(body: Body) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for chunk in body:
        parts.append(chunk)
        size += len(chunk)
        if size >= _CHUNK_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


def _fields(fields: Mapping[str, object]) -> dict[str, object]:
    missing = [name for name in FIELD_NAMES if name not in fields]
    if missing:
        raise EditError(f"the service needs all fields of a geolocation: {', '.join(missing)} missing")
    return {name: fields[name] for name in FIELD_NAMES}


def _members(answer: Answer) -> dict[str, Any]:
    try:
        value = plainjson.loads(answer.body)
    except ValueError as error:
        raise UpstreamAnswerError("the service's answer is not JSON: the outcome is unknown") from error
    if not isinstance(value, dict):
        raise UpstreamAnswerError("the service's answer is not a JSON object: the outcome is unknown")
    return value


def _locid(answer: Answer) -> int:
    locid = whole(_members(answer).get("locid"))
    if locid is None:
        raise UpstreamAnswerError("the service's answer names no locid: the outcome is unknown")
    return locid


def _same(locid: int, answer: Answer) -> int:
    answered = _locid(answer)
    if answered != locid:
        raise UpstreamAnswerError(
            f"the service answered for locid {answered}, but {locid} was meant: the outcome is unknown"
        )
    return answered
