"""The edits of a custom geolocation, for commands and pages: what each takes, how it is made, its words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from geolookup.model.named import block_of, require_narrow
from geolookup.model.types import IPBlock
from geolookup.state.editor import Editor

#: The ends of a block as a person wrote them; the second is None for a network or a single address.
Ends: TypeAlias = tuple[str, str | None]
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """An edit that was made: its geolocation, its words, and the blocks that it added and removed."""

    locid: int
    text: str
    added: tuple[IPBlock, ...] = ()
    removed: tuple[IPBlock, ...] = ()


class Asked(NamedTuple):
    """An edit as it is asked for; see `CustomEdit.of`."""

    locid: int
    fields: Mapping[str, Any]
    blocks: Sequence[Ends]
    wide: bool
    name: str | None
    time_zone: str | None


@dataclass(frozen=True, slots=True)
class CustomEdit:
    """One of the edits. ``name`` is the command's, and the last part of the page's address.

    ``fields`` is true if it takes fields; ``blocks`` is the number of blocks that it takes,
    None if that is any.
    """

    name: str
    make: Callable[[Editor, "Asked"], Made]
    fields: bool = False
    blocks: int | None = 0

    def of(
        self,
        locid: int = 0,
        *,
        fields: Mapping[str, Any] | None = None,
        blocks: Sequence[Ends] = (),
        wide: bool = False,
        name: str | None = None,
        time_zone: str | None = None,
    ) -> Callable[[Editor], Made]:
        """The edit of one geolocation, to be made, or to be previewed; ``locid`` has no meaning for a create, and
        ``name``, of a site, only for one and for a rename. A ``time_zone`` of None stays.

        ``wide`` is as in `Editor.add_block`.
        """
        assert self.blocks in (None, len(blocks))
        assert self.fields == (fields is not None)
        asked = Asked(locid, fields or {}, blocks, wide, name, time_zone)

        def make(editor: Editor) -> Made:
            made = self.make(editor, asked)
            behind = "kept, and not in lookups yet (`geolookup status` says why); once it is: "
            seen = behind if editor.sessions.is_behind else ""
            return replace(made, text=f"{seen}{made.text}")

        return make


def _create(editor: Editor, asked: Asked) -> Made:
    blocks = [block_of(*ends) for ends in asked.blocks]
    fields: Any = asked.fields
    locid = editor.create(name=asked.name, time_zone=asked.time_zone or "", blocks=blocks, wide=asked.wide, **fields)
    text = f"created {f'geolocation {locid}' if asked.name is None else f'{asked.name} ({locid})'}"
    if blocks:
        text += f": {_resolve(blocks)} it"
    return Made(locid=locid, text=text, added=tuple(blocks))


def _resolve(blocks: Sequence[IPBlock]) -> str:
    more = f" and {len(blocks) - _MOST_NAMED} more" if len(blocks) > _MOST_NAMED else ""
    listed = ", ".join(map(str, blocks[:_MOST_NAMED]))
    return f"{listed}{more} now {'resolves' if len(blocks) == 1 else 'resolve'} to"


def _named(editor: Editor, locid: int, otherwise: str = "geolocation ") -> str:
    """A geolocation by the name of its site; one without a name by its number."""
    name = editor.site_names().get(locid)
    return f"{otherwise}{locid}" if name is None else f"{name} ({locid})"


def _update(editor: Editor, asked: Asked) -> Made:
    editor.update(asked.locid, time_zone=asked.time_zone, **asked.fields)
    return Made(locid=asked.locid, text=f"updated {_named(editor, asked.locid)}")


def _rename(editor: Editor, asked: Asked) -> Made:
    assert asked.name is not None
    before = editor.rename(asked.locid, asked.name)
    was = "" if before is None else f", no longer {before}"
    return Made(locid=asked.locid, text=f"geolocation {asked.locid} is named {asked.name}{was}")


def _delete(editor: Editor, asked: Asked) -> Made:
    name = _named(editor, asked.locid)
    editor.delete(asked.locid)
    return Made(locid=asked.locid, text=f"deleted {name}")


def _add_block(editor: Editor, asked: Asked) -> Made:
    locid, blocks = asked.locid, [block_of(*ends) for ends in asked.blocks]
    require_narrow(*blocks, wide=asked.wide)
    with editor.sessions.transaction() as session:
        session.give(locid, blocks)
    text = f"{_resolve(blocks)} {_named(editor, locid, '')}"
    return Made(locid=locid, text=text, added=tuple(blocks))


def _replace_block(editor: Editor, asked: Asked) -> Made:
    locid, (before, after) = asked.locid, asked.blocks
    old, new = editor.replace_block(locid, *before, *after, wide=asked.wide)
    text = f"{new} now resolves to {_named(editor, locid, '')}, in place of {old}"
    return Made(locid=locid, text=text, added=(new,), removed=(old,))


def _remove_block(editor: Editor, asked: Asked) -> Made:
    removed = editor.remove_block(asked.locid, *asked.blocks[0])
    text = f"{removed} no longer resolves to {_named(editor, asked.locid, '')}"
    return Made(locid=asked.locid, text=text, removed=(removed,))


def _clear_blocks(editor: Editor, asked: Asked) -> Made:
    number = editor.clear_blocks(asked.locid)
    return Made(locid=asked.locid, text=f"{_named(editor, asked.locid)} has no blocks any more: there were {number}")


CREATE = CustomEdit("create", _create, fields=True, blocks=None)
UPDATE = CustomEdit("update", _update, fields=True)
RENAME = CustomEdit("rename", _rename)
DELETE = CustomEdit("delete", _delete)
ADD_BLOCK = CustomEdit("add-block", _add_block, blocks=None)
REPLACE_BLOCK = CustomEdit("replace-block", _replace_block, blocks=2)
REMOVE_BLOCK = CustomEdit("remove-block", _remove_block, blocks=1)
CLEAR_BLOCKS = CustomEdit("clear-blocks", _clear_blocks)

EDITS = (CREATE, UPDATE, RENAME, DELETE, ADD_BLOCK, REPLACE_BLOCK, REMOVE_BLOCK, CLEAR_BLOCKS)
