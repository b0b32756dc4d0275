"""SQLite: geo_country(ip) and its siblings, for any connection; sqlite-utils and Datasette find them by themselves."""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pluggy import HookimplMarker

from geolookup.columns.common import FIELDS, FUNCTIONS, PREFIX, Doubt, default_geo, field_of, json_of
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import GeoLookupError

if TYPE_CHECKING:
    import sqlite3

_T = TypeVar("_T")
_ANY_ADDRESS = "192.0.2.1"
_log = logging.getLogger("geolookup")

#: The function of the whole answer, beside those of the fields.
_JSON = "json"

__all__ = ["prepare_connection", "register"]


def register(connection: "sqlite3.Connection", geo: GeoLookup | None = None) -> None:
    """Give a connection geo_country(ip), geo_asn(ip), … one for each of `common.FIELDS`, and geo_json(ip).

    ``ip`` is text, an integer that is an IPv4 address, or a blob of 4 or 16 bytes. The answer is NULL for NULL, for an
    address that no block covers, for a value that is not an address, and for what nobody says: one bad row does not end
    a query. True is 1, and false 0. With ``geo`` None, the state directory of the settings answers; it is opened at the
    first call. A `ColumnWarning` asks once whether it is the right column if fewer than half of the first 1,000 values
    are addresses. A second argument is the routing domain (VRF) of the address: geo_city(ip, vrf); NULL and empty text
    stand for that of ``geo``.

    SQLite says of every error in a function only that there was one. The reason is logged, and geo_problem() answers
    with it; with NULL while all is well.
    """
    source = _Source(geo)
    connection.create_function("geo_problem", 0, source.problem)
    for name in (*FIELDS, _JSON):
        # Not deterministic: else SQLite would let an index or a generated column keep answers that the next sync
        # changes.
        for count in (1, 2):  # with the name of a VRF
            connection.create_function(PREFIX + name, count, partial(_field, source, name))


@HookimplMarker("sqlite_utils")
@HookimplMarker("datasette")
def prepare_connection(conn: "sqlite3.Connection") -> None:
    """The hook of both: `register` with the settings' state directory."""
    register(conn)


class _Source:
    """The GeoLookup of a connection, opened at its first use."""

    def __init__(self, geo: GeoLookup | None) -> None:
        self._geo = geo
        self.doubt = Doubt(FUNCTIONS)

    def ask(self, question: Callable[[GeoLookup], _T]) -> _T:
        """The answer. An error is logged, since SQLite does not hand it on."""
        try:
            return question(self._opened())
        except GeoLookupError as error:
            _log.error("the SQL functions of geolookup cannot answer: %s", error)
            raise

    def problem(self) -> str | None:
        """Why the functions cannot answer, or None."""
        try:
            self._opened().lookup(_ANY_ADDRESS)
        except GeoLookupError as error:
            return str(error)
        return None

    def _opened(self) -> GeoLookup:
        if self._geo is None:
            self._geo = default_geo()
        return self._geo


def _field(source: _Source, name: str, value: Any, vrf: Any = None) -> Any:
    def answer(geo: GeoLookup) -> Any:
        within = geo.in_vrf(str(vrf)) if vrf not in (None, "") else geo
        return json_of(within, value, source.doubt) if name == _JSON else field_of(within, name, value, source.doubt)

    return source.ask(answer)
