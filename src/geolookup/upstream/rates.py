"""The service's operation 10: create or update a rate or group rate."""

from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

import msgspec

from geolookup.base import plainjson
from geolookup.base.reasons import reason
from geolookup.base.text import harmless
from geolookup.http.transport import Transport
from geolookup.model.errors import EditError, UpstreamAnswerError
from geolookup.upstream.records import record_of

#: The possible outcomes for a rate plan that was sent.
RateOutcome: TypeAlias = Literal["created", "updated", "unchanged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePlan:
    """A rate plan to be sent. ``content`` is the whole object as JSON in UTF-8, on one line, with every digit."""

    hotel_id: str
    code: str
    content: bytes

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """From the JSON text of an object. Only its identifiers are checked here; the service checks the rest.

        :raises EditError: if it is not a JSON object, or ``hotelId`` or ``ratePlanCode`` is not text
        """
        try:
            text.decode("utf-8")
            content = msgspec.json.format(text, indent=-1)
            value = plainjson.loads(content)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise EditError(f"is not JSON: {harmless(reason(error))}") from error
        if not isinstance(value, dict):
            raise EditError("is not a JSON object")
        for name in ("hotelId", "ratePlanCode"):
            if not isinstance(value.get(name), str) or not value[name].strip():
                raise EditError(f"{name} is missing, empty or not text")
        return cls(hotel_id=value["hotelId"], code=value["ratePlanCode"], content=content)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRatePlan:
    """A rate plan as the service says that it stored it.

    ``outcome`` is ``unchanged`` only if the service says so; otherwise it is ``updated``. ``content`` is the record as
    JSON in UTF-8, with every number as the service wrote it.
    """

    outcome: RateOutcome
    content: bytes


class RatesClient:
    """Rate plans on the service. Errors are those of `Transport.request`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._path = transport.settings.path_rate_plans

    def put(self, rate_plan: RatePlan) -> StoredRatePlan:
        """Operation 10: create or update a rate plan, which is sent as it was written.

        It is sent again automatically if no answer came, since sending the same plan twice changes nothing. Then a plan
        that the lost request created is reported as ``unchanged`` or ``updated``.

        :raises UpstreamRefusedError: if the service refuses it: the hotel is not known, a member is wrong
        :raises UpstreamAnswerError: if it was answered with success, but not with a record of this rate plan: then
            the outcome is unknown
        """
        answer = self._transport.request("POST", self._path, json=rate_plan.content, idempotent=True)
        what = f"POST {self._path}"
        if answer.status not in (200, 201):  # 202 for one promises nothing
            raise UpstreamAnswerError(f"{what}: the service answered {answer.status}: the outcome is unknown")
        content, stored = record_of(what, answer)
        for name, sent in (("hotelId", rate_plan.hotel_id), ("ratePlanCode", rate_plan.code)):
            if name in stored and str(stored[name]).casefold() != sent.casefold():
                raise UpstreamAnswerError(f"{what}: the service answered for another {name}: the outcome is unknown")
        outcome: RateOutcome = "created" if answer.status == 201 else "updated"
        if outcome == "updated" and answer.headers.get("x-outcome", "").strip().lower() == "unchanged":
            outcome = "unchanged"
        return StoredRatePlan(outcome=outcome, content=content)
