"""One HTTP client for the upstream: addresses, authentication, timeouts, bounded retries, httpx's errors as ours."""

import copy
import json as jsonlib
import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

import httpx
import msgspec
import stamina

from geolookup.base.reasons import reason
from geolookup.base.text import harmless
from geolookup.http.body import Body, Watch
from geolookup.http.client import Secrecy, certificates, new_client, secret_header
from geolookup.http.errors import Waits, address_of, error_of, http_errors
from geolookup.model import addresses
from geolookup.model.errors import EditError, SettingsError, UpstreamAnswerError, UpstreamError
from geolookup.settings.secrets import read_secret
from geolookup.settings.table import Settings

#: The most bytes of an answer that is read whole.
MAX_ANSWER_BYTES = 16 << 20

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 section 5.6.2
_PATH = re.compile(r"/[\x21-\x22\x24-\x7e]*")

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer of status 2xx. ``headers`` compare names without regard to case; ``body`` is decompressed."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Authentication(httpx.Auth):
    """Adds the secret to each request, so that no object whose ``repr`` would show it holds it in between."""

    def __init__(self, name: str, value: str) -> None:
        self._name = name
        self._value = value

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers[self._name] = self._value
        yield request

    def __repr__(self) -> str:
        return "<authentication>"


class Transport:
    """Speaks to the service at ``settings.url``; a context manager, for use by one thread at a time.

    ``secret`` is the token (or ``user:password``, or the named header's value); if None, it is read as the settings
    say. ``backoff_s`` is the longest wait before the first retry; it doubles with each.

    :raises SettingsError: if ``url`` is not set, if the secret cannot be used, or if it would leave this machine over
        plain HTTP
    """

    def __init__(self, settings: Settings, *, secret: str | None = None, backoff_s: float = 0.5) -> None:
        if settings.url is None:
            raise SettingsError("no upstream is configured: set `url` (or GEOLOOKUP_URL, or --url)")
        with http_errors("url"):
            url = httpx.URL(settings.url)
        if secret is None:
            secret = read_secret(settings)
        local = addresses.is_loopback(url.host)
        if secret is not None and url.scheme != "https" and not local:
            raise SettingsError(f"url: the token would travel to {url.host} unencrypted: use https://")
        self.settings = settings
        self._base = settings.url
        self._host = url.host
        self._backoff_s = backoff_s
        self._authentication: httpx.Auth | None = None
        hidden: tuple[str, ...] = ()
        if secret is not None:
            self._authentication, hidden = _authentication(settings, secret)
        self._local = local
        self._trusted = certificates(url.scheme, trust_env=settings.trust_env)
        self._client = self._connected()
        self._stream: object = None
        self._watch: Watch | None = None
        self._secrecy = Secrecy(*hidden)
        self._is_another = self._is_cut = False

    def _connected(self) -> httpx.Client:
        encoding = "gzip" if self.settings.compression else "identity"
        return new_client(
            timeout=httpx.Timeout(self.settings.read_timeout_s, connect=self.settings.connect_timeout_s),
            trusted=self._trusted,
            trust_env=self.settings.trust_env and not self._local,  # a proxy on the way to this machine sees the token
            headers={"Accept": "application/json", "Accept-Encoding": encoding},
            auth=self._authentication,
        )

    def another(self, *, attempts: int) -> "Transport":
        """One more to the same service, with connections of its own, for another thread; close it before this one."""
        other = copy.copy(self)
        settings = msgspec.structs.replace(self.settings, attempts=attempts)
        vars(other).update(settings=settings, _client=self._connected(), _stream=None, _watch=None, _is_another=True)
        return other

    def cut(self) -> None:
        """Break off what another thread has under way: it fails there, as if the connection had broken. For good."""
        self._is_cut = True
        watch = self._watch
        if watch is not None:
            watch.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Transport to {self._base}>"

    def close(self) -> None:
        """Close all connections."""
        if not self._is_another:
            self._secrecy.stop()
        self._client.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int | None] | None = None,
        json: object = None,
        headers: Mapping[str, str] | None = None,
        idempotent: bool,
    ) -> Answer:
        """Send one request and read the whole answer; parameters that are None are left out.

        ``json`` is a value to be written as JSON, or bytes that are a JSON text and are sent as they are.
        Only an ``idempotent`` one is ever sent again.

        :raises UpstreamUnavailableError: no answer, a broken connection, 408, 429 or 5xx; its ``sent`` is false only
            if no byte of the request left this machine
        :raises UpstreamAuthError: 401, or 403 for a missing permission
        :raises UpstreamRefusedError: any other 4xx
        :raises UpstreamAnswerError: a redirect, or an answer that is cut short, too large or not HTTP
        """

        def once() -> Answer:
            body = self._open(method, path, params, json, headers, good=range(200, 300))
            try:
                return Answer(body.status, body.headers, _read_whole(body, f"{method} {path}"))
            finally:
                body.close()

        return self._attempt(once) if idempotent else once()

    def stream(
        self,
        path: str,
        *,
        params: Mapping[str, str | int | None] | None = None,
        headers: Mapping[str, str] | None = None,
        good: tuple[int, ...] = (200,),
    ) -> Body:
        """GET, and hand out the answer before its body is read; errors as `request`. Close what it returns.

        It is tried again until there is an answer of a ``good`` status, and never after that.
        """
        return self._attempt(lambda: self._open("GET", path, params, None, headers, good=good))

    def _open(
        self,
        method: str,
        path: str,
        params: Mapping[str, str | int | None] | None,
        json: object,
        headers: Mapping[str, str] | None,
        *,
        good: range | tuple[int, ...],
    ) -> Body:
        what = f"{method} {path}"
        request = self._build(what, method, path, params, json, headers)
        watch = Watch(self.settings.total_timeout_s, what, self._secrecy.clean)
        self._watch = watch
        if self._is_cut:
            watch.cut()
        watch.over(self._stream)  # the connection that will most likely be used again
        request.extensions["trace"] = watch.trace
        try:
            with http_errors(what, at=address_of(request.url), watch=watch):
                response = self._client.send(request, stream=True)
            self._stream = response.extensions.get("network_stream")
            watch.over(self._stream)
        except BaseException:
            watch.stop()
            raise
        body = Body(response, watch, compression=self.settings.compression)
        if body.status in good:
            return body
        try:
            raise self._error(what, body)
        finally:
            body.close()

    def _build(
        self,
        what: str,
        method: str,
        path: str,
        params: Mapping[str, str | int | None] | None,
        json: object,
        headers: Mapping[str, str] | None,
    ) -> httpx.Request:
        if not _PATH.fullmatch(path):
            raise SettingsError(
                f"the path {harmless(path)!r} cannot be used: it must begin with / and must not hold a blank or #"
            )
        sent = dict(headers or {})
        content = None
        if json is not None:
            sent["Content-Type"] = "application/json"
            content = json if isinstance(json, bytes) else _written(what, json)
        with http_errors(what):
            url = httpx.URL(self._base + path)
            if params:
                url = url.copy_merge_params({key: value for key, value in params.items() if value is not None})
            if url.host != self._host:
                raise SettingsError(f"the path {harmless(path)!r} cannot be used: it leads to another host")
            try:
                return self._client.build_request(method, url, content=content, headers=sent)
            except (UnicodeError, TypeError) as error:
                raise EditError(f"{what}: a header to be sent is not plain text") from error

    def _error(self, what: str, body: Body) -> UpstreamError:
        location = body.headers.get("location")
        shown = harmless(self._secrecy.clean(location)) if location else None
        return error_of(what, body, self._secrecy.clean, location=shown)

    def _attempt(self, action: Callable[[], _T]) -> _T:
        waits = Waits(self._backoff_s, self.settings.max_wait_s)
        retries = stamina.retry_context(on=waits.before_retrying, attempts=self.settings.attempts, timeout=None)
        for attempt in retries:
            with attempt:
                return action()
        raise AssertionError("stamina ends with an answer or an error")


def _authentication(settings: Settings, secret: str) -> tuple[httpx.Auth, tuple[str, ...]]:
    """The secret's header for every request, and the texts that must not be shown."""
    if not (secret and secret.isascii() and secret.isprintable() and secret == secret.strip()):
        raise SettingsError("the token cannot be sent: it must be one line of plain text")
    if settings.auth == "header" and not _HEADER_NAME.fullmatch(settings.auth_header):
        raise SettingsError(f"auth_header: {harmless(settings.auth_header)!r} is not the name of a header")
    name, value, hidden = secret_header(secret, settings.auth, settings.auth_header, form="user:password")
    return _Authentication(name, value), hidden


def _read_whole(body: Body, what: str) -> bytes:
    content = bytearray()
    for chunk in body:
        content += chunk
        if len(content) > MAX_ANSWER_BYTES:
            raise UpstreamAnswerError(f"{what}: the answer has more than {MAX_ANSWER_BYTES} bytes")
    return bytes(content)


def _written(what: str, json: object) -> bytes:
    try:
        return jsonlib.dumps(json, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (ValueError, TypeError) as error:
        raise EditError(f"{what}: what is to be sent cannot be written as JSON: {reason(error)}") from error
