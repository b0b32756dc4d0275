"""Reads a list of geolocations from the chunks of one JSON text, in any container.

An array; one bare geolocation; or an object with exactly one array of geolocations in it, under any name. An array
counts as one of geolocations after an object with a ``locid`` was found in it; the elements before that are then bad
rows. If the object says that the list is one page of several, that is an error: this client does not read pages.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from geolookup.base import plainjson
from geolookup.base.reasons import reason
from geolookup.base.text import count, harmless, unchanged
from geolookup.http.splitter import Piece, Splitter
from geolookup.model.errors import UpstreamAnswerError
from geolookup.upstream.decode import PulledGeolocation, RowDecoder, load_array

#: Names of members, in small letters and without what joins words in them.
_PAGES: Final = frozenset({"pages", "totalpages", "pagecount", "numpages", "lastpage"})
_TOTALS: Final = frozenset(
    {"total", "count", "numfound"}
    | {f"total{what}" for what in ("count", "items", "results", "records", "elements", "rows", "hits", "geolocations")}
    | {f"{what}count" for what in ("odata", "item", "result", "record", "row", "geolocation")}
)
_NEXT: Final = frozenset(
    {"next", "nextpage", "nextlink", "nexturl", "nexthref", "nexttoken", "nextpagetoken", "nextpageurl", "nextcursor"}
    | {"hasmore", "hasnext", "hasnextpage", "cursor", "continuation", "continuationtoken", "odatanextlink", "truncated"}
    | {"istruncated"}
)
#: Members that are objects of such members.
_HOLDERS: Final = frozenset({"meta", "metadata", "page", "pageinfo", "pagination", "paging", "paginator", "links"})
_JOINTS = re.compile(r"[^a-z0-9]")
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
#: Texts that say no, as some services write it.
_NO: Final = frozenset({"", "false", "no", "none", "null", "0"})
_LINK = re.compile(r'<[^>]*>[^,<]*;\s*rel\s*=\s*"?(?:[^",;<]*\s)?next(?=["\s,;]|\Z)', re.IGNORECASE)


class ListReader:
    """Feed it chunks of any size, then `close` it; both return the geolocations that are complete.

    ``of_pages`` says what to do if the list is one page of several; None if it may be one.

    :raises UpstreamAnswerError: from both, if the text is not JSON, is cut short, or has no list that can be recognised
    """

    def __init__(
        self, decoder: RowDecoder, *, clean: Callable[[str], str] = unchanged, of_pages: str | None = None
    ) -> None:
        self._decoder = decoder
        self._of_pages = of_pages
        self._clean = clean
        self._splitter = Splitter(clean=clean)
        self._chosen: int | None = None
        self._undecided = -1
        self._passed = 0  # elements of the undecided array, none of which is a geolocation

    def feed(self, chunk: bytes) -> list[PulledGeolocation]:
        """The geolocations that this chunk completes."""
        pieces = self._splitter.feed(chunk)
        if not self._splitter.is_object:
            return [row for piece in pieces for row in self._decoder.batch(piece.text)]
        return [row for piece in pieces for row in self._from_object(piece)]

    def close(self) -> list[PulledGeolocation]:
        """Say that no more text comes; returns the geolocations that only the end could decide about."""
        self._splitter.close()
        if not self._splitter.is_object:
            return []
        shell = self._load_shell()
        if "locid" in shell or "ipblocks" in shell:
            if self._chosen is not None:
                raise UpstreamAnswerError("the answer is a geolocation and a list of geolocations at once")
            return self._decoder.values([shell])
        if self._chosen is None and self._splitter.empty_arrays != 1:
            names = ", ".join(harmless(self._clean(name), 20) for name in list(shell)[:8])
            why = "" if self._undecided < 0 else ": no array in it has an object with a locid"
            raise UpstreamAnswerError(f"the answer is an object without a list of geolocations{why} (it has: {names})")
        if self._of_pages is not None and (sign := _sign_of_more(shell, self._decoder.geolocations_seen)) is not None:
            raise UpstreamAnswerError(f"the answer is one page of a list, not all of it: {sign}. {self._of_pages}")
        return []

    def _load_shell(self) -> dict[str, Any]:
        try:
            shell = plainjson.loads(bytes(self._splitter.shell))
        except ValueError as error:
            raise UpstreamAnswerError(f"the answer is not JSON: {harmless(reason(error))}") from error
        assert isinstance(shell, dict)
        return shell

    def _from_object(self, piece: Piece) -> list[PulledGeolocation]:
        if piece.array == self._chosen:
            return self._decoder.batch(piece.text)
        values = load_array(piece.text)
        if piece.array != self._undecided:
            self._undecided, self._passed = piece.array, 0
        if not any(isinstance(value, dict) and "locid" in value for value in values):
            self._passed += len(values)
            return []
        if self._chosen is not None:
            raise UpstreamAnswerError("the answer is an object with two lists of geolocations")
        self._chosen = piece.array
        self._decoder.missed(self._passed)
        return self._decoder.batch(piece.text)


def _sign_of_more(shell: Mapping[str, Any], rows: int) -> str | None:
    """The member around a list of so many rows that says there are more, in words; None if there is none."""
    for name, plain, value in _members(shell):
        number = _number(value)
        shown = f"`{harmless(name, 40)}`"
        if plain in _PAGES and number is not None and number > 1:
            return f"{shown} is {harmless(str(number), 20)}"
        if plain in _TOTALS and number is not None and number > rows:
            return f"{shown} is {harmless(str(number), 20)}, and it has {count(rows, 'geolocation')}"
        if plain in _NEXT and _says_yes(value):  # its value may be an address with a secret in it
            return f"{shown} says that more follow"
    return None


def links_to_more(header: str) -> bool:
    """True if a header ``Link`` (RFC 8288) names a next page."""
    return _LINK.search(header) is not None


def _members(shell: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Each member with its name as it is and as it compares; after an object of such members, those of it."""
    for name, value in shell.items():
        plain = _JOINTS.sub("", name.lower())
        yield name, plain, value
        if plain in _HOLDERS and isinstance(value, dict):
            for inner, below in value.items():
                yield f"{name}.{inner}", _JOINTS.sub("", inner.lower()), below


def _number(value: object) -> float | None:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _says_yes(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().lower() not in _NO
    if isinstance(value, dict):
        return any(map(_says_yes, value.values()))
    return bool(value)
