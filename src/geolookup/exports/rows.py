"""Ranges or networks with the fields of their answers: as CSV, which `sources` reads back, and as rows for Parquet."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from geolookup.base.text import shown_degrees
from geolookup.exports.answers import paired
from geolookup.exports.content import Content, LayerChoice, Places, Progress
from geolookup.exports.parts import Column
from geolookup.exports.segments import Segments
from geolookup.index.flatten import EMPTY, I64, U32, Flags
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
        places, told = content.places, content.networks
        # Each layer first has what rows show of it: of millions of ranges few are left then.
        shown = [name for name in fields if name not in NETWORK_FACTS]
        self.values, number = _distinct([_of_places(places, name) for name in shown], len(places))
        number[places.weak if wanted is None else places.weak | ~_fitting(places, wanted)] = EMPTY
        families = content.four.with_values(number), content.six.with_values(number)
        if told is not None:
            said = [name for name in fields if name in NETWORK_FACTS]
            facts, number = _distinct([_listed(told.facts[name]) for name in said], len(told))
            pairs = paired(families, (told.four.with_values(number), told.six.with_values(number)))
            # The last item of each stands for no place, and for no network.
            self.values.append(tuple("" if name in places.text else None for name in shown))
            facts.append((None,) * len(said))
            columns = dict(
                zip(
                    (*shown, *said), (*_columns(self.values, pairs.place), *_columns(facts, pairs.network)), strict=True
                )
            )
            self.values, number = _distinct([columns[name] for name in fields], len(pairs.place))
            has_row = pairs.network >= 0 if layer == "network" else (pairs.place >= 0) | (layer == "all")
            number[~has_row] = EMPTY
            families = pairs.four.with_values(number), pairs.six.with_values(number)
        self._families = ((4, families[0]), (6, families[1]))

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
    return shown_degrees(value) if isinstance(value, float) else value


def _fitting(places: Places, wanted: ListFilters) -> Flags:
    """Which places fit all filters, without regard to case."""
    fits = np.ones(len(places), np.bool_)
    for name, text in wanted.items():
        if text:
            folded = str(text).casefold()
            numbers = [number for number, each in enumerate(places.texts) if each.casefold() == folded]
            fits &= np.isin(places.text[name], numbers)
    return fits


def _distinct(columns: Sequence[list[Any]], count: int) -> tuple[list[tuple[Any, ...]], U32]:
    """The distinct rows of some columns, and the number among them of each of all ``count`` rows."""
    if not columns:
        return [()], np.zeros(count, np.uint32)
    known: dict[tuple[Any, ...], int] = {}
    rows = zip(*columns, strict=True)
    numbers = np.fromiter((known.setdefault(row, len(known)) for row in rows), np.uint32, count)
    return list(known), numbers


def _columns(rows: Sequence[tuple[Any, ...]], which: I64) -> Iterable[list[Any]]:
    """The columns of some of the rows, by their numbers."""
    numbers = which.tolist()
    return ([column[at] for at in numbers] for column in zip(*rows, strict=True))


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
