"""Idempotency keys: the first answer to a key is stored with its changes, and repeated."""

import hashlib
import json
import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, delete, insert, select

from geolookup.errors import RequestRefusedError
from geolookup.service.store.schema import idempotency
from geolookup.service.store.store import Transaction

#: How long a key is remembered, at least. Clients count on a day.
REMEMBERED_S = 7 * 86400

# Made once: to make a statement takes longer than to run it.
_FIND = select(idempotency).where(idempotency.c.key == bindparam("wanted"))
_FORGET = delete(idempotency).where(idempotency.c.created < bindparam("oldest"))
_KEEP = insert(idempotency)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it was first given."""

    status: int
    body: bytes


def digest(operation: str, locid: int | None, body: Any) -> str:
    """What a key stands for: requests with one digest are the same, however their JSON is spaced or ordered."""
    return hashlib.sha256(json.dumps([operation, locid, body], sort_keys=True).encode()).hexdigest()


def find(transaction: Transaction, key: str, wanted: str) -> Answer | None:
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
    return Answer(row.status, row.answer)


def keep(transaction: Transaction, key: str, wanted: str, answer: Answer) -> None:
    """Remember the answer, in the transaction that did what it says; forget what is old."""
    now = int(time.time())
    connection = transaction.connection
    connection.execute(_FORGET, {"oldest": now - REMEMBERED_S})
    row = {"key": key, "digest": wanted, "status": answer.status, "answer": answer.body, "created": now}
    connection.execute(_KEEP, row)
