"""The matching of places with the numbers of a list: what creates of unknown outcome have made, and who has moved."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec.structs import replace

from geolookup.state.edits.places.likeness import Forms, may_be_stored
from geolookup.state.edits.places.looking import Owners, is_of_others, latest, look_at, recognised
from geolookup.state.edits.places.place import Content, Place, Request, Values, in_order, states
from geolookup.state.edits.places.reconcile import Hold

#: What a create did not make: by number, the digest of the content that was there before, or of which a person says so.
#: Of a create that was never sent it is what was published when the person made it.
Before: TypeAlias = Mapping[int, Hashable]
#: Tells whether the second values are what a service has of the first.
Fits: TypeAlias = Callable[[Values, Values], bool]


@dataclass(slots=True)
class Matching:
    """The matching of all creates of unknown outcome with what appeared since; ``mark`` is a digest by the number."""

    listed: Mapping[int, Content]
    mark: Callable[[int], Hashable]
    before: Mapping[int, Before]
    forms: Forms
    #: The numbers of which a person said that a place is not there, by the place's id.
    denied: Mapping[int, Collection[int]] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)
    #: What a place was that a person wants anew, by its id: somebody may have made it again.
    was: Mapping[int, Content] = field(default_factory=dict)
    #: What creates have sent of which this list does not tell yet what they made.
    pending: list[Values] = field(default_factory=list)
    #: What a person edited under its number, as a place of its own: a create may have made it all the same.
    edited: dict[int, Place] = field(default_factory=dict)
    owners: Owners = field(default_factory=dict)
    #: The ids of places, each with its number, if that is not believed; see `looking.doubtful`.
    doubtful: set[tuple[int, int]] = field(default_factory=set)
    #: The numbers of places of ours that a create may have been given.
    passed: set[int] = field(default_factory=set)
    _cells: dict[Hashable, list[int]] = field(default_factory=dict)
    _having: dict[Hashable, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number in sorted(self.listed, reverse=True):
            self._cells.setdefault(self.forms.cell(self.listed[number].values), []).append(number)

    def holds(self, place: Place) -> bool:
        """True if a place is what its number shows."""
        is_believed = (place.id, place.number) not in self.doubtful
        return place.number in self.listed and not place.deleted and not self.is_another(place) and is_believed

    def is_another(self, place: Place) -> bool:
        """True if the number of a place shows something else."""
        there = None if place.number is None else self.listed.get(place.number)
        return look_at(place, there, self.forms, conclusive=True, owners=self.owners).another and not place.deleted

    def appeared(self, place: Place, values: Values) -> Iterator[int]:
        """The numbers of what is like these values, is nobody's, and was not there before the create."""
        before = self.before.get(place.id, {})
        for cell in self.forms.near(values):
            for number in self._free(cell):
                free = number not in self.taken or (number in self.edited and number not in before)
                if free and not self.is_ruled_out(place, number):
                    yield number

    def made(self, place: Place, sent: Values, may_have: Set[Hashable], fits: Fits) -> list[int]:
        """The numbers of what a create of a place may have made of these values, with no other blocks than it may have.

        What a person has edited under its number is none of them.
        """
        return [
            number
            for number in dict.fromkeys(self.appeared(place, sent))
            if number not in self.edited
            and fits(sent, self.listed[number].values)
            and self.listed[number].blocks <= may_have
        ]

    def is_ruled_out(self, place: Place, number: int) -> bool:
        """True if a place cannot be what a number shows: that was there before it, or a person says so."""
        return self.before.get(place.id, {}).get(number) == self.mark(number)

    def is_pending(self, number: int) -> bool:
        """True if a number shows what a create has sent of which this list does not tell yet what it made."""
        return any(self.forms.same(sent, self.listed[number].values) for sent in self.pending)

    def _free(self, cell: Hashable) -> list[int]:
        """The numbers of a square that are nobody's, or `edited`; the others are dropped, to be met once."""
        numbers = self._cells.get(cell, [])
        if any(number in self.taken and number not in self.edited for number in numbers):
            numbers = [number for number in numbers if number not in self.taken or number in self.edited]
            self._cells[cell] = numbers
        return numbers

    def same_as(self, place: Place) -> int | None:
        """The number of what is nobody's, and just what a place was or was to be, with blocks.

        Else, if nothing of it is open, of what alone has its country, city, coordinates and some of its blocks.
        """
        for content in dict.fromkeys(each for each in place.was() if each.blocks):
            for number in self._free(self.forms.cell(content.values)):
                is_so = number not in self.taken and self.listed[number] == content
                if is_so and not self.is_ruled_out(place, number):
                    return number
        if place.intents or place.requests:
            return None
        alike = self.sharing(place, place.was(), self.forms.identical)
        return alike[0] if len(alike) == 1 else None

    def may_be(self, place: Place) -> list[int]:
        """The numbers that a place may have now: each is nobody's, and shares a block with it or is what it was."""
        found = {
            number: None
            for content in dict.fromkeys(place.was())
            for number in self._free(self.forms.cell(content.values))
            if self.listed[number] == content or content.blocks & self.listed[number].blocks
        }
        return self._of_nobody(place, found)

    def sharing(self, place: Place, contents: Iterable[Content], fits: Fits) -> list[int]:
        """The numbers that no place of ours has, of what shares a block with what a place may be, and ``fits`` it."""
        return self._of_nobody(place, self.having(contents, fits))

    def having(self, contents: Iterable[Content], fits: Fits = lambda *_: True) -> list[int]:
        """The numbers of what shares a block with any of these, and ``fits`` it."""
        if not self._having:
            for number in sorted(self.listed, reverse=True):
                for block in self.listed[number].blocks:
                    self._having.setdefault(block, []).append(number)
        found = {
            number: None
            for content in dict.fromkeys(contents)
            for block in in_order(content.blocks)
            for number in self._having.get(block, ())
            if fits(content.values, self.listed[number].values)
        }
        return [*found]

    def _of_nobody(self, place: Place, numbers: Iterable[int]) -> list[int]:
        """The numbers that no other place has, and that this place may have."""
        return [each for each in numbers if each not in self.taken and not self.is_ruled_out(place, each)]

    def note_edited(self, place: Place) -> None:
        """Note a place that a list brought and a person edited: it is looked for wherever it is since."""
        self.edited[place.id] = place
        for cell in {self.forms.cell(content.values) for content in place.was()}:
            if place.id not in (numbers := self._cells.setdefault(cell, [])):
                numbers.append(place.id)

    def contents(self, number: int) -> Iterator[Content]:
        """The content that a list has under a number, and its earlier contents if a person has edited it since."""
        yield self.listed[number]
        if number in self.edited:
            yield from self.edited[number].was()


def numbered_anew(places: Sequence[Place], matching: Matching) -> list[Place]:
    """The places, each that one other number shows, and not its own, with that number.

    Two branches in one town can be told apart by that alone if one has no blocks. A place stays where it is if the one
    that had the other number does: somebody may have made the two equal.
    """
    listed = matching.listed
    numbers: dict[Content, list[int]] = {}
    for at, content in listed.items():
        numbers.setdefault(content, []).append(at)
    ours = {place.number: {*latest(place)} for place in places if place.number is not None}
    had: dict[Content | None, set[int]] = {}
    for at, contents in ours.items():
        for content in contents:
            had.setdefault(content, set()).add(at)

    def is_so(number: int) -> bool:
        """True if a number shows what the place that had it was last, or was to be."""
        return listed[number] in ours.get(number, ())

    def gives_way(place: Place) -> bool:
        """True if it cannot stay: its number shows what another place was, or a create was answered with the number of
        something else.
        """
        shown = listed.get(place.number or 0)
        if shown is None or is_of_others(place, shown, matching.owners):
            return shown is not None
        shares = any(shown.blocks & was.blocks for was in place.was())
        return place.creating is not None and bool(shown.blocks) and not shares

    def elsewhere(place: Place, number: int) -> set[int]:
        """The other numbers that show it as it was or, if its own shows none of that, in its town just its blocks, or
        its very fields with some of them.
        """
        # Without blocks it may be equal by chance, unless another one of ours has its number, or had that.
        has_another = place.baseline is not None and bool(had.get(listed.get(number), {number}) - {number})
        equal = {
            each
            for was in ours[number]
            for each in numbers.get(was, ())
            if not (is_so(each) or matching.is_ruled_out(place, each))
            and (each in ours or has_another or (was.blocks and number in listed))
        }
        if equal or number not in listed or any(was.blocks & listed[number].blocks for was in place.was()):
            return equal
        return {
            each
            for was in ours[number]
            if was.blocks and was.values != listed[number].values
            for each in matching.sharing(place, [was], matching.forms.identical)
            if (was.blocks == listed[each].blocks or was.values == listed[each].values)
            and not is_so(each)
            and each != number
        }

    found = []
    for place in places:
        number = None if place.deleted else place.number
        is_known = number in listed or place.baseline is not None
        if number is not None and is_known and not (number in listed and is_so(number)):
            others = elsewhere(place, number)
            place = replace(place, number=others.pop(), refused=None) if len(others) == 1 else place
        found.append(place)
    while True:  # one that stays may be in the way of another one
        owners, moved = Counter(place.number for place in found if not gives_way(place)), found
        found = [was if owners[now.number] > 1 else now for was, now in zip(places, moved, strict=True)]
        if found == moved:
            return found


def unproved(places: Iterable[Place], matching: Matching) -> dict[int, Place]:
    """The numbers of what creates may have made of which no conclusive list has told yet, each with the place."""
    return {
        number: place
        for place in places
        if place.baseline is None and _is_looked_for(place, matching)
        for sent in _sent(place)
        for number in matching.made(place, sent, place.had, matching.forms.same)
    }


def matched(places: Sequence[Place], matching: Matching, held: dict[int, Hold]) -> list[Place]:
    """All places, each create that was sent with the number of what it made, as far as the list tells.

    ``held`` gets those whose create may have made what is only like it, or what somebody has changed since. Creates
    that are equal are interchangeable: any of what they made is right for any of them. So are those whose difference
    the service does not store.
    """
    listed, forms = matching.listed, matching.forms
    lost = [place for place in places if _is_looked_for(place, matching)]
    looked_for = {place.id for place in lost}
    for place in places:
        if place.id in looked_for or place.number is None or not matching.holds(place):
            continue
        if not _was_deleted(place, lost, matching):
            matching.taken.add(place.number)
            if place.id == place.number:
                matching.note_edited(place)
    bound = (place for place in places if lost and place.number in matching.taken and place.id not in looked_for)
    emptied = {
        there.values: place.number
        for place in bound
        if place.number is not None and not (there := listed[place.number]).blocks and there not in {*latest(place)}
    }
    creates = _Creates(matching, held, lost, {place.id: place for place in places}, emptied)
    # Those first to which the service gave the very number: it is theirs, if it can be. Those last of which the number
    # that it gave is not there: more likely somebody deleted that than that the answer was wrong.
    left = sorted(lost, key=lambda place: (place.number is None) + 2 * (place.number not in (None, *listed)))
    for fits in (Values.__eq__, forms.same):
        left = creates.match(left, fits)
    own = {place.number for place in left if matching.holds(place)}
    for place in left:
        creates.match_likeness(place, own - {place.number})
    found = creates.found
    for place in places:
        if _waits_to_be_created(place) and (numbers := creates.of_another_copy(place)):
            creates.unclear(place, numbers[0], numbers)
    newest = {place.number: place.id for place in found.values() if _is_made(place, matching)}
    for known in list(found.values()):
        if newest.get(known.number, known.id) != known.id:  # it was given to another place of ours
            found[known.id] = replace(known, number=None, lost=known.number)
    return [found[place.id] for place in places]


@dataclass(slots=True)
class _Creates:
    """The places whose creates are looked for, ``lost``, and all places, ``found``, as they are matched so far.

    ``emptied`` are the numbers of places of ours without blocks that had some before, by what they show.
    """

    matching: Matching
    held: dict[int, Hold]
    lost: Sequence[Place]
    found: dict[int, Place]
    emptied: Mapping[Values, int]

    def unclear(self, place: Place, number: int, others: Iterable[int | None]) -> None:
        """Hold a place for what it may be: the number, and others."""
        listed = self.matching.listed
        also = sorted({each for each in others if each not in (None, number)}, reverse=True)
        self.held[place.id] = Hold("unclear", listed[number], number, tuple((each, listed[each]) for each in also))
        self.found[place.id] = replace(place, number=None)

    def match(self, places: Sequence[Place], fits: Fits) -> list[Place]:
        """Give each place the number of what fits to something that was sent for it: those of which nothing does."""
        matching, listed = self.matching, self.matching.listed
        wanted = Counter([*matching.pending, *(sent for place in places for sent in _sent(place))])
        unmatched = []
        for place in places:
            sent, numbers = self._may_have_made(place, fits)
            if not numbers:
                unmatched.append(place)
                continue
            number = min(numbers, key=lambda each: (each != place.number, not listed[each].blocks, -each))
            is_named = number == place.number
            is_one_of_many = not (is_named or listed[number].blocks) and len(numbers) > wanted[sent]
            if is_one_of_many or number in matching.denied.get(place.id, ()):
                # Others may have made some of them; what was denied was given again, or somebody has made it like ours.
                self.unclear(place, number, numbers)
            elif not is_named and self._may_be_changed(place):
                self.unclear(place, number, [*numbers, place.number])
            else:
                wanted.subtract(_sent(place))
                self._bind(place, number)
        return unmatched

    def _may_have_made(self, place: Place, fits: Fits) -> tuple[Values, list[int]]:
        """The numbers of what shows the newest values that were sent for a place, if any shows them, or older ones."""
        may_have = place.had
        for sent in (sents := _sent(place)):
            if numbers := self.matching.made(place, sent, may_have, fits):
                return sent, numbers
        return sents[-1], []

    def _may_be_changed(self, place: Place) -> bool:
        """True if what has the number that a create was answered with is like it: somebody may have changed it.

        It is not if that is just what another create of ours has sent.
        """
        content = None if place.number is None else self.matching.listed.get(place.number)
        if content is None or place.number in self.matching.taken:
            return False
        same = self.matching.forms.same
        others = any(same(_create(other).values, content.values) for other in self.lost if other.id != place.id)
        return not others and self.matching.forms.like(_create(place).values, content.values)

    def _bind(self, place: Place, number: int) -> None:
        """Give a place the number of what its create made."""
        self.matching.taken.add(number)
        carried = iter(place.requests)
        if number != place.number:
            shown = recognised(place, self.matching.listed[number], self.matching.forms)
            carried = (each for each in place.requests if each.what == "create" or each.is_done(shown))
        # The create is known to have been applied: there is what it made.
        requests = (replace(each, known=True) if each.what == "create" else each for each in carried)
        self.found[place.id] = replace(place, number=number, requests=tuple(requests))

    def match_likeness(self, place: Place, others: Collection[int | None]) -> None:
        """Hold a place if its create may have made what is only like it; else it made nothing, or that is gone."""
        matching, listed, forms = self.matching, self.matching.listed, self.matching.forms
        create = _create(place)
        appeared = dict.fromkeys(each for sent in _sent(place) for each in matching.appeared(place, sent))
        if place.doubted:  # a newer copy may have sent it, and moved it to another town since
            appeared |= dict.fromkeys(matching.sharing(place, place.was(), lambda *_: True))
        there = [number for number in appeared if number not in others]
        like = [
            number
            for number in there
            if any(forms.same(sent, each.values) for sent in _sent(place) for each in matching.contents(number))
            or (_may_be_stored(place, listed[number], forms) and not matching.is_pending(number))
            or (place.doubted and _may_be_made(place, create, listed[number], forms))
        ]
        is_there = matching.holds(place) and place.number not in matching.taken
        if is_there and (place.number in like or not like):
            return  # somebody has changed it since
        like = like or [number for number in there if _may_be_another_now(place, number, matching)]
        if like:
            number = place.number if place.number in like else min(like, key=lambda each: each in matching.edited)
            self.unclear(place, number, [*like, place.number if is_there else None])
        elif not create.known and (numbers := [self.emptied[sent] for sent in _sent(place) if sent in self.emptied]):
            matching.passed.add(numbers[0])
            self.unclear(place, numbers[0], [])  # it may have been given the number, as what had it was deleted
        else:  # a create that was not answered made nothing, and may be sent again
            said_yes = tuple(each for each in place.requests if each.known)
            self.found[place.id] = replace(place, number=None, lost=place.number or place.lost, requests=said_yes)

    def of_another_copy(self, place: Place) -> list[int]:
        """The numbers of what another copy of these edits may have made, for a create that was never sent from here.

        Else, of what is in its town and has a block of it: somebody has made it, or the service would refuse the block.
        """
        matching, forms = self.matching, self.matching.forms
        former = [matching.was[place.id]] if place.id in matching.was else []
        given = {intent.new for intent in place.intents}.union(*(each.blocks for each in former))
        contents = (*states(place.intents, None), *former)

        def fits(sent: Values, found: Values) -> bool:
            return forms.same(sent, found) or (forms.may_be(sent, found) and may_be_stored(sent, found))

        made = [
            number
            for sent in dict.fromkeys(each.values for each in contents if place.id in matching.before)
            for number in matching.made(place, sent, given, fits)
        ] or matching.sharing(place, contents, forms.meant)
        return [number for number in made if not matching.is_pending(number)]


def _may_be_stored(place: Place, content: Content, forms: Forms) -> bool:
    """True if a service that was not seen to store all as it comes may have made this of what a create sent.

    What has a block that nothing of ours gave is a colleague's, unless services commonly make that of what was sent.
    """
    is_ours = content.blocks <= place.had
    return any(
        forms.may_be(sent, content.values) and (is_ours or may_be_stored(sent, content.values)) for sent in _sent(place)
    )


def _may_be_another_now(place: Place, number: int, matching: Matching) -> bool:
    """True if a create may have made what a number shows, and somebody has changed its other fields since."""
    content, forms = matching.listed[number], matching.forms
    return (
        content.blocks <= place.had
        and any(forms.identical(sent, content.values) for sent in _sent(place))
        and not matching.is_pending(number)
    )


def _may_be_made(place: Place, create: Request, content: Content, forms: Forms) -> bool:
    """True if what is there may be what a create made, and a copy of the edits that is newer than ours has changed."""
    return bool(content.blocks & place.had) or forms.like(create.values, content.values)


def twins_of(places: Sequence[Place], matching: Matching) -> dict[int, int]:
    """The numbers of what a create may have made in addition, each with its place."""
    taken = matching.taken | {place.number for place in places if place.creating is not None}
    twins: dict[int, int] = {}
    for place in places:
        if (create := place.creating) is None:
            continue
        for number in matching.appeared(place, create.values):
            fits = matching.forms.same(create.values, matching.listed[number].values)
            if fits and number not in taken and number not in twins and not matching.is_pending(number):
                twins[number] = place.id
    return twins


def _sent(place: Place) -> list[Values]:
    """All values that a create and the updates after it have sent, the newest first."""
    return list(dict.fromkeys(each.values for each in reversed(place.requests) if each.values))


def _create(place: Place) -> Request:
    assert place.creating is not None
    return place.creating


def _waits_to_be_created(place: Place) -> bool:
    """True if a create was never sent from here: another copy of these edits may have sent it."""
    is_wanted = any(intent.what == "create" for intent in place.intents)
    return place.number is None and is_wanted and place.creating is None


def _is_looked_for(place: Place, matching: Matching) -> bool:
    """True if a create was sent, and its number is not known, or does not show just what was sent."""
    if place.deleted or place.creating is None:
        return False
    found = None if place.number is None else matching.listed.get(place.number)
    # What a list has shown under that number, a person has decided on, or somebody changed it since.
    was_shown = place.baseline is not None
    is_ours = found is not None and (was_shown or any(matching.forms.same(sent, found.values) for sent in _sent(place)))
    return not (is_ours and matching.holds(place))


def _was_deleted(place: Place, lost: Iterable[Place], matching: Matching) -> bool:
    """True if the number of a place shows just what a create sent that may have been given it since: that was answered
    with it, or a deletion of the place was sent.
    """
    there = None if place.number is None else matching.listed.get(place.number)
    may_be_gone = any(each.what == "delete" for each in place.requests)
    return (
        there is not None
        and there not in {*latest(place)}
        and any(
            (may_be_gone or _create(each).misnamed) and there.values in _sent(each) and there.blocks <= each.had
            for each in lost
        )
    )


def _is_made(place: Place, matching: Matching) -> bool:
    """True if a create made what the number of a place shows, and no conclusive list has ended it since."""
    return place.creating is not None and matching.holds(place)
