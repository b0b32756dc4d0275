"""Counts by facts are those of a plain Counter over single lookups, and add up."""

import random
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest

from geolookup.columns import counts, tally
from geolookup.columns.batches import of_text
from geolookup.columns.counts import FIELDS, UNSAID, count
from geolookup.lookup.engine import GeoLookup
from geolookup.lookup.members import Members
from geolookup.model.addresses import parse
from geolookup.model.errors import ColumnError
from geolookup.model.facts import FACT_NAMES, NETWORK_FACTS
from tests.lookup.test_network_oracle import Plain, plain, state
from tests.support.data.states import place, publish

__all__ = ["plain", "state"]


@pytest.fixture(params=["native", "python"])
def geo(request: pytest.FixtureRequest, state: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[GeoLookup]:
    if request.param == "python":
        monkeypatch.setenv("GEOLOOKUP_PURE", "1")
    with GeoLookup(state) as opened:
        yield opened


@pytest.fixture(scope="module")
def texts(plain: Plain) -> list[str]:
    """Addresses of a log, some of them several times, in several spellings, and some of 6to4."""
    chosen = random.Random(7).sample([str(address) for address in plain.boundaries()], 900)
    held = [f"2002:{at >> 8:x}{at & 255:02x}:4501::1" for at in (0x5102, 0x0180, 0x0901)]
    return [*chosen, *chosen[::3], *(f"::ffff:{text}" for text in chosen[::7] if "." in text), *held, "81.2.69.160"]


def logged(texts: list[str]) -> Iterator[tuple[str, Any]]:
    return (("log", batch) for batch in of_text(BytesIO("\n".join(texts).encode())))


def said(geo: GeoLookup, texts: list[str], name: str) -> tuple[Counter[Any], int]:
    """How often each value of a fact answers, and how many addresses are not covered."""
    found: Counter[Any] = Counter()
    not_covered = 0
    for text in texts:
        values = Members(geo, [name]).of(text)
        if values is None or (name not in NETWORK_FACTS and geo.match(text) is None):
            not_covered += 1
        else:
            found[values[0]] += 1
    return found, not_covered


@pytest.mark.parametrize("name", FACT_NAMES)
def test_a_log_is_counted_by_a_fact_as_single_lookups_say_it(geo: GeoLookup, texts: list[str], name: str) -> None:
    found = count(geo, logged(texts), fact=name)
    expected, not_covered = said(geo, texts, name)
    groups = found.groups(name)
    assert {group.fields[name]: group.count for group in groups} == expected
    assert len(groups) == len(expected)
    assert [group.count for group in groups] == sorted(expected.values(), reverse=True)
    assert (found.not_covered, found.covered) == (not_covered, expected.total())
    assert sum(group.count for group in groups) + found.not_covered == found.counted == len(texts)
    assert [group.place_text() == UNSAID for group in groups] == [group.fields[name] is None for group in groups]


@pytest.mark.parametrize("in_memory", [50, 1 << 20], ids=["in files", "in memory"])
@pytest.mark.parametrize("name", ["asn", "time_zone", "is_anonymous_vpn"])
def test_each_address_is_counted_once_if_that_is_asked_for(
    geo: GeoLookup, texts: list[str], name: str, in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "Distinct", lambda: tally.Distinct(in_memory=in_memory))
    once = list({parse(text): text for text in texts}.values())
    expected, not_covered = said(geo, once, name)
    found = count(geo, logged(texts), by="addresses", fact=name)
    assert {group.fields[name]: group.count for group in found.groups(name)} == expected
    assert (found.counted, found.not_covered) == (len(once), not_covered)


def test_an_as_number_has_the_organisation_of_most_of_its_addresses(geo: GeoLookup) -> None:
    (group,) = count(geo, logged(["1.128.0.1"]), fact="asn").groups("asn")
    assert group.fields == {"asn": 64512, "as_organization": "Ours"}
    assert group.place_text() == "AS64512  Ours"


def test_the_sources_of_a_count_are_those_that_said_the_fact(geo: GeoLookup) -> None:
    texts = ["1.128.0.1", "12.81.92.1", "81.2.69.190"]
    assert count(geo, logged(texts), fact="asn").sources == ("own", "asn")
    assert count(geo, logged(texts[:1]), fact="asn").sources == ("own",)
    assert count(geo, logged(texts), fact="is_tor_exit_node").sources == ("anonymous",)
    assert set(count(geo, logged(texts), fact="time_zone").sources) <= {"custom", "own", "city"}


def test_fields_can_be_asked_for_beside_the_fact_and_other_facts_cannot(geo: GeoLookup, texts: list[str]) -> None:
    found, plain = count(geo, logged(texts), fact="time_zone"), count(geo, logged(texts))
    for field in FIELDS:
        assert found.groups(field) == plain.groups(field)
    with pytest.raises(ColumnError, match="unknown field 'asn'"):
        found.groups("asn")
    with pytest.raises(ColumnError, match="unknown fact 'planet'"):
        count(geo, [], fact="planet")


def test_without_a_source_of_networks_no_source_says_a_fact_of_them(home: str) -> None:
    publish(home, [place(1, "8.0.0.0/8", country="US")])
    with GeoLookup(home) as geo:
        found = count(geo, logged(["8.8.8.8", "9.9.9.9"]), fact="asn")
    assert [(group.fields, group.count) for group in found.groups("asn")] == [
        ({"asn": None, "as_organization": None}, 1)
    ]
    assert (found.covered, found.not_covered, found.attributions) == (1, 1, ())
