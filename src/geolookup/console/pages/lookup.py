"""Look up, the start: the place of an address, a network or a range, and why; the places of a log's addresses."""

from itertools import islice
from typing import Any

from litestar import get, post
from litestar.di import NamedDependency

from geolookup.base.text import addresses, network_text
from geolookup.columns.counts import Counts
from geolookup.console.console import Console, Html, Page
from geolookup.console.editing import known_as
from geolookup.console.forms import MAX_FILE_BYTES, READS, AnyRequest, count_dropped, dropped_name, query
from geolookup.console.html import called
from geolookup.console.pages.custom import wanted
from geolookup.console.pages.edits import correction, site_of
from geolookup.console.pages.home import home
from geolookup.console.picture import picture
from geolookup.index.reader import EMPTY
from geolookup.lookup.explain_network import explained_facts
from geolookup.lookup.pasted import Pasted, is_log, read_pasted
from geolookup.lookup.ranges import addresses_of, pieces_of
from geolookup.lookup.record import TRAITS, leaves
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.addresses import no_address
from geolookup.model.continents import countries
from geolookup.model.errors import GeoLookupError, InvalidAddressError, InvalidRangeError
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
#: Sites that a search names; more are on the page Sites.
_MOST_SITES = 20


@get("/", sync_to_thread=True)
def look_up(request: AnyRequest, console: NamedDependency[Console]) -> Html:
    """The start, with the answer to a query if there is one."""
    asked = query(request, "q")
    names = "match explained correct error picture facts sites more_sites home site_vrfs blocks"
    values: dict[str, Any] = dict.fromkeys(names.split())
    status, chosen = 200, request.query_params.get("vrf")
    vrf = console.settings().vrf if chosen is None else query(request, "vrf")
    if not asked:
        values["home"] = home(console)
    else:
        try:
            values |= _asked(console, asked, vrf=vrf, why=query(request, "why") == "1")
        except (InvalidAddressError, InvalidRangeError) as error:
            found = _sites(console, asked)
            if len(found) == 1:
                return console.go(f"/custom/{found[0][0].locid}")
            unread = read_pasted(asked).unread
            found = found or ([] if unread else _by_words(console, asked))
            values |= {"sites": found[:_MOST_SITES], "more_sites": len(found) if len(found) > _MOST_SITES else 0}
            values["site_vrfs"] = console.layer().vrfs
            if not found:
                status = 422
                values["error"] = error.told if unread else f"No site has this in its name or place; {error.told}"
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


def _asked(console: Console, asked: str, *, vrf: str, why: bool) -> dict[str, Any]:
    """The answer for the one address of a text, or those for all that it has.

    :raises InvalidAddressError: if it has none: says what is wrong
    """
    found = read_pasted(asked)
    if found.unread and not found.blocks:
        raise InvalidAddressError("; ".join(each.told for each in found.unread))
    if not found.blocks or (found.words and len(found.blocks) == 1 and _sites(console, asked)):
        raise no_address(asked)
    (block, *more) = found.blocks
    if block.first == block.last and not more and found.is_plain:
        return _answer(console, block, vrf=vrf, why=why)
    return _listed(console, found, vrf)


def _answer(console: Console, block: IPBlock, *, vrf: str, why: bool) -> dict[str, Any]:
    geo = console.geo().in_vrf(vrf)
    match, network = geo.match(block.startip), geo.network(block.startip)
    at_once = geo.with_snapshot(_explained_soon)
    found_block = block if match is None else IPBlock.from_ends(match.first, match.last)
    place = None if match is None else match.geolocation
    folded = geo.with_snapshot(lambda snapshot: _folded(snapshot, geo.home, block))
    explained, whole = geo.explain(block.startip) if why or at_once else None, found_block
    since = None if explained is None else explained.since
    own = match is not None and match.layer == "custom"
    before = None if since is None or since.generation_before is None else since.before
    went_back = since is not None and (since.generation or 0) < (since.generation_before or 0)
    is_gain = before is None or (match is not None and _is_within(match, before))
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
        "rolled_back": console.directory().edits.rolled_back().get(since.generation_before or 0)
        if since and went_back
        else None,
        "is_gain": is_gain,
        "put_back": "" if own or before is None or is_gain or went_back else _correct(whole, before, vrf),
        "correct": _correct(whole, match, vrf),
        "spans_sites": whole != found_block,
        "correct_one": _correct(block, match, vrf),
        "add_to": "" if vrf or own else site_of([block.startip], "/custom"),
        "picture": None if place is None else picture(place, _radius_km(folded["record"])),
        "block": whole,
        "size": addresses(whole.last - whole.first + 1),
    }


def _listed(console: Console, found: Pasted, vrf: str) -> dict[str, Any]:
    """The answers for what a text has, with the blocks that nothing is known of, and the number of those left out.

    ``taken`` are those that a site has as a network, with its number and name, and ``free`` the others, ``covered``
    those of them that a wider network of a site has; ``site_of`` is where a new site of these is made, ``add_to`` and
    ``move_to`` where the site is chosen that gets them, or all: these are empty in a VRF, whose sites are changed as a
    whole. ``rest`` is where a single range goes on.
    """
    blocks = list(dict.fromkeys(found.blocks))

    geo = console.geo().in_vrf(vrf)
    found_pieces, left_out, rest = geo.with_snapshot(lambda snapshot: pieces_of(snapshot, blocks, _MOST_PIECES))
    layer = console.layer()
    owners = {block: laid.place for laid in layer.of_vrf(vrf) for block in laid.place.ipblocks}
    free = [block for block in blocks if block not in owners]
    taken = [
        (block, owner.locid, called(owner, layer.names.get(owner.locid)))
        for block in blocks
        if (owner := owners.get(block)) is not None
    ]
    covered = [
        (piece.block, piece.match.geolocation.locid, called(piece.match.geolocation, piece.match.site))
        for piece in found_pieces
        if piece.match is not None and piece.match.layer == "custom" and piece.block in free
    ]
    texts, left = [*map(block_text, free)], found.left
    size = sum(addresses_of(blocks).values())
    return {
        "pieces": found_pieces,
        "left_out": left_out,
        "rest": rest if len(blocks) == 1 else None,
        "found": found,
        "of_vrf": vrf,
        "blocks": blocks,
        "unknown": [piece.block for piece in found_pieces if piece.match is None],
        "free": free,
        "taken": taken,
        "covered": covered,
        "size": addresses(size) if size > len(blocks) else "",
        "site_of": site_of(texts, vrf=vrf, left=left, **known_as(found_pieces, owners)),
        "add_to": "" if vrf else site_of(texts, "/custom", left=left),
        "move_to": "" if vrf or not taken else site_of(map(block_text, blocks), "/custom", move="yes", left=left),
    }


def _is_within(match: Match, before: Match) -> bool:
    """True if an answer has all that was known before, and more."""
    now = match.geolocation.fields()
    return all(value in (now[name], "", None) for name, value in before.geolocation.fields().items())


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
        found, listed_alone, text = count_dropped(request, console.geo().in_vrf(vrf))
    except GeoLookupError as error:
        return console.page(request, "count.html", 422, error=error.told, counts=None, name=name)
    is_list = text and not is_log(text)
    listed = read_pasted(text) if is_list else Pasted(blocks=[IPBlock.parse(each) for each in listed_alone])
    values = {**_groups(found), **_listed(console, listed, vrf)}
    return console.page(request, "count.html", error=None, counts=found, name=name, **values)


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
