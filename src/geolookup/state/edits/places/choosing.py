"""What a person may choose for a place that is held, and what becomes of it then."""

from collections.abc import Collection, Iterable
from typing import Literal, TypeAlias

from msgspec.structs import replace

from geolookup.state.edits.places.place import (
    Blocks,
    Content,
    Intent,
    Place,
    in_order,
    lacked,
    made_against,
    taken_by,
    target,
    without,
)
from geolookup.state.edits.places.reconcile import (
    Hold,
    Reason,
    conflicting,
    half_done,
    others_missing,
    owed_blocks,
    promised_blocks,
    strange_blocks,
)

Choice: TypeAlias = Literal["mine", "theirs", "anew", "same", "retry", "drop"]

#: The choices that can succeed for each reason; "drop" gives up what is open, and "same" takes what the number shows,
#: also where "retry" and "drop" would both give blocks back that are missing.
CHOICES: dict[Reason, tuple[Choice, ...]] = {
    "conflict": ("mine", "theirs"),
    "gone": ("anew", "drop"),
    "another": ("anew", "same", "drop"),
    "not shown": ("retry", "same", "drop"),
    "unclear": ("same", "anew", "drop"),
    "refused": ("retry", "drop"),
    "doubted": ("retry", "same", "drop"),
}


def offered(place: Place, hold: Hold) -> tuple[Choice, ...]:
    """The choices that can succeed now: a block that another one has is refused, and refused again."""
    there = [content for _, content in hold.also] + ([] if hold.theirs is None else [hold.theirs])
    wanted = frozenset() if place.shown is None else place.shown.blocks
    never: set[Choice] = {"retry"} if hold.reason == "refused" and hold.also else set()
    if any(content.blocks & wanted for content in there):
        never |= {"anew", "retry"} if hold.theirs is None else {"anew"}
    if hold.reason == "unclear" and "anew" not in never and owed_blocks(place) - taken_by(place.intents):
        never |= {"drop"}  # nobody knows yet where the other blocks belong
    never |= {"same"} if hold.reason in ("doubted", "not shown") and not any(given_back(place, hold)) else set()
    return tuple(choice for choice in CHOICES[hold.reason] if choice not in never)


def chosen(place: Place, hold: Hold, choice: Choice) -> Place:
    """A place after a person's choice about it: what is open next is sent by the next push, refused before or not."""
    return put_back(replace(_chosen(place, hold, choice), refused=None))


def _chosen(place: Place, hold: Hold, choice: Choice) -> Place:
    match choice:
        case "mine":
            # They know now what is there: what was acknowledged before counts no more, but what a delete-all took.
            creates = tuple(each for each in place.requests if each.what == "create")
            assert hold.theirs is not None  # it is a conflict
            owed = owed_blocks(place) - hold.theirs.blocks
            # What else an older copy of the edits may have undone was not asked about yet.
            asked = conflicting(place, hold.theirs)
            unasked = [intent for intent in place.in_doubt if intent not in asked]
            doubted = place.doubted if target(unasked, hold.theirs) != hold.theirs else 0
            return replace(rebased(replace(place, owed=owed), hold.theirs), requests=creates, doubted=doubted)
        case "theirs":
            assert hold.theirs is not None  # it is a conflict
            against = {intent.id for intent in conflicting(place, hold.theirs)}
            if strange_blocks(place, hold.theirs):
                known = place.acknowledged
                against |= {each.id for each in place.intents if each.takes and each.applied(known) != known}
            others = tuple(intent for intent in place.intents if intent.id not in against)
            return _as_it_is(replace(place, intents=others), hold.theirs)
        case "same" if hold.reason in ("doubted", "not shown"):
            assert hold.theirs is not None  # some blocks of it are missing there
            over = place.said_yes if hold.reason == "not shown" else place.in_doubt
            since = tuple(intent for intent in place.intents if intent not in over)
            after = replace(place, intents=since, requests=(), owed=frozenset(), doubted=0)
            return rebased(after, hold.theirs, but=_not_asked(place, hold.theirs, over))
        case "same":
            assert hold.theirs is not None  # it is there, as it is
            left = tuple(intent for intent in place.intents if intent.what != "create")
            owed = owed_blocks(place) - hold.theirs.blocks
            bound = replace(place, number=hold.number, lost=None, requests=(), owed=owed, intents=left)
            return rebased(bound, hold.theirs)
        case "anew":
            return anew(place)
        case "retry" if hold.reason == "refused":
            return replace(place, doubted=0)
        case "retry" if hold.reason == "doubted":  # a person knows now what is there
            again = replace(rebased(place, hold.theirs), doubted=0)
            back = frozenset() if hold.theirs is None else others_missing(place, hold.theirs)
            return replace(again, intents=(*again.intents, *_added(again, back)))
        case "retry":
            return anew(place) if hold.theirs is None else _restored(place, hold.theirs)
        case "drop" if hold.reason == "refused":
            elsewhere = frozenset({place.refused.new} if hold.also and place.refused is not None else ())
            return give_up(place, _refused(place), elsewhere)
        case "drop" if hold.reason == "not shown" and hold.theirs is not None:
            over = place.said_yes
            is_created = any(each.what == "create" for each in over)  # else its later edits would go to what is there
            left = () if is_created else tuple(each for each in place.intents if each not in over)
            after = replace(place, intents=left, requests=(), owed=given_back(place, hold)[1])
            return rebased(after, hold.theirs, but=_not_asked(place, hold.theirs, over))
        case "drop":
            theirs = hold.theirs if hold.reason == "doubted" else None  # else there is nothing, or another's
            if theirs is None:
                return Place(id=place.id)  # given up: nothing of it is in doubt any more
            back = given_back(place, hold)[1]  # none do, unless a removal may be half done
            baseline = replace(theirs, blocks=theirs.blocks | back)
            return Place(id=place.id, number=place.number, baseline=baseline, owed=back)


def give_up(place: Place, numbers: Collection[int], elsewhere: Blocks = frozenset()) -> Place:
    """A place without the edits of these numbers, and without what they give back, or what is ``elsewhere`` by now, of
    what a removal of ours took: so that it comes back no more, it is taken.
    """
    left = without(place.intents, numbers)
    gone = elsewhere | {intent.new for intent in place.intents if intent.id in numbers}
    gone = gone & owed_blocks(place) - taken_by(left) - {intent.new for intent in left}
    number, there = 1 + max((intent.id for intent in place.intents), default=0), place.acknowledged
    base = None if there is None else replace(there, blocks=there.blocks | gone)
    taken = (Intent(id=number, what="remove_block", base=base, old=block) for block in in_order(gone))
    return replace(place, intents=(*left, *taken))


def _refused(place: Place) -> list[int]:
    """The numbers of the edits that the service refused: all of a create, else those that it did not do before."""
    known = place.acknowledged
    half = [] if known is None else half_done(place, known)
    return [
        intent.id
        for intent in place.intents
        if known is None
        or (
            (place.refused is None or place.refused.concerns(intent))
            and (intent.applied(known) != known or intent in half)
        )
    ]


def given_back(place: Place, hold: Hold) -> tuple[Blocks, Blocks]:
    """The blocks that "retry" gives back beside what the edits say, and those that "drop" gives back.

    There are some if a removal may be half done: others are missing with those that it took. "drop" gives back all.
    """
    if hold.theirs is None or hold.reason not in ("doubted", "not shown"):
        return frozenset(), frozenset()
    if hold.reason == "doubted":
        missing = others_missing(place, hold.theirs)
        return missing, missing | taken_by(place.in_doubt) - hold.theirs.blocks if missing else missing
    cleared = (each.before.blocks for each in place.requests if each.what == "clear" and each.before is not None)
    taken = owed_blocks(place).union(*cleared) - hold.theirs.blocks - {each.new for each in place.said_yes}
    others = taken - taken_by(place.intents)
    return others, taken if others else others


def anew(place: Place) -> Place:
    """The whole place, to be created: nothing of it is at the service, or what is there is somebody else's."""
    wanted = place.shown
    if wanted is None and place.intents:
        wanted = target(place.intents, place.intents[0].base)
    if wanted is None:
        return Place(id=place.id)
    # Under the numbers that a person knows: the create under the first, and each block under that which gave it.
    ids = [intent.id for intent in place.intents] or [0]
    given = {intent.new: intent.id for intent in place.intents if intent.new is not None}
    intents = [Intent(id=ids[0], what="create", values=wanted.values)]
    intents += [
        Intent(id=given.get(block, ids[-1]), what="add_block", base=Content(wanted.values), new=block)
        for block in in_order(wanted.blocks)
    ]
    return Place(id=place.id, intents=tuple(intents))


def made_again(place: Place, last: Content) -> Place:
    """A place that was to be made `anew`, if somebody else has: of its fields, what is to differ from what it was."""
    create, *others = (
        replace(each, what="update", base=last) if each.what == "create" else each for each in place.intents
    )
    gone = last.blocks - {each.new for each in others} - taken_by(others)
    removals = (Intent(id=create.id, what="remove_block", base=last, old=block) for block in in_order(gone))
    return replace(place, intents=(create, *removals, *others))


def rebased(place: Place, theirs: Content | None, *, but: Collection[int] | None = None) -> Place:
    """A place whose intents are made against what the service has.

    ``but`` is None if a person has decided about all of it. Else they decided about some: no other block than before
    is known, and the intents of these numbers stay as they are, to be asked about.
    """
    if theirs is None:
        return place
    intents = [replace(intent, what="update") if intent.what == "create" else intent for intent in place.intents]
    baseline = replace(theirs, blocks=theirs.blocks | place.owed)
    unseen: Blocks | None = None if but is None else frozenset()
    anew = made_against(theirs, intents, unseen=unseen, owed=owed_blocks(place, theirs))
    kept = tuple(was if was.id in (but or ()) else now for was, now in zip(intents, anew, strict=True))
    return replace(place, baseline=baseline, intents=kept)


def _not_asked(place: Place, theirs: Content, asked: Iterable[Intent]) -> set[int]:
    """The numbers of the edits that conflict with what is there, and that a hold was not about."""
    return {intent.id for intent in conflicting(place, theirs)} - {intent.id for intent in asked}


def _restored(place: Place, theirs: Content) -> Place:
    """A place of which all that was acknowledged, and is not there, is wanted anew."""
    but = _not_asked(place, theirs, place.said_yes)
    again = rebased(replace(place, requests=(), owed=frozenset()), theirs, but=but)
    wanted = again.shown
    if wanted is None:
        return again
    taken = taken_by(place.intents)
    promised = promised_blocks(place)
    lost = (promised | owed_blocks(place)) - taken - wanted.blocks
    extra = _added(again, lost)
    # What was given and is taken again is but taken: it was there, and may be again.
    left = (each for each in again.intents if each.what != "add_block" or each.new not in promised - wanted.blocks)
    return replace(again, intents=(*left, *extra))


def _as_it_is(place: Place, theirs: Content) -> Place:
    """A place as the service has it, with the intents that it has not acknowledged: the rest is theirs to change."""
    known = place.acknowledged or theirs
    left = lacked((each for each in place.intents if each.what != "create"), known)
    back = owed_blocks(place, theirs)
    wanted = target(place.intents, replace(known, blocks=known.blocks | back))
    owed = frozenset() if wanted is None else back & wanted.blocks - theirs.blocks
    return rebased(replace(place, intents=left, requests=(), owed=owed), theirs)


def put_back(place: Place) -> Place:
    """A place that shall have again what a delete-all of ours took, now that each edit that takes any is given up."""
    back = owed_blocks(place)
    if not back or any(intent.takes for intent in place.intents):
        return place
    extra = _added(place, back)
    return replace(place, intents=(*place.intents, *extra), baseline=place.at_service, owed=frozenset())


def _added(place: Place, blocks: Blocks) -> list[Intent]:
    """An edit for each of these blocks that gives it to a place."""
    newest = max((intent.id for intent in place.intents), default=0)
    return [Intent(id=newest, what="add_block", base=place.acknowledged, new=block) for block in in_order(blocks)]
