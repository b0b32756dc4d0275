"""One build: every file that is offered, of one snapshot of the state, put on the shelf."""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from geolookup.base.version import __version__
from geolookup.exports import licences
from geolookup.exports.content import Content, collect
from geolookup.exports.export import database, feed
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.snapshot import Snapshot
from geolookup.share.archive import Piece, deflated, gzip_of, piece_of, tar_of
from geolookup.share.editions import Edition
from geolookup.share.shelf import Bench, Item
from geolookup.state.base.current import Current

#: The name that the geofeed has among the items of a catalog.
GEOFEED = "geofeed"
#: What a person does about a source that must not be shared.
INSTEAD = "share a state that does not have that source"


def key_of(current: Current, editions: Sequence[Edition]) -> str:
    """What distinguishes one build from another: what is published, its terms, and what is built of it."""
    terms = [
        [entry["name"], *(entry.get(name) for name in ("licence", "attribution", "redistribute"))]
        for entry in current.sources
    ]
    about = [
        __version__,
        current.generation,
        current.digest,
        current.overlay,
        current.overlay_file,
        current.published_at,
        terms,
        sorted(edition.name for edition in editions),
    ]
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def build(home: str, folder: str, editions: Sequence[Edition], *, licence_allows: bool) -> None:
    """Build what is published now, and replace the catalog.

    :raises LicenceError: if a source that answers something does not let others have its data
    :raises StateError: if the state cannot be read
    :raises DataFileError: if a file cannot be written
    """
    bench = Bench(folder)
    with GeoLookup(home) as geo:
        taken = geo.with_snapshot(lambda snapshot: _take(home, snapshot, licence_allows=licence_allows))
    items = tuple(_items(bench, taken, editions))
    bench.publish(
        key_of(taken.current, editions), taken.both.published, items, time.time(), sources=taken.both.answering
    )


class _Taken:
    """What one snapshot answers, in memory: ``both`` layers, and our ``own`` one alone."""

    def __init__(self, current: Current, both: Content, own: Content, credit: tuple[str, ...], licence: bytes) -> None:
        self.current = current
        self.both = both
        self.own = own
        self.credit = credit
        self.licence = licence


def _take(home: str, snapshot: Snapshot, *, licence_allows: bool) -> _Taken:
    both = collect(snapshot, layer="both", source=None, progress=_untold)
    if not licence_allows:
        licences.require_leave(home, snapshot.current, both.answering, instead=INSTEAD)
    return _Taken(
        snapshot.current,
        both,
        collect(snapshot, layer="custom", source=None, progress=_untold),
        licences.attributions(home, snapshot.current, both.answering),
        licences.text(home, snapshot.current, both.answering).encode(),
    )


def _untold(_done: int, _all: int) -> None:
    """Nobody watches a build's progress."""


def _items(bench: Bench, taken: _Taken, editions: Sequence[Edition]) -> Iterator[Item]:
    parts, _ = feed(taken.own, (), postal_codes=False, public_only=True, progress=_untold)
    yield _added(bench, GEOFEED, "csv", parts)
    for detail in dict.fromkeys(edition.detail for edition in editions):
        encoded, _ = database(taken.both, taken.credit, detail, _untold)
        body = bench.scratch(encoded.body)
        packed = bench.scratch(deflated(body()))
        for edition in editions:
            if edition.detail == detail:
                pieces = (Piece(plain=body, deflated=packed), piece_of(encoded.metadata(edition.name)))
                yield from _forms(bench, edition, pieces, taken)


def _forms(bench: Bench, edition: Edition, pieces: Sequence[Piece], taken: _Taken) -> Iterator[Item]:
    """The forms of one database."""
    made = _added(bench, edition.name, "mmdb", (octets for piece in pieces for octets in piece.plain()))
    yield made
    yield _added(bench, edition.name, "mmdb.gz", gzip_of(pieces), made.md5)
    moment = taken.both.published
    folder = f"{edition.name}_{datetime.fromtimestamp(moment, UTC):%Y%m%d}"
    for form, prefix in (("tar.gz", f"{folder}/"), ("tgz", "")):
        others = {f"{prefix}LICENSE.txt": taken.licence}
        archive = tar_of(pieces, f"{prefix}{edition.name}.mmdb", made.size_bytes, others, moment)
        yield _added(bench, edition.name, form, gzip_of(archive), made.md5)


def _added(bench: Bench, name: str, form: str, parts: Iterable[bytes], of: str = "") -> Item:
    with bench.adding(name, form, of) as file:
        for octets in parts:
            file.write(octets)
    return file.item
