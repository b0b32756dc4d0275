"""What several commands say, in the same words: counts, what was published, and what a push left over."""

from collections.abc import Mapping
from typing import Any

from geolookup.sync.push.attempts import PushReport
from geolookup.text import count as count  # handed on: whoever words something counts

_LEFT_OVER = ("queued", "unknown", "held", "rejected")


def contents(rows: Mapping[str, int]) -> str:
    """What a generation holds, given its counts of rows."""
    return (
        f"{count(rows['geolocations'], 'geolocation')} ({rows['custom_geolocations']} custom), "
        f"{count(rows['blocks'], 'block')}"
    )


def row_changes(difference: Mapping[str, Any] | None) -> list[str]:
    """The rows that a pull added, removed and changed, by their kind; empty if there is nothing to compare with.

    ``difference`` is that of a pull's report: it lacks these counts if nothing was published before.
    """
    if not difference or "geolocations" not in difference:
        return []
    kinds = {what: difference[what] for what in ("geolocations", "blocks")}
    return [f"{what} +{each['added']} -{each['removed']} ~{each['changed']}" for what, each in kinds.items()]


def changes(difference: Mapping[str, Any] | None) -> list[str]:
    """`row_changes`, and for how many addresses the country changed."""
    found = row_changes(difference)
    if difference and found:
        moved = difference["addresses_whose_country_changed"]
        found.append(f"country changed for {moved['ipv4']} IPv4 and {moved['ipv6']} IPv6 addresses")
    return found


def not_published(outcome: str) -> str:
    """Why a pull that went well published nothing.

    :raises KeyError: for any other outcome
    """
    return {"unchanged": "nothing new", "rolled-back": "still what was rolled back"}[outcome]


def left_over(report: PushReport) -> dict[str, int]:
    """How many edits a push left in the outbox, by state: 0 for a state without edits."""
    return {state: getattr(report, state) for state in _LEFT_OVER}
