"""What _native.c offers. Everything takes buffers as they are; nothing is copied, and all are held while in use."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, final

from typing_extensions import Buffer

_Place = TypeVar("_Place")

#: How many rows of a column are searched for together.
GROUP: int

def parse(text: str, /) -> tuple[int, int, int] | None:
    """(family, upper 64 bits, lower 64 bits) of strict address text, or None."""

def parse_in(data: Buffer, begin: int, end: int, /) -> tuple[int, int, int] | None:
    """The same of the text from ``begin`` to ``end`` in a buffer, read as the text of a column is."""

def go_wide(wanted: bool, /) -> bool:
    """Whether columns use instructions that not all processors have: they do if they can, until this is called.

    It is for tests and benchmarks; returns whether they do now.
    """

def take(
    slots: Buffer,
    base_locations: int,
    overlay_locations: int,
    fields: tuple[tuple[Buffer, Buffer, Buffer, int], ...],
    validity: Buffer,
    /,
) -> tuple[int, int, int]:
    """Write the values that stand in slots; returns how many rows are not covered, malformed and absent.

    A field is the values of the base's locations and of the overlay's, where the value of each row goes, and the bytes
    of a value (1, 2, 4 or 8); a row without a location gets zeros. ``validity`` gets a bit a row, as Arrow has it.

    :raises ValueError: if buffers do not fit each other, or a slot is of no location; what was written is undefined
    """

def part(offsets: Buffer, octets: Buffer, number: int, /) -> Any:
    """The self-contained value of a MaxMind DB with a number, or None: then `mmdb.plain` says what is wrong.

    ``offsets`` says where in ``octets`` each begins.
    """

def tree(parts: Sequence[tuple[Buffer, Buffer, Buffer]], records: Buffer | None, /) -> int:
    """What `exports.mmdb.tree.laid` does; ``parts`` is a list.

    :raises ValueError: if the segments do not ascend, or their columns, or records, do not fit them
    """

def unread(offsets: Buffer, octets: Buffer, number: int, /) -> int:
    """The number of the first part from ``number`` on of which `part` is None; the number of all if there is none."""

def parts(
    columns: tuple[tuple[str, Buffer], ...], offsets: Buffer, octets: Buffer, record: int, /
) -> dict[str, Any] | None:
    """All parts of a record by their keys, or None if one is damaged.

    A column has a key, and the part's number by record; ``offsets`` says where in ``octets`` each part begins.
    """

def is_utf8(data: Buffer, /) -> bool:
    """Whether bytes are UTF-8, as strictly as Python decodes it."""

def view_type(names: tuple[str, ...], stands_for: type[_Place], /) -> type[_Place]:
    """A type whose objects look into `Places`, with these names for the locid and the fields of those, in their order.

    Each says that its class is ``stands_for``, which `isinstance` believes. `Places` alone makes them.
    """

def match_type(
    fields: tuple[str, ...],
    place_facts: tuple[str, ...],
    network_facts: tuple[str, ...],
    stands_for: type[_Place],
    /,
) -> type[_Place]:
    """A type whose objects stand for a match, as those of `view_type` for a place; `Finder.match` alone makes them.

    They have the members of a match that are of its range, and these names: for the locid and the fields in the order
    of `Places`, the facts of places and those of networks in the order of `Facts`.
    """

def network_type(facts: tuple[str, ...], stands_for: type[_Place], /) -> type[_Place]:
    """A type whose objects stand for a network, as those of `match_type` for a match; `Finder.network` makes them.

    They have the members of a network that are of its range, these names for the facts in the order of `Facts`, and
    for what Python makes: ``_records`` of their `Layer`, and ``_record``, the number of theirs.
    """

@final
class Facts:
    """Single facts of the records of one open index file, read where they stand; None for what nobody says.

    A fact is: the section with the numbers of its parts (None if no record has its key), the bytes of a number, the
    steps from the part to the fact (keys of maps, numbers of items), the largest number (0: true or false, -1: text);
    and, if it follows from a field where a record does not say it, the field's number among those of `Places` from 1,
    the facts by the field's text, and whether that is so in records that have the part too.

    :raises ValueError: if the sections do not fit each other
    """

    def __new__(
        cls,
        records: int,
        facts: tuple[tuple[Buffer | None, int, tuple[str | int, ...], int, int, Mapping[str, Any] | None, bool], ...],
        offsets: Buffer,
        parts: Buffer,
    ) -> Facts: ...

@final
class Places(Generic[_Place]):
    """The places of one open index file by slot, each as a new object of the type ``view``, one of `view_type`.

    ``fields`` are sections (None for one that the file lacks), each with whether it has numbers of texts, not degrees.
    ``pending`` and ``source`` are sections too; the latter numbers the names of ``sources``, of which there is one at
    least. All are held for as long as one of the objects is. A slot that is not there, has damaged texts or names no
    source is a KeyError.

    :raises ValueError: if the sections do not fit each other
    """

    def __new__(
        cls,
        view: type[_Place],
        count: int,
        locids: Buffer,
        fields: tuple[tuple[Buffer | None, bool], ...],
        offsets: Buffer,
        texts: Buffer,
        pending: Buffer | None = None,
        source: Buffer | None = None,
        sources: tuple[str, ...] = ("",),
    ) -> Places[_Place]: ...
    def __getitem__(self, slot: int, /) -> _Place: ...
    def __len__(self) -> int: ...

@final
class Layer:
    """The search sections of one open index file, and its places and facts, if single lookups shall be answered.

    ``sections`` are the bytes of v4.low, v4.slot, v4.slot_high, v4.table, v6.hi, v6.lo, v6.slot, v6.slot_high,
    v6.table and record.slot, None for one that a file may leave out. In the layer of networks ``network`` is the type
    of networks, one of `network_type`, and ``records`` what its objects read their untyped facts from.

    :raises ValueError: if the sections do not fit each other, or the places them
    """

    def __new__(
        cls,
        sections: tuple[Buffer | None, ...],
        locations: int,
        places: Places[Any] | None = None,
        facts: Facts | None = None,
        network: type[Any] | None = None,
        records: Any = None,
    ) -> Layer: ...

@final
class Searcher:
    """Both layers, searched together, the overlay first. See `geolookup.index.native` for what the answers mean.

    ``match`` is the type of matches, one of `match_type`; ``open_networks`` is called once the first fact of a network
    is asked for.
    """

    def __new__(
        cls,
        base: Layer,
        overlay: Layer,
        match: type[Any] | None = None,
        open_networks: Callable[[], Layer | None] | None = None,
    ) -> Searcher: ...
    def find(self, address: str, /) -> int: ...
    def range(self, address: str, /) -> tuple[str, str, int] | None:
        """The ends of the largest range around an address that has its slot, from the same layer; None without one.

        Then the length of the largest network in that range which holds the address.
        """

    def locate_strings(
        self,
        data: Buffer | None,
        offsets: Buffer,
        validity: Buffer | None,
        offset: int,
        length: int,
        out: Buffer,
        large: bool = False,
    ) -> int: ...
    def locate_views(
        self,
        views: Buffer,
        buffers: tuple[Buffer, ...],
        validity: Buffer | None,
        offset: int,
        length: int,
        out: Buffer,
    ) -> int: ...
    def locate_u32(self, values: Buffer, validity: Buffer | None, offset: int, length: int, out: Buffer) -> int: ...
    def locate_halves(self, values: Buffer, families: Buffer, out: Buffer) -> int: ...
    def locate_u64(self, values: Buffer, validity: Buffer | None, offset: int, length: int, out: Buffer) -> int: ...

@final
class Finder:
    """One address to its place, its match or its network, in one call; what is ``slow`` answers all that this cannot.

    That is: anything but strict text, damage, layers without places, no Searcher, and the first call at or
    after ``look_at`` (seconds of `time.monotonic`, whose coarse twin is asked: it may be late by some milliseconds).
    With ``vrf=NAME`` the one of ``in_vrfs`` that has this name answers, if there is one.
    """

    look_at: float
    def __new__(
        cls,
        slow: Callable[[Any], Any],
        slow_match: Callable[[Any], Any] | None = None,
        slow_network: Callable[[Any], Any] | None = None,
        in_vrfs: dict[str, Finder] = ...,
    ) -> Finder: ...
    def lookup(self, address: Any, /, *more: Any, **named: Any) -> Any: ...
    def match(self, address: Any, /, *more: Any, **named: Any) -> Any: ...
    def network(self, address: Any, /) -> Any: ...
    def use(self, searcher: Searcher | None, /) -> None: ...
