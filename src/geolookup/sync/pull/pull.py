"""Pull: stream the service's list into a candidate, judge it, publish it."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from geolookup.errors import (
    GeoLookupError,
    HeldError,
    IndexFileError,
    PullError,
    SettingsError,
    StateError,
    StateTooNewError,
    UpstreamAnswerError,
    UpstreamRefusedError,
    WrongUpstreamError,
)
from geolookup.http.transport import Transport
from geolookup.index.compare import changed_country_addresses
from geolookup.index.reader import IndexReader
from geolookup.settings.table import Settings
from geolookup.sources.country_ranges import BUNDLED
from geolookup.state.clock import now_text
from geolookup.state.current import Current, index_path
from geolookup.state.directory import Candidate, StateDirectory
from geolookup.state.generations.cache import Cache, compare
from geolookup.state.marks import Begun, Start
from geolookup.state.verify import changed_files
from geolookup.sync.pull.guard import reasons_to_hold
from geolookup.sync.pull.report import PullReport
from geolookup.sync.pull.staging import Staged, Staging
from geolookup.sync.pull.twins import late_twins
from geolookup.sync.push.accounts import hold_against
from geolookup.upstream.geolocations import GeolocationsClient, Listing

_log = logging.getLogger("geolookup")

#: More geolocations than any service has: asked for where a list may have been capped silently.
PROBE_TOP = 10_000_000
#: The source of the embedded default, where the others have their URL.

#: Told the geolocations pulled so far, and how many there will be where the service said so.
PullProgress = Callable[[int, int | None], None]

#: Told a candidate and the moment at which its list began, in place of its being published.
Preview = Callable[[Candidate, Begun], None]

_DIGEST_LEAST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    directory: StateDirectory
    settings: Settings
    url: str
    current: Current | None
    report: PullReport
    progress: PullProgress
    unmodified: Start | None = None
    preview: Preview | None = None

    @property
    def baseline(self) -> Current | None:
        """What the candidate is measured against; the embedded default never is."""
        return self.current if self.current is not None and self.current.source != BUNDLED else None


def pull(
    directory: StateDirectory,
    settings: Settings,
    *,
    url_moved: bool = False,
    progress: PullProgress = lambda _done, _total: None,
) -> PullReport:
    """Fetch the complete list and publish it as a new generation, unless it is the one that is served.

    Takes the run lock. Whatever fails, what was published goes on serving. ``url_moved`` says that the service that
    this state belongs to has moved to the configured URL.

    :raises WrongUpstreamError: where edits are pending for another URL
    :raises HeldError: where the guard holds the candidate for a person; it is kept, complete
    :raises PullError: where the list must not be published
    :raises UpstreamError: where the list could not be fetched whole
    :raises StateBusyError: where another run is under way
    """
    url = configured_url(settings)
    report = PullReport(url=url)
    with directory.locks.run(), Transport(settings) as transport:
        pull_locked(directory, settings, transport, report, url_moved=url_moved, progress=progress)
    return report


def configured_url(settings: Settings) -> str:
    """The upstream's URL.

    :raises SettingsError: where none is configured
    """
    if settings.url is None:
        raise SettingsError(
            "no upstream is configured: give --url, set GEOLOOKUP_URL, or write `url` in geolookup.toml"
        )
    return settings.url


def pull_locked(
    directory: StateDirectory,
    settings: Settings,
    transport: Transport,
    report: PullReport,
    *,
    url_moved: bool = False,
    unmodified: Start | None = None,
    progress: PullProgress = lambda _done, _total: None,
    preview: Preview | None = None,
) -> None:
    """`pull` for who holds the run lock; ``report`` is filled as far as it comes, whatever is raised.

    ``unmodified`` is the start of a list that the service answered with 304 to the published ETag in this same
    run, where nothing was sent to it since: then it is not asked again. With ``preview`` nothing is published or
    confirmed: it is shown the candidate, which then is thrown away, or held where the guard says so.
    """
    url = configured_url(settings)
    run = _Run(
        directory=directory,
        settings=settings,
        url=url,
        current=directory.current_or_none(),
        report=report,
        progress=progress,
        unmodified=unmodified,
        preview=preview,
    )
    # Before the first request, so that a damaged edits.db is noticed while nothing has been done.
    directory.check_edits()
    known = directory.upstream_url()
    if known not in (None, url) and not url_moved and (pending := directory.local.pending()):
        raise WrongUpstreamError(
            f"this state belongs to {known}, and {pending} edits are pending for it: push them first, or say with "
            f"--url-moved that the service has moved to {url}"
        )
    try:
        _pull(run, transport)
        if preview is not None:
            return
        if known not in (None, url):
            directory.remember_upstream(url)
    except GeoLookupError as error:
        if not isinstance(error, StateError) and (preview is None or isinstance(error, HeldError)):
            _record_failed(directory, error, url)
        raise
    after = {"url": url, "generation": report.generation, "digest": report.digest}
    _record_done(directory, report, "pull", report.outcome, after)


def accept(directory: StateDirectory, digest: str) -> PullReport:
    """Publish the held candidate, whose digest begins with ``digest``, without any network. Logged in the history.

    :raises StateError: where nothing is held, or something else is
    """
    digest = digest.strip().lower()
    with directory.locks.run():
        candidate = directory.held()
        if candidate is None:
            raise StateError(f"{directory.home}: nothing is held, so there is nothing to accept")
        record = candidate.document()["published"]
        if len(digest) < _DIGEST_LEAST or not record["digest"].startswith(digest):
            raise StateError(f"the held candidate's digest is {record['digest']}: accept that one, or sync again")
        candidate.verify()
        current = directory.current_or_none()
        report = PullReport(url=record.get("url"), outcome="published", digest=record["digest"], rows=record["rows"])
        refused = current.refused if current is not None else ()
        published = directory.publish(
            candidate,
            checked_at=record["pulled_at"],
            refused=tuple(known for known in refused if known != record["digest"]),
        )
        report.generation = published.generation
        after = {"generation": published.generation, "digest": report.digest}
        _record_done(directory, report, "accept", "published", after)
    return report


def _record_done(directory: StateDirectory, report: PullReport, what: str, outcome: str, after: dict[str, Any]) -> None:
    """Add to the history what cannot be undone any more: where that fails, the run has not."""
    try:
        directory.edits.record(what, outcome, after=after)
    except StateError as error:
        report.warnings.append(f"this is missing from the history, and all else is done: {error}")


def _record_failed(directory: StateDirectory, error: GeoLookupError, url: str) -> None:
    """Add a failed pull to the history: if that fails too, the pull's own error is still the one to tell."""
    try:
        directory.edits.record("pull", f"{type(error).__name__}: {error}", after={"url": url})
    except StateError as missing:
        _log.warning("the failed pull is missing from the history: %s", missing)


def _pull(run: _Run, transport: Transport) -> None:
    current, report = run.current, run.report
    same_url = current is not None and current.published.get("url") == run.url
    damaged = current is not None and (current.recovered is not None or changed_files(run.directory.home, current))
    if damaged:
        report.warnings.append("what is published is damaged: a whole new generation takes its place")
    # What is damaged must be fetched again, though the service has nothing new.
    etag = current.published.get("etag") if current is not None and same_url and not damaged else None
    if run.unmodified is not None and etag is not None:
        _confirm(run, run.unmodified)
        return
    began = time.monotonic()
    client = GeolocationsClient(transport)
    start = run.directory.edits.start_of_list(to_look=run.preview is not None)
    with client.list(etag=etag) as listing:
        if listing.not_modified and current is not None:
            _confirm(run, start)
            report.durations_s["pull"] = round(time.monotonic() - began, 3)
            return
        with run.directory.candidate() as candidate:
            staged = _stage(run, listing, candidate, start.at)
            report.durations_s["pull"] = round(time.monotonic() - began, 3)
            _refuse_what_is_broken(run, listing)
            if listing.total_count is None and _may_be_capped(run, listing.geolocations_seen):
                _look_for_a_cap(client, listing.geolocations_seen, report)
            _settle(run, candidate, staged, etag=listing.etag, start=start, damaged=bool(damaged))


def _confirm(run: _Run, start: Start) -> None:
    """The service has what is published, by a list begun then."""
    if run.preview is not None:
        assert run.current is not None
        run.report.generation, run.report.digest = run.current.generation, run.current.digest
        return
    assert run.current is not None
    _hold_against(run, run.directory.cache(run.current.generation), start)
    confirmed = run.directory.confirm(etag=None, start=start)
    run.report.generation, run.report.digest = confirmed.generation, confirmed.digest
    _look_for_twins(run, run.directory.cache(confirmed.generation))


def _stage(run: _Run, listing: Listing, candidate: Candidate, began_at: str) -> Staged:
    with Staging(candidate) as staging:
        for batch in listing.iter_batches():
            staging.add(batch)
            run.progress(listing.geolocations_seen, listing.total_count)
        report = run.report
        report.rejected = [
            {"locid": row.locid, "position": row.position, "block": row.block, "reason": row.reason}
            for row in listing.rejected
        ]
        report.rejected_geolocations = listing.rejected_geolocations
        report.rejected_blocks = listing.rejected_blocks
        report.number_disagreements = listing.number_disagreements
        report.bytes_read = listing.bytes_read
        begun = time.monotonic()
        staged = staging.finish({"url": run.url, "etag": listing.etag or "", "began_at": began_at})
        report.durations_s["compile"] = round(time.monotonic() - begun, 3)
        return staged


def _refuse_what_is_broken(run: _Run, listing: Listing) -> None:
    if listing.geolocations_seen == 0:
        raise PullError(f"{run.url}: the list is empty: nothing was published")
    for what, bad, rows in (
        ("geolocations", listing.rejected_geolocations, listing.geolocations_seen),
        ("blocks", listing.rejected_blocks, listing.blocks_seen),
    ):
        allowed = max(run.settings.bad_rows, int(run.settings.bad_rows_share * rows))
        if bad > allowed:
            first = listing.rejected[0] if listing.rejected else None
            example = f"; the first: locid {first.locid}: {first.reason}" if first else ""
            raise PullError(
                f"{run.url}: {bad} of {rows} {what} are bad, more than {allowed}{example}: nothing was published"
            )
        if bad:
            run.report.warnings.append(f"{bad} of {rows} {what} were left out: see `rejected` in the report")
    if listing.geolocations_seen == listing.rejected_geolocations:
        raise PullError(f"{run.url}: not one geolocation of the list is good: nothing was published")


def _may_be_capped(run: _Run, count: int) -> bool:
    """Whether a list without a declared count is one that a service may have cut at a number of its own."""
    first_from_url = run.baseline is None or run.baseline.published.get("url") != run.url
    round_number = count % 50 == 0 or (count >= 16 and count & (count - 1) == 0)
    return first_from_url or round_number


def _look_for_a_cap(client: GeolocationsClient, count: int, report: PullReport) -> None:
    try:
        with client.list(top=PROBE_TOP) as listing:
            for _ in listing.iter_batches():
                if listing.geolocations_seen > count:
                    break
            found = listing.geolocations_seen
    except UpstreamRefusedError as error:
        report.warnings.append(f"whether the list is complete could not be checked with top={PROBE_TOP}: {error}")
        return
    if found > count:
        raise UpstreamAnswerError(
            f"the list is truncated: {count} geolocations without `top`, and more with top={PROBE_TOP}: the service "
            "caps its list silently. Nothing was published"
        )


def _settle(run: _Run, candidate: Candidate, staged: Staged, *, etag: str | None, start: Start, damaged: bool) -> None:
    """Publish, hold, or find that nothing changed."""
    directory, current, report = run.directory, run.current, run.report
    report.rows, report.digest = staged.rows, staged.digest
    if run.preview is None:
        _hold_against(run, Cache(candidate.cache), start)
    _look_for_twins(run, Cache(candidate.cache))
    same_url = current is not None and current.published.get("url") == run.url
    if current is not None and same_url and current.digest == staged.digest and not damaged:
        report.generation = current.generation
        if run.preview is None:
            directory.confirm(etag=etag, start=start)
        return
    published = {
        "source": run.url,
        "url": run.url,
        "digest": staged.digest,
        "etag": etag,
        "began_at": start.at,
        "mark": start.mark.as_json(),
        "pulled_at": now_text(),
        "rows": staged.rows,
    }
    reasons: list[str] = []
    if run.baseline is not None:
        begun = time.monotonic()
        reasons = _compare(run, run.baseline, candidate, staged)
        report.durations_s["compare"] = round(time.monotonic() - begun, 3)
    if run.preview is not None:
        run.preview(candidate, start.begun)
    if current is not None and staged.digest in current.refused:
        report.outcome, report.generation = "rolled-back", current.generation
        report.warnings.append(
            "the service still has the content that was rolled back here, so it was not published; "
            f"to publish it after all: geolookup sync --accept {staged.digest[:16]}"
        )
        if run.preview is not None:
            return
        candidate.seal(published, {**report.as_dict(), "reasons": ["rolled back on this machine"]})
        directory.hold(candidate)
        return
    if reasons:
        candidate.seal(published, {**report.as_dict(), "reasons": reasons})
        directory.hold(candidate)
        raise HeldError(
            f"the pulled list is held, and what was published goes on serving: {'; '.join(reasons)}. "
            f"If that is right: geolookup sync --accept {staged.digest[:16]}",
            digest=staged.digest,
            reasons=tuple(reasons),
        )
    if run.preview is not None:
        report.outcome = "previewed"
        return
    report.outcome = "published"
    candidate.seal(published, report.as_dict())
    begun = time.monotonic()
    report.generation = directory.publish(candidate).generation
    directory.drop_held()
    report.durations_s["publish"] = round(time.monotonic() - begun, 3)


def _hold_against(run: _Run, cache: Cache, start: Start) -> None:
    """Hold what was pulled against what the service acknowledged."""
    if not run.directory.local.acknowledged():
        return
    places = {place.locid: place for place in cache.custom()}
    findings = hold_against(run.directory, run.settings, start, places)
    run.report.notices += findings.notices
    run.report.warnings += findings.warnings + [notice["reason"] for notice in findings.notices]


def _look_for_twins(run: _Run, cache: Cache) -> None:
    """Every pull looks, since a delayed request may land after everything else."""
    run.report.twins = late_twins(run.directory, cache)
    for twin in run.report.twins:
        of = "a create that was given up" if twin["twin_of"] is None else f"geolocation {twin['twin_of']}"
        run.report.warnings.append(
            f"geolocation {twin['locid']} is the same as {of} from here, and came with it or later: a request may have "
            "been applied twice. If it is nobody's: "
            f"geolookup custom delete {twin['locid']}; if it is wanted: geolookup outbox keep {twin['locid']}"
        )


def _compare(run: _Run, baseline: Current, candidate: Candidate, staged: Staged) -> list[str]:
    """Fill the report's difference, and say why the candidate must be held, if it must."""
    before, after = run.directory.cache(baseline.generation), Cache(candidate.cache)
    try:
        difference: dict[str, Any] = compare(before.path, after.path)
        with (
            IndexReader.open(index_path(run.directory.home, baseline.generation)) as old,
            IndexReader.open(candidate.index) as new,
        ):
            changed_v4, changed_v6 = changed_country_addresses(old, new)
        difference["addresses_whose_country_changed"] = {"ipv4": changed_v4, "ipv6": str(changed_v6)}
        old_countries, old_custom = before.country_blocks(), before.custom_digests()
    except StateTooNewError:
        raise
    except (StateError, IndexFileError) as error:
        # The served generation is damaged: nothing to compare with but the counts that CURRENT holds.
        run.report.warnings.append(f"the difference to generation {baseline.generation} is not known: {error}")
        difference, old_countries, old_custom = {}, {}, {}
    new_custom = after.custom_digests()
    ours = run.directory.local.deleted_here()
    gone = [locid for locid in old_custom if locid not in new_custom and locid not in ours]
    if difference:
        difference["custom_geolocations_gone"] = len(gone)
        run.report.difference = difference
    if gone:
        run.report.warnings.append(
            f"{len(gone)} custom geolocations are gone that were not deleted here: "
            + ", ".join(str(locid) for locid in sorted(gone, reverse=True)[:20])
        )
    return reasons_to_hold(
        run.settings,
        old=baseline.published["rows"],
        new=staged.rows,
        old_countries=old_countries,
        new_countries=after.country_blocks(),
        old_custom=len(old_custom),
        custom_gone=len(gone),
    )
