"""``list``: the geolocations of the local cache."""

from collections.abc import Callable
from typing import Any

import click

from geolookup.cli import output, words
from geolookup.cli.options import json_option
from geolookup.fields import FIELDS
from geolookup.lookup import open as opening
from geolookup.state.directory import StateDirectory
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
def list_geolocations(as_json: bool, **filters: Any) -> None:
    """List geolocations of the local cache, by locid. Filters can be combined and ignore case.

    \b
    Example: geolookup list --country de --city berlin --top 10
    """
    with opening.open() as geo:
        status = geo.status()
    rows = StateDirectory(status.home).cache(status.generation).find(**filters)
    if as_json:
        encoded = [{"locid": place.locid, **place.fields(), "blocks": blocks} for place, blocks in rows]
        output.json_result(encoded)
        return
    for place, blocks in rows:
        output.row(str(place.locid), fields_text(place.fields()), words.count(blocks, "block"))
