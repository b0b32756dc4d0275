"""Geolocations and blocks as edits.db holds them: fields by name, and a block as the texts of its two ends."""

import functools
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from geolookup.base.reasons import reason
from geolookup.model.fields import FIELD_NAMES, UNKNOWN
from geolookup.model.types import Geolocation, IPBlock
from geolookup.state.edits.places.place import Content, Values, in_order


def geolocation(locid: int, content: Content) -> Geolocation:
    """A geolocation of this content."""
    return Geolocation(locid=locid, **fields_of(content.values), ipblocks=tuple(in_order(content.blocks)))


def content_of(place: Geolocation) -> Content:
    """The content of a geolocation."""
    return Content(values_of(place.fields()), frozenset(place.ipblocks))


def values_of(fields: Mapping[str, Any]) -> Values:
    """The values of fields in their order; an edit from before a field was there says nothing of it."""
    return tuple(fields[name] if name in fields else UNKNOWN[name] for name in FIELD_NAMES)


def fields_of(values: Values) -> dict[str, Any]:
    """Values by the names of their fields."""
    return dict(zip(FIELD_NAMES, values, strict=True))


#: A block from its two ends. It stands in the base of each later edit of its place: one object for all, and a twentieth
#: of the time.
_block = functools.lru_cache(1 << 18)(IPBlock.from_ends)


def ends_of(block: IPBlock) -> list[str]:
    """A block as a row holds it."""
    return [block.startip, block.endip]


def described(content: Content | None) -> dict[str, Any] | None:
    """A content as ``--json`` and the history have it: its fields and blocks."""
    if content is None:
        return None
    return {"fields": fields_of(content.values), "blocks": [ends_of(block) for block in in_order(content.blocks)]}


#: The form of a content; an edit from before a field was there says nothing of it.
_FIELDS: Any = msgspec.defstruct("Fields", [(name, str | float | None, UNKNOWN[name]) for name in FIELD_NAMES])
DESCRIBED: Any = msgspec.defstruct("Described", [("fields", _FIELDS), ("blocks", list[tuple[str, str]])])


def _read_block(_kind: Any, found: Any) -> Any:
    """A block of a `Struct`, which is of no kind there: places know nothing of addresses."""
    return None if found is None else _block(*found)


def reader(kind: Any, name: str = "") -> Callable[[Any], Any]:
    """A function that reads the JSON of a column (called ``name``) as this kind; it raises ValueError if it is none."""
    decode = msgspec.json.Decoder(kind, dec_hook=_read_block).decode

    def read(text: Any) -> Any:
        try:
            return decode(text)  # four times as fast, and stricter than what wrote it
        except (TypeError, ValueError):
            try:
                return msgspec.convert(json.loads(text), kind, dec_hook=_read_block)
            except (TypeError, ValueError) as error:
                if not name:
                    raise
                raise ValueError(f"{name}: {reason(error)}") from error

    return read


def _plain(value: Any) -> Any:
    """A value in which blocks are their two ends."""
    match value:
        case IPBlock():
            return ends_of(value)
        case frozenset():
            return [ends_of(block) for block in in_order(value)]
        case msgspec.Struct():
            found = msgspec.structs.asdict(value)
            return found | {name: _plain(each) for name, each in found.items() if not isinstance(each, _PLAIN)}
        case tuple():
            return [each if isinstance(each, _PLAIN) else _plain(each) for each in value]
    return value


#: What is as it is in JSON: most of the members of what is written.
_PLAIN = (str, int, float, type(None))


def written(value: Any) -> str:
    """A value as JSON for a column; see `reader`."""
    value = _plain(value)
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError):  # half of a pair of surrogates
        return json.dumps(msgspec.to_builtins(value))


_described = reader(DESCRIBED)


def read_content(text: Any) -> Content:
    """A content as the places of VRFs and the history have it: `described`, and `written`."""
    found = _described(text)
    return Content(msgspec.structs.astuple(found.fields), frozenset(itertools.starmap(_block, found.blocks)))
