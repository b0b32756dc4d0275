"""What each row of the tables beside the outbox must be."""

import json
from collections.abc import Callable
from typing import Any

from geolookup.model import IPBlock


def _whole(row: dict[str, Any], *names: str) -> None:
    for name in names:
        if row[name] is not None and type(row[name]) is not int:
            raise ValueError(f"{name} is not a whole number")


def _sound_baseline(row: dict[str, Any]) -> None:
    known = json.loads(row["locids"])
    if isinstance(known, dict):
        if not all(isinstance(digest, str) and int(locid) for locid, digest in known.items()):
            raise ValueError("a digest is not text")
    elif not all(type(locid) is int for locid in known):
        raise ValueError("a number is missing")


def is_custom(locid: object) -> bool:
    """Whether a value is the locid of a custom geolocation."""
    return type(locid) is int and locid < 0


def _sound_custom(row: dict[str, Any]) -> None:
    _whole(row, "deleted")
    for name in ("locid", "service_locid"):
        if row[name] is not None and not is_custom(row[name]):
            raise ValueError(f"{name} is not a number below zero")
    for first, last in json.loads(row["blocks"]):
        IPBlock.parse(first, last)


def _sound_history(row: dict[str, Any]) -> None:
    for name in ("before", "after"):
        if row[name] is not None:
            json.loads(row[name])


#: What each row of the other tables must be.
SOUND: dict[str, Callable[[dict[str, Any]], None]] = {
    "baselines": _sound_baseline,
    "custom": _sound_custom,
    "counters": lambda row: _whole(row, "value"),
    "history": _sound_history,
    "twins": lambda row: _whole(row, "locid", "edit"),
}
