"""``geolookup hotel …`` and ``rate put``: hotels of the service, those near an address, and rates sent to it.

Records are written with every digit as the service sent it.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, BinaryIO

import click
import msgspec

from geolookup.cli import exit_codes, inputs, output
from geolookup.cli.groups import LazyGroup
from geolookup.cli.options import format_option, load_service_settings, url_option
from geolookup.http.transport import Transport
from geolookup.model.errors import EditError, UpstreamError, UpstreamRefusedError
from geolookup.sync import opening
from geolookup.upstream.hotels import SECTIONS, Hotel, HotelsClient, Nearby, hotels_near
from geolookup.upstream.rates import RatePlan, RatesClient

#: The longest line of FILE, and the longest object on several lines: far more than a service takes.
_MAX_BYTES = 1 << 20


def _split(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(item for value in values for part in value.split(",") if (item := part.strip()))


_include_option = click.option(
    "--include",
    multiple=True,
    metavar="SECTION",
    callback=_split,
    help=f"Also answer with this section: {', '.join(SECTIONS)}. Repeat it, or separate several by commas.",
)
_amenity_option = click.option(
    "--amenity",
    "amenities",
    multiple=True,
    callback=_split,
    help="An amenity that must be there, such as wifi. Repeat it, or separate several by commas.",
)


@click.group(cls=LazyGroup)
def hotel() -> None:
    """Show hotels: what the service knows about them, and which are near an address.

    \b
    Example: geolookup hotel near 8.8.8.8 --amenity wifi
    """


@hotel.command()
@click.argument("hotel_id", metavar="ID")
@_include_option
@url_option
@format_option
def details(hotel_id: str, include: tuple[str, ...], url: str | None, form: str) -> None:
    """Show one hotel.

    \b
    Exit status: 0 done, 1 the service could not be used, or does not know the hotel.
    Example: geolookup hotel details H1001 --include ContactInfo,Features
    """
    if not hotel_id.strip():
        raise click.UsageError("ID is empty")
    with Transport(load_service_settings(url)) as transport:
        found = HotelsClient(transport).details(hotel_id, include=include)
    if form == "text":
        _say_details(found)
    elif form == "json":
        output.json_result(_exactly(found.content))
    else:
        _json_row(_exactly(found.content))


@hotel.command("list")
@click.option("--city", help="Only of this city.")
@click.option("--state", help="Only of this state or region.")
@click.option("--postal-code", help="Only of this postal code.")
@click.option("--country", help="Only of this country code.")
@click.option("--destination", "destination_id", metavar="ID", help="Only of this destination.")
@click.option(
    "--id", "ids", multiple=True, callback=_split, help="This hotel. Repeat it, or separate several by commas."
)
@_amenity_option
@_include_option
@url_option
@format_option
def list_hotels(url: str | None, form: str, **asked: Any) -> None:
    """List hotels by address, destination or identifier, and by amenity.

    \b
    Searches ignore case. --amenity works alone or with any other search. Hotels come in the order
    of --id, or else sorted by identifier. Identifiers that the service does not know are named on
    standard error.
    Exit status: 0 done (also if nothing was found), 1 the service could not be used, 2 no search
    was given, or two of address, destination and identifier.

    \b
    Example: geolookup hotel list --city Austin --state TX --amenity wifi,pool
    """
    address = [asked[name] for name in ("city", "state", "postal_code", "country") if asked[name]]
    methods = [bool(address), bool(asked["destination_id"]), bool(asked["ids"])]
    if sum(methods) > 1:
        raise click.UsageError("search by address, by --destination or by --id: one of them, not two together")
    if not any(methods) and not asked["amenities"]:
        raise click.UsageError("give an address (--city, --state, …), --destination, --id or --amenity to search by")
    with Transport(load_service_settings(url)) as transport:
        found = HotelsClient(transport).list(**asked)
    with _records(form) as write:
        for item in found.hotels:
            write(_exactly(item.content), partial(_say_row, item))
    for missing in found.missing:
        output.note(f"geolookup: the service knows no hotel {missing}")


@hotel.command()
@click.argument("address")
@_amenity_option
@_include_option
@url_option
@format_option
def near(address: str, amenities: tuple[str, ...], include: tuple[str, ...], url: str | None, form: str) -> int:
    """List the hotels near ADDRESS: of its city, else of its region, else of its country.

    \b
    The address is looked up on this machine, custom geolocations first. If the city has no hotel
    (with the amenities asked for), those of the region are listed, and then of the country: the
    answer says which.
    Exit status: 0 done (also if no hotel was found), 1 the service could not be used, 4 the
    address is not covered, 5 it is malformed.

    \b
    Example: geolookup hotel near 8.8.8.8 --amenity wifi
    """
    with opening.open_or_build() as geo:
        place = geo.lookup(address)
    if place is None:
        found = Nearby(level=None, place="", hotels=())
    else:
        with Transport(load_service_settings(url)) as transport:
            found = hotels_near(HotelsClient(transport), place, amenities=amenities, include=include)
    locid = None if place is None else place.locid
    answer = {"ip": address, "locid": locid, "level": found.level, "place": found.place}
    if form == "json":
        output.json_result({**answer, "hotels": [_exactly(item.content) for item in found.hotels]})
    elif form == "ndjson":
        # With no hotel there is still one line: it has the place.
        for item in found.hotels or (None,):
            _json_row({**answer, "hotel": None if item is None else _exactly(item.content)})
    else:
        _say_near(address, found, covered=place is not None)
    return exit_codes.NOT_COVERED if place is None else exit_codes.DONE


def _say_near(address: str, found: Nearby, *, covered: bool) -> None:
    if not covered:
        output.row(address, "not covered")
    elif found.level is None:
        output.done(f"{address}: no hotels in {found.place or 'a geolocation that names no place'}")
    else:
        output.done(f"{address}: hotels of the {found.level} {found.place}")
    for item in found.hotels:
        _say_row(item)


def _say_row(found: Hotel) -> None:
    output.row(found.hotel_id, found.name, _address(found), ", ".join(found.amenities))
    _say_sections(found)


def _say_details(found: Hotel) -> None:
    position = "" if found.latitude is None or found.longitude is None else f"{found.latitude}, {found.longitude}"
    lines = {
        "hotel": found.hotel_id,
        "name": found.name,
        "address": _address(found),
        "destination": found.destination_id,
        "position": position,
        "amenities": ", ".join(found.amenities),
    }
    for name, text in lines.items():
        output.done(f"{name + ':':<14}{text}".rstrip())
    _say_sections(found)


def _say_sections(found: Hotel) -> None:
    texts = _members(found.content)
    for name in found.sections:
        output.done(f"  {name}: {texts[name]}")


def _address(found: Hotel) -> str:
    parts = (found.line1, found.city, found.state, found.postal_code, found.country)
    return ", ".join(part for part in parts if part)


@click.group(cls=LazyGroup)
def rate() -> None:
    """Send rates and group rates of hotels to the service.

    \b
    Example: geolookup rate put rates.ndjson
    """


@rate.command()
@click.argument("file")
@url_option
@format_option
def put(file: str, url: str | None, form: str) -> int:
    """Create or update the rate plans in FILE (- for standard input), one after the other.

    \b
    FILE holds one JSON object, or one on each line (NDJSON), with hotelId, ratePlanCode, type (rate
    or groupRate), name and currency; other members are kept as they are. The answer for each is
    created, updated or unchanged; putting FILE a second time changes nothing. A row that is malformed or that the
    service refuses is named on standard error, and the others are done.
    Exit status: 0 done, 5 some rows are malformed, 1 the service refused some (beats 5) or could
    not be used: putting FILE again continues.

    \b
    Example: geolookup rate put rates.ndjson
    """
    code = exit_codes.DONE
    with inputs.opened(file) as stream, Transport(load_service_settings(url)) as transport, _records(form) as write:
        client = RatesClient(transport)
        name = inputs.shown(file)
        for line, text in _rows(stream):
            where = name if line is None else f"{name}, line {line}"
            try:
                plan = RatePlan.parse(text)
            except EditError as error:
                output.fail(f"{where}: {error}")
                write({"line": line, "outcome": "malformed", "error": str(error)}, _nothing)
                code = code or exit_codes.MALFORMED
                continue
            answer = {"line": line, "hotelId": plan.hotel_id, "ratePlanCode": plan.code}
            try:
                stored = client.put(plan)
            except UpstreamError as error:
                output.fail(f"{where}: {error}")
                code = exit_codes.FAILED
                if not isinstance(error, UpstreamRefusedError):
                    break  # the next would fail, too
                write({**answer, "outcome": "refused", "error": str(error)}, _nothing)
                continue
            write(
                {**answer, "outcome": stored.outcome, "ratePlan": _exactly(stored.content)},
                partial(output.row, stored.outcome, plan.hotel_id, plan.code),
            )
            sys.stdout.flush()
    return code


def _nothing() -> None:
    """People read it on standard error."""


def _rows(stream: BinaryIO) -> Iterator[tuple[int | None, bytes]]:
    """The objects with their line, which is None for one that stands on several lines and is all there is."""
    lines = _lines(stream)
    held = []
    for number, line in lines:
        held.append((number, line))
        if _is_row(line):
            break
        # No row by itself: perhaps the beginning of an object that was written for people.
        held += _up_to(_MAX_BYTES - len(line), lines)
        whole = b"\n".join(line for _, line in held)
        if len(held) > 1 and _is_row(whole):
            yield None, whole
            held = []
        break
    yield from held
    yield from lines


def _is_row(text: bytes) -> bool:
    try:
        RatePlan.parse(text)
    except EditError as error:
        return not isinstance(error.__cause__, Exception)  # JSON, but not a rate plan
    return True


def _up_to(size: int, lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    while size >= 0 and (found := next(lines, None)) is not None:
        yield found
        size -= len(found[1]) + 1


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers; of one that is too long, its beginning, which is not JSON."""
    number = 0
    while line := stream.readline(_MAX_BYTES):
        number += 1
        rest = line
        while not rest.endswith(b"\n") and len(rest) == _MAX_BYTES:
            rest = stream.readline(_MAX_BYTES)
            line = line[:60] + b"..." if rest else line
        if line.strip():
            yield number, line.strip().removeprefix(b"\xef\xbb\xbf")


# Records


@contextlib.contextmanager
def _records(form: str) -> Iterator[Callable[[Any, Callable[[], None]], None]]:
    """A writer for one record after another: (the record for programs, what writes it for people).

    A JSON array is closed also if an error ends the command: what was done by then can be read.
    """
    count = 0

    def write(value: Any, as_text: Callable[[], None]) -> None:
        nonlocal count
        if form == "text":
            as_text()
        elif form == "ndjson":
            _json_row(value)
        else:
            sys.stdout.write(f"{',' if count else '['}\n{output.json_line(value)}")
        count += 1

    try:
        yield write
    finally:
        if form == "json":
            sys.stdout.write("\n]\n" if count else "[]\n")


def _json_row(value: Any) -> None:
    """A record for programs, on a line of its own, however long."""
    sys.stdout.write(f"{output.json_line(value)}\n")


def _exactly(content: bytes) -> msgspec.Raw:
    """JSON text to be written as part of a record, as it is."""
    return msgspec.Raw(content)


def _members(content: bytes) -> dict[str, str]:
    """The _members of an object's JSON text, each as JSON text."""
    found = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    return {name: bytes(member).decode("utf-8", "replace") for name, member in found.items()}
