"""The records of a block of CSV (RFC 4180), found in whole arrays and not one by one.

It takes only what can be read in one way: where a reader of records would have to guess, `split` finds nothing, and
that reader decides. What it finds is the same as `csv.reader` of the standard library does: `tests/oracle` holds it
against that.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geolookup.columns.arrow_addresses import pc
from geolookup.columns.blocks import bytes_of, pieces

_I64 = NDArray[np.int64]
_LF, _CR, _QUOTE = 10, 13, 34


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The whole records at the beginning of a block: ``size`` bytes and ``lines`` lines of it.

    An item a record: ``begins`` and ``ends`` are where its text begins and ends, without the end of its line;
    ``follows`` is where the next one begins. ``values`` counts its values, 0 of an empty line. ``line`` is the line,
    from 0, on which it begins.
    """

    data: bytes
    size: int
    lines: int
    begins: _I64
    ends: _I64
    follows: _I64
    values: _I64
    line: Sequence[int]
    _delimiters: _I64
    _first: _I64
    _quotes: _I64

    def column(self, place: int, width: int) -> Any:
        """The values at a place, from 0, of the records that have ``width`` values; null of the others. Binary."""
        known = self.values == width
        begins, ends = self.begins.copy(), self.begins.copy()
        first = self._first[known]
        begins[known] = self._delimiters[first + place - 1] + 1 if place else self.begins[known]
        ends[known] = self._delimiters[first + place] if place < width - 1 else self.ends[known]
        if not len(self._quotes):
            return pieces(self.data, begins, ends, known)
        data = bytes_of(self.data)
        quoted = np.flatnonzero(ends > begins)
        quoted = quoted[data[begins[quoted]] == _QUOTE]
        begins[quoted] += 1
        ends[quoted] -= 1
        found = pieces(self.data, begins, ends, known)
        doubled = np.searchsorted(self._quotes, begins) != np.searchsorted(self._quotes, ends)
        return pc.replace_substring(found, b'""', b'"') if doubled.any() else found


def split(data: bytes, delimiter: str, *, ended: bool) -> Records | None:
    """The records of a block; None if not even one ends in it, or it cannot be read in one way.

    ``ended`` says that nothing follows the block: then its last line needs no end.
    """
    octets = bytes_of(data)
    newlines = np.flatnonzero(octets == _LF)
    quotes = np.flatnonzero(octets == _QUOTE) if b'"' in data else np.empty(0, np.int64)
    stops = _outside(newlines, quotes)
    size = int(stops[-1]) + 1 if len(stops) else 0
    if ended and size < len(data):
        if len(quotes) % 2 or data.endswith(b"\r"):
            return None
        size, stops = len(data), np.append(stops, len(data))
    if not size:
        return None
    quotes = quotes[quotes < size]
    delimiters = np.flatnonzero(octets[:size] == ord(delimiter))
    if not (_are_plain(octets, quotes, ord(delimiter), size) and _has_whole_ends(data, octets, quotes, size)):
        return None
    begins = np.append(0, stops[:-1] + 1)
    ends = stops - ((stops > begins) & (octets[stops - 1] == _CR) & (stops < len(data)))
    if int((ends - begins).max()) > csv.field_size_limit():  # for the reader to say of which value
        return None
    delimiters = _outside(delimiters, quotes)
    first = np.searchsorted(delimiters, begins)
    values = np.where(ends == begins, 0, np.searchsorted(delimiters, stops) - first + 1)
    newlines = newlines[newlines < size]
    lines = len(newlines) + (size == len(data) and octets[-1] != _LF)
    return Records(
        data=data,
        size=size,
        lines=int(lines),
        begins=begins,
        ends=ends,
        follows=np.minimum(stops + 1, size),
        values=values,
        line=range(len(begins)) if lines == len(begins) else np.searchsorted(newlines, begins).tolist(),
        _delimiters=delimiters,
        _first=first,
        _quotes=quotes,
    )


def _outside(places: _I64, quotes: _I64) -> _I64:
    """The places that are not between quotation marks."""
    return places[np.searchsorted(quotes, places) & 1 == 0] if len(quotes) else places


def _are_plain(octets: NDArray[np.uint8], quotes: _I64, delimiter: int, size: int) -> bool:
    """True if every quotation mark begins a value, ends one, or is doubled inside of one."""
    if not len(quotes):
        return True
    opening, closing = quotes[0::2], quotes[1::2]
    before = octets[np.maximum(opening - 1, 0)]
    may_open = (opening == 0) | (before == delimiter) | (before == _LF)
    may_open[1:] |= closing[: len(opening) - 1] == opening[1:] - 1
    after = octets[np.minimum(closing + 1, size - 1)]
    may_close = (closing == size - 1) | (after == delimiter) | (after == _LF) | (after == _CR) | (after == _QUOTE)
    return bool(may_open.all() and may_close.all())


def _has_whole_ends(data: bytes, octets: NDArray[np.uint8], quotes: _I64, size: int) -> bool:
    """True if each carriage return outside of quotation marks stands before a line feed."""
    if b"\r" not in data:
        return True
    returns = _outside(np.flatnonzero(octets[:size] == _CR), quotes)
    return not len(returns) or bool(returns[-1] < size - 1 and (octets[returns + 1] == _LF).all())
