"""Home, above the search field: what is served, how many sites, the last run, and what waits for a person."""

from typing import Any, NamedTuple

from geolookup.console import wording
from geolookup.console.console import Console
from geolookup.model.reports import Status
from geolookup.settings.times import shown
from geolookup.state.generations.recovery import served_since
from geolookup.state.publishing.catalogue import Generations, KeptGeneration
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.words import moved_most

#: The share of answers with another country from which on a person should look, also where nothing is held for it.
_MANY_MOVED = 0.1


class Trouble(NamedTuple):
    """A problem in words, the words of the link to its remedy, and where that leads."""

    text: str
    remedy: str
    path: str


def home(console: Console) -> dict[str, Any] | None:
    """The state at a glance; None if nothing was published yet.

    ``served`` are the sources that answer, ``of_vrfs`` the sites of VRFs, ``troubles`` the problems.
    """
    if console.directory().current_or_none() is None:
        return None
    status, layer, directory = console.geo().status(), console.layer(), console.directory()
    kept = Generations(directory).kept() if directory.require_current().refused else []
    failed, rolled_back = next(iter(status.failures), None), _rolled_back(status)
    return {
        "served": [source for source in status.sources if source.serves],
        "sites": len(layer.every),
        "of_vrfs": len(layer.of_vrfs),
        "to_send": layer.pending,
        "decide": layer.decide,
        "age_s": status.age_s,
        "version": status.generation,
        "answers_since": served_since(directory.require_current().served, status.generation) or status.published_at,
        "held": any(source.held for source in status.sources),
        "failed_at": None if failed is None else failed.at,
        "troubles": [
            *_troubles(status, kept, directory.edits.rolled_back()),
            *([] if any(each.held for each in kept) else rolled_back),
            *([] if rolled_back else _moved(directory)),  # a person has just looked at the versions
            *_of_sites(layer.decide, len(layer.findings)),
        ],
    }


def _troubles(
    status: Status, kept: list[KeptGeneration], rolled_back: dict[int, tuple[str, str, str]]
) -> list[Trouble]:
    found = (
        [] if status.problem is None else [Trouble(text=status.problem, remedy="See the versions", path="/generations")]
    )
    for failure in status.failures:
        remedy, path = ("Send again", "/outbox") if failure.stage == "push" else ("Update now", "/sources")
        found.append(Trouble(text=f"The last {failure.run} failed: {failure.message}", remedy=remedy, path=path))
    refused = {each.digest for each in kept if each.held and each.refused}
    for source in status.sources:
        if source.held:
            told, remedy = wording.reasons(source.problem or "much would change"), "Look, and decide"
            text = f"A new version of {source.name} was not published: {told}"
            if source.held in refused:
                who = max(rolled_back.values(), key=lambda each: each[1], default=("somebody",))[0]
                text = f"{source.name} still has what {who} rolled back: nothing has to be done until it is corrected"
                remedy = "Look"
            found.append(Trouble(text=text, remedy=remedy, path="/generations#held"))
        elif source.problem is not None:
            found.append(Trouble(text=f"{source.name}: {source.problem}", remedy="See the sources", path="/sources"))
        if (source.overdue or source.stale) and (source.held or source.problem is None):
            why = (
                "must be replaced by a newer version, by its licence"
                if source.overdue
                else "is older than it should be"
            )
            found.append(Trouble(text=f"{source.name} {why}", remedy="Update now", path="/sources"))
    return found


def _rolled_back(status: Status) -> list[Trouble]:
    """The newer version that was rolled back, if an older one answers."""
    served, newer = status.generation, max(status.rolled_back, default=0)
    if newer <= served:
        return []
    text = f"Version {served} answers: version {newer} was rolled back, and an update that repeats it asks first"
    return [Trouble(text=text, remedy="See the versions", path="/generations")]


def _moved(directory: StateDirectory) -> list[Trouble]:
    """The share of the answers that have another country since the version that is served, if it is large."""
    served = directory.require_current()
    difference = directory.report(served.generation)["report"].get("difference") or {}
    changed = difference.get("addresses_whose_country_changed") or {}
    moved = int(changed.get("ipv4", 0))
    answered = int((served.published.get("rows") or {}).get("addresses_v4", 0))
    if not answered or moved < _MANY_MOVED * answered:
        return []
    share = f"{min(moved / answered, 1):.0%}"
    accepted = directory.edits.accepted().get(served.generation)
    by = f", which {accepted[0]} published at {shown(accepted[1])}," if accepted else ""
    text = (
        f"Version {served.generation}{by} gave {share} of the IPv4 addresses with an answer another country, "
        f"or a first one{moved_most(changed)}"
    )
    return [Trouble(text=text, remedy="Look whether that is right", path="/generations/diff?look=only")]


def _of_sites(decide: int, findings: int) -> list[Trouble]:
    found = []
    if decide:
        text = f"{decide} {'change of a site waits' if decide == 1 else 'changes of sites wait'} for your decision"
        found.append(Trouble(text=text, remedy="Decide", path="/outbox"))
    if findings:
        text = f"{findings} {'problem' if findings == 1 else 'problems'} of your sites' networks"
        found.append(Trouble(text=text, remedy="See the sites", path="/custom?show=doubtful"))
    return found
