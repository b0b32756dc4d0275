"""Hold a complete list against every place of this machine: what it shows is over, and a person is told of the rest."""

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import Geolocation
from geolookup.state.base.marks import Start
from geolookup.state.edits.outbox.kept import NAMED, OPEN, Kept
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.outbox.payload import content_of
from geolookup.state.edits.outbox.row import PERSON_STATES, OutboxRow, State
from geolookup.state.edits.places.account import account_of, blocks_in
from geolookup.state.edits.places.concluding import Concluded, concluded
from geolookup.state.edits.places.looking import is_another, is_familiar, recognised
from geolookup.state.edits.places.place import Content, Place, in_order
from geolookup.state.edits.places.reconcile import Hold, taken_along
from geolookup.state.generations.cache import digest
from geolookup.sync.push.storing import learn_all, note_exact, stored_of, words_of_forms
from geolookup.sync.push.telling import Names, why_held, why_missing, words_of

_MOST_NAMED = 5


@dataclass(slots=True, kw_only=True)
class Findings:
    """The findings of a list; each is said once.

    ``held`` are edits that wait for a decision since this list, ``over`` those that it was the first to show.
    ``warnings`` are what a person should know, ``told`` notices of what a person must look at. ``undecided`` are ids of
    places that may have another number, which a later list tells.
    """

    held: list[OutboxRow] = field(default_factory=list)
    over: list[tuple[OutboxRow, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    told: list[dict[str, Any]] = field(default_factory=list)
    undecided: Collection[int] = ()


def conclude(
    ledger: Ledger,
    start: Start,
    listed: Mapping[int, Geolocation],
    settle_s: float,
    *,
    asked_freely: bool = True,
    moved: bool = False,
) -> Findings:
    """Hold the list of that start against every place; see `places.concluding`.

    ``asked_freely`` is false of an answer that the list is as it was: it proves nothing about what was sent. ``moved``
    is true of a service at another address than what is published came from.
    """
    known = ledger.read(f"{OPEN} OR number IS NOT NULL OR {NAMED}")
    over = [*ledger.over()] if asked_freely else []
    if not (known or over or ledger.watched()):
        return Findings()
    conclusion = _Conclusion(ledger, listed, known)
    conclusion.hold_against(start, settle_s, over, asked_freely=asked_freely, moved=moved)
    return conclusion.findings


class _Conclusion:
    """One list held against the places of a ledger."""

    def __init__(self, ledger: Ledger, listed: Mapping[int, Geolocation], known: dict[int, Kept]) -> None:
        self.findings = Findings()
        self._ledger = ledger
        self._outbox = ledger.outbox
        self._known = known
        self._listed = listed
        self._contents = {number: content_of(place) for number, place in listed.items()}
        self._forms = ledger.forms()

    def hold_against(self, start: Start, settle_s: float, over: list[Kept], *, asked_freely: bool, moved: bool) -> None:
        """Write what the list says of each place, and collect what is to be told."""
        ledger, known, contents = self._ledger, self._known, self._contents
        baselines = self._outbox.baselines
        places: list[Place] = []
        waiting: list[Place] = []
        for kept in known.values():
            place = kept.as_of(start.mark, settle_s)
            if kept.last is not None and kept.gone is not None:  # a site that was gone: it may be there again
                place = replace(place, lost=kept.gone, baseline=kept.last)
            new = place.number is None and place.lost is None and not place.requests
            is_concluded = new or (asked_freely and all(request.settled for request in place.requests))
            is_concluded = is_concluded and kept.seen <= start.mark.counter  # else a newer list has spoken of it
            (places if is_concluded else waiting).append(place)
        learned = learn_all(ledger, [known[place.id] for place in places], contents, self._forms, self._is_new)
        for place in waiting:
            if place.number in contents:
                note_exact(ledger, known[place.id], contents[place.number])
        numbers = {id_: kept.before or kept.made for id_, kept in known.items() if kept.before or kept.made}
        found = concluded(
            places,
            contents,
            before={id_: baselines.of(number) for id_, number in numbers.items()},
            denied={id_: baselines.denied(number) for id_, number in numbers.items()},
            forms=self._forms,
            mark=self._mark,
            waiting=waiting,
            was={id_: kept.last for id_, kept in known.items() if kept.last is not None and kept.gone is None},
            moved=moved,
        )
        self.findings.undecided = found.undecided
        self._names = Names(ledger, found.places)
        for place in found.places:
            self._tell_misnamed(known[place.id], place)
        for place in found.places:
            self._write(known[place.id], place, found.held.get(place.id), start.mark.counter)
            self._tell_back(known[place.id], place)
        self._warn_of_reverts(found.places)
        self._warn_of_moved(found.places)
        self._warn_of_hidden(found.hidden)
        self._note_twins(found)
        if asked_freely:
            self._tell_late()
        self._warn_of_shared(found.places, but=self._tell_taken())
        self._tell_ended([known[gone] for gone in found.ended])
        self.findings.warnings += words_of_forms(learned, self._names)
        if asked_freely:
            asked = {number for hold in found.held.values() for number in hold.numbers}
            asked |= {kept.gone for kept in over if kept.gone in contents and found.is_pending(kept.gone)}
            self._tell_again([kept for kept in over if kept.gone not in asked])

    def _mark(self, number: int) -> str:
        return digest(self._listed[number])  # when it is asked for: of thousands, few are

    def _is_new(self, kept: Kept, number: int) -> bool:
        """True if the service did not have this before the create of a place."""
        return self._outbox.baselines.of(kept.before or kept.made).get(number) != self._mark(number)

    # Writing

    def _write(self, kept: Kept, place: Place, hold: Hold | None, counter: int) -> None:
        if hold is not None and hold.reason == "conflict" and kept.hold is None and kept.pending:
            # A push looks again, and decides; but it would find nothing to do if somebody has taken all blocks.
            hold = hold if hold.theirs is not None and taken_along(kept.place, hold.theirs) else None
        is_new = place.number is None and all(row.never_sent for row in kept.rows.values())
        if hold is None and kept.hold is None and place == kept.place and (is_new or not kept.rows):
            return
        problem = None if hold is None else why_held(replace(kept, place=place), hold, self._names)
        after = self._ledger.save(kept, place, hold=hold, problem=problem, counter=counter)
        was = {number: (row.state, row.problem) for number, row in kept.rows.items()}
        rows = [row for row in after.rows.values() if row.state in PERSON_STATES]
        self.findings.held += [row for row in rows if (row.state, row.problem) != was[row.id]][:1]
        goes_on = [row for row in after.rows.values() if row.state == State.QUEUED and was[row.id][0] in PERSON_STATES]
        self.findings.warnings += [
            f"{self._names.describe(row)} (edit {row.id}) waits for you no more: the service has changed since it was "
            "held, so it is sent again"
            for row in (goes_on if hold is None else ())
        ]
        for number in kept.rows.keys() - after.rows.keys():
            self._end(kept, place, kept.rows[number])

    def _end(self, kept: Kept, place: Place, row: OutboxRow) -> None:
        """Note what a list shows of an edit that is over."""
        there = place.baseline
        if row.intent.values and there is not None:
            self._outbox.change(row.id, stored=stored_of(kept, row, there).fields)
        if row.state == State.DONE:
            return
        reason = "it is gone already"
        if there is not None:
            theirs = recognised(kept.place, there, self._forms)
            reason = why_missing(row, theirs, max(kept.rows)) or "the service has it"
            if not row.attempts and row.intent.takes & there.blocks:
                reason = "it was given and taken here before it was sent: what the service has is somebody else's"
        self.findings.over.append((self._outbox.row(row.id), reason))

    def _note_twins(self, found: Concluded) -> None:
        """Note the geolocations that our creates may have made in addition, also creates that are over."""
        twins = dict(found.twins)
        for made, create in self._ledger.watched():
            again = self._known[made].place.requests if made in self._known else ()
            if create.what != "create" or any(each.what == "create" and not each.known for each in again):
                continue  # its next create may have made what appeared
            sent, there = create.values, self._outbox.baselines.of(self._ledger.of(made).before)
            for number, content in self._contents.items():
                is_known = content.blocks or there.get(number) == self._mark(number) or found.is_pending(number)
                if not is_known and (
                    self._forms.same(sent, content.values) or self._forms.may_be(sent, content.values)
                ):
                    twins.setdefault(number, made)
        for number in twins.keys() - self._outbox.numbers().keys() - self._outbox.twins.known().keys():
            self._outbox.twins.note(number, self._ledger.create_of(twins[number]))

    # Telling

    def _tell(self, place: int, number: int, words: str, edit: int = 0) -> None:
        """Tell a person what they must look at."""
        self.findings.told.append(self._outbox.notice(edit, place, number, words))

    def _tell_taken(self) -> Collection[Any]:
        """Tell that somebody has given a block which waits to be sent: of two that have it, lookups answer with one.

        :returns: the blocks that wait to be sent
        """
        waits = {
            row.intent.new: (kept, row)
            for kept in self._known.values()
            if kept.place.number is not None and kept.place.shown is not None
            for row in kept.rows.values()
            if row.state == State.QUEUED and row.intent.new in kept.place.shown.blocks
        }
        others = self._contents.keys() - self._outbox.numbers().keys() if waits else ()
        for number in sorted(others, reverse=True):
            content = self._contents[number]
            for block in in_order(content.blocks & waits.keys()):
                kept, row = waits[block]
                words = (
                    f"{block} waits to be sent to {self._names.of(kept)}, and geolocation {number} of the service has "
                    f"it now ({words_of(content)}): lookups may answer with that; remove it there, or `geolookup "
                    f"outbox drop {row.id}`"
                )
                self._tell(kept.place.id, number, words, row.id)
        return waits

    def _warn_of_shared(self, places: Collection[Place], *, but: Collection[Any]) -> None:
        """Warn of the blocks of our places that another geolocation has, too, except for these."""
        kept = ((place.number, place.shown) for place in places)
        ours = {number: shown.blocks for number, shown in kept if number is not None and shown is not None}
        owners: dict[Any, list[int]] = {}
        for number, blocks in ({number: each.blocks for number, each in self._contents.items()} | ours).items():
            for block in blocks:
                owners.setdefault(block, []).append(number)
        found = []
        for block in in_order(frozenset(block for block, having in owners.items() if len(having) > 1) - {*but}):
            if any(number in ours for number in owners[block]):
                who = (
                    self._names.number(number, self._contents.get(number))
                    for number in sorted(owners[block], reverse=True)
                )
                found.append(f"{block}: {' and '.join(who)}")
        if found:
            more = f"; and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
            self.findings.warnings.append(
                "lookups answer with the one that was defined later where two geolocations have the same block: "
                f"{'; '.join(found[:_MOST_NAMED])}{more}. Remove it from one; `geolookup custom check` lists them all"
            )

    def _tell_ended(self, ended: list[Kept]) -> None:
        """Tell that others deleted places, or changed them beyond recognition."""
        gone = {kept.place.shown for kept in ended}
        equal: dict[Content | None, int] = {
            content: number for number, content in self._contents.items() if content in gone
        }
        having = {block: number for number, content in self._contents.items() if ended for block in content.blocks}
        for kept in ended:
            shown = kept.place.shown
            who, site, number = self._names.of(kept), self._names.site(kept), equal.get(shown, kept.place.number)
            has = having.keys() & (frozenset() if shown is None else shown.blocks)
            others = sorted({having[block] for block in has}, reverse=True)[:_MOST_NAMED]
            takers = " and ".join(f"{each} ({words_of(self._contents[each])})" for each in others)
            once = f", once its blocks are taken from {takers}" if takers else ""
            words = (
                f"{who} is gone from the service, and from lookups: somebody deleted it, or gave its number to "
                "something else. If the service has it again, it has its name again; `geolookup custom apply --keep "
                f"mine` with your file of sites, or `custom create`, makes it anew{once}"
            )
            if site is None:
                self.findings.warnings.append(words)
                continue
            if number is not None and number in self._contents and self._names.is_free(number, kept):
                command = f"geolookup custom rename {number} {shlex.quote(site)}"
                words += f". If {number} ({words_of(self._contents[number])}) is the same: `{command}`"
            self._tell(kept.place.id, kept.shown, words)

    def _warn_of_reverts(self, places: Collection[Place]) -> None:
        """Warn of edits that a list has shown, and that this one shows to be undone: somebody undid them, or the
        service is as it was before them.
        """
        found = []
        for place in places:
            kept, now = self._known[place.id], place.baseline
            was = kept.place.baseline
            if was is None or now is None or was == now:
                continue
            open_now = account_of(kept.place)
            before: dict[int, Any] = {}
            gave: dict[Any, bool] = {}
            for row in self._outbox.where("locid = ? AND state = ?", (place.id, State.DONE)):
                base = row.intent.base
                before |= {at: base.values[at] for at in row.intent.touched} if base is not None else {}
                gave |= dict.fromkeys(row.intent.takes, False) | ({row.intent.new: True} if row.intent.new else {})
            sides = zip(FIELD_NAMES, was.values, now.values, strict=True)
            undone = [
                f"{name} {theirs!r} instead of {ours!r}"
                for at, (name, ours, theirs) in enumerate(sides)
                if ours != theirs and at in before.keys() - open_now.keys() and before[at] == theirs
            ]
            # A block that was widened, or is in parts, is nothing undone.
            given, taken = (
                blocks - blocks_in(open_now) for blocks in (was.blocks - now.blocks, now.blocks - was.blocks)
            )
            lost = frozenset(block for block in given if not self._forms.overlap([block], now.blocks))
            undone += [f"without {block}" for block in in_order(lost) if gave.get(block)]
            undone += [f"with {block}" for block in in_order(taken) if gave.get(block) is False]
            if undone:
                found.append(f"{self._names.of(replace(kept, place=place))}: {', '.join(undone)}")
        if found:
            more = f", and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
            self.findings.warnings.append(
                f"the service has again what edits from here had changed: {'; '.join(found[:_MOST_NAMED])}{more}. "
                "Somebody undid them, or it was put back to an earlier state"
            )

    def _warn_of_moved(self, places: Collection[Place]) -> None:
        """Warn of the places that are somewhere else by now, under their numbers and with their blocks: who has all
        blocks of a place counts as it, and may be another one that was given its number.
        """
        for place in places:
            kept, now = self._known[place.id], place.baseline
            was = kept.place.baseline
            if was is None or now is None or was.values == now.values or place.number != kept.place.number:
                continue
            wanted = kept.place.shown or was
            if not any(self._forms.akin(each.values, now.values) for each in (was, wanted)):
                self.findings.warnings.append(
                    f"{self._names.of(kept)} was {words_of(was)}, and has another city and other coordinates at the "
                    f"service now: {words_of(now)}. Somebody moved it, or gave its number and its blocks to another one"
                )

    def _warn_of_hidden(self, hidden: Mapping[int, int]) -> None:
        """Warn of what lookups do not have, since an answer gave its number to a place of ours a moment ago."""
        for number, place in hidden.items():
            self.findings.warnings.append(
                f"the service shows {words_of(self._contents[number])} under {number}, which is the number of "
                f"{self._names.of(self._known[place])} by its last answers: lookups have this, and not that, until a "
                "list tells that begins later"
            )

    def _tell_again(self, over: list[Kept]) -> None:
        """Tell that something is there again which was over, and may have been made anew since."""
        for kept in over:
            number, was = kept.gone, replace(kept.place, baseline=kept.last)
            shown = None if number is None else self._contents.get(number)
            if number is None or shown is None or not self._names.is_free(number, kept):
                continue
            if not is_familiar(was, shown, self._forms) or is_another(was, shown, self._forms):
                continue  # a new one that was given the number
            words = (
                f"geolocation {number} ({words_of(shown)}) was gone from the service, and is there again: if it is not "
                f"wanted, `geolookup custom delete {number}`"
            )
            self._tell(kept.place.id, number, words)
            self._ledger.forget_last(kept.place.id)

    def _tell_back(self, kept: Kept, place: Place) -> None:
        """Tell that a place which was gone is there again, or that it has another number."""
        was_gone = kept.last is not None or (kept.hold is not None and kept.hold.reason == "gone")
        has_moved = kept.place.number not in (None, place.number) and kept.place.creating is None
        if place.number is not None and was_gone:
            who = self._names.of(replace(kept, place=place))
            self.findings.warnings.append(f"{who} is at the service again")
        elif place.number is not None and has_moved:  # if it was created, see `_tell_misnamed`
            self._warn_of_move(kept, place)

    def _warn_of_move(self, kept: Kept, place: Place) -> None:
        who = self._names.of(replace(kept, place=place))
        self.findings.warnings.append(f"{who} has another number at the service: it was {kept.place.number}")

    def _tell_misnamed(self, kept: Kept, place: Place) -> None:
        """Tell that a create was answered with a number that it turned out not to have, or has no more."""
        number, create = kept.place.number, kept.place.creating
        if number is None or place.number in (None, number) or create is None or create.misnamed:
            return
        later = [each for each in kept.place.requests if each.what != "create"]
        sent = [each for each in later if each.known]
        if sent and all(each.is_done(self._contents[place.number]) for each in sent):
            self._warn_of_move(kept, place)  # it had all under the first one
            return
        words = f"the service answered with locid {number} to a create that made {place.number}"
        if not (sent or (later and number in self._listed)):
            self.findings.warnings.append(words)
            return
        words += f": what was sent to {number} for it since may have changed something else"
        self._tell(place.id, place.number, words, next(iter(kept.rows), 0))

    def _tell_late(self) -> None:
        """Tell that a request whose answer was lost, and which an earlier list did not show, was done after all."""
        for made, request in self._ledger.watched():
            if request.what == "create" or made not in self._known or self._known[made].place.number is None:
                continue
            kept = self._known[made]
            place = replace(kept.place, requests=(request,))
            theirs = None if place.number is None else self._contents.get(place.number)
            now, *before = (
                None if each is None else recognised(place, each, self._forms)
                for each in (theirs, place.shown, place.at_service, kept.place.acknowledged)
            )
            if not request.is_done(now) or any(map(request.is_done, before)):
                continue
            words = (
                f"a request from here for {self._names.of(kept)}, whose answer was lost, was carried out late, or "
                f"somebody did the same: the service has {words_of(theirs)}; if that is not meant, edit it again"
            )
            self._tell(kept.place.id, kept.shown, words)
            self._ledger.landed(request)
