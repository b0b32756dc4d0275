"""``geolookup hotel …``: hotel content of the service, and the hotels where an address is."""

from functools import partial
from typing import Any

import click

from geolookup.cli import exit_codes, output
from geolookup.cli.groups.lazy import LazyGroup
from geolookup.cli.options import format_option, load_service_settings, url_option
from geolookup.cli.service.records import exactly, json_row, members, records
from geolookup.http.transport import Transport
from geolookup.lookup import open as opening
from geolookup.upstream.hotels import SECTIONS, Hotel, HotelsClient, Nearby, hotels_near


def _split(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(item for value in values for part in value.split(",") if (item := part.strip()))


include_option = click.option(
    "--include",
    multiple=True,
    metavar="SECTION",
    callback=_split,
    help=f"Also answer with this section: {', '.join(SECTIONS)}. Repeat it, or separate several by commas.",
)
amenity_option = click.option(
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
@include_option
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
        output.json_result(exactly(found.content))
    else:
        json_row(exactly(found.content))


@hotel.command("list")
@click.option("--city", help="Only of this city.")
@click.option("--state", help="Only of this state or region.")
@click.option("--postal-code", help="Only of this postal code.")
@click.option("--country", help="Only of this country code.")
@click.option("--destination", "destination_id", metavar="ID", help="Only of this destination.")
@click.option(
    "--id", "ids", multiple=True, callback=_split, help="This hotel. Repeat it, or separate several by commas."
)
@amenity_option
@include_option
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
    with records(form) as write:
        for item in found.hotels:
            write(exactly(item.content), partial(_say_row, item))
    for missing in found.missing:
        output.note(f"geolookup: the service knows no hotel {missing}")


@hotel.command()
@click.argument("address")
@amenity_option
@include_option
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
    with opening.open() as geo:
        place = geo.lookup(address)
    if place is None:
        found = Nearby(level=None, place="", hotels=())
    else:
        with Transport(load_service_settings(url)) as transport:
            found = hotels_near(HotelsClient(transport), place, amenities=amenities, include=include)
    locid = None if place is None else place.locid
    answer = {"ip": address, "locid": locid, "level": found.level, "place": found.place}
    if form == "json":
        output.json_result({**answer, "hotels": [exactly(item.content) for item in found.hotels]})
    elif form == "ndjson":
        # With no hotel there is still one line: it has the place.
        for item in found.hotels or (None,):
            json_row({**answer, "hotel": None if item is None else exactly(item.content)})
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
    texts = members(found.content)
    for name in found.sections:
        output.done(f"  {name}: {texts[name]}")


def _address(found: Hotel) -> str:
    parts = (found.line1, found.city, found.state, found.postal_code, found.country)
    return ", ".join(part for part in parts if part)
