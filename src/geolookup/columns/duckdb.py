"""DuckDB: ``register(connection)``, then geo_country(ip) and its siblings in SQL, a vector of rows at a time."""

from collections.abc import Callable
from typing import Any

from geolookup.columns.arrow import locate_in_doubt
from geolookup.columns.arrow_addresses import pa
from geolookup.columns.arrow_rows import decoded, plain_type
from geolookup.columns.common import FIELDS, FUNCTIONS, PREFIX, Doubt, default_geo, json_of
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import MissingExtraError

try:
    import duckdb
except ImportError as error:
    raise MissingExtraError(f"this needs DuckDB: pip install 'geolookup[duckdb]' ({error})") from error

__all__ = ["register"]

_KINDS = {
    pa.string(): "VARCHAR",
    pa.float64(): "DOUBLE",
    pa.int64(): "BIGINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.bool_(): "BOOLEAN",
}


def register(connection: "duckdb.DuckDBPyConnection", geo: GeoLookup | None = None) -> None:
    """Give a connection geo_country(ip), geo_asn(ip), … one for each of `common.FIELDS`, and geo_json(ip).

    ``ip`` is text. The answer is NULL for NULL, for an address that no block covers, and for text that is not an
    address: one bad row does not end a query. A `ColumnWarning` asks once whether it is the right column if fewer than
    half of the values that came first are addresses. With ``geo`` None, the state directory of the settings answers.
    """
    geo = default_geo() if geo is None else geo
    doubt = Doubt(FUNCTIONS)
    for name in FIELDS:
        _add(connection, PREFIX + name, _field(geo, name, doubt), _KINDS[plain_type(name)])
    _add(connection, "geo_json", _json(geo, doubt), "VARCHAR")


def _add(connection: Any, name: str, function: Callable[[Any], Any], kind: str) -> None:
    # Special null handling: the default one expects exactly one answer for each row that is not null.
    connection.create_function(name, function, ["VARCHAR"], kind, type="arrow", null_handling="special")


def _field(geo: GeoLookup, name: str, doubt: Doubt) -> Callable[[Any], Any]:
    def answer(column: Any) -> Any:
        return decoded(locate_in_doubt(geo, _one(column), (name,), doubt).column(0))

    return answer


def _json(geo: GeoLookup, doubt: Doubt) -> Callable[[Any], Any]:
    def answer(column: Any) -> Any:
        return pa.array([json_of(geo, value, doubt) for value in column.to_pylist()], pa.string())

    return answer


def _one(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
