"""Fetching a source's file over HTTP if it changed, through a few redirects; only the first host gets the secret."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import httpx
import stamina

from geolookup.base.text import harmless
from geolookup.http.body import Body, Watch
from geolookup.http.client import Secrecy, certificates, new_client, secret_header
from geolookup.http.errors import Waits, address_of, error_of, http_errors
from geolookup.model import addresses
from geolookup.model.errors import SettingsError, UpstreamAnswerError, UpstreamError
from geolookup.model.reports import Progress, unwatched
from geolookup.settings.table import Settings

MOST_REDIRECTS = 5
_FIRST_WAIT_S = 0.5
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The result of a conditional request: ``unchanged``, or a whole body that was handed on.

    ``etag`` and ``last_modified`` are the answer's, for the next request; None if it had none.
    """

    unchanged: bool
    etag: str | None
    last_modified: str | None
    bytes_read: int = 0


class Downloader:
    """Fetches the file of one source. ``secret`` is its own: requests of other sources never carry it.

    ``auth`` says how it travels (``bearer``, ``basic`` or ``header``), or is "" if it stands in the address, as
    {token}.

    :raises SettingsError: if the secret cannot be sent
    """

    def __init__(self, settings: Settings, *, secret: str | None, auth: str = "", auth_header: str = "") -> None:
        self._settings = settings
        self._headers, hidden = _headers(secret, auth, auth_header)
        self._secrecy = Secrecy(*hidden)
        self._clients: dict[bool, httpx.Client] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._secrecy.stop()
        for client in self._clients.values():
            client.close()

    def __repr__(self) -> str:
        return "<Downloader>"

    def shown(self, text: str) -> str:
        """A text without the secret."""
        return harmless(self._secrecy.clean(text))

    def fetch(
        self,
        url: str,
        begin: Callable[[], Callable[[bytes], object]],
        *,
        etag: str | None = None,
        last_modified: str | None = None,
        progress: Progress = unwatched,
    ) -> Fetched:
        """Fetch the file. ``begin`` is called before each attempt's first byte, and returns what takes the bytes.

        ``progress`` is called with the bytes so far and, if the answer says it, their total number.

        :raises UpstreamError: as `Transport.request`; too many redirects, or one that leaves https, is an
            UpstreamAnswerError
        :raises SettingsError: if the address cannot be used
        """
        condition = {}
        if etag is not None:
            condition["If-None-Match"] = etag
        if last_modified is not None:
            condition["If-Modified-Since"] = last_modified
        waits = Waits(_FIRST_WAIT_S, self._settings.max_wait_s)
        for attempt in stamina.retry_context(on=waits.before_retrying, attempts=self._settings.attempts, timeout=None):
            with attempt:
                return self._once(url, lambda _offset: begin(), condition, progress)
        raise AssertionError("stamina ends with an answer or an error")

    def fetch_rest(
        self,
        url: str,
        begin: Callable[[int], Callable[[bytes], object]],
        there: Callable[[], int],
        *,
        progress: Progress = unwatched,
    ) -> None:
        """Fetch a file that never changes, from the byte on up to which ``there`` says that it has come.

        ``begin`` is called with the offset at which an attempt begins, which is 0 if the server knows no ranges. An
        attempt that brought something does not count: a slow line gets large files, too. Errors are those of `fetch`.
        """
        waits = Waits(_FIRST_WAIT_S, self._settings.max_wait_s)
        failed = 0
        while True:
            before = there()
            try:
                self._once(url, begin, {"Range": f"bytes={before}-"} if before else {}, progress)
            except UpstreamError as error:
                wait_s = waits.before_retrying(error)
                if there() <= before:
                    failed += 1
                # A connection that broke in the middle is tried again as one that never stood.
                cut = there() > before and failed < self._settings.attempts
                if not cut and (wait_s is False or failed >= self._settings.attempts):
                    raise
                time.sleep(0.0 if cut else wait_s)
            else:
                return

    def _once(
        self,
        url: str,
        begin: Callable[[int], Callable[[bytes], object]],
        condition: Mapping[str, str],
        progress: Progress,
    ) -> Fetched:
        what, kept = f"GET {self.shown(url)}", self._secrecy.kept
        with http_errors(what):
            first = target = httpx.URL(url)
        for _ in range(MOST_REDIRECTS + 1):
            self._require_safe(what, first, target)
            body = self._open(what, first, target, condition)
            try:
                headers = body.headers
                if body.status in _REDIRECTS and (location := headers.get("location")):
                    with http_errors(what):
                        target = target.join(location)
                    continue
                if body.status == 304 and condition:
                    return Fetched(
                        unchanged=True,
                        etag=kept(headers.get("etag")) or condition.get("If-None-Match"),
                        last_modified=kept(headers.get("last-modified")) or condition.get("If-Modified-Since"),
                    )
                asked = condition.get("Range")
                if body.status != 200 and not (body.status == 206 and asked):
                    raise error_of(what, body, self._secrecy.clean)
                length = headers.get("content-length", "")
                total = int(length) if length.isascii() and length.isdecimal() else None
                write = begin(_offset(what, headers, asked) if body.status == 206 else 0)
                for chunk in body:
                    write(chunk)
                    progress(body.bytes_read, total)
                return Fetched(
                    unchanged=False,
                    etag=kept(headers.get("etag")),
                    last_modified=kept(headers.get("last-modified")),
                    bytes_read=body.bytes_read,
                )
            finally:
                body.close()
        raise UpstreamAnswerError(f"{what}: it redirects more than {MOST_REDIRECTS} times")

    def _require_safe(self, what: str, first: httpx.URL, target: httpx.URL) -> None:
        if target.scheme == "https":
            return
        if target.scheme == "http" and addresses.is_loopback(target.host) and addresses.is_loopback(first.host):
            return
        shown = self.shown(str(target.copy_with(query=None, fragment=None)))
        if target is first and target.scheme != "http":
            raise SettingsError(f"{what}: not the address of a web server, which begins with https://")
        if target is first:
            raise SettingsError(f"{what}: plain http:// is for loopback addresses only: use https://")
        raise UpstreamAnswerError(f"{what}: it redirects to {shown}, which is not https")

    def _open(self, what: str, first: httpx.URL, target: httpx.URL, condition: Mapping[str, str]) -> Body:
        same_host = (target.scheme, target.host, target.port) == (first.scheme, first.host, first.port)
        client = self._client(target.scheme == "http")
        with http_errors(what):
            headers = {**condition, **(self._headers if same_host else {})}
            request = client.build_request("GET", target, headers=headers)
        watch = Watch(self._settings.total_timeout_s, what, self._secrecy.clean)
        request.extensions["trace"] = watch.trace
        try:
            with http_errors(what, at=address_of(target), watch=watch):
                response = client.send(request, stream=True)
            watch.over(response.extensions.get("network_stream"))
        except BaseException:
            watch.stop()
            raise
        return Body(response, watch, compression=False)

    def _client(self, local: bool) -> httpx.Client:
        if local not in self._clients:
            self._clients[local] = new_client(
                timeout=httpx.Timeout(self._settings.read_timeout_s, connect=self._settings.connect_timeout_s),
                trusted=certificates("http" if local else "https", trust_env=self._settings.trust_env),
                trust_env=self._settings.trust_env and not local,
                headers={"Accept-Encoding": "identity"},
            )
        return self._clients[local]


def _offset(what: str, headers: Mapping[str, str], asked: str | None) -> int:
    """The first byte of a part of a file, which is the one that was asked for (RFC 9110, section 14.4)."""
    found = headers.get("content-range", "")
    begin = (asked or "").removeprefix("bytes=").removesuffix("-")
    if not found.startswith(f"bytes {begin}-"):
        raise UpstreamAnswerError(f"{what}: another part of the file came than was asked for")
    return int(begin)


def _headers(secret: str | None, auth: str, auth_header: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """The header of requests to the first host, and the texts that must not be shown."""
    if secret is None:
        return {}, ()
    if not auth:
        return {}, (secret,)
    name, value, hidden = secret_header(secret, auth, auth_header, form="account:key")
    return {name: value}, hidden
