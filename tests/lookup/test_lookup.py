"""GeoLookup against a linear scan, and the rules of its answers."""

import copy
import gc
import ipaddress
import json
import os
import pickle
import subprocess
import sys
import weakref
from typing import Any

import msgspec
import netaddr
import pytest
from hypothesis import given
from hypothesis import strategies as st

import geolookup
from geolookup.lookup.engine import GeoLookup
from geolookup.model import addresses, precedence
from geolookup.model.errors import (
    InvalidAddressError,
    NoStateError,
    SettingsError,
    StateError,
)
from geolookup.upstream.decode import PulledGeolocation
from tests.support.data.states import place, publish
from tests.support.examples import examples

pytestmark = pytest.mark.usefixtures("reader")

FEW = 24  # addresses: edges collide


@st.composite
def geolocations(draw: st.DrawFn) -> list[PulledGeolocation]:
    """A few custom and default geolocations with blocks of both families, on few addresses."""
    found = []
    for locid in draw(st.lists(st.sampled_from([-3, -2, -1, 1, 2, 3]), unique=True, min_size=1)):
        blocks = []
        for _ in range(draw(st.integers(0, 4))):
            family = draw(st.sampled_from([4, 6]))
            first, last = sorted((draw(st.integers(0, FEW)), draw(st.integers(0, FEW))))
            blocks.append((family, first, last, addresses.to_text(family, first), addresses.to_text(family, last)))
        found.append(msgspec.structs.replace(place(locid), blocks=blocks))
    return found


def winner(found: list[PulledGeolocation], family: int, value: int) -> int | None:
    """The rule, said as plainly as it can be."""
    covering = [
        (place.locid > 0, last - first, -abs(place.locid), place.locid)
        for place in found
        for block_family, first, last, _, _ in place.blocks
        if block_family == family and first <= value <= last
    ]
    return min(covering)[-1] if covering else None


@examples(15)
@given(found=geolocations())
def test_answers_agree_with_a_linear_scan_and_ranges_are_the_largest(
    found: list[PulledGeolocation], tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = str(tmp_path_factory.mktemp("state"))
    publish(home, found)
    with GeoLookup(home) as geo:
        for family in (4, 6):
            scan = [winner(found, family, value) for value in range(FEW + 2)]
            for value, expected in enumerate(scan):
                text = addresses.to_text(family, value)
                answer, match = geo.lookup(text), geo.match(text)
                assert (answer.locid if answer else None) == expected
                assert (match.geolocation.locid if match else None) == expected
                explained = geo.explain(text)
                assert explained.match == match
                assert [item.geolocation.locid for item in explained if item.wins] == (
                    [] if expected is None else [expected]
                )
                if match is not None:
                    first, last = addresses.parse(match.first)[1], addresses.parse(match.last)[1]
                    assert first <= value <= last
                    assert set(scan[first : last + 1]) == {expected}
                    assert first == 0 or scan[first - 1] != expected
                    assert scan[last + 1] != expected
                    assert match.layer == ("custom" if match.geolocation.locid < 0 else "default")
            walked = [None] * (FEW + 2)
            for segment in geo.segments(family):  # type: ignore[arg-type]
                for value in range(segment.first, segment.last + 1):
                    assert walked[value] is None
                    walked[value] = segment.geolocation.locid  # type: ignore[call-overload]
            assert walked == scan
            for layer in ("custom", "default"):
                own = [item for item in found if (item.locid < 0) == (layer == "custom")]
                covered = {
                    value: segment.geolocation.locid
                    for segment in geo.segments(family, layer)  # type: ignore[arg-type]
                    for value in range(segment.first, segment.last + 1)
                }
                assert covered == {
                    value: locid for value in range(FEW + 2) if (locid := winner(own, family, value)) is not None
                }


def test_a_custom_block_beats_a_narrower_default_one(geo: GeoLookup) -> None:
    match = geo.match("8.8.8.8")
    assert match is not None
    assert (match.geolocation.locid, match.layer, match.first, match.last, match.pending) == (
        -1,
        "custom",
        "8.8.0.0",
        "8.8.255.255",
        False,
    )


def test_a_base_match_is_clipped_to_the_overlays_gap(geo: GeoLookup) -> None:
    below, above = geo.match("8.0.0.1"), geo.match("8.9.0.0")
    assert below is not None
    assert above is not None
    assert (below.first, below.last) == ("8.0.0.0", "8.7.255.255")
    assert (above.first, above.last) == ("8.9.0.0", "8.255.255.255")


def test_not_covered_is_none_and_malformed_is_an_error(geo: GeoLookup) -> None:
    assert geo.lookup("9.9.9.9") is None
    assert geo.match("9.9.9.9") is None
    assert geo.explain("9.9.9.9").match is None
    for method in (geo.lookup, geo.match, geo.explain):
        with pytest.raises(InvalidAddressError):
            method("9.9.9")


def test_objects_and_mapped_addresses_are_the_same_address(geo: GeoLookup) -> None:
    expected = geo.lookup("8.1.2.3")
    for same in (ipaddress.ip_address("8.1.2.3"), netaddr.IPAddress("8.1.2.3"), "::ffff:8.1.2.3"):
        assert geo.lookup(same) == expected
    assert geo.lookup_integer(0x08010203, family=4) == expected


@pytest.mark.parametrize("wrong", [True, 5, b"8.8.8.8", None])
def test_numbers_and_bytes_are_not_taken_for_addresses(geo: GeoLookup, wrong: object) -> None:
    with pytest.raises(InvalidAddressError):
        geo.lookup(wrong)


def test_many_answers_keep_the_order_and_name_the_bad_position(geo: GeoLookup) -> None:
    found = geo.lookup_many(["8.8.8.8", "9.9.9.9", "8.0.0.1"])
    assert [place.locid if place else None for place in found] == [-1, None, 1]
    with pytest.raises(InvalidAddressError, match="item 2"):
        geo.lookup_many(["8.8.8.8", "9.9.9.9", "8.8.8"])
    with pytest.raises(InvalidAddressError, match="item 1"):
        geo.lookup_many_integers([1, 2**32], family=4)


def test_with_errors_none_whatever_is_no_address_has_no_answer_and_the_others_theirs(geo: GeoLookup) -> None:
    bad = [None, float("nan"), "8.8.8", "", b"8.8.8.8", 7, "8.8.8.0/24"]
    found = geo.lookup_many([bad[0], "8.8.8.8", *bad[1:], "9.9.9.9", "8.0.0.1"], errors="none")
    assert [place.locid if place else None for place in found] == [None, -1, *[None] * 6, None, 1]
    assert geo.lookup_many_integers([0x08000001, -1, 2**32], family=4, errors="none") == [
        geo.lookup("8.0.0.1"),
        None,
        None,
    ]
    assert geo.lookup_many([], errors="none") == []
    for many in (geo.lookup_many, lambda many, **how: geo.lookup_many_integers(many, family=4, **how)):
        with pytest.raises(SettingsError, match="'null': must be raise or none"):
            many([], errors="null")


@pytest.mark.parametrize("one", ["8.8.8.8", b"8.8.8.8", bytearray(b"8.8.8.8")])
@pytest.mark.parametrize("errors", ["raise", "none"])
def test_one_text_is_not_taken_for_a_list_of_its_characters(geo: GeoLookup, one: Any, errors: Any) -> None:
    with pytest.raises(InvalidAddressError, match=r"a list of addresses, not one \w+: .*8\.8\.8\.8.*use `lookup`"):
        geo.lookup_many(one, errors=errors)


def test_what_cannot_be_copied_says_what_to_do(geo: GeoLookup) -> None:
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"open one there, geolookup\.open\('.*'\)"):
            attempt(geo)


def test_an_explanation_names_every_covering_block_and_its_rule(geo: GeoLookup) -> None:
    explained = geo.explain("8.8.8.8")
    assert [(item.geolocation.locid, item.wins) for item in explained] == [(-1, True), (2, False), (1, False)]
    assert explained.covering[0].reason == precedence.CUSTOM_FIRST
    assert all("one of your sites covers" in item.reason for item in explained.covering[1:])
    assert (explained.generation, explained.age_s < 60) == (1, True)


def test_empty_fields_are_not_filled_from_another_geolocation(geo: GeoLookup) -> None:
    found = geo.lookup("8.8.8.8")
    assert found is not None
    assert (found.latitude, found.region, found.ipblocks) == (None, "", ())


def test_a_lookup_without_a_state_says_what_to_do(home: str) -> None:
    with pytest.raises(NoStateError, match="geolookup sync"):
        GeoLookup(home)


def test_a_closed_one_refuses(geo: GeoLookup) -> None:
    geo.close()
    with pytest.raises(StateError, match="closed"):
        geo.lookup("8.8.8.8")


def test_the_status_names_the_reader_in_use(geo: GeoLookup, reader: str) -> None:
    assert geo.status().reader == reader


def test_the_accelerator_answers_by_itself_what_was_answered_before(
    geo: GeoLookup, home: str, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("geolookup.lookup.follow.LOOK_INTERVAL_S", 3600.0)
    for number in (1, 2):
        geo.look_soon()
        expected = geo.lookup("8.1.2.3")
        with monkeypatch.context() as patch:
            patch.setattr("geolookup.lookup.engine.parse", None)
            if reader == "native":
                assert geo.lookup("8.1.2.3") == expected
            else:
                with pytest.raises(TypeError):
                    geo.lookup("8.1.2.3")
        publish(home, [place(number, "8.0.0.0/8")])


def test_an_answer_is_equal_however_it_was_asked_for(geo: GeoLookup, reader: str) -> None:
    match = geo.match("8.1.2.3")
    assert match is not None
    answers = [geo.lookup("8.1.2.3"), geo.lookup("8.200.2.3"), geo.lookup_many(["8.1.2.3"])[0], match.geolocation]
    assert len(set(answers)) == 1
    assert all(isinstance(answer, geolookup.Geolocation) for answer in answers)
    # The pure reader keeps one object; the accelerator's are small, and look into the file.
    assert len({id(answer) for answer in answers}) == (1 if reader == "python" else 4)


def test_one_that_is_dropped_without_closing_goes_away(geo: GeoLookup, home: str) -> None:
    other = GeoLookup(home)
    assert other.lookup("8.8.8.8") is not None
    gone = weakref.ref(other)
    del other
    gc.collect()
    assert gone() is None


def test_a_subclass_has_its_own_say_in_every_lookup(geo: GeoLookup, home: str) -> None:
    class Counting(GeoLookup):
        asked = 0

        def lookup(self, address: object) -> geolookup.Geolocation | None:
            self.asked += 1
            return super().lookup(address)

    with Counting(home) as counting:
        for _ in range(3):
            assert counting.lookup("8.1.2.3") == geo.lookup("8.1.2.3")
        assert counting.asked == 3


LIGHT = """
import json, os, sys
import geolookup
with geolookup.open(sys.argv[1]) as geo:
    found = geo.lookup("8.8.8.8")
print(json.dumps([found.locid, sorted(sys.modules)]))
"""


def test_opening_and_a_lookup_import_nothing_of_other_jobs(geo: GeoLookup, home: str) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GEOLOOKUP_")}
    environ["XDG_CONFIG_HOME"] = os.path.join(home, "nothing")
    done = subprocess.run([sys.executable, "-c", LIGHT, home], capture_output=True, check=True, env=environ, timeout=60)
    locid, modules = json.loads(done.stdout)
    assert locid == geo.lookup("8.8.8.8").locid  # type: ignore[union-attr]
    tops = {name.partition(".")[0] for name in modules}
    assert not tops & {"httpx", "stamina", "click", "numpy", "msgspec", "rich", "sqlite3", "platformdirs", "asyncio"}
    assert not tops & {"logging", "threading", "shlex"}  # which take longer than opening
    ours = [name for name in modules if name == "geolookup" or name.startswith("geolookup.")]
    # Opening stands in the room of what builds a state, but takes nothing else from it if there is one.
    rooms = {
        name.split(".")[1] for name in ours if "." in name and name not in ("geolookup.sync", "geolookup.sync.opening")
    }
    assert not rooms & {"sync", "http", "upstream", "sources", "cli", "columns", "history", "sites", "service"}
    assert len(ours) <= 34, ours
