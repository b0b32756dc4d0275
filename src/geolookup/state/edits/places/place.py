"""A place: what it was, what is wanted of it, and what was asked of the service for it.

A place is not a number: it is bound to one for a stretch of lists. Its *target* is what the service has of it with the
open intents applied; nothing that no open intent touches is ever written.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from geolookup.model.fields import FIELD_NAMES
from geolookup.state.base.marks import Mark

#: The values of the eight fields, in their order.
Values: TypeAlias = tuple[Any, ...]
Block: TypeAlias = Hashable
Blocks: TypeAlias = frozenset[Block]
#: A field, by its position, or ``(block,)``, whose value is whether it is there.
Item: TypeAlias = Any


class Content(msgspec.Struct, frozen=True):
    """The content of a place: the values of its fields, and its blocks."""

    values: Values
    blocks: Blocks = frozenset()

    @property
    def fields(self) -> dict[str, Any]:
        """Its fields by name."""
        return dict(zip(FIELD_NAMES, self.values, strict=True))

    def has(self, item: Item) -> Any:
        """The value of an item."""
        return item[0] in self.blocks if isinstance(item, tuple) else self.values[item]

    def but(self, items: "Mapping[Item, Any]") -> "Content":
        """It with these values of these items."""
        values = tuple(items.get(at, value) for at, value in enumerate(self.values))
        gone, new = ({item[0] for item, is_so in items.items() if is_so is each} for each in (False, True))
        return Content(values, self.blocks - gone | new)


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """One edit of a person, and the ``base`` that it was made against (None of a create).

    ``values`` are wanted by "create" and "update", of which the latter touches those alone that differ from the base.
    "add_block" gives ``new``, "remove_block" takes ``old``, "replace_block" does both, and "clear_blocks" takes all
    that the person saw. ``id`` is its number in the outbox, 0 as long as it has none.
    """

    what: Literal["create", "update", "delete", "add_block", "replace_block", "remove_block", "clear_blocks"]
    id: int = 0
    base: Content | None = None
    values: Values = ()
    old: Block = None
    new: Block = None

    @property
    def touched(self) -> dict[int, Any]:
        """Of an "update", the wanted values by the position of their field."""
        if self.what != "update":
            return {}
        if self.base is None:
            return dict(filled(self.values))
        return {at: value for at, value in enumerate(self.values) if value != self.base.values[at]}

    @property
    def takes(self) -> Blocks:
        """The blocks that it takes away."""
        if self.what == "clear_blocks":
            return frozenset() if self.base is None else self.base.blocks
        return frozenset() if self.old is None else frozenset({self.old})

    @property
    def says(self) -> dict[Item, Any]:
        """The value that it wants for each item that it touches."""
        says: dict[Item, Any] = self.touched
        for block in self.takes:
            says[(block,)] = False
        if self.new is not None:
            says[(self.new,)] = True
        return says

    def applied(self, content: Content | None) -> Content | None:
        """A content after it; None stands for no place."""
        return target((self,), content)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was sent for a place since the last conclusive list.

    ``before`` is the place as the service had it when this was sent, ``upto`` the newest intent then. ``body`` are the
    values of a "put" as they go to the service, if it has other words for those that it does not touch. ``known`` is
    true if the service acknowledged it, ``settled`` if the look at hand was begun so long after its end that it can
    be under way no longer; ``put_off`` if the service asked for it at another time. ``id`` is that of its row, and
    ``key`` goes along. ``attempted`` and ``ended`` are marks: of the first time that it was sent, and of its end,
    None as long as it is on its way. ``said`` are the service's words if it refused this. ``misnamed`` is true of a
    create that was answered with a number of another place, or by a service that has moved since.
    """

    what: Literal["create", "put", "add", "replace", "clear", "delete"]
    before: Content | None = None
    values: Values = ()
    body: Values = ()
    old: Block = None
    new: Block = None
    upto: int = 0
    known: bool = False
    settled: bool = False
    put_off: bool = False
    id: int = 0
    key: str = ""
    attempted: Mark | None = None
    ended: Mark | None = None
    misnamed: bool = False
    said: str = ""

    @property
    def touched(self) -> dict[int, Any]:
        """Of a "put", the values that it changes, by the position of their field."""
        assert self.before is not None
        return {at: value for at, value in enumerate(self.values) if value != self.before.values[at]}

    @property
    def sets(self) -> dict[int, Any]:
        """The values that it is sent for, by the position of their field."""
        return self.touched if self.what == "put" else dict(enumerate(self.values))

    @property
    def is_unknown(self) -> bool:
        """True if its outcome has to settle: of what the service put off, that of a create or a delete-all alone."""
        return not (self.known or (self.put_off and self.what not in ("create", "clear")))

    def concerns(self, intent: Intent) -> bool:
        """True if it is sent, among others, for this edit."""
        if intent.id > self.upto:
            return False
        match self.what:
            case "create" | "put":
                return intent.what in ("create", "update")
            case "add":
                # A removal of one block deletes all, and then adds the others again.
                return intent.new == self.new or bool(intent.takes)
            case "replace":
                return intent.new == self.new or self.old in intent.takes
            case "clear":
                return bool(intent.takes)
            case "delete":
                return True

    def is_done(self, content: Content | None) -> bool:
        """True if a content is as this leaves it."""
        if content is None or self.what in ("create", "delete"):
            return (content is None) == (self.what == "delete")
        if self.what == "put":
            return all(content.values[at] == value for at, value in self.touched.items())
        return self.applied(content) == content

    def applied(self, content: Content | None) -> Content | None:
        """A content after it."""
        if self.what == "create":
            return Content(self.values) if content is None else content
        if content is None or self.what == "delete":
            return None
        if self.what == "put":
            return replace(content, values=self.values)
        if self.what == "clear":
            return replace(content, blocks=frozenset())
        taken = {self.old} if self.what == "replace" else set()
        return replace(content, blocks=content.blocks - taken | {self.new})


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A place: its number at the service, if it has one, and all that is open.

    ``baseline`` is what the last conclusive list had of it, None if none had it. ``intents`` are those that no
    conclusive list has shown yet, ``requests`` all that were sent since, both oldest first.
    ``owed`` are blocks that a delete-all of ours took before that list and that must come back: the baseline has them.
    ``refused`` is what the service said no to for good. ``lost`` is the number that it had before a list showed
    something else under it. ``doubted`` is the number of the newest edit that there was when an older copy of the edits
    was put back, 0 if none was: what was open then may have been sent, and undone, since.
    """

    id: int
    number: int | None = None
    lost: int | None = None
    baseline: Content | None = None
    intents: tuple[Intent, ...] = ()
    requests: tuple[Request, ...] = ()
    owed: Blocks = frozenset()
    refused: Request | None = None
    doubted: int = 0

    @property
    def shown(self) -> Content | None:
        """The place as lookups have it: the baseline with every open intent."""
        return target(self.intents, self.baseline)

    @property
    def acknowledged(self) -> Content | None:
        """The place as the service has it, as far as its answers say."""
        known = [request for request in self.requests if request.known]
        return known[-1].applied(known[-1].before) if known else self.at_service

    @property
    def at_service(self) -> Content | None:
        """The place as the list had it that the baseline is of."""
        return None if self.baseline is None else replace(self.baseline, blocks=self.baseline.blocks - self.owed)

    @property
    def creating(self) -> Request | None:
        """The first request to create it, None if none was sent."""
        return next((request for request in self.requests if request.what == "create"), None)

    @property
    def deleted(self) -> bool:
        """True if the service said that it deleted it."""
        return any(request.what == "delete" and request.known for request in self.requests)

    @property
    def in_doubt(self) -> tuple[Intent, ...]:
        """The intents that an older copy of the edits had, which was put back.

        None are once something was sent for a later one: right before that, the service had them.
        """
        if not self.doubted or any(request.upto > self.doubted for request in self.requests):
            return ()
        return tuple(intent for intent in self.intents if intent.id <= self.doubted)

    @property
    def said_yes(self) -> tuple[Intent, ...]:
        """The intents that the service acknowledged, whether a list shows them or not."""
        known = [request for request in self.requests if request.known]
        return tuple(each for each in self.intents if any(request.concerns(each) for request in known))

    @property
    def unbound(self) -> "Place":
        """The place without its number, which is nothing's or another's by now; what was refused was of that number."""
        return replace(self, number=None, lost=self.number, refused=None)

    def was(self) -> Iterator[Content]:
        """Every content that it had at the service or was asked to have.

        What only waits to be sent proves nothing, unless a newer copy of the edits may have sent it.
        """
        if self.baseline is not None:
            yield self.baseline
        for request in self.requests:
            if request.before is not None:
                yield request.before
            after = request.applied(request.before)
            if after is not None:
                yield after
        yield from states(self.in_doubt, self.baseline)

    @property
    def had(self) -> Blocks:
        """Every block that it had at the service or was asked to have."""
        return frozenset[Block]().union(*(content.blocks for content in self.was()))


def filled(values: Values) -> Iterator[tuple[int, Any]]:
    """The values that a create sets, by position: the fields that it leaves empty may be filled in by others."""
    return ((at, value) for at, value in enumerate(values) if value not in ("", None))


def in_order(blocks: Blocks) -> list[Any]:
    """Blocks of one kind, which have an order."""
    found: list[Any] = list(blocks)
    return sorted(found)


def last_word(intents: Iterable[Intent]) -> dict[Item, tuple[int, Any]]:
    """The number of the newest intent that says something of each item, and what it says."""
    return {item: (intent.id, value) for intent in intents for item, value in intent.says.items()}


def taken_by(intents: Iterable[Intent]) -> Blocks:
    """The blocks that intents take, also those that a later one gives again."""
    return frozenset().union(*(intent.takes for intent in intents))


def target(intents: Iterable[Intent], content: Content | None) -> Content | None:
    """A content with intents applied."""
    values: list[Any] | None = None if content is None else [*content.values]
    blocks: set[Any] = set() if content is None else {*content.blocks}
    for intent in intents:
        if intent.what == "delete":
            values, blocks = None, set()
        elif values is not None:
            for at, value in filled(intent.values) if intent.what == "create" else intent.touched.items():
                values[at] = value
            blocks -= intent.takes
            if intent.new is not None:
                blocks.add(intent.new)
        elif intent.what == "create":
            values = [*intent.values]
    return None if values is None else Content(tuple(values), frozenset(blocks))


def states(intents: Sequence[Intent], content: Content | None) -> Iterator[Content]:
    """The contents after the first intent, after the first two, and so on, as far as there is one."""
    for count in range(1, len(intents) + 1):
        if (after := target(intents[:count], content)) is not None:
            yield after


def made_against(
    content: Content,
    intents: Iterable[Intent],
    *,
    unseen: Blocks | None = None,
    owed: Blocks = frozenset(),
) -> tuple[Intent, ...]:
    """Intents with this content as the base, each after those before it; a removal of all blocks takes ``owed``, too.

    ``unseen`` is None if who made them has seen the content. Else no block is known to them but those that they were
    made against or give, without these.
    """
    found: list[Intent] = []
    base: Content | None = content
    for intent in intents:
        if base is not None:
            values = tuple(intent.touched.get(at, value) for at, value in enumerate(base.values))
            own = base.blocks
            if intent.base is not None and unseen is not None:
                own = own & (intent.base.blocks | {intent.new}) - unseen
            own |= intent.takes & owed if intent.what == "clear_blocks" else frozenset()
            intent = replace(intent, base=replace(base, blocks=own), values=values if intent.what == "update" else ())
            base = intent.applied(base)
        found.append(intent)
    return tuple(found)


def without(intents: Sequence[Intent], numbers: Iterable[int]) -> tuple[Intent, ...]:
    """Intents without those of these numbers: for later ones, which have seen their effect, they never were."""
    found = [*intents]
    for number in numbers:
        at = next(at for at, intent in enumerate(found) if intent.id == number)
        dropped = found[at]
        found[at:] = [_seeing(dropped.base, dropped, intent) for intent in found[at + 1 :]]
    return tuple(found)


def amended(intents: Sequence[Intent], number: int, changes: Mapping[str, Any]) -> tuple[Intent, ...]:
    """Intents with that of this number changed: later ones see its effect as it is now."""
    at = next(at for at, intent in enumerate(intents) if intent.id == number)
    new = replace(intents[at], **changes)
    later = (_seeing(new.applied(new.base), intents[at], intent) for intent in intents[at + 1 :])
    return (*intents[:at], new, *later)


def _seeing(content: Content | None, former: Intent, intent: Intent) -> Intent:
    """An intent that sees this content in place of what a former one made."""
    was = former.applied(former.base)
    if intent.base is None or content is None or was is None:
        return intent
    sides = zip(intent.base.values, was.values, content.values, strict=True)
    values = tuple(new if now == old else now for now, old, new in sides)
    blocks = intent.base.blocks - (was.blocks - content.blocks) | content.blocks - was.blocks
    wanted = tuple(intent.touched.get(at, value) for at, value in enumerate(values)) if intent.values else ()
    return replace(intent, base=Content(values, blocks), values=wanted)


def lacked(intents: Iterable[Intent], content: Content) -> tuple[Intent, ...]:
    """The intents that this content lacks, and those that say more of what these say; all others are over.

    To take a block, all may have to be deleted: so every later intent that gives one for good says more of it.
    """
    intents = tuple(intents)
    last = {
        item: (at, content.has(item) == value) for at, each in enumerate(intents) for item, value in each.says.items()
    }
    needed = {at for at, is_so in last.values() if not is_so}
    said: set[Item] = set()
    left: list[Intent] = []
    takes = False
    for at, intent in enumerate(intents):
        gives = intent.new is not None and last[(intent.new,)][0] == at
        if intent.what == "delete" or at in needed or intent.says.keys() & said or (takes and gives):
            takes = takes or bool(intent.takes)
            left.append(intent)
            said |= intent.says.keys()
    return tuple(left)
