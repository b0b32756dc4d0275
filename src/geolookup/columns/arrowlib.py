"""pyarrow, or the error that says how to get it."""

from geolookup.errors import MissingExtraError

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as error:
    raise MissingExtraError(f"columns need pyarrow: pip install 'geolookup[arrow]' ({error})") from error

__all__ = ["pa", "pc"]
