"""The content of a map as plain data: counted addresses, or the custom geolocations; every text is fit to be shown.

Beside it two walks over the served segments: the addresses of each custom geolocation (`custom_places`), and of each
country (`CountryTotals`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from geolookup.base.text import harmless
from geolookup.base.version import __version__
from geolookup.columns.counts import Counts, Group
from geolookup.columns.outlines import Focus
from geolookup.exports.provenance import of_sources, provenance
from geolookup.index.reader import EMPTY, IndexReader
from geolookup.index.segments import segments_v4
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.fact_columns import by_record
from geolookup.model.addresses import IPV4_MAX
from geolookup.model.continents import countries
from geolookup.model.facts import PLACE_FACTS
from geolookup.model.types import Geolocation, Layer, geolocation_of
from geolookup.settings.times import of_day

#: Longer texts are cut, wherever they come from.
LABEL_LENGTH: Final = 80
_LINE_LENGTH: Final = 300
#: Points on a map; more could not be told apart.
POINTS: Final = 1000
#: The part of an IPv6 address that says which network it is in, by convention (RFC 4291, section 2.5.4).
_NETWORK_BITS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of a table: what it is, its values as text, and the length of its bar, from 0 to 1."""

    label: str
    values: tuple[str, ...]
    bar: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table: its title, what its values are called, and its rows."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point at ``longitude`` and ``latitude`` in degrees; ``size`` is from 0 to 1."""

    label: str
    longitude: float
    latitude: float
    size: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """All of a map.

    ``countries`` has the count of each code, and ``unit`` says what is counted. ``points_are`` says what a point is,
    ``sizes`` the sizes of some counts.
    ``footer`` are lines.
    """

    title: str
    summary: str
    unit: str
    focus: Focus
    countries: dict[str, int]
    points: tuple[Point, ...]
    points_are: str
    sizes: tuple[tuple[str, float], ...]
    tables: tuple[Table, ...]
    footer: tuple[str, ...]


def of_counts(counts: Counts, *, title: str, focus: Focus, top: int, drawn: str) -> Content:
    """The map of counted addresses; ``drawn`` is the date on which it is drawn."""
    by_country, by_city = (
        [group for group in counts.groups(field) if focus.codes is None or group.fields["country"] in focus.codes]
        for field in ("country", "city")
    )
    inside = sum(group.count for group in by_country)
    placed = [group for group in by_city if group.latitude is not None and group.fields["city"]]
    most = placed[0].count if placed else 1
    points = tuple(
        Point(
            label=f"{_city(group)}: {group.count:,}",
            longitude=group.longitude or 0.0,
            latitude=group.latitude or 0.0,
            size=group.count / most,
        )
        for group in placed[:POINTS]
    )
    named = [group for group in by_city if group.fields["city"]]
    tables = [
        _table(title, label, groups[:top] if top else groups, counts)
        for title, label, groups in (("Countries", _country, by_country), ("Cities", _city, named))
        if groups and not (title == "Countries" and focus.is_country)
    ]
    parts = [_plural(counts.counted, "request" if counts.by == "requests" else "address", counts.by)]
    if focus.codes is not None:
        parts.append(f"{inside:,} in {focus.name}, {counts.covered - inside:,} elsewhere")
    else:
        parts.append(_plural(len(by_country), "country", "countries"))
    parts.append(f"{counts.not_covered:,} not covered")
    if counts.malformed:
        parts.append(f"{counts.malformed:,} malformed")
    footer = list(counts.attributions)
    if len(placed) > POINTS:
        footer.append(f"Points: the {POINTS:,} cities with the most {counts.by}, of {len(placed):,}.")
    return Content(
        title=harmless(title, LABEL_LENGTH),
        summary="; ".join(parts),
        unit=counts.by,
        focus=focus,
        countries={str(group.fields["country"]): group.count for group in by_country},
        points=points,
        points_are=f"{counts.by} of a city",
        sizes=_sizes_of(most, lambda number: number / most) if points else (),
        tables=tuple(tables),
        footer=ended(footer, drawn, counts.dated, counts.provenance()),
    )


def _sizes_of(most: int, size: Callable[[int], float]) -> tuple[tuple[str, float], ...]:
    """Some round counts up to the largest one, each a tenth of the one before, with their sizes."""
    digits = 10 ** (len(str(most)) - 1)
    largest = most // digits * digits
    found = [largest // 10**step for step in range(3) if largest // 10**step]
    return tuple((f"{number:,}", size(number)) for number in found)


def ended(lines: list[str], drawn: str, dated: str | None, found_in: dict[str, Any]) -> tuple[str, ...]:
    """The lines at the foot of a map, with those that every map has; ``found_in`` is the provenance of its data."""
    sources = ", ".join(f"{each['name']} ({of_day(each['dated'])})" for each in found_in["sources"])
    own = (
        *([f"Sources: {sources}."] if sources else []),
        f"Fingerprint of the data: {found_in['fingerprint']}.",
        f"Drawn on {drawn} by geolookup {__version__}; data: generation {found_in['generation']}, {of_day(dated)}.",
        "Outlines: Natural Earth (public domain).",
    )
    return tuple(harmless(line, _LINE_LENGTH) for line in (*lines, *own))


def _table(title: str, label: Callable[[Group], str], groups: list[Group], counts: Counts) -> Table:
    most = groups[0].count if groups else 1
    return Table(
        title=title,
        headings=(counts.by, "share"),
        rows=tuple(
            Row(
                label=label(group),
                values=(f"{group.count:,}", f"{100 * group.count / counts.counted:.1f}%"),
                bar=group.count / most,
            )
            for group in groups
        ),
    )


def _country(group: Group) -> str:
    code = str(group.fields["country"])
    known = countries().get(code)
    return known.name if known else harmless(group.place_text(), LABEL_LENGTH)


def _city(group: Group) -> str:
    return harmless(group.place_text(), LABEL_LENGTH)


def _plural(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomPlace:
    """A custom geolocation with the addresses that it answers: those of IPv4, and the /64 networks of IPv6.

    ``site`` is its name, None if it has none. ``pending`` is true while the edit behind it has not reached the service.
    """

    place: Geolocation
    site: str | None
    addresses_v4: int
    networks_v6: int
    pending: bool

    @property
    def size(self) -> float:
        """From 0 on: both counts on one scale, on which ten times as many are one more."""
        return math.log10(1 + self.addresses_v4 + self.networks_v6)


def custom_places(geo: GeoLookup) -> list[CustomPlace]:
    """Every custom geolocation, those that answer the most first."""
    return geo.with_readers(lambda _, overlay: _places(overlay))


def _places(overlay: IndexReader) -> list[CustomPlace]:
    first, slots = segments_v4(overlay)
    v4 = _summed(slots, _sizes(first), overlay.location_count)
    v6: dict[int, int] = {}
    for low, high, slot in overlay.segments(6):
        v6[slot] = v6.get(slot, 0) + high - low + 1
    numbers, names = by_record(overlay, PLACE_FACTS["site"])
    sites = {overlay.slot_of_record(record): names[number] for record, number in enumerate(numbers.tolist())}
    found = [
        CustomPlace(
            place=geolocation_of(overlay.location(slot)),
            site=sites.get(slot),
            addresses_v4=number,
            networks_v6=-(-v6.get(slot, 0) >> _NETWORK_BITS),
            pending=overlay.pending(slot),
        )
        for slot, number in enumerate(v4.tolist())
    ]
    return sorted(found, key=lambda each: (-each.addresses_v4 - each.networks_v6, each.place.locid))


def of_custom(geo: GeoLookup, *, title: str, focus: Focus, top: int, drawn: str) -> Content:
    """The map of the custom geolocations, by the names of their sites; ``drawn`` is the date on which it is drawn."""
    found = [each for each in custom_places(geo) if focus.codes is None or each.place.country in focus.codes]
    placed = [each for each in found if each.place.latitude is not None and each.place.longitude is not None]
    largest = max((each.size for each in found), default=0.0) or 1.0
    most = max((each.addresses_v4 + each.networks_v6 for each in found), default=0)
    rows = tuple(
        Row(
            label=_label(each),
            values=(f"{each.addresses_v4:,}", f"{each.networks_v6:,}"),
            bar=each.size / largest,
        )
        for each in (found[:top] if top else found)
    )
    points = tuple(
        Point(
            label=f"{_label(each)}: {each.addresses_v4:,} IPv4 addresses, {each.networks_v6:,} IPv6 networks (/64)",
            longitude=each.place.longitude or 0.0,
            latitude=each.place.latitude or 0.0,
            size=(each.size / largest) ** 2,
        )
        for each in placed[:POINTS]
    )
    current, found_in = geo.with_snapshot(
        lambda snapshot: (snapshot.current, of_sources(provenance(geo.home, snapshot), ()))
    )
    parts = [
        f"{len(found):,} custom geolocation{'' if len(found) == 1 else 's'}",
        f"{sum(each.addresses_v4 for each in found):,} IPv4 addresses",
        f"{sum(each.networks_v6 for each in found):,} IPv6 networks (/64)",
    ]
    if len(placed) < len(found):
        parts.append(f"{len(found) - len(placed):,} without coordinates")
    return Content(
        title=harmless(title, LABEL_LENGTH),
        summary="; ".join(parts),
        unit="",
        focus=focus,
        countries={},
        points=points,
        points_are="addresses of a site",
        sizes=_sizes_of(most, lambda number: (math.log10(1 + number) / largest) ** 2) if points else (),
        tables=(Table(title="Custom geolocations", headings=("IPv4", "IPv6 /64"), rows=rows),) if rows else (),
        footer=ended([], drawn, current.dated, found_in),
    )


def _label(each: CustomPlace) -> str:
    pending, where = " (pending)" if each.pending else "", each.place.place_text()
    label = f"{where} ({each.place.locid})" if each.site is None else f"{each.site}, {where}"
    return harmless(label, LABEL_LENGTH) + pending


class CountryTotals:
    """The IPv4 addresses that each location answers, as lookups do: the custom layer first."""

    def __init__(self, base: IndexReader, overlay: IndexReader) -> None:
        self.base, self.overlay = base, overlay
        (base_first, base_slots), (over_first, over_slots) = segments_v4(base), segments_v4(overlay)
        first = np.union1d(base_first, over_first)
        sizes = _sizes(first)
        over = over_slots[np.searchsorted(over_first, first, "right") - 1]
        under = base_slots[np.searchsorted(base_first, first, "right") - 1]
        under[over != EMPTY] = EMPTY
        self._counts = [
            (reader, _summed(slots, sizes, reader.location_count)) for reader, slots in ((base, under), (overlay, over))
        ]

    def by_country(self, layer: Layer | None = None, source: str | None = None) -> dict[str, int]:
        """The addresses of each country's code, those with the most first; only of one layer or source if it is given.

        The source of the custom layer is ``custom``, and that of an index that names none ``service``.
        """
        found: dict[str, int] = {}
        for reader, counts in self._counts:
            if layer not in (None, reader.layer):
                continue
            chosen = counts if source is None else np.where(_is_of(reader, source), counts, 0)
            slots = np.flatnonzero(chosen)
            codes, where, inverse = np.unique(
                reader.arrays()["loc.country"][slots], return_index=True, return_inverse=True
            )
            sums = np.zeros(len(codes), np.int64)
            np.add.at(sums, inverse, chosen[slots])
            for slot, number in zip(slots[where].tolist(), sums.tolist(), strict=True):
                code = reader.country(slot)
                found[code] = found.get(code, 0) + number
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def _sizes(first: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The number of addresses in each segment, by where the segments begin."""
    return np.diff(np.append(first.astype(np.int64), IPV4_MAX + 1))


def _summed(slots: NDArray[np.uint32], sizes: NDArray[np.int64], locations: int) -> NDArray[np.int64]:
    counts = np.zeros(locations, np.int64)
    covered = slots != EMPTY
    np.add.at(counts, slots[covered], sizes[covered])
    return counts


def _is_of(reader: IndexReader, source: str) -> Any:
    """The mask of a source's locations."""
    if reader.layer == "custom":
        return source == "custom"
    names = reader.sources or ("service",)
    if source not in names:
        return False
    numbers = reader.arrays().get("loc.source")
    return names.index(source) == (0 if numbers is None else numbers)
