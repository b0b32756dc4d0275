"""Since when an address has had its answer: which of the kept generations brought it, or which edit."""

from typing import TYPE_CHECKING

from geolookup.errors import GeoLookupError, StateError
from geolookup.lookup.snapshot import OpenLayer, match_in
from geolookup.model.reports import AnswerSince
from geolookup.model.types import IPBlock, Match
from geolookup.state.base.clock import age_s
from geolookup.state.base.sqlite import GLANCE_WAIT_S
from geolookup.state.edits.outbox.row import OutboxRow
from geolookup.state.generations.recovery import GONE, open_kept
from geolookup.state.generations.served import served_current
from geolookup.state.publishing.directory import StateDirectory

if TYPE_CHECKING:
    from geolookup.model.addresses import Family

#: The number of the first generation of a state directory: before it, nothing was answered there.
_FIRST = 1


def answer_since(
    directory: StateDirectory, generation: int, match: Match | None, family: "Family", value: int
) -> AnswerSince | None:
    """Since when an address has had the answer ``match`` of a generation; None if that was not recorded.

    It goes back through what was served as long as the answer is the same, field by field and from the same layer. A
    generation is known as it was served last, with the edits made while it was: if one is behind the answer, that
    brought it.
    """
    try:
        current = served_current(directory.home)
    except StateError:
        return None
    steps = () if current is None else current.served
    last = max((at for at, (number, _) in enumerate(steps) if number == generation), default=None)
    if last is None:
        return None
    answers: dict[int, Match | None] = {generation: match}
    first, before, is_known = last, None, False
    for at in range(last - 1, -1, -1):
        number = steps[at][0]
        if number not in answers:
            if number == GONE:
                break
            try:
                answers[number] = _answer(directory.home, number, match, family, value)
            except GeoLookupError:  # it is gone by now, or damaged: what it answered is not known
                break
        if not _same(answers[number], match):
            before, is_known = number, True
            break
        first = at
    brought, moment = steps[first]
    until = steps[last + 1][1] if last + 1 < len(steps) else None
    edit = _edit_behind(directory, match, family, value, moment, until)
    if edit is not None:
        return AnswerSince(generation=None, at=edit.created_at, age_s=age_s(edit.created_at), edit=edit.describe())
    return AnswerSince(
        generation=brought,
        at=moment,
        age_s=age_s(moment),
        is_exact=is_known or (first == 0 and brought == _FIRST),
        generation_before=before,
        before=None if before is None else answers[before],
    )


def _answer(home: str, generation: int, match: Match | None, family: "Family", value: int) -> Match | None:
    """What a kept generation answered, as it was served last."""
    published = open_kept(home, generation)
    try:
        layers = (OpenLayer(published.base), OpenLayer(published.overlay))
        return match_in(*layers, "" if match is None else match.address, family, value)
    finally:
        published.close()


def _same(one: Match | None, other: Match | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.geolocation, one.layer) == (other.geolocation, other.layer)


def _edit_behind(
    directory: StateDirectory, match: Match | None, family: "Family", value: int, after: str, until: str | None
) -> OutboxRow | None:
    """The newest edit of this machine, made between two moments, that can have brought an answer."""
    if match is None or match.layer != "custom":
        return None
    try:
        edits = directory.local.edits_of(match.geolocation.locid, wait_s=GLANCE_WAIT_S)
    except StateError:
        return None  # damaged, or locked: the explanation says so
    made = [row for row in edits if row.created_at > after and (until is None or row.created_at < until)]
    return max(
        (row for row in made if _concerns(row, family, value)), key=lambda row: (row.created_at, row.id), default=None
    )


def _concerns(row: OutboxRow, family: "Family", value: int) -> bool:
    """Whether an edit can have changed the answer of an address: if it names blocks, one of them must hold it."""
    named = [IPBlock.parse(*row.payload[name]) for name in ("block", "new_block") if name in row.payload]
    return not named or any(block.family == family and block.first <= value <= block.last for block in named)
