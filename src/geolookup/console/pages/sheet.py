"""A sheet of sites: uploaded, read and compared as `custom plan` does, applied as `custom apply` does, and undone."""

import contextlib
import io
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from litestar import get, post
from litestar.di import NamedDependency
from markupsafe import Markup

from geolookup.console.console import Console, Html
from geolookup.console.editing import AT_ONCE_EDITS, OvertakenError, digest_of
from geolookup.console.forms import MAX_SHEET_BYTES, AnyRequest, Form, query, read_dropped
from geolookup.console.html import called, shown, some
from geolookup.console.wording import again, saved, unread
from geolookup.history.preview import EditPreview, preview_edit
from geolookup.model.errors import EditError, GeoLookupError
from geolookup.settings.table import Settings
from geolookup.sites.applying import Planned, apply_all, parts_of, plan_all
from geolookup.sites.changes import Kind
from geolookup.sites.file import read_sites, sheets_of
from geolookup.sites.plan import apply_sites
from geolookup.sites.servers.applying import apply_server, plan_server
from geolookup.sites.servers.server import ServerSites, read_exports
from geolookup.sites.since import Keep, Whose
from geolookup.sites.site import Problems, Site
from geolookup.sites.undo import Undone, plan_undo, undo
from geolookup.state.editor import Editor
from geolookup.sync import words

#: Steps of a plan on one page.
_MOST_STEPS = 200
#: Segments that are compared place by place; for more, answers are counted by country.
_AT_ONCE_SEGMENTS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sheet:
    """An uploaded sheet, as long as its plan is looked at; or the lists that NetBox or Nautobot exported as CSV.

    ``sheet`` is the chosen one of its workbook. Sites that name no VRF are of ``vrf``, if there is one.
    """

    number: str
    files: Sequence[tuple[str, bytes]] = field(repr=False)
    sheet: str | None = None
    vrf: str = ""

    @property
    def name(self) -> str:
        """The names of its files."""
        return ", ".join(name for name, _ in self.files)

    @property
    def is_export(self) -> bool:
        """True if it is several lists: as files, or in an archive."""
        return len(self.files) > 1 or self.name.lower().endswith(".zip")

    def plan(self, editor: Editor, settings: Settings, keep: Keep) -> tuple[Planned, list[str]]:
        """The plan of its changes, and notes on how the files were read; nothing is changed.

        :raises DataFileError: if it cannot be read, or sites cannot be made as they are there
        """
        problems = Problems()
        if self.is_export:
            found = plan_server(editor, self._exports(settings, problems), settings, problems, keep=keep)
        else:
            found = plan_all(editor, self._parts(editor, settings, problems), settings, problems, keep=keep)
        return found, problems.said

    def apply(self, editor: Editor, settings: Settings, keep: Keep, *, guarded: bool) -> Planned:
        """Make it so.

        :raises GeoLookupError: as `apply_all` does; nothing was changed
        """
        problems = Problems()
        if self.is_export:
            there = self._exports(settings, problems)
            return apply_server(editor, there, settings, problems, guarded=guarded, keep=keep)
        parts, guard = self._parts(editor, settings, problems), settings if guarded else None
        return apply_all(editor, parts, file=self.name, guard=guard, problems=problems, keep=keep)

    def _parts(self, editor: Editor, settings: Settings, problems: Problems) -> dict[str, list[Site]]:
        sites = read_sites(
            self.name,
            stream=io.BytesIO(self.files[0][1]),
            sheet=self.sheet,
            fields=settings.sites.fields,
            problems=problems,
            vrf_global=settings.sites.vrf_global,
        )
        return parts_of(editor, sites, self.vrf, settings.sites.vrf_global)

    def _exports(self, settings: Settings, problems: Problems) -> ServerSites:
        with tempfile.TemporaryDirectory(prefix="geolookup-") as folder:
            names = {}
            for number, (name, content) in enumerate(self.files):
                path = Path(folder, str(number))  # a name that comes from outside is for messages alone
                path.write_bytes(content)
                names[str(path)] = name
            return read_exports([*names], settings, problems, shown=names.__getitem__)

    def sheets(self) -> list[str]:
        """The sheets of the workbook, if it has several; of what cannot be read none."""
        if self.is_export:
            return []
        with contextlib.suppress(GeoLookupError):
            return sheets_of(self.name, io.BytesIO(self.files[0][1]))
        return []


def _kept(console: Console, number: str) -> _Sheet:
    """The sheet of this number.

    :raises EditError: if another one was uploaded since
    """
    found: _Sheet | None = console.sheet
    if found is None or found.number != number:
        raise EditError("this sheet is not kept any more, since another one was uploaded: upload it again")
    return found


@get("/custom/sheet", sync_to_thread=True)
def sheet_form(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The form for a sheet, and the undo of the last step."""
    return _page(request, console)


@post("/custom/sheet", sync_to_thread=True, request_max_body_size=MAX_SHEET_BYTES)
def sheet(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """Show what an uploaded sheet would change, or make it so."""
    form: Form = request.state.form
    found: _Sheet | None = None
    try:
        if form.text("step") == "apply":
            return _apply(console, form)
        if form.text("sheet"):
            found = _kept(console, form.text("sheet"))
            if form.text("which"):
                console.sheet = found = replace(found, sheet=form.as_sent("which"))
        else:
            files, vrf = read_dropped(request), form.text("vrf")
            console.sheet = found = _Sheet(number=secrets.token_urlsafe(9), files=files, vrf=vrf)
        return _plan(request, console, found, _keep_of(form))
    except GeoLookupError as error:
        return _page(
            request, console, status=422, sheet=found, error=unread(error.told), sheets=found.sheets() if found else []
        )


def _keep_of(form: Form) -> Keep:
    """The form's choices: whose version of each site stays, and if the sites that the sheet lacks stay."""
    names, said = form.all("changed-site"), form.typed()
    kept: dict[str, Whose] = {
        name: "theirs" if said[f"keep-{number}"] == "theirs" else "mine"
        for number, name in enumerate(names)
        if said.get(f"keep-{number}") in ("theirs", "mine")
    }
    return Keep(sites=kept, absent=form.text("absent") == "stay")


def _plan(request: AnyRequest, console: Console, found: _Sheet, keep: Keep) -> Html:
    editor = console.editor()
    plan, said = found.plan(editor, console.settings(), keep)
    preview: EditPreview | None = None
    if plan.sites is not None and plan.sites.edits and not plan.conflicts:

        def applied(editor: Editor) -> None:
            apply_sites(editor, plan.given, file=found.name, keep=keep)

        preview = preview_edit(console.directory(), editor, applied, most=_AT_ONCE_SEGMENTS, whole=True)
    values: dict[str, Any] = {"number": _number(plan), "said": said, "keep": keep, "preview": preview}
    values["every"] = len(console.layer().every)
    return _page(request, console, sheet=found, plan=plan, seen=_seen(plan), **values)


def _number(plan: Planned) -> int:
    """The changes of a plan as its page lists them: a name for a site that had none is one."""
    return sum(len(part.changes) for part in (plan.sites, plan.vrfs) if part is not None)


def _seen(plan: Planned) -> str:
    """The form's mark of a plan: another text if the plan is another one."""
    sites = () if plan.sites is None else plan.sites.changes
    steps = [(str(each.kind), each.site, each.fields, str(each.block)) for each in sites]
    of_vrfs = [] if plan.vrfs is None else [each.describe() for each in plan.vrfs.changes]
    return digest_of([*steps, [] if plan.sites is None else plan.sites.summary.describe(), of_vrfs])


def _apply(console: Console, form: Form) -> Html:
    found = _kept(console, form.text("sheet"))
    editor = console.editor()
    editor.sessions.back_up()  # which a transaction cannot
    with editor.transaction():  # which forgets all of it, if it is not what was shown
        made = found.apply(editor, console.settings(), _keep_of(form), guarded=not form.text("accept"))
        if _seen(made) != form.text("seen"):
            raise EditError(
                "the sites were changed meanwhile: nothing was done. Upload the sheet again to look once more"
            )
    number = _number(made)
    new = [each.site or "" for each in (made.sites.changes if made.sites else ()) if each.kind is Kind.CREATE]
    sites = editor.sites()
    linked = [Markup('<a href="/custom/{}">{}</a>').format(sites[each], shown(each)) for each in new if each in sites]
    created = Markup(": created {}").format(some(linked)) if linked else ""
    undo_it = Markup('. <a href="/custom/undo">Undo it</a>')
    told: str = Markup("{} made from {}").format(words.count(number, "change"), shown(found.name)) + created + undo_it
    told = told if number else "Nothing had to be changed"
    return console.go("/custom", saved(told, editor))


@get("/custom/undo", sync_to_thread=True)
def undo_form(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The plan of undoing the last step, or the one of a number, perhaps for one site alone; and the addresses whose
    answer it changes, unless to count them is slow.
    """
    return _undo_page(request, console, _Which.of(query(request, "step"), query(request, "site")))


class _Which(NamedTuple):
    """The step to undo, and the only site of it, as `undo` takes them; the last step, if neither is there."""

    step: int | None
    site: int | None

    @classmethod
    def of(cls, *texts: str) -> "_Which":
        """By an address or a form.

        :raises EditError: if one is not a number
        """
        try:
            return cls(*(int(text) if text else None for text in texts))
        except ValueError:
            raise EditError("the address does not name a change: open it by a link of the history") from None


def _undo_page(request: AnyRequest, console: Console, which: _Which, error: str | None = None) -> Html:
    editor, preview = console.editor(), None
    found: list[Undone] = []
    lines = editor.history(newest=AT_ONCE_EDITS)
    newest = [line["step"] for line in lines]
    whole = query(request, "show") == "all"
    large = not whole and which.step is None and len(newest) == AT_ONCE_EDITS and len({*newest}) == 1
    few = sum(console.layer().edits.values()) <= AT_ONCE_EDITS
    try:
        if whole or few:
            directory, most = console.directory(), _AT_ONCE_SEGMENTS
            does = lambda one: found.append(undo(one, step=which.step, site=which.site))  # noqa: E731
            preview = preview_edit(directory, editor, does, most=most, whole=whole)
        elif not large:
            found = [plan_undo(editor, step=which.step, site=which.site)]
    except GeoLookupError as wrong:
        error = wrong.told
    undone = found[0] if found else None
    values = {
        "undone": undone,
        "again": [] if undone is None else _again(undone),
        "which": which,
        "after_undo": which.step is None and bool(lines and lines[-1]["undoes"]),
        "preview": preview,
        "seen": "" if undone is None else _seen_of(undone),
        "shown": _MOST_STEPS,
        "later": error is None and not whole and not (preview and preview.counted),
    }
    return console.page(request, "undo.html", 409 if error else 200, error=error, **values)


@post("/custom/undo", sync_to_thread=True)
def undo_last(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """Undo what was shown, if it is that still."""
    form: Form = request.state.form
    editor, which = console.editor(), _Which.of(form.text("of"), form.text("site"))
    try:
        with editor.transaction():  # which forgets all of it, if it is not what was shown
            made = undo(editor, step=which.step, site=which.site)
            if _seen_of(made) != form.text("seen"):
                raise OvertakenError(_OVERTAKEN)
    except EditError as error:
        return _undo_page(request, console, which, error.told)
    told = _again(made, done=True)
    if len(told) > _MOST_TOLD:
        told = [words.count(len(told), "change")]
    told = [f"Undone: {'; '.join(told)}" if told else "Nothing had to be undone", *made.notes]
    there = [locid for locid, (_, after) in made.places.items() if after is not None]
    if which.site is not None and not made.places:  # another name, say
        return console.go(f"/custom/{which.site}", saved("; ".join(told), editor))
    path = f"/custom/{there[0]}" if len(there) == len(made.places) == 1 else "/custom"
    return console.go(path, saved("; ".join(told), editor))


def _again(undone: Undone, *, done: bool = False) -> list[str]:
    """Each site as an undo leaves it, in words."""
    found = []
    for locid, (before, after) in undone.places.items():
        place = after or before
        assert place is not None
        found += again(called(place, undone.names.get(locid)), before, after, done=done)
    return [*found, *undone.put_back]


#: Sentences about an undo that the page after it has; more are counted.
_MOST_TOLD = 3
_OVERTAKEN = "Something else was changed meanwhile: nothing was undone. This is what would be undone now."


def _seen_of(undone: Undone) -> str:
    """The form's mark of what it undoes."""
    return digest_of([[step.number for step in undone.steps], _again(undone), undone.notes])


def _page(request: AnyRequest, console: Console, status: int = 200, **values: Any) -> Html:
    names = ("sheet", "plan", "number", "preview", "seen", "error", "said", "keep", "sheets", "every")
    given: dict[str, Any] = {**dict.fromkeys(names), **values}
    return console.page(request, "sheet.html", status, shown=_MOST_STEPS, **given)


HANDLERS = [sheet_form, sheet, undo_form, undo_last]
