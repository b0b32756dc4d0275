"""Rows and blocks: what is accepted, what is counted, what is left out, and that a bad one costs only itself."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geolookup.model import addresses
from geolookup.model.errors import GeoLookupError, UpstreamAnswerError
from geolookup.upstream import decode
from geolookup.upstream.decode import KEPT_REJECTIONS, MAX_TEXT, PulledGeolocation, RowDecoder
from tests.support.examples import examples


def one(**members: Any) -> tuple[PulledGeolocation | None, RowDecoder]:
    decoder = RowDecoder()
    rows = decoder.batch(json.dumps([{"locid": 1, **members}]).encode())
    return (rows[0] if rows else None), decoder


def block(first: Any, last: Any, *numbers: Any) -> tuple[list[decode.Block], RowDecoder]:
    member = {"startip": first, "endip": last}
    if numbers:
        member["startipnum"], member["endipnum"] = numbers
    row, decoder = one(ipblocks=[member])
    assert row is not None
    return row.blocks, decoder


def test_a_full_geolocation_is_read_as_it_is() -> None:
    row, decoder = one(
        locid=-5,
        country="US",
        region="CA",
        city="Zürich",
        postalcode="94103",
        latitude=37.5,
        longitude=-122,
        dmacode="807",
        areacode="415",
        unknown={"x": [1]},
        ipblocks=[{"startip": "1.0.0.0", "endip": "1.0.0.255", "startipnum": 16777216, "endipnum": 16777471}],
    )
    expected = [(4, 16777216, 16777471, "1.0.0.0", "1.0.0.255")]
    fields = (-5, "US", "CA", "Zürich", "94103", 37.5, -122.0, "807", "415", expected)
    assert row == PulledGeolocation(*fields, more={"unknown": {"x": [1]}})  # type: ignore[arg-type]
    assert (decoder.geolocations_seen, decoder.blocks_seen, decoder.number_disagreements) == (1, 1, 0)
    assert decoder.rejected == []


def test_missing_and_null_members_are_empty() -> None:
    empty = PulledGeolocation(1, "", "", "", "", None, None, "", "", [])
    assert one()[0] == empty
    names = ["country", "region", "city", "postalcode", "latitude", "longitude", "dmacode", "areacode", "ipblocks"]
    assert one(**dict.fromkeys(names))[0] == empty


@pytest.mark.parametrize(("given", "text"), [(94103, "94103"), (807, "807"), (1.5, "1.5"), ("007", "007"), (-0, "0")])
def test_text_given_as_a_number_is_its_text(given: Any, text: str) -> None:
    row, _ = one(postalcode=given)
    assert row is not None
    assert row.postalcode == text


@pytest.mark.parametrize(
    ("given", "degrees"), [("", None), (None, None), ("12.5", 12.5), ("-90", -90.0), (90, 90.0), ("1e1", 10.0)]
)
def test_coordinates_are_numbers_or_quoted_numbers(given: Any, degrees: float | None) -> None:
    row, _ = one(latitude=given)
    assert row is not None
    assert row.latitude == degrees


@pytest.mark.parametrize(
    "members",
    [
        {"locid": 0},
        {"locid": -(10**15)},
        {"locid": 2**63},
        {"locid": 1.0},
        {"locid": True},
        {"locid": None},
        {"locid": "x"},
        {"locid": "1_0"},
        {"locid": [1]},
        {"latitude": 90.01},
        {"latitude": "nan"},
        {"latitude": "inf"},
        {"latitude": "1_0"},
        {"latitude": "north"},
        {"latitude": True},
        {"longitude": -180.5},
        {"longitude": [1]},
        {"city": True},
        {"city": ["x"]},
        {"city": "x" * (MAX_TEXT + 1)},
        {"city": "\ud800"},
        {"city": "x\udc00"},
        {"ipblocks": {}},
        {"ipblocks": "x"},
        {"ipblocks": 0},
    ],
)
def test_a_bad_row_is_left_out_and_costs_only_itself(members: dict[str, Any]) -> None:
    decoder = RowDecoder()
    sound = {"locid": 3, "ipblocks": [{"startip": "1.1.1.1", "endip": "1.1.1.1"}]}
    blocks = {"ipblocks": [{"startip": 1}, {"startip": "9.9.9.9", "endip": "9.9.9.9"}]}
    bad = {"locid": 2, **blocks, **members}
    rows = decoder.batch(json.dumps([sound, bad, {**sound, "locid": 4}]).encode())
    assert [row.locid for row in rows] == [3, 4]
    assert (decoder.geolocations_seen, decoder.rejected_geolocations, decoder.rejected_blocks) == (3, 1, 0)
    assert decoder.blocks_seen == 2
    [rejected] = decoder.rejected
    assert (rejected.position, rejected.block) == (1, None)
    assert rejected.reason.isprintable()


@pytest.mark.parametrize("text", [b"[1e400]", b'[{"locid":1,"latitude":1e400}]', b"[null]", b"[[]]", b'["x"]', b"[{}]"])
def test_elements_that_are_no_geolocations_are_bad_rows(text: bytes) -> None:
    decoder = RowDecoder()
    assert decoder.batch(text) == []
    assert decoder.rejected_geolocations == 1


def test_quoted_locids_are_numbers() -> None:
    row, _ = one(locid="-12", ipblocks=None)
    assert row is not None
    assert row.locid == -12


@pytest.mark.parametrize("large", [False, True])
def test_a_custom_geolocation_that_does_not_say_its_blocks_is_not_one_without(
    monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    if large:
        monkeypatch.setattr(decode, "_LARGE_BYTES", 0)
    row, decoder = one(locid=-12)
    assert row is None
    assert decoder.rejected[0].reason == "ipblocks is missing"
    assert one(locid=12)[0] is not None
    assert one(locid=-12, ipblocks=None)[0] is not None
    row, decoder = one(locid=-12, city=[])  # another mistake sends all rows the long way
    assert (row, decoder.rejected[0].locid) == (None, -12)


@pytest.mark.parametrize(
    ("startip", "endip", "expected"),
    [
        ("2001:DB8::", "2001:db8::ff", (6, 0x20010DB8 << 96, (0x20010DB8 << 96) + 255, "2001:DB8::", "2001:db8::ff")),
        ("::ffff:1.2.3.4", "::ffff:1.2.3.5", (4, 0x01020304, 0x01020305, "1.2.3.4", "1.2.3.5")),
        ("::ffff:1.2.3.4", "1.2.3.5", (4, 0x01020304, 0x01020305, "1.2.3.4", "1.2.3.5")),
        ("::", "::1", (6, 0, 1, "::", "::1")),
        ("0.0.0.0", "255.255.255.255", (4, 0, 2**32 - 1, "0.0.0.0", "255.255.255.255")),
    ],
)
def test_both_families_are_read_and_mapped_addresses_are_ipv4(startip: str, endip: str, expected: decode.Block) -> None:
    blocks, decoder = block(startip, endip, expected[1], expected[2])
    assert blocks == [expected]
    assert decoder.number_disagreements == 0


def test_a_mapped_block_may_be_numbered_as_ipv6() -> None:
    mapped = 0xFFFF << 32
    _, decoder = block("::ffff:0.0.0.1", "::ffff:0.0.0.2", mapped + 1, mapped + 2)
    assert decoder.number_disagreements == 0


@pytest.mark.parametrize(
    "numbers",
    [
        (),
        (None, None),
        (16843009, 1),
        (1, 16843009),
        ("16843009", 16843009),
        (16843009, 1.5),
        (16843009, True),
        ([], 1),
    ],
)
def test_numbers_that_are_missing_quoted_or_wrong_are_counted_and_not_bad(numbers: tuple[Any, ...]) -> None:
    blocks, decoder = block("1.1.1.1", "1.1.1.1", *numbers)
    assert blocks == [(4, 16843009, 16843009, "1.1.1.1", "1.1.1.1")]
    assert (decoder.number_disagreements, decoder.rejected_blocks) == (1, 0)


def test_right_numbers_of_128_bits_are_not_counted() -> None:
    _, decoder = block("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 0xFF << 120, 2**128 - 1)
    assert decoder.number_disagreements == 0


@pytest.mark.parametrize("numbers", [(16843009, 16843010), ("16843009", "16843010")])
def test_a_block_of_numbers_alone_is_ipv4(numbers: tuple[Any, Any]) -> None:
    for text in (None, ""):
        blocks, _ = block(text, text, *numbers)
        assert blocks == [(4, 16843009, 16843010, "1.1.1.1", "1.1.1.2")]


@pytest.mark.parametrize(
    ("startip", "endip", "numbers", "reason"),
    [
        ("1.1.1.2", "1.1.1.1", (), "after"),
        ("2001:db8::1", "2001:db8::", (), "after"),
        ("::ffff:1.1.1.2", "::ffff:1.1.1.1", (), "after"),
        ("1.1.1.1", "::1", (), "family"),
        ("::1", "::ffff:1.1.1.1", (), "family"),
        ("1.1.1", "1.1.1.1", (), "not an IP address"),
        ("1.1.1.1", "01.1.1.1", (), "not an IP address"),
        ("fe80::1%eth0", "fe80::2", (), "zone"),
        ("1.1.1.1\x00", "1.1.1.1", (), "not an IP address"),
        ("\ud800", "1.1.1.1", (), "not an IP address"),
        ("1.1.1.1", None, (16843009, 16843009), "endip is missing"),
        (None, "1.1.1.1", (), "startip is missing"),
        (16843009, 16843009, (), "not text"),
        (None, None, (), "neither"),
        (None, None, (1, None), "neither"),
        (None, None, (1, 2.0), "neither"),
        (None, None, (0, 2**32), "not IPv4"),
        (None, None, (-1, 1), "not IPv4"),
        (None, None, (2, 1), "after"),
    ],
)
def test_a_bad_block_is_left_out_with_its_reason_and_the_rest_goes_on(
    startip: Any, endip: Any, numbers: tuple[Any, ...], reason: str
) -> None:
    bad = {"startip": startip, "endip": endip}
    if numbers:
        bad["startipnum"], bad["endipnum"] = numbers
    sound = {"startip": "9.9.9.9", "endip": "9.9.9.9", "startipnum": 151587081, "endipnum": 151587081}
    row, decoder = one(ipblocks=[sound, bad, sound])
    assert row is not None
    assert [each[3] for each in row.blocks] == ["9.9.9.9", "9.9.9.9"]
    assert (decoder.blocks_seen, decoder.rejected_blocks, decoder.rejected_geolocations) == (3, 1, 0)
    [rejected] = decoder.rejected
    assert (rejected.locid, rejected.position) == (1, 0)
    assert reason in rejected.reason
    assert rejected.block is not None
    assert (rejected.block + rejected.reason).isprintable()


def test_a_block_that_is_no_object_is_a_bad_block() -> None:
    row, decoder = one(ipblocks=[7, None, {"startip": "9.9.9.9", "endip": "9.9.9.9"}])
    assert row is not None
    assert len(row.blocks) == 1
    assert (decoder.blocks_seen, decoder.rejected_blocks) == (3, 2)


def test_all_rejections_are_counted_and_a_thousand_kept() -> None:
    decoder = RowDecoder()
    decoder.batch(json.dumps([{"locid": 0}] * (KEPT_REJECTIONS + 5)).encode())
    assert decoder.rejected_geolocations == KEPT_REJECTIONS + 5
    assert len(decoder.rejected) == KEPT_REJECTIONS


@pytest.mark.parametrize(
    "text", [b"[1,]", b"[NaN]", b'["\xff"]', b'[{"unknown":"\xff"}]', b"[1", b"[" + b"9" * 5000 + b"]"]
)
def test_a_batch_that_is_not_json_is_refused(text: bytes) -> None:
    with pytest.raises(UpstreamAnswerError):
        RowDecoder().batch(text)


def test_the_last_of_two_members_of_one_name_counts_on_both_ways_through() -> None:
    assert RowDecoder().batch(b'[{"locid":1,"locid":2}]')[0].locid == 2
    assert RowDecoder().batch(b'[{"locid":1,"locid":2},7]')[0].locid == 2


ends = st.one_of(
    st.integers(0, 3).map(lambda n: addresses.to_text(4, n)),
    st.integers(0, 3).map(lambda n: addresses.to_text(6, n)),
    st.integers(0, 3).map(lambda n: f"::ffff:0.0.0.{n}"),
    st.sampled_from(["", "x", "1.1", "01.1.1.1", "::%lo", "::g", " ::1", "::1 ", "\u0661.1.1.1"]),
)


@given(ends, ends)
def test_a_block_is_accepted_exactly_where_its_text_is_a_range(startip: str, endip: str) -> None:
    try:
        expected = addresses.parse_range(startip, endip)
    except GeoLookupError:
        expected = None
    blocks, _ = block(startip, endip)
    assert [each[:3] for each in blocks] == ([expected] if expected else [])


@given(ends, ends)
def test_a_strange_c_library_changes_nothing(startip: str, endip: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        expected = block(startip, endip)[0]
        patch.setattr(decode, "_STRICT_C_PARSER", False)
        assert block(startip, endip)[0] == expected


members = st.sampled_from(
    [None, "", "1.1.1.1", "1.1.1.9", "::1", "::ffff:1.1.1.3", "x", "}, {", 7, "16843009", 16843009, [], {}]
)
blocks_of_rows = st.one_of(
    st.sampled_from([None, "x", {}, 5]),
    st.lists(
        st.one_of(
            st.fixed_dictionaries(
                {}, optional=dict.fromkeys(("startip", "endip", "startipnum", "endipnum", "ü"), members)
            ),
            st.just({"startip": "1.1.1.1", "endip": "1.1.1.2", "startipnum": 16843009, "endipnum": 16843010}),
            st.sampled_from([None, 3, "x"]),
        ),
        max_size=8,
    ),
)
rows_of_a_list = st.fixed_dictionaries(
    {"locid": st.sampled_from([1, -2, "3", 0, None, "x", 1.5])},
    optional={
        "ipblocks": blocks_of_rows,
        "city": st.sampled_from(["Zürich", 5, [], "x"]),
        "latitude": st.sampled_from([1, "z"]),
    },
)


@given(
    st.lists(st.one_of(rows_of_a_list, st.sampled_from([None, 7])), max_size=5),
    st.sampled_from([(",", ":"), (" , ", " :\n ")]),
    st.integers(1, 60),
)
@examples(300)
def test_a_batch_that_is_decoded_in_parts_is_the_same(rows: list[Any], separators: tuple[str, str], part: int) -> None:
    text = json.dumps(rows, ensure_ascii=False, separators=separators).encode()
    whole, parts = RowDecoder(), RowDecoder()
    expected = whole.batch(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "_LARGE_BYTES", 0)
        patch.setattr(decode, "_PART_BYTES", part)
        assert parts.batch(bytearray(text)) == expected
    assert parts._counts() == whole._counts()
    assert parts.rejected == whole.rejected


@pytest.mark.parametrize("text", [b"", b"[", b"[1,]", b'[{"locid":1}', b'[{"locid":1,"city":"\xff"}]', b'[{"\xff":1}]'])
def test_a_batch_in_parts_that_is_not_json_is_refused(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "_LARGE_BYTES", -1)
    monkeypatch.setattr(decode, "_PART_BYTES", 1)
    errors = []
    for decoder in (RowDecoder(), RowDecoder()):
        with pytest.raises(UpstreamAnswerError) as caught:
            decoder.batch(text)
        errors.append(str(caught.value))
        monkeypatch.undo()
    assert errors[0] == errors[1]


@given(st.lists(st.sampled_from([{"locid": 1}, {"locid": "2"}, {"locid": 3, "city": 5, "latitude": "1"}]), max_size=4))
def test_the_slow_way_through_reads_what_the_fast_one_does(elements: list[dict[str, Any]]) -> None:
    fast, slow = RowDecoder(), RowDecoder()
    assert fast.batch(json.dumps(elements).encode()) == slow.values(elements)
    assert fast.geolocations_seen == slow.geolocations_seen


@pytest.mark.parametrize("large", [False, True])
def test_members_that_are_no_fields_come_with_their_geolocation(large: bool) -> None:
    blocks = [{"startip": "1.0.0.0", "endip": "1.0.0.255"}] * (30_000 if large else 1)
    elements = [
        {
            "locid": 1,
            "ipblocks": blocks,
            "timezone": "Europe/Berlin",
            "radius": 20,
            "none": None,
            "tags": ["a", {"b": 1.5}],
        },
        {"locid": 2, "ipblocks": blocks},
        {"locid": 3, "ipblocks": [{"startip": "1.0.0.0", "endip": "1.0.0.1", "id": 7}], "city": ["bad"], "x": 1},
    ]
    for chosen in (elements, elements[:2]):  # the untyped and the typed way
        decoder = RowDecoder()
        rows = decoder.batch(json.dumps(chosen).encode())
        said = {"timezone": "Europe/Berlin", "radius": 20, "tags": ["a", {"b": 1.5}]}
        assert [row.more for row in rows] == [said, None]
        assert len(decoder.rejected) == len(chosen) - 2


@pytest.mark.parametrize("more", ["x" * 70_000, "[" * 40 + "]" * 40])
def test_members_that_are_no_fields_are_bounded(more: str) -> None:
    text = f'"{more}"' if more.startswith("x") else more
    decoder = RowDecoder()
    rows = decoder.batch(f'[{{"locid":1,"more":{text}}},{{"locid":2}}]'.encode())
    assert [row.locid for row in rows] == [2]
    assert [row.reason.split(" have ")[0].split(" are nested")[0] for row in decoder.rejected] == [
        "its members that are no fields"
    ]
