"""Making the places of routing domains (VRFs) match those of a file or a server: shown as a plan, or made.

A site is known by its VRF and its name. Only the VRFs that are given are looked at: the others stay as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from geolookup.base.text import count
from geolookup.model.checked import checked_fields, meant_fields, wrong_name
from geolookup.model.errors import EditError, TooMuchGoneError
from geolookup.model.types import Geolocation, IPBlock
from geolookup.settings.table import Settings
from geolookup.sites.since import Asked, Conflict, Keep, Since, applying, digest_of, require_kept
from geolookup.sites.site import TIME_ZONE, Problems, Site, block_text, blocks_text, notes_of
from geolookup.state.base.actor import acting
from geolookup.state.base.clock import now_text
from geolookup.state.editor import Editor
from geolookup.state.edits.outbox.payload import content_of, values_of
from geolookup.state.edits.places.place import Content


@dataclass(frozen=True, slots=True, kw_only=True)
class VrfChange:
    """One step: a place of a VRF as it is (``before``, ``was_zone``) and shall be (``after``); None where it is not."""

    vrf: str
    name: str
    before: Geolocation | None
    after: Site | None
    was_zone: str = ""

    def describe(self) -> str:
        """The step in words."""
        of = f"{self.name} of the VRF {self.vrf}"
        if self.after is None:
            assert self.before is not None
            return f"- delete {of}: {blocks_text(self.before.ipblocks)}"
        if self.before is None:
            return f"+ create {of}: {blocks_text(self.after.blocks)}"
        was, shall = self.before.fields(), self.after.fields
        changed = [f"{name} {was[name]!r} -> {shall[name]!r}" for name in was if was[name] != shall[name]]
        more, less = ({*self.after.blocks} - {*self.before.ipblocks}, {*self.before.ipblocks} - {*self.after.blocks})
        if (zone := self.after.time_zone) not in (None, self.was_zone):
            changed.append(f"{TIME_ZONE} {self.was_zone!r} -> {zone!r}")
        changed += [f"{sign} {blocks_text(blocks)}" for sign, blocks in (("+", more), ("-", less)) if blocks]
        return f"~ update {of}: {', '.join(changed)}"

    def as_dict(self) -> dict[str, Any]:
        """The step for ``--json``."""
        kind = "create" if self.before is None else "delete" if self.after is None else "update"
        return {"change": kind, "vrf": self.vrf, "site": self.name, "description": self.describe()}


@dataclass(frozen=True, slots=True, kw_only=True)
class VrfPlan:
    """All steps, and what they leave: ``sites`` counts those given, ``known`` the places that the VRFs have now.

    ``left`` knows of each VRF which sites stay as others made them. ``notes`` is what a person should know of sites.
    """

    changes: tuple[VrfChange, ...]
    sites: int
    known: int
    known_blocks: int
    untouched: tuple[str, ...]
    conflicts: tuple[Conflict, ...] = ()
    left: tuple[Since, ...] = ()
    notes: tuple[str, ...] = ()

    def describe(self) -> list[str]:
        """The counts in a line or two."""
        new = sum(change.before is None for change in self.changes)
        gone = sum(change.after is None for change in self.changes)
        told = f"{new} to create, {len(self.changes) - new - gone} to change, {gone} of {self.known} to delete"
        lines = [f"sites of VRFs: {self.sites} ({told})"]
        if self.untouched:
            lines.append(f"VRFs that are not named stay as they are: {', '.join(self.untouched)}")
        return lines

    def reasons_to_hold(self, settings: Settings) -> list[str]:
        """The reasons for which a person must look first, a sentence each; empty if it may be made."""
        gone = [change.before for change in self.changes if change.after is None and change.before is not None]
        kept = {
            (change.vrf, block) for change in self.changes if change.after is not None for block in change.after.blocks
        }
        lost = sum(
            (change.vrf, block) not in kept
            for change in self.changes
            if change.before is not None
            for block in change.before.ipblocks
        )
        reasons = []
        for what, number, of in (("sites", len(gone), self.known), ("networks", lost, self.known_blocks)):
            many = number > settings.guard_sites_gone and number > settings.guard_sites_share * of
            if many or (number == of and number > 1):
                which = f"all {of}" if number == of else f"{number} of {of}"
                reasons.append(f"{which} {what} of these VRFs would be gone ({number / of:.0%})")
        return reasons


def by_vrf(sites: Sequence[Site], vrf: str | None) -> dict[str, list[Site]]:
    """The sites of each VRF, "" for the global table; those that name none are of ``vrf``, if there is one."""
    found: dict[str, list[Site]] = {}
    for site in sites:
        found.setdefault(site.vrf or vrf or "", []).append(site)
    return found


def plan_vrfs(
    editor: Editor, sites: Mapping[str, Sequence[Site]], problems: Problems, keep: Keep | None = None
) -> VrfPlan:
    """The steps that `apply_vrfs` would make; nothing is changed. ``sites`` are by VRF.

    ``keep`` says of which sites that others changed since what they did stays; if it is None, the file has the last
    word on all.

    :raises DataFileError: if a site cannot be made: names the file, the line and the site of each
    """
    found = []
    conflicts: list[Conflict] = []
    left: list[Since] = []
    shall: list[Site] = []
    known = known_blocks = 0
    for vrf, wanted in sites.items():
        there, zones = editor.vrf_places(vrf), editor.vrf_time_zones(vrf)
        known += len(there)
        known_blocks += sum(len(place.ipblocks) for place in there.values())
        if (wrong := wrong_name(vrf)) is not None:
            problems.add(f"VRF {vrf!r:.60}: {wrong}")
        names: set[str] = set()
        owners: dict[IPBlock, Site] = {}
        wanted = [_completed(site, there.get(site.name)) for site in wanted]
        if keep is not None:
            asked = Asked(keep, conflicts, problems)
            since, wanted = editor.sessions.ask(
                lambda session: _kept(Since(session, wanted, vrf=vrf), wanted, there, zones, asked)  # noqa: B023 - now
            )
            left.append(since)
        shall += [replace(site, vrf=vrf) for site in wanted]
        for site in wanted:
            before = there.get(site.name)
            _check(site, before, names, owners, problems)
            zone = zones.get(site.name, "")
            has = None if before is None else (before.fields(), tuple(before.ipblocks), zone)
            if has != (site.fields, site.blocks, zone if site.time_zone is None else site.time_zone):
                found.append(VrfChange(vrf=vrf, name=site.name, before=before, after=site, was_zone=zone))
        found += [
            VrfChange(vrf=vrf, name=name, before=place, after=None)
            for name, place in there.items()
            if name not in names
        ]
    problems.refuse()
    return VrfPlan(
        changes=tuple(sorted(found, key=lambda change: (change.after is not None, change.vrf, change.name))),
        sites=sum(map(len, sites.values())),
        known=known,
        known_blocks=known_blocks,
        untouched=tuple(vrf for vrf in editor.vrfs() if vrf not in sites),
        conflicts=tuple(conflicts),
        left=tuple(left),
        notes=(
            *(each for of in left for each in of.left_out),
            *notes_of(shall, [f"{name} of the VRF {of.vrf}" for of in left for name in of.again]),
        ),
    )


def _completed(site: Site, before: Geolocation | None) -> Site:
    if before is None or not site.unsaid:
        return site
    known = before.fields()
    return replace(site, fields={**site.fields, **{name: known[name] for name in site.unsaid}})


def _kept(
    since: Since, sites: Sequence[Site], there: Mapping[str, Geolocation], zones: Mapping[str, str], asked: Asked
) -> tuple[Since, list[Site]]:
    """What was asked, and the sites with what others changed of them since the file was made, if that shall be kept."""
    kept: list[Site] = []
    for site in sites:
        place = there.get(site.name)
        if not since.stays(asked, site, place, called=(site.name, zones.get(site.name, ""))):
            kept.append(site)
        elif place is not None:
            kept.append(site.as_is(place))
    absent = there.keys() - {site.name for site in sites}
    kept += [
        Site.of(name, there[name], vrf=since.vrf)
        for name in sorted(absent)
        if since.stays_absent(asked, name, there[name])
    ]
    return since, kept


def _check(
    site: Site, before: Geolocation | None, names: set[str], owners: dict[IPBlock, Site], problems: Problems
) -> None:
    try:
        meant_fields(site.fields, None if before is None else before.fields(), bare=True)
    except EditError as error:
        problems.add(site.where.problem("its fields cannot be", str(error)))
    if site.name in names:
        problems.add(site.where.problem("a name is there twice", "another site of this VRF has this name", "name"))
    names.add(site.name)
    for block in site.blocks:
        owner = owners.setdefault(block, site)
        if owner is not site:
            told = f"{block_text(block)} belongs to site {owner.name!r}{owner.where.at()} of this VRF too"
            problems.add(site.where.problem("a block belongs to two sites", told, "blocks"))


def apply_vrfs(
    editor: Editor,
    sites: Mapping[str, Sequence[Site]],
    *,
    file: str,
    problems: Problems,
    guard: Settings | None = None,
    keep: Keep | None = None,
) -> VrfPlan:
    """Make the places of these VRFs those that are given, all of it in one transaction, or nothing.

    ``guard`` are the settings that say how much may go; None if anything may. ``keep`` is as in `plan_vrfs`.

    With problems that wait for the other part of the file nothing is made.

    :raises DataFileError: if a site cannot be made; nothing was changed
    :raises ChangedSinceError: if others changed sites, and ``keep`` does not say what stays; nothing was changed
    :raises TooMuchGoneError: if more would be gone than the guard allows; nothing was changed
    """
    with acting(applying(file, keep)), editor.sessions.transaction() as session:
        plan = plan_vrfs(editor, sites, problems, keep)
        if problems:
            return plan  # the other part of the file is refused with them
        require_kept(plan.conflicts, file)
        reasons = [] if guard is None else plan.reasons_to_hold(guard)
        if reasons:
            raise TooMuchGoneError(
                f"{file}: {'; '.join(reasons)}. Is it right? `geolookup custom plan` shows what would change "
                f"({count(len(plan.changes), 'change')}). If it is meant, apply it with --accept. Nothing was changed"
            )
        for change in plan.changes:
            if change.after is None:
                session.vrfs.put(change.vrf, change.name, None)
            else:
                fields = checked_fields(change.after.fields, bare=True)
                content = Content(values_of(fields), frozenset(change.after.blocks))
                after = change.after
                session.vrfs.put(change.vrf, change.name, content, time_zone=after.time_zone)
        for since in plan.left:
            since.note_apply({}, adds=keep is not None and keep.absent)
        for vrf in sites.keys() - {since.vrf for since in plan.left}:
            session.steps.note_apply(vrf)
    return plan


def export_vrf(editor: Editor, vrf: str) -> list[Site]:
    """Every place of a VRF as a site, sorted by name."""
    made_at = editor.sessions.ask(lambda session: session.steps.newest_moment()) or now_text()
    zones = editor.vrf_time_zones(vrf)
    found = [
        Site(
            name=name,
            fields=place.fields(),
            blocks=tuple(sorted(place.ipblocks)),
            vrf=vrf,
            time_zone=zones.get(name),
            made_from=digest_of(content_of(place)),
            made_at=made_at,
        )
        for name, place in editor.vrf_places(vrf).items()
    ]
    return sorted(found, key=lambda site: (site.name.casefold(), site.name))
