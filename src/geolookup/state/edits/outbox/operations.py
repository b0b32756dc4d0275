"""The kinds of edits, one class each: what it says, what it does locally, what it sends, and which blocks it frees.

`Edit` is the union of the classes, so that a ``match`` over it can end in ``assert_never``.
"""

# ruff: noqa: ARG002, ARG003 - every kind has the same methods, and not each kind needs every argument

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Protocol, Self, TypeAlias

from geolookup.base.reasons import reason
from geolookup.model.errors import GeoLookupError
from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import Geolocation, IPBlock
from geolookup.state.edits.outbox.payload import block_of, blocks_of, ends_of, geolocation


class Operation(StrEnum):
    """The kind of an edit, as edits.db holds it."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    ADD_BLOCK = "add_block"
    REPLACE_BLOCK = "replace_block"
    REMOVE_BLOCK = "remove_block"
    CLEAR_BLOCKS = "clear_blocks"


class Requests(Protocol):
    """The requests that edits become. The service's client sends them, and a plan only writes them down."""

    def create(self, fields: Mapping[str, object], *, idempotency_key: str) -> object: ...
    def update(self, locid: int, fields: Mapping[str, object]) -> object: ...
    def delete(self, locid: int) -> object: ...
    def delete_blocks(self, locid: int) -> object: ...
    def create_block(self, locid: int, startip: str, endip: str, *, idempotency_key: str) -> object: ...
    def replace_block(self, locid: int, startip: str, endip: str, newstartip: str, newendip: str) -> object: ...


class _Kind(ABC):
    """One edit, of any kind. ``base`` is always a row's: what the edit was made against, or None."""

    __slots__ = ()
    operation: ClassVar[Operation]
    #: Whether it takes blocks away from its geolocation.
    frees_blocks: ClassVar[bool] = False

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
    def laid_over(self, place: Geolocation | None, locid: int, base: Mapping[str, Any] | None) -> Geolocation | None:
        """A geolocation after the edit; None if it is gone.

        If ``place`` is None, the list no longer has the geolocation. Then ``base`` stands in for it: until a person
        decides, the edit shows in lookups as it was meant.
        """

    @property
    def takes(self) -> IPBlock | None:
        """The block that it gives to its geolocation."""
        return None

    def frees(self, block: IPBlock, base: Mapping[str, Any] | None) -> bool:
        """True if it takes this very block away from its geolocation."""
        return False


class _SingleRequest(_Kind):
    __slots__ = ()

    @abstractmethod
    def send(self, service: Requests, locid: int, key: str) -> object:
        """Make the one request that it takes, and return the answer.

        :param locid: the service's number of the geolocation; a create has none yet, and ignores it
        :param key: the ``Idempotency-Key``
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class _SettingFields(_SingleRequest):
    fields: dict[str, Any]

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> Self:
        return cls(fields=_fields(payload))

    @property
    def payload(self) -> dict[str, Any]:
        return {"fields": self.fields}


@dataclass(frozen=True, slots=True, kw_only=True)
class Create(_SettingFields):
    """Create a geolocation without blocks; ``fields`` are the eight."""

    operation: ClassVar = Operation.CREATE

    def describe(self, locid: int) -> str:
        return f"create geolocation {locid}"

    def laid_over(self, place: Geolocation | None, locid: int, base: Mapping[str, Any] | None) -> Geolocation | None:
        return geolocation(locid, self.fields, () if place is None else place.ipblocks)

    def send(self, service: Requests, locid: int, key: str) -> object:
        return service.create(self.fields, idempotency_key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(_SettingFields):
    """Change the fields of a geolocation; ``fields`` are all eight, as they shall be."""

    operation: ClassVar = Operation.UPDATE

    def describe(self, locid: int) -> str:
        return f"update geolocation {locid}"

    def laid_over(self, place: Geolocation | None, locid: int, base: Mapping[str, Any] | None) -> Geolocation | None:
        if place is None:
            place = _from_base(locid, base or {"fields": self.fields, "blocks": []})
        return geolocation(locid, self.fields, place.ipblocks)

    def send(self, service: Requests, locid: int, key: str) -> object:
        return service.update(locid, self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(_SingleRequest):
    """Delete a geolocation with its blocks."""

    operation: ClassVar = Operation.DELETE
    frees_blocks: ClassVar = True

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> Self:
        return cls()

    @property
    def payload(self) -> dict[str, Any]:
        return {}

    def describe(self, locid: int) -> str:
        return f"delete geolocation {locid}"

    def laid_over(self, place: Geolocation | None, locid: int, base: Mapping[str, Any] | None) -> Geolocation | None:
        return None

    def frees(self, block: IPBlock, base: Mapping[str, Any] | None) -> bool:
        return _had(base, block)

    def send(self, service: Requests, locid: int, key: str) -> object:
        return service.delete(locid)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddBlock(_SingleRequest):
    """Give a geolocation a block."""

    operation: ClassVar = Operation.ADD_BLOCK
    block: IPBlock

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> Self:
        return cls(block=block_of(payload["block"]))

    @property
    def payload(self) -> dict[str, Any]:
        return {"block": ends_of(self.block)}

    def describe(self, locid: int) -> str:
        return f"add {_range(self.block)} to {locid}"

    def laid_over(self, place: Geolocation | None, locid: int, base: Mapping[str, Any] | None) -> Geolocation | None:
        return _with_blocks(place or _from_base(locid, base), added=self.block)

    @property
    def takes(self) -> IPBlock | None:
        return self.block

    def taking(self, block: IPBlock) -> Self:
        """The edit, giving another block."""
        return replace(self, block=block)

    def send(self, service: Requests, locid: int, key: str) -> object:
        return service.create_block(locid, self.block.startip, self.block.endip, idempotency_key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceBlock(_SingleRequest):
    """Put ``new_block`` in the place of ``block``."""

    operation: ClassVar = Operation.REPLACE_BLOCK
    frees_blocks: ClassVar = True
    block: IPBlock
    new_block: IPBlock

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> Self:
        return cls(block=block_of(payload["block"]), new_block=block_of(payload["new_block"]))

    @property
    def payload(self) -> dict[str, Any]:
        return {"block": ends_of(self.block), "new_block": ends_of(self.new_block)}

    def describe(self, locid: int) -> str:
        return f"replace {_range(self.block)} of {locid} by {_range(self.new_block)}"

    def laid_over(self, place: Geolocation | None, locid: int, base: Mapping[str, Any] | None) -> Geolocation | None:
        return _with_blocks(place or _from_base(locid, base), removed=self.block, added=self.new_block)

    @property
    def takes(self) -> IPBlock | None:
        return self.new_block

    def frees(self, block: IPBlock, base: Mapping[str, Any] | None) -> bool:
        return block == self.block

    def taking(self, block: IPBlock) -> Self:
        """The edit, giving another block in place of the old one."""
        return replace(self, new_block=block)

    def send(self, service: Requests, locid: int, key: str) -> object:
        return service.replace_block(
            locid, self.block.startip, self.block.endip, self.new_block.startip, self.new_block.endip
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveBlock(_Kind):
    """Take one block away. The service has no such request: a push does it in journaled steps."""

    operation: ClassVar = Operation.REMOVE_BLOCK
    frees_blocks: ClassVar = True
    block: IPBlock

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> Self:
        return cls(block=block_of(payload["block"]))

    @property
    def payload(self) -> dict[str, Any]:
        return {"block": ends_of(self.block)}

    def describe(self, locid: int) -> str:
        return f"remove {_range(self.block)} from {locid}"

    def laid_over(self, place: Geolocation | None, locid: int, base: Mapping[str, Any] | None) -> Geolocation | None:
        return _with_blocks(place or _from_base(locid, base), removed=self.block)

    def frees(self, block: IPBlock, base: Mapping[str, Any] | None) -> bool:
        return block == self.block


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearBlocks(_SingleRequest):
    """Take all blocks of a geolocation away."""

    operation: ClassVar = Operation.CLEAR_BLOCKS
    frees_blocks: ClassVar = True

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> Self:
        return cls()

    @property
    def payload(self) -> dict[str, Any]:
        return {}

    def describe(self, locid: int) -> str:
        return f"remove all blocks of {locid}"

    def laid_over(self, place: Geolocation | None, locid: int, base: Mapping[str, Any] | None) -> Geolocation | None:
        return replace(place or _from_base(locid, base), ipblocks=())

    def frees(self, block: IPBlock, base: Mapping[str, Any] | None) -> bool:
        return _had(base, block)

    def send(self, service: Requests, locid: int, key: str) -> object:
        return service.delete_blocks(locid)


#: An edit that one request brings to the service.
SingleRequest: TypeAlias = Create | Update | Delete | AddBlock | ReplaceBlock | ClearBlocks
Edit: TypeAlias = SingleRequest | RemoveBlock
#: An edit that says what the fields shall be.
SettingFields: TypeAlias = Create | Update
#: An edit that gives a block to its geolocation.
TakingBlock: TypeAlias = AddBlock | ReplaceBlock
#: An edit of something that the service may have changed since: a push looks before it sends one.
Overwriting: TypeAlias = Update | Delete | ClearBlocks

_KINDS: tuple[type[Edit], ...] = (Create, Update, Delete, AddBlock, ReplaceBlock, RemoveBlock, ClearBlocks)
_BY_OPERATION: dict[Operation, type[Edit]] = {kind.operation: kind for kind in _KINDS}
#: The kinds that take blocks away.
FREEING = tuple(kind.operation for kind in _KINDS if kind.frees_blocks)


def read_edit(operation: str, payload: Mapping[str, Any]) -> Edit:
    """The edit that a row's two columns hold.

    :raises ValueError: if this release does not know the operation, or the payload is not what was written
    """
    try:
        kind = _BY_OPERATION[Operation(operation)]
        return kind.read(payload)
    except (LookupError, TypeError, GeoLookupError) as error:
        raise ValueError(f"the payload of its {operation} cannot be read: {reason(error)}") from error


def _fields(payload: Mapping[str, Any]) -> dict[str, Any]:
    fields = payload["fields"]
    if not isinstance(fields, dict) or not fields:
        raise TypeError("`fields` is not an object with members")
    # An edit from before a field was there says nothing of it.
    return {name: fields[name] for name in FIELD_NAMES if name in fields}


def _range(block: IPBlock) -> str:
    return "-".join(dict.fromkeys(ends_of(block)))


def _from_base(locid: int, base: Mapping[str, Any] | None) -> Geolocation:
    if base is None:
        raise ValueError(f"an edit of geolocation {locid} has no base")
    return geolocation(locid, base["fields"], blocks_of(base["blocks"]))


def _had(base: Mapping[str, Any] | None, block: IPBlock) -> bool:
    return base is not None and ends_of(block) in base["blocks"]


def _with_blocks(place: Geolocation, *, removed: IPBlock | None = None, added: IPBlock | None = None) -> Geolocation:
    blocks = set(place.ipblocks)
    if removed is not None:
        blocks.discard(removed)
    if added is not None:
        blocks.add(added)
    return replace(place, ipblocks=tuple(sorted(blocks)))
