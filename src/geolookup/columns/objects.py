"""The objects of a column's addresses as JSON: what addresses of one record share is written once."""

from collections.abc import Callable, Iterable
from itertools import repeat
from operator import attrgetter
from typing import Any, Final, TypeAlias

from geolookup.columns.arrow import index_of
from geolookup.columns.arrow_addresses import pa
from geolookup.columns.arrow_index import Found
from geolookup.columns.common import Doubt, address_text, as_json, facts_of
from geolookup.columns.kernel import ABSENT, BAD, EMPTY
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.addresses import is_address
from geolookup.model.facts import NETWORK_FACTS, PLACE_FACTS
from geolookup.model.types import FLAT_NAMES

#: What stands before the first address of a range, between it and the last one, and behind that.
_Pieces: TypeAlias = tuple[str, str, str]

#: Asked of an index, this finds the records of places and of networks.
_BOTH: Final = next(iter(PLACE_FACTS)), next(iter(NETWORK_FACTS))
_MEMBERS: Final = FLAT_NAMES[1:]
_FIRST: Final = _MEMBERS.index("first")
#: All members but the ends of the range, which addresses of one place do not share, and the facts.
_shared_of: Final = attrgetter(*_MEMBERS[:_FIRST], *_MEMBERS[_FIRST + 2 :], *PLACE_FACTS)
_WITHOUT_ENDS: Final = '"first":null,"last":null'
_NO_RANGE: Final = ("", "", 0)
#: Texts kept for the records of a snapshot: some 100 MB at the most.
_MOST_KEPT: Final = 1 << 18


class Objects:
    """`common.json_of` for columns, of what one ``geo`` serves at the time; ``doubt`` counts the values."""

    def __init__(self, geo: GeoLookup, doubt: Doubt) -> None:
        self._geo = geo
        self._doubt = doubt
        self._texts: _Texts | None = None

    def of(self, column: Any) -> Any:
        """The object of each row of an Arrow array, as an array of text: null where `common.json_of` has None.

        :raises ColumnError: as for `arrow.locate`
        """

        def work(snapshot: Snapshot) -> tuple[Found, Any]:
            found = index_of(self._geo, snapshot).search(column, _BOTH)
            texts = self._texts
            if texts is None or texts.snapshot is not snapshot:
                texts = self._texts = _Texts(snapshot)
            return found, texts.of(found)

        found, objects = self._geo.with_networks(work)
        absent, bad = (int((found.anywhere == what).sum()) for what in (ABSENT, BAD))
        self._doubt.add(len(objects) - absent - bad, len(objects) - absent)
        self._doubt.warn()
        return objects


class _Texts:
    """The texts of the records of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._range_of = _range_of(snapshot) if snapshot.fast is None else snapshot.fast.range
        #: By the number of a record: the pieces around the ends of a place's range, and the facts of a network.
        self._places: dict[int, _Pieces] = {}
        self._networks: dict[int, str] = {}

    def of(self, found: Found) -> Any:
        assert found.records is not None
        places, networks, values = found.records.tolist(), found.networks, found.column.to_pylist()
        facts: Iterable[int] = repeat(EMPTY) if networks is None else networks.tolist()
        pieces, known, range_of = self._places, self._networks, self._range_of
        objects: list[str | None] = []
        for value, place, network in zip(values, places, facts, strict=False):  # facts may go on for ever
            if place >= ABSENT and network >= ABSENT:
                objects.append(None)
                continue
            address = value if type(value) is str else address_text(value)
            before, between, behind = pieces.get(place) or self._place(address, place)
            first, last, _ = range_of(address) or _NO_RANGE
            more = "" if network >= ABSENT else known.get(network)
            if more is None:
                more = self._network(address, network)
            objects.append(f'{{"ip":"{address}{before}{first}{between}{last}{behind}{more}}}')
        return pa.array(objects, pa.string())

    def _place(self, address: str, place: int) -> _Pieces:
        if len(self._places) >= _MOST_KEPT:
            self._places.clear()
        kept = self._places[place] = self._pieces(address, place)
        return kept

    def _pieces(self, address: str, place: int) -> _Pieces:
        match = None if place >= ABSENT else self.snapshot.match_text(address)
        if match is None:
            return f'",{_members(dict.fromkeys(_MEMBERS))}', "", ""
        values = _shared_of(match)
        members = dict(zip(_MEMBERS, (*values[:_FIRST], None, None, *values[_FIRST:]), strict=False))
        facts = zip(PLACE_FACTS, values[len(_MEMBERS) - 2 :], strict=True)
        members.update([(name, value) for name, value in facts if value is not None])
        before, _, behind = _members(members).partition(_WITHOUT_ENDS)  # in a text its quotes would be written \"
        return f'",{before}"first":"', '","last":"', f'"{behind}'

    def _network(self, address: str, network: int) -> str:
        found = self._networks.get(network)
        if found is None:
            facts = _members(facts_of(self.snapshot.network_text(address), NETWORK_FACTS))
            if len(self._networks) >= _MOST_KEPT:
                self._networks.clear()
            found = self._networks[network] = facts and f",{facts}"
        return found


def _range_of(snapshot: Snapshot) -> Callable[[str], tuple[str, str, int] | None]:
    """What `_native.Searcher.range` is, without the accelerator, and without the length of the network."""

    def ends(address: str) -> tuple[str, str, int] | None:
        match = snapshot.match_text(address) if is_address(address) else None
        return None if match is None else (match.first, match.last, 0)

    return ends


def _members(found: dict[str, Any]) -> str:
    return as_json(found)[1:-1]
