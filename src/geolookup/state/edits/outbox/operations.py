"""The kinds of edits as edits.db holds them: the data of each, and its words. An edit is an `Intent` of its place."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from geolookup.base.reasons import reason
from geolookup.model.errors import GeoLookupError
from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import IPBlock
from geolookup.state.edits.outbox.payload import block_of, ends_of, values_of
from geolookup.state.edits.places.place import Content, Intent, Values


class Operation(StrEnum):
    """The kind of an edit."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    ADD_BLOCK = "add_block"
    REPLACE_BLOCK = "replace_block"
    REMOVE_BLOCK = "remove_block"
    CLEAR_BLOCKS = "clear_blocks"


class _Kind(NamedTuple):
    """A kind: its words, and each member of its data, with where that stands in an intent."""

    words: str
    members: Mapping[str, str]


_KINDS: Mapping[str, _Kind] = {
    Operation.CREATE: _Kind("create geolocation {locid}", {"fields": "values"}),
    Operation.UPDATE: _Kind("update geolocation {locid}", {"fields": "values"}),
    Operation.DELETE: _Kind("delete geolocation {locid}", {}),
    Operation.ADD_BLOCK: _Kind("add {block} to {locid}", {"block": "new"}),
    Operation.REPLACE_BLOCK: _Kind("replace {block} of {locid} by {new_block}", {"block": "old", "new_block": "new"}),
    Operation.REMOVE_BLOCK: _Kind("remove {block} from {locid}", {"block": "old"}),
    Operation.CLEAR_BLOCKS: _Kind("remove all blocks of {locid}", {}),
}


def _values(found: Any) -> Values:
    if not isinstance(found, dict) or not found:
        raise TypeError("`fields` is not an object with members")
    return values_of(found)


#: How each member is read.
_READ: Mapping[str, Callable[[Any], Any]] = {"fields": _values, "block": block_of, "new_block": block_of}


def payload_of(intent: Intent) -> dict[str, Any]:
    """The data of an edit as JSON: ``fields``, ``block`` and ``new_block``, as far as its kind has them."""
    members = {name: getattr(intent, at) for name, at in _KINDS[intent.what].members.items()}
    return {
        name: ends_of(value) if isinstance(value, IPBlock) else dict(zip(FIELD_NAMES, value, strict=True))
        for name, value in members.items()
    }


def describe(intent: Intent, locid: int) -> str:
    """An edit in words."""
    blocks = {name: "-".join(dict.fromkeys(ends)) for name, ends in payload_of(intent).items()}
    return _KINDS[intent.what].words.format(locid=locid, **blocks)


def read_intent(number: int, operation: Any, payload: Any, base: Content | None) -> Intent:
    """The edit that `payload_of` wrote.

    :raises ValueError: if this release does not know the operation, or the payload is not what was written
    """
    if operation not in _KINDS:
        raise ValueError(f"{operation!r} is not a valid Operation")
    try:
        data = {at: _READ[name](payload[name]) for name, at in _KINDS[operation].members.items()}
    except (LookupError, TypeError, GeoLookupError) as error:
        raise ValueError(f"the payload of its {operation} cannot be read: {reason(error)}") from error
    return Intent(id=number, what=operation, base=base, **data)
