"""What one CURRENT names, open for lookups: both layers, and the Geolocation objects made from them so far."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from geolookup.addresses import to_text
from geolookup.fields import FIELD_NAMES
from geolookup.index.native import PureSearcher, Records, open_searcher
from geolookup.index.reader import EMPTY, IndexReader
from geolookup.model import Geolocation, Layer, Match, Segment
from geolookup.state.current import Published

if TYPE_CHECKING:
    from types import ModuleType

    from geolookup.addresses import Family
    from geolookup.index import _native

#: Geolocation objects kept ready by one reader: some 40 MiB where all are in use.
MAX_RECORDS = 1 << 17


class OpenLayer:
    """One open index file with the Geolocation objects made from it so far."""

    __slots__ = ("_records", "reader")

    def __init__(self, reader: IndexReader, records: Records) -> None:
        self.reader = reader
        self._records = records

    def geolocation(self, slot: int) -> Geolocation:
        try:
            return self._records[slot]
        except KeyError:
            pass
        locid, *values = self.reader.location(slot)
        place = Geolocation(locid=locid, **dict(zip(FIELD_NAMES, values, strict=True)))
        if isinstance(self._records, dict) and len(self._records) >= MAX_RECORDS:
            self._records.clear()  # cheaper than to keep an order of use; what is asked for again comes back
        self._records[slot] = place
        return place


def match_in(base: OpenLayer, custom: OpenLayer, address: str, family: "Family", value: int) -> Match | None:
    """What an address resolves to and by which range, or None; ``address`` is for the match to repeat."""
    layer: Layer = "custom"
    found = custom
    slot, first, last = found.reader.segment(family, value)
    if slot == EMPTY:
        layer, found = "default", base
        slot, base_first, base_last = found.reader.segment(family, value)
        if slot == EMPTY:
            return None
        first, last = max(first, base_first), min(last, base_last)
    return Match(
        address=address,
        geolocation=found.geolocation(slot),
        first=to_text(family, first),
        last=to_text(family, last),
        layer=layer,
        pending=found.reader.pending(slot),
    )


class Snapshot:
    """What one CURRENT named, open. Immutable but for its caches, so a lookup holds on to one and needs no lock."""

    __slots__ = ("base", "current", "custom", "has_custom", "searcher", "stamp")

    def __init__(self, published: Published, stamp: tuple[int, ...] | None, module: "ModuleType | None") -> None:
        self.current = published.current
        self.searcher, base, custom = open_searcher(module, published.base, published.overlay, MAX_RECORDS)
        self.base = OpenLayer(published.base, base)
        self.custom = OpenLayer(published.overlay, custom)
        self.has_custom = published.overlay.location_count > 0
        self.stamp = stamp

    @property
    def fast(self) -> "_native.Searcher | None":
        """The searcher, where it is the accelerator's."""
        return None if isinstance(self.searcher, PureSearcher) else self.searcher

    def find(self, family: "Family", value: int) -> Geolocation | None:
        """The geolocation of an address, or None."""
        if family == 4:
            if self.has_custom:
                slot = self.custom.reader.find4(value)
                if slot != EMPTY:
                    return self.custom.geolocation(slot)
            slot = self.base.reader.find4(value)
        else:
            if self.has_custom:
                slot = self.custom.reader.find6(value)
                if slot != EMPTY:
                    return self.custom.geolocation(slot)
            slot = self.base.reader.find6(value)
        return None if slot == EMPTY else self.base.geolocation(slot)

    def match(self, address: str, family: "Family", value: int) -> Match | None:
        """What an address resolves to and by which range, or None."""
        return match_in(self.base, self.custom, address, family, value)

    def segments(self, family: "Family", layer: Layer | None = None) -> Iterator[Segment]:
        """Walk the ranges that something covers, ascending: of one layer, or as both answer together."""
        if layer is not None:
            chosen = self.custom if layer == "custom" else self.base
            for first, last, slot in chosen.reader.segments(family, gaps=False):
                yield _segment(first, last, chosen, slot, layer)
            return
        base = self.base.reader.segments(family, gaps=True)
        first, last, slot = next(base)
        for over_first, over_last, over_slot in self.custom.reader.segments(family, gaps=True):
            if over_slot != EMPTY:
                yield _segment(over_first, over_last, self.custom, over_slot, "custom")
                continue
            while last < over_first:
                first, last, slot = next(base)
            while True:
                if slot != EMPTY:
                    yield _segment(max(first, over_first), min(last, over_last), self.base, slot, "default")
                if last >= over_last:
                    break
                first, last, slot = next(base)


def _segment(first: int, last: int, source: OpenLayer, slot: int, layer: Layer) -> Segment:
    return Segment(
        first=first,
        last=last,
        geolocation=source.geolocation(slot),
        layer=layer,
        pending=source.reader.pending(slot),
    )
