"""Telling a monitor that a run started, succeeded or failed, in the convention of healthchecks.io and similar services.

The convention (https://healthchecks.io/docs/http_api/): the address itself is success, ``/start`` a start, ``/N`` an
end with the exit status N; the body of a POST is kept with it. Anyone who knows the address can ping it, so it is never
shown.
"""

import ssl
from urllib.parse import urlsplit

import httpx
import stamina

from geolookup.base.version import __version__
from geolookup.errors import GeoLookupError, UpstreamUnavailableError
from geolookup.http.body import Watch
from geolookup.http.problems import WORTH_WAITING
from geolookup.http.secrecy import Secrecy
from geolookup.http.translate import address_of, http_errors
from geolookup.settings.table import Settings

#: The longest time for one attempt: a slow monitor must not delay the run.
TIMEOUT_S = 5.0
_ATTEMPTS = 3
#: The part of a body that healthchecks.io keeps.
_MAX_BODY_BYTES = 10_000


class Monitor:
    """Pings one address. It never raises: a run does not fail because its monitor cannot be reached."""

    def __init__(self, url: str, settings: Settings, *, timeout_s: float = TIMEOUT_S) -> None:
        self._url = url
        self._trust_env = settings.trust_env
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return "<Monitor>"

    def start(self) -> str | None:
        """Tell the monitor that a run started; returns None, or why that failed."""
        return self._tell("start", "/start", "")

    def end(self, exit_status: int, summary: str) -> str | None:
        """Tell the monitor how a run ended, with a summary for people; returns None, or why that failed."""
        return self._tell("end", f"/{exit_status}" if exit_status else "", summary)

    def _tell(self, what: str, suffix: str, body: str) -> str | None:
        parts = urlsplit(self._url)
        secrecy = Secrecy(self._url, parts._replace(scheme="", netloc="").geturl().rstrip("/"), *_long(parts.path))
        try:
            self._post(parts._replace(path=parts.path.rstrip("/") + suffix).geturl(), body, secrecy)
        except GeoLookupError as error:
            return f"the monitor was not told of the run's {what}: {secrecy.clean(str(error))}"
        finally:
            secrecy.stop()
        return None

    def _post(self, url: str, body: str, secrecy: Secrecy) -> None:
        content = body.encode("utf-8", "backslashreplace")[:_MAX_BODY_BYTES]
        headers = {"User-Agent": f"geolookup/{__version__}", "Content-Type": "text/plain; charset=utf-8"}
        with (
            http_errors("ping"),
            httpx.Client(
                timeout=self._timeout_s,
                follow_redirects=False,
                trust_env=self._trust_env,
                verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if url.startswith("http:") else True,
            ) as client,
        ):
            for attempt in stamina.retry_context(
                on=_worth_retrying, attempts=_ATTEMPTS, wait_initial=0.1, wait_jitter=0.2, timeout=None
            ):
                with attempt:
                    watch = Watch(self._timeout_s, "ping", secrecy.clean)
                    try:
                        request = client.build_request("POST", url, content=content, headers=headers)
                        with http_errors("ping", at=address_of(request.url), watch=watch):
                            request.extensions["trace"] = watch.trace
                            response = client.send(request, stream=True)
                            status = response.status_code
                            response.close()
                    finally:
                        watch.stop()
                    if not 200 <= status < 300:
                        raise UpstreamUnavailableError(f"ping: it answered {status}", status=status)


def _worth_retrying(error: Exception) -> bool:
    if not isinstance(error, UpstreamUnavailableError):
        return False
    return error.status is None or error.status in WORTH_WAITING


def _long(path: str) -> list[str]:
    """The parts of a path that are long enough to be secret: some libraries log the path alone, or a part of it."""
    return [part for part in path.split("/") if len(part) >= 8]
