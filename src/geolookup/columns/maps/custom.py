"""The custom geolocations as a map: points, sized by how many addresses they answer."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from geolookup.base.text import harmless
from geolookup.columns.maps.content import LABEL_LENGTH, POINTS, Content, Point, Row, Table, ended
from geolookup.columns.maps.focus import Focus
from geolookup.index.reader import EMPTY, IndexReader
from geolookup.index.segments import segments_v4
from geolookup.lookup.engine import GeoLookup
from geolookup.model.addresses import IPV4_MAX
from geolookup.model.types import Geolocation, geolocation_of

#: The part of an IPv6 address that says which network it is in, by convention (RFC 4291, section 2.5.4).
_NETWORK_BITS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomPlace:
    """A custom geolocation with the addresses that it answers: those of IPv4, and the /64 networks of IPv6.

    ``pending`` is true while the edit behind it has not reached the service.
    """

    place: Geolocation
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
    v4 = np.zeros(overlay.location_count, np.int64)
    first, slots = segments_v4(overlay)
    sizes = np.diff(np.append(first.astype(np.int64), IPV4_MAX + 1))
    covered = slots != EMPTY
    np.add.at(v4, slots[covered], sizes[covered])
    v6: dict[int, int] = {}
    for low, high, slot in overlay.segments(6):
        v6[slot] = v6.get(slot, 0) + high - low + 1
    found = [
        CustomPlace(
            place=geolocation_of(overlay.location(slot)),
            addresses_v4=number,
            networks_v6=-(-v6.get(slot, 0) >> _NETWORK_BITS),
            pending=overlay.pending(slot),
        )
        for slot, number in enumerate(v4.tolist())
    ]
    return sorted(found, key=lambda each: (-each.addresses_v4 - each.networks_v6, each.place.locid))


def of_custom(geo: GeoLookup, *, title: str, focus: Focus, top: int, drawn: str) -> Content:
    """The map of the custom geolocations; ``drawn`` is the date on which it is drawn."""
    found = [each for each in custom_places(geo) if focus.codes is None or each.place.country in focus.codes]
    placed = [each for each in found if each.place.latitude is not None and each.place.longitude is not None]
    largest = max((each.size for each in found), default=0.0) or 1.0
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
    current = geo.with_snapshot(lambda snapshot: snapshot.current)
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
        points_are="custom geolocations: ten times as many addresses are one step larger",
        tables=(Table(title="Custom geolocations", headings=("IPv4", "IPv6 /64"), rows=rows),) if rows else (),
        footer=ended([], drawn, current.generation, current.dated),
    )


def _label(each: CustomPlace) -> str:
    pending = " (pending)" if each.pending else ""
    return harmless(f"{each.place.place_text()} ({each.place.locid})", LABEL_LENGTH) + pending
