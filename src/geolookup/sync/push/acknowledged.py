"""Hold a complete list against what the service acknowledged: what it has, how it stores it, and what is missing."""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from geolookup.model.types import Geolocation, IPBlock
from geolookup.settings.table import Settings
from geolookup.state.base.marks import Start, is_conclusive
from geolookup.state.edits.outbox.operations import (
    ClearBlocks,
    Create,
    Delete,
    RemoveBlock,
    SettingFields,
    Update,
)
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.payload import blocks_of
from geolookup.state.edits.outbox.row import PENDING_STATES, UNDER_WAY, OutboxRow, State
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.edits.places.likeness import Fields, Forms, like, may_be_stored
from geolookup.sync.push.matching import Candidates, is_new, match_creates, note_twins, shown, wanted
from geolookup.sync.push.reconcile import same_fields


@dataclass(slots=True, kw_only=True)
class Findings:
    """The findings of a list against the acknowledgements; each is said once.

    ``notices`` are what a person must look at, each with the ``edit``, the ``locid`` and the ``reason``; ``warnings``
    what a person should know. ``numbers_changed`` is true if a geolocation created here has another number than was
    believed, or none.
    """

    notices: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    numbers_changed: bool = False


def hold_against(
    directory: StateDirectory, settings: Settings, start: Start, places: Mapping[int, Geolocation]
) -> Findings:
    """Hold the list of that start against every acknowledged edit that no list was conclusive for yet.

    What it shows is noted, with what the service made of it. An edit for which it is conclusive is in it and in all
    later ones; what should be there then and is not is found: a create is looked for, or held, and of anything else a
    person is told.
    """
    findings = Findings()
    if not directory.edits.exists():
        return findings
    with directory.edits.transaction() as database:
        outbox = Outbox(database)
        rows = outbox.sent.acknowledged()
        if rows:
            _Account(outbox, settings, start, places, findings, rows).hold()
    return findings


class _Account:
    def __init__(
        self,
        outbox: Outbox,
        settings: Settings,
        start: Start,
        places: Mapping[int, Geolocation],
        findings: Findings,
        rows: list[OutboxRow],
    ) -> None:
        self._outbox = outbox
        self._settle_s = settings.settle_s
        self._start = start
        self._places = places
        self._findings = findings
        self._rows = rows
        self._aliases = outbox.aliases()
        self._forms = Forms(outbox.sent.stored_forms())
        pending = outbox.rows(*PENDING_STATES)
        self._creates = [(row.locid, row.edit.fields) for row in [*rows, *pending] if isinstance(row.edit, Create)]
        self._edited_since = {row.locid for row in pending}
        #: What reached the service, or may have: an edit of unknown outcome, too.
        self._sent = [*rows, *(row for row in pending if row.attempts)]
        self._to_be_deleted = {row.locid for row in pending if isinstance(row.edit, Delete)}

    def hold(self) -> None:
        """Go through them, oldest first: what a later edit covers cannot be seen, and is not looked for.

        Creates go first: what became of the edits of one is read under the number that it really has.
        """
        created = self._hold_creates()
        for row, later in self._each():
            if isinstance(row.edit, Create):
                continue
            place = self._place_of(row)
            shown, conclusive = self._look_at(row, place, later)
            if conclusive and (shown or row.seen is not None):
                self._conclude(row)
            elif conclusive:
                self._tell_missing(row, place)
        # Last: what a create really made, though the service named something else, is not a twin of it.
        note_twins(self._outbox, created, self._places, self._forms)

    def _hold_creates(self) -> list[OutboxRow]:
        """The creates that the list shows; those that it does not show are looked for."""
        created, unfound = [], []
        for row, later in self._each():
            if not isinstance(row.edit, Create):
                continue
            place = self._place_of(row)
            if self._is_misnamed(row, place, later):
                self._find_create(row, place)
                continue
            shown, conclusive = self._look_at(row, place, later)
            if shown:
                created.append(row)
            if conclusive and (shown or row.seen is not None):
                self._conclude(row)
            elif conclusive:
                unfound.append((_doubt(row.edit.fields, place), row, place, later))
        # By now it is known how the service stored what this list is the first to show. Those whose number is surely
        # another's go first: they give it up, and one of the others may have made what is there.
        self._forms = Forms(self._outbox.sent.stored_forms())
        for _, row, place, later in sorted(unfound, key=lambda each: each[0]):
            if self._look_at(row, place, later)[0]:
                created.append(row)
                self._conclude(row)
            else:
                self._find_create(row, place)
        return created

    def _each(self) -> Iterator[tuple[OutboxRow, list[OutboxRow]]]:
        """Each edit, with the later ones of its geolocation."""
        for position, row in enumerate(self._rows):
            yield row, [other for other in self._rows[position + 1 :] if other.locid == row.locid]

    def _place_of(self, row: OutboxRow) -> Geolocation | None:
        return self._places.get(row.number or self._aliases.get(row.locid, row.locid))

    def _look_at(self, row: OutboxRow, place: Geolocation | None, later: list[OutboxRow]) -> tuple[bool, bool]:
        """Two answers: whether the list shows an edit, and whether it is conclusive for it."""
        assert row.acknowledged is not None
        conclusive = is_conclusive(self._start.mark, row.acknowledged, self._settle_s)
        shown = self._is_shown(row, place, later, conclusive=conclusive)
        if shown and row.seen is None:
            self._outbox.change(row.id, seen=self._start.mark.counter)
        return shown, conclusive

    def _conclude(self, row: OutboxRow) -> None:
        """The list and all later ones have the edit; and if it deleted something, what came before with it."""
        for other in self._rows:
            if other is row or (isinstance(row.edit, Delete) and other.locid == row.locid and other.id < row.id):
                self._outbox.change(other.id, concluded=self._start.mark.counter)

    def _is_shown(self, row: OutboxRow, place: Geolocation | None, later: list[OutboxRow], *, conclusive: bool) -> bool:
        """True if the list shows the edit, or that somebody changed it since, or a later edit of ours covers it."""
        if any(isinstance(other.edit, Delete) for other in later):
            return True
        if isinstance(row.edit, Delete):
            # What has the number may be another of ours, and like it.
            given_again = any(row.number == number for local, number in self._aliases.items() if local != row.locid)
            return place is None or given_again or _is_another(row, place)
        if isinstance(row.edit, Create) and place is None:
            return False
        if place is None:
            return True  # somebody deleted it
        if isinstance(row.edit, SettingFields):
            changed = [other.edit.fields for other in later if isinstance(other.edit, SettingFields)]
            if changed:
                # Of a create, the number may be wrong: then what is there is like neither.
                forms = [row.edit.fields, *changed]
                return not isinstance(row.edit, Create) or any(like(each, place.fields()) for each in forms)
            return self._shows_fields(row, row.edit, place, conclusive=conclusive)
        return self._shows_blocks(row, set(place.ipblocks), later)

    def _shows_fields(self, row: OutboxRow, edit: SettingFields, place: Geolocation, *, conclusive: bool) -> bool:
        found = place.fields()
        # Another name may be a colleague's: then an edit that waits must not be sent as if it had been made against it.
        renamed = isinstance(edit, Create) and row.locid not in self._edited_since
        if self._forms.same(edit.fields, found) or may_be_stored(edit.fields, found, renamed=renamed):
            before = (row.base or {}).get("fields")
            # What is as it was before is not there yet, or is how the service stores the edit: in the end, the latter.
            if before != found or edit.fields == found or conclusive:
                self._note_stored(row, edit, found)
                return True
        if isinstance(edit, Create):
            return False  # whoever changed it, or another's: `_find_create` says which
        if _is_half_there(edit.fields, (row.base or {})["fields"], found):
            self._note_stored(row, edit, found)
            return True
        return not self._forms.same((row.base or {})["fields"], found)  # else it is as it was before the edit

    def _note_stored(self, row: OutboxRow, edit: SettingFields, found: dict[str, Any]) -> None:
        if row.stored is not None:
            return
        self._outbox.change(row.id, stored=found)
        different = [name for name, value in edit.fields.items() if found[name] != value]
        dropped = [name for name in different if found[name] in ("", None)]
        if different:
            number = self._aliases.get(row.locid, row.locid)
            does = [f"does not keep {', '.join(dropped)}"] if dropped else []
            changed = [name for name in different if name not in dropped]
            does += [f"stores {', '.join(f'{name} as {found[name]!r}' for name in changed)}"] if changed else []
            self._findings.warnings.append(
                f"the service {' and '.join(does)} of geolocation {number}: it is not sent again unless it changes"
            )

    def _shows_blocks(self, row: OutboxRow, blocks: set[IPBlock], later: list[OutboxRow]) -> bool:
        freed = {block for other in later for block in blocks_freed(other)}
        taken = {other.edit.takes for other in later}
        added = row.edit.takes
        if added is not None:
            return added in blocks or added in freed or any(isinstance(other.edit, ClearBlocks) for other in later)
        if isinstance(row.edit, RemoveBlock):
            cleared = any(isinstance(other.edit, ClearBlocks) for other in later)
            is_back = cleared or not put_back(row) - blocks - freed
            return is_back and (row.edit.block not in blocks or row.edit.block in taken)
        return not blocks or bool(taken)  # all were taken away

    def _find_create(self, row: OutboxRow, place: Geolocation | None) -> None:
        """The number that the service answered with has nothing, or something unlike: it may have named a wrong one."""
        assert isinstance(row.edit, Create)
        ours = self._outbox.created_here() - {self._aliases.get(row.locid)}
        one, candidates = wanted(self._outbox, row), Candidates(list(self._places.values()), ours)
        match = match_creates([one], candidates, self._forms)[row.id]
        number = self._aliases.get(row.locid)
        if place is not None and (row.journal or {}).get("adopted") == number:
            self._conclude(row)  # a person said so, whatever it looks like by now
            return
        fields = row.edit.fields
        elsewhere = any(self._forms.same(fields, found.fields()) for found in match.found)
        changed = place is not None and like(fields, place.fields()) and not self._may_be_of_another_create(row, place)
        if changed and not elsewhere:
            self._conclude(row)  # somebody has changed it since
            return
        if place is None and not match.found and row.locid in self._to_be_deleted:
            # Gone, as it shall be. If no list ever showed it, the number may have been a wrong one: a create that is
            # given it one day is not to be taken for another's.
            self._outbox.release(row.locid)
            self._aliases.pop(row.locid, None)
            self._conclude(row)
            return
        self._findings.numbers_changed = True
        edited = ""
        # Of unknown outcome are those, too, that nothing under that number could take.
        sent = self._rows if place is None else self._sent
        if any(other.locid == row.locid and other.id > row.id for other in sent):
            edited = f"what was sent to {number} for it since may have changed something else"
        # If what is there is like it, ours may have been changed, and the equal one may be a colleague's.
        if match.what == "adopt" and not changed and not self._may_be_of_an_unknown_create(row, match.found[0]):
            self._outbox.assign(row.locid, match.found[0].locid)
            self._outbox.change(row.id, concluded=self._start.mark.counter)
            self._aliases[row.locid] = match.found[0].locid
            reason = f"the service answered with locid {number} to a create that made {match.found[0].locid}"
            if edited:
                self._notice(row, f"{reason}: {edited}")
            else:
                self._findings.warnings.append(reason)
            return
        gone = "is not there" if place is None else "is only like it" if changed else "is something else"
        # A person is shown what is not taken unasked, too: how the service stores a field may not have been seen yet.
        found = match.found or [each for each in candidates.of(one) if may_be_stored(fields, each.fields())]
        may_be = f" (it may be {', '.join(str(each.locid) for each in found)})" if found else ""
        reason = (
            f"the service answered that it made {number}, which {gone}{may_be}: `geolookup outbox adopt` if you know "
            "which it is, `retry` to send it again, or `drop`" + (f"; {edited}" if edited and place is not None else "")
        )
        self._outbox.release(row.locid)
        self._outbox.change(
            row.id,
            # The request is over: sent again, it is another one, and a service that knows the key would only repeat
            # its answer.
            key=str(uuid.uuid4()),
            state=State.HELD,
            acknowledged=None,
            acknowledged_at=None,
            problem=reason,
            journal={**(row.journal or {}), **shown([place, *found] if place and changed else found)},
        )
        self._notice(row, reason)

    def _is_misnamed(self, row: OutboxRow, place: Geolocation | None, later: list[OutboxRow]) -> bool:
        """True if a create was answered with a number that is another's.

        Alone, what is there could be how a service that drops fields stores this one. It is not if just what this one
        sent is there as well, under a number that nothing here was given; and no later list can be clearer than that.
        Of what another create here sent, it is not either if the other is the same as this service stores it.
        """
        if not isinstance(row.edit, Create) or place is None or self._forms.same(row.edit.fields, place.fields()):
            return False
        found = place.fields()
        if any(isinstance(other.edit, SettingFields) and self._forms.same(other.edit.fields, found) for other in later):
            return False  # we made it so
        fields, ours = row.edit.fields, self._outbox.created_here()
        others = [other for locid, other in self._places.items() if locid not in ours]
        if any(same_fields(other, fields) and is_new(other, self._outbox.baselines.of(row)) for other in others):
            return True
        same = self._forms.same
        return self._is_of_another_create(row, place) and any(same(fields, other.fields()) for other in others)

    def _is_of_another_create(self, row: OutboxRow, place: Geolocation) -> bool:
        """True if a geolocation is just what another create of ours sent: branches in one town are like each other."""
        found = place.fields()
        return any(locid != row.locid and self._forms.same(fields, found) for locid, fields in self._creates)

    def _may_be_of_another_create(self, row: OutboxRow, place: Geolocation) -> bool:
        """The same, of a service that has not shown yet how it stores what it is sent."""
        assert isinstance(row.edit, Create)
        if self._is_of_another_create(row, place):
            return True
        found = place.fields()
        return not may_be_stored(row.edit.fields, found) and any(
            locid != row.locid and may_be_stored(fields, found) for locid, fields in self._creates
        )

    def _may_be_of_an_unknown_create(self, row: OutboxRow, place: Geolocation) -> bool:
        """True if another create, whose outcome is unknown, may have made this: taken, that one would never end."""
        for other in self._outbox.rows(*UNDER_WAY):
            if isinstance(other.edit, Create) and other.id != row.id:
                one = wanted(self._outbox, other)
                fits = any(self._forms.same(sent, place.fields()) for sent in one.sent)
                if fits and Candidates([place], self._outbox.created_here()).of(one):
                    return True
        return False

    def _tell_missing(self, row: OutboxRow, place: Geolocation | None) -> None:
        self._outbox.change(row.id, concluded=self._start.mark.counter)
        if isinstance(row.edit, Update) and place is not None:
            found = place.fields()
            if may_be_stored(row.edit.fields, found, renamed=True):
                # Perhaps its own name for it: a person is told, and no program sends it again night after night.
                self._outbox.change(row.id, stored=found)
        missing = put_back(row) - set(place.ipblocks) if place is not None else set()
        if missing:
            reason = (
                f"the service acknowledged that it took back {', '.join(map(str, sorted(missing)))}, "
                f"and does not have it: {row.describe()}: add it again if it still matters"
            )
        else:
            reason = (
                f"the service acknowledged this, and does not have it: {row.describe()}: "
                "do it again if it still matters"
            )
        self._notice(row, reason)

    def _notice(self, row: OutboxRow, reason: str) -> None:
        number = row.number or self._aliases.get(row.locid, row.locid)
        self._findings.notices.append(self._outbox.notice(row, number, reason))


def _doubt(sent: Fields, place: Geolocation | None) -> int:
    """The doubt that a create made what has its number: unlike, only like, or nothing is there."""
    return 2 if place is None else 1 if like(sent, place.fields()) else 0


def _is_half_there(sent: Fields, before: Fields, found: Fields) -> bool:
    """True if a service took some of the fields that we sent, and has its own text as before in place of the others.

    An update is one write of all eight, so it was applied: that text is what the service makes of ours.
    """
    different = [name for name, value in sent.items() if found[name] != value]
    return (
        may_be_stored(sent, found, renamed=True)
        and all(found[name] == before[name] for name in different)
        and any(found[name] != before[name] for name in sent)
    )


def blocks_freed(row: OutboxRow) -> set[IPBlock]:
    """The blocks that an edit takes away, as far as it names them."""
    block = getattr(row.edit, "block", None)
    return {block} if row.edit.frees_blocks and block is not None else set()


def put_back(row: OutboxRow) -> set[IPBlock]:
    """The blocks that a removal, which deletes all, gave back to its geolocation."""
    journal = row.journal or {}
    return set(blocks_of(journal["restored"])) if isinstance(row.edit, RemoveBlock) and "restored" in journal else set()


def _is_another(row: OutboxRow, place: Geolocation) -> bool:
    """True if the number of something that we deleted has been given to something else."""
    return row.base is not None and is_another(row.base, place)


def is_another(base: Mapping[str, Any], place: Geolocation) -> bool:
    """True if a number belongs to something else by now: no block in common with what it had, and fields unlike."""
    return not set(blocks_of(base["blocks"])) & set(place.ipblocks) and not like(base["fields"], place.fields())
