"""Why an address has its answer: the precedence rule, said in words block by block, over all sources; and since when.

Since when: which of the kept generations brought the answer, or which edit.
"""

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from geolookup.lookup.explain_network import explained_facts, facts_of_network
from geolookup.lookup.facts import NetworkFacts
from geolookup.lookup.snapshot import OpenLayer, Snapshot, match_in
from geolookup.model import precedence
from geolookup.model.errors import GeoLookupError, StateBusyError, StateDamagedError, StateUnwritableError
from geolookup.model.fields import UNKNOWN
from geolookup.model.reports import AnswerSince, CoveringBlock, Explanation, FactsSince
from geolookup.model.types import Geolocation, IPBlock, Layer, Match
from geolookup.state.base.clock import age_s
from geolookup.state.base.current import Current, Published, cache_path
from geolookup.state.base.marks import Begun
from geolookup.state.base.parts import SERVICE, is_received, parts_of, snapshot_path
from geolookup.state.base.sqlite import GLANCE_WAIT_S
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.local import LocalEdits
from geolookup.state.edits.outbox.row import OutboxRow
from geolookup.state.edits.store import Edits
from geolookup.state.edits.vrfs import FIRST_LOCID
from geolookup.state.generations.cache import Cache
from geolookup.state.generations.recovery import GONE, open_kept

if TYPE_CHECKING:
    from geolookup.model.addresses import Family

_T = TypeVar("_T")
_R = TypeVar("_R")
#: The kinds of sources whose places have numbers of their own: of two equal blocks the greater number wins.
_NUMBERED = ("service", "list", "legacy-csv")
#: Stands for a mask in an explanation.
_NOWHERE = Geolocation(locid=0, **UNKNOWN)  # type: ignore[arg-type] # the table of fields has every one


@dataclass(frozen=True, slots=True, kw_only=True)
class Covering:
    """A block that covers the address. ``position`` is its source's in the stack, -1 for the custom layer, -2 for that
    of the routing domain ``vrf``; ``later`` is greater for what was defined later in the same source.
    """

    block: IPBlock
    laid: Laid
    source: str = "service"
    position: int = 0
    later: int = 0
    numbered: bool = True
    vrf: str = ""

    @property
    def layer(self) -> Layer:
        """Of the custom layer or of a source."""
        return "custom" if self.position < 0 else "default"

    @property
    def size(self) -> int:
        """One less than its addresses."""
        return self.block.last - self.block.first

    def order(self) -> tuple[int, int, int]:
        """The sort key: the first block wins."""
        return self.position, *precedence.order(self.block.first, self.block.last, self.later)


def explain(
    snapshot: Snapshot,
    home: str,
    address: str,
    family: "Family",
    value: int,
    *,
    is_past: bool = False,
    vrf: str = "",
) -> Explanation:
    """Why an address resolves as it does; the explanation repeats ``address``. ``vrf`` is the VRF of the snapshot.

    If ``is_past``, the snapshot is a kept generation as it was served last. The local edits of that time are not kept,
    but the custom layer that they made is: of it the block that won is known, if the address has its answer from there.
    """
    current = snapshot.current
    facts = explained_facts(snapshot, home, family, value)
    of_network = {fact.name: fact.value for fact in facts}
    network_since = facts_since(home, current, of_network, family, value) if facts else None
    match = of_blocks = snapshot.match(address, family, value)
    if (answering := snapshot.answering(family, value)) != (family, value):
        family, value = answering
        of_blocks = snapshot.match(address, family, value)
    parts = parts_of(current.published)
    covering: list[Covering] = []
    for position, part in enumerate(part for part in parts if part.has_places):
        cache = Cache(f"{snapshot_path(home, part.snapshot)}/cache.db")
        numbered = part.kind in _NUMBERED
        for block, place, row in cache.covering_rows(family, value):
            if place is None or place.locid > 0:
                covering.append(
                    Covering(
                        block=block,
                        laid=Laid(place=place or _NOWHERE),
                        source=part.name,
                        position=position,
                        later=place.locid if numbered and place is not None else row,
                        numbered=numbered,
                    )
                )
    custom = _CustomLayer([], [])
    if snapshot.has_custom:  # else the local edits leave nothing that could cover an address
        known_alone = is_past or is_received(current.published)  # a reader of a fleet has no edits, either
        of_custom = None if of_blocks is None or of_blocks.locid < FIRST_LOCID else of_blocks
        custom = _custom_layer(home, current, of_custom, (family, value), is_past=known_alone)
    layer = custom.laid
    if all(part.kind != SERVICE for part in parts):
        layer = [replace(laid, edits=()) for laid in layer]
    for laid in layer:
        covering += [
            Covering(block=block, laid=laid, source="custom", position=-1, later=-laid.place.locid)
            for block in laid.place.ipblocks
            if block.family == family and block.first <= value <= block.last
        ]
    for laid in _of_vrf(home, vrf, of_blocks) if vrf else ():
        covering += [
            Covering(block=block, laid=laid, source="custom", position=-2, later=-laid.place.locid, vrf=vrf)
            for block in laid.place.ipblocks
            if block.family == family and block.first <= value <= block.last
        ]
    ranked = list(rank(covering))
    is_of_vrf = bool(ranked and ranked[0][0].vrf)
    behind = [edit for _, laid in ranked[:1] for edit in laid.edits]
    return Explanation(
        address=address,
        match=match,
        covering=tuple(item for item, _ in ranked),
        generation=current.generation,
        source=current.source,
        age_s=age_s(current.confirmed),
        confirmed=not current.is_embedded,
        # No VRF has a past.
        since=None if is_of_vrf else answer_since(home, current, of_blocks, family, value, custom.edits),
        facts=facts,
        facts_since=network_since,
        edits=custom.unreadable or tuple(f"{edit.describe()} ({edit.state})" for edit in behind),
    )


def _of_vrf(home: str, vrf: str, match: Match | None) -> list[Laid]:
    """The places of a VRF. On a reader of a fleet, which has no edits, of the place that answers what is known."""
    try:
        places = [*LocalEdits(Edits(home)).of_vrfs(lambda vrfs: vrfs.places(vrf)).values()]
    except (StateBusyError, StateDamagedError, StateUnwritableError):
        places = []
    if match is not None and match.locid < FIRST_LOCID and match.locid not in {place.locid for place in places}:
        places.append(replace(match.geolocation, ipblocks=(IPBlock.from_ends(match.first, match.last),)))
    return [Laid(place=place) for place in places]


class _CustomLayer(NamedTuple):
    """The custom layer as it answers, the local edits of the geolocation that answers, and why edits.db is not read."""

    laid: list[Laid]
    edits: list[OutboxRow]
    unreadable: tuple[str, ...] = ()


def _custom_layer(
    home: str, current: Current, match: Match | None, at: "tuple[Family, int]", *, is_past: bool
) -> _CustomLayer:
    """If the local edits cannot be read, the service's geolocations can still be explained."""
    listed = Cache(cache_path(home, current.generation)).custom()
    then = _custom_of_then(listed, match, *at) if is_past else None
    edits = Edits(home)
    try:
        if edits.is_of_others():
            raise StateUnwritableError(f"{edits.path} is for its owner only")
        locid = 0 if match is None or match.layer != "custom" else match.locid
        laid, made = LocalEdits(edits).behind(locid, listed, Begun.of(current.published), wait_s=GLANCE_WAIT_S)
    except (StateBusyError, StateDamagedError, StateUnwritableError) as error:
        if then is not None:
            return _CustomLayer(then, [])
        why = f"the local edits cannot be read: {error}"
        return _CustomLayer([Laid(place=place) for place in listed], [], (why,))
    return _CustomLayer(laid if then is None else then, made)


def _custom_of_then(custom: list[Geolocation], match: Match | None, family: "Family", value: int) -> list[Laid]:
    """Of the custom layer of a kept generation, the geolocation that won, with the block that did.

    That is a block of the service's list, if the geolocation has one there that holds the address; else an edit made
    it, and as much of it is known as had this answer.
    """
    if match is None or match.layer != "custom":
        return []
    listed = [place for place in custom if place.locid == match.locid]
    blocks = [
        block
        for place in listed
        for block in place.ipblocks
        if block.family == family and block.first <= value <= block.last
    ]
    won = min(blocks, key=lambda block: block.last - block.first, default=IPBlock.from_ends(match.first, match.last))
    return [Laid(place=replace(match.geolocation, ipblocks=(won,)))]


def rank(covering: list[Covering]) -> Iterator[tuple[CoveringBlock, Laid]]:
    """Blocks that cover an address, the winner first and the others as they would have won, each with its rule."""
    ordered = sorted(covering, key=Covering.order)
    for at, each in enumerate(ordered):
        reason = _why_it_wins(ordered) if at == 0 else _why_it_loses(each, ordered[0])
        place = each.laid.place
        item = CoveringBlock(
            block=each.block,
            geolocation=replace(place, ipblocks=()),
            layer=each.layer,
            wins=at == 0,
            reason=reason,
            pending=each.laid.pending,
            source=each.source,
            masks=place.locid == 0,
            vrf=each.vrf,
        )
        yield item, each.laid


def _why_it_wins(ordered: list[Covering]) -> str:
    winner = ordered[0]
    rivals = [other for other in ordered[1:] if other.position == winner.position]
    if len(ordered) == 1:
        reason = "the only network that covers it"
    elif not rivals:
        custom = winner.layer == "custom"
        reason = (
            f"a network of the VRF {winner.vrf} comes before all others"
            if winner.vrf
            else precedence.CUSTOM_FIRST
            if custom
            else f"a network of {winner.source} comes before those of the sources below it"
        )
    elif rivals[0].size > winner.size:
        of = winner.layer if len({each.position for each in ordered if each.position >= 0}) <= 1 else winner.source
        reason = precedence.narrowest(of)
    elif winner.numbered:
        reason = precedence.LATER_DEFINED
    else:
        reason = precedence.LATER_IN_FILE
    if winner.laid.place.locid == 0:
        return f"{winner.source} says that it has no location: {reason}"
    return reason


def _why_it_loses(each: Covering, winner: Covering) -> str:
    if each.position != winner.position and winner.vrf:
        return f"a network of the VRF {winner.vrf} covers the address"
    if each.position != winner.position:
        return (
            "one of your sites covers the address" if winner.position < 0 else f"a network of {winner.source} covers it"
        )
    if each.size > winner.size:
        return f"wider than {winner.block}"
    return f"as wide as {winner.block}, but defined earlier"


#: The number of the first generation of a state directory: before it, nothing was answered there.
_FIRST = 1


@dataclass(frozen=True, slots=True)
class _Brought(Generic[_T]):
    """The generation that brought an answer, when it began to be served, and when, at most, the answer was edited.

    ``before`` is the generation that answered something else, and ``was`` that; None if none is kept.
    """

    generation: int
    at: str
    until: str | None
    is_exact: bool
    before: int | None
    was: _T | None

    def told(self, report: Callable[..., _R]) -> _R:
        """It as an answer of `explain`."""
        return report(
            generation=self.generation,
            at=self.at,
            age_s=age_s(self.at),
            is_exact=self.is_exact,
            generation_before=self.before,
            before=self.was,
        )


def _brought(
    home: str, current: Current, now: _T, answer: Callable[[Published], _T], same: Callable[[_T, _T], bool]
) -> _Brought[_T] | None:
    """Since when what is served has answered ``now``; None if that was not recorded.

    It goes back through what was served, each generation as it was served last, as long as ``answer`` is the ``same``.
    """
    generation, steps = current.generation, current.served
    last = max((at for at, (number, _) in enumerate(steps) if number == generation), default=None)
    if last is None:
        return None
    answers = {generation: now}
    first, before, is_known = last, None, False
    for at in range(last - 1, -1, -1):
        number = steps[at][0]
        if number not in answers:
            if number == GONE:
                break
            try:
                answers[number] = _kept_answer(home, number, answer)
            except GeoLookupError:  # it is gone by now, or damaged: what it answered is not known
                break
        if not same(answers[number], now):
            before, is_known = number, True
            break
        first = at
    brought, moment = steps[first]
    return _Brought(
        generation=brought,
        at=moment,
        until=steps[last + 1][1] if last + 1 < len(steps) else None,
        is_exact=is_known or (first == 0 and brought == _FIRST),
        before=before,
        was=None if before is None else answers[before],
    )


def _kept_answer(home: str, generation: int, answer: Callable[[Published], _T]) -> _T:
    """The answer of a kept generation, as it was served last."""
    published = open_kept(home, generation)
    try:
        return answer(published)
    finally:
        published.close()


def answer_since(
    home: str, current: Current, match: Match | None, family: "Family", value: int, edits: list[OutboxRow]
) -> AnswerSince | None:
    """Since when an address has had the answer ``match`` of what is served; None if that was not recorded.

    ``edits`` are those of its geolocation that were made here: if one, made while a generation was served, is behind
    the answer, that brought it. Answers are compared field by field, and by their layer.
    """

    def answer(published: Published) -> Match | None:
        layers = (OpenLayer(published.base), OpenLayer(published.overlay))
        return match_in(*layers, "" if match is None else match.address, family, value)

    found = _brought(home, current, match, answer, _same)
    if found is None:
        return None
    made = [row for row in edits if row.created_at > found.at and (found.until is None or row.created_at < found.until)]
    edit = max((row for row in made if _concerns(row, family, value)), key=_age, default=None)
    if edit is not None:
        return AnswerSince(generation=None, at=edit.created_at, age_s=age_s(edit.created_at), edit=edit.describe())
    return found.told(AnswerSince)


def facts_since(home: str, current: Current, now: dict[str, object], family: "Family", value: int) -> FactsSince | None:
    """Since when an address's network has had the facts ``now``; None if that was not recorded."""
    found = _brought(
        home,
        current,
        now,
        lambda published: facts_of_network(NetworkFacts(published.network, published.current).opened(), family, value),
        operator.eq,
    )
    return None if found is None else found.told(FactsSince)


def _same(one: Match | None, other: Match | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.geolocation, one.layer) == (other.geolocation, other.layer)


def _age(row: OutboxRow) -> tuple[str, int]:
    return row.created_at, row.id


def _concerns(row: OutboxRow, family: "Family", value: int) -> bool:
    """True if an edit can have changed the answer of an address: if it names blocks, one of them must hold it."""
    named = [block for block in (row.intent.old, row.intent.new) if block is not None]
    return not named or any(block.family == family and block.first <= value <= block.last for block in named)
