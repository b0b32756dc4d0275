"""The guard: a new snapshot is compared with the one before, and held for a person if it loses too much."""

import contextlib
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from geolookup.base.text import count, plain
from geolookup.index.compare_facts import differing
from geolookup.index.reader import IndexReader
from geolookup.model.errors import IndexFileError, StateError, StateTooNewError
from geolookup.model.types import Geolocation
from geolookup.settings.table import Settings
from geolookup.state.base.candidate import Candidate, read_report
from geolookup.state.base.clock import now_text
from geolookup.state.base.parts import NETWORK, PLACE, SNAPSHOTS, Part, refusal, snapshot_path
from geolookup.state.generations.cache import Cache
from geolookup.state.generations.cache_compare import compare
from geolookup.state.generations.recovery import numbered
from geolookup.sync.pull.context import Baseline, Pull, PullReport, Result, older
from geolookup.sync.pull.staging import Staged


def judged(pull: Pull, result: Result, candidate: Candidate, staged: Staged, record: Mapping[str, Any]) -> Result:
    """Say what speaks against publishing the candidate of a source whose content has changed.

    ``record`` is what is known of the source; what was staged, and when, is added to it.
    """
    report, name = result.report, result.definition.name
    result.record = {**record, "digest": staged.digest, "pulled_at": now_text(), "rows": staged.rows}
    reasons: list[str] = []
    baseline = pull.guarded(name)
    if baseline is not None:
        begun = time.monotonic()
        if baseline.part.has_places and staged.layer != NETWORK:
            reasons = _compare(pull, baseline, candidate, staged, report)
        if baseline.part.has_networks and staged.layer != PLACE:
            reasons += _compare_networks(pull, baseline, candidate, staged, report)
        found = report.difference
        result.lenient = is_small(baseline.record["rows"]) and found is not None and few_rows_differ(found)
        report.durations_s["compare"] = round(time.monotonic() - begun, 3)
    reasons += older(record, pull.before(result.definition))
    result.candidate = candidate
    if pull.current is not None and refusal(Part(name, str(record["kind"]), 0, staged.digest)) in pull.current.refused:
        result.rolled_back = True
        report.outcome = "rolled-back"
    else:
        result.reasons = tuple(reasons)
    return result


def _compare(pull: Pull, baseline: Baseline, candidate: Candidate, staged: Staged, report: PullReport) -> list[str]:
    """Fill the report's difference, and say why the candidate must be held, if it must."""
    before, after = Cache(baseline.cache), Cache(candidate.cache)
    try:
        difference: dict[str, Any] = compare(before.path, after.path)
        old_countries, old_custom = before.country_blocks(), before.custom_digests()
    except StateTooNewError:
        raise
    except StateError as error:
        # The served generation is damaged: nothing to compare with but the counts that CURRENT holds.
        report.warnings.append(f"the difference to what was pulled before is not known: {error}")
        difference, old_countries, old_custom = {}, {}, {}
    new_custom = after.custom_digests()
    deleted = pull.directory.local.deleted_here()
    gone = [locid for locid in old_custom if locid not in new_custom and locid not in deleted]
    if difference:
        difference["custom_geolocations_gone"] = len(gone)
        report.difference = difference
    reasons = reasons_to_hold(
        pull.settings,
        old=baseline.record["rows"],
        new=staged.rows,
        old_countries=old_countries,
        new_countries=after.country_blocks(),
        old_custom=len(old_custom),
        custom_gone=len(gone),
        difference=difference,
        most=_most_rows(pull, baseline),
    )
    ours = pull.directory.local.numbers() if gone else ()
    lost = _lost(before, after, gone, report, ours)
    if not reasons:  # else nothing is held against our places, which says of each of them what became of it
        lost = [place for place in lost if place.locid not in ours]
    if lost:
        shown = "; ".join(f"{place.place_text()} ({place.locid})" for place in lost[:20])
        one = len(lost) == 1
        they, are, them = ("geolocation is", "was", "it") if one else ("geolocations are", "were", "them")
        report.warnings.append(
            f"{len(lost)} custom {they} gone, and {are} not deleted here: {shown}{'; …' if len(lost) > 20 else ''}. "
            f"Somebody deleted {them} at the service; `geolookup custom create` makes one anew"
        )
    return reasons


def _lost(before: Cache, after: Cache, gone: list[int], report: PullReport, ours: Collection[int]) -> list[Geolocation]:
    """Those of these locids that are gone, the newest first: not only hard to read, or under another number.

    ``ours`` are the numbers of our places: a push may have told that one has another number, and changed it there.
    """
    if not gone:
        return []
    unread = {row["locid"] for row in report.rejected}
    had = {place.locid: place for place in before.custom()}
    # Of a service that numbers otherwise, a number that was another one's may be new, too.
    new = [
        place
        for place in after.custom()
        if place.locid not in had or (place.ipblocks and {*place.ipblocks}.isdisjoint(had[place.locid].ipblocks))
    ]
    came = {replace(place, locid=0) for place in new}
    blocks = {block for place in new if place.locid in ours for block in place.ipblocks}
    there = (had[locid] for locid in sorted(gone, reverse=True) if locid not in unread)
    return [place for place in there if replace(place, locid=0) not in came and blocks.isdisjoint(place.ipblocks)]


def _compare_networks(
    pull: Pull, baseline: Baseline, candidate: Candidate, staged: Staged, report: PullReport
) -> list[str]:
    """Note the difference of the networks in the report, and say why the candidate must be held, if it must."""
    try:
        with IndexReader.open(baseline.network) as before, IndexReader.open(candidate.network) as after:
            found = differing(before, after)
    except IndexFileError as error:
        report.warnings.append(f"the difference to the networks that were pulled before is not known: {error}")
        return []
    difference = report.difference = report.difference or {}
    difference["networks"] = found.as_dict()
    if few_rows_differ(difference):
        return []
    old, new = baseline.record["rows"], staged.rows
    settings, reasons = pull.settings, []
    for what, counted, share in (
        ("blocks of networks", "network_blocks", settings.guard_blocks),
        ("IPv4 addresses whose network is known", "network_addresses_v4", settings.guard_addresses),
        ("IPv6 addresses whose network is known", "network_addresses_v6", settings.guard_addresses),
    ):
        then, now = int(old[counted]), int(new[counted])
        if now < share * then:
            reasons.append(f"{what}: {plain(now)} instead of {plain(then)}, fewer than {share:.0%}")
    growth, then, now = settings.guard_growth, int(old["network_blocks"]), int(new["network_blocks"])
    if then and now > growth * then:
        reasons.append(f"blocks of networks: {now} instead of {then}, more than {growth:g} times")
    return reasons


def _most_rows(pull: Pull, baseline: Baseline) -> dict[str, int]:
    """The most geolocations and blocks of any kept snapshot of a source: to have them back is no growth."""
    found = {what: _default(baseline.record["rows"], what) for what in ("geolocations", "blocks")}
    for number in numbered(pull.directory.path(SNAPSHOTS)):
        with contextlib.suppress(StateError, KeyError, TypeError, ValueError):
            record = read_report(snapshot_path(pull.directory.home, number))["published"]
            if record.get("name") == baseline.part.name:
                found = {what: max(most, _default(record["rows"], what)) for what, most in found.items()}
    return found


#: So many geolocations, and so many blocks, more or fewer never hold a source: in a small file they are a day's work.
FREE_CHANGES = 10
#: A source of so many blocks is a small file.
_SMALL = 1000


def too_many_gone(settings: Settings, gone: int, custom: int) -> bool:
    """True if a list that lacks so many custom geolocations, which nobody here deleted, is not to be believed."""
    return gone > settings.guard_custom_gone and gone > settings.guard_custom_share * custom


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
    most: Mapping[str, int] | None = None,
) -> list[str]:
    """Reasons to hold a candidate, a sentence each; empty if it may be published.

    ``old`` and ``new`` are the row counts of a generation's record; the countries map to their number of default
    blocks; ``custom_gone`` counts custom geolocations that vanished without a delete of ours, of ``old_custom``.
    ``difference`` is what `cache_compare.compare` says, if that is known: a few rows more or fewer hold nothing.
    ``most`` are the geolocations and blocks that growth is measured against, by default the ``old`` ones.
    """
    reasons = []
    if too_many_gone(settings, custom_gone, old_custom):
        reasons.append(f"custom geolocations gone that were not deleted here: {custom_gone} of {old_custom}")
    if difference and few_rows_differ(difference):
        return reasons
    counted = (
        ("geolocations", _default(old, "geolocations"), _default(new, "geolocations"), settings.guard_geolocations),
        ("blocks", _default(old, "blocks"), _default(new, "blocks"), settings.guard_blocks),
        ("IPv4 addresses", int(old["addresses_v4"]), int(new["addresses_v4"]), settings.guard_addresses),
        ("IPv6 addresses", int(old["addresses_v6"]), int(new["addresses_v6"]), settings.guard_addresses),
    )
    for what, before, after, share in counted:
        if after < share * before:
            reasons.append(f"{what}: {plain(after)} instead of {plain(before)}, fewer than {share:.0%}")
    for what, own, after, _ in counted[:2]:
        before = own if most is None else most[what]
        if before and after > settings.guard_growth * before:
            reasons.append(f"{what}: {after} instead of {before}, more than {settings.guard_growth:g} times")
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


def is_small(rows: Mapping[str, Any]) -> bool:
    """True if a source with these counts is a small file, of which a few rows may change many answers."""
    return int(rows["blocks"]) + int(rows.get("network_blocks", 0)) <= _SMALL


def few_rows_differ(difference: Mapping[str, Any]) -> bool:
    """True if no more rows came, went or moved than are free."""
    how = ("added", "removed", "changed")
    counts = [difference["networks"]["ranges"][each] for each in how] if "networks" in difference else []
    if "geolocations" in difference:
        geolocations, blocks = difference["geolocations"], difference["blocks"]
        counts += (geolocations["added"], geolocations["removed"], *(blocks[each] for each in how))
    return all(int(count) <= FREE_CHANGES for count in counts)


def _default(rows: Mapping[str, Any], what: str) -> int:
    return int(rows[what]) - int(rows[f"custom_{what}"])
