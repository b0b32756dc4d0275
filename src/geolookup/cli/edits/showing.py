"""Edits as commands write them: those that wait for the service, the steps of a plan, and ``--preview`` of one edit."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from geolookup.base.text import plain
from geolookup.cli import output
from geolookup.cli.options import load_settings, state_directory
from geolookup.model.types import IPBlock
from geolookup.sites.changes import Change, Kind
from geolookup.sites.site import block_text, blocks_text
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.row import OutboxRow
from geolookup.sync import words

if TYPE_CHECKING:
    from geolookup.history.impact import PlaceChange, ServedPlace
    from geolookup.history.preview import EditPreview

#: Segments that are looked at place by place; of more, the countries are counted.
_MOST_SEGMENTS = 100_000
_MOST_ROWS = 20


def say_pending(editor: Editor) -> None:
    """Say how many edits have not reached the service, and what becomes of them; nothing without a service."""
    waiting = editor.pending()
    if waiting or editor.has_service():
        output.done(words.pending(waiting, "`geolookup push`", "`geolookup outbox list`"))


def say_changes(changes: Iterable[Change]) -> None:
    """Say the steps of a plan, one a line; the blocks of what is created stand with it."""
    changes = list(changes)
    given: dict[str | None, list[IPBlock]] = {change.site: [] for change in changes if change.kind is Kind.CREATE}
    for change in changes:
        if change.kind is Kind.ADD_BLOCK and change.site in given and change.block is not None:
            given[change.site].append(change.block)
    for change in changes:
        if change.kind is Kind.CREATE:
            blocks = blocks_text(given[change.site])
            output.done(f"{change.describe()}; {blocks or 'no blocks'}")
        elif change.kind is not Kind.ADD_BLOCK or change.site not in given:
            output.done(change.describe())


def pending_objects(editor: Editor) -> list[dict[str, Any]]:
    """The edits that have not reached the service, for ``--json``."""
    names = editor.site_names()
    return [edit_object(row, names) for row in editor.pending()]


def edit_object(row: OutboxRow, names: Mapping[int, str]) -> dict[str, Any]:
    """An edit of the outbox, for ``--json``; ``names`` are those of sites."""
    return {**row.as_dict(), "state": str(row.state), "site": names.get(row.locid)}


def edit_text(row: OutboxRow, names: Mapping[int, str]) -> str:
    """An edit in words, with the name of its site."""
    return row.describe() + (f" ({names[row.locid]})" if row.locid in names else "")


def show_preview(editor: Editor, as_json: bool, edit: Callable[[Editor], Any]) -> None:
    """Say whose answer an edit would change, and change nothing.

    :raises EditError: if it cannot be made
    """
    from geolookup.history.preview import preview_edit  # late: comparing takes long to import

    directory = state_directory(load_settings())
    found = preview_edit(directory, editor, edit, most=_MOST_SEGMENTS, whole=True)
    output.emit(as_json, lambda: _object(found), lambda: _say_preview(found))


def _say_preview(found: "EditPreview") -> None:
    from geolookup.cli.data.impact import say_impact

    if found.changes is None:
        assert found.by_country is not None
        say_impact(found.by_country, None)
    else:
        _say(found.changes, found.totals)
    for finding in found.findings:
        output.done(f"`geolookup custom check` would find: {finding.kind}: {finding.describe()}")
    output.done("nothing was changed: the same command without --preview makes the edit")


def _say(changes: "list[PlaceChange]", totals: tuple[int, int]) -> None:
    v4, v6 = totals
    output.done(f"addresses whose answer differs: {plain(v4)} IPv4, {plain(v6)} IPv6{':' if changes else ''}")
    for change in changes[:_MOST_ROWS]:
        named = ", ".join(map(block_text, change.named))
        more = f" and {change.ranges - len(change.named)} more" if change.ranges > len(change.named) else ""
        output.row(
            f"  {_text(change.before)} -> {_text(change.after)}",
            f"{plain(change.ipv4)} IPv4", f"{plain(change.ipv6)} IPv6", f"{named}{more}",
        )  # fmt: skip
    if len(changes) > _MOST_ROWS:
        output.done(f"  and {words.count(len(changes) - _MOST_ROWS, 'pair')} of places more: --json has all")


def _text(answer: "ServedPlace | None") -> str:
    return "(not covered)" if answer is None else f"{answer.place.place_text()} ({answer.source} {answer.place.locid})"


def _object(found: "EditPreview") -> dict[str, Any]:
    """For ``--json``: IPv6 counts are text, since many programs read numbers as floats."""
    v4, v6 = found.totals
    places = None
    if found.changes is not None:
        places = [
            {
                "from": _place(change.before),
                "to": _place(change.after),
                "ipv4": change.ipv4,
                "ipv6": str(change.ipv6),
                "ranges": change.ranges,
                "first_ranges": [str(block) for block in change.named],
            }
            for change in found.changes
        ]
    return {
        "ipv4": v4,
        "ipv6": str(v6),
        "by_place": places,
        "by_country": None if found.by_country is None else found.by_country.as_dict()["by_country"],
        "findings": [finding.as_dict() for finding in found.findings],
    }


def _place(answer: "ServedPlace | None") -> dict[str, Any] | None:
    if answer is None:
        return None
    return {"locid": answer.place.locid, "source": answer.source, **answer.place.fields()}
