"""Plan a push: each request in order with its reason, without sending one; saved, and applied if nothing moved."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from geolookup.http.transport import Transport
from geolookup.model.errors import PlanError
from geolookup.model.types import Geolocation, is_provisional
from geolookup.settings.table import Settings
from geolookup.state.edits.outbox.operations import Create, RemoveBlock, Requests, SingleRequest
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.edits.outbox.payload import block_of, described
from geolookup.state.edits.outbox.row import PENDING_STATES, PERSON_STATES, OutboxRow, State
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.push import reconcile
from geolookup.sync.push.lots import LOOKED_THROUGH, to_go_with
from geolookup.sync.push.push import require_same_upstream
from geolookup.sync.push.reconcile import OnConflict
from geolookup.sync.push.view import ServiceView
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
    with Transport(settings) as transport:
        view = ServiceView(directory, settings, GeolocationsClient(transport), to_look=True)
        return _plan(directory, settings, view, url, on_conflict)


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


def checker(plan: dict[str, Any], directory: StateDirectory, settings: Settings) -> Callable[[ServiceView], None]:
    """A check for `push` that refuses if the outbox or the service has changed since the plan was made."""

    def check(view: ServiceView) -> None:
        now = _plan(directory, settings, view, str(settings.url), plan["on_conflict"])
        for name, what in _COMPARED.items():
            if now[name] != plan[name]:
                raise PlanError(f"the plan cannot be applied: {what}; make a new one. Nothing was sent")

    return check


def _plan(
    directory: StateDirectory, settings: Settings, view: ServiceView, url: str, on_conflict: OnConflict
) -> dict[str, Any]:
    service = dict(view.complete())
    edits = directory.edits
    if not edits.exists():
        rows, aliases = [], {}
    else:
        with edits.reading() as database:
            outbox = Outbox(database)
            rows, aliases = outbox.rows(*PENDING_STATES), outbox.aliases()
    content = json.dumps([[locid, described(place)] for locid, place in sorted(service.items())], sort_keys=True)
    planner = _Planner(settings, service, aliases, on_conflict, rows)
    for position, row in enumerate(rows):
        planner.add(row, rows[position + 1 : position + 1 + LOOKED_THROUGH])
    return {
        "version": VERSION,
        "url": url,
        "on_conflict": on_conflict,
        "service": hashlib.sha256(content.encode()).hexdigest(),
        "requests": planner.requests,
        "waiting": planner.waiting,
    }


class _Planner:
    """Plays a push on a copy of what the service has."""

    def __init__(
        self,
        settings: Settings,
        service: dict[int, Geolocation],
        aliases: dict[int, int],
        on_conflict: OnConflict,
        pending: list[OutboxRow],
    ) -> None:
        self.requests: list[dict[str, Any]] = []
        self.waiting: list[dict[str, Any]] = []
        self._settings = settings
        self._service = service
        self._aliases = aliases
        self._on_conflict = on_conflict
        self._pending = pending
        self._blocked: set[int] = set()

    def add(self, row: OutboxRow, later: Sequence[OutboxRow] = ()) -> None:
        """Plan one edit, after those before it, and those ``later`` ones that go out with it."""
        if row not in self._pending:
            return None  # merged into the one before
        if row.locid in self._blocked:
            return self._wait(row, "waits for an earlier edit of the same geolocation")
        if row.state in PERSON_STATES:
            return self._wait(row, f"{row.state}: {row.problem or 'a person must decide'}")
        if row.state != State.QUEUED:
            return self._wait(row, "its outcome is unknown: the push reads the service back first")
        waits_for = reconcile.waits_for(row, self._pending)
        if waits_for is not None:
            return self._wait(row, f"waits for edit {waits_for.id}: {waits_for.describe()}")
        locid = self._aliases.get(row.locid, row.locid)
        theirs = self._service.get(locid)
        if isinstance(row.edit, RemoveBlock):
            merge = reconcile.addition_to_merge(row, theirs, self._pending)
            if merge is None:
                return self._remove(row, locid, theirs)
            following, replacing = merge
            self._over(following)
            edit: SingleRequest = replacing
            row = replace(row, edit=replacing)
        else:
            edit = row.edit
        decision = reconcile.before_sending(row, theirs, on_conflict=self._on_conflict)
        if decision.what == "hold":
            return self._wait(row, decision.reason)
        if decision.what != "send":
            return self._ends(row, {"done": "done", "drop": "dropped"}[decision.what], decision.reason)
        others = to_go_with(row, later, blocked=self._blocked, fresh=self._still_pending, is_free=self._is_free)
        edit.send(self._written(row, decision.reason), locid, row.key)
        after = edit.laid_over(theirs, locid, row.base)
        if after is None:
            self._service.pop(locid, None)
        else:
            self._service[locid] = after
        self._over(row)
        for other in others:
            self.add(other)
        return None

    def _still_pending(self, row: OutboxRow) -> OutboxRow | None:
        return row if row in self._pending else None

    def _is_free(self, row: OutboxRow) -> bool:
        if is_provisional(self._aliases.get(row.locid, row.locid)) and not isinstance(row.edit, Create):
            # It has a number once the create that is planned before it has gone out.
            own = (other.edit for other in self._pending if other.locid == row.locid)
            if any(isinstance(edit, Create) for edit in own):
                return False
        return reconcile.waits_for(row, self._pending) is None

    def _over(self, row: OutboxRow) -> None:
        """An edit that will be over by then: nothing waits for it."""
        self._pending = [other for other in self._pending if other.id != row.id]

    def _ends(self, row: OutboxRow, how: str, reason: str) -> None:
        self.waiting.append({"edit": row.id, "what": row.describe(), "reason": f"{how}: {reason}"})
        self._over(row)

    def _wait(self, row: OutboxRow, reason: str) -> None:
        self._blocked.add(row.locid)
        self.waiting.append({"edit": row.id, "what": row.describe(), "reason": reason})

    def _written(self, row: OutboxRow, reason: str) -> Requests:
        """Takes requests of an edit, and writes them down."""
        return _WrittenRequests(self._settings, self.requests, {"edit": row.id}, f"{row.describe()}: {reason}")

    def _remove(self, row: OutboxRow, locid: int, theirs: Geolocation | None) -> None:
        theirs = reconcile.as_cleared(row, locid) or theirs
        step = reconcile.next_removal_step(row, theirs)
        if step.what == "hold":
            return self._wait(row, step.reason)
        if step.what == "done" or theirs is None:
            return self._ends(row, "done", step.reason)
        after = [block_of(ends) for ends in step.journal["after"]]
        present = set(theirs.ipblocks)
        if step.what == "clear":
            self._written(row, "the service can only delete all blocks").delete_blocks(locid)
            present = set()
        for block in after:
            if block not in present:
                again = self._written(row, f"{block} stays, so it comes back")
                again.create_block(locid, block.startip, block.endip, idempotency_key=row.key)
        self._service[locid] = replace(theirs, ipblocks=tuple(sorted(after)))
        return self._over(row)


class _WrittenRequests:
    """Requests written down for a plan, in place of being sent; see `operations.Requests`."""

    def __init__(self, settings: Settings, lines: list[dict[str, Any]], edit: dict[str, int], reason: str) -> None:
        self._settings = settings
        self._lines = lines
        self._edit = edit
        self._reason = reason

    def _write(self, method: str, target: str, body: Mapping[str, object] | None) -> None:
        self._lines.append({**self._edit, "method": method, "target": target, "body": body, "reason": self._reason})

    # The keys are not written: a plan says what will be asked, and they are no part of that.

    def create(self, fields: Mapping[str, object], *, idempotency_key: str) -> None:  # noqa: ARG002
        self._write("POST", self._settings.path_create, fields)

    def update(self, locid: int, fields: Mapping[str, object]) -> None:
        self._write("PUT", f"{self._settings.path_update}?locid={locid}", fields)

    def delete(self, locid: int) -> None:
        self._write("DELETE", f"{self._settings.path_delete}?locid={locid}", None)

    def delete_blocks(self, locid: int) -> None:
        self._write("DELETE", f"{self._settings.path_delete_blocks}?locid={locid}", None)

    def create_block(self, locid: int, startip: str, endip: str, *, idempotency_key: str) -> None:  # noqa: ARG002
        self._write("POST", f"{self._settings.path_create_block}?locid={locid}", {"startip": startip, "endip": endip})

    def replace_block(self, locid: int, startip: str, endip: str, newstartip: str, newendip: str) -> None:
        body = {"startip": startip, "endip": endip, "newstartip": newstartip, "newendip": newendip}
        self._write("PUT", f"{self._settings.path_replace_block}?locid={locid}", body)
