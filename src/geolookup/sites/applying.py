"""Sites of the global table and of routing domains together: shown as one plan, or made in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from geolookup.settings.table import Settings
from geolookup.sites.plan import SitesPlan, apply_sites, plan_sites
from geolookup.sites.since import Conflict, Keep
from geolookup.sites.site import Problems, Site
from geolookup.sites.vrfs import VrfPlan, apply_vrfs, by_vrf, plan_vrfs
from geolookup.state.editor import Editor


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The steps that make the sites what was read, and the reasons for which a person must look first.

    ``given`` are the sites of the global table that were read. ``sites`` is None if all that was read is of VRFs: the
    global table stays as it is. ``vrfs`` is None if nothing is.
    """

    given: list[Site]
    sites: SitesPlan | None
    vrfs: VrfPlan | None
    held: tuple[str, ...] = ()

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """The sites that others changed since, and of which nobody says what stays."""
        return tuple(conflict for part in (self.sites, self.vrfs) if part is not None for conflict in part.conflicts)

    @property
    def number(self) -> int:
        """The number of steps, other names among them."""
        return (0 if self.sites is None else len(self.sites.edits) + self.sites.renamed) + (
            0 if self.vrfs is None else len(self.vrfs.changes)
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of sites."""
        return tuple(note for part in (self.sites, self.vrfs) if part is not None for note in part.notes)


def parts_of(editor: Editor, sites: Sequence[Site], vrf: str | None, vrf_global: str) -> dict[str, list[Site]]:
    """The sites by VRF, as `by_vrf` has them; if ``vrf_global`` was a VRF of its own before, it has none any more."""
    found = by_vrf(sites, vrf)
    if "" in found and vrf_global and editor.vrf_places(vrf_global):
        found.setdefault(vrf_global, [])
    return found


def plan_all(
    editor: Editor,
    parts: Mapping[str, Sequence[Site]],
    settings: Settings,
    problems: Problems,
    *,
    prune_all: bool = False,
    takes: Mapping[str, int | None] | None = None,
    keep: Keep | None = None,
) -> Planned:
    """The steps that `apply_all` would make; nothing is changed. ``parts`` are the sites by VRF, "" the global table.

    The rest is as in `plan_sites`. The guard of the ``settings`` says what is held.

    :raises DataFileError: if sites cannot be made as they are there: names each
    """
    sites, of_vrfs = _split(parts)
    problems.waits = sites is not None  # so that those of both parts are named at once
    vrfs = plan_vrfs(editor, of_vrfs, problems, keep) if of_vrfs else None
    problems.waits = False
    made = None
    if sites is not None:
        made = plan_sites(editor, sites, prune_all=prune_all, problems=problems, takes=takes, keep=keep)
    held = [] if made is None else made.summary.reasons_to_hold(settings)
    held += [] if vrfs is None else vrfs.reasons_to_hold(settings)
    return Planned(given=sites or [], sites=made, vrfs=vrfs, held=tuple(held))


def apply_all(
    editor: Editor,
    parts: Mapping[str, Sequence[Site]],
    *,
    file: str,
    guard: Settings | None,
    problems: Problems,
    prune_all: bool = False,
    takes: Mapping[str, int | None] | None = None,
    keep: Keep | None = None,
) -> Planned:
    """Make the sites what was read, all of it in one transaction, or nothing. All is as in `plan_all`, `apply_sites`.

    :raises DataFileError: if sites cannot be made as they are there; nothing was changed
    :raises ChangedSinceError: if others changed sites, and ``keep`` does not say what stays; nothing was changed
    :raises TooMuchGoneError: if more would be gone than the guard allows; nothing was changed
    :raises WideBlockError: if a site would get very many public addresses, and there is a guard; nothing was changed
    """
    sites, of_vrfs = _split(parts)
    editor.sessions.back_up()  # which a transaction cannot
    with editor.transaction():
        problems.waits = sites is not None  # so that those of both parts are named at once
        vrfs = apply_vrfs(editor, of_vrfs, file=file, problems=problems, guard=guard, keep=keep) if of_vrfs else None
        problems.waits = False
        made = None
        if sites is not None:
            made = apply_sites(
                editor,
                sites,
                file=file,
                prune_all=prune_all,
                guard=guard,
                problems=problems,
                takes=takes,
                keep=keep,
            )
    return Planned(given=sites or [], sites=made, vrfs=vrfs)


def _split(parts: Mapping[str, Sequence[Site]]) -> tuple[list[Site] | None, dict[str, Sequence[Site]]]:
    """The sites of the global table, None if all are of VRFs, and those of each VRF."""
    of_vrfs = {vrf: sites for vrf, sites in parts.items() if vrf}
    return (list(parts.get("", ())) if "" in parts or not of_vrfs else None), of_vrfs
