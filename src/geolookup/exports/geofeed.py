"""A geofeed (RFC 8805): ``prefix,country,region,city,postal code``, one network a line."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from geolookup.base.text import harmless
from geolookup.exports.content import Content, Places, Progress
from geolookup.exports.segments import Segments
from geolookup.index.flatten import EMPTY, U32
from geolookup.model.addresses import IPV4_MAX, IPV6_MAX, cidrs, to_text
from geolookup.model.errors import SettingsError
from geolookup.model.public import PUBLIC, public_parts

_COUNTRY = re.compile(r"[A-Z]{2}", re.ASCII)
_REGION = re.compile(r"(?:([A-Z]{2})-)?([A-Z0-9]{1,3})", re.ASCII)  # ISO 3166-2, with its country or without
#: What no field may hold: it would end the field, begin a comment, or quote.
_NO_FIELD = re.compile(r'[,#"\x00-\x1f\x7f-\x9f\u2028\u2029]')
_NOWHERE = "ZZ"
_LINES_AT_ONCE = 4096


@dataclass(slots=True)
class Left:
    """Numbers of places that could not be written as they are, and of the ``ranges`` written, if only in part."""

    ranges: int = 0
    out: int = 0
    without_country: int = 0
    changed_cities: int = 0

    def warnings(self) -> Iterator[str]:
        """Notes on it for a person."""
        if self.out:
            yield f"{_places(self.out)} neither a country nor a city, and {'is' if self.out == 1 else 'are'} left out"
        if self.without_country:
            yield f"{_places(self.without_country)} a country that is not a code of two letters: it is left out there"
        if self.changed_cities:
            yield f"{_places(self.changed_cities)} a city with a comma, # or quote: blanks are written in their place"


def _places(count: int) -> str:
    return "1 place has" if count == 1 else f"{count} places have"


def require_public(content: Content) -> None:
    """Refuse to tell the world of private addresses.

    :raises SettingsError: if one is covered
    """
    for version, segments in ((4, content.four), (6, content.six)):
        found = _first_private(version, segments)
        if found is not None:
            raise SettingsError(
                f"{found} is private or reserved, and a geofeed is for everybody: leave such addresses out with "
                "--public-only"
            )


def _first_private(version: int, segments: Segments) -> str | None:
    """The first address that is covered and not public, as text; None if there is none."""
    at = 0
    for first, last in (*PUBLIC[version], (None, None)):
        most = (IPV4_MAX if version == 4 else IPV6_MAX) if first is None else first - 1
        if at <= most and (found := _first_covered(segments, at, most)) is not None:
            return to_text(4 if version == 4 else 6, found)
        if last is None:
            return None
        at = last + 1
    return None


def _first_covered(segments: Segments, first: int, last: int) -> int | None:
    begin, end = max(segments.position(first + 1) - 1, 0), segments.position(last + 1)
    for at, value in enumerate(segments.value[begin:end].tolist(), begin):
        if value != EMPTY:
            return max(first, segments.start(at))
    return None


def parts(
    content: Content, comments: Iterable[str], *, postal_codes: bool, public_only: bool, progress: Progress
) -> tuple[Iterator[bytes], Left]:
    """The feed in parts of some lines each, and what could not be written as it is, counted as the parts go."""
    left = Left()
    fields, numbers = _fields(content.places, left, postal_codes=postal_codes)
    families = [(4, content.four.with_values(numbers)), (6, content.six.with_values(numbers))]
    head = "".join(f"# {harmless(line, 1000)}\n" for line in comments)
    return _lines(head, families, fields, left, public_only=public_only, progress=progress), left


def _lines(
    head: str,
    families: list[tuple[int, Segments]],
    fields: list[str],
    left: Left,
    *,
    public_only: bool,
    progress: Progress,
) -> Iterator[bytes]:
    total = sum(segments.covered() for _, segments in families)
    done = 0
    lines = [head]
    for version, segments in families:
        family = 4 if version == 4 else 6
        for first, last, value in segments.ranges(version):
            shown = list(public_parts(version, first, last)) if public_only else [(first, last)]
            left.ranges += bool(shown)
            for low, high in shown:
                lines += [
                    f"{to_text(family, start)}/{length}{fields[value]}" for start, length in cidrs(version, low, high)
                ]
            done += 1
            if len(lines) >= _LINES_AT_ONCE:
                yield "".join(lines).encode("utf-8")
                lines = []
                progress(done, total)
    yield "".join(lines).encode("utf-8")


def _fields(places: Places, left: Left, *, postal_codes: bool) -> tuple[list[str], U32]:
    """The rest of each distinct line after its prefix, and its number for each place: `EMPTY` if it is left out."""
    known: dict[str, int] = {}
    numbers = np.empty(len(places), np.uint32)
    columns = [places.column(name) for name in ("country", "region", "city", "postalcode")]
    for at, (country, region, city, postalcode) in enumerate(zip(*columns, strict=True)):
        shown = country.strip().upper()
        if not _COUNTRY.fullmatch(shown) or shown == _NOWHERE:
            shown = ""
        town = _clean(city)
        if not shown and not town:
            left.out += 1
            numbers[at] = EMPTY
            continue
        left.without_country += bool(country.strip()) and not shown
        left.changed_cities += _NO_FIELD.search(city) is not None
        line = f",{shown},{_region(shown, region)},{town},{_clean(postalcode) if postal_codes else ''}\n"
        numbers[at] = known.setdefault(line, len(known))
    return list(known), numbers


def _region(country: str, region: str) -> str:
    """The region as an ISO 3166-2 code, or nothing if it is not a region of this country."""
    found = _REGION.fullmatch(region.strip().upper())
    if not country or found is None or found[1] not in (None, country):
        return ""
    return f"{country}-{found[2]}"


def _clean(text: str) -> str:
    return " ".join(_NO_FIELD.sub(" ", text).split()) if _NO_FIELD.search(text) else text.strip()
