"""Outbox: edits on their way to the service, the plan of a push, the push, and a person's decisions about one edit.

A decision is a form: retry, edit, drop or adopt, named as the commands.
"""

from collections.abc import Collection, Iterable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from litestar import get, post, route
from litestar.di import NamedDependency
from litestar.params import FromPath

from geolookup.console import wording
from geolookup.console.console import Console, CustomLayer, Html, Page
from geolookup.console.editing import (
    WIDE,
    Does,
    Edit,
    Values,
    digest_of,
    field_texts,
    require_fitting,
    respond,
    typed_fields,
)
from geolookup.console.forms import AnyRequest, Form, Table, query, typed
from geolookup.console.html import called
from geolookup.model.errors import EditError, GeoLookupError, RequestRefusedError
from geolookup.model.fields import DEGREES, FIELD_NAMES, UNKNOWN
from geolookup.sites.site import block_text
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.payload import described
from geolookup.state.edits.outbox.row import PENDING_STATES, PERSON_STATES, OutboxRow, State
from geolookup.state.edits.places.choosing import Choice, offered
from geolookup.state.edits.places.reconcile import Hold
from geolookup.state.edits.session import EditSession
from geolookup.sync.push import plan as plans
from geolookup.sync.push.push import push

PAGE = Page(title="Changes to send", path="/outbox", icon="send")

_CONFLICTS = {
    "hold": "Ask me: nothing is overwritten",
    "mine": "Keep mine, overwrite theirs",
    "theirs": "Keep theirs, drop mine",
}

#: By why an edit is held: what sending it does to what the service has, and what dropping it leaves there.
_WORDS: dict[str, tuple[str, str]] = {
    "conflict": ("Keep mine, overwrite theirs", "Keep theirs"),
    "gone": ("Create it again", "Leave it deleted"),
    "another": ("Create mine as a new one", "Drop my change"),
    "unclear": ("Create mine as a new one", "Drop my change"),
}
_OTHERWISE = ("Send it again", "Drop my change")
#: Why a removal is held of which other blocks may be missing, too: that may be left as it is.
_AS_IT_IS = ("doubted", "not shown")


@get("/outbox", sync_to_thread=True)
def outbox(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The edits by state."""
    state = query(request, "state")
    layer = console.layer()
    wanted: tuple[State, ...] = tuple(PENDING_STATES)
    if state in set(State):
        wanted = (State(state),)
    elif state == "all":
        wanted = tuple(State)
    has_service = console.settings_of_state().url is not None
    if not state and not has_service:
        wanted = ()  # nothing waits
    sessions = console.editor().sessions
    found = sessions.ask(lambda session: session.outbox.states(*wanted)) if wanted else []
    table = Table(request, found, {"edit": itemgetter(0), "state": itemgetter(1)}, default="edit")
    shown = sessions.ask(lambda session: [session.outbox.row(number) for number, _ in table.rows])
    return console.page(
        request,
        "outbox.html",
        table=table,
        rows=shown,
        counts=layer.edits,
        states=tuple(State),
        state=state,
        pending=layer.pending,
        decide=layer.decide,
        has_service=has_service,
        run=console.runs.latest("push"),
        names=_called(layer, shown),
    )


def _called(layer: CustomLayer, rows: Iterable[OutboxRow]) -> dict[int, str]:
    """The sites of changes as people call them, by their number."""
    numbers, names = {row.locid for row in rows}, layer.names
    places = (laid.place for laid in layer.laid if laid.place.locid in numbers)
    return {place.locid: called(place, names.get(place.locid)) for place in places}


@get("/outbox/plan", sync_to_thread=True)
def plan(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The requests of a push now, and the reasons for their order: this reads the service, and changes nothing."""
    on_conflict = _on_conflict(query(request, "on_conflict"))
    found, error = None, None
    try:
        found = plans.make(console.directory(), console.settings_of_state(), on_conflict=on_conflict)
    except GeoLookupError as failed:
        error = failed.told
    return console.page(request, "plan.html", plan=found, error=error, on_conflict=on_conflict, conflicts=_CONFLICTS)


@post("/outbox/push", sync_to_thread=True)
def start_push(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """Start a push, and lead to where its progress is."""
    form: Form = request.state.form
    on_conflict = _on_conflict(form.text("on_conflict"))
    directory, settings = console.directory(), console.settings_of_state()

    return console.start(
        "push", lambda run: push(directory, settings, on_conflict=on_conflict, progress=run.progress), "/outbox/push"
    )


@get("/outbox/push", sync_to_thread=True)
def pushing(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The progress of the push under way, or the result of the last one."""
    run = console.runs.latest("push")
    if run is None:
        return console.go("/outbox", "Nothing was sent from these pages yet.")
    report = run.report
    left = "" if report is None else wording.left(report)
    return console.page(request, "push.html", run=run, report=report, left=left)


def _on_conflict(text: str) -> Any:
    return text if text in _CONFLICTS else "hold"


class Line(NamedTuple):
    """One line of a conflict: a field as it was, as mine, and as the service has it; None if that is not known."""

    name: str
    was: str
    mine: str
    theirs: str | None


@get("/outbox/{number:int}", sync_to_thread=True)
def one(request: AnyRequest, console: NamedDependency[Console], number: FromPath[int]) -> Html:
    """One edit: its changes, the version it was made against, the service's version, and the possible decisions."""
    editor = console.editor()
    row = editor.edit(number)
    hold = editor.hold(number) if row.state in PERSON_STATES else None
    choices = _offered(editor, number)
    names = _called(console.layer(), [row])
    return console.page(
        request,
        "outbox_one.html",
        row=row,
        lines=conflict_lines(row, hold),
        names=names,
        choices={what: kind(row, hold, names) for what, kind in _CHOICES.items() if kind.fits(row, choices)},
        candidates=[hold.number] if hold is not None and "same" in choices and hold.reason not in _AS_IT_IS else [],
    )


def _offered(editor: Editor, number: int) -> tuple[Choice, ...]:
    """The choices about why the place of an edit is held that can succeed now; none if it is not held."""

    def ask(session: EditSession) -> tuple[Choice, ...]:
        kept = session.ledger.of(session.outbox.row(number).locid)
        return () if kept.hold is None else offered(kept.place, kept.hold)

    return editor.sessions.ask(ask)


def conflict_lines(row: OutboxRow, hold: Hold | None) -> list[Line]:
    """As it was, mine, theirs, field by field and with the blocks; theirs None if it is not known."""
    meant, known = described(row.intent.applied(row.intent.base)), hold is not None
    content = None if hold is None else described(hold.theirs)
    was, mine, theirs = (None if each is None else _texts(each) for each in (row.base, meant, content))
    return [
        Line(
            name=name,
            was="" if was is None else was[name],
            mine="(deleted)" if mine is None else mine[name],
            theirs=None if not known else "(gone)" if theirs is None else theirs[name],
        )
        for name in (*FIELD_NAMES, "blocks")
        if row.intent.values or name == "blocks" or theirs is not None
    ]


def _texts(described_as: dict[str, Any]) -> dict[str, str]:
    fields = {name: "" if value is None else str(value) for name, value in described_as["fields"].items()}
    blocks = ", ".join(first if first == last else f"{first}-{last}" for first, last in described_as["blocks"])
    return {**dict.fromkeys(FIELD_NAMES, ""), **fields, "blocks": blocks}


class _Decision(Edit):
    """A decision about one edit."""

    #: What the link to it says.
    link: str

    def __init__(self, row: OutboxRow, hold: Hold | None, names: Mapping[int, str]) -> None:
        self.row, self.sites, self.back = row, names, f"/outbox/{row.id}"
        self.place = f"{wording.edit(row, names)} ({wording.state(row.state)})"
        self.send, self.leave = _OTHERWISE if hold is None else _WORDS.get(hold.reason, _OTHERWISE)

    def told(self, row: OutboxRow) -> tuple[int, str]:
        """The place of a change, and what became of the change."""
        what = wording.edit(row, self.sites)
        return row.locid, f"Change {row.id} ({what}): {wording.state(row.state)}"

    @classmethod
    def fits(cls, row: OutboxRow, choices: Collection[Choice]) -> bool:
        """True if it can be made about this edit; ``choices`` are those about its place that can succeed now."""
        raise NotImplementedError

    def seen(self, editor: Editor) -> str:
        row = editor.edit(self.row.id)
        return digest_of([row.id, str(row.state), row.attempts, row.payload, row.problem])

    def now(self) -> dict[str, str]:
        fields = field_texts(self.row.payload.get("fields", {}))
        return {"change": wording.edit(self.row, self.sites), "state": wording.state(self.row.state), **fields}

    def after(self, locid: int) -> str:  # noqa: ARG002
        return f"/outbox/{self.row.id}"


class _Retry(_Decision):
    hint = "The next sending does it; until then nothing changes at the service."

    def __init__(self, row: OutboxRow, hold: Hold | None, names: Mapping[int, str]) -> None:
        super().__init__(row, hold, names)
        self.title = self.link = self.button = self.send

    @classmethod
    def fits(cls, row: OutboxRow, choices: Collection[Choice]) -> bool:  # noqa: ARG003
        return row.state in PERSON_STATES

    def does(self, values: Values) -> Does:  # noqa: ARG002
        def retry(editor: Editor) -> tuple[int, str]:
            return self.told(editor.retry(self.row.id))

        return retry


class _Amend(_Decision):
    button, link = "Save, and send it again", "Change what is sent"

    def __init__(self, row: OutboxRow, hold: Hold | None, names: Mapping[int, str]) -> None:
        super().__init__(row, hold, names)
        self.has_fields = bool(row.intent.values)
        self.block_label = "Network" if row.intent.new is not None else ""
        self.title = f"Change what change {row.id} sends"

    @classmethod
    def fits(cls, row: OutboxRow, choices: Collection[Choice]) -> bool:  # noqa: ARG003
        waits = row.state in (State.QUEUED, *PERSON_STATES)
        return waits and (bool(row.intent.values) or row.intent.new is not None)

    def begin(self, request: AnyRequest) -> Values:  # noqa: ARG002
        fields = field_texts(self.row.payload.get("fields", {}))
        block = self.row.intent.new
        return {**fields, **({} if block is None else {"block": block_text(block)})}

    def does(self, values: Values) -> Does:
        fields: dict[str, Any] = {}
        if self.has_fields:
            shown, given = field_texts(self.row.payload["fields"]), typed_fields(values)
            fields = {name: given[name] for name in shown if values[name] != typed(shown[name])}
        block = self.blocks(values)[0] if self.block_label else None

        def amend(editor: Editor) -> tuple[int, str]:
            if not fields and block is None:
                raise EditError("give a field to change")
            row = editor.amend(self.row.id, fields=fields, block=block, wide=bool(values.get(WIDE)))
            if fields.keys() & {"country", *DEGREES}:
                require_fitting({**UNKNOWN, **row.payload["fields"]})
            return self.told(row)

        return amend


class _Drop(_Decision):
    risky = True

    def __init__(self, row: OutboxRow, hold: Hold | None, names: Mapping[int, str]) -> None:
        super().__init__(row, hold, names)
        self.link = self.button = self.leave
        self.title = f"{self.link} (change {row.id})"
        if row.intent.what == "create":
            self.hint = "Later changes of this site, which was not created yet, are dropped with it."

    @classmethod
    def fits(cls, row: OutboxRow, choices: Collection[Choice]) -> bool:  # noqa: ARG003
        return row.state in (State.QUEUED, *PERSON_STATES)

    def does(self, values: Values) -> Does:  # noqa: ARG002
        def drop(editor: Editor) -> tuple[int, str]:
            rows = editor.drop(self.row.id)
            told = (self.told(row)[1] + (f"; {row.problem}" if row.problem else "") for row in rows)
            return rows[0].locid, "; ".join(told)

        return drop


class _Adopt(_Decision):
    button, locid_label, link = "Use this one", "Its number at the service", "It is there: say which one it is"
    title = "Which of the service's sites is it?"
    hint = "If the service has this site already, say under which number: then nothing is created twice."

    def __init__(self, row: OutboxRow, hold: Hold | None, names: Mapping[int, str]) -> None:
        super().__init__(row, hold, names)
        self.own = hold.number if hold is not None and hold.reason in _AS_IT_IS else None
        if self.own is not None:
            self.title = self.link = self.button = "Leave it as the service has it"
            self.hint, self.locid_label = "What is missing there stays away.", ""

    @classmethod
    def fits(cls, row: OutboxRow, choices: Collection[Choice]) -> bool:
        return row.state in PERSON_STATES and "same" in choices

    def does(self, values: Values) -> Does:
        try:
            locid = self.own or int(values["locid"])
        except ValueError as error:
            raise EditError(
                f"{values['locid']!r:.40} is not the number of a site: that is a whole number below zero"
            ) from error

        def adopt(editor: Editor) -> tuple[int, str]:
            row = editor.adopt(self.row.id, locid)
            return self.told(row)

        return adopt


#: The decisions, by the last part of their address, which is the command's name.
_CHOICES: dict[str, type[_Decision]] = {"retry": _Retry, "edit": _Amend, "drop": _Drop, "adopt": _Adopt}


@route("/outbox/{number:int}/{what:str}", http_method=["GET", "POST"], sync_to_thread=True)
def decide(request: AnyRequest, console: NamedDependency[Console], number: FromPath[int], what: FromPath[str]) -> Html:
    """A decision: its form, its effect, and the decision itself."""
    return respond(request, console, _decision(console, number, what))


def _decision(console: Console, number: int, what: str) -> _Decision:
    if what not in _CHOICES:
        raise RequestRefusedError("there is no such page", problem="not-found")
    editor = console.editor()
    row = editor.edit(number)
    hold = editor.hold(number) if row.state in PERSON_STATES else None
    return _CHOICES[what](row, hold, _called(console.layer(), [row]))


HANDLERS = [outbox, plan, start_push, pushing, one, decide]
