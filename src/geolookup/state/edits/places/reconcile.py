"""The one decision of a push: what follows for a place from what the service has of it."""

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from geolookup.state.edits.places.account import account_of, blocks_in, there, void_in
from geolookup.state.edits.places.place import (
    Blocks,
    Content,
    Intent,
    Place,
    Request,
    in_order,
    last_word,
    taken_by,
    target,
)

Reason: TypeAlias = Literal["conflict", "gone", "another", "not shown", "unclear", "refused", "doubted"]


class Send(msgspec.Struct, frozen=True):
    """Send this request, and decide again after its answer."""

    request: Request


class Wait(msgspec.Struct, frozen=True):
    """Nothing can be told, or sent, before ``until``.

    "settled": requests can be under way no longer; "conclusive": a conclusive list says what there is; "shown": one
    shows what the service has already; "others": other places have given up blocks that this one shall have.
    """

    until: Literal["settled", "conclusive", "shown", "others"]


class Hold(msgspec.Struct, frozen=True):
    """Nothing is sent until a person decides; ``theirs`` is what the service has under ``number``, None if nothing.

    ``also`` are other numbers that may be meant, or that have what the service refused to give, with what they show.
    """

    reason: Reason
    theirs: Content | None = None
    number: int | None = None
    also: tuple[tuple[int, Content], ...] = ()

    @property
    def numbers(self) -> frozenset[int | None]:
        """All numbers that it names."""
        return frozenset({self.number, *(number for number, _ in self.also)})


class Done(msgspec.Struct, frozen=True):
    """Nothing is left to send; ``content`` is what the service has, None if the place is gone as was meant."""

    content: Content | None


Decision: TypeAlias = Send | Wait | Hold | Done


class Look(msgspec.Struct, frozen=True):
    """What a list shows under the number of a place: None if nothing.

    ``conclusive`` says that the list was complete, was asked for without conditions, and began after everything that
    may still have been under way had settled. Any other proves nothing by what it lacks. ``another`` says that the
    number is something else's by now. ``busy`` are blocks that other places of ours still have, and give up first.
    ``content`` is in our words, and ``listed`` in those of the service, if these are others.
    """

    content: Content | None
    conclusive: bool
    another: bool = False
    busy: Blocks = frozenset()
    listed: Content | None = None


def reconcile(place: Place, look: Look) -> Decision:
    """Decide what follows from a look; pure.

    An unknown outcome is resolved for every kind alike: once it has settled, what the service has is all that counts.
    """
    if any(request.is_unknown and not request.settled for request in place.requests):
        return Wait("settled")
    theirs = None if look.another else look.content
    if not look.conclusive:
        if look.another:
            return Wait("conclusive")  # a replica may show who had the number before
        theirs = _with_ours(place, theirs)
    gone = theirs is None and place.number is not None and look.conclusive  # then that is what a person must know
    if place.refused is not None and not gone:
        return Hold("refused", theirs, _number(place))
    if theirs is None:
        return _absent(place, look)
    wanted = meant(place, theirs)
    # Else an edit that somebody took back would be sent again with the next; what shall go may lack anything.
    if place.deleted or (wanted is not None and lacking(place, theirs)):
        # What is not as it was when it was deleted may be a new one that was given its number.
        reason: Reason = "unclear" if place.deleted and theirs not in place.was() else "not shown"
        return Hold(reason, theirs, _number(place)) if look.conclusive else Wait("conclusive")
    if others_missing(place, theirs):
        return Hold("doubted", theirs, _number(place)) if look.conclusive else Wait("conclusive")
    if theirs == wanted and not (taken_along(place, theirs) or unclear_blocks(place, theirs)):
        return Done(theirs) if look.conclusive else Wait("shown")
    if conflicting(place, theirs):
        return Hold("conflict", theirs, _number(place))
    if place.in_doubt and meant(replace(place, intents=place.in_doubt), theirs) != theirs:
        return Hold("doubted", theirs, _number(place))
    request = _next(place, theirs, wanted, look.busy)
    if request is None:
        return Wait("others")
    if request.what == "clear" and strange_blocks(place, theirs):
        return Hold("conflict", theirs, _number(place))  # somebody's block would be gone for a moment
    if request.what == "put" and look.listed is not None and look.content is not None:
        # What it does not touch goes as it is there: in our words it might overwrite what a colleague wrote.
        sides = zip(theirs.values, look.content.values, look.listed.values, strict=True)
        as_there = (said if now == seen else now for now, seen, said in sides)
        request = replace(request, body=tuple(request.touched.get(at, value) for at, value in enumerate(as_there)))
    return Send(replace(request, upto=_newest(place)))


def _with_ours(place: Place, theirs: Content | None) -> Content | None:
    """What the service must have, if this is a replica's that may not have what was acknowledged a moment ago."""
    for request in place.requests:
        if request.known and not request.settled:
            theirs = _overlaid(request, request.before if theirs is None and request.what != "create" else theirs)
    return theirs


def _overlaid(request: Request, theirs: Content | None) -> Content | None:
    """What the service has after a request, and what others have written beside it."""
    if request.what == "clear" and theirs is not None and request.before is not None:
        # A replica may still show the blocks that we deleted. It shows any other block because somebody gave it later.
        return replace(theirs, blocks=theirs.blocks - request.before.blocks)
    if request.what != "put" or request.before is None or theirs is None:
        return request.applied(theirs)
    # Such a replica has a field as it was before: what has another value by now is a colleague's.
    touched, before = request.touched, request.before.values
    behind = ((value == before[at], at, value) for at, value in enumerate(theirs.values))
    return replace(theirs, values=tuple(touched.get(at, value) if is_so else value for is_so, at, value in behind))


def _absent(place: Place, look: Look) -> Decision:
    another = look.another
    creates = any(intent.what == "create" for intent in place.intents)
    created, deleted = place.creating is not None, place.deleted
    if created and not deleted and (place.number is not None or not all(request.known for request in place.requests)):
        return Wait("conclusive")  # a list that is matched with all creates tells what it made
    if not look.conclusive and (created or place.number is not None or place.lost is not None):
        return Wait("conclusive")
    if place.baseline is None and not creates and place.intents and not deleted:
        return Hold("gone", None, _number(place))
    if place.shown is None:
        if another and not deleted:
            return Hold("another", look.content, _number(place))
        return Done(None)
    if place.number is None and creates and not created:
        wanted = target(place.intents, None)
        assert wanted is not None
        if place.doubted:
            return Hold("doubted")
        return Send(Request(what="create", values=wanted.values, upto=_newest(place)))
    if another and (place.intents or place.requests):
        return Hold("another", look.content, _number(place))
    if any(request.known for request in place.requests):
        return Hold("not shown")
    return Hold("gone", None, _number(place)) if place.intents else Done(None)


def owed_blocks(place: Place, theirs: Content | None = None) -> Blocks:
    """The blocks that a delete-all of ours took, and that must be put back unless an intent takes them.

    One of unknown outcome took none if the next look, which is ``theirs`` after the newest, shows any of them.
    """
    if not (place.owed or any(request.what == "clear" for request in place.requests)):
        return place.owed  # as of nearly every place
    owed: set[Any] = set(place.owed)
    looks = [*(request.before for request in place.requests[1:]), theirs]
    for request, look in zip(place.requests, looks, strict=False):
        if request.what == "clear":
            assert request.before is not None
            if request.known or look is None or request.before.blocks.isdisjoint(look.blocks):
                owed |= request.before.blocks
        elif request.what in ("add", "replace"):
            owed -= {request.old, request.new} if request.known else {request.old}
    return frozenset(owed)


def unclear_blocks(place: Place, theirs: Content) -> Blocks:
    """The blocks that the newest request, of unknown outcome, was sent to take, if the service has neither what was
    there before it nor what it leaves: somebody else has taken others, or given these again.
    """
    newest = place.requests[-1] if place.requests else None
    if newest is None or newest.known or newest.before is None:
        return frozenset()
    had = newest.before.blocks
    if newest.what == "replace" and newest.new not in had and {newest.old, newest.new} <= theirs.blocks:
        return frozenset({newest.old})
    if newest.what != "clear" or not had & theirs.blocks or not had - theirs.blocks:
        return frozenset()
    return frozenset() if had - theirs.blocks == had & taken_by(place.intents) else had


def meant(place: Place, theirs: Content) -> Content | None:
    """The place as the service shall have it, if it has this now; None if it shall have none."""
    wanted = target(place.intents, replace(theirs, blocks=theirs.blocks | owed_blocks(place, theirs)))
    if wanted is None or not any(each.takes for each in place.intents):
        return wanted
    return wanted.but({(block,): block in theirs.blocks for block in void_in(account_of(place))})


def half_done(place: Place, theirs: Content) -> list[Intent]:
    """The removals for which the newest delete-all was sent, if it also took blocks that have not been put back.

    A removal whose block a later edit gives again counts as over, as long as another one is left.
    """
    back, wanted = owed_blocks(place, theirs), meant(place, theirs)
    *_, clear = [None, *(each for each in place.requests if each.what == "clear")]
    upto = max((each.id for each in place.intents if each.takes), default=0) if clear is None else clear.upto
    given = {intent.new for intent in place.intents if intent.id > upto}
    if wanted is None or not back & wanted.blocks - theirs.blocks - given:
        return []
    last = last_word(place.intents)
    taken = taken_by(place.intents) if clear is None or clear.before is None else clear.before.blocks
    taking = [each for each in place.intents if each.takes & taken]
    return [each for each in taking if any(last[(block,)][0] == each.id for block in each.takes & taken)] or taking[-1:]


def others_missing(place: Place, theirs: Content) -> Blocks:
    """The other blocks that are missing together with those that a restored edit removes: it may be half done."""
    if not place.doubted or target(place.intents, theirs) is None:
        return frozenset()
    taking = [intent for intent in place.in_doubt if intent.takes]
    taken = taken_by(taking)
    return frozenset() if taken & theirs.blocks else _seen(taking) - taken - theirs.blocks


def as_told(place: Place, there: Content) -> Place:
    """A place of which a person is told that the service has, by somebody else, blocks that edits give: who takes one
    after that takes it there.
    """
    told = {each.new for each in place.intents} & there.blocks - {each.new for each in place.requests}
    told -= void_in(account_of(place)) if told else told
    intents = (
        replace(each, base=replace(each.base, blocks=each.base.blocks | {each.new}))
        if each.base is not None and each.new in told
        else each
        for each in place.intents
    )
    return replace(place, intents=tuple(intents)) if told else place


def promised_blocks(place: Place) -> Blocks:
    """The blocks that the service acknowledged, and has not been told to delete since."""
    return there(account_of(place))


def lacking(place: Place, theirs: Content) -> bool:
    """True if a conclusive list lacks what was acknowledged, and no later intent takes it back."""
    if not any(request.known for request in place.requests):
        return False
    last = last_word(place.intents)
    for item, entry in account_of(place).items():
        newest, wanted = last.get(item, (-1, None))
        is_lacking = newest <= entry.upto and bool(entry.promised) and theirs.has(item) not in entry.promised
        # A block that is there, though it was deleted, is lacking only if it is to go.
        if is_lacking and (theirs.has(item) is not True or wanted is False):
            return True
    return False


def conflicting(place: Place, theirs: Content) -> list[Intent]:
    """The intents that would change or delete what somebody has changed since the person saw it."""
    account = account_of(place)
    strange = {item for item, entry in account.items() if entry.ours and theirs.has(item) not in entry.ours}
    last = last_word(place.intents)
    against = {item for item in strange & last.keys() if theirs.has(item) != last[item][1] and not account[item].void}
    is_deleting = is_gone = target(place.intents, theirs) is None
    if is_deleting and not (
        any(theirs.has(item) is not False for item in strange)  # a block that is gone need not be deleted
        or theirs.blocks - blocks_in(account)
        or _may_be_deleted(place, theirs)
    ):
        against, is_deleting = set(), False
    is_along = bool(not is_gone and taken_along(place, theirs))
    unclear = unclear_blocks(place, theirs)
    return [
        intent
        for intent in place.intents
        if (is_deleting and intent.what == "delete")
        or intent.says.keys() & against
        or (intent.takes and is_along)
        or intent.takes & unclear
    ]


def taken_along(place: Place, theirs: Content) -> Blocks:
    """The blocks that are gone with those that edits take, before anything was sent for that, if there are others among
    them or none is left: somebody else may have taken all, to put others back next.
    """
    taking = [intent for intent in place.intents if intent.takes]
    taken = taken_by(taking)
    if not taking or place.baseline is None or taken & theirs.blocks:
        return frozenset()
    if any(request.concerns(intent) for request in place.requests for intent in taking):
        return frozenset()
    given = {intent.new for intent in place.intents}
    gone = place.baseline.blocks - given - theirs.blocks - owed_blocks(place)
    return gone if gone - taken or (len(gone) > 1 and not theirs.blocks) else frozenset()


def _seen(intents: Iterable[Intent]) -> Blocks:
    """The blocks that the person saw who made these."""
    return frozenset().union(*(intent.base.blocks for intent in intents if intent.base is not None))


def strange_blocks(place: Place, theirs: Content) -> Blocks:
    """The blocks that neither the person who edited has seen, nor anything of ours has given or is to give."""
    account = account_of(place)
    ours = {item[0] for item, entry in account.items() if isinstance(item, tuple) and True in entry.ours}
    wanted = {item[0] for item, (_, value) in last_word(place.intents).items() if value is True}
    return theirs.blocks - (_seen(place.intents) - void_in(account)) - ours - wanted - place.owed


def _may_be_deleted(place: Place, theirs: Content) -> bool:
    """True if an earlier delete may have been applied, and what is there, without some of the blocks, is another's."""
    had: set[Any] = set().union(
        *(each.before.blocks for each in place.requests if each.what == "delete" and each.before)
    )
    seen = _seen(intent for intent in place.intents if intent.what == "delete")
    return bool(had & seen - theirs.blocks)


def _next(place: Place, theirs: Content, wanted: Content | None, busy: Blocks) -> Request | None:
    """The next request on the way from what the service has to what is wanted; None if only ``busy`` blocks lack."""
    if wanted is None:
        return Request(what="delete", before=theirs)
    if theirs.values != wanted.values:
        return Request(what="put", before=theirs, values=wanted.values)
    gone, new = theirs.blocks - wanted.blocks, wanted.blocks - theirs.blocks - busy
    # First the blocks that a removal took along: if a new one is refused after that, none of these is missing. Then
    # the new ones, in the order of the edits.
    given = {intent.new: at for at, intent in enumerate(place.intents) if intent.new is not None}
    first = min(in_order(new), key=lambda block: given.get(block, -1), default=None)
    if gone and len(gone) <= len(new):  # else all must be deleted in any case
        return Request(what="replace", before=theirs, old=in_order(gone)[0], new=first)
    if gone:
        return Request(what="clear", before=theirs)
    return Request(what="add", before=theirs, new=first) if new else None


def _number(place: Place) -> int | None:
    return place.lost if place.number is None else place.number


def _newest(place: Place) -> int:
    return max((intent.id for intent in place.intents), default=0)
