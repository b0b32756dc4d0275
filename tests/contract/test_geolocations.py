"""Operations 1, 2 and 4 over HTTP: one test a sentence of the interface."""

import json
import re

import httpx
import pytest

from tests.contract.answers import BLOCKS, PATH, blocks_of, pointers, refused
from tests.support.services.running_service import FIELDS, RunningService

# --- 1. list


def test_the_list_is_an_array_of_default_and_custom_geolocations_with_their_blocks(
    service: RunningService, client: httpx.Client
) -> None:
    """Interface: "returns every geolocation, default and custom, with its `ipblocks` ... the service answers with a
    JSON array".
    """
    locid = service.create(("10.0.0.0", "10.0.0.255"), ("::5", "::ffff"))
    answer = client.get(PATH)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    blocks = [
        {"startip": "10.0.0.0", "endip": "10.0.0.255", "startipnum": 167772160, "endipnum": 167772415},
        {"startip": "::5", "endip": "::ffff", "startipnum": 5, "endipnum": 65535},
    ]
    custom, austin, germany = answer.json()
    assert custom == {"locid": locid, **FIELDS, "ipblocks": blocks}
    assert [one["startip"] for one in austin["ipblocks"]] == ["192.0.2.0", "198.51.100.0"]
    assert germany["latitude"] is None
    assert germany["ipblocks"][0]["startipnum"] == 0x20010DB8 << 96


def test_the_list_comes_by_ascending_locid_and_blocks_by_family_and_start(
    service: RunningService, client: httpx.Client
) -> None:
    """Interface: "a strong `ETag`"."""
    service.create()
    last = service.create(("::1", "::2"), ("10.0.0.9", "10.0.0.9"), ("9.0.0.0", "9.0.0.9"), ("10.0.0.9", "10.0.0.10"))
    assert [place["locid"] for place in client.get(PATH).json()] == [-2, -1, 1, 2]
    assert blocks_of(client, last) == [
        ("9.0.0.0", "9.0.0.9"),
        ("10.0.0.9", "10.0.0.9"),
        ("10.0.0.9", "10.0.0.10"),
        ("::1", "::2"),
    ]


def test_the_numbers_at_both_ends_of_both_families_are_exact(service: RunningService, client: httpx.Client) -> None:
    """Interface: "`startipnum`, `endipnum`: the same as integers"."""
    service.create(("0.0.0.0", "255.255.255.255"), ("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"))
    blocks = client.get(PATH, params={"city": "Oakland"}).json()[0]["ipblocks"]
    assert [(one["startipnum"], one["endipnum"]) for one in blocks] == [(0, 2**32 - 1), (0, 2**128 - 1)]


@pytest.mark.parametrize("top", ["1", "2", "3", "99", "99999999999999999999999"])
def test_top_is_the_most_geolocations_and_the_count_is_of_those_returned(client: httpx.Client, top: str) -> None:
    """Interface: "`top` (most locations to return) ... with `X-Total-Count`"."""
    answer = client.get(PATH, params={"top": top})
    assert len(answer.json()) == min(2, int(top))
    assert answer.headers["x-total-count"] == str(len(answer.json()))


@pytest.mark.parametrize("top", ["0", "-1", "x", "1.5", "", " 1", "+1", "1e3", "٣"])
def test_top_that_is_no_positive_whole_number_is_400(client: httpx.Client, top: str) -> None:
    """Interface: "`top` must be a positive whole number (400 otherwise) and has no default cap"."""
    refused(client.get(PATH, params={"top": top}), 400, "invalid-parameter")


def test_top_with_a_filter_takes_blocks_of_what_it_returns_only(service: RunningService, client: httpx.Client) -> None:
    """Interface: "optional query strings `top` (most locations to return), `country`, ...; ... with its
    `ipblocks`".
    """
    service.create(("10.0.0.0", "10.0.0.1"))
    service.create(("10.1.0.0", "10.1.0.1"))
    (only,) = client.get(PATH, params={"top": 1, "country": "us"}).json()
    assert only["locid"] == -2
    assert [one["startip"] for one in only["ipblocks"]] == ["10.1.0.0"]


@pytest.mark.parametrize(
    "wanted",
    [
        {"country": "us"},
        {"region": "tx"},
        {"city": "AUSTIN"},
        {"postalcode": "78701"},
        {"country": "Us", "city": "austin"},
    ],
)
def test_filters_compare_without_regard_to_case_and_combine_with_and(
    client: httpx.Client, wanted: dict[str, str]
) -> None:
    """Interface: "the filters compare codes without regard to case and combine with AND"."""
    assert [place["locid"] for place in client.get(PATH, params=wanted).json()] == [1]


def test_filters_fold_case_beyond_ascii(service: RunningService, client: httpx.Client) -> None:
    """Interface: "the filters compare codes without regard to case"."""
    locid = service.create(city="Österåker STRASSE")
    found = client.get(PATH, params={"city": "ÖSTERÅKER straße"}).json()
    assert [place["locid"] for place in found] == [locid]


def test_an_empty_filter_is_no_filter(client: httpx.Client) -> None:
    """Interface: "an empty filter is no filter"."""
    everything = client.get(PATH, params={"country": "", "region": "", "city": "", "postalcode": ""})
    assert everything.content == client.get(PATH).content


def test_nothing_found_is_an_empty_array(client: httpx.Client) -> None:
    """Interface: "nothing found is `[]`"."""
    answer = client.get(PATH, params={"country": "US", "city": "Berlin"})
    assert (answer.status_code, answer.content) == (200, b"[]")
    assert answer.headers["x-total-count"] == "0"


def test_a_parameter_given_twice_is_400_and_an_unknown_one_is_ignored(client: httpx.Client) -> None:
    """Interface: "400 malformed"."""
    refused(client.get(f"{PATH}?country=US&country=DE"), 400, "invalid-parameter")
    assert len(client.get(f"{PATH}?colour=red&colour=blue").json()) == 2


def test_the_etag_is_strong_and_gives_304_without_a_body(client: httpx.Client) -> None:
    """Interface: "a strong `ETag`, and 304 to a matching `If-None-Match`"."""
    answer = client.get(PATH)
    tag = answer.headers["etag"]
    assert re.fullmatch(r'"[!#-~]+"', tag)
    again = client.get(PATH, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', '"a,b" , W/{} ,', "*"])
def test_if_none_match_takes_lists_weak_tags_and_the_star(client: httpx.Client, form: str) -> None:
    """Interface: "304 to a matching `If-None-Match`"."""
    tag = client.get(PATH).headers["etag"]
    assert client.get(PATH, headers={"If-None-Match": form.format(tag)}).status_code == 304


@pytest.mark.parametrize("given", ['"other"', "other", '"', "", 'W/"x", "y"'])
def test_if_none_match_that_does_not_match_gets_the_list(client: httpx.Client, given: str) -> None:
    """Interface: "304 to a matching `If-None-Match`"."""
    assert client.get(PATH, headers={"If-None-Match": given}).status_code == 200


def test_the_etag_changes_with_what_is_written_and_with_the_filter(client: httpx.Client) -> None:
    """Interface: "a strong `ETag`"."""
    tags = [client.get(PATH).headers["etag"], client.get(f"{PATH}?country=US").headers["etag"]]
    tags.append(client.get(f"{PATH}?top=1").headers["etag"])
    client.post(PATH, json=FIELDS)
    tags.append(client.get(PATH).headers["etag"])
    assert len(set(tags)) == 4
    assert client.get(PATH, headers={"If-None-Match": tags[0]}).status_code == 200


def test_head_answers_the_headers_of_the_list(client: httpx.Client) -> None:
    """Interface: "with `X-Total-Count`, a strong `ETag`"."""
    head, whole = client.head(PATH), client.get(PATH)
    assert (head.status_code, head.content) == (200, b"")
    for name in ("etag", "x-total-count", "content-type"):
        assert head.headers[name] == whole.headers[name]
    assert "content-length" not in head.headers


# --- 2. create


def test_create_answers_201_with_a_negative_locid_and_its_location(client: httpx.Client) -> None:
    """Interface: "answers `{"locid": -n}` ... create (2, 3, 10) 201, with `Location` on 2"."""
    answer = client.post(PATH, json=FIELDS)
    locid = answer.json()["locid"]
    assert (answer.status_code, answer.json()) == (201, {"locid": locid})
    assert locid < 0
    assert client.get(answer.headers["location"]).json() == [{"locid": locid, **FIELDS, "ipblocks": []}]


def test_all_eight_fields_are_required_and_each_missing_one_is_named(client: httpx.Client) -> None:
    """Interface: "body `country, region, city, postalcode, latitude, longitude, dmacode, areacode`, all required"."""
    body = refused(client.post(PATH, json={}), 422, "invalid-body")
    assert pointers(body) == [f"/{name}" for name in FIELDS]
    assert len(client.get(PATH).json()) == 2


def test_text_may_be_empty_and_members_that_are_unknown_are_ignored(client: httpx.Client) -> None:
    """Interface: "required means present; text may be empty"."""
    empty = dict.fromkeys(FIELDS, "") | {"latitude": 0, "longitude": 0}
    assert client.post(PATH, json={**empty, "ipblocks": [1], "locid": 7}).status_code == 201


@pytest.mark.parametrize("value", ["-90", "90.0", "45", "+4.5e1", 45, -90, 45.5, ".5"])
def test_coordinates_are_numbers_or_quoted_decimals(client: httpx.Client, value: object) -> None:
    """Interface: "degrees; real clients also send them as quoted decimals, so both are accepted"."""
    client.post(PATH, json={**FIELDS, "latitude": value}).raise_for_status()
    assert client.get(PATH).json()[0]["latitude"] == float(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("latitude", 90.1),
        ("latitude", "-90.01"),
        ("latitude", None),
        ("latitude", ""),
        ("latitude", True),
        ("latitude", "nan"),
        ("latitude", "inf"),
        ("latitude", " 1"),
        ("latitude", "1_0"),
        ("latitude", "٣"),
        ("latitude", 10**400),
        ("longitude", 180.5),
        ("longitude", [1]),
        ("country", None),
        ("country", 49),
        ("city", "x" * 256),
        ("city", "nul\0"),
        ("city", "\ud800"),
    ],
)
def test_a_wrong_field_is_422_and_named(client: httpx.Client, field: str, value: object) -> None:
    """Interface: "`errors: [{pointer, detail}]` for fields: ... 422 well-formed but invalid"."""
    answer = client.post(PATH, content=json.dumps({**FIELDS, field: value}))
    assert pointers(refused(answer, 422, "invalid-body")) == [f"/{field}"]


def test_a_number_that_overflows_to_infinity_is_422(client: httpx.Client) -> None:
    """Interface: "422 well-formed but invalid"."""
    body = json.dumps({**FIELDS, "latitude": 0}).replace('"latitude": 0', '"latitude": 1e999')
    assert pointers(refused(client.post(PATH, content=body), 422, "invalid-body")) == ["/latitude"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{}x",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b'{"country": NaN}',
        b'{"country": "a", "country": "b"}',
        b'{"x": {"y": 1, "y": 1}}',
        b"[" * 60000,
        b"1" * 60000,
        "{}".encode("utf-16"),
    ],
)
def test_what_is_not_json_is_400(client: httpx.Client, body: bytes) -> None:
    """Interface: "Bodies are JSON ... 400 malformed"."""
    refused(client.post(PATH, content=body), 400, "malformed-json")


@pytest.mark.parametrize("body", [b"[]", b"null", b'"text"', b"7"])
def test_json_that_is_no_object_is_422(client: httpx.Client, body: bytes) -> None:
    """Interface: "422 well-formed but invalid"."""
    assert pointers(refused(client.post(PATH, content=body), 422, "invalid-body")) == [""]
    refused(
        client.post(f"{BLOCKS}?locid={client.post(PATH, json=FIELDS).json()['locid']}", content=body),
        422,
        "invalid-body",
    )


def test_a_locid_is_never_given_out_twice(service: RunningService, client: httpx.Client) -> None:
    """Interface: "The service assigns the locid of a new custom geolocation; it is negative"."""
    first = service.create()
    second = service.create()
    for locid in (second, first):
        client.delete(PATH, params={"locid": locid}).raise_for_status()
    assert service.create() not in (first, second)


# --- 4. update


def test_update_replaces_the_eight_fields_and_keeps_the_blocks(service: RunningService, client: httpx.Client) -> None:
    """Interface: "Update (given): the body of 2, all required; answers `{"locid": -n}`"."""
    locid = service.create(("10.0.0.0", "10.0.0.9"))
    fields = {**FIELDS, "city": "Berkeley", "latitude": "37.9"}
    answer = client.put(PATH, params={"locid": locid}, json=fields)
    assert (answer.status_code, answer.json()) == (200, {"locid": locid})
    (found,) = client.get(PATH, params={"city": "berkeley"}).json()
    assert (found["latitude"], len(found["ipblocks"])) == (37.9, 1)
    assert client.get(PATH, params={"city": "Oakland"}).json() == []


def test_update_requires_all_eight_fields(service: RunningService, client: httpx.Client) -> None:
    """Interface: "Update (given): the body of 2, all required"."""
    locid = service.create()
    some = {name: FIELDS[name] for name in list(FIELDS)[:7]}
    assert pointers(refused(client.put(PATH, params={"locid": locid}, json=some), 422, "invalid-body")) == ["/areacode"]


def test_an_update_to_the_same_fields_changes_nothing(service: RunningService, client: httpx.Client) -> None:
    """Interface: "a strong `ETag`"."""
    locid = service.create()
    tag = client.get(PATH).headers["etag"]
    assert client.put(PATH, params={"locid": locid}, json=FIELDS).status_code == 200
    assert client.get(PATH).headers["etag"] == tag
