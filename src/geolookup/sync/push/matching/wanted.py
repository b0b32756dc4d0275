"""Creates as `matching` needs them, and the twins that they made."""

from collections.abc import Iterable, Mapping

from geolookup.model.types import Geolocation, IPBlock
from geolookup.state.edits.outbox.operations import Create
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.row import OutboxRow
from geolookup.sync.push.matching.likeness import Fields, Forms, like
from geolookup.sync.push.matching.matching import Candidates, Wanted


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
