"""What is kept and handed on: who changed what and when, files of sites and answers, and backups."""

import os
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import IO, Any

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import FromPath
from litestar.response import Stream

from geolookup.base.text import harmless, without_accents
from geolookup.console import wording
from geolookup.console.console import Console, Html
from geolookup.console.entry import MAX_PERSON, person_cookie, person_of
from geolookup.console.forms import AnyRequest, Form, Table, query
from geolookup.console.html import called
from geolookup.console.past import Past
from geolookup.exports.export import ExportForm, export
from geolookup.model.addresses import parse_range, range_ends
from geolookup.model.errors import GeoLookupError, RequestRefusedError, StateError
from geolookup.model.types import IPBlock
from geolookup.sites.file import write_sites
from geolookup.sites.plan import export_sites
from geolookup.sites.vrfs import export_vrf
from geolookup.state.base.actor import acting, who
from geolookup.state.base.clock import wall
from geolookup.state.edits.steps import vrf_place
from geolookup.state.publishing import archive

#: Lines of the history that are read at most; the command has all.
_MOST_LINES = 2_000
_CHUNK_BYTES = 1 << 18
#: Files of answers, each with its words, its form, and what it is limited to.
_FILES: dict[str, tuple[str, ExportForm, dict[str, Any]]] = {
    "answers.mmdb": ("All answers as a MaxMind DB", "mmdb", {}),
    "answers.csv": ("All answers as CSV", "csv", {}),
    "sites.geofeed.csv": ("Your public networks as a geofeed (RFC 8805)", "geofeed", {"public_only": True}),
}


@get("/history", sync_to_thread=True)
def history(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """Who changed what and when, the newest first."""
    editor = console.editor()
    lines = editor.history(newest=_MOST_LINES)
    layer, past, find = console.layer(), Past(lines), query(request, "find")
    now = {laid.place.locid: called(laid.place, layer.names.get(laid.place.locid)) for laid in layer.every}
    names = past.names | now
    found = [line for line in lines if _is_found(line, find, names)] if find else lines
    return console.page(
        request,
        "history.html",
        table=Table(request, past.deeds(found), {}, default=""),
        names=names,
        find=find,
        whole=len(lines) < _MOST_LINES,
    )


def _is_found(line: dict[str, Any], find: str, names: dict[int, str]) -> bool:
    """True if a line says this, without accents; or is about a network that has this address or network."""
    try:
        family, first, last = parse_range(*range_ends(find))
    except GeoLookupError:
        return without_accents(find).casefold() in without_accents(_text_of(line, names)).casefold()
    sides = [line[name] for name in ("before", "after") if isinstance(line[name], dict)]
    blocks = [IPBlock.from_ends(*ends) for side in sides for ends in side.get("blocks", ())]
    return any(each.family == family and each.first <= last and first <= each.last for each in blocks)


def _text_of(line: dict[str, Any], names: dict[int, str]) -> str:
    """A line of the history as its page words it, to be searched."""
    told = (
        names.get(line["locid"]),
        vrf_place(line),
        wording.did(line),
        wording.changed(line),
        line["who"],
        line["via"],
    )
    return "\n".join(str(each) for each in (*told, wording.outcome(line)) if each)


@get("/name", sync_to_thread=True)
def name_form(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The form for the name by which the history calls a person."""
    person = person_of(request.headers.get("cookie", "")) or ""
    return console.page(request, "name.html", person=person, most=MAX_PERSON, back=_own(query(request, "back")))


def _own(path: str) -> str:
    """A page of this console, to go back to; the start, if it is none."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() else "/"


@post("/name", sync_to_thread=True)
def keep_name(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """Keep that name in a cookie; an empty one means the account's."""
    form: Form = request.state.form
    name = "" if form.text("step") == "stay" else harmless(" ".join(form.text("name").split()), MAX_PERSON)
    with acting("console", name):
        answer = console.go(_own(form.text("back")), f"The history calls you {who()}.")
    answer.headers["set-cookie"] = person_cookie(name)
    return answer


@get("/export", sync_to_thread=True)
def exports(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The files that can be had."""
    return _exports(request, console)


def _exports(request: AnyRequest, console: Console, status: int = 200, error: str | None = None) -> Html:
    vrfs = console.editor().vrfs() if console.directory().current_or_none() is not None else []
    return console.page(request, "export.html", status, files=_FILES, vrfs=vrfs, error=error)


@get("/export/{name:str}", sync_to_thread=True)
def one_export(request: AnyRequest, console: NamedDependency[Console], name: FromPath[str]) -> Any:
    """One file."""
    try:
        return _download(console, name, query(request, "vrf"))
    except GeoLookupError as error:
        if isinstance(error, RequestRefusedError):
            raise
        return _exports(request, console, 409, error.told)


def _download(console: Console, name: str, vrf: str) -> Stream:
    file = tempfile.TemporaryFile()  # noqa: SIM115  # closed once it is sent
    try:
        if name in ("sites.toml", "sites.csv"):
            sites = export_vrf(console.editor(), vrf) if vrf else export_sites(console.editor())
            text = write_sites(sites, "toml" if name == "sites.toml" else "csv")
            # With a mark Excel reads UTF-8, not Windows-1252; a sheet that is uploaded again may have it.
            file.write(text.encode("utf-8" if name == "sites.toml" else "utf-8-sig"))
        elif name in _FILES:
            _, form, options = _FILES[name]
            export(console.geo(), form, file, **options)
        else:
            raise RequestRefusedError("there is no such file", problem="not-found")
    except BaseException:
        file.close()
        raise
    file.seek(0)
    of = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in vrf)
    called = f"{name.partition('.')[0]}{f'-{of}' if vrf else ''}.{name.partition('.')[2]}"
    headers = {"content-disposition": f'attachment; filename="geolookup-{called}"'}
    return Stream(_chunks(file), media_type="application/octet-stream", headers=headers)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


@get("/backups", sync_to_thread=True)
def backups(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The backups of the edits that are made by themselves, and the form for one of everything."""
    return _backups(request, console)


def _backups(
    request: AnyRequest, console: Console, status: int = 200, error: str | None = None, path: str = ""
) -> Html:
    found = []
    for each in console.directory().edits.backups():
        try:
            at = datetime.fromtimestamp(os.stat(each).st_mtime, UTC)
        except OSError:
            continue  # it was not made yet
        found.append((each, at))
    suggested = os.path.join(os.path.expanduser("~"), f"geolookup-{wall().date()}.tar.gz")
    return console.page(request, "backups.html", status, backups=found, target=path or suggested, error=error)


@post("/backups", sync_to_thread=True)
def back_up(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """Write a backup of the state, as `geolookup state backup` does."""
    form: Form = request.state.form
    path = os.path.expanduser(form.text("path"))
    try:
        if not os.path.isabs(path) or "\0" in path:
            raise StateError("give the whole path of the file, from / on")
        made = archive.backup(console.directory(), path)
    except GeoLookupError as error:
        return _backups(request, console, 422, error.told, path)
    return console.go("/backups", f"Version {made.generation} and all changes are in {made.path}, verified.")


HANDLERS = [history, name_form, keep_name, exports, one_export, backups, back_up]
