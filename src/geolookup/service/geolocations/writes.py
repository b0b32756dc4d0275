"""Operations 2 to 7, and the answers kept for idempotency keys: each inside one write transaction of its caller.

The first answer to a key is stored with its changes, and repeated.
"""

import hashlib
import json
import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, and_, bindparam, delete, func, insert, select, update

from geolookup.model.errors import RequestRefusedError
from geolookup.model.fields import FIELD_NAMES
from geolookup.model.types import IPBlock
from geolookup.service.store import schema
from geolookup.service.store.schema import geolocations, idempotency, ipblocks, padded
from geolookup.service.store.store import Transaction

# Made once: to make a statement takes longer than to run it.
_WANTED: ColumnElement[int] = bindparam("wanted", type_=BigInteger)
_IS_THERE = select(geolocations.c.locid).where(geolocations.c.locid == _WANTED)
_FIELDS = select(*(geolocations.c[name] for name in FIELD_NAMES)).where(geolocations.c.locid == _WANTED)
_CREATE = insert(geolocations)
_CHANGE = (
    update(geolocations)
    .where(geolocations.c.locid == _WANTED)
    .values({name: bindparam(name) for name in schema.with_keys(dict.fromkeys(FIELD_NAMES, ""))})
)
_REMOVE = delete(geolocations).where(geolocations.c.locid == _WANTED)
_REMOVE_BLOCKS = delete(ipblocks).where(ipblocks.c.locid == _WANTED)
_CREATE_BLOCK = insert(ipblocks)
_OWNER = select(ipblocks.c.locid).where(
    ipblocks.c.locid < 0,
    ipblocks.c.family == bindparam("of"),
    ipblocks.c.startipnum == bindparam("begin"),
    ipblocks.c.endipnum == bindparam("end"),
)


def require_custom(transaction: Transaction, locid: int) -> None:
    """Make sure that the locid is one of a custom geolocation.

    :raises RequestRefusedError: ``unknown-geolocation``; ``default-geolocation-immutable`` for a default one that is
        there (a default one that is not there is unknown, like any other)
    """
    if transaction.connection.execute(_IS_THERE, {"wanted": locid}).first() is None:
        raise RequestRefusedError(f"geolocation {locid} does not exist", problem="unknown-geolocation")
    if locid > 0:
        raise RequestRefusedError(
            f"{locid} is a default geolocation: define a custom one with the blocks that it should have",
            problem="default-geolocation-immutable",
        )


def create(transaction: Transaction, fields: dict[str, Any]) -> int:
    """Operation 2: the locid of a new custom geolocation, never one that was given out before."""
    connection = transaction.connection
    locid = transaction.database.next_locid(connection)
    connection.execute(_CREATE, {"locid": locid, **schema.with_keys(fields)})
    transaction.changed = True
    return locid


def change(transaction: Transaction, locid: int, fields: dict[str, Any]) -> None:
    """Operation 4. If the fields are the same as before, nothing changes."""
    connection = transaction.connection
    row = connection.execute(_FIELDS, {"wanted": locid}).one()
    if tuple(row) != tuple(fields[name] for name in FIELD_NAMES):
        connection.execute(_CHANGE, {"wanted": locid, **schema.with_keys(fields)})
        transaction.changed = True


def remove(transaction: Transaction, locid: int) -> None:
    """Operation 6: its blocks go with it."""
    transaction.connection.execute(_REMOVE_BLOCKS, {"wanted": locid})
    transaction.connection.execute(_REMOVE, {"wanted": locid})
    transaction.changed = True


def create_block(transaction: Transaction, locid: int, block: IPBlock) -> None:
    """Operation 3.

    :raises RequestRefusedError: ``block-exists``, ``block-taken``
    """
    _require_free(transaction, locid, block, "/startip")
    transaction.connection.execute(_CREATE_BLOCK, {"locid": locid, **_columns(block)})
    transaction.changed = True


def replace_block(transaction: Transaction, locid: int, old: IPBlock, new: IPBlock) -> None:
    """Operation 5; a block replaced by itself changes nothing.

    :raises RequestRefusedError: ``unknown-block``, ``block-exists``, ``block-taken``
    """
    connection = transaction.connection
    here = and_(ipblocks.c.locid == locid, _is(old))
    if connection.execute(select(ipblocks.c.locid).where(here)).first() is None:
        raise RequestRefusedError(f"geolocation {locid} has no block {old}", problem="unknown-block")
    if old == new:
        return
    _require_free(transaction, locid, new, "/newstartip")
    connection.execute(update(ipblocks).where(here).values(**_columns(new)))
    transaction.changed = True


def delete_blocks(transaction: Transaction, locid: int) -> tuple[int, int]:
    """Operation 7: how many blocks matched, and how many were deleted.

    Both are the same here: a custom geolocation has only blocks that clients defined, and others are refused before.
    """
    connection = transaction.connection
    matching = connection.execute(select(func.count()).select_from(ipblocks).filter_by(locid=locid)).scalar_one()
    connection.execute(_REMOVE_BLOCKS, {"wanted": locid})
    transaction.changed = matching > 0
    return matching, matching


def _require_free(transaction: Transaction, locid: int, block: IPBlock, pointer: str) -> None:
    names = {"of": block.family, "begin": padded(block.family, block.first), "end": padded(block.family, block.last)}
    owner = transaction.connection.execute(_OWNER, names).scalar()
    if owner is None:
        return
    if owner == locid:
        detail, problem = f"geolocation {locid} has the block {block} already", "block-exists"
    else:
        detail, problem = f"the block {block} belongs to custom geolocation {owner}", "block-taken"
    raise RequestRefusedError(detail, problem=problem, errors=((pointer, detail),))


def _is(block: IPBlock) -> ColumnElement[bool]:
    return and_(
        ipblocks.c.family == block.family,
        ipblocks.c.startipnum == padded(block.family, block.first),
        ipblocks.c.endipnum == padded(block.family, block.last),
    )


def _columns(block: IPBlock) -> dict[str, Any]:
    return {
        "family": block.family,
        "startip": block.startip,
        "endip": block.endip,
        "startipnum": padded(block.family, block.first),
        "endipnum": padded(block.family, block.last),
    }


#: Seconds that a key is remembered, at least. Clients count on a day.
REMEMBERED_S = 7 * 86400

# Made once: to make a statement takes longer than to run it.
_FIND = select(idempotency).where(idempotency.c.key == bindparam("wanted"))
_FORGET = delete(idempotency).where(idempotency.c.created < bindparam("oldest"))
_KEEP = insert(idempotency)


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer as it was first given."""

    status: int
    body: bytes


def request_digest(operation: str, locid: int | None, body: Any) -> str:
    """The digest of a request: equal ones are the same request, however their JSON is spaced or ordered."""
    return hashlib.sha256(json.dumps([operation, locid, body], sort_keys=True).encode()).hexdigest()


def find_answer(transaction: Transaction, key: str, wanted: str) -> KeptAnswer | None:
    """The first answer to the key, None if there is none.

    Refusals are not kept: they changed nothing, and their cause may be gone when the client asks again.

    :raises RequestRefusedError: ``idempotency-key-reused`` if it answered a request with another digest
    """
    row = transaction.connection.execute(_FIND, {"wanted": key}).first()
    if row is None:
        return None
    if row.digest != wanted:
        raise RequestRefusedError(
            "this Idempotency-Key came with another operation, locid or body: choose a new one",
            problem="idempotency-key-reused",
        )
    return KeptAnswer(row.status, row.answer)


def keep_answer(transaction: Transaction, key: str, wanted: str, answer: KeptAnswer) -> None:
    """Remember the answer, in the transaction that did what it says; forget what is old."""
    now = int(time.time())
    connection = transaction.connection
    connection.execute(_FORGET, {"oldest": now - REMEMBERED_S})
    row = {"key": key, "digest": wanted, "status": answer.status, "answer": answer.body, "created": now}
    connection.execute(_KEEP, row)
