"""Outbox: edits on their way to the service, the plan of a push, the push, and the edits that need a decision."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from geolookup import words
from geolookup.console.console import Console, Html, Page
from geolookup.console.editing import handle, show
from geolookup.console.forms import AnyRequest, Form, Table, query
from geolookup.console.pages import decisions
from geolookup.console.runs import Run
from geolookup.errors import GeoLookupError, RequestRefusedError
from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import Geolocation
from geolookup.state.edits.outbox.operations import SettingFields
from geolookup.state.edits.outbox.payload import blocks_of, described, geolocation
from geolookup.state.edits.outbox.row import PENDING_STATES, PERSON_STATES, OutboxRow, State
from geolookup.sync.push import plan as plans
from geolookup.sync.push.push import push
from geolookup.sync.push.report import PushReport

PAGE = Page(title="Outbox", path="/outbox")

_CONFLICTS = {
    "hold": "hold the edit for me",
    "mine": "send mine all the same",
    "theirs": "take theirs, and drop mine",
}


@get("/outbox", sync_to_thread=True)
def outbox(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The edits by state."""
    state = query(request, "state")
    layer = console.layer()
    rows, pending = layer.edits, layer.pending
    counts = Counter(row.state for row in rows)
    wanted: tuple[State, ...] = tuple(PENDING_STATES)
    if state in set(State):
        wanted = (State(state),)
    elif state == "all":
        wanted = tuple(State)
    has_service = console.settings().url is not None
    shown = [row for row in rows if row.state in wanted]
    if not state and not has_service:
        shown = pending  # without a service nothing waits
    return console.page(
        request,
        "outbox.html",
        table=Table(request, shown, {"edit": lambda row: row.id, "state": lambda row: row.state}, default="edit"),
        counts=counts,
        states=tuple(State),
        state=state,
        pending=pending,
        person=sum(row.state in PERSON_STATES for row in pending),
        has_service=has_service,
        run=console.runs.latest("push"),
    )


@get("/outbox/plan", sync_to_thread=True)
def plan(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The requests of a push now, and the reasons for their order: this reads the service, and changes nothing."""
    on_conflict = _on_conflict(query(request, "on_conflict"))
    found, error = None, None
    try:
        found = plans.make(console.directory(), console.settings(), on_conflict=on_conflict)
    except GeoLookupError as failed:
        error = str(failed)
    return console.page(request, "plan.html", plan=found, error=error, on_conflict=on_conflict, conflicts=_CONFLICTS)


@post("/outbox/push", sync_to_thread=True)
def start_push(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """Start a push, and lead to where its progress is."""
    form: Form = request.state.form
    on_conflict = _on_conflict(form.text("on_conflict"))
    directory, settings = console.directory(), console.settings()

    def work(run: Run) -> PushReport:
        return push(directory, settings, on_conflict=on_conflict, progress=run.progress)

    console.runs.start("push", work)
    return console.go("/outbox/push")


@get("/outbox/push", sync_to_thread=True)
def pushing(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The progress of the push under way, or the result of the last one."""
    run = console.runs.latest("push")
    if run is None:
        return console.go("/outbox", "no push was made from this console yet")
    report = run.report
    left = "" if report is None else ", ".join(f"{n} {state}" for state, n in words.left_over(report).items() if n)
    return console.page(request, "push.html", run=run, report=report, left=left or "nothing left over")


def _on_conflict(text: str) -> Any:
    return text if text in _CONFLICTS else "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a conflict: a field as it was, as mine, and as the service has it."""

    name: str
    was: str
    mine: str
    theirs: str | None

    @property
    def differs(self) -> bool:
        """True if mine and theirs are not the same."""
        return self.theirs is not None and self.mine != self.theirs


@get("/outbox/{number:int}", sync_to_thread=True)
def one(request: AnyRequest, console: NamedDependency[Console], number: FromPath[int]) -> Html:
    """One edit: its changes, the version it was made against, the service's version, and the possible decisions."""
    row = console.editor().edit(number)
    return console.page(
        request,
        "outbox_one.html",
        row=row,
        lines=conflict_lines(row),
        choices={what: kind for what, kind in decisions.CHOICES.items() if kind.fits(row)},
        candidates=sorted((row.journal or {}).get("candidates", {}), key=int, reverse=True),
    )


def conflict_lines(row: OutboxRow) -> list[Line]:
    """As it was, mine, theirs, field by field and with the blocks; theirs None if it is not known."""
    was = None if row.base is None else _texts(row.base)
    mine_place = row.edit.laid_over(_place(row.base, row.locid), row.locid, row.base)
    mine = None if mine_place is None else _texts(described(mine_place) or {})
    known = row.journal is not None and "theirs" in row.journal
    theirs = _texts((row.journal or {})["theirs"]) if known and (row.journal or {})["theirs"] else None
    lines = []
    for name in (*FIELD_NAMES, "blocks"):
        if not isinstance(row.edit, SettingFields) and name != "blocks" and theirs is None:
            continue
        its = None if not known else "(gone)" if theirs is None else theirs[name]
        lines.append(
            Line(
                name=name,
                was="" if was is None else was[name],
                mine="(deleted)" if mine is None else mine[name],
                theirs=its,
            )
        )
    return lines


def _place(base: dict[str, Any] | None, locid: int) -> Geolocation | None:
    return None if base is None else geolocation(locid, base["fields"], blocks_of(base["blocks"]))


def _texts(described_as: dict[str, Any]) -> dict[str, str]:
    fields = {name: "" if value is None else str(value) for name, value in described_as["fields"].items()}
    blocks = ", ".join(first if first == last else f"{first}-{last}" for first, last in described_as["blocks"])
    return {**dict.fromkeys(FIELD_NAMES, ""), **fields, "blocks": blocks}


@get("/outbox/{number:int}/{what:str}", sync_to_thread=True)
def decision_form(
    request: AnyRequest, console: NamedDependency[Console], number: FromPath[int], what: FromPath[str]
) -> Html:
    """The form of a decision, with what it would change."""
    return show(request, console, _decision(console, number, what))


@post("/outbox/{number:int}/{what:str}", sync_to_thread=True)
def decide(request: AnyRequest, console: NamedDependency[Console], number: FromPath[int], what: FromPath[str]) -> Html:
    """Show the effect of a decision, or make it."""
    return handle(request, console, _decision(console, number, what))


def _decision(console: Console, number: int, what: str) -> decisions.Decision:
    if what not in decisions.CHOICES:
        raise RequestRefusedError("there is no such page", problem="not-found")
    return decisions.CHOICES[what](console.editor().edit(number))


HANDLERS = [outbox, plan, start_push, pushing, one, decision_form, decide]
