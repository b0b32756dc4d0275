"""The seven edits of a custom geolocation, for commands and pages: what each takes, how it is made, its words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from geolookup.model.types import IPBlock
from geolookup.state.editor import Editor

#: The ends of a block as a person wrote them; the second is None for a network or a single address.
Ends: TypeAlias = tuple[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """An edit that was made: its geolocation, its words, and the blocks that it added and removed."""

    locid: int
    text: str
    added: IPBlock | None = None
    removed: IPBlock | None = None


@dataclass(frozen=True, slots=True)
class CustomEdit:
    """One of the seven edits. ``name`` is the command's, and the last part of the page's address.

    ``fields`` is true if it takes fields; ``blocks`` is the number of blocks that it takes.
    """

    name: str
    make: Callable[[Editor, int, Mapping[str, Any], Sequence[Ends]], Made]
    fields: bool = False
    blocks: int = 0

    def of(
        self, locid: int = 0, *, fields: Mapping[str, Any] | None = None, blocks: Sequence[Ends] = ()
    ) -> Callable[[Editor], Made]:
        """The edit of one geolocation, to be made, or to be previewed; ``locid`` has no meaning for a create."""
        assert len(blocks) == self.blocks
        assert self.fields == (fields is not None)
        return lambda editor: self.make(editor, locid, fields or {}, blocks)


def _create(editor: Editor, _locid: int, fields: Mapping[str, Any], _blocks: Sequence[Ends]) -> Made:
    locid = editor.create(**fields)
    return Made(locid=locid, text=f"created geolocation {locid}")


def _update(editor: Editor, locid: int, fields: Mapping[str, Any], _blocks: Sequence[Ends]) -> Made:
    editor.update(locid, **fields)
    return Made(locid=locid, text=f"updated geolocation {locid}")


def _delete(editor: Editor, locid: int, _fields: Mapping[str, Any], _blocks: Sequence[Ends]) -> Made:
    editor.delete(locid)
    return Made(locid=locid, text=f"deleted geolocation {locid}")


def _add_block(editor: Editor, locid: int, _fields: Mapping[str, Any], blocks: Sequence[Ends]) -> Made:
    added = editor.add_block(locid, *blocks[0])
    return Made(locid=locid, text=f"{added} now resolves to {locid}", added=added)


def _replace_block(editor: Editor, locid: int, _fields: Mapping[str, Any], blocks: Sequence[Ends]) -> Made:
    before, after = blocks
    old, new = editor.replace_block(locid, *before, *after)
    return Made(locid=locid, text=f"{new} now resolves to {locid}, in place of {old}", added=new, removed=old)


def _remove_block(editor: Editor, locid: int, _fields: Mapping[str, Any], blocks: Sequence[Ends]) -> Made:
    removed = editor.remove_block(locid, *blocks[0])
    return Made(locid=locid, text=f"{removed} no longer resolves to {locid}", removed=removed)


def _clear_blocks(editor: Editor, locid: int, _fields: Mapping[str, Any], _blocks: Sequence[Ends]) -> Made:
    number = editor.clear_blocks(locid)
    return Made(locid=locid, text=f"geolocation {locid} has no blocks any more: there were {number}")


CREATE = CustomEdit("create", _create, fields=True)
UPDATE = CustomEdit("update", _update, fields=True)
DELETE = CustomEdit("delete", _delete)
ADD_BLOCK = CustomEdit("add-block", _add_block, blocks=1)
REPLACE_BLOCK = CustomEdit("replace-block", _replace_block, blocks=2)
REMOVE_BLOCK = CustomEdit("remove-block", _remove_block, blocks=1)
CLEAR_BLOCKS = CustomEdit("clear-blocks", _clear_blocks)

EDITS = (CREATE, UPDATE, DELETE, ADD_BLOCK, REPLACE_BLOCK, REMOVE_BLOCK, CLEAR_BLOCKS)
