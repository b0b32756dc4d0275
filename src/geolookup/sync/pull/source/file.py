"""A file, folder or address as a source: read by its kind into a candidate, and judged against the one before."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from geolookup.errors import DataFileError, IndexFileError, PullError
from geolookup.files.limits import Limits
from geolookup.index.reader import IndexReader
from geolookup.model.fields import FIRST_OWN_LOCID
from geolookup.sources.definition import Definition, file_name
from geolookup.sources.detect import open_source
from geolookup.sources.locids import Numbering
from geolookup.sources.terms import recognised
from geolookup.state.base import clock
from geolookup.state.base.candidate import Candidate
from geolookup.state.base.parts import BUNDLED, REGISTRY
from geolookup.state.generations.cache import Cache
from geolookup.sync.pull.report import PullReport
from geolookup.sync.pull.run import Baseline, Pull, Result
from geolookup.sync.pull.source.columns import ColumnStaging, earlier_places
from geolookup.sync.pull.source.compare import judged
from geolookup.sync.pull.source.fetch import Found, local_file
from geolookup.sync.pull.source.staging import Staged


def pull_file(pull: Pull, definition: Definition, report: PullReport, *, taken: frozenset[int] = frozenset()) -> Result:
    """Read a source unless it has nothing new; nothing is published here.

    ``taken`` are numbers of ours that a service uses itself: an earlier place that has one gets another.

    :raises DataFileError: if the file cannot be read, or fits no kind
    :raises PullError: if it must not be published
    :raises UpstreamError: if it could not be fetched
    :raises SettingsError: if its secret or address cannot be used
    """
    result = Result(definition=definition, report=report)
    before = pull.baseline(definition.name)
    if before is not None and before.record.get("url") is not None:
        before = None  # a service had this name
    asked = {"asked_kind": definition.kind, "fields": dict(definition.fields)}
    entry = pull.entries.get(definition.name, {})
    usable = (
        before is not None
        and definition.name not in pull.damaged
        and entry.get("location") == definition.location
        and all(entry.get(name, type(value)()) == value for name, value in asked.items())
        and not (taken and taken & numbers_of_ours(before.index))
    )
    began, began_at = time.monotonic(), clock.now_text()
    candidate = pull.candidate()
    with local_file(pull, definition, report, entry if usable else {}, candidate.path) as found:
        if found.path is not None:
            with _named_as(found):
                staged, record = _stage(pull, definition, found, candidate, before, report, taken)
    report.durations_s["pull"] = round(time.monotonic() - began, 3)
    result.entry = {"checked_at": clock.now_text(), "began_at": began_at, **asked, **found.entry}
    if found.path is not None:
        result.entry["recognised"] = record["recognised"]
    else:
        assert before is not None
        report.digest, report.rows = before.part.digest, dict(before.record["rows"])
        return result
    return _judge(pull, result, candidate, staged, record, usable=usable)


@contextlib.contextmanager
def _named_as(found: Found) -> Iterator[None]:
    """Errors name where a file was fetched from, in place of the temporary file that it is in."""
    address = found.entry.get("address")
    try:
        yield
    except (DataFileError, PullError) as error:
        if address is None or found.path is None:
            raise
        raise type(error)(str(error).replace(found.path, str(address))) from error


def numbers_of_ours(index: str) -> frozenset[int]:
    """The locids in an index from the range of those that we give; none if it cannot be read."""
    try:
        with IndexReader.open(index) as reader:
            locids = np.array(reader.arrays()["loc.locid"])
    except IndexFileError:
        return frozenset()
    return frozenset(locids[locids >= FIRST_OWN_LOCID].tolist())


def _stage(
    pull: Pull,
    definition: Definition,
    found: Found,
    candidate: Candidate,
    before: Baseline | None,
    report: PullReport,
    taken: frozenset[int],
) -> tuple[Staged, dict[str, Any]]:
    assert found.path is not None
    settings = pull.settings
    limits = Limits(bad_rows=settings.bad_rows, bad_rows_share=settings.bad_rows_share)
    with open_source(
        found.path, kind=definition.kind or None, fields=definition.fields or None, limits=limits
    ) as reading:
        gathered = reading.gathered
        gathered.tell = pull.progress
        earlier = () if before is None or reading.own_locids else earlier_places(Cache(before.cache))
        numbering = Numbering(earlier, following=pull.following, taken=taken)
        with ColumnStaging(candidate, definition.name, gathered.places, numbering) as staging:
            for batch in reading.batches():
                staging.add(batch)
                pull.progress(gathered.decoded + gathered.rows, gathered.expected)
            staged = staging.finish({"source": definition.name, "kind": reading.kind})
        pull.following = max(pull.following, numbering.following)
    report.rejected = [
        {"locid": None, "position": row.number, "block": None, "reason": str(row)} for row in gathered.bad_in_order()
    ]
    report.rejected_blocks = gathered.bad
    report.warnings += gathered.warnings
    if gathered.bad:
        report.warnings.append(
            f"{definition.name}: {gathered.bad} of {gathered.rows} rows were left out: `geolookup check --source "
            f"{definition.name}` names them; the first: {gathered.bad_in_order()[0]}"
        )
    if gathered.custom_left_out:
        report.warnings.append(f"{definition.name}: {gathered.custom_left_out} custom geolocations were left out")
    found_terms = recognised(reading.kind, gathered.about, (file_name(definition.location), *reading.names))
    record = {
        **definition.terms(found_terms),
        "recognised": {} if found_terms is None else found_terms.as_dict(),
        "name": definition.name,
        "kind": reading.kind,
        "source": BUNDLED if reading.kind == REGISTRY else definition.location,
        "about": dict(gathered.about),
        "rows_read": gathered.rows,
        "rows_without_location": gathered.rows_without_location,
    }
    if reading.kind == REGISTRY and "dated" in gathered.about:
        record["dated"] = gathered.about["dated"]
    return staged, record


def _judge(
    pull: Pull, result: Result, candidate: Candidate, staged: Staged, record: dict[str, Any], *, usable: bool
) -> Result:
    """Seal the candidate with what speaks against it, or find that nothing changed."""
    report, name = result.report, result.definition.name
    report.rows, report.digest = staged.rows, staged.digest
    result.digest = staged.digest
    before = pull.baseline(name)
    if usable and before is not None and before.part.digest == staged.digest:
        return result
    return judged(pull, result, candidate, staged, {**record, **result.entry})
