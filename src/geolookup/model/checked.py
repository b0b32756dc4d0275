"""The fields of a custom geolocation, checked as the service would before they are ever sent, and a site's name."""

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any

from geolookup.model.countries import wrong_country
from geolookup.model.errors import EditError
from geolookup.model.fields import DEGREES, FIELD_NAMES, FIELDS

#: No field of a real geolocation is longer, and the service may refuse more.
MAX_TEXT = 1000
MAX_NAME = 200


def missing_coordinate(name: str, fields: Mapping[str, Any]) -> str:
    """The words for a coordinate that fields lack though they need it."""
    if lacks_coordinates(fields):
        return f"{name} is missing: the service takes no custom geolocation without it"
    return f"{name} is missing: a place has both coordinates or none"


def checked_fields(fields: Mapping[str, Any], *, bare: bool = False) -> dict[str, Any]:
    """All fields as the service takes them; with ``bare`` both coordinates may be None: where no service is.

    :raises EditError: naming the field that is missing, unknown or cannot be, and why
    """
    refuse_unknown(fields)
    bare = bare and lacks_coordinates(fields)
    checked: dict[str, Any] = {}
    for field in FIELDS:
        name = field.name
        if name not in fields:
            raise EditError(f"{name} is missing: a geolocation needs {', '.join(FIELD_NAMES)}")
        value = fields[name]
        if field.limit is None:
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
        if value is None and bare:
            checked[name] = None
            continue
        if value is None:
            raise EditError(missing_coordinate(name, fields))
        most = field.limit
        try:
            degrees = float(value) if not isinstance(value, bool | bytes | bytearray) else math.nan
        except (TypeError, ValueError):
            degrees = math.nan
        if not -most <= degrees <= most:
            raise EditError(f"{name} is a number of degrees from {-most:g} to {most:g}, not {value!r}")
        checked[name] = degrees + 0.0  # -0.0 and 0.0 are one place
    return checked


def meant_fields(
    fields: Mapping[str, Any], before: Mapping[str, Any] | None = None, *, bare: bool = False
) -> dict[str, Any]:
    """`checked_fields` of new values in place of ``before``: the country must also be a code.

    What the service sent, or an earlier version took, may stay as it is.

    :raises EditError: as `checked_fields` does, or if a new country is not a code
    """
    checked = checked_fields(fields, bare=bare)
    country = checked["country"]
    if before is None or country != before["country"]:
        wrong = wrong_country(country)
        if wrong is not None:
            raise EditError(wrong)
    return checked


def lacks_coordinates(fields: Mapping[str, Any]) -> bool:
    """True if neither coordinate is known."""
    return all(fields.get(name) is None for name in DEGREES)


def wrong_name(name: Any) -> str | None:
    """The reason why this cannot be a site's name; None if it can."""
    if isinstance(name, str) and name and name.isprintable() and name == name.strip() and len(name) <= MAX_NAME:
        return None
    return f"a site's name is one line of at most {MAX_NAME} characters with no blanks around it, not {name!r:.250}"


@functools.cache
def _time_zones() -> frozenset[str]:
    import zoneinfo  # late: few sites have one, and the names are those of files

    return frozenset(zoneinfo.available_timezones())


def wrong_time_zone(zone: Any) -> str | None:
    """The reason why this cannot be a site's time zone, "" for none; None if it can."""
    known = _time_zones()
    if zone == "" or zone in known or (not known and isinstance(zone, str) and wrong_name(zone) is None):
        return None
    import difflib

    near = difflib.get_close_matches(str(zone), known, 1, 0.5)
    hint = f": is it {near[0]}?" if near else ""
    return f"a time zone is a name of the IANA database, such as Europe/Berlin, not {zone!r:.60}{hint}"


def refuse_unknown(names: Iterable[str]) -> None:
    """See that every name is a field's.

    :raises EditError: naming the first that is not
    """
    unknown = sorted(set(names) - set(FIELD_NAMES))
    if unknown:
        raise EditError(f"unknown field {unknown[0]}: the fields of a geolocation are {', '.join(FIELD_NAMES)}")
