"""Operation 10: create or update a rate or group rate, which is kept as it was sent."""

from typing import Any, Literal, TypeAlias

from sqlalchemy import insert, select, update

from geolookup.base.reasons import reason
from geolookup.errors import RequestRefusedError
from geolookup.service.hotels import documents
from geolookup.service.hotels import search as hotels
from geolookup.service.hotels.documents import Document
from geolookup.service.store.hotel_schema import hotels as hotels_table
from geolookup.service.store.hotel_schema import rate_plans
from geolookup.service.store.schema import fold
from geolookup.service.store.store import Transaction
from geolookup.web import wire

#: The possible outcomes for a rate plan that was sent.
RateOutcome: TypeAlias = Literal["created", "updated", "unchanged"]

TYPES = ("rate", "groupRate")
_TEXTS = ("hotelId", "ratePlanCode", "name", "currency")


def put(transaction: Transaction, document: Document) -> tuple[RateOutcome, str]:
    """Store a rate plan; returns the outcome, and the JSON text that is stored now.

    A plan that says the same as the stored one changes nothing, even if its members are in another order.

    :raises RequestRefusedError: ``invalid-body`` with an error for each member that is missing or wrong;
        ``unknown-hotel``
    """
    value = _check(document.value)
    key, code = fold(value["hotelId"]), value["ratePlanCode"]
    connection = transaction.connection
    # Locked if a database has several writers: two that create the same plan at once must come one after the other.
    hotel = select(hotels_table.c.hotel_key).where(hotels_table.c.hotel_key == key).with_for_update()
    if connection.execute(hotel).first() is None:
        raise hotels.unknown_hotel(value["hotelId"])
    here = (rate_plans.c.hotel_key == key, rate_plans.c.code == code)
    before = connection.execute(select(rate_plans.c.content).where(*here)).scalar()
    if before is None:
        connection.execute(insert(rate_plans).values(hotel_key=key, code=code, content=document.text))
        return "created", document.text
    if documents.same(before, document.text):
        return "unchanged", before
    connection.execute(update(rate_plans).where(*here).values(content=document.text))
    return "updated", document.text


def _check(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RequestRefusedError("the body is not valid", problem="invalid-body", errors=(("", "must be an object"),))
    errors: list[tuple[str, str]] = []
    for name in (*_TEXTS, "type"):
        try:
            if name not in value:
                raise ValueError("is required")
            if name == "type" and value[name] not in TYPES:
                raise ValueError(f"must be {' or '.join(TYPES)}")
            if name != "type" and not wire.text(value[name]).strip():
                raise ValueError("must not be empty")
        except ValueError as error:
            errors.append((f"/{name}", reason(error)))
    if errors:
        raise RequestRefusedError("the body is not valid", problem="invalid-body", errors=tuple(errors))
    return value
