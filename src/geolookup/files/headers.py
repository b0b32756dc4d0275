"""The row of a table that names its columns: found below titles, and its columns known by what people call them."""

import csv
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from geolookup.base.text import harmless
from geolookup.files.lines import in_cp1252

#: The characters that may stand between columns: spreadsheets write semicolons where a comma is the decimal sign.
SEPARATORS: Final = (",", ";", "\t", "|")
#: The header is among the first rows with values.
MOST_TITLES: Final = 30
#: A line above the header that tells a spreadsheet the separator.
SEPARATOR_LINE: Final = re.compile(r"\s*\"?sep=(.)\"?\s*", re.IGNORECASE)

#: What people call the columns, the likeliest first: in English, German and French, as `alike` writes it.
WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "name": (
        "name", "site", "sitename", "standort", "standortname", "nom", "nomdusite", "nomsite", "bezeichnung",
        "standortbezeichnung", "filiale", "filialname", "niederlassung", "branch", "branchname", "office", "agence",
        "emplacement", "location", "locationname", "lieu",
    ),
    "country": (
        "country", "countrycode", "land", "pays", "staat", "landercode", "landcode", "landeskurzel", "codepays",
        "countryname", "iso", "isocode", "isocountry",
    ),
    "region": ("region", "regioncode", "state", "province", "bundesland", "kanton", "canton", "provinz", "regionname"),
    "city": ("city", "ort", "stadt", "ville", "town", "cityname", "ortsname", "gemeinde", "commune", "localite"),
    "postalcode": ("postalcode", "postcode", "zip", "zipcode", "plz", "postleitzahl", "codepostal"),
    "latitude": ("latitude", "lat", "breite", "breitengrad", "geobreite", "geographischebreite"),
    "longitude": ("longitude", "lon", "lng", "long", "lange", "langengrad", "geolange", "geographischelange"),
    "coordinates": (
        "coordinates", "coords", "koordinaten", "geokoordinaten", "gpskoordinaten", "coordonnees", "coordonneesgps",
        "gps", "latlon", "latlong", "latlng", "latitudelongitude", "geo",
    ),
    "dmacode": ("dmacode", "dma", "metrocode"),
    "areacode": ("areacode", "vorwahl", "ortsvorwahl", "indicatif", "indicatifregional"),
    "time_zone": ("timezone", "tz", "zeitzone", "fuseauhoraire", "fuseau"),
    "vrf": ("vrf", "vrfs", "vrfname", "routingdomain", "routingdomane"),
    "first": ("first", "startip", "start", "von", "ersteip", "ipfrom", "firstip", "debut", "premiereip"),
    "last": ("last", "endip", "end", "bis", "letzteip", "ipto", "lastip", "fin", "derniereip"),
    "blocks": (
        "blocks", "block", "ipblocks", "ipblock", "networks", "network", "subnets", "subnet", "prefixes", "prefix",
        "cidr", "cidrs", "netze", "netz", "netzwerke", "netzwerk", "subnetze", "subnetz", "ipnetze", "ipnetz",
        "ipnetzwerk", "ipnetwork", "ipsubnet", "ipranges", "iprange", "ranges", "range", "ipbereiche", "ipbereich",
        "adressbereich", "adressbereiche",
        "prafixe", "prafix", "reseaux", "reseau", "sousreseaux", "sousreseau", "plages", "plage",
        "plageip", "plagesip", "prefixe", "ipaddress", "ipaddresses", "ipadresse", "ipadressen", "adresseip", "ip",
        "ips",
    ),
}  # fmt: skip
#: What may follow the word for a block, where a site has a column for each of its networks.
_AFTER_BLOCKS: Final = re.compile(
    r"([0-9]+|lan|wlan|wan|voip|ipv4|ipv6|v4|v6|dmz|mgmt|management|guest|gast|server|client)"
)


def alike(name: str) -> str:
    """A column's name without what people write differently: capitals, accents, blanks, dashes, what is in brackets."""
    name = re.sub(r"[(\[].*?[)\]]", "", name) or name
    letters = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in letters if letter.isalnum())


def field_of(column: str, words: Mapping[str, Sequence[str]] = WORDS) -> tuple[str, int] | None:
    """The field that a column's name means, and how unlikely that is, from 0; None if it is not known."""
    name = alike(column)
    for field, known in words.items():
        if name in known:
            return field, known.index(name)
    if "blocks" in words:
        tokens = [alike(token) for token in re.split(r"[\W_]+|(?<=[a-zäöü])(?=[0-9])", column) if token]
        if len(tokens) > 1 and all(map(_AFTER_BLOCKS.fullmatch, tokens[1:])) and tokens[0] in words["blocks"]:
            return "blocks", len(words["blocks"])
    return None


#: What people call a column of addresses, as `alike` writes it.
ADDRESS_WORDS: Final = (
    "ip", "ips", "ipaddress", "ipaddresses", "ipadresse", "ipadressen", "adresseip", "adressesip", "clientip",
    "sourceip", "srcip", "remoteip", "hostip",
)  # fmt: skip


def column_like(columns: Sequence[str], wanted: str) -> str | None:
    """The one column that is called ``wanted``, or is like it; of ``ip`` any that people give to addresses.

    None if there is none, or several are as like.
    """
    if wanted in columns:
        return wanted
    words = ADDRESS_WORDS if wanted == "ip" else (alike(wanted),)
    found = [column for column in columns if alike(column) in words]
    return found[0] if len(found) == 1 else None


def fields_of(
    columns: Sequence[str], given: Mapping[str, str], words: Mapping[str, Sequence[str]] = WORDS
) -> dict[str, list[int]]:
    """The positions of the columns that hold each field: one, or of blocks several.

    ``given`` says the columns of fields by name, and goes before what their names are like.
    """
    found: dict[str, list[tuple[int, int]]] = {}
    wanted = {alike(column): field for field, column in given.items()}
    for at, column in enumerate(columns):
        if alike(column) in wanted:
            found.setdefault(wanted[alike(column)], []).append((-1, at))
        elif (likely := field_of(column, words)) is not None and likely[0] not in given:
            found.setdefault(likely[0], []).append((likely[1], at))
    return {
        field: [at for _, at in places] if field == "blocks" else [min(places)[1]] for field, places in found.items()
    }


@dataclass(frozen=True, slots=True)
class Header:
    """The row that names the columns: they as they stand, the character between them, the number of lines above it, and
    the text of those that are titles.
    """

    columns: list[str]
    separator: str
    skip: int
    titles: list[str]


def find_header(
    head: bytes, score: Callable[[list[str]], int], separators: Iterable[str] = SEPARATORS, *, least: int = 1
) -> Header | None:
    """The first row with the highest score among the first of a file that begins with ``head``.

    None if no score is as high as ``least``.
    """
    best: tuple[int, Header] | None = None
    for separator in separators:
        titles: list[str] = []
        for skip, row in _rows(head, separator):
            found = score(row)
            if found >= least and (best is None or found > best[0]):
                best = found, Header([column.strip() for column in row], separator, skip, [*titles])
            titles.append(" ".join(filter(None, map(str.strip, row))))
    return None if best is None else best[1]


def _rows(head: bytes, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The first rows with values, and the number of lines above each."""
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        cut = error.start >= len(head) - 4 and head[error.start] >= 0xC0  # in the middle of a character
        text = head[: error.start].decode("utf-8-sig") if cut else in_cp1252(head)
    lines = text.split("\n")
    if len(head) >= _WHOLE and len(lines) > 1:
        lines.pop()  # which goes on beyond what is known of the file
    reader = csv.reader((line + "\n" for line in lines), delimiter=separator)
    found = above = 0
    try:
        for row in reader:
            filled = any(map(str.strip, row)) and not SEPARATOR_LINE.fullmatch(separator.join(row))
            if filled:
                yield above, row
                found += 1
            above = reader.line_num
            if found == MOST_TITLES:
                return
    except csv.Error:
        return


#: As many bytes are known of a file that goes on.
_WHOLE: Final = 64 << 10


def said_of(name: str, word: str, header: Header, read_as: Mapping[str, Sequence[str]]) -> list[str]:
    """How a table is read, for a person: nothing, if its columns have our names and stand in the first line.

    ``word`` is what a line is called; ``read_as`` has the columns of each field.
    """
    said = []
    if header.titles:
        shown = "; ".join(harmless(title, 60) for title in header.titles[:3])
        more = " …" if len(header.titles) > 3 else ""
        said.append(f"{name}: {word} {header.skip + 1} names the columns; above it are titles: {shown}{more}")
    if any([field] != [column.lower() for column in columns] for field, columns in read_as.items()):
        listed = (f"{field} = {', '.join(map(repr, columns))}" for field, columns in read_as.items())
        said.append(f"{name}: read as {'; '.join(listed)}")
    return said
