"""Telling a monitor that a run started, succeeded or failed, in the convention of healthchecks.io and similar services.

The convention (https://healthchecks.io/docs/http_api/): the address itself is success, ``/start`` a start, ``/N`` an
end with the exit status N; the body of a POST is kept with it. Anyone who knows the address can ping it, so it is never
shown.
"""

from urllib.parse import urlsplit

import stamina

from geolookup.http.body import Watch
from geolookup.http.client import Secrecy, certificates, new_client
from geolookup.http.errors import address_of, http_errors, may_be_retried
from geolookup.model.errors import GeoLookupError, UpstreamUnavailableError
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
        with (
            http_errors("ping"),
            new_client(
                timeout=self._timeout_s,
                trusted=certificates(urlsplit(url).scheme, trust_env=self._trust_env),
                trust_env=self._trust_env,
                headers={"Content-Type": "text/plain; charset=utf-8"},
            ) as client,
        ):
            for attempt in stamina.retry_context(
                on=may_be_retried, attempts=_ATTEMPTS, wait_initial=0.1, wait_jitter=0.2, timeout=None
            ):
                with attempt:
                    watch = Watch(self._timeout_s, "ping", secrecy.clean)
                    try:
                        request = client.build_request("POST", url, content=content)
                        with http_errors("ping", at=address_of(request.url), watch=watch):
                            request.extensions["trace"] = watch.trace
                            response = client.send(request, stream=True)
                            status = response.status_code
                            response.close()
                    finally:
                        watch.stop()
                    if not 200 <= status < 300:
                        raise UpstreamUnavailableError(f"ping: it answered {status}", status=status)


def _long(path: str) -> list[str]:
    """The parts of a path that are long enough to be secret: some libraries log the path alone, or a part of it."""
    return [part for part in path.split("/") if len(part) >= 8]
