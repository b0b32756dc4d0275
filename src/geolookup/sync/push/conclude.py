"""Hold a complete list against every place of this machine: what it shows is over, and a person is told of the rest."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import Geolocation
from geolookup.state.base.marks import Start
from geolookup.state.edits.outbox.kept import OPEN, Kept
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.outbox.payload import content_of, values_of
from geolookup.state.edits.outbox.row import OutboxRow, State
from geolookup.state.edits.places.concluding import concluded, recognised
from geolookup.state.edits.places.likeness import Forms, may_be_stored
from geolookup.state.edits.places.place import Content, Place, Request
from geolookup.state.generations.cache import digest
from geolookup.sync.push.telling import Names, why_held, words_of


@dataclass(slots=True, kw_only=True)
class Findings:
    """The findings of a list; each is said once.

    ``held`` are edits that wait for a decision since this list, ``over`` those that it was the first to show.
    ``warnings`` are what a person should know, ``told`` notices of what a person must look at.
    """

    held: list[OutboxRow] = field(default_factory=list)
    over: list[tuple[OutboxRow, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    told: list[dict[str, Any]] = field(default_factory=list)


def conclude(
    ledger: Ledger, start: Start, listed: Mapping[int, Geolocation], settle_s: float, *, asked_freely: bool = True
) -> Findings:
    """Hold the list of that start against every place; see `places.concluding`.

    ``asked_freely`` is false of an answer that the list is as it was: it proves nothing about what was sent.
    """
    findings = Findings()
    known = ledger.read(f"{OPEN} OR number IS NOT NULL")
    if not known and not ledger.watched():
        return findings
    forms = ledger.forms()
    contents = {number: content_of(place) for number, place in listed.items()}
    places, waiting = [], []
    for kept in known.values():
        place = kept.as_of(start.mark, settle_s)
        new = place.number is None and place.lost is None and not place.requests
        if new or (asked_freely and all(request.settled for request in place.requests)):
            places.append(place)
        else:
            waiting.append(place)
    learned = _learn(ledger, [known[place.id] for place in places], contents, forms)
    for place in waiting:
        if place.number in contents:
            _note_exact(ledger, known[place.id], contents[place.number])

    def mark(number: int) -> str:
        return digest(listed[number])  # when it is asked for: of thousands, few are

    before = {
        kept.place.id: ledger.outbox.baselines.of(kept.before or kept.made)
        for kept in known.values()
        if kept.before is not None or kept.made is not None
    }
    found = concluded(places, contents, before=before, forms=forms, mark=mark, waiting=waiting)
    names = Names(ledger)
    for place in found.places:
        _tell_misnamed(ledger, known[place.id], place, listed, findings)
    for part, whole in found.merged.items():
        known[whole] = ledger.merge(known[whole], known[part])
    for place in found.places:
        _write(ledger, known[place.id], place, found.held.get(place.id), start, names, findings)
    twins = dict(found.twins)
    for made, request in ledger.watched():
        if request.what != "create":
            if asked_freely and made in known and (number := known[made].place.number) is not None:
                _tell_late(ledger, known[made], request, contents.get(number), names, findings)
            continue
        sent, there = request.values, ledger.not_made_by(made)
        for number, content in contents.items():
            appeared = not content.blocks and there.get(number) not in ("", mark(number))
            if appeared and (forms.same(sent, content.values) or forms.may_be(sent, content.values)):
                twins.setdefault(number, made)
    ours, told = ledger.outbox.numbers(), ledger.outbox.twins.known()
    for number in twins.keys() - ours - told.keys():
        ledger.outbox.twins.note(number, ledger.create_of(twins[number]))
    for gone in found.ended:
        words = (
            f"{names.of(known[gone])} is gone from the service, and from lookups: somebody deleted it, or gave its "
            "number to something else; `geolookup custom apply` with your file of sites makes it again"
        )
        if names.has(known[gone]):
            findings.told.append(ledger.outbox.notice(0, gone, known[gone].shown, words))
            continue
        findings.warnings.append(words)
    findings.warnings += words_of_forms(learned)
    return findings


def _tell_misnamed(
    ledger: Ledger, kept: Kept, place: Place, listed: Mapping[int, Geolocation], findings: Findings
) -> None:
    """Tell that the service answered a create with a number which it turned out not to have."""
    number = kept.place.number
    if number is None or place.number in (None, number):
        return
    words = f"the service answered with locid {number} to a create that made {place.number}"
    if not any(each.what != "create" and (each.known or number in listed) for each in kept.place.requests):
        findings.warnings.append(words)
        return
    words += f": what was sent to {number} for it since may have changed something else"
    edit = next(iter(kept.rows), 0)
    findings.told.append(ledger.outbox.notice(edit, place.id, place.number or 0, words))


def _tell_late(
    ledger: Ledger, kept: Kept, request: Request, theirs: Content | None, names: Names, findings: Findings
) -> None:
    """Tell that a request whose answer was lost, and which an earlier list did not show, was carried out after all."""
    place = replace(kept.place, requests=(request,))
    ours = None if theirs is None else recognised(place, theirs, ledger.forms())
    if not request.is_done(ours) or request.is_done(kept.place.shown):
        return
    words = (
        f"a request from here for {names.of(kept)}, whose answer was lost, was carried out late, or somebody did the "
        f"same: the service has {words_of(theirs)}; if that is not meant, edit it again"
    )
    findings.told.append(ledger.outbox.notice(0, kept.place.id, kept.shown, words))
    ledger.landed(request)


def _note_exact(ledger: Ledger, kept: Kept, content: Content) -> None:
    """Note that a list shows just what the service said yes to: what differs later is a change."""
    newest = _newest_fields(kept.place)
    if newest is None or not newest.known or newest.values != content.values or _is_exact(kept, newest):
        return
    for row in kept.rows.values():
        if row.intent.values and row.id <= newest.upto:
            ledger.outbox.change(row.id, stored=content.fields)


def _is_exact(kept: Kept, request: Request) -> bool:
    """True if a list has shown just what a request sent."""
    return any(row.stored is not None and values_of(row.stored) == request.values for row in kept.rows.values())


def _newest_fields(place: Place) -> Request | None:
    return next((request for request in reversed(place.requests) if request.values), None)


def _learn(
    ledger: Ledger, places: list[Kept], contents: Mapping[int, Content], forms: Forms
) -> list[tuple[int, Request, Content]]:
    """Take in how the service stores what it said yes to: of each place the newest."""
    learned = []
    ours = {kept.place.number for kept in places}
    # What was created is rather there, if just that is there under a number that is nothing of ours.
    elsewhere = {content.values for number, content in contents.items() if number not in ours}
    filled = {
        at for number, content in contents.items() if number < 0 for at, value in enumerate(content.values) if value
    }
    for kept in places:
        place = kept.place
        content = None if place.number is None else contents.get(place.number)
        if any(each.what == "create" and each.values in elsewhere for each in place.requests):
            continue
        if content is not None and (request := learn(kept, content, forms, filled)) is not None:
            assert place.number is not None
            learned.append((place.number, request, content))
    ledger.keep_forms(forms)
    return learned


def learn(kept: Kept, content: Content, forms: Forms, filled: Collection[int]) -> Request | None:
    """Take in how the service stores the newest fields that it said yes to: that request if it is something else.

    A field that is as it was before our update tells nothing: a copy of the service may have taken over, or a colleague
    may have undone it. Nor does an empty one of those that are ``filled`` elsewhere, so that the service keeps them,
    nor anything once a list has shown just what was sent: somebody has changed it since.
    The request is returned without these.
    """
    place, newest = kept.place, _newest_fields(kept.place)
    if newest is None or not newest.known:
        return None
    sent, found = newest.values, content.values
    if sent == found:
        forms.learn(sent, found)
        return None
    if _is_exact(kept, newest):
        return None
    before = sent if newest.before is None else newest.before.values
    had = () if place.baseline is None else place.baseline.values
    always = {*filled, *(at for at, value in enumerate(had) if value)}
    sent = tuple(
        found[at] if found[at] == before[at] or (at in always and not found[at]) else value
        for at, value in enumerate(sent)
    )
    # Another name may be a colleague's: then an edit that waits must not be sent as if it had been made against it.
    different = {at for at, value in enumerate(sent) if found[at] != value}
    edited = {at for intent in place.intents if intent.id > newest.upto for at in intent.touched}
    renamed = newest.what == "create" and not different & edited
    if not different or not may_be_stored(sent, found, renamed=renamed):
        return None
    forms.learn(sent, found)
    return replace(newest, values=sent)


def words_of_forms(learned: list[tuple[int, Request, Content]]) -> list[str]:
    """One line for each field that the service stores in its own way."""
    by_field: dict[str, list[tuple[int, Any]]] = {}
    for number, request, content in learned:
        for at, value in enumerate(request.values):
            if content.values[at] != value:
                by_field.setdefault(FIELD_NAMES[at], []).append((number, content.values[at]))
    lines = []
    for name, cases in by_field.items():
        number, value = cases[0]
        others = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
        does = f"does not keep {name}" if value in ("", None) else f"stores {name} as {value!r}"
        lines.append(f"the service {does} of geolocation {number}{others}: it is not sent again unless it changes")
    return lines


def _write(ledger: Ledger, kept: Kept, place: Place, hold: Any, start: Start, names: Names, findings: Findings) -> None:
    counter = start.mark.counter
    if hold is not None and hold.reason == "conflict" and kept.hold is None:
        hold = None  # a push looks again, and decides
    is_new = place.number is None and all(row.never_sent for row in kept.rows.values())
    if hold is None and kept.hold is None and place == kept.place and (is_new or not kept.rows):
        return
    problem = None if hold is None else why_held(replace(kept, place=place), hold, names, said=kept.said)
    after = ledger.save(kept, place, hold=hold, problem=problem, counter=counter)
    told = False
    for number, row in kept.rows.items():
        now = after.rows.get(number)
        if now is None:
            if row.intent.values and place.baseline is not None:
                stored = dict(zip(FIELD_NAMES, place.baseline.values, strict=True))
                ledger.outbox.change(number, stored=stored)
            if row.state != State.DONE:
                reason = "it is gone already" if place.baseline is None else "the service has it"
                findings.over.append((ledger.outbox.row(number), reason))
        elif now.state in (State.HELD, State.REJECTED) and (row.state != now.state or row.problem != now.problem):
            if not told:
                findings.held.append(now)
            told = True
