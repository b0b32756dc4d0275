"""The kinds of edits, one class each: the data of an edit, its words, and the intent that it is."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

import msgspec

from geolookup.base.reasons import reason
from geolookup.model.errors import GeoLookupError
from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import IPBlock
from geolookup.state.edits.outbox.payload import block_of, ends_of, values_of
from geolookup.state.edits.places.place import Content, Intent


class Operation(StrEnum):
    """The kind of an edit, as edits.db holds it."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    ADD_BLOCK = "add_block"
    REPLACE_BLOCK = "replace_block"
    REMOVE_BLOCK = "remove_block"
    CLEAR_BLOCKS = "clear_blocks"


def _fields(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict) or not found:
        raise TypeError("`fields` is not an object with members")
    # An edit from before a field was there says nothing of it.
    return {name: found[name] for name in FIELD_NAMES if name in found}


#: How each member of an edit is read.
_READ: dict[str, Callable[[Any], Any]] = {"fields": _fields, "block": block_of, "new_block": block_of}


class _Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One edit, of any kind.

    ``gives`` names the member that is the block which it gives to its geolocation, and ``removes`` that which it takes.
    """

    operation: ClassVar[Operation]
    what: ClassVar[Literal["create", "set", "add", "remove", "replace", "clear", "delete"]]
    words: ClassVar[str]
    gives: ClassVar[str] = ""
    removes: ClassVar[str] = ""

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> Self:
        """The edit that `payload` wrote.

        :raises LookupError, TypeError, ValueError, GeoLookupError: if it is not what was written
        """
        return cls(**{name: _READ[name](payload[name]) for name in cls.__struct_fields__})

    @property
    def payload(self) -> dict[str, Any]:
        """Its data as JSON: ``fields``, ``block`` and ``new_block``, as far as the kind has them."""
        members = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: ends_of(value) if isinstance(value, IPBlock) else value for name, value in members.items()}

    def describe(self, locid: int) -> str:
        """The edit in words."""
        return self.words.format(locid=locid, **{name: "-".join(dict.fromkeys(v)) for name, v in self.payload.items()})

    def intent(self, number: int, base: Content | None) -> Intent:
        """The edit as an intent with this number, made against ``base``."""
        return Intent(
            id=number,
            what=self.what,
            base=base,
            values=values_of(self.fields) if isinstance(self, Create | Update) else (),
            old=getattr(self, self.removes, None),
            new=self.takes,
            all=base.blocks if self.what == "clear" and base is not None else frozenset(),
        )

    @property
    def takes(self) -> IPBlock | None:
        """The block that it gives to its geolocation."""
        return getattr(self, self.gives, None)

    @property
    def names(self) -> tuple[IPBlock, ...]:
        """The blocks that it names."""
        members = (getattr(self, name) for name in self.__struct_fields__)
        return tuple(value for value in members if isinstance(value, IPBlock))

    def taking(self, block: IPBlock) -> Self:
        """The edit, giving another block."""
        return msgspec.structs.replace(self, **{self.gives: block})


class Create(_Kind, frozen=True, kw_only=True):
    """Create a geolocation without blocks; ``fields`` are the eight."""

    operation = Operation.CREATE
    what = "create"
    words = "create geolocation {locid}"
    fields: dict[str, Any]


class Update(_Kind, frozen=True, kw_only=True):
    """Change the fields of a geolocation; ``fields`` are all eight, as they shall be."""

    operation = Operation.UPDATE
    what = "set"
    words = "update geolocation {locid}"
    fields: dict[str, Any]


class Delete(_Kind, frozen=True):
    """Delete a geolocation with its blocks."""

    operation = Operation.DELETE
    what = "delete"
    words = "delete geolocation {locid}"


class ClearBlocks(_Kind, frozen=True):
    """Take all blocks of a geolocation away."""

    operation = Operation.CLEAR_BLOCKS
    what = "clear"
    words = "remove all blocks of {locid}"


class AddBlock(_Kind, frozen=True, kw_only=True):
    """Give a geolocation a block."""

    operation = Operation.ADD_BLOCK
    what = "add"
    words = "add {block} to {locid}"
    gives = "block"
    block: IPBlock


class RemoveBlock(_Kind, frozen=True, kw_only=True):
    """Take one block away."""

    operation = Operation.REMOVE_BLOCK
    what = "remove"
    words = "remove {block} from {locid}"
    removes = "block"
    block: IPBlock


class ReplaceBlock(_Kind, frozen=True, kw_only=True):
    """Put ``new_block`` in the place of ``block``."""

    operation = Operation.REPLACE_BLOCK
    what = "replace"
    words = "replace {block} of {locid} by {new_block}"
    gives, removes = "new_block", "block"
    block: IPBlock
    new_block: IPBlock


Edit: TypeAlias = Create | Update | Delete | AddBlock | ReplaceBlock | RemoveBlock | ClearBlocks
#: An edit that says what the fields shall be.
SettingFields: TypeAlias = Create | Update
#: An edit that gives a block to its geolocation.
TakingBlock: TypeAlias = AddBlock | ReplaceBlock

_KINDS: tuple[type[Edit], ...] = get_args(Edit)
_BY_OPERATION = {str(kind.operation): kind for kind in _KINDS}
_BY_WHAT = {kind.what: kind for kind in _KINDS}


def read_edit(operation: str, payload: Mapping[str, Any]) -> Edit:
    """The edit that a row's two columns hold.

    :raises ValueError: if this release does not know the operation, or the payload is not what was written
    """
    if operation not in _BY_OPERATION:
        raise ValueError(f"{operation!r} is not a valid Operation")
    try:
        return _BY_OPERATION[operation].read(payload)
    except (LookupError, TypeError, GeoLookupError) as error:
        raise ValueError(f"the payload of its {operation} cannot be read: {reason(error)}") from error


def edit_of(intent: Intent) -> Edit:
    """The edit that is an intent."""
    kind = _BY_WHAT[intent.what]
    found: dict[str, Any] = {kind.removes: intent.old, kind.gives: intent.new}
    if intent.values and intent.what in ("create", "set"):
        found["fields"] = dict(zip(FIELD_NAMES, intent.values, strict=True))
    return kind(**{name: found[name] for name in kind.__struct_fields__})
