"""A geofeed reads back as a source, as what was written; what cannot be written is left out and said."""

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import geolookup
from geolookup.exports import geofeed
from geolookup.model.addresses import IPV4_MAX, IPV6_MAX, parse_range
from geolookup.model.public import PUBLIC, public_parts
from geolookup.sources.places import PlaceFields
from tests.exports.contents import FOUR, SIX, content_of
from tests.exports.states import publish_sources
from tests.support.data.source_files import read_all
from tests.support.data.states import place, publish

#: Texts that meet every rule: codes, names, what a feed cannot hold.
_texts = st.one_of(
    st.sampled_from(["", "US", "us", "ZZ", "U", "CA", "US-CA", "DE-BE", "B2B", "Washington, D.C.", '"x"', "#1", " y "]),
    st.text(st.characters(codec="utf-8"), max_size=6),
)


def feed(home: str, **options: Any) -> tuple[str, geolookup.Exported]:
    out = io.BytesIO()
    with geolookup.open(home) as geo:
        written = geolookup.export(geo, "geofeed", out, **options)
    return out.getvalue().decode("utf-8"), written


def entries(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_a_feed_is_networks_with_codes(home: str) -> None:
    publish(
        home,
        [
            place(-1, "8.0.0.0-8.0.0.2", "2400::/32", country="US", region="CA", city="San José", postalcode="94035"),
            place(-2, "9.0.0.0/24", country="de", region="Bayern", city="München"),
            place(1, "10.0.0.0/8", "1.0.0.0/8", country="FR"),
        ],
    )
    text, written = feed(home)
    assert entries(text) == [
        "8.0.0.0/31,US,US-CA,San José,",
        "8.0.0.2/32,US,US-CA,San José,",
        "9.0.0.0/24,DE,,München,",
        "2400::/32,US,US-CA,San José,",
    ]
    assert text.startswith("# Geofeed (RFC 8805) by geolookup, published 2")
    assert (written.ranges, written.warnings) == (3, ())
    assert entries(feed(home, postal_codes=True)[0])[0] == "8.0.0.0/31,US,US-CA,San José,94035"
    assert "1.0.0.0/8,FR,,city 1," in entries(feed(home, layer="both", public_only=True)[0])


def test_what_a_feed_cannot_hold_is_left_out_and_counted(home: str) -> None:
    publish(
        home,
        [
            place(-1, "8.0.0.0/24", country="US", region="california", city="Washington, D.C. #1"),
            place(-2, "8.0.1.0/24", country="XKX", region="X", city="Pristina"),
            place(-3, "8.0.2.0/24", country="ZZ", city=" "),
            place(-4, "8.0.3.0/24", region="CA", city="\n", postalcode="1"),
        ],
    )
    text, written = feed(home, postal_codes=True)
    assert entries(text) == ["8.0.0.0/24,US,,Washington D.C. 1,", "8.0.1.0/24,,,Pristina,"]
    assert written.warnings == (
        "2 places have neither a country nor a city, and are left out",
        "1 place has a country that is not a code of two letters: it is left out there",
        "1 place has a city with a comma, # or quote: blanks are written in their place",
    )


@pytest.mark.parametrize("private", ["10.1.0.0/16", "192.168.0.1", "0.0.0.0/0", "fc00::/7", "::/0", "2001:db8::/64"])
def test_private_addresses_are_refused_or_left_out(home: str, private: str) -> None:
    publish(home, [place(-1, "8.0.0.0/24", "2400::/32", country="US"), place(-2, private, country="DE")])
    with pytest.raises(geolookup.SettingsError, match=r"private or reserved.*--public-only"):
        feed(home)
    text, _ = feed(home, public_only=True)
    for line in entries(text):
        version, first, last = parse_range(line.split(",")[0])
        assert list(public_parts(version, first, last)) == [(first, last)]
    assert "8.0.0.0/24,US,,city -1," in entries(text)


def test_a_public_feed_of_private_addresses_alone_says_that_it_holds_none(home: str) -> None:
    publish(home, [place(-1, "10.20.0.0/16", "fd00::/8", country="DE"), place(1, "8.0.0.0/24", country="US")])
    text, written = feed(home, public_only=True)
    assert entries(text) == []
    assert written.ranges == 0
    assert written.warnings == ("every range of what was asked for is left out: it holds no addresses",)
    assert feed(home, layer="both", public_only=True)[1].ranges == 1


def test_a_public_feed_has_the_public_part_of_a_range_that_is_both(home: str) -> None:
    publish(home, [place(-1, "9.255.255.0-11.0.0.255", country="US", city="x")])
    assert entries(feed(home, public_only=True)[0]) == ["9.255.255.0/24,US,,x,", "11.0.0.0/24,US,,x,"]


@pytest.mark.parametrize(("version", "most"), [(4, IPV4_MAX), (6, IPV6_MAX)])
def test_what_is_public_and_what_is_not_make_up_the_space(version: int, most: int) -> None:
    whole = list(public_parts(version, 0, most))
    assert whole == list(PUBLIC[version])
    for first, last in whole:
        assert list(public_parts(version, first, last)) == [(first, last)]
        assert list(public_parts(version, max(first - 1, 0), last + 1)) == [(first, last)]
        assert list(public_parts(version, first - 1, first - 1)) == []
        assert list(public_parts(version, last + 1, last + 1)) == []


_places = st.lists(
    st.fixed_dictionaries({"country": _texts, "region": _texts, "city": _texts, "postalcode": _texts}), min_size=1
)


@given(places=_places, data=st.data())
def test_what_was_written_reads_back(places: list[dict[str, str]], data: st.DataObject, tmp_path: Path) -> None:
    answers = data.draw(st.lists(st.one_of(st.none(), st.integers(0, len(places) - 1)), max_size=20))
    parts, _ = geofeed.parts(
        content_of(places, answers), [], postal_codes=True, public_only=False, progress=lambda _done, _all: None
    )
    path = tmp_path / "feed.csv"
    path.write_bytes(b"".join(parts))
    blocks, gathered = read_all(path, kind="geofeed") if path.stat().st_size else ([], None)
    assert gathered is None or gathered.bad == 0
    found: dict[tuple[int, int], PlaceFields] = {}
    for first, last, fields in blocks:
        assert fields is not None, "nothing is masked"
        version, low, high = parse_range(first)[0], parse_range(first)[1], parse_range(last)[1]
        found.update(dict.fromkeys([(version, value) for value in range(low, high + 1)], fields))
    for at, number in enumerate(answers):
        for got in (found.get((4, FOUR + at)), found.get((6, SIX + at))):
            if number is None:
                assert got is None
                continue
            wanted = places[number]
            country = wanted["country"].strip().upper()
            is_code = len(country) == 2 and country.isascii() and country.isalpha() and country != "ZZ"
            town = [character for character in wanted["city"] if character.isalnum()]
            if got is None:
                assert not is_code
                assert not town
                continue
            assert got.country == (country if is_code else "")
            if got.region:
                assert wanted["region"].strip().upper() in (got.region, f"{country}-{got.region}")
            elif is_code:
                assert wanted["region"].strip().upper() not in ("CA", "B2B", f"{country}-CA")
            assert [character for character in got.city if character.isalnum()] == town


def test_a_credit_travels_as_a_comment(home: str, tmp_path: Path) -> None:
    publish_sources(home, tmp_path)
    text, _ = feed(home, layer="both", public_only=True)
    assert text.splitlines()[1] == "# City data by Example (https://example.com)"
    path = tmp_path / "feed.csv"
    path.write_text(text, encoding="utf-8")
    assert read_all(path)[1].bad == 0
