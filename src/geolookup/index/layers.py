"""Two layers as one: the custom layer answers first, then the default layer."""

from geolookup.index.reader import EMPTY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from geolookup.index.reader import IndexReader
    from geolookup.model.addresses import Family


def source_of(reader: "IndexReader", slot: int) -> str:
    """The name of the source that a slot's location comes from: ``custom`` in the custom layer.

    In a file that names none it is ``service``.

    :raises IndexDamagedError: if the slot does not exist, or it names no source
    """
    return "custom" if reader.layer == "custom" else reader.source(slot) or "service"


def segment_of_both(
    base: "IndexReader", overlay: "IndexReader", family: "Family", value: int
) -> "tuple[IndexReader, int, int, int] | None":
    """Which layer answers for an address, with which slot, and from where to where; None if neither covers it.

    The range is inclusive, and the largest in which every address has this answer from this layer.

    :raises IndexDamagedError: if the file is damaged there
    """
    slot, first, last = overlay.segment(family, value)
    if slot != EMPTY:
        return overlay, slot, first, last
    slot, base_first, base_last = base.segment(family, value)
    if slot == EMPTY:
        return None
    return base, slot, max(first, base_first), min(last, base_last)
