"""Making the custom layer match a file of sites: the steps are shown as a plan, or made as edits.

A site of the file is a geolocation by its name. If an earlier file did not name it, the geolocation that it already is
is looked for: one with the same content, so that nothing is created twice.
"""

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from geolookup.base.text import count
from geolookup.model.errors import EditError
from geolookup.model.fields import DEGREES
from geolookup.model.types import Geolocation, IPBlock
from geolookup.settings.table import Settings
from geolookup.sites.changes import Change, Kind, block_changes, custom_layer, in_order, make, take_back
from geolookup.sites.claims import Claims
from geolookup.sites.since import Asked, Conflict, Keep, Since, applying, digest_of, require_kept
from geolookup.sites.site import Problems, Site, block_text, listed, notes_of, refuse_repetitions, refuse_wrong_fields
from geolookup.sites.summary import Elsewhere, Owner, Summary
from geolookup.sources.outlines import is_far
from geolookup.state.base.actor import acting
from geolookup.state.base.clock import now_text
from geolookup.state.editor import Editor
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.outbox.payload import content_of, values_of
from geolookup.state.edits.places.place import Content
from geolookup.state.generations.cities import City


@dataclass(frozen=True, slots=True, kw_only=True)
class SitesPlan:
    """All steps, in the order in which they are made: blocks are freed before others take them.

    ``names`` are the geolocations that the sites have or get; those still to be created are missing. ``notes`` is
    what a person should know: values that the service stores in another form than the file, which are not sent again,
    sites without blocks, places far from their country, columns that are not read. ``elsewhere`` is what added blocks
    do not get. ``decided`` are the sites that stay otherwise than the file says, since a person said so at an earlier
    apply. ``conflicts`` are the sites that others changed since the file was made, and of which nobody has said
    what to keep.
    """

    changes: tuple[Change, ...]
    summary: Summary
    names: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    elsewhere: Elsewhere = field(default_factory=Elsewhere)
    conflicts: tuple[Conflict, ...] = ()
    decided: tuple[str, ...] = ()

    @property
    def edits(self) -> tuple[Change, ...]:
        """The steps that change anything but names."""
        return tuple(change for change in self.changes if change.kind is not Kind.CLAIM)

    @property
    def renamed(self) -> int:
        """The number of geolocations that get another name."""
        return sum(change.kind is Kind.CLAIM and change.was is not None for change in self.changes)


def plan_sites(
    editor: Editor,
    sites: list[Site],
    *,
    prune_all: bool = False,
    problems: Problems | None = None,
    takes: Mapping[str, int | None] | None = None,
    keep: Keep | None = None,
) -> SitesPlan:
    """The steps that `apply_sites` would make; nothing is changed. ``problems`` is what `read_sites` found already.

    ``takes`` says which geolocation sites are, by their names: a number, or None for a new one. ``keep`` says of which
    sites that others changed since what they did stays; if it is None, the file has the last word on all.

    :raises DataFileError: if sites cannot be made as the file says: names the file, the line and the site of each
    """
    with editor.rehearsal():
        bad = Problems() if problems is None else problems
        return _Planner(editor, sites, prune_all=prune_all, bad=bad, takes=takes or {}, keep=keep).plan()


def apply_sites(
    editor: Editor,
    sites: list[Site],
    *,
    file: str,
    prune_all: bool = False,
    guard: Settings | None = None,
    problems: Problems | None = None,
    takes: Mapping[str, int | None] | None = None,
    keep: Keep | None = None,
) -> SitesPlan:
    """Make the custom layer match the file, all of it in one transaction, or nothing.

    A geolocation that an earlier file named and this one does not is deleted; with ``prune_all`` every other custom
    one too. ``guard`` are the settings that say how much may go; None if anything may. ``problems``,
    ``takes`` and ``keep`` are as in `plan_sites`. The result is the plan as it was made, new locids
    included; applied again, it has no changes.

    :raises DataFileError: if sites cannot be made as the file says; nothing was changed
    :raises ChangedSinceError: if others changed sites, and ``keep`` does not say what stays; nothing was changed
    :raises TooMuchGoneError: if more would be gone than the guard allows; nothing was changed
    :raises WideBlockError: if a site would get very many public addresses, and there is a guard; nothing was changed
    """
    editor.sessions.back_up()
    with acting(applying(file, keep)), editor.transaction():
        bad = Problems() if problems is None else problems
        planner = _Planner(editor, sites, prune_all=prune_all, bad=bad, takes=takes or {}, keep=keep)
        plan = planner.plan()
        require_kept(plan.conflicts, file)
        if guard is not None:
            plan.summary.require_allowed(guard, file)
        names = dict(plan.names)
        where = {site.name: site.where for site in planner.sites}
        made = []
        for step in plan.changes:
            try:
                known = step.kind is Kind.CREATE or step.locid is not None
                made.append(make(editor, step if known else replace(step, locid=names[step.site or ""]), names))
            except EditError as error:
                if step.site not in where:
                    raise
                raise where[step.site].error(str(error)) from error
        said = {site.name: site.time_zone for site in planner.sites if site.time_zone is not None}
        editor.keep_sites(names, file=file, time_zones=said)
        adds = keep is not None and keep.absent
        given = {site.name for site in sites}
        planner.since.note_apply({name: names[name] for name in names if not adds or name in given}, adds=adds)
    return replace(plan, changes=tuple(made), names=names)


def preview_sites(
    editor: Editor,
    sites: list[Site],
    *,
    prune_all: bool = False,
    takes: Mapping[str, int | None] | None = None,
    keep: Keep | None = None,
) -> list[Laid]:
    """The custom layer as `apply_sites` would leave it; nothing is changed.

    Where others changed sites and ``keep`` does not say what stays, the file has its way. A rehearsal makes it with
    the same edits, so it cannot differ from what they would make.

    :raises DataFileError: as `apply_sites` does
    """
    with editor.rehearsal():
        whose = None if keep is None else replace(keep, others=keep.others or "mine")
        apply_sites(editor, sites, file="", prune_all=prune_all, takes=takes, keep=whose)
        return editor.custom()


def export_sites(editor: Editor, *, as_served: bool = False) -> list[Site]:
    """Every custom geolocation as a site, sorted by name.

    One that no file named gets a name made of its city or country, and of its locid if that is not enough; nothing
    is recorded. With ``as_served`` they are what lookups answer, without the names of files: edits.db may be damaged.

    :raises EditsDamagedError: if edits.db is damaged, unless ``as_served``
    """
    if as_served:
        places, names, zones, made_at = editor.served(), dict[int, str](), dict[str, str](), ""
    else:
        with editor.rehearsal():
            made_at = editor.sessions.ask(lambda session: session.steps.newest_moment()) or now_text()
            places = [laid.place for laid in editor.custom()]
            names, zones = editor.site_names(), editor.time_zones()
    shared = Counter(names[place.locid] for place in places if place.locid in names)
    taken = {*shared}
    wishes = Counter(_wish(place) for place in places if place.locid not in names)
    sites = []
    for place in places:
        name = names.get(place.locid)
        if name is None or shared[name] > 1:  # a service may give one name to several
            name = name or _wish(place)
            if not name or name in taken or wishes[name] > 1:
                base = name = f"{name} {place.locid}".strip()
                again = 1
                while name in taken:
                    again += 1
                    name = f"{base} ({again})"
            taken.add(name)
        made_from = digest_of(content_of(place)) if made_at else ""
        blocks = tuple(sorted(place.ipblocks))
        sites.append(
            Site(
                name=name,
                fields=place.fields(),
                blocks=blocks,
                time_zone=zones.get(name),
                made_from=made_from,
                made_at=made_at,
            )
        )
    return sorted(sites, key=lambda site: (site.name.casefold(), site.name))


def _wish(place: Geolocation) -> str:
    parts = [" ".join("".join(filter(str.isprintable, part)).split()) for part in (place.city, place.country)]
    return " ".join(part[:60].strip() for part in parts if part)


class _Planner:
    """One plan in the making: edits that need not be sent are taken back in the caller's transaction or rehearsal."""

    def __init__(
        self,
        editor: Editor,
        sites: list[Site],
        *,
        prune_all: bool,
        bad: Problems,
        takes: Mapping[str, int | None],
        keep: Keep | None,
    ) -> None:
        self._editor = editor
        self.sites = sites
        self._keep = keep
        self._conflicts: list[Conflict] = []
        #: The number of sites that stay though the file lacks them.
        self._absent = 0
        #: The names of the file whose geolocations somebody renamed, each with the name that it has.
        self._renamed: dict[str, str] = {}
        self._prune_all = prune_all
        self._bad = bad
        self._takes = takes
        self._layer = self._before = custom_layer(editor)
        self._stored = editor.stored()
        self._deleted, self._forgotten, self._unsent = editor.sessions.ask(
            lambda session: (session.deleted_unsent(), session.forgotten(), session.before_unsent())
        )
        #: The service's numbers of places of ours that shall be there, in the newest list or not.
        self._bound = editor.sessions.ask(
            lambda session: session.outbox.numbers().keys() - session.ledger.deleted_here()
        )
        #: The names that no file gave: what has one is not deleted with a file.
        self._by_hand = editor.sessions.ask(lambda session: session.names.by_hand())
        self._bare = not editor.has_service()
        zones = editor.time_zones()
        #: The name and time zone that each geolocation has.
        self._called = {locid: (name, zones.get(name, "")) for name, locid in editor.sites().items()}
        sent = {locid: fields for locid, (fields, kept) in self._stored.items() if self._has(locid, kept)}
        self.since = editor.sessions.ask(lambda session: Since(session, sites, sent=sent))
        self._not_kept: list[str] = []
        self._cities: dict[tuple[str, ...], City | None] = {}
        self._of_cities: list[str] = []

    def plan(self) -> SitesPlan:
        """The plan.

        :raises DataFileError: if sites cannot be made as the file says
        """
        for site in self.sites:
            if site.vrf:  # `sites.vrfs` makes those
                told = f"it belongs to the VRF {site.vrf}: `geolookup custom apply FILE` takes files with VRFs"
                self._bad.add(site.where.problem("it belongs to a VRF", told, "vrf"))
        if any(site.vrf for site in self.sites):
            self._bad.refuse()
        names, claims, former = self._named()
        self.sites = [self._completed(site, self._layer.get(names.get(site.name, 0))) for site in self.sites]
        named = {*names.values()}
        doomed = [
            locid
            for locid in self._layer
            if locid not in named and (self._prune_all or (locid in former and former[locid] not in self._by_hand))
        ]
        if self._keep is not None:
            doomed = self._kept(self._keep, names, doomed, former)
        taken_back = self._take_back(names, doomed, former)
        returned = {name for name, locid in names.items() if locid in self._deleted and locid in self._layer}
        names = {name: locid for name, locid in names.items() if locid in self._layer}
        decided = {*names.values(), *doomed}
        staying = [place for locid, place in self._layer.items() if locid not in decided]
        others = _owners(staying)
        found = [
            Change(kind=Kind.CLAIM, site=name, locid=locid, was=former.get(locid, self._renamed.get(name)))
            for name, locid in claims.items()
            if names.get(name) == locid  # and not another one, since others' names stay
        ]
        found += [
            Change(kind=Kind.DELETE, site=former.get(locid), locid=locid, place=self._layer[locid])
            for locid in doomed
            if locid in self._layer
        ]
        found += self._steps(names, others)
        self._bad.refuse()
        self._bad.notes += notes_of(self.sites, self.since.again)
        named_now = {site.name for site in self.sites}
        self._bad.notes += [
            f"geolocation {locid} loses the name {name} to the site of the file"
            for locid, name in former.items()
            if name in named_now and locid not in decided and locid in self._layer
        ]
        self._note_cities()
        owners = _owners(self._before.values())
        after = {**others, **{block: names.get(site.name) for site in self.sites for block in site.blocks}}
        summary = Summary.of(
            sites=len(self.sites) - self._absent,
            governed=[self._before[locid] for locid in (*doomed, *names.values()) if locid in self._before],
            changes=[*taken_back, *found],
            returned=returned,
            before=owners,
            after=after,
            names=names,
        )
        return SitesPlan(
            changes=in_order([*taken_back, *found]),
            summary=summary,
            names=names,
            notes=(*self._not_kept, *self.since.left_out, *self._bad.notes),
            conflicts=tuple(self._conflicts),
            decided=tuple(self.since.again),
            elsewhere=Elsewhere.of(
                [
                    *(Owner(locid=place.locid, site=None, blocks=place.ipblocks) for place in staying),
                    *(Owner(locid=names.get(site.name), site=site.name, blocks=site.blocks) for site in self.sites),
                ],
                {block for block, owner in after.items() if owner is None or owners.get(block) != owner},
            ),
        )

    def _named(self) -> tuple[dict[str, int], dict[str, int], dict[int, str]]:
        """The geolocations of the sites; those of them that get another name; and the names of those that lose it."""
        layer, deleted, unsent, sites = self._layer, self._deleted, self._unsent, self.sites
        in_file = {site.name for site in sites}
        had = self._editor.sites()
        known = {name: locid for name, locid in had.items() if locid in layer or locid in deleted}
        for site in sites:
            if had.get(site.name) in self._bound and site.name not in known.keys() | self._takes.keys():
                take = shlex.quote(f"{site.name}=new")
                told = (
                    f"it is geolocation {had[site.name]}, which the newest list does not show, or not so that it can "
                    f"be read: `geolookup sync` until it does; --take {take} makes a new one"
                )
                self._bad.add(site.where.problem("what there is of it is not known", told, "name"))
        # A site that others deleted takes over nothing of theirs, unless a person says so: it is asked first.
        others_deleted = {
            site.name
            for site in sites
            if site.name in had.keys() - known.keys() - self._takes.keys()
            and self._keep is not None
            and self.since.of(site, None, self.since.moved(site.name) or had[site.name]) is not None
        }
        asked = {name for name in others_deleted if self._keep is not None and self._keep.of(name) != "mine"}
        # What somebody renamed since is still this site: whose name stays is asked, or was decided.
        called = {
            name: known[version[0]]
            for name, version in self.since.decided.items()
            if version[0] != name and self._is_so(known.get(version[0]), version[2])
        }
        owners = {locid: name for name, locid in called.items()}
        moved = {
            name
            for name, locid in known.items()
            if self.since.moved(name) not in (None, locid) or owners.get(locid, name) != name
        }
        names = {
            name: locid
            for name, locid in known.items()
            if name in in_file and name not in moved and self._takes.get(name) in (None, locid)
        }
        lost = {
            site.name: self.since.former(site.name) or called.get(site.name)
            for site in sites
            if site.name not in names and site.name not in self._takes
        }
        renamed: dict[str, int] = {}
        for name, locid in lost.items():
            if locid in layer and locid in self._called and locid not in {*names.values(), *renamed.values()}:
                renamed[name] = locid
        self._renamed = {name: self._called[locid][0] for name, locid in renamed.items()}
        names |= renamed
        governed = known.values() | deleted.keys()
        then = {locid: content_of(place) for locid, place in layer.items()} | unsent
        served = {locid: content for locid, content in then.items() if content is not None and locid in governed}
        claims = _sent_as(sites, names, served, unsent=unsent, layer=layer)
        if not claims:
            # A create that no service has heard of gives way to a geolocation that a service has with exactly this
            # content, and that would be deleted there.
            new = {name for name, locid in names.items() if unsent.get(locid, ...) is None}
            stay = {*names.values()}
            stay |= {locid for name, locid in known.items() if name in self._by_hand and not self._prune_all}
            going = {locid: content for locid, content in served.items() if locid not in stay}
            claims = _reclaims_of(
                going,
                [site for site in sites if site.name in new or not (site.name in names or site.name in self._takes)],
            )
        names |= claims
        former = {locid: name for name, locid in known.items() if locid not in names.values()}
        adds = self._keep is not None and self._keep.absent  # what the file does not name keeps its name
        taken = {*names.values(), *(known.values() if adds else ())}
        left = [site for site in sites if site.name not in names and site.name not in asked]
        made = {site.name: number for site in left if (number := self.since.made_of(site)) is not None}
        claims |= Claims(layer, taken, self._bad, self._takes, known.values(), made, others_deleted).of(left)
        names |= claims
        claims |= {name: locid for name, locid in renamed.items() if names[name] == locid}
        gone = {locid: content_of(place) for locid, place in deleted.items() if locid not in names.values()}
        claims |= _reclaims_of(gone, [site for site in sites if site.name not in names])
        return names | claims, claims, former

    def _kept(self, keep: Keep, names: dict[str, int], doomed: list[int], former: dict[int, str]) -> list[int]:
        """Leave as it is what others changed since the file was made, if that shall be kept: what is deleted then."""
        since, known = self.since, self._editor.sites()
        asked = Asked(keep, self._conflicts, self._bad)
        sites: list[Site] = []
        stay: dict[str, int] = {}
        for site in self.sites:
            place = self._layer.get(names.get(site.name, 0))
            called = None if place is None else self._called.get(place.locid)
            had = names.get(site.name) or since.moved(site.name) or known.get(site.name, since.former(site.name))
            had = had or since.made_of(site)
            if not since.stays(asked, site, place, had, called):
                sites.append(site)
            elif place is None:
                names.pop(site.name, None)
            else:
                name = site.name if called is None else called[0]
                stay[name] = names.pop(site.name)
                sites.append(site.as_is(place, name))
        names |= stay
        left = []
        for locid in doomed:
            place, name = self._layer[locid], former.get(locid, str(locid))
            if not since.stays_absent(asked, name, place):
                left.append(locid)
            elif locid in former:
                names[name] = locid
                sites.append(Site.of(name, place))
                self._absent += keep.absent
        if len(left) != len(doomed) or sites != self.sites:
            self.sites = sites
            refuse_repetitions(sites, self._bad)
        return left

    def _is_so(self, locid: int | None, digest: str) -> bool:
        return locid in self._layer and digest_of(content_of(self._layer[locid])) == digest

    def _has(self, locid: int, fields: Mapping[str, Any]) -> bool:
        return locid in self._layer and self._layer[locid].fields() == fields

    def _completed(self, site: Site, place: Geolocation | None) -> Site:
        """The site with what its row does not say: as its place has it, and the coordinates of its city.

        Those stay as they are as long as the city does, whatever the default data of another night have.
        """
        fields = dict(site.fields)
        if place is not None:
            fields |= {name: value for name, value in place.fields().items() if name in site.unsaid}
        if all(site.fields[name] is None for name in DEGREES) and fields["city"]:
            same = place is not None and _city_of(place.fields()) == _city_of(fields)
            if place is not None and same:
                fields |= {name: value for name, value in place.fields().items() if name in DEGREES}
            else:
                fields |= dict.fromkeys(DEGREES) | self._coordinates(site.name, fields)
        return replace(site, fields=fields)

    def _coordinates(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        """The coordinates that the default data have of the city of a site, empty if they do not know it."""
        key = fields["country"], fields["region"], fields["city"]
        if key not in self._cities:
            self._cities[key] = self._editor.sessions.ask(lambda session: session.city(fields))
        city = self._cities[key]
        if city is None:
            return {}
        self._of_cities.append(f"{name} ({city.place.place_text()}, by {city.source})")
        return city.coordinates

    def _take_back(self, names: dict[str, int], doomed: list[int], former: dict[int, str]) -> list[Change]:
        in_file = {site.name: site for site in self.sites}
        wanted: dict[int, Content | None] = dict.fromkeys(doomed)
        for name, locid in names.items():
            site, (sent, kept) = in_file[name], self._stored.get(locid, ({}, {}))
            wanted[locid] = Content(values_of(kept if sent == site.fields else site.fields), frozenset(site.blocks))
        taken_back = take_back(self._editor, wanted, {locid: name for name, locid in names.items()} | former)
        if taken_back:
            self._layer = custom_layer(self._editor)
        return taken_back

    def _steps(self, names: dict[str, int], others: dict[IPBlock, int]) -> Iterator[Change]:
        """The steps that make each site; ``others`` are the owners of blocks that no file named."""
        numbers = {name: locid for name, locid in self._editor.sites().items() if locid in self._forgotten}
        whole = not self._bad  # else a site that is left out may be the one that has the block
        for site in self.sites:
            owned = names.get(site.name)
            place = None if owned is None else self._layer[owned]
            if place is None:
                number = numbers.get(site.name)
                yield Change(
                    kind=Kind.CREATE, site=site.name, locid=number, fields=site.fields, time_zone=site.time_zone
                )
            elif place.fields() != site.fields and self._is_left(site, place):
                sides = ((name, value, site.fields[name]) for name, value in place.fields().items())
                found = ", ".join(f"{name} {now!r} for {ours!r}" for name, now, ours in sides if now != ours)
                self._not_kept.append(
                    f"the service has {found} of {site.name} ({owned}), as it stores that, or as you decided: it is "
                    "sent if the file changes, or with --keep mine"
                )
            elif place.fields() != site.fields:
                yield Change(kind=Kind.UPDATE, site=site.name, locid=owned, fields=site.fields, before=place.fields())
            zone = "" if owned is None else self._called.get(owned, ("", ""))[1]
            if place is not None and site.time_zone not in (None, zone):
                yield Change(kind=Kind.TIME_ZONE, site=site.name, locid=owned, was=zone, time_zone=site.time_zone)
            if place is None or place.fields() != site.fields:
                _check_fields(site, {} if place is None else place.fields(), self._bad, bare=self._bare)
            for change in block_changes(site.name, owned, place.ipblocks if place else (), site.blocks):
                if whole and change.kind is Kind.ADD_BLOCK and change.block in others:
                    text = block_text(change.block)
                    told = (
                        f"{text} belongs to custom geolocation {others[change.block]}, which no file of sites named: "
                        "remove it there first, or name that geolocation in the file, or say that it is this site: "
                        f"--take '{site.name}={others[change.block]}'"
                    )
                    self._bad.add(site.where.problem("a block belongs to a geolocation by hand", told, "blocks", text))
                yield change

    def _is_left(self, site: Site, place: Geolocation) -> bool:
        """True if a place stays as the service stored what the file says, or as a person decided about that."""
        is_mine = self._keep is not None and self._keep.of(site.name) == "mine"
        return not is_mine and self._stored.get(place.locid) == (site.fields, place.fields())

    def _note_cities(self) -> None:
        if self._of_cities:
            told = f"coordinates of {count(len(self._of_cities), 'site')} are those of their city"
            self._bad.notes.append(f"{told}: {listed(self._of_cities)}")


def _city_of(fields: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(fields[name]).casefold() for name in ("country", "city"))


def _owners(places: Iterable[Geolocation]) -> dict[IPBlock, int]:
    return {block: place.locid for place in places for block in place.ipblocks}


def _check_fields(site: Site, before: Mapping[str, Any], bad: Problems, *, bare: bool) -> None:
    """Check the fields as an edit would, and that the place of changed ones can be meant; ``bare`` as there."""
    changed = {name for name, value in site.fields.items() if name not in before or before[name] != value}
    moved = bool(changed & {"country", *DEGREES})
    told = refuse_wrong_fields(site.fields, site.where, bad, moved=moved, bare=bare)
    if moved and not told and is_far(site.fields):
        country, latitude, longitude = (site.fields[name] for name in ("country", "latitude", "longitude"))
        far = site.where.error(f"latitude {latitude:g}, longitude {longitude:g} is far from {country}: is it right?")
        bad.notes.append(str(far))


def _reclaims_of(before: Mapping[int, Content], unknown: list[Site]) -> dict[str, int]:
    """The geolocation that each unknown site describes with all fields and blocks.

    ``before`` has geolocations by number as they were before edits that were not sent, and that can be taken back.
    """
    free = sorted(before.items(), reverse=True)
    claims = {}
    for site in unknown:
        described = Content(values_of(site.fields), frozenset(site.blocks))
        for each in free:
            if each[1] == described:
                claims[site.name] = each[0]
                free.remove(each)
                break
    return claims


def _sent_as(
    sites: Sequence[Site],
    names: Mapping[str, int],
    served: Mapping[int, Content],
    *,
    unsent: Collection[int],
    layer: Mapping[int, Geolocation],
) -> dict[str, int]:
    """The geolocation that each site gets back, if a service has the sites of the file and no others; else none.

    ``served`` has its geolocations by number. Names may have passed to other geolocations since, together with edits
    that were not sent (of ``unsent``), and that is no reason to send anything. Without such edits names stay where they
    are, and differences in the file are edits.
    """
    described = {site.name: Content(values_of(site.fields), frozenset(site.blocks)) for site in sites}
    if all(name in names and _is(layer.get(names[name]), content) for name, content in described.items()):
        return {}
    stay = {name: names[name] for name in described if name in names and served.get(names[name]) == described[name]}
    if not served.keys() & set(unsent):
        return {}
    left = {locid: content for locid, content in served.items() if locid not in stay.values()}
    moving = [site for site in sites if site.name not in stay]
    claims = _reclaims_of(left, moving)
    return claims if len(claims) == len(moving) == len(left) else {}


def _is(place: Geolocation | None, content: Content) -> bool:
    return place is not None and content_of(place) == content
