"""What a state says of an address, as the readers of MaxMind DBs ask for it: a record in parts, and its network."""

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from maxminddb import InvalidDatabaseError

from geolookup.compat.kinds import metadata_of
from geolookup.index.layout import EMPTY
from geolookup.index.mapped import failed
from geolookup.index.native import ABSENT, OVERLAY, accelerator, open_records
from geolookup.index.records import MOST_DECODED
from geolookup.lookup.record import TRAITS, made
from geolookup.lookup.snapshot import OpenLayer, Snapshot
from geolookup.model.addresses import IPV4_MAX, IPV6_MAX, held_in, holding, parse
from geolookup.model.errors import IndexDamagedError
from geolookup.model.public import use_of
from geolookup.state.base.parts import parts_of

if TYPE_CHECKING:
    from maxminddb.reader import Metadata

    from geolookup.index import _native
    from geolookup.lookup.network import Networks
    from geolookup.model.addresses import Family

#: What stands at an address (None: nothing), and the inclusive ends of a range in which it does.
Piece: TypeAlias = tuple[Any, int, int]
_T = TypeVar("_T")
_ENDS = {4: IPV4_MAX, 6: IPV6_MAX}
_BITS = {4: 32, 6: 128}
_COORDINATES = ("latitude", "longitude")
_NOTHING: Final[dict[str, Any]] = {}


class Layer:
    """One layer of places: its records."""

    __slots__ = ("_columns", "open", "reader", "records", "shared")

    def __init__(self, layer: OpenLayer) -> None:
        self.open = layer
        self.reader = layer.reader
        self.records = layer.reader.records()
        self._columns = tuple(self.records.columns.values())
        #: By the keys of parts: the number of each record's part, and what was made of parts that many records share.
        self.shared: dict[str, tuple[memoryview[int], dict[int, Any]]] = {
            key: (column, {}) for key, column in self.records.columns.items()
        }

    def made(self, record: int) -> dict[str, Any]:
        """The record of the fields of its place, if that is all that is known; else nothing."""
        for column in self._columns:
            if column[record]:
                return _NOTHING
        slot = self.reader.slot_of_record(record)
        return _NOTHING if slot == EMPTY else made(self.open.geolocation(slot), "city")

    def keep(self, key: str, number: int, shape: "Callable[[Any], _T]") -> "_T":
        """Make the result of ``shape`` of a part, for all records that have it; it is never to be changed.

        :raises IndexDamagedError: if the file is damaged there
        """
        kept = self.shared[key][1]
        if len(kept) >= MOST_DECODED:
            kept.clear()
        found = kept[number] = shape(self.records.own(number))
        return found


class Served:
    """One open snapshot of a state, as a database."""

    def __init__(self, home: str, snapshot: Snapshot) -> None:
        """Open the index of networks too, which retention may remove later.

        :raises StateDamagedError: if something of it is not what was published
        """
        self.snapshot = snapshot
        self.metadata: Metadata = metadata_of(home, snapshot)
        self.type: str = self.metadata.database_type
        self.networks: Networks | None = snapshot.networks()
        self.facts = None if self.networks is None else self.networks.reader.records()
        self._layers = [Layer(layer) for layer in (snapshot.custom, snapshot.base)][not snapshot.has_custom :]
        self._base = self._layers[-1]
        self.searcher = _searcher(snapshot)
        self._takes_v6 = self.metadata.ip_version == 6
        parts = parts_of(snapshot.current.published)
        #: The sources whose files have places, so that an address of which they say facts alone is in a file of places.
        self.with_places = frozenset(part.name for part in parts if part.has_places)
        #: True if records say who runs addresses and nothing else: as in files of networks, their facts are at the top.
        self.is_flat = not self.with_places and not snapshot.has_custom

    def quick(self, address: str) -> "tuple[Layer, int] | None":
        """What `place` says of an address as text, if the accelerator finds it; else None.

        :raises IndexDamagedError: if a file is damaged
        """
        searcher = self.searcher
        if searcher is None or not (self._takes_v6 or ":" not in address):
            return None
        number = searcher.find(address)
        if number < OVERLAY:
            return self._base, number
        return (self._layers[0], number ^ OVERLAY) if number < ABSENT else None

    def place(self, family: "Family", value: int) -> "tuple[Layer, int] | None":
        """The layer that answers for an address, and the number of its record there; None if nothing covers it."""
        for layer in self._layers:
            found = layer.reader.record(family, value)
            if found != EMPTY:
                return layer, found
        held = None if family == 4 else _held(value)
        return None if held is None else self.place(4, held)

    def network(self, family: "Family", value: int) -> int | None:
        """The number of the record of an address's network, or None."""
        if self.networks is None:
            return None
        found = self.networks.reader.record(family, value)
        if found != EMPTY:
            return found
        held = None if family == 4 else _held(value)
        return None if held is None else self.network(4, held)

    def _own_place(self, family: "Family", value: int) -> Piece:
        first, last = 0, _ENDS[family]
        for layer in self._layers:
            found, low, high = layer.reader.piece(family, value)
            first, last = max(first, low), min(last, high)
            if found != EMPTY:
                return (layer, found), first, last
        return None, first, last

    def _own_network(self, family: "Family", value: int) -> Piece:
        if self.networks is None:
            return None, 0, _ENDS[family]
        found, first, last = self.networks.reader.piece(family, value)
        return None if found == EMPTY else found, first, last

    def place_piece(self, family: "Family", value: int) -> Piece:
        """What `place` says, and the range in which it does."""
        if len(self._layers) == 1:  # as it is for most, and quicker
            layer = self._layers[0]
            found, first, last = layer.reader.piece(family, value)
            if found != EMPTY:
                return (layer, found), first, last
        return _with_aliases(self._own_place, family, value)

    def network_piece(self, family: "Family", value: int) -> Piece:
        """What `network` says, and the range in which it does."""
        return _with_aliases(self._own_network, family, value)

    def whole_piece(self, family: "Family", value: int) -> Piece:
        """Both, or None if both are, and the range that has both."""
        if self.networks is None:
            place, first, last = self.place_piece(family, value)
            return None if place is None else (place, None), first, last
        return _both(self.place_piece(family, value), self.network_piece(family, value))

    def walk(self) -> "Iterator[tuple[Family, int, int, Answer]]":
        """All ranges with a record, ascending, those of IPv4 first. IPv6 addresses that hold IPv4 ones come once."""
        families: tuple[Family, ...] = (4, 6)
        for family in families:
            reached = 0
            while reached <= _ENDS[family]:
                key, _, last = _both(self._own_place(family, reached), self._own_network(family, reached))
                if key is not None:
                    yield family, reached, last, Answer(self, key[0], key[1], (family, reached))
                reached = last + 1


def _searcher(snapshot: Snapshot) -> "_native.Searcher | None":
    """The accelerator's, for the numbers of the records of places, weak ones too."""
    module = accelerator()
    if module is None or snapshot.fast is None:
        return None
    return open_records(module, snapshot.base.reader, snapshot.custom.reader, weak=True)


def _both(place: Piece, network: Piece) -> Piece:
    key = None if place[0] is None and network[0] is None else (place[0], network[0])
    return key, max(place[1], network[1]), min(place[2], network[2])


def _held(value: int) -> int | None:
    """The IPv4 address by which an IPv6 one without a record is answered: of 6to4, or in ::/96, as in MaxMind DBs."""
    return held_in(value) if value >> 32 else value


def _with_aliases(own: "Callable[[Family, int], Piece]", family: "Family", value: int) -> Piece:
    key, first, last = own(family, value)
    held = None if family == 4 or key is not None else _held(value)
    if held is None:
        return key, first, last
    key, low, high = own(4, held)
    if value >> 32:
        low, high = holding(low, high)
    return key, max(first, low), min(last, high)


class Answer:
    """What one snapshot says of one address. The parts of its record are decoded when they are asked for."""

    __slots__ = ("_at", "_made", "_network", "place", "served")

    def __init__(
        self,
        served: Served,
        place: "tuple[Layer, int] | None",
        network: int | Literal[False] | None,
        at: "tuple[Family, int] | str",
    ) -> None:
        """``place`` and ``network`` are as in `Served`; False is a network not asked for yet.

        ``at`` is the address; if it is text, `Served.quick` has found the place.
        """
        self.served = served
        self.place = place
        self._network = network
        self._at = at
        self._made: dict[str, Any] | None = None

    @property
    def at(self) -> "tuple[Family, int]":
        """The address."""
        at = self._at
        return parse(at) if isinstance(at, str) else at

    @property
    def network(self) -> int | None:
        """The number of the record of the network, or None."""
        if self._network is False:
            self._network = self.served.network(*self.at)
        return self._network

    @property
    def has_place(self) -> bool:
        """True if a source of places has a record of the address, if only one of facts."""
        if self.place is not None:
            return True
        networks, with_places = self.served.networks, self.served.with_places
        if networks is None or self.network is None or not with_places:
            return False
        return not with_places.isdisjoint(networks.reader.said(self.network).values())

    def made(self) -> dict[str, Any]:
        """The record of the fields of the place, if no more is known; else nothing."""
        if self._made is None:
            self._made = _NOTHING if self.place is None else self.place[0].made(self.place[1])
        return self._made

    def part(self, key: str) -> Any:
        """A part of the place's record by its key, the caller's own; None if the record lacks it.

        In ``location`` what `coordinates` knows may be NaN.

        :raises InvalidDatabaseError: if the file is damaged there
        """
        try:
            if (place := self.place) is not None and (shared := place[0].shared.get(key)) is not None:
                number = shared[0][place[1]]
                if number:
                    return place[0].records.own(number)
            made = self._made
            if made is None:
                made = self.made()
            return None if made is _NOTHING else _own(made.get(key))
        except (IndexDamagedError, IndexError) as error:
            raise self._invalid(error) from error

    def shaped(self, key: str, shape: "Callable[[Any], _T]") -> "_T | None":
        """The result of ``shape``, always the same for a key, of a part of the place's record; None if that lacks it.

        It is never to be changed.

        :raises InvalidDatabaseError: if the file is damaged there
        """
        try:
            if (place := self.place) is not None and (shared := place[0].shared.get(key)) is not None:
                number = shared[0][place[1]]
                if number:
                    found: _T | None = shared[1].get(number)
                    return place[0].keep(key, number, shape) if found is None else found
            made = self._made
            if made is None:
                made = self.made()
            return None if made is _NOTHING or key not in made else shape(made[key])
        except (IndexDamagedError, IndexError) as error:
            raise self._invalid(error) from error

    def _invalid(self, error: Exception) -> InvalidDatabaseError:
        if self.place is not None and isinstance(error, IndexError):
            error = failed(self.place[0].reader.path, error)
        return InvalidDatabaseError(str(error))

    def coordinates(self, latitude: float | None, longitude: float | None) -> tuple[float | None, float | None]:
        """Both coordinates, by those in the location as it was decoded: NaN means that the columns have it.

        :raises InvalidDatabaseError: if the file is damaged there
        """
        if self.place is None or (latitude == latitude and longitude == longitude):
            return latitude, longitude
        layer, record = self.place
        try:
            place = layer.open.geolocation(layer.reader.slot_of_record(record))
        except IndexDamagedError as error:
            raise InvalidDatabaseError(str(error)) from error
        return (
            latitude if latitude == latitude else place.latitude,
            longitude if longitude == longitude else place.longitude,
        )

    def length(self) -> int:
        """The length of the largest network around the address in which all have the same record."""
        searcher, text = self.served.searcher, self._at
        if isinstance(text, str) and searcher is not None and self.served.networks is None:
            ends = searcher.range(text)
            if ends is not None:
                return ends[2]
        family, value = self.at
        found = self.served.whole_piece(family, value)
        if found[0] is None:
            return prefix_length(self.served.whole_piece, family, value)
        return _length_inside(family, value, *found[1:])[0]

    def facts(self, keys: Collection[str] | None = None) -> dict[str, Any]:
        """The facts of the network, or those of them with these ``keys``; their values are never to be changed.

        :raises InvalidDatabaseError: if the file is damaged there
        """
        records = self.served.facts
        if records is None or self.network is None:
            return {}
        try:
            found = {key: records.decoded(self.network, key) for key in records.keys if keys is None or key in keys}
        except IndexDamagedError as error:
            raise InvalidDatabaseError(str(error)) from error
        return {key: value for key, value in found.items() if value is not None}

    def whole(self) -> dict[str, Any] | None:
        """The whole record, the caller's own; None if nothing is known of the address.

        :raises InvalidDatabaseError: if the file is damaged there
        """
        try:
            records, number = self.served.facts, self.network
            facts = {} if records is None or number is None else records.whole(number)
            if self.served.is_flat:
                return None if number is None else facts
            if self.place is None:
                return None if number is None else {TRAITS: facts}
        except IndexDamagedError as error:
            raise InvalidDatabaseError(str(error)) from error
        found = self.parts()
        return {**found, TRAITS: facts} if facts else found

    def parts(self) -> dict[str, Any]:
        """The parts of the place's record, the caller's own, with their coordinates.

        :raises InvalidDatabaseError: if the file is damaged there
        """
        if self.place is None:
            return {}
        layer, record = self.place
        try:
            found = layer.records.whole(record) or _own(self.made())
        except IndexDamagedError as error:
            raise InvalidDatabaseError(str(error)) from error
        location = found.get("location")
        if isinstance(location, dict):
            latitude, longitude = location.get("latitude"), location.get("longitude")
            if latitude != latitude or longitude != longitude:
                degrees = zip(_COORDINATES, self.coordinates(latitude, longitude), strict=True)
                location.update({name: value for name, value in degrees if name in location})
        return found


def _own(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _own(each) for key, each in value.items()}
    return list(map(_own, value)) if isinstance(value, list | tuple) else value


def prefix_length(piece: "Callable[[Family, int], Piece]", family: "Family", value: int) -> int:
    """The length of the largest network around an address in which all addresses have what it has.

    ``piece`` says what an address has, and a range in which others have it too, if not always the largest. Where
    nothing is known, a network has public addresses or others, not both.
    """
    key, first, last = _of_one_use(piece, family, value)
    while True:
        length, beside = _length_inside(family, value, first, last)
        if not length:
            return 0
        found, low, high = _of_one_use(piece, family, beside)
        if found != key:
            return length
        first, last = min(first, low), max(last, high)


def _length_inside(family: "Family", value: int, first: int, last: int) -> tuple[int, int]:
    """The length of the largest network around an address inside a range, and the address that a larger one would have.

    The latter is -1 if there is no larger one.
    """
    # A network that holds the address and one beside the range has all bits in which the two differ.
    below = (value ^ (first - 1)).bit_length() if first else _BITS[family] + 1
    above = (value ^ (last + 1)).bit_length() if last < _ENDS[family] else _BITS[family] + 1
    length = _BITS[family] + 1 - min(below, above)
    return length, first - 1 if below < above else last + 1 if length else -1


def _of_one_use(piece: "Callable[[Family, int], Piece]", family: "Family", value: int) -> Piece:
    key, first, last = piece(family, value)
    if key is not None:
        return key, first, last
    is_public, low, high = use_of(family, value)
    return (None, is_public), max(first, low), min(last, high)
