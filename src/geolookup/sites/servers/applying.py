"""Making the sites of this machine those of a server: shown as a plan, or made; and what each night does.

What the server had the last time that it was applied is kept in edits.db: so a token that sees less is noticed, and the
VRFs that are gone there are emptied here. What waits for a person is kept there, too.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

import msgspec

from geolookup.base.garbage import rarely_collected
from geolookup.base.text import count
from geolookup.model.errors import ChangedSinceError, TooMuchGoneError, WideBlockError
from geolookup.settings.table import Settings
from geolookup.sites.applying import Planned, apply_all, plan_all
from geolookup.sites.servers.server import ServerSites, read_server
from geolookup.sites.since import Keep
from geolookup.sites.site import Problems
from geolookup.sites.vrfs import by_vrf
from geolookup.state.editor import Editor
from geolookup.state.edits.local import SITES_WAIT
from geolookup.sync.sites import SitesRun

_NOTHING_SAID: Final = Keep(sites={})
#: The name under which edits.db keeps what was there the last time.
_LAST: Final = "sites_server"


class _Last(msgspec.Struct):
    """What a server had when it was applied last: the rows of each list, and the VRFs that had sites.

    ``digest`` is of all that its sites were, and ``edits`` the counter of edits after it.
    """

    url: str = ""
    counts: dict[str, int] = {}
    vrfs: list[str] = []
    digest: str = ""
    edits: int = -1


@rarely_collected()
def plan_server(
    editor: Editor,
    found: ServerSites,
    settings: Settings,
    problems: Problems,
    *,
    prune_all: bool = False,
    takes: Mapping[str, int | None] | None = None,
    keep: Keep = _NOTHING_SAID,
) -> Planned:
    """The steps that `apply_server` would make; nothing is changed. ``keep`` is as in `plan_sites`.

    :raises DataFileError: if sites cannot be made as they are there: names each
    """
    last = _last(editor)
    plan = plan_all(editor, _parts(found, last), settings, problems, prune_all=prune_all, takes=takes, keep=keep)
    return replace(plan, held=(*_fewer(last, found, settings), *plan.held))


@rarely_collected()
def apply_server(
    editor: Editor,
    found: ServerSites,
    settings: Settings,
    problems: Problems,
    *,
    guarded: bool,
    prune_all: bool = False,
    takes: Mapping[str, int | None] | None = None,
    keep: Keep = _NOTHING_SAID,
) -> Planned:
    """Make the sites those of the server, all in one transaction, or nothing.

    :raises DataFileError: if sites cannot be made as they are there; nothing was changed
    :raises ChangedSinceError: if somebody changed sites here, and ``keep`` does not say what stays; nothing was changed
    :raises TooMuchGoneError: if it is ``guarded``, and more would be gone, or the token sees less, than the settings
        allow; nothing was changed
    :raises WideBlockError: if a site would get very many public addresses, and it is guarded; nothing was changed
    """
    guard = settings if guarded else None
    editor.sessions.back_up()
    with editor.transaction():
        last = _last(editor)
        if guarded and (fewer := _fewer(last, found, settings)):
            raise TooMuchGoneError(
                f"{found.origin}: {'; '.join(fewer)}. If it is meant, apply it with --accept. Nothing was changed"
            )
        parts = _parts(found, last)
        made = apply_all(
            editor,
            parts,
            file=found.origin,
            guard=guard,
            problems=problems,
            prune_all=prune_all,
            takes=takes,
            keep=keep,
        )
        kept = _Last(
            url=found.origin,
            counts=dict(found.counts),
            vrfs=sorted({site.vrf for site in found.sites if site.vrf}),
        )
        with editor.sessions.transaction() as session:
            kept.digest, kept.edits = _digest(found), session.outbox.head
            session.outbox.keep_setting(_LAST, msgspec.json.encode(kept).decode())
            session.outbox.keep_setting(SITES_WAIT, "")
            for vrf in filter(None, parts):  # all of this is one apply: what it changed elsewhere is no news to a VRF
                session.steps.note_apply(vrf)
    return made


def _last(editor: Editor) -> _Last:
    kept = editor.sessions.ask(lambda session: session.outbox.setting(_LAST))
    return msgspec.json.decode(kept, type=_Last) if kept else _Last()


def _is_as_applied(editor: Editor, found: ServerSites) -> bool:
    """True if the server has what was applied last, and nothing was edited here since: there is nothing to plan."""
    last, head = editor.sessions.ask(lambda session: (_last(editor), session.outbox.head))
    return (last.url, last.edits) == (found.origin, head) and last.digest == _digest(found)


def _digest(found: ServerSites) -> str:
    """One hash of all sites with their blocks, and of the rows of each list."""
    said = hashlib.sha256(msgspec.json.encode(found.counts, order="sorted"))
    for site in found.sites:
        blocks = [(block.family, str(block.first), str(block.last)) for block in site.blocks]
        said.update(msgspec.json.encode((site.vrf, site.name, site.fields, site.time_zone, blocks)))
    return said.hexdigest()


def _parts(found: ServerSites, last: _Last) -> dict[str, list]:  # type: ignore[type-arg]
    """The sites by VRF, also of those that had some the last time, and of the global table, which is complete."""
    return {"": [], **{vrf: [] for vrf in last.vrfs if last.url == found.origin}, **by_vrf(found.sites, None)}


def _fewer(last: _Last, found: ServerSites, settings: Settings) -> list[str]:
    """The lists that lack more than the guard allows of what they had the last time."""
    if last.url != found.origin:
        return []
    told = []
    for name, before in last.counts.items():
        fewer = before - found.counts.get(name, 0)
        many = fewer > settings.guard_sites_gone and fewer > settings.guard_sites_share * before
        if name in found.counts and (many or (fewer == before and fewer > 1)):
            told.append(f"{fewer} of {before} {name} that were there the last time are not seen: {found.unseen}")
    return told


def run_server(editor: Editor, settings: Settings) -> SitesRun:
    """What `refresh` does each night: read the sites of the server, and plan or apply them, as the settings say.

    What waits for a person is kept for the status, until it is applied, or a later night has nothing to wait for.

    :raises UpstreamError: if the server cannot be read whole; nothing was changed
    :raises DataFileError: if sites cannot be made as they are there; nothing was changed
    """
    problems = Problems()
    found = read_server(settings, problems)
    kind = settings.sites.kind
    look, make = f"geolookup custom plan --from {kind}", f"geolookup custom apply --from {kind}"
    if not problems.all and _is_as_applied(editor, found):
        notes, sites = tuple(problems.said), len(found.sites)
        run = SitesRun(
            outcome="unchanged", url=found.origin, sites=sites, changes=0, plan=look, apply=make, notes=notes
        )
        _keep_waiting(editor, run)
        return run
    plan, outcome = _planned_or_applied(editor, found, settings, problems)
    changed = [f"{conflict.describe()}: say what stays, with --keep" for conflict in plan.conflicts]
    run = SitesRun(
        outcome=outcome,
        url=found.origin,
        sites=len(found.sites),
        changes=plan.number,
        reasons=(*plan.held, *changed),
        notes=(*problems.said, *plan.notes),
        plan=look,
        apply=f"{make}{' --accept' if plan.held else ''}",
    )
    _keep_waiting(editor, run)
    return run


def _planned_or_applied(
    editor: Editor, found: ServerSites, settings: Settings, problems: Problems
) -> tuple[Planned, Literal["applied", "unchanged", "planned", "held"]]:
    if settings.sites.apply == "apply":
        try:
            made = apply_server(editor, found, settings, problems, guarded=True)
        except (ChangedSinceError, TooMuchGoneError, WideBlockError):
            pass  # which the plan says, too
        else:
            return made, "applied" if made.number else "unchanged"
    plan = plan_server(editor, found, settings, problems)
    return plan, "held" if plan.held or plan.conflicts else "planned" if plan.number else "unchanged"


def _keep_waiting(editor: Editor, run: SitesRun) -> None:
    """Keep in words what waits for a person, "" for nothing."""
    why = f": {'; '.join(run.reasons)}" if run.reasons else ""
    words = f"{count(run.changes, 'change')} of {run.url}{why}; `{run.apply}` makes them" if run.waits else ""
    if (editor.sessions.ask(lambda session: session.outbox.setting(SITES_WAIT)) or "") != words:
        with editor.sessions.transaction() as session:
            session.outbox.keep_setting(SITES_WAIT, words)
