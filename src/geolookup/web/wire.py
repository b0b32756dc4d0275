"""Query parameters, headers and bodies, read strictly: each error has its problem."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from geolookup.base.reasons import reason
from geolookup.model import addresses
from geolookup.model.errors import GeoLookupError, RequestRefusedError
from geolookup.model.fields import DEGREES, FIELD_NAMES
from geolookup.model.types import IPBlock

#: Bytes of a body: the largest useful one has about 3,000.
MAX_BODY_BYTES = 65536
#: Characters of a text field.
MAX_TEXT = 255
_MAX_PARAMETERS = 100
_MAX_LOCID = 2**63 - 1

_WHOLE = re.compile(r"[0-9]{1,400}", re.ASCII)
_SIGNED = re.compile(r"-?[0-9]{1,400}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", re.ASCII)
_KEY = re.compile(r"[\x21-\x7e]{1,255}", re.ASCII)
_ENTITY_TAG = re.compile(r'\s*(?:,\s*)*(W/)?("[\x21\x23-\x7e\x80-\xff]*")\s*(?=,|$)')


class LocidAnswer(msgspec.Struct, frozen=True):
    """The answer of operations 2 to 6."""

    locid: int


class DeletedBlocks(msgspec.Struct, frozen=True, rename="camel"):
    """The answer of operation 7: how many blocks of the geolocation there were, and how many were deleted."""

    total_matching_blocks: int
    customer_defined_matching_blocks: int


def parameters(query: bytes, *names: str) -> dict[str, str]:
    """Those of the named parameters that the query has; others are ignored.

    :raises RequestRefusedError: ``invalid-parameter`` if one is repeated, or the query is not percent-encoded UTF-8
    """
    found: dict[str, str] = {}
    for name, value in repeated(query, *names):
        if name in found:
            raise _parameter(f"{name} is given more than once")
        found[name] = value
    return found


def repeated(query: bytes, *names: str) -> list[tuple[str, str]]:
    """The named parameters with their values in the query's order; they may come more than once.

    :raises RequestRefusedError: ``invalid-parameter`` if the query is not percent-encoded UTF-8
    """
    try:
        pairs = parse_qsl(query.decode("ascii"), True, errors="strict", max_num_fields=_MAX_PARAMETERS)
    except ValueError as error:
        raise _parameter(f"the query cannot be read: {reason(error)}") from error
    found = [(name, value) for name, value in pairs if name in names]
    for name, value in found:
        if "\0" in value:
            raise _parameter(f"{name} holds a NUL")
    return found


def locid(found: Mapping[str, str]) -> int:
    """The parameter ``locid``, which is required.

    :raises RequestRefusedError: ``invalid-parameter`` if it is missing, not a whole number, or zero;
        ``unknown-geolocation`` if it is greater than any locid can be
    """
    text = found.get("locid", "")
    if not _SIGNED.fullmatch(text) or not int(text):
        given = f"not {text!r:.60}" if text else "and it is missing"
        raise _parameter(f"locid is the number of a geolocation (custom ones are below zero), {given}")
    value = int(text)
    if abs(value) > _MAX_LOCID:
        raise RequestRefusedError(f"geolocation {text[:30]} does not exist", problem="unknown-geolocation")
    return value


def top(found: Mapping[str, str]) -> int | None:
    """The parameter ``top``, None if it is not given.

    :raises RequestRefusedError: ``invalid-parameter`` if it is not a positive whole number
    """
    text = found.get("top")
    if text is None:
        return None
    if not _WHOLE.fullmatch(text) or not int(text):
        raise _parameter(f"top is a positive whole number, not {text!r:.60}")
    return min(int(text), _MAX_LOCID)


def idempotency_key(header: str | None) -> str | None:
    """The header ``Idempotency-Key``, None if it is not given.

    :raises RequestRefusedError: ``invalid-parameter`` if it is not 1 to 255 visible ASCII characters
    """
    if header is not None and not _KEY.fullmatch(header):
        raise _parameter("Idempotency-Key is 1 to 255 visible ASCII characters")
    return header


def tag_matches(header: str, accept: Callable[[bool, str], bool]) -> bool:
    """True if a list of entity tags (RFC 9110, section 8.8.3) is ``*`` or has one that ``accept`` accepts.

    ``accept`` is called with whether the tag is weak, and the tag in its quotes. A malformed list matches nothing.
    """
    if header.strip() == "*":
        return True
    position, matched = 0, False
    while position < len(header):
        tag = _ENTITY_TAG.match(header, position)
        if tag is None:
            return matched and not header[position:].strip(", \t")
        matched = matched or accept(tag[1] is not None, tag[2])
        position = tag.end()
    return matched


def read_json(body: bytes) -> Any:
    """The value of a JSON text (RFC 8259) in UTF-8.

    :raises RequestRefusedError: ``malformed-json``; also for what readers treat differently: a member given twice, NaN
        or an infinity, or nesting or numbers that are far too long
    """
    if not body:
        raise RequestRefusedError("the body is empty: send JSON", problem="malformed-json")
    try:
        return json.loads(body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError as error:
        raise RequestRefusedError("it is nested too deeply", problem="malformed-json") from error
    except ValueError as error:
        raise RequestRefusedError(f"the body is not JSON: {reason(error)}", problem="malformed-json") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has the same member twice")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def geolocation(value: Any) -> dict[str, Any]:
    """The fields of operations 2 and 4, coordinates as floats; members that we do not know are ignored.

    :raises RequestRefusedError: ``invalid-body`` with an error for each field that is missing or wrong
    """
    errors: list[tuple[str, str]] = []
    members = _members(value, FIELD_NAMES, errors)
    fields: dict[str, Any] = {}
    for name, member in members.items():
        try:
            fields[name] = coordinate(member, DEGREES[name]) if name in DEGREES else text(member)
        except ValueError as error:
            errors.append((f"/{name}", reason(error)))
    _refuse(errors)
    return fields


def text(value: object) -> str:
    """A text field.

    :raises ValueError: if it is not text, too long, or holds what databases and UTF-8 cannot
    """
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise ValueError(f"must be text of at most {MAX_TEXT} characters")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError("must not hold a NUL or half of a surrogate pair")
    return value


def coordinate(value: object, limit: float) -> float:
    """Degrees from a number or from quoted decimals, between ``-limit`` and ``limit``.

    :raises ValueError: if it is neither, or out of range
    """
    if isinstance(value, str) and len(value) <= 64 and _DECIMAL.fullmatch(value):
        value = float(value)
    # Compared before it is converted: an integer may be too large for a float.
    if isinstance(value, bool) or not isinstance(value, int | float) or not -limit <= value <= limit:
        raise ValueError(f"must be degrees from {-limit:g} to {limit:g}: a number, or a decimal number in quotes")
    return float(value)


def block(value: Any, start: str = "startip", end: str = "endip") -> IPBlock:
    """The block that two members of the body give.

    :raises RequestRefusedError: ``invalid-body`` if one is missing or not a strict address, or the two are not a range
    """
    errors: list[tuple[str, str]] = []
    members = _members(value, (start, end), errors)
    for name, member in members.items():
        try:
            addresses.parse(text(member))
        except (GeoLookupError, ValueError) as error:
            errors.append((f"/{name}", reason(error)))
    _refuse(errors)
    try:
        return IPBlock.from_ends(members[start], members[end])
    except GeoLookupError as error:
        raise RequestRefusedError(
            "the body is not valid", problem="invalid-body", errors=((f"/{end}", str(error)),)
        ) from error


def _members(value: Any, names: tuple[str, ...], errors: list[tuple[str, str]]) -> dict[str, Any]:
    if not isinstance(value, dict):
        errors.append(("", "must be an object"))
        return {}
    errors.extend((f"/{name}", "is required") for name in names if name not in value)
    return {name: value[name] for name in names if name in value}


def _refuse(errors: list[tuple[str, str]]) -> None:
    if errors:
        raise RequestRefusedError("the body is not valid", problem="invalid-body", errors=tuple(errors))


def _parameter(message: str) -> RequestRefusedError:
    return RequestRefusedError(message, problem="invalid-parameter")
