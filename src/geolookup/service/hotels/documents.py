"""JSON objects that are kept as they were sent: only the blanks between tokens are dropped."""

import json
from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import msgspec

from geolookup.base.reasons import reason
from geolookup.errors import RequestRefusedError
from geolookup.web import wire

#: Arrays and objects inside each other. Readers give up at different depths: what is kept must be readable by all.
MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON text: ``value`` to check it by, with its numbers as Python has them, and ``text`` to keep."""

    value: Any
    text: str


def read(body: bytes) -> Document:
    """Read a JSON text (RFC 8259) in UTF-8.

    :raises RequestRefusedError: ``malformed-json``; also for what JSON allows but readers treat differently: a member
        given twice, half of a surrogate pair, nesting deeper than `MAX_DEPTH`
    """
    value = wire.read_json(body)
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [item for found in level for item in _items(found)]
    if level:
        raise RequestRefusedError(f"it is nested more than {MAX_DEPTH} deep", problem="malformed-json")
    try:
        return Document(value, msgspec.json.format(body, indent=-1).decode())
    except msgspec.MsgspecError as error:
        raise RequestRefusedError(f"the body is not JSON: {reason(error)}", problem="malformed-json") from error


def without(text: str, names: Container[str]) -> bytes:
    """The JSON of a kept object without its members of these names."""
    members = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({name: member for name, member in members.items() if name not in names})


def same(one: str, other: str) -> bool:
    """Whether two texts say the same: the order of members does not matter, and every digit of a number does."""
    return one == other or _exact(one) == _exact(other)


def _exact(text: str) -> Any:
    # A number as a pair: else it could equal a text or, as 1 does in Python, true.
    return json.loads(text, parse_int=_number, parse_float=_number)


def _number(digits: str) -> tuple[str]:
    return (digits,)


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [item for item in value.values() if isinstance(item, dict | list)]
    return [item for item in value if isinstance(item, dict | list)] if isinstance(value, list) else []
