"""Undoing edits: unsent ones are taken back, and for those that were sent the reverse is made, as new edits.

A step is the work of one command, an apply with all its edits. Anything that was changed since stays as it is, and is
named.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from geolookup.model.errors import EditError
from geolookup.model.types import Geolocation
from geolookup.sites.changes import Change, Kind, block_changes, custom_layer, in_order, make, take_back
from geolookup.sites.site import block_text
from geolookup.sites.summary import Elsewhere, Owner
from geolookup.state.editor import Editor
from geolookup.state.edits import naming
from geolookup.state.edits.outbox.payload import content_of, values_of
from geolookup.state.edits.outbox.row import PERSON_STATES, OutboxRow, State
from geolookup.state.edits.places.place import Content
from geolookup.state.edits.session import EditSession
from geolookup.state.edits.steps import Named, Step

_MOST_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """The steps that undo in their order, and ``notes`` on everything that stays as it is.

    ``put_back`` says of names of sites and of places of VRFs, which no edit tells, what they are again; ``vrfs`` counts
    the latter. ``edits`` and ``steps`` are those that were to be undone; both are empty if there is nothing.
    ``elsewhere`` are the addresses that blocks do not get as they come back. ``places`` are the geolocations that
    differ by their locid, each before it and after it, None where it is not there; ``names`` those of their sites.
    """

    changes: tuple[Change, ...]
    put_back: tuple[str, ...]
    notes: tuple[str, ...]
    edits: tuple[int, ...]
    steps: tuple[Step, ...]
    elsewhere: Elsewhere
    vrfs: int
    places: Mapping[int, tuple[Geolocation | None, Geolocation | None]]
    names: Mapping[int, str]


@dataclass(slots=True)
class _Target:
    """The custom layer as it shall be, by the number that lookups show or showed."""

    layer: dict[int, Content | None]
    stored: Mapping[int, tuple[dict[str, Any], dict[str, Any]]]
    names: Mapping[int, str]
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        layer: Mapping[int, Geolocation],
        backwards: Iterable[tuple[int, Content | None, Content | None]],
        editor: Editor,
        names: Mapping[int, str],
    ) -> "_Target":
        """A layer without these changes: of which number, what it was before, and after."""
        target = cls({locid: content_of(place) for locid, place in layer.items()}, editor.stored(), names)
        for locid, was, became in backwards:
            target.reverse(locid, was, became)
        return target

    def reverse(self, locid: int, before: Content | None, after: Content | None) -> None:
        """Take one change out of the layer, as far as it is still there."""
        now = self.layer.get(locid)
        who = self.who(locid)
        if before is None or after is None:
            if (now is None) == (after is None):
                self.layer[locid] = before
            return
        if now is None:
            self.notes.append(f"{who} is gone since: what was changed of it stays as it is")
            return
        fields = dict(now.fields)
        sent, kept = self.stored.get(locid, ({}, {}))
        for name, was in before.fields.items():
            became = after.fields[name]
            if was == became or fields[name] == was:
                continue
            if fields[name] == became or (sent.get(name) == became and kept.get(name) == fields[name]):
                fields[name] = was
            else:
                self.notes.append(f"{name} of {who} was changed again since: it stays {fields[name]!r}")
        added, removed = after.blocks - before.blocks, before.blocks - after.blocks
        self.layer[locid] = Content(values_of(fields), (now.blocks - added) | removed)

    def is_changed(self, locid: int, made: Content, now: Content) -> bool:
        """True if what we made of a geolocation is not what it is now, in the words of the service."""
        sent, kept = self.stored.get(locid, ({}, {}))
        return made.blocks != now.blocks or any(
            value != made.fields[name] and (sent.get(name), kept.get(name)) != (made.fields[name], value)
            for name, value in now.fields.items()
        )

    def who(self, locid: int) -> str:
        """The name of a geolocation in messages."""
        name = self.names.get(locid)
        return f"geolocation {locid}" if name is None else f"{name} ({locid})"

    def require_blocks_free(self, before: Mapping[int, Geolocation]) -> None:
        """Refuse to give one block to two geolocations; what two have already, ``before``, is not for an undo to end.

        :raises EditError: names the blocks and who has them by now
        """
        owners: dict[Any, list[int]] = {}
        for locid, content in self.layer.items():
            for block in () if content is None else content.blocks:
                owners.setdefault(block, []).append(locid)
        twice = [
            f"{block_text(block)} belongs to {' and to '.join(map(self.who, locids))}"
            for block, locids in sorted(owners.items())
            if len(locids) > 1 and not all(each in before and block in before[each].ipblocks for each in locids)
        ]
        if twice:
            more = [f"and {len(twice) - _MOST_NAMED} more"] if len(twice) > _MOST_NAMED else []
            listed = "; ".join([*twice[:_MOST_NAMED], *more])
            raise EditError(f"some networks would belong to two: {listed}. Remove them at one; nothing was changed")


def plan_undo(
    editor: Editor, *, edits: Sequence[int] = (), last: int = 1, step: int | None = None, site: int | None = None
) -> Undone:
    """The steps that `undo` would make; nothing is changed.

    :raises EditError: as `undo` does
    """
    with editor.rehearsal():
        return undo(editor, edits=edits, last=last, step=step, site=site)


def undo(
    editor: Editor, *, edits: Sequence[int] = (), last: int = 1, step: int | None = None, site: int | None = None
) -> Undone:
    """Undo these edits of the outbox, or if none is given the ``last`` steps; all in one transaction, or nothing.

    ``step`` is the number of one step instead, also one that undid another, and ``site`` limits it to what it did to
    that geolocation.

    :raises EditError: if there is no such edit or step, it was dropped, waits for a person or is undone, or a block
        that would come back belongs to another geolocation by now
    """
    editor.sessions.back_up()
    with editor.sessions.transaction() as session:
        steps, whole = [] if edits or step is not None else session.steps.newest(last), True
        if step is not None:
            place = None if site is None else session.steps.now(session.local(site))
            found_step, whole = session.steps.of(step, place)
            steps = [found_step]
        rows = [_undoable(session.outbox.row(number)) for number in sorted(set(edits), reverse=True)]
        now = session.steps.now
        changes = [(now(row.locid), row.intent.base, row.intent.applied(row.intent.base)) for row in rows]
        lines = (line for each in steps for line in reversed(each.changes))
        changes += [(line.place, line.before, line.after) for line in lines]
        dropped = _drop_lost_deletions(editor, session, [place for place, _, became in changes if became is None])
        before = custom_layer(editor)
        names = {locid: name for name, locid in editor.sites().items()}
        backwards, deleted = [], set()
        for place, was, became in changes:
            # What its newest deletion hides may have been changed by others; what an earlier one hid is as it was then.
            hidden = session.undeleted(place) if became is None and place not in deleted else None
            deleted |= {place} if became is None else set()
            backwards.append((session.shown(place), hidden or was, became))
        target = _Target.of(before, backwards, editor, names)
        target.require_blocks_free(before)
        touched = dict.fromkeys(locid for locid, _, _ in reversed(backwards))
        overtaken = {locid for locid in touched if locid in before and session.overtaken(locid) is not None}
        found = take_back(editor, {locid: target.layer.get(locid) for locid in touched}, names)
        # Below what was taken back, others have changed the same, or deleted it: that stays.
        below = custom_layer(editor)
        overtaken |= {locid for locid in touched if locid in before and locid not in below and target.layer.get(locid)}
        kept = {locid: place for locid, place in below.items() if locid in overtaken}
        again = _Target.of(kept, [each for each in backwards if each[0] in overtaken], editor, names)
        target.layer |= dict.fromkeys(overtaken) | again.layer
        target.notes += again.notes
        made = _make(editor, session, [*dropped, *found, *_changes(editor, target, touched, session.forgotten())])
        put_back = _put_names_back(session, steps, target.notes)
        of_vrfs = _put_vrfs_back(session, steps, target.notes)
        if steps:
            session.steps.undone([each.number for each in steps], by=session.outbox.step, whole=whole)
        after = custom_layer(editor)
        gone = {session.local(locid): (locid, content_of(before[locid])) for locid in {*before} - {*after}}
        target.notes += _going(session, steps, gone, target)
        was_named, names = names, {locid: name for name, locid in editor.sites().items()}
    return Undone(
        changes=made,
        put_back=(*put_back, *of_vrfs),
        vrfs=len(of_vrfs),
        notes=tuple(target.notes),
        edits=tuple(row.id for row in rows),
        steps=tuple(steps),
        elsewhere=Elsewhere.of(
            [Owner(locid=locid, site=names.get(locid), blocks=place.ipblocks) for locid, place in after.items()],
            {
                block
                for locid, place in after.items()
                for block in place.ipblocks
                if locid not in before or block not in before[locid].ipblocks
            },
        ),
        places={
            locid: (before.get(locid), after.get(locid))
            for locid in before | after
            if before.get(locid) != after.get(locid)
        },
        names={**was_named, **names},
    )


def _drop_lost_deletions(editor: Editor, session: EditSession, places: Iterable[int]) -> list[Change]:
    """Give up the deletions of places that the service lost: it has these again, and a create would be a twin."""
    found = []
    for kept in session.ledger.read("id IN (SELECT value FROM json_each(?))", (json.dumps([*places]),)).values():
        rows = [row for row in kept.pending if row.intent.what == "delete" and row.state == State.HELD]
        if rows and kept.hold is not None and kept.hold.reason == "not shown":
            editor.drop(rows[-1].id)
            found.append(Change(kind=Kind.TAKE_BACK, site=None, locid=session.shown(kept.place.id), edit=rows[-1]))
    return found


def _going(
    session: EditSession, steps: Sequence[Step], gone: Mapping[int, tuple[int, Content]], target: _Target
) -> list[str]:
    """Who changed since the steps what an undo deletes: ``gone`` has its number and what it was, by its place."""
    newest = max((line.number for step in steps for line in step.changes), default=0)
    notes = []
    for place, (locid, was) in gone.items() if newest else ():
        later = session.steps.lines(after=newest, place=place)
        own = [line for step in steps for line in step.changes if line.place == place]
        made = [line.after for line in (*own, *later) if line.after is not None]  # or an edit was dropped
        who = [line.who for line in later]
        if made and all(target.is_changed(locid, each, was) for each in made):
            who.append("somebody at the service")
        if who:
            notes.append(
                f"{target.who(locid)} goes with what was changed of it since, by {', '.join(dict.fromkeys(who))}"
            )
    return notes


def _put_vrfs_back(session: EditSession, steps: Sequence[Step], notes: list[str]) -> list[str]:
    """Make the places of VRFs what they were before the steps; ``notes`` get those that changed since, which stay."""
    put_back = []
    for change in (change for step in steps for change in reversed(step.vrfs)):
        place = session.vrfs.places(change.vrf, change.name).get(change.name)
        of = f"{change.name} of the VRF {change.vrf}"
        if (None if place is None else content_of(place)) != change.after:
            notes.append(f"{of} changed since: it stays as it is")
        elif change.before is not None:
            session.vrfs.put(change.vrf, change.name, change.before, time_zone=change.was_zone)
            put_back.append(f"{of} is as it was before")
        elif place is not None:
            session.vrfs.put(change.vrf, change.name, None)
            put_back.append(f"{of} is gone again")
    return put_back


def _undoable(row: OutboxRow) -> OutboxRow:
    if row.state == State.DROPPED:
        raise EditError(f"edit {row.id} was dropped: there is nothing to undo")
    if row.state in PERSON_STATES:
        raise EditError(f"edit {row.id} is {row.state}: `geolookup outbox drop {row.id}` gives it up")
    return row


def _changes(editor: Editor, target: _Target, touched: Iterable[int], forgotten: set[int]) -> list[Change]:
    """The steps from the layer as it is to what it shall be."""
    layer = custom_layer(editor)
    found: list[Change] = []
    for locid in touched:
        place, content, site = layer.get(locid), target.layer.get(locid), target.names.get(locid)
        if content is None:
            if place is not None:
                found.append(Change(kind=Kind.DELETE, site=site, locid=locid, place=place))
            continue
        blocks: Iterable[Any] = content.blocks
        if place is None:
            # By its number, which is not used for anything else in here, so that its blocks find it.
            name, number = site or f"geolocation {locid}", locid if locid in forgotten else None
            found.append(Change(kind=Kind.CREATE, site=name, locid=number, fields=content.fields, former=locid))
            found += block_changes(name, None, (), blocks)
            continue
        if place.fields() != content.fields:
            fields = content.fields
            found.append(Change(kind=Kind.UPDATE, site=site, locid=locid, fields=fields, before=place.fields()))
        found += block_changes(site, locid, place.ipblocks, blocks)
    return found


def _make(editor: Editor, session: EditSession, changes: list[Change]) -> tuple[Change, ...]:
    """Make the steps: these with the new numbers."""
    names: dict[str, int] = {}
    made = []
    for change in in_order(changes):
        known = change.kind is Kind.CREATE or change.locid is not None
        done = make(editor, change if known else replace(change, locid=names[change.site or ""]), names)
        former = None if done.former is None else session.local(done.former)
        if former is not None and done.locid not in (None, former):
            session.ledger.created_again(former, done.locid)
        made.append(done)
    return tuple(made)


def _put_names_back(session: EditSession, steps: Sequence[Step], notes: list[str]) -> list[str]:
    """Give sites the names back that they had before the steps; ``notes`` get those whose name another site has now.

    :returns: what sites that are there all the while are called again
    """
    before = session.names.all()
    names = dict(before)
    for step in steps:
        for name, (was, became) in step.names.items():
            if names.get(name) == became:
                names.pop(name, None)
                if was is not None:
                    names[name] = was
    called = {named.locid for named in names.values()}
    for former, was in ((former, was) for step in steps for former, (was, _) in step.names.items()):
        for name, named in before.items():
            if was is not None and named.locid == was.locid and named.locid not in called:
                names[name] = named
                notes.append(f"another site is named {former} by now: {name} keeps its name")
    names = {name: Named(session.steps.now(named.locid), named.time_zone) for name, named in names.items()}
    if names != before:
        known = {
            name: named
            for name, named in names.items()
            if session.shown(named.locid) in session.layer or session.ledger.has("id = ?", (named.locid,))
        }
        moved = {named.locid for _, named in before.items() ^ known.items()}
        naming.name_sites(session, known, file="undo", about=moved.pop() if len(moved) == 1 else None)
    again = {named.locid: (name, named.time_zone) for name, named in names.items()}
    told = []
    for name, (local, zone) in before.items():
        if session.shown(local) not in session.layer or again.get(local) == (name, zone):
            continue
        is_called, is_in = again.get(local, ("", zone))
        if is_called != name:
            told.append(f"{name} is named {is_called} again" if is_called else f"{name} has no name again")
        if is_in != zone:
            told.append(f"{is_called} has {f'the time zone {is_in}' if is_in else 'no time zone'} again")
    return told
