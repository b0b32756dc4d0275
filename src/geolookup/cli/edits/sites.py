"""``geolookup custom plan|apply|export``: the organisation's sites as one file."""

import contextlib
import io
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypedDict, TypeVar

import click

from geolookup.cli import interrupt, output
from geolookup.cli.data import impact
from geolookup.cli.edits.options import pass_editor
from geolookup.cli.edits.showing import pending_objects, say_changes, say_pending
from geolookup.cli.inputs import Tally, shown
from geolookup.cli.options import delimiter_option, fields_of, json_option, load_settings, sheet_option, state_directory
from geolookup.exports.target import open_target
from geolookup.history.impact import Comparison
from geolookup.history.impact import impact as find_impact
from geolookup.history.preview import with_custom_layer
from geolookup.model.errors import GeoLookupError, StateDamagedError, UnknownVrfError
from geolookup.settings.sites import SERVER_KINDS
from geolookup.sites.applying import Planned, apply_all, parts_of, plan_all
from geolookup.sites.file import Form, form_of, read_sites, write_sites
from geolookup.sites.plan import export_sites, preview_sites
from geolookup.sites.servers.applying import apply_server, plan_server
from geolookup.sites.servers.server import ServerSites, read_exports, read_server
from geolookup.sites.since import Conflict, Keep, Whose
from geolookup.sites.site import Problems, Site
from geolookup.sites.vrfs import export_vrf
from geolookup.state.editor import Editor
from geolookup.sync import words

R = TypeVar("R")


class _How(TypedDict):
    """The choices of a person about sites, from the options."""

    prune_all: bool
    takes: Mapping[str, int | None]
    keep: Keep


_format_option = click.option(
    "--format", "form", type=click.Choice(["toml", "csv"]), help="The format of FILE, if its name does not tell."
)
_delimiter_option = delimiter_option("What stands between the columns of CSV, instead of what the header tells.")
_columns_option = click.option(
    "--field",
    "columns",
    multiple=True,
    metavar="NAME=COLUMN",
    help="Which column of a table holds the name, city, blocks …, if its name does not tell; may be repeated. The "
    "setting `[sites] fields` says it once for all.",
)
_vrf_option = click.option(
    "--vrf", metavar="NAME", help="Sites that FILE gives no routing domain (column vrf) are of the VRF NAME."
)
_take_option = click.option(
    "--take",
    "takes",
    multiple=True,
    metavar="SITE=LOCID",
    help="Which geolocation a site is, if several may be: its number, or `new`; may be repeated.",
)
_keep_option = click.option(
    "--keep",
    "keeps",
    multiple=True,
    metavar="[SITE=]theirs|mine",
    help="What to do with sites that others changed since FILE was made: leave them as they are now (theirs), or make "
    "them as FILE says (mine); all of them, or one; may be repeated.",
)
_report_option = click.option(
    "--report",
    metavar="FILE.csv",
    help="Write everything that is wrong to a file, with line, column and value; and what others changed, with what it "
    "was, is and shall be.",
)
_accept_option = click.option(
    "--accept",
    is_flag=True,
    help="Apply it although a person must look first: much would go, or a site is very wide.",
)
_from_option = click.option(
    "--from",
    "server",
    type=click.Choice(SERVER_KINDS),
    help="Read the sites from the server that the settings name ([sites] kind, url, token_file), not from FILE.",
)
_preset_option = click.option(
    "--preset",
    type=click.Choice(["netbox-csv"]),
    help="FILE … are lists that NetBox or Nautobot exported as CSV: of sites and prefixes, perhaps of IP ranges and IP "
    "addresses; or a folder of them.",
)
_prune_option = click.option(
    "--prune-all", is_flag=True, help="Delete every custom geolocation that FILE does not name."
)
_add_option = click.option(
    "--add-only", is_flag=True, help="Only add and change sites: those that FILE does not name stay as they are."
)


@click.command()
@click.argument("files", metavar="[FILE]...", nargs=-1)
@_from_option
@_preset_option
@_prune_option
@_add_option
@_format_option
@_delimiter_option
@sheet_option
@_columns_option
@_vrf_option
@_take_option
@_keep_option
@_report_option
@impact.addresses_option
@json_option
@pass_editor
def plan(
    editor: Editor,
    /,
    files: tuple[str, ...],
    server: str | None,
    preset: str | None,
    prune_all: bool,
    add_only: bool,
    takes: tuple[str, ...],
    keeps: tuple[str, ...],
    addresses: str | None,
    vrf: str | None,
    report: str | None,
    as_json: bool,
    **reading: Any,
) -> int:
    """Show what `custom apply` would change, and for whom. Nothing is changed. FILE - is standard input.

    \b
    FILE is TOML, CSV as a spreadsheet saves it, or a workbook (.xlsx, .ods). How a table is read is said
    first: which columns are taken for what, and what was read otherwise than it stands. Titles above
    the columns and further columns are passed over; a site may have one row, or one for each block.
    The next lines are the numbers of sites and blocks.
    Exit status: 0 (with or without changes), 1 a site is malformed or cannot be made, 5 some
    of the --addresses are malformed.

    \b
    Examples:
      geolookup custom plan sites.xlsx
      geolookup custom plan sites.csv --field city=Place --report wrong.csv
      geolookup custom plan sites.toml --addresses vips.txt
      geolookup custom plan --from netbox
      geolookup custom plan sites.csv prefixes.csv --preset netbox-csv
    """
    if addresses == "-" in files:
        raise click.UsageError("FILE and --addresses cannot both be standard input")
    settings, more = load_settings(), _how(takes, keeps, prune_all=prune_all, add_only=add_only)
    option = _inventory(files, server, preset, vrf=vrf, **reading)
    found: Planned
    if option is not None:
        with _reporting(_inventory_reader(files), report=report, as_json=as_json) as (there, problems):
            found = plan_server(editor, there, settings, problems, **more)
    else:
        with _reporting(_file_reader(_given(files), **reading), report=report, as_json=as_json) as (read, problems):
            parts = parts_of(editor, read, vrf, settings.sites.vrf_global)
            found = plan_all(editor, parts, settings, problems, **more)
    tally = Tally()
    answers: dict[str, Any] = {}
    shows: list[Callable[[], None]] = []
    if addresses is not None:
        layer = editor.custom() if found.sites is None else preview_sites(editor, found.given, **more)
        with with_custom_layer(state_directory(settings), layer) as (before, after):
            counts = find_impact(before, after)
            changed = impact.changed_of_file(Comparison(before, after), addresses, tally)
        answers = {"answers": counts.as_dict(), "addresses": impact.changed_objects(*changed)}
        shows = [lambda: impact.say_impact(counts, None), lambda: impact.say_changed(*changed)]
        if found.vrfs is not None:
            output.note("geolookup: --addresses are looked up in the global table: no block of a VRF answers there")
    if as_json:
        output.json_result(_plan_object(found, problems) | answers)
        return tally.code
    _say_plan(found)
    for show in shows:
        show()
    _say_conflicts(found.conflicts)
    command = " ".join(filter(None, ("geolookup custom apply", option, "--add-only" if add_only else None)))
    if found.held:
        output.warn(f"`{command}` needs --accept for this: {'; '.join(found.held)}")
    told = f"{words.count(found.number, 'change')}: `{command}` makes {'it' if found.number == 1 else 'them'}"
    output.done(told if found.number else "nothing to change")
    return tally.code


@click.command()
@click.argument("files", metavar="[FILE]...", nargs=-1)
@_from_option
@_preset_option
@_prune_option
@_add_option
@_accept_option
@_format_option
@_delimiter_option
@sheet_option
@_columns_option
@_vrf_option
@_take_option
@_keep_option
@_report_option
@json_option
@pass_editor
def apply(
    editor: Editor,
    /,
    files: tuple[str, ...],
    server: str | None,
    preset: str | None,
    prune_all: bool,
    add_only: bool,
    accept: bool,
    takes: tuple[str, ...],
    keeps: tuple[str, ...],
    vrf: str | None,
    report: str | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Make the custom geolocations match FILE (- is standard input): completely, or not at all.

    \b
    A site that the file applied before had and FILE does not have is deleted, unless --add-only is
    given. Other custom geolocations stay, unless --prune-all is given. A new site takes over the one custom geolocation
    that has its blocks, or is equal in all eight fields and shares a block with it or has none.
    Applying FILE a second time changes nothing.
    A file that would delete too much is refused without --accept: it may have lost rows. See the
    settings guard_sites_gone and guard_sites_share. So is one that gives a site more than a /8 of
    public addresses (IPv6: a /24), or a block of private and public ones. Applying a former FILE again takes back edits
    that were not sent yet; `geolookup custom undo` takes back the last apply.
    Sites that somebody changed since FILE was exported (its column made_from says it; without it, since
    your last apply) are named with who and when, and nothing is changed until --keep says what stays.
    Exit status: 0 done, 1 a site is malformed or cannot be made (nothing was changed), 3 it needs
    --accept or --keep (nothing was changed).

    \b
    Examples:
      geolookup custom apply sites.toml
      geolookup custom apply --from netbox
      geolookup custom apply exports/ --preset netbox-csv
    """
    settings, more = load_settings(), _how(takes, keeps, prune_all=prune_all, add_only=add_only)
    if _inventory(files, server, preset, vrf=vrf, **reading) is not None:
        with _reporting(_inventory_reader(files), report=report, as_json=as_json) as (there, problems):
            made = apply_server(editor, there, settings, problems, guarded=not accept, **more)
    else:
        file, guard = _given(files), None if accept else settings
        with _reporting(_file_reader(file, **reading), report=report, as_json=as_json) as (read, problems):
            parts = parts_of(editor, read, vrf, settings.sites.vrf_global)
            made = apply_all(editor, parts, file=shown(file), guard=guard, problems=problems, **more)
    if as_json:
        output.json_result({**_plan_object(made, problems), "pending": pending_objects(editor)})
        return
    _say_plan(made)
    output.done(f"{words.count(made.number, 'change')} made" if made.number else "nothing to change")
    say_pending(editor)


@click.command()
@click.argument("file")
@_format_option
@click.option("--vrf", metavar="NAME", help="Write the sites of the routing domain (VRF) NAME instead.")
@pass_editor
def export(editor: Editor, /, file: str, form: Form | None, vrf: str | None) -> None:
    """Write every custom geolocation to FILE (- for standard output, as TOML if --format does not say otherwise).

    \b
    Applying the file again changes nothing. Its column or key made_from says what each site was, so that
    `custom apply` notices what others change from now on: leave it as it is. If edits.db is damaged, the
    ranges that lookups still answer are written, without the names that files gave.
    Example: geolookup custom export sites.toml
    """
    chosen = form or "toml" if file == "-" else form_of(file, form)
    try:
        if vrf is not None and vrf not in editor.vrfs():
            raise UnknownVrfError(f"no VRF is named {vrf!r:.60}: there are {', '.join(editor.vrfs()) or 'none'}")
        sites = export_sites(editor) if vrf is None else export_vrf(editor, vrf)
    except StateDamagedError as error:
        sites = export_sites(editor, as_served=True)
        output.note(f"geolookup: {error}")
        output.note("geolookup: written is what lookups answer, without the names that files gave")
    text = write_sites(sites, chosen)
    if file == "-":
        if sys.stdout.isatty():
            output.content(text.rstrip("\n"))
        else:
            sys.stdout.write(text)  # byte for byte: a program or a file reads it
        return
    interrupt.writing_to(file)
    with open_target(file) as out:
        out.write(text.encode("utf-8"))
    output.done(f"wrote {words.count(len(sites), 'site')} to {file}")


@contextlib.contextmanager
def _reporting(read: Callable[[Problems], R], *, report: str | None, as_json: bool) -> Iterator[tuple[R, Problems]]:
    """What was read, and what is wrong with the rest; told also if what is done then fails."""
    problems = Problems()
    failed: GeoLookupError | None = None
    try:
        found = read(problems)
        for told in problems.said:
            output.note(told)
        yield found, problems
    except GeoLookupError as error:
        failed = error
        raise
    finally:
        if report is not None:
            _write_report(report, problems)
        if failed is not None and as_json:
            output.json_result({"error": str(failed), "reading": problems.said, **_problems_object(problems)})


def _file_reader(
    file: str, *, form: Form | None, delimiter: str | None, sheet: str | None, columns: tuple[str, ...]
) -> Callable[[Problems], list[Site]]:
    """Reads the sites of a file; - is standard input."""
    settings = load_settings().sites
    fields = {**settings.fields, **fields_of(columns)}

    def read(problems: Problems) -> list[Site]:
        return read_sites(
            shown(file),
            form,
            stream=sys.stdin.buffer if file == "-" else None,
            delimiter=delimiter,
            sheet=sheet,
            fields=fields,
            problems=problems,
            vrf_global=settings.vrf_global,
        )

    return read


def _inventory_reader(files: tuple[str, ...]) -> Callable[[Problems], ServerSites]:
    """Reads exports; without any, the server that the settings name."""
    settings = load_settings()
    return lambda problems: read_exports(files, settings, problems) if files else read_server(settings, problems)


def _given(files: tuple[str, ...]) -> str:
    if not files:
        raise click.UsageError("Missing argument 'FILE', or --from netbox.")
    if len(files) > 1:
        raise click.UsageError("one FILE has the sites; several are read with --preset netbox-csv only")
    return files[0]


#: Options whose parameters have other names.
_OPTIONS = {"form": "format", "columns": "field"}


def _inventory(files: tuple[str, ...], server: str | None, preset: str | None, **others: Any) -> str | None:
    """The arguments by which sites are read from a server or its exports; None if they are those of a file of ours.

    What says how a file of sites is read is refused beside it.
    """
    if server is None and preset is None:
        return None
    if preset is not None and (not files or "-" in files):
        raise click.UsageError("--preset needs FILE …: the exports, or a folder that holds them")
    given = {"--preset": preset, "FILE": files} if server is not None else {}
    given |= {f"--{_OPTIONS.get(name, name)}": value for name, value in others.items()}
    reads = f"--preset {preset}, which knows its columns" if server is None else "--from, which reads the server"
    for name, value in given.items():
        if value:
            raise click.UsageError(f"{name} does not go with {reads}{' of the settings' if server else ''}")
    return f"--from {server}" if preset is None else shlex.join((*files, "--preset", preset))


def _taken(takes: tuple[str, ...]) -> dict[str, int | None]:
    """The values of ``--take``, by site."""
    found: dict[str, int | None] = {}
    for text in takes:
        name, _, number = text.rpartition("=")
        if not name or not (number == "new" or re.fullmatch(r"-[0-9]{1,18}", number)):
            raise click.UsageError(f"--take {text!r:.60}: must be SITE=LOCID, a number below zero, or SITE=new")
        found[name] = None if number == "new" else int(number)
    return found


def _how(takes: tuple[str, ...], keeps: tuple[str, ...], *, prune_all: bool, add_only: bool) -> _How:
    """The values of the options."""
    if prune_all and add_only:
        raise click.UsageError("give --prune-all or --add-only, not both")
    return _How(prune_all=prune_all, takes=_taken(takes), keep=_kept(keeps, add_only))


def _kept(keeps: tuple[str, ...], absent: bool) -> Keep:
    """The values of ``--keep``."""
    sites: dict[str, Whose] = {}
    others: Whose | None = None
    for text in keeps:
        name, equals, found = text.rpartition("=")
        if found not in ("theirs", "mine") or (equals and not name):
            raise click.UsageError(f"--keep {text!r:.60}: must be theirs, mine, SITE=theirs or SITE=mine")
        whose: Whose = "theirs" if found == "theirs" else "mine"
        if equals:
            sites[name] = whose
        else:
            others = whose
    return Keep(sites=sites, others=others, absent=absent)


def _write_report(file: str, problems: Problems) -> None:
    text = io.StringIO()
    rows = [*problems.all, *problems.asked]
    word = rows[0].word if rows else "line"
    header = ("kind", word, "site", "column", "value", "what is wrong", "what to write", "was", "is now")
    output.csv_result(
        header,
        (
            (p.kind, p.line or "", p.site, p.column, p.value, p.message, p.write, p.was or "", p.theirs or "")
            for p in rows
        ),
        text,
    )
    with open_target(file) as out:
        out.write(text.getvalue().encode("utf-8"))
    output.note(f"wrote {words.count(len(rows), 'bad row')} to {file}")


def _problems_object(problems: Problems) -> dict[str, Any]:
    return {
        "problems": [each.as_dict() for each in problems.all],
        "kinds": {kind: len(each) for kind, each in problems.kinds().items()},
        "changed_since": [each.as_dict() for each in problems.asked],
    }


def _say_conflicts(conflicts: Sequence[Conflict]) -> None:
    for conflict in conflicts:
        output.warn(conflict.describe())
    if conflicts:
        output.warn(
            f"{words.count(len(conflicts), 'site')} changed since the file was made: `geolookup custom apply` needs "
            "--keep theirs or --keep mine for them; --report FILE.csv has the three versions side by side"
        )


def _plan_object(found: Planned, problems: Problems) -> dict[str, Any]:
    sites, vrfs = found.sites, found.vrfs
    return {
        **(
            {}
            if sites is None
            else {
                "summary": sites.summary.as_dict(),
                "elsewhere": sites.elsewhere.as_dict(),
                "changes": [step.as_dict() for step in sites.edits],
                "claims": [step.as_dict() for step in sites.changes if step.kind == "claim"],
                "sites": sites.names,
            }
        ),
        "notes": list(found.notes),
        **({} if vrfs is None else {"vrfs": [step.as_dict() for step in vrfs.changes]}),
        "reading": problems.said,
        "held": list(found.held),
        "changed_since": [each.as_dict() for each in problems.asked],
    }


def _say_plan(found: Planned) -> None:
    if found.sites is not None:
        output.lines(found.sites.summary.describe())
        say_changes(found.sites.changes)
        for told in found.sites.elsewhere.describe():
            output.done(told)
    for told in found.notes:
        output.note(told)
    if found.vrfs is not None:
        output.lines(found.vrfs.describe())
        for step in found.vrfs.changes:
            output.done(step.describe())
