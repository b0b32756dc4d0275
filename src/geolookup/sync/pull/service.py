"""The service as a source: its list is streamed into a candidate, judged, and searched for twins.

A twin is a geolocation that a request made in addition to what was meant: it was applied twice, or came late.
"""

import time
from typing import Any

from geolookup.http.transport import Transport
from geolookup.model.errors import PullError, UpstreamRefusedError
from geolookup.sources.definition import Definition
from geolookup.state.base.candidate import Candidate
from geolookup.state.base.clock import now_text
from geolookup.state.base.marks import Begun, Mark, Start
from geolookup.state.base.parts import SERVICE
from geolookup.state.edits.names import SiteNames
from geolookup.state.edits.outbox.kept import LOST_CREATES
from geolookup.state.edits.outbox.ledger import Ledger
from geolookup.state.edits.outbox.outbox import Outbox
from geolookup.state.generations.cache import Cache
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.context import Pull, PullReport, Result
from geolookup.sync.pull.guard import judged
from geolookup.sync.pull.staging import Staged, Staging
from geolookup.sync.push.conclude import conclude
from geolookup.sync.push.telling import Names
from geolookup.upstream.geolocations import GeolocationsClient, Listing, is_round


def pull_service(
    pull: Pull,
    definition: Definition,
    transport: Transport,
    report: PullReport,
    url: str,
    *,
    unmodified: Start | None = None,
) -> Result:
    """Fetch the service's list unless it is what is published; nothing is published here.

    ``unmodified`` is the start of a list that the service answered with 304 to the published ETag in this same
    run, if nothing was sent to it since: then it is not asked again.

    :raises PullError: if the list must not be published
    :raises UpstreamError: if the list could not be fetched whole
    """
    current, result = pull.current, Result(definition=definition, report=report)
    before = pull.baseline(definition.name)
    damaged = definition.name in pull.damaged
    known = None
    if before is not None and current is not None:
        # What CURRENT says is newer than the snapshot's record: the service may have confirmed it since, and moved.
        served = current.published.get("url")
        if served == url:
            known = current.published.get("etag")
        elif served is None and before.record.get("url") == url:
            known = pull.entries[definition.name].get("etag")
    # What is damaged must be fetched again, though the service has nothing new; and that a list is as it was proves
    # nothing about what was sent.
    other_names = before is not None and Cache(before.cache).about("site_field") != pull.settings.site_field
    etag = None if damaged or other_names or _is_in_doubt(pull) else known
    if unmodified is not None and etag is not None:
        return _confirmed(pull, result, unmodified)
    began = time.monotonic()
    client = GeolocationsClient(transport)
    start = pull.directory.edits.start_of_list(to_look=pull.preview)
    with client.list(etag=etag) as listing:
        if listing.not_modified and before is not None:
            _confirmed(pull, result, start)
            report.durations_s["pull"] = round(time.monotonic() - began, 3)
            return result
        candidate = pull.candidate()
        staged = _stage(pull, definition, url, listing, candidate, start.at, report)
        report.durations_s["pull"] = round(time.monotonic() - began, 3)
        _refuse_what_is_broken(pull, definition.name, url, listing, report)
        if listing.total_count is None and _may_be_capped(pull, definition, url, listing.geolocations_seen):
            try:
                client.require_whole(listing.geolocations_seen)
            except UpstreamRefusedError as error:
                report.warnings.append(f"whether the list is complete could not be checked: {error}")
        unread = listing.unread_of_custom()
        if unread and (sites := pull.directory.local.sites_of({row.locid for row in listing.rejected})):
            report.warnings.append(f"not in lookups until their rows can be read: {', '.join(sites)}")
        return _judge(pull, result, candidate, staged, url=url, etag=listing.etag, start=start, unread=unread)


def _is_in_doubt(pull: Pull) -> bool:
    return pull.current is not None and pull.directory.local.in_doubt(Begun.of(pull.current.published))


def _confirmed(pull: Pull, result: Result, start: Start, *, etag: str | None = None, url: str | None = None) -> Result:
    """Note that the service has what it had at the last pull, by a list begun then; ``url`` is its address.

    The content decides: the same list from another address makes nothing new, and the state belongs to that address.
    """
    name = result.definition.name
    before = pull.baseline(name)
    assert before is not None
    result.report.digest = before.part.digest
    result.entry = {
        "checked_at": now_text(),
        "began_at": start.at,
        "mark": start.mark.as_json(),
        **({"etag": etag} if etag else {}),
    }
    if pull.preview or pull.current is None:
        return result
    if etag is None:  # else the list was looked at when it had come
        _hold_against(pull, Cache(before.cache), str(pull.settings.url), start, result.report, asked_freely=False)
    served = pull.current.published.get("url")
    if served is not None:
        moved = url if url != served else None
        if moved is not None:
            result.report.warnings.append(f"{moved} has exactly what {served} had, so nothing new was published")
        pull.current = pull.run.confirm(etag=etag or None, start=start, url=moved)
        known = {str(entry["name"]): entry for entry in pull.current.sources}
        result.entry = dict(known.get(name, result.entry))
    if etag is None:
        _look_for_twins(pull, Cache(before.cache), result.report)
    return result


def _stage(
    pull: Pull,
    definition: Definition,
    url: str,
    listing: Listing,
    candidate: Candidate,
    began_at: str,
    report: PullReport,
) -> Staged:
    with Staging(candidate, source=definition.name, site_field=pull.settings.site_field) as staging:
        for batch in listing.iter_batches():
            staging.add(batch)
            pull.progress(listing.geolocations_seen, listing.total_count)
        report.rejected = [
            {"locid": row.locid, "position": row.position, "block": row.block, "reason": row.reason}
            for row in listing.rejected
        ]
        report.rejected_geolocations = listing.rejected_geolocations
        report.rejected_blocks = listing.rejected_blocks
        report.number_disagreements = listing.number_disagreements
        report.bytes_read = listing.bytes_read
        begun = time.monotonic()
        staged = staging.finish({"url": url, "etag": listing.etag or "", "began_at": began_at})
        report.durations_s["compile"] = round(time.monotonic() - begun, 3)
        return staged


def _refuse_what_is_broken(pull: Pull, name: str, url: str, listing: Listing, report: PullReport) -> None:
    if listing.geolocations_seen == 0:
        raise PullError(f"{url}: the list is empty: nothing was published")
    for what, bad, rows in (
        ("geolocations", listing.rejected_geolocations, listing.geolocations_seen),
        ("blocks", listing.rejected_blocks, listing.blocks_seen),
    ):
        allowed = max(pull.settings.bad_rows, int(pull.settings.bad_rows_share * rows))
        if bad > allowed:
            first = listing.rejected[0] if listing.rejected else None
            example = f"; the first: locid {first.locid}: {first.reason}" if first else ""
            raise PullError(
                f"{url}: {bad} of {rows} {what} are bad, more than {allowed}{example}: nothing was published"
            )
        if bad:
            report.warnings.append(
                f"{bad} of {rows} {what} were left out: `geolookup check --source {name}` names them"
            )
    if listing.geolocations_seen == listing.rejected_geolocations:
        said = f"; the first: {listing.rejected[0].reason}" if listing.rejected else ""
        raise PullError(f"{url}: not one geolocation of the list is good{said}: nothing was published")


def _may_be_capped(pull: Pull, definition: Definition, url: str, count: int) -> bool:
    """True if a list without a declared count may be cut at a number of the service's own, or what it lacks is sent
    again.
    """
    before = pull.guarded(definition.name)
    first_from_url = before is None or before.record.get("url") != url
    return first_from_url or is_round(count) or pull.directory.local.ask(lambda ledger: ledger.has(LOST_CREATES))


def _judge(
    pull: Pull,
    result: Result,
    candidate: Candidate,
    staged: Staged,
    *,
    url: str,
    etag: str | None,
    start: Start,
    unread: str | None,
) -> Result:
    """Seal the candidate with what speaks against it, or find that nothing changed.

    ``unread`` says why the list does not tell all of the custom geolocations, if it does not.
    """
    report, name = result.report, result.definition.name
    report.rows, report.digest = staged.rows, staged.digest
    result.digest = staged.digest
    before = pull.baseline(name)
    if before is not None and before.part.digest == staged.digest and name not in pull.damaged:
        _believe(pull, candidate, url, start, report, unread)
        return _confirmed(pull, result, start, etag=etag or "", url=url)
    result.entry = {"checked_at": now_text(), "etag": etag, "began_at": start.at, "mark": start.mark.as_json()}
    record = {
        **result.definition.terms(),
        "name": name,
        "kind": SERVICE,
        "source": url,
        "url": url,
        "etag": etag,
        "began_at": start.at,
        "mark": start.mark.as_json(),
    }
    result = judged(pull, result, candidate, staged, record)
    if not result.reasons:  # what is held proves nothing: a broken copy may list no custom geolocations for a while
        _believe(pull, candidate, url, start, report, unread)
    return result


def believe_accepted(pull: Pull, candidate: Candidate, report: PullReport) -> None:
    """Take a list that was held, and that a person accepts, for what the service had when it was fetched."""
    document = candidate.document()
    record, of_pull = document["published"], document["report"]
    start = Start(mark=Mark.of(record["mark"]), at=record["began_at"])
    rejected = of_pull["rejected_geolocations"] + of_pull["rejected_blocks"]
    _believe(pull, candidate, record["url"], start, report, f"{rejected} rows are bad" if rejected else None)


def _believe(pull: Pull, candidate: Candidate, url: str, start: Start, report: PullReport, unread: str | None) -> None:
    """Take the list that was fetched for what the service has."""
    if unread:
        report.warnings.append(f"{unread}: this list ends no edit, and takes no site's name")
    origin = None if pull.current is None else pull.current.published.get("custom")
    if not pull.preview and origin in (None, url):  # another service's numbers are not those of the places here
        _hold_against(pull, Cache(candidate.cache), url, start, report, asked_freely=not unread)
    _look_for_twins(pull, Cache(candidate.cache), report)


def _hold_against(
    pull: Pull, cache: Cache, url: str, start: Start, report: PullReport, *, asked_freely: bool = True
) -> None:
    """Hold what was pulled against the places of this machine."""
    edits = pull.directory.edits
    if not edits.exists():
        return
    places = {place.locid: place for place in cache.custom()}
    with edits.transaction() as database:
        ledger = Ledger(database)
        ledger.at_service(url)
        findings = conclude(
            ledger,
            start,
            places,
            pull.settings.settle_s,
            asked_freely=asked_freely,
            moved=pull.directory.has_moved(url),
        )
        notices = [ledger.outbox.notice(row.id, row.locid, row.locid, row.problem or "") for row in findings.held]
        names = Names(ledger)
        report.warnings += [
            f"{names.describe(row)}: done without a push, {reason}" for row, reason in findings.over if not row.attempts
        ]
    report.warnings += findings.warnings
    report.tell([*findings.told, *notices])


def _look_for_twins(pull: Pull, cache: Cache, report: PullReport) -> None:
    """Every pull looks, since a delayed request may land after everything else."""
    report.twins = late_twins(pull.directory, cache)
    shown = {place.locid: place.place_text() for place in cache.custom()} if report.twins else {}
    for twin in report.twins:
        what = shown[twin["locid"]] or "without a name"
        number, site = twin["twin_of"], twin["site"]
        of = f"{site} ({number})" if site else f"geolocation {number}"
        of = "a create that was given up" if number is None else of
        report.warnings.append(
            f"geolocation {twin['locid']} ({what}) is the same as {of} from here, or like it, and came with it or "
            "later: a request may have been applied twice. If it is nobody's: "
            f"`geolookup custom delete {twin['locid']}`; if it is wanted: `geolookup outbox keep {twin['locid']}`"
        )


def late_twins(directory: StateDirectory, cache: Cache) -> list[dict[str, Any]]:
    """The custom geolocations in a pulled list that a create of this machine may have made in addition to its own.

    What was found is told until it is gone, has blocks, is known to be ours, or was dismissed by a person. Each with
    its ``locid``, the ``twin_of`` (None if the create was given up), that one's ``site`` and the outbox's ``edit``.
    """
    if not directory.edits.exists():
        return []
    with directory.edits.transaction() as database:
        outbox = Outbox(database)
        known = outbox.twins.known()
        if not known:
            return []
        places = {place.locid: place for place in cache.custom()}
        ours = outbox.numbers()  # another create may have turned out to have made it since
        for locid in [locid for locid in known if locid not in places or places[locid].ipblocks or locid in ours]:
            outbox.twins.forget(locid)
            del known[locid]
        # Of what a create that is held may have made, its hold says what to do.
        held = Ledger(database, outbox).read("hold IS NOT NULL").values()
        maybe = {number for kept in held if kept.hold is not None for number in kept.hold.numbers}
        dismissed, aliases = outbox.twins.dismissed() | maybe, outbox.aliases()
        sites = {local: name for name, local in SiteNames(database).locids().items()}
        return [
            {"locid": locid, "twin_of": aliases.get(made), "site": sites.get(made), "edit": edit}
            for locid, edit in sorted(known.items(), reverse=True)
            if locid not in dismissed and (made := outbox.row(edit).locid)
        ]
