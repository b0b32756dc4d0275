"""A file, folder or address as a source: looked at for news, fetched, read by its kind, and judged."""

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from geolookup.base.garbage import give_back, rarely_collected
from geolookup.files.streams import Limits
from geolookup.http.download import Downloader, Fetched
from geolookup.index.reader import IndexReader
from geolookup.model.errors import DataFileError, IndexFileError, PullError, UpstreamRefusedError
from geolookup.model.fields import FIRST_OWN_LOCID
from geolookup.settings.secrets import read_source_secret
from geolookup.sources.bundled import bundled_ranges_path
from geolookup.sources.definition import TOKEN, Definition, file_name
from geolookup.sources.detect import open_source
from geolookup.sources.locids import Numbered, Numbering
from geolookup.sources.protocol import Reading
from geolookup.sources.providers import UNKNOWN_LICENCE, Terms, following, recognised
from geolookup.state.base import clock, files
from geolookup.state.base.candidate import Candidate
from geolookup.state.base.parts import BUNDLED, REGISTRY
from geolookup.sync.pull.context import Pull, PullReport, Result
from geolookup.sync.pull.guard import judged
from geolookup.sync.pull.layers import SourceStaging
from geolookup.sync.pull.staging import Staged, earlier_places

_NOT_FOUND = 404
#: After so many batches memory that lies free is given back.
_BATCHES_A_PART = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file or folder to be read; ``path`` is None if it is known to have nothing new.

    ``entry`` is what CURRENT remembers, so that the next sync can tell whether there is anything new.
    """

    path: str | None
    entry: dict[str, Any] = field(default_factory=dict)


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
    asked = {
        "asked_kind": definition.kind,
        "asked_layer": definition.layer,
        "asked_sheet": definition.sheet,
        "fields": dict(definition.fields),
    }
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
    with _local_file(pull, definition, report, entry if usable else {}, candidate.path) as found:
        if found.path is not None:
            with _named_as(found):
                staged, record = _stage(pull, definition, found, candidate, report, taken)
    report.durations_s["pull"] = round(time.monotonic() - began, 3)
    result.entry = {"checked_at": clock.now_text(), "began_at": began_at, **asked, **found.entry}
    if found.path is not None:
        # Also if what it says of the addresses is as before: the file that says so is the newer one.
        result.entry |= {name: record[name] for name in ("recognised", "dated")}
    else:
        assert before is not None
        report.digest, report.rows = before.part.digest, dict(before.record["rows"])
        return result
    return _judge(pull, result, candidate, staged, record, usable=usable)


def _numbered_before(pull: Pull, definition: Definition) -> Iterator[Numbered]:
    """The places that have a number of ours in the snapshots which the next one follows."""
    own = pull.baseline(definition.name)
    return (earlier_places(each.index) for each in ([own] if own else pull.before(definition)) if each.part.has_places)


@contextlib.contextmanager
def _named_as(found: Found) -> Iterator[None]:
    """Have errors name the address that a file was fetched from, in place of its temporary file."""
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
    report: PullReport,
    taken: frozenset[int],
) -> tuple[Staged, dict[str, Any]]:
    assert found.path is not None
    settings = pull.settings
    limits = Limits(bad_rows=settings.bad_rows, bad_rows_share=settings.bad_rows_share)
    with open_source(
        found.path,
        kind=definition.kind or None,
        fields=definition.fields or None,
        layer=definition.layer,
        sheet=definition.sheet,
        limits=limits,
    ) as reading:
        gathered = reading.gathered
        gathered.tell = pull.progress
        earlier = () if reading.own_locids else _numbered_before(pull, definition)
        numbering = Numbering(earlier, following=pull.following, taken=taken)
        with rarely_collected(), SourceStaging(candidate, definition.name, gathered, numbering) as staging:
            for number, batch in enumerate(reading.batches(records=True, networks=True)):
                staging.add(batch)
                if not number % _BATCHES_A_PART:
                    give_back()
                pull.progress(gathered.decoded + gathered.rows, gathered.expected)
            give_back()
            staged = staging.finish({"source": definition.name, "kind": reading.kind})
        pull.following = max(pull.following, numbering.following)
    report.rejected = [
        {"locid": None, "position": row.number, "block": None, "reason": str(row)} for row in gathered.bad_in_order()
    ]
    report.rejected_blocks = gathered.bad
    address = str(found.entry.get("address", found.path))  # in place of a temporary file
    report.warnings += [warning.replace(found.path, address) for warning in gathered.warnings]
    if gathered.bad:
        report.warnings.append(
            f"{definition.name}: {gathered.bad} of {gathered.rows} rows were left out: `geolookup check --source "
            f"{definition.name}` names them; the first: {gathered.bad_in_order()[0]}"
        )
    if gathered.custom_left_out:
        report.warnings.append(f"{definition.name}: {gathered.custom_left_out} custom geolocations were left out")
    found_terms = _terms(pull, definition, report, reading)
    record = {
        **definition.terms(found_terms),
        "recognised": {} if found_terms is None else found_terms.as_dict(),
        "name": definition.name,
        "kind": reading.kind,
        "layer": staged.layer,
        "source": BUNDLED if reading.kind == REGISTRY else definition.location,
        "about": dict(gathered.about),
        "dated": gathered.dated,
        "rows_read": gathered.rows,
        "rows_without_location": gathered.rows_without_location,
    }
    return staged, record


def _terms(pull: Pull, definition: Definition, report: PullReport, reading: Reading) -> Terms | None:
    """The terms of the file: its own words or name say them, else it is unknown whose it is.

    An unknown one does not get free by coming where a recognised one was, of the same kind and under another name.
    """
    found = recognised(reading.kind, reading.gathered.about, (file_name(definition.location), *reading.names))
    if found is not None:
        return found
    earlier = next((each.record for each in pull.before(definition) if each.record.get("recognised")), None)
    if earlier is None or earlier.get("kind") != reading.kind:
        return None
    known = earlier["recognised"]
    if known.get("licence") and not definition.licence:
        report.warnings.append(
            f"{definition.name}: nothing in this file says whose it is, and the one before it was under "
            f"{known['licence']}: its licence is {UNKNOWN_LICENCE} (`licence = …` and `redistribute = …` of its "
            "[[source]] in the settings)"
        )
    return following(known)


def _judge(
    pull: Pull, result: Result, candidate: Candidate, staged: Staged, record: dict[str, Any], *, usable: bool
) -> Result:
    """Seal the candidate with what speaks against it, or find that nothing changed."""
    report, name = result.report, result.definition.name
    report.rows, report.digest = staged.rows, staged.digest
    result.digest = staged.digest
    before = pull.baseline(name)
    if usable and before is not None and before.part.digest == staged.digest:
        # The same answers, as of whichever date is the newer.
        dates = [date for each in (record, before.record) if (date := each.get("dated"))]
        result.entry["dated"] = max(dates, default=None)
        return result
    return judged(pull, result, candidate, staged, {**record, **result.entry})


@contextlib.contextmanager
def _local_file(
    pull: Pull, definition: Definition, report: PullReport, known: Mapping[str, Any], folder: str
) -> Iterator[Found]:
    """The source as a file. ``known`` is what CURRENT remembers of the snapshot that is usable, else empty.

    What is fetched is in a temporary file in ``folder`` for as long as the context lasts.

    :raises DataFileError: if it cannot be read
    :raises UpstreamError: if it cannot be fetched
    :raises SettingsError: if its secret or address cannot be used
    """
    if definition.kind == REGISTRY and not definition.location:
        yield _unless_known(bundled_ranges_path(), known)
    elif definition.is_remote:
        with files.file_errors(folder), tempfile.TemporaryDirectory(prefix=".fetched-", dir=folder) as inside:
            yield _fetched(pull, definition, report, known, os.path.join(inside, "file"))
    else:
        (path,) = definition.addresses(clock.wall().date(), None)[:1]
        yield _unless_known(path, known)


def _unless_known(path: str, known: Mapping[str, Any]) -> Found:
    stamp = _stamp(path)
    if known and known.get("file") == stamp:
        return Found(path=None, entry={"file": stamp})
    digest = _digest(path)
    entry = {"file": stamp, "file_digest": digest}
    return Found(path=None if known.get("file_digest") == digest else path, entry=entry)


def _fetched(pull: Pull, definition: Definition, report: PullReport, known: Mapping[str, Any], path: str) -> Found:
    secret = None if definition.settings is None else read_source_secret(definition.settings)
    addresses = definition.addresses(clock.wall().date(), secret)
    auth = "" if TOKEN in definition.location else definition.auth
    with Downloader(pull.settings, secret=secret, auth=auth, auth_header=definition.auth_header) as downloader:
        for position, address in enumerate(addresses):
            shown = downloader.shown(address)
            same = known if known.get("address") == shown else {}
            try:
                fetched = _fetch(pull, downloader, address, same, path)
            except UpstreamRefusedError as error:
                if error.status != _NOT_FOUND or position + 1 == len(addresses):
                    raise
                report.warnings.append(f"{definition.name}: {shown} is not there yet: {_before(definition)} is used")
                continue
            break
    report.bytes_read = fetched.bytes_read
    entry = {"etag": fetched.etag, "last_modified": fetched.last_modified, "address": shown}
    if fetched.unchanged:
        return Found(path=None, entry=entry)
    digest = _digest(path)
    return Found(path=None if known.get("file_digest") == digest else path, entry={**entry, "file_digest": digest})


def _before(definition: Definition) -> str:
    return "the week before" if definition.dated == "monday" else "the month before"


def _fetch(pull: Pull, downloader: Downloader, address: str, known: Mapping[str, Any], path: str) -> Fetched:
    with contextlib.ExitStack() as opened:

        def begin() -> Any:
            opened.close()  # of an attempt that broke off
            return opened.enter_context(open(path, "wb")).write

        return downloader.fetch(
            address,
            begin,
            etag=known.get("etag"),
            last_modified=known.get("last_modified"),
            progress=pull.progress,
        )


def _members(path: str) -> list[str]:
    """The file, or the files of a folder in the order of their names."""
    if not os.path.isdir(path):
        return [path]
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)


def _stamp(path: str) -> str:
    """A digest of a file's size, time of change and number; of a folder, of those of all its files."""
    with _readable(path):
        found = [(each, os.stat(each)) for each in _members(path)]
        text = "\n".join(f"{each} {stat.st_size} {stat.st_mtime_ns} {stat.st_ino}" for each, stat in found)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _digest(path: str) -> str:
    """The SHA-256 of a file's bytes; of a folder, of all its files with their names."""
    with _readable(path):
        whole = hashlib.sha256()
        for each in _members(path):
            with open(each, "rb") as file:
                content = hashlib.file_digest(file, "sha256").digest()
            whole.update(os.path.relpath(each, path).encode("utf-8", "surrogateescape") + b"\0" + content)
        return whole.hexdigest()


@contextlib.contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataFileError(f"{path}: reading failed: {error.strerror}") from error
