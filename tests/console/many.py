"""A state with hundreds of sites whose names are long, in several scripts: for how pages look."""

from pathlib import Path

from geolookup.model.types import NewGeolocation
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.opening import open_editor
from geolookup.sync.pull.pull import pull

#: Names as organisations give them, each with its place.
NAMES: tuple[tuple[str, str, str, float, float], ...] = (
    ("Łódź, ulica Piotrkowska, magazyn wysokiego składowania", "PL", "Łódź", 51.77, 19.46),
    ("Würzburg-Heidingsfeld Donaudampfschifffahrtsgesellschaftskapitänsgebäude", "DE", "Würzburg", 49.77, 9.93),
    ("北京市朝阳区望京东路研发中心与数据中心大楼", "CN", "北京", 39.9, 116.4),
    ("مكتب الرياض الرئيسي لخدمات المعلومات والاتصالات", "SA", "الرياض", 24.7, 46.7),
    ("Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch depot", "GB", "Bangor", 53.22, -4.2),
    ("Lyon", "FR", "Lyon", 45.76, 4.84),
)
_DEFAULTS = """\
network,country,region,city,postalcode,latitude,longitude
198.51.100.0/24,FR,ARA,Lyon,69001,45.76,4.84
192.0.2.0/25,US,TX,Austin,78701,30.25,-97.75
203.0.113.0/24,DE,BE,Berlin,10115,52.52,13.4
11.0.0.0/8,PL,LD,Łódź,90-001,51.77,19.46
2001:db8::/32,JP,13,Tokyo,100-0001,35.68,139.69
"""


def many(folder: Path, count: int = 400) -> tuple[str, Settings]:
    """The home of such a state, of one source and ``count`` sites, and its settings."""
    home = str(folder / "home")
    table = folder / "cities-of-the-world-by-their-networks.csv"
    table.write_text(_DEFAULTS, encoding="utf-8")
    source = SourceSettings(name="cities", location=str(table), licence="CC BY 4.0", attribution="Cities by Example")
    settings = Settings(sources=(source,), attempts=1)
    pull(StateDirectory(home), settings)
    with open_editor(home, settings=settings) as editor, editor.transaction():
        for number in range(count):
            name, country, city, latitude, longitude = NAMES[number % len(NAMES)]
            fields = NewGeolocation(country=country, city=city, latitude=latitude, longitude=longitude)
            first = f"10.{number // 250}.{number % 250}.0/24"
            editor.create(name=f"{name} {number:03d}", blocks=[first, f"2001:db8:{number:x}::/48"], **fields)
            if number < len(NAMES):
                editor.put_vrf_place(f"kunden-süd-{number % 2}", name, blocks=["10.0.0.0/16"][number // 2 :], **fields)
    return home, settings
