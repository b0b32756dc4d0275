"""The one decision of a push: what follows for a place from what the service has of it."""

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from geolookup.state.edits.places.place import (
    Blocks,
    Content,
    Intent,
    Place,
    Request,
    filled,
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
    if theirs == wanted and not taken_along(place, theirs):
        return Done(theirs) if look.conclusive else Wait("shown")
    if conflicting(place, theirs) or given_again(place, theirs):
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


def owed_blocks(place: Place) -> Blocks:
    """The blocks that a delete-all of ours took, and that must be put back unless an intent takes them."""
    owed: set[Any] = set(place.owed)
    for request in place.requests:
        if request.what == "clear":
            assert request.before is not None
            owed |= request.before.blocks
        elif request.what in ("add", "replace"):
            owed -= {request.old, request.new} if request.known else {request.old}
    return frozenset(owed)


#: What the service must show: of a field, by its position, the values, and by ``(block,)`` whether that is there. Both
#: what was acknowledged and what was sent since and may be so, with the newest intent that it was acknowledged for.
_Promised: TypeAlias = dict[Any, tuple[frozenset[Any], int]]


def _promised(place: Place) -> _Promised:
    """All that the service acknowledged, unless a later request took it back."""
    promised: _Promised = {}
    for request in place.requests:
        says: dict[Any, Any] = request.touched if request.what == "put" else dict(filled(request.values))
        if request.what == "clear":
            assert request.before is not None
            says = {(block,): False for block in request.before.blocks | _there(promised)}
        elif request.what in ("add", "replace"):
            says = {(request.old,): False, (request.new,): True}
        for item, value in says.items():
            if request.known:
                promised[item] = frozenset({value}), request.upto
            elif item in promised:
                values, upto = promised[item]
                promised[item] = values | {value}, upto
    return promised


def _there(promised: _Promised) -> Blocks:
    blocks = {item: values for item, (values, _) in promised.items() if isinstance(item, tuple)}
    return frozenset(block for (block,), values in blocks.items() if False not in values)


def meant(place: Place, theirs: Content) -> Content | None:
    """The place as the service shall have it, if it has this now; None if it shall have none."""
    return target(net(place), replace(theirs, blocks=theirs.blocks | owed_blocks(place)))


def half_done(place: Place, theirs: Content) -> list[Intent]:
    """The removals for which the newest delete-all was sent, if it also took blocks that have not been put back.

    A removal whose block a later edit gives again counts as over, as long as another one is left.
    """
    back, wanted = owed_blocks(place), meant(place, theirs)
    *_, clear = [None, *(each for each in place.requests if each.what == "clear")]
    upto = max((each.id for each in place.intents if each.takes), default=0) if clear is None else clear.upto
    given = {intent.new for intent in place.intents if intent.id > upto}
    if wanted is None or not back & wanted.blocks - theirs.blocks - given:
        return []
    last = last_word(place.intents)
    taken = last.keys() if clear is None or clear.before is None else clear.before.blocks
    taking = [each for each in place.intents if each.takes & taken]
    return [each for each in taking if any(last[block] == each.id for block in each.takes & taken)] or taking[-1:]


def others_missing(place: Place, theirs: Content) -> Blocks:
    """The other blocks that are missing together with those that a restored edit removes: it may be half done."""
    if not place.doubted or target(place.intents, theirs) is None:
        return frozenset()
    taking = [intent for intent in place.in_doubt if intent.takes]
    taken = taken_by(taking)
    return frozenset() if taken & theirs.blocks else _seen(taking) - taken - theirs.blocks


def void_blocks(place: Place) -> Blocks:
    """The blocks that were given and taken again before any request had them: others may have given them since.

    Of an older copy of the edits nobody knows whether a request had them.
    """
    given: dict[Any, list[bool]] = {}
    for intent in place.intents if not place.doubted else ():
        for block in intent.takes | {intent.new} - {None}:
            was_there = intent.base is not None and block in intent.base.blocks
            given.setdefault(block, [was_there]).append(block == intent.new)
    blocks = {block for block, (was, *since) in given.items() if True in since and not (was or since[-1])}
    for request in place.requests if blocks else ():
        blocks -= {request.old, request.new}
        blocks -= request.before.blocks if request.what == "clear" and request.before is not None else set()
    return frozenset(blocks)


def net(place: Place) -> tuple[Intent, ...]:
    """The intents of a place without the blocks that are void, and what is left of each."""
    gone = void_blocks(place)
    return tuple(filter(None, (_without(intent, gone) for intent in place.intents))) if gone else place.intents


def _without(intent: Intent, gone: Blocks) -> Intent | None:
    """An intent that never heard of these blocks; None if nothing is left."""
    base = None if intent.base is None else replace(intent.base, blocks=intent.base.blocks - gone)
    old, new = (None if block in gone else block for block in (intent.old, intent.new))
    what = intent.what
    if (old, new) != (intent.old, intent.new):
        if old is None and new is None:
            return None
        what = "add_block" if old is None else "remove_block"
    return replace(intent, what=what, base=base, old=old, new=new)


def as_told(place: Place, there: Content) -> Place:
    """A place of which a person is told that the service has, by somebody else, blocks that edits give: who takes one
    after that takes it there.
    """
    given = {each.new for each in place.intents} & there.blocks - {each.new for each in place.requests}
    told = given - void_blocks(place) if given else given
    intents = (
        replace(each, base=replace(each.base, blocks=each.base.blocks | {each.new}))
        if each.base is not None and each.new in told
        else each
        for each in place.intents
    )
    return replace(place, intents=tuple(intents)) if told else place


def promised_blocks(place: Place) -> Blocks:
    """The blocks that the service acknowledged, and has not been told to delete since."""
    return _there(_promised(place))


def lacking(place: Place, theirs: Content) -> bool:
    """True if a conclusive list lacks what was acknowledged, and no later intent takes it back."""
    taken = {block: intent.id for intent in place.intents for block in intent.takes}
    last = last_word(place.intents)
    for item, (values, upto) in _promised(place).items():
        if isinstance(item, int):
            later = (each for each in place.intents if each.id > upto)
            is_lacking = theirs.values[item] not in values and not any(item in each.touched for each in later)
        elif item[0] in theirs.blocks:
            is_lacking = True not in values and item[0] in taken and taken[item[0]] == last[item[0]] <= upto
        else:
            is_lacking = False not in values and taken.get(item[0], upto) <= upto
        if is_lacking:
            return True
    return False


def conflicting(place: Place, theirs: Content) -> list[Intent]:
    """The intents that would change or delete what somebody has changed since the person saw it."""
    ours: dict[int, set[Any]] = {at: set() for at in range(len(theirs.values))}
    acknowledged: dict[int, int] = {}
    said: dict[int, Any] = {}
    found = []
    for request in place.requests:
        for at, value in request.sets.items():
            if request.known and request.what == "put":  # if what was before is there, somebody took ours back
                ours[at], acknowledged[at] = set(), request.upto
            ours[at].add(value)
    for intent in net(place):
        touched = dict(enumerate(intent.values)) if intent.what == "create" else intent.touched
        if intent.base is not None:
            for at in ours if intent.what == "delete" else touched:
                seen = intent.base.values[at]
                # What an edit before it says is ours once a request, or a newer copy of the edits, may have sent it.
                if intent.id > acknowledged.get(at, -1) and (at not in said or said[at] != seen):
                    ours[at].add(seen)
                if theirs.values[at] not in ours[at] | ({touched[at]} if at in touched else set()):
                    found.append(intent)
                    break
        said |= touched
        if intent.what == "create" or intent.id <= place.doubted:
            for at, value in touched.items():
                ours[at].add(value)
        is_strange = intent.what == "delete" and (
            strange_blocks(place, theirs)
            or _given_back(place, theirs) - _seen([intent])
            or _never_sent(place) & theirs.blocks
            or _may_be_deleted(place, theirs)
        )
        if is_strange and intent not in found:
            found.append(intent)
    if taken_along(place, theirs):
        found += [intent for intent in place.intents if intent.takes and intent not in found]
    if again := _taken_again(place, theirs):
        found += [intent for intent in place.intents if intent.new in again and intent not in found]
    return found


def _never_sent(place: Place) -> Blocks:
    """The blocks that only edits of which nothing was sent give, and of which nobody was told that they are there."""
    if place.doubted:
        return frozenset()
    had = frozenset() if place.baseline is None else place.baseline.blocks
    given = {each.new for each in place.intents if each.base is None or each.new not in each.base.blocks}
    return frozenset(given - had - {each.new for each in place.requests} - {None})


def _taken_again(place: Place, theirs: Content) -> Blocks:
    """The blocks that edits took and gave back before anything was sent for that, and that somebody has taken since."""
    taking = [each for each in place.intents if each.takes - theirs.blocks]
    unsent = [each for each in taking if not any(request.concerns(each) for request in place.requests)]
    taken = taken_by(unsent) - theirs.blocks
    if not taken or place.doubted or place.at_service is None:
        return frozenset()
    given = {block: each.new == block for each in place.intents for block in (each.new, *each.takes)}
    sent = {request.old for request in place.requests if request.what == "replace"}
    return frozenset(block for block in taken & place.at_service.blocks - sent if given[block])


def _given_back(place: Place, theirs: Content) -> Blocks:
    """The blocks that the service acknowledged to have taken away, and that somebody has given again."""
    taken = (item for item, (values, _) in _promised(place).items() if isinstance(item, tuple) and True not in values)
    return theirs.blocks & {block for (block,) in taken}


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


def given_again(place: Place, theirs: Content) -> Blocks:
    """The blocks that a half-done removal takes, that a list has shown to be gone, and that somebody gave again."""
    wanted = meant(place, theirs) if place.owed & theirs.blocks else None
    ours = {request.new for request in place.requests} | (set() if wanted is None else wanted.blocks)
    return place.owed & theirs.blocks - ours


def strange_blocks(place: Place, theirs: Content) -> Blocks:
    """The blocks that neither the person who edited has seen, nor anything of ours has given."""
    left = net(place)
    known: set[Any] = {*place.owed, *_seen(left)}
    for intent in left:
        known |= intent.takes | {intent.new}
    for request in place.requests:
        # Before a delete-all of ours they were known to be nobody else's; before any other, nobody had looked for that.
        taken = request.before.blocks if request.what == "clear" and request.before is not None else frozenset()
        known |= {request.old, request.new} | taken
    return theirs.blocks - known | given_again(place, theirs)


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
    # In the order in which the person gave them; what was taken besides comes back last.
    given = {intent.new: at for at, intent in enumerate(place.intents) if intent.new is not None}
    first = min(in_order(new), key=lambda block: given.get(block, len(place.intents)), default=None)
    if gone and len(gone) <= len(new):  # else all must be deleted in any case
        return Request(what="replace", before=theirs, old=in_order(gone)[0], new=first)
    if gone:
        return Request(what="clear", before=theirs)
    return Request(what="add", before=theirs, new=first) if new else None


def _number(place: Place) -> int | None:
    return place.lost if place.number is None else place.number


def _newest(place: Place) -> int:
    return max((intent.id for intent in place.intents), default=0)
