"""Claims: which custom geolocation, that no file named so far, a site of a file already is."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import Geolocation
from geolookup.sites.site import Site
from geolookup.state.edits.steps import Content
from geolookup.sync.push.matching.likeness import may_be_stored


def claims_of(layer: Mapping[int, Geolocation], names: Mapping[str, int], unknown: list[Site]) -> dict[str, int]:
    """Which geolocation without a name each unknown site already is: the one equal in all fields.

    Several equal ones cannot be told apart, unless the same number of sites describe them block for block, as an export
    does.
    """
    named = set(names.values())
    free: dict[tuple[Any, ...], list[Geolocation]] = {}
    for locid, place in sorted(layer.items(), reverse=True):
        if locid not in named:
            free.setdefault(_equal(place.fields()), []).append(place)
    described: dict[tuple[Any, ...], list[Site]] = {}
    for site in unknown:
        described.setdefault(_equal(site.fields), []).append(site)
    claims: dict[str, int] = {}
    for key, claimants in described.items():
        places = free.get(key, [])
        if not places:
            continue
        pairs = _paired(claimants, places)
        if len(places) == 1:
            # Of several sites the one with exactly these blocks, else the first in the file.
            claims[pairs[0][0].name if pairs else claimants[0].name] = places[0].locid
        elif len(pairs) == len(places) == len(claimants):
            claims |= {site.name: place.locid for site, place in pairs}
        else:
            listed = ", ".join(str(place.locid) for place in places)
            raise claimants[0].where.error(
                f"could be any of the custom geolocations {listed}, which are equal in all fields: "
                "delete the surplus ones, or make them differ"
            )
    return claims | _claims_by_block(layer, named | set(claims.values()), [s for s in unknown if s.name not in claims])


def reclaims_of(before: Mapping[int, Content], unknown: list[Site]) -> dict[str, int]:
    """Which geolocation each unknown site describes, all fields and blocks.

    ``before`` is by their numbers what geolocations were before edits that were not sent, and that can be taken back.
    """
    free = sorted(before.items(), reverse=True)
    claims = {}
    for site in unknown:
        described = Content(fields=site.fields, blocks=frozenset(site.blocks))
        for each in free:
            if each[1] == described:
                claims[site.name] = each[0]
                free.remove(each)
                break
    return claims


def sent_as(
    sites: Sequence[Site],
    names: Mapping[str, int],
    served: Mapping[int, Content],
    *,
    unsent: Collection[int],
    layer: Mapping[int, Geolocation],
) -> dict[str, int]:
    """Which geolocation each site gets back, if a service has all of the file exactly so, and no more; else nothing.

    ``served`` is what it has by their numbers. Names may have passed to other geolocations since, together with edits
    that were not sent (of ``unsent``), and that is no reason to send anything. Without such edits names stay where they
    are, and what the file says otherwise is an edit.
    """
    described = {site.name: Content(fields=site.fields, blocks=frozenset(site.blocks)) for site in sites}
    if all(name in names and _is(layer.get(names[name]), content) for name, content in described.items()):
        return {}
    stay = {name: names[name] for name in described if name in names and served.get(names[name]) == described[name]}
    if not served.keys() & set(unsent):
        return {}
    left = {locid: content for locid, content in served.items() if locid not in stay.values()}
    moving = [site for site in sites if site.name not in stay]
    claims = reclaims_of(left, moving)
    return claims if len(claims) == len(moving) == len(left) else {}


def _is(place: Geolocation | None, content: Content) -> bool:
    return place is not None and Content.of(place) == content


def _claims_by_block(layer: Mapping[int, Geolocation], taken: set[int], unknown: list[Site]) -> dict[str, int]:
    """The other sites that share a block with a nameless geolocation, which the service may have made of them."""
    owners = {block: locid for locid, place in layer.items() if locid not in taken for block in place.ipblocks}
    claims: dict[str, int] = {}
    for site in unknown:
        sharing = {owners[block] for block in site.blocks if block in owners}
        sharing = {locid for locid in sharing if may_be_stored(site.fields, layer[locid].fields())}
        if len(sharing) == 1 and not sharing & set(claims.values()):
            claims[site.name] = sharing.pop()
    return claims


def _paired(sites: Iterable[Site], places: Iterable[Geolocation]) -> list[tuple[Site, Geolocation]]:
    """Each site that has a geolocation with exactly its blocks, with that geolocation."""
    left = list(places)
    pairs = []
    for site in sites:
        place = next((place for place in left if tuple(sorted(place.ipblocks)) == site.blocks), None)
        if place is not None:
            left.remove(place)
            pairs.append((site, place))
    return pairs


def _equal(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(fields[name] for name in FIELD_NAMES)
