"""``geolookup top`` and ``map``: where the addresses of a log are, as a table with bars or as a picture in one file."""

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, TypedDict, Unpack

import click

from geolookup.base.text import harmless
from geolookup.cli import exit_codes, inputs, interrupt, output
from geolookup.cli.inputs import Limit, Tally, malformed_options
from geolookup.cli.lookup.unsaid import warn_of_unsaid
from geolookup.cli.options import as_of_option, delimiter_option, json_option, vrf_option
from geolookup.columns.batches import FORMS, Batch, Form, batches_of
from geolookup.columns.counts import BYS, FIELDS, By, Counts, Group, count
from geolookup.exports.target import open_target
from geolookup.lookup.asked import Pick
from geolookup.lookup.engine import GeoLookup
from geolookup.model.continents import countries
from geolookup.model.facts import FACT_NAMES
from geolookup.sync import opening, words

if TYPE_CHECKING:
    from geolookup.columns.maps import Form as MapForm
    from geolookup.columns.maps import Map

_LABEL_LENGTH: Final = 60
#: The width of a bar, the least that still shows anything, and the gap between two columns of the table.
_BAR: Final = 24
_LEAST_BAR: Final = 6
_GAP: Final = 2
_BLOCKS: Final = " ▏▎▍▌▋▊▉█"
#: The title of a map names so many files.
_SHOWN_FILES: Final = 3

_files_argument = click.argument("files", nargs=-1, metavar="[FILE]...")


def _counting_options(*also: str, rows: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``--count`` (or ``also``), as ``by``, and ``--top``, which is ``rows`` if it is not given."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        top = click.option(
            "--top", type=click.IntRange(0), default=rows, show_default=True, help="How many rows a table has; 0: all."
        )
        count = click.option(
            "--count",
            *also,
            "by",
            type=click.Choice(BYS),
            default="requests",
            show_default=True,
            help="What to count: every occurrence of an address, or each address once.",
        )
        return count(top(command))

    return decorate


def _reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how files are read: their values make a `_Reading`."""
    for option in (
        malformed_options,
        click.option("--in-format", type=click.Choice(FORMS), help="The format of FILE, if its name does not tell."),
        click.option(
            "--pick",
            type=click.Choice(["first", "last"]),
            default="first",
            show_default=True,
            help="Which address of a list in a column is meant.",
        ),
        delimiter_option("What stands between the values of CSV. It is found by the header if this is not given."),
        click.option(
            "--column", default="ip", show_default=True, help="The column with the addresses, if a file has columns."
        ),
    ):
        command = option(command)
    return command


class _Reading(TypedDict):
    """The way to read the files of a command."""

    column: str
    delimiter: str | None
    pick: Pick
    in_format: Form | None
    ok_malformed: bool
    max_malformed: Limit | None


def _counted(
    geo: GeoLookup, files: tuple[str, ...], by: By, reading: _Reading, fact: str | None = None
) -> tuple[Counts, Tally]:
    """Count the addresses of all files, the standard input if there are none; say what is malformed.

    The tally has the exit status.

    :raises click.UsageError: if a file cannot be opened
    """
    names = files or ("-",)
    with (
        output.progress("counting", "address") as progress,
        contextlib.closing(_batches(names, reading, progress)) as found,
    ):
        counts = count(geo, found, by=by, fact=fact)
    # What is not covered is a part of the answer here.
    tally = Tally(
        ok_uncovered=True, ok_malformed=reading["ok_malformed"], max_malformed=reading["max_malformed"], of_file=True
    )
    tally.found, tally.not_covered = counts.covered, counts.not_covered
    for problem in counts.problems:
        tally.bad(problem.where, problem.what, problem.count)
    tally.malformed = counts.malformed
    tally.say_rest(counts.malformed - sum(problem.count for problem in counts.problems))
    for question in counts.questions:
        output.warn(question)
    if not counts.counted:
        output.warn(f"no address was found in {', '.join(map(inputs.shown, names))}")
    return counts, tally


def _batches(
    names: tuple[str, ...], reading: _Reading, progress: Callable[[int, int | None], None]
) -> Generator[tuple[str, Batch], None, None]:
    done = 0
    for name in names:
        with inputs.opened(name) as stream:
            shown = inputs.shown(name)
            found = batches_of(
                shown,
                stream,
                reading["in_format"],
                column=reading["column"],
                delimiter=reading["delimiter"],
                pick=reading["pick"],
            )
            for batch in found:
                yield shown, batch
                done += sum(batch.found.values())
                progress(done, None)


def _units(number: int, by: By) -> str:
    """A number with its unit: ``1 request``, ``2 addresses``."""
    return words.count(number, by[:-1] if by == "requests" else "address", by)


def _summary(counts: Counts) -> str:
    """The totals in one line."""
    parts = [_units(counts.counted, counts.by), f"{counts.not_covered} not covered"]
    return "; ".join([*parts, *([f"{counts.malformed} malformed"] if counts.malformed else [])])


@click.command()
@_files_argument
@click.option(
    "--by",
    "field",
    type=click.Choice((*FIELDS, *FACT_NAMES)),
    default="country",
    show_default=True,
    metavar="NAME",
    help=f"What to count by: a field ({', '.join(FIELDS)}), or a fact of the place or of who runs the address "
    f"({', '.join(FACT_NAMES)}).",
)
@_counting_options(rows=20)
@_reading_options
@as_of_option
@vrf_option
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Answer with CSV.")
def top(
    files: tuple[str, ...],
    field: str,
    by: By,
    top: int,
    as_of: str | None,
    vrf: str | None,
    as_json: bool,
    as_csv: bool,
    **reading: Unpack[_Reading],
) -> int:
    """Show where the addresses of a log are, or who runs them: how many in each country, city or AS.

    \b
    FILE is any log, or CSV, NDJSON or Parquet with a column of addresses; gzip, Zstandard, bzip2 and xz
    are decompressed. Without FILE, standard input is read. Every address in a log counts, as `geolookup
    annotate` finds them, at constant memory (--count addresses uses a temporary folder if there are
    millions of them). By a fact (asn, time_zone, is_hosting_provider) one row is for the addresses of
    which no source says it; those are not covered of which nothing is known at all.
    Exit status: 0, also if some addresses are not covered: the table says how many; 5 more than 1 %
    malformed (or more than --max-malformed says; or 0: --ok-malformed).

    \b
    Examples:
      geolookup top access.log
      geolookup top /var/log/nginx/access.log* --by city --count addresses --top 50
      geolookup top access.log --by asn
      geolookup top access.log --as-of 2026-02-01 --json
      geolookup top visits.parquet --column client --csv > countries.csv
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other")
    with opening.open_or_build(as_of=as_of, vrf=vrf) as geo:
        warn_of_unsaid(geo, (field,))
        counts, tally = _counted(geo, files, by, reading, field if field in FACT_NAMES else None)
    groups = counts.groups(field)
    shown = groups[:top] if top else groups
    if as_json:
        output.json_result(_document(counts, field, groups, shown))
    elif as_csv:
        rows = ((*group.fields.values(), group.count, _share(group.count, counts)) for group in shown)
        output.csv_result((*(shown[0].fields if shown else (field,)), by, "share"), rows)
        output.note(_summary(counts))  # what no row has
    else:
        _say(counts, field, groups, shown)
    return tally.code


def _share(number: int, counts: Counts) -> float:
    return round(number / counts.counted, 6) if counts.counted else 0.0


def _document(counts: Counts, field: str, groups: list[Group], shown: list[Group]) -> dict[str, Any]:
    return {
        "by": field,
        "count": counts.by,
        "counted": counts.counted,
        "covered": counts.covered,
        "not_covered": counts.not_covered,
        "malformed": counts.malformed,
        "groups": len(groups),
        "dated": counts.dated,
        **counts.provenance(),
        "attributions": list(counts.attributions),
        "rows": [{**group.fields, "count": group.count, "share": _share(group.count, counts)} for group in shown],
    }


def _say(counts: Counts, field: str, groups: list[Group], shown: list[Group]) -> None:
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    most = max((group.count for group in shown), default=0)
    rest = sum(group.count for group in groups) - sum(group.count for group in shown)
    found = [(_label(group, field), group.count) for group in shown]
    found += [(f"and {len(groups) - len(shown)} more", rest)] if rest else []
    found.append(("not covered", counts.not_covered))
    titles = (field, counts.by, "share")
    rows = [(label, f"{number:,}", f"{100 * _share(number, counts):.1f}%") for label, number in found]
    widths = [max(map(cell_len, column)) for column in zip(titles, *rows, strict=True)]
    console = Console(highlight=False, color_system=None)
    # On a narrow terminal the bars give way first, then the labels: a number that is cut is another number.
    room = console.width - sum(widths[1:]) - _GAP * len(widths)
    widths[0] = min(widths[0], max(room, 1))
    width = min(_BAR, room - widths[0] - _GAP)
    table = Table(box=None, padding=(0, _GAP, 0, 0), expand=False)
    for title, wide in zip(titles, widths, strict=True):
        justify: Literal["left", "right"] = "left" if title == field else "right"
        table.add_column(title, justify=justify, no_wrap=True, overflow="ellipsis", width=wide)
    has_bars = width >= _LEAST_BAR
    if has_bars:
        table.add_column("", no_wrap=True, overflow="crop")
    for number, (cells, (_, requests)) in enumerate(zip(rows, found, strict=True)):
        bar = _bar(requests, most, width) if has_bars and number < len(shown) else ""
        table.add_row(*map(Text, (*cells, bar) if has_bars else cells))
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        output.done(line.rstrip())
    output.done(_summary(counts))


def _label(group: Group, field: str) -> str:
    text = group.place_text()
    if field == "country":
        known = countries().get(text)
        text = f"{text}  {known.name}" if known else text
    return harmless(text, _LABEL_LENGTH)


def _bar(number: int, most: int, width: int) -> str:
    try:
        _BLOCKS.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return "#" * max(1, round(number * width / most))
    eighths = max(1, round(number * width * 8 / most))
    return _BLOCKS[-1] * (eighths // 8) + _BLOCKS[eighths % 8].strip()


@click.command("map")
@_files_argument
@click.option(
    "-o", "--output", "target", required=True, metavar="OUT", help="The file to write: .html, .svg or .png; or -."
)
@click.option("--format", "form", type=click.Choice(["html", "svg", "png"]), help="The format, if OUT does not tell.")
@click.option(
    "--custom", is_flag=True, help="Draw the custom geolocations, sized by their addresses, instead of a log."
)
@_counting_options("--by", rows=15)
@click.option("--title", help="What stands above the map.")
@click.option("--focus", metavar="PLACE", help="Show one country (DE) or continent (europe).")
@_reading_options
@as_of_option
@vrf_option
def draw_map(
    files: tuple[str, ...],
    target: str,
    form: "MapForm | None",
    custom: bool,
    by: By,
    top: int,
    title: str | None,
    focus: str | None,
    as_of: str | None,
    vrf: str | None,
    **reading: Unpack[_Reading],
) -> int:
    """Draw where the addresses of a log are: countries by shade, cities as points, and a table.

    \b
    FILE is read as by `geolookup top`. OUT is one file that needs no network, HTML included; it appears
    once it is complete. It says how many addresses are not covered, which data answered (their sources,
    dates and fingerprint), and what the sources' licences want shown. Needs vl-convert: pip install 'geolookup[map]'.
    Exit status: 0, also if some addresses are not covered; 5 more than 1 % malformed (or more than
    --max-malformed says; or 0: --ok-malformed).

    \b
    Examples:
      geolookup map access.log -o visitors.html
      geolookup map /var/log/nginx/access.log* -o europe.png --count addresses --focus europe
      geolookup map --custom -o sites.svg
    """
    from geolookup.columns import maps
    from geolookup.columns.outlines import focus_of

    if custom and files:
        raise click.UsageError("--custom draws no file: leave out either of the two")
    interrupt.writing_to(target)
    # Before a log of hours is read: what draws is there, and what was given can be used.
    importlib.import_module("geolookup.columns.map_rendering")
    form = form or ("html" if target == "-" else maps.form_of(target))
    focus_of(focus)
    with opening.open_or_build(as_of=as_of, vrf=vrf) as geo:
        if custom:
            drawn = maps.draw_custom(geo, top=top, title=title, focus=focus)
            code = exit_codes.DONE
        else:
            counts, tally = _counted(geo, files, by, reading)
            drawn = maps.draw_counts(counts, top=top, title=_title(files) if title is None else title, focus=focus)
            code = tally.code
    _write_map(drawn, target, form)
    return code


def _write_map(drawn: "Map", target: str, form: "MapForm") -> None:
    content = drawn.write(form)
    with _opened(target) as out:
        out.write(content)
        out.flush()
    if target != "-":
        output.note(f"written: {target}: {drawn.summary}")


def _title(files: tuple[str, ...]) -> str:
    names = [os.path.basename(name) if name != "-" else inputs.shown(name) for name in files or ("-",)]
    more = f" and {len(names) - _SHOWN_FILES} more" if len(names) > _SHOWN_FILES else ""
    return f"The addresses of {', '.join(names[:_SHOWN_FILES])}{more}"


@contextlib.contextmanager
def _opened(target: str) -> Iterator[BinaryIO]:
    if target == "-":
        yield sys.stdout.buffer
        return
    with open_target(target) as out:
        yield out
