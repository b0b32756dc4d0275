"""The forms in which a service stores what it said yes to: learned from what lists show, and told."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from geolookup.model.fields import DEGREES, FIELD_NAMES
from geolookup.state.edits.outbox.kept import Kept
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.outbox.payload import values_of
from geolookup.state.edits.outbox.row import OutboxRow
from geolookup.state.edits.places.likeness import Forms, folded, may_be_stored
from geolookup.state.edits.places.place import Content, Place, Request, Values, filled
from geolookup.state.edits.places.reconcile import promised_blocks
from geolookup.sync.push.telling import Names

_DEGREES = {FIELD_NAMES.index(name) for name in DEGREES}

#: Tells whether the service did not have a number, or not so, before the create of a place.
IsNew: TypeAlias = Callable[[Kept, int], bool]


class Stored(NamedTuple):
    """Of one place: the fields that the service acknowledged, and the fields that it has."""

    kept: Kept
    sent: Values
    found: Values


def note_exact(ledger: Ledger, kept: Kept, content: Content) -> None:
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


def stored_of(kept: Kept, row: OutboxRow, there: Content) -> Content:
    """The fields of an edit as the service stores them, without what somebody wrote after a list had shown them."""
    values = row.intent.values
    if row.stored is not None and values_of(row.stored) == values:
        return replace(there, values=values)
    seen = kept.place.baseline.values if kept.place.baseline is not None else ()
    as_seen = {at for at, value in enumerate(seen) if value == values[at]} - row.intent.touched.keys()
    return replace(there, values=tuple(values[at] if at in as_seen else now for at, now in enumerate(there.values)))


def _newest_fields(place: Place) -> Request | None:
    return next((request for request in reversed(place.requests) if request.values), None)


def learn_all(
    ledger: Ledger, places: list[Kept], contents: Mapping[int, Content], forms: Forms, is_new: IsNew
) -> list[Stored]:
    """Take in how the service stores what it said yes to: of each place the newest."""
    learned = []
    ours = ledger.outbox.numbers()
    others = {number: content.values for number, content in contents.items() if number not in ours}
    alike = {content.values for content in contents.values()}
    unknown = [
        each.values for kept in places for each in kept.place.requests if each.what == "create" and not each.known
    ]

    def is_doubtful(kept: Kept, sent: Values, found: Values) -> bool:
        """True if a form may be none: the answer may have named a wrong number, of another create of ours or of a
        colleague's, or the service stores values of that field as they are sent, so that somebody has changed it.
        """
        changed = [at for at in range(len(sent)) if sent[at] != found[at]]
        if any(map(forms.keeps, changed)):
            return True
        if any(content.values[at] == sent[at] for content in contents.values() for at in changed):
            return True
        if (create := kept.place.creating) is None:
            return False
        near = (number for number, values in others.items() if forms.like(create.values, values))
        mine = any(may_be_stored(values, found) for values in unknown)
        return create.values in alike or mine or any(is_new(kept, number) for number in near)

    was = {kept.place.number: {each.values for each in kept.place.was()} for kept in places}
    elsewhere = {
        content.values: number
        for number, content in contents.items()
        if number not in ours or content.values not in was.get(number, {content.values})
    }
    for kept in places:
        place = kept.place
        content = None if place.number is None else contents.get(place.number)
        # What was created is rather there, if just that is under a number that was nothing of ours, or was not so.
        if made := [each.values for each in place.requests if each.what == "create" and each.values in elsewhere]:
            if is_new(kept, elsewhere[made[-1]]):
                forms.learn(made[-1], made[-1])  # whether it was answered or not
            continue
        if content is not None and (stored := learn(kept, content, forms, is_doubtful)) is not None:
            learned.append(stored)
    ledger.keep_forms(forms)
    return learned


def learn(
    kept: Kept, content: Content, forms: Forms, is_doubtful: Callable[[Kept, Values, Values], bool] = lambda *_: True
) -> Stored | None:
    """Take in how the service stores the newest fields that it said yes to, if it is something else.

    What a create has sent is there in some form, wherever the number shows one of its blocks or is where it was sent
    to. A field that is as it was before an update of ours tells nothing: a copy of the service may have taken over, or
    be behind, or a colleague may have undone it. Nor does anything once a list has shown just what was sent: somebody
    has changed it since. What shows the very same after a person had it sent again is the form of that. Nor what
    ``is_doubtful``, unless it is what services commonly make of it.
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
    made = place.creating.values if place.baseline is None and place.creating is not None else ()
    by_create = {at for at, value in filled(made) if sent[at] == value}
    touched = {} if newest.before is None else newest.touched
    before = [each.before.values for each in place.requests if each.before is not None]
    *_, last = [None, *(row for row in kept.rows.values() if row.intent.values and row.id <= newest.upto)]
    is_sent_again = last is not None and last.stored is not None and values_of(last.stored) == found
    if not is_sent_again:
        tells = by_create | {at for at in touched if all(found[at] != values[at] for values in before)}
        sent = tuple(value if at in tells else found[at] for at, value in enumerate(sent))
        # Another value may be a colleague's: an edit that waits must not be sent as if it had been made against it.
        renamed = by_create - {at for intent in place.intents if intent.id > newest.upto for at in intent.touched}
        if not promised_blocks(place) & content.blocks:
            renamed -= _DEGREES  # what has another place's coordinates, and no block of ours, may be another
        own = frozenset().union(*(each.blocks for each in place.was()))
        if not forms.meant(sent, found) or (content.blocks and not content.blocks & own):
            renamed = set()  # its blocks, or its number, may have been taken over
        if any(intent.what == "delete" for intent in place.intents) and not _is_whole(sent, found):
            return None  # just what the person saw is deleted
        if sent == found or not may_be_stored(sent, found, renamed=renamed):
            return None
        if not may_be_stored(sent, found) and is_doubtful(kept, sent, found):
            return None
    forms.learn(sent, found)
    return Stored(kept, sent, found)


def _is_whole(sent: Values, found: Values) -> bool:
    """True if no text was emptied, shortened or replaced, and the coordinates are those that were sent."""
    texts = all(
        folded(ours) == folded(theirs) for ours, theirs in zip(sent, found, strict=True) if isinstance(ours, str)
    )
    return texts and may_be_stored(sent, found)


def words_of_forms(learned: list[Stored], names: Names) -> list[str]:
    """One line for each way in which the service stores a field otherwise than it was sent."""
    by_way: dict[str, list[str]] = {}
    for kept, sent, found in learned:
        for name, ours, theirs in zip(FIELD_NAMES, sent, found, strict=True):
            if ours != theirs:
                case = f"it has {theirs!r} for {ours!r} of {names.of(kept)}"
                by_way.setdefault(_way(name, ours, theirs), []).append(case)
    return [
        f"the service {way}: {case}{f', and the like for {len(others)} more' if others else ''}; "
        "it is not sent again unless it changes"
        for way, (case, *others) in by_way.items()
    ]


def _way(name: str, sent: Any, stored: Any) -> str:
    """In which way a service stores one value of a field."""
    if stored in ("", None):
        return f"does not keep {name}"
    if not isinstance(stored, str):
        return f"stores {name} {'otherwise' if sent is None or abs(sent - stored) > 1 else 'with other digits'}"
    ours, theirs = sent.casefold(), stored.casefold()
    ways = {
        "in other capitals": ours == theirs,
        "without blanks": "".join(ours.split()) == theirs,
        "without leading zeros": ours.lstrip("0") == theirs,
        "shortened": ours.startswith(theirs),
    }
    return f"stores {name} {next((way for way, is_so in ways.items() if is_so), 'otherwise')}"
