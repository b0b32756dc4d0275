"""The part that all adapters share, without pyarrow: which GeoLookup answers, the fields, and the answers to SQL.

`Shortcuts` has the methods that the accessors of pandas and Polars have in common, one for each field.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from numbers import Number
from typing import Any, Final, Generic, Literal, Protocol, Self, TypeAlias, TypeVar, overload

import msgspec

from geolookup.base.text import harmless
from geolookup.lookup import asked as asking
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.members import NAMES
from geolookup.lookup.network import Network
from geolookup.model.addresses import IPV4_MAX, IPV6_MAX, is_address, to_text
from geolookup.model.errors import ColumnError, InvalidAddressError
from geolookup.model.facts import NETWORK_FACTS, PLACE_FACTS
from geolookup.model.types import FIELD_NAMES, Geolocation, Match, flat_not_covered
from geolookup.settings.load import load
from geolookup.sync import opening

#: The answer for a malformed address: null, or an error.
Errors: TypeAlias = Literal["null", "raise"]
#: Reads a text that is not an address: the address that it means, or None for none. It raises InvalidAddressError for
#: all other text.
Reread: TypeAlias = Callable[[str], str | None]
Column = TypeVar("Column")
Column_co = TypeVar("Column_co", covariant=True)
_Answer = TypeVar("_Answer")

#: Every field, in the order of an answer's members: all but the address.
FIELDS: Final = NAMES[1:]
#: The fields of an answer if none are asked for.
DEFAULT_FIELDS: Final = ("country", "region", "city")
#: Before the names of columns that are added to a table, and of functions in SQL.
PREFIX: Final = "geo_"
_OF_PLACES: Final = frozenset(("locid", *FIELD_NAMES))
#: What `Doubt` calls the column that SQL functions answer: they do not hear its name.
FUNCTIONS: Final = "the column given to the geo_ functions"

#: A column is doubted if fewer than half of at least so many values are addresses; nulls are no values.
LEAST_VALUES: Final = 20
#: A stream is doubted once so many values of it were seen, or at its end; of other columns, so many are looked at.
ENOUGH_VALUES: Final = 1000

_encode: Final = msgspec.json.Encoder().encode

#: One for each state directory, open until the process ends.
_open: dict[str, GeoLookup] = {}


class ColumnWarning(UserWarning):
    """Few values of a column are addresses: is it the right one?"""


class Doubt:
    """Counts the values of a column, and asks once whether it is the right one if few of them are addresses.

    ``what`` names it in the question. ``others`` gives some values of the columns beside it, by name: it is asked only
    in doubt. ``means`` is true for text that is an address; `parse` decides if it is None.
    """

    def __init__(
        self,
        what: str,
        others: Callable[[], Mapping[str, Iterable[Any]]] = dict,
        means: Callable[[str], bool] | None = None,
    ) -> None:
        self._what = what
        self._others = others
        self._means = means or is_address
        self._addresses = self.values = 0
        self.asked: str | None = None

    def add(self, addresses: int, values: int) -> None:
        """Count more values, and how many of them are addresses."""
        self._addresses += addresses
        self.values += values

    def question(self, *, ended: bool = True) -> str | None:
        """The question; None if there is no doubt, or it was asked before. ``ended`` says that all values were seen."""
        if self.asked or self.values < (LEAST_VALUES if ended else ENOUGH_VALUES):
            return None
        if 2 * self._addresses >= self.values:
            return None
        all_of = "" if ended else "the first "
        share = f"{self._addresses:,} of {all_of}{self.values:,} values"
        self.asked = f"{share} of {self._what} are addresses: is it the right one?{self._likeliest()}"
        return self.asked

    def warn(self, *, ended: bool = True) -> None:
        """Ask by a `ColumnWarning`."""
        if asked := self.question(ended=ended):
            warnings.warn(asked, ColumnWarning, stacklevel=3)

    def _likeliest(self) -> str:
        best, most, of = "", 0, 0
        for name, values in self._others().items():
            texts = [value for value in values if value is not None][:ENOUGH_VALUES]
            good = sum(isinstance(text, str) and self._means(text) for text in texts)
            if good > most and 2 * good >= len(texts):
                best, most, of = name, good, len(texts)
        return f' Of column "{harmless(best, 60)}", {most:,} of {of:,} are.' if best else ""


def means(reread: Reread | None) -> Callable[[str], bool]:
    """True if a text is an address, or becomes one by ``reread``."""

    def is_meant(text: str) -> bool:
        if is_address(text):
            return True
        try:
            return reread is not None and reread(text) is not None
        except InvalidAddressError:
            return False

    return is_meant


def column_named(name: object) -> str:
    """A column in a question: with its name, if it has one."""
    return "the column" if name is None or name == "" else f'column "{harmless(str(name), 60)}"'


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


def place_of(geo: GeoLookup, value: Any, doubt: Doubt | None = None) -> Geolocation | None:
    """The geolocation of a value of SQL; None for NULL, an uncovered address, and all other values.

    ``doubt`` counts the value.
    """
    return _answer(geo.lookup, value, doubt)


def field_of(geo: GeoLookup, name: str, value: Any, doubt: Doubt | None = None) -> Any:
    """One of `FIELDS` for a value of SQL; None as for `place_of`, or if it is not known."""
    if name in _OF_PLACES:
        place = place_of(geo, value, doubt)
        return None if place is None else getattr(place, name)
    found = _answer(geo.network, value, doubt) if name in NETWORK_FACTS else _answer(geo.match, value, doubt)
    return None if found is None else getattr(found, name)


def json_of(geo: GeoLookup, value: Any, doubt: Doubt | None = None) -> str | None:
    """The object of an address, as text: from ``ip`` to ``source``, and the facts that a source says.

    None if neither its place nor its network is known, and as for `place_of`.
    """

    def ask(text: str) -> dict[str, Any] | None:
        match, network = geo.match(text), geo.network(text)
        if match is None and network is None:
            return None
        place = flat_not_covered(text) if match is None else match.flat()
        return place | facts_of(match, PLACE_FACTS) | facts_of(network, NETWORK_FACTS)

    found = _answer(ask, value, doubt)
    return None if found is None else as_json(found)


def facts_of(answer: Match | Network | None, names: Iterable[str]) -> dict[str, Any]:
    """Those facts of an answer of which a source says something."""
    found = {} if answer is None else {name: getattr(answer, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def as_json(found: Mapping[str, Any]) -> str:
    """An object as text."""
    return _encode(found).decode("utf-8")


def _answer(ask: Callable[[Any], _Answer | None], value: Any, doubt: Doubt | None) -> _Answer | None:
    text = _text(value)
    found, is_address = None, text is not None
    try:
        found = None if text is None else ask(text)
    except InvalidAddressError:
        is_address = False
    if doubt is not None and value is not None and doubt.values <= ENOUGH_VALUES:
        doubt.add(is_address, 1)
        doubt.warn(ended=False)
    return found


def _text(value: Any) -> str | None:
    """A value of SQL as text; None if it can be no address. SQLite's numbers have 64 bits."""
    is_packed = isinstance(value, bytes) and len(value) in (4, 16)
    is_number = isinstance(value, int) and value <= IPV4_MAX
    return address_text(value) if is_packed or is_number or isinstance(value, str) else None


def address_text(value: Any) -> str:
    """The text of any value of Python that may be an address; of one that is none, text that is none.

    Text is taken as it is, and so are address objects as they write themselves; bytes are addresses of 4 or 16 bytes;
    whole numbers, floats among them, are IPv4 addresses below 2**32, and IPv6 addresses above.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        return to_text(6 if len(data) == 16 else 4, int.from_bytes(data)) if len(data) in (4, 16) else repr(data[:40])
    if isinstance(value, Number) and not isinstance(value, bool):
        try:
            number = int(value)  # type: ignore[call-overload]  # numbers of other kinds refuse
        except (TypeError, ValueError, OverflowError):
            return str(value)
        if number == value and 0 <= number <= IPV6_MAX:
            return to_text(4 if number <= IPV4_MAX else 6, number)
    return str(value)


class Ask(Protocol[Column_co]):
    """The method of one field: `Shortcuts.field` without the name."""

    def __call__(
        self, *, prefix: str = PREFIX, geo: GeoLookup | None = None, errors: Errors = "null", vrf: Any = None
    ) -> Column_co: ...


class _Field:
    """The method that answers with the field of its own name."""

    def __set_name__(self, _owner: type[Any], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, its: None, _owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, its: "Shortcuts[Column]", _owner: type[Any]) -> Ask[Column]: ...
    def __get__(self, its: "Shortcuts[Column] | None", _owner: type[Any]) -> "Self | Ask[Column]":
        return self if its is None else partial(its.field, self._name)


class Shortcuts(ABC, Generic[Column]):
    """Each field by a method of its own: ``country()``, ``asn()``, ``is_anonymous_vpn()`` … for each of `FIELDS`.

    They take what `field` takes, and answer with a ``Column`` that is named ``prefix`` and the field.
    """

    @abstractmethod
    def field(
        self,
        name: str,
        *,
        prefix: str = PREFIX,
        geo: GeoLookup | None = None,
        errors: Errors = "null",
        vrf: Any = None,
    ) -> Column:
        """One field, by its name."""

    # One by one, so that type checkers know them.
    locid = _Field()
    country = _Field()
    region = _Field()
    city = _Field()
    postalcode = _Field()
    latitude = _Field()
    longitude = _Field()
    dmacode = _Field()
    areacode = _Field()
    first = _Field()
    last = _Field()
    layer = _Field()
    pending = _Field()
    source = _Field()
    network = _Field()
    country_name = _Field()
    continent_code = _Field()
    region_code = _Field()
    region_name = _Field()
    time_zone = _Field()
    accuracy_radius = _Field()
    is_in_european_union = _Field()
    asn = _Field()
    as_organization = _Field()
    isp = _Field()
    organization = _Field()
    domain = _Field()
    connection_type = _Field()
    user_type = _Field()
    is_anonymous = _Field()
    is_anonymous_vpn = _Field()
    is_hosting_provider = _Field()
    is_public_proxy = _Field()
    is_residential_proxy = _Field()
    is_tor_exit_node = _Field()
    is_anycast = _Field()
    site = _Field()
    vrf = _Field()
    cloud = _Field()
    cloud_region = _Field()
    cloud_service = _Field()
