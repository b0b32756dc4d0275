"""One edit on its way: what is looked at before its request, the request itself, and what its answer means."""

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from geolookup.model.errors import UpstreamAnswerError, UpstreamRefusedError
from geolookup.model.types import Geolocation, is_provisional
from geolookup.state.edits.outbox.operations import AddBlock, Create, Delete, Overwriting, RemoveBlock, ReplaceBlock
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.row import OutboxRow, State
from geolookup.state.generations.cache import digest
from geolookup.sync.push import reconcile
from geolookup.sync.push.attempts import Attempts, RequestOutcome
from geolookup.state.edits.places.likeness import Forms
from geolookup.sync.push.look import Look, given_away, own_of
from geolookup.sync.push.matching import Match, made_elsewhere, shown
from geolookup.sync.push.reconcile import Decision, OnConflict

APPLIED = Decision(what="done", reason="the service has it")


def anothers(locid: int) -> UpstreamAnswerError:
    """The decision on a create whose answer names a geolocation that it cannot have made."""
    return UpstreamAnswerError(
        f"create: the service answered with locid {locid}, which is another geolocation's: the outcome is unknown"
    )


class Sender:
    """Sends the edits of one push, each by itself."""

    def __init__(self, attempts: Attempts, *, on_conflict: OnConflict) -> None:
        self._attempts = attempts
        self._on_conflict: OnConflict = on_conflict
        #: The numbers that were looked at before this push wrote to them, or that it was given.
        self._looked_at: set[int] = set()
        self._digests: tuple[Mapping[int, Geolocation], dict[int, str]] | None = None

    def look_before_first_write(self, row: OutboxRow) -> Decision | None:
        """The reason to write nothing to a number, which something else has by now; None if there is none."""
        number = self._attempts.service_locid(row)
        if isinstance(row.edit, Create) or row.base is None or number in self._looked_at or is_provisional(number):
            return None
        place = self._attempts.view.listed(number)
        if place is None and row.attempts == 0:
            place = self._attempts.find(number, self._attempts.guesses(row))
        self._looked_at.add(number)
        return None if place is None else given_away(row.base, number, place)

    def looked_at(self, number: int) -> None:
        """Note a number that was looked at right before it was written to, or that a create of this push was given."""
        self._looked_at.add(number)

    def look(self, outbox: Outbox, row: OutboxRow, number: int, forms: Forms) -> Look | Decision | None:
        """The look right before an edit that goes out with others; None if none is needed.

        A decision that holds it if what is known already speaks against it.
        """
        first = not isinstance(row.edit, Create) and row.base is not None and number not in self._looked_at
        if first and row.base is not None and (place := self._attempts.view.listed(number)) is not None:
            against = given_away(row.base, number, place)
            if against is not None:
                return against
            first = False
        if not first and not isinstance(row.edit, Overwriting):
            return None
        return Look(
            row=row,
            number=number,
            first=first,
            recent=outbox.sent.recent(row.locid),
            own=own_of(outbox, row, forms),
            on_conflict=self._on_conflict,
            settle_s=self._attempts.settings.settle_s,
        )

    def send(self, row: OutboxRow) -> OutboxRow:
        """Send an edit that waits for nothing, unless the service has changed what it overwrites."""
        if isinstance(row.edit, Overwriting):
            decision = reconcile.before_sending(
                row, self._attempts.theirs(row), on_conflict=self._on_conflict, own=self._attempts.own(row)
            )
            if decision.what != "send":
                return self._attempts.decide(row, decision)
            if decision.theirs is not None:
                with self._attempts.outbox() as outbox:
                    row = outbox.made_against(row, decision.theirs)
        return self.attempt(row)

    def baseline(self) -> dict[int, str]:
        """The list of the service when this push read it; what our own later creates add is known to be ours."""
        service = self._attempts.complete()
        if self._digests is None or self._digests[0] is not service:
            self._digests = service, {locid: digest(place) for locid, place in service.items()}
        return self._digests[1]

    def made_elsewhere(self, row: OutboxRow, service: Mapping[int, Geolocation]) -> Match | None:
        """The reason to hold a create that was never sent, as `made_elsewhere`."""
        with self._attempts.outbox() as outbox:
            return made_elsewhere(outbox, row, service)

    def attempt(self, row: OutboxRow) -> OutboxRow:
        """Send an edit's one request; again only if it surely was not applied, and not without end."""
        for _ in range(self._attempts.settings.attempts):
            baseline = None
            if isinstance(row.edit, Create) and row.state == State.QUEUED:
                baseline = self.baseline()
                match = self.made_elsewhere(row, self._attempts.complete())
                if match is not None:
                    return self.settled(row, match)
            after = self.after_outcome(
                row, *self._attempts.attempt(row, self._request_of(row, baseline), baseline=baseline)
            )
            if after is not None:
                return after
            row = self._attempts.fresh(row)
        self._attempts.log(row, f"{row.problem}: left for the next push")
        return row

    def after_outcome(self, row: OutboxRow, outcome: RequestOutcome, answer: Any) -> OutboxRow | None:
        """Commit the outcome of an edit's request; None if it may be sent again."""
        row = self._attempts.fresh(row)
        if outcome == RequestOutcome.APPLIED:
            return self._attempts.decide(row, APPLIED, adopted=answer if isinstance(row.edit, Create) else None)
        if outcome == RequestOutcome.REFUSED:
            return self._refused(row, answer)
        return None if outcome == RequestOutcome.AGAIN else row

    def _request_of(self, row: OutboxRow, baseline: Mapping[int, str] | None) -> Callable[[], Any]:
        """The request of an edit: for a create, it returns the locid that the service assigned."""
        edit = row.edit
        assert not isinstance(edit, RemoveBlock), "`remove_block` sends its requests"
        if isinstance(edit, Create):
            return partial(self._create, row, edit, baseline)
        return partial(edit.send, self._attempts.client, self._attempts.service_locid(row), row.key)

    def _create(self, row: OutboxRow, edit: Create, baseline: Mapping[int, str] | None) -> int:
        assigned = self._attempts.client.create(edit.fields, idempotency_key=row.key)
        with self._attempts.outbox() as outbox:
            known = outbox.baselines.of(row) if baseline is None else baseline
            wrong = assigned in known or assigned in outbox.created_here()
            if wrong and row.attempts:
                # Asked again with this key, a service that knows keys would say the same each time.
                outbox.change(row.id, journal={**(outbox.row(row.id).journal or {}), "misnamed": row.key})
        if wrong:
            raise anothers(assigned)
        self._looked_at.add(assigned)
        return assigned

    def _refused(self, row: OutboxRow, error: UpstreamRefusedError) -> OutboxRow:
        """A definite refusal: not applied. Some mean that there is nothing to do, or that somebody was faster."""
        if error.status == 404 and self._attempts.written_lately(row):
            # A replica that does not have our last write yet.
            return self._attempts.left_unknown(row, error)
        decision = None
        match row.edit, error.status:
            case Create(), 409:
                # Nothing of a create can be in the way of another: it may be what this very request made.
                return self._attempts.left_unknown(row, error)
            case Delete(), 404:
                decision = Decision(what="done", reason="it is gone already")
            case AddBlock(), 409 if error.problem_type == "block-exists":
                decision = Decision(what="done", reason="the geolocation has the block already")
            case AddBlock(block=block), 409 if error.problem_type != "block-taken":
                theirs = self._attempts.theirs(row)
                if theirs is not None and block in theirs.ipblocks:
                    decision = Decision(what="done", reason="the geolocation has the block already")
            case ReplaceBlock() as edit, 404 | 409:
                theirs = self._attempts.theirs(row)
                if theirs is not None:
                    decision = reconcile.after_replace(edit, theirs)
            case _:
                pass  # a refusal of any other kind is for good
        if decision is not None and decision.what == "done":
            return self._attempts.decide(row, decision)
        return self._attempts.reject(row, error)

    def settled(self, row: OutboxRow, match: Match) -> OutboxRow:
        if match.what == "adopt":
            decision = Decision(what="done", reason=match.reason)
            return self._attempts.decide(row, decision, adopted=match.found[0].locid)
        journal = {**(row.journal or {}), **shown(match.found)}
        return self._attempts.decide(row, Decision(what="hold", reason=match.reason), journal=journal)

    def hold_misnamed(self, row: OutboxRow) -> OutboxRow:
        """Hold a create to which the service names what another of ours became, time and again."""
        reason = (
            "the service says that it made what another edit here became, and has nothing else that is equal: "
            "`geolookup outbox retry` sends it as a new request, `drop` gives it up"
        )
        return self._attempts.decide(row, Decision(what="hold", reason=reason), key=str(uuid.uuid4()))
