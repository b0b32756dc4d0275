"""A whole MaxMind DB: search tree, data section, metadata."""

from collections.abc import Iterable, Iterator, Mapping

from geolookup.exports.mmdb.tree import SEPARATOR_BYTES, Tree
from geolookup.index import mmdb
from geolookup.index.flatten import Array

#: So many bytes of a part are handed out at a time.
_AT_ONCE = 1 << 20
_MARKER = b"\xab\xcd\xefMaxMind.com"


class Encoded:
    """A database in two parts, of which only the second one has its type. The first one can be read once.

    ``section`` is the data section, ``offsets`` where each record of the tree stands in it. ``description`` is by
    language, ``build_epoch`` in seconds since 1970.

    :raises DataFileError: if it would be larger than the format can be
    """

    def __init__(
        self,
        tree: Tree,
        section: bytes | bytearray,
        offsets: Array,
        *,
        description: Mapping[str, str],
        build_epoch: int,
    ) -> None:
        bits, parts = tree.packed(offsets)
        self.body = _joined(parts, bytes(SEPARATOR_BYTES), section)
        self._metadata = {
            "binary_format_major_version": mmdb.uint16(2),
            "binary_format_minor_version": mmdb.uint16(0),
            "build_epoch": mmdb.uint64(build_epoch),
            "database_type": b"",
            "description": mmdb.map_of((mmdb.text(key), mmdb.text(value)) for key, value in description.items()),
            "ip_version": mmdb.uint16(6),
            "languages": mmdb.array_of(mmdb.text(language) for language in description),
            "node_count": mmdb.uint32(tree.node_count),
            "record_size": mmdb.uint16(bits),
        }

    def metadata(self, database_type: str) -> bytes:
        """The metadata that follow the body in a database of this type."""
        known = {**self._metadata, "database_type": mmdb.text(database_type)}
        return _MARKER + mmdb.map_of((mmdb.text(key), value) for key, value in known.items())


def encode(
    tree: Tree,
    section: bytes | bytearray,
    offsets: Array,
    *,
    database_type: str,
    description: Mapping[str, str],
    build_epoch: int,
) -> Iterator[bytes]:
    """The bytes of the file, in parts; see `Encoded`.

    :raises DataFileError: if it would be larger than the format can be; before the first part
    """
    made = Encoded(tree, section, offsets, description=description, build_epoch=build_epoch)
    return _joined(made.body, made.metadata(database_type))


def _joined(parts: Iterable[bytes], *rest: bytes | bytearray) -> Iterator[bytes]:
    yield from parts
    for octets in rest:
        for begin in range(0, len(octets), _AT_ONCE):
            yield bytes(octets[begin : begin + _AT_ONCE])
