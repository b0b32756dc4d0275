"""Operations 8 and 9: the requested hotels, and their records in pieces."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from sqlalchemy import ColumnElement, Connection, exists, select

from geolookup.model.errors import RequestRefusedError
from geolookup.service.hotels import records
from geolookup.service.hotels.records import MAX_NAME, SECTIONS, identifier
from geolookup.service.store.schema import ADDRESS_KEYS, fold, hotel_amenities, hotels
from geolookup.service.store.store import ReadTransaction
from geolookup.web import wire

INCLUDE = "@include"
#: The most identifiers, and the most amenities, of one search.
MAX_IDS = 200
MAX_ASKED_AMENITIES = 20
#: Bytes of a piece of the answer, about.
CHUNK_BYTES = 131072
_ROWS = 100


@dataclass(frozen=True, slots=True)
class Search:
    """The requested hotels. All texts except the identifiers are folded; ``places`` pairs columns with texts.

    At most one of ``places``, ``destination`` and ``ids`` is not empty; ``hidden`` are the sections that were not
    requested.
    """

    places: tuple[tuple[str, str], ...]
    destination: str
    ids: tuple[str, ...]
    amenities: tuple[str, ...]
    hidden: frozenset[str]

    @classmethod
    def parse(cls, query: bytes) -> "Search":
        """From the query: an empty text is ignored, and parameters that we do not know are ignored.

        :raises RequestRefusedError: ``invalid-parameter`` if the query has no search, or two of address, destination
            and identifiers, or an unknown section; also as `wire.parameters` does
        """
        found = wire.parameters(query, "destinationId", *ADDRESS_KEYS)
        places = tuple((column, fold(found[name])) for name, column in ADDRESS_KEYS.items() if found.get(name))
        destination = fold(found.get("destinationId", ""))
        ids: dict[str, str] = {}
        for item in _items(query, "id", MAX_IDS):
            ids.setdefault(fold(item), item)  # two spellings of one identifier count once, as the first
        amenities = tuple({fold(item): None for item in _items(query, "amenity", MAX_ASKED_AMENITIES)})
        methods = [bool(places), bool(destination), bool(ids)]
        if sum(methods) > 1:
            raise _parameter("search by address, by destinationId or by id: one of them, not two together")
        if not any(methods) and not amenities:
            raise _parameter(
                f"search by address ({', '.join(ADDRESS_KEYS)}), destinationId, id or amenity: none of them is given"
            )
        return cls(places, destination, tuple(ids.values()), amenities, hidden_sections(query))

    def condition(self) -> list[ColumnElement[bool]]:
        """SQL that is true for the requested hotels, without the identifiers."""
        wanted: list[ColumnElement[bool]] = [hotels.c[column] == text for column, text in self.places]
        if self.destination:
            wanted.append(hotels.c.destination_key == self.destination)
        has = hotel_amenities.c
        wanted += [
            exists().where(has.amenity_key == amenity, has.hotel_key == hotels.c.hotel_key)
            for amenity in self.amenities
        ]
        return wanted


def hidden_sections(query: bytes) -> frozenset[str]:
    """The sections that the query does not ask for.

    :raises RequestRefusedError: ``invalid-parameter`` if it asks for an unknown section
    """
    asked = set(_items(query, INCLUDE, None))
    unknown = sorted(asked.difference(SECTIONS))
    if unknown:
        raise _parameter(f"{INCLUDE}: unknown section {unknown[0]!r:.60}; the sections are {', '.join(SECTIONS)}")
    return frozenset(SECTIONS).difference(asked)


def one(connection: Connection, hotel_id: str, hidden: frozenset[str]) -> bytes:
    """Operation 8: the hotel's record as JSON.

    :raises RequestRefusedError: ``unknown-hotel``
    """
    try:
        key = fold(identifier(hotel_id))
    except ValueError as error:
        raise unknown_hotel(hotel_id) from error
    text = connection.execute(select(hotels.c.content).where(hotels.c.hotel_key == key)).scalar()
    if text is None:
        raise unknown_hotel(hotel_id)
    return records.without(text, hidden)


def missing(snapshot: ReadTransaction, search: Search) -> list[str]:
    """The requested identifiers that no hotel has, in their order, as they were given."""
    if not search.ids:
        return []
    keys = select(hotels.c.hotel_key).where(hotels.c.hotel_key.in_(map(fold, search.ids)))
    known = set(snapshot.connection.execute(keys).scalars())
    return [item for item in search.ids if fold(item) not in known]


def header_list(items: list[str]) -> str:
    """Texts as the value of a header: percent-encoded UTF-8 (RFC 3986, 2.1), separated by commas.

    They come from the client: encoded, they cannot end the header and begin another.
    """
    return ",".join(quote(item, safe="") for item in items)


def encode(snapshot: ReadTransaction, search: Search) -> Iterator[bytes]:
    """Operation 9: the JSON array in pieces, in the order of the identifiers or by ``hotelId``."""
    pieces, size, separator = [b"["], 1, b""
    for text in _contents(snapshot, search):
        record = records.without(text, search.hidden)
        pieces += (separator, record)
        separator = b","
        size += len(record) + 1
        if size >= CHUNK_BYTES:
            yield b"".join(pieces)
            pieces, size = [], 0
    pieces.append(b"]")
    yield b"".join(pieces)


def _contents(snapshot: ReadTransaction, search: Search) -> Iterator[str]:
    query = select(hotels.c.content).where(*search.condition())
    if not search.ids:
        connection = snapshot.connection.execution_options(yield_per=_ROWS)
        yield from connection.execute(query.order_by(hotels.c.hotel_id)).scalars()
        return
    for item in search.ids:
        text = snapshot.connection.execute(query.where(hotels.c.hotel_key == fold(item))).scalar()
        if text is not None:
            yield text


def unknown_hotel(hotel_id: str) -> RequestRefusedError:
    """The refusal for an unknown hotel, which it names."""
    return RequestRefusedError(f"hotel {hotel_id!r:.120} does not exist", problem="unknown-hotel")


def _items(query: bytes, name: str, most: int | None) -> list[str]:
    """The values of a parameter that is repeated or separated by commas, without blanks around them."""
    values = [value for _, value in wire.repeated(query, name)]
    items = [item for value in values for part in value.split(",") if (item := part.strip())]
    if most is not None and len(items) > most:
        raise _parameter(f"{name}: at most {most} at once, not {len(items)}")
    if any(len(item) > MAX_NAME for item in items):
        raise _parameter(f"{name}: has at most {MAX_NAME} characters")
    return items


def _parameter(message: str) -> RequestRefusedError:
    return RequestRefusedError(message, problem="invalid-parameter")
