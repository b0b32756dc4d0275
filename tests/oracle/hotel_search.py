"""Which hotels a search finds, by looking at each: the oracle of the service's hotel list."""

import unicodedata
from typing import Any


def _same(one: str, other: str) -> bool:
    return unicodedata.normalize("NFC", one.casefold()) == unicodedata.normalize("NFC", other.casefold())


def search(hotels: list[dict[str, Any]], asked: dict[str, list[str]]) -> list[str] | None:
    """The ids of the hotels found, in their order; None where the search is refused.

    ``asked`` has every value given for each of ``city``, ``state``, ``postalCode``, ``country``, ``destinationId``,
    ``id`` and ``amenity``; an empty value is as none.
    """
    given = {name: [value for value in values if value] for name, values in asked.items()}
    given = {name: values for name, values in given.items() if values}
    address = {name: values[0] for name, values in given.items() if name not in ("destinationId", "id", "amenity")}
    methods = [bool(address), "destinationId" in given, "id" in given]
    if sum(methods) > 1 or not given:
        return None
    found = []
    for hotel in sorted(hotels, key=lambda one: one["hotelId"]):
        if not all(_same(hotel["address"][name], value) for name, value in address.items()):
            continue
        if "destinationId" in given and not _same(hotel["destinationId"], given["destinationId"][0]):
            continue
        if all(any(_same(has, wanted) for has in hotel["amenities"]) for wanted in given.get("amenity", [])):
            found.append(hotel["hotelId"])
    if "id" not in given:
        return found
    asked_for: list[str] = []
    for wanted in given["id"]:
        asked_for += [one for one in found if _same(one, wanted) and one not in asked_for]
    return asked_for
