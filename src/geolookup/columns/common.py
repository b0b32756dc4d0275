"""The part that all adapters share, without pyarrow: which GeoLookup answers, the fields, and the answers to SQL.

`Shortcuts` has the methods that the accessors of pandas and Polars have in common.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec

from geolookup.lookup import asked as asking
from geolookup.lookup.engine import GeoLookup
from geolookup.model.addresses import IPV4_MAX, to_text
from geolookup.model.errors import ColumnError, InvalidAddressError
from geolookup.model.types import FIELD_NAMES, FLAT_NAMES, Geolocation, Match
from geolookup.settings.load import load
from geolookup.sync import opening

#: The answer for a malformed address: null, or an error.
Errors: TypeAlias = Literal["null", "raise"]
#: Reads a text that is not an address: the address that it means, or None for none. It raises InvalidAddressError for
#: all other text.
Reread: TypeAlias = Callable[[str], str | None]
Column = TypeVar("Column")

#: Every field, in the order in which an address's object has them.
FIELDS: Final = FLAT_NAMES[1:]
#: The fields of an answer if none are asked for.
DEFAULT_FIELDS: Final = ("country", "region", "city")
#: The fields that have a function ``geo_FIELD`` in SQL; ``geo_json`` has all of an address's object.
FUNCTION_FIELDS: Final = ("locid", *FIELD_NAMES, "source")

#: One for each state directory, open until the process ends.
_open: dict[str, GeoLookup] = {}


def default_geo() -> GeoLookup:
    """The GeoLookup of the state directory that the settings name; opened at the first call, and never closed.

    :raises NoStateError: if nothing has been published there, and no setting asks for a fallback
    :raises SettingsError: if the settings cannot be used
    """
    chosen = load()
    home = chosen.state_home()
    geo = _open.get(home)
    if geo is None:
        # No lock: a fork might copy it while it is held. Two threads may both open it at first, without harm.
        geo = _open.setdefault(home, opening.open(home, settings=chosen))
    return geo


def checked_fields(asked: str | Iterable[str]) -> tuple[str, ...]:
    """The fields as asked for: names, or one text of names with commas between them.

    :raises ColumnError: if one is unknown or named twice, or none is given
    """
    return asking.checked_fields(asked, FIELDS)


def check_columns(present: Sequence[str], column: str, added: Sequence[str]) -> None:
    """Check that ``column`` is present exactly once, and that no column of ``added`` is present.

    :raises ColumnError: saying which
    """
    if list(present).count(column) != 1:
        wrong = "unknown column" if column not in present else "more than one column is named"
        raise ColumnError(f"{wrong} {column!r}: the columns are {', '.join(map(repr, present))}")
    taken = [name for name in added if name in present]
    if taken:
        raise ColumnError(f"a column {taken[0]!r} exists already: choose another prefix")


def place_of(geo: GeoLookup, value: Any) -> Geolocation | None:
    """The geolocation of a value of SQL; None for NULL, an uncovered address, and all other values."""
    text = _text(value)
    try:
        return None if text is None else geo.lookup(text)
    except InvalidAddressError:
        return None


def field_of(geo: GeoLookup, name: str, value: Any) -> Any:
    """One of `FUNCTION_FIELDS` for a value of SQL; None as for `place_of`."""
    if name != "source":
        place = place_of(geo, value)
        return None if place is None else getattr(place, name)
    match = _match_of(geo, value)
    return None if match is None else match.source


def json_of(geo: GeoLookup, value: Any) -> str | None:
    """The object that the command's NDJSON has for an address, as text; None as for `place_of`."""
    match = _match_of(geo, value)
    return None if match is None else msgspec.json.encode(match.flat()).decode("utf-8")


def _match_of(geo: GeoLookup, value: Any) -> Match | None:
    text = _text(value)
    try:
        return None if text is None else geo.match(text)
    except InvalidAddressError:
        return None


def _text(value: Any) -> str | None:
    if isinstance(value, int) and 0 <= value <= IPV4_MAX:
        return to_text(4, value)
    return value if isinstance(value, str) else None


class Shortcuts(ABC, Generic[Column]):
    """The fields that are asked for most, each by a method of its own; they answer with a ``Column``."""

    @abstractmethod
    def field(self, name: str, *, geo: GeoLookup | None = None, errors: Errors = "null") -> Column:
        """One field, by its name."""

    def country(self, *, geo: GeoLookup | None = None, errors: Errors = "null") -> Column:
        """The country code."""
        return self.field("country", geo=geo, errors=errors)

    def region(self, *, geo: GeoLookup | None = None, errors: Errors = "null") -> Column:
        """The region code."""
        return self.field("region", geo=geo, errors=errors)

    def city(self, *, geo: GeoLookup | None = None, errors: Errors = "null") -> Column:
        """The city's name."""
        return self.field("city", geo=geo, errors=errors)

    def locid(self, *, geo: GeoLookup | None = None, errors: Errors = "null") -> Column:
        """The geolocation's identifier: below zero custom, above zero default."""
        return self.field("locid", geo=geo, errors=errors)
