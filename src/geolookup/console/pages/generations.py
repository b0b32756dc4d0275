"""Generations: when each was served, changes from one to another, going back, pins, and held ones."""

from collections.abc import Iterator
from typing import Any

from litestar import get, post
from litestar.di import NamedDependency

from geolookup.console import wording
from geolookup.console.console import Console, Html, Page
from geolookup.console.forms import MAX_FILE_BYTES, READS, AnyRequest, Form, dropped, query, while_wanted
from geolookup.history import diff as history
from geolookup.history.diff import Sides
from geolookup.history.held import held_items
from geolookup.history.impact import ChangedAnswer
from geolookup.lookup.asked import read_field
from geolookup.model.errors import EditError, GeoLookupError, InvalidAddressError
from geolookup.state.base.parts import is_received
from geolookup.state.publishing.catalogue import PREVIOUS, SERVED, Generations, KeptGeneration
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.accept import accept

PAGE = Page(title="Versions", path="/generations", icon="versions", parts=("/backups",))

#: Rows of each kind that a comparison shows.
_MOST_ROWS = 50
#: Blocks of a state that is compared at once; comparing reads all of them.
_AT_ONCE_BLOCKS = 300_000
#: Addresses of a dropped list that a page shows with their answers.
_MOST_ANSWERS = 500
_MAX_LINE_BYTES = 4096
#: Lines of the history in which the page looks for what a person decided.
_MOST_LINES = 2_000


@get("/generations", sync_to_thread=True)
def table(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """All kept generations, the newest first, and the held ones."""
    return _table(request, console)


def _table(request: AnyRequest, console: Console, status: int = 200, error: str | None = None) -> Html:
    directory = console.directory()
    current, found = directory.require_current(), Generations(directory).kept()
    held = [each for each in found if each.held]
    reasons = {each.digest: each.reasons for each in held_items(directory)}
    lines = console.editor().history(newest=_MOST_LINES)
    kept = sorted((each for each in found if not each.held), key=lambda each: each.number or 0, reverse=True)
    return console.page(
        request,
        "generations.html",
        status,
        kept=kept,
        brought={each.number: _difference(directory, each) for each in kept},
        decided=_decided(lines),
        rolled_back=next((line for line in reversed(lines) if line["what"] == "rollback"), None),
        rolled_back_by=directory.edits.rolled_back(),
        held=held,
        reasons=reasons,
        served=current.generation,
        lasts=not is_received(current.published),
        error=error,
    )


def _difference(directory: StateDirectory, kept: KeptGeneration) -> Any:
    """What a version changed of the one before it, as its pull counted it; None if that is not known."""
    return None if kept.problem or kept.number is None else directory.report(kept.number)["report"].get("difference")


def _decided(lines: list[dict[str, Any]]) -> dict[int, tuple[dict[str, Any], str]]:
    """The versions that a person published though they were held: the line of the history, and why they were held."""
    found: dict[int, tuple[dict[str, Any], str]] = {}
    reasons = ""
    for line in lines:
        reasons = wording.held_for(line) or reasons
        if line["what"] == "accept" and isinstance(line["after"], dict) and "generation" in line["after"]:
            found[line["after"]["generation"]] = line, reasons
    return found


@post("/generations", sync_to_thread=True)
def change(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """Go back to a generation, pin or unpin it, or accept a held one."""
    form: Form = request.state.form
    try:
        told = _done(console, form)
    except GeoLookupError as error:
        return _table(request, console, 409, error.told)
    return console.go("/generations", told[0].upper() + told[1:])


def _done(console: Console, form: Form) -> str:
    directory = console.directory()
    step = form.text("step")
    if step == "accept":
        return f"{wording.updated(accept(directory, form.text('digest'), console.settings()))}."
    number = form.number("number")
    if step == "pin":
        directory.keeping.pin(number)
        return f"Version {number} is kept until it is unpinned."
    if step == "unpin":
        directory.keeping.unpin(number)
        return f"Version {number} is pinned no longer: it goes when newer ones take its place."
    before = form.number("served")
    if form.text("seen") != str(before):
        raise EditError("nothing was changed: first look at what would change, by the link beside the version")
    published = directory.keeping.rollback(number, reason=form.text("reason"), instead_of=before)
    return wording.rolled_back(published, before)


@get("/generations/diff", sync_to_thread=True)
def diff(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The changes from one generation to another; of large ones only on request."""
    return _diff(request, console, None)


@post("/generations/diff", sync_to_thread=True, opt=READS, request_max_body_size=MAX_FILE_BYTES)
def diff_for(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The same, and which addresses of a dropped list get another answer."""
    try:
        with dropped(request) as (_, stream):
            return _diff(request, console, while_wanted(request, _lines(stream)))
    except GeoLookupError as error:
        return _diff(request, console, None, status=422, error=error.told)


def _diff(
    request: AnyRequest,
    console: Console,
    asked: Iterator[tuple[int, str]] | None,
    *,
    status: int = 200,
    error: str | None = None,
) -> Html:
    directory = console.directory()
    old, new = query(request, "old") or PREVIOUS, query(request, "new") or SERVED
    values: dict[str, Any] = dict.fromkeys(
        ("sources", "impact", "stacks", "changed", "numbers", "losses", "then_and_now", "sites_belong", "rolls_back"),
    )
    held = next((each for each in held_items(directory) if each.reference == new), None)
    at_once = query(request, "show") == "all" or asked is not None
    try:
        if held is not None and not at_once:  # to open it takes long by itself
            served = directory.require_current()
            told = wording.holds(served.published["rows"]), wording.holds(held.record.get("rows"))
            values["numbers"], values["stacks"] = (served.generation, new), ([], [])
            values["then_and_now"] = list(zip(("served", "not published"), told, strict=True))
        else:
            values |= _compared(request, console, asked, at_once=at_once, old=old, new=new)
    except GeoLookupError as wrong:
        status, error = 422, str(wrong)
    kept = [each for each in Generations(directory).kept() if each.number is not None]
    return console.page(
        request, "generations_diff.html", status, old=old, new=new, kept=kept[::-1], error=error,
        lasts=not is_received(directory.require_current().published),
        rolled_back_by=directory.edits.rolled_back(),
        most=_MOST_ROWS, held=held, undoes=values.pop("undoes", False), **values,
    )  # fmt: skip


def _compared(
    request: AnyRequest,
    console: Console,
    asked: Iterator[tuple[int, str]] | None,
    *,
    at_once: bool,
    old: str,
    new: str,
) -> dict[str, Any]:
    """The comparison of two versions, for the page; of large ones only what they have, unless ``at_once``.

    :raises GeoLookupError: if they cannot be compared
    """
    values: dict[str, Any] = {}
    with history.opened(console.directory(), old, new, sites="now") as sides:
        numbers = values["numbers"] = sides.names
        served = console.directory().require_current().generation
        # To go back to another version begins with the comparison of the served one with it.
        rolls_back, undoes = (
            served == own != other and isinstance(other, int) for own, other in (numbers, numbers[::-1])
        )
        rolls_back = values["rolls_back"] = rolls_back and query(request, "look") != "only"
        values |= {"undoes": undoes, "sites_belong": sides.have_sites, "stacks": sides.stacks()}
        rows = [side.current.published.get("rows") for side in (sides.old, sides.new)]
        values["then_and_now"] = [
            (f"Version {name}", wording.holds(each)) for name, each in zip(numbers, rows, strict=True)
        ]
        if at_once or max(each["blocks"] for each in rows if each) <= _AT_ONCE_BLOCKS:
            values |= {"sources": sides.sources(top=_MOST_ROWS, blocks=True), "impact": sides.impact()}
            if rolls_back:
                values["losses"] = sides.losses(console.settings())
        if asked is not None:
            values["changed"] = _Changed(sides, asked)
    return values


class _Changed:
    """The addresses of a list whose answer differs: the first ones with both answers, and how many there are."""

    def __init__(self, sides: Sides, lines: Iterator[tuple[int, str]]) -> None:
        comparison = sides.comparison()
        self.rows: list[ChangedAnswer] = []
        self.asked = self.count = self.malformed = 0
        self.first_malformed: str | None = None
        for number, text in lines:
            try:
                addresses = read_field(text)
            except InvalidAddressError as error:
                self.malformed += 1
                self.first_malformed = self.first_malformed or f"line {number}: {error}"
                continue
            for address in addresses:
                self.asked += 1
                found = comparison.answer(address)
                if found is not None:
                    self.count += 1
                    if len(self.rows) < _MOST_ANSWERS:
                        self.rows.append(found)


def _lines(stream: Any) -> Iterator[tuple[int, str]]:
    number = 0
    while line := stream.readline(_MAX_LINE_BYTES):
        number += 1
        rest = line
        while not rest.endswith(b"\n") and len(rest) == _MAX_LINE_BYTES:
            rest = stream.readline(_MAX_LINE_BYTES)
        yield number, line.decode("utf-8-sig", "replace").strip()


HANDLERS = [table, change, diff, diff_for]
