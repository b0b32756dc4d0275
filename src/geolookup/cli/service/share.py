"""``geolookup share``: what this state answers, for machines and tools that have no geolookup."""

from typing import Any

import click

from geolookup.cli import output
from geolookup.cli.service.running import Sectioned, missing_packages, options_from, options_of, service_options


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
def share(host: str, port: int, edition: tuple[str, ...], licence_allows: bool, **given: Any) -> None:
    """Share what lookups answer here, by HTTP: with tools that read or download MaxMind DBs.

    \b
    It answers /lookup, /databases, /geofeed.csv, the protocol of geoipupdate, the database endpoint
    of Elasticsearch and Logstash, and the GeoIP2 web service. It follows what is published and edited
    here, and changes nothing. If a source's licence does not let others have its data, it does not
    start (exit status 2).

    \b
    Example: geolookup share --edition GeoLite2-City --tokens tokens --host 0.0.0.0
    """
    options = options_from(given)
    try:
        from geolookup.service.share import run
    except ImportError as error:
        raise missing_packages(error) from error
    run.share(
        host=host,
        port=port,
        editions=edition,
        licence_allows=licence_allows,
        options=options,
        on_ready=lambda url: output.note(f"geolookup: sharing on {url}"),
    )
