"""The station of each edit of a place: it follows from what was sent, and from why the place is held."""

from collections.abc import Mapping

from msgspec.structs import replace

from geolookup.state.edits.outbox.row import State
from geolookup.state.edits.places.place import Content, Intent, Place, last_word
from geolookup.state.edits.places.reconcile import Hold, conflicting, half_done, meant, owed_blocks


def pending(place: Place, theirs: Content | None) -> list[Intent]:
    """The edits of a place that this content lacks, oldest first."""
    if theirs is None:
        if place.number is None and any(each.what == "create" and not each.known for each in place.requests):
            return list(place.intents)  # it may have been made
        gone = any(intent.what == "delete" for intent in place.intents)
        return [] if gone else list(place.intents)
    owed, wanted = owed_blocks(place, theirs), meant(place, theirs)
    if wanted is None:
        known = max((request.upto for request in place.requests if request.known), default=0)
        return [intent for intent in place.intents if intent.what == "delete" or intent.id > known]
    owners = {_owner(place, at) for at, value in enumerate(wanted.values) if theirs.values[at] != value}
    new, old = wanted.blocks - theirs.blocks, theirs.blocks - wanted.blocks
    last = last_word(place.intents)
    half = half_done(place, theirs) if owed & new else []
    taken = max((request.upto for request in place.requests if request.what == "clear"), default=0)
    return [
        intent
        for intent in place.intents
        if intent.id in owners
        or (intent.new in new and last[(intent.new,)][0] == intent.id and (intent.new not in owed or intent.id > taken))
        or any(last[(block,)][0] == intent.id for block in intent.takes & old)
        or intent in half
    ]


def _owner(place: Place, at: int) -> int:
    """The number of the newest edit that says what a field shall be."""
    return max((each.id for each in place.intents if each.what == "create" or at in each.touched), default=0)


def half_taken(place: Place) -> list[Intent]:
    """The edits that take blocks away of which the service lacks others, too, that must come back."""
    theirs = place.acknowledged
    return [] if theirs is None else half_done(place, theirs)


def stations(place: Place, hold: Hold | None, theirs: Content | None = None) -> Mapping[int, State]:
    """The station of every open edit of a place, by its number; ``theirs`` is what the service was seen to have."""
    if hold is not None and hold.reason in ("not shown", "doubted"):
        left = pending(place, hold.theirs)
    else:
        left = pending(place, place.acknowledged if theirs is None else theirs)
        if theirs is None:
            left = _in_doubt(place, left)
    found = {intent.id: State.DONE for intent in place.intents}
    unknown = [request for request in place.requests if not request.known and not request.put_off]
    for intent in left:
        sent = [request for request in unknown if request.concerns(intent)]
        is_away = any(request.ended is None for request in sent)
        found[intent.id] = State.SENDING if is_away else State.UNKNOWN if sent else State.QUEUED
    if hold is not None:
        found |= dict.fromkeys(_held(place, hold, left), State.REJECTED if hold.reason == "refused" else State.HELD)
    return found


def _in_doubt(place: Place, left: list[Intent]) -> list[Intent]:
    """The edits that are open while nobody knows what became of the newest request.

    Those that it was sent for, and those of which more would be left if it was done: they take it back again.
    """
    *_, newest = [None, *place.requests]
    if newest is None or newest.known or newest.put_off:
        return left
    sent = replace(place, intents=tuple(each for each in place.intents if each.id <= newest.upto))
    for_it = [each for each in pending(sent, newest.before) if newest.concerns(each)]
    open_ = {each.id for each in (*left, *for_it, *pending(place, newest.applied(newest.before)))}
    return [each for each in place.intents if each.id in open_]


def _held(place: Place, hold: Hold, left: list[Intent]) -> list[int]:
    """The edits for which a place is held; the others wait behind them."""
    match hold.reason:
        case "conflict" if hold.theirs is not None:
            found = conflicting(place, hold.theirs)
        case "refused" if place.refused is not None:
            found = [intent for intent in left if place.refused.concerns(intent)]
        case "not shown":
            found = [each for each in place.said_yes if each in left] or [*place.said_yes]
        case _:
            found = []
    return [intent.id for intent in found or left[:1] or place.intents[:1]]
