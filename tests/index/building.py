"""What the tests of the index share: locations of little meaning, blocks that collide, files to damage."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from geolookup.index.builder import IndexBuilder
from geolookup.index.layout import COUNT_NAMES
from geolookup.index.reader import IndexReader
from geolookup.index.writer import IndexSummary, write_index
from tests.oracle.linear_scan import Block

V4_END = 2**32 - 1
V6_END = 2**128 - 1

#: Few addresses, so that edges meet: the ends of the space, and both sides of the edges that the format has inside.
ADDRESSES = {
    4: [0, 1, 2, 3, 4, 5, 6, 0xFFFE, 0xFFFF, 0x10000, 0x10001, 0x2FFFF, 0x30000, *range(V4_END - 4, V4_END + 1)],
    6: [
        *range(5),
        *(edge + step for edge in (2**64, 2**65, 2**112, 2**113 + 2**64) for step in (-2, -1, 0, 1)),
        *range(V6_END - 4, V6_END + 1),
    ],
}


def blocks(sign: int = 1, *, families: Sequence[int] = (4, 6), most: int = 12) -> st.SearchStrategy[list[Block]]:
    """Lists of blocks whose ends are few, so that they are nested, crossing, adjacent and identical all the time."""

    def of_family(family: Any) -> st.SearchStrategy[Block]:
        ends = st.sampled_from(ADDRESSES[family])
        return st.builds(
            lambda locid, one, other: Block(sign * locid, family, min(one, other), max(one, other)),
            st.integers(1, 5),
            ends,
            ends,
        )

    return st.lists(st.sampled_from(families).flatmap(of_family), max_size=most)


def around(family: int) -> list[int]:
    """Every address whose answer can differ from its neighbour's, and the neighbours."""
    end = V4_END if family == 4 else V6_END
    return sorted({near for edge in ADDRESSES[family] for near in (edge - 1, edge, edge + 1) if 0 <= near <= end})


def fields(locid: int) -> dict[str, Any]:
    """The eight fields of a location, told apart by its locid; some are empty and some are shared."""
    number = abs(locid)
    return {
        "country": ("", "US", "DE", "東京")[number % 4],
        "region": f"R{number % 3}",
        "city": f"Zürich {number}",
        "postalcode": "" if number % 2 else f"{number:05d}",
        "latitude": None if number % 3 == 0 else number / 8,
        "longitude": None if number % 3 == 0 else -number / 8,
        "dmacode": "",
        "areacode": f"R{number % 5}",
    }


def build(
    path: Path, content: Iterable[Block], *, locids: Iterable[int] = (), layer: Any = "default", **extra: str
) -> IndexSummary:
    """Write an index of these blocks, with a location for every locid that they or ``locids`` name."""
    content = list(content)
    builder = IndexBuilder(layer)
    slots = {}
    for locid in [*locids, *(block.locid for block in content)]:
        if locid not in slots:
            slots[locid] = builder.add_location(locid, *fields(locid).values())
    for block in content:
        builder.add_block(slots[block.locid], block.family, block.first, block.last)
    return builder.write(path, extra=extra)


def found(reader: IndexReader, family: int, address: int) -> int | None:
    """The locid that a reader finds, or None."""
    slot = reader.find4(address) if family == 4 else reader.find6(address)
    return None if slot == 0xFFFFFFFF else reader.location(slot)[0]


def rewritten(source: Path, target: Path, *, counts: dict[str, int] | None = None, **changes: Any) -> Path:
    """Write the sections of an index again, some of them changed, with checksums that fit.

    Names have ``__`` for the point; a change is an array, a function of the array, or None to leave the section out.
    """
    with IndexReader.open(source) as reader:
        sections = {name: array.copy() for name, array in reader.arrays().items()}
        old_counts = {name: reader.counts[name] for name in COUNT_NAMES}
        layer = reader.layer
    for name, change in changes.items():
        section = name.replace("__", ".")
        if change is None:
            del sections[section]
        elif callable(change):
            sections[section] = np.ascontiguousarray(change(sections[section]))
        else:
            sections[section] = change
    write_index(target, sections, layer=layer, counts={**old_counts, **(counts or {})})
    return target
