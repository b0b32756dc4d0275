"""One request of a push: how it is asked, and what its answer means; nothing is taken for what it is not."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from geolookup.http.errors import ASKS_TO_WAIT, NOT_CARRIED_OUT
from geolookup.model.errors import (
    UpstreamAnswerError,
    UpstreamAuthError,
    UpstreamError,
    UpstreamRefusedError,
    UpstreamUnavailableError,
)
from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import Geolocation
from geolookup.settings.table import Settings
from geolookup.state.base import clock
from geolookup.state.edits.outbox.payload import ends_of
from geolookup.state.edits.places.place import Request
from geolookup.sync.push.report import PushReport
from geolookup.sync.push.view import filtered
from geolookup.upstream.geolocations import GeolocationsClient

#: Requests without any answer, one after the other, after which the service counts as out of reach.
_MOST_SILENT = 3
_PAUSE_S = 0.5


def send(client: GeolocationsClient, request: Request, number: int | None) -> Any:
    """Make a request: the answer. A create has no number yet.

    :raises UpstreamError: if it was not answered with the promised content
    """
    values = request.body or request.values
    fields = dict(zip(FIELD_NAMES, values, strict=True)) if values else {}
    if request.what == "create":
        return client.create(fields, idempotency_key=request.key)
    assert number is not None
    match request.what:
        case "put":
            return client.update(number, fields)
        case "delete":
            return client.delete(number)
        case "clear":
            return client.delete_blocks(number)
        case "add":
            return client.create_block(number, *_ends(request.new), idempotency_key=request.key)
        case "replace":
            return client.replace_block(number, *_ends(request.old), *_ends(request.new))


def _ends(block: Any) -> list[str]:
    return ends_of(block)


class LeaveError(Exception):
    """The push cannot go on; what is left waits for the next. Never leaves this folder."""


class Outcome(Enum):
    """The outcome of one request."""

    #: Applied, and answered so.
    KNOWN = "known"
    #: Refused, hence not applied, if the service can be believed: what it has says so.
    REFUSED = "refused"
    #: Surely not applied, or not even sent: it may be sent again.
    NOT_APPLIED = "not applied"
    #: Put off, or not allowed: the service says that it did nothing. Only a list shows whether that is true.
    PUT_OFF = "put off"
    #: Nobody can tell.
    UNKNOWN = "unknown"


@dataclass(slots=True, kw_only=True)
class _Asked:
    """Something that is asked over some connection; see `connections.Request`."""

    answer: Any = None
    begun: bool = False
    took_s: float | None = None

    @property
    def ends_batch(self) -> bool:
        """True if nothing more shall leave before the answer to this was looked at."""
        return isinstance(self.answer, UpstreamError)


@dataclass(slots=True)
class Errand(_Asked):
    """A request on its way."""

    place: int
    request: Request
    number: int | None
    ended: bool = False

    def ask(self, client: GeolocationsClient) -> None:
        """Send it, on whatever thread this is."""
        try:
            self.answer = send(client, self.request, self.number)
        except UpstreamError as error:
            self.answer = error
        self.ended = True

    @property
    def outcome(self) -> Outcome:
        """What its answer means."""
        match self.answer:
            case UpstreamRefusedError():
                return Outcome.REFUSED
            case UpstreamUnavailableError(status=status) if status in NOT_CARRIED_OUT:
                return Outcome.PUT_OFF
            # A token may be good for reading only: each create is refused then, and none has to settle for that.
            case UpstreamAuthError() if self.request.what != "create":
                return Outcome.PUT_OFF
            case UpstreamAuthError() | UpstreamUnavailableError(sent=False):
                return Outcome.NOT_APPLIED
            case None if not self.begun:
                return Outcome.NOT_APPLIED
            case UpstreamError():
                return Outcome.UNKNOWN
        return Outcome.KNOWN if self.ended else Outcome.UNKNOWN


@dataclass(slots=True)
class Looking(_Asked):
    """A look at one geolocation by lists that are filtered, and short: ``found`` is None if none of them has it."""

    number: int
    guesses: Sequence[Mapping[str, Any]]
    found: Geolocation | None = None
    requests: int = 0

    def ask(self, client: GeolocationsClient) -> None:
        """Read them, on whatever thread this is."""
        try:
            for listed in filtered(client, self.number, self.guesses):
                self.requests += 1
                if listed is not None:
                    self.found = listed
                    break
        except UpstreamError as error:
            self.requests += 1
            self.answer = error


@dataclass(slots=True)
class Patience:
    """How long a push waits for a service, and when it gives up."""

    settings: Settings
    report: PushReport
    silent: int = 0

    def after(self, answers: Iterable[Any]) -> None:
        """Wait once, as long as the answers of requests that were under way together ask for.

        :raises LeaveError: if any other request would fail too now
        """
        asked, silent = [], None
        for answer in answers:
            match answer:
                case UpstreamAuthError():
                    raise LeaveError(f"the push is paused, and every edit is kept: {answer}") from answer
                case UpstreamUnavailableError(sent=False):
                    raise LeaveError(str(answer)) from answer
                case UpstreamUnavailableError(status=status) if status in ASKS_TO_WAIT:
                    self.silent = 0
                    asked.append(answer)
                case UpstreamUnavailableError(status=None) | UpstreamAnswerError():
                    self.silent, silent = self.silent + 1, answer
                case UpstreamRefusedError() | UpstreamUnavailableError():
                    self.silent = 0
                case UpstreamError():
                    raise answer
                case _:
                    self.silent = 0
        if silent is not None and self.silent >= _MOST_SILENT:
            raise LeaveError(f"the service does not answer as it should: {silent}") from silent
        if asked:
            self._wait(max(asked, key=lambda answer: answer.retry_after_s or 0.0))

    def _wait(self, answer: UpstreamUnavailableError) -> None:
        """Wait as told, with full jitter, within the limit of the whole push.

        :raises LeaveError: past it
        """
        wait_s = max(answer.retry_after_s or 0.0, random.uniform(0, 2 * _PAUSE_S))  # noqa: S311 - spreads clients
        if self.report.waited_s + wait_s > self.settings.max_wait_s:
            raise LeaveError(
                f"{answer}; waiting {wait_s:.0f} s would be more than `max_wait_s` allows: try again later"
            ) from answer
        self.report.waited_s += wait_s
        clock.sleep(wait_s)
