"""Refresh: push, then pull, in one run, as every night; its report, and what to do next by it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from geolookup.http.transport import Transport
from geolookup.model.errors import (
    GeoLookupError,
    HeldError,
    IndexFileError,
    NoStateError,
    PullError,
    SettingsError,
    StateBusyError,
    StateDamagedError,
    StateError,
    StateUnreadableError,
    UpstreamAnswerError,
    UpstreamAuthError,
    UpstreamError,
    WrongUpstreamError,
)
from geolookup.model.reports import Stage
from geolookup.settings.table import Settings
from geolookup.state.base import failures
from geolookup.state.base.clock import now_text
from geolookup.state.base.current import Published
from geolookup.state.base.marks import Start
from geolookup.state.generations.fingerprints import fingerprint_of
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.run import Run, running
from geolookup.sync.pull.context import PullReport
from geolookup.sync.pull.pull import configured_url, pull_locked
from geolookup.sync.push.courier import OnConflict
from geolookup.sync.push.push import count_left_over, push_locked, require_same_upstream
from geolookup.sync.push.report import PushReport
from geolookup.sync.sites import SitesRun

#: Told of a stage, the items of it done so far, and how many there are, None if that is not known.
RefreshProgress: TypeAlias = Callable[[Stage, int, int | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The failure of a stage; ``error`` is as it was raised, or None if a push ended by itself and said why."""

    stage: Stage
    message: str
    error: GeoLookupError | None = None

    def as_dict(self) -> dict[str, Any]:
        """All of it by name; the error by the name of its class in `geolookup.model.errors`."""
        kinds = [kind.__name__ for kind in type(self.error).__mro__ if kind.__module__ == GeoLookupError.__module__]
        return {"stage": self.stage, "error": kinds[0] if kinds else None, "message": self.message}


@dataclass(slots=True, kw_only=True)
class RefreshReport:
    """The report of a refresh: what it did, and what it left.

    ``sites`` is None if no server has the sites, or they could not be read, ``push`` if edits could not even be read,
    ``pull`` if nothing was pulled; ``skipped`` says why a pull was not tried. ``failures`` are of the stages that did
    not do their job. ``generation`` and ``digest`` are what is served after it, ``generation_before`` what was before
    (None if nothing is, or was). ``changed`` is true if some address has another answer now; an edit that is no longer
    pending is not a change. Moments are texts of `clock.now_text`, durations seconds by step.
    """

    url: str | None
    began_at: str
    ended_at: str = ""
    sites: SitesRun | None = None
    push: PushReport | None = None
    pull: PullReport | None = None
    skipped: str | None = None
    failures: list[Failure] = field(default_factory=list)
    generation_before: int | None = None
    generation: int | None = None
    digest: str | None = None
    changed: bool = False
    warnings: list[str] = field(default_factory=list)
    durations_s: dict[str, float] = field(default_factory=dict)

    @property
    def held(self) -> HeldError | None:
        """The reason why the pulled list is held, None if it is not."""
        return next((failure.error for failure in self.failures if isinstance(failure.error, HeldError)), None)

    @property
    def for_a_person(self) -> bool:
        """True if something waits that only a person can decide."""
        edits = self.push is not None and bool(self.push.held or self.push.rejected or self.push.notices)
        sites = self.sites is not None and self.sites.waits
        return (
            edits
            or sites
            or self.held is not None
            or bool(self.pull is not None and (self.pull.twins or self.pull.notices))
        )

    @property
    def left_over(self) -> bool:
        """True if edits wait for the next run."""
        return self.push is not None and bool(self.push.unknown or self.push.queued)

    def as_dict(self) -> dict[str, Any]:
        """All of it by name, for ``--json``."""
        return {
            "url": self.url,
            "began_at": self.began_at,
            "ended_at": self.ended_at,
            "changed": self.changed,
            "generation_before": self.generation_before,
            "generation": self.generation,
            "digest": self.digest,
            "failures": [failure.as_dict() for failure in self.failures],
            "skipped": self.skipped,
            "sites": None if self.sites is None else self.sites.as_dict(),
            "push": None if self.push is None else self.push.as_dict(),
            "pull": None if self.pull is None else self.pull.as_dict(),
            "warnings": self.warnings,
            "durations_s": self.durations_s,
        }


def refresh(
    directory: StateDirectory,
    settings: Settings,
    *,
    on_conflict: OnConflict = "hold",
    url_moved: bool = False,
    started: Callable[[], None] = lambda: None,
    progress: RefreshProgress = lambda _stage, _done, _total: None,
    sites: Callable[[], SitesRun] | None = None,
) -> RefreshReport:
    """Push what waits, then pull and publish, under one run lock. ``sites``, if given, reads them from a server first.

    What goes wrong is in the report, so that it is always complete; the other stage is still tried,
    unless the service as a whole refuses. ``started`` is called once the lock is held.

    :raises StateBusyError: if another run is under way: nothing was done
    """
    began = time.monotonic()
    report = RefreshReport(url=settings.url, began_at=now_text())
    try:
        with running(directory) as run:
            failures.begin(directory.home, "refresh")
            started()
            try:
                _run(
                    run, settings, report, on_conflict=on_conflict, url_moved=url_moved, progress=progress, sites=sites
                )
            except GeoLookupError as error:
                report.failures.append(Failure(stage=_stage(report), message=str(error), error=error))
            failures.note(directory.home, "refresh", _ended(report))
    except GeoLookupError as error:
        if isinstance(error, StateBusyError) and report.push is None:
            raise
        stage = _stage(report)
        report.failures.append(Failure(stage=stage, message=str(error), error=error))
        if stage == "start" and (served := _open(directory)) is not None:
            report.generation = report.generation_before = served.current.generation
            report.digest = served.current.digest
            served.close()
    report.ended_at = now_text()
    report.durations_s["total"] = round(time.monotonic() - began, 3)
    return report


def _stage(report: RefreshReport) -> Stage:
    """The stage that a refresh came to."""
    return "start" if report.push is None and report.pull is None else "push" if report.pull is None else "pull"


def _ended(report: RefreshReport) -> dict[Stage, str | None]:
    """The failure of each stage that was tried, or None; that a list is held is none."""
    tried: dict[Stage, str | None] = {"push": None} if report.push is not None else {}
    if report.sites is not None:
        tried["sites"] = None
    if report.pull is not None:
        tried["pull"] = None
    told = {each.stage: each.message for each in report.failures if not isinstance(each.error, HeldError)}
    return tried | told


def _run(
    run: Run,
    settings: Settings,
    report: RefreshReport,
    *,
    on_conflict: OnConflict,
    url_moved: bool,
    progress: RefreshProgress,
    sites: Callable[[], SitesRun] | None,
) -> None:
    before = run.found
    try:
        if before is not None:
            report.generation_before = before.current.generation
        run.check_edits()
        if sites is not None and before is not None:
            _sites(report, sites)
        if sites is not None and settings.url is None and not settings.stack:
            return  # a server of sites is all that it asks
        if settings.url is None:
            _pull(run, settings, None, report, url_moved, None, progress)
            return
        # One connection, and one reading of the secret, which standard input gives only once.
        with run.notices_of_before() as notices, Transport(settings) as transport:
            report.push = PushReport(url=configured_url(settings), notices=notices)
            unmodified = _push(run, settings, transport, report, on_conflict, url_moved, progress)
            if report.push is not None and report.push.service_refuses:
                report.skipped = "the service refuses every request, so the list was not asked for"
            else:
                _pull(run, settings, transport, report, url_moved, unmodified, progress)
    finally:
        if sites is not None and before is None:  # edits are laid over what the pull has published
            _sites(report, sites)
        if report.push is not None and report.pull is not None:
            count_left_over(run.directory, report.push)  # the list may have told what became of an edit
        after = before if run.is_as_found and sites is None else _open(run.directory)
        if after is not None:
            report.generation, report.digest = after.current.generation, after.current.digest
        began = time.monotonic()
        report.changed = _answers_differ(run.directory.home, before, after)
        report.durations_s["answers"] = round(time.monotonic() - began, 3)
        if after is not None and after is not before:
            after.close()


def _sites(report: RefreshReport, sites: Callable[[], SitesRun]) -> None:
    began = time.monotonic()
    try:
        report.sites = sites()
    except GeoLookupError as error:
        report.failures.append(Failure(stage="sites", message=str(error), error=error))
    report.durations_s["sites"] = round(time.monotonic() - began, 3)


def _push(
    run: Run,
    settings: Settings,
    transport: Transport,
    report: RefreshReport,
    on_conflict: OnConflict,
    url_moved: bool,
    progress: RefreshProgress,
) -> Start | None:
    began = time.monotonic()
    directory, push, unmodified = run.directory, report.push, None
    assert push is not None
    try:
        if directory.local.pending():
            require_same_upstream(directory, settings, url_moved=url_moved)
            unmodified = push_locked(
                run,
                settings,
                transport,
                push,
                on_conflict=on_conflict,
                progress=lambda done, total: progress("push", done, total),
            )
    except UpstreamError as error:
        report.failures.append(Failure(stage="push", message=str(error), error=error))
    finally:
        count_left_over(directory, push)
        report.warnings += push.half_done + push.warnings + [notice["reason"] for notice in push.notices]
        push.duration_s = report.durations_s["push"] = round(time.monotonic() - began, 3)
    if push.stopped is not None:
        report.failures.append(Failure(stage="push", message=push.stopped))
    return unmodified


def _pull(
    run: Run,
    settings: Settings,
    transport: Transport | None,
    report: RefreshReport,
    url_moved: bool,
    unmodified: Start | None,
    progress: RefreshProgress,
) -> None:
    pull = report.pull = PullReport(url=settings.url)
    try:
        pull_locked(
            run,
            settings,
            transport,
            pull,
            url_moved=url_moved,
            unmodified=unmodified,
            progress=lambda done, total: progress("pull", done, total),
        )
    except GeoLookupError as error:
        pull.outcome = "held" if isinstance(error, HeldError) else "failed"
        report.failures.append(Failure(stage="pull", message=str(error), error=error))
    finally:
        report.warnings += pull.warnings
        report.durations_s |= pull.durations_s


def _open(directory: StateDirectory) -> Published | None:
    """Open what is served; None if nothing can be."""
    try:
        return directory.open()
    except (NoStateError, StateDamagedError, StateUnreadableError):
        return None


def _answers_differ(home: str, before: Published | None, after: Published | None) -> bool:
    if before is None or after is None:
        return before is not after
    ours, theirs = before.current, after.current
    if (ours.generation, ours.overlay) == (theirs.generation, theirs.overlay):
        return False
    try:
        return fingerprint_of(home, ours, (before.base, before.overlay)) != fingerprint_of(
            home, theirs, (after.base, after.overlay)
        )
    except IndexFileError:
        return True  # what was damaged is whole again, or somebody will be told otherwise


class NextAction(NamedTuple):
    """The next step of a person or program; ``code`` is one of `CODES`, ``words`` a sentence."""

    code: str
    words: str


#: Every code, with what is to be done. A contract: programs rely on the codes.
CODES = {
    "none": "nothing to do",
    "fix-configuration": "correct the settings or options that are named; it fails until then",
    "check-token": "check the token and its permissions; it fails until then",
    "fix-state": "look at the state directory: `geolookup status` and `geolookup verify` say what is wrong there",
    "ask-the-provider": "nothing to do now; if it continues, look at the source, or tell its provider",
    "wait": "nothing to do now: the next run tries again",
    "wait-for-the-other-run": "nothing to do: another run is under way",
    "decide-on-the-list": "look at what is held: `geolookup generations show held`, and `geolookup generations diff "
    "served held`; if it is right: geolookup sync --accept {digest}",
    "decide-on-edits": "decide on the edits that wait (`geolookup outbox list` names them), or that a warning names",
    "decide-on-sites": "look at what would change on the server of the sites: {plan}; if it is right: {apply}",
    "decide-on-twins": "delete the twins, unless they are somebody else's: the warnings name them",
    "run-again": "nothing to do: the next run goes on with the edits that are left over",
    "accept-what-was-rolled-back": "nothing to do, or publish it after all: geolookup sync --accept {digest}",
}


def next_action(report: RefreshReport) -> NextAction:
    """The next action: about what failed first, then about what waits for a person, then about what is left over."""
    digest = ""
    if report.held is not None:
        digest = report.held.digest[:16]
    elif report.pull is not None and report.pull.outcome == "rolled-back":
        digest = (report.pull.digest or "")[:16]
    code = _code(report)
    plan, apply = ("", "") if report.sites is None else (report.sites.plan, report.sites.apply)
    return NextAction(code, CODES[code].format(digest=digest, plan=plan, apply=apply))


def _code(report: RefreshReport) -> str:
    errors = [failure.error for failure in report.failures if not isinstance(failure.error, HeldError)]
    if report.push is not None and report.push.stopped is not None and report.push.lacks_permission:
        return "check-token"
    if errors:
        return next((code for error in errors if error is not None and (code := _code_of(error)) != "wait"), "wait")
    if report.held is not None:
        return "decide-on-the-list"
    if report.push is not None and (report.push.held or report.push.rejected or report.push.notices):
        return "decide-on-edits"
    if report.pull is not None and report.pull.notices:  # a list may hold what the service acknowledged
        return "decide-on-edits"
    if report.pull is not None and report.pull.twins:
        return "decide-on-twins"
    if report.sites is not None and report.sites.waits:
        return "decide-on-sites"
    if report.left_over:
        return "run-again"
    if report.pull is not None and report.pull.outcome == "rolled-back":
        return "accept-what-was-rolled-back"
    return "none"


def _code_of(error: GeoLookupError) -> str:
    if isinstance(error, SettingsError | WrongUpstreamError):
        return "fix-configuration"
    if isinstance(error, UpstreamAuthError):
        return "check-token"
    if isinstance(error, StateBusyError):
        return "wait-for-the-other-run"
    if isinstance(error, StateError):
        return "fix-state"
    return "ask-the-provider" if isinstance(error, PullError | UpstreamAnswerError) else "wait"
