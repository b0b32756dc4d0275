"""Hotels' records: JSON objects that are checked, kept as they were sent, and loaded from files.

Only the blanks between tokens are dropped. A few members must be there, and give the keys by which a hotel is found.
"""

import json
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from geolookup.base.reasons import reason
from geolookup.base.text import harmless
from geolookup.model.errors import DataFileError, RequestRefusedError
from geolookup.service.store.schema import ADDRESS, ADDRESS_KEYS, fold, hotel_amenities, hotels
from geolookup.service.store.store import OnRows, Store, counted
from geolookup.web import wire
from geolookup.web.application import ignore

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
    """True if two texts say the same: the order of members does not matter, and every digit of a number does."""
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


#: The sections that are sent only on request.
SECTIONS = ("Attributes", "ChannelProperties", "ContactInfo", "Currency", "DiningOptions", "Features")
#: Characters of a hotel's identifier, and of an amenity. Both fit together into one index entry of any database.
MAX_NAME = 100
MAX_AMENITIES = 1000

_LISTS = ("Attributes", "DiningOptions", "Features")
# An identifier is a segment of a path, and appears in lists separated by commas.
_NOT_IN_IDENTIFIERS = re.compile(r"[,/\\]")


@dataclass(frozen=True, slots=True)
class HotelRecord:
    """A valid record: ``text`` as it is kept, and the folded keys; ``places`` is by column."""

    hotel_id: str
    hotel_key: str
    places: dict[str, str]
    destination_key: str
    amenities: frozenset[str]
    text: str


def check(document: Document) -> HotelRecord:
    """Check a hotel's record.

    :raises RequestRefusedError: ``invalid-body`` with an error for each member that is missing or wrong
    """
    errors: list[tuple[str, str]] = []

    def take(holder: dict[str, Any], name: str, read: Callable[[object], Any], prefix: str = "") -> Any:
        try:
            if name not in holder:
                raise ValueError("is required")
            return read(holder[name])
        except ValueError as error:
            errors.append((f"{prefix}/{name}", reason(error)))

    value = document.value
    if not isinstance(value, dict):
        raise RequestRefusedError("a hotel must be an object", problem="invalid-body")
    hotel_id = take(value, "hotelId", identifier)
    take(value, "name", wire.text)
    address = take(value, "address", _address) or {}
    texts = {name: take(address, name, wire.text, "/address") for name in ADDRESS} if address else {}
    destination = take(value, "destinationId", wire.text)
    amenities = take(value, "amenities", _amenities)
    take(value, "latitude", lambda degrees: wire.coordinate(degrees, 90.0))
    take(value, "longitude", lambda degrees: wire.coordinate(degrees, 180.0))
    errors += [(f"/{name}", "must be an array") for name in _LISTS if not isinstance(value.get(name, []), list)]
    if errors:
        raise RequestRefusedError("the hotel is not valid", problem="invalid-body", errors=tuple(errors))
    return HotelRecord(
        hotel_id=hotel_id,
        hotel_key=fold(hotel_id),
        places={column: fold(texts[name]) for name, column in ADDRESS_KEYS.items()},
        destination_key=fold(destination),
        amenities=frozenset(map(fold, amenities)),
        text=document.text,
    )


def identifier(value: object) -> str:
    """A hotel's identifier.

    :raises ValueError: if it is not one
    """
    text = _name(value)
    if _NOT_IN_IDENTIFIERS.search(text) or text in (".", ".."):
        raise ValueError("must not hold a comma, slash or backslash, and must not be . or ..")
    return text


def _name(value: object) -> str:
    text = wire.text(value)
    if not 0 < len(text) <= MAX_NAME or text != text.strip() or not text.isprintable():
        raise ValueError(f"must be 1 to {MAX_NAME} printable characters without blanks around them")
    return text


def _address(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise ValueError(f"must be an object of {', '.join(ADDRESS)}")
    return value


def _amenities(value: object) -> list[str]:
    if not isinstance(value, list) or len(value) > MAX_AMENITIES:
        raise ValueError(f"must be an array of at most {MAX_AMENITIES} texts")
    amenities = [_name(item) for item in value]
    if any("," in amenity for amenity in amenities):
        raise ValueError("must not hold a comma, which separates them in a search")
    return amenities


#: Bytes of a line: a record is held whole, by the service and by its clients.
MAX_LINE_BYTES = 262144
_SHOWN_BAD_LINES = 100
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedHotels:
    """The changes of a load; all zero if everything was there already."""

    added: int
    changed: int


def load_hotels(store: Store, paths: Iterable[str | os.PathLike[str]], *, on_rows: OnRows = ignore) -> LoadedHotels:
    """Load files of one hotel a line (NDJSON) in their order: hotels are added or replaced, and none removed.

    A replaced hotel keeps its rate plans. Blank lines are skipped. ``on_rows`` is told how many more lines were read.

    :raises DataFileError: if a file cannot be read or a line is bad: the message has a line for each bad one, up to
        a hundred, and nothing of any file is kept
    """
    bad: list[str] = []
    added = changed = 0
    with store.write() as transaction:
        for path in paths:
            for where, line in counted(_lines(os.fspath(path)), on_rows):
                try:
                    record = check(read(_whole(line)))
                except RequestRefusedError as error:
                    bad.append(f"{where}: {_reasons(error)}" if len(bad) < _SHOWN_BAD_LINES else "")
                    continue
                if not bad:
                    new, different = _keep(transaction.connection, record)
                    added, changed = added + new, changed + different
        if bad:
            more = len(bad) - _SHOWN_BAD_LINES
            shown = [*bad[:_SHOWN_BAD_LINES], *([f"and {more} more"] if more > 0 else [])]
            raise DataFileError(*shown, "no hotel was loaded: correct these lines, and load again")
    return LoadedHotels(added=added, changed=changed)


def load_demo_hotels(store: Store) -> LoadedHotels:
    """Load the bundled, made-up hotels.

    :raises DataFileError: as `load_hotels` does
    """
    import geolookup_data

    return load_hotels(store, [os.path.join(os.path.dirname(geolookup_data.__file__), "hotels.ndjson")])


def _keep(connection: Connection, record: HotelRecord) -> tuple[bool, bool]:
    """Add or replace the hotel; returns whether it is new, and whether it differs from before."""
    here = hotels.c.hotel_key == record.hotel_key
    before = connection.execute(select(hotels.c.content).where(here)).scalar()
    if before is not None and same(before, record.text):
        return False, False
    values = {
        "hotel_id": record.hotel_id,
        **record.places,
        "destination_key": record.destination_key,
        "content": record.text,
    }
    if before is None:
        connection.execute(insert(hotels).values(hotel_key=record.hotel_key, **values))
    else:
        connection.execute(update(hotels).where(here).values(**values))
        connection.execute(delete(hotel_amenities).where(hotel_amenities.c.hotel_key == record.hotel_key))
    amenities = [{"amenity_key": key, "hotel_key": record.hotel_key} for key in sorted(record.amenities)]
    if amenities:
        connection.execute(insert(hotel_amenities), amenities)
    return before is None, before is not None


def _lines(name: str) -> Iterator[tuple[str, bytes]]:
    """The file's lines that are not blank, each with a name for messages; one that is too long is cut."""
    try:
        with open(name, "rb") as stream:
            number = 0
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                _pass_over(stream, line)
                if number == 1:
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                if line.strip():
                    yield f"{name}, line {number}", line
    except OSError as error:
        raise DataFileError(f"{name}: cannot be read: {error.strerror}") from error


def _pass_over(stream: BinaryIO, line: bytes) -> None:
    while len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
        line = stream.readline(MAX_LINE_BYTES + 1)


def _whole(line: bytes) -> bytes:
    if len(line) > MAX_LINE_BYTES:
        raise RequestRefusedError(f"has more than {MAX_LINE_BYTES} bytes", problem="body-too-large")
    return line


def _reasons(error: RequestRefusedError) -> str:
    reasons = [f"{pointer.removeprefix('/')} {detail}" for pointer, detail in error.errors]
    return harmless("; ".join(reasons) or str(error), 500)
