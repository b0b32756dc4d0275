"""Editing custom geolocations: each edit has a form at an address of its own, named as its command."""

import secrets
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlencode

from litestar import get, route
from litestar.di import NamedDependency
from litestar.params import FromPath

from geolookup.base.text import shown_degrees
from geolookup.console.console import Console, Html
from geolookup.console.editing import (
    GIVEN,
    WIDE,
    Does,
    Doubt,
    Edit,
    Values,
    digest_of,
    field_texts,
    offered,
    place_of,
    respond,
    typed_fields,
    version,
    wrong_fields,
)
from geolookup.console.forms import AnyRequest, query, typed
from geolookup.console.html import called
from geolookup.console.wording import answered
from geolookup.model.addresses import range_ends
from geolookup.model.checked import wrong_name, wrong_time_zone
from geolookup.model.continents import country_text
from geolookup.model.errors import EditError, RequestRefusedError
from geolookup.model.fields import DEGREES, FIELD_NAMES
from geolookup.model.named import block_of
from geolookup.model.types import Geolocation, IPBlock
from geolookup.sites.site import block_text
from geolookup.sources.outlines import is_far
from geolookup.state import custom_edits as edits
from geolookup.state.custom_edits import Ends, Made
from geolookup.state.editor import Editor
from geolookup.state.edits.layer import Laid
from geolookup.state.generations.cities import plain
from geolookup.sync import words


def _does(edit: Callable[[Editor], Made], told: Callable[[Editor, Made], str]) -> Does:
    """An edit of the table as a form makes it, and what it did in words."""

    def does(editor: Editor) -> tuple[int, str]:
        made = edit(editor)
        return made.locid, told(editor, made)

    return does


class _Create(Edit):
    """A new geolocation, perhaps with its name and its blocks."""

    button, block_label = "Create this site", "Networks"
    has_name = has_time_zone = has_vrf = has_fields = block_may_wait = blocks_may_be_many = True
    hidden = ("once", "corrects", GIVEN)
    back = "/custom"

    def heading(self, values: Values) -> str:
        return f"Correct {values['corrects']}" if values["corrects"] else "New site"

    def seen(self, editor: Editor) -> str:  # noqa: ARG002
        return ""

    def begin(self, request: AnyRequest) -> Values:
        values = super().begin(request)
        return {**values, "once": secrets.token_urlsafe(9), GIVEN: place_of(values)}

    def wrong(self, console: Console, values: Values) -> dict[str, str]:
        local = _wrong_local(values, needs_name=bool(self.vrf(values)))
        return {**super().wrong(console, values), **wrong_fields(typed_fields(values), FIELD_NAMES), **local}

    def vrf(self, values: Values) -> str:
        return values["vrf"].strip()

    def doubt(self, console: Console, values: Values) -> Doubt | None:
        """A city or a country typed over another one has the coordinates of that."""
        given, here = (text.rsplit("|", 2) for text in (values[GIVEN], place_of(values)))
        if given[1:] == here[1:] != ["", ""] and given[:1] != here[:1]:
            told, city = f"The coordinates are still those of {given[0] or 'before'}.", plain(here[0])
            for text, place in offered(console, here[0]):
                if plain(place["city"]) == city:
                    at = f"{place['latitude']}, {place['longitude']}"
                    return Doubt(text=f"{told} {text} is at {at}.", button=f"Take {text}", instead=place)
            return Doubt(text=f"{told} Change them, too, unless they are meant.")
        fields = typed_fields(values)
        latitude, longitude = (None if fields[name] is None else float(fields[name]) for name in DEGREES)
        if not is_far({**fields, "latitude": latitude, "longitude": longitude}):
            return None
        return Doubt(text=f"{latitude}, {longitude} is far from {country_text(fields['country'])}: is that meant?")

    def does(self, values: Values) -> Does:
        name, blocks = values["name"].strip() or None, self.blocks(values)
        fields, zone = typed_fields(values), values["time_zone"].strip()
        if self.vrf(values):
            return _put(self.vrf(values), values, self.blocks(values))

        def told(editor: Editor, made: Made) -> str:
            site = called(editor.get(made.locid).place, name)
            return f"Created {site}{'. ' + answered(made.added, site, editor.custom()) if made.added else ''}"

        create = edits.CREATE.of(fields=fields, blocks=blocks, wide=bool(values[WIDE]), name=name, time_zone=zone)
        return _does(create, told)


def _wrong_local(values: Values, *, needs_name: bool) -> Values:
    """All that is wrong with a name, and with a time zone and a routing domain, which only sites with a name have."""
    name, zone, vrf = (values.get(each, "").strip() for each in ("name", "time_zone", "vrf"))
    found = {"name": wrong_name(name), "time_zone": wrong_time_zone(zone), "vrf": wrong_name(vrf) if vrf else None}
    if not name:
        found["name"] = "a site with a time zone or in a routing domain needs a name" if zone or needs_name else None
    return {each: told for each, told in found.items() if told is not None}


def _put(vrf: str, values: Values, blocks: list[Ends], was: str = "") -> Does:
    """Have a site of a routing domain be as the form says: a new one, or that which is called ``was``."""
    name = values["name"].strip()
    fields: Any = typed_fields(values)

    def put(editor: Editor) -> tuple[int, str]:
        found = [block_of(*ends) for ends in blocks]
        if name != was:
            if name in editor.vrf_places(vrf):
                raise EditError(f"name: the VRF {vrf} has a site {name!r} already. Change that, or take another name")
            if was:
                editor.remove_vrf_place(vrf, was)
        locid = editor.put_vrf_place(vrf, name, time_zone=values["time_zone"].strip(), blocks=found, **fields)
        return locid, f"Saved {name} of the VRF {vrf}{'. ' + answered(found, name) if found else ''}"

    return put


class _OfOne(Edit):
    """An edit of one geolocation.

    ``title`` is its heading, ``edit`` what it makes, and ``said`` what it did then: ``{site}`` in them is the site,
    ``{count}`` the number of its networks, ``{answers}`` what networks that it got mean, and each input has its name.
    """

    said = ""
    edit: edits.CustomEdit

    def __init__(self, console: Console, laid: Laid) -> None:
        layer, self.laid, self.locid = console.layer(), laid, laid.place.locid
        self.site, self.zone = layer.names.get(self.locid), layer.zones.get(self.locid, "")
        self.of_vrf = layer.vrfs.get(self.locid, "")
        self.name, self.back = called(laid.place, self.site), f"/custom/{self.locid}"
        self.place = laid.place.place_text() + (f" (VRF {self.of_vrf})" if self.of_vrf else "")

    def seen(self, editor: Editor) -> str:
        if self.of_vrf:
            place = editor.vrf_places(self.of_vrf).get(self.site or "")
            return _mark(
                None if place is None else Laid(place=place), editor.vrf_time_zones(self.of_vrf).get(self.site or "")
            )
        return _mark(editor.get(self.locid), editor.time_zones().get(editor.site_names().get(self.locid, "")))

    def shown(self, console: Console) -> str:  # noqa: ARG002
        return _mark(self.laid, self.zone)

    def now(self) -> dict[str, str]:
        blocks = ", ".join(block_text(block) for block in self.laid.place.ipblocks)
        return {"time_zone": self.zone, **field_texts(self.laid.place.fields()), "blocks": blocks}

    def vrf(self, values: Values) -> str:  # noqa: ARG002
        return self.of_vrf

    def changed_by(self, editor: Editor) -> str:
        line = next(reversed(editor.history(self.locid)), None)
        return "" if line is None else f" by {line['who'] or 'somebody'} ({line['via']})"

    def heading(self, values: Values) -> str:
        return self._text(self.title, values)

    def does(self, values: Values) -> Does:
        blocks = [range_ends(values["old"])] if "old" in self.hidden else []
        blocks += self.blocks(values) if self.block_label else []
        name = values["name"].strip() if self.has_name else None
        edit = self.edit.of(self.locid, blocks=blocks, wide=bool(values.get(WIDE)), name=name)

        def told(editor: Editor, made: Made) -> str:
            is_more = bool(made.added) and "old" not in self.hidden
            every = len(editor.get(made.locid).place.ipblocks) if is_more else 0
            return self._text(self.said, values, answered(made.added, self.name, editor.custom(), every))

        return _does(edit, told)

    def _text(self, text: str, values: Values, answers: str = "") -> str:
        count = words.count(len(self.laid.place.ipblocks), "network")
        inputs = {name: value.strip() for name, value in values.items()}
        return text.format_map({**inputs, "site": self.name, "count": count, "answers": answers})


def _mark(laid: Laid | None, zone: str | None) -> str:
    """The form's mark of a geolocation and the time zone of its site; None stands for one that is gone."""
    return digest_of([None if laid is None else version(laid), zone or ""])


class _Update(_OfOne):
    button, has_fields, title = "Save this place", True, "Change the place of {site}"

    def __init__(self, console: Console, laid: Laid) -> None:
        super().__init__(console, laid)
        self.has_time_zone = bool(self.site)

    def begin(self, request: AnyRequest) -> Values:  # noqa: ARG002
        return {"time_zone": self.zone, **field_texts(self.laid.place.fields())}

    def _zone(self, values: Values) -> str | None:
        """The time zone that was typed, None if it stays."""
        zone = values["time_zone"].strip() if self.has_time_zone else self.zone
        return None if zone == self.zone else zone

    def _changed(self, values: Values) -> dict[str, Any]:
        shown, fields = field_texts(self.laid.place.fields()), typed_fields(values)
        # What came back as the browser was given it was not touched: it stays, also what no browser can send.
        return {name: fields[name] for name in shown if values[name] != typed(shown[name])}

    def wrong(self, console: Console, values: Values) -> dict[str, str]:  # noqa: ARG002
        changed, zone = self._changed(values), wrong_time_zone(self._zone(values) or "")
        wrongs = wrong_fields({**self.laid.place.fields(), **changed}, changed)
        return wrongs if zone is None else {**wrongs, "time_zone": zone}

    def doubt(self, console: Console, values: Values) -> Doubt | None:
        """A city typed over another one has the coordinates of that, unless it was picked."""
        before, changed = self.laid.place, self._changed(values)
        if not {"city", "country"} & changed.keys() or DEGREES.keys() & changed.keys():
            return None
        kept = _point(before)
        if not kept:
            return None
        told = f"The coordinates stay as before: {kept}."
        where, sessions = {**before.fields(), **changed}, console.editor().sessions
        for region in (where["region"], ""):
            found = sessions.ask(lambda session: session.city({**where, "region": region}))  # noqa: B023 - now
            has = "" if found is None else _point(found.place)
            if found is None or not has:
                continue
            if has == kept:
                return None
            text, instead = f"{told} {found.place.place_text()} is at {has}.", field_texts(found.place.fields())
            return Doubt(text=text, button=f"Take {has}", instead=instead)
        return Doubt(text=f"{told} Change them too if the place moved.")

    def does(self, values: Values) -> Does:
        changed, zone = self._changed(values), self._zone(values)

        def update(editor: Editor) -> tuple[int, str]:
            if not changed and zone is None:
                raise EditError(f"{self.name} has these values already: nothing was changed")
            return _does(edits.UPDATE.of(self.locid, fields=changed, time_zone=zone), self._told)(editor)

        return update

    def _told(self, editor: Editor, made: Made) -> str:
        before, after = self.place, editor.get(made.locid).place.place_text()
        if after == before:
            return f"Changed the place of {self.name}"
        return f"{self.site or 'The site'} is now in {after} (before: {before})"


def _point(place: Geolocation) -> str:
    """The coordinates of a place as people read them; empty if it has none."""
    if place.latitude is None or place.longitude is None:
        return ""
    return f"{shown_degrees(place.latitude)}, {shown_degrees(place.longitude)}"


class _Rename(_OfOne):
    button, has_name, changes_answers, edit = "Save this name", True, False, edits.RENAME
    title, said = "Rename {site}", "{site} is now called {name}"

    def seen(self, editor: Editor) -> str:
        return digest_of(editor.site_names().get(self.locid))

    def shown(self, console: Console) -> str:
        return digest_of(console.layer().names.get(self.locid))

    def now(self) -> dict[str, str]:
        return {"name": self.site or ""}

    def begin(self, request: AnyRequest) -> Values:  # noqa: ARG002
        return self.now()

    def wrong(self, console: Console, values: Values) -> dict[str, str]:  # noqa: ARG002
        told = wrong_name(values["name"].strip())
        return {} if told is None else {"name": told}


class _Delete(_OfOne):
    button, risky, edit = "Delete this site", True, edits.DELETE
    title, said = "Delete {site} with {count}", "Deleted {site}"

    def after(self, locid: int) -> str:  # noqa: ARG002
        return "/custom"


class _AddBlock(_OfOne):
    button, block_label, blocks_may_be_many, edit = "Add these networks", "Networks", True, edits.ADD_BLOCK
    title, said = "Add networks to {site}", "{answers}"


class _ReplaceBlock(_OfOne):
    button, block_label, hidden, edit = "Replace this network", "New network", ("old",), edits.REPLACE_BLOCK
    title, said = "Replace {old} of {site}", "{answers}, in place of {old}"

    def begin(self, request: AnyRequest) -> Values:
        return dict.fromkeys(("old", "block"), query(request, "old"))


class _RemoveBlock(_OfOne):
    button, hidden, edit = "Remove this network", ("old",), edits.REMOVE_BLOCK
    title, said = "Remove {old} from {site}", "{site} no longer answers for {old}"


class _ClearBlocks(_OfOne):
    button, risky, edit = "Remove all networks", True, edits.CLEAR_BLOCKS
    title, said = "Remove all {count} of {site}", "{site} has no networks any more"


class _UpdateInVrf(_OfOne):
    button, block_label, title = "Save this site", "Networks", "Change {site}"
    has_name = has_time_zone = has_fields = block_may_wait = blocks_may_be_many = True

    def begin(self, request: AnyRequest) -> Values:  # noqa: ARG002
        blocks = "\n".join(block_text(block) for block in self.laid.place.ipblocks)
        return {**dict.fromkeys(self.names(), ""), "name": self.site or "", **self.now(), "block": blocks}

    def wrong(self, console: Console, values: Values) -> dict[str, str]:
        fields = wrong_fields(typed_fields(values), FIELD_NAMES)
        return {**super().wrong(console, values), **fields, **_wrong_local(values, needs_name=True)}

    def does(self, values: Values) -> Does:
        return _put(self.of_vrf, values, self.blocks(values), self.site or "")


class _DeleteInVrf(_Delete):
    def does(self, values: Values) -> Does:  # noqa: ARG002
        def delete(editor: Editor) -> tuple[int, str]:
            editor.remove_vrf_place(self.of_vrf, self.site or "")
            return self.locid, f"Deleted {self.name} of the VRF {self.of_vrf}"

        return delete


#: Letters of a link: half of what a request may have.
_MAX_LINK = 4096

#: The edits of one geolocation, by the last part of their address, which is the command's name.
_FORMS: dict[str, type[_OfOne]] = {
    edits.UPDATE.name: _Update,
    **{form.edit.name: form for form in (_Rename, _Delete, _AddBlock, _ReplaceBlock, _RemoveBlock, _ClearBlocks)},
}
#: Those of a site of a routing domain: it is changed as a whole.
_IN_VRF: dict[str, type[_OfOne]] = {edits.UPDATE.name: _UpdateInVrf, edits.DELETE.name: _DeleteInVrf}


@route("/custom/create", http_method=["GET", "POST"], sync_to_thread=True)
def create(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """A new geolocation, its form perhaps filled in by what leads there."""
    return respond(request, console, _Create())


@route("/custom/{locid:int}/{what:str}", http_method=["GET", "POST"], sync_to_thread=True)
def edit(request: AnyRequest, console: NamedDependency[Console], locid: FromPath[int], what: FromPath[str]) -> Html:
    """An edit: its form, what it would change, and the edit itself."""
    return respond(request, console, _edit(console, locid, what))


def _edit(console: Console, locid: int, what: str) -> Edit:
    laid = _laid(console, locid)
    forms = _IN_VRF if laid.place.locid in console.layer().vrfs else _FORMS
    if what not in forms:
        raise RequestRefusedError("there is no such page", problem="not-found")
    return forms[what](console, laid)


def _laid(console: Console, locid: int) -> Laid:
    """A geolocation as it is now.

    :raises UnknownGeolocationError: if the custom geolocation does not exist
    """
    return console.layer().find(locid) or console.editor().get(locid)


@get("/cities", sync_to_thread=True)
def pick_city(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The cities of the default data that begin as is typed, to fill in the form of a place."""
    begin = query(request, "city")
    return console.page(request, "cities.html", cities=offered(console, begin), begin=begin)


def correction(place: dict[str, Any], block: IPBlock, vrf: str) -> str:
    """Where the form of a new geolocation is, filled in with a block and what it has now; in a VRF if one is given.

    A text that would make the address too long for a request is left out.
    """
    given = {"block": block_text(block), **({"vrf": vrf} if vrf else {})}
    given |= {"corrects": given["block"]} if place else {}
    for name, text in field_texts(place).items():
        if text and len(urlencode({**given, name: text})) <= _MAX_LINK:
            given[name] = text
    return f"/custom/create?{urlencode(given)}"


def site_of(addresses: Iterable[str], page: str = "/custom/create", **more: str) -> str:
    """Where the form of a new site is, or another page, filled in with these addresses; empty if a link cannot have
    them.
    """
    given = {"block": "\n".join(addresses), **{name: text for name, text in more.items() if text}}
    path = f"{page}?{urlencode(given)}"
    return path if given["block"] and len(path) <= _MAX_LINK else ""


HANDLERS = [pick_city, create, edit]
