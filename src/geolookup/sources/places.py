"""A table of distinct places in columns, at which the blocks of a source point."""

import math
import re
import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from geolookup.index.flatten import I64, U32, U64, Array, Flags
from geolookup.index.scratch import spread
from geolookup.model.countries import is_code, not_a_code
from geolookup.model.fields import DEGREES, FIELD_NAMES, FIELDS, TEXT_NAMES, Field
from geolookup.upstream.decode import MAX_TEXT

#: The fields by which a place covers addresses: one that has none of them names no more than coordinates.
COVERING = ("country", "region", "city", "postalcode")
_covering: Callable[[Sequence[Any]], tuple[str, ...]] = itemgetter(*map(FIELD_NAMES.index, COVERING))


class PlaceFields(NamedTuple):
    """The fields of a place: those of `fields.FIELDS` in their order. Coordinates are degrees or None."""

    country: str = ""
    region: str = ""
    city: str = ""
    postalcode: str = ""
    latitude: float | None = None
    longitude: float | None = None
    dmacode: str = ""
    areacode: str = ""

    def covers(self) -> bool:
        """True if a row with these fields says where its addresses are: it names one of `COVERING`."""
        return any(_covering(self))


_key = struct.Struct(f"<{len(TEXT_NAMES)}I{len(DEGREES)}d")
#: The same for many places.
_ROW = np.dtype([*((name, "<u4") for name in TEXT_NAMES), *((name, "<f8") for name in DEGREES)])
_KEY = np.dtype(f"V{_key.size}")
#: That of splitmix64: with it, zeros count.
_STEP = np.uint64(0x9E3779B97F4A7C15)
#: The texts of a place, and its degrees, from a tuple of all fields.
texts_of: Callable[[Sequence[Any]], tuple[str, ...]] = itemgetter(*map(FIELD_NAMES.index, TEXT_NAMES))
degrees_of: Callable[[Sequence[Any]], tuple[float | None, ...]] = itemgetter(*map(FIELD_NAMES.index, DEGREES))
_DECIMAL = re.compile(r"[+-]?[0-9]+\.[0-9]+", re.ASCII)
_ROWS_A_STEP = 1 << 12
_LARGEST_LOCID = (1 << 63) - 1


class Places:
    """Places by number, from 0 in the order in which they were added. Equal ones are one, unless they are numbered.

    In memory a place takes 4 bytes for each text and 8 for each coordinate, and each distinct text is there once.
    While places are added there is also an index of them, which `seal` drops.
    """

    def __init__(self, *, numbered: bool = False) -> None:
        """An empty table; in a ``numbered`` one each place has a locid of its own."""
        self._texts: dict[str, int] = {"": 0}
        self._by_number: list[str] = [""]
        self._texts_of = {name: array("I") for name in TEXT_NAMES}
        self._degrees_of = {name: array("d") for name in DEGREES}
        #: All of them in the order of the fields.
        self._columns = [(self._texts_of.get(name), self._degrees_of.get(name)) for name in FIELD_NAMES]
        self._count = 0
        self._index: dict[bytes | int, int] = {}
        #: The hashes of those that were added in columns, sorted, and their numbers.
        self._settled: U64 = np.empty(0, np.uint64)
        self._settled_numbers: U32 = np.empty(0, np.uint32)
        self._locids: array[int] | None = array("q") if numbered else None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> PlaceFields:
        if not 0 <= number < self._count:
            raise IndexError(number)
        values: list[str | float | None] = []
        for texts, degrees in self._columns:
            if texts is not None:
                values.append(self._by_number[texts[number]])
            elif degrees is not None:
                value = degrees[number]
                values.append(None if value != value else value)
        return PlaceFields._make(values)

    def rows(self, numbers: Sequence[int]) -> Iterator[PlaceFields]:
        """The places of these numbers: a column at a time, which is several times cheaper than one by one."""
        return map(PlaceFields._make, zip(*self.lists(numbers), strict=True))

    def lists(self, numbers: Sequence[int]) -> list[list[Any]]:
        """The values of these places, by field in their order."""
        columns: list[list[Any]] = []
        for texts, degrees in self._columns:
            if texts is not None:
                columns.append([self._by_number[texts[number]] for number in numbers])
            elif degrees is not None:
                found = [degrees[number] for number in numbers]
                columns.append([None if value != value else value for value in found])
        return columns

    def columns(self, numbers: Sequence[int] | Array) -> tuple[dict[str, U32], dict[str, Array]]:
        """By field, the numbers among `text` of the texts of places, and their degrees, NaN for an unknown one.

        There must be a place in the table.
        """
        chosen = np.asarray(numbers, np.int64)
        texts = {name: np.frombuffer(column, np.uint32)[chosen] for name, column in self._texts_of.items()}
        return texts, {name: np.frombuffer(column, np.float64)[chosen] for name, column in self._degrees_of.items()}

    def text(self, number: int) -> str:
        """A text by its number; there are `text_count`."""
        return self._by_number[number]

    def texts(self, begin: int, end: int) -> list[str]:
        """Texts by their numbers, from ``begin`` up to ``end``."""
        return self._by_number[begin:end]

    @property
    def text_count(self) -> int:
        """The number of distinct texts so far."""
        return len(self._by_number)

    def __iter__(self) -> Iterator[PlaceFields]:
        for begin in range(0, len(self), _ROWS_A_STEP):
            yield from self.rows(range(begin, min(begin + _ROWS_A_STEP, len(self))))

    @property
    def locids(self) -> Sequence[int] | None:
        """The own number of each place, or None if the source has none."""
        return self._locids

    def add(self, place: PlaceFields) -> int:
        """The number of a place that has no number of its own, added if it is new."""
        return self._number(self._key(place))

    def _number(self, key: bytes) -> int:
        number = self._index.get(key)
        if number is None and len(self._settled):
            at, there = self._found(_hashes(np.frombuffer(key, _ROW)))
            if there[0] and self._rows(self._settled_numbers[at]).tobytes() == key:
                return int(self._settled_numbers[at[0]])
        if number is None:
            number = self._index[key] = self._append(key)
        return number

    def text_numbers(self, texts: Iterable[str]) -> U32:
        """The numbers of texts, added if they are new, for `extend`."""
        return np.array([self._text_number(text) for text in texts], np.uint32)

    def extend(self, texts: Mapping[str, U32], degrees: Mapping[str, Array], count: int) -> U32:
        """`add` for so many places in columns: by field the numbers of texts, and degrees or NaN.

        Of a field that is not there nothing is known.
        """
        rows = np.zeros(count, _ROW)
        for name, column in texts.items():
            rows[name] = column
        for name in DEGREES:
            rows[name] = degrees[name] + 0.0 if name in degrees else math.nan
        self._settle()
        hashes, first, which = np.unique(_hashes(rows), return_index=True, return_inverse=True)
        at, there = self._found(hashes)
        numbers = np.empty(len(hashes), np.uint32)
        numbers[there] = self._settled_numbers[at[there]]
        new = np.flatnonzero(~there)
        new = new[np.argsort(first[new])]  # in the order in which they came
        numbers[new] = np.arange(self._count, self._count + len(new))
        columns: dict[str, array[Any]] = {**self._texts_of, **self._degrees_of}
        for name, values in columns.items():
            values.frombytes(rows[name][first[new]].tobytes())
        self._count += len(new)
        self._insert(hashes[~there], numbers[~there], at[~there])
        found = numbers[which.reshape(-1)]
        # What has the hash of another place is found as if it came alone.
        for row in np.flatnonzero(self._rows(found).view(_KEY) != rows.view(_KEY)).tolist():
            found[row] = self._number(rows[row].tobytes())
        return found

    def _rows(self, numbers: U32) -> Array:
        """Places as rows."""
        rows = np.empty(len(numbers), _ROW)
        for column in self.columns(numbers):
            for name, values in column.items():
                rows[name] = values
        return rows

    def _found(self, hashes: U64) -> tuple[I64, Flags]:
        """Where hashes are or belong among those that are settled, and which of them are there."""
        at = np.searchsorted(self._settled, hashes)
        there = np.zeros(len(hashes), np.bool_)
        inside = at < len(self._settled)
        there[inside] = self._settled[at[inside]] == hashes[inside]
        return at, there

    def _insert(self, hashes: U64, numbers: U32, at: I64) -> None:
        self._settled = np.insert(self._settled, at, hashes)
        self._settled_numbers = np.insert(self._settled_numbers, at, numbers)

    def _settle(self) -> None:
        """Find by their hashes from now on what was added one by one, which takes the least memory."""
        if self._index:
            numbers = np.fromiter(self._index.values(), np.uint32, len(self._index))
            hashes, first = np.unique(_hashes(self._rows(numbers)), return_index=True)
            at, there = self._found(hashes)
            numbers = numbers[first[~there]]
            self._insert(hashes[~there], numbers, at[~there])
            settled = {*numbers.tolist()}
            self._index = {key: number for key, number in self._index.items() if number not in settled}

    def add_numbered(self, locid: int, place: PlaceFields) -> int:
        """The number of a new place with a locid of its own.

        :raises ValueError: if the locid was added before, or cannot be one
        """
        assert self._locids is not None, "this table gives its own numbers"
        if locid in self._index:
            raise ValueError(f"locid {locid} comes twice")
        if not 0 < abs(locid) <= _LARGEST_LOCID:
            raise ValueError(f"locid {locid} is out of range")
        self._locids.append(locid)
        number = self._index[locid] = self._append(self._key(place))
        return number

    def find(self, locid: int) -> int | None:
        """The number of the place with this locid of its own, or None."""
        return self._index.get(locid)

    def seal(self) -> None:
        """Say that no more places come: frees what only adding needs."""
        self._index = {}
        self._settled, self._settled_numbers = np.empty(0, np.uint64), np.empty(0, np.uint32)
        self._texts = {}

    def _key(self, place: PlaceFields) -> bytes:
        known = map(self._text_number, texts_of(place))
        # Adding zero makes 0.0 of -0.0, which is equal to it and has other bytes.
        return _key.pack(*known, *[math.nan if value is None else value + 0.0 for value in degrees_of(place)])

    def _text_number(self, text: str) -> int:
        number = self._texts.get(text)
        if number is None:
            number = self._texts[text] = len(self._by_number)
            self._by_number.append(text)
        return number

    def _append(self, key: bytes) -> int:
        values = _key.unpack(key)
        columns: tuple[array[Any], ...] = (*self._texts_of.values(), *self._degrees_of.values())
        for column, value in zip(columns, values, strict=True):
            column.append(value)
        self._count += 1
        return self._count - 1


def _hashes(rows: Array) -> U64:
    """For each row 64 bits, which another may have as well."""
    found = np.zeros(len(rows), np.uint64)
    for words in rows.view("<u4").reshape(-1, _key.size // 4).T:
        found = spread(found + words + _STEP)
    return found


class BadFieldError(Exception):
    """The reason why a value cannot be a field. It becomes a bad row, and never leaves this room."""


def text(value: str, name: str) -> str:
    """A text field.

    :raises BadFieldError: if it is too long
    """
    if len(value) > MAX_TEXT:
        raise BadFieldError(f"{name} has more than {MAX_TEXT} characters")
    return value


def country(value: str) -> str:
    """The country in capitals, the form of all answers.

    :raises BadFieldError: if it is not a code of two letters
    """
    if value and not is_code(value):
        raise BadFieldError(not_a_code(value))
    return value.upper()


def degrees(value: object, most: int, name: str) -> float | None:
    """A coordinate from a number or its text; None if there is none.

    :raises BadFieldError: if it is not a number, or not within ``most`` degrees
    """
    if value is None or value == "":
        return None
    if type(value) is float and -most <= value <= most:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise BadFieldError(f"{name} is not a number")
    try:
        if isinstance(value, str) and ("_" in value or not value.isascii()):
            raise ValueError
        number = float(value)
    except (ValueError, OverflowError):
        raise BadFieldError(f"{name} is not a number: {value!r:.40}{_with_a_point(value)}") from None
    if not -most <= number <= most:
        raise BadFieldError(f"{name} is not between -{most} and {most}")
    return number


def _with_a_point(value: object) -> str:
    """Advice against a decimal comma; "" if the text is not a number even with a point."""
    pointed = str(value).strip().replace(",", ".", 1)
    return f": write {pointed}" if pointed != value and _DECIMAL.fullmatch(pointed) else ""


def _reader(field: Field) -> Callable[[Any], Any]:
    if field.name == "country":
        return country
    if field.limit is None:
        return partial(text, name=field.name)
    return partial(degrees, most=field.limit, name=field.name)


#: For each field, in their order: its name, and what makes it of text.
_READERS = tuple((field.name, _reader(field)) for field in FIELDS)


def place_of(texts: Mapping[str, str]) -> PlaceFields:
    """A place from the texts of those fields that are known, by name.

    :raises BadFieldError: if a text is too long, or a coordinate is not a number
    """
    get = texts.get
    return PlaceFields._make([read(get(name, "")) for name, read in _READERS])
