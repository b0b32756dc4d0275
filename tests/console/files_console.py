"""A console of a state whose sources are files that a test changes."""

from pathlib import Path
from typing import Any

from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.context import PullReport
from geolookup.sync.pull.pull import pull
from tests.support.users.running_console import RunningConsole

#: Of an upstream that wants to do harm.
HOSTILE = "<script>alert(1)</script>\u202e\" onclick='x' {{7*7}}" + "w" * 10_000


class FilesConsole:
    """One source, ``towns``, with 200 towns of a /24 each from 20.0.0.0 on; a test rewrites it and syncs."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.home = str(folder / "home")
        self.settings = Settings(
            sources=(
                SourceSettings(
                    name="towns",
                    location=str(folder / "towns.csv"),
                    licence="Licence <b>of</b> Example",
                    attribution="Towns by Example",
                ),
            ),
            attempts=1,
        )
        self.write(200)
        self.sync()
        self.running = RunningConsole(self.home, settings=lambda: self.settings, **options)

    def write(self, count: int, city: str = "Town", country: str = "DE") -> None:
        lines = [f"20.0.{number}.0/24,{country},{city} {number},1.5,2.5" for number in range(count)]
        text = "\n".join(["network,country,city,latitude,longitude", *lines, ""])
        (self.folder / "towns.csv").write_text(text, encoding="utf-8")

    def sync(self) -> PullReport:
        return pull(self.directory, self.settings)

    @property
    def directory(self) -> StateDirectory:
        return StateDirectory(self.home)

    @property
    def served(self) -> int:
        return self.directory.require_current().generation
