"""The steps by which the custom layer changes: shown to a person, and made as edits."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, assert_never

from geolookup.base.text import fields_text
from geolookup.model.checked import checked_fields
from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import Geolocation, IPBlock
from geolookup.sites.site import block_text, blocks_text
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.payload import values_of
from geolookup.state.edits.outbox.row import OutboxRow
from geolookup.state.edits.places.place import Content, Intent
from geolookup.state.edits.superfluous import superfluous


class Kind(StrEnum):
    """The kind of a step, in the order in which steps are made: blocks are freed before others take them."""

    CLAIM = "claim"
    TAKE_BACK = "take_back"
    DELETE = "delete"
    REMOVE_BLOCK = "remove_block"
    CLEAR_BLOCKS = "clear_blocks"
    CREATE = "create"
    UPDATE = "update"
    TIME_ZONE = "time_zone"
    ADD_BLOCK = "add_block"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One step. ``locid`` is None for a geolocation that is still to be created, unless it gets a former number again.

    ``site`` is the name in the file; for a delete the name it had in an earlier file, None if it never had one. A claim
    gives a name to an existing geolocation (``was``: its name until now), and edits nothing. ``fields`` are all of a
    create's or update's, ``before`` those of an update; ``block`` the one added or removed. To take back
    means that ``edit``, which was never sent, will not be. A ``time_zone`` comes in place of ``was``, and no service
    hears of it. ``place`` is what a delete deletes,
    and ``former`` the number that what is created again had.
    """

    kind: Kind
    site: str | None
    locid: int | None
    fields: dict[str, Any] | None = None
    before: dict[str, Any] | None = None
    block: IPBlock | None = None
    was: str | None = None
    time_zone: str | None = None
    edit: OutboxRow | None = None
    place: Geolocation | None = None
    former: int | None = None

    def describe(self) -> str:
        """The step in words."""
        site = self.site or "geolocation"
        target = site if self.locid is None else f"{site} ({self.locid})"
        match self.kind:
            case Kind.CLAIM:
                return f"= {target} is there already" + (f", named {self.was} until now" if self.was else "")
            case Kind.TAKE_BACK:
                assert self.edit is not None
                which = f"edit {self.edit.id} of {target}, which the service does not have"
                return f"x take back {which}: {self.edit.describe()}"
            case Kind.CREATE:
                assert self.fields is not None
                zone = f"; time zone {self.time_zone}" if self.time_zone else ""
                return f"+ create {target}: {_content(self.fields, ())}{zone}"
            case Kind.UPDATE:
                assert self.fields is not None
                assert self.before is not None
                changed = (f"{name} {self.before[name]!r} -> {self.fields[name]!r}" for name in self._changed())
                return f"~ update {target}: {', '.join(changed)}"
            case Kind.TIME_ZONE:
                return f"~ time zone of {target}: {self.was or 'none'} -> {self.time_zone or 'none'}"
            case Kind.DELETE:
                assert self.place is not None
                return f"- delete {target}: {_content(self.place.fields(), self.place.ipblocks)}"
            case Kind.CLEAR_BLOCKS:
                return f"- remove all networks of {target}"
            case Kind.ADD_BLOCK:
                assert self.block is not None
                return f"+ add {block_text(self.block)} to {target}"
            case Kind.REMOVE_BLOCK:
                assert self.block is not None
                return f"- remove {block_text(self.block)} from {target}"
            case _:
                assert_never(self.kind)

    def as_dict(self) -> dict[str, Any]:
        """The step for ``--json``."""
        found: dict[str, Any] = {"change": self.kind, "site": self.site, "locid": self.locid}
        if self.kind is Kind.CREATE:
            found["fields"] = self.fields
            found |= {"time_zone": self.time_zone} if self.time_zone else {}
        if self.kind is Kind.UPDATE:
            assert self.fields is not None
            assert self.before is not None
            found["fields"] = {
                name: {"before": self.before[name], "after": self.fields[name]} for name in self._changed()
            }
        if self.block is not None:
            found["block"] = {"startip": self.block.startip, "endip": self.block.endip}
        if self.kind is Kind.CLAIM:
            found["was"] = self.was
        if self.kind is Kind.TIME_ZONE:
            found["time_zone"] = {"before": self.was, "after": self.time_zone}
        if self.place is not None:
            found["fields"] = self.place.fields()
            found["blocks"] = [{"startip": block.startip, "endip": block.endip} for block in self.place.ipblocks]
        if self.edit is not None:
            found["edit"] = self.edit.id
        return {**found, "description": self.describe()}

    def _changed(self) -> list[str]:
        assert self.fields is not None
        assert self.before is not None
        return [name for name in FIELD_NAMES if self.fields[name] != self.before[name]]


def _content(fields: Mapping[str, Any], blocks: Iterable[IPBlock]) -> str:
    """The fields and blocks of a geolocation, on a line."""
    return "; ".join(filter(None, [fields_text(fields), blocks_text(blocks)])) or "nothing is known of it"


def make(editor: Editor, change: Change, names: dict[str, int]) -> Change:
    """Make one step; ``names`` gets the locid of what it creates.

    Whether new fields can be meant is seen while the step is planned: what is put back may say what the service sent.
    """
    if change.kind is Kind.CREATE:
        assert change.site is not None
        assert change.fields is not None
        fields = checked_fields(change.fields, bare=not editor.has_service())
        with editor.sessions.transaction() as session:
            names[change.site] = session.create(fields, change.locid)
        return replace(change, locid=names[change.site])
    if change.kind is Kind.TIME_ZONE:  # which is kept with the names
        return change
    assert change.locid is not None
    match change.kind:
        case Kind.CLAIM | Kind.TAKE_BACK:  # the latter as it was found
            pass
        case Kind.UPDATE:
            assert change.fields is not None
            fields = checked_fields(change.fields, bare=not editor.has_service())
            with editor.sessions.transaction() as session:
                shown, local, _ = session.find(change.locid)
                session.add(Intent(what="update", values=values_of(fields)), local, shown)
        case Kind.DELETE:
            editor.delete(change.locid)
        case Kind.CLEAR_BLOCKS:
            editor.clear_blocks(change.locid)
        case Kind.ADD_BLOCK:
            assert change.block is not None
            editor.add_block(change.locid, change.block, wide=True)  # the plan has asked
        case Kind.REMOVE_BLOCK:
            assert change.block is not None
            editor.remove_block(change.locid, change.block)
        case _:
            assert_never(change.kind)
    return change


def in_order(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Steps in the order in which they can be made."""
    order = {kind: at for at, kind in enumerate(Kind)}
    return tuple(sorted(changes, key=lambda change: order[change.kind]))


def block_changes(
    site: str | None, locid: int | None, has: Iterable[IPBlock], wanted: Iterable[IPBlock]
) -> Iterator[Change]:
    """The steps that lead from blocks that a geolocation has to those that it shall have."""
    has, wanted = set(has), set(wanted)
    if len(has) > 1 and not has & wanted:
        yield Change(kind=Kind.CLEAR_BLOCKS, site=site, locid=locid)
    else:
        for block in sorted(has - wanted):
            yield Change(kind=Kind.REMOVE_BLOCK, site=site, locid=locid, block=block)
    for block in sorted(wanted - has):
        yield Change(kind=Kind.ADD_BLOCK, site=site, locid=locid, block=block)


def take_back(editor: Editor, wanted: Mapping[int, Content | None], names: Mapping[int, str]) -> list[Change]:
    """Take back, within a transaction or rehearsal, every edit that need not be sent if geolocations shall be so.

    ``wanted`` is by the number that lookups show, and so are ``names``, those of sites.
    """
    with editor.sessions.transaction() as session:
        locals_of = {shown: session.local(shown) for shown in wanted}
        shown_of = {local: shown for shown, local in locals_of.items()}
        rows = superfluous(session.pending(), {locals_of[shown]: content for shown, content in wanted.items()})
        if rows:
            session.take_back(rows)
    return [
        Change(kind=Kind.TAKE_BACK, site=names.get(shown_of[row.locid]), locid=shown_of[row.locid], edit=row)
        for row in rows
    ]


def custom_layer(editor: Editor) -> dict[int, Geolocation]:
    """The custom geolocations as lookups see them, by locid."""
    return {laid.place.locid: laid.place for laid in editor.custom()}
