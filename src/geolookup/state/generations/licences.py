"""Snapshots that licences want destroyed: those that were superseded longer ago than their source's ``keep_days``."""

import os
from datetime import timedelta

from geolookup.model.errors import StateError
from geolookup.state.base import clock
from geolookup.state.base.candidate import read_report
from geolookup.state.base.current import Current, generation_path
from geolookup.state.base.parts import SNAPSHOTS, Part, parts_of, snapshot_path
from geolookup.state.generations.recovery import numbered


def expired(home: str, current: Current) -> dict[int, str]:
    """The kept generations that must go, pinned ones too, each with the name of the source whose licence wants it.

    What is served always stays.
    """
    stacks = _stacks(home)
    served = {part.snapshot for part in parts_of(current.published)}
    found = {}
    for number, parts in stacks.items():
        if number == current.generation:
            continue
        for part in parts:
            days = _keep_days(home, current, part)
            if part.snapshot in served or days is None:
                continue
            ended = max((_ended(current, each) for each, other in stacks.items() if part in other), default="")
            if ended and ended < clock.text_of(clock.wall() - timedelta(days=days)):
                found[number] = part.name
    return found


def overdue(home: str, current: Current) -> frozenset[str]:
    """The sources whose served snapshot a licence wants gone: there was a newer one longer ago than ``keep_days``."""
    found = set()
    for part in parts_of(current.published):
        days = _keep_days(home, current, part)
        if days is None:
            continue
        limit = clock.text_of(clock.wall() - timedelta(days=days))
        for number in numbered(os.path.join(home, SNAPSHOTS)):
            if number > part.snapshot and _is_of(home, number, part.name, before=limit):
                found.add(part.name)
    return frozenset(found)


def _stacks(home: str) -> dict[int, tuple[Part, ...]]:
    found = {}
    for number in numbered(os.path.join(home, "generations")):
        try:
            record = read_report(generation_path(home, number))["published"]
            found[number] = parts_of(record)
        except (StateError, ValueError, KeyError, TypeError):
            continue
    return found


def _keep_days(home: str, current: Current, part: Part) -> int | None:
    """As the settings were at the last sync, or, for a source no longer configured, when its snapshot was made."""
    for entry in current.sources:
        if entry["name"] == part.name:
            days = entry.get("keep_days")
            return days if isinstance(days, int) else None
    if not part.snapshot:
        return None
    try:
        days = read_report(snapshot_path(home, part.snapshot))["published"].get("keep_days")
    except StateError:
        return None
    return days if isinstance(days, int) else None


def _ended(current: Current, generation: int) -> str:
    """When a generation was last replaced by another, "" if it is not known to have been served."""
    ends = [current.served[at + 1][1] for at, (number, _) in enumerate(current.served[:-1]) if number == generation]
    return max(ends, default="")


def _is_of(home: str, number: int, name: str, *, before: str) -> bool:
    try:
        record = read_report(snapshot_path(home, number))["published"]
    except StateError:
        return False
    return record.get("name") == name and str(record.get("pulled_at", "")) < before
