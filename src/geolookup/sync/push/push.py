"""Push: send the outbox to the service, exactly as meant, through lost answers and crashes.

``sending`` is durable before a request leaves. What has an unknown outcome is never simply sent again: it settles, is
read back, and only then done, sent again or held.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from geolookup.http.transport import Transport
from geolookup.model.errors import (
    UpstreamAuthError,
    UpstreamUnavailableError,
    WrongUpstreamError,
)
from geolookup.model.reports import Progress, unwatched
from geolookup.model.types import is_provisional
from geolookup.settings.table import Settings
from geolookup.state.base import clock, failures
from geolookup.state.base.clock import now_text
from geolookup.state.base.files import open_to_all
from geolookup.state.base.marks import Mark, Start
from geolookup.state.edits.outbox.journal import is_half_done
from geolookup.state.edits.outbox.operations import Create, RemoveBlock
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.row import PENDING_STATES, UNDER_WAY, OutboxRow, State
from geolookup.state.edits.session import SiteNames
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import Run, running
from geolookup.sync.pull.pull import configured_url
from geolookup.sync.push import reconcile
from geolookup.sync.push.attempts import Attempts, LeaveError, NumbersChangedError
from geolookup.sync.push.group import Groups
from geolookup.sync.push.lots import LOOKED_THROUGH
from geolookup.sync.push.matching import Match, matched
from geolookup.sync.push.reconcile import OnConflict
from geolookup.sync.push.removal import remove_block
from geolookup.sync.push.report import PushReport
from geolookup.sync.push.sending import Sender
from geolookup.sync.push.view import ServiceView
from geolookup.upstream.geolocations import GeolocationsClient


def require_same_upstream(directory: StateDirectory, settings: Settings, *, url_moved: bool = False) -> str:
    """The upstream's URL, which must be the one that the state belongs to.

    :raises SettingsError: if none is configured
    :raises WrongUpstreamError: if the state belongs to another
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
    progress: Progress = unwatched,
) -> PushReport:
    """Send what waits in the outbox. Takes the run lock.

    ``check`` may look at the service before anything is sent, and raise to stop the push (a saved plan does).

    :raises StateBusyError: if another run is under way
    :raises EditsDamagedError: if edits.db is damaged or has gone back: nothing was sent
    :raises WrongUpstreamError: if the state belongs to another URL
    """
    url = require_same_upstream(directory, settings, url_moved=url_moved)
    began = time.monotonic()
    report = PushReport(url=url)
    with (
        running(directory) as run,
        failures.noted(directory.home, "push", "push") as failed,
        contextlib.ExitStack() as opened,
    ):
        run.check_edits()
        report.notices += opened.enter_context(run.notices_of_before())
        if (warning := open_to_all(directory.home)) is not None:
            report.warnings.append(warning)
        if check is not None or directory.local.pending():
            with Transport(settings) as transport:
                push_locked(run, settings, transport, report, on_conflict=on_conflict, check=check, progress=progress)
        count_left_over(directory, report)
        report.duration_s = round(time.monotonic() - began, 3)
        if report.stopped is not None:
            failed(report.stopped)
    return report


def push_locked(
    run: Run,
    settings: Settings,
    transport: Transport,
    report: PushReport,
    *,
    on_conflict: OnConflict = "hold",
    check: Callable[[ServiceView], None] | None = None,
    progress: Progress = unwatched,
) -> Start | None:
    """Send what waits, by a run that has checked edits.db; the counts are left to `count_left_over`.

    Returns the start of the list by which the service is known to have what is published, for `pull_locked`; None if it
    is not.
    """
    directory = run.directory
    with directory.locks.publish():
        directory.edits.back_up()
    if run.note_push():
        report.warnings.append(
            "this state is from another machine: if it is a copy, and that machine pushes too, "
            "what waits in both is sent twice"
        )
    attempts = Attempts(directory, settings, GeolocationsClient(transport), report)
    if check is not None:
        check(attempts.view)
    directory.remember_upstream(report.url)
    Pusher(run, attempts, on_conflict=on_conflict).push(progress)
    return attempts.view.unmodified


def count_left_over(directory: StateDirectory, report: PushReport) -> None:
    """Count what is in the outbox now, and call the geolocations of its lines by what is known of them by now."""
    if not directory.edits.exists():
        return
    with directory.edits.reading() as database:
        outbox = Outbox(database)
        rows = outbox.rows(*PENDING_STATES)
        named = _Named(outbox, SiteNames(database))
        by_id = {row.id: row for row in outbox.rows()} if report.edits else {}
    for line in report.edits:
        if (row := by_id.get(line["edit"])) is not None:
            line["what"] = named.describe(row)
    for state in (State.QUEUED, State.UNKNOWN, State.HELD, State.REJECTED):
        setattr(report, state.value, sum(row.state == state for row in rows))
    report.half_done = [
        f"edit {row.id} is half done ({named.describe(row)}): lookups have all other blocks, and the service lacks "
        "some until a push goes through"
        for row in rows
        if is_half_done(row.journal)
    ]


class _Named:
    """The names of geolocations in messages: the service's number if there is one, and the site's name."""

    def __init__(self, outbox: Outbox, names: SiteNames) -> None:
        self._numbers = {local: number for number, local in outbox.sent.deleted_numbers().items()} | outbox.aliases()
        self._sites = {local: site for site, local in names.locids().items()}

    def describe(self, row: OutboxRow) -> str:
        """An edit in words."""
        number = self._numbers.get(row.locid, row.locid) if row.number is None else row.number
        site = self._sites.get(row.locid)
        return row.edit.describe(number) + (f" ({site})" if site is not None else "")


def _refuses_everything(error: BaseException | None) -> bool:
    """True if another request would fare no better now: a wrong token, no connection, or told to wait for longer."""
    if isinstance(error, UpstreamAuthError):
        return error.status == 401
    return isinstance(error, UpstreamUnavailableError) and (not error.sent or error.retry_after_s is not None)


class Pusher:
    """One push under way: each edit is brought as far as it goes, by ``attempts``."""

    def __init__(self, run: Run, attempts: Attempts, *, on_conflict: OnConflict = "hold") -> None:
        self._run = run
        self._attempts = attempts
        self._sender = Sender(attempts, on_conflict=on_conflict)
        self._matches: dict[int, Match] = {}
        self._groups = Groups(attempts, self._sender)
        #: The geolocations of which an edit did not come to its end, so that the next must wait.
        self._blocked: set[int] = set()

    @contextlib.contextmanager
    def _publishing_at_the_end(self) -> Iterator[None]:
        """Publish at the end, also after an error: lookups see how far the push came."""
        try:
            yield
        finally:
            self._groups.close()
            if self._run.current is not None:
                self._run.republish()

    def push(self, progress: Progress = unwatched) -> None:
        """Deal with every waiting edit: those of one geolocation in order, different ones independently."""
        with self._publishing_at_the_end():
            self._find_interrupted()
            self._wait_for_this_boot()
            rows = self._attempts.pending()
            try:
                for position, row in enumerate(rows):
                    progress(position, len(rows))
                    if row.id in self._groups.done:
                        continue
                    row = self._attempts.fresh(row)  # what is adopted takes edits along, under another number
                    if row.locid not in self._blocked and not self._is_over(
                        row, rows[position + 1 : position + 1 + LOOKED_THROUGH]
                    ):
                        self._blocked.add(row.locid)
            except LeaveError as error:
                self._attempts.report.stopped = str(error)
                why = error.__cause__ or error.__context__
                self._attempts.report.service_refuses = _refuses_everything(why)
                self._attempts.report.lacks_permission = isinstance(why, UpstreamAuthError)
            progress(len(rows), len(rows))

    def _find_interrupted(self) -> None:
        """An attempt whose process died ends now, when it is found."""
        with self._attempts.outbox() as outbox:
            found = outbox.mark()
            for row in outbox.rows(State.QUEUED):
                if row.was_put_off:  # by an earlier push: whether it was applied all the same, the service shows
                    outbox.change(row.id, state=State.UNKNOWN)
            for row in outbox.rows(*UNDER_WAY):
                if row.state == State.UNKNOWN:
                    continue
                problem = "the push was interrupted"
                outbox.change(row.id, state=State.UNKNOWN, ended_at=now_text(), ended=found, problem=problem)
                outbox.record(
                    f"push {row.operation}", str(State.UNKNOWN), locid=row.locid,
                    after={"edit": row.id, "reason": problem, "payload": row.payload},
                )  # fmt: skip

    def _is_over(self, row: OutboxRow, later: Sequence[OutboxRow]) -> bool:
        """Bring one edit as far as it goes now; whether it is finished, so that the next of its geolocation may go.

        Of the ``later`` ones, those go out with it that need not wait for anything.
        """
        while True:
            try:
                return self._deal_with(self._attempts.fresh(row), later)
            except NumbersChangedError:
                continue  # each list says so once

    def _deal_with(self, row: OutboxRow, later: Sequence[OutboxRow]) -> bool:
        if row.state in (State.DONE, State.DROPPED):
            return True  # since this push began: merged into another one, or dropped by a person
        if not isinstance(row.edit, Create) and is_provisional(self._attempts.service_locid(row)):
            return self._waits_for_number(row)
        if row.state == State.UNKNOWN:
            left_s = self._unsettled_s(row)
            if left_s > 0:
                self._attempts.log(row, f"the outcome is unknown, and settles in {left_s:.0f} s: push again then")
                return False
            row = self._resolve(row)
        if row.state == State.QUEUED:
            waits_for = reconcile.waits_for(row, self._attempts.in_the_way())
            if waits_for is not None:
                self._attempts.log(row, f"waits for edit {waits_for.id}: {waits_for.describe()}")
                return False
            held = self._sender.look_before_first_write(row)
            if held is not None:
                return self._attempts.decide(row, held).state in (State.DONE, State.DROPPED)
            if isinstance(row.edit, RemoveBlock):
                row = remove_block(self._attempts, row)
            # It may be a replace by now.
            if row.state == State.QUEUED and not isinstance(row.edit, RemoveBlock):
                row = self._groups.send(row, later, self._blocked) or self._sender.send(row)
        return row.state in (State.DONE, State.DROPPED)

    def _waits_for_number(self, row: OutboxRow) -> bool:
        with self._attempts.outbox() as outbox:
            decision = reconcile.without_number(row, outbox.rows(locid=row.locid))
        if decision.what in ("hold", "done"):
            return self._attempts.decide(row, decision).state in (State.DONE, State.DROPPED)
        self._attempts.log(row, decision.reason)
        return False

    def _unsettled_s(self, row: OutboxRow) -> float:
        """The seconds for which the outcome of an edit may still change."""
        assert row.ended is not None, "`_find_interrupted` has marked it"
        return self._attempts.settings.settle_s - row.ended.age_s(Mark.now(0))

    def _wait_for_this_boot(self) -> None:
        """Wait if the machine has just been started: the age of an earlier boot's requests is not known.

        Else a machine that is switched on for its push alone would never learn what became of one.
        """
        now = Mark.now(0)
        left_s = [
            self._unsettled_s(row)
            for row in self._attempts.pending()
            if row.state == State.UNKNOWN and row.ended is not None and row.ended.boot != now.boot
        ]
        if left_s and max(left_s) > 0:
            clock.sleep(max(left_s))

    # Unknown outcomes

    def _resolve(self, row: OutboxRow) -> OutboxRow:
        """Read the service back, and decide what became of an edit that has settled."""
        if not isinstance(row.edit, Create):
            return self._attempts.decide(
                row, reconcile.after_unknown(row, self._attempts.theirs(row), own=self._attempts.own(row))
            )
        repeats = self._attempts.settings.idempotency_keys and self._key_is_known(row)
        misnamed = (row.journal or {}).get("misnamed") == row.key
        if repeats and not misnamed:
            return self._sender.attempt(row)
        match = self._matches.pop(row.id, None) or self._matched(row)
        if match.what == "send":
            if repeats:
                return self._sender.hold_misnamed(row)
            # Straight from unknown: were it queued in between, a crash there would forget that it may yet land.
            return self._sender.attempt(row)
        return self._sender.settled(row, match)

    def _matched(self, row: OutboxRow) -> Match:
        """The match of a create; found together with all others that have settled, so that none takes another's."""
        service = self._attempts.complete(settled=row.ended)
        settled = [
            other
            for other in self._attempts.pending()
            if isinstance(other.edit, Create) and other.state == State.UNKNOWN and self._unsettled_s(other) <= 0
        ]
        with self._attempts.outbox() as outbox:
            self._matches = matched(outbox, settled, service)
        return self._matches.pop(row.id)

    def _key_is_known(self, row: OutboxRow) -> bool:
        """True if the service remembers the key of an attempt for sure; beyond this boot, its age is not known."""
        first, now = row.attempted, Mark.now(0)
        return (
            first is not None
            and first.boot == now.boot
            and now.boot != ""
            and first.age_s(now) < self._attempts.settings.idempotency_window_s
        )
