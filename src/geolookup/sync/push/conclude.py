"""Hold a complete list against every place of this machine: what it shows is over, and a person is told of the rest."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import Geolocation
from geolookup.state.base.marks import Start
from geolookup.state.edits.outbox.kept import NAMED, OPEN, Kept
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.outbox.payload import content_of
from geolookup.state.edits.outbox.row import OutboxRow, State
from geolookup.state.edits.places.concluding import concluded
from geolookup.state.edits.places.likeness import Forms
from geolookup.state.edits.places.looking import is_another, recognised
from geolookup.state.edits.places.place import Content, Place, Request, in_order
from geolookup.state.generations.cache import digest
from geolookup.sync.push.storing import learn_all, note_exact, words_of_forms
from geolookup.sync.push.telling import Names, why_held, why_missing, words_of


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
    known = ledger.read(f"{OPEN} OR number IS NOT NULL OR {NAMED}")
    over = [*ledger.over()] if asked_freely else []
    if not (known or over or ledger.watched()):
        return findings
    forms = ledger.forms()
    contents = {number: content_of(place) for number, place in listed.items()}
    places, waiting = [], []
    for kept in known.values():
        place = kept.as_of(start.mark, settle_s)
        if kept.last is not None and kept.gone is not None:  # a site that was gone: it may be there again
            place = replace(place, lost=kept.gone, baseline=kept.last)
        new = place.number is None and place.lost is None and not place.requests
        if new or (asked_freely and all(request.settled for request in place.requests)):
            places.append(place)
        else:
            waiting.append(place)

    def mark(number: int) -> str:
        return digest(listed[number])  # when it is asked for: of thousands, few are

    def is_new(kept: Kept, number: int) -> bool:
        """True if the service did not have this before the create of a place."""
        return ledger.outbox.baselines.of(kept.before or kept.made).get(number) != mark(number)

    learned = learn_all(ledger, [known[place.id] for place in places], contents, forms, is_new)
    for place in waiting:
        if place.number in contents:
            note_exact(ledger, known[place.id], contents[place.number])
    numbers = {id_: kept.before or kept.made for id_, kept in known.items() if kept.before or kept.made}
    before = {id_: ledger.outbox.baselines.of(number) for id_, number in numbers.items()}
    denied = {id_: ledger.outbox.baselines.denied(number) for id_, number in numbers.items()}
    was = {id_: kept.last for id_, kept in known.items() if kept.last is not None and kept.gone is None}
    found = concluded(places, contents, before=before, denied=denied, forms=forms, mark=mark, waiting=waiting, was=was)
    names = Names(ledger, found.places)
    for place in found.places:
        _tell_misnamed(ledger, known[place.id], place, listed, names, findings)
    for part, whole in found.merged.items():
        known[whole] = ledger.merge(known[whole], known[part])
    for place in found.places:
        _write(ledger, known[place.id], place, found.held.get(place.id), start, names, forms, findings)
        _tell_back(known[place.id], place, names, findings)
    twins = dict(found.twins)
    for made, request in ledger.watched():
        if request.what != "create":
            if asked_freely and made in known and (number := known[made].place.number) is not None:
                _tell_late(ledger, known[made], request, contents.get(number), names, findings)
            continue
        if made in known and any(each.what == "create" and not each.known for each in known[made].place.requests):
            continue  # its next create may have made what appeared
        sent, there = request.values, ledger.not_made_by(made)
        for number, content in contents.items():
            appeared = not content.blocks and there.get(number) != mark(number)
            if appeared and (forms.same(sent, content.values) or forms.may_be(sent, content.values)):
                twins.setdefault(number, made)
    ours, told = ledger.outbox.numbers(), ledger.outbox.twins.known()
    for number in twins.keys() - ours - told.keys():
        ledger.outbox.twins.note(number, ledger.create_of(twins[number]))
    _tell_taken(ledger, known.values(), contents, ours, names, findings)
    for gone in found.ended:
        words = (
            f"{names.of(known[gone])} is gone from the service, and from lookups: somebody deleted it, or gave its "
            "number to something else. If the service has it again, it has its name again; `geolookup custom apply "
            "--keep mine` with your file of sites, or `custom create`, makes it anew"
        )
        if names.has(known[gone]):
            findings.told.append(ledger.outbox.notice(0, gone, known[gone].shown, words))
            continue
        findings.warnings.append(words)
    findings.warnings += words_of_forms(learned, names)
    if asked_freely:
        asked = {number for hold in found.held.values() for number in hold.numbers}
        asked |= {kept.gone for kept in over if kept.gone in contents and found.is_pending(kept.gone)}
        _tell_again(ledger, [kept for kept in over if kept.gone not in asked], contents, forms, names, findings)
    return findings


def _tell_taken(
    ledger: Ledger,
    known: Iterable[Kept],
    contents: Mapping[int, Content],
    ours: Collection[int],
    names: Names,
    findings: Findings,
) -> None:
    """Tell that somebody has given a block which waits to be sent: of two that have it, lookups answer with one."""
    waits = {
        row.intent.new: (kept, row)
        for kept in known
        if kept.place.number is not None and kept.place.shown is not None
        for row in kept.rows.values()
        if row.state == State.QUEUED and row.intent.new in kept.place.shown.blocks
    }
    for number in sorted(contents.keys() - ours, reverse=True) if waits else ():
        content = contents[number]
        for block in in_order(content.blocks & waits.keys()):
            kept, row = waits[block]
            words = (
                f"{block} waits to be sent to {names.of(kept)}, and geolocation {number} of the service has it now "
                f"({words_of(content)}): lookups may answer with that; remove it there, or `geolookup outbox drop "
                f"{row.id}`"
            )
            findings.told.append(ledger.outbox.notice(row.id, kept.place.id, number, words))


def _tell_again(
    ledger: Ledger, over: list[Kept], contents: Mapping[int, Content], forms: Forms, names: Names, findings: Findings
) -> None:
    """Tell that something is there again which was over, and may have been made anew since."""
    for kept in over:
        number, was = kept.gone, replace(kept.place, baseline=kept.last)
        shown = None if number is None else contents.get(number)
        if number is None or shown is None or not names.is_free(number, kept) or is_another(was, shown, forms):
            continue
        words = (
            f"geolocation {number} ({words_of(shown)}) was gone from the service, and is there again: if it is not "
            f"wanted, `geolookup custom delete {number}`"
        )
        findings.told.append(ledger.outbox.notice(0, kept.place.id, number, words))
        ledger.forget_last(kept.place.id)


def _tell_back(kept: Kept, place: Place, names: Names, findings: Findings) -> None:
    """Tell that a place which was gone is there again, or that it has another number."""
    was_gone = kept.last is not None or (kept.hold is not None and kept.hold.reason == "gone")
    has_moved = kept.place.number not in (None, place.number) and kept.place.creating is None  # see `_tell_misnamed`
    if place.number is None or not (was_gone or has_moved):
        return
    who = names.of(replace(kept, place=place))
    is_there = f"{who} is at the service again" if was_gone else _moved(who, kept.place.number)
    findings.warnings.append(is_there)


def _moved(who: str, former: int | None) -> str:
    return f"{who} has another number at the service" + ("" if former is None else f": it was {former}")


def _tell_misnamed(
    ledger: Ledger, kept: Kept, place: Place, listed: Mapping[int, Geolocation], names: Names, findings: Findings
) -> None:
    """Tell that a create was answered with a number that it turned out not to have, or has no more."""
    number, create = kept.place.number, kept.place.creating
    if number is None or place.number in (None, number) or create is None or create.misnamed:
        return
    sent = [each for each in kept.place.requests if each.what != "create" and each.known]
    if sent and all(each.is_done(content_of(listed[place.number])) for each in sent):
        findings.warnings.append(_moved(names.of(replace(kept, place=place)), number))  # it had all under the first one
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
    forms = ledger.forms()
    now, *before = (
        None if each is None else recognised(place, each, forms)
        for each in (theirs, kept.place.shown, kept.place.at_service)
    )
    if not request.is_done(now) or any(map(request.is_done, before)):
        return
    words = (
        f"a request from here for {names.of(kept)}, whose answer was lost, was carried out late, or somebody did the "
        f"same: the service has {words_of(theirs)}; if that is not meant, edit it again"
    )
    findings.told.append(ledger.outbox.notice(0, kept.place.id, kept.shown, words))
    ledger.landed(request)


def _write(
    ledger: Ledger, kept: Kept, place: Place, hold: Any, start: Start, names: Names, forms: Forms, findings: Findings
) -> None:
    counter = start.mark.counter
    if hold is not None and hold.reason == "conflict" and kept.hold is None and kept.pending:
        hold = None  # a push looks again, and decides
    is_new = place.number is None and all(row.never_sent for row in kept.rows.values())
    if hold is None and kept.hold is None and place == kept.place and (is_new or not kept.rows):
        return
    problem = None if hold is None else why_held(replace(kept, place=place), hold, names)
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
                theirs = None if place.baseline is None else recognised(kept.place, place.baseline, forms)
                reason = why_missing(row, theirs, max(kept.rows)) or reason
                if place.baseline is not None and not row.attempts and row.intent.takes & place.baseline.blocks:
                    reason = "it was given and taken here before it was sent: what the service has is somebody else's"
                findings.over.append((ledger.outbox.row(number), reason))
        elif now.state in (State.HELD, State.REJECTED) and (row.state != now.state or row.problem != now.problem):
            if not told:
                findings.held.append(now)
            told = True
