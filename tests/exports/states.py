"""States to export: files as sources with licences, and custom blocks above them."""

import os
from pathlib import Path

from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull

CITY_CSV = (
    "first,last,country,region,city,postalcode,latitude,longitude,dmacode\n"
    "8.0.0.0,8.255.255.255,US,CA,San José,94035,37.5,-122.0,807\n"
    "9.0.0.0,9.0.0.255,DE,Bayern,München,80331,48.125,11.5,\n"
    "2001:db8::,2001:db8::ffff,FR,IDF,Paris,,48.75,2.25,\n"
)
COUNTRY_CSV = "network,country\n9.0.0.0/8,DE\n10.0.0.0/8,XX\n2400::/12,JP\n"


def publish_sources(home: str, folder: Path, *, redistribute: bool = True) -> None:
    """Two files: `city`, with a licence, above `country`."""
    settings = []
    for name, content in (("city", CITY_CSV), ("country", COUNTRY_CSV)):
        path = folder / f"{name}.csv"
        path.write_text(content, encoding="utf-8")
        settings.append(SourceSettings(name=name, location=os.fspath(path)))
    licensed = SourceSettings(
        name="city",
        location=settings[0].location,
        licence="Test Licence",
        attribution="City data by Example (https://example.com)",
        redistribute=redistribute,
    )
    pull(StateDirectory(home), Settings(sources=(licensed, settings[1]), attempts=1))
