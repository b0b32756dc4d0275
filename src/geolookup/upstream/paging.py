"""Whether a list is one page of several, by what stands around it; which this client does not read."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from geolookup.base.text import count, harmless

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


def sign_of_more(shell: Mapping[str, Any], rows: int) -> str | None:
    """What the object around a list of so many rows has that says there are more; None if nothing does."""
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
    """Whether a header ``Link`` (RFC 8288) names a next page."""
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
