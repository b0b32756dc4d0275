"""``geolookup map``: where the addresses of a log are, as a picture in one file."""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Unpack

import click

from geolookup.cli import exit_codes, inputs, interrupt, output
from geolookup.cli.lookup.counts import Reading, counted, counting_options, files_argument, reading_options
from geolookup.columns.counts.counts import By
from geolookup.exports.target import open_target
from geolookup.lookup import open as opening

if TYPE_CHECKING:
    from geolookup.columns.maps import Form, Map

_SHOWN = 3


@click.command()
@files_argument
@click.option(
    "-o", "--output", "target", required=True, metavar="OUT", help="The file to write: .html, .svg or .png; or -."
)
@click.option("--format", "form", type=click.Choice(["html", "svg", "png"]), help="The format, if OUT does not tell.")
@click.option(
    "--custom", is_flag=True, help="Draw the custom geolocations, sized by their addresses, instead of a log."
)
@counting_options("--by", rows=15)
@click.option("--title", help="What stands above the map.")
@click.option("--focus", metavar="PLACE", help="Show one country (DE) or continent (europe).")
@reading_options
def map(
    files: tuple[str, ...],
    target: str,
    form: "Form | None",
    custom: bool,
    by: By,
    top: int,
    title: str | None,
    focus: str | None,
    **reading: Unpack[Reading],
) -> int:
    """Draw where the addresses of a log are: countries by shade, cities as points, and a table.

    \b
    FILE is read as by `geolookup top`. OUT is one file that needs no network, HTML included; it appears
    once it is complete. It says how many addresses are not covered, as of when the data are, and what the
    sources' licences want shown. Needs vl-convert: pip install 'geolookup[map]'.
    Exit status: 0, also if some addresses are not covered; 5 some malformed (or 0: --ok-malformed).

    \b
    Examples:
      geolookup map access.log -o visitors.html
      geolookup map /var/log/nginx/access.log* -o europe.png --count addresses --focus europe
      geolookup map --custom -o sites.svg
    """
    from geolookup.columns import maps
    from geolookup.columns.maps.focus import focus_of

    if custom and files:
        raise click.UsageError("--custom draws no file: leave out either of the two")
    interrupt.writing_to(target)
    # Before a log of hours is read: what draws is there, and what was given can be used.
    importlib.import_module("geolookup.columns.maps.rendering")
    form = form or ("html" if target == "-" else maps.form_of(target))
    focus_of(focus)
    with opening.open() as geo:
        if custom:
            drawn = maps.draw_custom(geo, top=top, title=title, focus=focus)
            code = exit_codes.DONE
        else:
            counts, tally = counted(geo, files, by, reading)
            drawn = maps.draw_counts(counts, top=top, title=_title(files) if title is None else title, focus=focus)
            code = tally.code
    _write(drawn, target, form)
    return code


def _write(drawn: "Map", target: str, form: "Form") -> None:
    content = drawn.write(form)
    with _opened(target) as out:
        out.write(content)
        out.flush()
    if target != "-":
        output.note(f"written: {target}: {drawn.summary}")


def _title(files: tuple[str, ...]) -> str:
    names = [os.path.basename(name) if name != "-" else inputs.shown(name) for name in files or ("-",)]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"Where the addresses of {', '.join(names[:_SHOWN])}{more} are"


@contextlib.contextmanager
def _opened(target: str) -> Iterator[BinaryIO]:
    if target == "-":
        yield sys.stdout.buffer
        return
    with open_target(target) as out:
        yield out
