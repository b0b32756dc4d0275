"""What the reader of a page has before the first command: the files that the page calls theirs."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
from mmdb_writer import MMDBWriter
from netaddr import IPSet

from tests.support.services.certificates import Certificates
from tests.support.users.page_commands import PageShell

_LINE = '{ip} - - [21/Nov/2025:06:00:00 +0000] "GET / HTTP/1.1" 200 512 "-" "curl/8"\n'
_MMDB: Final = Path(__file__).parents[1] / "data" / "mmdb"
ADDRESSES: Final = ("8.8.8.8", "1.1.1.1", "193.0.6.139", "2001:4860:4860::8888")
LOG: Final = "".join(_LINE.format(ip=address) for address in ADDRESSES)


def logs(shell: PageShell) -> None:
    """A web server's logs, the last ones compressed."""
    for name in ("access.log", "access.log.1"):
        (shell.folder / name).write_text(LOG)
    for name in ("access.log.2.gz", "access.log.gz"):
        (shell.folder / name).write_bytes(gzip.compress(LOG.encode()))


def visits(shell: PageShell) -> None:
    """The same visits as a table, in every form, and a list of addresses."""
    folder = shell.folder
    rows = [f"{number},{address}\n" for number, address in enumerate(ADDRESSES)]
    (folder / "visits.csv").write_text("number,client\n" + "".join(rows))
    pq.write_table(pa.table({"client": ADDRESSES}), folder / "visits.parquet")
    lines = "".join(f'{{"ip": "{address}", "status": 200}}\n' for address in ADDRESSES)
    (folder / "log.ndjson.gz").write_bytes(gzip.compress(lines.encode()))
    for name in ("addresses.txt", "vips.txt"):
        (folder / name).write_text("".join(f"{address}\n" for address in ADDRESSES))


def _sites(shell: PageShell) -> None:
    """A workbook of two sites with a title, whose columns have names of the person's own, and cities of a provider."""
    book = openpyxl.Workbook()
    rows = (
        ["Our sites"],
        ["Site", "Land", "Ort", "Place", "Latitude", "Longitude", "Networks", "LAN"],
        ["Bonn", "Deutschland", "Bonn", "Bonn", "50,7", "7,1", "10.1.0.0/16", "10.1.0.0/24"],
        ["Wien", "Austria", "Wien", "Vienna", "48,2", "16,4", "10.2.0.0/16, 10.3.0.0/16", "10.2.0.0/24"],
    )
    for row in rows:
        book.active.append(row)
    book.save(shell.folder / "sites.xlsx")


_HEADER = "locid,country,region,city,postalcode,latitude,longitude,dmacode,areacode,startip,endip\n"


def _cities(shell: PageShell) -> None:
    """Two files of a service's places: the second has one more, one less, and one that is changed."""
    first = "1,US,TX,Austin,78701,30.25,-97.75,635,512,192.0.2.0,192.0.2.127\n2,DE,,,,,,,,198.51.100.0,198.51.100.255\n"
    later = "1,US,TX,AUSTIN,78701,30.25,-97.75,635,512,192.0.2.0,192.0.2.63\n3,FR,,,,,,,,198.51.100.0,198.51.100.255\n"
    for name, rows in (("cities.csv", first), ("cities-of-march.csv", later)):
        (shell.folder / name).write_text(_HEADER + rows)


def _provider(shell: PageShell) -> None:
    """A provider's file, one with keys of its own, and a spreadsheet of offices."""
    place = {"country": {"iso_code": "DE"}, "city": {"names": {"en": "Bonn"}}}
    ours = {"geo": {"iso": "DE", "town": {"en": "Bonn"}}}
    for name, record, kind in (("dbip-city-lite", place, "DBIP-City-Lite"), ("ours", ours, "Ours")):
        writer = MMDBWriter(4, kind, description="for a test")
        writer.insert_network(IPSet(["193.0.0.0/16"]), record)
        writer.to_db_file(str(shell.folder / f"{name}.mmdb"))
    (shell.folder / "office.csv").write_text("first,last,country,city\n193.0.6.0,193.0.6.99,NL,Amsterdam\n")
    shutil.copy(_MMDB.parent / "clouds" / "aws.json", shell.folder / "ip-ranges.json")


def _networks(shell: PageShell) -> None:
    """Tables of AS numbers, one of one's own, and logs."""
    _logs_and_visits(shell)
    tables = {
        "asn-ipv4.csv": "8.8.4.0,8.8.4.255,15169,Google LLC\n8.8.8.0,8.8.8.255,15169,Google LLC\n"
        '1.1.1.0,1.1.1.255,13335,"Cloudflare, Inc."\n193.0.0.0,193.0.7.255,3333,RIPE NCC\n',
        "asn-ipv6.csv": "2001:4860::,2001:4860:ffff:ffff:ffff:ffff:ffff:ffff,15169,Google LLC\n",
        "ours.csv": "network,asn,as_organization,is_vpn,is_hosting\n"
        "8.8.8.0/24,,,no,yes\n193.0.6.0/24,64512,Ours,yes,\n",
    }
    for name, rows in tables.items():
        (shell.folder / name).write_text(rows)


def _maxmind(shell: PageShell) -> None:
    """MaxMind's files, by the names that they have for their users."""
    for kind in ("City", "ASN"):
        shutil.copy(_MMDB / f"GeoLite2-{kind}-Test.mmdb", shell.folder / f"GeoLite2-{kind}.mmdb")


def _certificate(shell: PageShell) -> None:
    Certificates(shell.folder)


def _readme(shell: PageShell) -> None:
    """Logs, and what DB-IP and ip-location-db said in June 2026 of the page's addresses."""
    logs(shell)
    writer = MMDBWriter(6, "DBIP-City-Lite", ipv4_compatible=True, description="for a test")
    cities = {"8.8.8.0/24": ("US", "Mountain View"), "185.220.101.0/24": ("DE", "Berlin")}
    cities |= {"1.1.1.0/24": ("AU", "Sydney"), "2001:4860::/32": ("US", "Mountain View")}
    cities["193.0.0.0/21"] = ("NL", "Amsterdam")
    for network, (country, city) in cities.items():
        record = {"country": {"iso_code": country}, "city": {"names": {"en": city}}}
        writer.insert_network(IPSet([network]), record)
    writer.to_db_file(str(shell.folder / "dbip-city-lite.mmdb"))
    rows = "8.8.8.0,8.8.8.255,15169,Google LLC\n185.220.101.0,185.220.101.255,60729,Stiftung Erneuerbare Freiheit\n"
    (shell.folder / "asn.csv").write_text(rows)
    (shell.folder / "rates.ndjson").write_text(
        '{"hotelId": "H1001", "ratePlanCode": "BAR", "type": "rate", "name": "Best", "currency": "USD"}\n'
    )


def _logs_and_visits(shell: PageShell) -> None:
    logs(shell)
    visits(shell)


GIVEN: Final[dict[str, Callable[[PageShell], None]]] = {
    "README.md": _readme,
    "coming-from-geoip2.md": _maxmind,
    "how-to-deploy-and-test.md": _maxmind,
    "how-to-columns.md": _logs_and_visits,
    "how-to-exports.md": _networks,
    "how-to-generations.md": visits,
    "how-to-look-up-over-http.md": logs,
    "how-to-maps.md": _logs_and_visits,
    "how-to-networks.md": _networks,
    "how-to-other-tools.md": _certificate,
    "how-to-run-the-service.md": _cities,
    "how-to-sites.md": _sites,
    "how-to-sources.md": _provider,
}
