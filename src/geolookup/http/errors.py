"""Everything that can go wrong with a request, as our errors, and which of them are worth another attempt.

httpx's exceptions, those of the layers below it, and statuses with the explanation in their bodies (RFC 9457, RFC
9110). A body may hold anything: text that cannot be read is left out of the message, and never hides the status.
"""

import math
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Protocol, TypeGuard

import h11
import httpcore
import httpx
import msgspec

from geolookup.base.reasons import reason
from geolookup.base.text import harmless
from geolookup.model.errors import (
    SettingsError,
    UpstreamAnswerError,
    UpstreamAuthError,
    UpstreamError,
    UpstreamRefusedError,
    UpstreamUnavailableError,
)

#: Statuses by which the service says that it did not carry a request out: any request may be sent again.
NOT_CARRIED_OUT = frozenset({408, 429})
#: Statuses by which the service asks to wait before the next request.
ASKS_TO_WAIT = NOT_CARRIED_OUT | {503}
#: Statuses after which an idempotent request may be sent again.
WORTH_WAITING = ASKS_TO_WAIT | {502, 504}


class TotalTimeoutError(UpstreamUnavailableError):
    """The answer as a whole took too long. It is not tried again, since another attempt would take as long."""


class Watching(Protocol):
    """The part of a `Watch` that `http_errors` uses."""

    def clean(self, text: str, /) -> str:
        """Take the secret out of a text."""

    def check(self) -> None:
        """Raise if the time is up."""


_SHOWN_ERRORS = 20
_MOST_BYTES = 64 << 10
# RFC 9457 leaves the names of types open: these are names for a missing permission.
_PERMISSION = re.compile(r"auth|scope|forbidden|permission|token|credential|denied", re.IGNORECASE)
_SEPARATORS = re.compile(r"[/#:]")
# Only for these it is certain that no byte of the request left this machine.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_OTHERS = (httpx.StreamError, httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)


@contextmanager
def http_errors(
    what: str, *, at: str = "the service", body: bool = False, watch: Watching | None = None
) -> Iterator[None]:
    """Run a block that speaks HTTP.

    ``what`` names the request, ``at`` what it is sent to (see `address_of`); ``body`` says that the answer has begun.
    """
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, httpx.CookieConflict, h11.ProtocolError, OSError, *_OTHERS) as error:
        said = _reason(error)
        if watch is None:
            raise _ours(what, at, error, harmless(said), body) from error
        watch.check()
        # Some servers repeat the request in their answer: then the cause must not be shown either.
        raw = _raw(error)
        cause = error if watch.clean(raw) == raw else None
        raise _ours(what, harmless(watch.clean(at)), error, harmless(watch.clean(said)), body) from cause


def address_of(url: httpx.URL) -> str:
    """Scheme, host and port of an address, for messages: what follows them, and a user before them, may be secret."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _ours(what: str, at: str, error: Exception, said: str, body: bool) -> Exception:
    if isinstance(error, _NOT_SENT):
        return UpstreamUnavailableError(f"{what}: {at} cannot be reached: {said}", sent=False)
    if isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL):
        return SettingsError(f"{what}: the address cannot be used: {said}")
    if isinstance(error, httpx.TimeoutException | httpcore.TimeoutException | TimeoutError):
        return UpstreamUnavailableError(f"{what}: the service was silent for too long")
    if isinstance(error, httpx.RemoteProtocolError | h11.RemoteProtocolError | httpcore.RemoteProtocolError):
        if body:
            return UpstreamAnswerError(f"{what}: the answer was cut short: {said}")
        if "without an answer" not in said:
            return UpstreamAnswerError(f"{what}: the answer is not HTTP: {said}")
    if isinstance(error, httpx.DecodingError | httpx.TooManyRedirects):
        return UpstreamAnswerError(f"{what}: the answer cannot be read: {said}")
    return UpstreamUnavailableError(f"{what}: the connection broke: {said}")


def _reason(error: BaseException) -> str:
    """The reason of the innermost error: httpx wraps it, and shows it in the words of the wrapper."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError):  # those of TLS and of names are such, too
            return reason(cause)
        cause = cause.__context__
    return reason(error)


def _raw(error: BaseException) -> str:
    """The texts of an error and of those below it."""
    texts = []
    below: BaseException | None = error
    while below is not None:
        texts.append(str(below))
        below = below.__context__
    return "\n".join(texts)


class StreamedAnswer(Protocol):
    """An answer whose body streams in; `body.Body` is one."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    def __iter__(self) -> Iterator[bytes]: ...


@dataclass(frozen=True, slots=True)
class _Problem:
    """The problem details of an error's body; empty if nothing in it can be read. All text is safe to show."""

    type: str = ""
    title: str = ""
    detail: str = ""
    errors: tuple[tuple[str, str], ...] = field(default=())


def _read_problem(body: bytes, clean: Callable[[str], str]) -> _Problem:
    """Read problem details (RFC 9457); ``clean`` removes what messages must not show."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _Problem()
    if not isinstance(value, dict):
        return _Problem()

    def text(holder: dict[str, object], name: str, limit: int = 300) -> str:
        found = holder.get(name)
        return harmless(clean(found), limit) if isinstance(found, str) else ""

    kind = value.get("type")
    name = _SEPARATORS.split(kind.rstrip("/"))[-1] if isinstance(kind, str) and kind != "about:blank" else ""
    errors = value.get("errors")
    pairs = [
        (text(entry, "pointer"), text(entry, "detail"))
        for entry in (errors[:_SHOWN_ERRORS] if isinstance(errors, list) else ())
        if isinstance(entry, dict)
    ]
    return _Problem(harmless(clean(name), 80), text(value, "title"), text(value, "detail"), tuple(pairs))


def error_of(
    what: str, answer: StreamedAnswer, clean: Callable[[str], str], *, location: str | None = None
) -> UpstreamError:
    """The error that an unsuccessful answer stands for; its first bytes are read for the problem that they tell."""
    kept = bytearray()
    try:
        for chunk in answer:
            kept += chunk[:_MOST_BYTES]
            if len(kept) >= _MOST_BYTES:
                break
    except UpstreamError:
        pass  # the status says more than an error in the text after it
    problem = _read_problem(bytes(kept), clean)
    return _error_for(what, answer.status, problem, retry_after=answer.headers.get("retry-after"), location=location)


def _error_for(
    what: str, status: int, problem: _Problem, *, retry_after: str | None, location: str | None
) -> UpstreamError:
    """The error that an unsuccessful status stands for. ``what`` names the request, ``location`` where it points."""
    said = ": ".join(filter(None, (problem.title, problem.detail)))
    fields = "; ".join(": ".join(filter(None, pair)) for pair in problem.errors)
    said = f": {said}" if said else ""
    said += f" ({fields})" if fields else ""
    if status == 401 or (status == 403 and (not problem.type or _PERMISSION.search(problem.type))):
        hint = (
            "check the token (`token_file`, or GEOLOOKUP_TOKEN)"
            if status == 401
            else "the token lacks the permission for this: use one that has it"
        )
        return UpstreamAuthError(f"{what}: the service answered {status}{said}; {hint}", status=status)
    if status in NOT_CARRIED_OUT or status >= 500:
        wait = retry_after_s(retry_after)
        told = "" if wait is None else f"; it asks to wait {wait:.0f} s"
        return UpstreamUnavailableError(
            f"{what}: the service answered {status}{said}{told}", status=status, retry_after_s=wait
        )
    if 400 <= status < 500:
        return UpstreamRefusedError(
            f"{what}: the service refused it with {status}{said}",
            status=status,
            problem_type=problem.type,
            errors=problem.errors,
        )
    if status == 304:
        return UpstreamAnswerError(
            f"{what}: the service answered 304 (not modified), though the request had no condition: there is nothing it"
            " could be unchanged from. Look at the service, and at caches before it"
        )
    if 300 <= status < 400:
        to = f" to {location}" if location else ""
        return UpstreamAnswerError(
            f"{what}: the service redirects{to} ({status}). Redirects are not followed, since they could take the token"
            " elsewhere: set `url` to the address that answers"
        )
    return UpstreamAnswerError(f"{what}: the service answered with the unexpected status {status}{said}")


def retry_after_s(value: str | None) -> float | None:
    """The seconds that ``Retry-After`` asks for (RFC 9110 section 10.2.3), never negative; None if unreadable."""
    if not value:
        return None
    value = value.strip()
    if value.isascii() and value.replace(".", "", 1).isdigit():
        seconds = float(value)
        return seconds if math.isfinite(seconds) else None
    try:
        moment = parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, OverflowError, OSError):
        return None
    return max(0.0, moment - time.time())


def may_be_retried(error: Exception) -> TypeGuard[UpstreamUnavailableError]:
    """True if an idempotent request that failed so may be sent again."""
    return isinstance(error, UpstreamUnavailableError) and (error.status is None or error.status in WORTH_WAITING)


class Waits:
    """The waits before the retries of one request, for stamina: full jitter, ``Retry-After``, and a limit.

    The first wait is at most ``first_s`` seconds, each next one at most twice as long; all waits together are at most
    ``max_wait_s``.
    """

    def __init__(self, first_s: float, max_wait_s: float) -> None:
        self._longest_s = first_s
        self._left_s = max_wait_s

    def before_retrying(self, error: Exception) -> bool | float:
        """The seconds to wait, or false if the error is final."""
        if not may_be_retried(error) or isinstance(error, TotalTimeoutError):
            return False
        wait_s = random.uniform(0, self._longest_s)  # noqa: S311 - spreads clients, hides nothing
        self._longest_s *= 2
        if error.retry_after_s is not None:
            wait_s = max(wait_s, error.retry_after_s)
        self._left_s -= wait_s
        return wait_s if self._left_s >= 0 else False
