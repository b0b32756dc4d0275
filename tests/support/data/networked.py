"""A state whose sources say where addresses are and who runs them, with custom blocks above them."""

import os
from collections.abc import Iterable
from pathlib import Path

from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.opening import open_editor
from geolookup.sync.pull.context import PullReport
from geolookup.sync.pull.pull import pull
from tests.support.data.two_sources import NOTHING

_DATA = Path(__file__).parents[2] / "data" / "mmdb"
#: The files by the names of their sources, in the order of the stack.
FILES = {
    name: _DATA / f"{file}.mmdb"
    for name, file in {
        "city": "GeoIP2-City-Test",
        "asn": "GeoLite2-ASN-Test",
        "isp": "GeoIP2-ISP-Test",
        "anonymous": "GeoIP2-Anonymous-IP-Test",
        "connection": "GeoIP2-Connection-Type-Test",
        "domain": "GeoIP2-Domain-Test",
    }.items()
}
#: Ours: it cuts a network of the City file, and has one whose AS is known and whose place is not.
CUSTOM = {"81.2.69.140-81.2.69.150": "CH", "1.128.5.0/24": "NZ", "10.20.0.0/16": "DE"}
#: Of both, of a place alone, of a network alone, of 6to4, of ours, of a weak record, of nothing.
ADDRESSES = (
    *("81.2.69.160", "81.2.69.142", "89.160.20.112", "2.125.160.216", "1.128.0.1", "1.128.5.7", "10.20.1.1"),
    *("::ffff:81.2.69.160", "2001:218::1", "2002:5102:45a0::1", "2600:6000::1", "71.160.223.1", "12.81.92.1"),
    *("2.3.3.7", "2a02:d500::1", "1.2.0.1", "201.243.200.1", "203.0.113.9", "2001:db8::1"),
)


def sync(
    home: str, names: Iterable[str] = FILES, *, forbidden: Iterable[str] = (), keep_generations: int = 3
) -> PullReport:
    """Sync some of the files; the licences of the ``forbidden`` let nobody else have their data."""
    sources = tuple(
        SourceSettings(name=name, location=os.fspath(FILES[name]), redistribute=name not in forbidden) for name in names
    )
    return pull(StateDirectory(home, keep_generations=keep_generations), Settings(sources=sources, attempts=1))


def state(folder: Path, names: Iterable[str] = FILES, *, forbidden: Iterable[str] = ()) -> str:
    """The home of a state of some of the files, with our own blocks."""
    home = str(folder / "networked")
    sync(home, names, forbidden=forbidden)
    with open_editor(home) as editor:
        for block, country in CUSTOM.items():
            editor.add_block(editor.create(**{**NOTHING, "country": country}), *block.split("-"))
    return home
