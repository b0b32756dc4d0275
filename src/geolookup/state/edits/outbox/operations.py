"""The kinds of edits, one class each: the data of an edit, its words, and the intent that it is.

`Edit` is the union of the classes, so that a ``match`` over it can end in ``assert_never``.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Self, TypeAlias

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


class _Kind(ABC):
    """One edit, of any kind."""

    __slots__ = ()
    operation: ClassVar[Operation]

    @classmethod
    @abstractmethod
    def read(cls, payload: Mapping[str, Any]) -> Self:
        """The edit that `payload` wrote.

        :raises LookupError, TypeError, ValueError, GeoLookupError: if it is not what was written
        """

    @property
    @abstractmethod
    def payload(self) -> dict[str, Any]:
        """Its data as JSON: ``fields``, ``block`` and ``new_block``, as far as the kind has them."""

    @abstractmethod
    def describe(self, locid: int) -> str:
        """The edit in words."""

    @abstractmethod
    def intent(self, number: int, base: Content | None) -> Intent:
        """The edit as an intent with this number, made against ``base``."""

    @property
    def takes(self) -> IPBlock | None:
        """The block that it gives to its geolocation."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _SettingFields(_Kind):
    fields: dict[str, Any]

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> Self:
        fields = payload["fields"]
        if not isinstance(fields, dict) or not fields:
            raise TypeError("`fields` is not an object with members")
        # An edit from before a field was there says nothing of it.
        return cls(fields={name: fields[name] for name in FIELD_NAMES if name in fields})

    @property
    def payload(self) -> dict[str, Any]:
        return {"fields": self.fields}

    def describe(self, locid: int) -> str:
        return f"{self.operation} geolocation {locid}"

    def intent(self, number: int, base: Content | None) -> Intent:
        values = values_of(self.fields)
        if self.operation is Operation.CREATE:
            return Intent(id=number, what="create", base=base, values=values)
        return Intent(id=number, what="set", base=base, values=values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Create(_SettingFields):
    """Create a geolocation without blocks; ``fields`` are the eight."""

    operation: ClassVar = Operation.CREATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(_SettingFields):
    """Change the fields of a geolocation; ``fields`` are all eight, as they shall be."""

    operation: ClassVar = Operation.UPDATE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whole(_Kind):
    @classmethod
    def read(cls, _payload: Mapping[str, Any]) -> Self:
        return cls()

    @property
    def payload(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(_Whole):
    """Delete a geolocation with its blocks."""

    operation: ClassVar = Operation.DELETE

    def describe(self, locid: int) -> str:
        return f"delete geolocation {locid}"

    def intent(self, number: int, base: Content | None) -> Intent:
        return Intent(id=number, what="delete", base=base)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearBlocks(_Whole):
    """Take all blocks of a geolocation away."""

    operation: ClassVar = Operation.CLEAR_BLOCKS

    def describe(self, locid: int) -> str:
        return f"remove all blocks of {locid}"

    def intent(self, number: int, base: Content | None) -> Intent:
        return Intent(id=number, what="clear", base=base, all=frozenset() if base is None else base.blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfBlock(_Kind):
    block: IPBlock

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> Self:
        return cls(block=block_of(payload["block"]))

    @property
    def payload(self) -> dict[str, Any]:
        return {"block": ends_of(self.block)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AddBlock(_OfBlock):
    """Give a geolocation a block."""

    operation: ClassVar = Operation.ADD_BLOCK

    def describe(self, locid: int) -> str:
        return f"add {_range(self.block)} to {locid}"

    def intent(self, number: int, base: Content | None) -> Intent:
        return Intent(id=number, what="add", base=base, new=self.block)

    @property
    def takes(self) -> IPBlock | None:
        return self.block

    def taking(self, block: IPBlock) -> Self:
        """The edit, giving another block."""
        return replace(self, block=block)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveBlock(_OfBlock):
    """Take one block away."""

    operation: ClassVar = Operation.REMOVE_BLOCK

    def describe(self, locid: int) -> str:
        return f"remove {_range(self.block)} from {locid}"

    def intent(self, number: int, base: Content | None) -> Intent:
        return Intent(id=number, what="remove", base=base, old=self.block)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceBlock(_OfBlock):
    """Put ``new_block`` in the place of ``block``."""

    operation: ClassVar = Operation.REPLACE_BLOCK
    new_block: IPBlock

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> Self:
        return cls(block=block_of(payload["block"]), new_block=block_of(payload["new_block"]))

    @property
    def payload(self) -> dict[str, Any]:
        return {"block": ends_of(self.block), "new_block": ends_of(self.new_block)}

    def describe(self, locid: int) -> str:
        return f"replace {_range(self.block)} of {locid} by {_range(self.new_block)}"

    def intent(self, number: int, base: Content | None) -> Intent:
        return Intent(id=number, what="replace", base=base, old=self.block, new=self.new_block)

    @property
    def takes(self) -> IPBlock | None:
        return self.new_block

    def taking(self, block: IPBlock) -> Self:
        """The edit, giving another block in place of the old one."""
        return replace(self, new_block=block)


Edit: TypeAlias = Create | Update | Delete | AddBlock | ReplaceBlock | RemoveBlock | ClearBlocks
#: An edit that says what the fields shall be.
SettingFields: TypeAlias = Create | Update
#: An edit that gives a block to its geolocation.
TakingBlock: TypeAlias = AddBlock | ReplaceBlock

_KINDS: tuple[type[Edit], ...] = (Create, Update, Delete, AddBlock, ReplaceBlock, RemoveBlock, ClearBlocks)
_BY_OPERATION: dict[Operation, type[Edit]] = {kind.operation: kind for kind in _KINDS}


def read_edit(operation: str, payload: Mapping[str, Any]) -> Edit:
    """The edit that a row's two columns hold.

    :raises ValueError: if this release does not know the operation, or the payload is not what was written
    """
    try:
        kind = _BY_OPERATION[Operation(operation)]
        return kind.read(payload)
    except (LookupError, TypeError, GeoLookupError) as error:
        raise ValueError(f"the payload of its {operation} cannot be read: {reason(error)}") from error


def edit_of(intent: Intent) -> Edit:
    """The edit that is an intent."""
    match intent.what:
        case "create" | "set":
            fields = dict(zip(FIELD_NAMES, intent.values, strict=True))
            return Create(fields=fields) if intent.what == "create" else Update(fields=fields)
        case "add":
            return AddBlock(block=_block(intent.new))
        case "remove":
            return RemoveBlock(block=_block(intent.old))
        case "replace":
            return ReplaceBlock(block=_block(intent.old), new_block=_block(intent.new))
        case "clear":
            return ClearBlocks()
        case "delete":
            return Delete()


def _block(value: object) -> IPBlock:
    assert isinstance(value, IPBlock)
    return value


def _range(block: IPBlock) -> str:
    return "-".join(dict.fromkeys(ends_of(block)))
