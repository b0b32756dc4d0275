"""Counting the addresses of files: the options and the messages that `top` and `map` share."""

import contextlib
from collections.abc import Callable, Generator
from typing import Any, TypedDict

import click

from geolookup import words
from geolookup.cli import inputs, output
from geolookup.cli.options import delimiter_option
from geolookup.cli.tally import Tally
from geolookup.columns.counts.batches import Batch
from geolookup.columns.counts.counts import BYS, By, Counts, count
from geolookup.columns.counts.files import FORMS, Form, batches_of
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.log_field import Pick

files_argument = click.argument("files", nargs=-1, metavar="[FILE]...")


def counting_options(*also: str, rows: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
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


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """How files are read: the options whose values make a `Reading`."""
    for option in (
        click.option("--ok-malformed", is_flag=True, help="Exit with 0 even if some are malformed."),
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


class Reading(TypedDict):
    """How the files of a command are to be read."""

    column: str
    delimiter: str | None
    pick: Pick
    in_format: Form | None
    ok_malformed: bool


def counted(geo: GeoLookup, files: tuple[str, ...], by: By, reading: Reading) -> tuple[Counts, Tally]:
    """Count the addresses of all files, the standard input if there are none; say what is malformed.

    The tally has the exit status.

    :raises click.UsageError: if a file cannot be opened
    """
    names = files or ("-",)
    with (
        output.progress("counting", "address") as progress,
        contextlib.closing(_batches(names, reading, progress)) as found,
    ):
        counts = count(geo, found, by=by)
    # What is not covered is a part of the answer here.
    tally = Tally(ok_uncovered=True, ok_malformed=reading["ok_malformed"])
    for problem in counts.problems:
        tally.bad(problem)
    tally.malformed = counts.malformed
    tally.say_rest()
    if not counts.counted:
        output.warn(f"no address was found in {', '.join(map(inputs.shown, names))}")
    return counts, tally


def _batches(
    names: tuple[str, ...], reading: Reading, progress: Callable[[int, int | None], None]
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


def units(number: int, by: By) -> str:
    """A count with what was counted: ``1 request``, ``2 addresses``."""
    return words.count(number, by[:-1] if by == "requests" else "address", by)


def summary(counts: Counts) -> str:
    """The totals in one line."""
    parts = [units(counts.counted, counts.by), f"{counts.not_covered} not covered"]
    return "; ".join([*parts, *([f"{counts.malformed} malformed"] if counts.malformed else [])])
