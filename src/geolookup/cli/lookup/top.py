"""``geolookup top``: where the addresses of a log are, as a table with bars."""

import sys
from typing import Any, Final, Literal, Unpack

import click

from geolookup.base.text import harmless
from geolookup.cli import output
from geolookup.cli.lookup.counts import Reading, counted, counting_options, files_argument, reading_options, summary
from geolookup.cli.options import json_option
from geolookup.columns.counts.counts import FIELDS, By, Counts, Group
from geolookup.exports.countries import countries
from geolookup.lookup import open as opening

_LABEL_LENGTH: Final = 60
#: The width of a bar, the least that still shows anything, and what stands between two columns of the table.
_BAR: Final = 24
_LEAST_BAR: Final = 6
_GAP: Final = 2
_BLOCKS: Final = " ▏▎▍▌▋▊▉█"


@click.command()
@files_argument
@click.option(
    "--by", "field", type=click.Choice(FIELDS), default="country", show_default=True, help="What to count by."
)
@counting_options(rows=20)
@reading_options
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Answer with CSV.")
def top(
    files: tuple[str, ...],
    field: str,
    by: By,
    top: int,
    as_json: bool,
    as_csv: bool,
    **reading: Unpack[Reading],
) -> int:
    """Show where the addresses of a log are: how many in each country, city or source.

    \b
    FILE is any log, or CSV, NDJSON or Parquet with a column of addresses; gzip, Zstandard, bzip2 and xz
    are decompressed. Without FILE, standard input is read. Every address in a log counts, as `geolookup
    annotate` finds them, at constant memory (--count addresses uses a temporary folder if there are
    millions of them).
    Exit status: 0, also if some addresses are not covered: the table says how many; 5 some malformed
    (or 0: --ok-malformed).

    \b
    Examples:
      geolookup top access.log
      geolookup top /var/log/nginx/access.log* --by city --count addresses --top 50
      geolookup top visits.parquet --column client --csv > countries.csv
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other")
    with opening.open() as geo:
        counts, tally = counted(geo, files, by, reading)
    groups = counts.groups(field)
    shown = groups[:top] if top else groups
    if as_json:
        output.json_result(_document(counts, field, groups, shown))
    elif as_csv:
        rows = ((*group.fields.values(), group.count, _share(group.count, counts)) for group in shown)
        output.csv_result((*(shown[0].fields if shown else (field,)), by, "share"), rows)
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
        "generation": counts.generation,
        "dated": counts.dated,
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
    for number, (cells, (_, count)) in enumerate(zip(rows, found, strict=True)):
        bar = _bar(count, most, width) if has_bars and number < len(shown) else ""
        table.add_row(*map(Text, (*cells, bar) if has_bars else cells))
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        output.done(line.rstrip())
    output.done(summary(counts))


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
