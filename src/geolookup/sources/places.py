"""A table of distinct places in columns: what the blocks of a source point at."""

import math
import struct
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from geolookup.upstream.decode import MAX_TEXT


class PlaceFields(NamedTuple):
    """The eight fields of a place, in the order of `model.FIELD_NAMES`; coordinates are degrees or None."""

    country: str = ""
    region: str = ""
    city: str = ""
    postalcode: str = ""
    latitude: float | None = None
    longitude: float | None = None
    dmacode: str = ""
    areacode: str = ""

    def covers(self) -> bool:
        """Whether a row with these fields says where its addresses are: it names more than coordinates."""
        return bool(self.country or self.region or self.city or self.postalcode)


_pack_key = struct.Struct("<6I2d").pack
_LARGEST_LOCID = (1 << 63) - 1


class Places:
    """Places by number, from 0 in the order in which they were added. Equal ones are one, unless they are numbered.

    In memory a place takes 40 bytes, and each distinct text is there once. While places are added there is an index
    of some 150 bytes a place besides, which `seal` drops.
    """

    def __init__(self, *, numbered: bool = False) -> None:
        """An empty table; in a ``numbered`` one each place has a locid of its own."""
        self._texts: dict[str, int] = {"": 0}
        self._by_number: list[str] = [""]
        self._columns = [array("I") for _ in range(6)]
        self._latitude, self._longitude = array("d"), array("d")
        self._index: dict[bytes | int, int] = {}
        self._locids: array[int] | None = array("q") if numbered else None

    def __len__(self) -> int:
        return len(self._latitude)

    def __getitem__(self, number: int) -> PlaceFields:
        country, region, city, postalcode, dmacode, areacode = [
            self._by_number[column[number]] for column in self._columns
        ]
        north, east = self._latitude[number], self._longitude[number]
        return PlaceFields(
            country,
            region,
            city,
            postalcode,
            None if north != north else north,
            None if east != east else east,
            dmacode,
            areacode,
        )

    def __iter__(self) -> Iterator[PlaceFields]:
        return map(self.__getitem__, range(len(self)))

    @property
    def locids(self) -> Sequence[int] | None:
        """The own number of each place, or None if the source has none."""
        return self._locids

    def add(self, place: PlaceFields) -> int:
        """The number of a place that has no number of its own, added if it is new."""
        key = self._key(place)
        number = self._index.get(key)
        if number is None:
            number = self._index[key] = self._append(key)
        return number

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
        self._texts = {}

    def _key(self, place: PlaceFields) -> bytes:
        country, region, city, postalcode, latitude, longitude, dmacode, areacode = place
        texts, known = self._texts, []
        for text in (country, region, city, postalcode, dmacode, areacode):
            number = texts.get(text)
            if number is None:
                number = texts[text] = len(self._by_number)
                self._by_number.append(text)
            known.append(number)
        # Adding zero makes 0.0 of -0.0, which is equal to it and has other bytes.
        return _pack_key(
            *known,
            math.nan if latitude is None else latitude + 0.0,
            math.nan if longitude is None else longitude + 0.0,
        )

    def _append(self, key: bytes) -> int:
        *texts, latitude, longitude = struct.unpack("<6I2d", key)
        for column, text in zip(self._columns, texts, strict=True):
            column.append(text)
        self._latitude.append(latitude)
        self._longitude.append(longitude)
        return len(self._latitude) - 1


class BadFieldError(Exception):
    """Why a value cannot be a field. It becomes a bad row, and never leaves this room."""


def text(value: str, name: str) -> str:
    """A text field.

    :raises BadFieldError: if it is too long
    """
    if len(value) > MAX_TEXT:
        raise BadFieldError(f"{name} has more than {MAX_TEXT} characters")
    return value


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
        raise BadFieldError(f"{name} is not a number: {value!r:.40}") from None
    if not -most <= number <= most:
        raise BadFieldError(f"{name} is not between -{most} and {most}")
    return number


def latitude(value: object) -> float | None:
    """`degrees` north."""
    return degrees(value, 90, "latitude")


def longitude(value: object) -> float | None:
    """`degrees` east."""
    return degrees(value, 180, "longitude")
