"""The fields that a person asks for, of those that an answer has."""

from collections.abc import Iterable, Sequence

from geolookup.errors import ColumnError


def checked_fields(fields: str | Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """The fields as asked for, of those that are ``known``: names, or one text of names with commas between them.

    :raises ColumnError: if one is unknown or named twice, or none is given
    """
    names = tuple(name.strip() for name in fields.split(",")) if isinstance(fields, str) else tuple(fields)
    for name in names:
        if name not in known:
            raise ColumnError(f"unknown field {name!r:.60}: the fields are {', '.join(known)}")
    if not names or len(set(names)) != len(names):
        raise ColumnError("name at least one field, and each only once")
    return names
