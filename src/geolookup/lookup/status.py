"""What an open GeoLookup serves, as its status says it."""

from time import monotonic

from geolookup.errors import StateBusyError, StateDamagedError, StateUnwritableError
from geolookup.lookup.freshness import Freshness
from geolookup.lookup.snapshot import Snapshot
from geolookup.model import Status
from geolookup.state.clock import age_s
from geolookup.state.directory import StateDirectory

#: A status is for now, and waits for nobody; but for the moment that a commit takes.
_COMMIT_S = 0.2


def describe(
    snapshot: Snapshot,
    home: str,
    freshness: Freshness,
    problem: tuple[str, float] | None,
    *,
    temporary: bool,
) -> Status:
    """The status; ``problem`` is what stands in the way of anything newer, and since when by the monotonic clock."""
    current = snapshot.current
    directory = StateDirectory(home)
    rows = current.published["rows"]
    pending: int | None = None
    try:
        pending = directory.local.pending(wait_s=_COMMIT_S)
    except (StateBusyError, StateDamagedError, StateUnwritableError) as error:
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
        age_s=age_s(current.dated),
        max_age_s=freshness.max_age_s,
        stale=freshness.is_stale(current),
        stale_rule=freshness.rule,
        geolocations=rows["geolocations"],
        custom_geolocations=overlay.location_count,
        blocks=rows["blocks"],
        segments=base.segment_count_v4 + base.segment_count_v6,
        overlay_segments=overlay.segment_count_v4 + overlay.segment_count_v6,
        pending_edits=pending,
        pinned=current.pins,
        held=_held(directory),
        problem=None if problem is None else problem[0],
        problem_since_s=None if problem is None else monotonic() - problem[1],
        temporary=temporary,
        reader="python" if snapshot.fast is None else "native",
    )


def _held(directory: StateDirectory) -> str | None:
    """The digest of what is held, or None: another process may publish, and so drop it, at any moment."""
    held = directory.held()
    try:
        return None if held is None else str(held.document()["published"]["digest"])
    except StateDamagedError:
        return None
