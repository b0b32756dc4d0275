"""What an answer's status means: the error to raise, with the explanation in its body (RFC 9457, RFC 9110).

The body may hold anything: what cannot be read is left out of the message, and never hides the status.
"""

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Protocol

import msgspec

from geolookup.base.text import harmless
from geolookup.errors import UpstreamAnswerError, UpstreamAuthError, UpstreamError, UpstreamRefusedError
from geolookup.errors import UpstreamUnavailableError as Unavailable

#: Statuses after which an idempotent request may be sent again.
WORTH_WAITING = frozenset({408, 429, 502, 503, 504})

_SHOWN_ERRORS = 20
_MOST_BYTES = 64 << 10
# RFC 9457 leaves the names of types open: these are names for a missing permission.
_PERMISSION = re.compile(r"auth|scope|forbidden|permission|token|credential|denied", re.IGNORECASE)
_SEPARATORS = re.compile(r"[/#:]")


class Answer(Protocol):
    """An answer whose body streams in; `body.Body` is one."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    def __iter__(self) -> Iterator[bytes]: ...


@dataclass(frozen=True, slots=True)
class Problem:
    """What an error's body says; empty if nothing in it can be read. All text is safe to show."""

    type: str = ""
    title: str = ""
    detail: str = ""
    errors: tuple[tuple[str, str], ...] = field(default=())


def read_problem(body: bytes, clean: Callable[[str], str]) -> Problem:
    """Read problem details (RFC 9457); ``clean`` removes what messages must not show."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return Problem()
    if not isinstance(value, dict):
        return Problem()

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
    return Problem(harmless(clean(name), 80), text(value, "title"), text(value, "detail"), tuple(pairs))


def error_of(what: str, answer: Answer, clean: Callable[[str], str], *, location: str | None = None) -> UpstreamError:
    """`error_for` an answer that was not read yet: its first bytes are, for what they say of the problem."""
    kept = bytearray()
    try:
        for chunk in answer:
            kept += chunk[:_MOST_BYTES]
            if len(kept) >= _MOST_BYTES:
                break
    except UpstreamError:
        pass  # the status is known, and says more than an error in the text after it
    problem = read_problem(bytes(kept), clean)
    return error_for(what, answer.status, problem, retry_after=answer.headers.get("retry-after"), location=location)


def error_for(
    what: str, status: int, problem: Problem, *, retry_after: str | None, location: str | None
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
    if status == 408 or status == 429 or status >= 500:
        wait = retry_after_s(retry_after)
        told = "" if wait is None else f"; it asks to wait {wait:.0f} s"
        return Unavailable(f"{what}: the service answered {status}{said}{told}", status=status, retry_after_s=wait)
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
