"""The addresses of an Arrow array: which types hold them, and the slot of each row. Needs pyarrow."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from geolookup.columns.kernel import (
    ABSENT,
    OutsideError,
    SlotFinder,
    Slots,
    check_strings,
    check_views,
    string_ends,
    valid_rows,
    views_of,
)
from geolookup.model.addresses import IPV4_MAX
from geolookup.model.errors import ColumnError, GeoLookupError, MissingExtraError

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as error:
    raise MissingExtraError(f"columns need pyarrow: pip install 'geolookup[arrow]' ({error})") from error

__all__ = ["check_type", "is_dictionary", "is_packed", "is_text", "pa", "pc", "slots_of", "take"]

#: The 32 bits above the IPv4 address in an IPv4-mapped one.
_MAPPED = 0xFFFF


def slots_of(finder: SlotFinder, column: Any, before: int = 0) -> Slots:
    """The slot of each row of an Arrow array; see `SlotFinder` for what they mean.

    :raises ColumnError: if its type holds no addresses, or its buffers lead outside: naming the row, counted from 0
        after ``before`` rows
    """
    try:
        return _slots(finder, column)
    except OutsideError as error:
        raise ColumnError(f"row {before + error.row}: {error.reason}") from error
    except GeoLookupError:
        raise
    except ValueError as error:
        raise ColumnError("the buffers of the column do not fit its rows: the array is damaged") from error


def _slots(finder: SlotFinder, column: Any) -> Slots:
    kind = column.type
    length, offset = len(column), column.offset
    if not length or pa.types.is_null(kind):
        check_type(kind)
        return np.full(length, ABSENT, np.uint32)
    if is_dictionary(kind):
        return _dictionary_slots(finder, column)
    if pa.types.is_string_view(kind):
        validity, views, *buffers = column.buffers()
        if finder.accelerated:
            return finder.views(views, tuple(buffers), validity, offset, length)
        return _slots(finder, _without_views(column))
    if is_packed(kind):
        return _packed_slots(finder, column)
    if pa.types.is_decimal128(kind) or pa.types.is_decimal256(kind):
        check_type(kind)
        return _number_slots(finder, column)
    if is_text(kind):
        validity, offsets, data = column.buffers()
        large = pa.types.is_large_string(kind)
        return finder.strings(data, offsets, validity, offset, length, large=large)
    if pa.types.is_integer(kind):
        if kind not in (pa.uint32(), pa.uint64(), pa.int64()):
            return _slots(finder, column.cast(pa.int64()))
        validity, values = column.buffers()
        return finder.integers(values, validity, offset, length, bits=kind.bit_width)
    raise _no_addresses(kind)


def _packed_slots(finder: SlotFinder, column: Any) -> Slots:
    """Addresses of 4 or 16 bytes each, the first byte the uppermost."""
    if pa.types.is_fixed_size_binary(column.type):
        width, length = column.type.byte_width, len(column)
        validity, data = column.buffers()
        begins = (np.arange(length, dtype=np.int64) + column.offset) * width
        sizes = np.full(length, width, np.int64)
        valid = valid_rows(validity, column.offset, length)
        check_strings(data, np.append(begins, begins[-1:] + width), valid)
    else:
        if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
            column = _without_views(column)
        validity, offsets, data = column.buffers()
        ends = string_ends(offsets, column.offset, len(column), pa.types.is_large_binary(column.type)).astype(np.int64)
        valid = valid_rows(validity, column.offset, len(column))
        check_strings(data, ends, valid)
        begins, sizes = ends[:-1], np.diff(ends)
    text = np.frombuffer(memoryview(b"" if data is None else data), np.uint8)
    present = np.ones(len(column), np.bool_) if valid is None else valid
    values = np.zeros((len(column), 2), np.uint64)
    families = np.zeros(len(column), np.uint8)
    for size, family in ((4, 4), (16, 6)):
        rows = np.flatnonzero(present & (sizes == size))
        families[rows] = family
        own = np.zeros((len(rows), 16), np.uint8)
        own[:, 16 - size :] = text[begins[rows, None] + np.arange(size)]
        values[rows] = own.view(">u8")
    return _halves(finder, values, families, present)


def _number_slots(finder: SlotFinder, column: Any) -> Slots:
    """Whole numbers of 128 or 256 bits: those below 2**32 are IPv4 addresses, those below 2**128 IPv6."""
    words = column.type.bit_width // 64
    validity, data = column.buffers()
    parts = np.frombuffer(memoryview(data), np.uint64, words * len(column), column.offset * words * 8)
    parts = parts.reshape(len(column), words)
    valid = valid_rows(validity, column.offset, len(column))
    values = parts[:, 1::-1]
    # A decimal of 128 bits is negative if its first bit is set; one of 256 bits has more above an address.
    wrong = values[:, 0] >> np.uint64(63) != 0 if words == 2 else parts[:, 2:].any(axis=1)
    is_small = (values[:, 0] == 0) & (values[:, 1] <= IPV4_MAX)
    families = np.where(wrong, 0, np.where(is_small, 4, 6)).astype(np.uint8)
    return _halves(finder, values, families, np.ones(len(column), np.bool_) if valid is None else valid)


def _halves(
    finder: SlotFinder, values: NDArray[np.uint64], families: NDArray[np.uint8], present: NDArray[np.bool_]
) -> Slots:
    is_mapped = (families == 6) & (values[:, 0] == 0) & (values[:, 1] >> np.uint64(32) == _MAPPED)
    if is_mapped.any():
        values = values.copy()
        values[is_mapped, 1] &= np.uint64(IPV4_MAX)
        families = np.where(is_mapped, np.uint8(4), families)
    slots = finder.halves(values, families)
    slots[~present] = ABSENT
    return slots


def _dictionary_slots(finder: SlotFinder, column: Any) -> Slots:
    dictionary = column.dictionary
    check_type(dictionary.type)
    given, valid = _indexes(column)
    found = np.full(len(column), ABSENT, np.uint32)
    present: Any = slice(None) if valid is None else valid
    indexes = given[present].astype(np.int64)

    def refused(wrong: NDArray[np.bool_], reason: str) -> OutsideError:
        row = int(np.arange(len(column))[present][np.argmax(wrong)])
        return OutsideError(row, reason)

    outside = (indexes < 0) | (indexes >= len(dictionary))
    if outside.any():
        index = given[present][np.argmax(outside)]
        raise refused(outside, f"its index is {index}, and its dictionary has {len(dictionary)} values")
    try:
        # A slice of a column can bring the dictionary of the whole.
        is_longer = len(dictionary) > len(column)
        slots = _used_slots(finder, dictionary, indexes) if is_longer else _slots(finder, dictionary)[indexes]
    except OutsideError as error:
        wrong = indexes == error.row
        if wrong.any():
            raise refused(wrong, error.reason) from None
        slots = _used_slots(finder, dictionary, indexes)
    found[present] = slots
    return found


def _used_slots(finder: SlotFinder, dictionary: Any, indexes: NDArray[np.int64]) -> Slots:
    """The slots of these values of a dictionary, searched for once each."""
    used, indexes = np.unique(indexes, return_inverse=True)
    _check_texts(dictionary, used)  # pyarrow believes where they stand
    found: Slots = _slots(finder, take(dictionary, used))[indexes]
    return found


def take(array: Any, rows: NDArray[np.int64]) -> Any:
    """These rows of an array."""
    if _is_view(array.type):  # which pyarrow cannot pick from
        array = _without_views(array)
    return array.take(pa.array(rows, pa.int64()))


def _without_views(array: Any) -> Any:
    """Views of text or of bytes as such that follow each other.

    :raises OutsideError: if one that is not null leads outside
    """
    validity, views, *buffers = array.buffers()
    found, valid = views_of(views, array.offset, len(array)), valid_rows(validity, array.offset, len(array))
    check_views(found, tuple(buffers), valid)
    plain = pa.large_string() if pa.types.is_string_view(array.type) else pa.large_binary()
    if valid is None:
        return array.cast(plain)
    # The view of a null may lead anywhere, and pyarrow would go there.
    found = np.where(valid[:, None], found, np.int32(0))
    whole = pa.Array.from_buffers(array.type, len(array), [None, pa.py_buffer(found), *buffers])
    return pc.if_else(pa.array(valid), whole.cast(plain), None)


def _check_texts(array: Any, rows: NDArray[np.int64]) -> None:
    """Check that the text of these rows stands in the array's buffers.

    :raises OutsideError: at the first that does not
    """
    kind, offset, length = array.type, array.offset, len(array)
    if not is_text(kind) and (not is_packed(kind) or pa.types.is_fixed_size_binary(kind)):
        return
    validity, first, *rest = array.buffers()
    valid = valid_rows(validity, offset, length)
    if _is_view(kind):
        check_views(views_of(first, offset, length), tuple(rest), valid, rows)
    else:
        is_large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
        check_strings(rest[0], string_ends(first, offset, length, is_large), valid, rows)


def _indexes(column: Any) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """The indexes of a dictionary array as its buffers have them, and which rows are not null (None: all)."""
    validity, values = column.buffers()
    kind = np.dtype(column.type.index_type.to_pandas_dtype())
    offset, length = column.offset, len(column)
    indexes = np.frombuffer(memoryview(values), kind, length, offset * kind.itemsize)
    return indexes, valid_rows(validity, offset, length)


def is_dictionary(kind: Any) -> bool:
    """True if a type holds numbers of values in a dictionary."""
    return bool(pa.types.is_dictionary(kind))


def is_text(kind: Any) -> bool:
    """True if a type holds text as it is, and not in a dictionary."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_packed(kind: Any) -> bool:
    """True if a type holds addresses of 4 or 16 bytes."""
    types = pa.types
    if types.is_fixed_size_binary(kind):
        return kind.byte_width in (4, 16)
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind))


def _is_view(kind: Any) -> bool:
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.bit_width >= 128 and kind.scale == 0))


def check_type(kind: Any) -> None:
    """Check that a column of this type can hold addresses.

    :raises ColumnError: if it cannot
    """
    plain = kind.value_type if is_dictionary(kind) else kind
    if not (is_text(plain) or is_packed(plain) or _is_number(plain) or pa.types.is_null(plain)):
        raise _no_addresses(kind)


def _no_addresses(kind: Any) -> ColumnError:
    return ColumnError(
        f"a column of addresses holds text, binary of 4 or 16 bytes, or whole numbers, those of 128 bits IPv6 too, "
        f"not {kind}"
    )
