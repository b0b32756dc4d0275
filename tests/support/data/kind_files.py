"""Files of every kind as a provider writes them, made from rows that are known: the standard library writes, we read.

`Known` is a row: what it covers, and the place that a lookup must answer with.
"""

import csv
import gzip
import io
import ipaddress
import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.data.source_files import mmdb

_FORMS = {4: ipaddress.IPv4Address, 6: ipaddress.IPv6Address}
_MAPPED = 0xFFFF << 32
_FIRST_GEONAME = 2_000_000


class Place(NamedTuple):
    """The eight fields of a geolocation."""

    country: str = ""
    region: str = ""
    city: str = ""
    postalcode: str = ""
    latitude: float | None = None
    longitude: float | None = None
    dmacode: str = ""
    areacode: str = ""


class Known(NamedTuple):
    """A row. ``place`` is None if it covers nothing, and ``mask`` true if it then says that nothing is there."""

    family: int
    first: int
    last: int
    place: Place | None
    mask: bool = False

    def ends(self) -> tuple[str, str]:
        """The first and last address as text."""
        form = _FORMS[self.family]
        return str(form(self.first)), str(form(self.last))

    def networks(self) -> Iterator["Known"]:
        """The row as networks, for kinds that have no other ranges."""
        form = _FORMS[self.family]
        for network in ipaddress.summarize_address_range(form(self.first), form(self.last)):
            yield self._replace(first=int(network[0]), last=int(network[-1]))

    def cidr(self) -> str:
        """Its network: it must be one."""
        width = 32 if self.family == 4 else 128
        return f"{_FORMS[self.family](self.first)}/{width - (self.last - self.first).bit_length()}"


def registry_rows(path: str, count: int) -> list[Known]:
    """Ranges of the bundled registry data, evenly drawn, in the order of the file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    step = max(1, len(rows) // count)
    return [_read(row["startip"], row["endip"], Place(row["country"])) for row in rows[::step]]


def _read(first: str, last: str, place: Place | None) -> Known:
    low, high = ipaddress.ip_address(first), ipaddress.ip_address(last)
    return Known(low.version, int(low), int(high), place)


def with_cities(rows: Iterable[Known], *keep: str, nowhere: bool = True, mask: bool = False) -> list[Known]:
    """The rows with places that have the fields of ``keep``; after every tenth a narrower one within it.

    With ``nowhere`` some rows say no place and cover nothing; with ``mask`` they say that there is none.
    """
    chance, found = random.Random(11), []
    for number, row in enumerate(rows):
        assert row.place is not None
        found.append(row._replace(place=_place(row.place.country, number, keep)))
        if number % 10 == 0 and row.last > row.first:
            size = (row.last - row.first + 1) // 2
            begin = row.first + (size if chance.random() < 0.5 else 0)
            inner = row._replace(first=begin, last=begin + size - 1, place=_place("XK", number, keep))
            if (nowhere or mask) and number % 50 == 0:
                inner = inner._replace(place=None, mask=mask)
            found.append(inner)
    return found


def _place(country: str, number: int, keep: Sequence[str]) -> Place:
    of_city = number % 5000
    whole = Place(
        country,
        f"R{of_city % 90}",
        ('Saint-Étienne, "Loire"', "München", "São Paulo", "Nowhere's End", "Tôkyô")[of_city % 5] + f" {of_city}",
        f"{of_city:05}",
        (of_city % 179) - 89 + 0.25,
        (of_city % 359) - 179 + 0.5,
        str(500 + of_city % 300),
        str(200 + of_city % 700),
    )
    return Place()._replace(**{name: getattr(whole, name) for name in keep})


def _csv(rows: Iterable[Sequence[object]], *header: str, quoting: Any = csv.QUOTE_MINIMAL, end: str = "\n") -> str:
    out = io.StringIO()
    writer = csv.writer(out, quoting=quoting, lineterminator=end)
    if header:
        writer.writerow(header)
    writer.writerows([["" if value is None else value for value in row] for row in rows])
    return out.getvalue()


def ranges_csv(rows: list[Known], path: Path) -> None:
    """A spreadsheet, with a byte order mark and the line ends of Windows."""
    table = [(*row.ends(), *(row.place or Place())) for row in rows]
    path.write_bytes(b"\xef\xbb\xbf" + _csv(table, "First", "Last", *Place._fields, end="\r\n").encode())


def dbip_csv(rows: list[Known], path: Path) -> None:
    """DB-IP's city lite. ``ZZ`` stands for no country."""
    table = []
    for row in rows:
        at = row.place or Place("ZZ")
        table.append((*row.ends(), "EU", at.country, at.region, at.city, at.latitude, at.longitude))
    path.write_text(_csv(table, quoting=csv.QUOTE_ALL), encoding="utf-8")


def ip2location_csv(rows: list[Known], path: Path) -> None:
    """DB11 for IPv6: IPv4 stands in it as ``::ffff:0:0/96``."""
    table = []
    for row in rows:
        shift = _MAPPED if row.family == 4 else 0
        at = row.place
        values: tuple[object, ...] = ("-", "-", "-", "-", "0.000000", "0.000000", "-", "-")
        if at is not None:
            values = (
                at.country,
                "Some Country",
                at.region,
                at.city,
                at.latitude,
                at.longitude,
                at.postalcode,
                "+01:00",
            )
        table.append((row.first + shift, row.last + shift, *values))
    path.write_text(_csv(table, quoting=csv.QUOTE_ALL), encoding="utf-8")


def geofeed(rows: list[Known], path: Path) -> None:
    """A feed with comments; a row without a place has an empty country, or ``ZZ``."""
    lines = ["# a feed", ""]
    for number, row in enumerate(rows):
        at = row.place or Place("ZZ" if number % 2 else "")
        region = f"{at.country}-{at.region}" if at.region else ""
        text = _csv([(row.cidr(), at.country.lower(), region, at.city.replace("#", ""), at.postalcode)]).rstrip("\n")
        lines.append(text + (" # said by us" if number % 3 == 0 else ""))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def rir(rows: list[Known], path: Path) -> None:
    """Delegation statistics, with numbers of autonomous systems and a summary among them."""
    lines = ["ripencc|*|ipv4|*|1|summary"]
    for number, row in enumerate(rows):
        value = row.last - row.first + 1 if row.family == 4 else row.cidr().partition("/")[2]
        start = row.ends()[0]
        status = "available" if row.place is None else ("allocated", "assigned")[number % 2]
        country = "" if row.place is None else row.place.country
        lines.append(f"ripencc|{country}|ipv{row.family}|{start}|{value}|20200101|{status}|opaque")
        if number % 100 == 0:
            lines.append(f"ripencc|DE|asn|{number + 1}|1|20200101|allocated")
    lines.insert(0, f"2|ripencc|20260101|{len(lines) - 1}|19830705|20260101|+0100")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def geolite2_csv(rows: list[Known], path: Path) -> None:
    """GeoLite2 City: blocks of both families, places in two languages."""
    path.mkdir()
    numbers: dict[tuple[str, ...], int] = {}
    blocks: dict[int, list[Sequence[object]]] = {4: [], 6: []}
    for row in rows:
        at = row.place
        if at is None:
            blocks[row.family].append((row.cidr(), "", 1, "", 0, 0, "", "", "", ""))
            continue
        key = (at.country, at.region, at.city, at.dmacode)
        number = numbers.setdefault(key, _FIRST_GEONAME + len(numbers))
        blocks[row.family].append((row.cidr(), number, 1, "", 0, 0, at.postalcode, at.latitude, at.longitude, 10))
    columns = ("network", "geoname_id", "registered_country_geoname_id", "represented_country_geoname_id")
    columns += (
        "is_anonymous_proxy",
        "is_satellite_provider",
        "postal_code",
        "latitude",
        "longitude",
        "accuracy_radius",
    )
    for family, found in blocks.items():
        (path / f"GeoLite2-City-Blocks-IPv{family}.csv").write_text(_csv(found, *columns), encoding="utf-8")
    columns = ("geoname_id", "locale_code", "country_iso_code", "country_name", "subdivision_1_iso_code")
    columns += ("city_name", "metro_code")
    for language in ("en", "de"):
        places = [
            (number, language, country, "Some Country", region, city if language == "en" else "Stadt", metro)
            for (country, region, city, metro), number in numbers.items()
        ]
        text = _csv([(1, language, "US", "United States", "", "", ""), *places], *columns)
        (path / f"GeoLite2-City-Locations-{language}.csv").write_text(text, encoding="utf-8")


def legacy_csv(rows: list[Known], path: Path) -> None:
    """GeoLiteCity, in Latin-1, with a copyright line."""
    path.mkdir()
    numbers: dict[Place | None, int] = {}
    blocks = [(row.first, row.last, numbers.setdefault(row.place, len(numbers) + 1)) for row in rows]
    places = [(number, *_legacy_fields(place or Place())) for place, number in numbers.items()]
    above = "Copyright (c) 2012 MaxMind LLC.  All Rights Reserved.\n"
    columns = ("locId", "country", "region", "city", "postalCode", "latitude", "longitude", "metroCode", "areaCode")
    text = _csv(blocks, "startIpNum", "endIpNum", "locId", quoting=csv.QUOTE_ALL)
    (path / "GeoLiteCity-Blocks.csv").write_text(above + text.replace('"', "", 6), encoding="latin-1")
    (path / "GeoLiteCity-Location.csv").write_text(above + _csv(places, *columns), encoding="latin-1")


def _legacy_fields(at: Place) -> Sequence[object]:
    return (at.country, at.region, at.city, at.postalcode, at.latitude, at.longitude, at.dmacode, at.areacode)


def listed(rows: list[Known]) -> list[dict[str, Any]]:
    """The service's list: each place with all of its blocks."""
    places: dict[Place, dict[str, Any]] = {}
    for row in rows:
        assert row.place is not None
        entry = places.setdefault(row.place, {"locid": len(places) + 1, **row.place._asdict(), "ipblocks": []})
        first, last = row.ends()
        block = {"startip": first, "startipnum": row.first, "endip": last, "endipnum": row.last}
        entry["ipblocks"].append(block)
    return list(places.values())


def saved_list(rows: list[Known], path: Path) -> None:
    """The list as NDJSON."""
    path.write_text("".join(json.dumps(entry) + "\n" for entry in listed(rows)), encoding="utf-8")


def max_mind_db(rows: list[Known], path: Path) -> None:
    """An MMDB with nested records, by another's writer."""
    networks = {row.cidr(): _record(row.place) for row in rows}
    path.write_bytes(mmdb(networks, path.parent, ipv4_compatible=True))


def _record(at: Place | None) -> dict[str, Any]:
    if at is None:
        return {"registered_country": {"iso_code": "US"}}
    return {
        "country": {"iso_code": at.country},
        "subdivisions": [{"iso_code": at.region, "names": {"en": "Some Region"}}],
        "city": {"names": {"en": at.city}},
        "postal": {"code": at.postalcode},
        "location": {"latitude": at.latitude, "longitude": at.longitude, "metro_code": int(at.dmacode)},
    }


class Writer(NamedTuple):
    """How a kind is written, the fields that it can hold, and whether it has only networks.

    ``nowhere`` is whether a row can say nothing, so that what is around it shows through, and ``mask`` whether it can
    say that nothing is there.
    """

    write: Callable[[list[Known], Path], None]
    fields: tuple[str, ...]
    networks: bool = False
    nowhere: bool = True
    mask: bool = False
    only_v4: bool = False


_CITY = ("country", "region", "city")
_POINT = ("latitude", "longitude")
#: By the kind's name.
WRITERS = {
    # What stands deeper in a tree replaces what is above it, also if it says no place.
    "mmdb": Writer(max_mind_db, (*_CITY, "postalcode", *_POINT, "dmacode"), networks=True, mask=True),
    "geolite2-csv": Writer(geolite2_csv, (*_CITY, "postalcode", *_POINT, "dmacode"), networks=True),
    "legacy-csv": Writer(legacy_csv, Place._fields, only_v4=True),
    "ip2location-csv": Writer(ip2location_csv, (*_CITY, "postalcode", *_POINT)),
    "dbip-csv": Writer(dbip_csv, (*_CITY, *_POINT)),
    "geofeed": Writer(geofeed, (*_CITY, "postalcode"), networks=True, nowhere=False, mask=True),
    "rir": Writer(rir, ("country",), networks=True),
    "ranges-csv": Writer(ranges_csv, Place._fields, nowhere=False),
    "list": Writer(saved_list, Place._fields, nowhere=False),
}
