"""Plan a push: each request in order with its reason, without sending one; saved, and applied if nothing moved."""

import contextlib
import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from geolookup.base.garbage import rarely_collected
from geolookup.http.transport import Answer, Transport
from geolookup.model.errors import PlanError
from geolookup.model.types import PROVISIONAL_LOCID
from geolookup.settings.table import Settings
from geolookup.state.base.clock import now_text
from geolookup.state.base.marks import Mark, Start
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.outbox.payload import content_of, described, geolocation
from geolookup.state.edits.outbox.row import PENDING_STATES, OutboxRow
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.push.courier import NEWEST, Courier, OnConflict
from geolookup.sync.push.push import require_same_upstream
from geolookup.sync.push.report import PushReport
from geolookup.sync.push.requests import Errand, Looking
from geolookup.sync.push.view import Seen, ServiceView
from geolookup.upstream.geolocations import GeolocationsClient

VERSION = "1.0"
#: What must be as it was for a saved plan to be applied, and what to say if it is not.
_COMPARED = {
    "url": "it is for another service",
    "service": "the service has changed since",
    "requests": "the outbox has changed since",
    "waiting": "the outbox has changed since",
}


def make(
    directory: StateDirectory, settings: Settings, *, on_conflict: OnConflict = "hold", url_moved: bool = False
) -> dict[str, Any]:
    """Plan what a push would do now: one complete list is read, nothing is sent or changed.

    ``requests`` in order, each with ``edit``, ``method``, ``target``, ``body`` and ``reason``; ``waiting`` says why
    other edits stay. ``service`` is a fingerprint of the custom geolocations that the plan was made against.

    :raises UpstreamError: if the list could not be read
    :raises WrongUpstreamError: if the state belongs to another URL
    """
    url = require_same_upstream(directory, settings, url_moved=url_moved)
    with Transport(settings) as transport, rarely_collected():
        view = ServiceView(directory, settings, GeolocationsClient(transport))
        return _plan(directory, settings, _look(view), url, on_conflict)


def save(plan: dict[str, Any], path: str) -> None:
    """Write a plan to a file.

    :raises PlanError: if it cannot be written
    """
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(plan, file, indent=1, ensure_ascii=False)
            file.write("\n")
    except OSError as error:
        raise PlanError(f"{path}: the plan cannot be written: {error.strerror}") from error


def read(path: str) -> dict[str, Any]:
    """Read a saved plan.

    :raises PlanError: if it is not one
    """
    try:
        with open(path, encoding="utf-8") as file:
            plan = json.load(file)
        version = str(plan["version"])
        if version.partition(".")[0] != VERSION.partition(".")[0]:
            raise PlanError(f"{path}: is a plan of version {version:.20}, and this release reads {VERSION}")
        missing = [name for name in (*_COMPARED, "on_conflict") if name not in plan]
        if missing or plan["on_conflict"] not in get_args(OnConflict):
            raise KeyError(*missing)
    except OSError as error:
        raise PlanError(f"{path}: the plan cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise PlanError(f"{path}: is not a plan that `geolookup push --plan-out` wrote") from error
    return dict(plan)


def checker(plan: dict[str, Any], directory: StateDirectory, settings: Settings) -> Callable[[ServiceView], Seen]:
    """A check for `push` that refuses if the outbox or the service has changed since the plan was made."""

    def check(view: ServiceView) -> Seen:
        seen = _look(view)
        now = _plan(directory, settings, seen, str(settings.url), plan["on_conflict"])
        for name, what in _COMPARED.items():
            if now[name] != plan[name]:
                raise PlanError(f"the plan cannot be applied: {what}; make a new one. Nothing was sent")
        return seen

    return check


def _look(view: ServiceView) -> Seen:
    return view.read(freely=True, start=Start(mark=Mark.now(NEWEST), at=now_text()))


def _plan(
    directory: StateDirectory, settings: Settings, seen: Seen, url: str, on_conflict: OnConflict
) -> dict[str, Any]:
    """Rehearse a push: on a copy of edits.db, against a copy of what the service has now."""
    listed = sorted(seen.listed.items())
    content = json.dumps([[locid, described(content_of(place))] for locid, place in listed], sort_keys=True)
    report = PushReport(url=url)
    rehearsed = _Rehearsed(settings, seen)
    with directory.edits.rehearsing() as database:
        rehearsed.remember(Ledger(database))
        courier = Courier(
            lambda: contextlib.nullcontext(Ledger(database)), rehearsed.read, rehearsed, settings, report,
            on_conflict=on_conflict, moved=directory.has_moved(url),
        )  # fmt: skip
        courier.run()
        waiting = rehearsed.waiting(Ledger(database), report)
    return {
        "version": VERSION,
        "url": url,
        "on_conflict": on_conflict,
        "service": hashlib.sha256(content.encode()).hexdigest(),
        "requests": rehearsed.requests,
        "waiting": waiting,
    }


class _Rehearsed:
    """A service and its connections in memory: requests are written down, and have the effect that they would have."""

    def __init__(self, settings: Settings, seen: Seen) -> None:
        self.requests: list[dict[str, Any]] = []
        self.settings = settings
        self._service = dict(seen.listed)
        self._start = seen.start
        self._edits: Mapping[int, OutboxRow] = {}
        self._of_place: dict[int, list[OutboxRow]] = {}
        #: The places of which it gave the numbers.
        self._made: dict[int, int] = {}

    def remember(self, ledger: Ledger) -> None:
        """Remember the edits as they are, each by the number that lookups have."""
        numbers = ledger.outbox.aliases()
        pending = ledger.outbox.rows(*PENDING_STATES)
        self._edits = {row.id: replace(row, number=numbers.get(row.locid, row.number)) for row in pending}
        for row in self._edits.values():
            self._of_place.setdefault(row.locid, []).append(row)

    def waiting(self, ledger: Ledger, report: PushReport) -> list[dict[str, Any]]:
        """The edits that no request is sent for, or that wait all the same."""
        said = {line["edit"]: line for line in report.edits}
        sent = {number for request in self.requests for number in request["edits"]}
        found = []
        done = {number for (number,) in ledger.database.execute("SELECT id FROM outbox WHERE state = 'done'")}
        left = self._edits.keys() - (sent & done)
        for now in ledger.outbox.where("id IN (SELECT value FROM json_each(?))", (json.dumps(sorted(left)),)):
            number, row, line = now.id, self._edits[now.id], said.get(now.id)
            reason = line["reason"] if line is not None else now.problem or "waits for an earlier edit of its place"
            if now.state in ("done", "dropped"):
                reason = f"{now.state}: {reason}"
            found.append({"edit": number, "what": row.describe(), "reason": reason})
        return found

    # As a view

    def read(self, *, freely: bool, surely: bool) -> Seen:  # noqa: ARG002 - as of a view
        """What the service has."""
        return Seen(dict(self._service), self._start, freely=True)

    # As connections

    width = 1

    def ask_all(self, requests: Sequence[Looking | Errand], longest_s: float) -> bool:  # noqa: ARG002 - no time passes
        """Answer looks and errands."""
        for asked in requests:
            asked.begun = True
            if isinstance(asked, Looking):
                asked.found = self._service.get(asked.number)
            else:
                asked.ask(GeolocationsClient(_Recorder(self.settings, functools.partial(self._answer, asked))))
        return True

    def close(self) -> None:
        """Nothing is open."""

    def _answer(self, errand: Errand, method: str, path: str, body: object) -> int:
        """Write a request down, with the edits that it is for, and do what it asks for: the number of its place."""
        if (number := errand.number) is None:
            number = PROVISIONAL_LOCID + 1 + len(self._made)  # one that no service gives
            self._made[number] = errand.place
        else:
            path = f"{path}?locid={self._made.get(number, number)}"
        rows = [row for row in self._of_place.get(errand.place, ()) if errand.request.concerns(row.intent)]
        reason = "; ".join(row.describe() for row in rows) or "a block comes back"
        self.requests.append(
            {
                "edit": rows[0].id if rows else 0,
                "edits": [row.id for row in rows],
                "method": method,
                "target": path,
                "body": body,
                "reason": reason,
            }
        )
        before = self._service.get(number)
        after = errand.request.applied(None if before is None else content_of(before))
        if after is None:
            self._service.pop(number, None)
        else:
            self._service[number] = geolocation(number, after)
        return number


class _Recorder(Transport):
    """A transport that sends nothing: ``answer`` is told of each request, and gives the number that is answered."""

    def __init__(self, settings: Settings, answer: Callable[[str, str, object], int]) -> None:
        self.settings = settings
        self._answer = answer

    def request(
        self, method: str, path: str, *, params: object = None, json: object = None, headers: object = None,  # noqa: ARG002
        idempotent: bool,  # noqa: ARG002 - the keys are not written: a plan says what will be asked
    ) -> Answer:  # fmt: skip
        """Take a request for sent."""
        locid = self._answer(method, path, json)
        told = {"locid": locid, "totalMatchingBlocks": 0, "customerDefinedMatchingBlocks": 0}
        return Answer(status=200, headers={}, body=msgspec.json.encode(told))
