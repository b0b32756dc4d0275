"""Sources: the stack in its order, with ages, licences and problems; and a sync that goes on without its page."""

from dataclasses import dataclass

from litestar import get, post
from litestar.di import NamedDependency

from geolookup.console.console import Console, Html, Page
from geolookup.console.forms import AnyRequest
from geolookup.console.runs import Run
from geolookup.model.errors import HeldError, NoStateError, StateBusyError
from geolookup.model.reports import SourceStatus, Status
from geolookup.settings.times import shown
from geolookup.sources.bundled import BUNDLED, MORE
from geolookup.sources.definition import define
from geolookup.state.base.parts import REGISTRY
from geolookup.state.publishing import checks
from geolookup.sync import words
from geolookup.sync.pull.context import PullReport
from geolookup.sync.pull.pull import pull

PAGE = Page(title="Sources", path="/sources")


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """A source of the settings that was never pulled."""

    name: str
    kind: str
    location: str


@get("/sources", sync_to_thread=True)
def stack(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The stack, the source of highest precedence first."""
    settings = console.settings()
    try:
        status: Status | None = console.geo().status()
        needs = [*checks.wrong(console.geo().checks())]
    except NoStateError:
        status, needs = None, []
    bundled = status is not None and status.source == BUNDLED
    found: list[SourceStatus] = [] if status is None else list(status.sources)
    known = {source.name for source in found if not (source.kind == REGISTRY and bundled)}
    never = [
        Never(name=each.name, kind=each.kind, location=each.location)
        for each in map(define, settings.stack)
        if each.name not in known
    ]
    return console.page(
        request,
        "sources.html",
        status=status,
        needs=needs,
        sources=found,
        never=never,
        configured=bool(settings.stack),
        more=MORE if bundled and not settings.stack else None,
        when=shown,
        run=console.runs.latest("sync"),
    )


@post("/sources/sync", sync_to_thread=True)
def start_sync(console: NamedDependency[Console]) -> Html:
    """Start a sync, and lead to its progress."""
    directory, settings = console.directory(), console.settings_of_state()

    def work(run: Run) -> PullReport:
        return pull(directory, settings, progress=run.progress)

    try:
        console.runs.start("sync", work)
    except StateBusyError as error:  # a second click, another tab
        return console.go("/sources/sync", f"{error}.")
    return console.go("/sources/sync")


@get("/sources/sync", sync_to_thread=True)
def syncing(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The progress of the sync under way, or the result of the last one."""
    run = console.runs.latest("sync")
    if run is None:
        return console.go("/sources", "No sync was made from this console yet.")
    report = run.report
    return console.page(
        request,
        "sync.html",
        run=run,
        report=report,
        did=None if report is None else words.pulled(report),
        held=isinstance(run.reason, HeldError),
        when=shown,
    )


HANDLERS = [stack, start_sync, syncing]
