"""Loading hotels from NDJSON: bad lines are named, and all files are loaded in one transaction, or none."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from sqlalchemy import Connection, delete, insert, select, update

from geolookup.base.text import harmless
from geolookup.errors import DataFileError, RequestRefusedError
from geolookup.service.hotels import documents
from geolookup.service.hotels import records as hotels_records
from geolookup.service.hotels.records import HotelRecord
from geolookup.service.store.counted import OnRows, counted, nobody_counts
from geolookup.service.store.hotel_schema import hotel_amenities, hotels
from geolookup.service.store.store import Store

#: Bytes of a line: a record is held whole, by the service and by its clients.
MAX_LINE_BYTES = 262144
_SHOWN_BAD_LINES = 100
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedHotels:
    """What a load changed; all zero if everything was there already."""

    added: int
    changed: int


def load_hotels(
    store: Store, paths: Iterable[str | os.PathLike[str]], *, on_rows: OnRows = nobody_counts
) -> LoadedHotels:
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
                    record = hotels_records.check(documents.read(_whole(line)))
                except RequestRefusedError as error:
                    bad.append(f"{where}: {_reasons(error)}" if len(bad) < _SHOWN_BAD_LINES else "")
                    continue
                if not bad:
                    new, different = _keep(transaction.connection, record)
                    added, changed = added + new, changed + different
        if bad:
            more = len(bad) - _SHOWN_BAD_LINES
            shown = [*bad[:_SHOWN_BAD_LINES], *([f"and {more} more"] if more > 0 else [])]
            raise DataFileError("\n".join([*shown, "no hotel was loaded: correct these lines, and load again"]))
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
    if before is not None and documents.same(before, record.text):
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
