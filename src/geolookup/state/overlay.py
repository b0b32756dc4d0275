"""Compile the overlay: a generation's own custom geolocations, with the local edits laid over them."""

from collections.abc import Iterable
from typing import Any

from geolookup.index.builder import IndexBuilder
from geolookup.state import files
from geolookup.state.edits.layer import Laid
from geolookup.state.generations.recovery import MEMORY


def compile_overlay(
    path: str,
    layer: Iterable[Laid],
    *,
    generation: int,
    sequence: int,
    edits: int,
    memory: str,
    has_service: bool = True,
) -> dict[str, Any]:
    """Write the overlay of ``generation`` durably to the new file ``path``; its name is for the caller to sync.

    ``sequence``, ``edits`` and ``memory`` (see `recovery.memory_text`) are of the CURRENT that will name it: should
    CURRENT be lost, they are found here. Without a service in the stack nothing is pending. Returns the file's record
    for CURRENT.
    """
    builder = IndexBuilder("custom")
    builder.add_places([(laid.place, has_service and bool(laid.edits)) for laid in layer])
    with files.file_errors(path):
        extra = {"generation": str(generation), "sequence": str(sequence), "edits": str(edits), MEMORY: memory}
        summary = builder.write(path, extra=extra)
    return {
        "bytes": summary.bytes,
        "sha256": summary.sha256,
        "locations": summary.locations,
        "segments": summary.segments_v4 + summary.segments_v6,
    }
