"""Reading sources in tests, and one example of every kind: its files, what is in them, and a row that is bad."""

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from mmdb_writer import MMDBWriter
from netaddr import IPSet

from geolookup.index import mmdb as mmdb_values
from geolookup.model import addresses
from geolookup.sources.blocks import MASKED, Batch, NetworkBatch
from geolookup.sources.detect import open_source
from geolookup.sources.places import PlaceFields, Places
from geolookup.sources.protocol import Gathered
from geolookup.sources.recorded import Records

#: (first, last, fields), or None for the fields of a mask; of a network its facts by their keys.
Block = tuple[str, str, PlaceFields | dict[str, Any] | None]


def facts_of(networks: Records, number: int) -> dict[str, Any]:
    """The facts of a network."""
    at = np.array([number], np.uint32)
    parts = {key: networks.part(key, int(networks.column(key, at)[0])) for key in networks.names}
    return {key: mmdb_values.plain(part) for key, part in parts.items() if part}


def blocks_of(batch: Batch, places: Places, networks: Records | None = None) -> list[Block]:
    """A batch's blocks as text, IPv4 first."""

    def place(number: int) -> PlaceFields | dict[str, Any] | None:
        if isinstance(batch, NetworkBatch):
            assert networks is not None
            return facts_of(networks, number)
        return None if number == MASKED else places[number]

    found = [
        (addresses.to_text(4, first), addresses.to_text(4, last), place(number))
        for first, last, number in zip(*(column.tolist() for column in batch.v4), strict=True)
    ]
    for first_hi, first_lo, last_hi, last_lo, number in zip(*(column.tolist() for column in batch.v6), strict=True):
        ends = first_hi << 64 | first_lo, last_hi << 64 | last_lo
        found.append((addresses.to_text(6, ends[0]), addresses.to_text(6, ends[1]), place(number)))
    return found


def read_all(
    path: Path | str, *, lenient: bool = False, networks: bool = False, **options: Any
) -> tuple[list[Block], Gathered]:
    """All blocks of a source, with ``networks`` those of networks too, and what else was gathered."""
    with open_source(path, **options) as reading:
        gathered = reading.gathered
        found = [
            block
            for batch in reading.batches(lenient=lenient, networks=networks)
            for block in blocks_of(batch, gathered.places, gathered.networks)
        ]
        return found, gathered


def in_order(found: list[Block]) -> list[Block]:
    """Blocks by family and address, for comparing what comes in any order."""
    return sorted(found, key=lambda block: (addresses.parse(block[0]), addresses.parse(block[1])))


@dataclass(frozen=True, kw_only=True)
class Example:
    """Files of one kind. ``main`` is the file in which ``bad_row`` can be added at the end, in ``bad_line``."""

    kind: str
    files: Mapping[str, bytes]
    blocks: list[Block]
    main: str
    bad_row: bytes | None = None
    long_row: Callable[[str], str] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path, *, main: bytes | None = None) -> Path:
        """The file, or a folder of several, as they are; ``main`` in place of the main file."""
        files = {**self.files, self.main: main} if main is not None else self.files
        if len(files) == 1:
            path = folder / "input"
            path.write_bytes(next(iter(files.values())))
            return path
        path = folder / "input"
        for name, content in files.items():
            target = path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return path

    def zipped(self) -> bytes:
        """As a zip archive."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("LICENSE.txt", "All is permitted.\n")
            for name, content in self.files.items():
                archive.writestr(f"dated_20260101/{name}", content)
        return buffer.getvalue()

    def tarred(self) -> bytes:
        """As a tar archive, compressed with gzip."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            for name, content in {"COPYRIGHT.txt": b"None.\n", **self.files}.items():
                entry = tarfile.TarInfo(f"dated_20260101/{name}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        return buffer.getvalue()

    def gzipped(self) -> bytes:
        """The one file, compressed with gzip."""
        (content,) = self.files.values()
        return gzip.compress(content)


def mmdb(networks: Mapping[str, Any], folder: Path, *, version: int = 6, **options: Any) -> bytes:
    """A MaxMind DB of networks and their records."""
    writer = MMDBWriter(version, "Test", description="a test", **options)
    for network, record in networks.items():
        writer.insert_network(IPSet([network]), record)
    path = folder / "written.mmdb"
    writer.to_db_file(str(path))
    return path.read_bytes()


_LONDON = PlaceFields("GB", "ENG", "London", "EC1A", 51.5, -0.125)
_GERMANY = PlaceFields("DE")


def _mmdb_example(folder: Path) -> Example:
    nested = {
        "country": {"iso_code": "GB"},
        "subdivisions": [{"iso_code": "ENG", "names": {"en": "England"}}],
        "city": {"names": {"en": "London"}},
        "postal": {"code": "EC1A"},
        "location": {"latitude": 51.5, "longitude": -0.125},
    }
    registered = {"registered_country": {"iso_code": "FR"}}
    content = mmdb(
        {
            "81.2.69.0/25": nested,
            "81.2.69.128/25": nested,
            "5.1.0.0/16": {"country": {"iso_code": "DE"}},
            "9.0.0.0/8": registered,
            "2001:db8::/33": {"country": {"iso_code": "DE"}},
        },
        folder,
        ipv4_compatible=True,
    )
    blocks: list[Block] = [
        ("5.1.0.0", "5.1.255.255", _GERMANY),
        ("81.2.69.0", "81.2.69.255", _LONDON),
        ("2001:db8::", "2001:db8:7fff:ffff:ffff:ffff:ffff:ffff", _GERMANY),
    ]
    return Example(kind="mmdb", files={"a.mmdb": content}, blocks=blocks, main="a.mmdb")


def _geolite2() -> Example:
    header = "network,geoname_id,registered_country_geoname_id,represented_country_geoname_id,is_anonymous_proxy,"
    header += "is_satellite_provider,postal_code,latitude,longitude,accuracy_radius\n"
    places = (
        "geoname_id,locale_code,continent_code,continent_name,country_iso_code,country_name,subdivision_1_iso_code,"
    )
    places += "subdivision_1_name,subdivision_2_iso_code,subdivision_2_name,city_name,metro_code,time_zone,"
    places += "is_in_european_union\n"
    english = places + '1,en,EU,Europe,GB,"United Kingdom",ENG,England,,,London,,Europe/London,0\n'
    english += "2,en,EU,Europe,DE,Germany,,,,,,,Europe/Berlin,1\n"
    german = places + '1,de,EU,Europa,GB,"Vereinigtes Königreich",ENG,England,,,London,,Europe/London,0\n'
    four = header + "81.2.69.0/24,1,1,,0,0,EC1A,51.5,-0.125,10\n9.0.0.0/8,,2,,0,0,,,,\n5.1.0.0/16,2,2,,0,0,,,,\n"
    six = header + "2001:db8::/33,2,2,,0,0,,,,\n"
    blocks: list[Block] = [
        ("81.2.69.0", "81.2.69.255", _LONDON),
        ("5.1.0.0", "5.1.255.255", _GERMANY),
        ("2001:db8::", "2001:db8:7fff:ffff:ffff:ffff:ffff:ffff", _GERMANY),
    ]
    return Example(
        kind="geolite2-csv",
        files={
            "GeoLite2-City-Blocks-IPv4.csv": four.encode(),
            "GeoLite2-City-Blocks-IPv6.csv": six.encode(),
            "GeoLite2-City-Locations-de.csv": german.encode(),
            "GeoLite2-City-Locations-en.csv": english.encode(),
        },
        blocks=blocks,
        main="GeoLite2-City-Blocks-IPv4.csv",
        bad_row=b"5.2.0.1/16,2,2,,0,0,,,,\n",
        long_row=lambda text: f"5.2.0.0/16,2,2,,0,0,{text},,,\n",
    )


def _legacy() -> Example:
    copyright_line = "Copyright (c) 2012 MaxMind LLC.  All Rights Reserved.\n"
    blocks = copyright_line + 'startIpNum,endIpNum,locId\n"83886080","83886335","17"\n"83886592","83886847","99"\n'
    blocks += '"83886848","83886850","2"\n'
    places = copyright_line + "locId,country,region,city,postalCode,latitude,longitude,metroCode,areaCode\n"
    places += (
        '2,"US","TX","Austin","78701",30.25,-97.75,635,512\n17,"DE","07","Köln","",50.9,6.95,,\n99,"","","","",,,,\n'
    )
    return Example(
        kind="legacy-csv",
        files={
            "GeoLiteCity-Blocks.csv": blocks.encode("latin-1"),
            "GeoLiteCity-Location.csv": places.encode("latin-1"),
        },
        blocks=[
            ("5.0.0.0", "5.0.0.255", PlaceFields("DE", "07", "Köln", "", 50.9, 6.95)),
            ("5.0.3.0", "5.0.3.2", PlaceFields("US", "TX", "Austin", "78701", 30.25, -97.75, "635", "512")),
        ],
        main="GeoLiteCity-Blocks.csv",
        bad_row=b'"83886860","83886855","2"\n',
    )


def _ip2location() -> Example:
    rows = (
        '"0","281470681743359","-","-","-","-","0.000000","0.000000","-","-"\n'
        '"281470698520576","281470698520831","AU","Australia","Queensland","Brisbane","-27.5","153","4000","+10:00"\n'
        '"42540766411282592856903984951653826560","42540766490510755371168322545197776895","DE","Germany","-","-","51",'
        '"9","-","+01:00"\n'
    )
    return Example(
        kind="ip2location-csv",
        files={"DB11.CSV": rows.encode()},
        blocks=[
            ("1.0.0.0", "1.0.0.255", PlaceFields("AU", "Queensland", "Brisbane", "4000", -27.5, 153.0)),
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", PlaceFields("DE", "", "", "", 51.0, 9.0)),
        ],
        main="DB11.CSV",
        bad_row=b'"281470698520831","281470698520576","AU","Australia","-","-","1","1","-","+10:00"\n',
        long_row=lambda text: (
            f'"281470698520900","281470698520901","AU","Australia","{text}","-","1","1","-","+10:00"\n'
        ),
    )


def _text_examples() -> list[Example]:
    return [
        Example(
            kind="dbip-csv",
            files={"dbip.csv": b'0.0.0.0,0.255.255.255,ZZ\n1.0.0.0,1.0.0.130,AU\n"2001:db8::","2001:db8::5","DE"\n'},
            blocks=[("1.0.0.0", "1.0.0.130", PlaceFields("AU")), ("2001:db8::", "2001:db8::5", _GERMANY)],
            main="dbip.csv",
            bad_row=b"154.17.129.024,154.17.129.030,US\n",
            long_row=lambda text: f"1.2.3.4,1.2.3.5,{text}\n",
        ),
        Example(
            kind="geofeed",
            files={
                "feed.csv": b"# our feed\n192.0.2.0/25,us,us-tx,Austin,78701,more,and more # a comment\n\n"
                b"192.0.2.0/24,DE,,,\n192.0.2.7,ZZ,,,\n2001:db8::/32,,,,\n198.51.100.0/24\n"
            },
            blocks=[
                ("192.0.2.0", "192.0.2.127", PlaceFields("US", "TX", "Austin", "78701")),
                ("192.0.2.0", "192.0.2.255", _GERMANY),
                ("192.0.2.7", "192.0.2.7", None),
                ("198.51.100.0", "198.51.100.255", None),
                ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", None),
            ],
            main="feed.csv",
            bad_row=b"203.0.113.9/24,US,,,\n",
            long_row=lambda text: f"203.0.113.0/24,US,,{text},\n",
        ),
        Example(
            kind="rir",
            files={
                "delegated": b"2|ripencc|20260101|5|19830705|20260101|+0100\nripencc|*|ipv4|*|3|summary\n"
                b"ripencc|FR|asn|7|1|19930901|allocated\nripencc|FR|ipv4|2.0.0.0|1048576|20100712|allocated\n"
                b"ripencc|DE|ipv4|5.1.0.0|768|20100712|assigned|opaque|e-stats\nripencc||ipv4|5.9.0.0|256||available\n"
                b"ripencc|DE|ipv6|2001:db8::|33|20100712|allocated\n"
            },
            blocks=[
                ("2.0.0.0", "2.15.255.255", PlaceFields("FR")),
                ("5.1.0.0", "5.1.2.255", _GERMANY),
                ("2001:db8::", "2001:db8:7fff:ffff:ffff:ffff:ffff:ffff", _GERMANY),
            ],
            main="delegated",
            bad_row=b"ripencc|DE|ipv4|5.1.0.0|0|20100712|assigned\n",
        ),
        Example(
            kind="ranges-csv",
            files={
                "office.csv": b"first,last,city,country,latitude,longitude,note\n"
                b"10.0.0.1,10.0.0.9,Austin,US,30.25,-97.75,x\n"
                b"::ffff:10.1.0.0,10.1.0.255,,,,,nothing known\n2001:db8::,2001:db8::5,,DE,,,\n"
            },
            blocks=[
                ("10.0.0.1", "10.0.0.9", PlaceFields("US", "", "Austin", "", 30.25, -97.75)),
                ("10.1.0.0", "10.1.0.255", PlaceFields()),
                ("2001:db8::", "2001:db8::5", _GERMANY),
            ],
            main="office.csv",
            bad_row=b"10.0.0.9,10.0.0.1,Austin,US,,,\n",
            long_row=lambda text: f"10.9.0.1,10.9.0.9,{text},US,,,\n",
        ),
        _list_example(),
        _lines_example(),
        *_network_examples(),
    ]


def _of_as(number: int, organization: str = "") -> dict[str, Any]:
    named = {"autonomous_system_organization": organization} if organization else {}
    return {"autonomous_system_number": number, **named}


def _network_examples() -> list[Example]:
    return [
        Example(
            kind="asn-table",
            files={
                "asn.csv": b'1.0.0.0,1.0.0.255,13335,"Cloudflare, Inc."\n1.1.0.0,1.1.0.9,0,Not routed\n'
                b"2001:db8::,2001:db8::5,4200000000,Zw\xc3\xb6lf\n"
            },
            blocks=[
                ("1.0.0.0", "1.0.0.255", _of_as(13335, "Cloudflare, Inc.")),
                ("2001:db8::", "2001:db8::5", _of_as(4200000000, "Zwölf")),
            ],
            main="asn.csv",
            bad_row=b"1.0.0.9,1.0.0.1,13335,Cloudflare\n",
            long_row=lambda text: f"1.2.3.4,1.2.3.5,7,{text}\n",
        ),
        Example(
            kind="asn-table",
            files={
                "ip2asn.tsv": b'1.0.0.0\t1.0.0.255\t13335\tUS\t"CLOUDFLARENET\n1.1.0.0\t1.1.0.9\t0\tNone\tNot routed\n'
                b"2001:db8::\t2001:db8::5\t7\tDE\tSEVEN\n"
            },
            blocks=[
                ("1.0.0.0", "1.0.0.255", {**_of_as(13335, '"CLOUDFLARENET'), "as_country_code": "US"}),
                ("2001:db8::", "2001:db8::5", {**_of_as(7, "SEVEN"), "as_country_code": "DE"}),
            ],
            main="ip2asn.tsv",
            bad_row=b"1.0.0.9\t1.0.0.1\t13335\tUS\tC\n",
            long_row=lambda text: f"1.2.3.4\t1.2.3.5\t7\tUS\t{text}\n",
        ),
        Example(
            kind="pyasn",
            files={
                "ipasn.dat": b"; IP-ASN32-DAT file\n; Original file : rib.20260105.1200.bz2\n; Converted on  : now\n"
                b"1.0.0.0/24\t13335\n1.0.0.0/25\t38803\n2001:db8::/32\t7\n"
            },
            blocks=[
                ("1.0.0.0", "1.0.0.127", _of_as(38803)),
                ("1.0.0.0", "1.0.0.255", _of_as(13335)),
                ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", _of_as(7)),
            ],
            main="ipasn.dat",
            bad_row=b"1.0.0.9/24\t13335\n",
        ),
        Example(
            kind="ranges-csv",
            files={
                "own.csv": b"first,last,country,asn,as_organization,organization,is_vpn\n"
                b"10.0.0.0,10.0.0.255,DE,AS64512,Own AS,Branch,yes\n10.0.1.0,10.0.1.255,FR,,,,\n"
                b"10.0.2.0,10.0.2.255,,,,,false\n"
            },
            blocks=[
                ("10.0.0.0", "10.0.0.255", PlaceFields("DE")),
                (
                    "10.0.0.0",
                    "10.0.0.255",
                    {**_of_as(64512, "Own AS"), "organization": "Branch", "is_anonymous_vpn": True},
                ),
                ("10.0.1.0", "10.0.1.255", PlaceFields("FR")),
                ("10.0.2.0", "10.0.2.255", {"is_anonymous_vpn": False}),
            ],
            main="own.csv",
            bad_row=b"10.0.3.0,10.0.3.9,DE,AS1x,,,\n",
            long_row=lambda text: f"10.0.3.0,10.0.3.9,DE,1,{text},,\n",
        ),
    ]


def _cloud_examples() -> list[Example]:
    cloudflare = {"cloud": "cloudflare", "is_hosting_provider": True}
    frankfurt = {
        "cloud": "aws",
        "cloud_region": "eu-central-1",
        "cloud_service": "EC2, S3",
        "is_hosting_provider": True,
    }
    rows = [{"ip_prefix": "1.178.10.0/24", "region": "eu-central-1", "service": name} for name in ("EC2", "S3")]
    return [
        Example(
            kind="cloud-ranges",
            files={"ip-ranges.json": json.dumps({"syncToken": "1", "prefixes": rows}).encode()},
            blocks=[
                ("1.178.10.0", "1.178.10.255", frankfurt),
                ("1.178.10.0", "1.178.10.255", PlaceFields("DE", "", "Frankfurt")),
            ],
            main="ip-ranges.json",
        ),
        Example(
            kind="cloud-ranges",
            files={
                "ips": json.dumps(
                    {"result": {"ipv4_cidrs": ["173.245.48.0/20"], "ipv6_cidrs": ["2400:cb00::/32"]}}
                ).encode()
            },
            blocks=[
                ("173.245.48.0", "173.245.63.255", cloudflare),
                ("2400:cb00::", "2400:cb00:ffff:ffff:ffff:ffff:ffff:ffff", cloudflare),
            ],
            main="ips",
        ),
    ]


def _geolocation(locid: int, country: str, *ranges: tuple[str, str]) -> dict[str, Any]:
    return {
        "locid": locid,
        "country": country,
        "ipblocks": [{"startip": first, "endip": last} for first, last in ranges],
    }


_LISTED = [
    _geolocation(7, "DE", ("5.1.0.0", "5.1.0.255"), ("2001:db8::", "2001:db8::5")),
    _geolocation(8, "DE", ("5.2.0.0", "5.2.0.255")),
    _geolocation(-3, "US", ("10.0.0.0", "10.0.0.255")),
]
_LISTED_BLOCKS: list[Block] = [
    ("5.1.0.0", "5.1.0.255", _GERMANY),
    ("5.2.0.0", "5.2.0.255", _GERMANY),
    ("2001:db8::", "2001:db8::5", _GERMANY),
]


def _list_example() -> Example:
    return Example(
        kind="list", files={"list.json": json.dumps(_LISTED).encode()}, blocks=_LISTED_BLOCKS, main="list.json"
    )


def _lines_example() -> Example:
    lines = "".join(json.dumps(place) + "\n" for place in _LISTED)
    return Example(
        kind="list",
        files={"list.ndjson": lines.encode()},
        blocks=_LISTED_BLOCKS,
        main="list.ndjson",
        bad_row=b'{"locid": 0}\n',
        long_row=lambda text: json.dumps({"locid": 9, "city": text}) + "\n",
    )


def examples(folder: Path) -> list[Example]:
    """One example of every kind that is told by content, and of the list's two forms."""
    return [_mmdb_example(folder), _geolite2(), _legacy(), _ip2location(), *_text_examples(), *_cloud_examples()]


#: What `examples` holds, for naming tests before there is a folder.
EXAMPLE_KINDS = (
    *("mmdb", "geolite2-csv", "legacy-csv", "ip2location-csv", "dbip-csv"),
    *("geofeed", "rir", "ranges-csv", "list", "list"),
    *("asn-table", "asn-table", "pyasn", "ranges-csv"),
    *("cloud-ranges", "cloud-ranges"),
)
