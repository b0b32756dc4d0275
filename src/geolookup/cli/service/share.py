"""``geolookup share``: what this state answers, for machines and tools that have no geolookup."""

from typing import Any

import click

from geolookup.cli import output
from geolookup.cli.options import load_settings
from geolookup.cli.service.run_options import Sectioned, missing_packages, options_from, options_of, service_options
from geolookup.cli.service.unit import share_unit


class _Share(Sectioned):
    own = ("Data", ("edition", "licence_allows"))


_data = options_of(
    click.option(
        "--edition",
        multiple=True,
        metavar="NAME",
        help="A further name for the databases, for programs that insist on one (GeoLite2-City); may be repeated. "
        "City or Country in it says what it holds. Such names are MaxMind's.",
    ),
    click.option(
        "--licence-allows",
        is_flag=True,
        help="Your licence lets others have the data, though the source says otherwise.",
    ),
)


@click.command(cls=_Share)
@_data
@service_options
@click.option(
    "--print-systemd", is_flag=True, help="Print a hardened service for systemd with these options; do nothing else."
)
@click.pass_context
def share(context: click.Context, /, print_systemd: bool, **given: Any) -> None:
    """Share what lookups answer here, by HTTP: with tools that read or download MaxMind DBs.

    \b
    It answers /lookup, /databases, /geofeed.csv, the protocol of geoipupdate, the database endpoint
    of Elasticsearch and Logstash, and the GeoIP2 web service. It follows what is published and edited
    here, and changes nothing. If a source's licence does not let others have its data, it does not
    start (exit status 2).

    \b
    Example: geolookup share --edition GeoLite2-City --tokens tokens --host 0.0.0.0
    """
    if print_systemd:
        defaults = {parameter.name or "": parameter.get_default(context) for parameter in context.command.params}
        text, notes = share_unit(load_settings(), given, defaults)
        for note in notes:
            output.note(f"geolookup: {note}")
        output.done(text.rstrip("\n"))
        return
    options = options_from(given)
    try:
        from geolookup.share import run
    except ImportError as error:
        raise missing_packages(error) from error
    run.share(
        host=given["host"],
        port=given["port"],
        editions=given["edition"],
        licence_allows=given["licence_allows"],
        options=options,
        on_ready=lambda url: output.note(f"geolookup: sharing on {url}"),
    )
