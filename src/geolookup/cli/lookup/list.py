"""``list``: the geolocations of the local cache, or (``--blocks``) their addresses, as lookups answer them.

With ``--asn`` and ``--fact`` addresses too (`facts_asked`).
"""

import heapq
import os
import sys
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from geolookup.base.text import fields_text, harmless
from geolookup.cli import output
from geolookup.cli.lookup.facts_asked import fact_options, shown_facts, values_of, write_ranges
from geolookup.cli.options import chosen_fields, json_option
from geolookup.model.countries import wrong_country
from geolookup.model.errors import StateError
from geolookup.model.facts import FACT_NAMES
from geolookup.model.fields import FIELD_NAMES, FIELDS
from geolookup.model.types import Geolocation, ListFilters
from geolookup.settings.source import CUSTOM
from geolookup.state.base.current import Current
from geolookup.state.base.parts import FLEET, Part, parts_of, snapshot_path
from geolookup.state.generations.cache import Cache
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync import opening, words

if TYPE_CHECKING:
    from geolookup.exports.content import LayerChoice
    from geolookup.exports.rows import Rows
    from geolookup.lookup.engine import GeoLookup

_BLOCK_FORMATS = ("text", "csv", "ndjson", "parquet")

_NAMES = ("locid", *FIELD_NAMES, "blocks", "source")
#: Those of addresses that `facts_asked` writes, too.
_RANGE_NAMES = ("layer", "pending", *FACT_NAMES)


def _filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options for the fields by which geolocations can be listed."""
    for field in reversed(FIELDS):
        if field.filtered:
            function = click.option(f"--{field.name}", help=f"Only this {field.label}.")(function)
    return function


@click.command("list")
@_filter_options
@fact_options
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="At most N geolocations.")
@click.option("--custom", "layer", flag_value="custom", help="Only custom geolocations.")
@click.option("--default", "layer", flag_value="default", help="Only default geolocations.")
@click.option("--blocks", is_flag=True, help="Their addresses in place of the geolocations, as lookups answer them.")
@click.option("--networks", is_flag=True, help="The same as networks (CIDR), as few as possible.")
@click.option(
    "--format",
    "form",
    type=click.Choice(_BLOCK_FORMATS),
    default="text",
    show_default=True,
    help="The format of addresses. Networks as text are for firewalls: one a line, and nothing else.",
)
@chosen_fields((*_NAMES, *_RANGE_NAMES))
@json_option
def list_geolocations(
    as_json: bool,
    top: int | None,
    layer: Literal["custom", "default"] | None,
    form: str,
    only: tuple[str, ...] | None,
    numbers: tuple[int, ...],
    facts: "tuple[tuple[str, str | int | bool], ...]",
    *,
    blocks: bool,
    networks: bool,
    **filters: Any,
) -> None:
    """List geolocations of the local cache, by locid. Filters can be combined and ignore case.

    With --asn or --fact, list the ranges of addresses of which that is known, or with --networks their
    networks, each with the facts asked for, or with --fields with others.

    \b
    Examples:
      geolookup list --country de --city berlin --top 10
      geolookup list --country de --fields locid,city
      geolookup list --country DE --networks
      geolookup list --country DE --blocks --format parquet > germany.parquet
      geolookup list --asn 15169 --networks
      geolookup list --fact is_tor_exit_node --networks
      geolookup list --fact time_zone=Europe/Paris --fields city,asn --format csv
    """
    asked = values_of(numbers, facts)
    if asked:
        _write_facts(
            asked, cast("ListFilters", filters), layer, form, only, top=top, networks=networks, as_json=as_json
        )
        return
    if strange := [name for name in only or () if name not in _NAMES]:
        raise click.UsageError(f"--fields {strange[0]} is for addresses: give --asn or --fact, too")
    if not (blocks or networks) and form != "text":
        raise click.UsageError(f"--format {form} is for addresses: give --blocks or --networks, too")
    if (blocks or networks) and only is not None:
        raise click.UsageError("--field and --fields are for geolocations, not for --blocks and --networks")
    if (blocks or networks) and top is not None:
        raise click.UsageError("--top is for geolocations, not for --blocks and --networks")
    with opening.open_or_build(vrf="") as geo:
        if blocks or networks:
            _write_blocks(
                geo,
                cast("ListFilters", filters),
                layer,
                form,
                networks=networks,
                as_json=as_json,
                nothing_fits=_nothing_fits("address", filters),
            )
            return
        home = geo.status().home
    directory = StateDirectory(home)
    current = directory.require_current()
    parts = tuple(part for part in parts_of(current.published) if part.has_places)
    found = _rows(directory, current, parts, layer, filters)
    first = tuple(islice(found, 1))
    if not first and (why := _nothing_fits("geolocation", filters)) is not None:
        output.note(f"geolookup: {why}")
    rows = islice(chain(first, found), top)
    if as_json or only is not None:
        each = (
            {"locid": place.locid, **output.with_shown_degrees(place.fields()), "blocks": count, "source": name}
            for place, count, name in rows
        )
        output.chosen_results(each, only or _NAMES, as_json=as_json)
        return
    several = len(parts) > 1
    with output.table("locid", "place", "blocks", *(("source",) if several else ())) as row:
        for place, count, name in rows:
            of = (name,) if several else ()
            row(str(place.locid), fields_text(place.fields()), words.count(count, "block"), *of)


def _write_facts(
    asked: "dict[str, list[str | int | bool]]",
    filters: ListFilters,
    layer: Literal["custom", "default"] | None,
    form: str,
    only: tuple[str, ...] | None,
    *,
    top: int | None,
    networks: bool,
    as_json: bool,
) -> None:
    """Write the ranges of which facts are known; see `facts_asked.write_ranges`."""
    from geolookup.columns.where import Wanted  # late: numpy takes longer than a short list

    if top is not None:
        raise click.UsageError("--top is for geolocations, not for --asn and --fact")
    if form == "parquet":
        raise click.UsageError("--format parquet is for --blocks and --networks without --asn and --fact")
    if "blocks" in (only or ()):
        raise click.UsageError("--fields blocks is for geolocations, not for --asn and --fact")
    if as_json and form not in ("text", "json"):
        raise click.UsageError(f"--json and --format {form} exclude each other")
    form = "json" if as_json else form
    wanted = Wanted(facts=asked, fields=filters, layer=layer)
    # Networks as text are for firewalls.
    names = () if networks and form == "text" else shown_facts(wanted)
    why = _nothing_fits("address", {**filters, "fact": True})
    with opening.open_or_build(vrf="") as geo:
        write_ranges(geo, wanted, names if only is None else only, form, networks=networks, nothing_fits=why)


def _nothing_fits(what: str, filters: dict[str, Any]) -> str | None:
    """The message "nothing fits", with the reason if it is known. None if no filter was given."""
    if not any(filters.values()):
        return None
    why = wrong_country(filters["country"] or "", "the")
    return f"no {what} fits" + (f": {why}" if why else "")


def _rows(
    directory: StateDirectory, current: Current, parts: tuple[Part, ...], layer: str | None, filters: dict[str, Any]
) -> Iterator[tuple[Geolocation, int, str]]:
    """Geolocations by locid, each with its number of blocks and its source.

    The default ones are in the sources' snapshots. The generation's own cache.db is for the custom ones only: its
    default ones are those of one source, which need not be in the stack any more.
    """

    def named(cache: Cache, name: str, layer: str) -> Iterator[tuple[Geolocation, int, str]]:
        return ((place, blocks, name) for place, blocks in cache.find(layer=layer, **filters))

    if any(part.kind == FLEET for part in parts):
        raise StateError(
            f"{directory.home}: is a reader of a fleet, which has what answers, and no rows to list: `geolookup export "
            "csv` writes all that is answered; `list` works on the builder"
        )
    listed = []
    if layer != "default":
        listed.append(named(directory.cache(current.generation), CUSTOM, "custom"))
    if layer != "custom":
        for part in parts:
            path = os.path.join(snapshot_path(directory.home, part.snapshot), "cache.db")
            listed.append(named(Cache(path), part.name, "default"))
    return heapq.merge(*listed, key=lambda row: row[0].locid)


def _write_blocks(
    geo: "GeoLookup",
    filters: ListFilters,
    layer: "LayerChoice | None",
    form: str,
    *,
    networks: bool,
    as_json: bool,
    nothing_fits: str | None,
) -> None:
    """Write what fits to standard output, ascending, IPv4 first; ``nothing_fits`` is said if nothing does.

    Networks as text are one a line and nothing else, as few as possible; everywhere else each row has its place.
    """
    from geolookup.exports.content import collect  # late: numpy takes longer than a short list
    from geolookup.exports.rows import DEFAULT_FIELDS, Rows, csv_parts

    if form == "parquet" and sys.stdout.isatty():
        raise click.UsageError("Parquet is not for a terminal: redirect it to a file, for example > blocks.parquet")
    fields = () if networks and form == "text" and not as_json else ("locid", *DEFAULT_FIELDS)

    with output.progress("reading") as progress:
        content = geo.with_snapshot(
            lambda snapshot: collect(snapshot, layer=layer or "both", source=None, progress=progress)
        )
    rows = Rows(content, fields, networks=networks, wanted=filters)
    if as_json:
        output.json_result(list(_objects(rows)))
    elif form == "ndjson":
        for found in _objects(rows):
            sys.stdout.write(output.json_line(found) + "\n")
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
    """Show no progress: writing rows is quick, and a bar would stand between them on a terminal."""


def _objects(rows: "Rows") -> Iterator[dict[str, Any]]:
    for chunk in rows.chunks(_unsaid):
        for *ends, answer in chunk:
            yield dict(zip(rows.names, (*ends, *rows.values[answer]), strict=True))


def _lines(rows: "Rows") -> Iterator[str]:
    """A network, or a range with its locid and place, a line; some lines at a time."""
    names = rows.names[1 if rows.networks else 2 :]
    ends = []
    for values in rows.values:
        cells = (str(values[0]), fields_text(dict(zip(names[1:], values[1:], strict=True)))) if names else ()
        ends.append("".join(f"\t{harmless(cell, 10_000)}" for cell in cells))
    for chunk in rows.chunks(_unsaid):
        yield "".join([f"{'-'.join(texts)}{ends[answer]}\n" for *texts, answer in chunk])
