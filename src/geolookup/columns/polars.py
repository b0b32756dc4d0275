"""Polars: ``import geolookup.columns.polars``, then ``pl.col("ip").geo.country()`` in any expression."""

from collections.abc import Callable, Iterable
from typing import Any

from geolookup.columns.arrow import locate_in_doubt
from geolookup.columns.arrow_addresses import pa
from geolookup.columns.arrow_rows import decoded, plain_type
from geolookup.columns.common import (
    DEFAULT_FIELDS,
    PREFIX,
    Doubt,
    Errors,
    Shortcuts,
    address_text,
    checked_fields,
    column_named,
)
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import MissingExtraError

try:
    import polars as pl
except ImportError as error:
    raise MissingExtraError(f"this needs Polars: pip install 'geolookup[polars]' ({error})") from error

__all__ = ["GeoNamespace", "geo"]

_STRUCT = "geo"


@pl.api.register_expr_namespace("geo")
class GeoNamespace(Shortcuts[pl.Expr]):
    """The geolocations of an expression's addresses.

    They are text (categorical too), address objects of ``ipaddress``, binary of 4 or 16 bytes, integers that are IPv4
    addresses, or Int128 and UInt128, which are IPv6 addresses from 2**32 on.

    Eager, lazy and streaming alike. Every method takes ``geo``, the GeoLookup that answers (if None, the one of the
    settings), and ``errors``: "null" for null if an address is malformed, "raise" for an error. If fewer than half of
    20 or more values are addresses, a `ColumnWarning` asks whether it is the right column. ``vrf`` is the routing
    domain (VRF) of the addresses: a name, or an expression of as many names; null and empty ones stand for that of
    ``geo``.

    The answers are named ``geo_country``, ``geo_asn``, …, or with another ``prefix``, and the struct of `locate`
    ``geo``, with plain names in it. Give another name as always: `alias`, or a keyword.
    """

    def __init__(self, expression: pl.Expr) -> None:
        self._expression = expression

    def locate(
        self,
        fields: str | Iterable[str] = DEFAULT_FIELDS,
        *,
        geo: GeoLookup | None = None,
        errors: Errors = "null",
        vrf: str | pl.Expr | None = None,
    ) -> pl.Expr:
        """A struct with one member for each field, with its plain name; null if no block covers the address.

        :raises ColumnError: for an unknown field
        """
        names = checked_fields(fields)
        doubts: dict[str, Doubt] = {}
        kind = pl.Struct({name: _KINDS[plain_type(name)] for name in names})

        def answer(series: Any, vrfs: Any) -> Any:
            batch = _located(geo, series, names, doubts, errors, vrfs)
            struct = pa.StructArray.from_arrays([decoded(column) for column in batch.columns], names=list(names))
            return pl.Series(series.name, pl.from_arrow(struct), dtype=kind)

        return self._mapped(answer, kind, vrf).alias(_STRUCT)

    def _mapped(self, answer: Callable[[Any, Any], Any], kind: Any, vrf: str | pl.Expr | None) -> pl.Expr:
        if not isinstance(vrf, pl.Expr):
            return self._expression.map_batches(lambda one: answer(one, vrf), return_dtype=kind, is_elementwise=True)
        both = [self._expression, vrf]
        return pl.map_batches(both, lambda two: answer(*two), return_dtype=kind, is_elementwise=True)

    def field(
        self,
        name: str,
        *,
        prefix: str = PREFIX,
        geo: GeoLookup | None = None,
        errors: Errors = "null",
        vrf: str | pl.Expr | None = None,
    ) -> pl.Expr:
        """One field of `common.FIELDS`: null if no block covers the address, or nobody says it.

        :raises ColumnError: for an unknown field
        """
        names = checked_fields([name])
        kind = _KINDS[plain_type(name)]
        doubts: dict[str, Doubt] = {}

        def answer(series: Any, vrfs: Any) -> Any:
            batch = _located(geo, series, names, doubts, errors, vrfs)
            return pl.Series(series.name, pl.from_arrow(decoded(batch.column(0))), dtype=kind)

        return self._mapped(answer, kind, vrf).alias(prefix + name)


def geo(column: str | pl.Expr) -> GeoNamespace:
    """``geo("ip").country()`` is ``pl.col("ip").geo.country()`` for type checkers, which know no namespaces."""
    return GeoNamespace(pl.col(column) if isinstance(column, str) else column)


_KINDS = {
    pa.string(): pl.String,
    pa.float64(): pl.Float64,
    pa.int64(): pl.Int64,
    pa.uint16(): pl.UInt16,
    pa.uint32(): pl.UInt32,
    pa.bool_(): pl.Boolean,
}


def _located(
    geo: GeoLookup | None, series: Any, names: tuple[str, ...], doubts: dict[str, Doubt], errors: Errors, vrfs: Any
) -> Any:
    # An expression of several columns is asked about each; one that streams, about each of its parts.
    doubt = doubts.setdefault(series.name, Doubt(column_named(series.name)))
    named = vrfs if vrfs is None or isinstance(vrfs, str) else vrfs.cast(pl.String).rechunk().to_arrow()
    return locate_in_doubt(geo, _addresses(series), names, doubt, errors=errors, vrf=named)


def _addresses(series: Any) -> Any:
    if series.dtype in (pl.Object, pl.Int128, pl.UInt128):  # which Arrow does not know
        return pa.array([None if value is None else address_text(value) for value in series.to_list()], pa.string())
    # The newest level hands out text as the string views that it is, without a copy.
    return series.rechunk().to_arrow(compat_level=pl.CompatLevel.newest())
