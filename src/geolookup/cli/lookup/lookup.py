"""``geolookup ADDRESS …``: look addresses up, from arguments or a stream of any length."""

import contextlib
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from geolookup.base.text import count, network_text
from geolookup.cli import interrupt, output
from geolookup.cli.inputs import Tally, ok_options, read_addresses
from geolookup.cli.lookup.unsaid import said, warn_of_unsaid
from geolookup.cli.options import as_of_option, chosen_fields, delimiter_option, formats, vrf_option
from geolookup.index.layout import EMPTY
from geolookup.lookup.asked import Pick, read_field, read_range
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.members import NAMES
from geolookup.lookup.ranges import RangePart, parts_of_range
from geolookup.model.addresses import parse
from geolookup.model.errors import InvalidAddressError, InvalidRangeError
from geolookup.model.types import FLAT_NAMES
from geolookup.sources.bundled import BUNDLED, MORE
from geolookup.sync import opening

if TYPE_CHECKING:
    from geolookup.model.addresses import Family

FORMATS = ("text", "json", "ndjson", "csv")


@click.command()
@click.argument("addresses", nargs=-1, metavar="[ADDRESS]...")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    help="Read addresses from FILE, one per line; - is standard input.",
)
@delimiter_option("What stands after the address on a line of several columns; if not given, a tab or semicolon does.")
@click.option(
    "--pick",
    type=click.Choice(["first", "last", "all"]),
    default="first",
    show_default=True,
    help="Which address of a list is meant: that of X-Forwarded-For begins with the client, as it says itself.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    metavar="N",
    help="Of a range or network, show the N largest parts.",
)
@formats(*FORMATS)
@click.option(
    "--record", is_flag=True, help="Add all that the source says of the place, in the shape of GeoIP2's records."
)
@chosen_fields(NAMES, paths=True)
@as_of_option
@vrf_option
@ok_options
def lookup(
    addresses: tuple[str, ...],
    files: tuple[str, ...],
    delimiter: str | None,
    pick: Pick,
    top: int,
    form: str,
    record: bool,
    only: tuple[str, ...] | None,
    as_of: str | None,
    vrf: str | None,
    **ok: Any,
) -> int:
    """Look up IP addresses: the geolocation of each, and the range that decides it.

    \b
    Of a network or a range, the parts that have one answer, the largest first, with their sizes. If facts are
    asked for, as JSON or by --fields, a part is alike in all of them, and there may be more parts.

    \b
    Addresses are arguments, or come from files, one per line; - reads standard input. Files may be
    compressed. Ports, brackets, quotes and blanks around an address are left out. In files a blank
    line, or -, has an empty answer, so that lines keep their places.
    If a source says who runs addresses, the number and name of the AS stand at the end of the line on
    a terminal, and an address without a place says what is known of it. --json has the facts, too:
    time_zone, asn, as_organization, is_anonymous_vpn and so on, null if no source says it; CSV has
    those facts of networks that a source of the state says.
    Exit status: 0 all covered, 4 some not covered (nothing is known of their place nor of their
    network), 5 some malformed, or of a file or stream more than 1 % (--max-malformed; or 0:
    --ok-uncovered, --ok-malformed).

    \b
    Examples:
      geolookup 8.8.8.8 2001:db8::1
      geolookup 8.8.8.0/24 8.8.8.8-8.8.8.99
      geolookup -f access.log.gz --delimiter space --format ndjson
      geolookup lookup --as-of yesterday 8.8.8.8
      geolookup 8.8.8.8 --field country
      geolookup 8.8.8.8 --field location.time_zone
      geolookup 8.8.8.8 --field asn --field as_organization
      geolookup 8.8.8.8 --record --json
      geolookup 10.1.2.3 --vrf CUST-A
    """
    if record and (only is not None or form == "csv"):
        raise click.UsageError("--record is the whole: use it without --fields, and not with CSV")
    if not addresses and not files:
        raise click.UsageError("give an address, or - or --file to read addresses from a stream")
    is_stream = bool(files) or "-" in addresses
    tally = Tally(of_file=is_stream, **ok)
    with contextlib.ExitStack() as stack:
        geo = stack.enter_context(opening.open_or_build(as_of=as_of, vrf=vrf))
        warn_of_unsaid(geo, only or ())
        wanted = record or any("." in name for name in only or ())
        record_of = geo.record if wanted else None
        of_networks = said(geo) if form == "csv" and only is None else ()
        answers = output.answers(
            form,
            only,
            ranges=_has_ranges(addresses),
            facts=of_networks,
            record_of=record_of,
            network_of=geo.network,
            words_of=partial(_networks_of, geo),
        )
        write = stack.enter_context(answers)
        # What is written of a part of a range must be so in the whole of it.
        asked = any(name not in FLAT_NAMES for name in (*(only or ()), *of_networks))
        facts = record or form in ("json", "ndjson") or asked
        without_city = False
        reached = interrupt.Progress("address")
        with tally.sums() if is_stream else contextlib.nullcontext():
            for where, text in _asked(addresses, files, delimiter):
                without_city |= _answer(geo, write, tally, where, text, pick, top, facts=facts)
                reached.done += 1
        if not is_stream:
            tally.say_rest()
        # Only on a terminal: elsewhere, standard error is usually a log.
        if without_city and form == "text" and sys.stderr.isatty() and geo.status().source == BUNDLED:
            output.note(MORE)
    return tally.code


def _has_ranges(addresses: tuple[str, ...]) -> bool:
    return any("/" in address or "-" in address[1:] for address in addresses)


def _answer(
    geo: GeoLookup, write: output.Write, tally: Tally, where: str, text: str, pick: Pick, top: int, *, facts: bool
) -> bool:
    """Write the answer for what was asked; true if a source has it and does not know the city.

    With ``facts`` a part of a range is alike in all of them.
    """
    try:
        found = [(text, geo.match(text))]
    except InvalidAddressError:
        try:
            wanted = _range(text)
            if wanted is not None:
                return _answer_range(geo, write, tally, text, wanted, top, facts=facts)
            found = [(address, geo.match(address)) for address in read_field(text, pick)]
            if not found and not where:
                raise  # a script's variable that is not set; blanks keep the places of lines only in streams
        except (InvalidAddressError, InvalidRangeError) as error:
            write(text, None, str(error))
            tally.bad(where, str(error))
            return False
    if not found:
        tally.blank += 1
        write("", None, None)
    without_city = False
    for address, match in found:
        write(address, match, None)
        if match is None:
            known = geo.network(address) is not None
            tally.found += known
            tally.not_covered += not known
            continue
        tally.found += 1
        without_city |= match.layer == "default" and not match.geolocation.city
    return without_city


def _range(text: str) -> "tuple[Family, int, int] | None":
    """The range that a text means; None if it means an address, or nothing that begins as a range does."""
    try:
        found = read_range(text)
    except InvalidAddressError:
        return None
    return None if found is None or ("/" in text and found[1] == found[2]) else found


def _answer_range(
    geo: GeoLookup,
    write: output.Write,
    tally: Tally,
    text: str,
    wanted: "tuple[Family, int, int]",
    top: int,
    *,
    facts: bool,
) -> bool:
    answer = geo.with_snapshot(lambda snapshot: parts_of_range(snapshot, text, *wanted, top, facts=facts))
    for part in answer.parts:
        write(text, part.match, None, part)
    if answer.count > top:
        output.note(f"{text}: and {answer.count - top:,} smaller parts: --top {answer.count} shows all")
    if answer.covered or geo.with_snapshot(lambda snapshot: any(_known(snapshot.networks_in(*wanted)))):
        tally.found += 1
    else:
        tally.not_covered += 1
    return False


def _networks_of(geo: GeoLookup, part: RangePart) -> str:
    """The words for the network of a part, "" if nothing is known of it; of several their number."""
    family, first = parse(part.first)
    _, last = parse(part.last)
    pieces = geo.with_snapshot(lambda snapshot: list(snapshot.networks_in(family, first, last)))
    distinct = set(_known(pieces))
    if not distinct:
        return ""
    found = geo.network(part.first) if len(pieces) == 1 else None
    return count(len(distinct), "network") if found is None else network_text(found.facts)


def _known(pieces: Iterable[tuple[int, int, int]]) -> Iterator[int]:
    """The numbers of what is known of networks; a number above 0 is true, so each is one greater."""
    return (number + 1 for *_, number in pieces if number != EMPTY)


def _asked(addresses: tuple[str, ...], files: tuple[str, ...], delimiter: str | None) -> Iterator[tuple[str, str]]:
    """Everything that was asked for, with where it stands, for the messages."""
    for address in addresses:
        if address == "-":
            yield from read_addresses(address, delimiter)
        else:
            yield "", address
    for name in files:
        yield from read_addresses(name, delimiter)
