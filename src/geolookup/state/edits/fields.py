"""The eight fields of a custom geolocation, checked as the service would before they are ever sent."""

import math
from collections.abc import Mapping
from typing import Any

from geolookup.errors import EditError
from geolookup.model import FIELD_NAMES

_TEXT_FIELDS = tuple(name for name in FIELD_NAMES if name not in ("latitude", "longitude"))
_MOST_DEGREES = {"latitude": 90.0, "longitude": 180.0}
#: No field of a real geolocation is longer, and the service may refuse more.
MAX_TEXT = 1000


def checked_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The eight fields as the service takes them.

    :raises EditError: naming the field that cannot be, and why
    """
    checked: dict[str, Any] = {}
    for name in FIELD_NAMES:
        value = fields[name]
        if name in _TEXT_FIELDS:
            if not isinstance(value, str):
                raise EditError(f"{name} is text, not {value!r}")
            if len(value) > MAX_TEXT:
                raise EditError(f"{name} has {len(value)} characters: at most {MAX_TEXT}")
            try:
                value.encode("utf-8")
            except UnicodeEncodeError as error:
                raise EditError(f"{name} is not Unicode text") from error
            checked[name] = value
            continue
        if value is None:
            raise EditError(f"{name} is missing: the service takes no custom geolocation without it")
        most = _MOST_DEGREES[name]
        try:
            degrees = float(value) if not isinstance(value, bool) else math.nan
        except (TypeError, ValueError):
            degrees = math.nan
        if not -most <= degrees <= most:
            raise EditError(f"{name} is a number of degrees from {-most:g} to {most:g}, not {value!r}")
        checked[name] = degrees + 0.0  # -0.0 and 0.0 are one place
    return checked
