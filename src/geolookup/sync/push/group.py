"""Sending a lot of edits, in groups: one durable mark before the requests of a group, and one for its answers.

Each is `State.SENDING` before its request leaves, as if it went alone, and a crash leaves each so, to be reconciled by
itself. Only how often the disk is waited for is shared.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from geolookup.errors import UpstreamError
from geolookup.state import clock
from geolookup.state.edits.outbox.operations import Create, RemoveBlock
from geolookup.state.edits.outbox.row import OutboxRow, State
from geolookup.state.edits.session import is_provisional
from geolookup.sync.push import lots
from geolookup.sync.push.attempts import Attempts
from geolookup.sync.push.reconcile import waits_for
from geolookup.sync.push.sending import APPLIED, Sender, anothers

#: As long as its requests may take: what is answered is not durable before the end, and a crash would forget it.
_MOST_S = 0.25
_MOST_EDITS = 64
_FIRST_EDITS = 8


class _Unanswered(Enum):
    NOT_SENT = "not sent"
    SENT = "sent"


@dataclass(slots=True)
class Member:
    """One edit of a group with its request; ``baseline`` is what the service had before a create, else None.

    ``answer`` is what the service answered, or the error that took its place.
    """

    row: OutboxRow
    request: Callable[[], Any]
    baseline: Mapping[int, str] | None = None
    answer: Any = _Unanswered.NOT_SENT

    @property
    def is_done(self) -> bool:
        """Whether the service said yes."""
        return not isinstance(self.answer, _Unanswered | UpstreamError)


class Groups:
    """Sends the lots of one push, in groups that grow as long as the service answers soon."""

    def __init__(self, attempts: Attempts, sender: Sender) -> None:
        self._attempts = attempts
        self._sender = sender
        self._most = _FIRST_EDITS
        #: The edits that went out with an earlier one, and are done.
        self.done: set[int] = set()

    def send(self, row: OutboxRow, later: Sequence[OutboxRow], blocked: set[int]) -> OutboxRow | None:
        """Send an edit that waits for nothing, and the ``later`` ones that go with it: what became of it.

        None if it must go alone. Each of the others is done, or has its turn later, unless its geolocation joined
        ``blocked``, of which nothing more goes out in this push.
        """
        others = self._to_go_with(row, later, blocked)
        if not others:
            return None
        if isinstance(row.edit, Create):
            match = self._sender.made_elsewhere(row, self._attempts.complete())
            if match is not None:
                return self._sender.settled(row, match)
        members = [self._member(each) for each in (row, *others)]
        rest, failed = members, None
        while rest and failed is None:
            left, failed = self._send(rest[: self._most])
            rest = [*left, *rest[self._most :]]
        for member in members:
            if member.is_done:
                self.done.add(member.row.id)
                if isinstance(member.row.edit, Create):
                    self._sender.given(member.answer)
        if failed is not None:
            outcome, answer = self._attempts.outcome(failed.row, failed.answer)
            after = self._sender.after_outcome(failed.row, outcome, answer)
            if after is None and failed is members[0]:
                return self._sender.attempt(self._attempts.fresh(row))
            if after is not None and after.state not in (State.DONE, State.DROPPED):
                blocked.add(after.locid)
        return self._attempts.fresh(row)

    def _to_go_with(self, row: OutboxRow, later: Sequence[OutboxRow], blocked: set[int]) -> list[OutboxRow]:
        """The later edits that go out with this one; the service may be read for them, as for each that goes alone."""
        with self._attempts.outbox() as outbox:

            def fresh(known: OutboxRow) -> OutboxRow | None:
                if known.id in self.done:
                    return None
                now = outbox.row(known.id)
                return None if now.state in (State.DONE, State.DROPPED) else now

            def is_free(other: OutboxRow, under_way: list[OutboxRow]) -> bool:
                if not isinstance(other.edit, Create) and is_provisional(outbox.service_locid(other.locid)):
                    return False
                return waits_for(other, [*under_way, *outbox.rows_in_the_way(other.locid)]) is None

            others = lots.to_go_with(row, later, blocked=blocked, fresh=fresh, is_free=is_free)
        return [other for other in others if not self._sender.speaks_against(other)]

    def _member(self, row: OutboxRow) -> Member:
        assert not isinstance(row.edit, RemoveBlock), "it takes more than one request"
        baseline = self._sender.baseline() if isinstance(row.edit, Create) else None
        request = partial(row.edit.send, self._attempts.client, self._attempts.service_locid(row), row.key)
        return Member(row, request, baseline)

    def _send(self, members: list[Member]) -> tuple[list[Member], Member | None]:
        """Send a group in its order, until its time is over or one is not answered by a yes.

        What was answered by a yes is done and logged. What was not sent is queued as before, and returned, with the one
        that was not answered by a yes: that is `State.SENDING`, and the caller commits what its answer says. Edits that
        a person changed meanwhile are left out.
        """
        with self._attempts.outbox() as outbox:
            begun = [member for member in members if outbox.begin_attempt(member.row, baseline=member.baseline)]
            taken = set(outbox.created_here()) if any(member.baseline is not None for member in begun) else set()
        until = clock.steady_s() + _MOST_S
        sent, failed, in_time = 0, None, True
        try:
            for member in begun:
                sent += 1
                member.answer = _Unanswered.SENT
                member.answer = self._attempts.ask(partial(_believed, member, taken))
                failed = member if isinstance(member.answer, UpstreamError) else None
                in_time = clock.steady_s() <= until
                if failed is not None or not in_time:
                    break
        finally:
            self._record(begun)
        if sent:
            self._most = min(_MOST_EDITS, max(self._most, 2 * sent)) if in_time and failed is None else sent
        return begun[sent:], failed

    def _record(self, begun: list[Member]) -> None:
        """Commit every yes, and that the rest did not leave."""
        ended = []
        with self._attempts.outbox() as outbox:
            for member in begun:
                if member.answer is _Unanswered.NOT_SENT:
                    outbox.withdraw(member.row)
                elif member.is_done:
                    row = outbox.row(member.row.id)
                    adopted = member.answer if isinstance(row.edit, Create) else None
                    ended.append(self._attempts.end_in(outbox, row, State.DONE, APPLIED.reason, adopted=adopted))
        for row in ended:
            self._attempts.log(row, APPLIED.reason)


def _believed(member: Member, taken: set[int]) -> Any:
    """The answer to one request; ``taken`` are the numbers that belong to others of ours, and gets that of a create."""
    answer = member.request()
    if member.baseline is not None:
        if answer in taken or answer in member.baseline:
            raise anothers(answer)
        taken.add(answer)
    return answer
