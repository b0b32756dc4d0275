"""Forms that edit: what was typed, then what it would change, then it is saved, unless the form was overtaken."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, TypeAlias

from markupsafe import Markup

from geolookup.base.text import shown_degrees
from geolookup.console.console import Console, Html
from geolookup.console.forms import AnyRequest, Form, query
from geolookup.console.html import called, shown
from geolookup.console.wording import listed, saved, some
from geolookup.history.preview import EditPreview, preview_edit
from geolookup.lookup.pasted import Pasted, read_pasted, still_unread
from geolookup.lookup.ranges import Piece, pieces_of
from geolookup.model.addresses import no_address
from geolookup.model.checked import checked_fields, lacks_coordinates, missing_coordinate
from geolookup.model.countries import code_of
from geolookup.model.errors import BlockError, EditError, GeoLookupError, RequestRefusedError, WideBlockError
from geolookup.model.fields import DEGREES, FIELD_NAMES, FIELDS, UNKNOWN
from geolookup.model.named import block_of
from geolookup.model.types import Geolocation, IPBlock
from geolookup.sites.site import block_text
from geolookup.sources.outlines import misfits
from geolookup.state.custom_edits import Ends
from geolookup.state.editor import Editor
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.outbox.payload import content_of, described
from geolookup.state.generations.cities import cities_like, plain
from geolookup.sync import words

#: Edits of the outbox with which a page still says at once what takes a walk over all of them.
AT_ONCE_EDITS = 500
#: Segments that are looked at before a page is answered; more are looked at afterwards.
_AT_ONCE_SEGMENTS = 2_000

#: The input that says that a very wide block is meant: it comes after the preview, so it is no part of what was shown.
WIDE: Final = "wide"

#: The input that says that networks of other sites go to this one.
MOVE: Final = "move"

#: The input with what of a mail could not be read: a person adds it by hand, or leaves it out.
LEFT: Final = "left"
#: The input with the place that a form was given: what a person changes of it may not fit the rest.
GIVEN: Final = "given"
#: What was typed, by the name of the input.
Values = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A reason to look again at what was typed. ``instead`` are other values, which a ``button`` takes, if any."""

    text: str
    button: str = ""
    instead: Mapping[str, str] = field(default_factory=dict)


#: Makes an edit; returns the locid that it is about, and what it did in words.
Does: TypeAlias = Callable[[Editor], tuple[int, str]]


class OvertakenError(EditError):
    """The geolocation that a form showed was changed by others meanwhile. Nothing was saved."""


def version(laid: Laid) -> str:
    """The form's mark of the geolocation that it shows: another text after any change of it."""
    edits = [(row.id, str(row.state)) for row in laid.edits]
    return digest_of([laid.place.locid, described(content_of(laid.place)), edits])


def digest_of(value: Any) -> str:
    """A short text that is another one for another value of JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:24]


def make(editor: Editor, does: Does, *, unchanged: Callable[[], None]) -> tuple[int, str]:
    """Make an edit, unless its form was overtaken: ``unchanged`` is asked while nobody else can edit.

    :raises OvertakenError: if it says so
    :raises EditError: if it cannot be made
    """
    with editor.transaction():
        unchanged()
        return does(editor)


class Edit:
    """One edit, of what it found when the request came: its words, its inputs, and what it does with them."""

    #: The heading: the name of the edit, with what it is about.
    title = ""
    #: The button that saves.
    button: str
    #: Where somebody goes who leaves it.
    back: str
    #: The place that it is about, in words.
    place = ""
    #: Whether the button should look dangerous.
    risky = False
    #: Whether it may change answers, so that those are shown before it is saved.
    changes_answers = True
    has_fields = False
    #: Whether there is an input for the name of the site.
    has_name = False
    #: The routing domain of the site that it changes; "" if it is of the global table.
    of_vrf = ""
    #: Whether there is an input for its time zone, and one for its routing domain.
    has_time_zone = False
    has_vrf = False
    #: The label of the input for a block, if there is one; and whether it may stay empty.
    block_label = ""
    block_may_wait = False
    blocks_may_be_many = False
    #: The label of the input for a locid, if there is one.
    locid_label = ""
    #: Fields that no person sees.
    hidden: tuple[str, ...] = ()
    #: A sentence above the form.
    hint = ""

    @property
    def has_inputs(self) -> bool:
        """Whether there is anything to type."""
        return bool(self.has_fields or self.has_name or self.block_label or self.locid_label)

    def heading(self, values: Values) -> str:  # noqa: ARG002
        """The title, with what was typed."""
        return self.title

    def seen(self, editor: Editor) -> str:
        """The form's mark of what it shows: another text if that has changed. Empty if nothing can."""
        raise NotImplementedError

    def shown(self, console: Console) -> str:
        """`seen`, for a page: by the layer that is kept, if that is enough."""
        return self.seen(console.editor())

    def changed_by(self, editor: Editor) -> str:  # noqa: ARG002
        """Who changed its subject last, with a preposition; empty if that is not known."""
        return ""

    def now(self) -> dict[str, str]:
        """The subject of the edit, by the names of the inputs: for a form that was overtaken."""
        return {}

    def begin(self, request: AnyRequest) -> Values:
        """The first values of the inputs: those in the link that led here."""
        return {name: query(request, name) for name in self.names()}

    def does(self, values: Values) -> Does:
        """The edit.

        :raises GeoLookupError: if what was typed cannot be
        """
        raise NotImplementedError

    def wrong(self, console: Console, values: Values) -> dict[str, str]:  # noqa: ARG002
        """All that is wrong with what was typed, by the name of the input."""
        if not self.block_label:
            return {}
        found = self.pasted(values)
        if told := wrong_blocks(found, values["block"]):
            return told
        if not found.blocks and not self.block_may_wait:
            return {"block": no_address("").told}
        several = len(found.blocks) > 1 and not self.blocks_may_be_many
        return {"block": "These are several networks: give one"} if several else {}

    def pasted(self, values: Values) -> Pasted:
        """The blocks that were typed, with what could not be read."""
        return read_pasted(values["block"]) if self.block_label else Pasted()

    def blocks(self, values: Values) -> list[Ends]:
        """The ends of each block that was typed, each once."""
        return [(block.startip, block.endip) for block in dict.fromkeys(self.pasted(values).blocks)]

    def vrf(self, values: Values) -> str:  # noqa: ARG002
        """The routing domain whose answers it changes; "" for the global table."""
        return ""

    def doubt(self, console: Console, values: Values) -> Doubt | None:  # noqa: ARG002
        """A reason to look again at what was typed before it is saved, if there is one."""
        return None

    def after(self, locid: int) -> str:
        """Where it leads once it is saved."""
        return f"/custom/{locid}"

    def names(self) -> list[str]:
        """The names of the inputs."""
        found = [*(["name"] if self.has_name else []), *(["time_zone"] if self.has_time_zone else [])]
        found += [*(["vrf"] if self.has_vrf else []), *([field.name for field in FIELDS] if self.has_fields else [])]
        found += ["block", WIDE] if self.block_label else []
        found += [MOVE, LEFT] if self.blocks_may_be_many else []
        return [*found, *(["locid"] if self.locid_label else []), *self.hidden]


def place_of(values: Values) -> str:
    """City, latitude and longitude of a form, with bars between."""
    return "|".join(values[name].strip() for name in ("city", *DEGREES))


def field_texts(fields: dict[str, Any]) -> Values:
    """The fields of a geolocation as a form shows them."""
    return {name: "" if value is None else str(value) for name, value in fields.items()}


def degrees_text(text: str) -> str:
    """A number as people write it: with a comma too, where that is their decimal sign."""
    text = text.strip().removesuffix("°").strip()
    return text.replace(",", ".") if text.count(",") == 1 and "." not in text else text


def typed_fields(values: Values) -> dict[str, Any]:
    """The fields as an edit takes them: a country as its code, coordinates as text, or None if they are empty."""
    fields: dict[str, Any] = {field.name: values[field.name].strip() for field in FIELDS}
    fields["country"] = code_of(fields["country"])
    return fields | {name: degrees_text(values[name]) or None for name in DEGREES}


def wrong_fields(fields: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """All that is wrong with these fields, as an edit would say it, by their names."""
    found: dict[str, str] = {}
    names, known = set(names), {} if lacks_coordinates(fields) else dict.fromkeys(DEGREES, 0.0)
    for name in names:
        if known and name in DEGREES and fields[name] is None:
            found[name] = missing_coordinate(name, fields)
            continue
        try:
            checked_fields({**UNKNOWN, **known, name: fields[name]}, bare=lacks_coordinates(fields))
        except EditError as error:
            found[name] = error.told
    if names & {"country", *DEGREES}:
        found |= dict(misfits({**fields, **{name: _number(fields[name]) for name in DEGREES}}))
    return found


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def wrong_blocks(found: Pasted, text: str) -> dict[str, str]:
    """All that is not a block in a text, as an edit would say it, each with its line if the text has several."""
    several = len(text.splitlines()) > 1
    told = [f"line {each.line}: {each.told}" if several else each.told for each in found.unread]
    lines = [
        (line, " ".join(each.text for each in every)) for line, every in groupby(found.words, lambda each: each.line)
    ]
    named = (f"line {line}: {text}" if several else text for line, text in lines)
    told += ["Without an address: " + some(named, 5, between="; ")] if lines else []
    return {"block": "\n".join(told)} if told else {}


def require_fitting(fields: Mapping[str, Any]) -> None:
    """Refuse a country in words, and coordinates in the wrong order, as the commands do.

    :raises EditError: says all that is wrong; whatever was edited in the transaction is forgotten then
    """
    wrong = [message for _, message in misfits(fields)]
    if wrong:
        raise EditError("; ".join(wrong))


def respond(request: AnyRequest, console: Console, edit: Edit) -> Html:
    """The form as it is opened; once it is sent, what it would change, or what was saved."""
    return _handle(request, console, edit) if request.method == "POST" else _show(request, console, edit)


def _show(request: AnyRequest, console: Console, edit: Edit) -> Html:
    """The form as it is opened; one without inputs says at once what it would change, if that is quick."""
    values = edit.begin(request)
    visible = edit.has_inputs or sum(console.layer().edits.values()) > AT_ONCE_EDITS
    return _page(request, console, edit, values, step="" if visible else "check")


def _handle(request: AnyRequest, console: Console, edit: Edit) -> Html:
    """Preview what was typed into a form, or save it."""
    form: Form = request.state.form
    values = {name: form.as_sent(name) for name in edit.names()}
    once = values.get("once", "")
    if once and (made := console.made_once(once)) is not None:
        return console.go(made)  # sent twice: by a double click, or after a lost answer
    step = form.text("step")
    if step.startswith(_CITY):
        return _with_city(request, console, edit, values, step)
    if step == _READ:
        return _read(request, console, edit, values)
    if wrongs := edit.wrong(console, values):
        return _page(request, console, edit, values, wrongs=wrongs, error=_WRONG, status=422)
    editor = console.editor()
    checked, now = form.text("checked"), _digest(values)
    if step == "save" and (checked == now or not edit.changes_answers):
        try:
            locid, told = make(editor, _moving(edit, values), unchanged=lambda: _require(edit, editor, form))
        except OvertakenError as error:
            return _page(request, console, edit, values, error=error.told, overtaken=True, status=409)
        except WideBlockError as error:
            told = f'{error.told}: tick "This is meant" if it is. Nothing was saved.'
            return _page(request, console, edit, values, step="check", error=told, status=422)
        except GeoLookupError as error:
            told, wrongs = _beside(console, edit, error)
            return _page(request, console, edit, values, error=told, wrongs=wrongs, status=422)
        where = edit.after(locid)
        left = _left(edit, values)
        told += f". Left out of what was pasted: {left}" if left else ""
        if once:
            console.remember_made(once, where)
        return console.go(where, saved(told, editor))
    overtaken = edit.shown(console) != form.text("seen")
    if step == "instead":
        doubt, step = edit.doubt(console, values), "check"
        values |= {} if doubt is None else doubt.instead
    note = ""
    if step == "save" and checked:
        changed = "the networks" if checked.rpartition("-")[2] != now.rpartition("-")[2] else "the form"
        note = f"You changed {changed} after the check: this is what would change now."
    return _page(request, console, edit, values, step=step, overtaken=overtaken, note=note)


def _read(request: AnyRequest, console: Console, edit: Edit, values: Values) -> Html:
    """The form with the networks of a mail in its place; without a place that was typed, with the city of them all."""
    found = edit.pasted(values)
    blocks = [*dict.fromkeys(found.blocks)]
    values = {**edit.begin(request), **{name: text for name, text in values.items() if text}}
    values |= {"block": "\n".join(map(block_text, blocks)), LEFT: found.left or values[LEFT]}
    if edit.has_fields and not any(values[name] for name in FIELD_NAMES):
        vrf = edit.vrf(values)
        taken = {block for laid in console.layer().of_vrf(vrf) for block in laid.place.ipblocks}
        answers = console.geo().in_vrf(vrf).with_snapshot(lambda snapshot: pieces_of(snapshot, blocks, _MOST_PIECES))
        values |= known_as(answers[0], taken)
        values |= {GIVEN: place_of(values)} if GIVEN in values else {}
    return _page(request, console, edit, values, note=f"Read {words.count(len(blocks), 'network')} of what was pasted.")


def known_as(found: Sequence[Piece], taken: Collection[IPBlock]) -> Values:
    """The fields that the known places of some addresses have in common, if the city is one of them.

    Networks that are ``taken`` by other sites do not count.
    """
    known = (piece.match for piece in found if piece.block not in taken)
    places = [field_texts(match.geolocation.fields()) for match in known if match is not None]
    common = {name: text for name, text in (places or [{}])[0].items() if all(each[name] == text for each in places)}
    if not common.get("city") or "country" not in common:
        return {}
    return {name: text for name, text in common.items() if name not in DEGREES or DEGREES.keys() <= common.keys()}


def _moving(edit: Edit, values: Values) -> Does:
    """The edit; if that is said, after the networks that other sites have were taken from them."""
    does = edit.does(values)
    if not values.get(MOVE) or edit.vrf(values):
        return does

    def moving(editor: Editor) -> tuple[int, str]:
        names, wanted, moved = editor.site_names(), {block_of(*ends) for ends in edit.blocks(values)}, []
        for laid in editor.custom():
            found = [block for block in laid.place.ipblocks if block in wanted]
            if found and edit.back != f"/custom/{laid.place.locid}":
                for block in found:
                    editor.remove_block(laid.place.locid, block)
                moved.append(f"{listed(found)} moved here from {called(laid.place, names.get(laid.place.locid))}")
        locid, told = does(editor)
        return locid, ". ".join([told, *moved])

    return moving


def offered(console: Console, begin: str) -> list[tuple[str, Values]]:
    """The cities that begin so, of the default data and of one's own sites that those do not know: each as a person
    reads it, and the fields that it fills in.
    """
    found = cities_like(console.home, console.directory().require_current().published, begin, _MOST_CITIES)
    known = {(city.place.country, plain(city.place.city)) for city in found}
    offers = []
    for laid in console.layer().every if begin else ():
        place, city = laid.place, (laid.place.country, plain(laid.place.city))
        if not lacks_coordinates(place.fields()) and city[1].startswith(plain(begin)) and city not in known:
            known.add(city)
            offers.append((f"{place.place_text()} (as of your own sites)", place))
    offers += [(city.place.place_text(), city.place) for city in found]
    return [(text, _filled(place)) for text, place in offers[:_MOST_CITIES]]


def _filled(place: Geolocation) -> Values:
    """The fields that a place fills in."""
    fields: dict[str, Any] = place.fields()
    short = {name: shown_degrees(fields[name]) for name in DEGREES if fields[name] is not None}
    return field_texts({**fields, **short})


def _with_city(request: AnyRequest, console: Console, edit: Edit, values: Values, step: str) -> Html:
    """The form with the cities to pick, or filled in by the one that was: for browsers without scripts."""
    cities, number = offered(console, values["city"].strip()), step.removeprefix(_CITY).strip()
    if number.isdecimal() and int(number) < len(cities):
        return _page(request, console, edit, {**values, **cities[int(number)][1]})
    return _page(request, console, edit, values, offers=cities)


def _beside(console: Console, edit: Edit, error: GeoLookupError) -> tuple[str, dict[str, str]]:
    """The text of an error above the form, and its text beside the input that it is about, if there is one."""
    if edit.block_label and isinstance(error, BlockError) and error.owners:
        return _WRONG, {"block": _taken(console, error.owners), **({MOVE: ""} if edit.blocks_may_be_many else {})}
    name = error.told.split(" ", 1)[0].rstrip(":")
    return (_WRONG, {name: error.told}) if edit.has_fields and name in FIELD_NAMES else (error.told, {})


def _taken(console: Console, owners: Mapping[IPBlock, int]) -> Markup:
    """The networks that other sites have, with links to those."""
    layer = console.layer()
    networks: dict[int, list[str]] = {locid: [] for locid in owners.values()}
    for block, locid in owners.items():
        networks[locid].append(block_text(block))
    places = {laid.place.locid: laid.place for laid in layer.laid if laid.place.locid in networks}
    told = [
        Markup('{} {} to <a href="/custom/{}" hx-boost="false">{}</a>').format(
            " and ".join(each), "belongs" if len(each) == 1 else "belong", locid,
            shown(called(places[locid], layer.names.get(locid))),
        )
        for locid, each in networks.items()
    ]  # fmt: skip
    which = "it" if len(owners) == 1 else "them"
    return Markup("; ").join(told) + f". Move {which} here, or leave {which} there."


def _left(edit: Edit, values: Values) -> str:
    """The parts of a mail that are not among the networks now, with commas between."""
    return ", ".join(
        still_unread(values.get(LEFT, "").split(", "), edit.pasted(values).blocks) if values.get(LEFT) else []
    )


def _require(edit: Edit, editor: Editor, form: Form) -> None:
    if edit.seen(editor) != form.text("seen"):
        raise OvertakenError(_overtaken(edit, editor))


#: Answers that are looked at for the city of a mail.
_MOST_PIECES = 200
#: The step of a form that leaves the words out of a mail that was pasted as networks.
_READ = "read"
#: The step of a form that asks for cities; with a number, the one that is picked.
_CITY = "city"
#: Cities to pick from.
_MOST_CITIES = 8


def _overtaken(edit: Edit, editor: Editor) -> str:
    return (
        f"It was changed meanwhile{edit.changed_by(editor)}: nothing was saved. "
        "Look at both, and save again if you still want to."
    )


_WRONG = "Nothing was saved: look at the marked fields."


def _digest(values: Values) -> str:
    """The edit that was shown: it is saved as it was shown, and nothing that was typed since."""
    shown = sorted((name, value) for name, value in values.items() if name != WIDE)
    return f"{digest_of(shown)}-{digest_of(values.get('block'))}"


def _preview(console: Console, edit: Edit, values: Values, *, whole: bool) -> tuple[EditPreview, str | None]:
    """The effect of an edit, and what its block covers if that is very wide: a person has to say that it is meant."""

    def preview(meant: str) -> EditPreview:
        does = _moving(edit, {**values, WIDE: meant})
        directory, vrf = console.directory(), edit.vrf(values)
        return preview_edit(directory, console.editor(), does, most=_AT_ONCE_SEGMENTS, whole=whole, vrf=vrf)

    try:
        return preview(""), None
    except WideBlockError as error:
        return preview("yes"), error.told


def _page(
    request: AnyRequest,
    console: Console,
    edit: Edit,
    values: Values,
    *,
    step: str = "",
    error: str | None = None,
    wrongs: Mapping[str, str] | None = None,
    overtaken: bool = False,
    offers: list[tuple[str, Values]] | None = None,
    note: str = "",
    status: int = 200,
) -> Html:
    """The form, with what it would change if that was asked for (``step``: ``check``, or ``whole`` for all of it)."""
    if console.read_only:
        raise RequestRefusedError("this console was started with --read-only", problem="insufficient-scope")
    preview = wide = None
    if overtaken and error is None:
        status, error = 409, _overtaken(edit, console.editor())
    elif step:
        try:
            preview, wide = _preview(console, edit, values, whole=step == "whole")
        except GeoLookupError as failed:
            status, (error, wrongs) = 422, _beside(console, edit, failed)
    checked = _digest(values) if preview is not None and preview.counted else ""
    doubt = None if preview is None else edit.doubt(console, values)
    shows = {"edit": edit, "preview": preview, "doubt": doubt, "wide": wide, "checked": checked, "error": error}
    if step == "whole" and "HX-Request" in request.headers and "HX-Boosted" not in request.headers:
        return console.page(request, "preview_part.html", status, **shows)
    return console.page(
        request,
        "edit.html",
        status,
        **shows,
        heading=edit.heading(values),
        values=values,
        fields=FIELDS,
        seen=edit.shown(console),
        wrongs=wrongs or {},
        found=edit.pasted(values) if edit.blocks_may_be_many else None,
        left=_left(edit, values),
        note=note,
        offers=offers,
        now=edit.now() if overtaken else None,
    )
