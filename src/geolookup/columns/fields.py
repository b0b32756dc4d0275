"""The fields that a column of addresses can be answered with."""

from collections.abc import Iterable, Sequence
from typing import Final

from geolookup.errors import ColumnError
from geolookup.lookup import fields
from geolookup.model.types import FLAT_NAMES

#: Every field, in the order in which an address's object has them.
FIELDS: Final = FLAT_NAMES[1:]
#: The fields of an answer if none are asked for.
DEFAULT_FIELDS: Final = ("country", "region", "city")


def checked_fields(asked: str | Iterable[str]) -> tuple[str, ...]:
    """The fields as asked for: names, or one text of names with commas between them.

    :raises ColumnError: if one is unknown or named twice, or none is given
    """
    return fields.checked_fields(asked, FIELDS)


def check_columns(present: Sequence[str], column: str, added: Sequence[str]) -> None:
    """Check that ``column`` is present exactly once, and that no column of ``added`` is present.

    :raises ColumnError: saying which
    """
    if list(present).count(column) != 1:
        wrong = "unknown column" if column not in present else "more than one column is named"
        raise ColumnError(f"{wrong} {column!r}: the columns are {', '.join(map(repr, present))}")
    taken = [name for name in added if name in present]
    if taken:
        raise ColumnError(f"a column {taken[0]!r} exists already: choose another prefix")
