"""Looks at a number: whether it shows the place itself, and how that reads in our words."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from msgspec.structs import replace

from geolookup.state.edits.places.likeness import Forms
from geolookup.state.edits.places.place import Content, Place
from geolookup.state.edits.places.reconcile import Look, owed_blocks


def is_another(place: Place, content: Content, forms: Forms) -> bool:
    """True if what a number shows is something else than this place was, or was asked to be.

    It shares no block with it or, if one of the two has none, not its country, city and coordinates: what has blocks is
    held against what the place had last. What is equal to it in all fields is it, too, if a block was widened or
    narrowed. Who has but some of its blocks, and has never had its city or a coordinate,
    may have taken these over: those of a moment between two requests are some, or none after a delete-all of ours.
    """
    whole = {each.blocks for each in (place.baseline, place.acknowledged) if each is not None}
    was = list(place.was())
    shared = {each.blocks & content.blocks for each in was} - {frozenset()}
    is_between = shared or (not content.blocks and owed_blocks(place))
    if shared & whole or (is_between and any(forms.akin(each.values, content.values) for each in was)):
        return False
    if any(each.values == content.values and forms.overlap(each.blocks, content.blocks) for each in was):
        return False
    bare = (each for each in latest(place) if not each.blocks) if content.blocks else was
    return not any(forms.identical(each.values, content.values) for each in bare)


def is_familiar(place: Place, content: Content, forms: Forms) -> bool:
    """True if a number shows a block of a place, or just what it was: else another of ours may have its number now."""
    was = list(place.was())
    return any(each.blocks & content.blocks for each in was) or recognised(place, content, forms) in was


def latest(place: Place) -> Iterator[Content]:
    """The content that the service acknowledged last, and that after each request since, whose outcome is unknown."""
    known = max((at for at, each in enumerate(place.requests) if each.known), default=-1)
    newest = None if known < 0 else place.requests[known]
    last = place.at_service if newest is None else newest.applied(newest.before) or newest.before
    yield from () if last is None else (last,)
    for request in place.requests[known + 1 :]:
        if (after := request.applied(request.before)) is not None:
            yield after


#: The places that were each content, by their ids; see `owners_of`.
Owners: TypeAlias = Mapping[Content, Collection[int]]


def look_at(
    place: Place, content: Content | None, forms: Forms, *, conclusive: bool, owners: Owners = MappingProxyType({})
) -> Look:
    """A look at what a list has under the number of a place: in our words, where the service has its own."""
    if content is None:
        return Look(None, conclusive=conclusive)
    ours = recognised(place, content, forms)
    # If it is just what it shall be, another machine has made it so, perhaps from the same file.
    another = ours != place.shown and (
        (is_another(place, ours, forms) and is_another(place, content, forms)) or is_of_others(place, content, owners)
    )
    return Look(ours, conclusive=conclusive, another=another, listed=content if ours != content else None)


def recognised(place: Place, content: Content, forms: Forms) -> Content:
    """A content with our own words in place of what the service makes of them."""
    values = content.values
    for request in place.requests:  # if several may have been stored so, the newest one's words count
        words = forms.as_sent(request.values, content.values) if request.values else ()
        for at, sent in request.sets.items():
            if words[at] == sent:
                values = (*values[:at], sent, *values[at + 1 :])
    left = {*range(len(values))}
    for intent in reversed(place.intents):  # the newest saw it last, be it in the service's own words
        if left and intent.base is not None:
            seen = forms.as_seen(intent.base.values, values)
            known = {at for at in left if seen[at] == intent.base.values[at]}
            values = tuple(seen[at] if at in known else value for at, value in enumerate(values))
            left -= known
    return content if values == content.values else replace(content, values=values)


def is_as_sent(place: Place, content: Content | None) -> bool:
    """True if a number shows just what was sent for a place: of most it does, and nothing else need be asked."""
    if content is None or content.values not in {each.values for each in place.requests}:
        return False
    return content.blocks <= {each.new for each in place.requests}


def owners_of(places: Iterable[Place], listed: Mapping[int, Content]) -> dict[Content, set[int]]:
    """The ids of the places that were, or were to be, each content with blocks, and are not so under their numbers."""
    owners: dict[Content, set[int]] = {}
    for place in _changed(places, listed):
        for content in place.was():
            if content.blocks:
                owners.setdefault(content, set()).add(place.id)
    return owners


def doubtful(
    places: Iterable[Place], listed: Mapping[int, Content], holds: Callable[[Place], bool]
) -> set[tuple[int, int]]:
    """The ids and numbers of the places whose number shows a block of another of ours that its own does not show.

    At the service that gave the number, somebody gave it the block. At another one it may be that other place.
    """
    changed = [*_changed(places, listed)]
    lost = {block for place in changed if not holds(place) for block in place.had}
    return {
        (place.id, number)
        for place in changed
        if (number := place.number) is not None and number in listed
        if (listed[number].blocks & lost) - place.had
    }


def _changed(places: Iterable[Place], listed: Mapping[int, Content]) -> Iterator[Place]:
    """The places that are not as they were last under their numbers."""
    for place in places:
        there = None if place.number is None else listed.get(place.number)
        if not (place.deleted or there in {*latest(place)}):
            yield place


def is_of_others(place: Place, content: Content | None, owners: Owners) -> bool:
    """True if a number shows just what another place of ours was, and this one never: not one block more.

    It may be in the same town: then this alone tells that the service has exchanged their numbers. It may have a block
    that went from one to the other since: then the service is as it was before.
    """
    return content is not None and place.id not in owners.get(content, (place.id,))
