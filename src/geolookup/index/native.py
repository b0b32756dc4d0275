"""The choice of reader: the accelerator if it was built and is not switched off, else only `reader`.

Columns are answered in slots, as unsigned 32-bit integers: a location's slot in the default layer; one in the custom
layer with `OVERLAY` set; `EMPTY` if no block of either covers the address; `BAD` for what is not an address; `ABSENT`
for a null.
"""

from typing import TYPE_CHECKING, Any, Final, Literal

from geolookup.index.accelerator import accelerator
from geolookup.model.fields import FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from typing_extensions import Buffer

    from geolookup.index import _native
    from geolookup.index.reader import IndexReader
    from geolookup.model.types import Geolocation, Match

__all__ = ["accelerator", "open_layer", "open_places", "open_records", "open_searcher"]

OVERLAY: Final = 0x80000000
BAD: Final = 0xFFFFFFFE
ABSENT: Final = 0xFFFFFFFD

_SECTIONS = (
    *("v4.low", "v4.slot", "v4.slot_high", "v4.table"),
    *("v6.hi", "v6.lo", "v6.slot", "v6.slot_high", "v6.table"),
    "record.slot",
)


def open_layer(
    module: "ModuleType",
    reader: "IndexReader",
    locations: int,
    places: "_native.Places[Geolocation] | None" = None,
    facts: "_native.Facts | None" = None,
    network: "type[Any] | None" = None,
    records: object = None,
    slot_of: "Literal[False] | Buffer | None" = False,
) -> "_native.Layer":
    """One open index file, whose segments have numbers below ``locations``; for the rest see ``_native.Layer``.

    ``slot_of`` says the slot of each record in place of the file, as unsigned 32-bit integers; None if records have
    the numbers of slots.
    """
    sections: list[Buffer | None] = [
        reader.section_bytes(name) if name in reader.header.sections else None for name in _SECTIONS
    ]
    if slot_of is not False:
        sections[-1] = slot_of
    layer: _native.Layer = module.Layer(tuple(sections), locations, places, facts, network, records)
    return layer


def open_searcher(
    module: "ModuleType",
    base: "IndexReader",
    overlay: "IndexReader",
    places: "tuple[_native.Places[Geolocation], _native.Places[Geolocation]] | None" = None,
    facts: "tuple[_native.Facts, _native.Facts] | None" = None,
    match: "type[Match] | None" = None,
    open_networks: "Callable[[], _native.Layer | None] | None" = None,
) -> "_native.Searcher":
    """A searcher of both layers, which also has ``places`` of each if it shall answer single lookups.

    Matches are objects of the type ``match``, one of ``match_type``, if that is given too, with the ``facts`` of both
    layers and of the one that ``open_networks`` gives. ``module`` is the one of `accelerator`. The files stay mapped
    for as long as the searcher is kept, even after `close`.
    """
    layers = [
        open_layer(module, reader, reader.location_count, its_places, its_facts)
        for reader, its_places, its_facts in zip(
            (base, overlay), places or (None, None), facts or (None, None), strict=True
        )
    ]
    searcher: _native.Searcher = module.Searcher(*layers, match, open_networks)
    return searcher


def open_records(
    module: "ModuleType", base: "IndexReader", overlay: "IndexReader | None" = None, *, weak: bool = False
) -> "_native.Searcher":
    """A searcher that answers with the numbers of records in place of slots.

    It passes over weak records like gaps, unless ``weak`` says that these are wanted too.

    Without ``overlay``, of a file of networks, it searches ``base`` alone.
    """
    readers = (base,) if overlay is None else (base, overlay)
    layers = [
        open_layer(module, reader, reader.record_count, slot_of=None if weak else _numbers(reader))
        for reader in readers
    ]
    if overlay is None:
        layers.append(open_layer(module, base, 0))  # without locations it is never searched
    searcher: _native.Searcher = module.Searcher(*layers)
    return searcher


def _numbers(reader: "IndexReader") -> "Buffer | None":
    """The number of each record itself, `EMPTY` of a weak one; None if records have the numbers of slots."""
    if "record.slot" not in reader.header.sections:
        return None
    from geolookup.index.segments import numbers_of_records  # late: single lookups need no numpy

    return numbers_of_records(reader).data


def open_places(
    module: "ModuleType", view: "type[Geolocation]", reader: "IndexReader"
) -> "_native.Places[Geolocation]":
    """The places of a layer, each as an object of the type ``view``: one of ``view_type``, of all fields in order."""
    has = reader.header.sections
    fields = [(f"loc.{field.name}", field.limit is None) for field in FIELDS]
    is_numbered = "loc.source" in has and reader.layer != "custom"
    places: _native.Places[Geolocation] = module.Places(
        view,
        reader.location_count,
        reader.section_bytes("loc.locid"),
        tuple((reader.section_bytes(name), is_text) for name, is_text in fields),
        reader.section_bytes("strings.offsets"),
        reader.section_bytes("strings.bytes"),
        reader.section_bytes("loc.pending") if "loc.pending" in has else None,
        reader.section_bytes("loc.source") if is_numbered else None,
        ("custom",) if reader.layer == "custom" else reader.sources if is_numbered else reader.sources or ("service",),
    )
    return places
