"""What is on a map, as plain data: every text in it is fit to be shown."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from geolookup.base.text import harmless
from geolookup.base.version import __version__
from geolookup.columns.counts.counts import Counts, Group
from geolookup.columns.maps.focus import Focus
from geolookup.exports.countries import countries

#: Longer texts are cut, wherever they come from.
LABEL_LENGTH: Final = 80
_LINE_LENGTH: Final = 300
#: Points on a map; more could not be told apart.
POINTS: Final = 1000


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

    ``countries`` has the count of each code, and ``unit`` says what is counted. ``points_are`` says what a point is.
    ``footer`` are lines.
    """

    title: str
    summary: str
    unit: str
    focus: Focus
    countries: dict[str, int]
    points: tuple[Point, ...]
    points_are: str
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
    parts = [f"{counts.counted:,} {counts.by}"]
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
        points_are="cities, by their area",
        tables=tuple(tables),
        footer=ended(footer, drawn, counts.generation, counts.dated),
    )


def ended(lines: list[str], drawn: str, generation: int, dated: str) -> tuple[str, ...]:
    """The lines at the foot of a map, with those that every map has."""
    own = (
        f"Drawn on {drawn} by geolookup {__version__}; data: generation {generation}, {dated[:10]}.",
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
