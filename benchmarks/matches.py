"""One `match` or `network` and a member of it, on records in eight languages, with addresses not asked before."""

import json
import os
import statistics
from collections.abc import Sequence
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from timeit import Timer
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.common import arguments, child, environment, load_average, print_table
from benchmarks.data import FULL, SIZES, SMALL, DataSet
from benchmarks.figures import record
from benchmarks.generator import locations
from benchmarks.lookup import per_call_us
from geolookup.index import mmdb
from geolookup.index.builder import IndexBuilder
from geolookup.index.native import _SECTIONS, accelerator
from geolookup.index.reader import IndexReader
from geolookup.lookup.facts import open_facts
from geolookup.lookup.snapshot import Snapshot
from geolookup.lookup.views import view_type
from geolookup.model.facts import PLACE_FACTS
from geolookup.model.fields import FIELDS
from geolookup.state.base.current import Published, open_published

_CHUNK = 2_000
_LANGUAGES = ("de", "en", "es", "fr", "ja", "pt-BR", "ru", "zh-CN")
#: Records of one place differ in the accuracy radius.
_RADII = (5, 20, 100, 500)
_NETWORKS = 60_000
MEMBERS = (
    *("country", "city", "latitude", "locid", "first", "network", "source"),
    *("country_name", "region_name", "time_zone", "accuracy_radius", "is_in_european_union", "asn", "as_organization"),
)
_TARGET_US = 0.5


def _tree(*members: tuple[str, bytes]) -> bytes:
    return mmdb.map_of((mmdb.text(key), value) for key, value in members)


def _names(name: str) -> bytes:
    return _tree(*((language, mmdb.text(f"{name} {language}")) for language in _LANGUAGES))


def _write_places(data: DataSet, path: str) -> None:
    """The blocks of the data, each with one of four records of its place."""
    builder = IndexBuilder("default", source="city", records=True)
    for number, fields in enumerate(locations(data.size.locations)):
        country, region, city = fields[:3]
        slot = builder.add_location(number + 1, *fields)
        parts = {
            "city": _tree(("geoname_id", mmdb.uint32(number)), ("names", _names(city))),
            "continent": _tree(("code", mmdb.text("EU")), ("names", _names("Europe"))),
            "country": _tree(
                ("geoname_id", mmdb.uint32(int.from_bytes(country.encode()))),
                *((("is_in_european_union", mmdb.boolean(True)),) if country < "C" else ()),
                ("iso_code", mmdb.text(country)),
                ("names", _names(f"Country {country}")),
            ),
        }
        if region:
            names = _names(f"Region {region}")
            parts["subdivisions"] = mmdb.array_of([_tree(("iso_code", mmdb.text(region[:3])), ("names", names))])
        for radius in _RADII:
            location = (
                ("accuracy_radius", mmdb.uint16(radius)),
                ("time_zone", mmdb.text(f"Zone/{country}_{number % 7}")),
            )
            builder.add_record(slot, {**parts, "location": _tree(*location)})
    for at, (owner, first, last) in enumerate(
        zip(data.owner4.tolist(), data.first4.tolist(), data.last4.tolist(), strict=True)
    ):
        builder.add_block(len(_RADII) * owner + at % len(_RADII), 4, first, last)
    builder.write(path)


def _write_networks(data: DataSet, path: str) -> None:
    """The same blocks, sixteen neighbours of one network."""
    builder = IndexBuilder("network", source="asn")
    for number in range(_NETWORKS):
        of = mmdb.text(f"Organization {number} Inc.")
        builder.add_record(
            None, {"autonomous_system_number": mmdb.uint32(number + 1), "autonomous_system_organization": of}
        )
    for at, (first, last) in enumerate(zip(data.first4.tolist(), data.last4.tolist(), strict=True)):
        builder.add_block((at // 16 * 7919) % _NETWORKS, 4, first, last)
    builder.write(path)


def files(data: DataSet) -> tuple[str, str, str]:
    """The files with records: both layers of places, and networks."""
    base = data.made("places.index", lambda path: _write_places(data, path))
    network = data.made("networks.index", lambda path: _write_networks(data, path))
    overlay = data.made("no-custom.index", lambda path: IndexBuilder("custom").write(path) and None)
    return base, overlay, network


def _finder(data: DataSet) -> Any:
    """What `GeoLookup.match` and `network` are with the accelerator, on the files with records."""
    native = accelerator()
    assert native is not None, "the accelerator was not built: reinstall where there is a compiler"
    base, overlay, network = files(data)
    current: Any = SimpleNamespace(published={"files": {}})
    published = Published(current, IndexReader.open(base), IndexReader.open(overlay), network)
    finder = native.Finder(_refuse, _refuse, _refuse)
    finder.use(Snapshot(published, None, native).fast)
    finder.look_at = float("inf")
    return finder


def _refuse(address: object) -> None:
    raise AssertionError(f"{address}: the accelerator did not answer it")


def _members(data: DataSet, rounds: int) -> dict[str, list[float]]:
    """Microseconds a call, by what is asked; each round asks its own addresses."""
    finder = _finder(data)
    calls = ["lookup(text)", "match(text)", *(f"match(text).{name}" for name in MEMBERS)]
    calls += ["network(text)", "network(text).asn", "network(text).first", "network(text).facts"]
    return _timed(calls, data, rounds, lookup=finder.lookup, match=finder.match, network=finder.network)


def _timed(calls: Sequence[str], data: DataSet, rounds: int, **names: Any) -> dict[str, list[float]]:
    """Microseconds of each call in a loop of its own.

    The first round reads the file and builds what many lookups build: it is not counted.
    """
    asked = data.covered4(_CHUNK * len(calls) * (rounds + 1), np.random.default_rng(11))
    found: dict[str, list[float]] = {call: [] for call in calls}
    for number in range(len(calls) * (rounds + 1)):
        call = calls[number % len(calls)]
        texts = asked[number * _CHUNK : (number + 1) * _CHUNK]
        us = Timer(f"for text in texts: {call}", globals={**names, "texts": texts}).timeit(1) / _CHUNK * 1e6
        if number >= len(calls):
            found[call].append(us)
    return found


def _finder_of(module: Any, readers: Sequence[IndexReader]) -> Any:
    """What `GeoLookup.lookup` is with a build of the accelerator; one from before facts has none."""
    layers = []
    for reader in readers:
        sections = tuple(reader.section_bytes(name) if name in reader.header.sections else None for name in _SECTIONS)
        fields = tuple((reader.section_bytes(f"loc.{field.name}"), field.limit is None) for field in FIELDS)
        texts = reader.section_bytes("strings.offsets"), reader.section_bytes("strings.bytes")
        locids = reader.section_bytes("loc.locid")
        places = module.Places(view_type(module), reader.location_count, locids, fields, *texts)
        facts = (open_facts(module, reader, PLACE_FACTS),) if hasattr(module, "Facts") else ()
        layers.append(module.Layer(sections, reader.location_count, places, *facts))
    finder = module.Finder(_refuse)
    finder.use(module.Searcher(*layers))
    finder.look_at = float("inf")
    return finder


def _before_and_now(data: DataSet, path: str) -> dict[str, list[tuple[float, float]]]:
    """Pairs of microseconds of `lookup`: of the build at ``path``, and of this one, in one process, by turns."""
    loader = ExtensionFileLoader("before._native", path)
    specification = spec_from_file_location("before._native", path, loader=loader)
    assert specification is not None
    before = module_from_spec(specification)
    loader.exec_module(before)
    published = open_published(data.home)
    finders = [_finder_of(module, (published.base, published.overlay)) for module in (before, accelerator())]
    found: dict[str, list[tuple[float, float]]] = {}
    rng = np.random.default_rng(17)
    for name, asked in (("IPv4", data.covered4(1_200_000, rng)), ("IPv6", data.covered6(400_000, rng))):
        texts = [asked[at : at + _CHUNK] for at in range(0, len(asked), _CHUNK)]
        pairs = []
        for at in range(0, len(texts), 2):
            us = [0.0, 0.0]
            for side in (0, 1) if at % 4 else (1, 0):
                us[side] = per_call_us(finders[side].lookup, texts[at + side])
            pairs.append((us[0], us[1]))
        found[name] = pairs[len(pairs) // 5 :]  # the first ones read the file
    return found


def _row(name: str, us: Sequence[float]) -> tuple[str, str, str, str]:
    is_bound = name.startswith("match(text).")
    return name, f"{statistics.median(us):.2f}", f"{min(us):.2f}", f"<= {_TARGET_US}" if is_bound else ""


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=41, help="rounds, each with addresses of its own (default: 41)")
    parser.add_argument("--before", metavar="FILE", help="an older build of the accelerator, to compare `lookup` with")
    options = parser.parse_args()
    if options.child:
        kind, name, more = options.child
        own = DataSet(SIZES[name], options.data)
        print(json.dumps(_members(own, int(more)) if kind == "members" else _before_and_now(own, more)))
        return
    size = SMALL if options.small else FULL
    data = DataSet(size, options.data)
    found = json.loads(
        child("matches", "members", size.name, str(options.rounds), data=options.data, env=environment())
    )
    for name, us in found.items():
        if name in ("match(text)", "match(text).country", "match(text).asn"):
            record(f"matches/{name.partition('.')[2] or 'match'}/us", statistics.median(us))
    print_table(
        f"One match or network and one member of it (us), IPv4, on: {data.describe()}; {len(_RADII)} records a place, "
        f"with names in {len(_LANGUAGES)} languages; {_NETWORKS:,} networks",
        ("what", "us", "least", "target"),
        [_row(name, us) for name, us in found.items()],
        f"medians of {options.rounds} rounds of {_CHUNK:,} calls, none of an address that was asked before; "
        f"load average {load_average()}",
    )
    if options.before:
        path = os.path.abspath(options.before)
        both = json.loads(child("matches", "before", size.name, path, data=options.data, env=environment()))
        rows = []
        for name, pairs in both.items():
            us = [f"{statistics.median(side):.3f}" for side in zip(*pairs, strict=True)]
            rows.append((name, *us, f"{statistics.median(now / old for old, now in pairs):.2f}", "<= 1.05"))
        print_table(
            f"lookup by an older build of the accelerator and by this one (us), on: {data.describe()}",
            ("addresses", "before", "now", "ratio", "target"),
            rows,
            f"medians of pairs of {_CHUNK:,} calls in one process, none of an address that was asked before; "
            f"load average {load_average()}",
        )


if __name__ == "__main__":
    assert os.environ.get("GEOLOOKUP_PURE", "0") in ("", "0")
    main()
