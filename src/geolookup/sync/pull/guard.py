"""The shrink guard: what a new generation may lose, against the one that is served, before a person must look."""

from collections.abc import Mapping
from typing import Any

from geolookup.base.text import count
from geolookup.settings.table import Settings

#: So many geolocations, and so many blocks, more or fewer never hold a source: in a small file they are a day's work.
FREE_CHANGES = 10
#: A source whose masks hide more than this share of a family's covered addresses is held.
MOST_HIDDEN = 0.02


def reasons_to_hold(
    settings: Settings,
    *,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    old_countries: Mapping[str, int],
    new_countries: Mapping[str, int],
    old_custom: int,
    custom_gone: int,
    difference: Mapping[str, Any] | None = None,
) -> list[str]:
    """Why a candidate is held, a sentence each; empty if it may be published.

    ``old`` and ``new`` are the row counts of a generation's record; the countries map to their number of default
    blocks; ``custom_gone`` counts custom geolocations that vanished without a delete of ours, of ``old_custom``.
    ``difference`` is what `cache_compare.compare` says, if that is known: a few rows more or fewer hold nothing.
    """
    reasons = []
    if custom_gone > settings.guard_custom_gone and custom_gone > settings.guard_custom_share * old_custom:
        reasons.append(f"custom geolocations gone that were not deleted here: {custom_gone} of {old_custom}")
    if difference and _is_small(difference):
        return reasons
    counted = (
        ("geolocations", _default(old, "geolocations"), _default(new, "geolocations"), settings.guard_geolocations),
        ("blocks", _default(old, "blocks"), _default(new, "blocks"), settings.guard_blocks),
        ("IPv4 addresses", int(old["addresses_v4"]), int(new["addresses_v4"]), settings.guard_addresses),
        ("IPv6 addresses", int(old["addresses_v6"]), int(new["addresses_v6"]), settings.guard_addresses),
    )
    for what, before, after, share in counted:
        if after < share * before:
            reasons.append(
                f"{what} of the default layer: {_plain(after)} instead of {_plain(before)}, fewer than {share:.0%}"
            )
    for what, before, after, _ in counted[:2]:
        if before and after > settings.guard_growth * before:
            reasons.append(
                f"{what} of the default layer: {after} instead of {before}, more than {settings.guard_growth:g} times"
            )
    gone = [
        country
        for country, blocks in old_countries.items()
        if blocks >= settings.guard_country_blocks and not new_countries.get(country)
    ]
    if gone:
        shown = ", ".join(
            f"{country or '(no country)'} ({count(old_countries[country], 'block')})" for country in sorted(gone)[:20]
        )
        reasons.append(f"countries gone: {shown}{', …' if len(gone) > 20 else ''}")
    return reasons


def _is_small(difference: Mapping[str, Any]) -> bool:
    """Whether no more rows came, went or moved than are free."""
    geolocations, blocks = difference["geolocations"], difference["blocks"]
    counts = (geolocations["added"], geolocations["removed"], *(blocks[how] for how in ("added", "removed", "changed")))
    return all(int(count) <= FREE_CHANGES for count in counts)


def _default(rows: Mapping[str, Any], what: str) -> int:
    return int(rows[what]) - int(rows[f"custom_{what}"])


def _plain(number: int) -> str:
    """A count for people: IPv6 address counts have up to 39 digits."""
    return str(number) if number < 10**15 else f"{number:.4g}" if number < 10**300 else str(number)
