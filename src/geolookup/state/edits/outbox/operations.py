"""The kinds of edits as edits.db holds them: the data of each, and its words. An edit is an `Intent` of its place."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec.structs import replace

from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import IPBlock
from geolookup.state.edits.outbox.payload import ends_of, reader
from geolookup.state.edits.places.place import Intent


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


def read_intent(number: int, written: Any) -> Intent:
    """An edit as its column has it.

    :raises ValueError: if it is not what was written: it lacks what its kind has
    """
    intent: Intent = replace(_read(written), id=number)
    if lacking := [name for name, at in _KINDS[intent.what].members.items() if not getattr(intent, at)]:
        raise ValueError(f"intent: its {intent.what} has no {lacking[0]}")
    return intent


_read = reader(Intent, "intent")
