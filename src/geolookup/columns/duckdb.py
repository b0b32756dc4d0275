"""DuckDB: ``register(connection)``, then geo_country(ip) and its siblings in SQL, a vector of rows at a time."""

import contextlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from geolookup.columns.arrow import each_vrf, locate_in_doubt
from geolookup.columns.arrow_addresses import pa, pc
from geolookup.columns.arrow_rows import decoded, plain_type
from geolookup.columns.common import FIELDS, FUNCTIONS, PREFIX, Doubt, default_geo
from geolookup.columns.objects import Objects
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import ColumnError, MissingExtraError

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


#: The types of addresses. A function has one form for each, since DuckDB casts no number to text by itself.
_TEXT = "VARCHAR"
_OTHERS = ("BLOB", "UINTEGER", "BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT")


def register(connection: "duckdb.DuckDBPyConnection", geo: GeoLookup | None = None) -> None:
    """Give a connection geo_country(ip), geo_asn(ip), … one for each of `common.FIELDS`, and geo_json(ip).

    ``ip`` is text, a BLOB of 4 or 16 bytes, or a whole number: an IPv4 address, or, of type HUGEINT and UHUGEINT, an
    IPv6 address from 2**32 on. The answer is NULL for NULL, for an address that no block covers, for what is not an
    address, and for what nobody says: one bad row does not end a query. A `ColumnWarning` asks once whether it is the
    right column if fewer than half of the values that came first are addresses. With ``geo`` None, the state directory
    of the settings answers. A second call takes the place of the first. Cursors of the connection have the functions
    too, for as long as it is open. A second argument is the routing domain (VRF) of the address, as text: geo_city(ip,
    vrf); NULL and empty text stand for that of ``geo``, and one that is not there ends the query.

    :raises ColumnError: if the connection is inside a transaction, or another one to the same database has registered
        the functions
    """
    geo = default_geo() if geo is None else geo
    doubt = Doubt(FUNCTIONS)
    made = {PREFIX + name: (_field(geo, name, doubt), _KINDS[plain_type(name)]) for name in FIELDS}
    made["geo_json"] = _json(geo, doubt), "VARCHAR"
    for name in made:
        with contextlib.suppress(duckdb.InvalidInputException):  # it is not there yet
            connection.remove_function(name)
    try:
        for name, (function, kind) in made.items():
            _add(connection, name, function, _TEXT, kind)
        # Another connection to the same database adds forms to a function; this one would refuse a second.
        for form in _OTHERS:
            with connection.cursor() as cursor:
                for name, (function, kind) in made.items():
                    _add(cursor, name, function if form != "UHUGEINT" else _unsigned_form(function), form, kind)
        for form in (_TEXT, *_OTHERS):
            with connection.cursor() as cursor:
                for name, (function, kind) in made.items():
                    _add(cursor, name, _in_vrf(function, form), form, kind, _TEXT)
    except duckdb.CatalogException as error:
        raise ColumnError(
            "another connection to this database has registered them, and this one can call them"
        ) from error
    except duckdb.TransactionException as error:
        raise ColumnError(
            "this connection is inside a transaction: register the functions before or after it"
        ) from error


def _add(connection: Any, name: str, function: Callable[..., Any], form: str, kind: str, *more: str) -> None:
    # Special null handling: the default one expects exactly one answer for each row that is not null.
    connection.create_function(name, function, [form, *more], kind, type="arrow", null_handling="special")


def _unsigned_form(function: Any) -> Callable[[Any], Any]:
    """The same function for UHUGEINT, which comes as a decimal of 128 bits and may look as if it were below zero."""

    def answer(column: Any) -> Any:
        return function(_unsigned(_one(column)))

    # The database does not hold functions that a connection added which is closed. The first form it does hold.
    function.unsigned = answer
    return answer


def _unsigned(column: Any) -> Any:
    validity, data = column.buffers()
    given = np.frombuffer(memoryview(data), np.uint64, 2 * len(column), 2 * column.offset).reshape(-1, 2)
    wide = np.zeros((len(column), 4), np.uint64)
    wide[:, :2] = given
    whole = pa.Array.from_buffers(pa.decimal256(40, 0), len(column), [None, pa.py_buffer(wide)])
    return whole if validity is None else pc.if_else(column.is_valid(), whole, None)


def _field(geo: GeoLookup, name: str, doubt: Doubt) -> Callable[..., Any]:
    def located(column: Any, vrfs: Any = None) -> Any:
        return decoded(locate_in_doubt(geo, column, (name,), doubt, vrf=vrfs).column(0))

    return _of_addresses(located)


def _json(geo: GeoLookup, doubt: Doubt) -> Callable[..., Any]:
    @cache
    def objects(vrf: str) -> Objects:
        return Objects(geo.in_vrf(vrf) if vrf else geo, doubt)

    def located(column: Any, vrfs: Any = None) -> Any:
        if vrfs is None:
            return objects("").of(column)
        found = np.empty(len(column), object)
        for rows, part, within in each_vrf(objects, column, vrfs):
            found[rows] = within.of(part).to_pylist()
        return pa.array(found, pa.string())

    return _of_addresses(located)


def _of_addresses(located: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one column, of which DuckDB counts the arguments; `_in_vrf` finds the one of two in it."""

    def answer(column: Any) -> Any:
        return located(_one(column))

    answer.located = located  # type: ignore[attr-defined] # of a function of our own
    return answer


def _in_vrf(first: Any, form: str) -> Callable[[Any, Any], Any]:
    """The function with the name of a VRF beside the address."""

    def answer(column: Any, vrfs: Any) -> Any:
        column = _one(column)
        return first.located(_unsigned(column) if form == "UHUGEINT" else column, _one(vrfs))

    setattr(first, f"in_vrf_{form}", answer)  # as above: the first form is what the database holds
    return answer


def _one(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
