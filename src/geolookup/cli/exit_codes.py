"""What the exit status of the command means. A contract: scripts rely upon it."""

from geolookup.errors import (
    ColumnError,
    EditError,
    GeoLookupError,
    HeldError,
    InvalidAddressError,
    InvalidRangeError,
    MissingExtraError,
    SettingsError,
    StateBusyError,
    UnknownGenerationError,
    WrongUpstreamError,
)

DONE = 0
#: Published data are as before, and running it again continues.
FAILED = 1
#: Wrong usage or configuration.
USAGE = 2
#: Held: a person must decide.
HELD = 3
#: Some of the addresses asked for are not covered; the answers for the others were printed.
NOT_COVERED = 4
#: Some of the addresses or rows given were malformed; the others were done. Beats NOT_COVERED.
MALFORMED = 5
#: Another run holds the lock: try again later (EX_TEMPFAIL of sysexits.h).
BUSY = 75

_BY_ERROR: tuple[tuple[type[GeoLookupError], int], ...] = (
    (SettingsError, USAGE),
    (ColumnError, USAGE),
    (MissingExtraError, USAGE),
    (WrongUpstreamError, USAGE),
    (UnknownGenerationError, USAGE),
    (EditError, USAGE),
    (InvalidRangeError, USAGE),
    (InvalidAddressError, MALFORMED),
    (HeldError, HELD),
    (StateBusyError, BUSY),
)


def exit_code(error: GeoLookupError) -> int:
    """The exit status for an error that ended a command."""
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), FAILED)
