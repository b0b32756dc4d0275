"""Lists that are longer than what sockets hold, so that their end waits for a client that takes nothing."""

import shutil
from pathlib import Path
from typing import Final

import pytest

from geolookup.service.geolocations.loader import load_files
from geolookup.service.store.store import Store

#: So many blocks of each of two geolocations are 13 MB of JSON: the sockets of a connection hold six at most.
LONG: Final = 65536


def many(path: Path, *, geolocations: int, blocks: int) -> Path:
    """A CSV file of that many default geolocations with that many IPv4 blocks each."""
    with path.open("w") as file:
        file.write("locid,country,region,city,postalcode,latitude,longitude,dmacode,areacode,startip,endip\n")
        number = 0
        for locid in range(1, geolocations + 1):
            for _ in range(blocks):
                address = f"{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}.0"
                file.write(f"{locid},US,CA,City {locid},,,,,,{address},{address[:-1]}255\n")
                number += 1
    return path


@pytest.fixture(scope="session")
def loaded_list(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that no test opens: to load it takes a second."""
    folder = tmp_path_factory.mktemp("long")
    with Store.open(folder / "service.db") as store:
        load_files(store, [many(folder / "x.csv", geolocations=2, blocks=LONG)])
    return folder / "service.db"


@pytest.fixture
def long_list(loaded_list: Path, tmp_path: Path) -> Path:
    """The database of a service with a long list."""
    return Path(shutil.copy(loaded_list, tmp_path / "long.db"))
