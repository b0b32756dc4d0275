"""``geolite2-csv``: GeoLite2 or GeoIP2, City or Country, as CSV: the zip as downloaded, or its folder.

Blocks name a place by ``geoname_id``; country, region and city are the place's, postal code and coordinates the
block's. A block without ``geoname_id`` has no place: the place of registration says nothing about the addresses.
Names come in as many languages as the zip has files of places.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from geolookup.files.opened import Member, Opened
from geolookup.files.tables import Table
from geolookup.model.errors import DataFileError
from geolookup.model.fields import DEGREES
from geolookup.sources import blocks
from geolookup.sources.facts import key_of
from geolookup.sources.kinds.ranges_csv import first_line
from geolookup.sources.places import BadFieldError, PlaceFields, place_of
from geolookup.sources.protocol import Gathered, KeptKey, Kind, Request
from geolookup.sources.rows import BothNumbers, FactColumns, Key, keys_of
from geolookup.sources.shape import Leaf, Path, hollow, parts_of

_BLOCKS = frozenset(("network", "geoname_id", "registered_country_geoname_id"))
_PLACES = frozenset(("geoname_id", "locale_code", "country_iso_code"))
_ENGLISH = "en"
#: Our fields and the columns of the places and of the blocks that hold them.
_OF_PLACE = {
    "country": "country_iso_code",
    "region": "subdivision_1_iso_code",
    "city": "city_name",
    "dmacode": "metro_code",
}
_OF_BLOCK = {"postalcode": "postal_code", "latitude": "latitude", "longitude": "longitude"}
#: Where the columns of places stand in records; a name is followed by its language.
_LEVELS: tuple[tuple[str, str, Path], ...] = (
    ("city_name", "", ("city",)),
    ("subdivision_2_name", "subdivision_2_iso_code", ("subdivisions", 1)),
    ("subdivision_1_name", "subdivision_1_iso_code", ("subdivisions", 0)),
    ("country_name", "country_iso_code", ("country",)),
    ("continent_name", "continent_code", ("continent",)),
)
_CODE = {"continent_code": "code"}
_UNION = "is_in_european_union"
#: What a block's own columns say, and what the columns of countries lead to.
_LOCATION = ("latitude", "longitude", "accuracy_radius", "metro_code", "time_zone")
_COUNTRIES = {
    "registered_country_geoname_id": "registered_country",
    "represented_country_geoname_id": "represented_country",
}
#: In a column of flags nothing is said: as in the MMDB, which has those flags alone that are set.
_NO_FLAG = ("0",)
_SAID_ELSEWHERE = frozenset(
    (
        *("geoname_id", "locale_code", _UNION, "postal_code", *_COUNTRIES),
        *(name for level in _LEVELS for name in level[:2]),
    )
)


def _has(member: Member, columns: frozenset[str]) -> bool:
    return columns <= set(first_line(member))


def fits(member: Member) -> bool:
    """True if it has the blocks."""
    return _has(member, _BLOCKS)


def read(opened: Opened, request: Request, gathered: Gathered) -> Iterator[blocks.Batch]:
    """The blocks of all files that have any, by the English names of their places.

    :raises DataFileError: if the blocks or the places are missing, or a file is damaged
    """
    with_blocks = [member for member in opened.members if fits(member)]
    if not with_blocks:
        raise DataFileError(f"{opened.name}: holds no file of blocks (GeoLite2-…-Blocks-IPv4.csv)")
    places = _read_places(opened, request, gathered)
    for member in with_blocks:
        gathered.begin_file(member.inside)
        yield from _read_blocks(member, places, request, gathered)
    gathered.keep(places.kept())
    gathered.fields = {}


class _Places:
    """The places by geoname_id: what their rows say, in each language."""

    def __init__(self) -> None:
        self._columns: Sequence[str] = ()
        #: By geoname_id and language, the texts of a row; equal texts are one.
        self._rows: dict[str, dict[str, tuple[str, ...]]] = {}
        self._texts: dict[str, str] = {}
        #: The geoname_id of each country and subdivision that has a row of its own, by the codes.
        self._ids: dict[tuple[str, ...], str] = {}
        self._parts: dict[str, dict[str, bytes]] = {}
        self._more: dict[tuple[str, ...], dict[str, bytes]] = {}
        #: How many records are of each place, and how many have which columns of blocks.
        self.records: Counter[str] = Counter()
        self.columns: Counter[str] = Counter()

    def __contains__(self, geoname_id: str) -> bool:
        return _ENGLISH in self._rows.get(geoname_id, ())

    def __bool__(self) -> bool:
        return any(_ENGLISH in rows for rows in self._rows.values())

    def add(self, columns: Sequence[str], row: Sequence[str]) -> None:
        """Add a row of a file of places; all files have the same columns, or the first has them all."""
        self._columns = self._columns or columns
        found = dict(zip(columns, row, strict=True))
        geoname_id, locale = found["geoname_id"], found["locale_code"]
        texts = [found.get(column, "") for column in self._columns]
        self._rows.setdefault(geoname_id, {})[locale] = tuple([self._texts.setdefault(text, text) for text in texts])
        if locale == _ENGLISH and not found.get("city_name"):
            self._ids[self._codes(found)] = geoname_id

    def _codes(self, row: dict[str, str]) -> tuple[str, ...]:
        return tuple([row.get(code) or row.get(name, "") for name, code, _ in reversed(_LEVELS)])

    def row(self, geoname_id: str, locale: str = _ENGLISH) -> dict[str, str]:
        """The texts of a place by column; none if it has no row in this language."""
        return dict(zip(self._columns, self._rows.get(geoname_id, {}).get(locale, ()), strict=False))

    def fields(self, geoname_id: str) -> dict[str, str]:
        """Our fields that a place says, by name."""
        row = self.row(geoname_id)
        return {name: row.get(column, "") for name, column in _OF_PLACE.items()}

    def parts(self, geoname_id: str) -> dict[str, bytes]:
        """The parts of a place, but for its location, in all languages."""
        found = self._parts.get(geoname_id)
        if found is None:
            found = self._parts[geoname_id] = parts_of(self._leaves(geoname_id))
        return found

    def country(self, geoname_id: str, name: str) -> bytes:
        """The part of a country that the addresses are registered in, or represent."""
        key = f"{name} {geoname_id}"
        if key not in self._parts:
            leaves = [(path, text) for path, text in self._leaves(geoname_id) if path[0] == "country"]
            own = {("country", "geoname_id"): geoname_id, **dict(leaves)}
            self._parts[key] = parts_of([((name, *path[1:]), text) for path, text in own.items()])
        return self._parts[key][name]

    def more(self, geoname_id: str, said: Mapping[str, Leaf]) -> dict[str, bytes]:
        """The location, and what fits nowhere, of a place and of what a block says itself."""
        key = (geoname_id, *map(repr, said.values()))
        found = self._more.get(key)
        if found is None:
            row: dict[str, Leaf] = {**self.row(geoname_id), **said}
            leaves = [
                (("location" if name in _LOCATION else "extra", name), text)
                for name, text in row.items()
                if name not in _SAID_ELSEWHERE
            ]
            found = self._more[key] = parts_of(leaves)
        return found

    def _leaves(self, geoname_id: str) -> Iterator[tuple[Path, str]]:
        row = self.row(geoname_id)
        own = True  # the place itself is the narrowest level that is named
        codes = self._codes(row)
        for at, (name, code, path) in enumerate(_LEVELS):
            if not row.get(name) and not row.get(code):
                continue
            yield (*path, _CODE.get(code, "iso_code")), row.get(code, "")
            above = codes[: len(codes) - at] + ("",) * at
            yield (*path, "geoname_id"), geoname_id if own else self._ids.get(above, "")
            own = False
            if name == "country_name":
                yield (*path, _UNION), row.get(_UNION, "")
            for locale in self._rows[geoname_id]:
                yield (*path, "names", locale), self.row(geoname_id, locale).get(name, "")

    def kept(self) -> list[KeptKey]:
        """The columns of both kinds of files."""
        count: Counter[str] = Counter()
        for geoname_id, records in self.records.items():
            count.update({column: records for column, text in self.row(geoname_id).items() if text})
        where = {column: f"{'.'.join(map(str, path))}.names" for column, _, path in _LEVELS}
        where |= {code: ".".join((*map(str, path), _CODE.get(code, "iso_code"))) for _, code, path in _LEVELS if code}
        where |= {"geoname_id": "geoname_id", _UNION: f"country.{_UNION}", "postal_code": "postal.code"}
        where |= {name: f"location.{name}" for name in _LOCATION} | _COUNTRIES
        found = []
        for column, records in (*count.items(), *self.columns.items()):
            if column == "locale_code":
                continue
            found.append(KeptKey(key=column, kept_as=where.get(column, f"extra.{column}"), records=records))
        return found


def _read_places(opened: Opened, request: Request, gathered: Gathered) -> _Places:
    """The places by geoname_id."""
    places = _Places()
    for member in opened.members:
        if not _has(member, _PLACES):
            continue
        gathered.files.append(member.inside)
        # Rows of places are counted apart: a bad one is seen again as each block that wants it.
        apart = Gathered()
        table = Table(member, request.limits, apart)
        header = table.header()
        for chunk in table.chunks(len(header), exact=True):
            for row in chunk.rows:
                places.add(header, row)
    if not places:
        raise DataFileError(f"{opened.name}: holds no file of places in English (GeoLite2-…-Locations-en.csv)")
    return places


def _read_blocks(member: Member, places: _Places, request: Request, gathered: Gathered) -> Iterator[blocks.Batch]:
    table = Table(member, request.limits, gathered)
    header = table.header()
    network_at = header.index("network")
    # Columns of City that Country has not are left out.
    of_network = {column: column for column in header if key_of(column) is not None}
    columns = [column for column in header if column not in ("network", "geoname_id", *of_network)]
    own = [column for column in columns if column not in _SAID_ELSEWHERE]
    positions = (header.index("geoname_id"), *map(header.index, (*columns, *of_network)))
    facts = FactColumns(of_network, nothing=_NO_FLAG)

    def make(key: Key) -> PlaceFields | None:
        geoname_id, *values = key
        row = dict(zip(columns, values, strict=True))
        found = {name: row[column] for name, column in _OF_BLOCK.items() if column in row}
        if not geoname_id:
            return place_of({"postalcode": postalcode}) if (postalcode := found.get("postalcode")) else None
        if geoname_id not in places:
            raise BadFieldError(f"its geoname_id {geoname_id!r:.40} is not among the places")
        return place_of(places.fields(geoname_id) | found)

    def says(key: Key, place: PlaceFields | None) -> dict[str, bytes]:
        geoname_id, *values = key
        row = dict(zip(columns, values, strict=True))
        found = dict(places.parts(geoname_id)) if geoname_id else {}
        said: dict[str, Leaf] = {name: row[name] for name in own}
        for name in DEGREES:
            if place is not None and said.get(name):
                said[name] = hollow(said[name], said[name], getattr(place, name))
        found |= places.more(geoname_id, said)
        if postalcode := row.get("postal_code", ""):
            found |= parts_of([(("postal", "code"), postalcode)])
        found |= {name: places.country(row[column], name) for column, name in _COUNTRIES.items() if row.get(column)}
        places.records[geoname_id] += 1
        places.columns.update([column for column, text in row.items() if text])
        return found

    numbers = BothNumbers(gathered, make, 1 + len(columns), facts, says=says)
    for chunk in table.chunks(len(header), exact=True):
        chunk, found = numbers.of(chunk, keys_of(chunk, positions))
        yield from numbers.batches(blocks.from_networks(chunk.column(network_at), found, chunk.bad))
    gathered.keep(facts.kept())


KIND = Kind(
    name="geolite2-csv",
    summary="GeoLite2 or GeoIP2 as CSV: the zip or its folder, with Blocks and Locations",
    fits=fits,
    read=read,
    records=True,
)
