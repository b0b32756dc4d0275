"""The files that one CURRENT names, open for lookups: both layers, and the objects that answer for their places."""

from collections.abc import Iterator
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from geolookup.index.native import open_places, open_searcher
from geolookup.index.reader import EMPTY, IndexReader, segment_of_both, source_of, source_of_record
from geolookup.lookup.facts import Known, NetworkFacts, RecordFacts, open_facts
from geolookup.lookup.views import match_type, network_type, view_type
from geolookup.model.addresses import IPV4_MAX, IPV6_MAX, SIX_TO_FOUR, held_in, holding, parse, to_text
from geolookup.model.facts import PLACE_FACTS
from geolookup.model.types import Geolocation, Layer, Match, Segment, geolocation_of, with_facts
from geolookup.state.base.current import Published

if TYPE_CHECKING:
    from types import ModuleType

    from geolookup.index import _native
    from geolookup.lookup.network import Network, Networks
    from geolookup.lookup.record import Record
    from geolookup.model.addresses import Family

#: Geolocation objects kept ready by one reader without the accelerator: some 40 MiB if all are in use.
MAX_RECORDS = 1 << 17


class CachedPlaces(dict[int, Geolocation]):
    """Geolocations by slot, each made when it is first asked for and kept. They do not need the file once made."""

    def __init__(self, reader: IndexReader) -> None:
        super().__init__()
        self._reader = reader

    def __missing__(self, slot: int) -> Geolocation:
        place = geolocation_of(self._reader.location(slot))
        if len(self) >= MAX_RECORDS:
            self.clear()  # cheaper than an order of use; records that are needed again come back
        self[slot] = place
        return place


class OpenLayer:
    """One open index file with its geolocations: those made from it so far, or objects that look into it."""

    __slots__ = ("_facts", "_places", "reader")

    def __init__(self, reader: IndexReader, places: "_native.Places[Geolocation] | None" = None) -> None:
        self.reader = reader
        self._places: _native.Places[Geolocation] | CachedPlaces = CachedPlaces(reader) if places is None else places
        self._facts: RecordFacts | None = None

    def geolocation(self, slot: int) -> Geolocation:
        try:
            return self._places[slot]
        except KeyError:  # the accelerator has only those whose texts are sound: the reader says what is wrong
            return geolocation_of(self.reader.location(slot))

    @property
    def facts(self) -> RecordFacts:
        """The facts of its places."""
        if self._facts is None:
            self._facts = RecordFacts(self.reader, PLACE_FACTS)
        return self._facts


def match_in(
    base: OpenLayer,
    custom: OpenLayer,
    address: str,
    family: "Family",
    value: int,
    networks: NetworkFacts | None = None,
) -> Match | None:
    """The answer for an address and its range, or None; the match repeats ``address``."""
    found = segment_of_both(base.reader, custom.reader, family, value)
    if found is None:
        return None
    reader, slot, first, last = found
    layer = custom if reader is custom.reader else base
    ends = to_text(family, first), to_text(family, last)
    return _match(layer, slot, address, ends, networks, (family, value))


def _match(
    layer: OpenLayer,
    slot: int,
    address: str,
    ends: tuple[str, str],
    networks: NetworkFacts | None,
    at: "tuple[Family, int]",
) -> Match:
    """The answer of a slot; ``at`` is the address whose facts it has."""
    reader, place = layer.reader, layer.geolocation(slot)
    record = reader.record(*at)
    if at[0] == 6 and (record == EMPTY or reader.slot_of_record(record) == EMPTY):
        record = reader.record(4, held_in(at[1]) or 0)  # it is of 6to4, and no block of its own answers for it
    match = Match(
        address=address,
        geolocation=place,
        first=ends[0],
        last=ends[1],
        layer=reader.layer,
        pending=reader.pending(slot),
        source=source_of(reader, slot),
    )
    return with_facts(match, Known(layer.facts, record, place, networks, at))


def _network_text(networks: NetworkFacts, address: str) -> "Network | None":
    opened = networks.opened()
    return None if opened is None else opened.network(address, *parse(address))


def _match_text(base: OpenLayer, custom: OpenLayer, networks: NetworkFacts, address: str) -> Match | None:
    return match_in(base, custom, address, *parse(address), networks)


class Snapshot:
    """The files that one CURRENT named, open. Only its caches change, so a lookup keeps one and needs no lock."""

    __slots__ = ("_finder", "_is_in_use", "_networks", "base", "current", "custom", "fast", "has_custom", "stamp")

    def __init__(self, published: Published, stamp: tuple[int, ...] | None, module: "ModuleType | None") -> None:
        self.current = published.current
        #: The accelerator's searcher, or None: then only the pure reader works.
        self.fast: _native.Searcher | None = None
        self._finder: _native.Finder | None = None
        self._networks = NetworkFacts(published.network, published.current)
        base, custom = published.base, published.overlay
        if module is None:
            self.base, self.custom = OpenLayer(base), OpenLayer(custom)
        else:
            view = view_type(module)
            places = open_places(module, view, base), open_places(module, view, custom)
            facts = open_facts(module, base, PLACE_FACTS), open_facts(module, custom, PLACE_FACTS)
            # Not a method of this object, which holds the searcher: the two would hold each other for ever.
            networks = partial(self._networks.layer, module, network_type)
            self.fast = open_searcher(module, base, custom, places, facts, match_type(module), networks)
            self.base, self.custom = OpenLayer(base, places[0]), OpenLayer(custom, places[1])
            slow = partial(_match_text, self.base, self.custom, self._networks)
            self._finder = module.Finder(slow, slow, partial(_network_text, self._networks))
            self._finder.use(self.fast)
            self._finder.look_at = inf
        self.has_custom = published.overlay.location_count > 0
        self.stamp = stamp
        self._is_in_use = False

    def fingerprint(self, home: str) -> str:
        """The fingerprint of all its answers, kept in the state directory.

        :raises IndexDamagedError: if a file cannot be followed
        """
        from geolookup.state.generations.fingerprints import fingerprint_of  # late: a plain lookup needs none

        return fingerprint_of(home, self.current, (self.base.reader, self.custom.reader))

    def go_on(self) -> None:
        """Say that lookups go on: from the second time on, the kernel may read ahead in its files."""
        if self._is_in_use:
            self.base.reader.expect_many()
            self.custom.reader.expect_many()
        self._is_in_use = True

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
            if slot == EMPTY and (held := held_in(value)) is not None:
                return self.find(4, held)
        return None if slot == EMPTY else self.base.geolocation(slot)

    def answering(self, family: "Family", value: int) -> "tuple[Family, int]":
        """The address whose blocks answer for one: itself, or that which a 6to4 address without blocks holds."""
        held = None if family == 4 else held_in(value)
        layers = (self.custom, self.base)
        if held is None or any(layer.reader.find6(value) != EMPTY for layer in layers):
            return family, value
        return 4, held

    def match(self, address: str, family: "Family", value: int) -> Match | None:
        """The answer for an address and its range, or None."""
        return match_in(self.base, self.custom, address, family, value, self._networks)

    def match_text(self, address: str) -> Match | None:
        """The same for an address as text, in one call with the accelerator: what it says is read when asked for.

        :raises InvalidAddressError: if it is malformed
        """
        if self._finder is None:
            return self.match(address, *parse(address))
        found: Match | None = self._finder.match(address)
        return found

    def networks(self) -> "Networks | None":
        """The index of networks, opened when it is first asked for; None if no source says who runs addresses.

        :raises IndexDamagedError: if it is not what was published
        :raises StateDamagedError: if it is gone
        """
        return self._networks.opened()

    def networks_in(self, family: "Family", first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """What is known of networks in a range: see `Networks.pieces`."""
        networks = self.networks()
        return iter(()) if networks is None else networks.pieces(family, first, last)

    def network(self, address: str, family: "Family", value: int) -> "Network | None":
        """Who runs an address, or None; it repeats ``address``."""
        networks = self.networks()
        return None if networks is None else networks.network(address, family, value)

    def network_text(self, address: str) -> "Network | None":
        """The same for an address as text, as `match_text`.

        :raises InvalidAddressError: if it is malformed
        """
        if self._finder is None:
            return _network_text(self._networks, address)
        found: Network | None = self._finder.network(address)
        return found

    def record(self, family: "Family", value: int) -> "Record | None":
        """All that is known of an address, its place and its network, or None."""
        from geolookup.lookup.record import TRAITS, Record, record_of  # late: a plain lookup needs none

        networks = self.networks()
        facts = None if networks is None else networks.facts(family, value)
        its = self.place_record(family, value)
        found = None if its is None else record_of(*its)
        if facts is None:
            return found
        return Record.made({TRAITS: facts}) if found is None else found.with_traits(facts)

    def place_record(self, family: "Family", value: int) -> tuple[IndexReader, int] | None:
        """The file whose record says where an address is, and its number there, which may be weak; or None."""
        at = self.answering(family, value)
        for layer in (self.custom, self.base):
            number = layer.reader.record(*at)
            if number != EMPTY:
                return layer.reader, number
        return None

    def place_source(self, family: "Family", value: int) -> str | None:
        """The source of the record that says where an address is, which may be weak; None if none does."""
        found = self.place_record(family, value)
        return None if found is None else source_of_record(*found)

    def record_ends(self, family: "Family", value: int) -> tuple[int, int]:
        """The inclusive ends of the largest range around an address that has its record, from the same sources."""
        first, last = self._ends(family, value)
        networks = self.networks()
        if networks is not None:
            _, low, high = networks.piece(family, value)
            first, last = max(first, low), min(last, high)
        return first, last

    def _ends(self, family: "Family", value: int) -> tuple[int, int]:
        """The same of the record of the place alone."""
        first, last = 0, IPV4_MAX if family == 4 else IPV6_MAX
        held = self.answering(family, value) != (family, value)
        for layer in (self.custom, self.base):
            # Weak records of 6to4 addresses say nothing: those of the addresses in them do.
            number, low, high = (layer.reader.segment if held else layer.reader.piece)(family, value)
            first, last = max(first, low), min(last, high)
            if number != EMPTY:
                return first, last
        if held:
            low, high = holding(*self._ends(4, held_in(value) or 0))
            first, last = max(first, low), min(last, high)
        return first, last

    def matches(
        self, text: str, family: "Family", first: int, last: int, *, facts: bool = False
    ) -> Iterator[tuple[int, int, Match | None]]:
        """The answers for the addresses from ``first`` to ``last``: pieces with their ends, gaps with None.

        The pieces are cut to the range, and so are the ends of their matches, which repeat ``text``. With ``facts`` all
        that is known, of the network too, is the same in the whole of a piece, else the place.
        """
        alike = self._alike if facts else _whole
        reached = first
        for low, high, layer, slot in self._answers(family, first, last):
            if low > reached:
                for begin, end in alike(family, reached, low - 1):
                    yield begin, end, None
            for begin, end in alike(family, low, high):
                ends = to_text(family, begin), to_text(family, end)
                yield begin, end, _match(layer, slot, text, ends, self._networks, (family, begin))
            reached = high + 1
        if reached <= last:
            for begin, end in alike(family, reached, last):
                yield begin, end, None

    def _alike(self, family: "Family", first: int, last: int) -> Iterator[tuple[int, int]]:
        """The ranges among addresses with one place, or none, in each of which all that is known is the same."""
        reached = first
        while reached <= last:
            end = min(self.record_ends(family, reached)[1], last)
            yield reached, end
            reached = end + 1

    def segments(self, family: "Family", layer: Layer | None = None, start: int = 0) -> Iterator[Segment]:
        """Walk the covered ranges, ascending from ``start``: of one layer, or as both answer together."""
        if layer is not None:
            chosen = self.custom if layer == "custom" else self.base
            for first, last, slot in chosen.reader.segments(family, start, gaps=False):
                yield _segment(max(first, start), last, chosen, slot, layer)
            return
        for first, last, chosen, slot in self._walk(family, start):
            yield _segment(first, last, chosen, slot, chosen.reader.layer)

    def _answers(self, family: "Family", first: int, last: int) -> Iterator[tuple[int, int, OpenLayer, int]]:
        """`_walk` from ``first`` to ``last``, and 6to4 addresses that no block covers as they are answered."""
        reached = first
        for low, high, layer, slot in self._walk(family, first):
            if low > last:
                break
            if low > reached and family == 6:
                yield from self._of_held(reached, low - 1)
            yield low, min(high, last), layer, slot
            reached = high + 1
        if reached <= last and family == 6:
            yield from self._of_held(reached, last)

    def _of_held(self, first: int, last: int) -> Iterator[tuple[int, int, OpenLayer, int]]:
        """The ranges of 6to4 addresses among those from ``first`` to ``last``, as the IPv4 addresses in them answer."""
        first, last = max(first, SIX_TO_FOUR[0]), min(last, SIX_TO_FOUR[1])
        if first > last:
            return
        for held, held_last, layer, slot in self._walk(4, held_in(first) or 0):
            low, high = holding(held, held_last)
            if low > last:
                return
            yield max(low, first), min(high, last), layer, slot

    def _walk(self, family: "Family", start: int) -> Iterator[tuple[int, int, OpenLayer, int]]:
        """The ranges that are covered, as both layers answer together: (first, last, layer, slot)."""
        base = self.base.reader.segments(family, start, gaps=True)
        first, last, slot = next(base)
        for over_first, over_last, over_slot in self.custom.reader.segments(family, start, gaps=True):
            if over_slot != EMPTY:
                yield max(over_first, start), over_last, self.custom, over_slot
                continue
            while last < over_first:
                first, last, slot = next(base)
            while True:
                if slot != EMPTY:
                    yield max(first, over_first, start), min(last, over_last), self.base, slot
                if last >= over_last:
                    break
                first, last, slot = next(base)


def _whole(_family: "Family", first: int, last: int) -> Iterator[tuple[int, int]]:
    yield first, last


def _segment(first: int, last: int, source: OpenLayer, slot: int, layer: Layer) -> Segment:
    return Segment(
        first=first,
        last=last,
        geolocation=source.geolocation(slot),
        layer=layer,
        pending=source.reader.pending(slot),
    )
