"""The exit statuses of the command, and the one that a run ends with. A contract: scripts rely on it.

Nothing else decides an exit status: errors, pushes, refreshes and checks are mapped here, and the pages and the help
show this table. Light, since ``geolookup 8.8.8.8`` ends with a status of it too.
"""

from geolookup.model.errors import (
    ChangedSinceError,
    ColumnError,
    EditError,
    GeoLookupError,
    HeldError,
    InvalidAddressError,
    InvalidRangeError,
    LicenceError,
    MissingExtraError,
    SettingsError,
    StateBusyError,
    TooMuchGoneError,
    UnknownGenerationError,
    WideBlockError,
    WrongUpstreamError,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from geolookup.sync.push.report import PushReport
    from geolookup.sync.refresh import RefreshReport

DONE = 0
FAILED = 1
USAGE = 2
HELD = 3
NOT_COVERED = 4
MALFORMED = 5
#: EX_TEMPFAIL of sysexits.h.
BUSY = 75
#: As shells have it: 128 and the number of SIGINT.
INTERRUPTED = 130
#: The same of SIGTERM, for the commands that do not serve.
TERMINATED = 143

_BUSY_IN_FULL = (
    "another run holds the lock: try again later, or wait for it (`--wait 10m`); under `set -e` it is mostly "
    "no failure, since the other run does the same: `geolookup refresh || [ $? -eq 75 ]`"
)
#: Every exit status with what it means: in two words for the help, and in full.
TABLE = {
    DONE: ("done", "done"),
    FAILED: ("failed", "failed: published data are as before, and running it again continues"),
    USAGE: ("wrong usage", "wrong usage or configuration"),
    HELD: ("held for a person", "held: not published, or not sent, until you confirm"),
    NOT_COVERED: (
        "not covered",
        "some of the addresses asked for are not covered (the answers for the others were printed)",
    ),
    MALFORMED: (
        "malformed",
        "some of the addresses were malformed, of a file more than 1 % (the others were done); beats 4",
    ),
    BUSY: (
        "another run is under way",
        _BUSY_IN_FULL,
    ),
    INTERRUPTED: (
        "interrupted",
        "interrupted by Ctrl-C: the last line says how far it came, what is safe, and what to run next",
    ),
    TERMINATED: (
        "ended by SIGTERM",
        "ended by SIGTERM (`kill`, `systemctl stop`): the last line says the same; servers end with 0",
    ),
}


def summary() -> str:
    """The table in two lines, for the help."""
    import textwrap  # late: a plain lookup passes here and shows no help

    return (
        "Exit status: "
        + textwrap.fill(
            ", ".join(f"{code} {short}" for code, (short, _) in TABLE.items()) + ".",
            width=95,
            initial_indent=" " * len("Exit status: "),
            break_on_hyphens=False,
        ).lstrip()
    )


_BY_ERROR: tuple[tuple[type[GeoLookupError], int], ...] = (
    (SettingsError, USAGE),
    (ColumnError, USAGE),
    (LicenceError, USAGE),
    (MissingExtraError, USAGE),
    (WrongUpstreamError, USAGE),
    (UnknownGenerationError, USAGE),
    (TooMuchGoneError, HELD),
    (ChangedSinceError, HELD),
    (WideBlockError, HELD),
    (EditError, USAGE),
    (InvalidRangeError, USAGE),
    (InvalidAddressError, MALFORMED),
    (HeldError, HELD),
    (StateBusyError, BUSY),
)


def of_error(error: GeoLookupError) -> int:
    """The exit status for an error that ended a command."""
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), FAILED)


def of_push(report: "PushReport") -> int:
    """The exit status of a push: 0 everything went, 3 some are held until you confirm, 1 anything else is left over."""
    if report.stopped is not None:
        return FAILED
    if report.held or report.rejected or report.notices:
        return HELD
    return FAILED if report.unknown or report.queued else DONE


def of_refresh(report: "RefreshReport") -> int:
    """The exit status of a refresh: what failed as a whole, then what waits for a person, then what is left over."""
    codes = {FAILED if failure.error is None else of_error(failure.error) for failure in report.failures}
    for code in (USAGE, FAILED, BUSY):
        if code in codes:
            return code
    if report.for_a_person:
        return HELD
    return FAILED if codes or report.left_over else DONE


def of_contents(*, bad: int, refused: bool) -> int:
    """The exit status of ``check``."""
    return FAILED if bad or refused else DONE


def of_checks(*, wrong: int) -> int:
    """The exit status of ``doctor``."""
    return FAILED if wrong else DONE


def of_status(*, stale: bool, problem: bool, held: bool) -> int:
    """The exit status of ``status --check``."""
    if stale or problem:
        return FAILED
    return HELD if held else DONE
