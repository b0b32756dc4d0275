"""The accelerator, if it was built."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


def accelerator() -> "ModuleType | None":
    """The module ``_native``, or None if it was not built or ``GEOLOOKUP_PURE`` is set (and not to 0)."""
    if os.environ.get("GEOLOOKUP_PURE", "0") not in ("", "0"):
        return None
    try:
        from geolookup.index import _native
    except ImportError:
        return None
    return _native
