"""``list``: the geolocations of the local cache."""

from typing import Any

import click

from geolookup.cli import output
from geolookup.cli.options import json_option
from geolookup.lookup import open as opening
from geolookup.model import FIELD_NAMES
from geolookup.state.directory import StateDirectory


@click.command("list")
@click.option("--country", help="Only this country code.")
@click.option("--region", help="Only this region code.")
@click.option("--city", help="Only this city.")
@click.option("--postalcode", help="Only this postal code.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="At most N geolocations.")
@click.option("--custom", "layer", flag_value="custom", help="Only custom geolocations.")
@click.option("--default", "layer", flag_value="default", help="Only default geolocations.")
@json_option
def list_geolocations(as_json: bool, **filters: Any) -> None:
    """List geolocations of the local cache, by locid. Filters combine, and ignore case.

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
        fields = place.fields()
        shown = ", ".join(f"{name} {fields[name]}" for name in FIELD_NAMES if fields[name] not in (None, ""))
        output.row(str(place.locid), shown, f"{blocks} block{'' if blocks == 1 else 's'}")
