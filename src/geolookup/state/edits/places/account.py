"""The account of a place: of each of its items, what the service may have unless somebody else has written it."""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from geolookup.state.edits.places.place import Blocks, Intent, Item, Place, Request, filled


class Entry(msgspec.Struct):
    """All that is known of an item: the values of a field, or whether a block is there.

    ``ours`` is all that a person here has seen of it, or that was sent, since the service acknowledged it last. An edit
    that was never sent says nothing of what the service has: what is so there is somebody else's. ``promised`` is what
    was acknowledged, and what was sent since and may be so, with the newest intent that it was acknowledged for.
    ``void`` is a block that edits gave and took again before any request had it: they say nothing more of it.
    """

    ours: set[Any] = msgspec.field(default_factory=set)
    promised: set[Any] = msgspec.field(default_factory=set)
    upto: int = -1
    void: bool = False


Account: TypeAlias = Mapping[Item, Entry]


def account_of(place: Place) -> Account:
    """Each item that an edit or a request of a place concerns, with what is known of it."""
    account: dict[Item, Entry] = defaultdict(Entry)
    for block in place.owed:  # a list has shown that it is gone
        account[(block,)].ours.add(False)
    said: dict[Item, Any] = {}
    fresh: dict[Item, Any] = {}
    requests = deque(place.requests)
    for intent in place.intents:
        while requests and requests[0].upto < intent.id:
            _sent(account, requests.popleft(), fresh)
        says = intent.says
        for item, value in _seen(intent, says).items():
            # What an edit before it says was seen here alone.
            if said.get(item, ...) != value and not (value is True and item[0] in place.owed):
                account[item].ours.add(value)
        wanted = dict(enumerate(intent.values)) if intent.what == "create" else says
        said |= wanted
        fresh |= wanted
        if intent.what == "create" or intent.id <= place.doubted:  # a newer copy of the edits may have sent it
            for item, value in wanted.items():
                account[item].ours.add(value)
    for request in requests:
        _sent(account, request, fresh)
    for item, entry in account.items():
        entry.void = (
            said.get(item) is False and entry.ours == {False} and not entry.promised and item[0] not in place.owed
        )
    return account


def _seen(intent: Intent, says: Iterable[Item]) -> dict[Any, Any]:
    """Each item that an intent concerns, as the person saw it; ``says`` are those that it touches."""
    if intent.base is None:
        return {}
    if intent.what != "delete":
        return {item: intent.base.has(item) for item in says}
    return {**dict(enumerate(intent.base.values)), **{(block,): True for block in intent.base.blocks}}


def _sent(account: dict[Item, Entry], request: Request, fresh: dict[Item, Any]) -> None:
    """Note a request, and what the service had then already, of all that edits have said since the last one."""
    says: dict[Any, Any] = dict(request.sets)
    if request.what == "clear":
        assert request.before is not None
        says = {(block,): False for block in request.before.blocks | there(account)}
    elif request.what in ("add", "replace"):
        says = {(request.old,): False, (request.new,): True}
    promised = says if request.what != "create" else dict(filled(request.values))
    for item, value in says.items():
        entry = account[item]
        if request.known and request.what != "create":  # if what was before is there, somebody took ours back
            entry.ours = set()
        entry.ours.add(value)
        if item not in promised:
            continue
        if request.known:
            entry.promised, entry.upto = {value}, request.upto
        elif entry.promised:
            entry.promised.add(value)
    if request.before is not None:
        for item in fresh.keys() - says.keys():
            if request.before.has(item) == fresh[item]:
                account[item].ours.add(fresh[item])
    fresh.clear()


def there(account: Account) -> Blocks:
    """The blocks that the service acknowledged, and has not been told to delete since."""
    items = ((item, entry) for item, entry in account.items() if isinstance(item, tuple) and entry.promised)
    return frozenset(block for (block,), entry in items if False not in entry.promised)


def blocks_in(account: Account) -> Blocks:
    """Every block that it has an entry of."""
    return frozenset(item[0] for item in account if isinstance(item, tuple))


def void_in(account: Account) -> Blocks:
    """The blocks that edits gave and took again before any request had them."""
    return frozenset(item[0] for item, entry in account.items() if entry.void)
