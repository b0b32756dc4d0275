"""SQLite: geo_country(ip) and its siblings, for any connection; sqlite-utils and Datasette find them by themselves."""

from functools import partial
from typing import TYPE_CHECKING, Any

from pluggy import HookimplMarker

from geolookup.columns.default_geo import default_geo
from geolookup.columns.records import FUNCTION_FIELDS, field_of, json_of
from geolookup.lookup.engine import GeoLookup

if TYPE_CHECKING:
    import sqlite3

__all__ = ["prepare_connection", "register"]


def register(connection: "sqlite3.Connection", geo: GeoLookup | None = None) -> None:
    """Give a connection geo_country(ip), geo_city(ip), … one for each of `records.FUNCTION_FIELDS`, and geo_json(ip).

    ``ip`` is text, or an integer that is an IPv4 address. The answer is NULL for NULL, for an address that no block
    covers, and for a value that is not an address: one bad row does not end a query. With ``geo`` None, the state
    directory of the settings answers; it is opened at the first call.
    """
    source = _Source(geo)
    for name in FUNCTION_FIELDS:
        # Not deterministic: else SQLite would let an index or a generated column keep answers that the next sync
        # changes.
        connection.create_function(f"geo_{name}", 1, partial(_field, source, name))
    connection.create_function("geo_json", 1, lambda value: json_of(source.geo(), value))


@HookimplMarker("sqlite_utils")
@HookimplMarker("datasette")
def prepare_connection(conn: "sqlite3.Connection") -> None:
    """The hook of both: `register` with the settings' state directory."""
    register(conn)


class _Source:
    """The GeoLookup of a connection, opened at its first use."""

    def __init__(self, geo: GeoLookup | None) -> None:
        self._geo = geo

    def geo(self) -> GeoLookup:
        if self._geo is None:
            self._geo = default_geo()
        return self._geo


def _field(source: _Source, name: str, value: Any) -> Any:
    return field_of(source.geo(), name, value)
