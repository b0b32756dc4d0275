"""Another service comes after one has left: the custom geolocations that it never had go to it, each as one create.

Locids are a service's own: the same number may be another place there. So it is kept, for each address that had
geolocations of this state, which number each of them had there. Nothing is created twice at a service that comes back.
"""

import json
from collections.abc import Mapping

from msgspec.structs import replace

from geolookup.model.types import Geolocation
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.outbox.kept import OPEN, Kept
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.outbox.outbox import UPSTREAM_URL, Outbox
from geolookup.state.edits.outbox.payload import content_of
from geolookup.state.edits.outbox.row import State
from geolookup.state.edits.places.choosing import anew, rebased
from geolookup.state.edits.places.place import Place

#: The setting that says from which address to which everything was carried last.
_CARRIED = "carried"


def carry_over(
    ledger: Ledger, layer: Mapping[int, Laid], theirs: Mapping[int, Geolocation], *, origin: str, url: str, made: int
) -> int:
    """Queue a create with blocks for each geolocation of the custom layer that the service at ``url`` never had.

    ``origin`` is the address of the service that the layer came from. If the new one had a geolocation, edits of it
    that wait go there; else they are part of the create. ``theirs`` is what the new service has now, and ``made`` the
    kept baseline of that. What was carried once is not carried again. Returns how many creates were queued.
    """
    outbox = ledger.outbox
    if outbox.setting(_CARRIED) == f"{origin} {url}":
        return 0
    here, there = _numbers(outbox, url), _numbers(outbox, origin)
    outbox.twins.forget(*outbox.twins.known())  # the new service has none
    ids = {ledger.place_of(shown, content_of(laid.place)) for shown, laid in layer.items()}
    gone = [kept for kept in ledger.read(OPEN).values() if kept.place.id not in ids]
    count = 0
    for place in sorted(ids, reverse=True):
        kept, before = ledger.of(place), place
        if kept.place.number is None and not kept.place.requests:
            continue  # no service has it yet
        number = kept.place.number
        if place in here:
            _assign(ledger, kept, here[place], theirs)
        else:
            kept = ledger.rewrite(ledger.part(kept, seen=outbox.counter), anew(kept.place))
            ledger.made_since(kept, made)
            before = kept.place.id
            count += 1
        if number is not None:
            there[before] = number
    for kept in gone:
        if kept.place.id in here:
            _assign(ledger, kept, here[kept.place.id], theirs)
        else:
            ledger.rewrite(kept, Place(id=kept.place.id))
    for address, numbers in ((origin, there), (url, here)):
        outbox.keep_setting(f"numbers {address}", json.dumps({str(local): number for local, number in numbers.items()}))
    outbox.keep_setting(_CARRIED, f"{origin} {url}")
    outbox.keep_setting(UPSTREAM_URL, url)
    outbox.record("carry", str(State.QUEUED), before={"url": origin}, after={"url": url, "creates": count})
    return count


def _numbers(outbox: Outbox, url: str) -> dict[int, int]:
    """The number at ``url`` of each geolocation of ours that it has had."""
    return {int(local): int(number) for local, number in json.loads(outbox.setting(f"numbers {url}") or "{}").items()}


def _assign(ledger: Ledger, kept: Kept, number: int, theirs: Mapping[int, Geolocation]) -> None:
    """Have a place be what another service has under a number, with what neither has been sent yet."""
    left = tuple(row.intent for row in kept.pending)
    place = replace(kept.place, number=number, lost=None, intents=left, requests=(), owed=frozenset(), refused=None)
    content = content_of(theirs[number]) if number in theirs else None
    ledger.rewrite(kept, rebased(replace(place, baseline=content), content))
