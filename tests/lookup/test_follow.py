"""What a GeoLookup serves as publishes come and files turn out to be damaged, for threads and forks too."""

import copy
import gc
import os
import pickle
import shutil
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

import geolookup
from geolookup.index.reader import IndexReader
from geolookup.lookup.engine import GeoLookup
from geolookup.model import addresses
from geolookup.model.errors import (
    IndexDamagedError,
    StateDamagedError,
    StateError,
)
from tests.support.data.states import place, publish

pytestmark = pytest.mark.usefixtures("reader")


def look_now(geo: GeoLookup) -> None:
    """As if the second had passed after which a lookup looks for something new."""
    geo.look_soon()


def test_what_this_process_publishes_is_followed_at_once(geo: GeoLookup, home: str) -> None:
    assert geo.lookup("9.9.9.9") is None
    publish(home, [place(7, "9.0.0.0/8")])
    found = geo.lookup("9.9.9.9")
    assert found is not None
    assert (found.locid, geo.status().generation) == (7, 2)


def test_a_damaged_or_vanished_publish_leaves_the_open_one_serving(geo: GeoLookup, home: str) -> None:
    current = os.path.join(home, "CURRENT")
    os.rename(current, f"{current}.away")
    look_now(geo)
    assert geo.lookup("8.8.8.8") is not None
    assert "is gone" in str(geo.status().problem)
    with open(current, "w", encoding="ascii") as file:
        file.write("{")
    look_now(geo)
    assert geo.lookup("8.8.8.8") is not None
    assert "damaged" in str(geo.status().problem)
    assert geo.problem == geo.status().problem
    os.rename(f"{current}.away", current)
    look_now(geo)
    assert geo.status().problem is None


def test_a_damaged_current_falls_back_to_the_newest_whole_generation(geo: GeoLookup, home: str) -> None:
    publish(home, [place(7, "9.0.0.0/8")])
    with open(os.path.join(home, "CURRENT"), "w", encoding="ascii") as file:
        file.write('{"version": "1.0"}')
    with geolookup.open(home) as other:
        status = other.status()
        assert (status.generation, other.lookup("9.9.9.9") is not None) == (2, True)
        assert "damaged" in str(status.problem)
    os.truncate(os.path.join(home, "generations", "000002", "index"), 100)
    with geolookup.open(home) as other:
        assert (other.status().generation, other.lookup("9.9.9.9")) == (1, None)


def test_damage_that_only_a_lookup_finds_falls_back(geo: GeoLookup, home: str) -> None:
    publish(home, [place(7, "9.0.0.0/8")])
    path = os.path.join(home, "generations", "000002", "index")
    with geolookup.open(home) as other:
        section = other._follower.newest().base.reader.header.sections["v4.table"]
    with open(path, "r+b") as file:  # a table entry that leads far outside
        file.seek(section.begin + 4 * 0x0909)
        file.write(b"\xff" * 8)
    with geolookup.open(home) as other:
        found = other.lookup("9.9.9.9")
        assert (found, other.status().generation) == (None, 1)
        assert "damaged" in str(other.status().problem)


def test_a_damaged_text_is_found_by_the_lookup_and_not_when_it_is_read(geo: GeoLookup, home: str) -> None:
    publish(home, [place(7, "9.0.0.0/8", city="Lyon")])
    path = os.path.join(home, "generations", "000002", "index")
    whole = Path(path).read_bytes()
    assert whole.count(b"Lyon") == 1
    with open(path, "r+b") as file:
        file.seek(whole.index(b"Lyon"))
        file.write(b"\xff")
    with geolookup.open(home) as other:
        found = other.lookup("9.9.9.9")
        assert (found, other.status().generation) == (None, 1)
        assert "is not UTF-8" in str(other.status().problem)


def test_threads_share_an_open_one_across_publishes(geo: GeoLookup, home: str) -> None:
    wrong: list[str] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            look_now(geo)
            match = geo.match("9.9.9.9")
            # Every generation stamps its number on every row: a mixture would show here.
            if match is not None and match.geolocation.city != match.geolocation.region:
                wrong.append(str(match))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for number in range(2, 13):
            publish(home, [place(number, "9.0.0.0/8", city=f"{number}", region=f"{number}")])
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    look_now(geo)
    found = geo.lookup("9.9.9.9")
    assert found is not None
    assert found.city == "12"


def test_a_forked_child_goes_on_by_itself(geo: GeoLookup, home: str) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        try:
            publish(home, [place(7, "9.0.0.0/8")])
            look_now(geo)
            found = geo.lookup("9.9.9.9")
            os.write(writer, b"%d" % (found.locid if found else 0))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 10) == b"7"
    os.close(reader)
    os.close(writer)
    look_now(geo)
    assert geo.lookup("9.9.9.9") is not None


def test_the_answers_of_one_call_are_of_one_generation(geo: GeoLookup, home: str) -> None:
    def asked() -> Iterator[str]:
        yield "9.9.9.9"
        publish(home, [place(7, "9.0.0.0/8")])
        assert geo.lookup("9.9.9.9") is not None
        yield "9.9.9.9"

    first, second = geo.lookup_many(asked())
    assert first == second


def test_answers_outlive_what_they_were_read_from(geo: GeoLookup, home: str) -> None:
    answer, match = geo.lookup("8.8.8.8"), geo.match("8.1.2.3")
    assert answer is not None
    assert match is not None
    expected = copy.copy(answer), pickle.dumps(match)
    assert type(expected[0]) is geolookup.Geolocation
    publish(home, [place(7, "8.0.0.0/8")])
    assert geo.lookup("8.8.8.8") != answer
    geo.close()
    shutil.rmtree(home)
    gc.collect()
    assert (answer, pickle.dumps(match)) == expected
    assert (answer.locid, answer.country) == (expected[0].locid, expected[0].country)


def test_what_a_program_keeps_of_lookup_follows_publishes_and_closing(geo: GeoLookup, home: str) -> None:
    lookup = geo.lookup
    assert [place.locid for place in map(lookup, ["8.8.8.8", "8.1.2.3", "8.8.8.8"]) if place] == [-1, 1, -1]
    publish(home, [place(7, "8.0.0.0/8")])
    assert [place.locid for place in map(lookup, ["8.8.8.8", "8.1.2.3", "8.8.8.8"]) if place] == [7, 7, 7]
    geo.close()
    with pytest.raises(StateError, match="closed"):
        lookup("8.8.8.8")


def test_what_another_process_publishes_is_seen_once_it_is_time_to_look(
    geo: GeoLookup, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert geo.lookup("9.9.9.9") is None
    monkeypatch.setattr("geolookup.state.publishing.publish.tell_followers", lambda home: None)
    monkeypatch.setattr("geolookup.lookup.follow.LOOK_INTERVAL_S", 3600.0)
    look_now(geo)
    assert geo.lookup("9.9.9.9") is None
    publish(home, [place(7, "9.0.0.0/8")])
    assert geo.lookup("9.9.9.9") is None
    look_now(geo)
    assert geo.lookup("9.9.9.9") is not None


def test_damage_in_the_midst_of_many_falls_back_for_all_of_them(geo: GeoLookup, home: str) -> None:
    publish(home, [place(7, "8.0.0.0/8", "9.0.0.0/8")])
    path = os.path.join(home, "generations", "000002", "index")
    with geolookup.open(home) as other:
        section = other._follower.newest().base.reader.header.sections["v4.table"]
    with open(path, "r+b") as file:
        file.seek(section.begin + 4 * 0x0909)
        file.write(b"\xff" * 8)
    with geolookup.open(home) as other:
        found = other.lookup_many(["8.1.2.3", "9.9.9.9", "8.1.2.3"])
        assert [place.locid if place else None for place in found] == [1, None, 1]


def damage_table(home: str, generation: int) -> None:
    """Have the table of one IPv4 prefix (9.9/16) of a generation lead far outside: only reading there finds it."""
    path = os.path.join(home, "generations", f"{generation:06d}", "index")
    with geolookup.open(home) as other:
        section = other._follower.newest().base.reader.header.sections["v4.table"]
    with open(path, "r+b") as file:
        file.seek(section.begin + 4 * 0x0909)
        file.write(b"\xff" * 8)


def test_damage_that_only_explain_finds_falls_back(geo: GeoLookup, home: str) -> None:
    publish(home, [place(7, "9.0.0.0/8")])
    damage_table(home, 2)
    with geolookup.open(home) as other:
        found = other.explain("9.9.9.9")
        assert (found.match, found.covering, found.generation) == (None, (), 1)
        assert "damaged" in str(other.status().problem)


def damage_slot(home: str, generation: int, address: str) -> None:
    """Have the segment of an address name a geolocation that is not there: only reading it finds that."""
    path = os.path.join(home, "generations", f"{generation:06d}", "index")
    with IndexReader.open(path) as reader:
        position = reader._position4(addresses.parse(address)[1])
        section = reader.header.sections["v4.slot"]
    with open(path, "r+b") as file:
        file.seek(section.begin + 2 * position)
        file.write(struct.pack("<H", 0xFFF0))


@pytest.mark.parametrize("layer", [None, "default"])
def test_segments_go_on_in_the_newest_whole_generation_from_where_damage_was_found(
    geo: GeoLookup, home: str, layer: Literal["default"] | None
) -> None:
    publish(home, [place(1, "7.0.0.0/8", "9.0.0.0/8")])
    publish(home, [place(7, "8.0.0.0/8"), place(8, "9.0.0.0/9", "9.128.0.0/10")])
    damage_slot(home, 3, "9.0.0.0")
    with geolookup.open(home) as other:
        found = [(segment.first, segment.last, segment.geolocation.locid) for segment in other.segments(4, layer)]
        # The first was walked in the damaged generation; then the whole one says what begins behind that.
        assert found == [(0x08000000, 0x08FFFFFF, 7), (0x09000000, 0x09FFFFFF, 1)]
        assert other.status().generation == 2
        assert "damaged" in str(other.status().problem)
    damage_slot(home, 3, "8.0.0.0")
    with geolookup.open(home) as other:
        found = [(segment.first, segment.last, segment.geolocation.locid) for segment in other.segments(4, layer)]
        assert found == [(0x07000000, 0x07FFFFFF, 1), (0x09000000, 0x09FFFFFF, 1)]


def test_a_walk_that_goes_on_begins_in_the_middle_of_a_segment(geo: GeoLookup, home: str) -> None:
    publish(home, [place(1, "8.0.0.0/6")])
    publish(home, [place(7, "8.0.0.0/8"), place(8, "9.0.0.0/8")])
    damage_slot(home, 3, "9.0.0.0")
    with geolookup.open(home) as other:
        found = [(segment.first, segment.last, segment.geolocation.locid) for segment in other.segments(4)]
    assert found == [(0x08000000, 0x08FFFFFF, 7), (0x09000000, 0x0BFFFFFF, 1)]


def test_segments_of_what_is_damaged_everywhere_raise(geo: GeoLookup, home: str) -> None:
    damage_slot(home, 1, "8.0.0.0")
    with geolookup.open(home) as other, pytest.raises((IndexDamagedError, StateDamagedError)):
        list(other.segments(4))
