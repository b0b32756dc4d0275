"""Sending a lot of edits, in groups: one durable mark before the requests of a group, and one for its answers.

Each is `State.SENDING` before its request leaves, as if it went alone, and a crash leaves each so, to be reconciled by
itself. Only how often the disk is waited for is shared. The requests of a group are under way at the same time, on
several connections: of a lot, it does not matter which comes first.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from geolookup.model.errors import UpstreamError, UpstreamRefusedError
from geolookup.model.types import is_provisional
from geolookup.state.base import clock
from geolookup.state.edits.outbox.operations import Create, RemoveBlock
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.row import OutboxRow, State
from geolookup.sync.push import lots
from geolookup.sync.push.attempts import STATES, Attempts
from geolookup.sync.push.connections import Batch, Connections
from geolookup.state.edits.places.likeness import Forms
from geolookup.sync.push.look import Look, learn
from geolookup.sync.push.lots import Obstacles
from geolookup.sync.push.matching import CreatedByCopy
from geolookup.sync.push.reconcile import Decision
from geolookup.sync.push.sending import APPLIED, Sender, anothers
from geolookup.upstream.geolocations import GeolocationsClient

#: As long as its requests may take: what is answered is not durable before the end, and a crash would forget it.
_MOST_S = 0.25
_MOST_EDITS = 64
_FIRST_EDITS = 8
#: An answer that comes this soon is never slow, however many are asked for at the same time.
_SOON_S = 0.1
#: Connections at the beginning of a push, and the edits that are worth one more.
_FIRST_CONNECTIONS = 1
_EDITS_EACH = 4
#: Edits that are read at once to see whether they go out with others.
_READ_AT_ONCE = 128


class _Unanswered(Enum):
    NOT_SENT = "not sent"
    #: What had to be looked at first could not be told: the edit goes alone, later.
    ALONE = "alone"
    SENT = "sent"


class NumbersTaken:
    """The numbers that belong to geolocations of ours, so that none that the service names is believed twice."""

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._numbers = set(numbers)
        self._given: dict[int, Member] = {}
        self._lock = threading.Lock()
        #: Whether several creates may be under way at the same time.
        self.together = False

    def believe(self, member: "Member", number: int, baseline: Mapping[int, str]) -> None:
        """Take the number that a create was answered with.

        Two creates that were under way together and were given one number are both of unknown outcome: nobody can tell
        which of them made it.
        """
        with self._lock:
            other = self._given.get(number)
            if other is not None:
                other.answer = anothers(number)
            if other is not None or number in self._numbers or number in baseline:
                raise anothers(number)
            if self.together:
                self._given[number] = member
            else:
                self._numbers.add(number)

    def begin(self, *, together: bool) -> None:
        """Begin a group: what was given until now is durable."""
        self._numbers |= set(self._given)
        self._given.clear()
        self.together = together


@dataclass(slots=True)
class Member:
    """One edit of a group, the ``number`` that it is for, and what must be looked at before its request.

    ``baseline`` is what the service had before a create, else None. ``answer`` is what the service answered, or the
    error that took its place, or the decision by which nothing was sent.
    """

    row: OutboxRow
    number: int
    taken: NumbersTaken
    look: Look | None = None
    baseline: Mapping[int, str] | None = None
    answer: Any = _Unanswered.NOT_SENT
    #: What the service had, if a person chose to overwrite that.
    overwrites: dict[str, Any] | None = None
    #: Whether a connection has taken it; what it was answered may come later.
    begun: bool = False
    took_s: float | None = None

    def ask(self, client: GeolocationsClient) -> None:
        """Look, if that must be, and send; on whatever thread this is."""
        if self.look is not None:
            decision = self.look.decision(client)
            if decision is None or decision.what != "send":
                self.answer = decision or _Unanswered.ALONE
                return
            self.overwrites = decision.theirs
        assert not isinstance(self.row.edit, RemoveBlock), "it takes more than one request"
        self.answer = _Unanswered.SENT
        began = clock.steady_s()
        try:
            answer = self.row.edit.send(client, self.number, self.row.key)
            if self.baseline is not None:
                assert isinstance(answer, int)
                self.taken.believe(self, answer, self.baseline)
            self.answer = answer
        except UpstreamError as error:
            self.answer = error
        self.took_s = clock.steady_s() - began

    @property
    def ends_batch(self) -> bool:
        """True if nothing more shall leave before the answer to this was looked at."""
        return isinstance(self.answer, UpstreamError) or (self.look is not None and self.look.failed)

    @property
    def is_done(self) -> bool:
        """True if the service said yes."""
        return not isinstance(self.answer, _Unanswered | UpstreamError | Decision)


class Groups:
    """Sends the lots of one push, in groups and over connections that grow as long as the service answers soon."""

    def __init__(self, attempts: Attempts, sender: Sender) -> None:
        self._attempts = attempts
        self._sender = sender
        self._connections = Connections(attempts.client, attempts.settings.push_connections)
        self._most = _FIRST_EDITS
        self._at_most = min(_FIRST_CONNECTIONS, attempts.settings.push_connections)
        #: How long an answer takes if nothing else is asked for meanwhile.
        self._alone_s: float | None = None
        #: The edits that went out with an earlier one, and are over; and those that go alone, when it is their turn.
        self.done: set[int] = set()
        self._alone: set[int] = set()

    def close(self) -> None:
        """Let go of the connections."""
        self._connections.close()

    def send(self, row: OutboxRow, later: Sequence[OutboxRow], blocked: set[int]) -> OutboxRow | None:
        """Send an edit that waits for nothing, and the ``later`` ones that go with it; returns its outcome.

        None if it must go alone. Each of the others is done, or has its turn later, unless its geolocation joined
        ``blocked``, of which nothing more goes out in this push.
        """
        if isinstance(row.edit, Create):
            match = self._sender.made_elsewhere(row, self._attempts.complete())
            if match is not None:
                return self._sender.settled(row, match)
        members = self._lot(row, later, blocked)
        if len(members) < 2 or members[0].row.id != row.id:
            return None
        with self._attempts.logged_in_order([member.row.id for member in members]):
            rest, failed = members, list[Member]()
            while rest and not failed:
                rest, failed = self._send(rest)
            self._attempts.sent(0, heard=any(member.is_done for member in members))
            again = self._deal_with(failed, blocked)
        if members[0].row.id in again:
            return self._sender.attempt(self._attempts.fresh(row))
        if members[0].answer is _Unanswered.ALONE:
            return None
        return self._attempts.fresh(row)

    # Which go together

    def _lot(self, row: OutboxRow, later: Sequence[OutboxRow], blocked: set[int]) -> list[Member]:
        """The edit and the later ones that go out with it; a complete list is read for creates, as for one alone."""
        with self._attempts.outbox() as outbox:
            rows = self._to_go_with(outbox, row, later, blocked)
        if not rows:
            return []
        creates = any(isinstance(each.edit, Create) for each in (row, *rows))
        service = self._attempts.complete() if creates else {}
        baseline = self._sender.baseline() if creates else {}
        with self._attempts.outbox() as outbox:
            forms = Forms(outbox.sent.stored_forms())
            elsewhere = CreatedByCopy(outbox, service)
            taken = NumbersTaken(outbox.created_here())
            members = []
            for each in (row, *rows):
                number = outbox.service_locid(each.locid)
                if isinstance(each.edit, Create):
                    if elsewhere.holds(each) is None:
                        members.append(Member(each, number, taken, baseline=baseline))
                    continue
                look = self._sender.look(outbox, each, number, forms)
                if not isinstance(look, Decision):  # else it is dealt with when it is its turn
                    members.append(Member(each, number, taken, look))
        return members

    def _to_go_with(
        self, outbox: Outbox, row: OutboxRow, later: Sequence[OutboxRow], blocked: set[int]
    ) -> list[OutboxRow]:
        obstacles = Obstacles(outbox.rows_in_the_way())
        numbers = [known.id for known in later if known.id not in self.done]
        read: dict[int, OutboxRow] = {}

        def fresh(known: OutboxRow) -> OutboxRow | None:
            while numbers and numbers[0] <= known.id:
                read.update(outbox.pending_among(numbers[:_READ_AT_ONCE]))
                del numbers[:_READ_AT_ONCE]
            return read.get(known.id)

        def is_free(other: OutboxRow) -> bool:
            if other.id in self._alone:
                return False
            if not isinstance(other.edit, Create) and is_provisional(outbox.service_locid(other.locid)):
                return False
            return obstacles.waited_for_by(other) is None

        return lots.to_go_with(row, later, blocked=blocked, fresh=fresh, is_free=is_free)

    # Sending them

    def _send(self, members: list[Member]) -> tuple[list[Member], list[Member]]:
        """Send the first ones, until their time is over or one is not answered by a yes.

        What was answered by a yes is done and logged, and so is what was decided by a look. What was not sent is queued
        as before, and returned, with those that were not answered by a yes: they are `State.SENDING`, and the caller
        commits what their answers say. Edits that a person changed meanwhile are left out.
        """
        at_most = max(1, min(self._at_most, len(members) // _EDITS_EACH))
        size = max(self._most, at_most)
        with self._attempts.outbox() as outbox:
            begun = [member for member in members[:size] if outbox.begin_attempt(member.row, baseline=member.baseline)]
        batch = Batch(begun, _MOST_S)
        members[0].taken.begin(together=at_most > 1)
        self._attempts.begins_to_send()
        try:
            self._connections.ask(batch, at_most)
        finally:
            self._record(begun)
        asked = [member for member in begun if member.begun]
        failed = [member for member in asked if isinstance(member.answer, UpstreamError)]
        self._adapt(asked, at_most, in_time=batch.in_time)
        left = [member for member in begun if not member.begun] + members[size:]
        return [] if any(member.ends_batch for member in asked) else left, failed

    def _adapt(self, asked: list[Member], at_most: int, *, in_time: bool) -> None:
        """More at once, as long as the service answers as soon as when it is asked for one thing at a time."""
        if not asked:
            return
        if any(member.ends_batch and not isinstance(member.answer, UpstreamRefusedError) for member in asked):
            self._most, self._at_most = len(asked), 1
            return
        sent_s = [member.took_s for member in asked if member.took_s is not None]
        usual_s = sum(sent_s) / len(sent_s) if sent_s else 0.0
        if self._at_most == 1 or self._alone_s is None:
            self._alone_s = usual_s
        if usual_s <= max(_SOON_S, 2 * self._alone_s):
            if len(asked) >= at_most:
                self._at_most = min(self._connections.most, 2 * self._at_most)
        else:
            self._at_most = max(1, self._at_most // 2)
        self._most = min(_MOST_EDITS, max(self._most, 2 * len(asked))) if in_time else len(asked)

    def _record(self, begun: list[Member]) -> None:
        """Commit every yes, and what looks decided, and that the rest did not leave."""
        ended = []
        with self._attempts.outbox() as outbox:
            for member in begun:
                if (look := member.look) is not None:
                    learn(outbox, look.row, look.recent, look.found, look.read, look.settle_s)
                if member.overwrites is not None:
                    outbox.made_against(outbox.row(member.row.id), member.overwrites)
                if isinstance(member.answer, Decision):
                    outbox.withdraw(member.row)
                    decision = member.answer
                    row = outbox.row(member.row.id)
                    ended.append(
                        self._attempts.end_in(
                            outbox, row, STATES[decision.what], decision.reason, theirs=decision.theirs
                        )
                    )
                elif member.is_done:
                    row = outbox.row(member.row.id)
                    adopted = member.answer if isinstance(row.edit, Create) else None
                    ended.append(self._attempts.end_in(outbox, row, State.DONE, APPLIED.reason, adopted=adopted))
                elif not member.begun or member.answer is _Unanswered.ALONE:
                    outbox.withdraw(member.row)
        for member in begun:
            self._note(member)
        reasons = {member.row.id: member.answer.reason for member in begun if isinstance(member.answer, Decision)}
        for row in ended:
            self._attempts.log(row, reasons.get(row.id, APPLIED.reason))

    def _note(self, member: Member) -> None:
        """Remember what a member that is recorded means for the rest of the push."""
        row, looked = member.row, member.look
        self._attempts.sent((looked.requests if looked else 0) + (member.took_s is not None))
        if looked is not None and looked.found is not None and not isinstance(member.answer, Decision):
            self._sender.looked_at(member.number)
        if member.answer is _Unanswered.ALONE:
            self._alone.add(row.id)
        if isinstance(member.answer, Decision) and STATES[member.answer.what] in (State.DONE, State.DROPPED):
            self.done.add(row.id)
        if member.is_done:
            self.done.add(row.id)
            if isinstance(row.edit, Create):
                self._sender.looked_at(member.answer)

    def _deal_with(self, failed: list[Member], blocked: set[int]) -> set[int]:
        """Record each answer that was not a success, before waiting for anything.

        :returns: the ids of the edits that may be sent again
        """
        again = set()
        outcomes = [(member, *self._attempts.noted(member.row, member.answer)) for member in failed]
        for member, outcome, answer in outcomes:
            after = self._sender.after_outcome(member.row, outcome, answer)
            if after is None:
                again.add(member.row.id)
            elif after.state not in (State.DONE, State.DROPPED):
                blocked.add(after.locid)
        self._attempts.wait_after([member.answer for member in failed])
        return again
