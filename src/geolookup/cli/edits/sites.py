"""``geolookup custom plan|apply|export``: the organisation's sites as one file."""

import sys
from typing import Any

import click

from geolookup.cli import interrupt, output
from geolookup.cli.data import impact
from geolookup.cli.edits.options import pass_editor
from geolookup.cli.edits.showing import pending_objects, say_changes, say_pending
from geolookup.cli.inputs import Tally, shown
from geolookup.cli.options import delimiter_option, json_option, load_settings, state_directory
from geolookup.exports.target import open_target
from geolookup.history.impact import ChangedAnswer, Comparison
from geolookup.history.impact import impact as find_impact
from geolookup.history.preview import with_custom_layer
from geolookup.model.errors import StateDamagedError
from geolookup.sites.file import Form, form_of, read_sites, write_sites
from geolookup.sites.plan import SitesPlan, apply_sites, export_sites, plan_sites, preview_sites
from geolookup.sites.site import Problems, Site
from geolookup.state.editor import Editor
from geolookup.sync import words

_format_option = click.option(
    "--format", "form", type=click.Choice(["toml", "csv"]), help="The format of FILE, if its name does not tell."
)
_delimiter_option = delimiter_option("What stands between the columns of CSV, instead of what the header tells.")
_accept_option = click.option(
    "--accept",
    is_flag=True,
    help="Apply it although a person must look first: much would go, or a site is very wide.",
)
_prune_option = click.option(
    "--prune-all", is_flag=True, help="Delete every custom geolocation that FILE does not name."
)


@click.command()
@click.argument("file")
@_prune_option
@_format_option
@_delimiter_option
@impact.addresses_option
@json_option
@pass_editor
def plan(
    editor: Editor,
    /,
    file: str,
    prune_all: bool,
    form: Form | None,
    delimiter: str | None,
    addresses: str | None,
    as_json: bool,
) -> int:
    """Show what `custom apply` would change, and for whom. Nothing is changed. FILE - is standard input.

    \b
    The first lines are the numbers of sites and blocks; read them first. CSV may be what a spreadsheet
    saves: with commas, semicolons or tabs, and other columns, which are not read. Blocks stand in one
    column, with blanks or commas between them.
    Exit status: 0 (with or without changes), 1 a site is malformed or cannot be made, 5 some
    of the --addresses are malformed.

    \b
    Examples:
      geolookup custom plan sites.toml
      geolookup custom plan sites.toml --addresses vips.txt
    """
    if file == addresses == "-":
        raise click.UsageError("FILE and --addresses cannot both be standard input")
    sites, problems = _read(file, form, delimiter)
    found = plan_sites(editor, sites, prune_all=prune_all, problems=problems)
    tally = Tally()
    held = found.summary.reasons_to_hold(load_settings())
    answer = {**_plan_object(found), "held": held}
    changed: tuple[list[ChangedAnswer], int] | None = None
    if addresses is not None:
        layer = preview_sites(editor, sites, prune_all=prune_all)
        directory = state_directory(load_settings())
        with with_custom_layer(directory, layer) as (before, after):
            counts = find_impact(before, after)
            changed = impact.changed_of_file(Comparison(before, after), addresses, tally)
        answer |= {"answers": counts.as_dict(), "addresses": impact.changed_objects(*changed)}
    if as_json:
        output.json_result(answer)
        return tally.code
    output.lines(found.summary.describe())
    _say_steps(found)
    if changed is not None:
        impact.say_impact(counts, None)
        impact.say_changed(*changed)
    if held:
        output.warn(f"`geolookup custom apply` needs --accept for this: {'; '.join(held)}")
    number = len(found.edits)
    output.done(
        f"{words.count(number, 'change')}: `geolookup custom apply` makes {'it' if number == 1 else 'them'}"
        if number
        else "nothing to change"
    )
    return tally.code


@click.command()
@click.argument("file")
@_prune_option
@_accept_option
@_format_option
@_delimiter_option
@json_option
@pass_editor
def apply(
    editor: Editor, /, file: str, prune_all: bool, accept: bool, form: Form | None, delimiter: str | None, as_json: bool
) -> None:
    """Make the custom geolocations match FILE (- is standard input): completely, or not at all.

    \b
    A site that the file applied before had and FILE does not have is deleted. Other custom
    geolocations stay, unless --prune-all is given. A new site takes over the one custom geolocation
    that is equal in all eight fields. Applying FILE a second time changes nothing.
    A file that would delete too much is refused without --accept: it may have lost rows. See the
    settings guard_sites_gone and guard_sites_share. So is one that gives a site more than a /8 of
    public addresses (IPv6: a /24), or a block of private and public ones. Applying a former FILE again takes back edits
    that were not sent yet; `geolookup custom undo` takes back the last apply.
    Exit status: 0 done, 1 a site is malformed or cannot be made (nothing was changed), 3 it needs
    --accept (nothing was changed).

    \b
    Example: geolookup custom apply sites.toml
    """
    guard = None if accept else load_settings()
    sites, problems = _read(file, form, delimiter)
    made = apply_sites(editor, sites, file=shown(file), prune_all=prune_all, guard=guard, problems=problems)
    if as_json:
        output.json_result({**_plan_object(made), "pending": pending_objects(editor)})
        return
    output.lines(made.summary.describe())
    _say_steps(made)
    output.done(f"{words.count(len(made.edits), 'change')} made" if made.edits else "nothing to change")
    say_pending(editor)


@click.command()
@click.argument("file")
@_format_option
@pass_editor
def export(editor: Editor, /, file: str, form: Form | None) -> None:
    """Write every custom geolocation to FILE (- for standard output, as TOML if --format does not say otherwise).

    \b
    Applying the file again changes nothing. If edits.db is damaged, the ranges that lookups still
    answer are written, without the names that files gave.
    Example: geolookup custom export sites.toml
    """
    chosen = form or "toml" if file == "-" else form_of(file, form)
    try:
        sites = export_sites(editor)
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


def _read(file: str, form: Form | None, delimiter: str | None) -> tuple[list[Site], Problems]:
    """The sites of a file, - is standard input, and what is wrong with others."""
    problems = Problems()
    stream = sys.stdin.buffer if file == "-" else None
    return read_sites(shown(file), form, stream=stream, delimiter=delimiter, problems=problems), problems


def _plan_object(found: SitesPlan) -> dict[str, Any]:
    return {
        "summary": found.summary.as_dict(),
        "elsewhere": found.elsewhere.as_dict(),
        "changes": [step.as_dict() for step in found.edits],
        "claims": [step.as_dict() for step in found.changes if step.kind == "claim"],
        "sites": found.names,
    }


def _say_steps(found: SitesPlan) -> None:
    say_changes(found.changes)
    for told in found.elsewhere.describe():
        output.done(told)
    for told in found.notes:
        output.note(told)
