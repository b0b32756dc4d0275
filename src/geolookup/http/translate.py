"""Errors of httpx, its layers and the operating system, turned into ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import h11
import httpcore
import httpx

from geolookup.base.reasons import reason
from geolookup.base.text import harmless
from geolookup.errors import SettingsError, UpstreamAnswerError, UpstreamUnavailableError


class TotalTimeoutError(UpstreamUnavailableError):
    """The answer as a whole took too long. It is not tried again, since another attempt would take as long."""


class Watching(Protocol):
    """What `http_errors` asks of a `Watch`."""

    def clean(self, text: str, /) -> str:
        """Take the secret out of a text."""

    def check(self) -> None:
        """Raise if the time is up."""


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
    """Why it failed. httpx wraps what happened, and shows it in the words of whoever wrapped it: look inside."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError):  # those of TLS and of names are such, too
            return reason(cause)
        cause = cause.__context__
    return reason(error)


def _raw(error: BaseException) -> str:
    """All that an error and those below it say."""
    texts = []
    below: BaseException | None = error
    while below is not None:
        texts.append(str(below))
        below = below.__context__
    return "\n".join(texts)
