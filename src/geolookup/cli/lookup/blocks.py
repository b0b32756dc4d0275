"""``list --blocks``: the addresses of the geolocations that fit, as ranges or networks, as lookups answer them."""

import sys
from collections.abc import Iterator
from typing import Any

import click

from geolookup.base.text import fields_text, harmless
from geolookup.cli import output
from geolookup.exports.content import LayerChoice, collect
from geolookup.exports.rows import DEFAULT_FIELDS, Rows, csv_parts
from geolookup.lookup.engine import GeoLookup
from geolookup.model.types import ListFilters

_FIELDS = ("locid", *DEFAULT_FIELDS)


def write_blocks(
    geo: GeoLookup,
    filters: ListFilters,
    layer: LayerChoice | None,
    form: str,
    *,
    networks: bool,
    as_json: bool,
    nothing_fits: str | None,
) -> None:
    """Write what fits to standard output, ascending, IPv4 first; ``nothing_fits`` is said if nothing does.

    Networks as text are one a line and nothing else, as few as possible; everywhere else each row has its place.
    """
    if form == "parquet" and sys.stdout.isatty():
        raise click.UsageError("Parquet is not for a terminal: redirect it to a file, for example > blocks.parquet")
    fields = () if networks and form == "text" and not as_json else _FIELDS

    with output.progress("reading") as progress:
        content = geo.with_snapshot(
            lambda snapshot: collect(snapshot, layer=layer or "both", source=None, progress=progress)
        )
    rows = Rows(content, fields, networks=networks, wanted=filters)
    if as_json:
        output.json_result(list(_objects(rows)))
    elif form == "csv":
        for part in csv_parts(rows, _unsaid):
            sys.stdout.write(part.decode("utf-8"))
    elif form == "parquet":
        from geolookup.exports.parquet import write

        write(rows, sys.stdout.buffer, {}, _unsaid)
    else:
        for lines in _lines(rows):
            sys.stdout.write(lines)
    if not rows.any():
        output.note(f"geolookup: {nothing_fits or 'nothing is covered'}")


def _unsaid(_done: int, _all: int) -> None:
    """Progress of what is quick, and would stand between rows on a terminal."""


def _objects(rows: Rows) -> Iterator[dict[str, Any]]:
    for chunk in rows.chunks(_unsaid):
        for *ends, answer in chunk:
            yield dict(zip(rows.names, (*ends, *rows.values[answer]), strict=True))


def _lines(rows: Rows) -> Iterator[str]:
    """A network, or a range with its locid and place, a line; some lines at a time."""
    names = rows.names[1 if rows.networks else 2 :]
    ends = []
    for values in rows.values:
        cells = (str(values[0]), fields_text(dict(zip(names[1:], values[1:], strict=True)))) if names else ()
        ends.append("".join(f"\t{harmless(cell, 10_000)}" for cell in cells))
    for chunk in rows.chunks(_unsaid):
        yield "".join([f"{'-'.join(texts)}{ends[answer]}\n" for *texts, answer in chunk])
