"""What became of creates whose outcomes are unknown: all that have settled together, by one complete list."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from geolookup.model import Geolocation
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.row import OutboxRow
from geolookup.state.generations.digest import digest
from geolookup.sync.push.matching.likeness import Forms
from geolookup.sync.push.matching.matching import Candidates, Match, match_creates
from geolookup.sync.push.matching.wanted import wanted


def matched(outbox: Outbox, rows: list[OutboxRow], service: Mapping[int, Geolocation]) -> dict[int, Match]:
    """What became of these creates, by edit; the list must be conclusive for each.

    One that an older copy of the edits brought back is held if nothing is there: it may have been sent, and what it
    made deleted since.
    """
    candidates = Candidates(list(service.values()), outbox.created_here())
    found = match_creates([wanted(outbox, row) for row in rows], candidates, Forms(outbox.sent.stored_forms()))
    for row in rows:
        if found[row.id].what == "send" and (row.journal or {}).get("put_back"):
            reason = (
                "an older copy of the edits was put back, and a push had begun since: nobody can say "
                "whether this was sent and then deleted; `geolookup outbox retry` sends it"
            )
            found[row.id] = replace(found[row.id], what="hold", reason=reason)
    return found


def made_elsewhere(outbox: Outbox, row: OutboxRow, service: Mapping[int, Geolocation]) -> Match | None:
    """Why a create that was never sent must be held: something new is the same; None if nothing is.

    Somebody may have made it from another copy of these edits.
    """
    if row.made is None:
        return None
    forms, one = Forms(outbox.sent.stored_forms()), wanted(outbox, row)
    candidates = Candidates(list(service.values()), outbox.created_here())
    found = [place for place in candidates.of(one) if any(forms.same(sent, place.fields()) for sent in one.sent)]
    if not found:
        return None
    numbers = ", ".join(str(place.locid) for place in found)
    reason = (
        f"the service has the same already, and had not when this was made here: {numbers}: "
        "`geolookup outbox adopt` takes it, `retry` makes another"
    )
    return Match(what="hold", reason=reason, found=tuple(found))


def shown(places: Iterable[Geolocation]) -> dict[str, Any]:
    """What a journal keeps of the geolocations that a person is shown."""
    return {"candidates": {str(place.locid): digest(place) for place in places}}
