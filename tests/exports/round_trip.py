"""From a MaxMind DB through a sync and back into one: ``python -m tests.exports.round_trip FILE...`` prints a table.

Both files are read by `tests.oracle.mmdb_walk`, which is nobody's reader but the tests'. Asked for are both ends of
every network of both files, and the addresses next to them.
"""

import argparse
import bisect
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import geolookup
from geolookup.exports.content import LAYERS, PLACE_LAYERS, LayerChoice
from geolookup.exports.export import export
from geolookup.model.errors import GeoLookupError
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from tests.oracle.mmdb_walk import Database, leaves

#: What says who runs the addresses in records that say where they are, too: it is in exports of both layers only.
TRAITS = "traits"
#: What our exports add.
OURS = "geolookup"
#: The leaves that our eight fields can hold: all that was kept before records were.
EIGHT = frozenset(
    (
        *("country.iso_code", "subdivisions.0.iso_code", "city.names.en", "postal.code"),
        *("location.latitude", "location.longitude", "location.metro_code"),
    )
)
_ENDS = {4: (1 << 32) - 1, 6: (1 << 128) - 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """What became of one file: the leaves of all its networks, those in the eight fields, and those in the export.

    ``asked`` counts addresses, ``differ`` those of them whose answers do.

    ``wrong`` are the first of these; ``refused`` is why a sync did not take it.
    """

    name: str
    leaves: int = 0
    before: int = 0
    now: int = 0
    asked: int = 0
    differ: int = 0
    wrong: tuple[str, ...] = ()
    refused: str = ""


class _Answers:
    """What a file says of any address."""

    def __init__(self, path: Path, without: Iterable[str]) -> None:
        self.networks: list[tuple[int, int, int, dict[str, Any]]] = []
        for family, first, last, record in Database(path.read_bytes()).networks():
            kept = {key: value for key, value in record.items() if key not in without}
            if kept:
                self.networks.append((family, first, last, dict(leaves(kept))))
        self._keys = [network[:2] for network in self.networks]

    def of(self, family: int, address: int) -> dict[str, Any] | None:
        """The leaves of the record of an address, with their types; None if it has none."""
        at = bisect.bisect_right(self._keys, (family, address)) - 1
        if at < 0:
            return None
        its, _, last, record = self.networks[at]
        return record if its == family and address <= last else None

    def edges(self) -> Iterator[tuple[int, int]]:
        """The ends of all networks, and the addresses next to them."""
        for family, first, last, _ in self.networks:
            for address in (first - 1, first, last, last + 1):
                if 0 <= address <= _ENDS[family] and not (family == 6 and address >> 32 in (0, 0xFFFF)):
                    yield family, address


def tried(path: Path, *, layer: LayerChoice | None = None, database_type: str | None = None) -> Trip:
    """Sync a file into a new state, export it, and compare.

    Without a layer, a file of flat records is exported as ``network``, and any other as ``all``. The facts of networks
    count in both.
    """
    first = next(record for *_, record in Database(path.read_bytes()).networks() if record)
    nested = any(isinstance(value, dict) for value in first.values())
    chosen = layer or ("all" if nested else "network")
    with tempfile.TemporaryDirectory() as folder:
        home, out = os.path.join(folder, "home"), Path(folder, "out.mmdb")
        # Flat records are kept by their own keys, known or not.
        source = SourceSettings(name="a", location=os.fspath(path), layer="" if nested else "network")
        try:
            report = pull(StateDirectory(home), Settings(sources=(source,), attempts=1))
            assert report.outcome == "published", report
            with geolookup.GeoLookup(home) as geo:
                export(geo, "mmdb", out, layer=chosen, database_type=database_type, licence_allows=True)
        except (GeoLookupError, AssertionError) as error:
            return Trip(name=path.name, refused=str(error))
        return compared(path, out, without=(TRAITS,) if chosen in PLACE_LAYERS else ())


def compared(source: Path, exported: Path, *, without: Iterable[str] = ()) -> Trip:
    """What an exported file says beside what its source says, but for some keys at the top of records."""
    said, got = _Answers(source, without), _Answers(exported, (*without, OURS))
    total = before = now = 0
    for family, first, _, record in said.networks:
        found = got.of(family, first) or {}
        total += len(record)
        before += len(EIGHT & record.keys())
        now += sum(found.get(name) == value for name, value in record.items())
    asked = sorted({*said.edges(), *got.edges()})
    wrong = [(family, address) for family, address in asked if said.of(family, address) != got.of(family, address)]
    shown = tuple(geolookup.model.addresses.to_text(*each) for each in wrong[:3])  # type: ignore[arg-type]
    return Trip(
        name=source.name,
        leaves=total,
        before=before,
        now=now,
        asked=len(asked),
        differ=len(wrong),
        wrong=shown,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument(
        "--layer", choices=LAYERS, help="the layer of the export (default: network or all, by the file)"
    )
    options = parser.parse_args()
    print(f"{'file':<52}{'leaves':>8}{'before':>8}{'now':>8}{'asked':>8}{'wrong':>7}")
    for path in options.files:
        trip = tried(path, layer=options.layer)
        if trip.refused:
            print(f"{trip.name:<52}refused: {trip.refused.partition(': ')[2]:.100}")
            continue
        print(
            f"{trip.name:<52}{trip.leaves:>8}{trip.before:>8}{trip.now:>8}{trip.asked:>8}{trip.differ:>7}", *trip.wrong
        )


if __name__ == "__main__":
    main()
