"""Where is this IP address? Offline lookups by a service's own data, with custom blocks above its defaults.

The names below load on first use (PEP 562): importing the package costs nothing that a lookup does not need.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from geolookup._version import __version__
    from geolookup.errors import (
        DefaultGeolocationError,
        GeoLookupError,
        InvalidAddressError,
        StaleDataError,
        UnknownGenerationError,
    )
    from geolookup.lookup.engine import GeoLookup
    from geolookup.lookup.open import (
        open,  # noqa: A004 - `geolookup.open` is the library's front door
        open_editor,
    )
    from geolookup.model import Explanation, Geolocation, IPBlock, Match, Segment, Status
    from geolookup.state.edits.editor import Editor

__all__ = [
    "DefaultGeolocationError",
    "Editor",
    "Explanation",
    "GeoLookup",
    "GeoLookupError",
    "Geolocation",
    "IPBlock",
    "InvalidAddressError",
    "Match",
    "Segment",
    "StaleDataError",
    "Status",
    "UnknownGenerationError",
    "__version__",
    "open",
    "open_editor",
]

_HOMES = {
    "DefaultGeolocationError": "errors",
    "Editor": "state.edits.editor",
    "Explanation": "model",
    "GeoLookup": "lookup.engine",
    "GeoLookupError": "errors",
    "Geolocation": "model",
    "IPBlock": "model",
    "InvalidAddressError": "errors",
    "Match": "model",
    "Segment": "model",
    "StaleDataError": "errors",
    "Status": "model",
    "UnknownGenerationError": "errors",
    "__version__": "_version",
    "open": "lookup.open",
    "open_editor": "lookup.open",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
