"""Archives of a database: the same content gives the same bytes, and is compressed once for all of them.

What is compressed ends with a full flush of deflate, so that it can stand in any gzip stream, after and before other
compressed pieces (RFC 1951, section 2.3: a block may refer back only to what came since). It is never compressed again.
"""

import io
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

_LEVEL = 6
# RFC 1952, section 2.3: no name, no time, compressed with neither effort, by an unknown system.
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_RECORD_BYTES = 10240


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
