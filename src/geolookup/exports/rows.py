"""Ranges or networks with the fields of their answers: as CSV, which `sources` reads back, and as rows for Parquet."""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from geolookup.exports.answers import Answers, answers_of
from geolookup.exports.content import Content, LayerChoice, Places, Progress
from geolookup.exports.parts import Column
from geolookup.exports.segments import Segments
from geolookup.index.flatten import EMPTY, U32, Flags
from geolookup.model.addresses import cidrs, to_text
from geolookup.model.facts import FACT_NAMES, NETWORK_FACTS, PLACE_FACTS
from geolookup.model.fields import DEGREES, FIELD_NAMES
from geolookup.model.types import FLAT_NAMES, ListFilters

_ENDS = ("first", "last")
_NETWORK = "network"
#: The fields and typed facts that rows can have, in the order in which an address's object has them.
FIELDS: Final = (*(name for name in FLAT_NAMES if name not in ("ip", *_ENDS)), *FACT_NAMES)
#: Those of a place: what a source reads back.
DEFAULT_FIELDS: Final = FIELD_NAMES
_ROWS_AT_ONCE = 1 << 13


class Rows:
    """The rows of an export. Neighbouring ranges with the same values are one row.

    ``names`` are the columns; ``values`` has the values of each distinct answer, in the order of the fields. Without
    fields, all neighbours are one row. There are rows of what ``layer`` answers: of the ranges whose place is known,
    or in the layer ``network`` of those whose network is, in the layer ``all`` of both. If there is ``wanted``, only
    the places that fit these filters are written.
    """

    def __init__(
        self,
        content: Content,
        fields: tuple[str, ...],
        *,
        networks: bool,
        wanted: ListFilters | None = None,
        layer: LayerChoice = "both",
    ) -> None:
        self.networks = networks
        self.names = ((_NETWORK,) if networks else _ENDS) + fields
        answers = answers_of(content)
        is_strong = np.append(~content.places.weak, False)
        place = np.where(is_strong[answers.place], answers.place, -1)
        self.values, numbers = _distinct(content, answers._replace(place=place), fields)
        is_told = answers.network >= 0 if layer == "network" else place >= 0
        if layer == "all":
            is_told |= answers.network >= 0
        if wanted is not None:
            is_told &= np.append(_fitting(content.places, wanted), False)[place]
        numbers[~is_told] = EMPTY
        self._families = ((4, answers.four.with_values(numbers)), (6, answers.six.with_values(numbers)))

    def covered(self) -> int:
        """The number of ranges."""
        return sum(segments.covered() for _, segments in self._families)

    def any(self) -> bool:
        """True if there is a row."""
        return self.covered() > 0

    def chunks(self, progress: Progress) -> Iterator[list[tuple[Any, ...]]]:
        """Lists of rows, ascending: the text of both ends, or of a network, and the number of the answer."""
        total = self.covered()
        done = 0
        rows: list[tuple[Any, ...]] = []
        for version, segments in self._families:
            for found in self._rows(version, segments):
                rows += found
                done += 1
                if len(rows) >= _ROWS_AT_ONCE:
                    yield rows
                    rows = []
                    progress(done, total)
        if rows:
            yield rows

    def _rows(self, version: int, segments: Segments) -> Iterator[list[tuple[Any, ...]]]:
        family = 4 if version == 4 else 6
        for first, last, value in segments.ranges(version):
            if self.networks:
                yield [(f"{to_text(family, at)}/{length}", value) for at, length in cidrs(version, first, last)]
            else:
                yield [(to_text(family, first), to_text(family, last), value)]


def csv_parts(rows: Rows, progress: Progress) -> Iterator[bytes]:
    """The rows as CSV (RFC 4180, but for line ends of one character), in parts: a header, then some rows each."""
    yield _line(rows.names).encode("utf-8")
    tails = ["," + _line(map(_cell, values)) for values in rows.values]
    for chunk in rows.chunks(progress):
        if rows.networks:
            yield "".join([network + tails[value] for network, value in chunk]).encode("utf-8")
        else:
            yield "".join([f"{first},{last}{tails[value]}" for first, last, value in chunk]).encode("utf-8")


def _line(cells: Iterable[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def _fitting(places: Places, wanted: ListFilters) -> Flags:
    """Which places fit all filters, without regard to case."""
    fits = np.ones(len(places), np.bool_)
    for name, text in wanted.items():
        if text:
            folded = str(text).casefold()
            numbers = [number for number, each in enumerate(places.texts) if each.casefold() == folded]
            fits &= np.isin(places.text[name], numbers)
    return fits


def _distinct(content: Content, answers: Answers, fields: tuple[str, ...]) -> tuple[list[tuple[Any, ...]], U32]:
    if not fields:
        return [()], np.zeros(len(answers.place), np.uint32)
    known: dict[tuple[Any, ...], int] = {}
    rows = zip(*(_column(content, answers, name) for name in fields), strict=True)
    numbers = np.fromiter((known.setdefault(row, len(known)) for row in rows), np.uint32, len(answers.place))
    return list(known), numbers


def _column(content: Content, answers: Answers, name: str) -> list[Any]:
    """A field or fact of all answers; of what is not known there, it is what its kind has for that."""
    networks = content.networks
    if name in NETWORK_FACTS:
        found = None if networks is None else networks.facts.get(name)
        column, nothing, which = [] if found is None else _listed(found), None, answers.network
    else:
        column, nothing, which = _of_places(content.places, name), None, answers.place
        if name in content.places.text:
            nothing = ""
    column = [*column, nothing]  # its last item is that of no place, or no network
    return [column[at] for at in which.tolist()]


def _listed(column: Column) -> list[Any]:
    return [column.values[at] for at in column.which.tolist()]


def _of_places(places: Places, name: str) -> list[Any]:
    if name in PLACE_FACTS:
        return _listed(places.facts[name])
    if name in places.text:
        return places.column(name)
    if name in DEGREES:
        return [None if value != value else value for value in places.degrees[name].tolist()]
    if name == "locid":
        return [locid or None for locid in places.locid.tolist()]  # one that must not be told is 0
    if name == "pending":
        return list(places.pending.tolist())
    if name == "layer":
        return list(places.layers())
    return [places.sources[number] for number in places.source.tolist()]
