"""Hotels for tests: sound records, files of them, and what a service says of them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SECTIONS: dict[str, Any] = {
    "Attributes": [{"code": "stars", "value": 4.5}],
    "ChannelProperties": {"web": {"bookable": True}},
    "ContactInfo": {"phone": "+1-202-555-0100"},
    "Currency": {"code": "USD"},
    "DiningOptions": [{"name": "Test Kitchen"}],
    "Features": ["library"],
}

RATE_PLAN: dict[str, Any] = {
    "hotelId": "A1",
    "ratePlanCode": "BAR",
    "type": "rate",
    "name": "Best available",
    "currency": "USD",
}


def hotel(hotel_id: str, city: str = "Austin", *amenities: str, **changes: Any) -> dict[str, Any]:
    """A record that is valid in every member, with every section; ``changes`` are members, or parts of the address."""
    address = {"line1": "1 Example Street", "city": city, "state": "TX", "postalCode": "78701", "country": "US"}
    address.update({name: changes.pop(name) for name in list(changes) if name in address})
    return {
        "hotelId": hotel_id,
        "name": f"Hotel {hotel_id}",
        "address": address,
        "destinationId": "D-1",
        "amenities": list(amenities),
        "latitude": 30.25,
        "longitude": -97.75,
        **SECTIONS,
        **changes,
    }


def bare(record: dict[str, Any]) -> dict[str, Any]:
    """The record as it is answered where no section was asked for."""
    return {name: value for name, value in record.items() if name not in SECTIONS}


def ndjson(path: Path, records: Iterable[dict[str, Any] | str]) -> Path:
    """A file with a record, or a text as it is, on each line."""
    lines = [record if isinstance(record, str) else json.dumps(record, ensure_ascii=False) for record in records]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
