"""Every error that geolookup raises on purpose.

::

    GeoLookupError
    ├── InvalidAddressError       text that is not an IP address (also a ValueError)
    ├── InvalidRangeError         two addresses that are not a range, or text that is not a network (also a ValueError)
    ├── SettingsError             a setting, option or file of settings that cannot be used
    │   └── UnknownVrfError           no VRF has that name
    ├── DataFileError             a data file with a bad row: names the file and the line
    ├── ColumnError               a column or field that cannot be located: missing, taken, or of another type
    ├── MissingExtraError         a package that an optional part needs is not installed (also an ImportError)
    ├── LicenceError              data that a source's licence does not let others have
    ├── IndexFileError            an index file that cannot be used
    │   ├── IndexDamagedError         its bytes are not what was written
    │   └── IndexTooNewError          its major version is not ours
    ├── StateError                the state directory cannot do what was asked
    │   ├── NoStateError              nothing has been published there yet
    │   ├── StateDamagedError         CURRENT, a generation or edits.db is not what was written
    │   │   └── EditsDamagedError         edits.db is damaged, gone or lacks what was published
    │   ├── StateTooNewError          a format's version is not ours
    │   ├── StateBusyError            another run holds the lock
    │   ├── UnknownGenerationError    the generation is not kept
    │   ├── StaleDataError            what is served is older than the limit that was set
    │   ├── StateUnreadableError      another user's: this one may not read it
    │   ├── StateUnwritableError      read-only, full or not ours
    │   └── WrongUpstreamError        the state belongs to another upstream address
    ├── UpstreamError             the service could not be used
    │   ├── UpstreamUnavailableError  timeout, 429, 503 or a broken connection: waiting may help
    │   ├── UpstreamAuthError         401, or 403 if the scope is missing
    │   ├── UpstreamRefusedError      a definite 4xx: nothing was changed
    │   └── UpstreamAnswerError       an answer that cannot be believed: cut, unreadable, of the wrong shape
    ├── PullError                 a whole answer that must not be published
    │   └── HeldError                 it is kept for a person to accept
    ├── EditError                 an edit that cannot be made
    │   ├── BlockError                a block that is missing, or somebody's already
    │   ├── DefaultGeolocationError   default geolocations can be neither edited nor deleted
    │   ├── UnknownGeolocationError   no custom geolocation has that locid
    │   ├── WideBlockError            a block of more public addresses than a person is likely to mean
    │   ├── TooMuchGoneError          a file of sites that would delete more than the guard allows
    │   └── ChangedSinceError         a file of sites that would revert what others changed since it was made
    ├── PlanError                 a saved plan that cannot be applied
    └── ServiceError              the reference service cannot start or do what was asked
        └── RequestRefusedError       a request that it answers with a problem (RFC 9457)

Errors of httpx, sqlite3 and JSON never escape: they are translated in the folder that owns the library, and
stand as ``__cause__``. A message says what was wrong, with which row or file, and what to do.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class GeoLookupError(Exception):
    """The base of all errors that geolookup raises on purpose.

    If a message is of several lines, each is one of ``args``: a name in one of them may have line feeds of its own.
    ``told`` is what was wrong. ``do`` is what to do about it on the command line or in a program, and the end of the
    message: a page has buttons for that, and leaves it out. It is empty where the advice is the same everywhere.
    """

    def __init__(self, *lines: object, do: str = "") -> None:
        super().__init__(*lines)
        self.do = do

    @property
    def told(self) -> str:
        """The message without ``do``."""
        return "\n".join(map(str, self.args))

    @property
    def lines(self) -> list[str]:
        """The whole message by its lines."""
        found = [*map(str, self.args)] or [""]
        return [*found[:-1], f"{found[-1]}: {self.do}"] if self.do else found

    def __str__(self) -> str:
        return "\n".join(self.lines)


class InvalidAddressError(GeoLookupError, ValueError):
    """Text that is not an IP address, or an object of a type that cannot be one."""


class InvalidRangeError(GeoLookupError, ValueError):
    """Two addresses that are not an inclusive range, or text that is not a network."""


class SettingsError(GeoLookupError):
    """A setting, option or settings file that cannot be used; names the key and where it came from."""


class UnknownVrfError(SettingsError):
    """No VRF has that name; the message lists the names."""


class DataFileError(GeoLookupError):
    """A data file that cannot be used: the message begins with the file's name and, if there is one, the line."""


class ColumnError(GeoLookupError, ValueError):
    """A column or field that cannot be located: missing, named twice, of a type that holds no addresses, or damaged."""


class MissingExtraError(GeoLookupError, ImportError):
    """A package that an optional part needs is not installed: the message names the extra that brings it."""


class LicenceError(GeoLookupError):
    """Data that a source's licence does not let others have: they are neither exported nor shared."""


class IndexFileError(GeoLookupError):
    """An index file that cannot be used."""


class IndexDamagedError(IndexFileError):
    """The file's bytes are not what was written: truncated, overwritten, or never an index."""


class IndexTooNewError(IndexFileError):
    """The file's format has a major version that this release does not know."""


class StateError(GeoLookupError):
    """The state directory cannot do what was asked."""


class NoStateError(StateError):
    """Nothing has been published in the state directory yet."""


class StateDamagedError(StateError):
    """CURRENT, a generation or edits.db is not what was written."""


class EditsDamagedError(StateDamagedError):
    """edits.db is not what was written, is gone, or lacks what was published: names the command that helps."""


class StateTooNewError(StateError):
    """A newer release, or a build before the first, wrote a file of the state directory: nothing was touched."""


class StateBusyError(StateError):
    """Another run holds the lock: try again later."""


class UnknownGenerationError(StateError):
    """No such generation is kept, or nothing is known of the moment asked for: the message names those that are."""


class StaleDataError(StateError):
    """The served data are older than ``max_age``, and ``stale`` says to refuse them; ``age_s`` is in seconds."""

    def __init__(self, message: str, *, age_s: float) -> None:
        super().__init__(message)
        self.age_s = age_s


class StateUnreadableError(StateError):
    """This user may not read the state directory, or something in it: the message says whose it is, and what to do."""


class StateUnwritableError(StateError):
    """The state directory is read-only, full, or belongs to somebody else."""


class WrongUpstreamError(StateError):
    """The state belongs to another upstream address."""


class UpstreamError(GeoLookupError):
    """The upstream service could not be used."""


class UpstreamUnavailableError(UpstreamError):
    """Timeout, 429, 5xx or a broken connection: waiting may help.

    ``sent`` is false only if it is certain that no byte of the request left this machine; ``status`` is the HTTP
    status if there was an answer; ``retry_after_s`` is what the service asked for, in seconds, or None.
    """

    def __init__(
        self, message: str, *, sent: bool = True, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.sent = sent
        self.status = status
        self.retry_after_s = retry_after_s


class UpstreamAuthError(UpstreamError):
    """401, or 403 if the scope is missing: nothing was changed, and any other request would fail too."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class UpstreamRefusedError(UpstreamError):
    """A definite refusal: nothing was changed.

    ``status`` is the HTTP status; ``problem_type`` the last part of the problem's ``type`` (RFC 9457), or "" if
    the service gave none; ``errors`` its (pointer, detail) pairs.
    """

    def __init__(
        self, message: str, *, status: int, problem_type: str = "", errors: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem_type = problem_type
        self.errors = errors


class UpstreamAnswerError(UpstreamError):
    """An answer that cannot be believed: cut short, unreadable, or of the wrong shape."""


class PullError(GeoLookupError):
    """A whole answer that must not be published: nothing was changed."""


class HeldError(PullError):
    """A pulled candidate that is kept for a person to accept; ``digest`` names it, ``reasons`` say why."""

    def __init__(self, message: str, *, digest: str, reasons: tuple[str, ...]) -> None:
        super().__init__(message)
        self.digest = digest
        self.reasons = reasons


class EditError(GeoLookupError):
    """An edit that cannot be made; nothing was changed."""


class BlockError(EditError):
    """A block that the geolocation does not have, or that is there already.

    ``owners`` has the locid of each block (an `IPBlock`) that another geolocation has.
    """

    def __init__(self, message: str, *, do: str = "", owners: "Mapping[Any, int] | None" = None) -> None:
        super().__init__(message, do=do)
        self.owners = owners or {}


class DefaultGeolocationError(EditError):
    """Default geolocations (locid above zero) can be neither edited nor deleted."""


class UnknownGeolocationError(EditError):
    """No custom geolocation has that locid."""


class WideBlockError(EditError):
    """A block of more public addresses than a /8, or an IPv6 /24, or of private and public ones: ``wide`` allows it.

    ``told`` says what it covers, in numbers.
    """

    def __init__(self, told: str, do: str = "pass wide=True if that is meant") -> None:
        super().__init__(told, do=f"{do}. Nothing was changed")


class TooMuchGoneError(EditError):
    """A file of sites after which more would be gone than the guard allows: a person must accept it."""


class ChangedSinceError(EditError):
    """A file of sites that would revert what others changed since it was made: a person must say what to keep."""


class PlanError(GeoLookupError):
    """A saved plan that cannot be applied: unreadable, or made for a service or an outbox that has moved since."""


class ServiceError(GeoLookupError):
    """The reference service cannot start, or cannot do what was asked of it."""


class RequestRefusedError(ServiceError):
    """A request that the reference service refuses: it changes nothing, and is answered by a problem (RFC 9457).

    ``problem`` is the problem's stable name, ``errors`` the (JSON pointer, detail) pairs of the body's members.
    """

    def __init__(self, message: str, *, problem: str, errors: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.problem = problem
        self.errors = errors
