"""The status of an open GeoLookup."""

import contextlib
from collections.abc import Iterator
from time import monotonic
from typing import Any

from geolookup.lookup.follow import Freshness
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.errors import StateBusyError, StateDamagedError, StateUnreadableError, StateUnwritableError
from geolookup.model.reports import SourceStatus, Status
from geolookup.state.base.candidate import read_report
from geolookup.state.base.clock import age_s
from geolookup.state.base.current import Current
from geolookup.state.base.failures import failures
from geolookup.state.base.parts import SERVICE, has_service, part_of, parts_of, snapshot_path
from geolookup.state.base.sqlite import GLANCE_WAIT_S
from geolookup.state.edits.local import SITES_WAIT
from geolookup.state.edits.outbox.row import PERSON_STATES
from geolookup.state.generations.licences import overdue
from geolookup.state.generations.rolled_back import in_effect
from geolookup.state.publishing.directory import StateDirectory

_BEHIND = (
    "edits are kept that lookups do not show: `geolookup custom list` publishes them, or says what stands in the way"
)


def describe(
    snapshot: Snapshot,
    home: str,
    freshness: Freshness,
    problem: tuple[str, float] | None,
    *,
    temporary: bool,
) -> Status:
    """The status; ``problem`` is why newer data are not served, and since when by the monotonic clock."""
    current = snapshot.current
    directory = StateDirectory(home)
    rows = current.published["rows"]
    pending: int | None = None
    waiting = 0
    sites_wait: str | None = None
    try:
        if directory.edits.is_of_others():
            pending = None
        else:
            pending = directory.local.pending(wait_s=GLANCE_WAIT_S) if has_service(current.published) else 0
            waiting = directory.local.pending(*PERSON_STATES, wait_s=GLANCE_WAIT_S) if pending else 0
            sites_wait = directory.local.setting(SITES_WAIT, wait_s=GLANCE_WAIT_S) or None
            if problem is None and _is_behind(directory, current):
                problem = _BEHIND, monotonic()
    except (StateBusyError, StateDamagedError, StateUnreadableError, StateUnwritableError) as error:
        problem = problem or (f"the pending edits cannot be counted: {error}", monotonic())
    base, overlay = snapshot.base.reader, snapshot.custom.reader
    return Status(
        home=home,
        sequence=current.sequence,
        generation=current.generation,
        overlay=current.overlay,
        source=current.source,
        url=current.published.get("url"),
        digest=current.digest,
        published_at=current.published_at,
        checked_at=current.checked_at,
        dated=current.dated,
        age_s=age_s(current.confirmed),
        max_age_s=freshness.max_age_s,
        stale=freshness.is_stale(current),
        stale_rule=freshness.rule,
        geolocations=rows["geolocations"],
        custom_geolocations=overlay.location_count,
        blocks=rows["blocks"],
        network_blocks=int(rows.get("network_blocks", 0)),
        segments=base.segment_count_v4 + base.segment_count_v6,
        overlay_segments=overlay.segment_count_v4 + overlay.segment_count_v6,
        pending_edits=pending,
        pinned=current.pins,
        rolled_back=tuple(each.generation for each in in_effect(directory.home, current)),
        held=_held(directory),
        sites_wait=sites_wait,
        waiting_edits=waiting,
        problem=None if problem is None else problem[0],
        problem_since_s=None if problem is None else monotonic() - problem[1],
        temporary=temporary,
        reader="python" if snapshot.fast is None else "native",
        sources=tuple(_sources(directory, current, freshness)),
        failures=failures(home),
    )


def _is_behind(directory: StateDirectory, current: Current) -> bool:
    """True if edits are kept that nothing published has, nor what is under way now shall publish at its end."""
    newest = directory.edits.head(wait_s=GLANCE_WAIT_S)
    return newest > current.edits and not directory.locks.are_taken() and newest > directory.require_current().edits


def _sources(directory: StateDirectory, current: Current, freshness: Freshness) -> Iterator[SourceStatus]:
    parts = {part.name: part for part in parts_of(current.published)}
    known = {str(entry["name"]): entry for entry in current.sources}
    held = {}
    for name, candidate in directory.holding.candidates().items():
        with contextlib.suppress(StateDamagedError, StateUnreadableError):
            held[name] = str(candidate.document()["published"]["digest"])
    limits = {name or next(iter(parts)): (since, limit) for name, since, limit in freshness.limits(current)}
    answers = current.published.get("answers", {})
    late = overdue(directory.home, current)
    for name in (*parts, *(name for name in known if name not in parts)):
        entry = known.get(name, {})
        newest = part_of({"kind": "", "snapshot": 0, "digest": "", **entry}, name=name)
        part = parts.get(name, newest)
        rows: dict[str, Any] = dict(entry.get("rows", {}))  # those of a reader came with its entry
        with contextlib.suppress(StateDamagedError, StateUnreadableError):
            if part.snapshot:
                rows = read_report(snapshot_path(directory.home, part.snapshot))["published"]["rows"]
        since, limit = limits.get(name, (str(entry.get("checked_at", "")), freshness.max_age_s))
        counts = answers.get(name)
        if counts is None and not part.has_places:
            counts = (0, 0)
        if counts is None:
            counts = (rows.get("addresses_v4", 0), rows.get("addresses_v6", 0)) if name in parts else (0, 0)
        of_networks = current.published.get("network_answers", {}).get(name, (0, 0))
        yield SourceStatus(
            name=name,
            kind=part.kind,
            location=str(entry.get("location") or (part.kind == SERVICE and current.published.get("url")) or ""),
            serves=name in parts or name in current.serves,
            snapshot=part.snapshot,
            digest=part.digest,
            dated=entry.get("dated") or None,
            checked_at=str(entry.get("checked_at", current.checked_at)),
            age_s=age_s(since),
            max_age_s=limit,
            max_data_age_s=entry.get("max_data_age_s"),
            stale=limit is not None and age_s(since) > limit,
            geolocations=int(rows.get("geolocations", 0)),
            blocks=int(rows.get("blocks", 0)),
            masks=int(rows.get("masks", 0)),
            addresses_v4=int(counts[0]),
            addresses_v6=int(counts[1]),
            licence=str(entry.get("licence") or ""),
            attribution=str(entry.get("attribution") or ""),
            keep_days=entry.get("keep_days"),
            redistribute=entry.get("redistribute", True) is not False,
            held=held.get(name),
            problem=entry.get("problem"),
            problem_since=entry.get("since"),
            overdue=name in late,
            layer=part.layer,
            network_blocks=int(rows.get("network_blocks", 0)),
            network_addresses_v4=int(of_networks[0]),
            network_addresses_v6=int(of_networks[1]),
        )


def _held(directory: StateDirectory) -> str | None:
    """The digest of what is held, a source's or the stack's, or None: another process may publish, and so drop it."""
    held = directory.held()
    with contextlib.suppress(StateDamagedError, StateUnreadableError):
        if held is not None:
            return str(held.document()["published"]["digest"])
    stack = directory.holding.stack()
    return None if stack is None else str(stack["digest"])
