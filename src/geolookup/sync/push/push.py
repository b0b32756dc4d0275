"""Push: send the outbox to the service, exactly as meant, through lost answers and crashes.

``sending`` is durable before a request leaves. What has an unknown outcome is never simply sent again: it settles, is
read back, and only then done, sent again or held.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from geolookup.errors import (
    UpstreamAnswerError,
    UpstreamAuthError,
    UpstreamRefusedError,
    UpstreamUnavailableError,
    WrongUpstreamError,
)
from geolookup.http.transport import Transport
from geolookup.settings.table import Settings
from geolookup.state.clock import age_s, now_text
from geolookup.state.directory import StateDirectory
from geolookup.state.edits.operations import AddBlock, Create, Delete, Overwriting, RemoveBlock, ReplaceBlock
from geolookup.state.edits.outbox import PENDING_STATES, Outbox, OutboxRow, State
from geolookup.sync.pull.pull import configured_url
from geolookup.sync.push import reconcile
from geolookup.sync.push.attempts import Attempts, LeaveError, PushReport, RequestOutcome
from geolookup.sync.push.reconcile import Decision, OnConflict
from geolookup.sync.push.removal import remove_block
from geolookup.sync.push.view import ServiceView
from geolookup.upstream.geolocations import GeolocationsClient

#: Told the edits dealt with so far, and how many there are.
PushProgress = Callable[[int, int | None], None]


def require_same_upstream(directory: StateDirectory, settings: Settings, *, url_moved: bool = False) -> str:
    """The upstream's URL, which must be the one that the state belongs to.

    :raises SettingsError: where none is configured
    :raises WrongUpstreamError: where the state belongs to another
    """
    url = configured_url(settings)
    known = directory.upstream_url()
    if known is not None and known != url and not url_moved:
        raise WrongUpstreamError(
            f"this state belongs to {known}, and its edits would go to {url}: if the service has moved there, "
            "say so with --url-moved"
        )
    return url


def push(
    directory: StateDirectory,
    settings: Settings,
    *,
    on_conflict: OnConflict = "hold",
    url_moved: bool = False,
    check: Callable[[ServiceView], None] | None = None,
    progress: PushProgress = lambda _done, _total: None,
) -> PushReport:
    """Send what waits in the outbox. Takes the run lock.

    ``check`` may look at the service before anything is sent, and raise to stop the push (a saved plan does).

    :raises StateBusyError: where another run is under way
    :raises StateDamagedError: where edits.db is damaged: nothing was sent
    :raises WrongUpstreamError: where the state belongs to another URL
    """
    url = require_same_upstream(directory, settings, url_moved=url_moved)
    began = time.monotonic()
    report = PushReport(url=url)
    with directory.locks.run():
        directory.edits.check()
        if check is not None or directory.local.pending():
            with Transport(settings) as transport:
                push_locked(
                    directory, settings, transport, report, on_conflict=on_conflict, check=check, progress=progress
                )
        count_left_over(directory, report)
        report.duration_s = round(time.monotonic() - began, 3)
    return report


def push_locked(
    directory: StateDirectory,
    settings: Settings,
    transport: Transport,
    report: PushReport,
    *,
    on_conflict: OnConflict = "hold",
    check: Callable[[ServiceView], None] | None = None,
    progress: PushProgress = lambda _done, _total: None,
) -> str | None:
    """Send what waits, for who holds the run lock and has checked edits.db; the counts are left to `count_left_over`.

    Returns since when the service is known to have what is published, for `pull_locked`; None where it is not.
    """
    directory.edits.back_up()
    attempts = Attempts(directory, settings, GeolocationsClient(transport), report)
    if check is not None:
        check(attempts.view)
    directory.remember_upstream(report.url)
    Pusher(attempts, on_conflict=on_conflict).run(progress)
    return attempts.view.unmodified_since


def count_left_over(directory: StateDirectory, report: PushReport) -> None:
    """Count what is in the outbox now."""
    if not directory.edits.exists():
        return
    with directory.edits.reading() as database:
        rows = Outbox(database).rows(*PENDING_STATES)
    for state in (State.QUEUED, State.UNKNOWN, State.HELD, State.REJECTED):
        setattr(report, state.value, sum(row.state == state for row in rows))


def _refuses_everything(error: BaseException | None) -> bool:
    """Whether another request would fare no better now: a wrong token, no connection, or told to wait for longer."""
    if isinstance(error, UpstreamAuthError):
        return error.status == 401
    return isinstance(error, UpstreamUnavailableError) and (not error.sent or error.retry_after_s is not None)


class Pusher:
    """One push under way: what becomes of each edit, by way of ``attempts``. The run lock must be held."""

    def __init__(self, attempts: Attempts, *, on_conflict: OnConflict = "hold") -> None:
        self._attempts = attempts
        self._on_conflict: OnConflict = on_conflict

    @contextlib.contextmanager
    def _publishing_at_the_end(self) -> Iterator[None]:
        """Whatever happens, lookups see how far the push came."""
        try:
            yield
        finally:
            if self._attempts.directory.current_or_none() is not None:
                self._attempts.directory.republish()

    def run(self, progress: PushProgress = lambda _done, _total: None) -> None:
        """Deal with every waiting edit: those of one geolocation in order, different ones independently."""
        with self._publishing_at_the_end():
            self._find_interrupted()
            rows = self._attempts.pending()
            blocked: set[int] = set()
            try:
                for position, row in enumerate(rows):
                    progress(position, len(rows))
                    row = self._attempts.fresh(row)  # what is adopted takes edits along, under another number
                    if row.locid not in blocked and not self._deal_with(row):
                        blocked.add(row.locid)
            except LeaveError as error:
                self._attempts.report.stopped = str(error)
                why = error.__cause__ or error.__context__
                self._attempts.report.service_refuses = _refuses_everything(why)
                self._attempts.report.lacks_permission = isinstance(why, UpstreamAuthError)
            progress(len(rows), len(rows))

    def _find_interrupted(self) -> None:
        """An attempt whose process died ends now, when it is found."""
        with self._attempts.outbox() as outbox:
            for row in outbox.rows(State.SENDING):
                problem = "the push was interrupted"
                outbox.change(row.id, state=State.UNKNOWN, ended_at=now_text(), problem=problem)
                outbox.record(
                    f"push {row.operation}", str(State.UNKNOWN), locid=row.locid,
                    after={"edit": row.id, "reason": problem, "payload": row.payload},
                )  # fmt: skip

    def _deal_with(self, row: OutboxRow) -> bool:
        """Bring one edit as far as it goes now; whether it is over, so that the next of its geolocation may go."""
        if row.state == State.UNKNOWN:
            left_s = self._attempts.settings.settle_s - age_s(row.ended_at or "")
            if left_s > 0:
                self._attempts.log(row, f"the outcome is unknown, and settles in {left_s:.0f} s: push again then")
                return False
            row = self._resolve(row)
        if row.state == State.QUEUED:
            waits_for = reconcile.waits_for(row, self._attempts.in_the_way(row))
            if waits_for is not None:
                self._attempts.log(row, f"waits for edit {waits_for.id}: {waits_for.describe()}")
                return False
            if isinstance(row.edit, RemoveBlock):
                row = remove_block(self._attempts, row)
            # It may be a replace by now.
            if row.state == State.QUEUED and not isinstance(row.edit, RemoveBlock):
                row = self._send(row)
        return row.state in (State.DONE, State.DROPPED)

    # Unknown outcomes

    def _resolve(self, row: OutboxRow) -> OutboxRow:
        """Read the service back, and decide what became of an edit that has settled."""
        if not isinstance(row.edit, Create):
            return self._attempts.decide(row, reconcile.after_unknown(row, self._attempts.theirs(row)))
        window_s = self._attempts.settings.idempotency_window_s
        if self._attempts.settings.idempotency_keys and age_s(row.attempted_at or "") < window_s:
            return self._attempt(row)
        service = self._attempts.reading(lambda: self._attempts.view.complete(settled=row.ended_at))
        with self._attempts.outbox() as outbox:
            ours = outbox.created_here()
            baseline = outbox.baseline(row)
        decision, adopted = reconcile.create_after_unknown(row, service.values(), baseline=baseline, ours=ours)
        if decision.what == "queue":
            # Straight from unknown: were it queued in between, a crash there would forget that it may yet land.
            return self._attempt(row)
        return self._attempts.decide(row, decision, adopted=adopted)

    # Sending

    def _send(self, row: OutboxRow) -> OutboxRow:
        if isinstance(row.edit, Overwriting):
            decision = reconcile.before_sending(row, self._attempts.theirs(row), on_conflict=self._on_conflict)
            if decision.what != "send":
                return self._attempts.decide(row, decision)
        return self._attempt(row)

    def _attempt(self, row: OutboxRow) -> OutboxRow:
        """Send an edit's one request; again only where it surely was not applied, and not without end."""
        for _ in range(self._attempts.settings.attempts):
            baseline = None
            if isinstance(row.edit, Create) and row.state == State.QUEUED:
                # Any complete list of this push will do: what our own later creates add is known to be ours.
                baseline = sorted(self._attempts.reading(self._attempts.view.complete))
            outcome, answer = self._attempts.attempt(row, self._request_of(row, baseline), baseline=baseline)
            row = self._attempts.fresh(row)
            if outcome == RequestOutcome.APPLIED:
                decision = Decision(what="done", reason="the service has it")
                return self._attempts.decide(row, decision, adopted=answer if isinstance(row.edit, Create) else None)
            if outcome == RequestOutcome.REFUSED:
                return self._refused(row, answer)
            if outcome != RequestOutcome.AGAIN:
                return row
        self._attempts.log(row, f"{row.problem}: left for the next push")
        return row

    def _request_of(self, row: OutboxRow, baseline: list[int] | None) -> Callable[[], Any]:
        """The request of an edit: for a create, it returns the locid that the service assigned."""
        edit = row.edit
        assert not isinstance(edit, RemoveBlock), "`remove_block` sends its requests"
        if isinstance(edit, Create):
            return partial(self._create, row, edit, baseline)
        return partial(edit.send, self._attempts.client, self._attempts.service_locid(row), row.key)

    def _create(self, row: OutboxRow, edit: Create, baseline: list[int] | None) -> int:
        assigned = self._attempts.client.create(edit.fields, idempotency_key=row.key)
        with self._attempts.outbox() as outbox:
            known = outbox.baseline(row) if baseline is None else set(baseline)
            if assigned in known or assigned in outbox.created_here():
                raise UpstreamAnswerError(
                    f"create: the service answered with locid {assigned}, which is another geolocation's: "
                    "the outcome is unknown"
                )
        return assigned

    def _refused(self, row: OutboxRow, error: UpstreamRefusedError) -> OutboxRow:
        """A definite refusal: not applied. Some mean that there is nothing to do, or that somebody was faster."""
        decision = None
        match row.edit, error.status:
            case Delete(), 404:
                decision = Decision(what="done", reason="it is gone already")
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
