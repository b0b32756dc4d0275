"""Sources: the stack in its order, with ages, licences and problems; changes of it; a sync, also without its page."""

import os

from litestar import get, post
from litestar.di import NamedDependency

from geolookup.console import wording
from geolookup.console.console import Console, Html, Page
from geolookup.console.editing import AT_ONCE_EDITS
from geolookup.console.forms import AnyRequest, Form, query
from geolookup.model.errors import GeoLookupError, HeldError, NoStateError, SettingsError
from geolookup.model.reports import SourceStatus, Status
from geolookup.settings import edit
from geolookup.sources.adding import new_values, refuse_what_cannot_be_pulled
from geolookup.sources.bundled import BUNDLED, MORE
from geolookup.sources.definition import define, refuse_location
from geolookup.sources.providers import PRESETS
from geolookup.state.base.parts import REGISTRY
from geolookup.state.publishing import checks
from geolookup.sync.belonging import noted
from geolookup.sync.pull.pull import pull

#: The inputs of the form of a new source.
_NEW = ("location", "name", "token_file", "position")

PAGE = Page(title="Sources", path="/sources", icon="sources")


@get("/sources", sync_to_thread=True)
def stack(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The stack, the source of highest precedence first."""
    settings = console.settings()
    try:
        status: Status | None = console.geo().status()
        # The checks read every edit.
        soon = query(request, "show") == "all" or sum(console.layer().edits.values()) <= AT_ONCE_EDITS
        needs = checks.wrong(console.geo().checks()) if soon else None
    except NoStateError:
        status, needs = None, None
    bundled = status is not None and status.source == BUNDLED
    found: list[SourceStatus] = [] if status is None else list(status.sources)
    known = {source.name for source in found if not (source.kind == REGISTRY and bundled)}
    order = [source.name for source in settings.stack]
    answering = [source.name for source in found if source.name in order]
    found.sort(key=lambda source: order.index(source.name) if source.name in order else len(order))
    return console.page(
        request,
        "sources.html",
        until_then=answering if answering != [name for name in order if name in answering] else None,
        status=status,
        needs=needs,
        sources=found,
        bundled=bundled,
        never=[each for each in map(define, settings.stack) if each.name not in known],
        configured=bool(settings.stack),
        order=order,
        more=MORE if bundled and not settings.stack else None,
        run=console.runs.latest("sync"),
    )


@post("/sources", sync_to_thread=True)
def change(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """Move a source above or below its neighbour, or remove it."""
    form: Form = request.state.form
    name, step = form.text("name"), form.text("step")
    if step == "remove":
        with noted(console.directory, console.settings):
            edit.remove_source(name)
        return console.go("/sources", f"{name} is removed: the next update publishes without it.")
    order = [source.name for source in console.settings().stack]
    if name not in order:
        raise SettingsError(f"{name:.60} is not among the sources any more: nothing was changed")
    place = order.index(name)
    below = place + 2 if step == "down" else max(place - 1, 0)
    with noted(console.directory, console.settings):
        edit.move_source(name, edit.Before(order[below]) if below < len(order) else "last")
    return console.go("/sources", f"{name} moved {step}: the next update follows.")


@get("/sources/remove", sync_to_thread=True)
def remove_form(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The question before a source is removed."""
    name = query(request, "name")
    if name not in [source.name for source in console.settings().stack]:
        raise SettingsError(f"{name:.60} is not among the sources: nothing was changed")
    return console.page(request, "source_remove.html", name=name)


@get("/sources/add", sync_to_thread=True)
def add_form(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The form of a new source."""
    return _add_form(request, console, {"location": query(request, "location"), "position": "last"})


def _add_form(
    request: AnyRequest, console: Console, values: dict[str, str], status: int = 200, error: str | None = None
) -> Html:
    values = {name: values.get(name, "") for name in _NEW}
    return console.page(request, "source_add.html", status, values=values, presets=PRESETS, error=error)


@post("/sources/add", sync_to_thread=True)
def add(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """Add a source to the settings, as `geolookup source add` does."""
    form: Form = request.state.form
    typed = {name: form.text(name) for name in _NEW}
    try:
        refuse_location(typed["location"])
        values = new_values(typed["location"], typed["name"] or None, None, {})
        if typed["token_file"]:
            values["token_file"] = os.path.abspath(os.path.expanduser(typed["token_file"]))
        source = edit.read_new_source(values)
        refuse_what_cannot_be_pulled(typed["location"], source, define(source))
        with noted(console.directory, console.settings):
            edit.add_source(values, "first" if typed["position"] == "first" else "last")
    except GeoLookupError as wrong:
        return _add_form(request, console, typed, 422, str(wrong))
    return console.go("/sources", f"{source.name} is added: the next update pulls it.")


@post("/sources/sync", sync_to_thread=True)
def start_sync(console: NamedDependency[Console]) -> Html:
    """Start a sync, and lead to its progress."""
    directory, settings = console.directory(), console.settings_of_state()

    return console.start("sync", lambda run: pull(directory, settings, progress=run.progress), "/sources/sync")


@get("/sources/sync", sync_to_thread=True)
def syncing(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The progress of the sync under way, or the result of the last one."""
    run = console.runs.latest("sync")
    if run is None:
        return console.go("/sources", "No update was made from these pages yet.")
    report = run.report
    return console.page(
        request,
        "sync.html",
        run=run,
        report=report,
        did=None if report is None else wording.updated(report),
        held=wording.reasons(run.error or "") if isinstance(run.reason, HeldError) else "",
    )


HANDLERS = [stack, change, remove_form, add_form, add, start_sync, syncing]
