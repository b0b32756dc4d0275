"""The parts of a range that are alike in all that is known, against each of its addresses by itself."""

import ipaddress
import itertools
from typing import Any

import pytest

import geolookup
from geolookup.lookup.ranges import parts_of_range
from geolookup.model.addresses import parse, to_text
from geolookup.model.types import MATCH_FACTS
from tests.lookup.test_network_oracle import plain, state

__all__ = ["plain", "state"]


@pytest.mark.parametrize(
    "text", ["81.2.69.0/24", "1.128.0.0/21", "175.16.199.0/24", "214.78.0.0/27", "2.125.160.208/28"]
)
@pytest.mark.parametrize("held", [False, True], ids=["IPv4", "6to4"])
def test_the_parts_of_a_range_are_alike_in_all_that_is_known(state: str, text: str, held: bool) -> None:
    network = ipaddress.ip_network(text)
    form = (lambda address: f"2002:{int(address) >> 16:x}:{int(address) & 0xFFFF:x}::") if held else str
    with geolookup.GeoLookup(state) as geo:

        def known(address: str) -> Any:
            match, its, record = geo.match(address), geo.network(address), geo.record(address)
            place = None if match is None else (match.layer, match.locid)
            return place, None if its is None else its.sources, None if record is None else record.as_dict()

        expected = [
            (key, [form(each) for each in group]) for key, group in itertools.groupby(network, lambda a: known(form(a)))
        ]
        first, last = parse(form(network[0]))[1], parse(form(network[-1]))[1]
        last += (1 << 80) - 1 if held else 0
        wanted = (6 if held else 4, first, last)
        answer = geo.with_snapshot(lambda snapshot: parts_of_range(snapshot, "asked", *wanted, 999, facts=True))  # type: ignore[arg-type]
        parts = sorted(answer.parts, key=lambda part: parse(part.first))
        assert [part.first for part in parts] == [to_text(*parse(group[0])) for _, group in expected]
        assert [part.addresses for part in parts] == [len(group) << (80 if held else 0) for _, group in expected]
        for part, (_, group) in zip(parts, expected, strict=True):
            match = geo.match(group[-1])
            assert (part.match is None) == (match is None)
            if match is not None and part.match is not None:
                assert part.match.geolocation == match.geolocation
                assert all(getattr(part.match, name) == getattr(match, name) for name in MATCH_FACTS)
        plain = geo.with_snapshot(lambda snapshot: parts_of_range(snapshot, "asked", *wanted, 999))  # type: ignore[arg-type]
        assert plain.count <= answer.count
    assert len(expected) > 1
