"""``custom …``: custom geolocations, edited here and seen at once."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from geolookup.base.text import fields_text, shown_degrees
from geolookup.cli import exit_codes, output
from geolookup.cli.edits.options import (
    WithLocids,
    field_options,
    if_meant,
    locid_of,
    pass_editor,
    preview_option,
    ranges_of,
    require_fitting,
    yes_option,
)
from geolookup.cli.edits.showing import edit_object, pending_objects, say_pending, show_preview
from geolookup.cli.groups import Announced, LazyGroup
from geolookup.cli.options import chosen_fields, json_option
from geolookup.model.checked import lacks_coordinates
from geolookup.model.fields import DEGREES, FIELD_NAMES, UNKNOWN
from geolookup.model.linter import lint
from geolookup.model.types import IPBlock
from geolookup.model.winners import winners
from geolookup.state import custom_edits as edits
from geolookup.state.custom_edits import Made
from geolookup.state.editor import Editor
from geolookup.state.edits.layer import Laid
from geolookup.state.generations.cities import City
from geolookup.sync import words

_OF_FILES = {
    "plan": Announced("edits.sites", "plan", "Show what `custom apply` would change, and for whom."),
    "apply": Announced("edits.sites", "apply", "Make the custom geolocations match a file."),
    "export": Announced("edits.sites", "export", "Write every custom geolocation to a file."),
    "undo": Announced("edits.history", "undo", "Take back edits, sent or not; first shown as a plan."),
}
_MOST_REGIONS = 20
_NAMES = ("locid", "site", "time_zone", *FIELD_NAMES, "ipblocks", "pending", "edits")


_time_zone_option = click.option(
    "--time-zone",
    metavar="ZONE",
    help="The site's time zone, such as Europe/Berlin; empty for none. Answers have it, and no service hears of it.",
)


@click.group(cls=LazyGroup, announced=_OF_FILES)
def custom() -> None:
    """Custom geolocations: your own places and blocks, above the service's defaults.

    \b
    Lookups see an edit at once, and the next push sends it to the service.
    Example: geolookup custom create --country DE --city Berlin --latitude 52.5 --longitude 13.4
    """


@custom.command()
@click.argument("name", required=False)
@click.option(
    "--block", "given", multiple=True, metavar="BLOCK", help="A network, an address or FIRST-LAST; may be repeated."
)
@field_options
@_time_zone_option
@preview_option
@yes_option
@json_option
@pass_editor
def create(
    editor: Editor,
    /,
    name: str | None,
    time_zone: str | None,
    given: tuple[str, ...],
    preview: bool,
    yes: bool,
    as_json: bool,
    **texts: Any,
) -> None:
    """Create a custom geolocation and print its provisional locid.

    \b
    It may have the name of a site, and blocks. Other commands take the name in place of the locid, and
    `custom plan` and `apply` know the site by it.
    Without coordinates it gets those that the default data have of the city, and the command says which.
    All of it is made at once, or nothing. Very wide blocks draw the question of `custom add-block`;
    without a terminal they need --yes.

    \b
    Examples:
      geolookup custom create "Berlin office" --block 10.20.0.0/16 --country DE --city Berlin
      geolookup custom create Ship --country NO --latitude 60.4 --longitude 5.3
    """
    fields = {field: UNKNOWN[field] if value is None else value for field, value in texts.items()}
    require_fitting(fields)
    blocks = [ends for text in given for ends in ranges_of([text], 1)]
    city = editor.sessions.ask(lambda session: session.city(fields)) if lacks_coordinates(fields) else None
    told = _city_text(fields, city) if lacks_coordinates(fields) else None
    fields |= {} if city is None else city.coordinates

    def edit(wide: bool) -> Callable[[Editor], Made]:  # as `_make_if_meant` calls it
        return edits.CREATE.of(fields=fields, blocks=blocks, wide=wide, name=name, time_zone=time_zone)

    if preview:
        if told is not None and not as_json:
            output.done(told)
        show_preview(editor, as_json, edit(True))
    elif (made := if_meant(lambda wide: edit(wide)(editor), yes=yes, as_json=as_json)) is not None:
        of_city = city and {"locid": city.place.locid, "source": city.source, **city.place.fields()}
        if told is not None and not as_json:
            output.done(told)
        _report(editor, made, as_json=as_json, created={"name": name, "coordinates_of": of_city})


@custom.command(cls=WithLocids)
@click.argument("whose", metavar="LOCID|SITE")
@field_options
@_time_zone_option
@preview_option
@json_option
@pass_editor
def update(editor: Editor, /, whose: str, time_zone: str | None, preview: bool, as_json: bool, **fields: Any) -> None:
    """Change fields of a custom geolocation. Other fields stay as they are.

    \b
    Examples:
      geolookup custom update -3 --city Potsdam
      geolookup custom update "Berlin office" --time-zone Europe/Berlin
    """
    locid = locid_of(editor, whose)
    given = {name: value for name, value in fields.items() if value is not None}
    if not given and time_zone is None:
        raise click.UsageError("give at least one field to change")
    if given.keys() & {"country", *DEGREES}:
        require_fitting({**editor.get(locid).place.fields(), **given})
    _make(editor, edits.UPDATE.of(locid, fields=given, time_zone=time_zone), preview=preview, as_json=as_json)


@custom.command(cls=WithLocids)
@click.argument("whose", metavar="LOCID|SITE")
@click.argument("name")
@preview_option
@json_option
@pass_editor
def rename(editor: Editor, /, whose: str, name: str, preview: bool, as_json: bool) -> None:
    """Give a custom geolocation another name of a site, or its first one.

    \b
    No place changes, and no service hears of it. Change the name in the file of your sites, too: as long
    as that has the old one, `custom apply` asks which of the two stays (--keep).

    \b
    Examples:
      geolookup custom rename "Berlin office" "Berlin head office"
      geolookup custom rename -3 "Berlin office"
    """
    _make(editor, edits.RENAME.of(locid_of(editor, whose), name=name), preview=preview, as_json=as_json)


@custom.command(cls=WithLocids)
@click.argument("whose", metavar="LOCID|SITE")
@preview_option
@json_option
@pass_editor
def delete(editor: Editor, /, whose: str, preview: bool, as_json: bool) -> None:
    """Delete a custom geolocation with its blocks.

    \b
    Example: geolookup custom delete -3
    """
    _make(editor, edits.DELETE.of(locid_of(editor, whose)), preview=preview, as_json=as_json)


@custom.command(cls=WithLocids)
@click.argument("whose", metavar="LOCID|SITE")
@click.argument("block", nargs=-1, required=True)
@preview_option
@yes_option
@json_option
@pass_editor
def add_block(editor: Editor, /, whose: str, block: tuple[str, ...], preview: bool, yes: bool, as_json: bool) -> None:
    """Add a block to a custom geolocation: a network, an address, FIRST-LAST or FIRST LAST.

    \b
    If it covers more than a /8 of public addresses (IPv6: a /24), or private and public ones, it asks
    first; without a terminal that needs --yes.
    Exit status: 0 done, 2 it cannot be made, 3 it needs --yes (nothing was changed).

    \b
    Examples:
      geolookup custom add-block -3 10.20.0.0/16
      geolookup custom add-block "Berlin office" 10.30.0.5-10.30.0.9
      geolookup custom add-block -3 10.20.0.0/16 --preview
    """
    locid = locid_of(editor, whose)
    blocks = ranges_of(block, 1)
    _make_if_meant(
        editor,
        lambda wide: edits.ADD_BLOCK.of(locid, blocks=blocks, wide=wide),
        preview=preview,
        yes=yes,
        as_json=as_json,
    )


@custom.command(cls=WithLocids)
@click.argument("whose", metavar="LOCID|SITE")
@click.argument("ranges", nargs=-1, metavar="OLD NEW")
@preview_option
@yes_option
@json_option
@pass_editor
def replace_block(
    editor: Editor, /, whose: str, ranges: tuple[str, ...], preview: bool, yes: bool, as_json: bool
) -> None:
    """Replace a block. OLD and NEW are networks, addresses or ranges: FIRST-LAST or FIRST LAST.

    \b
    A very wide NEW draws the question of `custom add-block`; without a terminal it needs --yes.

    \b
    Examples:
      geolookup custom replace-block -3 10.20.0.0/16 10.21.0.0/16
      geolookup custom replace-block -3 10.0.0.1 10.0.0.9 10.0.0.1 10.0.0.20
    """
    locid = locid_of(editor, whose)
    blocks = ranges_of(ranges, 2)
    _make_if_meant(
        editor,
        lambda wide: edits.REPLACE_BLOCK.of(locid, blocks=blocks, wide=wide),
        preview=preview,
        yes=yes,
        as_json=as_json,
    )


@custom.command(cls=WithLocids)
@click.argument("whose", metavar="LOCID|SITE")
@click.argument("block", nargs=-1, required=True)
@preview_option
@json_option
@pass_editor
def remove_block(editor: Editor, /, whose: str, block: tuple[str, ...], preview: bool, as_json: bool) -> None:
    """Remove one block of a custom geolocation.

    \b
    Example: geolookup custom remove-block -3 10.20.0.0/16
    """
    locid = locid_of(editor, whose)
    _make(editor, edits.REMOVE_BLOCK.of(locid, blocks=ranges_of(block, 1)), preview=preview, as_json=as_json)


@custom.command(cls=WithLocids)
@click.argument("whose", metavar="LOCID|SITE")
@preview_option
@json_option
@pass_editor
def clear_blocks(editor: Editor, /, whose: str, preview: bool, as_json: bool) -> None:
    """Remove all blocks of a custom geolocation.

    \b
    Example: geolookup custom clear-blocks -3
    """
    _make(editor, edits.CLEAR_BLOCKS.of(locid_of(editor, whose)), preview=preview, as_json=as_json)


@custom.command(cls=WithLocids)
@click.argument("whose", metavar="LOCID|SITE")
@chosen_fields(_NAMES)
@json_option
@pass_editor
def show(editor: Editor, /, whose: str, only: tuple[str, ...] | None, as_json: bool) -> None:
    """Show a custom geolocation with its blocks and pending edits.

    \b
    Examples:
      geolookup custom show -3
      geolookup custom show "Berlin office" --field ipblocks
    """
    locid = locid_of(editor, whose)
    laid, names, zones = editor.get(locid), editor.site_names(), editor.time_zones()
    place = laid.place
    if as_json or only is not None:
        output.chosen_result(_geolocation_object(laid, names, zones), only or _NAMES, as_json=as_json)
        return
    output.done(f"geolocation {place.locid}")
    if place.locid in names:
        output.done(f"  {'site:':<12}{names[place.locid]}")
        if zone := zones.get(names[place.locid]):
            output.done(f"  {'time zone:':<12}{zone}")
    for name, value in place.fields().items():
        output.done(f"  {name + ':':<12}{'' if value is None else value}")
    for block in place.ipblocks:
        output.done(f"  block {block}")
    for edit in laid.edits:
        output.done(f"  pending: {edit.describe()} ({edit.state})")


@custom.command("list")
@chosen_fields(_NAMES)
@json_option
@pass_editor
def list_custom(editor: Editor, /, only: tuple[str, ...] | None, as_json: bool) -> None:
    """List custom geolocations, including those not pushed yet.

    \b
    Examples:
      geolookup custom list --json
      geolookup custom list --fields locid,site,ipblocks
    """
    found, names = editor.custom(), editor.site_names()
    if as_json or only is not None:
        zones = editor.time_zones()
        objects = (_geolocation_object(laid, names, zones) for laid in found)
        output.chosen_results(objects, only or _NAMES, as_json=as_json)
        return
    with output.table("locid", "place", "blocks", "state", "site") as row:
        for laid in found:
            place = laid.place
            row(
                str(place.locid),
                place.place_text(),
                words.count(len(place.ipblocks), "block"),
                "pending" if laid.pending else "",
                names.get(place.locid, ""),
            )


@custom.command()
@json_option
@pass_editor
def check(editor: Editor, /, as_json: bool) -> int:
    """Find blocks that are probably mistakes.

    \b
    identical  two geolocations have the same range
    redundant  without it, every address would get the same answer
    shadowed   narrower blocks cover all of its addresses
    crossing   it partly overlaps a block of another geolocation
    gone       the geolocation has pending edits, but the service no longer lists it

    \b
    Each finding is about one block: fix it, and check again. Nothing is changed.
    Exit status: 0 nothing found, 1 something found.

    \b
    Example: geolookup custom check
    """
    with editor.rehearsal():
        places, gone = [laid.place for laid in editor.custom()], editor.gone()
    findings = lint(places, gone=gone)
    count = sum(len(place.ipblocks) for place in places)
    nothing = f"nothing found in {words.count(len(places), 'custom geolocation')} with {words.count(count, 'block')}"
    output.emit(
        as_json,
        lambda: {"ok": not findings, "findings": [found.as_dict() for found in findings]},
        [f"{found.kind}: {found.describe()}" for found in findings] or nothing,
    )
    return exit_codes.FAILED if findings else exit_codes.DONE


def _city_text(fields: Mapping[str, Any], city: City | None) -> str:
    """The words for coordinates that were looked for: which were taken, and of which place of which source."""
    asked = fields_text({**fields, **dict.fromkeys(DEGREES)})
    if city is None:
        return f"no coordinates: the default data have none of {asked or 'no place'}"
    place = city.place
    latitude, longitude = (None if each is None else shown_degrees(each) for each in (place.latitude, place.longitude))
    text = f"latitude {latitude!r}, longitude {longitude!r}: those of {place.place_text()} in {city.source}"
    if city.elsewhere:
        text += f" (also in {', '.join(city.elsewhere[:_MOST_REGIONS])}: give --region if that is meant)"
    return text


def _make(editor: Editor, edit: Callable[[Editor], Made], *, preview: bool, as_json: bool) -> None:
    """Make an edit and report it, or only show whose answer it would change."""
    if preview:
        show_preview(editor, as_json, edit)
    else:
        _report(editor, edit(editor), as_json=as_json)


def _make_if_meant(
    editor: Editor, edit: Callable[[bool], Callable[[Editor], Made]], *, preview: bool, yes: bool, as_json: bool
) -> None:
    """`_make` an edit that is told whether a very wide block is meant."""
    if preview:
        show_preview(editor, as_json, edit(True))
    elif (made := if_meant(lambda wide: edit(wide)(editor), yes=yes, as_json=as_json)) is not None:
        _report(editor, made, as_json=as_json)


def _report(editor: Editor, made: Made, *, as_json: bool, created: Mapping[str, Any] | None = None) -> None:
    """Say what an edit did, which addresses of its blocks others have, and what is still pending.

    ``created`` is what only the object of a create has.
    """
    told: list[str] = []
    others: list[tuple[tuple[int, IPBlock], int]] = []
    names = editor.site_names()
    if made.added or made.removed:
        places, locid = [laid.place for laid in editor.custom()], editor.get(made.locid).place.locid
        for blocks, owner in ((made.added, locid), (made.removed, None)):
            for block in blocks:
                found = winners(places, block)
                told += words.won(block, owner, found, names)
                others += [(key, number) for key, number in found.items() if key is not None and key[0] != owner]
    if as_json:
        value: dict[str, Any] = {"locid": made.locid, "did": made.text, "pending": pending_objects(editor)}
        changed = [{"startip": block.startip, "endip": block.endip} for block in made.added or made.removed]
        if created is not None:
            value |= {**created, "blocks": changed}
        elif changed:
            value["block"] = changed[0]
        if changed:
            value["others"] = [
                {"locid": owner, "startip": each.startip, "endip": each.endip, "addresses": str(number)}
                for (owner, each), number in others
            ]
        output.json_result(value)
        return
    output.done(made.text)
    for line in told:
        output.done(line)
    say_pending(editor)


def _geolocation_object(laid: Laid, names: Mapping[int, str], zones: Mapping[str, str]) -> dict[str, Any]:
    """A custom geolocation, for ``--json``."""
    place = laid.place
    name = names.get(place.locid)
    return {
        "locid": place.locid,
        "site": name,
        "time_zone": None if name is None else zones.get(name),
        **place.fields(),
        "ipblocks": [{"startip": block.startip, "endip": block.endip} for block in place.ipblocks],
        "pending": laid.pending,
        "edits": [edit_object(row, names) for row in laid.edits],
    }
