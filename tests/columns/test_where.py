"""The ranges in which facts have values, against an answer for each address at which any of them begins or ends."""

import itertools
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

import geolookup
from geolookup.columns.where import NAMES, Wanted, ranges_where
from geolookup.lookup.members import Members
from geolookup.model.addresses import parse
from geolookup.model.facts import FACT_NAMES, NETWORK_FACTS
from geolookup.model.fields import UNKNOWN
from geolookup.model.types import ListFilters
from tests.lookup.test_network_oracle import Plain, plain, state

__all__ = ["plain", "state"]

Answers = list[tuple[tuple[int, int], Mapping[str, Any]]]
_NOTHING = dict.fromkeys(NAMES)


@pytest.fixture(scope="module")
def answers(plain: Plain, state: str) -> Answers:
    """What lookups say at each boundary of the sources; of 6to4 addresses only those that a block of their own has."""
    found = []
    with geolookup.GeoLookup(state) as geo:
        members = Members(geo, NAMES)
        for address in plain.boundaries():
            if address.version == 4 or address.sixtofour is None:
                values = members.of(str(address))
                found.append(
                    (parse(str(address)), _NOTHING if values is None else dict(zip(NAMES, values, strict=True)))
                )
    return found


def fits(answer: Mapping[str, Any], wanted: Wanted) -> bool:
    if wanted.layer is not None and answer["layer"] != wanted.layer:
        return False
    if any(text and str(answer[name] or "").lower() != text.lower() for name, text in wanted.fields.items()):  # type: ignore[attr-defined]
        return False
    return all(
        answer[name] is not None and str(answer[name]).lower() in [str(value).lower() for value in values]
        for name, values in wanted.facts.items()
    )


def asked(answers: Answers, *, whole: bool) -> Iterator[Wanted]:
    """Each fact with some of its values, alone and with others, and with fields and layers of places."""
    values: dict[str, list[Any]] = {name: [] for name in FACT_NAMES}
    for _, answer in answers:
        for name, known in values.items():
            if answer[name] is not None and answer[name] not in known and len(known) < 4:
                known.append(answer[name])
    singles = [(name, value) for name, known in values.items() for value in known]
    for name, value in singles:
        yield Wanted(facts={name: [value]})
    for name, known in values.items():
        if len(known) > 1:
            yield Wanted(facts={name: known[:2]})
    for (one, value), (other, another) in itertools.islice(
        itertools.combinations(singles, 2), 0, None, 7 if whole else 35
    ):
        if one != other:
            yield Wanted(facts={one: [value], other: [another]})
    for name, value in singles[::3]:
        yield Wanted(facts={name: [value]}, layer="custom")
        yield Wanted(facts={name: [value]}, fields=ListFilters(country="gb"))
    yield Wanted(fields=ListFilters(country="Ch"))
    yield Wanted(layer="custom")


def test_a_range_is_listed_if_and_only_if_lookups_of_its_addresses_say_so(
    answers: Answers, state: str, full_sweep: bool
) -> None:
    seen = 0
    with geolookup.GeoLookup(state) as geo:
        for wanted in asked(answers, whole=full_sweep):
            names = (*NAMES[:2], *FACT_NAMES) if seen % 2 else NAMES
            rows = geo.with_snapshot(lambda snapshot: list(ranges_where(snapshot, wanted, names)))  # noqa: B023 - it is called at once
            check(rows, answers, wanted, names)
            bare = geo.with_snapshot(lambda snapshot: list(ranges_where(snapshot, wanted)))  # noqa: B023
            check(bare, answers, wanted, ())
            seen += bool(rows)
    assert seen > 60


def check(rows: Sequence[Any], answers: Answers, wanted: Wanted, names: Sequence[str]) -> None:
    for (family, first, last, values), (family2, first2, _, values2) in itertools.pairwise(rows):
        assert (family, first) <= (family, last) < (family2, first2)
        assert (family, last + 1, values) != (family2, first2, values2), "they are one range"
    begins = [row[:2] for row in rows]
    for at, answer in answers:
        position = bisect_right(begins, at) - 1
        row = rows[position] if position >= 0 else None
        holds = row is not None and row[0] == at[0] and row[1] <= at[1] <= row[2]
        assert holds == fits(answer, wanted), (at, wanted)
        if row is not None and holds:
            assert row[3] == tuple(answer[name] for name in names), (at, wanted)


def test_default_geolocations_are_listed_as_if_there_were_no_custom_ones(state: str) -> None:
    with geolookup.GeoLookup(state) as geo, geo.edit() as editor:
        wanted = Wanted(facts={"time_zone": ["Europe/London"]}, layer="default")

        def listed() -> Any:
            return geo.with_snapshot(lambda snapshot: list(ranges_where(snapshot, wanted, ("city",))))

        before = listed()
        first = before[0][1]
        locid = editor.create(**{**UNKNOWN, "country": "NO", "latitude": 1.0, "longitude": 1.0})  # type: ignore[arg-type]
        editor.add_block(locid, f"{first >> 24}.{first >> 16 & 255}.{first >> 8 & 255}.0/24")
        geo.look_soon()
        assert listed() == before != []
        both = geo.with_snapshot(lambda snapshot: list(ranges_where(snapshot, Wanted(facts=wanted.facts), ("city",))))
        assert sum(last - low for _, low, last, _ in both) < sum(last - low for _, low, last, _ in before)
        editor.delete(locid)


def test_without_a_source_of_networks_no_range_has_a_fact_of_one(tmp_path: Any) -> None:
    from tests.support.data.states import place, publish

    publish(str(tmp_path), [place(1, "8.0.0.0/8", country="US")])
    with geolookup.GeoLookup(tmp_path) as geo:
        for name in NETWORK_FACTS:
            wanted = Wanted(facts={name: [True, 1, "x"]})
            assert geo.with_snapshot(lambda snapshot: list(ranges_where(snapshot, wanted))) == []  # noqa: B023
        wanted = Wanted(facts={"country_name": ["united states"]})
        found = geo.with_snapshot(lambda snapshot: list(ranges_where(snapshot, wanted, ("asn", "city"))))
        assert found == [(4, 8 << 24, (9 << 24) - 1, (None, "city 1"))]
