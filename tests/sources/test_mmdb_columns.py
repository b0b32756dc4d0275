"""Many flat records at once against each by itself: the values of damaged sections too, and whole files."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.index import mmdb
from geolookup.sources.kinds import mmdb as kind
from geolookup.sources.mmdb_columns import Columns
from geolookup.sources.protocol import Gathered
from tests.support.data.source_files import Block, read_all
from tests.support.data.source_files import mmdb as written
from tests.support.examples import examples

TEXTS = st.one_of(st.text(max_size=4), st.sampled_from(["", "x" * 28, "é" * 15, "y" * 300, "z" * 70_000, "DE"]))
LEAVES = st.one_of(
    TEXTS.map(mmdb.text),
    st.floats(allow_nan=False).map(mmdb.double),
    st.floats(-90, 90, width=32).map(mmdb.single),
    st.integers(-(1 << 31), 1 << 130).map(mmdb.whole),
    st.booleans().map(mmdb.boolean),
    st.just(mmdb.map_of([(mmdb.text("en"), mmdb.text("Bonn"))])),
    st.just(mmdb.array_of([mmdb.text("DE")])),
)
KEYS = st.sampled_from([mmdb.text(name) for name in ("city", "country", "latitude", "k" * 40)])
RECORDS = st.lists(st.lists(st.tuples(KEYS, LEAVES, st.booleans(), st.booleans()), max_size=5), min_size=1, max_size=6)


@st.composite
def sections(draw: st.DrawFn) -> tuple[bytes, list[int]]:
    """A data section, some of whose values are pointers, perhaps with other octets here and there; and its records."""
    pool = mmdb.Pool()
    records = [
        mmdb.map_of(
            (pool.shared(key) if key_points else key, pool.shared(leaf) if leaf_points else leaf)
            for key, leaf, key_points, leaf_points in record
        )
        for record in draw(RECORDS)
    ]
    section, begins = bytearray(pool.octets()), []
    for record in records:
        begins.append(len(section))
        section += record
    for at, octet in draw(st.lists(st.tuples(st.integers(0, len(section) - 1), st.integers(0, 255)), max_size=3)):
        section[at] = octet
    return bytes(section[: draw(st.integers(begins[-1] + 1, len(section)))]), begins


def alone(section: mmdb.Section, position: int) -> dict[str, mmdb.Value] | None:
    try:
        return section.members(position)
    except mmdb.BadValueError:
        return None


def same(one: Any, other: Any) -> bool:
    return one == other or (one != one and other != other)  # NaN


@given(sections())
@examples(300)
def test_what_is_found_at_once_is_what_each_record_says(given_section: tuple[bytes, list[int]]) -> None:
    octets, positions = given_section
    section = mmdb.Section(octets)
    columns = Columns(section)
    for group in columns.groups(np.array(positions, np.int64)):
        for at, key in enumerate(group.keys):
            try:
                values, which = columns.distinct(group.places[at])
            except mmdb.BadValueError:
                assert any(alone(section, positions[row]) is None for row in group.rows.tolist())
                continue
            numbers = columns.numbers(group.places[at])
            for step, row in enumerate(group.rows.tolist()):
                found = values[which[step]]
                members = alone(section, positions[row])
                if members is not None:
                    assert tuple(members) == group.keys
                    assert found.octets == members[key].octets
                    assert same(found.plain, members[key].plain)
                if numbers is not None:
                    assert same(numbers[0][step], found.plain)
                    assert len(found.octets) == (9 if numbers[1][step] else 6)
            if numbers is None:
                assert not all(isinstance(value.plain, float) for value in values)


def test_flat_records_of_a_sound_section_are_all_found() -> None:
    pool = mmdb.Pool()
    keys = [pool.shared(mmdb.text(name)) for name in ("city", "country", "latitude")]
    rows = [[mmdb.text(f"{at % 3}"), pool.shared(mmdb.text("DE" * at)), mmdb.double(at / 2)] for at in range(50)]
    octets, positions = pool.octets(), []
    for row in rows:
        positions.append(len(octets))
        octets += mmdb.map_of(zip(keys, row, strict=True))
    columns = Columns(mmdb.Section(octets))
    (group,) = columns.groups(np.array(positions, np.int64))
    assert group.rows.tolist() == list(range(49))  # the last one reaches into the last eight octets
    assert len(columns.distinct(group.places[0]).values) == 3
    numbers = columns.numbers(group.places[2])
    assert numbers is not None
    assert numbers[0].tolist() == [at / 2 for at in range(49)]


FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "country_code": st.sampled_from(["DE", "fr", "", "AT"]),
    "city": st.sampled_from(["", "Bonn", "Wien", "Paris", "L" * 30]),
    "state1": st.sampled_from(["", "BW", "Bavaria"]),
    "region": st.sampled_from(["", "NW", "Hesse"]),
    "postcode": st.sampled_from(["", "53111", 1010]),
    "latitude": st.sampled_from([1.5, -0.0, 48.2, 90.0, "3.25"]),
    "longitude": st.sampled_from([1.5, 16.4]),
    "timezone": st.sampled_from(["", "Europe/Berlin"]),
    "shade": st.sampled_from(["", "blue", 7, {"deep": 1}]),
    "asn": st.sampled_from([0, 64500]),
}
FLAT_RECORDS = st.lists(st.fixed_dictionaries({}, optional=FIELDS), min_size=2, max_size=30)


def _said(path: Path) -> tuple[list[Block], list[Any], Gathered]:
    blocks, gathered = read_all(path, networks=True)
    records = gathered.records
    assert records is not None
    everything = np.arange(len(records), dtype=np.uint32)
    parts = {
        key: [records.part(key, number) for number in records.column(key, everything).tolist()] for key in records.names
    }
    said = [
        (
            () if place == 0xFFFF_FFFE else gathered.places[place],
            sorted((key, own[at]) for key, own in parts.items() if own[at]),
        )
        for at, place in enumerate(records.places(everything).tolist())
    ]
    return blocks, sorted(said, key=repr), gathered  # None has no place among numbers


@pytest.fixture
def singly(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Read a file twice: many records at once, in small batches, and each by itself."""

    def read(records: Sequence[dict[str, Any]]) -> tuple[Any, Any]:
        with tempfile.TemporaryDirectory() as name, monkeypatch.context() as changed:
            networks = {f"10.{at}.0.0/16": record for at, record in enumerate(records) if record}
            path = Path(name) / "flat.mmdb"
            path.write_bytes(written(networks, Path(name), version=4))
            changed.setattr(kind, "_BATCH", 7)
            found = []
            for _ in range(2):
                try:
                    found.append(_said(path))
                except Exception as error:
                    found.append(f"{type(error)}: {error}".replace(os.fspath(path), ""))
                changed.setattr(Columns, "groups", lambda *_: ())
            return found[0], found[1]

    return read


def test_a_file_says_the_same_at_once_and_one_by_one(singly: Any) -> None:
    @given(FLAT_RECORDS)
    @examples(60)
    def compare(records: list[dict[str, Any]]) -> None:
        if not any(records):
            return
        many, each = singly(records)
        if isinstance(each, str):
            assert many == each
            return
        assert many[0] == each[0]
        assert many[1] == each[1]
        for name in ("keys", "rows", "rows_without_location", "decoded", "blocks", "network_blocks"):
            assert getattr(many[2], name) == getattr(each[2], name), name

    compare()


def test_what_is_wrong_is_said_of_the_first_that_is(singly: Any) -> None:
    records = [{"country_code": "DE", "city": f"Town {at}"} for at in range(40)]
    records[17]["country_code"] = "Deutschland"
    records[30]["country_code"] = "France"
    many, each = singly(records)
    assert many == each
    assert "'Deutschland'" in many
    assert "Town 17" in many


def test_nearly_all_flat_records_are_read_at_once(singly: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    read = mmdb.Section.members
    monkeypatch.setattr(mmdb.Section, "members", lambda section, at: asked.append(at) or read(section, at))
    many, each = singly([{"country_code": "DE", "city": f"Town {at}"} for at in range(200)])
    assert many[1] == each[1]
    assert len(asked) == 2 + 200  # the first and the last one
