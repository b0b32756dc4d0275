"""What an inventory says of sites and networks, whichever program it is; and the sites that follow from it.

Places stand in a tree: sites below regions, locations below each other. A block that names no place has that of the
narrowest prefix around it, in the same routing domain. Country and region are read from the places above a site.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from geolookup.base.reasons import reason
from geolookup.base.text import count
from geolookup.model.addresses import range_ends
from geolookup.model.checked import wrong_name, wrong_time_zone
from geolookup.model.continents import countries
from geolookup.model.countries import in_capitals, is_code
from geolookup.model.errors import InvalidAddressError, InvalidRangeError
from geolookup.model.fields import DEGREES, FIELD_NAMES, UNKNOWN
from geolookup.model.types import IPBlock
from geolookup.model.written import country_of, degrees_of
from geolookup.settings.sites import SitesSettings
from geolookup.sites.servers.postal import city_of
from geolookup.sites.site import TIME_ZONE, Problems, Site, Where, refuse_wrong_fields

_ADDRESSES: Final = "address"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A site, region or location: its ``values`` as they came, and the key of the place ``above`` it."""

    key: str
    name: str
    values: Mapping[str, Any]
    above: str | None
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A block as it stands there: ``what`` names its row for messages, ``domain`` is its routing domain, "" if none.

    ``place`` is the one that it names itself. A ``container`` is no block. What it names in place of a site is said
    ``elsewhere``.
    """

    what: str
    text: str
    domain: str
    place: str | None
    status: str
    container: bool
    kind: str
    elsewhere: str = ""

    def is_taken(self, statuses: Collection[str]) -> bool:
        """True if it is a block of one of these statuses."""
        return not self.container and self.status.casefold() in statuses


@dataclass(slots=True, kw_only=True)
class Inventory:
    """All that was read. ``sites`` are the keys of places that may be sites, ``counts`` the rows of each list.

    ``unseen`` asks why something may be missing.
    """

    places: Mapping[str, Place]
    sites: frozenset[str]
    counts: Mapping[str, int]
    unseen: str = "may the token view all?"
    rows: list[Row] = field(default_factory=list)

    def place_of(self, said: Any) -> str | None:
        """The key of the site that a custom field means, by number, name or slug; what it says, if that is none."""
        for key in self.sites:
            place = self.places[key]
            if said in (place.values.get("id"), place.name, place.values.get("slug")):
                return key
        return str(said)

    def above(self, key: str) -> list[Place]:
        """The places above one, the nearest first."""
        found: list[Place] = []
        at = self.places[key].above
        while at is not None and at in self.places and len(found) < len(self.places):
            found.append(self.places[at])
            at = self.places[at].above
        return found


def value_at(values: Mapping[str, Any], path: str) -> Any:
    """What stands at a path (``custom_fields.city``) of an object; None if nothing does."""
    found: Any = values
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def named_domains(found: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """The name of each routing domain by its key, of (key, name, more): with ``more`` where several have one name."""
    known = {key: (name, more) for key, name, more in found}
    often = Counter(name for name, _ in known.values())
    return {key: name if often[name] == 1 else f"{name} ({more or key})" for key, (name, more) in known.items()}


@dataclass(slots=True)
class _Counts:
    """Things that are counted, and the first of each."""

    found: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, what: str, example: str) -> None:
        number, first = self.found.get(what, (0, example))
        self.found[what] = number + 1, first

    def lines(self) -> Iterator[tuple[str, int, str]]:
        for what, (number, first) in self.found.items():
            yield what, number, first


def sites_of(found: Inventory, settings: SitesSettings, *, origin: str, problems: Problems) -> list[Site]:
    """The sites that have blocks, one for each routing domain in which they have some.

    ``origin`` is where all this is from. What is wrong is added to ``problems``, and how it was read to its ``said``.
    """
    where = Where(path=origin, find=lambda _key, _text: None)
    told = _Counts()
    of: dict[str, dict[str, dict[IPBlock, Row]]] = {}  # by domain and place
    owners: dict[tuple[str, IPBlock], tuple[str, Row]] = {}
    statuses = {status.casefold() for status in settings.statuses}
    for domain, rows in _blocks(found.rows, settings.vrf_global, where, problems).items():
        for block, row, place, answers in _placed(rows, statuses):
            if not row.is_taken(statuses):
                told.add(f"{row.kind} that is {'a container' if row.container else row.status}: not taken", row.text)
                continue
            if place is None:
                named = f" (it names a {row.elsewhere})" if row.elsewhere else ""
                told.add(f"{row.kind} without a site{named}: left out", row.text)
                continue
            if place not in found.places:
                kind = "it names a site that is not in the list"
                message = f"{row.what} ({row.text}) names {place}, which the list of sites lacks: {found.unseen}"
                problems.add(where.problem(kind, message, "blocks", row.text))
                continue
            if row.kind == _ADDRESSES and place == answers:
                continue  # the network around it says the same
            owner = owners.setdefault((domain, block), (place, row))
            if owner[0] != place:
                both = " and ".join(f"{each.what} of {found.places[at].name}" for at, each in (owner, (place, row)))
                message = f"{row.text} is there twice{f' in VRF {domain}' if domain else ''}: {both}"
                problems.add(where.problem("a block belongs to two sites", message, "blocks", row.text))
                continue
            of.setdefault(domain, {}).setdefault(place, {}).setdefault(block, row)
    places = {place for blocks in of.values() for place in blocks}
    names = _names(found, places, settings)
    fields_of = {place: _fields(found, place, names[place], settings, where, problems, told) for place in places}
    zones = {place: _time_zone(found, place, names[place], settings, where, problems) for place in places}
    idle = len(found.sites) - len(places & found.sites)
    for what, number, first in told.lines():
        problems.said.append(f"{origin}: {number} × {what} ({first})")
    if idle:
        problems.said.append(f"{origin}: {count(idle, 'site')} without blocks: left out")
    return [
        Site(
            name=names[place],
            fields=values,
            blocks=tuple(sorted(of[domain][place])),
            vrf=domain,
            time_zone=zones[place],
            where=Where(path=origin, find=where.find, name=names[place]),
        )
        for domain in sorted(of)
        for place in sorted(of[domain], key=lambda key: (names[key].casefold(), key))
        if (values := fields_of[place]) is not None
    ]


def _blocks(
    rows: Iterable[Row], vrf_global: str, where: Where, problems: Problems
) -> dict[str, list[tuple[IPBlock, Row]]]:
    """The blocks of each routing domain; those of ``vrf_global`` are of the global table."""
    found: dict[str, list[tuple[IPBlock, Row]]] = {}
    for row in rows:
        try:
            block = IPBlock.parse(*range_ends(row.text))
        except (InvalidAddressError, InvalidRangeError) as error:
            problems.add(where.problem("is not a network or range", f"{row.what}: {error}", "blocks", row.text))
            continue
        found.setdefault("" if row.domain == vrf_global else row.domain, []).append((block, row))
    return found


def _placed(
    rows: list[tuple[IPBlock, Row]], statuses: Collection[str]
) -> Iterator[tuple[IPBlock, Row, str | None, str | None]]:
    """Each block of one routing domain with its place, its own or that of the prefix around it.

    The fourth is the place that answers for it without it: that of the narrowest prefix around it that is taken.
    """
    rows.sort(key=lambda each: (each[0].family, each[0].first, -each[0].last, each[1].kind != "prefix"))
    # The prefixes around the next block, the widest first: the place of each, and the one that answers there.
    open_: list[tuple[IPBlock, str | None, str | None]] = []
    for block, row in rows:
        while open_ and (open_[-1][0].last < block.first or open_[-1][0].family != block.family):
            open_.pop()
        around, answers = next(
            ((place, answering) for wider, place, answering in reversed(open_) if wider.last >= block.last),
            (None, None),
        )
        place = row.place if row.place is not None else around
        yield block, row, place, answers
        if row.kind == "prefix":
            open_.append((block, place, place if place is not None and row.is_taken(statuses) else answers))


def _names(found: Inventory, places: Iterable[str], settings: SitesSettings) -> dict[str, str]:
    """The name of each place; of several with one name each has those above it before it, as far as it takes."""
    path = settings.paths.get("name", "name")
    parts: dict[str, list[str]] = {}
    for key in places:
        own = value_at(found.places[key].values, path)
        chain = [str(own or found.places[key].name), *(place.name for place in found.above(key))]
        parts[key] = [" ".join(part.split()) for part in chain]
    names = {key: chain[0] for key, chain in parts.items()}
    for depth in range(2, max(map(len, parts.values()), default=1) + 1):
        often = Counter(names.values())
        again = {key for key, name in names.items() if often[name] > 1}
        if not again:
            break
        names |= {key: " / ".join(reversed(parts[key][:depth])) for key in again}
    often = Counter(names.values())
    return {key: name if often[name] == 1 else f"{name} ({key})" for key, name in names.items()}


def _fields(
    found: Inventory,
    key: str,
    name: str,
    settings: SitesSettings,
    where: Where,
    problems: Problems,
    told: _Counts,
) -> dict[str, Any] | None:
    """The fields of a place, None if something is wrong: ``problems`` says what."""
    where = Where(path=where.path, find=where.find, name=name)
    if (wrong := wrong_name(name)) is not None:
        problems.add(where.problem("the name of a site is not one", wrong, "name", name))
        return None
    chain = [found.places[key], *found.above(key)]
    fields: dict[str, Any] = dict(UNKNOWN)
    for field_name in FIELD_NAMES:
        if field_name in settings.paths:
            said = _first(chain, settings.paths[field_name])
            fields[field_name] = said if field_name in DEGREES else "" if said is None else str(said).strip()
    fields["country"] = in_capitals(country_of(fields["country"]) or fields["country"])
    if not fields["country"]:
        fields["country"], at = _country(chain, settings, name, told)
        # What stands between the country and the site is a region, the one next to the country first.
        if at is not None and at > 1 and "region" not in settings.paths:
            fields["region"] = chain[at - 1].name
    for degrees in DEGREES:
        if degrees not in settings.paths:
            fields[degrees] = _first(chain, degrees)
        if isinstance(fields[degrees], str):  # decimals come as text
            read = degrees_of(fields[degrees], degrees)
            if read is None and fields[degrees].strip():
                message = f"{degrees} is a number of degrees, not {fields[degrees]!r:.50}"
                kind = f"{degrees} is not a number of degrees"
                problems.add(where.problem(kind, message, degrees, fields[degrees]))
                return None
            fields[degrees] = None if read is None else read[0]
    _add_city(fields, chain, settings, name, told)
    try:
        fields |= {degrees: None if fields[degrees] is None else float(fields[degrees]) for degrees in DEGREES}
    except (TypeError, ValueError) as error:
        problems.add(where.problem("coordinates are not numbers of degrees", reason(error), "latitude"))
        return None
    return None if refuse_wrong_fields(fields, where, problems) else fields


def _time_zone(found: Inventory, key: str, name: str, settings: SitesSettings, where: Where, problems: Problems) -> str:
    zone = _first([found.places[key], *found.above(key)], settings.paths.get(TIME_ZONE, TIME_ZONE)) or ""
    if (wrong := wrong_time_zone(zone)) is not None:
        problems.add(replace(where, name=name).problem("is not a time zone", wrong, TIME_ZONE, str(zone)))
    return str(zone)


def _add_city(
    fields: dict[str, Any], chain: Sequence[Place], settings: SitesSettings, name: str, told: _Counts
) -> None:
    """The city and postal code as the physical address has them, where no field of the server is said to hold them."""
    address = _first(chain, "physical_address")
    if not isinstance(address, str) or not address.strip():
        return
    read = city_of(address, fields["country"])
    if read is None:
        told.add("physical address in which no postal code and city are found", f"{name}: {address!r:.60}")
        return
    taken = {key: value for key, value in zip(("postalcode", "city"), read, strict=True) if key not in settings.paths}
    if taken:
        told.add("postal code and city of the physical address", f"{name}: {', '.join(taken.values())}")
        fields |= taken


def _first(chain: Iterable[Place], path: str) -> Any:
    """What stands at a path of the nearest place that has something there."""
    found = (value_at(place.values, path) for place in chain)
    return next((value for value in found if value not in (None, "")), None)


def _country(chain: Sequence[Place], settings: SitesSettings, name: str, told: _Counts) -> tuple[str, int | None]:
    """The country of a site, and which place of its chain is that country; "" and None if none is known.

    The settings say it, else the name of a place in words, the highest first, else the only code among them.
    """
    for at, place in enumerate(chain):
        said = settings.country.get(str(place.values.get("slug") or "")) or settings.country.get(place.name)
        if said:
            return in_capitals(said), at
    codes: dict[str, int] = {}
    # The name of a NetBox site is a name: Georgia may be an office in the street of that name.
    for at in range(len(chain) - 1, 0 if chain[0].kind == "site" else -1, -1):
        for text in (chain[at].name, str(chain[at].values.get("slug") or "").replace("-", " ")):
            if not is_code(text) and (code := country_of(text)):
                return code, at
            if is_code(text) and text.upper() in countries():
                codes[text.upper()] = at
    if len(codes) == 1:
        return next(iter(codes.items()))
    above = " > ".join(place.name for place in reversed(chain[1:]))
    why = f"{' and '.join(codes)} may be meant" if codes else "no place above it means one"
    told.add(f"site without a country: {why}: say it under [sites.country]", f"{name}, below {above or 'none'}")
    return "", None
