"""Facts as columns: of every engine's kernel against `Match` and `Network`, address by address, by C and without it."""

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import geolookup
from geolookup.columns.arrow import locate
from geolookup.columns.arrow_index import ArrowIndex
from geolookup.columns.common import FIELDS
from geolookup.columns.facts import FactFinder
from geolookup.index.builder import IndexBuilder
from geolookup.index.native import accelerator
from geolookup.index.reader import IndexReader
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.snapshot import Snapshot
from geolookup.model.addresses import parse, to_text
from geolookup.model.errors import StateDamagedError
from geolookup.model.facts import FACTS, NETWORK_FACTS, PLACE_FACTS
from geolookup.model.fields import UNKNOWN
from geolookup.settings.source import SourceSettings
from geolookup.settings.table import Settings
from geolookup.state.base.current import Published
from geolookup.state.publishing.directory import StateDirectory
from geolookup.sync.pull.pull import pull
from tests.index.building import ADDRESSES, around
from tests.index.native.test_match import SCALARS, Row, rows, write
from tests.oracle.single_lookups import single_lookups
from tests.support.data.states import publish
from tests.support.examples import examples

DATA = Path(__file__).parent.parent / "data" / "mmdb"
#: The networks of one file.
Networks = list[tuple[int, int, int, dict[str, bytes]]]


@pytest.fixture(params=["accelerated", "pure"])
def pure(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param == "pure":
        monkeypatch.setenv("GEOLOOKUP_PURE", "1")
    elif accelerator() is None:
        pytest.skip("the accelerator was not built")
    return bool(request.param == "pure")


def sync(home: str, *names: str) -> None:
    sources = tuple(SourceSettings(name=name.lower(), location=str(DATA / f"{name}.mmdb")) for name in names)
    pull(StateDirectory(home), Settings(sources=sources, attempts=1))


def boundaries(geo: GeoLookup) -> list[str]:
    """The ends of all ranges of places and networks, the addresses beside them, and some of 6to4 that hold them."""
    found = []
    for family in (4, 6):
        width = 32 if family == 4 else 128
        edges = {edge for piece in geo.segments(family) for edge in (piece.first, piece.last)}  # type: ignore[call-overload]
        pieces = geo.with_snapshot(lambda snapshot, of=family: list(snapshot.networks_in(of, 0, (1 << 128) - 1)))  # type: ignore[misc]
        edges |= {first for first, _, _ in pieces}
        values = {value for edge in edges for value in (edge - 1, edge, edge + 1) if 0 <= value < 1 << width}
        found += [to_text(family, value) for value in sorted(values)]  # type: ignore[arg-type]
        if family == 4:
            found += [to_text(6, 0x2002 << 112 | value << 80 | 5) for value in sorted(values)]
    return found


def state_of_files(home: str) -> None:
    sync(home, "GeoLite2-ASN-Test", "GeoIP2-Anonymous-IP-Test", "GeoIP2-ISP-Test", "GeoIP2-City-Test")
    with geolookup.open_editor(home) as editor:
        for country, region, blocks in (("CH", "", "81.2.69.140-81.2.69.150"), ("NZ", "AUK", "1.128.5.0/24")):
            given_ = {**UNKNOWN, "country": country, "region": region, "latitude": 1.0, "longitude": 1.0}
            editor.add_block(editor.create(**given_), *blocks.split("-"))  # type: ignore[arg-type]


def state_of_networks_only(home: str) -> None:
    sync(home, "GeoLite2-ASN-Test", "GeoIP2-Anonymous-IP-Test")


def state_without_networks(home: str) -> None:
    sync(home, "GeoIP2-Country-Test")


@pytest.mark.parametrize("make", [state_of_files, state_of_networks_only, state_without_networks])
def test_columns_agree_with_matches_and_networks_at_every_boundary(home: str, make: Any, pure: bool) -> None:
    make(home)
    with geolookup.open(home) as geo:
        texts = [*boundaries(geo), None, "bad"]
        right = single_lookups(geo, texts)
        assert locate(geo, pa.array(texts), FIELDS).to_pylist() == right
        for name in (*PLACE_FACTS, *NETWORK_FACTS):
            alone = locate(geo, pa.array(texts), name)
            assert alone.column(0).to_pylist() == [row[name] for row in right], name
            tokens = [text.encode() for text in texts if text is not None]
            finder = geo.with_networks(lambda snapshot, of=name: FactFinder(snapshot, of))  # type: ignore[misc]
            assert finder.of(tokens) == [row[name] for text, row in zip(texts, right, strict=True) if text is not None]
    if make is state_of_files:
        known = {name for name in FIELDS if any(row[name] is not None for row in right)}
        unsaid = {
            "site",
            "vrf",
            "connection_type",
            "domain",
            "user_type",
            "is_anycast",
            "cloud",
            "cloud_region",
            "cloud_service",
        }
        assert set(FIELDS) - known <= unsaid
        assert any(row["asn"] is not None and row["locid"] is None for row in right)
        assert any(row["asn"] is None and row["locid"] is not None for row in right)


FACTS_OF_NETWORKS = st.dictionaries(
    st.sampled_from([fact.path.removeprefix("traits.") for fact in NETWORK_FACTS.values()] + ["else"]), SCALARS,
    min_size=1, max_size=5,
)  # fmt: skip
NETWORKS = st.lists(
    st.sampled_from((4, 6)).flatmap(
        lambda family: st.tuples(
            st.just(family), st.sampled_from(ADDRESSES[family]), st.sampled_from(ADDRESSES[family]), FACTS_OF_NETWORKS
        )
    ),
    max_size=6,
)


def write_networks(path: Path, networks: Networks) -> str:
    builder = IndexBuilder("network", source="asn")
    for number, (family, one, other, parts) in enumerate(networks):
        builder.add_record(None, parts)
        builder.add_block(number, family, min(one, other), max(one, other))  # type: ignore[arg-type]
    builder.write(path)
    return str(path)


@given(
    base=rows(records=True) | rows(records=False),
    overlay=rows(records=False) | rows(records=True),
    networks=NETWORKS | st.none(),
    is_pure=st.booleans(),
)
@examples(80)
def test_columns_agree_with_single_answers_of_any_records(
    base: list[Row], overlay: list[Row], networks: Networks | None, is_pure: bool
) -> None:
    """Weak records, several of one place, values of other types, colliding blocks, with networks or without."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEOLOOKUP_PURE", str(int(is_pure)))
        folder = Path(name)
        write(folder / "base", base, "default")
        write(folder / "overlay", overlay, "custom")
        path = None if networks is None else write_networks(folder / "networks", networks)
        readers = [IndexReader.open(folder / name) for name in ("base", "overlay")]
        current: Any = SimpleNamespace(published={"files": {}})
        snapshot = Snapshot(Published(current, *readers, path), None, None)
        of_networks = snapshot.networks()
        index = ArrowIndex(*readers, lambda: None if of_networks is None else of_networks.reader)
        held = [f"2002:{value >> 16:x}:{value & 0xFFFF:x}::5" for value in around(4)]
        texts = [*(to_text(family, value) for family in (4, 6) for value in around(family)), *held, "bad"]  # type: ignore[arg-type]
        right = [answer_of(snapshot, text) for text in texts]
        column = pa.array(texts)
        for fields in (FIELDS, ("time_zone",), ("asn",), ("country", "region_code"), ("source", "is_anycast")):
            found = index.answer(index.search(column, fields), fields)
            for name, array in zip(fields, found.arrays, strict=True):
                array.validate(full=True)
                assert array.to_pylist() == [row.get(name) for row in right], name
            places = any(name not in NETWORK_FACTS for name in fields)
            nets = any(name in NETWORK_FACTS for name in fields)
            covered = sum((row["place"] and places) or (row["network_"] and nets) for row in right)
            assert (found.not_covered, found.malformed.tolist()) == (len(texts) - 1 - covered, [len(texts) - 1])


def answer_of(snapshot: Snapshot, text: str) -> dict[str, Any]:
    if text == "bad":
        return {"place": False, "network_": False}
    match, network = snapshot.match(text, *parse(text)), snapshot.network(text, *parse(text))
    found: dict[str, Any] = {"place": match is not None, "network_": network is not None}
    for name in FIELDS:
        said_by = network if name in NETWORK_FACTS else match
        found[name] = None if said_by is None else getattr(said_by, name)
    return found


def test_facts_have_the_types_that_are_documented(home: str) -> None:
    state_of_files(home)
    with geolookup.open(home) as geo:
        found = locate(geo, pa.array(["81.2.69.160"]), [fact.name for fact in FACTS])
    text = pa.dictionary(pa.int32(), pa.string())
    kinds = {"text": text, "boolean": pa.bool_(), "uint16": pa.uint16(), "uint32": pa.uint32()}
    assert found.schema.types == [kinds[fact.kind] for fact in FACTS]


def test_networks_are_not_opened_unless_a_fact_of_theirs_is_asked_for(home: str, tmp_path: Path, pure: bool) -> None:
    state_of_files(home)
    with geolookup.open(home) as geo:
        geo.lookup("81.2.69.160")
        for name in ("generations", "snapshots"):
            Path(home, name).rename(tmp_path / name)
        assert locate(geo, pa.array(["81.2.69.160"]), ("city", "time_zone")).to_pylist() == [
            {"city": "London", "time_zone": "Europe/London"}
        ]
        with pytest.raises(StateDamagedError):
            locate(geo, pa.array(["81.2.69.160"]), ("asn",))


def test_columns_of_facts_follow_what_is_published(home: str, pure: bool) -> None:
    state_of_files(home)
    with geolookup.open(home) as geo:
        asked = pa.array(["1.128.0.0"])
        assert locate(geo, asked, ("asn", "time_zone")).to_pylist() == [{"asn": 1221, "time_zone": None}]
        with geo.edit() as editor:
            given_ = {**UNKNOWN, "country": "CH", "latitude": 1.0, "longitude": 1.0}
            editor.add_block(editor.create(**given_), "1.128.0.0/24")  # type: ignore[arg-type]
        assert locate(geo, asked, ("asn", "time_zone")).to_pylist() == [{"asn": 1221, "time_zone": "Europe/Zurich"}]
        publish(home, [])
        geo.look_soon()
        assert locate(geo, asked, ("asn",)).column(0).to_pylist() == [None]


def test_every_batch_of_a_stream_has_the_same_dictionary_of_a_fact(home: str) -> None:
    from geolookup.columns.arrow import enrich

    state_of_files(home)
    batches = [pa.record_batch({"ip": pa.array([text])}) for text in ("1.128.0.0", "81.2.69.160", "12.81.92.0")]
    with geolookup.open(home) as geo:
        found = list(enrich(geo, batches, column="ip", fields="as_organization,asn", threads=2))
    dictionaries = [batch.column("geo_as_organization").dictionary for batch in found]
    assert len({each.buffers()[2].address for each in dictionaries}) == 1
    table = pa.Table.from_batches(found)
    assert table.column("geo_asn").to_pylist()[0] == 1221
    assert len(set(dictionaries[0].to_pylist())) == len(dictionaries[0])
