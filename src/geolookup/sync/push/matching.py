"""Match creates whose outcomes are unknown with a complete list: all together, so that none takes another's.

First the rule alone, on plain values (`match_creates`); then the same for rows of the outbox (`matched`), the twins
that creates made (`note_twins`), and creates that another copy of these edits may have made (`CreatedByCopy`).
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from geolookup.model.types import Geolocation, IPBlock, field_values
from geolookup.state.edits.outbox.operations import Create
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.row import OutboxRow
from geolookup.state.generations.cache import digest
from geolookup.state.edits.places.likeness import Fields, Forms, like

#: A baseline: what the service had before, by number, each with the `digest` of its content.
Baseline = Mapping[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A create that may have arrived: its ``edit``, the forms in which it was sent, and what else is known.

    ``blocks`` are those that our edits give to it; ``baseline`` what the service had before it was sent.
    """

    edit: int
    sent: tuple[Fields, ...]
    baseline: Baseline
    blocks: frozenset[IPBlock] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The match of a create: ``adopt`` the one of ``found``, ``send`` it, or ``hold`` it, with those to choose from."""

    what: Literal["adopt", "send", "hold"]
    reason: str
    found: tuple[Geolocation, ...] = ()


class Nearby:
    """Geolocations by where they are, so that those near a place are found without a look at all of them."""

    def __init__(self, places: Iterable[Geolocation]) -> None:
        self._cells: dict[tuple[int, int], list[Geolocation]] = {}
        self._nowhere: list[Geolocation] = []
        for place in places:
            cell = _cell(place.fields())
            (self._nowhere if cell is None else self._cells.setdefault(cell, [])).append(place)

    def of(self, fields: Fields) -> Iterator[Geolocation]:
        """Every geolocation that may be like these fields, and some others."""
        cell = _cell(fields)
        if cell is None:
            for places in self._cells.values():
                yield from places
        else:
            for row in range(cell[0] - 1, cell[0] + 2):
                for column in range(cell[1] - 1, cell[1] + 2):
                    yield from self._cells.get((row, column), ())
        yield from self._nowhere


def _cell(fields: Fields) -> tuple[int, int] | None:
    """A square of one degree; None for what has no coordinates. Rounding moves nothing by more than one square."""
    if fields["latitude"] is None or fields["longitude"] is None:
        return None
    return math.floor(fields["latitude"]), math.floor(fields["longitude"])


@dataclass(slots=True)
class Candidates:
    """The geolocations of a complete list that a create may have made; ``ours`` are known to be others of ours."""

    service: Iterable[Geolocation]
    ours: Collection[int]
    _nearby: Nearby = field(init=False)

    def __post_init__(self) -> None:
        self._nearby = Nearby(place for place in self.service if place.locid < 0 and place.locid not in self.ours)

    def of(self, wanted: Wanted) -> list[Geolocation]:
        """New since the baseline (its number or its content), and without blocks but those that our edits give it."""
        return [place for place in self._new(wanted) if set(place.ipblocks) <= wanted.blocks]

    def with_other_blocks(self, wanted: Wanted) -> list[Geolocation]:
        """Those that are new as well, and have blocks that others gave them."""
        return [place for place in self._new(wanted) if not set(place.ipblocks) <= wanted.blocks]

    def _new(self, wanted: Wanted) -> list[Geolocation]:
        found: dict[int, Geolocation] = {}
        for sent in wanted.sent:
            for place in self._nearby.of(sent):
                if place.locid not in found and is_new(place, wanted.baseline):
                    found[place.locid] = place
        return sorted(found.values(), key=lambda place: -place.locid)


def is_new(place: Geolocation, baseline: Baseline) -> bool:
    """True if a baseline does not have a geolocation, or not as it is now."""
    before = baseline.get(place.locid)
    return before is None or before not in ("", digest(place))


def match_creates(creates: Iterable[Wanted], candidates: Candidates, forms: Forms) -> dict[int, Match]:
    """Match creates whose outcomes are unknown; by edit.

    First all that are equal, then all that are the same, then the rest. One is adopted; several only if they are stored
    identically and are no more than the creates that may have made them. If only one that is like it is there, it is
    held, unless every write that this service acknowledged was seen to be stored exactly.
    """
    left = list(creates)
    choices = {wanted.edit: candidates.of(wanted) for wanted in left}
    found: dict[int, Match] = {}
    taken: set[int] = set()
    for words, fits in (("equal in all fields", _equal), ("the same, as this service stores it", forms.same)):
        groups: dict[tuple[int, ...], list[Wanted]] = {}
        for wanted in left:
            fitting = [
                place for place in choices[wanted.edit] if any(fits(sent, place.fields()) for sent in wanted.sent)
            ]
            if fitting:
                groups.setdefault(tuple(place.locid for place in fitting), []).append(wanted)
        for group in groups.values():
            _settle(group, choices, taken, found, fits, words)
        left = [wanted for wanted in left if wanted.edit not in found]
    for wanted in left:
        near = [
            place
            for place in choices[wanted.edit]
            if place.locid not in taken and any(like(sent, place.fields()) for sent in wanted.sent)
        ]
        if near and not forms.exact:
            reason = (
                f"the service has something new that is like it: {_numbers(near)}: adopt it, or retry to send again"
            )
            found[wanted.edit] = Match(what="hold", reason=reason, found=tuple(near))
        elif others := [
            place
            for place in candidates.with_other_blocks(wanted)
            if any(forms.same(sent, place.fields()) for sent in wanted.sent)
        ]:
            reason = (
                f"the service has something new that is the same, and somebody gave it blocks: {_numbers(others)}: "
                "adopt it, or retry to send again"
            )
            found[wanted.edit] = Match(what="hold", reason=reason, found=tuple(others))
        else:
            reason = "the service has nothing new that is equal: it never arrived"
            found[wanted.edit] = Match(what="send", reason=reason)
    return found


def _settle(
    group: list[Wanted],
    choices: Mapping[int, list[Geolocation]],
    taken: set[int],
    found: dict[int, Match],
    fits: Any,
    words: str,
) -> None:
    """Deal with creates that the same geolocations fit; those that nothing is left for stay for the next round."""
    first = group[0]
    fitting = [
        place
        for place in choices[first.edit]
        if place.locid not in taken and any(fits(sent, place.fields()) for sent in first.sent)
    ]
    identical = len({(field_values(place), place.ipblocks) for place in fitting}) <= 1
    if len(fitting) > 1 and not (identical and len(fitting) <= len(group)):
        for wanted in group:
            reason = f"several new geolocations are {words}: {_numbers(fitting)}: adopt one"
            found[wanted.edit] = Match(what="hold", reason=reason, found=tuple(fitting))
        return
    for wanted, place in zip(group, fitting, strict=False):
        taken.add(place.locid)
        reason = f"the one new geolocation {words} is {place.locid}"
        found[wanted.edit] = Match(what="adopt", reason=reason, found=(place,))


def _equal(sent: Fields, found: Fields) -> bool:
    return dict(sent) == dict(found)


def _numbers(places: Iterable[Geolocation]) -> str:
    return ", ".join(str(place.locid) for place in places)


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
    """The reason to hold a create that was never sent, as `CreatedByCopy.holds`."""
    return CreatedByCopy(outbox, service).holds(row)


class CreatedByCopy:
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
