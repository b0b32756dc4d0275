"""What became of creates whose outcomes are unknown: all that have settled together, by one complete list."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from geolookup.model.types import Geolocation
from geolookup.state.base.digest import digest
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.row import OutboxRow
from geolookup.sync.push.matching.likeness import Forms
from geolookup.sync.push.matching.matching import Candidates, Match, is_new, match_creates
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
    """Why a create that was never sent must be held, as `Elsewhere.holds`."""
    return Elsewhere(outbox, service).holds(row)


class Elsewhere:
    """What a complete list has that creates which were never sent may be: made from another copy of these edits."""

    def __init__(self, outbox: Outbox, service: Mapping[int, Geolocation]) -> None:
        self._outbox = outbox
        self._service = service
        self._ours = outbox.created_here()
        self._forms = Forms(outbox.sent.stored_forms())
        #: What is new since each baseline, which thousands of creates share: mostly nothing.
        self._new: dict[int | None, Candidates] = {}

    def holds(self, row: OutboxRow) -> Match | None:
        """Why a create must be held: something new is the same; None if nothing is."""
        if row.made is None or row.attempts or (row.journal or {}).get("resent"):
            return None
        baseline = self._outbox.baselines.of(row)
        kept = row.made if row.baseline is None else row.baseline
        if kept not in self._new:
            new = [place for place in self._service.values() if is_new(place, baseline)]
            self._new[kept] = Candidates(new, self._ours)
        one = wanted(self._outbox, row)
        found = [
            place
            for place in self._new[kept].of(one)
            if any(self._forms.same(sent, place.fields()) for sent in one.sent)
        ]
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
