"""Removing one block, if the service can only delete all: journaled, and never by a list older than its answers."""

from functools import partial

from geolookup.base.text import count
from geolookup.model.errors import UpstreamRefusedError
from geolookup.state.edits.outbox.payload import ends_of
from geolookup.state.edits.outbox.row import OutboxRow, State
from geolookup.sync.push import reconcile
from geolookup.sync.push.attempts import Attempts, RequestOutcome
from geolookup.sync.push.reconcile import Decision, Removal

#: Steps that a removal may take, beyond three for each block: a service that says one thing and lists another ends it.
_MOST_STEPS = 10


def remove_block(attempts: Attempts, row: OutboxRow) -> OutboxRow:
    """Bring a queued removal as far as it goes now: the edit as it is then, or the replace that it was merged into.

    :raises LeaveError: if the service cannot be used
    """
    steps = 0
    while True:
        theirs = reconcile.as_cleared(row, attempts.service_locid(row)) or attempts.theirs(row)
        merge = reconcile.addition_to_merge(row, theirs, attempts.pending())
        if merge is not None:
            with attempts.outbox() as outbox:
                outbox.merge_into_replace(row, *merge)
            return attempts.fresh(row)
        step = reconcile.next_removal_step(row, theirs)
        if step.what == "done":
            return attempts.decide(row, Decision(what="done", reason=step.reason))
        if step.what == "hold":
            return attempts.decide(row, Decision(what="hold", reason=step.reason), journal=step.journal)
        steps += 1
        if steps > _MOST_STEPS + 3 * len(step.journal["before"]):
            attempts.log(row, "the service's list does not agree with its answers: left for the next push")
            return row
        row = _take(attempts, row, step)
        if row.state != State.QUEUED:
            return row


def _take(attempts: Attempts, row: OutboxRow, step: Removal) -> OutboxRow:
    """Send the one request of a step: the edit is queued afterwards to go on, or whatever else became of it."""
    locid = attempts.service_locid(row)
    if step.block is None:
        request = partial(attempts.client.delete_blocks, locid)
        outcome, answer = attempts.attempt(row, request, journal=step.journal)
    else:
        first, last = ends_of(step.block)
        # Each block that comes back is a request of its own, hence a key of its own.
        key = f"{row.key}-{first}-{last}-{row.attempts}"
        restore = partial(attempts.client.create_block, locid, first, last, idempotency_key=key)
        outcome, answer = attempts.attempt(row, restore, journal=step.journal)
    row = attempts.fresh(row)
    if outcome == RequestOutcome.APPLIED:
        if step.block is None:
            _, deleted = answer
            if deleted > len(step.journal["before"]):
                listed = len(step.journal["before"])
                attempts.notice(
                    row,
                    f"the service deleted {count(deleted, 'block')} of geolocation {locid}, and its list had {listed}: "
                    "look whether a block of somebody else's is missing there now",
                    step.journal,
                )
        return _went_on(attempts, row, step)
    if outcome == RequestOutcome.REFUSED:
        return _refused(attempts, row, step, answer)
    return row


def _refused(attempts: Attempts, row: OutboxRow, step: Removal, error: UpstreamRefusedError) -> OutboxRow:
    if error.status == 404 and attempts.written_lately(row):
        return attempts.left_unknown(row, error)  # a replica that does not have our last write yet
    if step.block is None or error.status == 404:
        return attempts.reject(row, error)
    if error.problem_type == "block-exists":
        return _went_on(attempts, row, step)
    journal = dict(row.journal or {})
    # The others must come back all the same, before a person is asked about this one.
    journal["refused"] = [*journal.get("refused", []), ends_of(step.block)]
    return attempts.decide(row, Decision(what="queue", reason=str(error)), journal=journal)


def _went_on(attempts: Attempts, row: OutboxRow, step: Removal) -> OutboxRow:
    """The service acknowledged a step: from now on its answers say what it has, and no list that may be older."""
    journal = dict(row.journal or {})
    if step.block is None:
        journal["restored"] = []
    elif "restored" in journal:
        journal["restored"] = [*journal["restored"], ends_of(step.block)]
    return attempts.decide(row, Decision(what="queue", reason=step.reason), journal=journal)
