"""From geolocations to a candidate's files: however their blocks are cut on the way, the same comes out."""

import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.model import addresses
from geolookup.model.errors import PullError
from geolookup.state.base.candidate import Candidate
from geolookup.sync.pull import staging
from geolookup.sync.pull.staging import Staging
from geolookup.upstream.decode import Block, PulledGeolocation
from tests.support.examples import examples


def block(family: Any, first: int, more: int) -> Block:
    return (family, first, first + more, addresses.to_text(family, first), addresses.to_text(family, first + more))


BLOCKS = st.lists(st.builds(block, st.sampled_from((4, 6)), st.integers(0, 90), st.integers(0, 9)), max_size=9)
PLACES = st.lists(
    st.builds(
        PulledGeolocation,
        *(st.integers(-4, 9).filter(bool), *[st.sampled_from(("", "DE", "Köln"))] * 4),
        *(st.none(), st.just(1.5), st.just(""), st.just(""), BLOCKS),
    ),
    unique_by=lambda place: place.locid,
    max_size=6,
)


def staged(folder: str, places: list[PulledGeolocation]) -> tuple[Any, ...]:
    candidate = Candidate(path=folder)
    with Staging(candidate, source="service") as stage:
        stage.add(places)
        found = stage.finish({})
    with sqlite3.connect(candidate.cache) as connection:
        rows = [connection.execute(f"SELECT * FROM {name}").fetchall() for name in ("geolocations", "ipblocks")]
    connection.close()
    return found, rows, Path(candidate.index).read_bytes()


@given(places=PLACES, step=st.integers(1, 4))
@examples(40)
def test_blocks_that_are_staged_a_few_at_a_time_are_the_same(places: list[PulledGeolocation], step: int) -> None:
    with TemporaryDirectory() as one, TemporaryDirectory() as other, pytest.MonkeyPatch.context() as patch:
        expected = staged(one, places)
        patch.setattr(staging, "_BLOCKS_A_STEP", step)
        assert staged(other, places) == expected


def test_a_locid_that_comes_twice_is_refused_by_name(tmp_path: Path) -> None:
    place = PulledGeolocation(7, "DE", "", "", "", None, None, "", "", [])
    with Staging(Candidate(path=str(tmp_path))) as stage:
        stage.add([place])
        with pytest.raises(PullError, match="locid 7 comes twice in the list: nothing was published"):
            stage.add([place])
