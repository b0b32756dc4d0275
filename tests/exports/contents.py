"""Content to write, made without a state: for properties that are about a format alone."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from geolookup.exports.content import Content, Places
from geolookup.exports.segments import Segments
from geolookup.index.layout import EMPTY
from geolookup.model.fields import DEGREES, TEXT_NAMES

FOUR, SIX = 0x08000000, 0x2400 << 112


def content_of(places: Iterable[Mapping[str, Any]], answers: list[int | None]) -> Content:
    """The place ``answers[n]`` has the ``n``-th address from `FOUR` and from `SIX` on."""
    rows = [{**dict.fromkeys(TEXT_NAMES, ""), **place} for place in places]
    texts: dict[str, int] = {}
    text = {name: np.array([texts.setdefault(row[name], len(texts)) for row in rows], np.int64) for name in TEXT_NAMES}
    degrees = {
        name: np.array([np.nan if row.get(name) is None else row[name] for row in rows], np.float64) for name in DEGREES
    }
    made = Places(
        locid=np.arange(1, len(rows) + 1, dtype=np.int64),
        weak=np.zeros(len(rows), np.bool_),
        text=text,
        texts=list(texts),
        degrees=degrees,
        pending=np.zeros(len(rows), np.bool_),
        source=np.zeros(len(rows), np.int64),
        sources=("test",),
    )
    return Content(
        four=_segments(FOUR, answers),
        six=_segments(SIX, answers),
        places=made,
        published=0,
        answering=("test",),
        origins=("test",),
        dated=None,
    )


def _segments(begin: int, answers: list[int | None]) -> Segments:
    starts = [0, *range(begin, begin + len(answers) + 1)]
    values = [EMPTY if value is None else value for value in (None, *answers, None)]
    return Segments(
        np.array([start >> 64 for start in starts], np.uint64),
        np.array([start & (1 << 64) - 1 for start in starts], np.uint64),
        np.array(values, np.uint32),
    ).merged()
