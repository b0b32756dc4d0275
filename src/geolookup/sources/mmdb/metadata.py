"""The metadata of a MaxMind DB (specification 2.0), and where its parts lie: all of it checked before it is used."""

import mmap
from dataclasses import dataclass, field
from typing import Any

import maxminddb
from maxminddb.decoder import Decoder

from geolookup.base.text import harmless
from geolookup.errors import DataFileError

MARKER = b"\xab\xcd\xefMaxMind.com"
#: The specification puts the metadata within the last 128 KiB.
TAIL_BYTES = 128 << 10

#: The zeros between the search tree and the data.
_SEPARATOR_BYTES = 16

#: What `maxminddb`'s decoder raises for damaged content: its own error, text that is not UTF-8, a map as a map's key.
DECODING_FAILED = (maxminddb.InvalidDatabaseError, ValueError, TypeError, LookupError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What the file says of itself, and the bounds that follow.

    ``record_bits`` is 24, 28 or 32; ``width`` the bits of an address, 32 or 128. The tree's bytes are the first
    ``tree_bytes``; data begin at ``data_begin`` and end before ``data_end``.
    """

    node_count: int
    record_bits: int
    width: int
    data_begin: int
    data_end: int
    about: dict[str, str] = field(default_factory=dict)

    @property
    def tree_bytes(self) -> int:
        """The size of the search tree."""
        return self.node_count * self.record_bits // 4


def read_metadata(name: str, buffer: mmap.mmap) -> Metadata:
    """The metadata of a mapped file.

    :raises DataFileError: if there are none, or they do not fit the file
    """
    at = buffer.rfind(MARKER, max(0, len(buffer) - TAIL_BYTES))
    if at < 0:
        raise DataFileError(f"{name}: is not a MaxMind DB, or was cut short: its metadata are missing")
    begin = at + len(MARKER)
    try:
        found, _ = Decoder(buffer, begin).decode(begin)
    except DECODING_FAILED as error:
        raise DataFileError(f"{name}: the file is damaged: its metadata cannot be read") from error
    if not isinstance(found, dict):
        raise DataFileError(f"{name}: the file is damaged: its metadata are not a map")
    major, nodes, bits, version = (
        _whole(name, found, key) for key in ("binary_format_major_version", "node_count", "record_size", "ip_version")
    )
    if major != 2:
        raise DataFileError(f"{name}: is a MaxMind DB of version {major}: this release reads version 2")
    if bits not in (24, 28, 32):
        raise DataFileError(f"{name}: the file is damaged: records of {bits} bits are not 24, 28 or 32")
    if version not in (4, 6):
        raise DataFileError(f"{name}: the file is damaged: unknown IP version {version}")
    data_begin = nodes * bits // 4 + _SEPARATOR_BYTES
    if not nodes or data_begin > at:
        raise DataFileError(f"{name}: the file is damaged or was cut short: a tree of {nodes} nodes does not fit it")
    return Metadata(
        node_count=nodes,
        record_bits=bits,
        width=32 if version == 4 else 128,
        data_begin=data_begin,
        data_end=at,
        about=_about(found),
    )


def _whole(name: str, found: dict[Any, Any], key: str) -> int:
    value = found.get(key)
    if type(value) is not int or not 0 <= value < 1 << 32:
        raise DataFileError(f"{name}: the file is damaged: {key} is missing from its metadata")
    return value


def _about(found: dict[Any, Any]) -> dict[str, str]:
    about = {"record_size": str(found["record_size"])}
    if isinstance(kind := found.get("database_type"), str):
        about["database_type"] = harmless(kind)
    if isinstance(epoch := found.get("build_epoch"), int):
        about["build_epoch"] = str(epoch)
    description = found.get("description")
    if isinstance(description, dict):
        text = description.get("en") or next(iter(description.values()), None)
        if isinstance(text, str) and text:
            about["description"] = harmless(text)
    return about
