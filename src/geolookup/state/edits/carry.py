"""Another service comes after one has left: the custom geolocations that it never had go to it, each as one create.

Locids are a service's own: the same number may be another place there. So it is kept, for each address that had
geolocations of this state, which number each of them had there. Nothing is created twice at a service that comes back.
"""

import json
from collections.abc import Mapping
from dataclasses import replace

from geolookup.model.types import Geolocation, is_provisional
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.outbox.operations import AddBlock, Create
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.payload import described
from geolookup.state.edits.outbox.row import PENDING_STATES, OutboxRow, State

#: The setting that says from which address to which everything was carried last.
_CARRIED = "carried"


def carry_over(outbox: Outbox, layer: Mapping[int, Laid], *, origin: str, url: str, made: int) -> int:
    """Queue a create with blocks for each geolocation of the custom layer that the service at ``url`` never had.

    ``origin`` is the address of the service that the layer came from. If the new one had a geolocation, edits of it
    that wait go there; else they are part of the create. ``made`` is the kept baseline of what the new service has
    now. What was carried once is not carried again. Returns how many creates were queued.
    """
    if outbox.setting(_CARRIED) == f"{origin} {url}":
        return 0
    here, there = _numbers(outbox, url), _numbers(outbox, origin)
    locals_of = {number: local for local, number in outbox.aliases().items()}
    waiting: dict[int, list[OutboxRow]] = {}
    for row in outbox.rows(*PENDING_STATES):
        waiting.setdefault(row.locid, []).append(row)
    outbox.leave_service()
    count = 0
    for shown, laid in sorted(layer.items(), reverse=True):
        local = locals_of.get(shown, shown)
        rows = waiting.pop(local, [])
        if any(isinstance(row.edit, Create) for row in rows):  # no service has it yet
            for row in rows:
                outbox.queue_again(row)
            continue
        there[local] = shown
        if local in here:
            outbox.assign(local, here[local])
            continue
        _drop(outbox, rows, f"the service that it was for has left: what it changed goes to {url} as a new geolocation")
        if not is_provisional(local):
            del there[local]
            local = outbox.next_provisional()
            there[local] = shown
        _create(outbox, laid.place, local, made)
        count += 1
    for local, rows in waiting.items():
        if local not in here:
            _drop(outbox, rows, "the service that it was for has left, and the new one never had the geolocation")
    for address, numbers in ((origin, there), (url, here)):
        outbox.keep_setting(f"numbers {address}", json.dumps({str(local): number for local, number in numbers.items()}))
    outbox.keep_setting(_CARRIED, f"{origin} {url}")
    outbox.keep_setting("upstream_url", url)
    outbox.record("carry", str(State.QUEUED), before={"url": origin}, after={"url": url, "creates": count})
    return count


def _numbers(outbox: Outbox, url: str) -> dict[int, int]:
    """The number at ``url`` of each geolocation of ours that it has had."""
    return {int(local): int(number) for local, number in json.loads(outbox.setting(f"numbers {url}") or "{}").items()}


def _drop(outbox: Outbox, rows: list[OutboxRow], problem: str) -> None:
    for row in rows:
        outbox.change(row.id, state=State.DROPPED, problem=problem)


def _create(outbox: Outbox, place: Geolocation, local: int, made: int) -> None:
    so_far = described(replace(place, ipblocks=()))
    outbox.add(Create(fields=place.fields()), local, base=None, content=so_far, made=made)
    for at, block in enumerate(place.ipblocks, 1):
        before, so_far = so_far, described(replace(place, ipblocks=place.ipblocks[:at]))
        outbox.add(AddBlock(block=block), local, base=before, content=so_far)
