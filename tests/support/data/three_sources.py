"""A service and two files as the sources of one state, each row stamped with a number."""

import os

from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.context import PullReport
from geolookup.sync.pull.pull import pull

_ROWS = {"ten": ("10.0.0.0", "10.255.255.255"), "six": ("2001:db8::", "2001:db8::ffff")}


def write_files(folder: str, number: int) -> None:
    """Put that number into every row of both files."""
    for name, (first, last) in _ROWS.items():
        with open(os.path.join(folder, f"{name}.csv"), "w", encoding="utf-8") as file:
            file.write(f"first,last,country,region,city,postalcode\n{first},{last},DE,{number},{number},{number}\n")


def settings_of(folder: str, url: str | None) -> Settings:
    """The two files above the service, or above a third file if there is no service."""
    files = [SourceSettings(name=name, location=os.path.join(folder, f"{name}.csv")) for name in _ROWS]
    last = SourceSettings(name="service", kind="service")
    return Settings(url=url, sources=(*files, *([last] if url else [])), attempts=1)


def sync_three(home: str, number: int, url: str | None) -> PullReport:
    """Write the files beside ``home``, and sync."""
    folder = os.path.dirname(home)
    write_files(folder, number)
    return pull(StateDirectory(home, keep_generations=1), settings_of(folder, url))
