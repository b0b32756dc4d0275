"""What hostile clients send, row by row: the refusal that each gets, and a service that answers rightly afterwards."""

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.support.services.attacked import (
    BLOCK,
    OPERATIONS,
    STRANGER,
    WITH_BODY,
    WRITER,
    Operation,
    client,
    nobody,
    reader,
    refused,
    running,
    unharmed,
)
from tests.support.services.running_service import FIELDS

__all__ = ["client", "nobody", "reader", "running", "unharmed"]

# Who it is

CREDENTIALS: tuple[tuple[str, list[tuple[str, str]]], ...] = (
    ("none", []),
    ("unknown", [("Authorization", f"Bearer {STRANGER}")]),
    ("empty", [("Authorization", "")]),
    ("empty bearer", [("Authorization", "Bearer")]),
    ("without scheme", [("Authorization", WRITER)]),
    ("basic", [("Authorization", "Basic d3JpdGVyOng=")]),
    ("oversized", [("Authorization", "Bearer " + "a" * 8000)]),
    ("twice", [("Authorization", f"Bearer {WRITER}")] * 2),
    ("cut", [("Authorization", f"Bearer {WRITER[:-1]}")]),
    ("longer", [("Authorization", f"Bearer {WRITER}x")]),
    ("not ASCII", [("Authorization", "Bearer \u00e4\u00e4")]),
    ("in another header", [("X-Authorization", f"Bearer {WRITER}")]),
)


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
@pytest.mark.parametrize("headers", [row[1] for row in CREDENTIALS], ids=[row[0] for row in CREDENTIALS])
def test_whoever_has_no_token_gets_nothing(
    nobody: httpx.Client, operation: Operation, headers: list[tuple[str, str]]
) -> None:
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    answer = nobody.request(operation.method, operation.path, json=operation.body, headers=encoded)
    refused(answer, 401, "unauthenticated")
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_token_in_the_query_is_none(nobody: httpx.Client) -> None:
    refused(nobody.get(f"/geolocations?access_token={WRITER}"), 401, "unauthenticated")


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.writes], ids=str)
def test_a_token_for_reading_writes_nothing(reader: httpx.Client, operation: Operation) -> None:
    refused(reader.request(operation.method, operation.path, json=operation.body), 403, "insufficient-scope")
    for override in ("X-HTTP-Method-Override", "X-Method-Override"):
        answer = reader.request(operation.method, operation.path, json=operation.body, headers={override: "GET"})
        refused(answer, 403, "insufficient-scope")


HOSTS = ("evil.example", "", "localhost.evil.example", "127.0.0.1@evil.example", "::1")
ORIGINS = ("https://evil.example", "null", "http://localhost.evil.example", "http://[")


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
@pytest.mark.parametrize("host", HOSTS)
def test_a_foreign_name_is_refused(client: httpx.Client, operation: Operation, host: str) -> None:
    answer = client.request(operation.method, operation.path, json=operation.body, headers={"Host": host})
    refused(answer, 421, "unknown-host")


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.body is not None or one.writes], ids=str)
@pytest.mark.parametrize("origin", ORIGINS)
def test_a_foreign_page_writes_nothing(client: httpx.Client, operation: Operation, origin: str) -> None:
    answer = client.request(operation.method, operation.path, json=operation.body, headers={"Origin": origin})
    refused(answer, 403, "cross-site-request")


# Bodies

DEEP = b"[" * 30000
BODIES: tuple[tuple[str, bytes, tuple[tuple[int, str], ...]], ...] = (
    ("oversized", b'"' + b"a" * 70000 + b'"', ((413, "body-too-large"),)),
    ("nested arrays", DEEP + b"]" * 30000, ((400, "malformed-json"),)),
    ("nested objects", b'{"a":' * 10000 + b"1" + b"}" * 10000, ((400, "malformed-json"),)),
    ("unclosed nesting", DEEP, ((400, "malformed-json"),)),
    ("bad UTF-8", b'{"city":"\xff\xfe"}', ((400, "malformed-json"),)),
    ("overlong UTF-8", b'{"city":"\xc0\xaf"}', ((400, "malformed-json"),)),
    ("UTF-16", '{"city":"x"}'.encode("utf-16"), ((400, "malformed-json"),)),
    ("raw NUL", b'{"city":"\x00"}', ((400, "malformed-json"),)),
    ("no JSON", b"country=US", ((400, "malformed-json"),)),
    ("empty", b"", ((400, "malformed-json"),)),
    ("two values", b"{} {}", ((400, "malformed-json"),)),
    ("NaN", b'{"latitude":NaN}', ((400, "malformed-json"),)),
    ("twice", b'{"city":"a","city":"b"}', ((400, "malformed-json"),)),
    ("a number of 5000 digits", b'{"latitude":' + b"9" * 5000 + b"}", ((400, "malformed-json"),)),
    ("null", b"null", ((422, "invalid-body"),)),
    ("a text", b'"x"', ((422, "invalid-body"),)),
    ("numbers for texts", b"[1, 2, 3]", ((422, "invalid-body"), (400, "invalid-address"))),
    ("an object for a text", b'{"city":{"$ne":1}}', ((422, "invalid-body"),)),
    ("a prototype", b'{"__proto__":{"admin":true}}', ((422, "invalid-body"),)),
)


@pytest.mark.parametrize("operation", WITH_BODY, ids=str)
@pytest.mark.parametrize("row", BODIES, ids=[row[0] for row in BODIES])
def test_a_body_that_is_none_is_refused(
    client: httpx.Client, operation: Operation, row: tuple[str, bytes, tuple[tuple[int, str], ...]]
) -> None:
    answer = client.request(
        operation.method, operation.path, content=row[1], headers={"Content-Type": "application/json"}
    )
    problem = answer.json()["type"].rpartition(":")[2]
    assert (answer.status_code, problem) in row[2], answer.text
    refused(answer, answer.status_code, problem)


HOSTILE_MEMBERS = (
    ("a NUL", "\0"),
    ("half a surrogate pair", "\ud800"),
    ("too long", "x" * 5000),
    ("a huge number", 10**300),
    ("a huge negative number", -(10**300)),
    ("a list", ["x"]),
    ("an object", {"x": 1}),
    ("nothing", None),
    ("true", True),
)


@pytest.mark.parametrize("operation", [one for one in WITH_BODY if isinstance(one.body, dict)], ids=str)
@pytest.mark.parametrize("value", [row[1] for row in HOSTILE_MEMBERS], ids=[row[0] for row in HOSTILE_MEMBERS])
def test_a_hostile_value_in_any_member_is_refused_by_its_name(
    client: httpx.Client, operation: Operation, value: Any
) -> None:
    for name in operation.body:
        body = json.dumps({**operation.body, name: value})
        answer = client.request(operation.method, operation.path, content=body)
        if operation.path == "/admin/product/ratePlans" and isinstance(value, str) and value in ("\0", "\ud800"):
            # The record is refused as a whole: no member of it could be stored.
            assert answer.status_code in (400, 422), answer.text
            continue
        refused(answer, 422, "invalid-body")
        assert answer.json()["errors"][0]["pointer"].startswith(f"/{name}")


@pytest.mark.parametrize("value", [[], ["x"], [None], [1], [["192.0.2.1"]], ["192.0.2.1"] * 1001, ["1" * 60000]])
def test_no_hostile_list_of_addresses_is_looked_up(client: httpx.Client, value: list[Any]) -> None:
    answer = client.post("/lookup", json=value)
    if value:
        assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) in (
            (400, "invalid-address"),
            (422, "invalid-body"),
        )
    else:
        assert answer.json() == []


# Parameters

INJECTIONS = (
    "' OR '1'='1",
    "'; DROP TABLE geolocations; --",
    '" UNION SELECT * FROM meta --',
    "1) OR 1=1",
    "%' --",
    "\\'; SELECT pg_sleep(10) --",
    "x\r\nSet-Cookie: a=b",
    "x\r\n\r\nHTTP/1.1 200 OK",
    "../../../../etc/passwd",
    "..\\..\\windows",
    "${jndi:ldap://127.0.0.1/a}",
    "{{7*7}}",
    "$(id)",
    "\u202e\u2066",
    "\U0001f4a9" * 50,
)
NUMBERS = ("9" * 300, "-" + "9" * 300, "0", "1e3", "0x10", "１２", "+1", " 1", "1_0", "NaN", "", "-1;", "1" * 5000)


def with_parameter(path: str, name: str, value: str) -> str:
    base, _, query = path.partition("?")
    kept = [pair for pair in query.split("&") if pair and not pair.startswith(f"{name}=")]
    return f"{base}?{'&'.join([*kept, quote(name) + '=' + quote(value, safe='')])}"


TEXTS = [(one, name) for one in OPERATIONS for name in one.texts]
NUMERIC = [(one, name) for one in OPERATIONS for name in one.numbers]


@pytest.mark.parametrize(("operation", "name"), TEXTS, ids=[f"{one}-{name}" for one, name in TEXTS])
@pytest.mark.parametrize("value", INJECTIONS)
def test_injection_into_a_text_finds_nothing(client: httpx.Client, operation: Operation, name: str, value: str) -> None:
    answer = client.get(with_parameter(operation.path, name, value))
    assert answer.status_code == operation.texts[name], answer.text
    if answer.status_code == 200:
        assert answer.json() == []
    else:
        refused(answer, 400, "invalid-parameter")
    assert "set-cookie" not in answer.headers
    assert "\r" not in "".join(answer.headers.values())


@pytest.mark.parametrize(("operation", "name"), NUMERIC, ids=[f"{one}-{name}" for one, name in NUMERIC])
@pytest.mark.parametrize("value", [*INJECTIONS, *NUMBERS])
def test_what_is_no_number_is_refused(client: httpx.Client, operation: Operation, name: str, value: str) -> None:
    answer = client.request(operation.method, with_parameter(operation.path, name, value), json=operation.body)
    if len(value) == 300 + value.startswith("-") and name == "top" and value.startswith("9"):
        assert answer.status_code == 200  # more than there are: all of them
    elif value.strip("-") == "9" * 300 and name == "locid":
        refused(answer, 404, "unknown-geolocation")
    else:
        refused(answer, 400, "invalid-parameter")


BAD_ESCAPES = ("%00", "a%00b", "%ff", "%c0%af", "%ed%a0%80")


@pytest.mark.parametrize(("operation", "name"), [*TEXTS, *NUMERIC], ids=[f"{o}-{n}" for o, n in [*TEXTS, *NUMERIC]])
@pytest.mark.parametrize("value", BAD_ESCAPES)
def test_a_nul_or_bad_utf8_in_a_parameter_is_refused(
    client: httpx.Client, operation: Operation, name: str, value: str
) -> None:
    path = f"{operation.path}{'&' if '?' in operation.path else '?'}{quote(name)}={value}"
    answer = client.request(operation.method, path, json=operation.body)
    refused(answer, 400, "invalid-parameter")


SINGLE = [(one, name) for one, name in [*TEXTS, *NUMERIC] if name not in ("id", "amenity", "@include")]


@pytest.mark.parametrize(("operation", "name"), SINGLE, ids=[f"{one}-{name}" for one, name in SINGLE])
def test_a_parameter_that_is_given_twice_is_refused(client: httpx.Client, operation: Operation, name: str) -> None:
    path = f"{operation.path.partition('?')[0]}?{name}=-1&{name}=-1"
    refused(client.request(operation.method, path, json=operation.body), 400, "invalid-parameter")


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.texts or one.numbers], ids=str)
def test_hundreds_of_parameters_are_not_read(client: httpx.Client, operation: Operation) -> None:
    path = f"{operation.path.partition('?')[0]}?{'&'.join(f'a{number}=1' for number in range(500))}"
    refused(client.request(operation.method, path, json=operation.body), 400, "invalid-parameter")


HEADER_ATTACKS = (
    ("Idempotency-Key", "a b"),
    ("Idempotency-Key", "a" * 300),
    ("Idempotency-Key", "' OR 1=1 --"),
)


@pytest.mark.parametrize("path", ["/geolocations", "/geolocations/ipblocks?locid=-1"])
@pytest.mark.parametrize(("name", "value"), HEADER_ATTACKS)
def test_a_hostile_key_is_refused(client: httpx.Client, path: str, name: str, value: str) -> None:
    body = FIELDS if path == "/geolocations" else BLOCK
    refused(client.post(path, json=body, headers={name: value}), 400, "invalid-parameter")


@pytest.mark.parametrize("tag", ['"' * 9000, "W/" * 3000, '"a",' * 2000, "\\" * 100, '"\u00e4"'])
def test_a_hostile_entity_tag_matches_nothing(client: httpx.Client, tag: str) -> None:
    header = tag.encode("latin-1")
    assert client.get("/geolocations", headers={"If-None-Match": header}).status_code == 200
    refused(client.put("/geolocations?locid=-1", json=FIELDS, headers={"If-Match": header}), 412, "stale-precondition")
