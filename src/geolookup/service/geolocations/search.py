"""Operation 1: the list of geolocations, its ETag, and its JSON in pieces."""

import hashlib
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Select, func, literal, select

from geolookup.model.fields import FIELD_NAMES, FILTER_NAMES
from geolookup.service.store.schema import fold, geolocations, ipblocks, unpadded
from geolookup.service.store.store import ReadTransaction, Store
from geolookup.web import wire

#: Bytes of a piece of the answer, about.
CHUNK_BYTES = 131072
_ROWS = 2000
#: Raise it if the same content is written differently, so that old ETags no longer match.
_WIRE_VERSION = 1

_encode = msgspec.json.Encoder().encode
_block_rows = itemgetter(0)
_block_json = itemgetter(1)


# A geolocation as the service writes it, without its blocks.
_PLACE_NAMES = ("locid", *FIELD_NAMES)
_Place = msgspec.defstruct("_Place", _PLACE_NAMES)


class Filter(msgspec.Struct, frozen=True):
    """The requested geolocations: those that equal the folded texts, the first ``top`` by ascending locid.

    ``locid`` is not part of the interface: with it, the ``Location`` of a created geolocation can be read.
    """

    texts: tuple[tuple[str, str], ...] = ()
    locid: int | None = None
    top: int | None = None

    @classmethod
    def parse(cls, query: bytes) -> "Filter":
        """From the query: an empty text sets no filter, and parameters that we do not know are ignored.

        :raises RequestRefusedError: as `wire.parameters`, `wire.top` and `wire.locid` do
        """
        found = wire.parameters(query, "top", "locid", *FILTER_NAMES)
        texts = tuple((name, fold(found[name])) for name in FILTER_NAMES if found.get(name))
        return cls(texts=texts, locid=wire.locid(found) if "locid" in found else None, top=wire.top(found))

    def condition(self) -> list[ColumnElement[bool]]:
        """SQL that is true for the requested geolocations, without ``top``."""
        wanted: list[ColumnElement[bool]] = [geolocations.c[f"{name}_key"] == text for name, text in self.texts]
        if self.locid is not None:
            wanted.append(geolocations.c.locid == self.locid)
        return wanted

    def locids(self) -> Select[tuple[int]]:
        """SQL for the requested locids."""
        return select(geolocations.c.locid).where(*self.condition()).order_by(geolocations.c.locid).limit(self.top)


def etag(store: Store, revision: int, wanted: Filter) -> str:
    """The strong entity tag of an answer: the same database, revision and filter give the same bytes."""
    digest = hashlib.sha256(_encode(wanted)).hexdigest()[:16]
    return f'"{revision_tag(store, revision)}-{digest}"'


def revision_tag(store: Store, revision: int) -> str:
    """The beginning of the tags of all lists of one revision."""
    return f"{store.uuid}-{_WIRE_VERSION}-{revision}"


def count(snapshot: ReadTransaction, wanted: Filter) -> int:
    """The number of geolocations in the answer."""
    return int(snapshot.connection.execute(select(func.count()).select_from(wanted.locids().subquery())).scalar_one())


def encode(snapshot: ReadTransaction, wanted: Filter) -> Iterator[bytes]:
    """The answer's JSON in pieces of about `CHUNK_BYTES`, also if one geolocation is larger.

    Geolocations come by ascending locid, their blocks by family, first and last address. Two ordered results are
    walked side by side, since a join would repeat each geolocation with every block of it.
    """
    connection = snapshot.connection.execution_options(yield_per=_ROWS)
    whole = wanted == Filter()
    places = connection.execute(_select_places(wanted, whole))
    by_place = groupby(_rows(connection.execute(_select_blocks(wanted, whole))), _block_rows)
    owner, blocks = next(by_place, (None, iter(())))
    pieces, size, separator = ["["], 1, ""
    for place in _rows(places):
        head = f'{separator}{_encode(_Place(*place))[:-1].decode()},"ipblocks":['
        separator = ","
        pieces.append(head)
        size += len(head)
        if owner == place[0]:
            comma = ""
            for text in map(_block_json, blocks):
                pieces.append(comma + text)
                comma = ","
                size += len(text) + 1
                if size >= CHUNK_BYTES:
                    yield "".join(pieces).encode()
                    pieces, size = [], 0
            owner, blocks = next(by_place, (None, iter(())))
        pieces.append("]}")
        size += 2
        if size >= CHUNK_BYTES:
            yield "".join(pieces).encode()
            pieces, size = [], 0
    pieces.append("]")
    yield "".join(pieces).encode()


def _rows(result: Any) -> Iterator[Any]:
    for partition in result.partitions():
        yield from partition


def _select_places(wanted: Filter, whole: bool) -> Select[Any]:
    columns = select(*(geolocations.c[name] for name in _PLACE_NAMES)).order_by(geolocations.c.locid)
    return columns if whole else columns.where(*wanted.condition()).limit(wanted.top)


def _select_blocks(wanted: Filter, whole: bool) -> Select[Any]:
    # The database writes the JSON of a block: its values need no escaping, and 4.5 million rows of four values take
    # Python twice as long.
    text = (
        literal('{"startip":"')
        + ipblocks.c.startip
        + literal('","endip":"')
        + ipblocks.c.endip
        + literal('","startipnum":')
        + unpadded(ipblocks.c.startipnum)
        + literal(',"endipnum":')
        + unpadded(ipblocks.c.endipnum)
        + literal("}")
    )
    key = ipblocks.primary_key.columns
    rows = select(ipblocks.c.locid, text).order_by(key.locid, key.family, key.startipnum, key.endipnum)
    return rows if whole else rows.where(ipblocks.c.locid.in_(wanted.locids()))
