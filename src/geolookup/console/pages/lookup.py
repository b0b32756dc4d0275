"""Look up, the start: the place of an address, a network or a range, and why; the places of a log's addresses."""

import contextlib
import re
from itertools import islice
from typing import Any

from litestar import get, post
from litestar.di import NamedDependency

from geolookup.base.text import network_text
from geolookup.columns.counts import Counts
from geolookup.console.console import Console, Html, Page
from geolookup.console.editing import pasted
from geolookup.console.forms import MAX_FILE_BYTES, READS, AnyRequest, count_dropped, dropped_name, query
from geolookup.console.html import called
from geolookup.console.pages.custom import wanted
from geolookup.console.pages.edits import correction, site_of
from geolookup.console.pages.home import home
from geolookup.console.picture import picture
from geolookup.index.reader import EMPTY
from geolookup.lookup.asked import read_field
from geolookup.lookup.explain_network import explained_facts
from geolookup.lookup.ranges import Piece, pieces
from geolookup.lookup.record import TRAITS, leaves
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.addresses import parse, range_ends
from geolookup.model.continents import countries
from geolookup.model.errors import GeoLookupError, InvalidAddressError, InvalidRangeError
from geolookup.model.public import use_of
from geolookup.model.types import Geolocation, IPBlock, Match
from geolookup.sites.site import block_text
from geolookup.state.base.vrfs import read_vrfs

PAGE = Page(title="Look up", path="/", icon="find", parts=("/count",))

#: Pieces of a range on one page.
_MOST_PIECES = 200
#: Blocks and custom geolocations of a state that is explained at once; explaining reads all of them.
_AT_ONCE_BLOCKS = 300_000
_AT_ONCE_CUSTOM = 500
_MOST_GROUPS = 100
#: Values of a record on one page; a real one has some hundred.
_MOST_LEAVES = 500
#: A text that was meant as an address, in a list that is pasted with the text around it; an IPv4 address in a URL,
#: after a word or before the end of a sentence; and one with a port.
_LIKE_AN_ADDRESS = re.compile(r"[0-9][.:][0-9]|::")
_AROUND = re.compile(r"(?:[A-Za-z]+:)?(?://)?(\d+(?:\.\d+){3})(?:[!?.:]*|/|/[^0-9].*)")
_WITH_PORT = re.compile(r"[.\]].*:[0-9]+$")
#: Sites that a search names; more are on the page Sites.
_MOST_SITES = 20


@get("/", sync_to_thread=True)
def look_up(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The start, with the answer to a query if there is one."""
    asked = query(request, "q")
    names = "match explained correct error pieces rest picture facts sites more_sites home site_vrfs"
    values: dict[str, Any] = dict.fromkeys(names.split())
    values["blocks"] = ()
    status, chosen = 200, request.query_params.get("vrf")
    vrf = console.settings().vrf if chosen is None else query(request, "vrf")
    if not asked:
        values["home"] = home(console)
    else:
        try:
            listed = _answer_list(console, asked, vrf=vrf)
            values |= listed or _answer(console, asked, vrf=vrf, why=query(request, "why") == "1")
        except (InvalidAddressError, InvalidRangeError) as error:
            found = _sites(console, asked)
            if len(found) == 1:
                return console.go(f"/custom/{found[0][0].locid}")
            found = found or _by_words(console, asked)
            values |= {"sites": found[:_MOST_SITES], "more_sites": len(found) if len(found) > _MOST_SITES else 0}
            values["site_vrfs"] = console.layer().vrfs
            if not found:
                status, values["error"] = 422, f"No site has this in its name or place; {error.told}"
        except GeoLookupError as error:
            status, values["error"] = 422, error.told
    return console.page(request, "lookup.html", status, asked=asked, vrf=vrf, vrfs=_vrfs(console), **values)


def _vrfs(console: Console) -> list[str]:
    """The routing domains that the form offers; none if the state cannot tell."""
    if console.directory().current_or_none() is None:
        return []
    try:
        geo = console.geo()
        return geo.with_snapshot(lambda snapshot: sorted(read_vrfs(geo.home, snapshot.current)))
    except GeoLookupError:
        return []


def _sites(console: Console, asked: str) -> list[tuple[Geolocation, str]]:
    """The sites that are called so; else those with this in their name or place."""
    layer, text, is_wanted = console.layer(), asked.casefold(), wanted(asked)
    every = [(laid.place, layer.names.get(laid.place.locid, "")) for laid in layer.every]
    exact = [each for each in every if each[1].casefold() == text]
    return exact or [each for each in every if is_wanted(*each)]


def _by_words(console: Console, asked: str) -> list[tuple[Geolocation, str]]:
    """The sites that have all words of a search, else those that have one of them."""
    layer = console.layer()
    every = [(laid.place, layer.names.get(laid.place.locid, "")) for laid in layer.every]
    words = [wanted(word) for word in asked.split() if word.isalpha() and len(word) > 2]
    found = [each for each in every if words and all(word(*each) for word in words)]
    return found or [each for each in every if any(word(*each) for word in words)]


def _answer(console: Console, asked: str, *, vrf: str, why: bool) -> dict[str, Any]:
    geo = console.geo().in_vrf(vrf)
    if "://" in asked:
        parse(asked)  # a URL is no network, though it has a slash: this says what to look up
    block = _block(asked)
    if block.first != block.last:
        found, rest = geo.with_snapshot(lambda snapshot: pieces(snapshot, block, _MOST_PIECES))
        answers = {piece.match.geolocation if piece.match else None for piece in found}
        same = found[0].match if len(answers) == 1 and rest is None else None
        return {"pieces": found, "rest": rest, "correct": _correct(block, same, vrf), "block": block}
    match, network = geo.match(block.startip), geo.network(block.startip)
    at_once = geo.with_snapshot(_explained_soon)
    found_block = block if match is None else IPBlock.from_ends(match.first, match.last)
    place = None if match is None else match.geolocation
    folded = geo.with_snapshot(lambda snapshot: _folded(snapshot, geo.home, block))
    explained, whole = geo.explain(block.startip) if why or at_once else None, found_block
    since = None if explained is None else explained.since
    own = match is not None and match.layer == "custom"
    before = None if own or since is None or since.generation_before is None else since.before
    if match is not None and match.layer == "default":
        whole = geo.with_snapshot(lambda snapshot: _of_source(snapshot, found_block))
    return {
        "address": block.startip,
        "match": match,
        "network": network,
        "who": "" if network is None else network_text(network.facts),
        "in_vrfs": [] if vrf else _in_vrfs(console, block),
        "own": own,
        "country_names": countries(),
        "has_coordinates": place is not None and place.latitude is not None and place.longitude is not None,
        **folded,
        "explained": explained,
        "put_back": "" if before is None else _correct(whole, before, vrf),
        "correct": _correct(whole, match, vrf),
        "spans_sites": whole != found_block,
        "correct_one": _correct(block, match, vrf),
        "picture": None if place is None else picture(place, _radius_km(folded["record"])),
        "block": whole,
    }


def _answer_list(console: Console, asked: str, *, vrf: str) -> dict[str, Any]:
    """The answers for the addresses and networks of a text with blanks or commas between; empty if it is one alone.

    :raises InvalidAddressError: says what is wrong with each, if no part of a list is an address or a network
    """
    blocks: list[IPBlock] = []
    left: dict[str, list[str]] = {"bare": [], "wrong": [], "ports": []}
    unread: list[str] = []
    parts = [_bare(part) for part in pasted(asked.replace("[.]", ".").replace("|", " "))]
    for part in parts:
        try:
            blocks.append(_block(part))
        except GeoLookupError as error:
            if _LIKE_AN_ADDRESS.search(part):
                left["wrong"].append(error.told)
                unread.append(part)
            else:
                left["bare"].append(part)
        else:
            left["ports"] += [part] if _WITH_PORT.search(part) else []
    if not blocks and len(left["wrong"]) > 1:
        raise InvalidAddressError("; ".join(left["wrong"]))
    if len(parts) == 1 or not blocks or (len(blocks) == 1 and _sites(console, asked)):
        return {}
    return {**_listed(console, list(dict.fromkeys(blocks)), vrf, ", ".join(unread)), **left, "given": len(blocks)}


def _bare(part: str) -> str:
    """A part of a mail without what people write around an address."""
    part = part.strip("()")
    found = _AROUND.fullmatch(part)
    return found[1] if found else part


def _listed(console: Console, blocks: list[IPBlock], vrf: str, left: str = "") -> dict[str, Any]:
    """The answers for some blocks, with the blocks that nothing is known of, and the number of those left out.

    ``taken`` are those that a site has as a network, with its number and name, and ``free`` the others, ``covered``
    those of them that a wider network of a site has; ``site_of`` is
    where a new site of these is made, ``add_to`` and ``move_to`` where the site is chosen that gets them, or all: these
    are empty in a VRF, whose sites are changed as a whole. ``left`` is what of the list could not be read.
    """

    def answers(snapshot: Snapshot) -> dict[str, Any]:
        found: list[Piece] = []
        for number, block in enumerate(blocks):
            if len(found) == _MOST_PIECES:
                return {"pieces": found, "left_out": len(blocks) - number}
            found += pieces(snapshot, block, _MOST_PIECES - len(found))[0]
        return {"pieces": found, "left_out": 0}

    made = console.geo().in_vrf(vrf).with_snapshot(answers)
    layer = console.layer()
    owners = {block: laid.place for laid in layer.of_vrf(vrf) for block in laid.place.ipblocks}
    free = [block for block in blocks if block not in owners]
    taken = [
        (block, owner.locid, called(owner, layer.names.get(owner.locid)))
        for block in blocks
        if (owner := owners.get(block)) is not None
    ]
    unknown = [piece.block for piece in made["pieces"] if piece.match is None]
    covered = [
        (piece.block, piece.match.geolocation.locid, called(piece.match.geolocation, piece.match.site))
        for piece in made["pieces"]
        if piece.match is not None and piece.match.layer == "custom" and piece.block in free
    ]
    texts = [*map(block_text, free)]
    private = [block for block in blocks if block.family == 4 and not use_of(4, block.first)[0]]
    return {
        **made,
        "blocks": blocks,
        "unknown": unknown,
        "free": free,
        "taken": taken,
        "covered": covered,
        "private": private if len(private) < len(blocks) else [],
        "ipv4": sum(block.last - block.first + 1 for block in blocks if block.family == 4),
        "site_of": site_of(texts, vrf=vrf, left=left),
        "add_to": "" if vrf else site_of(texts, "/custom"),
        "move_to": "" if vrf or not taken else site_of(map(block_text, blocks), "/custom", move="yes"),
    }


def _of_source(snapshot: Snapshot, block: IPBlock) -> IPBlock:
    """The whole range that the sources answer so, across the sites in it."""
    slot, first, last = snapshot.base.reader.segment(block.family, block.first)
    return block if slot == EMPTY else IPBlock(family=block.family, first=first, last=last)


def _in_vrfs(console: Console, block: IPBlock) -> list[tuple[int, str, str]]:
    """The sites of VRFs that have an address, which answer only there: number, name and VRF of each."""
    layer = console.layer()
    numbers = [
        laid.place.locid
        for laid in layer.of_vrfs
        if any(each.family == block.family and each.first <= block.first <= each.last for each in laid.place.ipblocks)
    ]
    return [(number, layer.names[number], layer.vrfs[number]) for number in numbers]


def _folded(snapshot: Snapshot, home: str, block: IPBlock) -> dict[str, Any]:
    """The facts of an address's network, with who says them, and the values of its place's record by their paths."""
    at = block.family, block.first
    record = snapshot.record(*at)
    whole = {} if record is None else record.as_dict()
    found = list(islice(leaves({key: part for key, part in whole.items() if key != TRAITS}), _MOST_LEAVES + 1))
    return {
        "facts": explained_facts(snapshot, home, *at),
        "record": found[:_MOST_LEAVES],
        "record_goes_on": len(found) > _MOST_LEAVES,
        "record_source": snapshot.place_source(*at),
    }


def _radius_km(record: list[tuple[str, Any]]) -> float | None:
    """How far an answer may be off, if the record of its place says it."""
    found = next((value for path, value in record if path == "location.accuracy_radius"), None)
    return float(found) if isinstance(found, int | float) else None


def _block(asked: str) -> IPBlock:
    """An address, network or range; an address also as it stands in a log: with a port, in quotes, in a list."""
    try:
        return IPBlock.parse(*range_ends(asked))
    except InvalidAddressError:
        found = read_field(asked)
        if not found:
            raise
        return IPBlock.parse(found[0])


def _explained_soon(snapshot: Snapshot) -> bool:
    """True if explaining an address reads little."""
    blocks = snapshot.current.published["rows"]["blocks"]
    return bool(blocks <= _AT_ONCE_BLOCKS and snapshot.custom.reader.location_count <= _AT_ONCE_CUSTOM)


def _correct(block: IPBlock, match: Match | None, vrf: str) -> str:
    """The address of the form that corrects an answer, within a VRF if one was asked."""
    return correction({} if match is None else match.geolocation.fields(), block, vrf)


@post("/count", sync_to_thread=True, opt=READS, request_max_body_size=MAX_FILE_BYTES)
def count_file(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """Count the addresses of a log or a list by country and by city."""
    name = dropped_name(request)
    try:
        vrf = console.settings().vrf
        found, addresses, bare, text = count_dropped(request, console.geo().in_vrf(vrf))
    except GeoLookupError as error:
        return console.page(request, "count.html", 422, error=error.told, counts=None, name=name)
    blocks = _with_ranges([IPBlock.parse(each) for each in addresses], text)
    values = {**_groups(found), **_listed(console, blocks, vrf)}
    return console.page(request, "count.html", error=None, counts=found, name=name, bare=bare, **values)


def _with_ranges(addresses: list[IPBlock], text: str) -> list[IPBlock]:
    """The addresses of a short text; in place of the ends of its ranges and networks those themselves."""
    ranges: list[IPBlock] = []
    for part in pasted(text):
        with contextlib.suppress(GeoLookupError):
            block = _block(_bare(part))
            ranges += [block] if block.first != block.last and block not in ranges else []
    ends = {(each.family, end) for each in ranges for end in (each.first, each.last)}
    return [*(each for each in addresses if (each.family, each.first) not in ends), *ranges]


def _groups(found: Counts) -> dict[str, Any]:
    names = countries()
    by_country, by_city = found.groups("country"), found.groups("city")
    return {
        "countries": by_country[:_MOST_GROUPS],
        "more_countries": max(0, len(by_country) - _MOST_GROUPS),
        "cities": by_city[:_MOST_GROUPS],
        "more_cities": max(0, len(by_city) - _MOST_GROUPS),
        "names": {code: country.name for code, country in names.items()},
    }


@get("/count", sync_to_thread=False)
def count_form(console: NamedDependency[Console]) -> Html:
    """There is nothing to show again: the file was not kept."""
    return console.go("/")


HANDLERS = [look_up, count_file, count_form]
