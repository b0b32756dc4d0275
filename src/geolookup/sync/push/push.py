"""Push: send the outbox to the service, exactly as meant, through lost answers and crashes."""

import contextlib
import json
import time
from collections.abc import Callable

from geolookup.http.transport import Transport
from geolookup.model.errors import WrongUpstreamError
from geolookup.model.reports import Progress, unwatched
from geolookup.settings.table import Settings
from geolookup.state.base import failures
from geolookup.state.base.files import open_to_all
from geolookup.state.base.marks import Start
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.outbox.row import PENDING_STATES, PERSON_STATES, State
from geolookup.state.edits.outbox.stations import half_taken
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import Run, running
from geolookup.sync.pull.pull import configured_url
from geolookup.sync.push.courier import Courier, OnConflict
from geolookup.sync.push.report import PushReport, line_of
from geolookup.sync.push.telling import Names
from geolookup.sync.push.view import Seen, ServiceView
from geolookup.upstream.connections import Connections
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
    check: Callable[[ServiceView], Seen] | None = None,
    progress: Progress = unwatched,
) -> PushReport:
    """Send what waits in the outbox. Takes the run lock.

    ``check`` may look at the service before anything is sent, and raise to stop the push (a saved plan does).

    :raises StateBusyError: if another run is under way
    :raises EditsDamagedError: if edits.db is damaged or has gone back: nothing was sent
    :raises WrongUpstreamError: if the state belongs to another URL
    :raises NoStateError: if nothing has been published: a mistyped directory has no edits, either
    """
    url = require_same_upstream(directory, settings, url_moved=url_moved)
    if directory.named_current() is None:  # a damaged one is for the run, which may go on with what is whole
        directory.require_current()
    began = time.monotonic()
    report = PushReport(url=url)
    with (
        running(directory) as run,
        failures.noted(directory.home, "push", "push") as failed,
        directory.edits.kept_open(),
        contextlib.ExitStack() as opened,
    ):
        run.check_edits()
        report.notices += opened.enter_context(run.notices_of_before())
        if (warning := open_to_all(directory.home)) is not None:
            report.warnings.append(warning)
        if check is not None or directory.local.pending():
            with Transport(settings) as transport:
                push_locked(run, settings, transport, report, on_conflict=on_conflict, check=check, progress=progress)
        elif url_moved:
            directory.remember_upstream(url)
            report.warnings.append(
                f"this state belongs to {url} from now on; nothing was asked there, as nothing waited"
            )
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
    check: Callable[[ServiceView], Seen] | None = None,
    progress: Progress = unwatched,
) -> Start | None:
    """Send what waits, by a run that has checked edits.db; the counts are left to `count_left_over`.

    Returns the start of the list by which the service is known to have what is published, for `pull_locked`; None if it
    is not.
    """
    directory = run.directory
    with directory.locks.publish():
        directory.edits.back_up()
    if (copied := run.note_push()) is not None:
        report.warnings.append(copied)
    client = GeolocationsClient(transport)
    view = ServiceView(directory, settings, client)
    seen = None if check is None else check(view)
    directory.remember_upstream(report.url)
    connections = Connections(client, settings.push_connections)
    courier = Courier(
        directory.edits.ledger, view.read, connections, settings, report,
        on_conflict=on_conflict, seen=seen, moved=directory.has_moved(report.url),
    )  # fmt: skip
    try:
        courier.run(progress)
    finally:  # also after an error: lookups see how far the push came
        if run.current is not None:
            run.republish()
    return courier.unmodified


def count_left_over(directory: StateDirectory, report: PushReport) -> None:
    """Count what is in the outbox now, and call the geolocations of its lines by what is known of them by now."""
    with directory.edits.reading() as database:
        ledger = Ledger(database)
        outbox = ledger.outbox
        rows = outbox.rows(*PENDING_STATES)
        named = Names(ledger)
        told = {line["edit"] for line in report.edits}
        report.edits += [line_of(row) for row in rows if row.state in PERSON_STATES and row.id not in told]
        among = json.dumps([line["edit"] for line in report.edits])
        of_lines = {row.id: row for row in outbox.where("id IN (SELECT value FROM json_each(?))", (among,))}
        for line in report.edits:
            line["what"] = named.describe(of_lines[line["edit"]])
        where = "owed IS NOT NULL OR id IN (SELECT place FROM requests WHERE what = 'clear' AND NOT over)"
        cleared = ledger.read(where)
        half_done = {intent.id for kept in cleared.values() for intent in half_taken(kept.place)}
        report.half_done = [
            f"edit {row.id} is half done ({named.describe(row)}): lookups have all other blocks, and the service lacks "
            "some until a push goes through"
            for row in rows
            if row.id in half_done
        ]
    for state in (State.QUEUED, State.UNKNOWN, State.HELD, State.REJECTED):
        setattr(report, state.value, sum(row.state == state for row in rows))
    report.unknown += sum(row.state == State.SENDING for row in rows)  # nobody noted an answer
