"""What it takes to make the custom layer what a file of sites says; shown as a plan, or made as edits."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from geolookup.errors import EditError
from geolookup.model.fields import DEGREES, UNKNOWN
from geolookup.model.types import Geolocation, IPBlock
from geolookup.settings.table import Settings
from geolookup.sites.changes import Change, Kind, block_changes, custom_layer, in_order, make, take_back
from geolookup.sites.claims import claims_of, reclaims_of, sent_as
from geolookup.sites.elsewhere import Elsewhere, Owner
from geolookup.sites.problems import Problems
from geolookup.sites.site import Site, block_text
from geolookup.sites.summary import Summary
from geolookup.sources.world.fit import is_far, misfits
from geolookup.state.editor import Editor
from geolookup.state.edits.fields import checked_fields
from geolookup.state.edits.layer import Laid
from geolookup.state.edits.steps import Content

_MOST_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SitesPlan:
    """All steps, in the order in which they are made: blocks are freed before others take them.

    ``names`` are the geolocations that the sites have or get; those still to be created are missing. ``notes`` is
    what a person should know: values that the service stores in another form than the file, which are not sent again,
    sites without blocks, places far from their country, columns that are not read. ``elsewhere`` is what added blocks
    do not get.
    """

    changes: tuple[Change, ...]
    summary: Summary
    names: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    elsewhere: Elsewhere = field(default_factory=Elsewhere)

    @property
    def edits(self) -> tuple[Change, ...]:
        """The steps that change anything but names."""
        return tuple(change for change in self.changes if change.kind is not Kind.CLAIM)


def plan_sites(
    editor: Editor, sites: list[Site], *, prune_all: bool = False, problems: Problems | None = None
) -> SitesPlan:
    """The steps that `apply_sites` would make; nothing is changed. ``problems`` is what `read_sites` found already.

    :raises DataFileError: if sites cannot be made as the file says: names the file, the line and the site of each
    """
    with editor.rehearsal():
        return _planned(editor, sites, prune_all=prune_all, bad=Problems() if problems is None else problems)


def apply_sites(
    editor: Editor,
    sites: list[Site],
    *,
    file: str,
    prune_all: bool = False,
    guard: Settings | None = None,
    problems: Problems | None = None,
) -> SitesPlan:
    """Make the custom layer match the file, all of it in one transaction, or nothing.

    A geolocation that an earlier file named and this one does not is deleted; with ``prune_all`` every other custom
    one too. ``guard`` are the settings that say how much may go; None if anything may. ``problems`` is as in
    `plan_sites`. The result is the plan as it was made, new locids included; applied again, it has no changes.

    :raises DataFileError: if sites cannot be made as the file says; nothing was changed
    :raises TooMuchGoneError: if more would be gone than the guard allows; nothing was changed
    """
    with editor.transaction():
        plan = _planned(editor, sites, prune_all=prune_all, bad=Problems() if problems is None else problems)
        if guard is not None:
            plan.summary.require_allowed(guard, file)
        names = dict(plan.names)
        where = {site.name: site.where for site in sites}
        made = []
        for step in plan.changes:
            try:
                known = step.kind is Kind.CREATE or step.locid is not None
                made.append(make(editor, step if known else replace(step, locid=names[step.site or ""]), names))
            except EditError as error:
                if step.site not in where:
                    raise
                raise where[step.site].error(str(error)) from error
        editor.keep_sites(names, file=file)
    return replace(plan, changes=tuple(made), names=names)


def preview_sites(editor: Editor, sites: list[Site], *, prune_all: bool = False) -> list[Laid]:
    """The custom layer as `apply_sites` would leave it; nothing is changed.

    A rehearsal makes it with the same edits, so it cannot differ from what they would make.

    :raises DataFileError: as `apply_sites` does
    """
    with editor.rehearsal():
        apply_sites(editor, sites, file="", prune_all=prune_all)
        return editor.custom()


def export_sites(editor: Editor) -> list[Site]:
    """Every custom geolocation as a site, sorted by name.

    One that no file named gets a name made of its city or country, and of its locid if that is not enough; nothing
    is recorded.
    """
    with editor.rehearsal():
        places = [laid.place for laid in editor.custom()]
        names = {locid: name for name, locid in editor.sites().items()}
    taken = {names[place.locid] for place in places if place.locid in names}
    wishes = Counter(_wish(place) for place in places if place.locid not in names)
    sites = []
    for place in places:
        name = names.get(place.locid)
        if name is None:
            name = _wish(place)
            if not name or name in taken or wishes[name] > 1:
                base = name = f"{name} {place.locid}".strip()
                again = 1
                while name in taken:
                    again += 1
                    name = f"{base} ({again})"
            taken.add(name)
        sites.append(Site(name=name, fields=place.fields(), blocks=tuple(sorted(place.ipblocks))))
    return sorted(sites, key=lambda site: (site.name.casefold(), site.name))


def _wish(place: Geolocation) -> str:
    parts = [" ".join("".join(filter(str.isprintable, part)).split()) for part in (place.city, place.country)]
    return " ".join(part[:60].strip() for part in parts if part)


def _planned(editor: Editor, sites: list[Site], *, prune_all: bool, bad: Problems) -> SitesPlan:
    """The plan. What need not be sent any more is taken back: the transaction or rehearsal is the caller's."""
    layer, stored = custom_layer(editor), editor.stored()
    deleted, forgotten, unsent = editor.sessions.ask(
        lambda session: (session.deleted_unsent(), session.forgotten(), session.before_unsent())
    )
    before = layer
    in_file = {site.name: site for site in sites}
    known = {name: locid for name, locid in editor.sites().items() if locid in layer or locid in deleted}
    names = {name: locid for name, locid in known.items() if name in in_file}
    governed = known.values() | deleted.keys()
    then = {locid: Content.of(place) for locid, place in layer.items()} | unsent
    served = {locid: content for locid, content in then.items() if content is not None and locid in governed}
    claims = sent_as(sites, names, served, unsent=unsent, layer=layer)
    if not claims:
        # What no service has heard of is given up for what a service has exactly so, and would be deleted there.
        new = {name for name, locid in names.items() if unsent.get(locid, ...) is None}
        going = {locid: content for locid, content in served.items() if locid not in names.values()}
        claims = reclaims_of(going, [site for site in sites if site.name in new or site.name not in names])
    names |= claims
    former = {locid: name for name, locid in known.items() if locid not in names.values()}
    claims |= claims_of(layer, names, [site for site in sites if site.name not in names])
    names |= claims
    gone = {locid: Content.of(place) for locid, place in deleted.items() if locid not in names.values()}
    claims |= reclaims_of(gone, [site for site in sites if site.name not in names])
    names |= claims
    doomed = [locid for locid in layer if locid not in names.values() and (prune_all or locid in former)]
    wanted: dict[int, Content | None] = dict.fromkeys(doomed)
    for name, locid in names.items():
        site, (sent, kept) = in_file[name], stored.get(locid, ({}, {}))
        wanted[locid] = Content(fields=kept if sent == site.fields else site.fields, blocks=frozenset(site.blocks))
    taken_back = take_back(editor, wanted, {locid: name for name, locid in names.items()} | former)
    if taken_back:
        layer = custom_layer(editor)
    returned = {name for name, locid in names.items() if locid in deleted and locid in layer}
    names = {name: locid for name, locid in names.items() if locid in layer}
    numbers = {name: locid for name, locid in editor.sites().items() if locid in forgotten}
    found = [
        Change(kind=Kind.CLAIM, site=name, locid=locid, was=former.get(locid))
        for name, locid in claims.items()
        if name in names
    ]
    found += [
        Change(kind=Kind.DELETE, site=former.get(locid), locid=locid, place=layer[locid])
        for locid in doomed
        if locid in layer
    ]
    not_kept: list[str] = []
    whole = not bad  # else a site that is left out may be the one that has the block
    decided = {*names.values(), *doomed}
    staying = [place for locid, place in layer.items() if locid not in decided]
    others = _owners(staying)
    for site in sites:
        owned = names.get(site.name)
        place = None if owned is None else layer[owned]
        if place is None:
            found.append(Change(kind=Kind.CREATE, site=site.name, locid=numbers.get(site.name), fields=site.fields))
        elif place.fields() != site.fields and stored.get(place.locid) == (site.fields, place.fields()):
            changed = [name for name, value in place.fields().items() if value != site.fields[name]]
            not_kept.append(f"the service does not keep {', '.join(changed)} of {site.name} ({owned}) as the file says")
        elif place.fields() != site.fields:
            found.append(
                Change(kind=Kind.UPDATE, site=site.name, locid=owned, fields=site.fields, before=place.fields())
            )
        if place is None or place.fields() != site.fields:
            _check_fields(site, {} if place is None else place.fields(), bad)
        for change in block_changes(site.name, owned, place.ipblocks if place else (), site.blocks):
            if whole and change.kind is Kind.ADD_BLOCK and change.block in others:
                text = block_text(change.block)
                told = (
                    f"{text} belongs to custom geolocation {others[change.block]}, which no file of sites named: "
                    "remove it there first, or name that geolocation in the file"
                )
                bad.add(site.where.error(told, "blocks", text))
            found.append(change)
    bad.refuse()
    bare = [site.name for site in sites if not site.blocks]
    if bare:
        more = f" and {len(bare) - _MOST_NAMED} more" if len(bare) > _MOST_NAMED else ""
        bad.notes.append(f"without blocks, so that no address resolves to them: {', '.join(bare[:_MOST_NAMED])}{more}")
    owners = _owners(before.values())
    after = {**others, **{block: names.get(site.name) for site in sites for block in site.blocks}}
    summary = Summary.of(
        sites=len(sites),
        governed=[before[locid] for locid in (*doomed, *names.values()) if locid in before],
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
        notes=(*not_kept, *bad.notes),
        elsewhere=Elsewhere.of(
            [
                *(Owner(locid=place.locid, site=None, blocks=place.ipblocks) for place in staying),
                *(Owner(locid=names.get(site.name), site=site.name, blocks=site.blocks) for site in sites),
            ],
            {block for block, owner in after.items() if owner is None or owners.get(block) != owner},
        ),
    )


def _owners(places: Iterable[Geolocation]) -> dict[IPBlock, int]:
    return {block: place.locid for place in places for block in place.ipblocks}


def _check_fields(site: Site, before: Mapping[str, Any], bad: Problems) -> None:
    """Check the fields as an edit would, and whether what is new of them can be meant."""
    changed = {name for name, value in site.fields.items() if name not in before or before[name] != value}
    moved = bool(changed & {"country", *DEGREES})
    told = dict(misfits(site.fields)) if moved else {}
    for name, value in site.fields.items():
        if name in told:
            bad.add(site.where.error(told[name], name))
            continue
        try:
            checked_fields({**UNKNOWN, **dict.fromkeys(DEGREES, 0.0), name: value})
        except EditError as error:
            bad.add(site.where.error(str(error), name))
    if moved and not told and is_far(site.fields):
        country, latitude, longitude = (site.fields[name] for name in ("country", "latitude", "longitude"))
        far = site.where.error(f"latitude {latitude:g}, longitude {longitude:g} is far from {country}: is it right?")
        bad.notes.append(str(far))
