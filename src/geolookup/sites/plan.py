"""What it takes to make the custom layer what a file of sites says; shown as a plan, or made as edits."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, assert_never

from geolookup.errors import EditError
from geolookup.fields import DEGREES, FIELD_NAMES, UNKNOWN
from geolookup.model import Geolocation, IPBlock
from geolookup.sites.site import Site, block_text
from geolookup.state.edits.editor import Editor
from geolookup.state.edits.fields import checked_fields
from geolookup.state.edits.layer import Laid
from geolookup.sync.push.likeness import may_be_stored


class Kind(StrEnum):
    """The kind of a step, in the order in which steps are made: blocks are freed before others take them."""

    CLAIM = "claim"
    DELETE = "delete"
    REMOVE_BLOCK = "remove_block"
    CLEAR_BLOCKS = "clear_blocks"
    CREATE = "create"
    UPDATE = "update"
    ADD_BLOCK = "add_block"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One step. ``locid`` is None for a geolocation that is still to be created.

    ``site`` is the name in the file; for a delete the name it had in an earlier file, None if it never had one. A claim
    gives a name to an existing geolocation (``was``: its name until now), and edits nothing. ``fields`` are all of a
    create's or update's, ``before`` those of an update or delete; ``block`` the one added or removed.
    """

    kind: Kind
    site: str | None
    locid: int | None
    fields: dict[str, Any] | None = None
    before: dict[str, Any] | None = None
    block: IPBlock | None = None
    was: str | None = None

    def describe(self) -> str:
        """The step in words."""
        site = self.site or "geolocation"
        target = site if self.locid is None else f"{site} ({self.locid})"
        match self.kind:
            case Kind.CLAIM:
                return f"= {target} is there already" + (f", named {self.was} until now" if self.was else "")
            case Kind.CREATE:
                return f"+ create {target}"
            case Kind.UPDATE:
                assert self.fields is not None
                assert self.before is not None
                changed = (f"{name} {self.before[name]!r} -> {self.fields[name]!r}" for name in self._changed())
                return f"~ update {target}: {', '.join(changed)}"
            case Kind.DELETE:
                return f"- delete {target}"
            case Kind.CLEAR_BLOCKS:
                return f"- remove all blocks of {target}"
            case Kind.ADD_BLOCK:
                assert self.block is not None
                return f"+ add {block_text(self.block)} to {target}"
            case Kind.REMOVE_BLOCK:
                assert self.block is not None
                return f"- remove {block_text(self.block)} from {target}"
            case _:
                assert_never(self.kind)

    def as_dict(self) -> dict[str, Any]:
        """The step for ``--json``."""
        found: dict[str, Any] = {"change": self.kind, "site": self.site, "locid": self.locid}
        if self.kind is Kind.CREATE:
            found["fields"] = self.fields
        if self.kind is Kind.UPDATE:
            assert self.fields is not None
            assert self.before is not None
            found["fields"] = {
                name: {"before": self.before[name], "after": self.fields[name]} for name in self._changed()
            }
        if self.block is not None:
            found["block"] = {"startip": self.block.startip, "endip": self.block.endip}
        if self.kind is Kind.CLAIM:
            found["was"] = self.was
        return {**found, "description": self.describe()}

    def _changed(self) -> list[str]:
        assert self.fields is not None
        assert self.before is not None
        return [name for name in FIELD_NAMES if self.fields[name] != self.before[name]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SitesPlan:
    """All steps, in the order in which they are made: blocks are freed before others take them.

    ``names`` are the geolocations that the sites have or get; those still to be created are missing. ``not_kept`` names
    values that the service stores in another form than the file: they are not sent again.
    """

    changes: tuple[Change, ...]
    names: dict[str, int] = field(default_factory=dict)
    not_kept: tuple[str, ...] = ()

    @property
    def edits(self) -> tuple[Change, ...]:
        """The steps that change anything but names."""
        return tuple(change for change in self.changes if change.kind is not Kind.CLAIM)


def plan_sites(editor: Editor, sites: list[Site], *, prune_all: bool = False) -> SitesPlan:
    """The steps that `apply_sites` would make; nothing is changed.

    :raises DataFileError: if a site cannot be made as the file says: names the file, the line and the site
    """
    with editor.rehearsal():
        return _planned(editor, sites, prune_all=prune_all)


def _planned(editor: Editor, sites: list[Site], *, prune_all: bool) -> SitesPlan:
    layer = {laid.place.locid: laid.place for laid in editor.custom()}
    kept = {name: locid for name, locid in editor.sites().items() if locid in layer}
    return _plan(layer, kept, sites, editor.stored(), prune_all=prune_all)


def apply_sites(editor: Editor, sites: list[Site], *, file: str, prune_all: bool = False) -> SitesPlan:
    """Make the custom layer match the file, all of it in one transaction, or nothing.

    A geolocation that an earlier file named and this one does not is deleted; with ``prune_all`` every other custom
    one too. The result is the plan as it was made, new locids included; applied again, it has no changes.

    :raises DataFileError: if a site cannot be made as the file says; nothing was changed
    """
    with editor.transaction():
        plan = _planned(editor, sites, prune_all=prune_all)
        names = dict(plan.names)
        where = {site.name: site.where for site in sites}
        made = []
        for step in plan.changes:
            try:
                change = step if step.locid is not None else replace(step, locid=names.get(step.site or ""))
                made.append(_make(editor, change, names))
            except EditError as error:
                if step.site not in where:
                    raise
                raise where[step.site].error(str(error)) from error
        editor.keep_sites(names, file=file)
    return SitesPlan(changes=tuple(made), names=names, not_kept=plan.not_kept)


def preview_sites(editor: Editor, sites: list[Site], *, prune_all: bool = False) -> list[Laid]:
    """The custom layer as `apply_sites` would leave it; nothing is changed.

    A rehearsal makes it with the same edits, so it cannot differ from what they would make.

    :raises DataFileError: as `apply_sites` does
    """
    with editor.rehearsal():
        apply_sites(editor, sites, file="", prune_all=prune_all)
        return editor.custom()


def _make(editor: Editor, change: Change, names: dict[str, int]) -> Change:
    if change.kind is Kind.CREATE:
        assert change.site is not None
        assert change.fields is not None
        names[change.site] = editor.create(**change.fields)
        return replace(change, locid=names[change.site])
    assert change.locid is not None
    match change.kind:
        case Kind.CLAIM:
            pass
        case Kind.UPDATE:
            assert change.fields is not None
            editor.update(change.locid, **change.fields)
        case Kind.DELETE:
            editor.delete(change.locid)
        case Kind.CLEAR_BLOCKS:
            editor.clear_blocks(change.locid)
        case Kind.ADD_BLOCK:
            assert change.block is not None
            editor.add_block(change.locid, change.block.startip, change.block.endip)
        case Kind.REMOVE_BLOCK:
            assert change.block is not None
            editor.remove_block(change.locid, change.block.startip, change.block.endip)
        case _:
            assert_never(change.kind)
    return change


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


def _plan(
    layer: Mapping[int, Geolocation],
    kept: Mapping[str, int],
    sites: list[Site],
    stored: Mapping[int, tuple[dict[str, Any], dict[str, Any]]],
    *,
    prune_all: bool,
) -> SitesPlan:
    not_kept: list[str] = []
    in_file = {site.name for site in sites}
    names = {name: locid for name, locid in kept.items() if name in in_file}
    former = {locid: name for name, locid in kept.items() if name not in in_file}
    claims = _claims(layer, names, [site for site in sites if site.name not in names])
    steps: dict[Kind, list[Change]] = {
        Kind.CLAIM: [
            Change(kind=Kind.CLAIM, site=name, locid=locid, was=former.get(locid)) for name, locid in claims.items()
        ]
    }
    names |= claims
    ours = set(names.values())
    doomed = [locid for locid in layer if locid not in ours and (prune_all or locid in former)]

    def add(kind: Kind, site: str | None, locid: int | None, **members: Any) -> None:
        steps.setdefault(kind, []).append(Change(kind=kind, site=site, locid=locid, **members))

    for locid in doomed:
        add(Kind.DELETE, former.get(locid), locid, before=layer[locid].fields())
    others = {
        block: locid
        for locid, place in layer.items()
        if locid not in ours and locid not in doomed
        for block in place.ipblocks
    }
    for site in sites:
        owned = names.get(site.name)
        place = None if owned is None else layer[owned]
        if place is None:
            add(Kind.CREATE, site.name, None, fields=_fields(site))
        elif place.fields() != site.fields and stored.get(place.locid) == (site.fields, place.fields()):
            changed = [name for name, value in place.fields().items() if value != site.fields[name]]
            not_kept.append(f"the service does not keep {', '.join(changed)} of {site.name} ({owned}) as the file says")
        elif place.fields() != site.fields:
            add(Kind.UPDATE, site.name, owned, fields=_fields(site), before=place.fields())
        has, wanted = set(place.ipblocks if place else ()), set(site.blocks)
        if len(has) > 1 and not has & wanted:
            add(Kind.CLEAR_BLOCKS, site.name, owned)
        else:
            for block in sorted(has - wanted):
                add(Kind.REMOVE_BLOCK, site.name, owned, block=block)
        for block in sorted(wanted - has):
            if block in others:
                text = block_text(block)
                raise site.where.error(
                    f"{text} belongs to custom geolocation {others[block]}, which no file of sites named: "
                    "remove it there first, or name that geolocation in the file",
                    "blocks",
                    text,
                )
            add(Kind.ADD_BLOCK, site.name, owned, block=block)
    return SitesPlan(
        changes=tuple(change for kind in Kind for change in steps.get(kind, ())), names=names, not_kept=tuple(not_kept)
    )


def _fields(site: Site) -> dict[str, Any]:
    """The fields as an edit takes them."""
    for name, value in site.fields.items():
        try:
            checked_fields({**UNKNOWN, **dict.fromkeys(DEGREES, 0.0), name: value})
        except EditError as error:
            raise site.where.error(str(error), name) from error
    return site.fields


def _claims(layer: Mapping[int, Geolocation], names: Mapping[str, int], unknown: list[Site]) -> dict[str, int]:
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
