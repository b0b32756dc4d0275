"""One build: every file that is offered, of one snapshot of the state, put on the shelf.

The same content gives the same bytes, and is compressed once for all archives. Each compressed piece ends with a full
flush of deflate, so that it can stand in any gzip stream, after and before others (RFC 1951, section 2.3: a block may
refer back only to what came since). It is never compressed again.
"""

import hashlib
import io
import json
import re
import struct
import tarfile
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from geolookup.base.version import __version__
from geolookup.exports import licences
from geolookup.exports.content import Content, collect
from geolookup.exports.export import database, feed
from geolookup.exports.mmdb.kinds import KINDS, Kind, kind_of, narrowed
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.errors import SettingsError
from geolookup.share.shelf import Bench, Item
from geolookup.state.base.current import Current

#: The name that the geofeed has among the items of a catalog.
GEOFEED = "geofeed"
#: What a person does about a source that must not be shared.
INSTEAD = "share a state that does not have that source"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
_LEVEL = 6
# RFC 1952, section 2.3: no name, no time, compressed with neither effort, by an unknown system.
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_RECORD_BYTES = 10240


@dataclass(frozen=True, slots=True)
class Edition:
    """A database by its name, which is also the type in its metadata. A ``spare`` one is made if it says something."""

    name: str
    kind: Kind
    spare: bool = False

    def is_said(self, keys: Collection[str]) -> bool:
        """True if it is made of sources that say the facts of networks that have these keys."""
        facts = self.kind.facts
        if self.kind.holding != "network" and not self.spare:
            return True
        return bool(keys) if facts is None else not facts.isdisjoint(keys)


#: Our own: those of places there always are, the others if a source says who runs addresses.
OWN = (
    Edition("geolookup-City", Kind("both")),
    Edition("geolookup-Country", Kind("both", precision="country")),
    Edition("geolookup-Network", Kind("network"), spare=True),
    Edition("geolookup-Enterprise", Kind("all"), spare=True),
)


def editions(names: Iterable[str]) -> tuple[Edition, ...]:
    """Our own editions, and one for each of ``names``, which say themselves what they hold.

    :raises SettingsError: if a name does not
    """
    found = {each.name: each for each in OWN}
    for name in names:
        kind = kind_of(name)
        if not _NAME.fullmatch(name) or kind is None:
            raise SettingsError(
                f"edition {name!r:.80}: must be a name of at most 64 letters, digits, - and _ with what is in the "
                f"database as a word, like GeoLite2-City: {', '.join(KINDS)}"
            )
        found[name] = Edition(name, kind)
    return tuple(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of a stream, as it is and as `deflated` makes it: each call reads it from its beginning."""

    plain: Callable[[], Iterable[bytes]]
    deflated: Callable[[], Iterable[bytes]]


def piece_of(octets: bytes) -> Piece:
    """A piece that is in memory."""
    packed = b"".join(deflated([octets]))
    return Piece(plain=lambda: [octets], deflated=lambda: [packed])


def deflated(plain: Iterable[bytes]) -> Iterator[bytes]:
    """Compressed, ending with a full flush."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    for octets in plain:
        if packed := packer.compress(octets):
            yield packed
    yield packer.flush(zlib.Z_FULL_FLUSH)


def gzip_of(pieces: Iterable[Piece]) -> Iterator[bytes]:
    """One gzip member with the content of all pieces."""
    yield _GZIP_HEAD
    check, size = 0, 0
    for piece in pieces:
        for octets in piece.plain():
            check = zlib.crc32(octets, check)
            size += len(octets)
        yield from piece.deflated()
    yield zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS).flush()  # an empty last block
    yield struct.pack("<LL", check, size & 0xFFFFFFFF)


def tar_of(
    database: Iterable[Piece], name: str, size_bytes: int, others: dict[str, bytes], modified: int
) -> Iterator[Piece]:
    """A tar file (POSIX.1-1988) with the database under ``name``, then other small files."""
    yield piece_of(_head(name, size_bytes, modified))
    yield from database
    rest = io.BytesIO()
    rest.write(bytes(-size_bytes % tarfile.BLOCKSIZE))
    for other, octets in others.items():
        rest.write(_head(other, len(octets), modified) + octets + bytes(-len(octets) % tarfile.BLOCKSIZE))
    rest.write(bytes(2 * tarfile.BLOCKSIZE))
    so_far = tarfile.BLOCKSIZE + size_bytes + rest.tell()
    rest.write(bytes(-so_far % _RECORD_BYTES))
    yield piece_of(rest.getvalue())


def _head(name: str, size_bytes: int, modified: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = size_bytes
    member.mtime = modified
    member.mode = 0o644
    return member.tobuf(tarfile.GNU_FORMAT)


def key_of(current: Current, editions: Sequence[Edition]) -> str:
    """The key that distinguishes builds: by the publish, its terms, and the databases that are built."""
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
        taken = geo.with_networks(lambda snapshot: _take(home, snapshot, editions, licence_allows=licence_allows))
    missing = [edition.name for edition in editions if edition not in taken.editions and not edition.spare]
    bench.publish(
        key_of(taken.current, editions),
        taken.whole.published,
        tuple(_items(bench, home, taken)),
        time.time(),
        sources=taken.whole.credited(),
        missing=tuple(missing),
    )


class _Taken(NamedTuple):
    """The answers of one snapshot, in memory: the ``whole``, and our ``own`` layer alone; and the editions of it."""

    current: Current
    whole: Content
    own: Content
    editions: tuple[Edition, ...]


def _take(home: str, snapshot: Snapshot, editions: Sequence[Edition], *, licence_allows: bool) -> _Taken:
    networks = snapshot.networks()
    keys = () if networks is None else networks.reader.record_keys
    whole = collect(snapshot, layer="all", source=None, progress=_untold, records=True)
    if not licence_allows:
        licences.require_leave(home, snapshot.current, whole.credited(), instead=INSTEAD)
    return _Taken(
        snapshot.current,
        whole,
        collect(snapshot, layer="custom", source=None, progress=_untold),
        tuple(edition for edition in editions if edition.is_said(keys)),
    )


def _untold(_done: int, _all: int) -> None:
    """The progress of a build is not shown."""


def _items(bench: Bench, home: str, taken: _Taken) -> Iterator[Item]:
    parts, _ = feed(taken.own, (), postal_codes=False, public_only=True, progress=_untold)
    yield _added(bench, GEOFEED, "csv", parts)
    for kind in dict.fromkeys(edition.kind for edition in taken.editions):
        content = narrowed(taken.whole, kind)
        credited = content.credited()
        encoded, _, _ = database(content, licences.attributions(home, taken.current, credited), kind, _untold)
        licence = licences.text(home, taken.current, credited).encode()
        body = bench.scratch(encoded.body)
        packed = bench.scratch(deflated(body()))
        for edition in taken.editions:
            if edition.kind == kind:
                pieces = (Piece(plain=body, deflated=packed), piece_of(encoded.metadata(edition.name)))
                yield from _forms(bench, edition.name, pieces, taken.whole.published, licence)


def _forms(bench: Bench, name: str, pieces: Sequence[Piece], moment: int, licence: bytes) -> Iterator[Item]:
    """The forms of one database."""
    made = _added(bench, name, "mmdb", (octets for piece in pieces for octets in piece.plain()))
    yield made
    yield _added(bench, name, "mmdb.gz", gzip_of(pieces), made.md5)
    folder = f"{name}_{datetime.fromtimestamp(moment, UTC):%Y%m%d}"
    for form, prefix in (("tar.gz", f"{folder}/"), ("tgz", "")):
        others = {f"{prefix}LICENSE.txt": licence}
        archive = tar_of(pieces, f"{prefix}{name}.mmdb", made.size_bytes, others, moment)
        yield _added(bench, name, form, gzip_of(archive), made.md5)


def _added(bench: Bench, name: str, form: str, parts: Iterable[bytes], of: str = "") -> Item:
    with bench.adding(name, form, of) as file:
        for octets in parts:
            file.write(octets)
    return file.item
