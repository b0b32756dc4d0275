"""One request of a push, and its outcome: durable before it leaves, and never taken for what it is not."""

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

from geolookup.http.errors import ASKS_TO_WAIT, NOT_CARRIED_OUT
from geolookup.model.errors import (
    UpstreamAnswerError,
    UpstreamAuthError,
    UpstreamError,
    UpstreamRefusedError,
    UpstreamUnavailableError,
)
from geolookup.model.types import Geolocation
from geolookup.settings.table import Settings
from geolookup.state.base import clock
from geolookup.state.base.clock import now_text
from geolookup.state.base.marks import Mark, Start
from geolookup.state.edits.outbox.operations import Delete
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.row import PENDING_STATES, OutboxRow, State
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.push.acknowledged import hold_against
from geolookup.state.edits.places.likeness import Forms
from geolookup.sync.push.look import guesses, learn, own_of, with_ours
from geolookup.sync.push.reconcile import Decision, Own
from geolookup.sync.push.report import PushReport
from geolookup.sync.push.view import ServiceView
from geolookup.upstream.geolocations import GeolocationsClient

_T = TypeVar("_T")

#: Requests without any answer, one after the other, after which the service counts as out of reach.
_MOST_SILENT = 3
_PAUSE_S = 0.5

#: The state in which each decision leaves an edit.
STATES = {
    "done": State.DONE,
    "queue": State.QUEUED,
    "hold": State.HELD,
    "drop": State.DROPPED,
}


class LeaveError(Exception):
    """The push cannot go on; what is left waits for the next. Never leaves this folder."""


class NumbersChangedError(Exception):
    """A list showed that a geolocation has another number, or none: the edit must be looked at anew."""


def _paused(error: UpstreamAuthError) -> str:
    return f"the push is paused, and every edit is kept: {error}"


class RequestOutcome(Enum):
    """The outcome of one request."""

    #: Applied, and answered so.
    APPLIED = "applied"
    #: Refused for good, hence not applied; the edit is still `State.SENDING`.
    REFUSED = "refused"
    #: Surely not applied, and waited for as the service asked: it may be sent again.
    AGAIN = "again"
    #: Nobody can tell; the edit is `State.UNKNOWN`.
    UNKNOWN = "unknown"
    #: Not sent, since a person changed the edit meanwhile.
    CHANGED = "changed"


class Attempts:
    """The context of a push: the outbox, the service, and the report."""

    def __init__(
        self, directory: StateDirectory, settings: Settings, client: GeolocationsClient, report: PushReport
    ) -> None:
        self.directory = directory
        self.settings = settings
        self.client = client
        self.report = report
        self.view = ServiceView(directory, settings, client)
        self._silent = 0
        self._accounted: Start | None = None

    @contextlib.contextmanager
    def outbox(self) -> Iterator[Outbox]:
        """The outbox, in a transaction of its own."""
        with self.directory.edits.transaction() as database:
            yield Outbox(database)

    def fresh(self, row: OutboxRow) -> OutboxRow:
        """An edit as it is now."""
        with self.outbox() as outbox:
            return outbox.row(row.id)

    def pending(self) -> list[OutboxRow]:
        """Every edit that is not over, oldest first."""
        with self.outbox() as outbox:
            return outbox.rows(*PENDING_STATES)

    def in_the_way(self) -> list[OutboxRow]:
        """The edits that those of other geolocations may have to wait for."""
        with self.outbox() as outbox:
            return outbox.rows_in_the_way()

    def service_locid(self, row: OutboxRow) -> int:
        """The number that the service knows the edit's geolocation by."""
        with self.outbox() as outbox:
            return outbox.service_locid(row.locid)

    def guesses(self, row: OutboxRow) -> list[dict[str, Any]]:
        """Fields that the edit's geolocation may have at the service."""
        return guesses(row)

    def complete(self, *, settled: Mark | None = None) -> dict[int, Geolocation]:
        """A complete list, as `ServiceView.complete`; each new one is held against what the service acknowledged.

        :raises LeaveError: if the service cannot be read
        """
        return self.reading(lambda: self.view.complete(settled=settled))

    def find(self, locid: int, guesses: list[dict[str, Any]]) -> Geolocation | None:
        """One geolocation, as `ServiceView.find`; a complete list that this takes is held against the same.

        :raises LeaveError: if the service cannot be read
        """
        return self.reading(lambda: self.view.find(locid, guesses))

    def _hold_new_list_against(self) -> None:
        """Compare each new complete list with what the service acknowledged.

        :raises NumbersChangedError: if anything was looked for under a number that it does not have
        """
        found = self.view.newest
        if self.view.start is None or self.view.start == self._accounted or found is None:
            return
        self._accounted = self.view.start
        findings = hold_against(self.directory, self.settings, self._accounted, found)
        self.report.notices += findings.notices
        self.report.warnings += findings.warnings
        if findings.numbers_changed:
            raise NumbersChangedError

    def own(self, row: OutboxRow) -> Own:
        """The forms in which the service may have what was sent for the edit's geolocation."""
        with self.outbox() as outbox:
            return own_of(outbox, row, Forms(outbox.sent.stored_forms()))

    def written_lately(self, row: OutboxRow) -> bool:
        """True if the service acknowledged an edit of this geolocation so lately that a replica may not have it."""
        now = Mark.now(0)
        with self.outbox() as outbox:
            recent = outbox.sent.recent(row.locid)
        return any(each.acknowledged and each.acknowledged.age_s(now) < self.settings.settle_s for each in recent)

    def theirs(self, row: OutboxRow) -> Geolocation | None:
        """The edit's geolocation as the service has it now; None only if a complete list lacks it.

        What the service acknowledged a moment ago is laid over the list: a replica may not have it yet.

        :raises LeaveError: if the service cannot be read
        """
        guesses = self.guesses(row)
        locid = self.service_locid(row)
        found = self.find(locid, guesses)
        read = self.view.read
        with self.outbox() as outbox:
            recent = outbox.sent.recent(row.locid)
            learn(outbox, row, recent, found, read, self.settings.settle_s)
            forms = Forms(outbox.sent.stored_forms())
        return with_ours(found, locid, recent, forms, read, self.settings.settle_s)

    def reading(self, read: Callable[[], _T]) -> _T:
        """Read the service; if that fails nothing was changed, and the push leaves.

        :raises LeaveError: if it fails
        """
        self.report.requests += 1
        try:
            found = read()
        except UpstreamAuthError as error:
            raise LeaveError(_paused(error)) from error
        except UpstreamError as error:
            raise LeaveError(str(error)) from error
        self._hold_new_list_against()
        return found

    def notice(self, row: OutboxRow, words: str, about: Any = None) -> None:
        """Tell a person of something that no edit waits for."""
        locid = self.service_locid(row)
        with self.outbox() as outbox:
            self.report.notices.append(outbox.notice(row, locid, words, after=about))

    def log(self, row: OutboxRow, reason: str) -> None:
        """Add an edit's line to the report."""
        self.report.edits.append(
            {"edit": row.id, "locid": row.locid, "what": row.describe(), "state": str(row.state), "reason": reason}
        )
        self.report.done += row.state == State.DONE

    @contextlib.contextmanager
    def logged_in_order(self, edits: Sequence[int]) -> Iterator[None]:
        """Put the lines of these edits into this order, also if another was answered first."""
        lines = self.report.edits
        begin = len(lines)
        try:
            yield
        finally:
            order = {edit: position for position, edit in enumerate(edits)}
            lines[begin:] = sorted(lines[begin:], key=lambda line: order[line["edit"]])

    def decide(self, row: OutboxRow, decision: Decision, *, adopted: int | None = None, **changes: Any) -> OutboxRow:
        """Commit a decision on an edit, and log it, unless a person changed the edit meanwhile."""
        state = STATES[decision.what]
        return self._end(row, state, decision.reason, theirs=decision.theirs, adopted=adopted, **changes)

    def reject(self, row: OutboxRow, error: UpstreamRefusedError) -> OutboxRow:
        """Commit that the service refuses an edit for good."""
        return self._end(row, State.REJECTED, str(error), ended_at=now_text())

    def _end(self, row: OutboxRow, state: State, reason: str, **changes: Any) -> OutboxRow:
        with self.outbox() as outbox:
            if not outbox.is_still(row):
                return outbox.row(row.id)
            row = self.end_in(outbox, row, state, reason, **changes)
        if state != State.QUEUED:
            self.log(row, reason)
        return row

    def end_in(
        self,
        outbox: Outbox,
        row: OutboxRow,
        state: State,
        reason: str,
        *,
        theirs: dict[str, Any] | None = None,
        adopted: int | None = None,
        **changes: Any,
    ) -> OutboxRow:
        """Write the end of an edit into a transaction, and into the history; the caller logs it once committed."""
        changes |= {"state": state, "problem": reason if state in (State.HELD, State.REJECTED) else None}
        if theirs is not None:
            changes["journal"] = {**(row.journal or {}), "theirs": theirs}
        if state == State.DONE:
            changes["acknowledged_at"], changes["acknowledged"] = now_text(), outbox.mark()
        if state == State.DONE and isinstance(row.edit, Delete):
            # The number may be given again: it is of nothing of ours from now on.
            changes["number"] = outbox.service_locid(row.locid)
            outbox.release(row.locid)
            self.view.deleted(changes["number"])
        if adopted is not None:
            outbox.assign(row.locid, adopted)
            self.view.assigned(adopted)
        outbox.change(row.id, **changes)
        outbox.record(
            f"push {row.operation}",
            str(state),
            locid=row.locid,
            before=row.base,
            after={"edit": row.id, "reason": reason, "locid": adopted, "payload": row.payload},
        )
        return outbox.row(row.id)

    # One request

    def attempt(
        self,
        row: OutboxRow,
        request: Callable[[], Any],
        *,
        baseline: Mapping[int, str] | None = None,
        journal: dict[str, Any] | None = None,
    ) -> tuple[RequestOutcome, Any]:
        """Send one request, once `State.SENDING` is durable: its outcome, with the answer or the refusal.

        :raises LeaveError: if any other request would fail too now
        """
        with self.outbox() as outbox:
            if not outbox.begin_attempt(row, baseline=baseline, journal=journal):
                return RequestOutcome.CHANGED, None
        return self.outcome(row, self.ask(request))

    def ask(self, request: Callable[[], Any]) -> Any:
        """Send the request of an edit that is durably `State.SENDING`: the answer, or the error of the service."""
        self.begins_to_send()
        try:
            answer = request()
        except UpstreamError as error:
            self.sent(1)
            return error
        self.sent(1, heard=True)
        return answer

    def begins_to_send(self) -> None:
        """Note that requests leave which may change what the service has."""
        self.view.unmodified = None

    def sent(self, requests: int, *, heard: bool = False) -> None:
        """Count requests; ``heard``: the service said yes to one of them."""
        self.report.requests += requests
        if heard:
            self._silent = 0

    def outcome(self, row: OutboxRow, answer: Any) -> tuple[RequestOutcome, Any]:
        """Commit what an answer that is an error says, and what it means; ``row`` is the edit as it was before.

        :raises LeaveError: if any other request would fail too now
        """
        found = self.noted(row, answer)
        self.wait_after([answer])
        return found

    def noted(self, row: OutboxRow, answer: Any) -> tuple[RequestOutcome, Any]:
        """The first half of `outcome`: commit what the answer says; what may be sent again must `wait_after` it."""
        match answer:
            case UpstreamRefusedError():
                self._silent = 0
                return RequestOutcome.REFUSED, answer
            case UpstreamAuthError():
                self._not_applied(row, answer)
                return RequestOutcome.AGAIN, None
            case UpstreamUnavailableError(sent=False):
                self._not_applied(row, answer, sent=False)
                return RequestOutcome.AGAIN, None
            case UpstreamUnavailableError(status=status) if status in NOT_CARRIED_OUT:
                self._silent = 0
                with self.outbox() as outbox:
                    outbox.put_off(row, problem=str(answer))
                return RequestOutcome.AGAIN, None
            case UpstreamUnavailableError() | UpstreamAnswerError():
                status = answer.status if isinstance(answer, UpstreamUnavailableError) else None
                self._silent = 0 if status is not None else self._silent + 1
                self.left_unknown(row, answer)
                return RequestOutcome.UNKNOWN, None
            case UpstreamError():
                return RequestOutcome.UNKNOWN, None
        return RequestOutcome.APPLIED, answer

    def wait_after(self, answers: Sequence[Any]) -> None:
        """The second half, for all answers of requests that were under way together: wait once, as long as asked.

        :raises LeaveError: if any other request would fail too now
        """
        asked: list[UpstreamUnavailableError] = []
        for answer in answers:
            match answer:
                case UpstreamAuthError():
                    raise LeaveError(_paused(answer)) from answer
                case UpstreamUnavailableError(sent=False):
                    raise LeaveError(str(answer)) from answer
                case UpstreamUnavailableError(status=status) if status in ASKS_TO_WAIT:
                    asked.append(answer)
                case UpstreamRefusedError() | UpstreamUnavailableError() | UpstreamAnswerError():
                    pass
                case UpstreamError():
                    raise answer
        silent = [answer for answer in answers if isinstance(answer, UpstreamError)]
        if silent and self._silent >= _MOST_SILENT:
            raise LeaveError(f"the service does not answer: {silent[-1]}") from silent[-1]
        if asked:
            longest = max(asked, key=lambda answer: answer.retry_after_s or 0.0)
            self._wait(longest)

    def _not_applied(self, row: OutboxRow, error: UpstreamError, *, sent: bool = True) -> None:
        with self.outbox() as outbox:
            outbox.undo_attempt(row, sent=sent, problem=str(error))

    def left_unknown(self, row: OutboxRow, error: UpstreamError) -> OutboxRow:
        """Leave the edit for a later push, when the effect of the request has settled."""
        with self.outbox() as outbox:
            ended = outbox.mark()
            outbox.change(row.id, state=State.UNKNOWN, ended_at=now_text(), ended=ended, problem=str(error))
            outbox.record(
                f"push {row.operation}", str(State.UNKNOWN), locid=row.locid,
                after={"edit": row.id, "reason": str(error), "payload": row.payload},
            )  # fmt: skip
            row = outbox.row(row.id)
        settles = f"a push in {self.settings.settle_s:.0f} s or later looks what became of it"
        self.log(row, f"the outcome is unknown: {error}; {settles}")
        return row

    def _wait(self, answer: UpstreamUnavailableError) -> None:
        """Wait as told, with full jitter, within the limit of the whole push.

        :raises LeaveError: past it
        """
        wait_s = max(answer.retry_after_s or 0.0, random.uniform(0, 2 * _PAUSE_S))  # noqa: S311 - spreads clients
        if self.report.waited_s + wait_s > self.settings.max_wait_s:
            raise LeaveError(
                f"{answer}; waiting {wait_s:.0f} s would be more than `max_wait_s` allows: try again later"
            ) from answer
        self.report.waited_s += wait_s
        clock.sleep(wait_s)
