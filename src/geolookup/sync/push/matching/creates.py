"""Creates whose outcomes are unknown: all that have settled are matched together, by one complete list."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from geolookup.model.types import Geolocation, IPBlock
from geolookup.state.edits.outbox.operations import Create
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.row import OutboxRow
from geolookup.state.generations.cache import digest
from geolookup.sync.push.matching.likeness import Fields, Forms, like
from geolookup.sync.push.matching.matching import Candidates, Match, Wanted, is_new, match_creates


def given_blocks(outbox: Outbox, row: OutboxRow) -> frozenset[IPBlock]:
    """The blocks that edits of this machine give to what a create made."""
    given = (other.edit.takes for other in outbox.rows(locid=row.locid))
    return frozenset(block for block in given if block is not None)


def forms_sent(row: OutboxRow) -> tuple[Fields, ...]:
    """Every form in which a create was sent, as it is now first: a person may have changed it since."""
    assert isinstance(row.edit, Create)
    return (row.edit.fields, *(row.journal or {}).get("sent", ()))


def wanted(outbox: Outbox, row: OutboxRow) -> Wanted:
    """A create as `matching` needs it."""
    blocks = given_blocks(outbox, row)
    return Wanted(edit=row.id, sent=forms_sent(row), baseline=outbox.baselines.of(row), blocks=blocks)


def note_twins(outbox: Outbox, rows: Iterable[OutboxRow], places: Mapping[int, Geolocation], forms: Forms) -> None:
    """Note what these creates may have made in addition to their own, by a complete list.

    One that was sent again is looked for in any form that the service may have stored.
    """
    rows = list(rows)
    if not rows:
        return
    candidates, known = Candidates(list(places.values()), outbox.created_here()), outbox.twins.known()
    for row in rows:
        one = wanted(outbox, row)
        again = bool((row.journal or {}).get("resent") or (row.journal or {}).get("sent"))
        # A service that stores everything as it comes has made nothing that is merely like it.
        fits = like if again and not forms.exact else forms.same
        for place in candidates.of(one):
            if place.locid not in known and any(fits(sent, place.fields()) for sent in one.sent):
                outbox.twins.note(place.locid, row.id)
                known[place.locid] = row.id


def matched(outbox: Outbox, rows: list[OutboxRow], service: Mapping[int, Geolocation]) -> dict[int, Match]:
    """Match these creates; by edit. The list must be conclusive for each.

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
    """The reason to hold a create that was never sent, as `Elsewhere.holds`."""
    return Elsewhere(outbox, service).holds(row)


class Elsewhere:
    """The new geolocations of a complete list that another copy of these edits may have made."""

    def __init__(self, outbox: Outbox, service: Mapping[int, Geolocation]) -> None:
        self._outbox = outbox
        self._service = service
        self._ours = outbox.created_here()
        self._forms = Forms(outbox.sent.stored_forms())
        #: What is new since each baseline, which thousands of creates share: mostly nothing.
        self._new: dict[int | None, Candidates] = {}

    def holds(self, row: OutboxRow) -> Match | None:
        """The reason to hold a create: something new is the same; None if nothing is."""
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
    """The record that a journal keeps of the geolocations that a person is shown."""
    return {"candidates": {str(place.locid): digest(place) for place in places}}
