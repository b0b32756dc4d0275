"""What a new snapshot of a source differs in from the one before, and whether that is for a person to see."""

from typing import Any

from geolookup.errors import IndexFileError, StateError, StateTooNewError
from geolookup.index.compare import changed_country_addresses
from geolookup.index.reader import IndexReader
from geolookup.state.generations.cache import Cache, compare
from geolookup.state.generations.candidate import Candidate
from geolookup.sync.pull.guard import reasons_to_hold
from geolookup.sync.pull.report import PullReport
from geolookup.sync.pull.run import Baseline, Run
from geolookup.sync.pull.source.staging import Staged


def compare_snapshots(
    run: Run, baseline: Baseline, candidate: Candidate, staged: Staged, report: PullReport
) -> list[str]:
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
    ours = run.directory.local.deleted_here()
    gone = [locid for locid in old_custom if locid not in new_custom and locid not in ours]
    if difference:
        difference["custom_geolocations_gone"] = len(gone)
        report.difference = difference
    if gone:
        report.warnings.append(
            f"{len(gone)} custom geolocations are gone that were not deleted here: "
            + ", ".join(str(locid) for locid in sorted(gone, reverse=True)[:20])
        )
    return reasons_to_hold(
        run.settings,
        old=baseline.record["rows"],
        new=staged.rows,
        old_countries=old_countries,
        new_countries=after.country_blocks(),
        old_custom=len(old_custom),
        custom_gone=len(gone),
        difference=difference,
    )
