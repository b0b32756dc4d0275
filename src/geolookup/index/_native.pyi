"""What _native.c offers. Everything takes buffers as they are; nothing is copied, and all are held while in use."""

from collections.abc import Callable
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

def is_utf8(data: Buffer, /) -> bool:
    """Whether bytes are UTF-8, as strictly as Python decodes it."""

def view_type(names: tuple[str, ...], stands_for: type[_Place], /) -> type[_Place]:
    """A type whose objects look into `Places`, with these names for the locid and the fields of those, in their order.

    Each says that its class is ``stands_for``, which `isinstance` believes. `Places` alone makes them.
    """

@final
class Places(Generic[_Place]):
    """The places of one open index file by slot, each as a new object of the type ``view``, one of `view_type`.

    ``fields`` are sections (None for one that the file lacks), each with whether it has numbers of texts, not degrees.
    All are held for as long as one of the objects is. A slot that is not there, or has damaged texts, is a KeyError.

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
    ) -> Places[_Place]: ...
    def __getitem__(self, slot: int, /) -> _Place: ...
    def __len__(self) -> int: ...

@final
class Layer:
    """The search sections of one open index file, and its places, if single lookups shall be answered.

    ``sections`` are the bytes of v4.low, v4.slot, v4.slot_high, v4.table, v6.hi, v6.lo, v6.slot, v6.slot_high,
    v6.table and record.slot, None for one that a file may leave out.

    :raises ValueError: if the sections do not fit each other, or the places them
    """

    def __new__(
        cls, sections: tuple[Buffer | None, ...], locations: int, places: Places[Any] | None = None
    ) -> Layer: ...

@final
class Searcher:
    """Both layers, searched together, the overlay first. See `geolookup.index.native` for what the answers mean."""

    def __new__(cls, base: Layer, overlay: Layer) -> Searcher: ...
    def find(self, address: str, /) -> int: ...
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
    def locate_u64(self, values: Buffer, validity: Buffer | None, offset: int, length: int, out: Buffer) -> int: ...

@final
class Finder:
    """One address to its place in one call; ``slow`` answers whatever this cannot.

    That is: anything but strict text, damage, layers without places, no Searcher, and the first call at or
    after ``look_at`` (seconds of `time.monotonic`, whose coarse twin is asked: it may be late by some milliseconds).
    """

    look_at: float
    def __new__(cls, slow: Callable[[Any], Any]) -> Finder: ...
    def lookup(self, address: Any, /) -> Any: ...
    def use(self, searcher: Searcher | None, /) -> None: ...
