"""SQLite's pages, turned so that equal rows are equal bytes, and turned back.

A row that came moves all later ones: each gets another number, and its place in its page changes. So two files that
differ in one row have hardly a page in common. Here the numbers of rows that follow each other become zeros, and the
list of where cells stand becomes the list of their sizes. Both can be taken back whatever the bytes are: a page that
looks otherwise, or is damaged, is left alone, or comes back all the same.
"""

from typing import Any

import numpy as np

PAGE_BYTES = 4096
_TABLE_LEAF = 13
_HEADER_BYTES = 8
_MOST_CELLS = (PAGE_BYTES - _HEADER_BYTES) // 2
#: A cell's size, the longest row number that is followed, and one byte more.
_CELL_HEAD = 8
_LONGEST_NUMBER = 5

Array = np.ndarray[Any, Any]


def turned(data: bytes) -> bytes:
    """Whole pages (and what is left after the last whole one) as they are compared."""
    return _each_leaf(data, lambda pages: _as_sizes(_without_numbers(pages)))


def restored(data: bytes) -> bytes:
    """What `turned` made, as it was."""
    return _each_leaf(data, lambda pages: _without_numbers(_as_places(pages)))


def _each_leaf(data: bytes, change: Any) -> bytes:
    whole = len(data) // PAGE_BYTES * PAGE_BYTES
    pages = np.frombuffer(bytearray(data[:whole]), np.uint8).reshape(-1, PAGE_BYTES)
    leaves = np.flatnonzero(pages[:, 0] == _TABLE_LEAF)
    if len(leaves):
        pages[leaves] = change(pages[leaves])
    return pages.tobytes() + data[whole:]


def _cells(pages: Array) -> tuple[Array, Array]:
    """How many cells each page has, and the numbers that stand in the lists of the page with the most."""
    count = np.minimum((pages[:, 3].astype(np.int64) << 8) | pages[:, 4], _MOST_CELLS)
    width = max(1, int(count.max()))
    listed = np.ascontiguousarray(pages[:, _HEADER_BYTES : _HEADER_BYTES + 2 * width]).view(">u2").astype(np.int64)
    return count, listed


def _with_list(pages: Array, count: Array, listed: Array, changed: Array) -> Array:
    width = listed.shape[1]
    kept = np.where(np.arange(width) < count[:, None], changed & 0xFFFF, listed)
    pages[:, _HEADER_BYTES : _HEADER_BYTES + 2 * width] = np.ascontiguousarray(kept.astype(">u2")).view(np.uint8)
    return pages


def _as_sizes(pages: Array) -> Array:
    """Cells are laid from a page's end to its middle, so one begins where the next ends."""
    count, listed = _cells(pages)
    changed = listed.copy()
    changed[:, 1:] = listed[:, :-1] - listed[:, 1:]
    return _with_list(pages, count, listed, changed)


def _as_places(pages: Array) -> Array:
    count, listed = _cells(pages)
    changed = listed.copy()
    changed[:, 1:] = listed[:, :1] - np.cumsum(listed[:, 1:], axis=1)
    return _with_list(pages, count, listed, changed)


def _without_numbers(pages: Array) -> Array:
    """Exclusive-or of the row numbers between a page's first and last with those that must stand there.

    It changes neither what it is computed from (the list, the first and the last row's number) nor how long a number
    is, so it takes back what it did.
    """
    count, listed = _cells(pages)
    rows = np.arange(len(pages))
    last_cell = np.maximum(count, 1) - 1
    inside = (listed >= _HEADER_BYTES) & (listed < PAGE_BYTES - _CELL_HEAD)
    known = (count > 2) & inside[rows, 0] & inside[rows, last_cell]
    flat = pages.reshape(-1)
    begins = np.where(known, listed[rows, 0], _HEADER_BYTES) + rows * PAGE_BYTES
    ends = np.where(known, listed[rows, last_cell], _HEADER_BYTES) + rows * PAGE_BYTES
    first, first_read = _row_numbers(flat, begins + 1)
    last, last_read = _row_numbers(flat, ends + 1)
    known &= first_read & last_read & (flat[begins] < 128) & (flat[ends] < 128) & (last - first == count - 1)
    cell = np.arange(listed.shape[1])
    page, number = np.nonzero(known[:, None] & inside & (cell > 0) & (cell < (count - 1)[:, None]))
    at = page * PAGE_BYTES + listed[page, number]
    expected = first[page] + number
    short = flat[at] < 128  # the cell's size takes one byte
    at, expected = at[short] + 1, expected[short]
    for size in range(1, _LONGEST_NUMBER + 1):
        least = 0 if size == 1 else 1 << (7 * (size - 1))
        chosen = (expected >= least) & (expected < 1 << (7 * size))
        where, value = at[chosen], expected[chosen]
        for digit in range(size):
            more = 128 if digit < size - 1 else 0
            flat[where + digit] ^= (((value >> (7 * (size - 1 - digit))) & 127) | more).astype(np.uint8)
    return flat.reshape(-1, PAGE_BYTES)


def _row_numbers(flat: Array, at: Array) -> tuple[Array, Array]:
    """The numbers that are written at these places as SQLite writes them, and whether each ends within reach."""
    value = np.zeros(len(at), np.int64)
    ended = np.zeros(len(at), np.bool_)
    for digit in range(_LONGEST_NUMBER):
        byte = flat[np.minimum(at + digit, len(flat) - 1)]
        value = np.where(ended, value, (value << 7) | (byte & 127))
        ended |= byte < 128
    return value, ended
