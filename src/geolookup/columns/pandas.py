"""pandas: ``import geolookup.columns.pandas``, then ``frame["ip"].geo.country()``."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from geolookup.columns.arrow import locate_in_doubt
from geolookup.columns.arrow_addresses import check_type, pa
from geolookup.columns.arrow_rows import decoded
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
from geolookup.model.addresses import IPV4_MAX
from geolookup.model.errors import ColumnError, MissingExtraError

try:
    import pandas as pd
except ImportError as error:
    raise MissingExtraError(f"this needs pandas: pip install 'geolookup[pandas]' ({error})") from error

__all__ = ["GeoAccessor"]


@pd.api.extensions.register_series_accessor("geo")
class GeoAccessor(Shortcuts[Any]):
    """The geolocations of a series of addresses.

    They are text (categorical too), address objects of ``ipaddress``, bytes of 4 or 16, or whole numbers: IPv4
    addresses, and as objects IPv6 from 2**32 on. Objects may be of several of these kinds.

    Results have the series' own index. Every method takes ``geo``, the GeoLookup that answers (if None, the one of the
    settings), and ``errors``: "null" for a missing value if an address is malformed, "raise" for an error. If fewer
    than half of 20 or more values are addresses, a `ColumnWarning` asks whether it is the right series. ``vrf`` is the
    routing domain (VRF) of the addresses: a name, or a series of as many names; missing and empty ones stand for
    that of ``geo``.
    """

    def __init__(self, series: Any) -> None:
        self._series = series
        self._doubt = Doubt(column_named(series.name))

    def locate(
        self,
        fields: str | Iterable[str] = DEFAULT_FIELDS,
        *,
        prefix: str = PREFIX,
        geo: GeoLookup | None = None,
        errors: Errors = "null",
        vrf: Any = None,
    ) -> Any:
        """A DataFrame with one column for each field, named ``prefix`` and the field; it joins the series' own.

        Values are missing if no block covers the address, or nobody says them. Numbers are UInt32 (``asn``), UInt16
        (``accuracy_radius``) and Int64 (``locid``), true and false boolean: types that can miss values.

        :raises ColumnError: for an unknown field, or a series that does not hold addresses
        """
        column = _addresses(self._series)
        named = vrf if vrf is None or isinstance(vrf, str) else pa.array(vrf, from_pandas=True)
        found = locate_in_doubt(geo, column, checked_fields(fields), self._doubt, errors=errors, vrf=named)
        table = {prefix + name: decoded(array) for name, array in zip(found.schema.names, _arrays(found), strict=True)}
        frame = pa.table(table).to_pandas(types_mapper=_KINDS.get)
        frame.index = self._series.index
        return frame

    def field(
        self,
        name: str,
        *,
        prefix: str = PREFIX,
        geo: GeoLookup | None = None,
        errors: Errors = "null",
        vrf: Any = None,
    ) -> Any:
        """One field of `common.FIELDS` as a series.

        :raises ColumnError: as for `locate`
        """
        return self.locate([name], prefix=prefix, geo=geo, errors=errors, vrf=vrf)[prefix + name]


#: Types of pandas that can miss values: numpy's would become floats, or objects.
_KINDS = {
    pa.int64(): pd.Int64Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}


def _addresses(series: Any) -> Any:
    try:
        column = pa.array(series, from_pandas=True)
        if series.dtype == object:
            check_type(column.type)
    except (ColumnError, pa.ArrowException, TypeError, ValueError, OverflowError):
        # Objects of several kinds, or of one that Arrow does not know: each by itself.
        return pa.array([None if _is_missing(value) else address_text(value) for value in series], pa.string())
    if isinstance(column, pa.Array) and pa.types.is_floating(column.type):
        # Integers with missing values become floats in pandas.
        values = column.to_numpy(zero_copy_only=False)
        is_whole = (values >= 0) & (values <= IPV4_MAX) & (values == np.floor(values))
        if is_whole.any() or np.isnan(values).all():
            return pa.array(np.where(is_whole, values, -1).astype(np.int64), mask=np.isnan(values))
    return column


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value)


def _arrays(found: Any) -> list[Any]:
    # A series of several Arrow chunks gives a table, any other a record batch.
    columns: list[Any] = found.columns
    return [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns]
