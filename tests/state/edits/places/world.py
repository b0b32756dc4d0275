"""A small world that is played exhaustively: a service, its network, colleagues, and a person's places."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from geolookup.state.edits.outbox.stations import pending
from geolookup.state.edits.places.choosing import CHOICES, chosen, put_back
from geolookup.state.edits.places.concluding import answered, concluded, over, seen_already
from geolookup.state.edits.places.likeness import Forms
from geolookup.state.edits.places.looking import look_at
from geolookup.state.edits.places.matching import Matching, unproved
from geolookup.state.edits.places.place import Content, Intent, Place, Request, Values, target, without
from geolookup.state.edits.places.reconcile import Done, Hold, Send, Wait, reconcile

#: What the service has under a number: whose it is, and the content. An owner is a place's id, or somebody else.
Shelf = tuple[tuple[int, tuple[int, Content]], ...]
NUMBERS = (-1, -2, -3)
BLOCKS = (1, 2, 3)
#: Owners below this are somebody else. The id of a place that a list brought is its number, which is above it.
OTHERS = -50
#: The names of what colleagues create.
TOKYOS = "tuvwx"


class Exact(Forms):
    """A service that stores everything as it comes."""

    def same(self, sent: Values, found: Values) -> bool:
        return sent == found

    def may_be(self, sent: Values, found: Values) -> bool:
        return False

    def as_sent(self, sent: Values, found: Values) -> Values:
        return found

    def as_seen(self, sent: Values, found: Values) -> Values:
        return found

    def like(self, sent: Values, found: Values) -> bool:
        return found[0] not in TOKYOS  # all others are in one town

    def meant(self, sent: Values, found: Values) -> bool:
        return self.like(sent, found)

    def identical(self, sent: Values, found: Values) -> bool:
        return sent == found

    def akin(self, one: Values, other: Values) -> bool:
        return one == other

    def cell(self, values: Values) -> None:
        return None

    def overlap(self, some: Iterable[Any], others: Collection[Any]) -> bool:
        return not {*some}.isdisjoint(others)

    def near(self, values: Values) -> tuple[None]:
        return (None,)


EXACT = Exact()
#: The words of the step in which a service gives a wrong number.
MISNAMED = "the answer names"


class Late(NamedTuple):
    place: int
    number: int | None
    request: Request


class Copy(NamedTuple):
    """A copy of the edits."""

    shelf: Shelf
    places: tuple[Place, ...]
    beside: tuple[tuple[int, Shelf], ...]
    claims: frozenset[tuple[int, object, object]]
    disowned: frozenset[tuple[int, int, Content]]


class World(NamedTuple):
    """A state of everything; ``claims`` are what the person asked for, by place and item, and nobody changed since."""

    shelf: Shelf
    #: What the service had at each moment since the last time that everything settled.
    window: tuple[Shelf, ...]
    places: tuple[Place, ...]
    #: By place, what the service had before its create was sent.
    beside: tuple[tuple[int, Shelf], ...] = ()
    late: tuple[Late, ...] = ()
    held: tuple[tuple[int, Hold], ...] = ()
    told: frozenset[int] = frozenset()
    claims: frozenset[tuple[int, object, object]] = frozenset()
    edits: int = 0
    faults: int = 0
    moves: int = 0
    colleagues: int = 0
    #: The blocks that the last conclusive list showed of each place.
    seen: frozenset[tuple[int, object]] = frozenset()
    #: The blocks that the place had and of which a conclusive list showed that our removal was carried out.
    gone: frozenset[tuple[int, object]] = frozenset()
    #: Those that a colleague gave again since, and of which no person here has decided.
    given: frozenset[tuple[int, object]] = frozenset()
    #: Blocks and names that a colleague gave, and that neither a list has shown since nor a request of ours has given.
    unseen: frozenset[tuple[int, object]] = frozenset()
    #: Numbers whose name a colleague took back to the one before, which no person here was told of.
    taken_back: frozenset[int] = frozenset()
    #: What a person said is not a place of ours: the place, the number, and what that showed.
    disowned: frozenset[tuple[int, int, Content]] = frozenset()
    #: Whether the person edits what a list brought.
    brings: bool = False
    #: A copy of the edits that may be put back, and how many copies may be kept yet.
    copy: Copy | None = None
    copies: int = 0
    #: Whether anything happened that does not happen on a plain service, where answers can only be lost.
    odd: bool = False


class Violated(Exception):
    """An invariant does not hold."""


def shelved(shelf: Shelf, number: int, entry: tuple[int, Content] | None) -> Shelf:
    rest = {key: value for key, value in shelf if key != number}
    if entry is not None:
        rest[number] = entry
    return tuple(sorted(rest.items()))


def contents(shelf: Shelf) -> dict[int, Content]:
    return {number: content for number, (_, content) in shelf}


def changed(world: World, shelf: Shelf) -> World:
    """The world after the service changed."""
    if shelf == world.shelf:
        return world
    return world._replace(shelf=shelf, window=(*world.window, shelf))


def start(
    *,
    edits: int,
    faults: int,
    moves: int,
    new: bool = False,
    blocks: Iterable[int] = (1,),
    copies: int = 0,
    brings: bool = False,
) -> World:
    """A world with one place: that the service has with these blocks, or that is ``new``, and still to be created."""
    world = _first(new=new, blocks=blocks)
    return world._replace(edits=edits, faults=faults, moves=moves, copies=copies, brings=brings)


def _first(*, new: bool, blocks: Iterable[int]) -> World:
    if new:
        paris = Place(id=1, intents=(Intent(id=1, what="create", values=("p",)),))
        claims = frozenset[tuple[int, object, object]]({(1, "there", True), (1, 0, "p")})
        return World(shelf=(), window=((),), places=(paris,), claims=claims)
    munich = Content(("m",), frozenset(blocks))
    shelf: Shelf = ((-1, (1, munich)),)
    place = Place(id=1, number=-1, baseline=munich)
    return World(shelf=shelf, window=(shelf,), places=(place,))


# The person


def edits(world: World) -> Iterator[tuple[str, World]]:
    number = world.edits
    rest = world._replace(edits=number - 1)
    if sum(place.id > 0 for place in world.places) < 2:
        intent = Intent(id=10 * (100 - number), what="create", values=("a",))
        place = Place(id=max([0, *(each.id for each in world.places)]) + 1, intents=(intent,))
        yield "the person creates a place", claimed(rest, place, {"there": True, 0: "a"})
    for place in world.places:
        yield from _edits_of(rest, place, number)
    ids = {place.number for place in world.places} | {place.id for place in world.places}
    hidden = _hidden(world) if world.brings else {}
    for at, (owner, content) in world.shelf if world.brings else ():
        if at not in ids and at not in hidden and _is_brought(world, owner):
            yield from _edits_of(_brought(rest, at, owner), Place(id=at, number=at, baseline=content), number)


def _hidden(world: World) -> dict[int, Place]:
    """What creates may have made: lookups and lists do not have it, so nobody edits it."""
    listed, held = contents(world.shelf), dict(world.held)
    before = {place: contents(shelf) for place, shelf in world.beside}
    taken = {place.number for place in world.places if place.number is not None}
    matching = Matching(listed, listed.__getitem__, before, EXACT, taken=taken)
    return unproved([place for place in world.places if place.creating and place.id not in held], matching)


def _is_brought(world: World, owner: int) -> bool:
    """True if a list that may have been read now leaves a number nobody's here."""
    ours = next((place for place in world.places if place.id == owner), None)
    return ours is None or owner in dict(world.held) or not all(request.settled for request in ours.requests)


def _renumbered(world: World) -> World:
    """The world in which no place has a number for its id that is not its own any more."""
    for place in world.places:
        if OTHERS < place.id < 0 and (place.number != place.id or place.deleted):
            former, new = place.id, max([0, *(each.id for each in world.places)]) + 1

            def now(owner: int, former: int = former, new: int = new) -> int:
                return new if owner == former else owner

            def owned(shelf: Shelf, now: Callable[[int], int] = now) -> Shelf:
                return tuple((number, (now(owner), content)) for number, (owner, content) in shelf)

            world = world._replace(
                shelf=owned(world.shelf),
                window=tuple(map(owned, world.window)),
                places=tuple(replace(each, id=now(each.id)) for each in world.places),
                beside=tuple((now(each), owned(shelf)) for each, shelf in world.beside),
                held=tuple((now(each), hold) for each, hold in world.held),
                told=frozenset(map(now, world.told)),
                claims=frozenset((now(each), *rest) for each, *rest in world.claims),
                seen=frozenset((now(each), block) for each, block in world.seen),
                gone=frozenset((now(each), block) for each, block in world.gone),
                given=frozenset((now(each), block) for each, block in world.given),
                unseen=frozenset((now(each), block) for each, block in world.unseen),
                disowned=frozenset((now(each), *rest) for each, *rest in world.disowned),
            )
    return world


def _brought(world: World, number: int, owner: int) -> World:
    """The world in which a person edits what a number shows, of which only its number is known here."""
    ours = next((place for place in world.places if place.id == owner), None)
    is_bound = ours is not None and dict(world.shelf).get(ours.number or 0, (None,))[0] == owner
    is_told = ours is not None and (is_bound or ours.deleted or owner in dict(world.held))

    def taken(shelf: Shelf) -> Shelf:
        return tuple((at, (number if at == number and whose == owner else whose, it)) for at, (whose, it) in shelf)

    told = world.told | {owner} if is_told else world.told  # that it was made twice, or that it is held
    return world._replace(shelf=taken(world.shelf), window=tuple(map(taken, world.window)), told=told)


def _edits_of(rest: World, place: Place, number: int) -> Iterator[tuple[str, World]]:
    """Every edit of a place, in a world that counts it already."""
    shown = place.shown
    if shown is None:
        return

    theirs = _given_by_others(rest, place)

    def after(
        what: str,
        claims: dict[object, object],
        place: Place = place,
        theirs: frozenset[object] = theirs,
        **changes: object,
    ) -> World:
        intent = Intent(id=10 * (100 - number), what=what, base=place.shown, **changes)  # type: ignore[arg-type]
        decided = {block for block in BLOCKS if ("b", block) in claims} | (shown.blocks if what == "delete" else set())
        own = {(place.id, block) for block in decided}
        rest_ = rest._replace(given=rest.given - own)
        return claimed(rest_, replace(place, intents=(*place.intents, intent)), claims, but=theirs)

    name = f"place {place.id}"
    # Names of its own: places that are equal are interchangeable, and a service may well mix them up.
    new = next(f"{letter}{place.id}" for letter in "no" if shown.values != (f"{letter}{place.id}",))
    yield f"the person names {name} {new}", after("update", {0: new}, values=(new,))
    free = [block for block in BLOCKS if block not in shown.blocks]
    for block in dict.fromkeys((*free[:1], *free[-1:])):  # one that it may have had, and one that it never had
        yield f"the person adds block {block} to {name}", after("add_block", {("b", block): True}, new=block)
    for block in sorted(shown.blocks)[:1]:  # type: ignore[type-var]
        yield f"the person removes block {block} of {name}", after("remove_block", {("b", block): False}, old=block)
        if free:
            yield (
                f"the person replaces block {block} of {name} by {free[0]}",
                after("replace_block", {("b", block): False, ("b", free[0]): True}, old=block, new=free[0]),
            )
    if shown.blocks:
        yield (
            f"the person clears {name}",
            after("clear_blocks", {("b", each): False for each in shown.blocks}),
        )
    yield f"the person deletes {name}", after("delete", {"there": False})
    for intent in () if place.id in dict(rest.held) else place.intents:  # as long as nothing of it was sent
        if intent.what != "create" and all(request.upto < intent.id for request in place.requests):
            left = _given_up(place, intent, 10 * (100 - number))
            yield f"the person drops edit {intent.id} of {name}", forgotten(put(rest, left), left, intent)


def _given_by_others(world: World, place: Place) -> frozenset[object]:
    """The blocks, as items, that a colleague gave to a place, and that we have neither sent nor seen: they stay."""
    own = {request.new for request in place.requests} | (place.baseline.blocks if place.baseline else set())
    there = (content.blocks for _, (owner, content) in world.shelf if owner == place.id)
    return frozenset(("b", block) for blocks in there for block in blocks - own)


def claimed(world: World, place: Place, claims: dict[object, object], *, but: frozenset[object] = frozenset()) -> World:
    """The world with an edit of a place, and what it asks for, ``but`` what need not go."""
    places = tuple(sorted((*(each for each in world.places if each.id != place.id), place), key=lambda each: each.id))
    gone = claims.get("there") is False
    kept = {each for each in world.claims if each[0] != place.id or (each[1] not in claims and not gone)}
    new = {(place.id, item, wanted) for item, wanted in claims.items() if wanted or item not in but}
    return world._replace(places=places, claims=frozenset(kept | new))


def _given_up(place: Place, intent: Intent, number: int) -> Place:
    """The place without an edit; what comes back of a removal that is half done is edits from this number on."""
    left = replace(place, intents=without(place.intents, [intent.id]))
    back = put_back(left).intents[len(left.intents) :]
    added = (replace(each, id=number + at) for at, each in enumerate(back))
    return replace(left, intents=(*left.intents, *added))


def forgotten(world: World, place: Place, dropped: Intent) -> World:
    """The world once a person gave an edit up: what it asked for, and what was asked in view of it, is open."""
    shown, open_ = place.shown, {("b", dropped.old), ("b", dropped.new)}
    return world._replace(
        claims=frozenset(
            (owner, item, wanted)
            for owner, item, wanted in world.claims
            if owner != place.id or (item not in open_ and has(shown, item) == wanted)
        )
    )


# Copies of the edits


def copying(world: World) -> Iterator[tuple[str, World]]:
    if world.copies and world.copy is None and all(place.id > 0 for place in world.places):
        copy = Copy(world.shelf, world.places, world.beside, world.claims, world.disowned)
        yield "the edits are copied", world._replace(copies=world.copies - 1, copy=copy)
    owners = {(number, owner) for shelf in world.window for number, (owner, _) in shelf}
    # While replicas show two owners of a number, nobody who has lost the edits can tell which is there.
    is_clear = len(owners) == len({number for number, _ in owners}) and all(number >= -3 for number, _ in owners)
    if world.copy is not None and not world.late and is_clear:
        yield "the copy is put back", put_back_copy(world, world.copy)


def put_back_copy(world: World, copy: Copy) -> World:
    """The world once a person put a copy back: what was edited since is open."""
    ids = {place.id for place in copy.places}

    def without(shelf: Shelf) -> Shelf:
        return tuple(
            (number, (owner if owner in ids or owner < OTHERS else -50 - owner, it)) for number, (owner, it) in shelf
        )

    beside = dict(copy.beside)
    places = []
    for place in copy.places:
        if place.intents or place.requests:
            place = replace(place, doubted=max((each.id for each in place.intents), default=1))
            create = next((intent for intent in place.intents if intent.what == "create"), None)
            if create is not None and place.number is None and not place.requests:
                wanted = target(place.intents, None)
                values = create.values if wanted is None else wanted.values
                place = replace(place, requests=(Request(what="create", values=values, upto=create.id),))
                beside.setdefault(place.id, copy.shelf)
        places.append(place)
    return world._replace(
        shelf=without(world.shelf),
        window=tuple(map(without, world.window)),
        places=tuple(places),
        beside=tuple(beside.items()),
        held=(),
        seen=frozenset(),  # lookups are laid over the newest list, whatever the edits know of it
        gone=frozenset(),
        given=frozenset(),
        claims=frozenset(each for each in copy.claims & world.claims if _is_open(places, *each)),
        disowned=copy.disowned,
        copy=None,
        odd=True,
    )


def _is_open(places: Iterable[Place], owner: int, item: object, wanted: object) -> bool:
    """True if an open edit of a copy asks for that: of all else nobody knows what was done since."""
    place = next((place for place in places if place.id == owner), None)
    return place is not None and has(place.shown, item) == wanted != has(place.baseline, item)


# Colleagues


def colleagues(world: World) -> Iterator[tuple[str, World]]:
    rest = world._replace(moves=world.moves - 1, odd=True)
    for number, (owner, content) in world.shelf:
        if any(
            each.id == owner and any(r.what == "delete" and r.known for r in each.requests) for each in world.places
        ):
            continue  # back after the service failed over, and changed beyond recognition: like another's

        def after(entry: tuple[int, Content] | None, *items: object, number: int = number, owner: int = owner) -> World:
            claims = frozenset(
                each for each in rest.claims if each[0] != owner or (entry is not None and each[1] not in items)
            )
            given = {
                each for each in rest.given if each[0] != owner or (entry is not None and ("b", each[1]) not in items)
            }
            return changed(rest._replace(claims=claims, given=frozenset(given)), shelved(rest.shelf, number, entry))

        # What a create made and no list has shown could not be told from theirs if they renamed it.
        is_known = any(place.id == owner and place.baseline is not None for place in world.places)
        if owner > OTHERS:
            if is_known and content.values != ("z",):
                yield f"a colleague names {number} z", after((owner, replace(content, values=("z",))), 0)
            ours = next((place for place in world.places if place.id == owner), None)
            was = None if ours is None else ours.baseline
            # If its answer was lost, nobody could tell that from an update that was never carried out.
            if was is not None and any(
                each.known and each.values == content.values != was.values for each in ours.requests
            ):
                back = after((owner, replace(content, values=was.values)), 0)
                yield (
                    f"a colleague takes back the name of {number}",
                    back._replace(taken_back=back.taken_back | {number}),
                )
            for name in () if ours is None else dict.fromkeys(each.values for each in ours.intents if each.values):
                if is_known and name != content.values and all(each.values != name for each in ours.requests):
                    named = after((owner, replace(content, values=name)), 0)
                    yield (
                        f"a colleague names {number} {name[0]}, as an edit that was not sent",
                        named._replace(unseen=named.unseen | {(owner, name)}),
                    )
            had = frozenset() if ours is None or ours.shown is None else ours.shown.blocks
            there = {each for _, (_, it) in world.shelf for each in it.blocks}
            for block in BLOCKS[:2] if ours is not None and not ours.requests else ():
                if (owner, block) in world.gone and block not in had | there:
                    entry = owner, replace(content, blocks=content.blocks | {block})
                    again = after(entry, ("b", block))
                    yield (
                        f"a colleague gives block {block} to {number} again",
                        again._replace(given=again.given | {(owner, block)}),
                    )
            if 3 not in content.blocks:
                entry = owner, replace(content, blocks=content.blocks | {3})
                added = after(entry, ("b", 3))
                if is_known and ours is not None and all(each.new != 3 for each in ours.requests):
                    added = added._replace(unseen=added.unseen | {(owner, 3)})
                yield f"a colleague adds block 3 to {number}", added
            for block in sorted(content.blocks)[:1]:  # type: ignore[type-var]
                entry = owner, replace(content, blocks=content.blocks - {block})
                yield f"a colleague removes block {block} of {number}", after(entry, ("b", block))
        yield f"a colleague deletes {number}", after(None)
    # No list and no precondition can tell of a number that is given again while a request to it is under way, or while
    # replicas still show who had it before.
    if not world.late and len(world.window) == 1:
        taken = dict(world.shelf)
        for number in [each for each in NUMBERS if each not in taken][:2]:
            entry = -200 - world.colleagues, Content((TOKYOS[world.colleagues],), frozenset({9 + world.colleagues}))
            after_ = changed(rest._replace(colleagues=world.colleagues + 1), shelved(rest.shelf, number, entry))
            yield f"a colleague creates Tokyo, which is given the number {number}", after_


# The service


def applied(
    world: World, place: Place, number: int | None, request: Request, *, late: bool = False, again: bool = False
) -> tuple[World, int | None]:
    """The service carries out a request: the number of what it made or changed, None if there is nothing.

    If ``again``, a create may be given a number at once that replicas still show for what was deleted.
    """
    there = dict(world.shelf)
    if request.what == "create":
        # Nobody could tell of it if the answer is lost.
        shown = set(there) if again else {number for shelf in world.window for number, _ in shelf}
        number = next(each for each in (*NUMBERS, *range(-4, -12, -1)) if each not in shown)
        return changed(world, shelved(world.shelf, number, (place.id, Content(request.values)))), number
    assert number is not None
    if number not in there:
        return world, None
    owner, content = there[number]
    if owner != place.id and not late:
        raise Violated(f"{request.what} of place {place.id} was written to {number}, which is another's")
    after = request.applied(content)
    taken = content.blocks - (frozenset() if after is None else after.blocks)
    for block in taken if not late and len(world.window) == 1 else ():
        is_back = place.shown is not None and block in place.shown.blocks  # by what follows
        if (owner, block) in world.unseen and not is_back:
            raise Violated(f"{request.what} of place {place.id} takes block {block}, which a colleague gave unseen")
    written = {content.values} if after is None or after.values != content.values else set()
    if any((owner, name) in world.unseen for name in written) and not late and len(world.window) == 1:
        raise Violated(f"{request.what} of place {place.id} undoes {content.values}, which a colleague wrote unseen")
    over = {(owner, item) for item in (*taken, *written, request.new, request.values)}
    if place.shown is not None:  # what is there as it is wanted, the look before this request has shown
        over |= {(owner, item) for item in place.shown.blocks & content.blocks}
        over |= {(owner, content.values)} if place.shown.values == content.values else set()
    world = world._replace(unseen=world.unseen - over)
    undone = content.values == ("z",) and (after is None or after.values != ("z",))
    # What a replica does not show yet, or came while a request was under way, nobody can know of.
    if late or len(world.window) > 1:
        left = frozenset() if after is None else after.blocks
        world = world._replace(given=frozenset(each for each in world.given if each[0] != owner or each[1] in left))
    if undone and not late and len(world.window) == 1 and not _knows(place, "z"):
        raise Violated(f"{request.what} of place {place.id} undoes what a colleague named {number}, and nobody saw it")
    if number in world.taken_back and (after is None or after.values != content.values):
        if not late and len(world.window) == 1:
            raise Violated(f"{request.what} of place {place.id} repeats what a colleague took back at {number}")
        world = world._replace(taken_back=world.taken_back - {number})
    return changed(world, shelved(world.shelf, number, None if after is None else (owner, after))), number


def _knows(place: Place, name: str) -> bool:
    """True if an edit was made, or decided on, by somebody who saw this name."""
    return any(intent.base is not None and intent.base.values == (name,) for intent in place.intents)


def put(world: World, place: Place) -> World:
    return world._replace(places=tuple(place if each.id == place.id else each for each in world.places))


def settled(place: Place) -> Place:
    """A place of which nothing can be under way any more."""
    return replace(place, requests=tuple(replace(request, settled=True) for request in place.requests))


def is_claimed(place: Place, places: Iterable[Place]) -> bool:
    """True if another place of ours was given the number of a place, too."""
    return place.number is not None and sum(each.number == place.number for each in places) > 1


def pushes(world: World) -> Iterator[tuple[str, World]]:
    held = {place for place, hold in world.held if hold.reason != "conflict"}  # of these a push looks again
    for place in world.places:
        if place.id in held or not pending(place, place.acknowledged):
            continue  # a push goes by the edits that the service does not have yet
        # A list that began before everything settled may be any of a replica's; a short one is never conclusive.
        has_settled = all(request.settled for request in place.requests)
        seen = set()
        for shelf in world.window:
            theirs = None if place.number is None else contents(shelf).get(place.number)
            if theirs in seen:
                continue
            seen.add(theirs)
            unsure = is_claimed(place, world.places)
            sent = set()
            for conclusive in {has_settled and not unsure, False}:
                look = look_at(place, theirs, EXACT, conclusive=conclusive)
                decision = reconcile(place, replace(look, another=look.another or unsure))
                if isinstance(decision, Send) and decision.request not in sent:
                    sent.add(decision.request)
                    yield from _sends(world, place, decision.request)
                is_shown = look.content is not None and (decision == Wait("shown") or isinstance(decision, Done))
                found = seen_already(place, look.content) if is_shown else place
                # What a replica shows that is behind, somebody has changed at the same time.
                if len(world.window) == 1 and found != place:
                    yield (
                        f"push finds place {place.id} as it is wanted",
                        put(_looked(world, place, look.content), found),
                    )


def _looked(world: World, place: Place, content: Content | None) -> World:
    """A world in which a look has shown, and a person was told, what the service has of a place."""
    there = frozenset() if content is None else content.blocks
    return world._replace(
        unseen=frozenset(each for each in world.unseen if each[0] != place.id),
        seen=frozenset(each for each in world.seen if each[0] != place.id or each[1] in there),
    )


def _sends(world: World, place: Place, request: Request) -> Iterator[tuple[str, World]]:
    what = f"push sends {request.what} of place {place.id}" + (f" to {place.number}" if place.number else "")
    if request.what == "create":
        world = world._replace(
            beside=(*(each for each in world.beside if each[0] != place.id), (place.id, world.shelf))
        )
    under_way = replace(place, requests=(*place.requests, request))
    asked = put(world, under_way)
    done, number = applied(asked, place, place.number, request, again=not world.late)
    if number is None:
        yield f"{what}: it is not there", asked
    else:
        yield what, put(done, answered(under_way, number=number))
    done, number = applied(asked, place, place.number, request)
    if not world.faults:
        return
    asked, done = asked._replace(faults=world.faults - 1), done._replace(faults=world.faults - 1)
    yield f"{what}: it is lost on the way", asked
    yield f"{what}: the answer is lost", done
    yield f"{what}: it is under way for long", asked._replace(late=(Late(place.id, place.number, request),))
    if request.what == "create":
        twice, _ = applied(done, place, None, request)
        twice = twice._replace(odd=True, copies=0, copy=None)  # who loses the edits, too, loses the twin
        yield f"{what}: it is applied twice", put(twice, answered(under_way, number=number))
        for wrong in () if world.brings else NUMBERS:
            if wrong != number:
                after = misnamed(under_way, wrong, world.shelf)
                yield f"{what}: {MISNAMED} {wrong}", put(done._replace(odd=True), after)


def misnamed(place: Place, number: int, shelf: Shelf) -> Place:
    """A place of which the create was answered with this number: that is not believed if something else has it."""
    return place if number in contents(shelf) else answered(place, number=number)


def landed(world: World) -> World:
    for late in world.late:
        place = next(each for each in world.places if each.id == late.place)
        world, _ = applied(world, place, late.number, late.request, late=True)
    return world._replace(late=())


def quiet(world: World) -> World:
    """Everything under way lands, and settles."""
    world = landed(world)
    return world._replace(window=(world.shelf,), places=tuple(settled(place) for place in world.places))


def concluding(world: World) -> tuple[Shelf, ...]:
    """What a list may show that is conclusive now."""
    under_way = world.late or any(not request.settled for place in world.places for request in place.requests)
    return () if under_way or len(world.window) > 1 else (world.shelf,)


def synced(world: World, shelf: Shelf) -> World:
    """A conclusive list is read: what is held follows from it."""
    before = {place: contents(shelf) for place, shelf in world.beside}
    for place, number, content in world.disowned:
        before.setdefault(place, {})[number] = content
    denied = {place: {at for whose, at, _ in world.disowned if whose == place} for place, *_ in world.disowned}
    found = concluded(world.places, contents(shelf), before=before, denied=denied, forms=EXACT)
    twins = {owner for number, (owner, _) in shelf if number in found.twins}
    gone = frozenset(
        (owner, block)
        for number, (owner, content) in shelf
        for place in world.places
        if place.id == owner and (place.shown is None or place.shown.blocks <= content.blocks)
        for block in BLOCKS
        if block not in content.blocks and ((owner, block) in world.gone or _is_taken(place, block))
    )
    there = {(number, owner): content.blocks for number, (owner, content) in shelf}
    world = world._replace(
        places=found.places,
        seen=frozenset(
            (each.id, block) for each in found.places for block in there.get((each.number or 0, each.id), ())
        ),
        held=tuple(sorted(found.held.items(), key=lambda each: each[0])),
        gone=gone,
        told=world.told | twins | set(found.ended),
        unseen=frozenset(),
        taken_back=frozenset(),  # whoever edits from here on has seen it, and what is held was told
    )
    return _renumbered(world)


def _is_taken(place: Place, block: object) -> bool:
    """True if an edit takes a block that a list had."""
    is_known = place.baseline is not None and block in place.baseline.blocks
    return is_known and any(block in intent.takes for intent in place.intents)


def steps(world: World) -> Iterator[tuple[str, World]]:
    """Every step that may be next."""
    if world.edits:
        yield from edits(world)
    if world.moves:
        yield from colleagues(world)
    yield from copying(world)
    for held, hold in world.held:
        if hold.reason == "conflict" and not _is_in_conflict(world, held):
            continue  # a person edited it since, in view of what is there
        if {owner for number, (owner, _) in world.shelf if number < -3}:
            continue  # a copy numbers all otherwise: before a list has said so, a person would choose in the dark
        for choice, after in choices(world, held, hold):
            yield f"the person chooses {choice} for place {held}, which is held ({hold.reason})", after
    yield from pushes(world)
    if world.late:
        yield "what was under way lands", landed(world)
    owners = {number: owner for shelf in world.window for number, (owner, _) in shelf}
    for lost in dict.fromkeys(world.window[:-1]) if world.faults and not world.late else ():
        # While replicas differ, nobody can tell that a number went back to who had it before.
        if any(owners.get(number, owner) != owner for number, (owner, _) in lost):
            continue
        if any(place.deleted and _is_like_anothers(place, contents(lost)) for place in world.places):
            continue
        after = world._replace(
            shelf=lost, window=(*world.window, lost), faults=world.faults - 1, odd=True, taken_back=frozenset(),
            gone=frozenset(), given=frozenset(),
        )  # fmt: skip
        # A block that a colleague had given is there again.
        back = {(place.id, item, False) for place in world.places for item in _given_by_others(after, place)}
        yield (
            f"the service fails over, to how it was {len(world.window) - 1 - world.window.index(lost)} changes ago",
            after._replace(claims=after.claims - back),
        )
    is_quiet = not world.late and len(world.window) == 1
    if world.faults and is_quiet and _can_be_numbered_otherwise(world):
        moved = tuple(sorted((number - 3, entry) for number, entry in world.shelf))
        copied = world._replace(shelf=moved, window=(*world.window, moved), faults=world.faults - 1, odd=True)
        yield "a copy takes over, which numbers all otherwise", copied
    shelves = concluding(world)
    if world.shelf not in shelves:
        yield "everything settles", quiet(world)
    if any(place.requests or place.intents for place in world.places) or world.moves:
        for shelf in shelves:
            yield "a conclusive list is read", synced(world, shelf)


def _can_be_numbered_otherwise(world: World) -> bool:
    """True if all can be recognised by its blocks, and by what it was, once a copy numbers it otherwise."""
    was = {place.id: {*place.was()} for place in world.places}
    known = (content.blocks and content in was.get(owner, ()) for _, (owner, content) in world.shelf)
    return bool(world.shelf) and not world.moves and -4 not in dict(world.shelf) and all(known)


def _is_like_anothers(place: Place, listed: Mapping[int, Content]) -> bool:
    """True if its number shows what a colleague has changed beyond recognition."""
    return look_at(place, listed.get(place.number or 0), EXACT, conclusive=True).another


# What must hold


def check(world: World) -> None:
    """Lookups have what the person asked for, until a person is told.

    :raises Violated: if they do not
    """
    for place in world.places:
        if place.id in world.told or place.doubted:
            continue
        shown = place.shown
        for content in (shown, *over_lists(world, place)):
            for _, item, wanted in (claim for claim in world.claims if claim[0] == place.id):
                if has(content, item) != wanted:
                    raise Violated(
                        f"lookups of place {place.id} have {item} {has(content, item)}, and {wanted} was asked for"
                    )
        takes = frozenset().union(*(intent.takes for intent in place.intents))
        for _, block in (each for each in world.seen if each[0] == place.id):
            taken = takes - {each for owner, each in world.given if owner == place.id}
            if shown is not None and block not in shown.blocks | taken:
                raise Violated(f"lookups of place {place.id} lack block {block}, which the last list showed")


def over_lists(world: World, place: Place) -> Iterator[Content | None]:
    """The place as lookups have it over each list that may be read now, conclusive or not."""
    for shelf in world.window:
        found = None if place.number is None else contents(shelf).get(place.number)
        if found is not None and not look_at(place, found, EXACT, conclusive=False).another:
            yield over(place, found).shown


def check_rest(world: World, rested: set[World]) -> None:
    """If nothing more happens, all comes to rest: done as meant, or held; each choice ends a hold.

    ``rested`` are the quiet worlds of which that is known, and gets those that this one comes by.

    :raises Violated: if it does not
    """
    world = world._replace(faults=0, moves=0, edits=0)
    came_by: list[World] = []
    for _ in range(12):
        quieted = quiet(world)
        if quieted in rested:
            rested.update(came_by)
            return
        came_by.append(quieted)
        if (after := a_round(quieted)) == world:
            break
        world = after
    else:
        raise Violated("it does not come to rest")
    check_done(world)
    for held, hold in world.held:
        if not world.odd:
            raise Violated(f"place {held} is held on a plain service: {hold.reason}")
        for choice, after in choices(world, held, hold):
            try:
                check_chosen(at_rest(after, rounds=4), held, hold)
            except Violated as error:
                raise Violated(f"place {held} is held ({hold.reason}), and {choice} is chosen: {error}") from error
    rested.update(came_by)


def _is_in_conflict(world: World, held: int) -> bool:
    place = next(each for each in world.places if each.id == held)
    theirs = None if place.number is None else contents(world.shelf).get(place.number)
    decision = reconcile(place, look_at(place, theirs, EXACT, conclusive=False))
    return isinstance(decision, Hold) and decision.reason == "conflict"


def _deleted_in_view_of(place: Place, theirs: Content | None) -> bool:
    """True if the person saw the place as it is there, with the edits that waited, and deleted it: that stands."""
    at = next(at for at, intent in enumerate(place.intents) if intent.what == "delete")
    return target(place.intents[:at], theirs) == place.intents[at].base


def choices(world: World, held: int, hold: Hold) -> Iterator[tuple[str, World]]:
    """The world after each choice of a person about a place that is held."""
    place = next(each for each in world.places if each.id == held)
    for choice in CHOICES[hold.reason]:
        owner, _ = dict(world.shelf).get(hold.number, (None, None))  # type: ignore[arg-type]
        elsewhere = any(owner == held and number != hold.number for number, (owner, _) in world.shelf)
        if (choice == "same" and owner != held) or (place.doubted and elsewhere):
            continue  # a person who says so is wrong, and is believed
        keeps = choice in ("mine", "anew", "retry")
        free = world._replace(
            held=tuple(each for each in world.held if each[0] != held),
            gone=frozenset(each for each in world.gone if each[0] != held),  # as the next list says
            given=frozenset(each for each in world.given if each[0] != held),
            unseen=frozenset(each for each in world.unseen if each[0] != held),
            claims=frozenset(each for each in world.claims if keeps or each[0] != held),
        )
        if choice != "same" and hold.reason in ("another", "unclear") and hold.number is not None:
            for number, content in ((hold.number, hold.theirs), *hold.also):
                free = disowned(free, number, content, held)
        after = chosen(place, hold, choice)
        deletes = any(intent.what == "delete" for intent in after.intents)
        if choice == "theirs" and deletes and not _deleted_in_view_of(place, hold.theirs):
            raise Violated(f"place {held} is to stay as it is there, and is deleted all the same")
        yield choice, _renumbered(put(free, _numbered(place, after)))


def _numbered(before: Place, place: Place) -> Place:
    """A place with an own number for each edit: the first with one keeps it, any other gets one above all."""
    newest = max((intent.id for intent in (*before.intents, *place.intents)), default=0)
    used: set[int] = set()
    found = []
    for intent in place.intents:
        if intent.id in used:
            newest += 1
            intent = replace(intent, id=newest)
        used.add(intent.id)
        found.append(intent)
    return replace(place, intents=tuple(sorted(found, key=lambda intent: intent.id)))


def disowned(world: World, number: int, content: Content | None, place: int) -> World:
    """What a person says is not ours is a colleague's, also if a copy brings it back."""

    def without(shelf: Shelf) -> Shelf:
        entry = dict(shelf).get(number)
        return shelf if entry is None or entry[0] != place else shelved(shelf, number, (-99, entry[1]))

    return world._replace(
        shelf=without(world.shelf),
        window=tuple(map(without, world.window)),
        disowned=frozenset(each for each in world.disowned if each[:2] != (place, number))
        | ({(place, number, content)} if content is not None else frozenset()),
    )


def check_chosen(world: World, chosen: int, former: Hold) -> None:
    """What a person chose is so, or there is something else to decide.

    :raises Violated: if it is not
    """
    if (hold := dict(world.held).get(chosen)) is not None:
        if hold == former:
            raise Violated(f"it is held again: {hold}")
        return
    place = next((each for each in world.places if each.id == chosen), None)  # None once it has another id
    for _, item, wanted in (claim for claim in world.claims if place is not None and claim[0] == chosen):
        if has(place.shown, item) != wanted:
            raise Violated(f"it does not have {item} {wanted}: {place.shown}")


def has(shown: Content | None, item: object) -> object:
    if item == "there":
        return shown is not None
    if isinstance(item, tuple):
        return shown is not None and item[1] in shown.blocks
    return None if shown is None else shown.values[0]


def at_rest(world: World, *, rounds: int) -> World:
    """The world once nothing is left to do, all of which was checked.

    :raises Violated: if that does not come, or not as meant
    """
    for _ in range(rounds):
        before, world = world, a_round(quiet(world))
        if world == before:
            check_done(world)
            return world
    raise Violated("it does not come to rest")


def a_round(world: World) -> World:
    """A quiet world after a list was read and all was pushed.

    :raises Violated: if the list leaves a world that must not be
    """
    world = synced(world, world.shelf)
    check(world)
    for _ in range(12):
        step = next((after for _, after in pushes(world)), None)
        if step is None:
            break
        world = step
    return world


def check_done(world: World) -> None:
    """All is done as meant, or held.

    :raises Violated: if it is not
    """
    there = {}
    for number, (owner, content) in world.shelf:
        there.setdefault(owner, []).append((number, content))
    for place in world.places:
        if place.id in dict(world.held):
            continue
        own = there.get(place.id, [])
        if len(own) > 1 and place.id not in world.told:
            raise Violated(f"place {place.id} is there twice: {own}")
        if place.intents or place.requests:
            raise Violated(f"place {place.id} is neither done nor held")
        if place.shown is None and own and place.id not in world.told:
            raise Violated(f"place {place.id} is gone here, and there as {own}")
        if place.shown is not None and (place.number, place.shown) not in own:
            raise Violated(f"place {place.id} is {place.shown} here, and there {own}")
        for owner, block in world.given:
            if owner == place.id and not any(block in content.blocks for _, content in own):
                raise Violated(f"place {place.id} has lost block {block}, which a colleague gave it again")
        for _, item, wanted in (claim for claim in world.claims if claim[0] == place.id):
            if item == "there" and wanted != bool(own) and place.id not in world.told:
                raise Violated(f"place {place.id}: {own}, though it was asked to be there: {wanted}")
