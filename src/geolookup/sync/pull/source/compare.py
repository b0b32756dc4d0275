"""What a new snapshot of a source differs in from the one before, and whether that is for a person to see."""

import time
from collections.abc import Mapping
from typing import Any

from geolookup.base.text import count
from geolookup.errors import IndexFileError, StateError, StateTooNewError
from geolookup.index.compare import changed_country_addresses
from geolookup.index.reader import IndexReader
from geolookup.state.base.candidate import Candidate
from geolookup.state.base.clock import now_text
from geolookup.state.base.parts import Part, refusal
from geolookup.state.generations.cache import Cache
from geolookup.state.generations.cache_compare import compare
from geolookup.sync.pull.guard import reasons_to_hold
from geolookup.sync.pull.report import PullReport
from geolookup.sync.pull.run import Baseline, Pull, Result
from geolookup.sync.pull.source.staging import Staged


def judged(pull: Pull, result: Result, candidate: Candidate, staged: Staged, record: Mapping[str, Any]) -> Result:
    """Seal the candidate of a source whose content has changed, with what speaks against publishing it.

    ``record`` is what is known of the source; what was staged, and when, is added to it.
    """
    report, name = result.report, result.definition.name
    published = {**record, "digest": staged.digest, "pulled_at": now_text(), "rows": staged.rows}
    reasons: list[str] = []
    baseline = pull.guarded(name)
    if baseline is not None:
        begun = time.monotonic()
        reasons = _compare(pull, baseline, candidate, staged, report)
        report.durations_s["compare"] = round(time.monotonic() - begun, 3)
    result.candidate = candidate
    if pull.current is not None and refusal(Part(name, str(record["kind"]), 0, staged.digest)) in pull.current.refused:
        result.rolled_back = True
        report.outcome = "rolled-back"
        reasons = ["rolled back on this machine"]
    elif reasons:
        result.reasons = tuple(reasons)
    else:
        report.outcome = "published"
    candidate.seal(published, {**report.as_dict(), **({"reasons": reasons} if reasons else {})})
    return result


def _compare(pull: Pull, baseline: Baseline, candidate: Candidate, staged: Staged, report: PullReport) -> list[str]:
    """Fill the report's difference, and say why the candidate must be held, if it must."""
    before, after = Cache(baseline.cache), Cache(candidate.cache)
    try:
        difference: dict[str, Any] = compare(before.path, after.path)
        with (
            IndexReader.open(baseline.index) as old,
            IndexReader.open(candidate.index) as new,
        ):
            changed_v4, changed_v6 = changed_country_addresses(old, new)
        difference["addresses_whose_country_changed"] = {"ipv4": changed_v4, "ipv6": str(changed_v6)}
        old_countries, old_custom = before.country_blocks(), before.custom_digests()
    except StateTooNewError:
        raise
    except (StateError, IndexFileError) as error:
        # The served generation is damaged: nothing to compare with but the counts that CURRENT holds.
        report.warnings.append(f"the difference to what was pulled before is not known: {error}")
        difference, old_countries, old_custom = {}, {}, {}
    new_custom = after.custom_digests()
    ours = pull.directory.local.deleted_here()
    gone = [locid for locid in old_custom if locid not in new_custom and locid not in ours]
    if difference:
        difference["custom_geolocations_gone"] = len(gone)
        report.difference = difference
    if gone:
        report.warnings.append(
            count(
                len(gone),
                "custom geolocation is gone, and was not deleted here: ",
                "custom geolocations are gone, and were not deleted here: ",
            )
            + ", ".join(str(locid) for locid in sorted(gone, reverse=True)[:20])
        )
    return reasons_to_hold(
        pull.settings,
        old=baseline.record["rows"],
        new=staged.rows,
        old_countries=old_countries,
        new_countries=after.country_blocks(),
        old_custom=len(old_custom),
        custom_gone=len(gone),
        difference=difference,
    )
