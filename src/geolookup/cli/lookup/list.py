"""``list``: the geolocations of the local cache."""

import heapq
import os
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import click

from geolookup import words
from geolookup.cli import output
from geolookup.cli.options import json_option
from geolookup.fields import FIELDS
from geolookup.lookup import open as opening
from geolookup.model import Geolocation
from geolookup.settings.source import CUSTOM
from geolookup.state.current import Current
from geolookup.state.directory import StateDirectory
from geolookup.state.generations.cache import Cache
from geolookup.state.generations.parts import Part, part_path, parts_of
from geolookup.text import fields_text


def filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options for the fields by which geolocations can be listed."""
    for field in reversed(FIELDS):
        if field.filtered:
            function = click.option(f"--{field.name}", help=f"Only this {field.label}.")(function)
    return function


@click.command("list")
@filter_options
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="At most N geolocations.")
@click.option("--custom", "layer", flag_value="custom", help="Only custom geolocations.")
@click.option("--default", "layer", flag_value="default", help="Only default geolocations.")
@json_option
def list_geolocations(as_json: bool, top: int | None, layer: str | None, **filters: Any) -> None:
    """List geolocations of the local cache, by locid. Filters can be combined and ignore case.

    \b
    Example: geolookup list --country de --city berlin --top 10
    """
    with opening.open() as geo:
        home = geo.status().home
    directory = StateDirectory(home)
    current = directory.require_current()
    parts = parts_of(current.published)
    rows = islice(_rows(directory, current, parts, layer, filters), top)
    if as_json:
        output.json_result(
            [{"locid": place.locid, **place.fields(), "blocks": blocks, "source": name} for place, blocks, name in rows]
        )
        return
    several = len(parts) > 1
    with output.table("locid", "place", "blocks", *(("source",) if several else ())) as row:
        for place, count, name in rows:
            of = (name,) if several else ()
            row(str(place.locid), fields_text(place.fields()), words.count(count, "block"), *of)


def _rows(
    directory: StateDirectory, current: Current, parts: tuple[Part, ...], layer: str | None, filters: dict[str, Any]
) -> Iterator[tuple[Geolocation, int, str]]:
    """Geolocations by locid, each with its number of blocks and its source.

    The default ones are in the sources' snapshots. The generation's own cache.db is for the custom ones only: its
    default ones are those of one source, which need not be in the stack any more.
    """

    def named(cache: Cache, name: str, layer: str) -> Iterator[tuple[Geolocation, int, str]]:
        return ((place, blocks, name) for place, blocks in cache.find(layer=layer, **filters))

    listed = []
    if layer != "default":
        listed.append(named(directory.cache(current.generation), CUSTOM, "custom"))
    if layer != "custom":
        for part in parts:
            path = os.path.join(part_path(directory.home, current.generation, part), "cache.db")
            listed.append(named(Cache(path), part.name, "default"))
    return heapq.merge(*listed, key=lambda row: row[0].locid)
