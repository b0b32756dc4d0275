"""Making a generation from snapshots: one index in which the sources answer in their order, and its own record."""

import contextlib
import errno
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from geolookup.base import disk
from geolookup.index.merging import said_by, write_merged
from geolookup.index.reader import IndexReader
from geolookup.index.stack import answered_by, write_stack
from geolookup.index.writer import IndexSummary
from geolookup.model.errors import IndexFileError, StateDamagedError
from geolookup.state.base import files
from geolookup.state.base.candidate import Candidate, read_report
from geolookup.state.base.current import Current
from geolookup.state.base.parts import SERVICE, Part, entry_of, parts_of, stack_digest
from geolookup.state.generations.cache import CacheWriter

_COUNTED = ("geolocations", "custom_geolocations", "blocks", "custom_blocks")
_OF_INDEX = ("segments_v4", "segments_v6", "addresses_v4", "addresses_v6")
# A file system without hard links says one of these, or that the two are on different ones.
_NO_LINKS = (errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackedSource:
    """One source in a stack that is being made: its part, and the directory in which its snapshot stands now."""

    part: Part
    path: str

    def record(self) -> dict[str, Any]:
        """The snapshot's own record.

        :raises StateDamagedError: if it is not what was written
        """
        return dict(read_report(self.path)["published"])


def assemble(
    into: Candidate,
    layers: Sequence[StackedSource],
    *,
    custom: str | None,
    about: dict[str, Any],
    report: dict[str, Any],
) -> dict[str, Any]:
    """Fill a generation's empty directory and seal it; returns its record.

    A stack of one source has the snapshot's own index, by a hard link. Its cache.db is a link as well: to that of the
    source which the custom part comes from, the service's; else ``custom``, the cache.db of what was served before
    (a service has left, and its custom geolocations stay); else the first source's. Of sources that say nothing of
    places both are empty. There is an index of networks if a source says who runs addresses. ``about`` goes into the
    record, and so does how many addresses of each family each source answers, and of how many it says a fact.

    :raises PullError: if the sources say too many different things of networks
    :raises StateDamagedError: if a snapshot is not what was written
    :raises StateUnwritableError: if a file cannot be written
    """
    records = {layer.part.name: layer.record() for layer in layers}
    digest = stack_digest((layer.part.name, layer.part.digest) for layer in layers)
    rows: dict[str, Any] = {
        name: sum(int(record["rows"].get(name, 0)) for record in records.values()) for name in (*_COUNTED, "masks")
    }
    places = [layer for layer in layers if layer.part.has_places]
    networks = [layer for layer in layers if layer.part.has_networks]
    found: dict[str, Any] = {}
    more: dict[str, Any] = {}
    summary, more["answers"] = _lay_places(into, places, records, digest, found)
    rows |= summary
    if networks:
        summary, more["network_answers"] = _merge_networks(into, networks, records, digest, found)
        rows |= {f"network_{name}": value for name, value in summary.items()}
    service = next((layer for layer in places if layer.part.kind == SERVICE), None)
    if service is None and custom is not None:
        link_file(custom, into.cache)
    elif places:
        chosen = service or places[0]
        link_file(os.path.join(chosen.path, "cache.db"), into.cache)
        found["cache.db"] = records[chosen.part.name]["files"]["cache.db"]
    else:
        with CacheWriter(into.cache, compact=True) as cache:
            cache.finish({"digest": digest})
    record = {
        **about,
        "digest": digest,
        "rows": rows,
        "stack": [layer.part.as_dict() for layer in layers],
        **more,
    }
    return into.seal(record, report, known=found)


def receive(into: Candidate, layer: StackedSource, *, report: dict[str, Any]) -> dict[str, Any]:
    """Fill the empty directory of a generation that came from a fleet's builder, and seal it; returns its record.

    All of its files are those of the one snapshot, by hard links.

    :raises StateDamagedError: if the snapshot is not what was written
    """
    own = layer.record()
    for name in own["files"]:
        link_file(os.path.join(layer.path, name), os.path.join(into.path, name))
    about = {name: value for name, value in own.items() if name not in ("files", "name", "kind")}
    return into.seal({**about, "stack": [layer.part.as_dict()]}, report, known=own["files"])


def _lay_places(
    into: Candidate,
    layers: Sequence[StackedSource],
    records: Mapping[str, Mapping[str, Any]],
    digest: str,
    found: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Make the index of places: its counts, and the addresses that each source answers. ``found`` gets its record."""
    with contextlib.ExitStack() as opened:
        readers = [_open(opened, layer, "index") for layer in layers]
        if len(layers) == 1 and _can_stand_alone(layers[0].part.name, readers[0]):
            (layer,) = layers
            link_file(os.path.join(layer.path, "index"), into.index)
            found["index"] = records[layer.part.name]["files"]["index"]
            rows = {name: value for name, value in records[layer.part.name]["rows"].items() if name in _OF_INDEX}
            return rows, {layer.part.name: [int(rows["addresses_v4"]), str(rows["addresses_v6"])]}
        named = [(layer.part.name, reader) for layer, reader in zip(layers, readers, strict=True)]
        try:
            with files.file_errors(into.index):
                summary = write_stack(into.index, named, extra={"digest": digest}, folder=into.path)
        except IndexFileError as error:
            raise StateDamagedError(f"the sources cannot be laid over each other: {error}") from error
        found["index"] = {"bytes": summary.bytes, "sha256": summary.sha256}
        with IndexReader.open(into.index) as stacked:
            answers = {name: [v4, str(v6)] for name, (v4, v6) in answered_by(stacked).items()} if layers else {}
    return counts_of(summary), answers


def _merge_networks(
    into: Candidate,
    layers: Sequence[StackedSource],
    records: Mapping[str, Mapping[str, Any]],
    digest: str,
    found: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Make the index of networks, as `_lay_places` that of places."""
    with contextlib.ExitStack() as opened:
        readers = [_open(opened, layer, "network") for layer in layers]
        if len(layers) == 1 and readers[0].sources in ((), (layers[0].part.name,)):
            (layer,) = layers
            link_file(os.path.join(layer.path, "network"), into.network)
            found["network"] = records[layer.part.name]["files"]["network"]
            own = records[layer.part.name]["rows"]
            rows = {name: own[f"network_{name}"] for name in ("blocks", *_OF_INDEX)}
            return rows, {layer.part.name: [int(rows["addresses_v4"]), str(rows["addresses_v6"])]}
        named = [(layer.part.name, reader) for layer, reader in zip(layers, readers, strict=True)]
        try:
            with files.file_errors(into.network):
                summary = write_merged(into.network, named, extra={"digest": digest}, folder=into.path)
        except IndexFileError as error:
            raise StateDamagedError(f"the sources' networks cannot be merged: {error}") from error
        found["network"] = {"bytes": summary.bytes, "sha256": summary.sha256}
        with IndexReader.open(into.network) as merged:
            answers = {name: [v4, str(v6)] for name, (v4, v6) in said_by(merged).items()}
    blocks = sum(int(records[layer.part.name]["rows"]["network_blocks"]) for layer in layers)
    return {"blocks": blocks, **counts_of(summary)}, answers


def counts_of(summary: IndexSummary) -> dict[str, Any]:
    """The counts of an index as a record has them; those of IPv6 addresses have up to 39 digits."""
    return {
        "segments_v4": summary.segments_v4,
        "segments_v6": summary.segments_v6,
        "addresses_v4": str(summary.covered_v4),
        "addresses_v6": str(summary.covered_v6),
    }


def about_of(before: Current | None, stack: Sequence[StackedSource]) -> dict[str, Any]:
    """The list's facts in a generation's record: that of the service in it, else of the one that has left."""
    records = [layer.record() for layer in stack]
    service = next((own for own, layer in zip(records, stack, strict=True) if layer.part.kind == SERVICE), None)
    about: dict[str, Any] = {"source": ", ".join(str(own["source"]) for own in records), "url": None, "etag": None}
    if service is not None:
        served = parts_of(before.published) if before is not None else ()
        newest = service
        if before is not None and any(layer.part in served for layer in stack if layer.part.kind == SERVICE):
            newest = before.published  # which the service may have confirmed since
        about |= {name: newest.get(name) for name in ("url", "etag", "began_at", "mark")}
        if len(records) > 1:
            about["list_rows"] = service["rows"]
    elif before is not None and (url := before.published.get("url") or before.published.get("custom")):
        about |= {"custom": url, **{name: before.published.get(name) for name in ("began_at", "mark")}}
    elif len(records) == 1:
        about["began_at"] = records[0].get("began_at", "")
    about["pulled_at"] = min(str(own.get("pulled_at", "")) for own in records)
    return about


def entries_with(
    layers: Iterable[StackedSource], entries: Sequence[Mapping[str, Any]], checked_at: str
) -> tuple[dict[str, Any], ...]:
    """The entry of each source once these layers are placed: ``entries`` over what their records say."""
    known = {str(entry["name"]): entry for entry in entries}
    found = []
    for layer in layers:
        own = {name: value for name, value in known.pop(layer.part.name, {}).items() if name != "layer"}
        base = entry_of(layer.part, layer.record(), checked_at=checked_at)
        found.append({**base, **own, **layer.part.as_dict()})
    return (*found, *(dict(entry) for entry in known.values()))


def _can_stand_alone(name: str, reader: IndexReader) -> bool:
    """True if a source's own index can be the generation's: masks go, and another name must be written."""
    return not reader.has_masks and reader.sources in ((), (name,))


def _open(opened: contextlib.ExitStack, layer: StackedSource, name: str) -> IndexReader:
    try:
        return opened.enter_context(IndexReader.open(os.path.join(layer.path, name)))
    except IndexFileError as error:
        raise StateDamagedError(f"source {layer.part.name}: its snapshot cannot be used: {error}") from error


def link_file(path: str, target: str) -> None:
    """Give a file a second name, or where the file system has no such thing, a copy."""
    with files.file_errors(target):
        try:
            os.link(path, target)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            shutil.copyfile(path, target)
            os.chmod(target, 0o600)
            disk.sync_file(target)
