"""pandas: ``import geolookup.columns.pandas``, then ``frame["ip"].geo.country()``."""

from collections.abc import Iterable
from typing import Any

from geolookup.columns.arrow import locate_in_doubt
from geolookup.columns.arrow_addresses import pa
from geolookup.columns.arrow_rows import decoded
from geolookup.columns.common import DEFAULT_FIELDS, PREFIX, Doubt, Errors, Shortcuts, checked_fields, column_named
from geolookup.lookup.engine import GeoLookup
from geolookup.model.errors import ColumnError, MissingExtraError

try:
    import pandas as pd
except ImportError as error:
    raise MissingExtraError(f"this needs pandas: pip install 'geolookup[pandas]' ({error})") from error

__all__ = ["GeoAccessor"]


@pd.api.extensions.register_series_accessor("geo")
class GeoAccessor(Shortcuts[Any]):
    """The geolocations of a series of addresses: text (categorical too), or integers that are IPv4 addresses.

    Results have the series' own index. Every method takes ``geo``, the GeoLookup that answers (if None, the one of the
    settings), and ``errors``: "null" for a missing value if an address is malformed, "raise" for an error. If fewer
    than half of 20 or more values are addresses, a `ColumnWarning` asks whether it is the right series.
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
    ) -> Any:
        """A DataFrame with one column for each field, named ``prefix`` and the field; it joins the series' own.

        Values are missing if no block covers the address, or nobody says them. Numbers are UInt32 (``asn``), UInt16
        (``accuracy_radius``) and Int64 (``locid``), true and false boolean: types that can miss values.

        :raises ColumnError: for an unknown field, or a series that does not hold addresses
        """
        try:
            column = pa.array(self._series, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise ColumnError(f"the series {self._series.name!r} does not hold addresses as text") from error
        found = locate_in_doubt(geo, column, checked_fields(fields), self._doubt, errors=errors)
        table = {prefix + name: decoded(array) for name, array in zip(found.schema.names, _arrays(found), strict=True)}
        frame = pa.table(table).to_pandas(types_mapper=_KINDS.get)
        frame.index = self._series.index
        return frame

    def field(self, name: str, *, prefix: str = PREFIX, geo: GeoLookup | None = None, errors: Errors = "null") -> Any:
        """One field of `common.FIELDS` as a series.

        :raises ColumnError: as for `locate`
        """
        return self.locate([name], prefix=prefix, geo=geo, errors=errors)[prefix + name]


#: Types of pandas that can miss values: numpy's would become floats, or objects.
_KINDS = {
    pa.int64(): pd.Int64Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}


def _arrays(found: Any) -> list[Any]:
    # A series of several Arrow chunks gives a table, any other a record batch.
    columns: list[Any] = found.columns
    return [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns]
