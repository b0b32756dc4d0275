"""``geolookup ADDRESS …``: look addresses up, from arguments or a stream of any length."""

import sys
from collections.abc import Iterator

import click

from geolookup.cli import output
from geolookup.cli.inputs import read_addresses
from geolookup.cli.options import as_of_option
from geolookup.errors import InvalidAddressError
from geolookup.lookup import open as opening
from geolookup.lookup.engine import GeoLookup
from geolookup.sources.bundled import BUNDLED, MORE

FORMATS = ("text", "json", "ndjson", "csv")


@click.command()
@click.argument("addresses", nargs=-1, metavar="[ADDRESS]...")
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    help="Read addresses from FILE, one per line; - is standard input.",
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="The format of the answer."
)
@as_of_option
def lookup(addresses: tuple[str, ...], files: tuple[str, ...], form: str, as_of: str | None) -> int:
    """Look up IP addresses: the geolocation of each, and the range that decides it.

    \b
    Addresses are arguments, or come from files, one per line; - reads standard input.
    Exit status: 0 all covered, 4 some not covered, 5 some malformed.

    \b
    Examples:
      geolookup 8.8.8.8 2001:db8::1
      cut -d' ' -f1 access.log | geolookup - --format ndjson
      geolookup lookup --as-of yesterday 8.8.8.8
    """
    if not addresses and not files:
        raise click.UsageError("give an address, or - or --file to read addresses from a stream")
    exits = output.Exits()
    with opening.open(as_of=as_of) as geo, output.answers(form) as write:
        without_city = False
        for where, address in _asked(addresses, files):
            without_city |= _answer(geo, write, exits, where, address)
        # Only on a terminal: elsewhere, standard error is usually a log.
        if without_city and form == "text" and sys.stderr.isatty() and geo.status().source == BUNDLED:
            output.note(MORE)
    return exits.code


def _answer(geo: GeoLookup, write, exits: output.Exits, where: str, address: str) -> bool:  # type: ignore[no-untyped-def]
    """Write the answer for an address; true if a source has it and does not know the city."""
    try:
        match = geo.match(address)
    except InvalidAddressError as error:
        write(address, None, str(error))
        exits.malformed(f"{where}{error}")
        return False
    if match is None:
        exits.not_covered()
    write(address, match, None)
    return match is not None and match.layer == "default" and not match.geolocation.city


def _asked(addresses: tuple[str, ...], files: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Every address that was asked for, with where it stands, for the messages."""
    for address in addresses:
        if address == "-":
            yield from read_addresses(address)
        else:
            yield "", address
    for name in files:
        yield from read_addresses(name)
