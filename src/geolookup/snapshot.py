"""What one CURRENT names, open for lookups: both layers, and the Geolocation objects made from them so far."""

from typing import TYPE_CHECKING

from geolookup.index.native import PureSearcher, Records, open_searcher
from geolookup.index.reader import IndexReader
from geolookup.model import Geolocation
from geolookup.state.current import Published

if TYPE_CHECKING:
    from types import ModuleType

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
        locid, country, region, city, postalcode, latitude, longitude, dmacode, areacode = self.reader.location(slot)
        place = Geolocation(
            locid=locid,
            country=country,
            region=region,
            city=city,
            postalcode=postalcode,
            latitude=latitude,
            longitude=longitude,
            dmacode=dmacode,
            areacode=areacode,
        )
        if isinstance(self._records, dict) and len(self._records) >= MAX_RECORDS:
            self._records.clear()  # cheaper than to keep an order of use; what is asked for again comes back
        self._records[slot] = place
        return place


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
