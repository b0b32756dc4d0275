"""What to do next after a refresh: one stable code for programs, and a sentence for people."""

from typing import NamedTuple

from geolookup.errors import (
    GeoLookupError,
    HeldError,
    PullError,
    SettingsError,
    StateBusyError,
    StateError,
    UpstreamAnswerError,
    UpstreamAuthError,
    WrongUpstreamError,
)
from geolookup.sync.refresh import RefreshReport


class NextAction(NamedTuple):
    """``code`` is one of `CODES`."""

    code: str
    words: str


#: Every code, with what is to be done. A contract: programs rely on the codes.
CODES = {
    "none": "nothing to do",
    "fix-configuration": "correct the settings or options that are named; it fails until then",
    "check-token": "check the token and its permissions; it fails until then",
    "fix-state": "do what the error says; `geolookup status` and `geolookup verify` say more about the state directory",
    "ask-the-provider": "nothing to do now; if it continues, look at the source, or tell its provider",
    "wait": "nothing to do now: the next run tries again",
    "wait-for-the-other-run": "nothing to do: another run is under way",
    "decide-on-the-list": "look at what is held: `geolookup generations show held`, and `geolookup generations diff "
    "served held`; if it is right: geolookup sync --accept {digest}",
    "decide-on-edits": "decide on the edits that wait (`geolookup outbox list` names them), or that a warning names",
    "decide-on-twins": "delete the twins, unless they are somebody else's: the warnings name them",
    "run-again": "nothing to do: the next run goes on with the edits that are left over",
    "accept-what-was-rolled-back": "nothing to do, or publish it after all: geolookup sync --accept {digest}",
}


def next_action(report: RefreshReport) -> NextAction:
    """What to do next: about what failed first, then about what waits for a person, then about what is left over."""
    digest = ""
    if report.held is not None:
        digest = report.held.digest[:16]
    elif report.pull is not None and report.pull.outcome == "rolled-back":
        digest = (report.pull.digest or "")[:16]
    code = _code(report)
    return NextAction(code, CODES[code].format(digest=digest))


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
