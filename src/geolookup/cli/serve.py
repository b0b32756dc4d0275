"""``geolookup serve``: run the reference service."""

import click

from geolookup.cli import output
from geolookup.errors import ServiceError


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on; loopback only.")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--db", metavar="FILE", help="The database; without it, a temporary one that goes with the service.")
@click.option("--load", multiple=True, metavar="CSV", help="Load geolocations first; may be repeated.")
@click.option("--demo", is_flag=True, help="Load the bundled data: the countries of the registries' delegations.")
@click.option("--ignore-idempotency-keys", is_flag=True, help="Behave as services that know no Idempotency-Key.")
def serve(
    host: str, port: int, db: str | None, load: tuple[str, ...], demo: bool, ignore_idempotency_keys: bool
) -> None:
    """Run the reference service: the upstream interface, over a database of its own.

    \b
    A CSV has the columns startip, endip, locid and the eight fields, or startip, endip and
    country. It listens once loading is done, and says where on standard error.

    \b
    Example: geolookup serve --demo --port 8080
    """
    try:
        from geolookup.service import server
    except ImportError as error:
        raise ServiceError(f"the service needs more packages: pip install 'geolookup[serve]' ({error})") from error
    server.serve(
        host=host,
        port=port,
        db=db,
        load=load,
        demo=demo,
        ignore_idempotency_keys=ignore_idempotency_keys,
        on_ready=lambda url: output.note(f"geolookup: serving on {url}"),
    )
