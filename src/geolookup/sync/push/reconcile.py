"""The rules for an edit, given what the service has: without network or database."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, assert_never

from geolookup.model.types import PROVISIONAL_LOCID, Geolocation, IPBlock
from geolookup.state.edits.outbox.operations import (
    AddBlock,
    ClearBlocks,
    Create,
    Delete,
    RemoveBlock,
    ReplaceBlock,
    Update,
)
from geolookup.state.edits.outbox.payload import blocks_of, described, ends_of, geolocation
from geolookup.state.edits.outbox.row import PENDING_STATES, UNDER_WAY, OutboxRow, State
from geolookup.state.edits.places.likeness import Fields, Forms

_GONE = "the geolocation is gone from the service"

OnConflict: TypeAlias = Literal["hold", "mine", "theirs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision on an edit, and its reason.

    ``send`` it, it is ``done`` without sending, ``queue`` it again, ``hold`` it for a person, or ``drop`` it as told.
    ``theirs`` is what the service has if that is the reason, or what a person chose to overwrite.
    """

    what: Literal["send", "done", "queue", "hold", "drop"]
    reason: str
    theirs: dict[str, Any] | None = None


def waits_for(row: OutboxRow, pending: Iterable[OutboxRow]) -> OutboxRow | None:
    """The pending edit of another geolocation that must be over before this one may go out, or None."""
    others = [other for other in pending if other.locid != row.locid]
    if isinstance(row.edit, Create):
        # Of two equal ones under way, nobody could tell which is which.
        return next(
            (other for other in others if other.state in UNDER_WAY and other.edit == row.edit),
            None,
        )
    lost = next((other for other in others if _may_be_of(other, row)), None)
    if lost is not None:
        return lost
    taken = row.edit.takes
    if taken is None:
        return None
    return next((other for other in others if other.id < row.id and other.edit.frees(taken, other.base)), None)


def without_number(row: OutboxRow, others: Iterable[OutboxRow]) -> Decision:
    """Decide on an edit of what has no number at the service: it waits, or is held since nothing here will create that.

    ``others`` are all edits of the same geolocation, finished ones too.
    """
    others = list(others)
    if any(isinstance(other.edit, Create) and other.state in PENDING_STATES for other in others):
        return Decision(what="queue", reason=f"waits for geolocation {row.locid} to have a number of the service's")
    made = any(isinstance(other.edit, Create) and other.state == State.DONE for other in others)
    if made and isinstance(row.edit, Delete):
        return Decision(what="done", reason="it is gone already")
    after = f"`geolookup outbox drop {row.id}` gives this edit up; if the place shall be there, create it anew"
    deleted = [other for other in others if isinstance(other.edit, Delete) and other.state == State.DONE]
    if deleted:
        # Made while nobody knew that the place of this edit is the one that was deleted under another number.
        why = f"edit {deleted[-1].id} deleted its geolocation ({deleted[-1].number} at the service): nothing was sent"
        return Decision(what="hold", reason=f"{why}; {after}")
    if made:
        why = f"the service does not have geolocation {row.locid} under the number that it answered with"
        return Decision(what="hold", reason=f"{why}: nothing was sent; {after}")
    damage = "edits.db may have been changed by hand, or damaged"
    return Decision(what="hold", reason=f"nothing here creates geolocation {row.locid} any more ({damage}): {after}")


def _may_be_of(create: OutboxRow, row: OutboxRow) -> bool:
    """True if an edit may be of what a lost create made, which must stay recognisable; a pull brought its number."""
    return (
        isinstance(create.edit, Create)
        and create.state in UNDER_WAY
        and row.locid > PROVISIONAL_LOCID
        and row.base is not None
        and not row.base["blocks"]
        and row.base["fields"] == create.edit.fields
    )


def addition_to_merge(
    row: OutboxRow, theirs: Geolocation | None, pending: Iterable[OutboxRow]
) -> tuple[OutboxRow, ReplaceBlock] | None:
    """The addition right behind a removal, and the one replace that does both without a gap; None if none can."""
    if theirs is None or not isinstance(row.edit, RemoveBlock) or row.attempts or row.journal is not None:
        return None
    pending = list(pending)
    following = next((other for other in pending if other.locid == row.locid and other.id > row.id), None)
    if (
        following is None
        or not isinstance(following.edit, AddBlock)
        or following.state != State.QUEUED
        or following.attempts
        or waits_for(following, pending) is not None
    ):
        return None
    replacing = ReplaceBlock(block=row.edit.block, new_block=following.edit.block)
    if replacing.block not in theirs.ipblocks or replacing.new_block in theirs.ipblocks:
        return None
    return following, replacing


def same_fields(place: Geolocation, fields: Mapping[str, Any]) -> bool:
    """True if a geolocation is equal in all eight fields."""
    return place.fields() == dict(fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """The forms that fields of ours may have at the service.

    ``stored`` are the pairs of what was sent for this geolocation and what the service was seen to make of it.
    ``forms`` say how it stores what it is sent in general.
    """

    stored: tuple[tuple[Fields, Fields], ...] = ()
    forms: Forms = field(default_factory=lambda: Forms(()))

    def with_stored(self, sent: Fields, stored: Fields) -> "Own":
        """The same, and what the service was just seen to make of something."""
        return replace(self, stored=(*self.stored, (sent, stored)))

    def are(self, place: Geolocation, fields: Fields) -> bool:
        """True if a geolocation has these fields, or what the service made of them when they were sent."""
        found = place.fields()
        return same_fields(place, fields) or any(
            dict(stored) == found and dict(fields) in (dict(sent), dict(stored)) for sent, stored in self.stored
        )

    def may_be(self, place: Geolocation, fields: Fields) -> bool:
        """The same, of a write that no list has shown yet."""
        return self.are(place, fields) or self.forms.same(fields, place.fields())


NOTHING_SEEN = Own()


def before_sending(
    row: OutboxRow, theirs: Geolocation | None, *, on_conflict: OnConflict = "hold", own: Own = NOTHING_SEEN
) -> Decision:
    """Decide whether an edit of something that the service may have changed meanwhile goes out.

    ``theirs`` is the geolocation as the service has it now, None if it is gone. Only the kinds of
    `operations.Overwriting` need that look; others go out in any case.
    """
    base = row.base or {"fields": {}, "blocks": []}
    match row.edit:
        case Create():
            return Decision(what="send", reason="new here")
        case AddBlock() | ReplaceBlock() | RemoveBlock():
            return Decision(what="send", reason="edited here")
        case Delete():
            if theirs is None:
                return Decision(what="done", reason="it is gone already")
            unchanged = own.are(theirs, base["fields"]) and _same_blocks(theirs, base)
            return _unless_conflict(unchanged, theirs, on_conflict)
        case ClearBlocks():
            if theirs is None or not theirs.ipblocks:
                return Decision(what="done", reason="it has no blocks")
            return _unless_conflict(_same_blocks(theirs, base), theirs, on_conflict)
        case Update(fields=fields):
            if theirs is None:
                return Decision(what="hold", reason=_GONE)
            if own.are(theirs, fields):
                return Decision(what="done", reason="the service has these values already")
            return _unless_conflict(own.are(theirs, base["fields"]), theirs, on_conflict)
        case _:
            assert_never(row.edit)


def _same_blocks(theirs: Geolocation, base: Mapping[str, Any]) -> bool:
    return set(theirs.ipblocks) == set(blocks_of(base["blocks"]))


def _unless_conflict(unchanged: bool, theirs: Geolocation, on_conflict: OnConflict) -> Decision:
    if unchanged:
        return Decision(what="send", reason="the service has what the edit was made against")
    if on_conflict == "mine":
        return Decision(what="send", reason="the service has changed it, and mine was chosen", theirs=described(theirs))
    if on_conflict == "theirs":
        return Decision(
            what="drop", reason="the service has changed it, and theirs was chosen", theirs=described(theirs)
        )
    return Decision(what="hold", reason="the service has changed it since the edit was made", theirs=described(theirs))


def after_unknown(row: OutboxRow, theirs: Geolocation | None, *, own: Own = NOTHING_SEEN) -> Decision:
    """Decide on any other edit whose outcome is unknown, by what the service has after it had settled."""
    match row.edit, theirs:
        case Create(), _:
            raise AssertionError("`matching` decides on a create")
        case Delete(), None:
            return Decision(what="done", reason="it is gone")
        case Delete(), _:
            return Decision(what="queue", reason="it is still there")
        case ClearBlocks(), None:
            return Decision(what="done", reason="the geolocation is gone, and its blocks with it")
        case _, None:
            return Decision(what="hold", reason=_GONE)
        case (Update() | AddBlock() | ReplaceBlock() | RemoveBlock() | ClearBlocks()) as edit, Geolocation() as place:
            return _after_change(edit, place, (row.base or {}).get("fields", {}), own)
    raise AssertionError(row.edit)


def _after_change(
    edit: Update | AddBlock | ReplaceBlock | RemoveBlock | ClearBlocks, theirs: Geolocation, before: Fields, own: Own
) -> Decision:
    blocks = set(theirs.ipblocks)
    match edit:
        case Update(fields=fields):
            if own.may_be(theirs, fields) and not own.are(theirs, before):
                return Decision(what="done", reason="the service has these values")
            return Decision(what="queue", reason="the service does not have these values")
        case AddBlock(block=block):
            if block in blocks:
                return Decision(what="done", reason="it is there")
            return Decision(what="queue", reason="it is not there")
        case ReplaceBlock():
            return after_replace(edit, theirs)
        case ClearBlocks():
            if blocks:
                return Decision(what="queue", reason="it still has blocks")
            return Decision(what="done", reason="it has none")
        case RemoveBlock():
            return Decision(what="queue", reason="removing goes on from what the service has")
        case _:
            assert_never(edit)


def after_replace(edit: ReplaceBlock, theirs: Geolocation) -> Decision:
    """Decide on a replaced block, by the blocks that the service has."""
    old, new, blocks = edit.block, edit.new_block, set(theirs.ipblocks)
    if new in blocks and old not in blocks:
        return Decision(what="done", reason="the new block is there in place of the old")
    if old == new and new in blocks:
        return Decision(what="done", reason="it is there")
    if old in blocks and new not in blocks:
        return Decision(what="queue", reason="the old block is still there")
    return Decision(
        what="hold",
        reason="neither the old block alone nor the new one alone is there",
        theirs=described(theirs),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """The next step of removing one block: ``done``, ``hold``, ``clear`` all blocks, or ``restore`` one.

    ``journal`` is what must be durable before the step is taken.
    """

    what: Literal["done", "hold", "clear", "restore"]
    reason: str
    journal: dict[str, Any]
    block: IPBlock | None = None


def next_removal_step(row: OutboxRow, theirs: Geolocation | None) -> Removal:
    """The next step of removing one block, by what the service has: as its list says, or `as_cleared` knows.

    The journal holds ``before`` (what was when deleting began), ``after`` (what shall be) and ``phase``. Until deleting
    began, both follow what the service has. ``restored`` is there once the service acknowledged that all blocks were
    deleted, and has those that it took back since. ``strangers`` are blocks of somebody else's that stand in the way,
    ``accepted`` those of them that a person let be, ``refused`` those of our own that the service did not take back.
    ``lost`` are blocks that are missing beside the one to be removed: an earlier removal may have been cut short.
    """
    journal = dict(row.journal or {})
    accepted = set(blocks_of(journal.get("accepted", ())))
    if theirs is None:
        return Removal(what="hold", reason=_GONE, journal=journal)
    blocks = set(theirs.ipblocks)
    if journal.get("phase") != "deleting":
        assert isinstance(row.edit, RemoveBlock)
        block = row.edit.block
        expected = set(blocks_of(row.base["blocks"] if row.base else []))
        if block not in blocks:
            if lost := expected - blocks - {block}:
                return _lost(journal, lost)
            return Removal(what="done", reason="it is not there", journal=journal)
        if strangers := blocks - expected - accepted:
            return _strangers(journal, strangers, "nothing was deleted")
        fresh = {"before": _ends(blocks), "after": _ends(blocks - {block}), "phase": "deleting"}
        return Removal(what="clear", reason="the service can only delete all blocks", journal={**journal, **fresh})
    before, after = set(blocks_of(journal["before"])), set(blocks_of(journal["after"])) | accepted
    if strangers := blocks - before - after:
        return _strangers(journal, strangers, "nothing of it was deleted")
    if blocks - after:
        # Those that a person let be are put back like our own, if they are still there.
        kept = {"after": _ends(set(blocks_of(journal["after"])) | (accepted & blocks)), "accepted": _ends(accepted)}
        return Removal(what="clear", reason="what must go is still there", journal={**journal, **kept})
    refused = set(blocks_of(journal.get("refused", ())))
    missing = sorted(set(blocks_of(journal["after"])) - blocks)
    if not missing:
        return Removal(what="done", reason="the service has what it should have", journal=journal)
    if not set(missing) - refused:
        return Removal(what="hold", reason=f"the service does not take back {_named(refused)}", journal=journal)
    block = next(each for each in missing if each not in refused)
    return Removal(what="restore", reason=f"{block} must come back", journal=journal, block=block)


def as_cleared(row: OutboxRow, locid: int) -> Geolocation | None:
    """A geolocation that the service acknowledged to be without blocks, as it is by its answers since.

    None unless a removal has come so far. A list may be older than those answers: by one, blocks would come back that
    shall go, or what is missing would be taken to be there.
    """
    journal = row.journal or {}
    if "restored" not in journal:
        return None
    return geolocation(locid, (row.base or {})["fields"], blocks_of(journal["restored"]))


def _lost(journal: dict[str, Any], lost: set[IPBlock]) -> Removal:
    return Removal(
        what="hold",
        reason=f"it is not there, and {_named(lost)} is missing too: an earlier removal may have been cut short; "
        "`geolookup outbox retry` puts back what is missing",
        journal={**journal, "lost": _ends(lost)},
    )


def _strangers(journal: dict[str, Any], strangers: set[IPBlock], outcome: str) -> Removal:
    return Removal(
        what="hold",
        reason=f"{_named(strangers)} is somebody else's: {outcome}; `geolookup outbox retry` lets it be, and goes on",
        journal={**journal, "strangers": _ends(strangers)},
    )


def _ends(blocks: Iterable[IPBlock]) -> list[list[str]]:
    return [ends_of(block) for block in sorted(blocks)]


def _named(blocks: set[IPBlock]) -> str:
    return ", ".join(str(block) for block in sorted(blocks)[:5])
