"""The steps of a place: a request leaves, is answered, has settled; a conclusive list ends what it shows."""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from geolookup.state.edits.places.account import account_of, void_in
from geolookup.state.edits.places.likeness import Forms
from geolookup.state.edits.places.looking import doubtful, is_as_sent, is_of_others, look_at, owners_of
from geolookup.state.edits.places.matching import Before, Matching, matched, numbered_anew, twins_of
from geolookup.state.edits.places.place import (
    Content,
    Intent,
    Place,
    Request,
    lacked,
    made_against,
    taken_by,
    target,
)
from geolookup.state.edits.places.reconcile import (
    Done,
    Hold,
    Send,
    others_missing,
    owed_blocks,
    promised_blocks,
    reconcile,
    taken_along,
)


def answered(place: Place, *, number: int | None = None) -> Place:
    """A place of which the service acknowledged the newest request, a create with this number."""
    *others, newest = place.requests
    bound = place.number if number is None else number
    return replace(place, number=bound, requests=(*others, replace(newest, known=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Concluded:
    """All places after a conclusive list: ``held`` by their ids.

    ``twins`` are numbers that our creates may have made in addition, each with its place. ``ended`` are the ids of
    places that others deleted, or changed beyond recognition. ``is_pending`` is `Matching.is_pending`. The number of a
    place that is ``undecided`` shows what another one of ours was: a later list tells. ``hidden`` are the numbers,
    each with its place, that show something else, and for which the list proves nothing yet.
    """

    places: tuple[Place, ...]
    held: Mapping[int, Hold]
    twins: Mapping[int, int]
    ended: tuple[int, ...]
    is_pending: Callable[[int], bool]
    undecided: Collection[int]
    hidden: Mapping[int, int]


def concluded(
    places: Sequence[Place],
    listed: Mapping[int, Content],
    *,
    before: Mapping[int, Before],
    forms: Forms,
    denied: Mapping[int, Collection[int]] | None = None,
    mark: Callable[[int], Hashable] | None = None,
    waiting: Sequence[Place] = (),
    was: Mapping[int, Content] | None = None,
    moved: bool = False,
) -> Concluded:
    """Hold every place against a list that is conclusive for it.

    :param before: of each place with a create, what the service had before, by the place's id
    :param denied: the numbers of which a person said, as they were then, that a place is not there, by its id
    :param waiting: the places for which it is not
    :param was: what a place was that a person wants anew, by its id
    :param moved: true if the service is at another address than what is published came from
    :param mark: gives the digest of what a number shows; the content itself if there is none
    """
    held: dict[int, Hold] = {}
    had_numbers = {place.id for place in places if place.number is not None}
    owners = owners_of((*places, *waiting), listed)
    matching = Matching(listed, mark or listed.__getitem__, before, forms, denied or {}, was=was or {}, owners=owners)
    matching.doubtful |= doubtful((*places, *waiting), listed, matching.holds) if moved else set()
    # What a number of ours shows that is something else is nobody's: a site that is to be made anew may be there again.
    hidden = {place.number: place.id for place in waiting if place.number is not None and matching.is_another(place)}
    matching.taken |= {place.number for place in waiting if place.number is not None} - hidden.keys()
    places = numbered_anew(places, matching)
    unproved = (place for place in waiting if not is_as_sent(place, listed.get(place.number or 0)))
    matching.pending += [
        each.values
        for place in unproved
        for each in place.requests
        if each.what == "create" and not (each.known and (place.deleted or matching.holds(place)))
    ]
    bound = matched(places, matching, held)
    known = [place for place in waiting if all(each.known for each in place.requests if each.what == "create")]
    twins = twins_of([*bound, *known], matching)
    numbers = {place.number for place in (*bound, *waiting) if place.number is not None}
    living = {place.number for place in (*bound, *waiting) if not place.deleted}
    of_waiting = {content for place in waiting for content in place.was()}
    found, ended = [], []
    undecided = {
        place.id
        for place in waiting
        if is_of_others(place, listed.get(place.number or 0), owners) or (place.id, place.number) in matching.doubtful
    }
    for place in sorted(bound, key=lambda each: (each.id, each.number) in matching.doubtful):
        there = None if place.number is None else listed.get(place.number)
        is_of_waiting = there in of_waiting and there not in place.was()
        if is_of_waiting:  # the service may number anew: a later list tells of both
            undecided.add(place.id)
        if place.id in held or is_of_waiting or place.number in matching.passed:  # a person says whose it is
            found.append(place)
            continue
        if place.number is None and place.lost is not None and place.lost not in numbers:
            again = replace(place, number=place.lost, lost=None)
            place = again if matching.holds(again) and not matching.is_pending(place.lost) else place
        is_new = place.creating is not None and place.baseline is None
        # After a delete whose answer was lost, somebody may have made it anew: a person is asked.
        may_be_gone = any(each.what == "delete" and not each.known for each in place.requests)
        found_at = None if is_new or may_be_gone or matching.holds(place) else matching.same_as(place)
        # Once it was deleted for sure, what is like it may be a new one: a person says it. Else it may have moved.
        was_deleted = any(each.what == "delete" and each.known for each in place.requests)
        if found_at is None and place.deleted and there is None and not was_deleted:
            found_at = next(iter(matching.may_be(place)), None)
        if found_at is not None:  # the service, or another one, has given it another number
            place = replace(place, number=found_at, lost=None, refused=None)
            matching.taken.add(found_at)
        number = place.number if place.number is not None or place.lost in numbers else place.lost
        given = place.deleted and number in living  # to another place of ours
        shown = None if number is None or given else listed.get(number)
        look = look_at(place, shown, forms, conclusive=True, owners=owners)
        if (place.id, number) in matching.doubtful:
            look = replace(look, another=True)
        if place.refused is not None and not look.another and place.refused.is_done(look.content):
            place = replace(place, refused=None)  # somebody else did it
        is_open = place.baseline is not None and bool(place.intents or place.requests)
        match reconcile(place, look):
            case Hold("gone" | "not shown", None) | Hold("another") | Done(None) if is_open and (
                found_as := matching.may_be(place)
            ):
                number, *others = found_as
                held[place.id] = Hold("unclear", listed[number], number, tuple((each, listed[each]) for each in others))
                place = place.unbound if place.number is not None else place
                if place.lost in found_as:  # its own number is not believed: no later list may take that for it unasked
                    place = replace(place, lost=None)
            case Hold() as hold:
                also = holders(place.refused, listed) if hold.reason == "refused" else hold.also
                is_gone = hold.reason == "another" or (shown is None and hold.reason in ("gone", "not shown"))
                if is_gone and place.shown is not None:
                    also = tuple((each, listed[each]) for each in matching.having([place.shown]))
                held[place.id] = replace(hold, theirs=shown if hold.theirs is not None else None, also=also)
                if hold.reason in ("another", "gone", "unclear") and place.number is not None:
                    place = place.unbound
                elif shown is not None and not look.another:  # until a person decides, the rest is as it is there
                    place = over(place, shown)
            case Done(content):
                number = None if content is None else place.number
                was_here = place.id in had_numbers or place.intents or place.requests
                if content is None and place.shown is not None and was_here:
                    ended.append(place.id)
                place = Place(id=place.id, number=number, baseline=None if content is None else shown)
            case Send() if look.content is not None and not look.another:
                assert shown is not None
                place = _shown(place, look.content, shown)
        found.append(place)
    # One that waits leaves a number that this list shows to be another one's of ours: a later list finds it.
    bound_now = {place.number for place in found if place.number is not None}
    found += [replace(place, number=None, lost=place.number) for place in waiting if place.number in bound_now]
    return Concluded(
        places=tuple(found), held=held, twins=twins, ended=tuple(ended),
        is_pending=matching.is_pending, undecided=undecided, hidden=hidden,
    )  # fmt: skip


def holders(refused: Request | None, listed: Mapping[int, Content]) -> tuple[tuple[int, Content], ...]:
    """The numbers that have the block which the service refused to give, with what they show."""
    block = None if refused is None else refused.new
    return tuple((number, content) for number, content in listed.items() if block in content.blocks)


def over(place: Place, listed: Content) -> Place:
    """A place over what a list has of it: what is open, owed or acknowledged stays, and all else is as it is there."""
    kept = owed_blocks(place) | promised_blocks(place)
    kept |= others_missing(place, listed) | taken_along(place, listed)
    return replace(place, baseline=replace(listed, blocks=listed.blocks | kept))


def seen_already(place: Place, there: Content | None) -> Place:
    """A place of which a look shows all that is wanted, without the edits for which nothing was sent: they are over.

    What somebody changes after that, he changes after them. Lookups have them above an older list.
    """
    if there is None:
        return replace(place, baseline=None)
    if not place.requests:
        return replace(place, baseline=there, intents=(), owed=frozenset())
    upto = max(request.upto for request in place.requests)
    said = {(block,) for block in owed_blocks(place)}  # a removal that was half done has more to say of these
    over = {}
    for each in place.intents:
        if each.id > upto and each.what != "delete" and said.isdisjoint(each.says):
            over[each.id] = each
        else:  # what it says goes on, so that nothing later of the same is over
            said |= each.says.keys()
    if place.baseline is None or not over:
        return place
    left = tuple(each for each in place.intents if each.id not in over)
    return replace(place, baseline=target(over.values(), place.baseline), intents=left)


def _shown(place: Place, theirs: Content, listed: Content) -> Place:
    """A place of which a list shows all that was acknowledged, and not yet all that is wanted.

    ``theirs`` is in our words, and ``listed`` in those of the service.
    """
    owed = owed_blocks(place, theirs) - theirs.blocks
    if not owed - taken_by(place.intents):
        owed = frozenset()  # all else that a delete-all took is back: the removal is over
    baseline = replace(theirs, blocks=theirs.blocks | owed)
    left = tuple(_without_create(place))
    void = baseline.blocks & void_in(account_of(place))
    intents = lacked(left, replace(baseline, blocks=baseline.blocks - void))
    if owed and not any(intent.takes for intent in intents):
        # A block that was removed was given again before the delete-all was known: both stay until the others are back.
        # So does what gives up a removal, and so gives again what it took.
        taking = next((intent for intent in reversed(left) if intent.takes), None)
        since, back = (-1, owed) if taking is None else (taking.id, taking.takes | owed)
        intents = tuple(
            intent for intent in left if intent in (*intents, taking) or (intent.id > since and intent.new in back)
        )
    return replace(
        place, baseline=replace(baseline, values=listed.values), requests=(), owed=owed,
        intents=made_against(baseline, intents, unseen=void),
    )  # fmt: skip


def _without_create(place: Place) -> Iterator[Intent]:
    """The intents of a place that is there: a create is what it says now and did not when it was sent."""
    made = next((request.values for request in reversed(place.requests) if request.what == "create"), None)
    for intent in place.intents:
        if intent.what != "create":
            yield intent
        elif made is not None:
            yield replace(intent, what="update", base=Content(made))
