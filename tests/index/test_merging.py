"""Networks of several sources as one layer, merged fact by fact, against a plain look at every row."""

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.index import merging, mmdb
from geolookup.index.builder import IndexBuilder
from geolookup.index.layout import EMPTY
from geolookup.index.merging import said_by, write_merged
from geolookup.index.reader import IndexReader
from geolookup.index.verify import verify_index
from geolookup.model.errors import IndexDamagedError, PullError
from tests.index.building import ADDRESSES, V4_END, V6_END, around, rewritten
from tests.oracle.merged_facts import Row, merged
from tests.support.examples import examples

VALUES: dict[str, Callable[[int], bytes]] = {
    "asn": mmdb.uint32,
    "name": lambda number: mmdb.text(f"AS {number}"),
    "flag": lambda number: mmdb.boolean(number > 1),
}
FACTS = st.dictionaries(st.sampled_from(list(VALUES)), st.integers(0, 3)).map(
    lambda found: {key: mmdb.plain(VALUES[key](number)) for key, number in found.items()}
)


def octets(key: str, value: Any) -> bytes:
    if isinstance(value, bool):
        return mmdb.boolean(value)
    return mmdb.text(value) if isinstance(value, str) else mmdb.uint32(value)


def rows(family: int) -> st.SearchStrategy[Row]:
    ends = st.sampled_from(ADDRESSES[family])
    return st.builds(lambda one, other, facts: Row(family, min(one, other), max(one, other), facts), ends, ends, FACTS)


SOURCE = st.lists(st.one_of(rows(4), rows(6)), max_size=6)


def write(path: Path, name: str, source: list[Row]) -> None:
    builder = IndexBuilder("network", source=name, later_wins=True)
    for row in source:
        if row.facts:
            number = builder.add_record(None, {key: octets(key, value) for key, value in row.facts.items()})
            builder.add_block(number, 4 if row.family == 4 else 6, row.first, row.last)
    builder.write(path)


def answer(reader: IndexReader, family: int, address: int) -> tuple[dict[str, Any], dict[str, str]]:
    number = reader.record(4 if family == 4 else 6, address)
    if number == EMPTY:
        return {}, {}
    return {key: mmdb.plain(part) for key, part in reader.parts(number).items()}, reader.said(number)


@examples(60)
@given(st.lists(SOURCE, min_size=1, max_size=4))
def test_each_fact_is_that_of_the_first_source_which_has_it(sources: list[list[Row]]) -> None:
    named = [(f"s{number}", source) for number, source in enumerate(sources)]
    with tempfile.TemporaryDirectory() as folder:
        readers = []
        for name, source in named:
            write(Path(folder, name), name, source)
            readers.append((name, IndexReader.open(Path(folder, name))))
            verify_index(readers[-1][1])
        summary = write_merged(Path(folder, "merged"), readers, folder=folder)
        with IndexReader.open(Path(folder, "merged")) as reader:
            verify_index(reader)
            answers = {}
            for family, end in ((4, V4_END), (6, V6_END)):
                for address in around(family):
                    answers[family, address] = found = answer(reader, family, address)
                    assert found == merged(named, family, address), address
                    number, first, last = reader.segment(family, address)  # type: ignore[arg-type]
                    assert (number == EMPTY) == (not found[0])
                    assert answer(reader, family, first) == answer(reader, family, last) == found
                    for outside in (first - 1, last + 1):
                        assert not 0 <= outside <= end or answer(reader, family, outside) != found
            covered = sum(
                last - first + 1 for first, last, _ in itertools.chain(reader.segments(4), reader.segments(6))
            )
            assert covered == summary.covered_v4 + summary.covered_v6
            said = said_by(reader)
            for name, _ in named:
                says = [name in found[1].values() for found in answers.values()]
                assert any(said[name]) == any(says)
        for _, each in readers:
            each.close()


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "a", "a", [Row(4, 0, 9, {"asn": 1}), Row(4, 5, 9, {"asn": 2, "name": "AS 2"})])
    write(tmp_path / "b", "b", [Row(4, 3, 20, {"name": "AS 1", "flag": True})])
    with IndexReader.open(tmp_path / "a") as a, IndexReader.open(tmp_path / "b") as b:
        for name in ("one", "two"):
            write_merged(tmp_path / name, [("a", a), ("b", b)], extra={"digest": "d"})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_more_than_an_index_can_number_is_a_refusal_that_names_the_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a", "a", [Row(4, 0, 9, {"asn": 1}), Row(4, 5, 9, {"asn": 2})])
    write(tmp_path / "b", "b", [Row(4, 3, 20, {"name": "AS 1"})])
    monkeypatch.setattr(merging, "WIDE_EMPTY", 3)
    with (
        IndexReader.open(tmp_path / "a") as a,
        IndexReader.open(tmp_path / "b") as b,
        pytest.raises(PullError, match="asn-source, vpn: together they say more than 3 different things"),
    ):
        write_merged(tmp_path / "merged", [("asn-source", a), ("vpn", b)])
    assert not (tmp_path / "merged").exists()


def test_damage_to_what_says_whose_a_fact_is_is_found(tmp_path: Path) -> None:
    write(tmp_path / "a", "a", [Row(4, 0, 9, {"asn": 1})])
    write(tmp_path / "b", "b", [Row(4, 3, 20, {"name": "AS 1"})])
    with IndexReader.open(tmp_path / "a") as a, IndexReader.open(tmp_path / "b") as b:
        write_merged(tmp_path / "merged", [("a", a), ("b", b)])
    damaged = rewritten(tmp_path / "merged", tmp_path / "damaged", record__said=lambda said: said + np.uint32(9))
    with IndexReader.open(damaged) as reader, pytest.raises(IndexDamagedError, match=r"record\.said"):
        reader.said(0)
    with pytest.raises(IndexDamagedError, match=r"record\.said"):
        verify_index(damaged)
