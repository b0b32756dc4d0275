"""The objects of a column's addresses as JSON: what addresses of one record share is written once."""

from typing import Any, Final

from geolookup.columns.arrow import index_of
from geolookup.columns.arrow_index import Found
from geolookup.columns.common import Doubt, address_text, as_json, facts_of
from geolookup.columns.kernel import ABSENT, BAD, EMPTY
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.facts import NETWORK_FACTS, PLACE_FACTS
from geolookup.model.types import FLAT_NAMES, Match, flat_not_covered

#: Asked of an index, this finds the records of places and of networks.
_BOTH: Final = next(iter(PLACE_FACTS)), next(iter(NETWORK_FACTS))
_BEFORE: Final = FLAT_NAMES[1 : FLAT_NAMES.index("first")]
_BEHIND: Final = FLAT_NAMES[FLAT_NAMES.index("last") + 1 :]
#: Texts kept for the records of a snapshot: some 100 MB at the most.
_MOST_KEPT: Final = 1 << 18


class Objects:
    """`common.json_of` for columns, of what one ``geo`` serves at the time; ``doubt`` counts the values."""

    def __init__(self, geo: GeoLookup, doubt: Doubt) -> None:
        self._geo = geo
        self._doubt = doubt
        self._texts: _Texts | None = None

    def of(self, column: Any) -> list[str | None]:
        """One for each row of an Arrow array, as for `common.json_of`.

        :raises ColumnError: as for `arrow.locate`
        """

        def search(snapshot: Snapshot) -> tuple[Snapshot, Found]:
            return snapshot, index_of(self._geo, snapshot).search(column, _BOTH)

        while True:
            snapshot, found = self._geo.with_networks(search)
            texts = self._texts
            if texts is None or texts.snapshot is not snapshot:
                texts = self._texts = _Texts(self._geo, snapshot)
            objects = texts.of(found)
            if self._geo.with_snapshot(lambda served: served) is snapshot:  # else some may be of another
                break
        absent, bad = (int((found.anywhere == what).sum()) for what in (ABSENT, BAD))
        self._doubt.add(len(objects) - absent - bad, len(objects) - absent)
        self._doubt.warn()
        return objects


class _Texts:
    """The texts of the records of one snapshot."""

    def __init__(self, geo: GeoLookup, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._geo = geo
        #: By the number of a record: what stands before the range of a place and behind it, and the facts of a network.
        self._places: dict[int, tuple[str, str]] = {}
        self._networks: dict[int, str] = {}

    def of(self, found: Found) -> list[str | None]:
        assert found.records is not None
        places = found.records.tolist()
        networks = [EMPTY] * len(places) if found.networks is None else found.networks.tolist()
        return [
            None if place >= ABSENT and network >= ABSENT else self._object(address_text(value), place, network)
            for value, place, network in zip(found.column.to_pylist(), places, networks, strict=True)
        ]

    def _object(self, address: str, place: int, network: int) -> str:
        match = None if place >= ABSENT else self._geo.match(address)
        before, behind = self._places.get(place) or self._place(address, match, place)
        facts = "" if network >= ABSENT else self._networks.get(network)
        if facts is None:
            facts = self._network(address, network)
        if match is None:
            return f'{{"ip":"{address}",{before},"first":null,"last":null,{behind}{facts}}}'
        return f'{{"ip":"{address}",{before},"first":"{match.first}","last":"{match.last}",{behind}{facts}}}'

    def _place(self, address: str, match: Match | None, place: int) -> tuple[str, str]:
        flat = flat_not_covered(address) if match is None else match.flat()
        before, behind = {name: flat[name] for name in _BEFORE}, {name: flat[name] for name in _BEHIND}
        if len(self._places) >= _MOST_KEPT:
            self._places.clear()
        kept = self._places[place] = _members(before), _members(behind | facts_of(match, PLACE_FACTS))
        return kept

    def _network(self, address: str, network: int) -> str:
        facts = _members(facts_of(self._geo.network(address), NETWORK_FACTS))
        if len(self._networks) >= _MOST_KEPT:
            self._networks.clear()
        kept = self._networks[network] = facts and f",{facts}"
        return kept


def _members(found: dict[str, Any]) -> str:
    return as_json(found)[1:-1]
