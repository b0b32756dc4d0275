"""``export``: what lookups answer, as a file that other programs read."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, cast

import click

from geolookup.base.text import size
from geolookup.cli import interrupt, output
from geolookup.cli.groups import LazyGroup
from geolookup.cli.options import as_of_option, json_option
from geolookup.cli.streams import harmless_lines
from geolookup.exports.content import LAYERS, PLACE_LAYERS, LayerChoice
from geolookup.exports.export import ExportForm
from geolookup.exports.export import export as write
from geolookup.exports.precision import PRECISIONS
from geolookup.exports.rows import DEFAULT_FIELDS, FIELDS
from geolookup.sync import opening, words

_BINARY = ("mmdb", "parquet")


_PLACES = "Your own blocks, those of the sources, or both as lookups answer"


_ROW_LAYERS = (
    f"The ranges that get rows. {_PLACES}; network: those of which a fact of networks is known; all: these, too.  "
    "[default: both, or with facts of networks among the fields all, or network if all are]"
)


def _common(
    layers: Sequence[LayerChoice] = PLACE_LAYERS, default: LayerChoice | None = "both", text: str = f"{_PLACES}."
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options that all formats have; ``layers`` are those of one, ``text`` says what they are."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        options = (
            click.argument("target", metavar="OUT"),
            click.option(
                "--layer",
                type=click.Choice(layers),
                default=default,
                show_default=default is not None,
                help=text,
            ),
            click.option("--source", metavar="NAME", help="Only what the source NAME answers."),
            click.option(
                "--precision",
                type=click.Choice(PRECISIONS),
                help="Tell places no more precisely: no finer names, ids, codes and coordinates.",
            ),
            as_of_option,
            click.option(
                "--vrf",
                default="",
                metavar="NAME",
                help="What the routing domain (VRF) NAME answers: its blocks first.",
            ),
            json_option,
            click.option(
                "--licence-allows",
                is_flag=True,
                help="Your licence lets others have the data, though the source says otherwise.",
            ),
        )
        for add in reversed(options):  # the last one that is applied comes first in the help
            function = add(function)
        return function

    return decorate


@click.group(cls=LazyGroup)
def export() -> None:
    """Write what lookups answer now, your own blocks included, as a file that other programs read.

    \b
    OUT is a file, - is standard output; a name that ends in .gz is compressed. The file appears once
    it is complete, and replaces one that was there. The same state gives the same bytes.
    If the licence of a source does not allow passing its data on, nothing is written (exit status 2).

    \b
    Examples:
      geolookup export mmdb corrected.mmdb
      geolookup export geofeed geofeed.csv --public-only
    """


@export.command(short_help="Write a MaxMind DB, as nginx, Logstash and others read it.")
@_common(
    LAYERS,
    None,
    f"{_PLACES}; network: who runs the addresses; all: where they are, and who runs them.  "
    "[default: both, or network if --type is of such files]",
)
@click.option(
    "--fields",
    type=click.Choice(["city", "country"]),
    help="country is --precision country: neighbouring networks are joined, and the file is small.",
)
@click.option(
    "--type",
    "database_type",
    metavar="TYPE",
    help="The type that the file says it is, for programs that check it: GeoLite2-City, GeoLite2-ASN, "
    "GeoIP2-Anonymous-IP, Acme-City … Its records have what such files have. GeoLite2 and GeoIP2 are MaxMind's.",
)
def mmdb(**options: Any) -> None:
    """Write a MaxMind DB: for nginx, Logstash, Elasticsearch, GoAccess and the GeoIP2 libraries.

    \b
    Records are shaped like those of GeoIP2 City, with a map `geolookup` of our own: locid, layer and
    source. Private addresses are in it. IPv6 blocks inside ::/96 are left out, and counted on
    standard error: readers find IPv4 there.

    \b
    Who runs an address (AS number, ISP, VPN …) is in the layer network, at the top of records, and in
    the layer all under `traits`, as in GeoIP2 Enterprise; `geolookup.sources` has who said each fact.

    \b
    Examples:
      geolookup export mmdb GeoLite2-City.mmdb --type GeoLite2-City
      geolookup export mmdb GeoLite2-ASN.mmdb --type GeoLite2-ASN
      geolookup export mmdb everything.mmdb --layer all
      geolookup export mmdb for-partners.mmdb --precision region
    """
    _run("mmdb", **options)


@export.command(short_help="Write a geofeed (RFC 8805) of your networks.")
@_common(default="custom")
@click.option("--postal-codes", is_flag=True, help="Write postal codes, which can point at single people.")
@click.option("--public-only", is_flag=True, help="Leave private and reserved addresses out.")
def geofeed(**options: Any) -> None:
    """Write a geofeed (RFC 8805): for those who collect where networks are.

    \b
    Of your own blocks, unless --layer says otherwise. Ranges become networks. A region that is not an
    ISO 3166-2 code is left out. A place without country and city is left out, too. A comma or # in a
    city becomes a blank. Private addresses are refused: --public-only leaves them out.

    \b
    Example: geolookup export geofeed geofeed.csv --public-only
    """
    _run("geofeed", **options)


def _rows(function: Callable[..., Any]) -> Callable[..., Any]:
    function = click.option(
        "--fields",
        default=",".join(DEFAULT_FIELDS),
        show_default="the eight of a place",
        help=f"The fields to write, separated by commas, from: {', '.join(FIELDS)}.",
    )(function)
    return click.option(
        "--networks/--ranges",
        default=False,
        show_default=True,
        help="One row for each network (column network), or for each range (first, last).",
    )(function)


@export.command(short_help="Write a CSV file, which can be a source again.")
@_common(LAYERS, None, _ROW_LAYERS)
@_rows
def csv(**options: Any) -> None:
    """Write a CSV file, which `geolookup sync` and `geolookup source add` read too.

    \b
    Examples:
      geolookup export csv ranges.csv.gz --networks --fields country,city
      geolookup export csv networks.csv --fields asn,as_organization,is_anonymous_vpn
      geolookup export csv all.csv --fields country,city,time_zone,asn
    """
    _run("csv", **options)


@export.command(short_help="Write a Parquet file.")
@_common(LAYERS, None, _ROW_LAYERS)
@_rows
def parquet(**options: Any) -> None:
    """Write a Parquet file. Needs pyarrow: pip install 'geolookup[arrow]'.

    \b
    Examples:
      geolookup export parquet ranges.parquet --fields locid,country,source
      geolookup export parquet all.parquet --fields country,time_zone,asn,is_hosting_provider
    """
    _run("parquet", **options)


def _run(
    form: ExportForm,
    target: str,
    as_of: str | None,
    vrf: str,
    layer: LayerChoice | None,
    as_json: bool,
    **options: Any,
) -> None:
    interrupt.writing_to(target)
    stream: BinaryIO | None = None
    if target == "-":
        if as_json:
            raise click.UsageError("with --json, OUT must be a file: standard output is for the report")
        stream = sys.stdout.buffer
        if sys.stdout.isatty():
            if form in _BINARY:
                raise click.UsageError(f"{form} is not text: give the name of a file, or a pipe")
            stream = cast("BinaryIO", _Harmless(stream))
    with opening.open_or_build(as_of=as_of, vrf=vrf) as geo, output.progress("exporting", "%") as progress:
        done = write(geo, form, target if stream is None else stream, layer=layer, progress=progress, **options)
    for warning in done.warnings:
        output.note(f"geolookup: {warning}")
    if form == "csv":  # which has no place for them
        for line in done.attributions:
            output.note(f"to be shown with the data: {line}")
    if as_json:
        report = {"target": target, "format": form, "ranges": done.ranges, "bytes": done.size_bytes}
        output.json_result({**report, "warnings": list(done.warnings), "attributions": list(done.attributions)})
    elif stream is None:
        packed = " before compression" if target.lower().endswith(".gz") else ""
        output.done(f"wrote {target}: {words.count(done.ranges, 'range')}, {size(done.size_bytes)}{packed}")


class _Harmless:
    """Text for a terminal: whole lines, without characters that control it."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def write(self, octets: bytes) -> int:
        """Write some lines."""
        return self._out.write(harmless_lines(octets.decode("utf-8")).encode("utf-8", "replace"))
