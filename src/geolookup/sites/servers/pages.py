"""The lists of a server by REST: page by page, several at a time, and complete by what it counts.

NetBox and Nautobot page alike (https://netboxlabs.com/docs/netbox/integrations/rest-api/#pagination): ``limit`` and
``offset`` in, ``count`` and ``results`` out. A page may be shorter than was asked for, if the server allows no more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Self, TypeVar

import msgspec

from geolookup.base.reasons import reason
from geolookup.base.text import count
from geolookup.http.transport import Transport
from geolookup.model.errors import GeoLookupError, UpstreamAnswerError
from geolookup.upstream.connections import Connections

#: How many rows are asked for at once, and how many pages at the same time.
PAGE_ROWS: Final = 1000
AT_ONCE: Final = 4
#: How often a list is read that changes while it is read.
_ATTEMPTS: Final = 3
#: A night is long, and each request has limits of its own.
_LONGEST_S: Final = 6 * 3600.0

_T = TypeVar("_T")


class _Page(msgspec.Struct, Generic[_T]):
    count: int
    results: list[_T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A list that is to be read: its path, its ``row`` (a type with an ``id``, or a dict), more for the query."""

    path: str
    row: Any
    params: Mapping[str, str] = field(default_factory=dict)


class Client:
    """Asks one server, over a connection of its own; `another` is for another thread."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def another(self) -> Self:
        """One more, with connections of its own."""
        return type(self)(self._transport.another(attempts=self._transport.settings.attempts))

    def cut(self) -> None:
        """Break off what another thread has under way."""
        self._transport.cut()

    def close(self) -> None:
        """Close its connections."""
        self._transport.close()

    def get(self, path: str, params: Mapping[str, str | int | None] | None = None) -> tuple[bytes, Mapping[str, str]]:
        """The body of an answer, and its headers; errors are those of `Transport.request`."""
        answer = self._transport.request("GET", path, params=params, idempotent=True)
        return answer.body, answer.headers


class _PageRequest:
    """One page: its rows, or the error that there was instead."""

    def __init__(self, listing: Listing, offset: int, limit: int) -> None:
        self.listing = listing
        self._offset = offset
        self._limit = limit
        self.begun = False
        self.took_s: float | None = None
        self.found: _Page[Any] | None = None
        self.error: GeoLookupError | None = None

    def ask(self, client: Client) -> None:
        try:
            body, _ = client.get(
                self.listing.path, {**self.listing.params, "limit": self._limit, "offset": self._offset}
            )
            self.found = decoded(body, _Page[self.listing.row], f"GET {self.listing.path}")  # type: ignore[name-defined] # a type made here
        except GeoLookupError as error:
            self.error = error

    @property
    def ends_batch(self) -> bool:
        return self.error is not None


def decoded(body: bytes, kind: Any, what: str) -> Any:
    """A JSON text as a value of a type.

    :raises UpstreamAnswerError: if it is none
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UpstreamAnswerError(
            f"{what}: the answer is not of the form that is documented: {reason(error)}"
        ) from error


def read_lists(client: Client, listings: Mapping[str, Listing]) -> dict[str, list[Any]]:
    """All rows of each list, each with the ``id`` that no other has.

    :raises UpstreamError: if one cannot be read, or changes each time while it is read
    """
    found: dict[str, list[Any]] = {}
    connections = Connections(client, AT_ONCE, steady=True)
    try:
        left = dict(listings)
        for attempt in range(_ATTEMPTS):
            whole, told = _read(connections, left)
            found |= whole
            left = {name: listing for name, listing in left.items() if name not in whole}
            if not left:
                return {name: found[name] for name in listings}
            if attempt == _ATTEMPTS - 1:
                raise UpstreamAnswerError(
                    f"GET {next(iter(left.values())).path}: {next(iter(told.values()))}, {_ATTEMPTS} times: it changes "
                    "while it is read, or is cut"
                )
        raise AssertionError("the last attempt returns or raises")
    finally:
        connections.close()


def _read(
    connections: Connections[Client], listings: Mapping[str, Listing]
) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """The lists that came whole, and of each other one what is wrong with it."""
    first = {name: _PageRequest(listing, 0, PAGE_ROWS) for name, listing in listings.items()}
    _ask(connections, list(first.values()))
    pages = {name: [request] for name, request in first.items()}
    for name, request in first.items():
        assert request.found is not None
        rows = len(request.found.results)
        offsets = range(rows, request.found.count, rows) if rows else ()
        pages[name] += [_PageRequest(request.listing, offset, rows) for offset in offsets]
    _ask(connections, [request for requests in pages.values() for request in requests[1:]])
    whole, told = {}, {}
    for name, requests in pages.items():
        read = [request.found for request in requests if request.found is not None]
        rows_of = {_id(row): row for page in read for row in page.results}
        counts = {page.count for page in read}
        if counts == {len(rows_of)}:
            whole[name] = list(rows_of.values())
        else:
            said = " and ".join(map(str, sorted(counts)))
            told[name] = f"{count(len(rows_of), 'row')} came, and it counts {said}"
    return whole, told


def _ask(connections: Connections[Client], requests: Sequence[_PageRequest]) -> None:
    in_time = connections.ask_all(requests, _LONGEST_S)
    for request in requests:
        if request.error is not None:
            raise request.error
    if not in_time:
        raise UpstreamAnswerError(
            f"GET {requests[0].listing.path}: reading all pages took longer than {_LONGEST_S:g} s"
        )


def _id(row: Any) -> str:
    return str(row["id"] if isinstance(row, dict) else row.id)
